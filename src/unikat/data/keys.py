"""Key variables: their names, levels and labels."""

from __future__ import annotations

from dataclasses import dataclass

from unikat.errors import SpecError

MISSING = -1
"""Code of a missing key in every array of codes."""

MISSING_LABEL = "missing"
"""Label of the level that stands for missing values when missing is a level of its own."""


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

    Raises
    ------
    SpecError
        If levels and labels do not pair up, or a level is repeated.

    Examples
    --------
    >>> Key(name="SEX", levels=(1, 2), labels=("male", "female")).n_levels
    2
    """

    name: str
    levels: tuple[object, ...]
    labels: tuple[str, ...]
    binning: str | None = None

    def __post_init__(self) -> None:
        if len(self.levels) != len(self.labels):
            raise SpecError(
                f"Key {self.name!r} has {len(self.levels)} levels but {len(self.labels)} labels; "
                "give one label per level."
            )
        if len(set(self.levels)) != len(self.levels):
            raise SpecError(f"Key {self.name!r} lists a level more than once; list each once.")

    @property
    def n_levels(self) -> int:
        """Number of levels, a level for missing values included."""
        return len(self.levels)

    @property
    def missing_level(self) -> int | None:
        """Code of the level that stands for missing values, or None."""
        return len(self.levels) - 1 if self.levels and self.levels[-1] is None else None

    @classmethod
    def of_size(cls, name: str, n_levels: int) -> Key:
        """Key whose levels are the integers 0 .. n_levels-1, as simulated data have them."""
        return cls(
            name=name,
            levels=tuple(range(n_levels)),
            labels=tuple(str(level) for level in range(n_levels)),
        )
