"""The pronoun forms a model chooses between, and the order in which a prompt shows them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Case(StrEnum):
    """Grammatical case of a pronoun."""

    NOMINATIVE = "nominative"
    ACCUSATIVE = "accusative"
    POSSESSIVE = "possessive"


class Gender(StrEnum):
    """Gender of a pronoun form."""

    FEMININE = "feminine"
    MASCULINE = "masculine"


@dataclass(frozen=True)
class Forms:
    """The feminine, the masculine and the singular-they form of one case."""

    feminine: str
    masculine: str
    they: str

    def of(self, gender: Gender) -> str:
        """The form of that gender.

        >>> FORMS[Case.POSSESSIVE].of(Gender.MASCULINE)
        'his'
        """
        return self.feminine if gender is Gender.FEMININE else self.masculine


FORMS: Mapping[Case, Forms] = {
    Case.NOMINATIVE: Forms("she", "he", "they"),
    Case.ACCUSATIVE: Forms("her", "him", "them"),
    Case.POSSESSIVE: Forms("her", "his", "their"),
}


class OptionOrder(StrEnum):
    """Which option a prompt shows first."""

    MASCULINE_FIRST = "mf"
    FEMININE_FIRST = "fm"

    @property
    def genders(self) -> tuple[Gender, Gender]:
        """The genders of option 1 and option 2."""
        if self is OptionOrder.MASCULINE_FIRST:
            return Gender.MASCULINE, Gender.FEMININE
        return Gender.FEMININE, Gender.MASCULINE


def ordered_options(case: Case, order: OptionOrder) -> tuple[str, str]:
    """The two options of a case, in the order in which the prompt shows them.

    >>> ordered_options(Case.ACCUSATIVE, OptionOrder.MASCULINE_FIRST)
    ('him', 'her')
    """
    first, second = order.genders
    return FORMS[case].of(first), FORMS[case].of(second)
