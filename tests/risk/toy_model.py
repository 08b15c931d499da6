"""A model whose posterior is known: cells, or keys by themselves, with Dirichlet priors.

Every sweep is an independent draw from the posterior given the complete records, so chains
converge at once and numbers can be computed directly.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from unikat.models.base import Info, Model, Stream
from unikat.rng import chain_key


class ToyData(NamedTuple):
    counts: Any
    """Complete records of every cell there is, an array with an axis per key."""
    incomplete: Any
    """(n_incomplete_records, n_keys)"""


class ToyState(NamedTuple):
    p: Any
    """Probability of every cell there is, an array with an axis per key."""


def generator(stream: Stream, purpose: int) -> np.random.Generator:
    key = chain_key(stream.seed, stream.chain).astype(np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, purpose, stream.sweep]))


@dataclass(frozen=True, kw_only=True)
class Toy(Model[Any, Any]):
    name: ClassVar[str] = "toy"
    population: ClassVar[str] = "multinomial"
    uncertainty: ClassVar[str] = "posterior"
    independent: bool = False
    """Keys are independent of each other."""
    prior: float = 1.0
    never: bool = False
    """The last cell is impossible."""

    def prepare(self, table: Any) -> ToyData:
        counts = np.zeros(table.n_levels)
        complete = ~table.incomplete
        np.add.at(counts, tuple(table.cells[complete].T), table.counts[complete])
        incomplete = np.repeat(table.cells[~complete], table.counts[~complete], axis=0)
        return ToyData(counts, incomplete)

    def init(self, stream: Stream, data: ToyData) -> ToyState:
        return self.step(stream, ToyState(None), data, 1)[0]

    def step(
        self, stream: Stream, state: ToyState, data: ToyData, n_threads: int
    ) -> tuple[ToyState, Info]:
        rng, n = generator(stream, 0), data.counts
        if self.independent:
            p = np.ones(())
            for axis in range(n.ndim):
                rest = tuple(other for other in range(n.ndim) if other != axis)
                p = np.multiply.outer(p, rng.dirichlet(n.sum(axis=rest) + self.prior))
        else:
            p = rng.dirichlet(n.ravel() + self.prior).reshape(n.shape)
        if self.never:
            p.flat[-1] = 0.0
            p = p / p.sum()
        return ToyState(p), Info({})

    def cell_probabilities(self, stream: Stream, state: ToyState, data: Any, cells: Any) -> Any:
        places = [tuple(slice(None) if c < 0 else c for c in cell) for cell in cells.tolist()]
        return np.array([float(np.sum(state.p[place])) for place in places])

    def predictive_probabilities(
        self, stream: Stream, state: ToyState, data: Any, cells: Any
    ) -> Any:
        return self.cell_probabilities(stream, state, data, cells)

    def impute(self, stream: Stream, state: ToyState, data: ToyData) -> Any:
        rng, found = generator(stream, 1), []
        every = list(itertools.product(*map(range, state.p.shape)))
        for cell in data.incomplete.tolist():
            fit = [e for e in every if all(c < 0 or c == x for c, x in zip(cell, e, strict=True))]
            p = np.array([state.p[e] for e in fit])
            found.append(fit[rng.choice(len(fit), p=p / p.sum())])
        return np.array(found, np.int32).reshape(-1, state.p.ndim)

    def simulate(self, stream: Stream, state: ToyState, data: Any, n_records: int) -> Any:
        rng = generator(stream, 2)
        drawn = rng.choice(state.p.size, n_records, p=state.p.ravel())
        return np.column_stack(np.unravel_index(drawn, state.p.shape)).astype(np.int32)

    def cost(self, data: ToyData) -> tuple[float, float]:
        return 1e5, 1e3
