"""The content of `summary.json` of a comparison: every number that its page shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import nan
from typing import Any

from unikat.data.grouping import HouseholdSample
from unikat.data.table import CellTable
from unikat.data.units import HOUSEHOLD, RECORD, Unit
from unikat.models.base import Uncertainty
from unikat.models.named import Named
from unikat.report.facts.households import HouseholdsFacts
from unikat.report.facts.overview import Overview, estimated
from unikat.report.facts.result import SampleFacts, sample_facts
from unikat.report.facts.taken import taken
from unikat.report.facts.zeros import ZerosFacts, zeros_facts
from unikat.spec.comparison import ComparisonSpec
from unikat.spec.provenance import Provenance
from unikat.studies.compare import ComparedModel, Comparison, ModelRisk, SamplingRecord
from unikat.studies.held_out import LogScore
from unikat.studies.path import SIZES, PathPoint, stabilised
from unikat.zeros.conflicts import Handled

SCHEMA = "unikat.comparison/1"


@dataclass(frozen=True, kw_only=True)
class HeldOutFacts(LogScore):
    """How well a model predicted the held-out records, which are the same for all models."""

    difference: float
    """Mean score minus that of the best model, over the records both give a probability (of a model
    that is not `refuted`: over those that all such models do); above 0 only if it is refuted."""
    difference_standard_error: float
    """Of the difference, record by record."""
    difference_n_records: int
    best: bool
    refuted: bool
    """Gives more records probability zero than the best model: ranked after those that do not,
    whatever its score on the others."""
    sampling: SamplingRecord
    """Of the fit to the records kept; judged on the score of each state."""


@dataclass(frozen=True, kw_only=True)
class ModelFacts(ModelRisk):
    """One model of the comparison."""

    model: str
    """Name and options as given."""
    name: str
    options: dict[str, Any]
    """All options, as used."""
    path_base: str | None
    """The model without the option of the path; None off the path."""
    path_value: float | None
    converged: bool
    """Whether all fits of the model have."""
    held_out: HeldOutFacts | None
    uncertainty: Uncertainty = "posterior"
    """What its draws are draws of."""
    interval_shown: bool = True
    """Whether its intervals are shown; in trials those of such a model were unreliable if not."""


@dataclass(frozen=True, kw_only=True)
class PathFacts:
    """A path over one option of a model."""

    option: str
    base: str
    values: tuple[float, ...]
    chosen: float | None
    """Smallest value from which on τ1 has stabilised; None if it has not, or is no reason to choose
    a value of this option."""
    provisional: bool
    """A fit of the path has not converged."""
    tau1_lowest: float
    """Smallest mean of τ1 on the path."""
    tau1_highest: float
    """Largest mean of τ1 on the path."""


@dataclass(frozen=True, kw_only=True)
class ComparisonSummary(Overview):
    """The content of `summary.json`."""

    schema: str
    data: str | None
    """Name of the file, without its folder."""
    seed: int
    level: float
    held_out: float
    """Share of held-out records; 0 for none."""
    seconds: float
    """Time spent sampling, all fits together."""
    converged: bool
    sample: SampleFacts
    models: tuple[ModelFacts, ...]
    paths: tuple[PathFacts, ...]
    sentences: dict[str, str]
    provenance: Provenance
    zeros: ZerosFacts | None = None
    """Impossible combinations; None if none were declared."""
    households: HouseholdsFacts | None = None
    """What a household is, where they are the units."""

    @property
    def unit(self) -> Unit:
        """What is at risk."""
        return RECORD if self.households is None else HOUSEHOLD

    @property
    def n_left_out(self) -> int:
        """Units of the file that were left out because they break a rule."""
        if self.households is not None:
            return self.households.n_left_out
        return 0 if self.zeros is None else self.zeros.n_dropped

    def overview(self) -> list[dict[str, Any]]:
        """τ1, τ2 and the held-out score of each model."""
        return [
            {
                "model": one.model,
                **estimated(shown=one.interval_shown, tau1=one.tau1, tau2=one.tau2),
                "log_score_difference": None if one.held_out is None else one.held_out.difference,
                "refuted": None if one.held_out is None else one.held_out.refuted,
                "converged": one.converged,
            }
            for one in self.models
        ]


def comparison_facts(
    comparison: Comparison,
    named: Sequence[Named],
    table: CellTable,
    spec: ComparisonSpec,
    provenance: Provenance,
    handled: Handled | None = None,
    households: HouseholdSample | None = None,
) -> ComparisonSummary:
    """Bring a comparison into the form of `summary.json`; `named` are the models in its order."""
    fewest = min(
        (model.held_out.score.n_zero for model in comparison.models if model.held_out is not None),
        default=0,
    )
    models = tuple(
        _model_facts(model, name, fewest)
        for model, name in zip(comparison.models, named, strict=True)
    )
    fits = [model.sampling for model in models]
    fits += [model.held_out.sampling for model in models if model.held_out is not None]
    return ComparisonSummary(
        schema=SCHEMA,
        data=spec.data.name,
        seed=spec.sampling.seed,
        level=spec.report.level,
        held_out=spec.held_out,
        seconds=round(sum(fit.seconds for fit in fits), 3),
        converged=comparison.converged,
        sample=sample_facts(table),
        models=models,
        paths=_paths(models, {model.label: model for model in comparison.models}, spec),
        sentences={},
        provenance=provenance,
        zeros=zeros_facts(handled),
        households=None if table.layout is None else HouseholdsFacts.of(table, households),
    )


def _model_facts(model: ComparedModel, named: Named, fewest_zeros: int) -> ModelFacts:
    held_out = None
    if model.held_out is not None and model.difference is not None:
        score = model.held_out.score
        held_out = HeldOutFacts(
            **taken(LogScore, score),
            difference=model.difference.mean,
            difference_standard_error=model.difference.standard_error,
            difference_n_records=model.difference.n_records,
            best=model.best,
            refuted=score.n_zero > fewest_zeros,
            sampling=model.held_out.sampling,
        )
    # `fit` names the model that `auto` selected; the options are those that were given.
    options: Any = model.model.as_specified
    return ModelFacts(
        model=model.label,
        name=named.name,
        options=asdict(options),
        path_base=named.base,
        path_value=named.value,
        converged=model.converged,
        held_out=held_out,
        uncertainty=model.model.uncertainty,
        **taken(ModelRisk, model.risk),
    )


def _paths(
    models: Sequence[ModelFacts], found: Mapping[str, ComparedModel], spec: ComparisonSpec
) -> tuple[PathFacts, ...]:
    """Judge each path; there is one for every model that has the option."""
    if spec.path is None:
        return ()
    paths = []
    for base in dict.fromkeys(model.path_base for model in models if model.path_base):
        members = [model for model in models if model.path_base == base]
        points = [
            PathPoint(
                value=nan if model.path_value is None else model.path_value,
                mean=model.tau1.mean,
                deviation=found[model.model].risk.tau1_deviation,
                ess=nan if model.tau1.ess_bulk is None else model.tau1.ess_bulk,
            )
            for model in members
        ]
        paths.append(
            PathFacts(
                option=spec.path.option,
                base=base,
                values=tuple(point.value for point in points),
                chosen=stabilised(points) if spec.path.option in SIZES else None,
                provisional=not all(model.sampling.converged for model in members),
                tau1_lowest=min(point.mean for point in points),
                tau1_highest=max(point.mean for point in points),
            )
        )
    return tuple(paths)
