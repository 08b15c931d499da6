"""Hierarchies of levels: each level and the ever coarser groups that it is in.

Those of users are files. Those of code systems are files of the package, `data/trees/*.csv`: below
a header of name, version and source a row for each node, with its code, label and parent.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from unikat.data.numbers import number_meant
from unikat.errors import DataError, brief
from unikat.files.toml import file_bytes, why_not_read

TREES = Path(__file__).parent / "trees"
NODES = ("code", "label", "parent")
"""The header of a file of nodes, of which `label` may be absent; `also`, other codes with `|`
between, may follow."""
_NO_CODE = re.compile(r"[^0-9A-Z]")


@dataclass(frozen=True, kw_only=True, eq=False)
class Hierarchy:
    """Groups of levels, column by column, from fine to coarse."""

    name: str
    """Of the file, or of the code system."""
    levels: tuple[str, ...]
    """The first column: codes of the levels, inner nodes of a tree included."""
    groups: tuple[tuple[str, ...], ...]
    """(n_columns, n_levels): what each further column calls the group of each level; a node that is
    as coarse is its own group."""
    labels: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of levels and groups; a file without header has none."""
    titles: tuple[str, ...] = ()
    """What the columns of groups are called: `major group`."""
    also: Mapping[str, int] = field(default_factory=dict, repr=False)
    """Rows of other codes of the same."""
    about: Mapping[str, str] = field(default_factory=dict)
    """The header of a code system."""

    @property
    def is_ordered(self) -> bool:
        """Whether the levels are in an order that means something."""
        return "ordered" in self.about

    @cached_property
    def _by_code(self) -> dict[str, int]:
        found = {_plain(code): row for row, code in enumerate(self.levels)}
        return {**{_plain(code): row for code, row in self.also.items()}, **found}

    @cached_property
    def _by_label(self) -> dict[str, int]:
        return {self.labels.get(code, code).casefold(): row for row, code in enumerate(self.levels)}

    def has_code(self, text: str) -> bool:
        """Whether a text is a code of it, however it is written."""
        rows = self.rows([text], [""])
        return rows[0] is not None and text.casefold() not in self._by_label

    def has_label(self, text: str) -> bool:
        """Whether a level or group is called so."""
        return text.casefold() in self._by_label

    def rows(self, texts: Sequence[str], labels: Sequence[str]) -> list[int | None]:
        """Find the rows that levels mean: all by code, or else all by label.

        Codes are the same with and without points, blanks and hyphens, in small letters, and as
        numbers that have lost their leading zeros; the way that finds most levels counts for all.

        Parameters
        ----------
        texts, labels
            (n_levels,): values of the levels, and what they are called.

        Returns
        -------
        list
            (n_levels,): None where a level is not in the hierarchy.
        """
        cut = int(self.about.get("longer", 100))
        lengths = sorted({len(code) for code in self._by_code if code.isdigit()})
        ways: list[list[int | None]] = [
            [self._by_code.get(_plain(text)) for text in texts],
            *([self._by_code.get(_plain(text).zfill(n)) for text in texts] for n in lengths),
            [self._by_code.get(_plain(text)[:cut]) for text in texts],
            [self._by_label.get(text.casefold()) for text in texts],
            [self._by_label.get(text.casefold()) for text in labels],
        ]
        return min(ways, key=lambda found: found.count(None))


def _plain(code: str) -> str:
    return _NO_CODE.sub("", code.upper())


@cache
def code_system(name: str) -> Hierarchy:
    """Read a code system of the package, `isco08`."""
    return _tree(name, (TREES / f"{name}.csv").read_text(encoding="utf-8"))


def read_hierarchy(path: Path, encoding: str | None = None) -> Hierarchy:
    """Read a hierarchy: a CSV file delimited by semicolons or else by commas.

    Without header, the first column holds the levels, the next ones ever coarser groups; programs
    end with `*`. With the header `code,label,parent`, or `code,parent`, each row is a node and its
    parent another one.

    Raises
    ------
    DataError
        If the file cannot be read or is empty, a row has another number of fields or an empty one,
        a level stands in two rows, a column splits a group of the column before it, or a parent is
        no node.
    """
    name = brief(path.name)
    try:
        content = file_bytes(path)
    except (OSError, ValueError) as error:
        raise DataError(f"Cannot read the hierarchy {name}: {why_not_read(error)}.") from None
    try:
        text = _text_of(content, encoding)
    except (UnicodeError, LookupError):
        raise DataError(
            f"The hierarchy {name} is neither UTF-8 text nor in the encoding of the data; name "
            "that (--encoding; in Python: encoding), or save the file as UTF-8."
        ) from None
    first = next(filter(None, map(str.strip, text.splitlines())), "")
    header = {field.strip() for field in re.split("[;,]", first.lower())}
    if first.startswith("# ") or {"code", "parent"} <= header:
        return _tree(name, text)
    try:
        lines = io.StringIO(text, newline="")
        reader = csv.reader(lines, delimiter=";" if ";" in first else ",", strict=True)
        rows = [(reader.line_num, [field.strip() for field in row]) for row in reader if any(row)]
    except csv.Error as error:
        raise DataError(f"The hierarchy {name} is no CSV file: {error}.") from None
    if not rows or len(rows[0][1]) < 2:
        raise DataError(
            f"The hierarchy {name} holds no groups; write a level and its groups in each row, "
            "with semicolons or commas between."
        )
    width = len(rows[0][1])
    for line, row in rows:
        if len(row) != width or not all(row):
            what = f"{len(row)} fields" if len(row) != width else "an empty field"
            raise DataError(
                f"The hierarchy {name} has {what} in line {line}; give each row {width}, as the "
                "first has, and a name in each."
            )
    columns = list(zip(*(row for _, row in rows), strict=True))
    twice = len(columns[0]) - len({_as_number(level) for level in columns[0]})
    if twice:
        raise DataError(
            f"The hierarchy {name} has {twice:,} of its levels in more than one row; give each "
            "level one row."
        )
    for j in range(2, width):
        if split := _n_split(columns[j - 1], columns[j]):
            raise DataError(
                f"{name} is no hierarchy: column {j + 1} splits {split:,} of the groups of column "
                f"{j}. Put levels of one group into one group of every later column."
            )
    return Hierarchy(name=name, levels=columns[0], groups=tuple(columns[1:]))


def _tree(name: str, text: str) -> Hierarchy:
    """Read nodes with their parents, below lines `# word: text`."""
    lines = text.splitlines()
    about = dict(
        line[2:].split(": ", 1) for line in lines if line.startswith("# ") and ": " in line
    )
    kept = [line for line in lines if line.strip() and not line.startswith("#")]
    fields = [field.strip() for field in re.split("[;,]", kept[0].lower())] if kept else []
    rows = csv.reader(kept[1:], delimiter=";" if kept and ";" in kept[0] else ",")
    nodes = [dict(zip(fields, row, strict=True)) for row in rows if len(row) == len(fields)]
    where = f"The hierarchy {name}"
    if not nodes or len(nodes) < len(kept) - 1 or not {"code", "parent"} <= {*fields}:
        raise DataError(
            f"{where} has no nodes, or a row with another number of fields than its header; give "
            f"each row {', '.join(NODES)}, and write the header so."
        )
    parents = {node["code"].strip(): node["parent"].strip() for node in nodes}
    if len(parents) < len(nodes):
        raise DataError(f"{where} has a code in more than one row; give each code one row.")
    if strange := [one for one in parents.values() if one and one not in parents]:
        raise DataError(
            f"{where}: the parent {brief(strange[0])!r} is no code of it; add a row for it, or "
            "leave the parent empty."
        )
    paths = {code: _path(code, parents, where) for code in parents}
    depth = max(map(len, paths.values()))
    if depth < 2:
        raise DataError(f"{where} holds no groups: no code has a parent. Name the parents.")
    titles = [title.strip() for title in about.get("levels", "").split(",") if title.strip()]
    return Hierarchy(
        name=about.get("name", name),
        levels=tuple(parents),
        groups=tuple(
            tuple(path[min(place, len(path) - 1)] for path in paths.values())
            for place in range(depth - 2, -1, -1)
        ),
        labels={
            node["code"].strip(): node["label" if "label" in fields else "code"].strip()
            for node in nodes
        },
        titles=tuple(reversed(titles[: depth - 1])),
        also={
            other: row
            for row, node in enumerate(nodes)
            for other in filter(None, (node.get("also") or "").split("|"))
        },
        about=about,
    )


def _path(code: str, parents: Mapping[str, str], where: str) -> list[str]:
    """The codes from the top of a tree to one of its codes."""
    path = [code]
    while parent := parents[path[0]]:
        if parent in path:
            raise DataError(f"{where}: {brief(code)!r} is above itself; correct its parent.")
        path.insert(0, parent)
    return path


def _text_of(content: bytes, encoding: str | None) -> str:
    """Read text of UTF-8, with or without the mark of some programs, or else of an encoding."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeError:
        if encoding is None:
            raise
        return content.decode(encoding)


def _as_number(level: str) -> str | float:
    """A level by its number, since 84 and 84.0 are the same."""
    number = number_meant(level)
    return level if number is None else float(number)


def _n_split(finer: Sequence[str], coarser: Sequence[str]) -> int:
    """Groups of a column that lie in several of the next."""
    return len(set(zip(finer, coarser, strict=True))) - len(set(finer))
