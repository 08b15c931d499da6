"""The contract every model follows.

A model is a frozen dataclass of parameters (it is pickled and sent to workers). Its sampler is
`init` and `step`, pure to the caller: they return a new state and never change the one passed
in. All randomness comes from the :class:`Stream`, so that numbers do not depend on threads,
workers or the cutting of a chain into segments. `State` and `Data` are NamedTuples of arrays and
scalars, never holding parameters.

A model may also have a method `compile(self, zeros: bool) -> None` that compiles its kernels, or
loads them from the cache, without any data; `zeros` if the table will have structural zeros. Where
it exists it is called once before worker processes start, which would otherwise all compile at the
same time. It has no influence on the numbers.

A model whose options name keys has a method `check_keys(names)` that refuses names that are not
among the keys (SpecError), so that a comparison or an evaluation ends before the first fit.

A state that is read from a checkpoint has the types, dimensions and shapes of a start that `init`
draws. A model whose states have other shapes, or hold indices, has a method `state_fits(state,
data) -> bool` that says whether shapes and indices are right, since kernels do not look.

A model whose states are large has a method `state_bytes(data) -> float`, about the bytes that a
sweep of one chain needs: more than the machine has is refused before the first.

What takes long in `prepare` may tell how far it is (`models/telling.py`).

A model may have a method `risk_probabilities(stream, data, p, counts, looked_at=None) -> Float64`
that puts its own error on the probabilities `p` of cells with `counts` records, for the risk
measures alone; draws of the measures without it are then kept beside them, and convergence is
judged on both. `looked_at` says, cell by cell, among how many of the population's units those
records were seen, where it is not the sample (a registry).

A model may have a method `facts(data) -> Facts`: what is to be said of its fit, kept with the
draws; and `simulation_cost(data, n_records) -> float`: work of `simulate` in nanoseconds, if it is
not that of some operations per record and key.

A model that sees cells, not keys, may use the weights of a table's records itself
(`CellTable.cell_weights`): it has `uses_weights` True, and its probabilities are shares of the
unobserved units, M p_c being those expected in a cell. Other models never see a design; the risk
measures use it (`risk/exposure.py`). Such a model may also have a method
`integrated_risk(stream, state, data, cells, counts) -> (r1, r2)`: risks of cells with so many
records, (n,) each, with what can be integrated out given the state integrated out. Its cells are
then independent given the state, and it also has `empty_rest(state, data, margins, cells) ->
Float64`: the probability that no unobserved unit is in the cells of a margin (-1 where a key is
left out) other than those of `cells`, given that none of these others has a record.

If the table has structural zeros (`CellTable.zeros`), probabilities are those of a possible
individual, and imputed and simulated records are possible; a model that cannot do so refuses the
table in `prepare` (SpecError).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

from unikat._typing import Float64, Int32
from unikat.data.table import CellTable

State = TypeVar("State")
Data = TypeVar("Data")


CHAINS: tuple[str, ...] = ("posterior", "calibrated")
"""Kinds of uncertainty whose draws depend on each other, so that chains have to agree."""

PopulationLaw: TypeAlias = Literal["multinomial", "poisson"]
"""Joint law of the M = N - n unobserved individuals over the cells, of means M p_c."""


Uncertainty: TypeAlias = Literal[
    "posterior", "calibrated", "empirical-bayes", "conditional", "bootstrap"
]
"""What the draws of tau are draws of.

| value | parameters | draws |
|---|---|---|
| `posterior` | drawn from their posterior | of a Markov chain |
| `calibrated` | as `posterior`, with an error of the model that is drawn too | of a Markov chain |
| `empirical-bayes` | some taken as known once estimated, the rest drawn | independent |
| `conditional` | taken as known once estimated: only the population is drawn | independent |
| `bootstrap` | estimated, with the estimate's own error from simulated samples | independent |
"""


class Stream(NamedTuple):
    """Address of the random numbers of one sweep of one chain."""

    seed: int
    chain: int
    sweep: int


class Info(NamedTuple):
    """Scalars of one sweep, stored with the draws under these names."""

    values: dict[str, float]


class Facts(NamedTuple):
    """What a model says of its fit to a table."""

    values: dict[str, Any]
    """For `result.json`: numbers, texts, lists and tables of these."""
    warnings: tuple[str, ...] = ()

    @property
    def plain(self) -> dict[str, Any]:
        """The values as JSON has them: what is not finite is None."""
        return {name: _plain(value) for name, value in self.values.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


NO_FACTS = Facts({})


class Model(Protocol[State, Data]):
    """A probability model of one individual's cell, with its sampler."""

    name: ClassVar[str]
    population: ClassVar[PopulationLaw]

    @property
    def uncertainty(self) -> Uncertainty:
        """What its draws are draws of; a ClassVar where no option changes it."""
        ...

    def prepare(self, table: CellTable) -> Data:
        """Lay the table out as the arrays the kernels read."""
        ...

    def init(self, stream: Stream, data: Data) -> State:
        """Draw a start; starts of different chains are dispersed."""
        ...

    def step(self, stream: Stream, state: State, data: Data, n_threads: int) -> tuple[State, Info]:
        """Make one sweep."""
        ...

    def cell_probabilities(self, stream: Stream, state: State, data: Data, cells: Int32) -> Float64:
        """Probability that a new individual falls in each cell.

        `cells` has shape (n, n_keys); -1 means the key is left out (any level). Returns (n,).
        """
        ...

    def predictive_probabilities(
        self, stream: Stream, state: State, data: Data, cells: Int32
    ) -> Float64:
        """Mean of `cell_probabilities` over what can be integrated out of the state, (n,).

        For scores of single individuals, which are linear in the probability: a drawn profile
        gives a level that no record of its component has a chance that is nearly always 0 and
        rarely large, and the mean over draws would take very many of them. For the risk measures,
        which are not linear in it, the drawn probability is the right one.
        """
        ...

    def impute(self, stream: Stream, state: State, data: Data) -> Int32:
        """Draw the missing keys of the incomplete records.

        Returns (n_incomplete_records, n_keys) complete cells, the records in the order of their
        pattern in the table (pattern by pattern, each repeated by its count).
        """
        ...

    def simulate(self, stream: Stream, state: State, data: Data, n_records: int) -> Int32:
        """Draw the keys of new individuals from the model, (n_records, n_keys)."""
        ...

    def cost(self, data: Data) -> tuple[float, float]:
        """Counted work of one sweep and of one cell probability, in nanoseconds, roughly."""
        ...


AnyModel = Model[Any, Any]


def check_keys(model: AnyModel, names: Sequence[str]) -> None:
    """Let a model refuse the keys, if it has a say in them."""
    hook = getattr(model, "check_keys", None)
    if hook is not None:
        hook(names)
