import pytest

from referent_probe.stimuli.options import FORMS, Case, Forms, Gender, OptionOrder, ordered_options


@pytest.mark.parametrize(
    ("case", "forms"),
    [
        (Case.NOMINATIVE, Forms("she", "he", "they")),
        (Case.ACCUSATIVE, Forms("her", "him", "them")),
        (Case.POSSESSIVE, Forms("her", "his", "their")),
    ],
)
def test_forms_of_every_case(case: Case, forms: Forms) -> None:
    assert FORMS[case] == forms
    assert forms.of(Gender.FEMININE) == forms.feminine
    assert forms.of(Gender.MASCULINE) == forms.masculine


@pytest.mark.parametrize("case", Case)
def test_the_orders_mirror_each_other(case: Case) -> None:
    masculine_first = ordered_options(case, OptionOrder.MASCULINE_FIRST)
    assert masculine_first == (FORMS[case].masculine, FORMS[case].feminine)
    assert ordered_options(case, OptionOrder.FEMININE_FIRST) == masculine_first[::-1]


def test_values_that_tables_hold() -> None:
    assert [*Case] == ["nominative", "accusative", "possessive"]
    assert [*OptionOrder] == ["mf", "fm"]
    assert [*Gender] == ["feminine", "masculine"]
