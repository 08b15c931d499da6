"""What chains are judged by where synthetic records are drawn from them.

    log_probability      mean log p of the records' cells: how well the state predicts them
    repeated_uniques     sum of p over the cells of sample uniques: the share of synthetic records
                         that repeat one

Of a large file some cells, spread over all in their order, stand for the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from unikat._typing import Bool, Float64, Int32
from unikat.data.table import CellTable
from unikat.inference.draws import Observer
from unikat.models.base import AnyModel, Stream

MOST_CELLS = 2000


class NoTotals(NamedTuple):
    """Nothing is summed over the draws."""

    n: Float64
    """(1,)"""


@dataclass(frozen=True, kw_only=True)
class SynthesisMeasures(Observer):
    """The two scalars of every kept state."""

    monitored: ClassVar[tuple[str, ...]] = ("log_probability", "repeated_uniques")
    cells: Int32 = field(repr=False)
    share: Float64 = field(repr=False)
    """(n_cells,): of the records; they sum to 1."""
    unique: Bool = field(repr=False)

    @classmethod
    def of(cls, table: CellTable) -> Self:
        """Make the observer of a table."""
        n = table.n_cells
        which = np.unique(np.linspace(0, n - 1, min(n, MOST_CELLS)).astype(np.int64))
        counts = table.counts[which]
        return cls(
            cells=np.ascontiguousarray(table.cells[which]),
            share=counts / counts.sum(),
            unique=counts == 1,
        )

    def start(self) -> NoTotals:
        """Return empty totals."""
        return NoTotals(np.zeros(1))

    def observe(
        self, stream: Stream, model: AnyModel, state: Any, data: Any, totals: NoTotals
    ) -> Mapping[str, float]:
        """Return the scalars of one kept state."""
        totals.n[0] += 1.0
        p = model.cell_probabilities(stream, state, data, self.cells)
        return {
            "log_probability": float(self.share @ np.log(np.maximum(p, 1e-300))),
            "repeated_uniques": float(p[self.unique].sum()),
        }

    def cost(self, model: AnyModel, data: Any) -> float:
        """Counted work of one observation."""
        return len(self.cells) * model.cost(data)[1]
