"""What sampling returns, and the contract of what is computed from a state."""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from unikat._typing import Float64
from unikat.errors import OutputError
from unikat.files.scratch import scratch_folder
from unikat.files.writing import replacing
from unikat.models.base import NO_FACTS, AnyModel, Facts, Specified, Stream

if TYPE_CHECKING:
    from xarray import DataTree


def map_totals(function: Callable[..., Any], first: Any, *others: Any) -> Any:
    """Apply a function to the arrays of one or more totals, field by field."""
    if hasattr(first, "_fields"):
        return type(first)._make(
            map_totals(function, *fields) for fields in zip(first, *others, strict=True)
        )
    return function(first, *others)


def add_totals(first: Any, second: Any) -> Any:
    """Totals of two disjoint sets of draws together."""
    return map_totals(lambda one, other: np.asarray(one + other), first, second)


class Observer(ABC):
    """What is computed from kept states: scalars per draw, and running totals.

    Totals are a NamedTuple of NumPy arrays; totals of segments are merged by adding the arrays, so
    their size does not grow with the number of draws.
    """

    times_sweeping: ClassVar[float] = 2.0
    """Work of sweeps between two kept states, over that of observing one, unless a plan says it."""

    @property
    @abstractmethod
    def monitored(self) -> tuple[str, ...]:
        """Names of the scalars on which convergence is judged; a ClassVar where they are fixed."""

    @property
    def parts(self) -> Mapping[str, str]:
        """Monitored scalars that are parts of others, by name: what the chains know of them.

        They are judged by what they mean for the other (`diagnostics.as_part`). Default: none.
        """
        return {}

    @abstractmethod
    def start(self) -> Any:
        """Return empty totals."""

    @abstractmethod
    def observe(
        self, stream: Stream, model: AnyModel, state: Any, data: Any, totals: Any
    ) -> Mapping[str, float]:
        """Add one kept state to `totals` (in place) and return its scalars."""

    def joined(self, of_chains: Sequence[Any]) -> Any:
        """Return the totals of all chains together. Default: their sum."""
        return reduce(add_totals, of_chains)

    @abstractmethod
    def cost(self, model: AnyModel, data: Any) -> float:
        """Return the counted work of observing one state, in the unit of the model's cost."""

    def compile(self) -> None:  # noqa: B027  # the default
        """Compile the kernels, or load them from the cache, before workers start. Default: none."""

    def judged_without_error(self) -> Observer:
        """Return the observer that judges convergence without the model's own error too.

        Default: this one, for observers that do not see that error.
        """
        return self

    def risk_totals(self, totals: Any) -> Any:
        """Totals of the risk measures among those of this observer. Default: all of them."""
        return totals


@dataclass(frozen=True, kw_only=True)
class Diagnostics:
    """Convergence of one scalar over the retained draws (rank-normalised split R-hat, ESS)."""

    rhat: float
    ess_bulk: float
    ess_tail: float


@dataclass(frozen=True, kw_only=True)
class Draws:
    """Posterior draws: every kept scalar, and the observer's totals of the retained part.

    Examples
    --------
    >>> import unikat
    >>> table = unikat.tabulate([[0, 2], [1, 1], [0, 2], [1, 2]], population_size=40)
    >>> plan = unikat.Plan(n_chains=2, thin=1, stop=unikat.StopRule(max_sweeps=60))
    >>> here = unikat.Execution(workers=unikat.Workers(n_workers=1))
    >>> draws = unikat.fit("latent-class", table, plan=plan, execution=here).draws
    >>> draws.stop_reason, draws.n_sweeps, draws.retained("tau1").shape[0]
    ('sweep limit', 60, 2)
    """

    scalars: Mapping[str, Float64] = field(repr=False)
    """Each (n_chains, n_draws), the discarded first part included."""
    n_discarded: int
    """Draws at the start of every chain that are not used."""
    totals: Any = field(repr=False)
    """The observer's totals over the retained draws, of all chains as it joins them."""
    thin: int
    """Sweeps per kept draw."""
    n_sweeps: int
    """Sweeps made by each chain, the discarded first part included."""
    n_chains: int
    seed: int
    seconds: float
    converged: bool
    stop_reason: str
    """One of 'converged', 'sweep limit', 'time limit', 'interrupted'."""
    diagnostics: Mapping[str, Diagnostics]
    """For each monitored scalar; of `Observer.parts` by what they mean for the scalar itself."""
    model: Specified
    observer: Observer = field(repr=False)
    facts: Facts = field(default=NO_FACTS, repr=False)
    """What the model says of its fit."""
    states: tuple[Any, ...] = field(default=(), repr=False, compare=False)
    """The last state of every chain."""
    n_before: int = 0
    """Sweeps of each chain before the first of these, in a run that this one went on from."""

    def retained(self, name: str) -> Float64:
        """Draws of a scalar that are used, (n_chains, n_retained)."""
        return self.scalars[name][:, self.n_discarded :]

    def retained_sweeps(self) -> range:
        """Numbers of the sweeps, the same of every chain, after which the used draws were made."""
        first = self.n_before + self.thin * (self.n_discarded + 1)
        return range(first, self.n_before + self.n_sweeps + 1, self.thin)

    def to_datatree(self) -> DataTree:
        """Return the draws as an ArviZ data tree.

        Group `posterior` holds the retained draws of every scalar, dimensions chain and draw, and
        `warmup_posterior` the discarded ones.
        """
        from arviz_base import from_dict

        from unikat._version import __version__

        first = self.n_discarded
        groups = {"posterior": {name: draws[:, first:] for name, draws in self.scalars.items()}}
        if first:
            groups["warmup_posterior"] = {
                name: draws[:, :first] for name, draws in self.scalars.items()
            }
        with warnings.catch_warnings():
            # Of many chains with few draws, which ArviZ takes for a mix-up.
            warnings.filterwarnings("ignore", "Found chain dimension to be longer than draw")
            tree: DataTree = from_dict(groups, save_warmup=True)
        for group in groups:
            attributes = tree[group].attrs
            # The same run gives the same file.
            attributes.pop("created_at", None)
            attributes |= {
                "inference_library": "unikat",
                "inference_library_version": __version__,
                "model": self.model.as_specified.name,
                "seed": self.seed,
                "thin": self.thin,
                "n_sweeps": self.n_sweeps,
                "stop_reason": self.stop_reason,
            }
        return tree

    def to_netcdf(self) -> bytes:
        """Return the bytes of a netCDF file for ArviZ, or for `xarray.open_datatree`."""
        tree = self.to_datatree()
        with scratch_folder() as folder:
            path = folder / "draws.nc"
            tree.to_netcdf(path, engine="h5netcdf")
            return path.read_bytes()

    def write_netcdf(self, path: str | os.PathLike[str]) -> None:
        """Write the draws as a netCDF file; a file that is there is replaced as a whole.

        Raises
        ------
        OutputError
            When the file cannot be written.
        """
        path = Path(path)
        try:
            content = self.to_netcdf()
            with replacing(path) as file:
                file.write(content)
        except OSError as error:
            raise OutputError(
                f"The draws cannot be written to {path}: {error.strerror or error}."
            ) from error
