"""The content of `summary.json` of an evaluation."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from unikat.data.table import CellTable
from unikat.report.facts.zeros import ZerosFacts, zeros_facts
from unikat.spec.evaluation import EvaluationSpec
from unikat.spec.provenance import Provenance
from unikat.studies.designs import Population
from unikat.studies.evaluate import Evaluation, Study
from unikat.studies.scores import ModelScore, summarise_fits
from unikat.zeros.conflicts import Handled

SCHEMA = "unikat.evaluation/1"


@dataclass(frozen=True, kw_only=True)
class PopulationFacts:
    """The file that was taken as the population."""

    data: str | None
    """Name of the file, without its folder."""
    n_units: int
    n_cells: int
    """Combinations of key values that occur."""
    n_uniques: int
    """Units that are alone with their combination."""
    n_keys: int
    keys: tuple[str, ...]
    missing: str
    n_incomplete: int
    """Units with a missing key; missing is then a level."""


@dataclass(frozen=True, kw_only=True)
class StudyFacts(Study):
    """What was drawn and fitted, with the columns that tell it."""

    strata: str | None
    size: str | None
    """Column of the units' sizes, to which their probabilities are in proportion."""
    household: tuple[str, ...]
    """Columns that together identify the household, where whole households were drawn."""
    models: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A fit that gave no estimate."""

    model: str
    n: int
    repeat: int
    message: str


@dataclass(frozen=True, kw_only=True)
class EvaluationSummary:
    """The content of `summary.json`."""

    schema: str
    seed: int
    complete: bool
    """Whether all fits were made; false after an interruption."""
    converged: bool
    """Whether all fits that were made converged."""
    n_fits: int
    """Fits asked for."""
    n_done: int
    n_failed: int
    n_unconverged: int
    seconds: float
    """Spent sampling, all fits together."""
    population: PopulationFacts
    study: StudyFacts
    results: tuple[ModelScore, ...]
    """One entry per size and model."""
    failures: tuple[Failure, ...]
    warnings: tuple[str, ...]
    provenance: Provenance
    zeros: ZerosFacts | None = None
    """Impossible combinations; None if none were declared."""


def evaluation_facts(
    evaluation: Evaluation,
    population: Population,
    spec: EvaluationSpec,
    provenance: Provenance,
    handled: Handled | None = None,
) -> EvaluationSummary:
    """Bring an evaluation into the form of `summary.json`."""
    table, study, scores = population.table, evaluation.study, evaluation.scores
    failures = tuple(
        Failure(model=score.model, n=score.n, repeat=score.repeat, message=score.error)
        for score in scores
        if score.error is not None
    )
    n_unconverged = sum(score.error is None and not score.converged for score in scores)
    facts = PopulationFacts(
        data=spec.data.name,
        n_units=population.n_units,
        n_cells=table.n_cells,
        n_uniques=int((table.counts == 1).sum()),
        n_keys=table.n_keys,
        keys=spec.keys,
        missing=table.missing,
        n_incomplete=_n_incomplete(table),
    )
    asked = StudyFacts(
        **{one.name: getattr(study, one.name) for one in fields(study)},
        strata=spec.strata,
        size=spec.size,
        household=spec.household,
        models=evaluation.models,
    )
    return EvaluationSummary(
        schema=SCHEMA,
        seed=study.seed,
        complete=evaluation.complete,
        converged=not n_unconverged,
        n_fits=len(study.sizes) * study.repeats * len(evaluation.models),
        n_done=len(scores),
        n_failed=len(failures),
        n_unconverged=n_unconverged,
        seconds=round(sum(score.seconds or 0.0 for score in scores), 3),
        population=facts,
        study=asked,
        results=summarise_fits(scores),
        failures=failures,
        warnings=(),
        provenance=provenance,
        zeros=zeros_facts(handled),
    )


def _n_incomplete(table: CellTable) -> int:
    missing = [-1 if key.missing_level is None else key.missing_level for key in table.keys]
    return int(table.counts[(table.cells == np.array(missing)).any(axis=1)].sum())
