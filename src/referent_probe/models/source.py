"""From the name that a user gives to a folder of weights: packaged models, folders, GGUF files, Hub ids.

Every kind ends as a local folder with config, safetensors and tokenizer, and a checksum or commit that says which
weights they are. Pickled weights are never read.
"""

import difflib
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from referent_probe.errors import ModelError
from referent_probe.models.packaged import packaged_file, reinstall
from referent_probe.models.registry import KNOWN, PackagedFiles, known_model
from referent_probe.models.unpack import first_line, sha256_of, unpacked_folder

# What a load reads of a Hub repository: no pickled weights, no code, no second copy of the weights in other forms.
_WANTED = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt"]
_UNWANTED = ["original/*", "metal/*", "onnx/*", "consolidated*"]
# What a load may read of a local folder: further chat templates, other vocabularies and, where it is trusted, code.
_READ = [*_WANTED, "additional_chat_templates/*.jinja", "*.tiktoken", "*.py"]


@dataclass(frozen=True)
class ModelSource:
    """Where a model's weights lie and which they are.

    Attributes:
        name: As the user gave it.
        kind: "packaged", "folder", "gguf" or "hub".
        folder: Local folder with config, safetensors and tokenizer.
        identity: "sha256:…" of the GGUF file or of all that is read of the folder (config, generation config,
            tokenizer, chat template, weights), or "commit:…" of the Hub repository.
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
        name: A name of the registry ("smollm2-135m-instruct", "phi-4"), a folder, a GGUF file, or a Hub id
            ("org/model"). A file or folder is taken before a model of the Hub, a packaged model before both.
        revision: Branch, tag or commit of a Hub model.
        notify: Told, in one line, before anything that takes long.

    Raises:
        ModelError: Nothing is there, it is damaged, or the Hub cannot be reached.
    """
    try:
        path = Path(name).expanduser()
        is_folder, is_file = path.is_dir(), path.is_file()
    except (OSError, RuntimeError) as error:  # too long a name, nobody's home folder, a folder that is closed
        raise ModelError(f"no model at {name[:200]!r} ({first_line(error)[:200]}); check the path") from error
    known = known_model(name)
    packaged = known.packaged if known is not None else None
    is_packaged = packaged is not None and (name in KNOWN or not (is_folder or is_file))
    if revision is not None and (is_packaged or is_folder or is_file):
        raise ModelError(f"revision {revision!r} was given, but {name!r} is not a Hub model; leave --revision out")
    try:
        if packaged is not None and is_packaged:
            return _packaged(name, packaged, notify)
        if is_folder:
            return ModelSource(name, "folder", path, _folder_identity(path))
        if is_file:
            folder, digest = unpacked_folder(path, notify)
            return ModelSource(name, "gguf", folder, f"sha256:{digest}")
    except OSError as error:
        raise ModelError(f"cannot read {name!r} ({error.strerror or error}); check its permissions") from error
    if known is not None and known.hub_id is not None:
        return _hub(name, known.hub_id, revision, notify)
    if name.startswith((".", "/", "~")) or name.endswith((".gguf", ".safetensors", ".bin")) or name.count("/") > 1:
        raise ModelError(f"no model at {name!r}: there is no such file or folder; check the path")
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name):
        raise ModelError(f"unknown model {name!r}: {_known(name)}")
    return _hub(name, name, revision, notify)


def _known(name: str) -> str:
    near = [] if known_model(name) else difflib.get_close_matches(name.lower(), KNOWN, 1)
    given = ", ".join(near or [model.name for model in KNOWN.values() if model.packaged])
    return (
        f"give {given}, another name of `referent-probe models`, a folder, a GGUF file, or a Hub id such as org/model"
    )


def _packaged(name: str, packaged: PackagedFiles, notify: Callable[[str], None]) -> ModelSource:
    path = packaged_file(packaged, name, notify)
    folder, digest = unpacked_folder(path, notify, expected=packaged.sha256, cure=reinstall(packaged))
    return ModelSource(name, "packaged", folder, f"sha256:{digest}")


def _folder_identity(folder: Path) -> str:
    weights_in(folder)  # refuses a folder that is no model
    read = {file.relative_to(folder).as_posix(): file for pattern in _READ for file in folder.glob(pattern)}
    digest = hashlib.sha256()
    for name, file in sorted(read.items()):
        if file.is_file():
            digest.update(f"{name} {sha256_of(file)}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def weights_in(folder: Path) -> tuple[Path, ...]:
    """The safetensors files of a model's folder, by name.

    Raises:
        ModelError: There is no config, no weights, pickled weights only, or a shard that the index names is missing.
    """
    if not (folder / "config.json").is_file():
        raise ModelError(f"{str(folder)!r} holds no model: config.json is missing; give a folder saved by transformers")
    weights = tuple(sorted(folder.glob("*.safetensors")))
    if not weights:
        pickled = ", ".join(sorted(p.name for p in folder.glob("*.bin")))
        found = f" ({pickled} is pickled, and pickled weights are not read)" if pickled else ""
        raise ModelError(f"{str(folder)!r} holds no *.safetensors weights{found}; save the model as safetensors")
    try:
        index = json.loads((folder / "model.safetensors.index.json").read_text(encoding="utf-8"))
        shards = {str(file) for file in index["weight_map"].values()}
    except FileNotFoundError:
        shards = set()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{str(folder)!r}: model.safetensors.index.json is damaged; get the folder again, or save it again"
        ) from error
    if missing := sorted(shards - {file.name for file in weights}):
        raise ModelError(
            f"{str(folder)!r} lacks {len(missing)} of its {len(shards)} files of weights, {missing[0]!r} among them; "
            "get the folder again, or save it again"
        )
    return weights


def _hub(name: str, hub_id: str, revision: str | None, notify: Callable[[str], None]) -> ModelSource:
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

    download = partial(snapshot_download, hub_id, allow_patterns=_WANTED, ignore_patterns=_UNWANTED)
    try:
        info = HfApi().model_info(hub_id, revision=revision, timeout=10)
        notify(f"downloading {hub_id} from the Hub unless it is cached")
        folder = Path(download(revision=info.sha))
        commit = str(info.sha)
    except GatedRepoError as error:
        raise ModelError(
            f"{name!r} is gated: accept its terms on the Hub, then set HF_TOKEN to a token of your account"
        ) from error
    except RevisionNotFoundError as error:
        raise ModelError(f"{name!r} has no revision {revision!r}; give a branch, tag or commit that it has") from error
    except RepositoryNotFoundError as error:
        raise ModelError(f"the Hub has no model {name!r} that you may read; {_known(name)}") from error
    except HFValidationError as error:
        raise ModelError(f"unknown model {name[:200]!r}: {_known(name)}") from error
    except Exception as error:  # the HTTP library's own kinds change between releases of huggingface_hub
        try:
            folder = Path(download(revision=revision, local_files_only=True))
        except OSError:
            raise ModelError(
                f"model {name!r} is no packaged model, file or folder here, and the Hub cannot be reached "
                f"({first_line(error)}); go online, or {_known(name)}"
            ) from error
        commit = folder.name
    weights_in(folder)
    return ModelSource(name, "hub", folder, f"commit:{commit}")
