"""Models of about thirty tokens, byte-level and SentencePiece, small enough that every answer can be listed."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SPECIAL = ["<pad>", "<s>", "</s>", "<|end|>"]
FAVOURED = {
    "byte-level": ["she", "he", "her", "him", "they", "them", "Ġhe", "Ġ", "r.", ".", '"'],
    "sentence-piece": ["▁she", "▁he", "▁her", "▁him", "▁th", "ey", "em", "she", "he", "▁", ".", '"'],
}
"""Tokens that the models like."""
WORD = re.compile(r"\s*([^\W\d_]*)")


@dataclass(frozen=True)
class SmallModel:
    """A model of one block.

    Attributes:
        loaded: As `load_model` gives it.
        plain: The Hugging Face model from the same folder.
        prompt: An `EncodedPrompt` of 12 tokens.
    """

    loaded: Any
    plain: Any
    prompt: Any

    def text(self, tokens: Any) -> str:
        """What generated tokens add to the prompt's text."""
        tokenizer = self.loaded.tokenizer
        before = tokenizer.decode(self.prompt.ids, clean_up_tokenization_spaces=False)
        after = tokenizer.decode([*self.prompt.ids, *tokens], clean_up_tokenization_spaces=False)
        assert after.startswith(before)
        return str(after[len(before) :])


def parse(text: str) -> str:
    """The rule once more, by a regular expression."""
    match = WORD.match(text)
    assert match
    return match[1].lower()


def byte_level() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    # "Ã©" is é, "ÃĹ" is ×: a letter and none that begin alike.
    words = [*SPECIAL, *"ashermityHĠ.\"'Ã©Ĺ", "he", "she", "her", "hi", "him", "th", "the", "they", "them", "Ġhe", "He"]
    words += ["r.", "Ã©Ã"]
    merges = [("h", "e"), ("s", "he"), ("he", "r"), ("h", "i"), ("hi", "m"), ("t", "h"), ("t", "he"), ("the", "y")]
    merges += [("the", "m"), ("Ġ", "he"), ("H", "e")]
    tokenizer = Tokenizer(models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def sentence_piece() -> Any:
    from tokenizers import Tokenizer, decoders, models, normalizers

    words = [*SPECIAL, "<unk>", "<0xC3>", "<0xA9>", "<0x97>", "▁", "▁she", "▁he", "▁her", "▁him", "▁th", "ey", "em"]
    words += ["she", "he", "r", "s", "h", "e", "i", "m", ".", '"', "'", "▁▁", "He", "self", "x", "a"]
    tokenizer = Tokenizer(models.Unigram([(word, -1.0) for word in words], unk_id=4))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


def finished(tokenizer: Any, folder: Path) -> Any:
    """A tokenizer saved and read again, with special tokens."""
    from transformers import PreTrainedTokenizerFast

    fresh = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        additional_special_tokens=["<|end|>"],
    )
    fresh.save_pretrained(folder)
    return PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)


def encoded(tokenizer: Any, ids: list[int]) -> Any:
    """An `EncodedPrompt` of given tokens."""
    from referent_probe.models.tokens import EncodedPrompt
    from referent_probe.stimuli.primes import Span

    text = tokenizer.decode(ids, clean_up_tokenization_spaces=False)
    spans = (*[Span.INSTRUCTION] * (len(ids) - 1), Span.TARGET_SLOT)
    return EncodedPrompt(ids=tuple(ids), spans=spans, pieces=("",) * len(ids), text=text, has_system_turn=False)
