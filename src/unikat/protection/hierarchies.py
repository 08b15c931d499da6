"""The recodings of each key among which a search chooses, and what they lose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from unikat._typing import Bool, Float64, Int64
from unikat.data.hierarchies import Hierarchy
from unikat.data.keys import Key
from unikat.data.numbers import number_shown
from unikat.data.table import CellTable
from unikat.errors import SpecError, brief, listed, suggest
from unikat.protection.edges import numbers_of
from unikat.protection.groups import valid_part
from unikat.protection.recoding import (
    KeyRecoding,
    Rule,
    beside_declared,
    by_hierarchy,
    level_counts,
    recodable,
    recode_key,
    unchanged,
)
from unikat.zeros.levels import Levels

MOST = 7
"""Recodings of a key that the program makes itself, the key as it is and left out included."""
_FEWEST_ORDERED = 15
"""Levels of a key of numbers from which on it gets groups of equal width."""
_FEWEST_GROUPED = 4
"""Levels from which on it gets some of them."""
_ORDERED = 3
"""So many, beside bands."""
_STEPS = (2.0, 5.0, 10.0, 20.0, 25.0, 50.0)
_RARE = (0.01, 0.02, 0.05, 0.1)
"""Shares of the records below which levels, or bands of an ordered key, are merged."""
_TOPS = 0.02
"""Share of the records that top and bottom coding merge, about."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Choices:
    """The recodings of one key, the one that loses least first. Made by :meth:`of`."""

    recodings: tuple[KeyRecoding, ...]
    lost: Float64 = field(repr=False)
    """(n,): bits of information lost for each record, in the mean: the entropy of the key's levels
    less that of the groups."""
    entropy: float
    """Bits of the key as it is."""
    coarser: Bool = field(repr=False)
    """(n, n): whether the first is coarser than the second, or the same."""

    @classmethod
    def of(cls, recodings: Sequence[KeyRecoding], counts: Int64) -> Choices:
        """Put recodings of a key in order; of those that do the same the first stays.

        counts (n_levels,): records of each level.
        """
        whole = entropy(counts)
        lost = [whole - entropy(_joined(one, counts)) for one in recodings]
        order = np.argsort(lost, kind="stable").tolist()
        kept: list[int] = []
        for i in order:
            if not any(_same(recodings[i], recodings[j]) for j in kept):
                kept.append(i)
        chosen = tuple(recodings[i] for i in kept)
        return cls(
            recodings=chosen,
            lost=np.maximum(np.array([lost[i] for i in kept]), 0.0),
            entropy=whole,
            coarser=np.array([[one.is_coarser(other) for other in chosen] for one in chosen]),
        )


def entropy(counts: Int64) -> float:
    """Entropy of a distribution given as counts, in bits.

    Examples
    --------
    >>> entropy(np.array([2, 2, 4]))
    1.5
    """
    shares = counts[counts > 0] / max(counts.sum(), 1)
    return float(-(shares * np.log2(shares)).sum()) + 0.0


def choices(
    table: CellTable,
    *,
    given: Mapping[str, Sequence[Rule | Hierarchy]] | None = None,
    keep: Sequence[str] = (),
    there: Sequence[str] = (),
) -> list[Choices]:
    """Recodings of every key of a table.

    Parameters
    ----------
    table
        The sample.
    given
        Recodings of some keys (see `parse_recoding`) and hierarchies, in place of those that the
        program makes itself: groups of equal width, quantiles, top and bottom coding for numbers;
        groups of rare levels for labels, bands of ordered levels; the key left out. Whether a key
        is left out is then said, too.
    keep
        Keys that stay as they are.
    there
        Keys that are not left out.

    Raises
    ------
    SpecError
        If a key is not known, all keys stay as they are, or a rule cannot be used.
    """
    keys = recodable(table)
    names = [key.name for key in keys]
    for name in (*(given or ()), *keep):
        if name not in names:
            raise SpecError(
                f"{name!r} is none of the keys: {listed(names)}." + suggest(name, names)
            )
    if both := [name for name in (given or ()) if name in keep]:
        raise SpecError(
            f"{brief(both[0])!r} is to stay as it is, and has recodings to choose from; leave it "
            "out of one of the two (--keep, --recodings)."
        )
    if set(names) <= set(keep):
        raise SpecError(
            "All keys are to stay as they are, so nothing can be recoded; keep fewer keys (--keep; "
            "in Python: keep)."
        )
    found = []
    for key, counts in zip(keys, level_counts(table), strict=True):
        if key.name in keep:
            recodings = [unchanged(key)]
        elif given and key.name in given:
            recodings = [unchanged(key)]
            for rule in given[key.name]:
                if isinstance(rule, Hierarchy):
                    recodings += by_hierarchy(key, rule)
                else:
                    recodings.append(recode_key(key, counts, rule))
        else:
            recodings = own_recodings(key, counts)
        left = [one for one in recodings if one.key is not None or key.name not in there]
        found.append(Choices.of(left, counts))
    return found


def own_recodings(key: Key, counts: Int64) -> list[KeyRecoding]:
    """Recodings that the program makes itself: at most `MOST`."""
    if key.declared_missing:
        valid, codes = valid_part(key)
        own = own_recodings(valid, counts[codes]) if len(codes) else []
        return [beside_declared(key, codes, one) for one in own] or [
            unchanged(key),
            unchanged(key).left_out(),
        ]
    levels = Levels(key=key)
    n_levels = levels.n_named
    found: list[KeyRecoding] = []
    are_numbers = levels.is_ordered and not key.ordered and numbers_of(key) is not None
    if are_numbers and n_levels >= _FEWEST_ORDERED:
        found = _of_numbers(key, counts)
    elif n_levels > 2:
        rule = "bands" if levels.is_ordered and levels.order else "rare"
        found = [recode_key(key, counts, f"{rule}({share})") for share in _RARE]
        if n_levels >= _FEWEST_GROUPED and are_numbers:
            # Quartiles of few numbers are groups that nobody would make by hand.
            ordered = [one for one in _of_numbers(key, counts) if "quantile" not in one.text]
            found = [*ordered[:_ORDERED], *found]
    found = [one for one in found if 2 <= _n_groups(one) < n_levels]
    different = [one for i, one in enumerate(found) if not any(_same(one, b) for b in found[:i])]
    return [unchanged(key), *different[: MOST - 2], unchanged(key).left_out()]


def _of_numbers(key: Key, counts: Int64) -> list[KeyRecoding]:
    """Groups of equal width, each about half as many as before; quantiles; top and bottom."""
    intervals = numbers_of(key)
    assert intervals is not None
    lows = np.array([one.low for one in intervals])
    finite = lows[np.isfinite(lows)]
    span = float(finite.max() - finite.min())
    scale = 10.0 ** np.floor(np.log10(max(span, 1e-300) / 50.0))
    widths = [step * scale * more for more in (1.0, 10.0) for step in _STEPS]
    if (finite == np.round(finite)).all():
        widths = [width for width in widths if width == np.round(width)]
    found: list[KeyRecoding] = []
    least = len(intervals)
    for width in sorted(set(widths)):
        one = _tried(key, counts, f"width({number_shown(width)})")
        if one is not None and 2 <= _n_groups(one) <= 0.6 * least:
            least = _n_groups(one)
            found.append(one)
    ends = []
    order = np.argsort(lows, kind="stable")
    share = np.cumsum(counts[order]) / max(counts[: len(lows)].sum(), 1)
    top = lows[order][np.searchsorted(share, 1.0 - _TOPS)]
    bottom = lows[order][np.searchsorted(share, _TOPS)]
    for rule, edge in (("top", top), ("bottom", bottom)):
        if np.isfinite(edge) and (one := _tried(key, counts, f"{rule}({number_shown(edge)})")):
            ends.append(one)
    return [*found[: MOST - 4], *ends[:1], *filter(None, [_tried(key, counts, "quantile(4)")])]


def _tried(key: Key, counts: Int64, rule: str) -> KeyRecoding | None:
    """A recoding, or None where levels do not lie within its groups."""
    try:
        return recode_key(key, counts, rule)
    except SpecError:
        return None


def _n_groups(one: KeyRecoding) -> int:
    """Groups of values that are not missing."""
    assert one.key is not None
    return Levels(key=one.key).n_named


def _joined(one: KeyRecoding, counts: Int64) -> Int64:
    return np.bincount(one.groups, counts).astype(np.int64)


def _same(one: KeyRecoding, other: KeyRecoding) -> bool:
    if one.key is None or other.key is None:
        return one.key is other.key
    return bool(np.array_equal(one.groups, other.groups))
