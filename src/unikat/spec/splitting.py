"""Splitting of lists that one text holds."""

from __future__ import annotations

import re


def split_keys(text: str, at: str = ",", *, empty: bool = False) -> list[str]:
    """Split `A,B:cut(0,10),C` at the commas that are not between parentheses.

    Parameters
    ----------
    text
        The list.
    at
        The character between its items.
    empty
        Whether to keep items that are empty.

    Examples
    --------
    >>> split_keys("A, B:cut(0,10),C")
    ['A', 'B:cut(0,10)', 'C']
    """
    items, depth, start = [], 0, 0
    for found in re.finditer(f"[(){re.escape(at)}]", text):
        sign = found[0]
        depth += (sign == "(") - (sign == ")")
        if sign == at and depth <= 0:
            items.append(text[start : found.start()])
            start = found.end()
    items.append(text[start:])
    return [item.strip() for item in items if empty or item.strip()]
