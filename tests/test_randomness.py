import numpy as np

from referent_probe.randomness import generator


def test_generator_is_keyed_by_seed_and_labels() -> None:
    keys: list[tuple[int, *tuple[str | int, ...]]] = [
        (0,),
        (1,),
        (-1,),
        (0, "a"),
        (0, "a", "b"),
        (0, "ab"),
        (0, 1),
        (0, "1"),
        (0, 1, 2),
        (0, 12),
    ]
    draws = [generator(*key).random() for key in keys]
    assert len(set(draws)) == len(keys)
    assert draws == [generator(*key).random() for key in keys]


def test_generator_is_the_same_on_every_machine() -> None:
    assert generator(7, "pairs", 3).integers(0, 1000, 3).tolist() == [507, 219, 174]


def test_generator_takes_numpy_integers() -> None:
    assert generator(0, 3).random() == generator(0, *np.array([3])).random()
