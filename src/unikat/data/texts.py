"""Levels of text that are none by the look of them: what means missing, and stray blanks."""

from __future__ import annotations

from collections.abc import Mapping, Set

from unikat.errors import DataError, brief, option

_MISSING_TOKENS = frozenset(("NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "."))
"""What programs write into text where there is no value; never taken as a level unasked."""


def check_texts(
    counts: Mapping[object, int], declared: Set[str], missing: Set[str], *, where: str, name: str
) -> None:
    """Refuse texts that are no level of their own by the look of them, unless declared.

    Parameters
    ----------
    counts
        Records of each value.
    declared
        Levels, and codes that have a label.
    missing
        Codes that mean missing.
    where, name
        Of the key, for messages.

    Raises
    ------
    DataError
        If there are such texts.
    """
    texts = {str(value): n for value, n in counts.items() if str(value) not in declared}
    tokens = sorted(texts.keys() & _MISSING_TOKENS)
    if tokens:
        # The tokens are conventions, not values of records, so the message may tell them.
        rows = sum(texts[token] for token in tokens)
        raise DataError(
            f"{where}: {rows:,} record(s) hold {', '.join(tokens)}, which usually means "
            f"missing. If it does, say so: {option('missing_values', tokens)}. If it is a "
            "category of its own, name it among the levels or labels of "
            f"{brief(name)} in the codebook."
        )
    known = {str(value) for value in counts} | missing | declared | _MISSING_TOKENS | {""}
    once = set[str]()
    padded = []
    for text in sorted(texts, key=len):
        bare = text.strip()
        if bare in once or (bare != text and bare in known):
            padded.append(text)
        once.add(bare)
    if padded:
        rows = sum(texts[text] for text in padded)
        raise DataError(
            f"{where}: {len(padded):,} level(s), in {rows:,} record(s), differ from "
            "another level or from a missing value only by blanks before or after the text, "
            "and would be taken as levels of their own. Remove the blanks from the column, or "
            "name these levels as they stand in the codebook."
        )
