"""Household risk, as `result.json` holds it under `households`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from unikat.inference.diagnostics import diagnose
from unikat.risk.estimate import RiskEstimate, Summary, summary_of
from unikat.risk.households import INDEPENDENT

if TYPE_CHECKING:
    from unikat.data import CellTable
    from unikat.data.grouping import HouseholdSample
    from unikat.zeros.household_conflicts import HouseholdConflicts


@dataclass(frozen=True, kw_only=True)
class SizeFacts:
    """Households of one size."""

    size: int
    households: int
    unique: int
    """Unique in the sample."""
    tau1: float
    """Expected number of them that are unique in the population."""


@dataclass(frozen=True, kw_only=True)
class HouseholdRuleFacts:
    """A rule of what is impossible in a household."""

    name: str | None
    text: str
    n_households: int
    """Households of the file that break it."""


@dataclass(frozen=True, kw_only=True)
class HouseholdsFacts:
    """The households of a file, where they are the units."""

    n_households: int
    n_persons: int
    n_unique: int
    """Sample unique households."""
    population_households: int
    household_keys: tuple[str, ...]
    person_keys: tuple[str, ...]
    head_apart: bool
    """The head's keys are keys of the household, and the head is not among the members."""
    rules: tuple[HouseholdRuleFacts, ...] = ()
    n_left_out: int = 0
    """Households left out because they break a rule."""

    @classmethod
    def of(cls, table: CellTable, sample: HouseholdSample | None, **more: Any) -> Self:
        """Describe a table of households; `sample` is None where it was not read from a file."""
        layout = table.layout
        assert layout is not None
        conflicts = None if sample is None else sample.conflicts
        return cls(
            n_households=table.n_records,
            n_persons=int(((table.cells[:, 0] + 1) * table.counts).sum()),
            n_unique=table.n_uniques,
            population_households=table.n_units,
            household_keys=tuple(key.name for key in layout.household_keys),
            person_keys=tuple(key.name for key in layout.person_keys),
            head_apart=layout.head_apart,
            rules=() if conflicts is None else _rules(conflicts),
            n_left_out=0 if conflicts is None else len(conflicts.broken) - table.n_records,
            **more,
        )


@dataclass(frozen=True, kw_only=True)
class HouseholdsResult(HouseholdsFacts):
    """How many households are unique, in the sample and in the population."""

    tau1: Summary
    tau2: Summary
    tau1_independent: Summary | None
    """τ1 if the members of a household were independent of each other; None if not computed."""
    tau2_independent: Summary | None
    by_size: tuple[SizeFacts, ...]


def households_result(
    estimate: RiskEstimate, sample: HouseholdSample | None
) -> HouseholdsResult | None:
    """Say how many households are unique; None if the units are persons."""
    if estimate.table.layout is None:
        return None
    independent: dict[str, Any] = dict.fromkeys(INDEPENDENT)
    if estimate.draws is not None:
        for name in INDEPENDENT:
            if name in estimate.draws.scalars:
                kept = estimate.draws.retained(name)
                independent[name] = summary_of(kept, estimate.tau1.level, diagnose(kept))
    return HouseholdsResult.of(
        estimate.table,
        sample,
        tau1=estimate.tau1,
        tau2=estimate.tau2,
        tau1_independent=independent[INDEPENDENT[0]],
        tau2_independent=independent[INDEPENDENT[1]],
        by_size=_by_size(estimate),
    )


def _by_size(estimate: RiskEstimate) -> tuple[SizeFacts, ...]:
    table = estimate.table
    sizes = table.cells[:, 0] + 1
    r1 = np.nan_to_num(estimate.records.r1, nan=0.0)
    households = np.bincount(sizes, table.counts)
    unique = np.bincount(sizes, table.unique)
    tau1 = np.bincount(sizes, table.counts * r1)
    return tuple(
        SizeFacts(
            size=int(size),
            households=int(households[size]),
            unique=int(unique[size]),
            tau1=float(tau1[size]),
        )
        for size in np.flatnonzero(households)
    )


def _rules(conflicts: HouseholdConflicts) -> tuple[HouseholdRuleFacts, ...]:
    return tuple(
        HouseholdRuleFacts(name=rule.name, text=rule.text, n_households=rule.n_records)
        for rule in conflicts.rules
    )
