"""Kernels of the nested mixture of households: values of members that depend on the head's.

The value of key k of a member in role r, whose head has the level h, is either the member's own
draw or drawn given h alone:

    p(x | h, g, m) = t_rk[h, own] (kept_rk[h, x] phi_gmrk(x) + lost_gmrk(h) moved_rk[h, x])
                     + t_rk[h, x],    lost_gmrk(h) = sum_y (1 - kept_rk[h, y]) phi_gmrk(y)

An own draw of the level y is kept with probability kept_rk[h, y]; else a level is drawn in its
place. The *table of ties* holds the rows t_rk[h] = (own, level 0, level 1, ...) one after the
other; each sums to one. A *place* is one of its entries. kept and moved have the same places.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unikat.kernels.jit import device, kernel
from unikat.kernels.random import (
    GENERATOR_SIZE,
    PURPOSE_TIES,
    draw_one,
    seek,
    uniform,
)

GIVEN, KEPT, MOVED = 0, 1, 2
"""Rows of the table (3, n_places): t, kept, moved."""
ORIGIN, STAYED, CAME, LEFT = 0, 1, 2, 3
"""Rows of the counts (4, n_places): values by their places; own draws that were kept, by their
levels; levels drawn in the place of others; and own draws that these took the place of."""


class Ties(NamedTuple):
    """Which keys are tied to the head's, and where their part of the table begins."""

    head: int
    """The role of the head; -1 if no key is tied."""
    first: npt.NDArray[np.int64]
    """(n_person_keys, n_roles): first place of a key in a role, -1 if it is not tied."""
    own: npt.NDArray[np.int64]
    """(n_places,): place of "own" in the same row of the table."""
    base: npt.NDArray[np.int64]
    """(n_places,): row of phi of the level; -1 of "own"."""
    head_row: npt.NDArray[np.int64]
    """(n_places,): row of phi that the head's level has in the member's role."""


@device
def only_head(role_of, n_members, head):
    """Slot of the member who is the head; -1 if none is, or several are."""
    found = -1
    for j in range(n_members):
        if role_of[j] == head:
            if found >= 0:
                return -1
            found = j
    return found


@device
def draw_tied(generator, table, start, n_levels):
    """Draw from the row of the table that begins at `start`: a level, or -1 for an own draw."""
    mark = uniform(generator) - table[start]
    if mark < 0.0:
        return -1
    chosen = -1
    for x in range(n_levels):
        share = table[start + 1 + x]
        if share > 0.0:
            # The last one with a share stands in where rounding runs past the end.
            chosen = x
            if mark < share:
                break
            mark -= share
    return chosen


@device
def draw_instead(generator, table, start, drawn, n_levels):
    """Draw the level that takes the place of an own draw; -1 if this is kept."""
    if uniform(generator) < table[KEPT, start + 1 + drawn]:
        return -1
    return draw_tied(generator, table[MOVED], start, n_levels)


@device
def tied_share(place, ties, table, phi, lost, component):
    """Probability of a tied value, by its place, in a component of phi and lost."""
    own = table[GIVEN, ties.own[place]]
    share = own * table[KEPT, place] * phi[ties.base[place], component] + table[GIVEN, place]
    return share + own * table[MOVED, place] * lost[ties.head_row[place], component]


@device
def draw_origin(generator, place, n_levels, ties, table, phi, lost, component, weights):
    """Draw where a tied value comes from; weights (n_levels,) is scratch.

    Returns places: of "own", or of the value if it was drawn given the head's; of the own draw, -1
    if there was none; and of the value if it came in the place of the own draw, else -1.
    """
    start = ties.own[place]
    mark = uniform(generator) * tied_share(place, ties, table, phi, lost, component)
    if mark < table[GIVEN, place]:
        return place, -1, -1
    mark -= table[GIVEN, place]
    first = ties.base[start + 1]
    kept = table[GIVEN, start] * table[KEPT, place] * phi[ties.base[place], component]
    if mark < kept or table[MOVED, place] == 0.0:
        return start, place, -1
    total = 0.0
    for y in range(n_levels):
        weights[y] = phi[first + y, component] * (1.0 - table[KEPT, start + 1 + y])
        total += weights[y]
    return start, start + 1 + draw_one(generator, weights[:n_levels], total), place


@device
def count_value(place, drawn, instead, sign, counts):
    """Count a tied value by its places, see `draw_origin`."""
    counts[ORIGIN, place] += sign
    if drawn >= 0:
        if instead < 0:
            counts[STAYED, drawn] += sign
        else:
            counts[CAME, instead] += sign
            counts[LEFT, drawn] += sign


@kernel
def draw_origins(
    key, sweep, ties, table, phi, lost, component, rows, places, n_levels, own_rows, counts
):
    """Draw which values of members are their own draws, and which were drawn given the head's.

    component (n_members,): column of phi of each member's class; lost (n_person_rows,
    n_components): see the module; rows (n_members, n_person_keys): rows of phi, -1 where missing;
    places (n_members, n_person_keys): places of the levels, -1 where the key is not tied; n_levels
    (n_person_keys,). Into own_rows: rows of the own draws, -1 where a value is none. Adds the draws
    to counts (4, n_places).
    """
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    weights = np.empty(n_levels.max())
    for t in range(rows.shape[0]):
        seek(generator, key, t, sweep, PURPOSE_TIES)
        for k in range(rows.shape[1]):
            own_rows[t, k] = rows[t, k]
            place = places[t, k]
            if place < 0:
                continue
            origin, drawn, instead = draw_origin(
                generator, place, n_levels[k], ties, table, phi, lost, component[t], weights
            )
            own_rows[t, k] = ties.base[drawn] if drawn >= 0 else -1
            count_value(origin, drawn, instead, 1, counts)
