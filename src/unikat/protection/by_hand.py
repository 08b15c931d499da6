"""Groups of levels that somebody made by hand, as a recoding: by a rule if one does the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from unikat._typing import Int64
from unikat.data.hand_groups import check_group_names
from unikat.data.keys import Key
from unikat.data.named_levels import level_names
from unikat.data.numbers import number_shown
from unikat.data.structure import Structure, n_named, valid_part
from unikat.errors import SpecError, brief, listed
from unikat.language.levels import FOUND, Group, LevelGroups
from unikat.protection.edges import numbers_of
from unikat.protection.groups import band_name, called, is_labelled, joined_name
from unikat.protection.recoding import KeyRecoding, grouped, recode_key
from unikat.protection.trees import Paths
from unikat.spec.level_kinds import checked_kind

_MOST_EDGES = 40
"""Of a rule in place of groups that are named one by one."""


def meant(key: Key, kind: str) -> tuple[Structure, Int64]:
    """Return how the levels of a key are meant, and the codes of those that are valid.

    Parameters
    ----------
    key
        The key.
    kind
        `found`, or a kind of levels as `--levels` takes it; no file.
    """
    if kind != FOUND:
        try:
            told = checked_kind(kind)
        except ValueError as error:
            raise SpecError(f"{error}.") from None
        if told.startswith("file("):
            raise SpecError("A file of a hierarchy is named by --levels, before the assessment.")
        key = replace(key, told=told, told_by="option")
    valid, codes = valid_part(key)
    return Structure.of(valid), codes


def recode_by_hand(key: Key, counts: Int64, made: LevelGroups) -> KeyRecoding:
    """Recode a key by groups of codes.

    Where no group has a name, and a rule such as ``"cut(18,65)"`` or ``"level(1)"`` makes the same
    groups, the recoding is that of the rule.
    """
    structure, codes = meant(key, made.kind)
    strange = {code for one in made.groups for code in one.codes} - {*codes.tolist()}
    if strange:
        raise SpecError(
            f"Key {brief(key.name)!r}: a group has a level that the key does not have, or one that "
            "is declared missing. Make the groups again."
        )
    check_group_names(key, [one.name for one in made.groups if one.name])
    one = _by_name(key, structure, codes, made.groups)
    if any(group.name for group in made.groups) or len(codes) < n_named(key):
        return one
    for rule in _rules(key, structure, made):
        try:
            other = recode_key(key, counts, rule)
        except SpecError:
            continue
        if np.array_equal(other.groups, one.groups):
            return other
    return one


def _by_name(key: Key, structure: Structure, codes: Int64, groups: Sequence[Group]) -> KeyRecoding:
    names, inside = level_names(key), {code for one in groups for code in one.codes}
    taken = {name for code in range(len(names)) if code not in inside for name in called(key, code)}
    taken |= {one.name for one in groups if one.name}
    group_of: list[str | None] = [None] * len(names)
    for one in groups:
        name = one.name or _name(key, structure, codes, one.codes, taken)
        taken.add(name)
        for code in one.codes:
            group_of[code] = name
    by_level = {names[code]: name for code, name in enumerate(group_of) if name is not None}
    text = "groups " + listed(list(dict.fromkeys(by_level.values())))
    return grouped(key, group_of, text, by_level)


def _name(
    key: Key, structure: Structure, codes: Int64, members: Sequence[int], taken: set[str]
) -> str:
    """What a group is called: by its branch, as a band, or after its levels."""
    place = {code: i for i, code in enumerate(codes.tolist())}
    inside = {place[code] for code in members}
    if (paths := Paths.of(structure)) is not None:
        for node, below in branches(paths):
            if below == inside:
                name = paths.labels.get(node, node) if is_labelled(key) else node
                if name not in taken:
                    return name
    order = structure.order
    if order is not None:
        places = sorted(order.index(at) for at in inside)
        if places[-1] - places[0] == len(places) - 1:
            band = [order[at] for at in places]
            ends = (places[0] == 0, places[-1] == len(order) - 1)
            name = band_name(structure.key, band, ends) or ""
            if name and name not in taken:
                return name
            labels = [structure.key.labels[at] for at in band]
            return joined_name(labels, is_band=True, taken=taken)
    return joined_name([key.labels[code] for code in members], taken=taken)


def branches(paths: Paths) -> Iterator[tuple[str, set[int]]]:
    """Yield the nodes above the levels, each with the places of the levels below it."""
    found: dict[tuple[str, ...], set[int]] = {}
    for place, path in enumerate(paths.paths):
        for height in range(1, len(path)):
            found.setdefault(path[:height], set()).add(place)
    return ((path[-1], below) for path, below in found.items())


def _rules(key: Key, structure: Structure, made: LevelGroups) -> Iterator[str]:
    """Rules that may do the same as groups."""
    paths = Paths.of(structure) if made.kind == FOUND else None
    if paths is not None:
        yield from (f"level({n})" for n in range(1, paths.height + 1))
    order, intervals = structure.order, numbers_of(key)
    if order is None or intervals is None or is_labelled(key):
        return
    starts = [intervals[order[place]] for place in made.starts(order)]
    if len(made.groups) == 1 and starts:
        yield f"top({number_shown(starts[-1].low)})"
        yield f"bottom({number_shown(intervals[order[made.starts(order)[0] - 1]].high)})"
    if 0 < len(starts) <= _MOST_EDGES and all(a.low < b.low for a, b in pairwise(starts)):
        yield f"cut({','.join(number_shown(one.low) for one in starts)})"
