"""What `protect.json` holds."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np

from unikat.data.households import agreeing_households
from unikat.data.patterns import agreeing, summed
from unikat.data.table import CellTable
from unikat.protection.numeric.change import NumericFacts
from unikat.protection.perturbed import CorrectMatches, Links
from unikat.protection.refit_rules import RefitRules
from unikat.protection.released import ColumnChange
from unikat.protection.scenarios import Scenario
from unikat.protection.search import Plan
from unikat.protection.utility import Utility
from unikat.report.facts.breakdown import Breakdown
from unikat.report.facts.classics import InferredResult
from unikat.report.facts.columns import ColumnFacts, LeftOver
from unikat.report.facts.committee import KeyShares, bins
from unikat.report.facts.levels import LevelsFacts
from unikat.report.facts.overview import Overview, estimated
from unikat.report.facts.risk_map import RiskMap
from unikat.report.facts.table_counts import TableCounts
from unikat.risk.estimate import RiskEstimate, Summary
from unikat.risk.limits import Judged, Verdict, smallest
from unikat.risk.measures import TAUS
from unikat.risk.shown import SHOWN
from unikat.spec.provenance import Provenance

SCHEMA = "unikat.protection-result/1"


@dataclass(frozen=True, kw_only=True)
class RiskFacts:
    """The risk of a file."""

    n_uniques: int
    """Sample uniques: complete records, where missing keys are integrated over."""
    n_alone: int | None = None
    """Records that no other is known to agree with in what they show, incomplete ones among them:
    `tau1` and `tau2` are about these, so that they may be above `n_uniques`. None where no value is
    missing: these are the sample uniques."""
    smallest: int
    """Records in the smallest combination of keys."""
    tau1: Summary
    """By the values that the file shows, as `tau2`."""
    tau2: Summary
    tau1_hidden: Summary | None = None
    """With combinations that missing values hide, which the heading of an assessment counts; None
    where no value is missing."""
    tau1_bins: tuple[tuple[float, float, float], ...] = ()
    """Histogram of the draws of `tau1`: lower end, upper end and share of each bar; empty where
    nothing was drawn."""

    @classmethod
    def of(cls, found: RiskEstimate) -> Self:
        """Take what an estimate tells; of incomplete records by what they show."""
        table, drawn = found.table, found.tau1_bins
        if not drawn and found.draws is not None:
            name = SHOWN[0] if found.tau1_shown else TAUS[0]
            drawn = bins(found.draws.retained(name))
        return cls(
            n_uniques=table.n_uniques,
            n_alone=_n_alone(table) if found.tau1_shown else None,
            smallest=int(smallest(table)),
            tau1=found.tau1_shown or found.tau1,
            tau2=found.tau2_shown or found.tau2,
            tau1_hidden=found.tau1 if found.tau1_shown else None,
            tau1_bins=drawn,
        )

    @classmethod
    def of_matches(cls, found: CorrectMatches, table: CellTable) -> Self:
        """Return the risk of a file with suppressed or perturbed values, and count its records."""
        return cls(
            n_uniques=table.n_uniques,
            n_alone=found.n_uniques if table.incomplete.any() else None,
            smallest=int(smallest(table)),
            tau1=found.tau1,
            tau2=found.tau2,
            tau1_bins=found.tau1_bins,
        )


def _n_alone(table: CellTable) -> int:
    """Released records that no other surely agrees with: its values, as far as they are shown."""
    cells, layout = table.cells, table.layout
    if layout is None:
        pairs = agreeing(cells, cells, table.n_levels)
    else:
        pairs = agreeing_households(layout, cells, cells)
    agree = summed(pairs, table.released[:, None].astype(np.float64), len(cells))[:, 0]
    return int(((agree == 1.0) & (table.released == 1)).sum())


KINDS = ("recode", "sample", "suppress", "perturb")
"""Of plans: by what is done besides recoding that moves single values, or else leaves out records.
"""


def kind_of(besides: Collection[str]) -> str:
    """Name the kind of a plan.

    Parameters
    ----------
    besides
        Options of `protect` by which more is done than recoding.

    Examples
    --------
    >>> kind_of({}), kind_of({"subsample": "50%", "suppress": "k >= 3"})
    ('recode', 'suppress')
    """
    order = (("perturb", ("pram", "swap")), ("suppress", ("suppress",)), ("sample", ("subsample",)))
    return next((kind for kind, options in order if {*options} & {*besides}), KINDS[0])


@dataclass(frozen=True, kw_only=True)
class PlanFacts:
    """A plan: what is done to the keys, what is lost, and the risk after it."""

    recodings: dict[str, str]
    """What is done, by key; keys that stay as they are excepted."""
    unchanged: tuple[str, ...]
    """Keys that stay as they are."""
    titles: dict[str, str]
    """What the groups of some keys are: `ISCO-08 major group`; `years` of ages."""
    n_groups: dict[str, int]
    """Levels that are left of each key that is recoded."""
    lost: float
    """Share of the information of the keys that the plan loses, 0 to 1."""
    share: float
    """Of the records, that is released."""
    risk: RiskFacts
    """By the model of the file as it was."""
    utility: Utility
    """What it keeps of tables."""
    chosen: bool
    perturb: str | None = None
    """What is perturbed besides, as `--pram` takes it; None if nothing is, or in the released file
    alone."""
    suppress: str | None = None
    """The rule by which values are suppressed besides; None if none are, or in the released file
    alone."""
    n_suppressed: int = 0
    """Values that it sets missing."""

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        done = {"pram": self.perturb, "suppress": self.suppress, "subsample": self.share < 1.0}
        return kind_of([name for name, how in done.items() if how])

    @classmethod
    def of(cls, plan: Plan, risk: RiskFacts, utility: Utility, share: float, chosen: bool) -> Self:
        """Take what a plan and the estimate of its risk tell."""
        changed = [one for one in plan.recoding.keys if one.changes]
        return cls(
            recodings={one.name: one.text for one in changed},
            unchanged=tuple(one.name for one in plan.recoding.keys if not one.changes),
            titles={one.name: one.title for one in changed if one.title},
            n_groups={one.name: one.key.n_levels for one in changed if one.key is not None},
            lost=plan.lost,
            share=share,
            # The pictures are of the file as it was and as it is released.
            risk=replace(risk, tau1_bins=()),
            utility=utility,
            chosen=chosen,
        )


@dataclass(frozen=True, kw_only=True)
class ScenarioFacts:
    """A target against an intruder, and what is reached of it."""

    name: str
    keys: tuple[str, ...]
    """Keys that he knows."""
    in_sample: bool
    """Whether he knows that the person is in the file."""
    target: Judged
    """Judged by the least favourable of plan and new fit."""
    before: float
    """The target's measure in the file as it was."""
    after: float
    """By the plan, by all states."""
    refit: float
    """By a fit of the protected file."""
    errors: float = 0.0
    """Probability that his value of a key is wrong."""

    @classmethod
    def of(cls, one: Scenario, before: float, after: float, refit: float, target: Judged) -> Self:
        """Take what a scenario and its measures tell."""
        return cls(
            name=one.name,
            keys=one.keys,
            in_sample=one.in_sample,
            errors=one.errors,
            target=target,
            before=before,
            after=after,
            refit=refit,
        )


@dataclass(frozen=True, kw_only=True)
class SuppressionFacts:
    """What local suppression did."""

    rule: str
    n_values: int
    n_records: int
    """Records of which at least one value was set missing."""


@dataclass(frozen=True, kw_only=True)
class PerturbedKey:
    """What perturbation did to a key."""

    name: str
    method: str
    """`PRAM` or `swapping`."""
    kept: float | None
    """Mean probability that a record kept its value; None of swapping."""
    n_changed: int
    """Records whose value is another one."""


@dataclass(frozen=True, kw_only=True)
class PerturbationFacts:
    """What perturbation did, and the risk of matches after it."""

    keys: tuple[PerturbedKey, ...]
    n_records: int
    """Records with a value that is another one."""
    n_left: int | None
    """Records at risk that found no partner to swap with; None if nothing was swapped."""
    n_uniques: int
    """Records that are alone in the protected file with what they show, also incomplete ones."""
    smallest: int
    """Records in the smallest combination of what is shown."""
    n_true: int
    """Of those that are alone, records that show their true keys."""
    tau1: Summary
    """Of these, population uniques."""
    tau2: Summary
    """Expected number of correct matches."""
    ignored: tuple[str, ...]
    """Perturbed keys that the intruder leaves out who expects most correct matches."""
    links: Links | None
    """What an intruder can say of a match who knows the matrices; None if keys were swapped, or no
    complete record is alone."""


@dataclass(frozen=True, kw_only=True)
class ProtectionSummary(Overview):
    """Every number of the page."""

    schema: str
    data: str | None
    """Name of the file; None of a frame."""
    file: str | None
    """Name of the protected file."""
    n_records: int
    """Records, or households where these are the units."""
    households: bool
    """A unit is a household."""
    household_rules: RefitRules | None
    """Rules of impossible households; None without any."""
    share: float
    """Of the records (or households), that is released."""
    n_released: int
    """Rows of the protected file."""
    policy: Literal["checked", "not checked"] | None
    """Whether the protected file is checked by the policy that scenarios are of; None without one.
    """
    n_not_assessed: int
    """Rows of the protected file that were left out of the assessment, since they break a rule."""
    population_size: int
    verdict: Verdict | None
    """On the target, or on those of all scenarios; None if there is none."""
    target: Judged | None
    """Of all keys; None if there are scenarios, or nothing has to be reached."""
    told: bool
    """Whether the recoding was told, and not searched."""
    by_plan: float | None
    """What the chosen plan reaches of the target's measure, by all states; None without `target`.
    Before perturbation, as the next."""
    by_refit: float | None
    """By the new fit."""
    scenarios: tuple[ScenarioFacts, ...]
    """Each target of each intruder; the target of all keys, if there is one, first."""
    model: str
    converged: bool
    """Whether both fits converged."""
    before: RiskFacts
    """Of the file as it was, by the states that tell the risk of the plans."""
    after: RiskFacts
    """Of the file as it is released, suppressed and perturbed: the less favourable of plan and new
    fit; of a perturbed file by the plan."""
    released: RiskFacts | None
    """The same by the model of the file as it was; None if nothing was suppressed or perturbed."""
    lost: float
    """Share of the information of the keys that the released file has lost, 0 to 1: recoded,
    suppressed and perturbed (`protection.lost`)."""
    plans: tuple[PlanFacts, ...]
    """In rising order of what is lost, and falling τ1; the file as it is comes first."""
    n_plans: int
    """Combinations of recodings among which the search could choose."""
    n_looked_at: int
    """Those whose risk was computed."""
    least_lost: float | None
    """Where the search stopped early: what a plan that it did not rule out loses at least. None if
    it ended by itself, so that no plan that reaches the target loses less."""
    n_states: int
    """States of the posterior by which the risk of the plans was computed."""
    levels: tuple[LevelsFacts, ...]
    """How the levels of each key were understood, and why."""
    columns: tuple[ColumnChange, ...]
    """What was done to each key."""
    other_columns: tuple[ColumnFacts, ...]
    """Every other column of the file: its role, with the reason, and what was done to it."""
    left_over: LeftOver | None
    """The risk with all columns that are copied; None if none is."""
    inferred: dict[str, InferredResult] = field(default_factory=dict)
    """What an intruder learns about each sensitive column, from the file and the protected one."""
    suppression: SuppressionFacts | None
    """None if nothing was to be suppressed."""
    breakdowns: tuple[Breakdown, ...] = ()
    """Risk by the levels of each key of the released file; none where values were perturbed."""
    risk_map: RiskMap | None = None
    """The risk in the released file by two keys; None where values were perturbed, or of
    households."""
    table_counts: TableCounts | None = None
    """The table of two keys before and after: the first of two keys that `--tables` names, else
    that of the map; null of households, or where there is neither."""
    keys: tuple[KeyShares, ...]
    """How records spread over the levels of each key, before and after."""
    utility: Utility
    """What the protected file keeps of tables."""
    perturbation: PerturbationFacts | None
    """None if nothing was to be perturbed."""
    numeric: NumericFacts | None
    """None if no continuous variable was changed."""
    telling: tuple[tuple[str, str], ...]
    """Columns that tell more of a key than the plan shows, each with the key."""
    identifying: tuple[str, ...]
    """Copied columns with a value of its own for nearly every record: numbers of persons."""
    refit: RiskFacts
    """The risk of the protected file by a fit of its own; of the recoded one, if values were
    perturbed."""
    agrees: bool
    """Whether the interval of τ1 of the new fit holds what the plan promised."""
    level: float
    provenance: Provenance
    warnings: tuple[str, ...] = ()
    sentences: dict[str, str] = field(default_factory=dict)

    @property
    def searched(self) -> bool:
        """Whether a recoding was looked for."""
        return self.aims and not self.told

    @property
    def keys_stay(self) -> bool:
        """Whether continuous variables alone were to be changed."""
        done = self.aims or self.told or self.perturbation or self.suppression or self.share < 1.0
        return self.numeric is not None and not done

    @property
    def aims(self) -> bool:
        """Whether something has to be reached."""
        return self.verdict is not None

    @property
    def chosen(self) -> PlanFacts:
        """The plan that was carried out."""
        return next(plan for plan in self.plans if plan.chosen)

    def overview(self) -> list[dict[str, Any]]:
        """Risk of the file and of the protected file, and what is lost."""
        return [
            {
                "file": name,
                "sample_uniques": one.n_uniques,
                "smallest_cell": one.smallest,
                **estimated(tau1=one.tau1, tau2=one.tau2),
                "information_lost": lost,
            }
            for name, one, lost in (
                ("original", self.before, 0.0),
                ("protected", self.after, self.lost),
            )
        ]
