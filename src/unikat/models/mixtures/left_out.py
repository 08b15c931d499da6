"""Cells whose companions are left out, as `kernels.thinning` reads them."""

from __future__ import annotations

from typing import Any

import numpy as np

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.companions import Companions
from unikat.kernels import mixture, thinning
from unikat.models.groups import Groups
from unikat.models.mixtures import truncation
from unikat.models.mixtures.completions import completions, grouped_completions
from unikat.models.mixtures.new_record import (
    EXACT_KEYS,
    NewRecord,
    components_that_matter,
    repeats,
)
from unikat.models.records import MixtureData, rows_of

_NO_SETS = np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0)
"""Of levels, where single ones are asked for."""


def asked_of(
    data: MixtureData, theta: Float64, cells: Int32, groups: Groups | None
) -> tuple[Int64, thinning.Asked]:
    """Rows of theta or sets of them whose products make up cells; and the cell that each is of.

    Under structural zeros those of the possible completions of a cell.
    """
    n_rows, owner = len(theta), np.arange(len(cells))
    if data.zeros is None:
        rows = rows_of(cells, data.offsets if groups is None else groups.offsets).astype(np.int64)
        if groups is None:
            return owner, thinning.Asked(rows, theta, *_NO_SETS)
        rows[rows >= 0] += n_rows
        return owner, thinning.Asked(rows, np.vstack((theta, groups.sums(theta))), *groups.sets)
    parts = (
        completions(data.zeros, data.offsets, cells)
        if groups is None
        else grouped_completions(data.zeros, data.offsets, groups, cells)
    )
    of_set, levels = np.nonzero(parts.sets)
    return parts.owner, thinning.Asked(
        parts.rows.astype(np.int64),
        np.vstack((theta, parts.sets @ theta)),
        np.searchsorted(of_set, np.arange(len(parts.sets) + 1)),
        levels,
        parts.sets[of_set, levels],
    )


def sampled_rows(data: MixtureData, imputed: Int32) -> Int32:
    """Rows of theta of the records, (n_records, n_keys), completed under structural zeros."""
    if data.zeros is not None:
        data = truncation.augmented(data, imputed, imputed[:0])
    return data.rows[data.record_cell]


def summed(owner: Int64, found: Float64, mass: float, p: Float64, some: Bool) -> Float64:
    """Probabilities of cells, `some` of them made up of what was found; the others keep p (n,)."""
    total = np.bincount(owner, found, minlength=len(p)) / max(mass, 1e-300)
    return np.where(some, np.minimum(total, 1.0), p)


def thinned_memberships(
    key: Any,
    sweep: int,
    companions: Companions,
    record: NewRecord,
    drawn: thinning.Drawn,
    asked: thinning.Asked,
) -> Float64:
    """Probabilities under mixed membership of what is asked for, (n,); 0 without companions.

    record: the law of a new one.
    """
    found = np.zeros(len(asked.rows))
    given = key, sweep, companions, drawn, asked, record.alpha, record.alpha_weight
    if (asked.rows >= 0).sum(axis=1).max(initial=0) <= EXACT_KEYS:
        thinning.thin_memberships(*given, found)
    else:
        thinning.thin_memberships_sequentially(*given, repeats(record), found)
    return found


def membership_drawn(
    data: MixtureData, record: NewRecord, state: Any, opens: Bool, share: float
) -> thinning.Drawn:
    """State of mixed memberships, with the components that matter to a new record.

    opens (n_records, n_keys): which tokens opened a table.
    """
    kept = np.sort(components_that_matter(record))
    place = np.full(len(record.weights) + 1, -1, np.int16)
    place[kept] = np.arange(len(kept))
    # z = -1 (missing) reads the last entry, which stays -1.
    z, rows = place[state.z], sampled_rows(data, state.imputed)
    counts = np.zeros((len(state.profile), len(kept)), np.int64)
    stacks = np.zeros((z.shape[1], len(kept)), np.int64)
    mixture.count(0, len(z), rows, np.arange(len(z), dtype=np.int32), z, counts, stacks)
    tables = np.bincount(z[opens], minlength=len(kept))
    if state.impossible.size:
        counts += state.impossible[:, kept]
        tables += state.impossible_tables[kept]
    theta = record.theta[:, kept].astype(np.float64)
    return thinning.Drawn(
        rows, z, opens, theta, record.weights[kept], counts, tables, share, state.profile
    )
