"""Frames: what a file may hold, and that each mistake is named."""

from pathlib import Path

import pytest

from referent_probe.errors import StimuliError
from referent_probe.stimuli.frames import Frame, load_frames
from referent_probe.stimuli.options import Case, Gender

GOOD = "The ROLE closed PRONOUN eyes."


def entry(text: str = GOOD, case: str = "possessive", more: str = "") -> str:
    return f'[[frame]]\ncase = "{case}"\ntext = "{text}"\n{more}'


def test_a_file_is_read_in_its_order_with_or_without_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "frames.toml"
    content = (entry() + entry("At noon the ROLE sang, as PRONOUN did.", "nominative")).encode()
    frames = []
    for mark in (b"", b"\xef\xbb\xbf"):
        path.write_bytes(mark + content)
        frames.append(load_frames(path))
    assert frames[0] == frames[1]
    assert [frame.case for frame in frames[0]] == [Case.POSSESSIVE, Case.NOMINATIVE]
    assert frames[0][0].filled("baker", Gender.MASCULINE) == "The baker closed his eyes."
    assert "".join(segment.text for segment in frames[0][1].segments("baker", Gender.FEMININE)) == (
        "At noon the baker sang, as she did."
    )


TEXTS = {
    "The ROLE sang.": "needs ROLE once, and after it PRONOUN once",
    "PRONOUN knew the ROLE.": "needs ROLE once, and after it PRONOUN once",
    "The ROLE closed PRONOUN eyes and PRONOUN ears.": "needs ROLE once, and after it PRONOUN once",
    "The ROLE closed PRONOUN BLANK.": "has BLANK, which the prompt's question is about: reword it",
    "The ROLE closed PRONOUN eyes": r"does not end in a full stop: add it",
    "The ROLE closed PRONOUN eyes?": r"does not end in a full stop: add it",
    "The ROLE closed PRONOUN eyes. ": "has white space around it",
    " The ROLE closed PRONOUN eyes.": "has white space around it",
    "The ROLE\\nclosed PRONOUN eyes.": "has a line break or another character that does not print: take it away",
    "The ROLE\\u0000 closed PRONOUN eyes.": "has a line break or another character that does not print",
    "The ROLE closed PRONOUN eyes, as he did.": "has 'he', which stays when the prime's gender changes: reword it",
    "Her lamp off, the ROLE closed PRONOUN eyes.": "has 'Her', which stays",
    "The ROLE hurt herself and closed PRONOUN eyes.": "has 'herself', which stays",
}


@pytest.mark.parametrize(("text", "message"), TEXTS.items(), ids=[ascii(text) for text in TEXTS])
def test_a_sentence_that_is_no_frame_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "frames.toml").write_text(entry() + entry(text))
    with pytest.raises(StimuliError, match=rf"frames.toml', frame 2: frame '.*' {message}"):
        load_frames(tmp_path / "frames.toml")


def test_words_that_begin_like_a_pronoun_are_none() -> None:
    for word in ("Here", "then", "hero", "history", "shed"):
        assert word in Frame(Case.POSSESSIVE, f"{word} the ROLE closed PRONOUN eyes.").text


FILES = {
    "": "is no frames file: give",
    "frame = []": "is no frames file: give",
    "x = 1\n" + entry(): "is no frames file: give",
    "frame = [1]": "frame 1: 1 is no .* table: give it the keys case and text",
    entry(more='note = "x"\n'): "frame 1: unknown key 'note': give case and text, and no others",
    '[[frame]]\ntext = "x"': "frame 1 lacks the key 'case': add it",
    entry() + '[[frame]]\ncase = "possessive"': "frame 2 lacks the key 'text': add it",
    entry(case="genitive"): "frame 1: case 'genitive' is none of nominative, accusative, possessive",
    '[[frame]]\ncase = "possessive"\ntext = 3': "frame 1: 3 is no text: put it in quotation marks",
    entry() + entry("The ROLE raised PRONOUN hand.") + entry(): f"frame 3: '{GOOD}' is frame 1 again: take one away",
}


@pytest.mark.parametrize(("content", "message"), FILES.items(), ids=range(len(FILES)))
def test_a_file_that_breaks_a_rule_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "frames.toml").write_text(content)
    with pytest.raises(StimuliError, match=message):
        load_frames(tmp_path / "frames.toml")


def test_a_long_path_is_shortened() -> None:
    with pytest.raises(StimuliError, match="File name too long") as refused:
        load_frames("x" * 5000 + "/frames.toml")
    assert len(str(refused.value)) < 400
    assert "/frames.toml'" in str(refused.value)
