"""What a protection did to the columns that are no keys, and the risk with those that are left."""

from __future__ import annotations

from dataclasses import dataclass

from unikat.risk.estimate import Summary


@dataclass(frozen=True, kw_only=True)
class RiskWith:
    """The risk of an intruder who knows more than the keys."""

    n_uniques: int
    """Sample uniques by what he knows."""
    tau1: Summary | None
    """Population uniques among them; None of exact measurements, and where no state tells it."""


@dataclass(frozen=True, kw_only=True)
class LeftOver:
    """The risk with columns that are left beside the keys."""

    n_columns: int
    """Those that are counted: exact measurements are not."""
    without: RiskWith
    """Of who knows the keys alone, in the same way: complete records."""
    n_records: int = 0
    """Released records that are counted: those that show all keys."""
    n_hidden: int = 0
    """The others, of which a key is missing or suppressed."""
    together: RiskWith | None
    """Of who knows all columns; None if there is one at most."""


@dataclass(frozen=True, kw_only=True)
class ColumnFacts:
    """A column that is no key."""

    name: str
    role: str
    reason: str
    """See `data.roles.ColumnRole`."""
    action: str
    """`copied`, `removed`, `renumbered`, `changed` (a continuous variable), `recoded`, or
    `suppressed` as its key is; before the keys are recoded `as_key`."""
    n_values: int
    """Different values before."""
    key: str | None = None
    """Of a linked column: the key, how closely it is linked, and whether the key is that of
    another member of the household."""
    measure: float | None = None
    member: bool = False
    risk: RiskWith | None = None
    """With this column beside the keys; None of a column that is not left, or holds no values."""
