"""What a run would do, read, take and write, as `--dry-run --json` prints it."""

from __future__ import annotations

from dataclasses import dataclass

from unikat.report.facts.columns import ColumnFacts
from unikat.report.facts.levels import LevelsFacts
from unikat.report.facts.zeros import ZerosFacts


@dataclass(frozen=True, kw_only=True)
class Span:
    """A quantity that is known as a range."""

    lower: float
    upper: float


@dataclass(frozen=True, kw_only=True)
class KeyCount:
    """A key of the file."""

    name: str
    n_levels: int
    n_missing: int
    """Records in which it is missing."""
    levels: LevelsFacts | None = None
    """How its levels were understood; None of runs that recode nothing."""


@dataclass(frozen=True, kw_only=True)
class FitForeseen:
    """A fit that will be made, or several of the same kind."""

    model: str
    purpose: str
    n_fits: int
    n_chains: int | None = None
    """None, as all that follows of chains, where already the layout of the data takes long."""
    n_workers: int | None = None
    n_threads: int | None = None
    thin: int | None = None
    fewest_sweeps: int | None = None
    """Sweeps of a chain if all its draws were independent."""
    max_sweeps: int | None = None
    seconds_per_sweep: float | None = None
    """Of all chains together."""
    measured: bool = False
    """Whether sweeps were made and measured; else their work was counted."""
    seconds: Span = Span(lower=0.0, upper=0.0)
    """Of one fit."""
    seconds_at_limit: float = 0.0
    """Of one fit that goes on to its limit of sweeps or time."""
    refused: str | None = None
    """Why the model cannot be fitted to the file."""


@dataclass(frozen=True, kw_only=True)
class DryRunFacts:
    """A run before it begins."""

    command: str
    """Of the run: `assess`."""
    data: str | None
    """Name of the file or table; None of a frame."""
    unit: str
    """Of which all numbers are: `record` or `household`."""
    n_records: int
    """Records, or households where they are the units; of an evaluation the population's units."""
    n_units: int | None
    """Population size N; None where none is asked for."""
    n_cells: int
    """Distinct combinations of the keys among the records."""
    n_sample_uniques: int
    n_incomplete: int
    """Records with a missing key."""
    keys: tuple[KeyCount, ...]
    other_columns: tuple[ColumnFacts, ...]
    """Of a protection: the columns that are no keys, and what would be done to each."""
    zeros: ZerosFacts | None
    known_exactly: bool
    """The file itself tells the risk, and no model is fitted."""
    fits: tuple[FitForeseen, ...]
    executor: str
    at_a_time: int
    """Fits that run side by side."""
    target_rhat: float
    target_ess: float
    seconds_to_read: float
    """Measured: reading and counting, and what else was done before the first fit."""
    seconds: Span
    """Expected time of the run."""
    seconds_at_limit: float
    """Time of a run in which every fit goes on to its limit."""
    memory: Span | None
    """Expected peak of all its processes on this machine, in bytes; None where it is not known."""
    machine_memory: int | None
    """Memory that they may use, in bytes; None where the system does not tell."""
    folder: str | None
    """Where the results will be."""
    results: Span
    """Size of the files that will be written, in bytes."""
    work: Span
    """Size of the files of an unfinished run, in bytes."""

    @property
    def enough_memory(self) -> bool:
        """Whether the machine has the memory; also where that is not known."""
        unknown = self.memory is None or self.machine_memory is None
        return unknown or self.memory.upper <= self.machine_memory  # type: ignore[union-attr,operator]  # known here
