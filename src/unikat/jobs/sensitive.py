"""What an intruder learns about sensitive columns from a file that was made of another."""

from __future__ import annotations

from collections.abc import Iterable

from unikat._typing import Int32, Int64
from unikat.protection.learned import Released, learned
from unikat.protection.recoding import Recoding
from unikat.protection.what_if import Posterior
from unikat.report.facts.classics import InferredResult, inferred_result


def inferred(
    posterior: Posterior,
    recoding: Recoding,
    codes: Int32,
    columns: Iterable[tuple[str, Int64, Int64]],
    level: float,
    seed: int,
) -> dict[str, InferredResult]:
    """Tell what is learned from the original and from the file that is released.

    Parameters
    ----------
    posterior
        Of the keys of the original.
    recoding, codes
        Of its keys, and what the released records show of them, -1 where nothing.
    columns
        Name, and numbers of the values in both files, -1 where missing.
    level, seed
        Probability of the intervals; of the draws.

    Returns
    -------
    dict
        By name; none where nothing is known, or the units are households.
    """
    found = {}
    for name, ours, theirs in columns:
        if posterior.table.layout is None:
            told = learned(posterior, name, ours, level, seed, Released(recoding, codes, theirs))
            if told is not None:
                found[name] = inferred_result(told, posterior.table)
    return found
