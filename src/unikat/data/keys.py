"""Key variables: their names, levels and labels."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from unikat.data.letters import is_letter
from unikat.errors import SpecError, brief

MISSING = -1
"""Code of a missing key in every array of codes."""

MOST_LEVELS = 100_000
"""Most levels of a key: more than this is a measurement or an identifier."""

MISSING_LABEL = "missing"
"""Label of the level that stands for missing values when missing is a level of its own."""


@dataclass(frozen=True, kw_only=True)
class DeclaredCode:
    """A code of a key that is declared missing, and what it is taken for."""

    code: str
    """As the file has it."""
    label: str | None
    n_records: int
    is_level: bool
    """It is a level and not missing."""
    told_by: tuple[str, ...] = ()
    """Keys that tell who has it; none where the user said that it is a level."""

    @property
    def is_letter(self) -> bool:
        """Whether it is a letter of Stata or SAS that says why a number is missing."""
        return is_letter(self.code)


@dataclass(frozen=True, kw_only=True)
class Key:
    """A key variable. The code of a level is its position in `levels`.

    Parameters
    ----------
    name
        Name of the column.
    levels
        The values the variable can take: those observed and those declared in the codebook, in
        the codebook's order if it declares them, else sorted (categoricals in the order of their
        categories). A level None, always the last, stands for missing values that are treated as
        a level.
    labels
        What each level is called in reports, one per level.
    binning
        The rule that made the levels from numbers, such as ``"width(5)"``, or None.
    private
        Codes of the levels that only the records tell, no codebook and no binning rule. Error
        messages do not name them.
    ordered
        Whether the levels have an order, as the source or the codebook declares it; None if neither
        says. `unikat.data.structure` decides.
    told
        Kind of the levels that the user or the codebook tells, `isco08` or another of
        `unikat.spec.level_kinds`; empty: `unikat.data.structure` finds it.
    told_by
        Who tells it: `option` or `codebook`; empty if nobody does.
    measure
        What a statistical file says of the column: `nominal`, `ordinal` or `scale`; else empty.
    title
        Label of the column itself in a statistical file, such as `Age in years`; else empty.
    declared
        The codes that are declared missing and that records have.
    declared_missing
        Codes of the levels whose values are declared missing, as "not applicable" is of children.
    by_hand
        What the groups are called in which it was read, the name of their file; empty of a key that
        was not grouped by hand.
    dates
        Form in which texts or numbers write the dates that the levels join, such as `DD/MM/YYYY`.

    Raises
    ------
    SpecError
        If levels and labels do not pair up, a level is repeated, or there are too many.

    Examples
    --------
    >>> Key(name="SEX", levels=(1, 2), labels=("male", "female")).n_levels
    2
    """

    name: str
    levels: tuple[object, ...]
    labels: tuple[str, ...]
    binning: str | None = None
    private: frozenset[int] = field(default=frozenset(), repr=False, compare=False)
    ordered: bool | None = field(default=None, repr=False, compare=False)
    told: str = field(default="", repr=False, compare=False)
    told_by: str = field(default="", repr=False, compare=False)
    measure: str = field(default="", repr=False, compare=False)
    title: str = field(default="", repr=False, compare=False)
    declared: tuple[DeclaredCode, ...] = field(default=(), repr=False, compare=False)
    declared_missing: frozenset[int] = field(default=frozenset(), repr=False, compare=False)
    by_hand: str = field(default="", repr=False, compare=False)
    dates: str = field(default="", repr=False, compare=False)

    def __post_init__(self) -> None:
        # A level for missing values comes on top.
        _check_number(self.name, sum(level is not None for level in self.levels))
        if len(self.levels) != len(self.labels):
            raise SpecError(
                f"Key {brief(self.name)!r} has {len(self.levels)} levels but {len(self.labels)} "
                "labels; give one label per level."
            )
        if len(set(self.levels)) != len(self.levels):
            raise SpecError(
                f"Key {brief(self.name)!r} lists a level more than once; list each once."
            )

    @property
    def n_levels(self) -> int:
        """Number of levels, a level for missing values included."""
        return len(self.levels)

    @property
    def missing_level(self) -> int | None:
        """Code of the level that stands for missing values, or None."""
        return len(self.levels) - 1 if self.levels and self.levels[-1] is None else None

    @property
    def answers(self) -> tuple[str, ...]:
        """Codes that are declared missing and are levels."""
        return tuple(one.code for one in self.declared if one.is_level)

    @classmethod
    def of_size(cls, name: str, n_levels: int) -> Key:
        """Key whose levels are the integers 0 .. n_levels-1, as simulated data have them."""
        _check_number(name, n_levels)
        return cls(
            name=name,
            levels=tuple(range(n_levels)),
            labels=tuple(str(level) for level in range(n_levels)),
        )


def _check_number(name: str, n_levels: int) -> None:
    """Refuse more levels than a key may have (SpecError), before anything is made of them."""
    if n_levels > MOST_LEVELS:
        raise SpecError(
            f"Key {brief(name)!r} has {n_levels:,} levels; a key may have at most {MOST_LEVELS:,}. "
            "Use a coarser classification."
        )


def codes_told(
    counts: Mapping[str, int],
    labels: Mapping[str, str],
    named: Set[str],
    levels: Mapping[str, tuple[str, ...]],
) -> tuple[DeclaredCode, ...]:
    """Tell what codes that are declared missing were taken for.

    Parameters
    ----------
    counts
        Records of each code.
    labels
        Of codes.
    named
        Codes that the file, the codebook or the user names. Others lie in a range that is declared
        missing; without a label they are told together, since only records tell them.
    levels
        Those that are levels, with the keys that tell who has them.
    """
    found = [
        DeclaredCode(
            code=code,
            label=labels.get(code),
            n_records=n,
            is_level=code in levels,
            told_by=levels.get(code, ()),
        )
        for code, n in counts.items()
        if code in labels or code in named
    ]
    others = [code for code in counts if code not in labels and code not in named]
    if others:
        n = sum(counts[code] for code in others)
        is_level = all(code in levels for code in others)
        found.append(DeclaredCode(code="other codes", label=None, n_records=n, is_level=is_level))
    return tuple(found)
