"""Kinds of a key's levels: nominal, ordered, hierarchical or numeric, and why.

It is found once, here: recodings, suppression, rules, pages and the order of levels ask
:class:`Structure`. What the user says goes before what the codebook says, that before what the
source says, and that before what values and labels look like.

| found from | kind |
|---|---|
| `--levels`, a codebook's `kind` or `ordered`, ordered categories, SPSS's `ordinal` | as told |
| periods of dates (`BIRTH:year`) | ordered |
| groups of numbers (`AGE:width(5)`) | numeric |
| codes all of which are in a list of `data/trees` | hierarchical |
| labels that are numbers or spans of numbers: `20-24`, `65 and over` | ordered |
| labels whose words rise along a scale: `none`, `primary`, `secondary` | ordered |
| labels that are no numbers, leading zeros, the measure `nominal` of SPSS | nominal |
| other numbers, named as an age is or of the measure `scale` | numeric |
| other numbers | numeric, which is told: nobody can know it |
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from unikat._typing import Int64
from unikat.data.hierarchies import Hierarchy, code_system, read_hierarchy
from unikat.data.keys import Key
from unikat.data.letters import is_letter
from unikat.data.order_words import tell_an_order
from unikat.data.spans import Interval, intervals_of, span_of
from unikat.errors import SpecError, brief, listed, option
from unikat.language.dates import Period
from unikat.spec.level_kinds import PLAIN, SYSTEMS, prefixes
from unikat.spec.paths import hierarchy_file

Kind: TypeAlias = Literal["nominal", "ordered", "hierarchical", "numeric"]
Why: TypeAlias = Literal[
    "option", "codebook", "source", "measure", "dates", "binned", "codes", "spans", "words",
    "labels", "texts", "zeros", "age", "scale", "assumed",
]  # fmt: skip
"""Why a kind is taken; `report/words/*/levels.toml` has the sentences."""

_ZERO = re.compile(r"-?0\d")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_AGE = re.compile(r"(?:^|[_.\W])(?:age|edad|alter|idade|eta)(?:$|[_.\W\d])|^agep$|^edad", re.I)
_OLDEST = 130
_FORMS = {
    "isco08": re.compile(r"\d{1,4}"),
    "isced2011": re.compile(r"(?:ED)?[0-8]", re.I),
    "nace2": re.compile(r"[A-U]|\d{2}(?:\.?\d{1,2})?", re.I),
    "isic4": re.compile(r"[A-U]|\d{1,4}", re.I),
    "icd10": re.compile(r"[A-Z]\d\d(?:\.?\d{1,2})?", re.I),
    "nuts2024": re.compile(r"[A-Z]{2}[A-Z0-9]{0,3}"),
    "iso3166": re.compile(r"[A-Z]{2,3}|\d{1,3}"),
    "soc2018": re.compile(r"\d\d-?\d{4}"),
    "us_states": re.compile(r"[A-Z]{2}|\d{1,2}"),
}
"""What codes of a system look like; only then is its list read."""
_NAMED = {
    "isco08": "isco|ciuo",
    "isced2011": "isced|cine",
    "nace2": "nace|cnae",
    "isic4": "isic|ciiu",
    "icd10": "icd|cie10",
    "nuts2024": "nuts",
    "iso3166": "country|pais|nation|birth|cob|iso",
    "soc2018": "soc|occ",
    "us_states": "^st$|state",
}
"""How columns of such codes are named; short codes are taken for them only then."""
_FEWEST = 10
"""Codes from which on their list alone tells what they are, if they are long."""
_LONG = 3
_FEW_ODD = 0.1
"""Share of the levels of a key of numbers that have labels which are none, at most."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Structure:
    """What is known of the levels of a key without levels that are declared missing (`valid_part`).

    Made by :meth:`of`.
    """

    key: Key
    kind: Kind
    why: Why
    tree: Hierarchy | None = None
    """Of a hierarchical key."""
    rows: tuple[int, ...] = ()
    """(n_named,): row of the tree of each level."""
    prefixes: tuple[int, ...] = ()
    """Lengths of codes that are groups, where that makes the hierarchy."""

    @classmethod
    def of(cls, key: Key) -> Structure:
        """Find the kind of a key's levels."""
        if key.told:
            return _told(key)
        kind, why = _plainly(key)
        if key.ordered is None and key.binning is None:
            for name in _looking_like(key):
                tree = code_system(name)
                rows = _rows(key, tree)
                if None not in rows:
                    found = tuple(row for row in rows if row is not None)
                    return cls(key=key, kind="hierarchical", why="codes", tree=tree, rows=found)
        return cls(key=key, kind=kind, why=why)

    @cached_property
    def views(self) -> tuple[tuple[Interval, ...], ...]:
        """The levels as numbers: by their values, by their labels, or neither, one or both."""
        return views_of(self.key)

    @property
    def is_ordered(self) -> bool:
        """Whether the levels have an order that means something."""
        if self.tree is not None:
            return self.tree.is_ordered
        return self.kind in ("ordered", "numeric")

    @cached_property
    def order(self) -> list[int] | None:
        """Levels from the lowest to the highest, None if they have no order that is certain."""
        if not self.is_ordered:
            return None
        n = n_named(self.key)
        if self.tree is not None:
            return sorted(range(n), key=self.rows.__getitem__)
        if self.key.ordered or self.key.told == "ordered" or self.why == "words":
            return list(range(n))
        orders = [sorted(range(n), key=view.__getitem__) for view in self.views]
        if not orders or any(order != orders[0] for order in orders):
            return None
        return orders[0]

    @property
    def is_age(self) -> bool:
        """Whether they are ages in years, or bands of them, by name and numbers."""
        if self.key.told == "age":
            return True
        if not self.views or not self.is_ordered or not _AGE.search(self.key.name):
            return False
        # Codes of bands have their ages as labels.
        return all(-1 <= one.low <= _OLDEST for one in self.views[-1] if np.isfinite(one.low))


def structure_of(key: Key) -> Structure:
    """Find the kind of a key's valid levels: those that are not declared missing."""
    return Structure.of(valid_part(key)[0])


def order_of(key: Key) -> list[int] | None:
    """Levels of a key from the lowest to the highest, those that have no place among them last.

    None if they have no order that is certain.
    """
    valid, codes = valid_part(key)
    order = Structure.of(valid).order
    if order is None:
        return None
    valid_codes = codes[order].tolist()
    return [*valid_codes, *sorted({*range(n_named(key))} - {*valid_codes})]


def n_named(key: Key) -> int:
    """Number of levels that are values, so without the one for missing values."""
    return key.n_levels - (key.missing_level is not None)


def valid_part(key: Key) -> tuple[Key, Int64]:
    """The same key without levels that are declared missing, and the codes of the others.

    "Not applicable" has no place among ages, and a group that joins it would be a valid value. Nor
    has a number that has a label, "suppressed" or "no answer", where most have none.
    """
    apart = key.declared_missing | _odd(key)
    codes = [code for code in range(n_named(key)) if code not in apart]
    valid = Key(
        name=key.name,
        levels=tuple(key.levels[code] for code in codes),
        labels=tuple(key.labels[code] for code in codes),
        binning=key.binning,
        private=frozenset(place for place, code in enumerate(codes) if code in key.private),
        ordered=key.ordered,
        told=key.told,
        told_by=key.told_by,
        measure=key.measure,
    )
    return valid, np.array(codes, np.int64)


def _odd(key: Key) -> frozenset[int]:
    """Numbers with a label that is none, where hardly any other has one."""
    n = n_named(key)
    if key.binning is not None or key.ordered is not None or key.told in ("nominal", "ordered"):
        return frozenset()
    found = {
        code
        for code in range(n)
        if key.labels[code] != str(key.levels[code])
        and _NUMBER.fullmatch(str(key.levels[code]))
        and span_of(key.labels[code]) is None
    }
    return frozenset(found if len(found) <= _FEW_ODD * n else ())


def views_of(key: Key) -> tuple[tuple[Interval, ...], ...]:
    """The levels of a key as numbers: by their values, by their labels, or neither, one or both."""
    n = n_named(key)
    texts = [tuple(str(level) for level in key.levels[:n]), key.labels[:n]]
    letters = [code for code in key.declared_missing if is_letter(texts[0][code])]
    views = []
    for view in texts:
        known = tuple(text for code, text in enumerate(view) if code not in letters)
        found = intervals_of(known, binned=key.binning is not None)
        if known and found is not None:
            numbers = iter(found)
            # As in Stata, letters that say why a number is missing are above all numbers.
            views.append(
                tuple(
                    Interval(inf, inf) if code in letters else next(numbers)
                    for code in range(len(view))
                )
            )
    return tuple(dict.fromkeys(views))


def is_of_time(key: Key) -> bool:
    """Whether the levels are periods that dates were joined to."""
    return key.binning is not None and Period.of(key.binning) is not None


class _Plain(NamedTuple):
    kind: Kind
    why: Why


def _plainly(key: Key) -> _Plain:
    """The kind without any list of codes."""
    if is_of_time(key):
        return _Plain("ordered", "dates")
    if key.ordered is not None:
        return _Plain("ordered" if key.ordered else "nominal", "source")
    if key.binning is not None:
        return _Plain("numeric", "binned")
    n = n_named(key)
    values, labels = [str(level) for level in key.levels[:n]], key.labels[:n]
    coded = tuple(values) != labels
    if coded and tell_an_order(labels):
        return _Plain("ordered", "words")
    if not views_of(key):
        return _Plain("nominal", "labels" if coded else "texts")
    if any(map(_ZERO.match, values)):
        return _Plain("nominal", "zeros")
    unlike = sum(span_of(label) is None for label in labels)
    if 2 * unlike > n:
        return _Plain("nominal", "labels")
    if coded or not all(map(_NUMBER.fullmatch, values)):
        return _Plain("ordered", "spans")
    if _AGE.search(key.name):
        return _Plain("numeric", "age")
    if key.measure == "nominal":
        return _Plain("nominal", "measure")
    return _Plain("numeric", "scale" if key.measure == "scale" else "assumed")


def _told(key: Key) -> Structure:
    """The kind that the user or the codebook tells, checked against the levels."""
    why: Why = "option" if key.told_by == "option" else "codebook"
    if key.told in PLAIN:
        kind: Kind = "numeric" if key.told == "age" else key.told  # type: ignore[assignment]  # one
        if kind == "numeric" and not views_of(key):
            n = n_named(key)
            strange = [code for code in range(n) if span_of(key.labels[code]) is None]
            _refuse(
                key,
                f"{len(strange):,} of its {n:,} levels are no numbers{_named(key, strange)}. Say "
                "nominal or ordered, or declare codes that mean missing "
                f"({option('missing_values', f'{key.name}: CODE')})",
            )
        return Structure(key=key, kind=kind, why=why)
    if lengths := prefixes(key.told):
        return Structure(key=key, kind="hierarchical", why=why, prefixes=lengths)
    path = hierarchy_file(key.told)
    tree = code_system(key.told) if path is None else read_hierarchy(Path(path))
    rows = _rows(key, tree)
    if lacking := [code for code, row in enumerate(rows) if row is None]:
        remedy = "add a row for each" if path else "say nominal, or name a file(tree.csv)"
        _refuse(
            key,
            f"{len(lacking):,} of its {len(rows):,} levels are not in {tree.name}"
            f"{_named(key, lacking)}. Declare codes that mean missing "
            f"({option('missing_values', f'{key.name}: CODE')}), or {remedy}",
        )
    found = tuple(row for row in rows if row is not None)
    return Structure(key=key, kind="hierarchical", why=why, tree=tree, rows=found)


def _refuse(key: Key, why: str) -> None:
    by = option("levels", f"{key.name}: {key.told}") if key.told_by == "option" else "the codebook"
    raise SpecError(f"Key {brief(key.name)!r} cannot be {brief(key.told)!r}, as {by} says: {why}.")


def _named(key: Key, codes: list[int]) -> str:
    """The levels that a message may name, in parentheses."""
    may = [repr(brief(key.labels[code])) for code in codes if code not in key.private]
    return f" ({listed(may, 5)})" if may else ""


def _rows(key: Key, tree: Hierarchy) -> list[int | None]:
    n = n_named(key)
    return tree.rows([str(level) for level in key.levels[:n]], key.labels[:n])


def _looking_like(key: Key) -> list[str]:
    """Code systems that the values, or the labels, may be of, the likeliest first.

    Codes that are short, as 1 to 9, or few are taken for those of a system only if the name of the
    column tells it.
    """
    n = n_named(key)
    values = [str(level) for level in key.levels[:n]]
    found: list[str] = []
    for name in SYSTEMS:
        named = re.search(_NAMED[name], key.name, re.I) is not None
        form = all(map(_FORMS[name].fullmatch, values))
        long = np.mean([len(value) >= _LONG for value in values]) > 0.5 if values else False
        if named and (form or _labels_like(key, name)):
            found.insert(0, name)
        elif form and long and n >= _FEWEST:
            found.append(name)
    return found


def _labels_like(key: Key, name: str) -> bool:
    """Whether most labels are those of a system, so that its list is worth a look."""
    tree, n = code_system(name), n_named(key)
    return 2 * sum(map(tree.has_label, key.labels[:n])) > n
