"""A run is a folder: finished work units first, then tables, summary and figures, and last the manifest.

The manifest's presence means that the run is complete. A run that was stopped goes on where it was; what a unit wrote
is whole or absent, since it is written aside and then renamed.
"""

import json
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from referent_probe.errors import RunError
from referent_probe.provenance import git_commit, versions
from referent_probe.records import conform
from referent_probe.run_files import check_out, intact, locked, read_object, sha256_of, write_json, writing


@dataclass(frozen=True)
class Run:
    """A run folder that is open for writing, or complete.

    Attributes:
        folder: Where it lies.
        config: What fixes its results; the same configuration goes on in the same folder.
        tables: Names of the tables that each work unit has, of `records.SCHEMAS`.
        complete: Whether it is finished, so that nothing is left to do.
        is_new: Whether the folder was not there before.
    """

    folder: Path
    config: Mapping[str, Any]
    tables: tuple[str, ...]
    complete: bool
    is_new: bool = False

    def has(self, unit: str) -> bool:
        """Whether a work unit is finished and every byte of it is as it was written."""
        folder = self.folder / "units" / unit
        try:
            written = json.loads((folder / "measured.json").read_text(encoding="utf-8"))["sha256"]
            return set(written) == {f"{name}.parquet" for name in self.tables} and intact(folder, written)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return False

    @contextmanager
    def writing_alone(self) -> Iterator[None]:
        """Hold the folder for this process; a killed process lets go of it.

        Raises:
            RunError: Another process is writing to it.
        """
        with writing(self.folder):  # another process, refused, may have removed what it had made
            self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder):
            if (self.folder / "manifest.json").is_file():
                raise RunError(
                    f"another process has just finished the run in {str(self.folder)!r}; give the same command again "
                    "to see it"
                )
            begun = self.folder / "config.json"
            if not begun.is_file() or read_object(begun) != self.config:
                if _holds_units(self.folder):
                    raise RunError(
                        f"another process has begun a run with another configuration in {str(self.folder)!r}; name "
                        "another folder with --out"
                    )
                with writing(self.folder):
                    write_json(begun, dict(self.config))
            yield
        (self.folder / ".lock").unlink(missing_ok=True)

    @contextmanager
    def removed_if_refused(self) -> Iterator[None]:
        """Where what is done within ends before anything is computed, leave the place as it was found.

        A folder with a configuration and nothing else would look like a run that can go on.
        """
        try:
            yield
        except BaseException:
            with suppress(OSError, RunError), locked(self.folder):  # another process may be at work there
                if not _holds_units(self.folder) and not (self.folder / "manifest.json").is_file():
                    for name in ("config.json", ".lock"):
                        (self.folder / name).unlink(missing_ok=True)
                    if self.is_new:
                        self.folder.rmdir()
            raise

    def save_unit(self, unit: str, tables: Mapping[str, pd.DataFrame], measured: Mapping[str, float]) -> None:
        """Keep a finished work unit: its tables and what was measured on the way (seconds, counts).

        Raises:
            RunError: The disk is full or the folder cannot be written.
        """
        target = self.folder / "units" / unit
        aside = self.folder / "units" / f".{unit}"
        with writing(self.folder):
            for leftover in (aside, target):
                shutil.rmtree(leftover, ignore_errors=True)
            aside.mkdir(parents=True)
            for name in self.tables:
                conform(name, tables[name]).to_parquet(aside / f"{name}.parquet", index=False)
            hashes = {file.name: sha256_of(file) for file in sorted(aside.iterdir())}
            write_json(aside / "measured.json", {"measured": dict(measured), "sha256": hashes})
            aside.rename(target)

    def collect(self, units: Sequence[str]) -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
        """All units' tables joined in the given order, and what was measured, a row a unit."""
        tables: dict[str, pd.DataFrame] = {}
        for name in self.tables:
            parts = [pd.read_parquet(self.folder / "units" / unit / f"{name}.parquet") for unit in units]
            filled = [part for part in parts if len(part)]
            tables[name] = conform(name, pd.concat(filled, ignore_index=True) if filled else parts[0])
        files = [self.folder / "units" / unit / "measured.json" for unit in units]
        rows = [json.loads(file.read_text(encoding="utf-8"))["measured"] for file in files]
        return tables, pd.DataFrame(rows, index=pd.Index(list(units), name="unit"))

    def finish(
        self,
        tables: Mapping[str, pd.DataFrame],
        summary: Mapping[str, Any],
        figures: Mapping[str, Any],
        manifest: Mapping[str, Any],
        *,
        csv: bool = False,
    ) -> None:
        """Write tables, summary and figures, drop the units, and write the manifest last.

        Args:
            tables: By file name, without ending.
            summary: For `summary.json`.
            figures: matplotlib figures by file name, without ending; each is written as PNG and PDF.
            manifest: What to record beside configuration, versions and hashes.
            csv: Write each table as CSV too.

        Raises:
            RunError: The disk is full or the folder cannot be written; the finished units are kept.
        """
        with writing(self.folder):
            for name, table in tables.items():
                table.to_parquet(self.folder / f"{name}.parquet", index=False)
                (self.folder / f"{name}.csv").unlink(missing_ok=True)  # of a finish that was stopped
                if csv:
                    table.to_csv(self.folder / f"{name}.csv", index=False)
            write_json(self.folder / "summary.json", summary)
            (self.folder / "figures").mkdir(exist_ok=True)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Glyph")  # a role noun in a script that the font lacks
                for name, figure in figures.items():
                    figure.savefig(self.folder / "figures" / f"{name}.png", dpi=200)
                    # Without a date, the same run gives the same bytes.
                    figure.savefig(self.folder / "figures" / f"{name}.pdf", metadata={"CreationDate": None})
            files = sorted(
                file
                for file in self.folder.rglob("*")
                if file.is_file()
                and "units" not in file.relative_to(self.folder).parts
                and file.name not in ("config.json", "manifest.json")
                and not file.name.startswith(".")  # the lock, and what a stopped write left aside
            )
            hashes = {file.relative_to(self.folder).as_posix(): sha256_of(file) for file in files}
            write_json(
                self.folder / "manifest.json",
                {
                    "config": self.config,
                    **manifest,
                    "versions": versions(),
                    "git_commit": git_commit(),
                    "sha256": hashes,
                },
            )
            shutil.rmtree(self.folder / "units", ignore_errors=True)

    def write_csv(self) -> None:
        """Write each table of a finished run as CSV too.

        Raises:
            RunError: The folder cannot be written.
        """
        with writing(self.folder):
            for table in sorted(self.folder.glob("*.parquet")):
                pd.read_parquet(table).to_csv(table.with_suffix(".csv"), index=False)


def open_run(folder: Path, config: Mapping[str, Any], tables: tuple[str, ...]) -> Run:
    """Make a run folder, or go on in one that was begun with the same configuration.

    Args:
        folder: Absent, empty, or a run's folder.
        config: Everything that fixes the results; JSON values.
        tables: What each work unit consists of, `records.PATCHING` or `records.MEASUREMENT`.

    Raises:
        RunError: Foreign files, another configuration (the differing keys are named), or no permission.

    Example:
        `open_run(Path("runs/new"), {"seed": 0}, PATCHING).complete` is False.
    """
    check_out(folder)
    settled: dict[str, Any] = json.loads(json.dumps(config))
    begun = folder / "config.json"
    if not begun.is_file():
        with writing(folder):
            is_new = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            write_json(begun, settled)
        return Run(folder, settled, tables, complete=False, is_new=is_new)
    before = read_object(begun)
    manifest = folder / "manifest.json"
    if before != settled and not manifest.is_file() and not _holds_units(folder):
        # Begun and refused before anything was computed, or another process is at its first unit: the lock tells.
        return Run(folder, settled, tables, complete=False)
    if before.get("job") != settled.get("job"):
        raise RunError(
            f"--out {str(folder)!r} holds a run of {before.get('job')!r}, not of {settled.get('job')!r}; name another "
            "folder"
        )
    if before != settled:
        differing = sorted(key for key in {*before, *settled} if before.get(key) != settled.get(key))
        shown = "; ".join(f"{key}: {before.get(key)!r} there, {settled.get(key)!r} now" for key in differing[:3])
        raise RunError(
            f"--out {str(folder)!r} holds a run with another configuration ({shown}); name another folder, or remove it"
        )
    if not manifest.is_file():
        return Run(folder, settled, tables, complete=False)
    written = read_object(manifest)
    hashes, same = written.get("sha256"), written.get("config") == before
    if not same or not isinstance(hashes, dict) or "summary.json" not in hashes or not intact(folder, hashes):
        raise RunError(
            f"the finished run in {str(folder)!r} is not as it was written: files are changed or missing; remove the "
            "folder to compute it again, or name another one with --out"
        )
    return Run(folder, settled, tables, complete=True)


def _holds_units(folder: Path) -> bool:
    units = folder / "units"
    return units.is_dir() and any(units.iterdir())
