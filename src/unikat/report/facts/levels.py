"""What is known of the levels of a key: their kind, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from unikat.data.keys import Key
from unikat.data.structure import Kind, Structure, Why, structure_of


@dataclass(frozen=True, kw_only=True)
class LevelsFacts:
    """The kind of the levels of a key."""

    name: str
    kind: Kind
    why: Why
    system: str
    """The code system or file of a hierarchical key; empty if there is none."""
    version: str
    """Of the code system."""
    n_levels: int
    """Those that are declared missing excepted."""

    @classmethod
    def of(cls, key: Key) -> Self:
        """Find the kind of a key's levels."""
        return cls.of_structure(key.name, structure_of(key))

    @classmethod
    def of_structure(cls, name: str, found: Structure) -> Self:
        """Describe the kind of the levels of a key of a name."""
        tree = found.tree
        return cls(
            name=name,
            kind=found.kind,
            why=found.why,
            system="" if tree is None else tree.name,
            version="" if tree is None else tree.about.get("version", ""),
            n_levels=found.key.n_levels - (found.key.missing_level is not None),
        )
