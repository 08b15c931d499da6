"""The state of the sampler of nested households, and what is counted for it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unikat._typing import Float32, Float64, Int32
from unikat.kernels import nested as kernels
from unikat.kernels.nested import Drawn, Tally, Weights
from unikat.models.households.classes import empty_tally
from unikat.models.households.records import NestedData, apart, own_draws
from unikat.models.state_checks import positive, within


class NestedState(NamedTuple):
    """State of the nested sampler; classes that are empty are part of it."""

    pi: Float64
    """(n_classes,)"""
    omega: Float64
    """(n_classes, n_kinds)"""
    lam: Float32
    """(n_household_rows, n_classes)"""
    phi: Float32
    """(n_person_rows, n_classes * n_kinds)"""
    alpha: Float64
    """(1,)"""
    beta: Float64
    """(1,), or (n_classes,) where each household class has its own."""
    profile: Float64
    """(n_household_rows,): Dirichlet parameters of lambda."""
    member_profile: Float64
    """(n_person_rows,): those of phi."""
    counts: Int32
    """(n_household_rows, n_classes): known keys of the households."""
    member_counts: Int32
    """(n_person_rows, n_classes * n_kinds): known keys of the members; own draws with ties."""
    ties: Float64 = np.empty((3, 0))
    """(3, n_places): the table of ties (`kernels.nested_ties`), if there are any."""
    tie_laws: Float64 = np.empty(0)
    """The laws that the table is made of (`ties.Law`), one after the other."""


def state_fits(state: NestedState, data: NestedData, common_beta: bool) -> bool:
    """Whether a state of a file has shapes that the kernels can read."""
    n_classes, n_kinds = state.omega.shape
    n_rows, n_member_rows = rows_of(data)
    shares = (state.pi, state.omega, state.lam, state.phi, state.ties, state.tie_laws)
    return (
        state.pi.shape == (n_classes,)
        and n_classes >= 1
        and n_kinds >= 1
        and state.lam.shape == state.counts.shape == (n_rows, n_classes)
        and state.phi.shape == (n_member_rows, n_classes * n_kinds)
        and state.member_counts.shape == state.phi.shape
        and state.alpha.shape == (1,)
        and state.beta.shape == ((1,) if common_beta else (n_classes,))
        and state.profile.shape == (n_rows,)
        and state.member_profile.shape == (n_member_rows,)
        and state.ties.shape == (3, *data.columns.ties.own.shape)
        and all(map(positive, (state.alpha, state.beta, state.profile, state.member_profile)))
        and all(bool(np.isfinite(a).all() and (a >= 0.0).all()) for a in shares)
        and all(within(a, 0, 2**31) for a in (state.counts, state.member_counts))
    )


def weights_of(state: NestedState) -> Weights:
    """The parameters as kernels take them."""
    return Weights(state.pi, state.omega, state.lam, state.phi, state.ties)


def counted(data: NestedData, drawn: Drawn, n_classes: int, n_kinds: int) -> Tally:
    """Count the observed households by the classes that were drawn, but for the table of ties."""
    tally = empty_tally(*rows_of(data), n_classes, n_kinds, len(data.columns.ties.own))
    households = data.households
    if len(drawn.own_rows):
        households = apart(own_draws(data, drawn.own_rows))
    kernels.count(households, drawn, tally)
    return tally


def rows_of(data: NestedData) -> tuple[int, int]:
    """Rows of the profiles of households and of persons."""
    return int(data.columns.offsets[-1]), int(data.columns.member_offsets[-1])
