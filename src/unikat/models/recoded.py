"""A fitted model seen through coarser keys.

Merging levels merges rows of a profile, and leaving a key out is a margin: the law of coarser keys
follows from each state of the fit, without another one. So the risk measures of a recoded table are
computed from states of the model of the table as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from unikat._typing import Float64, Int32, Int64
from unikat.data.companions import Companions
from unikat.data.households import HouseholdLayout
from unikat.models.base import (
    CellLaw,
    ErrorLaw,
    GroupsLevels,
    PopulationLaw,
    Specified,
    Stream,
    Uncertainty,
)
from unikat.models.groups import Groups


@dataclass(frozen=True, kw_only=True, eq=False)
class Recoded(Specified, CellLaw[Any, Any]):
    """The law of recoded keys under a model, from the states of the model. It is no sampler.

    Parameters
    ----------
    wrapped
        The model.
    groups
        The groups of each of its keys.
    columns
        Its key that each recoded key is of.
    pairs
        (n_groups + 1, n_classes + 1): where a key tells the class of records, and its groups do
        not, the class is one more recoded key: the group of both, the last row and column for any.
        (0, 0) elsewhere.
    pairs_of
        The recoded key whose groups `pairs` are joined with, -1 if it is left out; and the model's
        key.
    order
        Which of the records that the model imputes are wanted, in the order of the recoded table.
    recode
        (n_keys, most levels) of the model's keys: group of each level.
    layout
        What the columns of the recoded table are where a record is a household.
    finer
        The model's keys whose levels follow the recoded keys in cells that are asked for. They are
        the last of the key's groups.
    """

    name: ClassVar[str] = "recoded"
    wrapped: GroupsLevels
    groups: Groups
    columns: tuple[int, ...]
    pairs: Int32
    pairs_of: tuple[int, int]
    order: Int64
    recode: Int32
    layout: HouseholdLayout | None = None
    finer: tuple[int, ...] = ()

    @property
    def population(self) -> PopulationLaw:
        """That of the model."""
        return self.wrapped.population

    @property
    def uncertainty(self) -> Uncertainty:
        """That of the model."""
        return self.wrapped.uncertainty

    def cell_probabilities(self, stream: Stream, state: Any, data: Any, cells: Int32) -> Float64:
        """Probability of each recoded cell, (n,); -1 leaves a key out."""
        if not len(cells):
            return np.empty(0)
        wanted = self._wanted(cells)
        return self.wrapped.grouped_probabilities(stream, state, data, self.groups, wanted)

    def without_companions(
        self,
        stream: Stream,
        state: Any,
        data: Any,
        cells: Int32,
        p: Float64,
        companions: Companions,
        groups: Groups | None = None,
    ) -> Float64:
        """Probability of each recoded cell without its companions, (n,)."""
        return self.wrapped.without_companions(
            stream, state, data, self._wanted(cells), p, companions, self.groups
        )

    def _wanted(self, cells: Int32) -> Int32:
        """Groups of the model's keys that are asked for."""
        wanted = np.full((len(cells), len(self.groups.offsets) - 1), -1, np.int32)
        n_recoded = len(self.columns)
        wanted[:, list(self.columns)] = cells[:, :n_recoded]
        for column, key in enumerate(self.finer, start=n_recoded):
            # After its groups.
            wanted[:, key] = self.recode[key].max() + 1 + cells[:, column]
        if self.pairs.size:
            beside, key = self.pairs_of
            group = cells[:, beside] if beside >= 0 else np.full(len(cells), -1)
            wanted[:, key] = self.pairs[group, cells[:, n_recoded]]
        return wanted

    def impute(self, stream: Stream, state: Any, data: Any) -> Int32:
        """Recode what the model imputes."""
        imputed = self.wrapped.impute(stream, state, data)[self.order]
        columns = list(self.columns)
        recoded: Int32 = self.recode[columns, imputed[:, columns]]
        return recoded if self.layout is None else self.layout.canonical(recoded)

    def risk_probabilities(
        self,
        stream: Stream,
        data: Any,
        p: Float64,
        counts: Float64,
        looked_at: Float64 | None = None,
        population: Float64 | None = None,
    ) -> Float64:
        """Put the model's own error on probabilities of recoded cells: the same draw of (k, d)."""
        return self.wrapped.risk_probabilities(stream, data, p, counts, looked_at, population)

    def error_law(
        self, stream: Stream, data: Any, p: Float64, counts: Float64, population: Float64 | None
    ) -> ErrorLaw | None:
        """That of the model, of recoded cells."""
        return self.wrapped.error_law(stream, data, p, counts, population)

    def cost(self, data: Any) -> tuple[float, float]:
        """That of the model."""
        return self.wrapped.cost(data)
