"""A threshold that the owner of the data sets: `tau1 <= 5`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

from unikat.errors import shown

Measure: TypeAlias = Literal["tau1", "tau2"]

_FORM = re.compile(
    r"\s*(?P<measure>tau1|tau2|τ1|τ2)\s*(<=|≤)\s*"
    r"(?P<limit>[0-9]{1,15}(,[0-9]{3})*(\.[0-9]{1,15})?)\s*"
)


@dataclass(frozen=True)
class Threshold:
    """The largest acceptable value of a risk measure.

    Examples
    --------
    >>> Threshold.of("tau1 <= 5")
    Threshold(measure='tau1', limit=5.0)
    >>> str(Threshold.of("τ2≤12.5"))
    'tau2 <= 12.5'
    """

    measure: Measure
    limit: float

    @classmethod
    def of(cls, text: str) -> Self:
        """Read a threshold.

        Raises
        ------
        ValueError
            If the text has another form.
        """
        found = _FORM.fullmatch(text)
        if found is None:
            raise ValueError(
                f"{shown(text)} is no threshold; write tau1 or tau2, then <=, then the largest "
                "acceptable number, as in 'tau1 <= 5'"
            )
        measure: Measure = "tau1" if found["measure"].endswith("1") else "tau2"
        return cls(measure, float(found["limit"].replace(",", "")))

    def __str__(self) -> str:
        return f"{self.measure} <= {self.limit:.15g}"
