"""An evaluation: from a specification to the folder of a study.

| file | what it is |
|---|---|
| `evaluation.parquet` | one row per sample and model |
| `summary.json` | bias, error, coverage and record-level scores of every model and size |
| `evaluation.html` | the page |
| `evaluation.toml` | the study as run |
| `tasks/` | finished fits, from which `--resume` goes on |
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from unikat._typing import Int64
from unikat.errors import DataError, OutputError, SpecError
from unikat.inference.backends import Workers
from unikat.inference.chains import Plan, StopRule
from unikat.provenance import Provenance, package_version
from unikat.report.evaluation_html import render
from unikat.report.evaluation_spec import EvaluationSpec
from unikat.report.evaluation_store import FOLDER as TASKS
from unikat.report.evaluation_store import FitStore
from unikat.report.evaluation_summary import EvaluationSummary, summarise
from unikat.report.files import all_or_nothing, create, finish, json_text, make_folder, write_text
from unikat.report.source import UNKNOWN, open_data, tabulate, without_conflicts
from unikat.risk.designs import Population
from unikat.risk.evaluate import Evaluation, Study, StudyProgress, check_study, evaluate
from unikat.risk.scores import FitScore
from unikat.specification import SamplingSpec
from unikat.zeros.conflicts import Handled

TABLE, SUMMARY = "evaluation.parquet", "summary.json"
PAGE, SPEC = "evaluation.html", "evaluation.toml"
FILES = (TABLE, SPEC, PAGE, SUMMARY)
_MEASURES = ("tau1", "tau2", "tau1_expected", "tau2_expected")
_PARTS = ("mean", "median", "lower", "upper")


def run(
    spec: EvaluationSpec,
    folder: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    progress: Callable[[StudyProgress], None] | None = None,
    stage: Callable[[str], None] | None = None,
) -> EvaluationSummary:
    """Evaluate models on samples from a file, and write the results into a folder.

    Parameters
    ----------
    spec
        What to do.
    folder
        Where the results go, and finished fits meanwhile.
    resume
        Go on with the study in the folder; models, sizes and repeats may have been added.
    overwrite
        Replace the study that is in the folder.
    progress
        Told after every fit.
    stage
        Told, in words, what is done now.

    Returns
    -------
    EvaluationSummary
        The content of `summary.json`. After Ctrl-C `complete` is false.

    Raises
    ------
    SpecError, DataError
        If anything asked for is wrong. Nothing was written.
    OutputError
        If the folder holds a study and neither `resume` nor `overwrite` is set, or holds another
        study than the one to resume, or cannot be written to.
    """
    tell = stage if stage is not None else _ignore
    started = datetime.now(UTC)
    models, plan = spec.build_models(), _plan(spec.sampling)
    check_folder(folder, resume=resume, overwrite=overwrite)
    tell("Reading")
    population, handled = read_population(spec)
    study = Study(
        sizes=spec.sample_sizes(population.n_units),
        repeats=spec.repeats,
        design=spec.design,
        allocation=spec.allocation,
        power=0.5 if spec.power is None else spec.power,
        seed=spec.sampling.seed,
        plan=plan,
        level=spec.level,
    )
    check_study(population, models, study)
    made = make_folder(folder)
    store = FitStore(folder, _identity(study, population))
    try:
        store.open(resume=resume)
        tell("Fitting")
        found = evaluate(
            population,
            models,
            study,
            workers=Workers(n_workers=spec.sampling.workers, n_threads=spec.sampling.threads),
            store=store,
            progress=progress,
        )
        tell("Writing")
        record = Provenance.now(
            seed=study.seed, data_fingerprint=population.fingerprint, started=started
        )
        return write(found, population, _completed(spec, study), folder, record, handled)
    finally:
        store.discard_if_empty()
        if made:
            # Succeeds only if nothing was kept in it.
            with contextlib.suppress(OSError):
                folder.rmdir()


def write(
    evaluation: Evaluation,
    population: Population,
    spec: EvaluationSpec,
    folder: Path,
    provenance: Provenance,
    handled: Handled | None = None,
) -> EvaluationSummary:
    """Write an evaluation into a folder, all files or none.

    Raises
    ------
    OutputError
        If anything cannot be written; what was in the folder is then still there.
    """
    summary = summarise(evaluation, population, spec, provenance, handled)
    note = (
        ""
        if spec.sampling.max_seconds is None
        else "Fits had a time limit, so a repetition does not give exactly the same numbers."
    )
    with all_or_nothing(folder, FILES, SUMMARY) as scratch:
        _write_table(evaluation.scores, summary, scratch / TABLE)
        write_text(scratch / SPEC, spec.to_toml(folder, note))
        write_text(scratch / PAGE, render(summary, evaluation.scores))
        write_text(scratch / SUMMARY, json_text(asdict(summary)))
    return summary


def read_population(spec: EvaluationSpec) -> tuple[Population, Handled | None]:
    """Read the file of a specification as a population.

    Also says what was done with units that have an impossible combination, if any combination is.

    Raises
    ------
    DataError, SpecError
        If it cannot be read, or a unit has a missing key that is not taken as a level, or an
        impossible combination that is not to be left out; if the strata or the sizes of the units
        cannot be used.
    """
    # The population size is the number of rows, which is not known before they are read.
    microdata = open_data(spec.data, spec.keys, UNKNOWN)
    table = microdata.tabulate()
    strata = None if spec.strata is None else _strata(spec, table.n_records)
    measure = None if spec.size is None else microdata.numbers(spec.size)
    if spec.zeros is None:
        return Population.of(table, strata, measure), None
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
    return Population.of(handled.table, strata, measure), handled


def check_folder(folder: Path, *, resume: bool = False, overwrite: bool = False) -> None:
    """Refuse a folder that holds another study, before any work is done.

    Raises
    ------
    OutputError
        With what to do.
    """
    if resume and overwrite:
        raise SpecError("--resume and --overwrite exclude each other; give one of them.")
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file, not a folder; choose another --out.")
    found = [name for name in FILES if (folder / name).exists()]
    unfinished = (folder / TASKS).exists()
    if resume and found and not unfinished:
        raise OutputError(
            f"The fits of the study in {folder} are gone (its folder {TASKS}), so it cannot be "
            "resumed; repeat it with --overwrite."
        )
    if resume or overwrite or not (found or unfinished):
        return
    what = f"an evaluation ({', '.join(found)})" if found else "an unfinished evaluation"
    raise OutputError(
        f"The folder {folder} already holds {what}. Give --resume to go on with it, --overwrite "
        "to replace it, or another --out. Nothing was written."
    )


def _strata(spec: EvaluationSpec, n_units: int) -> Int64:
    """Number of the stratum of each unit; a missing value is a stratum of its own."""
    data = spec.data
    assert data.path is not None
    assert spec.strata is not None
    name = spec.strata.partition(":")[0]
    # Two columns, since one alone is refused as a set of keys.
    other = next(key for key in spec.keys if key.partition(":")[0] != name)
    try:
        as_levels = data.model_copy(update={"missing": "level"})
        table = tabulate(as_levels, [spec.strata, other], UNKNOWN)
    except DataError as error:
        raise DataError(f"The strata cannot be used. {error}") from None
    if table.n_records != n_units:
        raise DataError(f"{data.path.name} has changed since it was read; read it again.")
    _, strata = np.unique(table.cells[table.record_cell, 0], return_inverse=True)
    return strata.astype(np.int64)


def _plan(sampling: SamplingSpec) -> Plan:
    limits = {} if sampling.max_sweeps is None else {"max_sweeps": sampling.max_sweeps}
    return Plan(
        n_chains=sampling.chains,
        thin=sampling.thin,
        stop=StopRule(
            rhat=sampling.rhat, ess=sampling.ess, max_seconds=sampling.max_seconds, **limits
        ),
    )


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
        "unikat version": package_version(),
    }


def _design(study: Study) -> str:
    if study.allocation == "proportional":
        return study.design
    power = f" {float(study.power)!r}" if study.allocation == "power" else ""
    return f"{study.design}, {study.allocation}{power}"


def _completed(spec: EvaluationSpec, study: Study) -> EvaluationSpec:
    """Write down what was left to be decided."""
    sampling = spec.sampling.model_copy(update={"max_sweeps": study.plan.stop.max_sweeps})
    return spec.model_copy(update={"sampling": sampling, "n": study.sizes})


def _write_table(scores: Sequence[FitScore], summary: EvaluationSummary, path: Path) -> None:
    schema = _schema().with_metadata(
        {
            "unikat.schema": summary.schema,
            "unikat.version": summary.provenance.unikat,
            "unikat.seed": str(summary.seed),
            "unikat.complete": "true" if summary.complete else "false",
        }
    )
    table = pa.Table.from_pylist([_row(score) for score in scores], schema=schema)
    with create(path) as file:
        pq.write_table(table, file, compression="zstd")
        finish(file)


def _row(score: FitScore) -> dict[str, object]:
    names = (
        "model", "n", "repeat", "n_drawn", "n_uniques", "tau1_true", "tau2_true", "stop_reason",
        "rhat", "ess", "n_sweeps", "seconds", "error",
    )  # fmt: skip
    row: dict[str, object] = {name: getattr(score, name) for name in names}
    row["converged"] = None if score.error is not None else score.converged
    for measure in _MEASURES:
        summary = getattr(score, measure)
        for part in _PARTS:
            row[f"{measure}_{part}"] = None if summary is None else getattr(summary, part)
    return row


def _schema() -> pa.Schema:
    whole, real = pa.int64(), pa.float64()
    fields = [("model", pa.string())]
    fields += [(name, whole) for name in ("n", "repeat", "n_drawn", "n_uniques")]
    for measure in ("tau1", "tau2"):
        fields.append((f"{measure}_true", real))
        fields += [(f"{measure}_{part}", real) for part in _PARTS]
    for measure in ("tau1_expected", "tau2_expected"):
        fields += [(f"{measure}_{part}", real) for part in _PARTS]
    fields += [("converged", pa.bool_()), ("stop_reason", pa.string()), ("rhat", real)]
    fields += [("ess", real), ("n_sweeps", whole), ("seconds", real), ("error", pa.string())]
    return pa.schema(fields)


def _ignore(_: str) -> None:
    """Tell nobody."""
