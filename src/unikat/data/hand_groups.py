"""Groups of levels that somebody made by hand, in which a key is read as if its column had them.

A file of groups has a level and its group in each row, as a recoding takes it. A group has the name
that the file gives it; of a labelled number in a format that holds labels it has the lowest of its
codes that is not declared missing, with the name as label, as a statistical package recodes.
Missing values stay as they stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from unikat._typing import Int32
from unikat.data.columns import NUMERIC_TEXT, CodedKey
from unikat.data.hierarchies import Hierarchy, read_hierarchy
from unikat.data.keys import Key
from unikat.data.letters import is_letter
from unikat.data.named_levels import Levels, codes_called, level_names
from unikat.data.sampling import one_way
from unikat.data.texts import MISSING_TOKENS
from unikat.errors import SpecError, brief, option
from unikat.spec.level_kinds import named_groups
from unikat.spec.paths import hierarchy_file, is_path

if TYPE_CHECKING:
    import pyarrow as pa

Groups: TypeAlias = str | PathLike[str] | Mapping[Any, Any]
"""A file of groups, `file(region.csv)` or its path, or a mapping of levels to groups."""
GIVEN = "groups"
"""What groups are called that no file holds."""
_LONGEST_GIVEN = 1_000
"""Characters of a name that somebody gave: each record has it."""
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""What steers a terminal or begins a line."""
_FORMULA = re.compile(r"\s*(?:=|[+\-@].*(?:[|!]|[A-Za-z]\())")
"""What a spreadsheet runs; names such as `-5 to -1` and `- none (of these)` it shows."""


def steers(name: str) -> bool:
    r"""Whether a terminal obeys a text, or a spreadsheet runs it as a formula.

    Examples
    --------
    >>> steers("=1+1"), steers("\x1b[31m"), steers("-5 to -1"), steers("- none (of these)")
    (True, True, False, False)
    """
    return bool(CONTROL.search(name) or _FORMULA.match(name))


def check_group_names(key: Key, names: Iterable[str]) -> None:
    """Refuse names that somebody gave to groups and that no file should hold (SpecError)."""
    for name in names:
        if steers(name) or len(name) > _LONGEST_GIVEN:
            raise SpecError(
                f"Key {key.name!r}, recoding: {brief(name)!r} cannot be the name of a group: it "
                f"has more than {_LONGEST_GIVEN:,} characters, or control characters, or a "
                "spreadsheet would run it as a formula. Give the group another name."
            )


def only_groups(key: str, hierarchy: Hierarchy, remedy: str = "") -> tuple[str, ...]:
    """Return the only column of groups of a hierarchy (SpecError if there are several)."""
    if len(hierarchy.groups) > 1:
        raise SpecError(
            f"The hierarchy {hierarchy.name} has several recodings of {brief(key)!r} to choose "
            f"from, one for each of its {len(hierarchy.groups)} columns of groups. {remedy}Name a "
            "file with one column of groups."
        )
    return hierarchy.groups[0]


def row_of_codes(key: Key, hierarchy: Hierarchy, known: Set[str] = frozenset()) -> dict[int, int]:
    """Find the row of a hierarchy that each level of a key is in.

    Parameters
    ----------
    key, hierarchy
        The key, and the file.
    known
        Names of levels that need no row.

    Raises
    ------
    SpecError
        If a level of the key is in no row, or in several.
    """
    where = f"Key {key.name!r}, hierarchy {hierarchy.name}"
    names, row_of = level_names(key), dict[int, int]()
    meant = codes_called(key)
    for row, text in enumerate(hierarchy.levels):
        for code in meant(text):
            if code in row_of:
                raise SpecError(
                    f"{where}: a level of the key is in two rows, by its value and its label or "
                    "as two numbers; give each level one row."
                )
            row_of[code] = row
    lacking = {
        code
        for code in range(len(names))
        if code not in row_of and known.isdisjoint((names[code], key.labels[code]))
    }
    if lacking:
        shown = Levels(key=key).shown(lacking)
        raise SpecError(
            f"{where}: {len(lacking):,} of the {len(names):,} levels of the key "
            f"{'is' if len(lacking) == 1 else 'are'} in no row{shown and f' ({shown})'}; add a row "
            "for each."
        )
    return row_of


def hierarchy_of(name: str, groups: Groups, encoding: str | None = None) -> Hierarchy:
    """Return the groups that are given of a key, one column of them.

    Raises
    ------
    DataError, SpecError
        If a file cannot be read or is no hierarchy, or has several columns of groups.
    """
    if isinstance(groups, Mapping):
        if not groups:
            raise SpecError(
                f"{option('groups')} of {brief(name)!r} holds no groups; name the group of each "
                "level, as in {'1': 'north', '2': 'north', '3': 'south'}."
            )
        named = named_groups(groups)
        found = Hierarchy(
            name=GIVEN, levels=tuple(map(one_way, named)), groups=(tuple(named.values()),)
        )
    else:
        path = hierarchy_file(groups) or (groups if is_path(groups) else None)
        if path is None:
            raise SpecError(
                f"{option('groups')} of {brief(name)!r} must be a file, 'file(groups.csv)', or a "
                "mapping of levels to groups."
            )
        found = read_hierarchy(Path(path), encoding)
    only_groups(name, found)
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class HandGroups:
    """A key whose levels are groups made by hand, and how its column is read in groups."""

    coded: CodedKey
    """Its codes are those of the groups."""
    position: int
    columns: tuple[str, ...]
    """Of the session for which its SQL is written, in which it has the position."""

    has_codes: bool
    """Whether groups have codes, and their names as labels."""

    def column(
        self, values: pa.ChunkedArray, codes: Int32, letters: list[str | None] | None
    ) -> pa.ChunkedArray:
        """Write its column in groups.

        Parameters
        ----------
        values
            The column as the source has it.
        codes
            (n_records,): groups of the records, -1 where missing: what stands there stays.
        letters
            Letters such as ``.a`` of the records, where there are some.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        key = self.coded.key
        kind = values.type
        if pa.types.is_dictionary(kind):
            values = values.cast(kind.value_type)
        n_levels = key.n_levels - (key.missing_level is not None)
        missing = (codes < 0) | (codes >= n_levels)
        place = pa.array(codes, mask=missing)
        if self.has_codes:
            numbers = [None if is_letter(level) else level for level in key.levels[:n_levels]]
            groups = pa.array(numbers).cast(values.type)
        else:
            groups = pa.array([str(level) for level in key.levels[:n_levels]], pa.string())
            texts = values.dictionary_encode().combine_chunks()
            shown = [one_way(str(one)) for one in texts.dictionary.to_pylist()]
            values = pa.chunked_array([pa.array(shown, pa.string()).take(texts.indices)])
            if letters is not None:
                values = pc.coalesce(values, pa.array(letters, pa.string()))
        own, written = values.combine_chunks(), groups.take(place)
        return pa.chunked_array([pc.if_else(pa.array(missing), own, written)])


def _check_not_missing(coded: CodedKey, groups: Set[str]) -> None:
    """Refuse names of groups that a reader of the column would take for missing values."""
    codes = {one_way(str(code)) for code in coded.declared.missing}
    if found := sorted(name for name in groups if name in MISSING_TOKENS or one_way(name) in codes):
        raise SpecError(
            f"Key {coded.key.name!r}: {brief(found[0])!r} cannot be the name of a group, since it "
            "means missing. Give the group another name, or make the levels missing: "
            f"{option('missing_values', f'{coded.key.name}: CODE')}."
        )


def in_groups(
    coded: CodedKey,
    hierarchy: Hierarchy,
    *,
    in_order: bool,
    by_code: bool,
    others_stay: bool = False,
) -> CodedKey:
    """Join the levels of a key that are in one group.

    Levels are in the order that those of a file would have which was recoded beforehand.

    Parameters
    ----------
    coded
        The key as its column has it.
    hierarchy
        Levels, with one column of groups. A level that is a group's name may be without a row: so
        a file that was written in groups is read as it is.
    in_order
        Whether the order of the levels is one that was told; else groups are sorted.
    by_code
        Whether groups of numbers have the lowest of their codes, and their name as label.
    others_stay
        Whether a level without a row is one by itself, as in a file that was recoded further.

    Raises
    ------
    SpecError
        If a level is in no row or in two, or a group has the name of a level that is not in it or
        one that no file should hold.
    """
    key, (names_of,) = coded.key, hierarchy.groups
    check_group_names(key, set(names_of))
    if not all(map(str.strip, names_of)):
        raise SpecError(f"Key {key.name!r}: a group has no name; give each level a group.")
    names = level_names(key)
    if not by_code:
        _check_not_missing(coded, {*names_of}.difference(names))
    called = {*names_of}
    row_of = row_of_codes(key, hierarchy, called.union(names) if others_stay else called)
    group_of = [
        names_of[row_of[code]] if code in row_of else label if label in called else name
        for code, (name, label) in enumerate(zip(names, key.labels, strict=False))
    ]
    members: dict[str, list[int]] = {}
    for code, group in enumerate(group_of):
        members.setdefault(group, []).append(code)
    for code, name in enumerate(names):
        if name in members and code not in members[name]:
            raise SpecError(
                f"Key {key.name!r}, recoding: a group has the name of a level that is not in it; "
                "name the group otherwise, or put that level in it."
            )
    if any(codes[1:] and any(is_letter(names[c]) for c in codes) for codes in members.values()):
        raise SpecError(
            f"Key {key.name!r}: a letter such as .a, which says why a value is missing, is in a "
            "group with other levels; give it a row of its own, as in '.a;.a'."
        )
    found = list(members)
    # A code that the file declares missing would hide the levels that are joined with it.
    first = {
        group: min(codes, key=lambda code: (code in key.declared_missing, code))
        for group, codes in members.items()
    }
    if in_order or by_code:
        found.sort(key=first.__getitem__)
    elif all(NUMERIC_TEXT.fullmatch(group) for group in found):
        found.sort(key=lambda group: (float(group), group))
    else:
        found.sort()
    place = {group: number for number, group in enumerate(found)}
    codes_of = [place[group] for group in group_of]
    levels: list[object] = [key.levels[first[group]] if by_code else group for group in found]
    labels = [
        key.labels[first[group]] if [names[c] for c in members[group]] == [group] else group
        for group in found
    ]
    if key.missing_level is not None:
        levels.append(None)
        labels.append(key.labels[key.missing_level])
    is_monotone = all(a <= b for a, b in pairwise(codes_of))
    new = replace(
        key,
        levels=tuple(levels),
        labels=tuple(labels),
        private=frozenset(
            place[names[code]] for code in key.private if members.get(names[code]) == [code]
        ),
        ordered=key.ordered if is_monotone else None,
        measure=key.measure if is_monotone and key.measure != "scale" else "",
        declared_missing=frozenset(
            place[group] for group in found if key.declared_missing.issuperset(members[group])
        ),
        by_hand=hierarchy.name if hierarchy.name == GIVEN else f"file({hierarchy.name})",
    )
    declared = coded.declared
    stays = {str(level): label for level, label in zip(levels, labels, strict=True)}
    missing = {one_way(str(code)) for code in declared.missing}
    kept = {
        code: label
        for code, label in declared.labels.items()
        if one_way(str(code)) in missing and str(code) not in names
    }
    return replace(
        coded,
        key=new,
        codes={value: codes_of[code] for value, code in coded.codes.items()},
        declared=replace(
            declared,
            order=None,
            ordered=new.ordered,
            labels={code: label for code, label in stays.items() if code != label} | kept,
            width=declared.width if by_code else None,
        ),
    )
