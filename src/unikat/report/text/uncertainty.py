"""The words for each kind of uncertainty that the draws of a model have.

The kinds are those of `unikat.models.base.Uncertainty`; a model names its own. The words are in
`uncertainty.toml`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from unikat.files.toml import packaged_toml


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Words for one kind."""

    independent: bool = False
    """The draws are independent: there are no chains that have to converge."""
    title: str = "Distribution of"
    """Title of a figure of the draws; the measure follows."""
    caption: str
    """What the figure shows; `{measure}` stands for its name."""
    headline: str = "{level} interval {ends}"
    """The interval in a headline; `{level}` is its probability, `{ends}` its ends."""
    condition: str
    """What the interval covers and leaves out."""
    covers: str
    """The same, where the limits of the numbers are listed."""
    covers_households: str = ""
    """The same where the units are households, if it is not the same."""
    centre: str
    """What mean and median are."""
    ends: str
    """What the ends of an interval are."""
    expected: str = ""
    """What the expected measures are; begins with a blank."""
    records: str = ""
    """About the intervals of single records; `{units}` stands for the word for them."""
    brief: str = ""
    """What the interval covers, in a few words."""
    proviso: str = "if the model is right"
    """When the intervals should contain the true value."""


INDEPENDENT = " These draws are independent: R-hat can be above 1 by chance if they are few."
"""Added to what R-hat means."""

KINDS: Final[Mapping[str, Kind]] = {
    name: Kind(**words) for name, words in packaged_toml(__package__, "uncertainty.toml").items()
}
POSTERIOR: Final = KINDS["posterior"]
