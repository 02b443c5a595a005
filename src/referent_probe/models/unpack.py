"""GGUF files are unpacked once: their weights as float32 safetensors in the user's cache, by checksum."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import platformdirs

from referent_probe.errors import ModelError

# The cached form of a GGUF file; raise it when what `_convert` writes changes.
_CACHE_FORM = "float32-1"


@dataclass(frozen=True)
class Unpacked:
    """A GGUF file that has been unpacked.

    Attributes:
        folder: Where its weights lie.
        sha256: First 24 digits of the file's checksum.
        file: Name of the file; None where an earlier version unpacked it.
        size: Bytes on disk.
    """

    folder: Path
    sha256: str
    file: str | None
    size: int


def cache_folder() -> Path:
    """Where unpacked models are kept: the variable REFERENT_PROBE_CACHE, else the user's cache folder."""
    return Path(os.environ.get("REFERENT_PROBE_CACHE") or platformdirs.user_cache_dir("referent-probe"))


def sha256_of(path: Path) -> str:
    """Hex digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def first_line(error: BaseException) -> str:
    """The first line of an error's message, at most 300 characters; its kind where it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def quiet_transformers() -> None:
    """Switch off transformers' progress bars and log; called before anything is read, since a refusal is one line."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


def one_line(error: BaseException) -> str:
    """An error's whole message on one line, at most 300 characters; its kind where it has none."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def unpacked_models() -> tuple[Unpacked, ...]:
    """The GGUF files that have been unpacked so far, by folder name; nothing is checked."""
    found = []
    for complete in sorted(cache_folder().glob(f"models/*-{_CACHE_FORM}/complete.json")):
        folder = complete.parent
        try:
            file = json.loads((folder / "origin.json").read_text(encoding="utf-8"))["file"]
        except (OSError, ValueError, KeyError, TypeError):
            file = None
        size = sum(part.stat().st_size for part in folder.iterdir())
        found.append(Unpacked(folder, folder.name.split("-")[0], None if file is None else str(file), size))
    return tuple(found)


def unpacked_folder(
    path: Path,
    notify: Callable[[str], None],
    *,
    expected: str | None = None,
    cure: str = "get the file again",
) -> tuple[Path, str]:
    """The folder that holds a GGUF file's weights as float32 safetensors, and the file's digest.

    Args:
        path: The GGUF file.
        notify: Told before the file is unpacked, which takes half a minute or more.
        expected: Hex digest that the file must have.
        cure: Said where the file is at fault.

    Raises:
        ModelError: It is no GGUF file, damaged or of another architecture, or the cache cannot be written.
    """
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            instead = f"; to load a saved model, give its folder {str(path.parent)!r}" if path.suffix != ".gguf" else ""
            raise ModelError(
                f"{str(path)!r} is not a GGUF file (it does not begin with the bytes GGUF){instead or f'; {cure}'}"
            )
    digest = sha256_of(path)
    if expected is not None and digest != expected:
        raise ModelError(f"checksum mismatch: {str(path)!r} has sha256 {digest}, expected {expected}; {cure}")
    folder = cache_folder() / "models" / f"{digest[:24]}-{_CACHE_FORM}"
    if not _is_whole(folder):
        notify(f"unpacking {path.name} once (half a minute to two minutes; kept in {folder})")
        _convert(path, folder, digest, cure)
    return folder, digest


def _is_whole(folder: Path) -> bool:
    """Whether a cached folder holds exactly the bytes that were written."""
    try:
        written = json.loads((folder / "complete.json").read_text(encoding="utf-8"))
        needed = {"config.json", "model.safetensors", "tokenizer.json"} <= set(written)
        return needed and all(sha256_of(folder / file) == digest for file, digest in written.items())
    except (OSError, ValueError, AttributeError):
        return False


def _convert(path: Path, folder: Path, digest: str, cure: str) -> None:
    from gguf import GGUFReader

    try:
        GGUFReader(path)  # cheap, and finds a file that was cut short
    except (ValueError, IndexError, KeyError, UnicodeDecodeError, MemoryError, OverflowError) as error:
        raise ModelError(f"{str(path)!r} is damaged or cut short ({error}); {cure}") from error
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            target = Path(temporary) / folder.name
            for part in _read(path, cure):
                part.save_pretrained(target)
            (target / "origin.json").write_text(json.dumps({"file": path.name, "sha256": digest}), encoding="utf-8")
            digests = {file.name: sha256_of(file) for file in sorted(target.iterdir())}
            (target / "complete.json").write_text(json.dumps(digests, indent=1), encoding="utf-8")
            shutil.rmtree(folder, ignore_errors=True)
            target.replace(folder)
    except ModelError:
        raise
    except Exception as error:  # of a full disk safetensors and tokenizers tell in kinds of their own
        reason = getattr(error, "strerror", None) or first_line(error)
        raise ModelError(
            f"cannot keep the unpacked model in {str(folder)!r} ({reason}); free some space (about six times the "
            "file's size), or name another place in the variable REFERENT_PROBE_CACHE"
        ) from error


def _read(path: Path, cure: str) -> tuple[Any, Any]:
    """Model and tokenizer of a GGUF file, in a form that can be saved."""
    from transformers import AutoModelForCausalLM, AutoTokenizer, modeling_gguf_pytorch_utils

    def no_bar(tensors: Iterable[Any], **options: Any) -> Iterable[Any]:
        return tensors

    quiet_transformers()
    where: dict[str, Any] = {"gguf_file": path.name, "local_files_only": True}
    try:
        # This module takes its progress bar past transformers' own switch.
        with patch.object(modeling_gguf_pytorch_utils, "tqdm", no_bar, create=True):
            tokenizer = AutoTokenizer.from_pretrained(path.parent, **where)
            packed, loading = AutoModelForCausalLM.from_pretrained(
                path.parent, dtype="float32", output_loading_info=True, **where
            )
        if not (missing := sorted(loading["missing_keys"])):
            # A model that was read from GGUF cannot be saved as it is; a fresh one with its weights can.
            config = packed.config
            del config.quantization_config
            plain = AutoModelForCausalLM.from_config(config)
            plain.load_state_dict(packed.state_dict(), assign=True)
            plain.tie_weights()
            return plain, tokenizer
    except Exception as error:  # transformers raises many kinds for a file that it cannot read
        raise ModelError(f"transformers cannot read {str(path)!r}: {first_line(error)}; {cure}") from error
    raise ModelError(f"{str(path)!r} lacks {len(missing)} tensors, {missing[0]!r} among them; {cure}")
