"""Classes of households and of persons within them: how many arrays hold, and which are dropped."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from unikat._typing import Float32, Float64, Int64
from unikat.kernels.nested import Drawn, Tally, Weights
from unikat.models.mixtures.components import stick_tolerance

FIRST_CLASSES = 16
FIRST_KINDS = 8
_SPARE = 6
_SPARE_KINDS = 3
MOST_KINDS = 256


class Classes(NamedTuple):
    """Arrays with an axis of household classes."""

    drawn: Drawn
    tally: Tally
    weights: Weights
    beta: Float64


def empty_tally(
    n_rows: int, n_member_rows: int, n_classes: int, n_kinds: int, n_places: int = 0
) -> Tally:
    """Counts of nothing."""
    return Tally(
        np.zeros(n_classes, np.int64),
        np.zeros((n_classes, n_kinds), np.int64),
        np.zeros((n_rows, n_classes), np.int64),
        np.zeros((n_member_rows, n_classes * n_kinds), np.int64),
        np.zeros((4, n_places), np.int64),
    )


def summed(tallies: list[Tally]) -> Tally:
    """Sum of the counts of several threads."""
    return Tally(*(np.sum(parts, axis=0) for parts in zip(*tallies, strict=True)))


def kinds_needed(pi: Float64, beta: Float64, member_sizes: Int64) -> int:
    """Person classes that leave less than the tolerance to the last stick, roughly."""
    totals = member_sizes.sum(axis=1)
    occupied = (member_sizes > 0).sum(axis=1)
    concentration = np.broadcast_to(beta, totals.shape)
    left = pi * concentration / (concentration + totals)
    shrink = concentration / (1.0 + concentration)
    tolerance = stick_tolerance(int(totals.sum()))
    most = int(occupied.max())
    n_kinds = most + _SPARE_KINDS
    while n_kinds < MOST_KINDS and left @ shrink ** (n_kinds - occupied) > tolerance:
        n_kinds += 1
    return max(n_kinds, FIRST_KINDS)


def compacted(classes: Classes, alpha: float, token_record: Int64) -> Classes:
    """Drop empty classes where there are far too many, the occupied ones moved to the front.

    token_record (n_members,): record of each member.
    """
    drawn, tally, weights, beta = classes
    n_classes, n_kinds = tally.member_sizes.shape
    n = int(tally.sizes.sum())
    occupied = np.flatnonzero(tally.sizes)
    sticks = alpha * math.log(max(alpha / (alpha + n) / stick_tolerance(n), 1.0))
    keep = max(FIRST_CLASSES, 4 * math.ceil((len(occupied) + _SPARE + 1.3 * sticks) / 4))
    if n_classes > 1.3 * keep:
        kept = np.concatenate((occupied, np.flatnonzero(tally.sizes == 0)))[:keep]
        place = np.full(n_classes, -1, np.int16)
        place[kept] = np.arange(keep)
        drawn = drawn._replace(g=place[drawn.g])
        tally, weights = _taken(tally, weights, kept)
        beta = beta if len(beta) == 1 else beta[kept]
        n_classes = keep
    keep_kinds = math.ceil(1.15 * kinds_needed(weights.pi, beta, tally.member_sizes))
    if n_kinds > 1.4 * keep_kinds:
        order = np.argsort(tally.member_sizes == 0, axis=1, kind="stable")[:, :keep_kinds]
        places = np.full((n_classes, n_kinds), -1, np.int16)
        np.put_along_axis(places, order, np.arange(keep_kinds, dtype=np.int16)[None, :], axis=1)
        columns = (np.arange(n_classes)[:, None] * n_kinds + order).ravel()
        drawn = drawn._replace(m=places[drawn.g[token_record], drawn.m])
        tally = tally._replace(
            member_sizes=np.take_along_axis(tally.member_sizes, order, axis=1),
            member_counts=tally.member_counts.take(columns, axis=1),
        )
        weights = weights._replace(
            omega=np.take_along_axis(weights.omega, order, axis=1),
            phi=weights.phi.take(columns, axis=1),
        )
    return Classes(drawn, tally, weights, beta)


def _taken(tally: Tally, weights: Weights, kept: Int64) -> tuple[Tally, Weights]:
    """The same of some household classes alone."""
    n_kinds = tally.member_sizes.shape[1]
    columns = (kept[:, None] * n_kinds + np.arange(n_kinds)).ravel()
    return tally._replace(
        sizes=tally.sizes[kept],
        member_sizes=tally.member_sizes[kept],
        counts=tally.counts.take(kept, axis=1),
        member_counts=tally.member_counts.take(columns, axis=1),
    ), weights._replace(
        pi=weights.pi[kept],
        omega=weights.omega[kept],
        lam=weights.lam.take(kept, axis=1),
        phi=weights.phi.take(columns, axis=1),
    )


def more_classes(tally: Tally, n_classes: int) -> Tally:
    """Add empty household classes."""
    extra = n_classes - len(tally.sizes)
    n_kinds = tally.member_sizes.shape[1]
    return tally._replace(
        sizes=np.pad(tally.sizes, (0, extra)),
        member_sizes=np.pad(tally.member_sizes, ((0, extra), (0, 0))),
        counts=np.pad(tally.counts, ((0, 0), (0, extra))),
        member_counts=np.pad(tally.member_counts, ((0, 0), (0, extra * n_kinds))),
    )


def more_kinds(tally: Tally, n_kinds: int) -> Tally:
    """Add empty person classes to every household class."""
    n_classes, before = tally.member_sizes.shape
    counts = tally.member_counts.reshape(-1, n_classes, before)
    extra = n_kinds - before
    return tally._replace(
        member_sizes=np.pad(tally.member_sizes, ((0, 0), (0, extra))),
        member_counts=np.ascontiguousarray(
            np.pad(counts, ((0, 0), (0, 0), (0, extra))).reshape(len(counts), -1)
        ),
    )


def wide(omega: Float64, phi: Float32) -> tuple[Float64, Float32]:
    """The same with the household classes as the inner index, see `nested.person_table`."""
    n_classes, n_kinds = omega.shape
    turned = phi.reshape(-1, n_classes, n_kinds).transpose(0, 2, 1)
    return (
        np.ascontiguousarray(omega.T).reshape(1, -1),
        np.ascontiguousarray(turned).reshape(len(phi), -1),
    )
