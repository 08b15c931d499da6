"""The content of `summary.json` of an evaluation."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from unikat.data.grouping import HouseholdSample
from unikat.data.table import CellTable
from unikat.data.units import HOUSEHOLD, RECORD, Unit
from unikat.report.facts.households import HouseholdsFacts
from unikat.report.facts.overview import Overview
from unikat.report.facts.zeros import ZerosFacts, zeros_facts
from unikat.spec.evaluation import SECOND_SAMPLE, EvaluationSpec
from unikat.spec.provenance import Provenance
from unikat.studies.designs import Population
from unikat.studies.evaluate import Evaluation, Study
from unikat.studies.pooled import ModelScore, summarise_fits
from unikat.studies.side_by_side import SynthesizerScore, summarise_synthetic
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
    synthesizers: tuple[str, ...] = ()
    """Generators of synthetic files, without those of others."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A fit that gave no estimate."""

    model: str
    n: int
    repeat: int
    message: str


@dataclass(frozen=True, kw_only=True)
class EvaluationSummary(Overview):
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
    others: tuple[str, ...] = ()
    """Formulas and other programs, whose results stand after those of the models."""
    results: tuple[ModelScore, ...]
    """One entry per size and model, and then those of the formulas."""
    synthesizers: tuple[SynthesizerScore, ...] = ()
    """One entry per size and generator of synthetic files; those of others come last."""
    failures: tuple[Failure, ...]
    warnings: tuple[str, ...]
    provenance: Provenance
    zeros: ZerosFacts | None = None
    """Impossible combinations; None if none were declared."""
    households: HouseholdsFacts | None = None
    """What a household is, where they are the units."""

    @property
    def unit(self) -> Unit:
        """What was drawn and is at risk."""
        return RECORD if self.households is None else HOUSEHOLD

    def overview(self) -> list[dict[str, Any]]:
        """Bias of τ1 and coverage of its intervals, by model and size of the samples."""
        models = [
            {
                "model": one.model,
                "n": one.n,
                "samples": one.n_samples,
                "tau1_true": one.tau1.truth,
                "tau1_bias": one.tau1.bias,
                "coverage": one.tau1.coverage,
            }
            for one in self.results
            if one.tau1 is not None
        ]
        generators = [
            {"synthesizer": one.synthesizer, "n": one.n, "files": one.n_samples}
            for one in self.synthesizers
        ]
        return models or generators


def evaluation_facts(
    evaluation: Evaluation,
    population: Population,
    spec: EvaluationSpec,
    provenance: Provenance,
    handled: Handled | None = None,
    households: HouseholdSample | None = None,
) -> EvaluationSummary:
    """Bring an evaluation into the form of `summary.json`."""
    table, study, scores = population.table, evaluation.study, evaluation.scores
    told, synthetic = evaluation.told, evaluation.synthetic
    made = [one for one in synthetic if one.model in evaluation.synthesizers]
    fitted = [*scores, *made]
    failures = tuple(
        Failure(model=score.model, n=score.n, repeat=score.repeat, message=score.error)
        for score in fitted
        if score.error is not None
    )
    n_unconverged = sum(score.error is None and not score.converged for score in fitted)
    facts = PopulationFacts(
        data=spec.data.name,
        n_units=population.n_units,
        n_cells=table.n_cells,
        n_uniques=int((table.counts == 1).sum()),
        n_keys=len(table.variables),
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
        synthesizers=evaluation.synthesizers,
    )
    n_labels = len(evaluation.models) + len(study.formulas) + len(evaluation.synthesizers)
    return EvaluationSummary(
        schema=SCHEMA,
        seed=study.seed,
        complete=evaluation.complete,
        converged=not n_unconverged,
        n_fits=len(study.sizes) * study.repeats * n_labels,
        n_done=len(fitted),
        n_failed=len(failures),
        n_unconverged=n_unconverged,
        seconds=round(sum(score.seconds or 0.0 for score in fitted), 3),
        population=facts,
        study=asked,
        others=tuple(dict.fromkeys([*study.formulas, *(one.model for one in told)])),
        results=summarise_fits([*scores, *told], study.level),
        synthesizers=summarise_synthetic(synthetic, SECOND_SAMPLE, study.level),
        failures=failures,
        warnings=(),
        provenance=provenance,
        zeros=zeros_facts(handled),
        households=None if table.layout is None else HouseholdsFacts.of(table, households),
    )


def _n_incomplete(table: CellTable) -> int:
    if table.layout is not None:
        return int(table.counts[table.layout.missing(table.cells).any(axis=1)].sum())
    missing = [-1 if key.missing_level is None else key.missing_level for key in table.keys]
    return int(table.counts[(table.cells == np.array(missing)).any(axis=1)].sum())
