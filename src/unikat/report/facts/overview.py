"""The few numbers of an answer that a reader wants first, as a small table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from unikat.risk.estimate import Summary


class Overview(ABC):
    """Numbers of an answer; called, as ``result.summary()``, they give the main ones as a frame."""

    def __call__(self) -> pd.DataFrame:
        """Return the main numbers as a pandas frame, whose index says what each row is about."""
        import pandas as pd

        rows = self.overview()
        return pd.DataFrame(rows).set_index(next(iter(rows[0]))) if rows else pd.DataFrame()

    @abstractmethod
    def overview(self) -> list[dict[str, Any]]:
        """Return the rows; the first column is the index."""


def estimated(*, shown: bool = True, **found: Summary | None) -> Mapping[str, float | None]:
    """Return median and interval of each measure, as columns; an interval only if it is shown."""
    columns: dict[str, float | None] = {}
    for name, one in found.items():
        columns[name] = None if one is None else one.median
        columns[f"{name}_lower"] = one.lower if one is not None and shown else None
        columns[f"{name}_upper"] = one.upper if one is not None and shown else None
    return columns
