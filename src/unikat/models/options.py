"""Checks of the models' options, and of the memory that they would take.

Every number has a range. It is wider than anything a user would want, and ends where a sampler no
longer moves, sums overflow, or a sweep takes minutes; inside it every model finishes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from unikat.errors import SpecError, shown

Range = tuple[float, float]

PRIOR: Range = (1e-6, 1e6)
"""Shapes and rates of gamma priors, and concentrations: draws of a gamma variable of a smaller
shape are all 0 to the computer, and with a larger one the prior outweighs any sample."""

TOLERANCE: Range = (1e-12, 1e6)
"""Of a fit, in records: below it is the rounding error of a record's share."""


def check_numbers(options: object, ranges: Mapping[str, Range], also: str = "") -> None:
    """Refuse options that are not numbers from the lower to the upper end of their range.

    The message (SpecError) names option and range; `also` tells what else may be given, such as
    `", or 'learned'"`.
    """
    for name, (low, high) in ranges.items():
        value = getattr(options, name)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not low <= value <= high:
            raise SpecError(
                f"model option {name} is {shown(value)}; it must be a number from {_written(low)} "
                f"to {_written(high)}{also}."
            )


def check_whole(options: object, name: str, low: int, high: int, also: str = "") -> None:
    """Refuse an option that is not a whole number from `low` to `high` (SpecError)."""
    value = getattr(options, name)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise SpecError(
            f"model option {name} is {shown(value)}; it must be a whole number from {low:,} to "
            f"{high:,}{also}."
        )


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse an option that is none of its choices (SpecError)."""
    if not isinstance(value, str) or value not in choices:
        raise SpecError(
            f"model option {name} is {shown(value)}; choose {', '.join(map(repr, choices))}."
        )


def check_bool(options: object, name: str) -> None:
    """Refuse an option that is neither true nor false (SpecError)."""
    value = getattr(options, name)
    if not isinstance(value, bool):
        raise SpecError(f"model option {name} is {shown(value)}; it must be true or false.")


def check_memory(n_bytes: float, what: str, remedy: str) -> None:
    """Refuse what does not fit into this machine's memory, before it is allocated (SpecError)."""
    available = memory()
    if available is not None and n_bytes > available:
        raise SpecError(
            f"{what} would take about {n_bytes / 2**30:,.0f} GiB of memory; this machine has "
            f"{available / 2**30:,.0f} GiB. {remedy}"
        )


def memory() -> int | None:
    """Bytes of memory that this process may use; None where the system does not tell."""
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return None
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        # The limit of a container.
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
    except (OSError, ValueError):
        return physical
    return min(physical, limit)


def _written(number: float) -> str:
    return f"{number:,.0f}" if 1 <= number < 1e15 or number == 0 else f"{number:g}"
