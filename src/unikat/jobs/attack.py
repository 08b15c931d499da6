"""Attack synthetic files: from options to an answer, and to the folder of an attack."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from unikat._typing import Float64, Int32
from unikat.data import CellTable, Key
from unikat.errors import DataError, SpecError, listed, option
from unikat.inference.processes import available_cores
from unikat.inference.progress import Watcher
from unikat.jobs.attack_files import file_facts, opened, synthetic_files
from unikat.jobs.attack_parts import (
    BOUND,
    GOING_ON,
    RATIO,
    RISK,
    TESTS,
    WITHOUT_MODEL,
    Fitted,
    parts_of,
)
from unikat.jobs.from_python import documented, run_from_python
from unikat.jobs.households import attacked_households
from unikat.jobs.inputs import read_margins, without_conflicts
from unikat.jobs.job import Job, in_folder
from unikat.jobs.linking import linked
from unikat.jobs.outcome import Tabled
from unikat.jobs.schedule import Part, Schedule
from unikat.jobs.sensitive import inferred
from unikat.language.keys import column_of
from unikat.models.base import GroupsLevels
from unikat.models.households.nested import NestedHouseholds
from unikat.models.named import build_model
from unikat.protection.recoding import parse_recoding
from unikat.protection.what_if import Posterior
from unikat.report.facts.attack import SCHEMA, AttackSummary
from unikat.report.facts.classics import InferredResult
from unikat.report.folders.assessment import load
from unikat.report.folders.attack import records_table
from unikat.report.folders.parquet import write_table
from unikat.report.folders.synthesis import fit_beside
from unikat.report.pages.attack import render
from unikat.report.text.attack import terminal_lines
from unikat.report.text.summary import explained
from unikat.risk.estimate import RiskEstimate, Summary
from unikat.spec.attack import AttackSpec
from unikat.spec.from_options import Inputs
from unikat.spec.kinds import ATTACK, RECORDS, Kind
from unikat.spec.model import ModelSpec
from unikat.spec.models import SIMPLEST
from unikat.spec.rules import ZerosSpec
from unikat.studies.fit import Fit
from unikat.synthesis.attacks import run as attacks
from unikat.synthesis.attacks.claims import Claims, claimed
from unikat.synthesis.attacks.control import Opened, check_control
from unikat.synthesis.attacks.files import Files, aligned
from unikat.synthesis.attacks.households import one_household_unknown
from unikat.synthesis.attacks.membership_model import NAME as MODEL_TEST
from unikat.synthesis.attacks.membership_model import ModelRatio, membership_bound
from unikat.synthesis.attacks.persons import check_model, known_population, one_unknown
from unikat.synthesis.attacks.posterior import Fitting

RECORDS_FILE, LINKS_FILE = ATTACK.others


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Attacks(Tabled):
    """What an intruder learns from synthetic files, or links; from :func:`unikat.attack`.

    `table` has one row per attack; of links one for each probability from which they are accepted.

    Examples
    --------
    >>> import pandas as pd, unikat
    >>> original = pd.DataFrame({"SEX": [1, 2, 2, 1], "AGE": [30, 41, 52, 30]})
    >>> found = unikat.attack(original, synthetic=original, keys="SEX,AGE")
    >>> found.table["attack"].iloc[0], found.table["rate"].tolist()[0], found.records is None
    ('replicated uniques', 0.5, True)
    """

    summary: AttackSummary
    spec: AttackSpec
    _records: pa.Table | None = None
    kind: ClassVar[Kind] = ATTACK

    @cached_property
    def records(self) -> Any:
        """ρ by record, variable and prior, with the columns of `attack-records.parquet`.

        None if no model of the generator was named. Of links, those of `links.parquet`.
        """
        found = self._records_table
        return None if found is None else self._frames.frame(found, same_rows=False)

    @property
    def _records_file(self) -> str:
        return RECORDS_FILE if self.summary.linkage is None else LINKS_FILE

    @cached_property
    def _records_table(self) -> pa.Table | None:
        if self._records is not None or self.folder is None:
            return self._records
        path = self.folder / self._records_file
        return pq.read_table(path) if path.is_file() else None

    def _page(self, summary: AttackSummary) -> str:
        return render(summary)

    def _others(self, folder: Path) -> Mapping[str, Callable[[Path], None]]:
        table = self._records_table
        return {} if table is None else {self._records_file: lambda path: write_table(path, table)}

    def _table(self) -> pa.Table:
        if self.summary.linkage is not None:
            return pa.Table.from_pylist(
                [
                    {"probability": one.probability, "links": one.n_links, "correct": one.n_correct}
                    for one in self.summary.linkage.accepted
                ]
            )
        rows = []
        for result in self.summary.attacks:
            row: dict[str, object] = {"attack": result.name, "target": result.target, "n": result.n}
            for name in ("rate", "compared", "baseline", "excess"):
                found = getattr(result, name)
                for part in ("value", "lower", "upper"):
                    column = name if part == "value" else f"{name}_{part}"
                    row[column] = None if found is None else getattr(found, part)
            rows.append(row)
        return pa.Table.from_pylist(rows)

    def __repr__(self) -> str:
        return "\n".join(terminal_lines(self.summary))


@documented(ATTACK)
def attack(data: Any, *given: Any, **options: Any) -> Attacks:
    """Attack synthetic files as an intruder would, and compare with what he has without them.

    Parameters
    ----------
    data
        The original, from which the synthetic files were made: a file or frame as for
        :func:`unikat.assess`; or the path of an ``attack.toml``. With the answer of
        :func:`unikat.synthesize` after it, its keys, its household and how it read the file are
        those of the attack, unless other ones are given.

    Returns
    -------
    Attacks
        Success of each attack, of its baseline, and the excess, with intervals.

    Raises
    ------
    SpecError, DataError
        If an option or the files are wrong. Nothing was written.
    OutputError
        If `out` holds an attack and `overwrite` is not set, or it cannot be written.

    Examples
    --------
    >>> import pandas as pd, unikat
    >>> original = pd.DataFrame({"SEX": [1, 2, 2, 1], "AGE": [30, 41, 52, 30]})
    >>> found = unikat.attack(original, synthetic=original, keys="SEX,AGE")
    >>> found.table["rate"].tolist()[0]
    0.5
    """
    return run_from_python(ATTACK, run, (data, *given), options)


@in_folder(ATTACK)
def run(job: Job[AttackSpec]) -> Attacks:
    """Attack the synthetic files of a specification (see :func:`in_folder`)."""
    spec, watcher = job.spec, job.watcher
    if spec.external is not None:
        links, table = linked(job)
        return job.finished(
            Attacks(
                summary=explained(links),
                spec=spec,
                folder=job.folder,
                _frames=job.frames,
                _records=table,
            )
        )
    asked = load_and_check(spec, job.inputs, watcher)
    model, files, names, data = asked.model, asked.files, asked.names, asked.data
    original = data.named
    wanted = [column_of(one) for one in spec.targets] or names
    link = [name for name in names if name in (spec.link or names[: (len(names) + 1) // 2])]
    rest = [name for name in names if name not in link]
    how = None
    parts: list[Part] = []
    if watcher.progress is not None:
        plan, seed = job.plan, spec.sampling.seed
        timed = plan.stop.max_seconds is not None
        parts = parts_of(asked.fitted(spec), timed=timed, plan=plan, seed=seed, workers=job.workers)
    schedule = Schedule(watcher=watcher, parts=parts)
    tests: dict[str, ModelRatio] = {}
    if model is not None:
        assert spec.model is not None
        how = Fitting(
            label=spec.model.label,
            seed=spec.sampling.seed,
            plan=job.plan,
            level=spec.report.level,
            execution=job.execution,
        )
        if not isinstance(model, NestedHouseholds):
            tests = {MODEL_TEST: ModelRatio(model=model, how=how.told(schedule.each(TESTS)))}
    results = attacks.attack(
        files,
        [files.names.index(name) for name in wanted],
        ([names.index(name) for name in link], [names.index(name) for name in rest]),
        n_attacks=spec.attacks,
        seed=spec.sampling.seed,
        level=spec.report.level,
        n_threads=spec.sampling.threads or available_cores(),
        stage=schedule.begin(WITHOUT_MODEL).stage,
        tests=tests,
    )
    claims, converged, fitted = asked.persons.claims(job, asked.known, schedule)
    learned = {} if fitted is None else asked.persons.inferred(job, fitted)
    converged = converged and all(all(test.converged) for test in tests.values())
    posterior = household_posterior = records = bound = None
    if how is not None:
        assert asked.table is not None
        how = how.told(schedule.each(RATIO, GOING_ON))
        if isinstance(model, NestedHouseholds):
            told = [*one_household_unknown(model, asked.table, asked.synthetic, how)]
            household_posterior = told[0].facts
        else:
            told = [one_unknown(model, asked.table, asked.synthetic, how)]
            alone = replace(asked.table, margins=())
            how = how.told(schedule.begin(BOUND))
            bound = membership_bound(model, alone, how, len(files.synthetic))
            converged = converged and bound.converged
        posterior = told[-1].facts
        results = (*results, *(result for one in told for result in one.results))
        records = records_table(told, asked.table, files.original, files.names, files.household)
        converged = converged and posterior.converged
    summary = explained(
        AttackSummary(
            schema=SCHEMA,
            original=file_facts(data),
            synthetic=tuple(map(file_facts, asked.made)),
            control=None if asked.control is None else file_facts(asked.control),
            keys=tuple(names),
            targets=tuple(wanted),
            link=(tuple(link), tuple(rest)),
            n_attacked=min(spec.attacks, original.table.n_records),
            seed=spec.sampling.seed,
            level=spec.report.level,
            attacks=results,
            claims=claims,
            posterior=posterior,
            household_posterior=household_posterior,
            membership_bound=bound,
            inferred=learned,
            converged=converged,
            sentences={},
            provenance=job.record(original.table.fingerprint),
        )
    )
    answer = Attacks(
        summary=summary, spec=spec, folder=job.folder, _frames=job.frames, _records=records
    )
    return job.finished(answer)


class Loaded(NamedTuple):
    """Everything that is known before the first attack."""

    model: Any
    """Of the intruder who knows it; None if there is none."""
    names: list[str]
    """Of the keys."""
    data: Opened
    made: list[Opened]
    control: Opened | None
    files: Files
    persons: _Persons
    known: _KnownRisk | None
    table: CellTable | None
    """The original as that intruder knows it: its persons, or its households."""
    synthetic: Sequence[Int32]
    """Records of each synthetic file, in the levels of that table."""

    def fitted(self, spec: AttackSpec) -> Fitted:
        """What is fitted, for who foresees it."""
        one = self.persons.model
        return Fitted(
            original=self.persons.table(self.files.original),
            risk=None if spec.population_size is None else build_model(one.name, one.options),
            known=self.known is not None,
            n_files=len(self.synthetic),
            n_halves=2 if len(self.files.control) > 1 else 0,
            model=self.model,
            label="" if spec.model is None else spec.model.label,
            table=self.table,
            synthetic=self.synthetic,
        )


def load_and_check(spec: AttackSpec, inputs: Inputs, watcher: Watcher) -> Loaded:
    """Read all files of an attack, and check all that can be checked before the first one."""
    if spec.external is not None:
        raise SpecError(
            "Linking with an external file fits no model, so a dry run has nothing to tell. Leave "
            f"{option('dry_run', True)} out."
        )
    model = None if spec.model is None else build_model(spec.model.name, spec.model.options)
    watcher.stage("Reading")
    names = [column_of(one) for one in spec.all_keys]
    if model is not None:
        check_model(model, len(names))
    known = None if spec.risk is None else _known_risk(spec.risk.path, names)
    further = [one for one in spec.targets if column_of(one) not in names]
    used = [*spec.all_keys, *further]
    data = opened(spec, spec.data, used, inputs.data, watcher=watcher)
    made = list(synthetic_files(spec, used, inputs.synthetic))
    control, population = (
        None if one is None else opened(spec, one, used, frame, what)
        for one, frame, what in (
            (spec.control, inputs.control, "The control file"),
            (spec.population, inputs.population, "The population"),
        )
    )
    original, synthetic = data.named, [one.named for one in made]
    files = aligned(
        original,
        synthetic,
        None if control is None else control.named,
        None if population is None else population.named,
        n_keys=len(names),
    )
    others = [*made, *([] if control is None else [control])]
    if spec.household and (
        silent := [one.named.name for one in others if one.named.of_record is None]
    ):
        watcher.note(
            f"Households are not attacked: {listed(silent)} has no column {listed(spec.household)}."
        )
    if control is not None:
        watcher.stage("Comparing the control file")
        check_control(files, data, made, control, spec.sampling.seed)
    persons = _Persons(spec, files, original.table, [one.table for one in synthetic])
    table: CellTable | None = None
    codes: Sequence[Int32] = [one[:, : len(names)] for one in files.synthetic]
    if isinstance(model, NestedHouseholds):
        _check_ties(made)
        table, codes = attacked_households(spec, files, original, synthetic, watcher)
    elif model is not None:
        table = persons.table(files.original, spec.zeros)
        if spec.margins:
            table = known_population(table, read_margins(spec.margins, table.keys, inputs.margins))
    return Loaded(model, names, data, made, control, files, persons, known, table, codes)


def _check_ties(made: Sequence[Opened]) -> None:
    """Refuse files of a generator that is not the intruder's."""
    for file in made:
        fit = fit_beside(file.path)
        if fit is not None and fit.ties == "head":
            raise SpecError(
                f"{file.named.name} was drawn with ties of members to the head of their household, "
                "and an intruder's probabilities are known without ties alone. Synthesise the "
                "files again with --set ties=none; or leave --model out: the other attacks take "
                "these files."
            )


class _KnownRisk(NamedTuple):
    """What an assessment of the original has found."""

    tau1: Summary
    r1: Float64
    """(n_records,)"""
    n_uniques: int
    model: str
    population_size: int
    folder: Path


def _known_risk(folder: Path, keys: Sequence[str]) -> _KnownRisk:
    """Read an assessment of the original."""
    found = load(folder)
    assessed = [column_of(one) for one in found.spec.keys]
    if sorted(assessed) != sorted(keys):
        raise DataError(
            f"The assessment in {folder} has the keys {', '.join(assessed)}, and the attack has "
            f"{', '.join(keys)}; give both the same."
        )
    table = pq.read_table(found.root / RECORDS, columns=["r1"])
    r1 = np.nan_to_num(table["r1"].to_numpy(zero_copy_only=False).astype(np.float64))
    sample = found.result.sample
    return _KnownRisk(
        tau1=found.result.tau1,
        r1=r1,
        n_uniques=sample.n_uniques,
        model=found.result.model,
        population_size=sample.population_size,
        folder=folder,
    )


@dataclass(frozen=True)
class _Persons:
    """The files as records of persons, and how models are fitted to them."""

    spec: AttackSpec
    files: Files
    original: CellTable
    """Of the keys first, with the households by which it was drawn."""
    synthetic: Sequence[CellTable]

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys of the original."""
        return self.original.keys[: self.files.n_keys]

    def table(self, records: Int32, zeros: ZerosSpec | None = None) -> CellTable:
        """Tabulate the keys of the original, or of a synthetic file, as a sample."""
        codes = records[:, : len(self.keys)]
        size = self.spec.population_size
        table = CellTable.from_codes(
            codes, self.keys, len(codes) + 1 if size is None else size, "level"
        )
        return table if zeros is None else without_conflicts(table, zeros, self.spec.data).table

    def sample(self, records: Int32, file: CellTable) -> CellTable:
        """Tabulate the keys of a file as a sample, of households if it tells them."""
        return replace(self.table(records), households=file.households)

    @property
    def model(self) -> ModelSpec:
        """The model by which τ1 of a file is estimated."""
        # A model of households has no law of a file of persons.
        own = None if self.spec.of_households else self.spec.model
        return ModelSpec.of(SIMPLEST if own is None else own.label)

    def inferred(self, job: Job[AttackSpec], fitted: Fit) -> dict[str, InferredResult]:
        """What an intruder learns from all synthetic files together about targets that no key is.

        `fitted` is the fit of the original.
        """
        files, spec = self.files, self.spec
        n_keys, made = files.n_keys, np.vstack(files.synthetic)
        targets = list(enumerate(files.names))[n_keys:]
        if not targets or not isinstance(fitted.model, GroupsLevels):
            return {}
        job.watcher.stage("Inferring the targets")
        posterior = Posterior.of(fitted, n_threads=job.workers.n_threads)
        columns = [
            (name, files.original[:, j].astype(np.int64), made[:, j].astype(np.int64))
            for j, name in targets
        ]
        return inferred(
            posterior,
            parse_recoding(posterior.table, {}),
            made[:, :n_keys],
            columns,
            spec.report.level,
            spec.sampling.seed,
        )

    def claims(
        self, job: Job[AttackSpec], known: _KnownRisk | None, schedule: Schedule
    ) -> tuple[Claims, bool, Fit | None]:
        """Find τ of the synthetic files, whether all fits converged, and the original's fit."""
        spec, files = self.spec, self.files
        original = self.sample(files.original, self.original)
        converged: list[bool] = []
        label = self.model.label

        fits: list[Fit] = []

        def estimate(table: CellTable) -> RiskEstimate:
            job.watcher.stage(f"Fitting {label} for τ1")
            model = build_model(self.model.name, self.model.options)
            fit = schedule.job(job, RISK).fit(f"tau1-{table.fingerprint[:16]}", model, table)
            fits.append(fit)
            found = fit.estimate(spec.report.level)
            converged.append(found.converged)
            return found

        def of_synthetic(number: int) -> RiskEstimate:
            return estimate(self.sample(files.synthetic[number], self.synthetic[number]))

        tau1, r1 = None, None
        fitted = spec.population_size is not None
        if known is not None:
            n, n_uniques = len(files.original), original.n_uniques
            if len(known.r1) != n or known.n_uniques > n_uniques:
                raise DataError(
                    f"The assessment in {known.folder} is of {len(known.r1):,} records with "
                    f"{known.n_uniques:,} sample uniques, and the original has {n:,} with "
                    f"{n_uniques:,}; name an assessment of this file."
                )
            tau1, r1, label = known.tau1, known.r1, known.model
        elif fitted:
            found = estimate(original)
            tau1 = found.tau1
            r1 = np.nan_to_num(found.records.r1)[found.table.record_cell]
        by_file = claimed(
            files,
            r1,
            of_synthetic if fitted else None,
            seed=spec.sampling.seed,
            level=spec.report.level,
        )
        size = spec.population_size if known is None else known.population_size
        return (
            Claims(
                model=None if tau1 is None else label,
                population_size=size,
                tau1=tau1,
                by_file=by_file,
            ),
            all(converged),
            fits[0] if known is None and fitted else None,
        )
