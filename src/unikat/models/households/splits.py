"""Split-merge moves of household classes: who takes part in them, and how many are proposed.

The households of the sample take part, and under rules the impossible ones that were simulated:
given them the model is that without rules. Incomplete households that are imputed under rules do
not; classes that have some are left as they are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unikat._typing import Int64
from unikat.kernels import nested_split
from unikat.kernels.nested import Drawn, Tally, count
from unikat.kernels.nested_split import NestedPrior, Tokens
from unikat.models.households.classes import Classes, empty_tally, more_kinds
from unikat.models.households.records import NestedData, apart, own_draws
from unikat.models.households.truncation import OneByOne

_PROPOSALS = 60
"""In a sweep, of two households for each of the sample or fewer. All together cost a third of the
rest of the sweep, or less."""
_FEWEST = 4
"""In a sweep, however many households were simulated and are impossible."""


class Records(NamedTuple):
    """Households one by one with their classes."""

    drawn: Drawn
    tokens: Tokens

    @property
    def token_record(self) -> Int64:
        """Record of each member."""
        return np.repeat(np.arange(len(self.drawn.g)), np.diff(self.tokens.first))


def all_records(data: NestedData, drawn: Drawn, impossible: OneByOne | None) -> Records:
    """Households of the sample, and the impossible ones after them."""
    tokens = own_draws(data, drawn.own_rows)
    if impossible is None:
        return Records(drawn, tokens)
    more = impossible.tokens
    return Records(
        Drawn(
            np.concatenate((drawn.g, impossible.drawn.g)),
            np.concatenate((drawn.m, impossible.drawn.m)),
        ),
        tokens._replace(
            rows=np.concatenate((tokens.rows, more.rows)),
            persons=np.concatenate((tokens.persons, more.persons)),
            cell=np.concatenate((tokens.cell, more.cell + np.int32(len(tokens.rows)))),
            first=np.concatenate((tokens.first, more.first[1:] + tokens.first[-1])),
            person=np.concatenate((tokens.person, more.person + np.int32(len(tokens.persons)))),
        ),
    )


def split_and_merge(
    key: Any, sweep: int, prior: NestedPrior, classes: Classes, tokens: Tokens, n_sample: int
) -> tuple[Tally, int]:
    """Propose to split or merge classes; return the counts, and how many moves were made.

    classes: of the records of `tokens`, the first `n_sample` of the sample; its tally may count
    more, which stays where it is.
    """
    drawn, tally, _, _ = classes
    n_classes, n_kinds = tally.member_sizes.shape
    sizes = np.bincount(drawn.g, minlength=n_classes)
    closed = tally.sizes > sizes
    token_record = np.repeat(np.arange(len(drawn.g)), np.diff(tokens.first))
    occupied = (tally.member_sizes > 0).sum(axis=1)
    after = Drawn(drawn.g.copy(), drawn.m.copy())
    moved, room = 0, n_kinds
    # No move changes this number, so that it may depend on how many households were simulated.
    n_proposals = max(_FEWEST, min(_PROPOSALS, 2 * _PROPOSALS * n_sample // max(len(drawn.g), 1)))
    for number in range(n_proposals):
        # So that two classes with all their person classes have room in one.
        room = max(room, int(np.sort(occupied)[-2:].sum()))
        touched = nested_split.propose(
            key,
            sweep,
            number,
            tokens,
            prior,
            room,
            after.g,
            after.m,
            np.where(closed, 0, sizes),
            closed,
        )
        if touched[0] >= 0:
            moved += 1
            sizes = np.bincount(after.g, minlength=n_classes)
            for c in touched:
                occupied[c] = len(np.unique(after.m[after.g[token_record] == c]))
    if not moved:
        return tally, 0
    households = apart(tokens)
    before = empty_tally(len(tally.counts), len(tally.member_counts), n_classes, n_kinds)
    count(households, drawn, before)
    left = tally._replace(
        sizes=tally.sizes - before.sizes,
        member_sizes=tally.member_sizes - before.member_sizes,
        counts=tally.counts - before.counts,
        member_counts=tally.member_counts - before.member_counts,
    )
    left = more_kinds(left, max(n_kinds, int(after.m.max(initial=0)) + 1))
    count(households, after, left)
    return left, moved
