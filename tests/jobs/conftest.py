"""Planted models and tiny random ones, loaded once, and the jobs done on them."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.planted import Do, Done, context_of, read_plainly


@pytest.fixture(scope="session", autouse=True)
def _one_thread(one_thread: None) -> None:
    """All tests here compute on one thread."""


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a planted model, by name."""
    from referent_probe.planted.plant import plant

    return cache(lambda name: plant(name, tmp_path_factory.mktemp("planted") / name))


@pytest.fixture(scope="session")
def tiny_llama(save_tiny: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three random blocks of grouped-query attention."""
    return save_tiny(tmp_path_factory.mktemp("tiny"), "llama", 3)


@pytest.fixture(scope="session")
def loaded() -> Callable[[Path], Any]:
    """Loads a folder, once for all tests: jobs leave a model as they found it."""
    from referent_probe.models.load import load_model

    return cache(lambda folder: load_model(str(folder), device="cpu"))


@pytest.fixture(scope="session")
def plain() -> Callable[[Path], Any]:
    """Reads a folder by transformers alone."""
    return cache(read_plainly)


@pytest.fixture(scope="session")
def run(loaded: Callable[[Path], Any]) -> Callable[..., Any]:
    """Runs a job on a folder into another, with settings and `run_job`'s own arguments by name."""
    from matplotlib.figure import Figure

    import referent_probe.models.load as load
    from referent_probe.jobs.run import run_job
    from referent_probe.jobs.settings import JobSettings

    savefig = Figure.savefig

    def small(figure: Any, file: Path, **given: Any) -> None:
        """Quicker: what figures show is tested elsewhere."""
        if file.suffix == ".png":
            savefig(figure, file, dpi=40)
        else:
            file.write_bytes(b"")

    def run(folder: Path, job: Any, out: Path, *, progress: Any = None, notify: Any = None, **settings: Any) -> Any:
        own = {name: value for name, value in (("progress", progress), ("notify", notify)) if value is not None}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(load, "load_model", lambda model, **_: loaded(Path(model)))
            patch.setattr(Figure, "savefig", small)
            return run_job(JobSettings(str(folder), out=out, device="cpu", **settings), job, **own)

    return run


@pytest.fixture(scope="session")
def do(
    planted: Callable[[str], Path],
    loaded: Callable[[Path], Any],
    run: Callable[..., Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Do:
    """Does a job on a planted model once; by default on six pairs, the masculine option first."""

    @cache
    def finished(name: str, job: Any, settings: tuple[tuple[str, Any], ...]) -> Done:
        folder, given = planted(name), dict(settings)
        out = tmp_path_factory.mktemp(job.name) / "run"
        run(folder, job, out, **given)
        context = context_of(folder, loaded(folder), given["pairs"], given.get("seed", 0), given["order"])
        truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
        return Done(out, truth, {contrast.id: contrast for contrast in context.contrasts})

    def do(name: str, job: Any, **settings: Any) -> Done:
        return finished(name, job, tuple(sorted(({"pairs": 6, "order": "mf"} | settings).items())))

    return do
