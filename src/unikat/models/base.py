"""The contract of models: three narrow protocols, what more a model may do, and the defaults.

A model is a frozen, keyword-only dataclass of options. It inherits from :class:`Model`, which joins

| protocol | says | who asks |
|---|---|---|
| :class:`Specified` | name, kind of its draws, options that fit the keys | specifications |
| :class:`Sampler` | how states are drawn: `prepare`, `init`, `step` | `inference` |
| :class:`CellLaw` | probabilities of cells given a state, and missing keys | `risk` |
| :class:`Simulator` | new individuals: drawn, and predicted | `studies`, `synthesis` |

`init` and `step` are pure to the caller: they return a new state and never change the one passed
in. All randomness comes from the :class:`Stream`, so numbers do not depend on threads, workers or
the cutting of a chain into segments. `State` and `Data` are NamedTuples of arrays and scalars;
options of the model never stand in them.

What only some models can do has a protocol of its own. A model has it by having its methods:

| protocol | a model that has it |
|---|---|
| :class:`IntegratesRisk` | has risks in closed form |
| :class:`GroupsLevels` | knows the law of coarser keys |
| :class:`Refits` | can be fitted to simulated samples, for a bootstrap |
| :class:`OfHouseholds` | is one of households |

A long `prepare` reports its progress (`models/preparing.py`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import (
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypeVar,
    runtime_checkable,
)

import numpy as np

from unikat._typing import Float64, Int32
from unikat.data.companions import Companions
from unikat.data.table import CellTable
from unikat.models.groups import Groups

State = TypeVar("State")
Data = TypeVar("Data")
StateIn = TypeVar("StateIn", contravariant=True)
DataIn = TypeVar("DataIn", contravariant=True)


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


class Start(NamedTuple):
    """Where the chains of an earlier run of the same sampler on the same table ended."""

    states: tuple[Any, ...]
    """One for each chain."""
    n_sweeps: int
    """That led there, of each chain."""


class ErrorLaw(NamedTuple):
    """Law of cells' probabilities with a model's own error: p times `factor` times Gamma(`shape`).

    Given a state the gamma variables of different cells are independent.
    """

    shape: Float64
    """(n,)"""
    factor: Float64
    """(n,)"""


class Info(NamedTuple):
    """Scalars of one sweep, stored with the draws under these names."""

    values: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a model says of its fit to a table; models with facts have a class of their own."""

    warnings: tuple[str, ...] = ()

    def named(self) -> dict[str, Any]:
        """Facts by the names that they have in `result.json`. Default: the fields, but warnings."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "warnings"}

    @property
    def values(self) -> dict[str, Any]:
        """The facts as JSON has them: None is left out, and what is not finite becomes None."""
        return {name: _plain(value) for name, value in self.named().items() if value is not None}


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


NO_FACTS = Facts()


class Specified(ABC):
    """What a specification can name: a :class:`Model`, or `auto`, which selects one."""

    name: ClassVar[str]
    """Name in specifications and on the command line."""
    uses_weights: ClassVar[bool] = False
    """The model reads the weights of the records (`CellTable.cell_weights`) itself.

    Its probabilities are then shares of the M = N - n unobserved units: M p_c are those expected
    in cell c. Other models never see a design; the risk measures use it (`risk/exposure.py`).
    """

    @property
    def has_cell_rates(self) -> bool:
        """With `uses_weights`: each cell has a sampling rate of its own, from the weights."""
        return False

    @property
    @abstractmethod
    def uncertainty(self) -> Uncertainty:
        """What the draws are draws of; a ClassVar where no option changes it."""

    @property
    def as_specified(self) -> Specified:
        """What the specification named. Default: this model."""
        return self

    def check_keys(self, names: Sequence[str]) -> None:  # noqa: B027  # the default
        """Refuse keys that the options do not fit (SpecError), before the first fit.

        Default: all keys are accepted. Models whose options name keys override it.
        """

    def compile(self, zeros: bool = False) -> None:  # noqa: B027  # the default
        """Compile the kernels, or load them from the cache, without any data.

        It is called once before worker processes start, which would otherwise all compile at the
        same time. No number depends on it. Default: nothing.

        Parameters
        ----------
        zeros
            The table will have structural zeros, or household rules.
        """


@runtime_checkable
class Sampler(Protocol[State, Data]):
    """How the states of a model are drawn.

    Examples
    --------
    >>> import unikat
    >>> from unikat.models.base import Stream
    >>> table = unikat.tabulate([[0, 2], [1, 1], [0, 2]], population_size=9)
    >>> model = unikat.LatentClass()
    >>> data, stream = model.prepare(table), Stream(seed=1, chain=0, sweep=0)
    >>> state = model.init(stream, data)
    >>> state, info = model.step(stream, state, data, n_threads=1)
    >>> model.cell_probabilities(stream, state, data, table.cells).shape
    (2,)
    >>> model.simulate(stream, state, data, n_records=5).shape
    (5, 2)
    >>> isinstance(model, unikat.Sampler)
    True
    """

    @abstractmethod
    def prepare(self, table: CellTable) -> Data:
        """Lay the table out as the arrays the kernels read, once for each chain.

        Raises
        ------
        SpecError
            If the model cannot be fitted to the table.
        """

    @abstractmethod
    def init(self, stream: Stream, data: Data) -> State:
        """Draw a start; starts of different chains are dispersed."""

    @abstractmethod
    def step(self, stream: Stream, state: State, data: Data, n_threads: int) -> tuple[State, Info]:
        """Make one sweep: return the new state, and scalars to be kept with the draws.

        The numbers do not depend on `n_threads`, the number of threads it may use.
        """

    def state_fits(self, state: State, data: Data, start: State) -> bool:
        """Whether kernels, which check no bounds, can read a state from a checkpoint.

        Types and dimensions are checked before. Default: all arrays have the shapes of those of
        `start`. Models whose states change shape or hold indices override it.
        """
        return same_shapes(state, start)

    def state_bytes(self, data: Data) -> float:
        """Memory that a sweep of one chain needs, in bytes, roughly.

        More than the machine has is refused before the first sweep. Default: 0, not counted.
        """
        return 0.0

    def facts(self, data: Data) -> Facts:
        """Facts and warnings of the fit, kept with the draws. Default: none."""
        return NO_FACTS


@runtime_checkable
class CellLaw(Protocol[StateIn, DataIn]):
    """The law of one individual's cell, given a state.

    If the table has structural zeros (`CellTable.zeros`), probabilities are those of a possible
    individual, p_c / (1 - p0) and 0 for an impossible cell, and imputed and simulated records are
    possible. A model that cannot do so refuses the table in `prepare` (SpecError).

    Examples
    --------
    :class:`Sampler` shows its use.

    >>> import unikat
    >>> isinstance(unikat.LatentClass(), unikat.CellLaw), unikat.LatentClass.population
    (True, 'multinomial')
    """

    name: ClassVar[str]
    uses_weights: ClassVar[bool]
    leaves_out_companions: ClassVar[bool] = False
    """The model has a `without_companions` of its own."""

    @property
    def uncertainty(self) -> Uncertainty:
        """What the draws are draws of, as of what a specification names."""

    @property
    @abstractmethod
    def population(self) -> PopulationLaw:
        """Law of the unobserved individuals given the probabilities; a ClassVar in most models."""

    @abstractmethod
    def cell_probabilities(
        self, stream: Stream, state: StateIn, data: DataIn, cells: Int32
    ) -> Float64:
        """Probability p_c that a new individual falls in each cell, given the state.

        Parameters
        ----------
        stream, state, data
            Of a sweep.
        cells
            (n, n_keys): codes of levels; -1 leaves a key out (any level).

        Returns
        -------
        Float64
            (n,): exact, or without bias.
        """

    @abstractmethod
    def impute(self, stream: Stream, state: StateIn, data: DataIn) -> Int32:
        """Draw the missing keys of the incomplete records.

        Returns
        -------
        Int32
            (n_incomplete_records, n_keys): complete cells, the records in the order of their
            pattern in the table (pattern by pattern, each repeated by its count).
        """

    @abstractmethod
    def cost(self, data: DataIn) -> tuple[float, float]:
        """Counted work of one sweep and of one cell probability, in nanoseconds, roughly."""

    def risk_probabilities(
        self,
        stream: Stream,
        data: DataIn,
        p: Float64,
        counts: Float64,
        looked_at: Float64 | None = None,
        population: Float64 | None = None,
    ) -> Float64:
        """Cell probabilities with the model's own error, (n,), for the risk measures alone.

        Draws of the measures without the error are kept beside them, and convergence is judged on
        both. Default: no error, and the very array `p`.

        Parameters
        ----------
        stream, data
            Of a sweep.
        p
            (n,): `cell_probabilities` of the sweep's state.
        counts
            (n,): records in each cell.
        looked_at
            (n,): units of the population among which those records were counted. None: the
            records of the sample.
        population
            (n,): units of the population expected in each cell, over p. None: the population's
            size, as where all units had equal chances.
        """
        return p

    def error_law(
        self, stream: Stream, data: DataIn, p: Float64, counts: Float64, population: Float64 | None
    ) -> ErrorLaw | None:
        """Return the law of what `risk_probabilities` draws; None if there is no error.

        Of cells that have records; the arguments are those of `risk_probabilities`.
        """
        return None

    def without_companions(
        self,
        stream: Stream,
        state: StateIn,
        data: DataIn,
        cells: Int32,
        p: Float64,
        companions: Companions,
        groups: Groups | None = None,
    ) -> Float64:
        """Probabilities of cells as if the companions of their records had not been sampled, (n,).

        Default: the very array `p`.

        Parameters
        ----------
        stream, state, data, cells
            Of a sweep, as in `cell_probabilities`.
        p
            (n,): probabilities of the cells, with the companions in the sample.
        companions
            Of the cells, by the records of the fitted table.
        groups
            Where `cells` are codes of groups, as in `grouped_probabilities`.
        """
        return p


@runtime_checkable
class Simulator(Protocol[StateIn, DataIn]):
    """New individuals, given a state.

    Examples
    --------
    :class:`Sampler` shows its use.

    >>> import unikat
    >>> isinstance(unikat.LatentClass(), unikat.Simulator)
    True
    """

    @abstractmethod
    def simulate(self, stream: Stream, state: StateIn, data: DataIn, n_records: int) -> Int32:
        """Draw the keys of new individuals from the model, (n_records, n_keys)."""

    @abstractmethod
    def predictive_probabilities(
        self, stream: Stream, state: StateIn, data: DataIn, cells: Int32
    ) -> Float64:
        """Mean of `cell_probabilities` over what can be integrated out of the state, (n,).

        For scores of single individuals, which are linear in the probability. A drawn profile
        gives a level that no record of its component has a probability that is nearly always 0
        and rarely large; a mean over draws would take very many of them. The risk measures are
        not linear in the probability and take the drawn one.
        """

    def simulation_cost(self, data: DataIn, n_records: int, n_keys: int) -> float:
        """Counted work of `simulate`, in nanoseconds, roughly. Default: by records and keys."""
        return n_records * (150.0 + 70.0 * n_keys)


class Model(Specified, Sampler[State, Data], CellLaw[State, Data], Simulator[State, Data]):
    """A probability model of one individual's cell, with its sampler.

    Examples
    --------
    >>> import unikat
    >>> isinstance(unikat.LatentClass(), unikat.Model), unikat.LatentClass.name
    (True, 'latent-class')
    """


@runtime_checkable
class IntegratesRisk(Protocol):
    """Risks given the state, with what can be integrated out integrated out.

    The model's cells are then independent given the state.
    """

    def integrated_risk(
        self, stream: Stream, state: Any, data: Any, cells: Int32, counts: Float64
    ) -> tuple[Float64, Float64]:
        """Risks of cells given the state.

        Parameters
        ----------
        stream, state, data
            Of a sweep.
        cells
            (n, n_keys); -1 leaves a key out.
        counts
            (n,): f, records in each cell, at least 1.

        Returns
        -------
        r1, r2
            (n,) each: P(F = f | f) and E(1/F | f).
        """

    def empty_rest(self, state: Any, data: Any, margins: Int32, cells: Int32) -> Float64:
        """Probability that a margin has no unobserved unit outside one of its cells, (n,).

        Given that none of the margin's other cells has a record.

        Parameters
        ----------
        state, data
            Of a sweep.
        margins
            (n, n_keys); -1 where a key is left out.
        cells
            (n, n_keys): one cell of each margin.
        """


@runtime_checkable
class GroupsLevels(CellLaw[Any, Any], Protocol):
    """The law of coarser keys is known from each state."""

    def grouped_probabilities(
        self, stream: Stream, state: Any, data: Any, groups: Groups, cells: Int32
    ) -> Float64:
        """Probability that a new individual has levels in a group of each key, (n,).

        Parameters
        ----------
        stream, state, data
            Of a sweep.
        groups
            Groups of levels of each key.
        cells
            (n, n_keys): codes of groups, each counted within its key; -1 leaves a key out.
        """


@runtime_checkable
class Refits(Protocol):
    """A model whose `uncertainty` can be 'bootstrap'."""

    def refit(self, table: CellTable, data: Any) -> Any:
        """Fit the model to another table of the same keys, starting from a fit."""


@runtime_checkable
class OfHouseholds(Protocol):
    """A model of households."""

    def independent_probabilities(self, state: Any, data: Any, cells: Int32) -> Float64:
        """Probabilities of households, (n,), if their members were independent of each other.

        The size and the keys of the household keep their law.
        """


AnySampler: TypeAlias = Sampler[Any, Any]
AnyLaw: TypeAlias = CellLaw[Any, Any]
AnySimulator: TypeAlias = Simulator[Any, Any]
AnyModel: TypeAlias = Model[Any, Any]


def same_shapes(value: Any, other: Any) -> bool:
    """Whether the arrays and scalars of two states, nested alike, have the same shapes.

    Examples
    --------
    >>> same_shapes((np.ones(3), 2.0), (np.zeros(3), 1.0))
    True
    >>> same_shapes((np.ones(3), 2.0), (np.zeros(4), 1.0))
    False
    """
    if isinstance(value, tuple):
        return all(same_shapes(one, two) for one, two in zip(value, other, strict=True))
    return bool(np.shape(value) == np.shape(other))


def n_bytes(value: Any) -> int:
    """Bytes of the arrays and scalars of a state, nested or not."""
    if isinstance(value, tuple):
        return sum(n_bytes(part) for part in value)
    return int(np.asarray(value).nbytes)
