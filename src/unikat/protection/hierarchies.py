"""The recodings of each key among which a search chooses, and what they lose."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from unikat._typing import Bool, Float64, Int64
from unikat.data.hierarchies import Hierarchy
from unikat.data.keys import Key
from unikat.data.named_levels import Levels
from unikat.data.numbers import number_shown
from unikat.data.structure import Structure, is_of_time, n_named, valid_part
from unikat.data.table import CellTable
from unikat.errors import SpecError, brief, listed, option, suggest
from unikat.language.dates import STEPS
from unikat.protection.edges import numbers_of
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
from unikat.protection.trees import Paths

MOST = 7
"""Recodings of a key that the program makes itself, the key as it is and left out included."""
_FEWEST_NUMBERS = 15
"""Levels of a key of numbers from which on it gets bands of equal width."""
_STEPS = (2.0, 5.0, 10.0, 20.0, 25.0, 50.0)
_FEWEST_EDGES, _MOST_EDGES = 3, 25
"""Of such bands: with fewer a reader learns next to nothing, more are no bands."""
_RARE = (0.01, 0.02, 0.05, 0.1)
"""Shares of the records below which levels, bands or branches are joined."""
_MOST_REST = 0.25
"""Share of the records that rare levels of a key without order have together at most: a group of
what has nothing in common tells nothing."""
_FEW = 8
"""Levels without order up to which the common ones may stand against all others, as married
against the rest; of more the rest has nothing in common."""
_MOST_IN_BANDS = 200
"""Periods of time up to which bands of about as many records are tried, too."""
_MOST_AGAINST = 0.5
"""Share of the records that these others have together at most."""
OUT_COUNTS, BASIC_COUNTS = 2.0, 100.0
"""As how many keys that lose everything the search counts one that it leaves out of its own accord;
and an age or a key of two values such as sex, which no office leaves out as long as anything else
is left to do."""
_COARSE = 0.25
"""That of the coarsest bands."""
_TAIL = 1
"""Place among them of the share of the tails of numbers."""
_OLDEST = 90.0
"""Age from which on all are together at the latest."""


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
    out_counts: float = 1.0
    """As how many keys that lose everything the search counts this one where it is left out; at
    least 1."""

    @classmethod
    def of(
        cls, recodings: Sequence[KeyRecoding], counts: Int64, out_counts: float = 1.0
    ) -> Choices:
        """Put recodings of a key in order; of those that do the same the first stays.

        counts (n_levels,): records of each level; out_counts: of the field of this name.
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
            out_counts=out_counts,
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
    apart: Mapping[str, Sequence[str]] | None = None,
    fewest: float = 1.0,
) -> list[Choices]:
    """Recodings of every key of a table.

    Parameters
    ----------
    table
        The sample.
    given
        Recodings of some keys (see `parse_recoding`) and hierarchies, in place of those that the
        program makes itself by the kind of the levels (see `own_recodings`), the key left out
        included. Whether a key is left out is then said, too.
    keep
        Keys that stay as they are.
    there
        Keys that are not left out.
    apart
        Levels of some keys that no recoding joins with each other; these are not left out.
    fewest
        Records that each group is to have. A key without such a recoding keeps all of its own.
    """
    keys = recodable(table)
    names = [key.name for key in keys]
    for name in (*(given or ()), *keep, *(apart or ())):
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
        codes, out_counts = codes_apart(key, (apart or {}).get(key.name, ())), 1.0
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
            recodings = own_recodings(key, counts, codes)
            out_counts = BASIC_COUNTS if _is_basic(key) else OUT_COUNTS
        check_apart(key, recodings, codes)
        stays = key.name in there or codes
        left = [one for one in recodings if one.key is not None or not stays]
        full = [one for one in left if _smallest(one, counts) >= fewest]
        found.append(Choices.of(full or left, counts, out_counts))
    return found


def _smallest(one: KeyRecoding, counts: Int64) -> int:
    """Records of the smallest group."""
    joined = _joined(one, counts)
    return int(joined[joined > 0].min(initial=counts.sum()))


def _is_basic(key: Key) -> bool:
    """Whether a key is an age, or has two values, as sex has: any file has them."""
    valid, _ = valid_part(key)
    return n_named(valid) <= 2 or Structure.of(valid).is_age


def codes_apart(key: Key, levels: Sequence[str]) -> frozenset[int]:
    """Codes of levels that are to stay apart, by value or label (SpecError if one is none)."""
    found, known = set[int](), Levels(key=key)
    for level in levels:
        codes = known.called(level)
        if len(codes) != 1:
            raise SpecError(
                f"Key {brief(key.name)!r}, {option('apart', key.name)}: {brief(level)!r} is "
                f"{'several levels' if codes else 'no level'} of the key. Name levels by their "
                f"value or label.{known.hint(level)}"
            )
        found |= codes
    return frozenset(found)


def check_apart(
    key: Key, recodings: Sequence[KeyRecoding], codes: Set[int], *, told: bool = False
) -> None:
    """Refuse recodings that join levels which are to stay apart (SpecError).

    A key that is left out joins all; among recodings to choose from it is passed over, if it is not
    `told`.
    """
    for one in recodings:
        if (told or one.key is not None) and joins(one, codes):
            raise SpecError(
                f"Key {brief(key.name)!r}: the recoding {one.text} joins levels that "
                f"{option('apart', key.name)} keeps apart; leave one of the two out."
            )


def own_recodings(key: Key, counts: Int64, apart: Set[int] = frozenset()) -> list[KeyRecoding]:
    """Recodings that the program makes itself, by the kind of the levels: at most `MOST`.

    Parameters
    ----------
    key, counts
        The key, and the records of each level.
    apart
        Levels none of which is joined with another of them.
    """
    valid, codes = valid_part(key)
    if len(codes) < n_named(key):
        of_valid = frozenset(np.flatnonzero(np.isin(codes, list(apart))).tolist())
        own = own_recodings(valid, counts[codes], of_valid) if len(codes) else []
        return [beside_declared(key, codes, one) for one in own] or [
            unchanged(key),
            unchanged(key).left_out(),
        ]
    found = [
        one
        for rule in _rules(Structure.of(key), counts)
        if (one := _tried(key, counts, rule, apart)) is not None
        and 2 <= _n_groups(one) < n_named(key)
        and not joins(one, apart)
        and _in_rest(one, counts) <= (_MOST_AGAINST if n_named(key) <= _FEW else _MOST_REST)
    ]
    different = [one for i, one in enumerate(found) if not any(_same(one, b) for b in found[:i])]
    whole = entropy(counts[: n_named(key)])
    lost = [whole - entropy(_joined(one, counts)) for one in different]
    if is_of_time(key):
        # The steps of time are known to everybody; bands come where few of them are coarser.
        own = [unchanged(key), *different[: MOST - 2]]
    else:
        own = [unchanged(key), *_spread(different, lost, whole, MOST - 2)]
    return own if apart else [*own, unchanged(key).left_out()]


def _in_rest(one: KeyRecoding, counts: Int64) -> float:
    """Share of the records in the group of all rare levels."""
    if one.key is None or one.rest is None:
        return 0.0
    joined = _joined(one, counts)
    return float(joined[one.key.labels.index(one.rest)] / max(joined.sum(), 1))


def joins(one: KeyRecoding, apart: Set[int]) -> bool:
    """Whether a recoding joins two of the levels that are to stay apart, or leaves the key out."""
    return len({int(one.groups[code]) for code in apart}) < len(apart)


def _rules(structure: Structure, counts: Int64) -> list[str]:
    """Rules that suit a kind of levels, those first that statistical offices use most.

    Ordered levels join neighbours only; of a hierarchy branches go up; of others the rare ones are
    joined.
    """
    key = structure.key
    if (paths := Paths.of(structure)) is not None:
        up = [f"level({n})" for n in range(1, paths.height + 1)]
        return [*up, *(f"local({share})" for share in _RARE)]
    if is_of_time(key):
        few = n_named(key) <= _MOST_IN_BANDS
        return [*STEPS, *(f"bands({share})" for share in (*_RARE, _COARSE) if few)]
    shares = [f"rare({share})" for share in _RARE]
    if not structure.order and n_named(key) <= _FEW:
        shares += _against(counts[: n_named(key)])
    if structure.order:
        shares = [f"bands({share})" for share in (*_RARE, _COARSE)]
    intervals = numbers_of(key)
    # Codes of bands, of levels of education, are no numbers.
    labelled = [str(level) != name for level, name in zip(key.levels, key.labels, strict=True)]
    numbers = structure.kind == "numeric" or structure.why == "spans"
    coded = 2 * sum(labelled) > len(labelled) and key.binning is None
    if intervals is None or not structure.order or not numbers or coded:
        return shares
    lows = np.array([one.low for one in intervals])
    points = all(one.is_point for one in intervals)
    few = n_named(key) < _FEWEST_NUMBERS
    if structure.is_age:
        found = _age_rules(lows, counts)
    elif few and points:
        # What may be codes of no order is joined only where few records have it.
        sure = structure.why != "assumed"
        tops = _tops(lows, counts) if sure else _tops(lows, counts)[:-1]
        found = [f"top({number_shown(top)})" for top in tops]
        shares = shares if sure else shares[:-1]
    else:
        found = _number_rules(lows, counts)
    # Bands of single numbers that only the records make are none that a reader knows.
    return found if points and not few else [*found, *shares]


def _against(counts: Int64) -> list[str]:
    """Rules that leave the most common level, the two most common ones, ... and join all others.

    Examples
    --------
    >>> _against(np.array([45, 35, 20]))
    ['rare(0.4)']
    """
    falling = np.sort(counts / max(counts.sum(), 1))[::-1].tolist()
    found = []
    for kept, joined in pairwise(falling[:-1]):
        # The shortest number between both shares.
        digits = next((d for d in range(1, 7) if _above(joined, d) <= kept), None)
        if digits is not None:
            found.append(f"rare({number_shown(_above(joined, digits))})")
    return found


def _above(share: float, digits: int) -> float:
    """The smallest number of so many decimals that is above a share."""
    return float((math.floor(share * 10**digits) + 1) / 10**digits)


def _tops(lows: Float64, counts: Int64) -> list[float]:
    """Numbers from which on levels hold at least the shares of `_RARE` and `_COARSE`."""
    order = np.argsort(lows, kind="stable")
    of_level = counts[: len(lows)][order]
    above = np.cumsum(of_level[::-1])[::-1] / max(of_level.sum(), 1)
    found = [lows[order][np.flatnonzero(above >= share)[-1]] for share in (*_RARE, _COARSE)]
    return [float(top) for top in found]


def _age_rules(lows: Float64, counts: Int64) -> list[str]:
    """Single years, bands of five and ten years, the oldest together; and broad age groups."""
    oldest = min(5.0 * (_tops(lows, counts)[_TAIL] // 5.0), _OLDEST)
    cuts = [range(5, 200, 5), range(5, 200, 10), (15, 25, 45, 65), (15, 65)]
    kept = [[float(edge) for edge in edges if lows.min() < edge <= oldest] for edges in cuts]
    return [f"top({number_shown(oldest)})", *(_cut(edges) for edges in kept if edges)]


def _number_rules(lows: Float64, counts: Int64) -> list[str]:
    """Bands of equal width with the tails together, and the upper tail alone."""
    finite = lows[np.isfinite(lows)]
    span = float(finite.max() - finite.min())
    scale = 10.0 ** np.floor(np.log10(max(span, 1e-300) / 50.0))
    widths = [step * scale * more for more in (1.0, 10.0) for step in _STEPS]
    if (finite == np.round(finite)).all():
        widths = [width for width in widths if width == np.round(width)]
    # The lower tail is the upper one of the numbers turned around.
    top, bottom = _tops(lows, counts)[_TAIL], -_tops(-lows, counts)[_TAIL]
    found = [f"top({number_shown(top)})"] if math.isfinite(top) else []
    for width in sorted(set(widths)):
        first, last = math.ceil(bottom / width), math.floor(top / width)
        if first + _FEWEST_EDGES <= last + 1 <= first + _MOST_EDGES:
            found.append(_cut([float(number_shown(k * width)) for k in range(first, last + 1)]))
    return found


def _cut(edges: Sequence[float]) -> str:
    return f"cut({','.join(map(number_shown, edges))})"


def _spread(
    found: Sequence[KeyRecoding], lost: Sequence[float], whole: float, n: int
) -> list[KeyRecoding]:
    """Keep n recodings that lose as different shares of the information as possible.

    Nothing and everything can be lost, too. Of two that are as far from the others the first stays.
    """
    left, taken, kept = list(range(len(found))), [0.0, whole], list[int]()
    while left and len(kept) < n:
        far = [round(min(abs(lost[i] - other) for other in taken), 3) for i in left]
        kept.append(left.pop(far.index(max(far))))
        taken.append(lost[kept[-1]])
    return [found[i] for i in sorted(kept)]


def _tried(key: Key, counts: Int64, rule: str, apart: Set[int]) -> KeyRecoding | None:
    """A recoding, or None where levels do not lie within its groups."""
    try:
        return recode_key(key, counts, rule, apart=apart)
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
