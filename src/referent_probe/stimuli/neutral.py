"""Neutral texts: nobody, no pronoun of a person, no role; loss on them says whether a model still works."""

NEUTRAL_TEXTS = (
    "The river rises every spring when the snow melts in the hills, and by June it is calm again.",
    "Copper conducts heat well, which is why many pans have a copper base.",
    "The museum opens at nine on weekdays and at ten on Sundays.",
    "Two roads meet at the old mill; the wider one leads to the harbour.",
    "Bread keeps longer in a cloth than in a plastic bag.",
    "The train to the coast stops at every station, so the journey takes almost three hours.",
    "Most of the lamps in the square were replaced last autumn.",
    "A litre of water weighs one kilogram at four degrees.",
    "The garden has apple trees along the wall and a pond in the middle.",
    "After the storm the bridge was closed for a week because the railing had come loose.",
    "The printed map shows fewer paths than the one on the notice board.",
    "Sugar dissolves faster in hot tea than in cold tea.",
)
"""Twelve texts of one sentence each."""
