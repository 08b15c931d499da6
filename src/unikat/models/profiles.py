"""The prior of the components' profiles, which the mixture models share.

    theta_j^(k) ~ Dirichlet(c_j b_j)     key j, component k

The papers fix c_j b_j at 1 for every level. On census-like data with many levels that alone moves
tau1 by tens of percent, since it sets how much probability each component spreads over levels it
has never seen; so by default both are learned.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from unikat._typing import Float64, Int64
from unikat.errors import SpecError
from unikat.kernels import profiles as kernels
from unikat.models.records import MixtureData

BASES = ("uniform", "empirical", "learned")


@dataclass(frozen=True, kw_only=True)
class ProfilePrior:
    """Options of the profiles' prior.

    Parameters
    ----------
    profile_concentration
        c_j per level, c_j / n_j: a positive number for all keys (the papers have 1), or
        `"learned"`, one for each key.
    profile_base
        b_j: `"uniform"` over the levels; `"empirical"`, the levels' shares in the file, each
        raised by half a record; or `"learned"`, with a flat Dirichlet prior.
    profile_shape, profile_rate
        Gamma prior of a learned c_j / n_j.
    """

    profile_concentration: float | Literal["learned"] = "learned"
    profile_base: Literal["uniform", "empirical", "learned"] = "learned"
    profile_shape: float = 1.0
    profile_rate: float = 1.0

    def __post_init__(self) -> None:
        """Check the options."""
        check_choice("profile_base", self.profile_base, BASES)
        if self.profile_concentration != "learned":
            check_positive(self, ["profile_concentration"], also=" or 'learned'")
        check_positive(self, ["profile_shape", "profile_rate"])

    def first_profile(self, data: MixtureData) -> Float64:
        """Dirichlet parameters c_j b_j at the start of a chain, (n_rows,)."""
        levels = np.diff(data.offsets)
        fixed = self.profile_concentration
        per_level = self.profile_shape / self.profile_rate if fixed == "learned" else float(fixed)
        if self.profile_base == "uniform":
            return np.full(int(data.offsets[-1]), per_level)
        # A learned base starts at the empirical one, near which it ends.
        raised = data.frequencies + 0.5
        totals = np.add.reduceat(raised, data.offsets[:-1])
        profile: Float64 = raised / np.repeat(totals / levels, levels) * per_level
        return profile

    def draw_profile(
        self, key: Any, sweep: int, data: MixtureData, counts: Int64, profile: Float64
    ) -> Float64:
        """Draw what is learned of the Dirichlet parameters, given the tokens' components."""
        concentration = self.profile_concentration == "learned"
        base = self.profile_base == "learned"
        if not (concentration or base):
            return profile
        levels = np.diff(data.offsets).astype(np.float64)
        profile = profile.copy()
        kernels.draw_prior(
            key,
            sweep,
            data.offsets,
            counts,
            np.full(len(levels), self.profile_shape),
            self.profile_rate / levels,
            concentration,
            base,
            profile,
        )
        return profile


def check_positive(options: object, names: Iterable[str], also: str = "") -> None:
    """Refuse options that are not positive, finite numbers.

    Raises
    ------
    SpecError
        Naming the option.
    """
    for name in names:
        value = getattr(options, name)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not 0 < value < np.inf:
            raise SpecError(
                f"model option {name} is {value!r}; it must be a positive, finite number{also}."
            )


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse an option that is none of its choices.

    Raises
    ------
    SpecError
        Naming the option and the choices.
    """
    if value not in choices:
        raise SpecError(
            f"model option {name} is {value!r}; choose {', '.join(map(repr, choices))}."
        )


def check_bool(options: object, name: str) -> None:
    """Refuse an option that is neither true nor false.

    Raises
    ------
    SpecError
        Naming the option.
    """
    value = getattr(options, name)
    if not isinstance(value, bool):
        raise SpecError(f"model option {name} is {value!r}; it must be true or false.")
