"""Groups of levels that go up a hierarchy: all to one height, or rare branches alone.

A path is the names of the groups that a level is in, from the top, and its own last. A node is the
beginning of a path. A cut is a set of nodes: a level is in the group of the first node on its path
that the cut has, and stays as it is if there is none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TypeAlias

from unikat._typing import Int64
from unikat.data.hierarchies import Hierarchy
from unikat.data.keys import Key
from unikat.data.named_levels import level_names
from unikat.data.structure import Structure
from unikat.errors import SpecError, option
from unikat.protection.groups import other_name

Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """Groups of the levels of a key."""

    group_of: list[str | None]
    """(n_named,): name of each level's group; None where it stays as it is."""
    by_level: dict[str, str]
    """The same by level, those included that no record has."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What groups are called that have codes as names."""
    title: str = ""
    """What the groups are: `ISCO-08 major group`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Paths:
    """The groups of each level. Made by :meth:`of`."""

    paths: list[Path]
    """(n_named,): of the levels of a key."""
    others: list[Path] = field(repr=False)
    """Of levels that no record has."""
    labels: Mapping[str, str] = field(repr=False)
    """What groups are called that have codes as names."""
    name: str
    """Of the code system or file."""
    titles: tuple[str, ...]
    """What groups of each height are, from the top."""

    @classmethod
    def of(cls, structure: Structure) -> Paths | None:
        """Find the paths of a key's levels; None if it is no hierarchy."""
        names, tree = level_names(structure.key), structure.tree
        if tree is None:
            if not structure.prefixes:
                return None
            paths = [
                tuple(dict.fromkeys([*(text[:n] for n in structure.prefixes), text]))
                for text in names
            ]
            return cls(paths=paths, others=[], labels={}, name="", titles=())
        # Who has labels as values has them as names of groups, too.
        called = {} if tree.has_code(names[0]) else tree.labels
        shared, paths = Counter(structure.rows), []
        for name, row in zip(names, structure.rows, strict=True):
            above = [called.get(code, code) for code in _above(tree, row)]
            # Codes below the list, such as A00.1, are together in what the list has.
            own = [tree.levels[row]] if shared[row] > 1 else []
            paths.append((*above, *own, name))
        others = [
            tuple(called.get(code, code) for code in (*_above(tree, row), tree.levels[row]))
            for row in range(len(tree.levels))
            if row not in shared
        ]
        return cls(
            paths=paths,
            others=others,
            labels={} if called else tree.labels,
            name=tree.name,
            titles=tuple(reversed(tree.titles)),
        )

    @property
    def height(self) -> int:
        """Heights of groups above the lowest levels."""
        return max(map(len, self.paths)) - 1

    def level(self, n: int) -> Grouping:
        """Put every level into its group of height n, 1 being the top; levels as high stay."""
        if n > (height := max(map(len, (*self.paths, *self.others))) - 1):
            raise SpecError(
                f"level({n}) is below the lowest groups of {self.name or 'the codes'}: there are "
                f"{height} height(s), 1 being the top. Take level(1) to level({height})."
            )
        title = f"{self.name} {self.titles[n - 1]}" if n <= len(self.titles) else self.name
        everything = [*self.paths, *self.others]
        return self._cut_at({path[:n] for path in everything if len(path) > n}, title)

    def local(self, counts: Int64, share: float, apart: Set[int] = frozenset()) -> Grouping:
        """Let branches go up in which a group has fewer than a share of the records.

        Groups that are still rare at the top become one. No group has two of the levels that stay
        apart.
        """
        least = share * float(counts[: len(self.paths)].sum())
        groups = self._groups(range(len(self.paths)), 0, counts, least, apart)
        found = self._cut_at(
            {self.paths[codes[0]][:height] for codes, height in groups if len(codes) > 1},
            self.name,
        )
        rare = [
            code
            for codes, _ in groups
            if _n(counts, codes) < least and apart.isdisjoint(codes)
            for code in codes
        ]
        names = list(dict.fromkeys(found.group_of[code] or self.paths[code][-1] for code in rare))
        if len(names) < 2:
            return found
        other = other_name([self.labels.get(name, name) for name in names])
        by_level = {
            level: other if group in names else group for level, group in found.by_level.items()
        }
        by_level |= {self.paths[code][-1]: other for code in rare}
        return Grouping(
            group_of=[by_level.get(path[-1]) for path in self.paths],
            by_level=by_level,
            labels=found.labels,
            title=found.title,
        )

    def _cut_at(self, nodes: Set[Path], title: str) -> Grouping:
        by_level = {}
        for path in (*self.others, *self.paths):
            for height in range(1, len(path) + 1):
                if path[:height] in nodes:
                    by_level[path[-1]] = path[height - 1]
                    break
        return Grouping(
            group_of=[by_level.get(path[-1]) for path in self.paths],
            by_level=by_level,
            labels=self.labels,
            title=title,
        )

    def _groups(
        self, codes: Sequence[int], height: int, counts: Int64, least: float, apart: Set[int]
    ) -> list[tuple[Sequence[int], int]]:
        """Groups below a node, each with its height; the node itself if one is rare."""
        children: dict[Path, list[int]] = {}
        for code in codes:
            children.setdefault(self.paths[code][height : height + 1], []).append(code)
        found: list[tuple[Sequence[int], int]] = []
        for part in children.values():
            alone = len(part) == 1
            found += [(part, 0)] if alone else self._groups(part, height + 1, counts, least, apart)
        may_join = height > 0 and len(apart & {*codes}) < 2
        if may_join and any(_n(counts, one) < least for one, _ in found):
            return [(codes, height)]
        return found


def paths_for(key: Key, shown: str) -> Paths:
    """Return the paths of a key for a rule that is called so."""
    found = Paths.of(Structure.of(key))
    if found is None:
        raise SpecError(
            f"Key {key.name!r}: {shown} goes up a hierarchy, and the levels have none. Name it: "
            f"{option('levels', f'{key.name}: isco08')}, or another code system, or file(tree.csv)."
        )
    return found


def _above(tree: Hierarchy, row: int) -> list[str]:
    """Groups of a code, from the top, that are not the code itself."""
    found = dict.fromkeys(column[row] for column in reversed(tree.groups))
    return [code for code in found if code != tree.levels[row]]


def _n(counts: Int64, codes: Sequence[int]) -> float:
    return float(counts[list(codes)].sum())
