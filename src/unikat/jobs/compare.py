"""Compare models on data: from options to an answer, and to the folder of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from unikat.data.grouping import HouseholdSample
from unikat.data.microdata import Microdata
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.inference.identity import digest
from unikat.inference.progress import Watcher
from unikat.inference.trial import counted_alone
from unikat.jobs.from_python import documented, run_from_python
from unikat.jobs.households import read_sample
from unikat.jobs.job import Job, in_folder, plan_of
from unikat.jobs.outcome import Tabled
from unikat.jobs.schedule import Part, Schedule
from unikat.models.named import Named, compared_models
from unikat.report.facts.comparison import ComparisonSummary, comparison_facts
from unikat.report.folders.comparison import comparison_table
from unikat.report.folders.parquet import write_table
from unikat.report.pages.comparison import render
from unikat.report.text.comparison import notes, short_table, terminal_table
from unikat.report.text.summary import explained
from unikat.risk.estimate import known_exactly
from unikat.spec.comparison import ComparisonSpec
from unikat.spec.from_options import Inputs
from unikat.spec.kinds import COMPARE, Kind
from unikat.studies import compare as comparing
from unikat.studies.auto import decided, is_decided
from unikat.studies.compare import Candidate, ComparisonSettings
from unikat.studies.foreseen import parts_of_comparison
from unikat.zeros.conflicts import Handled

FIT, EVIDENCE = "fit", "evidence "
"""Parts of the run: a fit that is compared, and those by which one of the models is selected."""
_CLOCK = (
    "Some fits were ended by the clock; [limits] holds the sweeps they reached, so that a "
    "repetition gives the same numbers. Remove it to go further."
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Comparison(Tabled):
    """Several models side by side; from :func:`unikat.compare`.

    `table` has one row per model, with the columns of `comparison.parquet`.

    Examples
    --------
    >>> import pandas as pd, unikat
    >>> frame = pd.DataFrame({"sex": ["f", "m", "f"] * 9, "age": [*range(20, 38)] + [40] * 9})
    >>> found = unikat.compare(frame, "sex,age", population_size=270,
    ...                        models="loglinear,skinner-holmes", chains=2, workers=1)
    >>> found.table["model"].tolist()
    ['loglinear', 'skinner-holmes']
    """

    summary: ComparisonSummary
    spec: ComparisonSpec
    kind: ClassVar[Kind] = COMPARE

    def _page(self, summary: ComparisonSummary) -> str:
        return render(summary)

    def _table(self) -> pa.Table:
        return comparison_table(self.summary)

    def _others(self, folder: Path) -> Mapping[str, Callable[[Path], None]]:
        return {COMPARE.others[0]: lambda path: write_table(path, self._table())}

    def _note(self) -> str:
        return _CLOCK if self.spec.limits else ""

    def __repr__(self) -> str:
        state = "converged" if self.converged else "NOT CONVERGED"
        names = ", ".join(model.model for model in self.summary.models)
        return "\n".join([f"Comparison of {names}: {state}", *terminal_table(self.summary)])

    def _shown(self) -> list[list[Any]]:
        return short_table(self.summary)

    def _said_first(self) -> list[str]:
        return [repr(self).splitlines()[0], *notes(self.summary)]


@documented(COMPARE)
def compare(data: Any, *given: Any, **options: Any) -> Comparison:
    """Compare several models on the same data.

    Parameters
    ----------
    data
        As for :func:`unikat.assess`; or the path of a ``comparison.toml``.

    Returns
    -------
    Comparison
        Estimates side by side, held-out scores, posterior predictive checks.

    Raises
    ------
    SpecError, DataError
        If an option or the data are wrong. Nothing was written.
    OutputError
        If `out` holds a comparison and neither `resume` nor `overwrite` is set, or it cannot be
        written.
    KeyboardInterrupt
        On Ctrl-C; finished fits are kept in `out`.

    Examples
    --------
    >>> import pandas as pd, unikat
    >>> frame = pd.DataFrame({"sex": ["f", "m", "f"] * 9, "age": [*range(20, 38)] + [40] * 9})
    >>> found = unikat.compare(frame, "sex,age", population_size=270,
    ...                        models="latent-class,loglinear", chains=2, max_sweeps=60, workers=1)
    >>> [one.model for one in found.summary.models]
    ['latent-class', 'loglinear']
    """
    return run_from_python(COMPARE, run, (data, *given), options)


@in_folder(COMPARE)
def run(job: Job[ComparisonSpec]) -> Comparison:
    """Compare the models of a specification, in a folder of their own (see :func:`in_folder`).

    Finished fits and checkpoints are kept there in `fits/`, those by which `auto` selects in
    folders of their own; models can be added later.
    """
    spec, folder, watcher = job.spec, job.folder, job.watcher
    named, settings, _, table, handled, households = load_and_check(spec, job.inputs, watcher)
    parts = [] if watcher.progress is None else _parts(job, named, table, settings)
    schedule = Schedule(watcher=watcher, parts=parts)
    chosen = [_resolved(one, table, spec, schedule, job) for one in named]
    comparison = comparing.compare(
        [Candidate(label=one.label, model=one.model) for one in chosen],
        table,
        settings,
        workers=job.workers,
        store=job.store,
        watcher=schedule.each(FIT),
    )
    if comparison.interrupted:
        raise KeyboardInterrupt
    record = job.record(table.fingerprint)
    facts = comparison_facts(comparison, named, table, spec, record, handled, households)
    completed = job.completed(limits=_limits(settings, comparison))
    return job.finished(
        Comparison(summary=explained(facts), spec=completed, folder=folder, _frames=job.frames)
    )


class Loaded(NamedTuple):
    """Everything that is known before the first fit."""

    named: tuple[Named, ...]
    settings: ComparisonSettings
    microdata: Microdata
    table: CellTable
    handled: Handled | None
    """What was done with persons that break a rule; None without rules, and of households."""
    households: HouseholdSample | None


def load_and_check(spec: ComparisonSpec, inputs: Inputs, watcher: Watcher) -> Loaded:
    """Read the data of a comparison, and check what is asked of them."""
    named = compared_models(spec)
    settings = _settings(spec)
    return Loaded(named, settings, *read_sample(spec, inputs, watcher))


def _parts(
    job: Job[ComparisonSpec],
    named: Sequence[Named],
    table: CellTable,
    settings: ComparisonSettings,
) -> list[Part]:
    """Foresee the fits, in their order: first those by which models are selected."""
    if known_exactly(table):
        return []
    candidates = [(one.label, one.model) for one in named]
    try:
        with counted_alone():
            found = parts_of_comparison(candidates, table, settings, workers=job.workers)
    except (SpecError, MemoryError, ArithmeticError, np.linalg.LinAlgError):
        # The run says so itself, when it comes to it.
        return []
    timed = settings.plan.stop.max_seconds is not None
    first = [
        Part.counted(one.evidence, timed=timed, name=EVIDENCE + one.label)
        for one in found
        if one.evidence
    ]
    fits = [(one.label, fit) for one in found for fit in one.fits]
    return first + [Part.counted([fit], timed=timed, name=FIT, like=label) for label, fit in fits]


def _resolved(
    one: Named,
    table: CellTable,
    spec: ComparisonSpec,
    schedule: Schedule,
    job: Job[ComparisonSpec],
) -> Named:
    """Put what is fitted in place of `auto` or of a model with its error (`decided`)."""
    if known_exactly(table):
        return one
    one.model.check_keys([key.name for key in table.keys])
    if is_decided(one.model):
        job = schedule.job(job, EVIDENCE + one.label)
    kept = job.execution.of(f"evidence-{digest(one.model)}")
    model = decided(
        one.model,
        table,
        seed=spec.sampling.seed,
        n_chains=spec.sampling.chains,
        most_sweeps=plan_of(spec.sampling).stop.max_sweeps,
        level=spec.report.level,
        execution=replace(kept, watcher=kept.watcher.within(one.label)),
    )
    return replace(one, model=model)


def _settings(spec: ComparisonSpec) -> ComparisonSettings:
    return ComparisonSettings(
        seed=spec.sampling.seed,
        plan=plan_of(spec.sampling),
        held_out=spec.held_out,
        level=spec.report.level,
        limits={
            label: {str(kind): n for kind, n in limit.items()}
            for label, limit in spec.limits.items()
        },
    )


def _limits(
    settings: ComparisonSettings, comparison: comparing.Comparison
) -> dict[str, dict[str, int]]:
    """Say where the clock ended a fit."""
    limits = {label: dict(limit) for label, limit in settings.limits.items()}
    for model in comparison.models:
        fits = {"risk": model.risk.sampling}
        if model.held_out is not None:
            fits["held-out"] = model.held_out.sampling
        for kind, fit in fits.items():
            if fit.stop_reason == "time limit":
                limits.setdefault(model.label, {})[kind] = fit.n_sweeps
    return limits
