"""The prior of the components' profiles, which the mixture models share.

    theta_j^(k) ~ Dirichlet(c_j b_j)     key j, component k

The papers fix c_j b_j at 1 for every level. On census-like data with many levels that alone moves
tau1 by tens of percent, since it sets how much probability each component spreads over levels it
has never seen; so by default both are learned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from unikat._typing import Bool, Float32, Float64, Int16, Int32, Int64
from unikat.kernels import profiles as kernels
from unikat.models.options import PRIOR, check_choice, check_numbers
from unikat.models.records import MixtureData

_EVERY = 4
"""Sweeps from one draw of the prior, and of all profiles, to the next."""
BASES = ("uniform", "empirical", "learned")


@dataclass(frozen=True, kw_only=True)
class ProfilePrior:
    """Options of the profiles' prior.

    Parameters
    ----------
    profile_concentration
        c_j per level, c_j / n_j: a number from 1e-6 to 1e6 for all keys (the papers have 1);
        `"learned"`, one for each key; or `"total"`, c_j = 1 whatever the number of levels (Hu,
        Reiter and Wang 2018, section 2.1, with the empirical base).
    profile_base
        b_j: `"uniform"` over the levels; `"empirical"`, the levels' shares in the file, each
        raised by half a record; or `"learned"`, with a flat Dirichlet prior.
    profile_shape, profile_rate
        Gamma prior of a learned c_j / n_j; each from 1e-6 to 1e6 (`options.PRIOR` says why).

    Examples
    --------
    >>> import unikat
    >>> isinstance(unikat.HDP(profile_concentration=1, profile_base="uniform"), unikat.ProfilePrior)
    True
    """

    profile_concentration: float | Literal["learned", "total"] = "learned"
    profile_base: Literal["uniform", "empirical", "learned"] = "learned"
    profile_shape: float = 1.0
    profile_rate: float = 1.0

    def __post_init__(self) -> None:
        """Check the options."""
        check_choice("profile_base", self.profile_base, BASES)
        if self.profile_concentration not in ("learned", "total"):
            also = ", or 'learned', or 'total'"
            check_numbers(self, {"profile_concentration": PRIOR}, also=also)
        check_numbers(self, {"profile_shape": PRIOR, "profile_rate": PRIOR})

    def first_profile(self, data: MixtureData) -> Float64:
        """Dirichlet parameters c_j b_j at the start of a chain, (n_rows,)."""
        levels = np.diff(data.offsets)
        fixed = self.profile_concentration
        per_level: float | Float64
        if fixed == "learned":
            per_level = self.profile_shape / self.profile_rate
        elif fixed == "total":
            per_level = np.repeat(1.0 / levels, levels)
        else:
            per_level = float(fixed)
        if self.profile_base == "uniform":
            return np.full(int(data.offsets[-1]), per_level)
        # A learned base starts at the empirical one, near which it ends.
        raised = data.frequencies + 0.5
        totals = np.add.reduceat(raised, data.offsets[:-1])
        profile: Float64 = raised / np.repeat(totals / levels, levels) * per_level
        return profile

    def draw_profiles(
        self,
        key: Any,
        sweep: int,
        data: MixtureData,
        counts: Int64,
        occupied: Bool,
        profile: Float64,
        theta: Float32 | None,
    ) -> tuple[Float64, Float32]:
        """Draw the prior's parameters (n_rows,) and the profiles (n_rows, n_components).

        counts (n_rows, n_components): known tokens; occupied (n_components,); theta: the profiles
        before, with as many components or fewer, or None if the tokens' components were just drawn
        with the profiles integrated out: then all profiles are drawn from their conditional, given
        the current prior. Every fourth sweep, the first one included, draws the prior, with all
        profiles integrated out. In the others empty components keep their profiles, which are draws
        from that prior already: they are many, and a draw of theirs costs as much as one of an
        occupied component.

        When the prior is drawn must not depend on whether a move was accepted: acceptance depends
        on the prior, so the states after an accepted move do not have its conditional.
        """
        fresh = np.ones(counts.shape[1], np.bool_)
        after = np.empty(counts.shape, np.float32)
        if sweep % _EVERY == 0:
            profile = self._draw_prior(key, sweep, data, counts, profile)
        elif theta is not None:
            n_before = theta.shape[1]
            fresh[:n_before] = occupied[:n_before]
            after[:, :n_before] = theta
        kernels.draw_profiles(key, sweep, data.offsets, profile, counts, fresh, after)
        return profile, after

    def mean_profiles(
        self, data: MixtureData, z: Int16, profile: Float64, n_components: int, more: Int32
    ) -> Float32:
        """Mean of the profiles given the tokens' components, (n_rows, n_components).

        z (n_records, n_keys), or (n_records, 1) where a record has one component; more
        (n_rows, n_components): further tokens, or (n_rows, 0).
        """
        rows = data.rows[data.record_cell]
        known = rows >= 0
        places = rows[known].astype(np.int64) * n_components + np.broadcast_to(z, rows.shape)[known]
        counts = np.bincount(places, minlength=len(profile) * n_components).reshape(
            -1, n_components
        )
        if more.size:
            counts += more
        mean = counts + profile[:, None]
        totals = np.add.reduceat(mean, data.offsets[:-1], axis=0)
        shares: Float32 = (mean / np.repeat(totals, np.diff(data.offsets), axis=0)).astype(
            np.float32
        )
        return shares

    def _draw_prior(
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
