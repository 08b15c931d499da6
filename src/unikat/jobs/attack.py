"""Attack synthetic files: from options to an answer, and to the folder of an attack."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from unikat._typing import Float64, Int32
from unikat.data import CellTable, Key
from unikat.data.grouping import numbered_households
from unikat.errors import DataError
from unikat.inference.processes import available_cores
from unikat.inference.progress import SILENT, Watcher
from unikat.jobs.from_python import documented, run_from_python
from unikat.jobs.households import attacked_households
from unikat.jobs.inputs import UNKNOWN, open_data, without_conflicts
from unikat.jobs.job import Job, Tabled, in_folder
from unikat.language.keys import column_of
from unikat.models.households.nested import NestedHouseholds
from unikat.models.named import build_model
from unikat.report.facts.attack import SCHEMA, AttackSummary, FileFacts
from unikat.report.folders.assessment import load
from unikat.report.folders.outputs import RECORDS
from unikat.report.folders.synthesis import fit_beside
from unikat.report.pages.attack import render
from unikat.report.text.attack import terminal_lines
from unikat.report.text.summary import explained
from unikat.risk.estimate import RiskEstimate, Summary
from unikat.spec.attack import AttackSpec
from unikat.spec.from_options import Inputs
from unikat.spec.kinds import ATTACK, Kind
from unikat.spec.model import ModelSpec
from unikat.spec.models import SIMPLEST
from unikat.spec.rules import ZerosSpec
from unikat.spec.tables import FileSpec
from unikat.studies.fit import complete_fit
from unikat.synthesis.attacks import run as attacks
from unikat.synthesis.attacks.claims import Claims, claimed
from unikat.synthesis.attacks.control import Opened, check_control
from unikat.synthesis.attacks.files import Files, Named, aligned
from unikat.synthesis.attacks.households import one_household_unknown
from unikat.synthesis.attacks.posterior import check_model, one_unknown


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Attacks(Tabled):
    """What an intruder learns from synthetic files; from :func:`unikat.attack`.

    `table` has one row per attack.
    """

    summary: AttackSummary
    spec: AttackSpec
    kind: ClassVar[Kind] = ATTACK

    def _page(self, summary: AttackSummary) -> str:
        return render(summary)

    def _table(self) -> pa.Table:
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

    def _repr_html_(self) -> str:
        html: str = self.table._repr_html_()
        return html


@documented(ATTACK)
def attack(data: Any, **options: Any) -> Attacks:
    """Attack synthetic files as an intruder would, and compare with what he has without them.

    Parameters
    ----------
    data
        The original, from which the synthetic files were made: a file or frame as for
        :func:`unikat.assess`; or the path of an ``attack.toml``.

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
    return run_from_python(ATTACK, run, data, options)


@in_folder(ATTACK)
def run(job: Job[AttackSpec]) -> Attacks:
    """Attack the synthetic files of a specification (see :func:`in_folder`)."""
    spec, watcher = job.spec, job.watcher
    asked = load_and_check(spec, job.inputs, watcher)
    model, files, names, data = asked.model, asked.files, asked.names, asked.data
    original = data.named
    wanted = [column_of(one) for one in spec.targets] or names
    link = [name for name in names if name in (spec.link or names[: (len(names) + 1) // 2])]
    rest = [name for name in names if name not in link]
    results = attacks.attack(
        files,
        [files.names.index(name) for name in wanted],
        ([names.index(name) for name in link], [names.index(name) for name in rest]),
        n_attacks=spec.attacks,
        seed=spec.sampling.seed,
        level=spec.report.level,
        n_threads=spec.sampling.threads or available_cores(),
        stage=watcher.stage,
    )
    claims, converged = asked.persons.claims(job, asked.known)
    posterior = household_posterior = None
    if model is not None:
        assert spec.model is not None
        assert asked.table is not None
        how: dict[str, Any] = {
            "label": spec.model.label,
            "seed": spec.sampling.seed,
            "plan": job.plan,
            "level": spec.report.level,
            "execution": job.execution,
        }
        if isinstance(model, NestedHouseholds):
            both, more = one_household_unknown(model, asked.table, asked.synthetic, **how)
            household_posterior, posterior = both
        else:
            posterior, more = one_unknown(model, asked.table, asked.synthetic, **how)
        results = (*results, *more)
        converged = converged and posterior.converged
    summary = explained(
        AttackSummary(
            schema=SCHEMA,
            original=_facts(data),
            synthetic=tuple(map(_facts, asked.made)),
            control=None if asked.control is None else _facts(asked.control),
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
            converged=converged,
            sentences={},
            provenance=job.record(original.table.fingerprint),
        )
    )
    return job.finished(Attacks(summary=summary, spec=spec, folder=job.folder, _frames=job.frames))


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


def load_and_check(spec: AttackSpec, inputs: Inputs, watcher: Watcher) -> Loaded:
    """Read all files of an attack, and check all that can be checked before the first one.

    Raises
    ------
    SpecError, DataError
        If an option or the files are wrong.
    """
    model = None if spec.model is None else build_model(spec.model.name, spec.model.options)
    watcher.stage("Reading")
    names = [column_of(one) for one in spec.all_keys]
    if model is not None:
        check_model(model)
    known = None if spec.risk is None else _known_risk(spec.risk.path, names)
    further = [one for one in spec.targets if column_of(one) not in names]
    used = [*spec.all_keys, *further]
    data = _opened(spec, spec.data, used, inputs.data, watcher=watcher)
    made = list(_synthetic(spec, used, inputs.synthetic))
    control, population = (
        None if one is None else _opened(spec, one, used, frame, what)
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
    if control is not None:
        watcher.stage("Comparing the control file")
        check_control(files, data, made, control, spec.sampling.seed)
    persons = _Persons(spec, files, original.table, [one.table for one in synthetic])
    table: CellTable | None = None
    codes: Sequence[Int32] = [one[:, : len(names)] for one in files.synthetic]
    if isinstance(model, NestedHouseholds):
        table, codes = attacked_households(spec, files, original, synthetic, watcher)
    elif model is not None:
        table = persons.table(files.original, spec.zeros)
    return Loaded(model, names, data, made, control, files, persons, known, table, codes)


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
    """Read an assessment of the original.

    Raises
    ------
    OutputError
        If there is none, or a file was changed.
    DataError
        If it has other keys.
    """
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

    def claims(self, job: Job[AttackSpec], known: _KnownRisk | None) -> tuple[Claims, bool]:
        """Find τ of the synthetic files, and whether all fits converged.

        Raises
        ------
        DataError
            If the assessment is of another file.
        """
        spec, files = self.spec, self.files
        original = self.sample(files.original, self.original)
        converged: list[bool] = []
        label = self.model.label

        def estimate(table: CellTable) -> RiskEstimate:
            job.watcher.stage(f"Fitting {label} for τ1")
            found = complete_fit(
                f"tau1-{table.fingerprint[:16]}",
                build_model(self.model.name, self.model.options),
                table,
                seed=spec.sampling.seed,
                plan=job.plan,
                level=spec.report.level,
                execution=job.execution,
            ).estimate(spec.report.level)
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
        )


def _facts(file: Opened) -> FileFacts:
    return FileFacts(
        name=file.named.name, n_records=file.named.table.n_records, fit=fit_beside(file.path)
    )


def _synthetic(spec: AttackSpec, keys: Sequence[str], frames: Sequence[Any]) -> Iterator[Opened]:
    """Read the synthetic files; a folder of synthetic_1, synthetic_2, ... is these files."""
    left = iter(frames)
    for number, file in enumerate(spec.synthetic, start=1):
        if file.path is None:
            what = "The synthetic frame" if len(frames) == 1 else f"Synthetic frame {number}"
            yield _opened(spec, file, keys, next(left, None), what)
            continue
        paths = [file.path]
        if file.path.is_dir() and (several := _numbered(file.path)):
            paths = several
        for path in paths:
            yield _opened(spec, file.model_copy(update={"path": path}), keys)


def _numbered(folder: Path) -> list[Path]:
    """Files synthetic_1, synthetic_2, ... of a folder, in order."""
    found = {
        int(match[1]): path
        for path in folder.iterdir()
        if (match := re.fullmatch(r"synthetic_([0-9]+)\..+", path.name))
    }
    return [found[number] for number in sorted(found)]


def _opened(
    spec: AttackSpec,
    file: FileSpec,
    keys: Sequence[str],
    frame: Any = None,
    what: str = "The original",
    watcher: Watcher = SILENT,
) -> Opened:
    """Read a file with the options of the original, a missing value as a level of its own."""
    if file.path is None and frame is None:
        raise DataError(
            f"{what} has no file, as in a run of a data frame. Write its path into the "
            "specification, or pass the file or frame itself with the options."
        )
    own = {name: getattr(file, name) for name in FileSpec.model_fields}
    for name in ("delimiter", "encoding", "decimal"):
        # Text files are alike unless something else is said.
        own[name] = own[name] or getattr(spec.data, name)
    data = spec.data.model_copy(update={**own, "missing": "level"})
    constant = file is not spec.data
    others = file is spec.control or file is spec.population
    drawn = file is spec.data or (spec.of_households and not others)
    design = replace(UNKNOWN, household=spec.household) if drawn else UNKNOWN
    # What codes mean is the same in all files: none of those declared missing is a level.
    microdata = open_data(
        data, keys, design, frame, watcher=watcher, constant_keys=constant, answers={}
    )
    name = what if file.path is None else file.path.name
    of_record = None
    if file is spec.population:
        together = False
    elif file is spec.control:
        # It need not tell who lives together; if it does, its persons are not independent.
        together = {*spec.household} <= {*microdata.source.columns}
    else:
        together = drawn
    if spec.household and together:
        of_record = numbered_households(microdata, spec.household, spec.data.missing_values)
    return Opened(Named(name, microdata.tabulate(), of_record), microdata, file.path)
