"""What the risk of households would be if their members were independent of each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from unikat.data.table import CellTable
from unikat.models.base import AnyLaw, OfHouseholds, Stream
from unikat.risk.exposure import EqualChances, Exposure
from unikat.risk.measures import RiskMeasures, RiskTotals

INDEPENDENT = ("tau1_independent", "tau2_independent")
"""Expected τ1 and τ2 if the members were drawn independently."""


@dataclass(frozen=True, kw_only=True, eq=False)
class HouseholdMeasures(RiskMeasures):
    """The risk measures of households, and `INDEPENDENT` beside them.

    Given the state, the members of a household are drawn from the law of a person, whatever
    household they live in; its size and its keys keep their law. So this is what somebody would
    find who multiplies the risks of persons.
    """

    @classmethod
    def of(
        cls, table: CellTable, *, each_key: bool = True, exposure: Exposure | None = None
    ) -> HouseholdMeasures:
        """Prepare the measures of a table of households."""
        plain = RiskMeasures.of(table, each_key=each_key, exposure=exposure)
        return cls(**{field.name: getattr(plain, field.name) for field in fields(plain)})

    def observe(
        self, stream: Stream, model: AnyLaw, state: Any, data: Any, totals: RiskTotals
    ) -> Mapping[str, float]:
        """Add one state to the totals and return its tau's."""
        found = dict(super().observe(stream, model, state, data, totals))
        if len(self.incomplete) or not isinstance(self.exposure, EqualChances):
            return found
        unique = self.cells[self.unique]
        assert isinstance(model, OfHouseholds)
        p = model.independent_probabilities(state, data, unique)
        r1, r2 = self.exposure.risk(p, np.ones(len(p)), False)
        return found | dict(zip(INDEPENDENT, (float(r1.sum()), float(r2.sum())), strict=True))
