"""Evaluate models on samples from data taken as the population: from options to an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from unikat._typing import Int64
from unikat._version import __version__
from unikat.classics.formulas import FORMULAS
from unikat.data.grouping import HouseholdSample
from unikat.data.margins import margin_of, with_margins
from unikat.errors import DataError
from unikat.inference.progress import SILENT, Watcher
from unikat.jobs.from_python import documented, run_from_python
from unikat.jobs.households import read_households
from unikat.jobs.inputs import UNKNOWN, open_data, tabulate, without_conflicts
from unikat.jobs.job import Job, in_folder, plan_of
from unikat.jobs.outcome import Tabled
from unikat.language.keys import column_of, split_keys
from unikat.models.base import AnyModel
from unikat.models.named import models_by_label
from unikat.report.facts.evaluation import EvaluationSummary, evaluation_facts
from unikat.report.folders.evaluation import (
    files_table,
    read_samples,
    rows_table,
    samples_table,
)
from unikat.report.folders.parquet import write_table
from unikat.report.pages.evaluation import render
from unikat.report.text.numbers import counted
from unikat.report.text.summary import explained
from unikat.spec.evaluation import EvaluationSpec
from unikat.spec.from_options import Inputs
from unikat.spec.kinds import EVALUATE, Kind
from unikat.studies import evaluate as studies
from unikat.studies.designs import Population
from unikat.studies.evaluate import Study, check_study
from unikat.studies.store import StudyStore
from unikat.studies.told import read_told, score_told
from unikat.synthesis.attacks.files import Named, coded
from unikat.synthesis.generators import Measured
from unikat.synthesis.household_generators import measured
from unikat.synthesis.told import ToldFile, score_files, split_files
from unikat.zeros.conflicts import Handled


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Evaluation(Tabled):
    """How well models did where the truth is known; from :func:`unikat.evaluate`.

    `table` has one row per sample and model, with the columns of `evaluation.parquet`.

    Examples
    --------
    >>> import pandas as pd, unikat
    >>> population = pd.DataFrame({"A": [0, 1, 0, 1, 1, 1], "B": [0, 0, 1, 1, 1, 1]})
    >>> found = unikat.evaluate(population, "A,B", n=3, repeats=2,
    ...                         models="skinner-holmes", workers=1)
    >>> found.table[["model", "n_drawn"]].to_numpy().tolist()
    [['skinner-holmes', 3], ['skinner-holmes', 3]]
    """

    summary: EvaluationSummary
    spec: EvaluationSpec
    _made: pa.Table | None = None
    _rows: pa.Table | None = None
    """Which rows each sample has, if that was asked for."""
    _files: pa.Table | None = None
    """Scores of synthetic files, if generators were compared."""
    kind: ClassVar[Kind] = EVALUATE

    def _page(self, summary: EvaluationSummary) -> str:
        return render(summary, self._table().to_pylist())

    def _table(self) -> pa.Table:
        if self._made is not None:
            return self._made
        assert self.folder is not None
        return read_samples(self.folder)

    def _others(self, folder: Path) -> Mapping[str, Callable[[Path], None]]:
        tables = zip(EVALUATE.others, (self._table(), self._rows, self._files), strict=True)
        return {
            name: partial(write_table, table=table) for name, table in tables if table is not None
        }

    def __repr__(self) -> str:
        lines = [
            f"Evaluation: {self.summary.n_done:,} of {self.summary.n_fits:,} fits done, "
            f"{self.summary.n_failed:,} failed, {self.summary.n_unconverged:,} not converged"
        ]
        for found in self.summary.results:
            tau1 = found.tau1
            if tau1 is not None:
                lines.append(
                    f"{found.model}, n {found.n:,}: bias of τ1 {tau1.bias:+.1f}, interval "
                    f"contained the true value in {tau1.n_covered} of {found.n_samples}"
                )
        return "\n".join(lines)

    def _said_first(self) -> list[str]:
        return repr(self).splitlines()[:1]


@documented(EVALUATE)
def evaluate(data: Any, *given: Any, **options: Any) -> Evaluation:
    """Draw repeated samples from data taken as the population, and compare models with the truth.

    Parameters
    ----------
    data
        A frame or file whose rows are the whole population, as for :func:`unikat.assess`; or the
        path of an ``evaluation.toml``.

    Returns
    -------
    Evaluation
        Bias, error and coverage by model and size. After Ctrl-C, of the fits that were done.

    Raises
    ------
    SpecError, DataError
        If an option or the data are wrong. Nothing was written.
    OutputError
        If `out` holds a study and neither `resume` nor `overwrite` is set, or another study than
        the one to continue, or it cannot be written.
    KeyboardInterrupt
        On Ctrl-C before any fit is done.

    Examples
    --------
    >>> import pandas as pd, unikat
    >>> cells = [0, 1, 2, 3, 3, 3, 7, 7]
    >>> frame = pd.DataFrame({name: [c >> i & 1 for c in cells] for i, name in enumerate("ABC")})
    >>> found = unikat.evaluate(frame, keys="A,B,C", n=4, repeats=2, models="latent-class",
    ...                         chains=2, max_sweeps=50, workers=1)
    >>> found.table["n_drawn"].tolist()
    [4, 4]
    """
    return run_from_python(EVALUATE, run, (data, *given), options)


@in_folder(EVALUATE)
def run(job: Job[EvaluationSpec]) -> Evaluation:
    """Evaluate models on samples from the data of a specification (see :func:`in_folder`).

    Finished fits are kept in `tasks/`; models, sizes and repeats may be added later.
    The folder of another study than the one to resume is refused (OutputError).
    """
    spec, folder, watcher = job.spec, job.folder, job.watcher
    models, study, population, handled, households, synthesizers, files = load_and_check(
        spec, job.inputs, watcher
    )
    told = () if spec.estimates is None else read_told(spec.estimates)
    scored_files = tuple(score_files(population, study, files, synthesizers))
    scored = tuple(score_told(population, study, told, [*models, *study.formulas]))
    watcher.note(
        f"Population: {_units(population)}; samples of "
        f"{', '.join(f'{n:,}' for n in study.sizes)}, {study.repeats:,} of each size"
    )
    store = None if folder is None else StudyStore(folder, _identity(study, population))
    try:
        if store is not None:
            store.open(resume=job.resume)
        watcher.stage("Fitting")
        found = studies.evaluate(
            population,
            models,
            study,
            synthesizers=synthesizers,
            workers=job.workers,
            store=store,
            watcher=watcher,
        )
        found = replace(found, told=scored, synthetic=(*found.synthetic, *scored_files))
        record = job.record(population.fingerprint)
        completed = job.completed(n=study.sizes)
        facts = evaluation_facts(found, population, completed, record, handled, households)
        summary = explained(facts)
        return job.finished(
            Evaluation(
                summary=summary,
                spec=completed,
                folder=folder,
                _made=samples_table([*found.scores, *scored], summary),
                _rows=_rows(spec, population, study, handled),
                _files=files_table(found.synthetic, summary) if spec.makes_files else None,
                _frames=job.frames,
            )
        )
    finally:
        if store is not None:
            store.discard_if_empty()


def _rows(
    spec: EvaluationSpec, population: Population, study: Study, handled: Handled | None
) -> pa.Table | None:
    """Which rows of the file each sample has; None if nobody asked, or units are not its rows."""
    asked = spec.leaderboard or spec.makes_files
    asked = asked and not spec.of_households and handled is None
    return rows_table(population, study) if asked else None


class Loaded(NamedTuple):
    """Everything that is known before the first fit."""

    models: dict[str, AnyModel]
    study: Study
    population: Population
    handled: Handled | None
    """What was done with persons that break a rule; None without rules, and of households."""
    households: HouseholdSample | None
    synthesizers: dict[str, Measured]
    """Generators of synthetic files, by label; empty if none are compared."""
    files: list[ToldFile]
    """Synthetic files of other generators."""


def load_and_check(spec: EvaluationSpec, inputs: Inputs, watcher: Watcher) -> Loaded:
    """Read the population of a study, and check what is asked of it."""
    models, plan = models_by_label(spec.models), plan_of(spec.sampling)
    watcher.stage("Reading")
    population, handled, households = read_population(spec, inputs.data, watcher)
    study = Study(
        sizes=spec.sample_sizes(population.n_units),
        repeats=spec.repeats,
        design=spec.design,
        allocation=spec.allocation,
        power=0.5 if spec.power is None else spec.power,
        levels=spec.levels,
        blank=spec.blank,
        seed=spec.sampling.seed,
        plan=plan,
        level=spec.report.level,
        formulas=tuple(FORMULAS) if spec.leaderboard else (),
    )
    synthesizers: dict[str, Measured] = {}
    if spec.makes_files:
        synthesizers = measured(spec.synthesizers, population)
    check_study(population, models, study, synthesizers)
    files = [] if spec.synthetic is None else read_files(spec, spec.synthetic, population)
    return Loaded(models, study, population, handled, households, synthesizers, files)


def read_files(spec: EvaluationSpec, path: Path, population: Population) -> list[ToldFile]:
    """Read the synthetic records of other generators, with the options of the population."""
    data = spec.data.model_copy(update={"path": path, "database": None})
    microdata = open_data(data, spec.keys, UNKNOWN, constant_keys=True)
    keys = population.table.keys
    codes = coded(Named(path.name, microdata.tabulate()), keys, whose="the population")
    lacking = int((codes < 0).any(axis=1).sum())
    if lacking:
        raise DataError(
            f"{path.name}: {lacking:,} record(s) have no value of a key, and those of the "
            "population have all. Draw the missing values too, or take missing as a level of its "
            'own in both: --missing level (missing="level").'
        )
    which, names = microdata.codes("synthesizer")
    if (which < 0).any():
        raise DataError(f"{path.name}: synthesizer is missing in some records; give it in all.")
    sizes, repeats = (microdata.numbers(name).tolist() for name in ("n", "repeat"))
    return split_files(codes, [names[code] for code in which], sizes, repeats)


def understood(spec: EvaluationSpec) -> str:
    """Read the file of a specification as the run will, and say what it is as a population."""
    population = read_population(spec).population
    table = population.table
    uniques = counted(int((table.counts == 1).sum()), "population unique")
    return f"Population: {_units(population)}, {len(table.variables)} keys, {uniques}"


def _units(population: Population) -> str:
    noun = "unit" if population.table.layout is None else "household"
    return counted(population.n_units, noun)


class ReadPopulation(NamedTuple):
    """A file as a population."""

    population: Population
    handled: Handled | None
    households: HouseholdSample | None


def read_population(
    spec: EvaluationSpec, source: Any = None, watcher: Watcher = SILENT
) -> ReadPopulation:
    """Read the file of a specification, or the frame `source`, as a population.

    Its table has the counts that models are told. Also says what was done with units that have an
    impossible combination, if any combination is. With models of households the units are
    households.

    Raises
    ------
    DataError, SpecError
        If it cannot be read, or a unit has a missing key that is not taken as a level, or an
        impossible combination that is not to be left out; if the strata or the sizes of the units
        cannot be used.
    """
    read = _read_households if spec.of_households else _read_records
    found = read(spec, source, watcher)
    if not spec.margins:
        return found
    whole = found.population.table
    told = [margin_of(whole, split_keys(names, "+")) for names in spec.margins]
    told_of = replace(found.population, table=with_margins(whole, told))
    return found._replace(population=told_of)


def _read_records(spec: EvaluationSpec, source: Any, watcher: Watcher) -> ReadPopulation:
    """Read a population of records."""
    # The population size is the number of rows, which is not known before they are read.
    design = replace(UNKNOWN, household=spec.household)
    microdata = open_data(spec.data, spec.keys, design, source, watcher=watcher)
    table = microdata.tabulate()
    strata = None if spec.strata is None else _strata(spec, table.n_records, source)
    measure = None if spec.size is None else microdata.numbers(spec.size)
    if spec.zeros is None:
        return ReadPopulation(Population.of(table, strata, measure), None, None)
    handled = without_conflicts(table, spec.zeros, spec.data)
    if handled.n_set_missing and spec.data.missing != "level":
        raise DataError(
            f"{handled.n_set_missing:,} units of the population break a rule of what is "
            "impossible, and their keys would be set missing; but the truth is known only if every "
            "unit has a cell. Leave these units out with --zeros-conflict drop "
            '(on_conflict="drop"), or correct the rules or the file.'
        )
    if strata is not None:
        strata = strata[handled.kept]
    if measure is not None:
        measure = measure[handled.kept]
    return ReadPopulation(Population.of(handled.table, strata, measure), handled, None)


def _read_households(spec: EvaluationSpec, source: Any, watcher: Watcher) -> ReadPopulation:
    """Read the persons of a population, and take their households as its units."""
    microdata, found = read_households(spec, source, watcher)
    strata = measure = None
    if spec.strata is not None:
        codes = found.once(microdata.codes(spec.strata)[0], "strata", microdata.name)
        # A missing value is a stratum of its own.
        strata = np.unique(codes, return_inverse=True)[1]
    if spec.size is not None:
        measure = found.once(microdata.numbers(spec.size), "sizes", microdata.name)
    return ReadPopulation(Population.of(found.table, strata, measure), None, found)


def _strata(spec: EvaluationSpec, n_units: int, source: Any) -> Int64:
    """Number of the stratum of each unit; a missing value is a stratum of its own."""
    data = spec.data
    assert spec.strata is not None
    name = column_of(spec.strata)
    # Two columns, since one alone is refused as a set of keys.
    other = next(key for key in spec.keys if column_of(key) != name)
    try:
        as_levels = data.model_copy(update={"missing": "level"})
        table = tabulate(as_levels, [spec.strata, other], UNKNOWN, source)
    except DataError as error:
        raise DataError(f"The strata cannot be used. {error}") from None
    if table.n_records != n_units:
        name = data.name or "The data"
        raise DataError(f"{name} changed since they were read; read them again.")
    _, strata = np.unique(table.cells[table.record_cell, 0], return_inverse=True)
    return strata.astype(np.int64)


def _identity(study: Study, population: Population) -> dict[str, str]:
    """Everything on which a fit depends besides model, size and repetition."""
    stop = study.plan.stop
    return {
        "data, keys or strata": population.fingerprint,
        "design": _design(study),
        "seed": str(study.seed),
        "chains": str(study.plan.n_chains),
        "thin": str(study.plan.thin),
        "rhat": repr(float(stop.rhat)),
        "ess": repr(float(stop.ess)),
        "max_sweeps": str(stop.max_sweeps),
        "max_seconds": str(stop.max_seconds),
        "level": repr(float(study.level)),
        "unikat version": __version__,
    }


def _design(study: Study) -> str:
    parts: list[str] = [study.design]
    if study.allocation != "proportional":
        power = f" {float(study.power)!r}" if study.allocation == "power" else ""
        parts.append(f"{study.allocation}{power}")
    if study.levels == "sample":
        parts.append("levels of the sample")
    if study.blank:
        parts.append(f"{float(study.blank)!r} of the values missing")
    return ", ".join(parts)
