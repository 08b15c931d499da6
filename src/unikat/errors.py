"""Errors meant for the user: one clear message, exit code 1, never a record's values."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class UnikatError(Exception):
    """Base of every error with a message for the user (what, where, rule, remedy)."""


class DataError(UnikatError):
    """The file or frame cannot be read as asked, or its keys cannot be used."""


class SpecError(UnikatError):
    """An option or a specification is wrong."""


class OutputError(UnikatError):
    """Results or checkpoints cannot be written or read."""


def suggest(name: str, candidates: Iterable[str]) -> str:
    """Return `` Did you mean 'X'?`` for the nearest candidate, or an empty string."""
    names = list(candidates)
    by_folded = {candidate.casefold(): candidate for candidate in names}
    near = get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return f" Did you mean {by_folded[near[0]]!r}?" if near else ""
