"""Grade of membership: mixed membership with a fixed number of components (paper 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from unikat._typing import Float64, Int64
from unikat.kernels import weights as weight_kernels
from unikat.models.mixtures.mixed_membership import MembershipState, MixedMembership
from unikat.models.options import check_whole

_MOST_COMPONENTS = 10_000


@dataclass(frozen=True, kw_only=True)
class GoM(MixedMembership):
    """Grade of membership: mixed membership with a fixed number of components (paper 2).

    Parameters
    ----------
    components
        K, the number of components, from 1 to 10,000; how tau1 settles as it grows is seen by
        comparing several.

    See Also
    --------
    MixedMembership : alpha.
    ProfilePrior : the profiles' prior.

    Examples
    --------
    >>> import unikat
    >>> unikat.GoM(components=10).components, unikat.GoM.name
    (10, 'gom')
    """

    name: ClassVar[str] = "gom"
    components: int = 30

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        check_whole(self, "components", 1, _MOST_COMPONENTS)

    def _first_components(self, chain: int) -> int:
        return -(-self.components // 8) * 8

    def _start_limit(self) -> int | None:
        return self.components

    def _first_top(self) -> list[float]:
        return []

    def _partition_prior(self, state: MembershipState, n_components: int) -> tuple[Float64, float]:
        # Dirichlet(1): log Gamma(1) is 0.
        return np.log(np.arange(self.components, 0, -1.0)), 1.0

    def weight_exponents(self, state: MembershipState, tables: Int64) -> tuple[float, float]:
        """Exponents of the weights: their tables, and 1 for each component."""
        return 1.0, float(tables.sum()) + self.components

    def _draw_weights(
        self, key: Any, sweep: int, state: MembershipState, tables: Int64
    ) -> tuple[Float64, Float64, int]:
        weights = np.empty(len(tables))
        occupied = weight_kernels.draw_finite_weights(
            key, sweep, 1.0, self.components, tables, weights
        )
        return weights, state.top, occupied
