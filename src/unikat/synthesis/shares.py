"""Probabilities within households, declared by formula.

::

    formula   = "share" "(" condition [ "|" condition ] ")"
    condition = part { "and" part }
    part      = "all" "same" KEY | ROLE "present" | "size" "=" NUMBER | rule

A rule is one of households (`unikat.language.rules`), here of what is counted and not of
what is impossible. Behind the bar stands which households are looked at. A condition that a missing
key leaves open is not met.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from unikat._typing import Bool, Float64
from unikat.errors import SpecError, brief, suggest
from unikat.synthesis.combine import Combined, combine_partially_synthetic
from unikat.synthesis.persons import Plain
from unikat.zeros.household_rules import HouseholdZeros

_EXAMPLES = "share(all same RACE | size = 3), share(spouse present), share(count(AGE < 18) > 0)"
_SAME = re.compile(r"all\s+same\s+`?(?P<key>.+?)`?", re.DOTALL)
_PRESENT = re.compile(r"(?P<role>\w+)\s+present")
_SIZE = re.compile(r"size\s*=\s*(?P<size>[0-9]+)")


class Formula(NamedTuple):
    """A formula in its parts."""

    text: str
    wanted: tuple[str, ...]
    """All must hold."""
    given: tuple[str, ...]


class ShareOf(NamedTuple):
    """A share of the households of one file."""

    n: int
    """Households that are looked at."""
    share: float
    """NaN if there is none."""
    variance: float
    """In a simple random sample of households, or of those with these weights."""


def parse_formula(text: str) -> Formula:
    """Read a formula.

    Examples
    --------
    >>> parse_formula("share(all same RACE | size = 3)")
    Formula(text='share(all same RACE | size = 3)', wanted=('all same RACE',), given=('size = 3',))
    """
    inside = re.fullmatch(r"\s*share\s*\((?P<inside>.*)\)\s*", text, re.DOTALL)
    sides = [] if inside is None else _split(inside["inside"], "|")
    if not 1 <= len(sides) <= 2 or not all(side.strip() for side in sides):
        raise SpecError(f"{brief(text)!r} is no probability within households; write {_EXAMPLES}.")
    parts = [
        tuple(part.strip() for part in _split(side, " and ") if part.strip()) for side in sides
    ]
    return Formula(" ".join(text.split()), parts[0], parts[1] if len(parts) > 1 else ())


def share_of(
    formula: Formula,
    households: Plain,
    roles: Mapping[str, str],
    weights: Float64 | None = None,
) -> ShareOf:
    """Compute a share of the households of a file.

    Its variance is that of the ratio sum w x / sum w after four households of the mean weight are
    added, two with x = 1 and two with x = 0 (Agresti and Coull 1998). So the variance of a share of
    0 or 1 is not zero.

    Parameters
    ----------
    formula
        Of what.
    households
        The file.
    roles
        A condition on one person by role.
    weights
        (n_households,) sample weights; None: all have one.
    """
    given = _hold(formula, formula.given, households, roles)
    n = int(given.sum())
    if not n:
        return ShareOf(0, float("nan"), float("nan"))
    x = _hold(formula, formula.wanted, households, roles)[given]
    w = np.ones(n) if weights is None else weights[given]
    total, more = w.sum(), w @ w / w.sum()
    share = w @ x / total
    middle = (total * share + 2.0 * more) / (total + 4.0 * more)
    squares = w**2 @ (x - middle) ** 2 + 2.0 * more**2 * (middle**2 + (1.0 - middle) ** 2)
    return ShareOf(n, float(share), float(squares / (total + 4.0 * more) ** 2))


def combined_share(shares: Sequence[ShareOf], level: float) -> Combined | None:
    """Combine a share over synthetic files; None if one of them has no household to look at."""
    if not all(one.n for one in shares):
        return None
    found = combine_partially_synthetic(
        [one.share for one in shares], [one.variance for one in shares], level
    )
    return found._replace(lower=max(found.lower, 0.0), upper=min(found.upper, 1.0))


def original_share(share: ShareOf, level: float) -> Combined | None:
    """Interval of a share of the original, by the normal approximation."""
    from scipy.stats import norm

    if not share.n:
        return None
    half = float(norm.ppf(0.5 + level / 2)) * share.variance**0.5
    lower, upper = max(share.share - half, 0.0), min(share.share + half, 1.0)
    return Combined(share.share, share.variance, float("inf"), lower, upper)


def _hold(
    formula: Formula, parts: Sequence[str], households: Plain, roles: Mapping[str, str]
) -> Bool:
    """Households of which all parts are true, (n_households,)."""
    found = np.ones(len(households.houses), bool)
    rules = []
    for part in parts:
        if same := _SAME.fullmatch(part):
            found &= _all_same(formula, same["key"], households)
        elif present := _PRESENT.fullmatch(part):
            rules.append(f"count({_condition(formula, present['role'], roles)}) >= 1")
        elif size := _SIZE.fullmatch(part):
            found &= households.sizes == int(size["size"])
        else:
            rules.append(part)
    if rules:
        try:
            zeros = HouseholdZeros.of(
                rules, roles, households.household_keys, households.person_keys
            )
        except SpecError as error:
            raise SpecError(f"{formula.text}: {error}") from None
        found &= zeros.broken(households.houses, households.members, households.sizes).all(axis=1)
    return found


def _all_same(formula: Formula, key: str, households: Plain) -> Bool:
    names = [one.name for one in households.person_keys]
    if key not in names:
        raise SpecError(
            f"{formula.text}: {brief(key)!r} is no key of persons.{suggest(key, names)}"
        )
    codes = households.members[:, :, names.index(key)]
    there = np.arange(codes.shape[1]) < households.sizes[:, None]
    low = np.where(there, codes, np.iinfo(np.int32).max).min(axis=1)
    high = np.where(there, codes, -1).max(axis=1)
    same: Bool = (low == high) & (low >= 0)
    return same


def _condition(formula: Formula, role: str, roles: Mapping[str, str]) -> str:
    if role not in roles:
        raise SpecError(
            f"{formula.text}: no role is called {brief(role)!r}.{suggest(role, list(roles))} "
            "Declare it under [roles] of the file of rules (--zeros), or count: "
            "share(count(REL == 2) >= 1)."
        )
    return roles[role]


def _split(text: str, mark: str) -> list[str]:
    """Split at a mark that stands outside of parentheses and quotation marks."""
    parts, depth, quote, at = [""], 0, "", 0
    while at < len(text):
        char = text[at]
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'`":
            quote = char
        elif not depth and text[at : at + len(mark)].lower() == mark:
            parts.append("")
            at += len(mark)
            continue
        depth += 0 if quote else (char == "(") - (char == ")")
        parts[-1] += char
        at += 1
    return parts
