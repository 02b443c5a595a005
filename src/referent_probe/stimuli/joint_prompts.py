"""Two blanks in one prompt: both sentences of a pair, each with its own listed options, answered in one go."""

from referent_probe.stimuli.options import FORMS, OptionOrder, ordered_options
from referent_probe.stimuli.primes import ContextSetting, Segment, Span
from referent_probe.stimuli.prompts import Message, Prompt
from referent_probe.stimuli.templates import BLANK, Pair

SYSTEM = (
    "You fill gaps in texts. Each text has two gaps, written BLANK1 and BLANK2, and comes with two words for each gap. "
    "Exactly one of the two words belongs in each gap. Read the whole text, then answer for each gap with one of its "
    "two words and with no other word."
)


def joint_prompt(
    pair: Pair,
    sentence_order: int,
    option_orders: tuple[OptionOrder, OptionOrder],
    first_answer: str | None = None,
) -> Prompt:
    """Asks for both pronouns of a pair.

    Args:
        pair: its two sentences have a blank each.
        sentence_order: 1 to put sentence 1 first, 2 to put sentence 2 first; the gap of whichever stands first is
            BLANK1, and is answered first.
        option_orders: in which order the options of sentence 1 and of sentence 2 are listed.
        first_answer: the word that BLANK1 has been answered with, so that BLANK2 comes next; None to ask for BLANK1.

    Returns:
        The prompt; with order 1 and both lists feminine first, user turn and beginning of the answer read

            Text: The baker told the guest that BLANK1 was tired. The baker told the guest that BLANK2 could pay.
            Is BLANK1 "she" or "he"?
            Is BLANK2 "she" or "he"?

            BLANK1 is "
    """
    members = list(zip(pair.members, option_orders, strict=True))
    if sentence_order == 2:
        members.reverse()
    texts, lists = [], []
    for number, (member, order) in enumerate(members, start=1):
        texts.append(member.text.replace(BLANK, f"{BLANK}{number}"))
        first, second = ordered_options(member.case, order)
        lists.append(f'Is {BLANK}{number} "{first}" or "{second}"?')
    user = Segment(f"Text: {' '.join(texts)}\n" + "\n".join(lists), Span.INSTRUCTION)
    begun = f'{BLANK}1 is "' if first_answer is None else f'{BLANK}1 is "{first_answer}". {BLANK}2 is "'
    return Prompt(
        template_id=pair.id,
        setting=ContextSetting.C0,
        option_order=option_orders[0],
        options=FORMS[pair.case],
        messages=(Message("system", (Segment(SYSTEM, Span.INSTRUCTION),)), Message("user", (user,))),
        prefill=(Segment(begun, Span.PREFILL),),
    )
