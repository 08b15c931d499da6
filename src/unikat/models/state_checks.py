"""Checks of states that are read from a checkpoint: kernels check no bounds."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from unikat._typing import AnyArray, Float32, Float64, Int16, Int32
from unikat.models.mixtures.truncation import incomplete
from unikat.models.records import MixtureData


class MixtureState(Protocol):
    """What the states of the mixture models share."""

    @property
    def z(self) -> Int16:
        """Components."""

    @property
    def theta(self) -> Float32:
        """Profiles."""

    @property
    def weights(self) -> Float64:
        """Weights of the components."""

    @property
    def profile(self) -> Float64:
        """Dirichlet parameters of the profiles."""

    @property
    def imputed(self) -> Int32:
        """Rows of theta of the keys of incomplete records."""

    @property
    def impossible(self) -> Int32:
        """Tokens of impossible records."""


def mixture_fits(state: MixtureState, data: MixtureData, n_components_least: int) -> bool:
    """Whether shapes and indices of a mixture model's state are those of its data.

    `n_components_least` counts the empty ones too.
    """
    n_rows, n_components = int(data.offsets[-1]), len(state.weights)
    rows = data.rows[data.record_cell]
    has_zeros = data.zeros is not None
    which = incomplete(data) if has_zeros else np.empty(0, np.int64)
    if has_zeros:
        # Their missing keys are imputed, so that these have components as well.
        rows = rows.copy()
        if state.imputed.shape != (len(which), rows.shape[1]):
            return False
        rows[which] = state.imputed
    elif state.imputed.shape != (0, rows.shape[1]):
        return False
    known = rows >= 0
    if state.z.shape[1] == 1:
        known = (known.sum(axis=1) > 0)[:, None]
    return (
        n_components >= n_components_least
        and n_components % 8 == 0
        and state.z.shape == known.shape
        and within(state.z, -1, n_components)
        and np.array_equal(state.z >= 0, known)
        and state.theta.shape == (n_rows, n_components)
        and state.profile.shape == (n_rows,)
        and positive(state.profile)
        and bool((state.theta >= 0.0).all() and (state.weights >= 0.0).all())
        and bool(np.isfinite(state.theta).all() and np.isfinite(state.weights).all())
        and bool((state.imputed >= data.offsets[:-1]).all())
        and bool((state.imputed < data.offsets[1:]).all())
        and state.impossible.shape in ((n_rows, 0), (n_rows, n_components))
        and within(state.impossible, 0, 2**31)
    )


def within(indices: AnyArray, low: int, end: int) -> bool:
    """Whether all indices are from `low` to below `end`."""
    return not indices.size or bool(indices.min() >= low and indices.max() < end)


def positive(values: AnyArray) -> bool:
    """Whether all values are positive and finite."""
    return bool((values > 0.0).all() and np.isfinite(values).all())
