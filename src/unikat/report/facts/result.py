"""The content of `result.json`: every number that the report shows, and no values of records.

A record is named by its row number alone; its values appear only if the specification asks for
small cells.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from unikat._typing import Float64, Int64
from unikat.data.checks import copies_warning
from unikat.data.households import ABSENT_LABEL
from unikat.data.keys import DeclaredCode
from unikat.data.shared_keys import shared_keys
from unikat.data.table import CellTable
from unikat.data.units import HOUSEHOLD, RECORD, Unit
from unikat.inference.diagnostics import Sampled
from unikat.models.base import Uncertainty
from unikat.report.facts.breakdown import Breakdown, breakdowns
from unikat.report.facts.classics import ClassicsResult
from unikat.report.facts.design import DesignResult, MarginResult, design_result, margin_results
from unikat.report.facts.households import HouseholdsResult, households_result
from unikat.report.facts.linkage import LinkageResult
from unikat.report.facts.overview import Overview
from unikat.report.facts.registry import THRESHOLDS, RegistryResult
from unikat.report.facts.release import ReleaseResult
from unikat.report.facts.sensitivity import SensitivityFacts, sensitivity
from unikat.report.facts.supplements import NO_SUPPLEMENTS, Supplements
from unikat.report.facts.taken import taken
from unikat.report.facts.zeros import ZerosResult, zeros_result, zeros_spec
from unikat.risk.estimate import EXPECTED_RHAT, RecordRisk, RiskEstimate, RiskSummary
from unikat.risk.limits import Judged, Measured, Verdict, judge, smallest
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.limits import Limit
from unikat.spec.model import ModelSpec
from unikat.spec.provenance import Provenance
from unikat.zeros.conflicts import Handled

SCHEMA = "unikat.result/1"
Stage: TypeAlias = Literal["preliminary", "final"]
PRELIMINARY = (
    "This is a preliminary answer of one candidate model: the others are still being compared, "
    "and the interval does not cover the model's own error. Wait for the final answer."
)
N_BINS = 20
"""Bins of the histogram of record risks, of equal width from 0 to 1."""
N_TOP = 15
"""Records listed by row number."""
N_REASONS = 3
"""Keys named for a record."""
_RISKS = ("r1", "r1_lower", "r1_upper", "r2")
REASON_FLOOR = 0.005
"""Fall in r1 below which a key is not named."""


@dataclass(frozen=True, kw_only=True)
class SampleFacts:
    """Size of the problem."""

    n_records: int
    n_keys: int
    n_cells: int
    """Different combinations of key values that occur, a missing value being a value."""
    n_uniques: int
    population_size: int
    n_incomplete: int
    """Records with a missing key."""
    missing: str
    """How missing keys were treated."""
    n_combinations: float | None = None
    """Combinations of levels that there are, impossible ones included; None in results of before it
    was kept."""
    smallest: int | None = None
    """Records in the smallest combination of key values (k), a missing value agreeing with any;
    None in results of before it was kept."""
    n_households: int | None = None
    """Households of the records, if whole households were sampled; None if records were drawn one
    by one."""
    n_shared_keys: int | None = None
    """Keys that members of a household share, if whole households were sampled."""
    copies: str | None = None
    """The warning that the file seems to hold copies of households; None if it does not."""

    @property
    def n_possible(self) -> int:
        """Incomplete records that may be unique: all, where missing keys are integrated over."""
        return self.n_incomplete if self.missing == "integrate" else 0

    @property
    def n_at_risk(self) -> int:
        """Records that τ1 and τ2 are about: sample uniques, and incomplete records."""
        return self.n_uniques + self.n_possible

    @property
    def dense(self) -> bool:
        """There are at least as many records as combinations of levels."""
        return self.n_combinations is not None and self.n_records >= self.n_combinations


@dataclass(frozen=True, kw_only=True)
class KeyFacts:
    """One key variable."""

    name: str
    n_levels: int
    n_missing: int
    binning: str | None
    tau1_without: float | None
    """Expected τ1 if this key were left out; None where it was not computed."""
    drop: float | None
    """Fall in expected τ1 if this key were left out."""
    declared: tuple[DeclaredCode, ...] = ()
    """Codes that are declared missing, and what they were taken for."""


@dataclass(frozen=True, kw_only=True)
class Reason:
    """A key that makes a record rare."""

    key: str
    drop: float
    """Fall in the record's r1 if the key is left out."""


@dataclass(frozen=True, kw_only=True)
class TopRecord:
    """A record at great risk, by its row number in the file (the first is 1)."""

    row: int
    r1: float
    r1_lower: float
    r1_upper: float
    r2: float
    reasons: tuple[Reason, ...]
    reasons_computed: bool = True
    """Whether `reasons` were computed; if not, none are given."""
    values: dict[str, str] | None = None
    """Label of every key; only if small cells were asked for."""
    r1_shown: float | None = None
    """r1 by what the file shows of the record; None unless missing keys are integrated over."""


@dataclass(frozen=True, kw_only=True)
class AtLeast:
    """Number of records whose r1 is at least a threshold."""

    r1: float
    records: int


@dataclass(frozen=True, kw_only=True)
class RecordFacts:
    """Record risks in numbers that name no cell."""

    n_judged: int
    """Records at risk, which have an r1: the sample uniques, and the incomplete records where
    missing keys are integrated over (`SampleFacts.n_at_risk`)."""
    at_least: tuple[AtLeast, ...]
    histogram: tuple[int, ...]
    """Records by r1, in bins of equal width from 0 to 1, the last including 1."""
    top: tuple[TopRecord, ...]
    values_shown: bool


@dataclass(frozen=True, kw_only=True)
class SamplingFacts(Sampled):
    """How the posterior was sampled, and when that was to end."""

    rhat_target: float
    ess_target: float


@dataclass(frozen=True, kw_only=True)
class ChainFacts:
    """τ1 from one chain alone."""

    chain: int
    """Number of the chain, from 1."""
    tau1: float
    """Mean of τ1."""
    lower: float
    upper: float
    share: float
    """The mean as a part of the records that have an r1."""


@dataclass(frozen=True, kw_only=True)
class Result(RiskSummary, Overview):
    """The content of `result.json`: what was found of the file as a whole, and how."""

    schema: str
    model: str
    model_options: dict[str, Any]
    seed: int
    seconds: float
    stop_reason: str
    known_exactly: bool
    """The file itself determines τ1 and τ2, so nothing was sampled."""
    data: str | None
    """Name of the file, without its folder."""
    sample: SampleFacts
    keys: tuple[KeyFacts, ...]
    records: RecordFacts
    sampling: SamplingFacts | None
    sentences: dict[str, str]
    provenance: Provenance
    zeros: ZerosResult | None = None
    """Impossible combinations; None if none were declared."""
    chains: tuple[ChainFacts, ...] = ()
    """τ1 by chain if the chains have not converged; else empty."""
    uncertainty: Uncertainty | None = "posterior"
    """What the draws are draws of; None where the risk is known exactly."""
    fit: dict[str, Any] = field(default_factory=dict)
    """What the model says of its fit; empty where it says nothing."""
    design: DesignResult | None = None
    """How the sample was drawn; None for equal chances."""
    margins: tuple[MarginResult, ...] = ()
    """Known counts of the population; empty without them."""
    registry: RegistryResult | None = None
    """Risk of a registry's records; None if there is no registry."""
    release: ReleaseResult | None = None
    """Risk of who has another release of the same persons, too; None if there is none. All other
    numbers are then by the keys of both, as if every record were linked right."""
    classics: ClassicsResult | None = None
    """The classic measures; None if they were not asked for."""
    linkage: LinkageResult | None = None
    """Links of an intruder whose keys have errors; None if they were not asked for."""
    stage: Stage = "final"
    """`preliminary` while a model is being selected: the answer of the first candidate."""
    breakdowns: tuple[Breakdown, ...] = ()
    """Risk by the levels of the keys and of further columns; empty in older results."""
    threshold: Judged | None = None
    """The limit and whether it is met; None if none was set."""
    verdict: Verdict | None = None
    """That of `threshold`."""
    sensitivity: tuple[SensitivityFacts, ...] = ()
    """τ1 under other assumptions; empty in older results."""
    households: HouseholdsResult | None = None
    """Household risk, of the model `households`: all other numbers are then of households too; None
    where the units are persons."""

    @property
    def unit(self) -> Unit:
        """The words for what all numbers are of."""
        return RECORD if self.households is None else HOUSEHOLD

    @property
    def fitted_model(self) -> str:
        """Name of the model whose parameters were fitted: where `auto` chose, of the chosen one."""
        chosen = self.fit.get("chosen")
        return self.model if chosen is None else ModelSpec.of(str(chosen)).name

    def overview(self) -> list[dict[str, Any]]:
        """τ1 and τ2, and those of the published file where these are others."""
        rows = (
            ("tau1", self.tau1),
            ("tau2", self.tau2),
            ("tau1_shown", self.tau1_shown),
            ("tau2_shown", self.tau2_shown),
        )
        return [
            {
                "measure": name,
                "mean": one.mean,
                "median": one.median,
                "lower": one.lower,
                "upper": one.upper,
                "rhat": one.rhat,
                "ess_bulk": one.ess_bulk,
            }
            for name, one in rows
            if one is not None
        ]


def assessment_facts(
    estimate: RiskEstimate,
    spec: AssessmentSpec,
    provenance: Provenance,
    handled: Handled | None = None,
    supplements: Supplements = NO_SUPPLEMENTS,
    stage: Stage = "final",
) -> Result:
    """Bring an estimate into the form of `result.json`, as the answer or a preliminary one.

    There are no sentences yet, and the limit is judged as if the numbers could be relied upon.
    """
    table, draws = estimate.table, estimate.draws
    if stage == "preliminary":
        # Who asks only whether a run converged must not take a candidate for the answer.
        warnings = (PRELIMINARY, *estimate.warnings)
        estimate = replace(estimate, converged=False, warnings=warnings)
    judged = np.flatnonzero(~np.isnan(estimate.records.r1))
    sampling = None
    if draws is not None:
        asked = spec.sampling
        sampling = SamplingFacts.of(draws, rhat_target=asked.rhat, ess_target=asked.ess)
    return Result(
        schema=SCHEMA,
        model=spec.model.name,
        model_options=spec.model.options,
        seed=provenance.seed,
        seconds=0.0 if draws is None else round(draws.seconds, 3),
        stop_reason="known exactly" if draws is None else draws.stop_reason,
        known_exactly=draws is None,
        data=spec.data.name,
        sample=sample_facts(table),
        keys=_key_facts(estimate),
        records=_record_facts(estimate, judged, spec.report.show_small_cells, handled),
        sampling=sampling,
        sentences={},
        provenance=provenance,
        zeros=zeros_result(handled, draws, estimate.tau1.level),
        chains=_chain_facts(estimate, judged),
        uncertainty=None if draws is None else draws.model.uncertainty,
        fit={} if draws is None else draws.facts.values,
        design=design_result(table, spec.design, None if draws is None else draws.model),
        margins=margin_results(table),
        registry=supplements.registry_result(spec),
        release=supplements.release,
        classics=supplements.classics_result(table, spec.report.show_small_cells),
        linkage=supplements.linkage_result(table),
        stage=stage,
        breakdowns=breakdowns(estimate, supplements.columns, show_all=spec.report.show_small_cells),
        threshold=_judged(spec.report.threshold, estimate),
        sensitivity=sensitivity(estimate),
        households=households_result(estimate, supplements.households),
        **taken(RiskSummary, estimate),
    )


def _judged(text: str | None, estimate: RiskEstimate) -> Judged | None:
    limit = None if text is None else Limit.of(text)
    return None if limit is None else judge(limit, [Measured.of(estimate).value(limit)])


def sample_facts(table: CellTable) -> SampleFacts:
    """Size of the problem that a table poses."""
    return SampleFacts(
        n_records=table.n_records,
        n_keys=len(table.variables),
        n_cells=table.n_cells,
        n_uniques=table.n_uniques,
        population_size=table.n_units,
        n_incomplete=int(table.counts[table.incomplete].sum()),
        missing=table.missing,
        smallest=int(smallest(table)),
        n_combinations=(None if table.layout else math.prod(float(n) for n in table.n_levels)),
        n_households=None if table.households is None else len(np.unique(table.households)),
        n_shared_keys=None if table.households is None else len(shared_keys(table)),
        copies=copies_warning(table),
    )


def spec_of(
    estimate: RiskEstimate, base: AssessmentSpec | None = None, handled: Handled | None = None
) -> AssessmentSpec:
    """Write down in full what an estimate was made with; without a file if there is no base.

    A run that ended by the clock or by hand gets the limit of sweeps that it reached, so that
    repeating it gives the same numbers.
    """
    table, draws = estimate.table, estimate.draws
    values: dict[str, Any] = {} if base is None else base.model_dump(by_alias=True)
    if base is None:
        values["keys"] = [
            key.name if key.binning is None else f"{key.name}:{key.binning}" for key in table.keys
        ]
        values["population_size"] = table.n_units
        values["data"] = {"missing": table.missing}
        values["report"] = {"level": estimate.tau1.level}
    if handled is not None and values.get("zeros") is None:
        values["zeros"] = zeros_spec(handled)
    if draws is not None:
        # A calibrated model stands for `auto`, which finds the same again.
        model: Any = draws.model.as_specified
        values["model"] = {"name": model.name, **asdict(model)}
        sampling = values.setdefault("sampling", {})
        sampling |= {"chains": draws.n_chains, "seed": draws.seed, "thin": draws.thin}
        if draws.stop_reason in ("time limit", "interrupted"):
            sampling |= {"max_sweeps": draws.n_sweeps, "max_seconds": None}
    return AssessmentSpec.parse(values)


def reasons(records: RecordRisk, cells: Int64) -> tuple[Int64, Float64]:
    """Keys that do most to make patterns rare, and the falls in r1 without them.

    Cells are (n,); both results (n, N_REASONS or the number of keys if smaller): positions of the
    keys, the worst first, -1 where there is no further key that matters.
    """
    drop = np.nan_to_num(records.key_drop[cells], nan=0.0)
    order = np.argsort(-drop, axis=1, kind="stable")[:, :N_REASONS]
    drops = np.take_along_axis(drop, order, axis=1)
    return np.where(drops >= REASON_FLOOR, order, -1), drops


def _key_facts(estimate: RiskEstimate) -> tuple[KeyFacts, ...]:
    """Describe the keys; the part of τ1 that goes with each is that of the complete uniques."""
    table, records = estimate.table, estimate.records
    known = np.flatnonzero(table.unique & ~np.isnan(records.key_drop).any(axis=1))
    total = float(records.r1[known].sum())
    parts = np.clip(records.key_drop[known].sum(axis=0) / total, 0.0, 1.0) if total > 0 else None
    tau1 = estimate.tau1_expected.mean
    return tuple(
        KeyFacts(
            name=key.name,
            n_levels=key.n_levels,
            n_missing=n_missing,
            binning=key.binning or key.by_hand or None,
            tau1_without=None if parts is None else float((1.0 - parts[j]) * tau1),
            drop=None if parts is None else float(parts[j] * tau1),
            declared=key.declared,
        )
        for j, (key, n_missing) in enumerate(zip(table.variables, table.n_missing, strict=True))
    )


def _chain_facts(estimate: RiskEstimate, judged: Int64) -> tuple[ChainFacts, ...]:
    draws, rhat = estimate.draws, estimate.tau1_expected.rhat
    # An R-hat that is not known is not above the limit.
    if draws is None or draws.n_chains < 2:
        return ()
    if draws.converged and not (rhat is not None and rhat > EXPECTED_RHAT):
        return ()
    n_judged = max(int(estimate.table.counts[judged].sum()), 1)
    tail = (1.0 - estimate.tau1.level) / 2.0
    tau1 = draws.retained("tau1")
    ends = np.quantile(tau1, (tail, 1.0 - tail), axis=1, method="inverted_cdf")
    return tuple(
        ChainFacts(chain=number, tau1=mean, lower=lower, upper=upper, share=mean / n_judged)
        for number, (mean, lower, upper) in enumerate(
            zip(tau1.mean(axis=1).tolist(), *ends.tolist(), strict=True), start=1
        )
    )


def _record_facts(
    estimate: RiskEstimate, judged: Int64, show_values: bool, handled: Handled | None
) -> RecordFacts:
    table, records = estimate.table, estimate.records
    r1, weight = records.r1[judged], table.counts[judged]
    bins = np.minimum((r1 * N_BINS).astype(np.int64), N_BINS - 1)
    histogram = np.bincount(bins, weights=weight, minlength=N_BINS).astype(np.int64)
    return RecordFacts(
        n_judged=int(weight.sum()),
        at_least=tuple(
            AtLeast(r1=threshold, records=int(weight[r1 >= threshold].sum()))
            for threshold in THRESHOLDS
        ),
        histogram=tuple(histogram.tolist()),
        top=_top(estimate, judged, show_values, handled),
        values_shown=show_values,
    )


def _top(
    estimate: RiskEstimate, judged: Int64, show_values: bool, handled: Handled | None
) -> tuple[TopRecord, ...]:
    table, records = estimate.table, estimate.records
    if estimate.draws is None:
        # Where the risk is known, all sample uniques have the same: no order to show.
        return ()
    highest = judged[np.argsort(-records.r1[judged], kind="stable")][:N_TOP]
    rows = np.flatnonzero(np.isin(table.record_cell, highest))
    rows = rows[np.argsort(-records.r1[table.record_cell[rows]], kind="stable")][:N_TOP]
    cells = table.record_cell[rows].astype(np.int64)
    columns, drops = reasons(records, cells)
    # Rows of the file: records that were left out have a number too.
    in_file = rows if handled is None else np.flatnonzero(handled.kept)[rows]
    found = []
    for row, cell, keys, falls in zip(in_file, cells, columns, drops, strict=True):
        values = None
        if show_values:
            values = {
                key.name: "missing" if code < 0 else key.labels[code]
                for key, code in zip(table.keys, table.cells[cell], strict=True)
                if table.layout is None or key.labels[code] != ABSENT_LABEL
            }
        found.append(
            TopRecord(
                row=int(row) + 1,
                **{name: float(getattr(records, name)[cell]) for name in _RISKS},
                reasons=tuple(
                    Reason(key=table.variables[j].name, drop=float(fall))
                    for j, fall in zip(keys, falls, strict=True)
                    if j >= 0
                ),
                reasons_computed=not bool(np.isnan(records.key_drop[cell]).any()),
                values=values,
                r1_shown=None if records.r1_shown is None else float(records.r1_shown[cell]),
            )
        )
    return tuple(found)
