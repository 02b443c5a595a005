"""Whether weights and tokenizer are those that a config describes."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from referent_probe.errors import ModelError

# In names of tensors: a part that reads no text; the list of blocks and a block's number.
_TOWER = re.compile("vision|visual|image|audio|video")
_BLOCK = re.compile(r"(.*?\b(?:layers|h|blocks))\.(\d+)\.")


def check_weights(name: str, hf_model: Any, loading: Mapping[str, Any]) -> None:
    """Refuse weights that do not fit the config, which transformers says in its log alone, or are not numbers.

    Weights that no forward pass would use may be there: frequencies of rotary positions, causal masks, a tower for
    images that was left out.

    Args:
        name: For the message.
        hf_model: The plain Hugging Face model, loaded.
        loading: What `from_pretrained(..., output_loading_info=True)` tells.

    Raises:
        ModelError: Tensors are missing, weights of blocks or of the output layer are left over, or a weight is NaN or
            infinite. Names the first ones.
    """
    again = "get the folder again, or save it again"
    if missing := sorted(loading["missing_keys"]):  # filled with random numbers
        raise ModelError(
            f"{name!r}: its weights lack {len(missing)} tensors that its config asks for, {missing[0]!r} among them; "
            f"{again}"
        )
    if unused := _unused(hf_model, loading["unexpected_keys"]):
        raise ModelError(
            f"{name!r}: its weights hold {len(unused)} tensors for which its config has no place, "
            f"{' and '.join(map(repr, unused[:2]))} among them; give it the config.json that it was trained with "
            f"(num_hidden_layers?), or {again}"
        )
    embeddings, output = hf_model.get_input_embeddings(), hf_model.get_output_embeddings()
    tied = getattr(hf_model, "_tied_weights_keys", None) and getattr(hf_model.config, "tie_word_embeddings", False)
    if tied and output is not None and output.weight is not embeddings.weight:
        raise ModelError(
            f"{name!r}: its weights hold an output layer ('lm_head.weight') that differs from the embeddings, but its "
            "config sets tie_word_embeddings to true, by which it would not be used; set it to false in config.json, "
            f"or {again}"
        )
    for tensor, values in hf_model.named_parameters():
        # Extremes rather than a test of every number, which would need the memory of the tensor once more.
        if values.numel() and values.is_floating_point() and not all(e.isfinite() for e in values.aminmax()):
            hint = ", or load it as bfloat16 or float32" if values.dtype == torch.float16 else ""
            raise ModelError(f"{name!r}: its weights hold NaN or infinity in {tensor!r}; {again}{hint}")


def _unused(hf_model: Any, unexpected: Iterable[str]) -> list[str]:
    """Those of the unexpected tensors that belong to the blocks, or to a layer that the model has."""
    parameters = {key for key, _ in hf_model.named_parameters(remove_duplicate=False)}
    text = [block for key in parameters if (block := _BLOCK.match(key)) and not _TOWER.search(key)]
    lists, n_blocks = {block[1] for block in text}, 1 + max((int(block[2]) for block in text), default=-1)
    # Blocks that guess further tokens ahead, for speed.
    ahead = getattr(hf_model.config.get_text_config(), "num_nextn_predict_layers", None) or 0
    unused = []
    for key in sorted(key for key in unexpected if not _TOWER.search(key)):
        module, _, kind = key.rpartition(".")
        # A mask is kept as "attn.bias", where attention has no weight of its own.
        of_a_layer = kind == "bias" and f"{module}.weight" in parameters
        block = _BLOCK.match(key)
        if block and any(f".{known}".endswith(f".{block[1]}") for known in lists):
            index = int(block[2])
            if n_blocks <= index < n_blocks + ahead:
                continue
            if of_a_layer or kind == "weight" or (index >= n_blocks and not key.endswith("inv_freq")):
                unused.append(key)
        elif of_a_layer or module.endswith("lm_head"):
            unused.append(key)
    return unused


def check_vocabulary(name: str, tokenizer: Any, rows: int) -> None:
    """Refuse a tokenizer whose ids a prompt can hold and the embeddings, of so many rows, cannot.

    Raises:
        ModelError: There is such an id; names the last.
    """
    # A marker may lie beyond the embeddings, as Gemma's for images, where no prompt of text holds it.
    written = f"{tokenizer.chat_template or ''}{tokenizer.bos_token or ''}"
    markers = {index for index, token in tokenizer.added_tokens_decoder.items() if token.special}
    beyond = {
        index: token
        for token, index in tokenizer.get_vocab().items()
        if index >= rows and not (index in markers and token not in written)
    }
    if beyond:
        last = max(beyond)
        raise ModelError(
            f"{name!r}: its tokenizer has ids up to {last} ({beyond[last]!r}), but the model's vocabulary has {rows} "
            f"tokens, ids 0 to {rows - 1}; give the folder the tokenizer that the model was trained with, or resize "
            "the model's embeddings"
        )
