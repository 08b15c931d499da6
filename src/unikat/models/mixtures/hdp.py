"""The hierarchical Dirichlet process: mixed membership with unlimited components (paper 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from unikat._typing import Float64, Int64
from unikat.models.mixtures.components import Components, compacted, draw_sticks, first_components
from unikat.models.mixtures.mixed_membership import MembershipState, MixedMembership
from unikat.models.options import PRIOR, check_numbers


@dataclass(frozen=True, kw_only=True)
class HDP(MixedMembership):
    """Mixed membership with unlimited components: the hierarchical Dirichlet process (paper 1).

    Parameters
    ----------
    top_shape, top_rate
        Gamma prior of alpha_0; each from 1e-6 to 1e6.

    See Also
    --------
    MixedMembership : alpha.
    ProfilePrior : the profiles' prior.

    Examples
    --------
    >>> import unikat
    >>> unikat.HDP().top_shape, unikat.HDP(profile_base="uniform").profile_base
    (2.0, 'uniform')
    """

    name: ClassVar[str] = "hdp"
    top_shape: float = 2.0
    top_rate: float = 1.0

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        check_numbers(self, {"top_shape": PRIOR, "top_rate": PRIOR})

    def _first_components(self, chain: int) -> int:
        return first_components(chain)

    def _start_limit(self) -> int | None:
        return None

    def _first_top(self) -> list[float]:
        return [self.top_shape / self.top_rate]

    def _partition_prior(self, state: MembershipState, n_components: int) -> tuple[Float64, float]:
        return np.full(n_components, math.log(float(state.top[0]))), 0.0

    def weight_exponents(self, state: MembershipState, tables: Int64) -> tuple[float, float]:
        """Exponents of the weights: their tables, and alpha_0 for the unseen."""
        return 0.0, float(tables.sum()) + float(state.top[0])

    def _draw_weights(
        self, key: Any, sweep: int, state: MembershipState, tables: Int64
    ) -> tuple[Float64, Float64, int]:
        weights, top, occupied = draw_sticks(
            key, sweep, float(state.top[0]), self.top_shape, self.top_rate, tables
        )
        return weights, np.array([top]), occupied

    def _compacted(self, state: MembershipState, components: Components) -> Components:
        return compacted(components, float(state.top[0]))
