"""What a manifest records of a model."""

import hashlib
from typing import Any

from referent_probe.models.load import LoadedModel


def model_manifest(model: LoadedModel) -> dict[str, Any]:
    """What a manifest says of the model: where it came from, tokenizer, quirks, precision, checks at load."""
    backend = getattr(model.tokenizer, "backend_tokenizer", None)
    template = model.tokenizer.chat_template
    return {
        "model": {
            "name": model.source.name,
            "kind": model.source.kind,
            "identity": model.source.identity,
            "architecture": type(model.network).__name__,
            "layers": model.n_layers,
            "heads": model.n_heads,
        },
        "tokenizer_sha256": None if backend is None else _sha256(backend.to_str()),
        "chat_template_sha256": None if template is None else _sha256(str(template)),
        "quirks": model.quirks.as_dict(),
        "dtype": model.dtype,
        "device": model.device,
        "load_checks": model.checks.as_dict(),
    }


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
