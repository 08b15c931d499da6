"""Values as people write them, and the fields that several specifications have."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict

from unikat.errors import shown
from unikat.language.keys import split_keys
from unikat.spec.option import Option


def _of_percent(value: object) -> object:
    """Read `20%` as 0.2, exactly as if that had been written."""
    text = re.fullmatch(r"\s*([0-9]+(\.[0-9]+)?)\s*%\s*", value) if isinstance(value, str) else None
    return float(Fraction(text[1]) / 100) if text else value


Share = Annotated[float, BeforeValidator(_of_percent)]
"""A share of a whole; a text may give it in percent."""


def whole_number(value: object) -> object:
    """Read a number as people write large ones: 1000000, 1,000,000, 1 000 000 or 1e6.

    Raises
    ------
    ValueError
        If a text is no such number.

    Examples
    --------
    >>> whole_number("36,970"), whole_number("36 970"), whole_number("1e6")
    (36970, 36970, 1000000)
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    if len(text) <= _MOST_DIGITS:
        if re.fullmatch(rf"-?[0-9]+|[0-9]{{1,3}}({_GROUP})[0-9]{{3}}(\1[0-9]{{3}})*", text):
            return int(re.sub(_GROUP, "", text))
        if re.fullmatch(r"[0-9]+(\.[0-9]+)?[eE]\+?[0-9]{1,2}", text):
            number = Decimal(text)
            if number == int(number):
                return int(number)
    raise ValueError(
        f"{shown(value)} is not a whole number. Commas, spaces or underscores may only separate "
        "thousands, and a point stands only before an exponent: write 1000000, 1,000,000, "
        "1 000 000 or 1e6"
    )


_MOST_DIGITS = 40
_GROUP = "[,_ \u00a0\u202f]"
"""What may stand between thousands: spaces that do not break are those that people copy."""
Whole = Annotated[int, BeforeValidator(whole_number)]
"""A whole number; a text may write it as people write large ones."""


def _listed(names: object) -> object:
    return split_keys(names) if isinstance(names, str) else names


Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]
"""A list of names; one text may hold them, with commas between."""

Keys = Annotated[
    Names,
    Option(
        "A,B,C",
        "Key variables, those an intruder may know. Numbers can be grouped: 'AGE:width(5)', "
        "'INCOME:quantile(10)', 'X:cut(0,10)'.",
        "required",
        first=True,
        order=2,
    ),
]
PopulationSize = Annotated[
    Whole | None,
    Option(
        "N",
        "Units in the population that was sampled. Can be left out where weights, "
        "strata or margins tell it.",
        first=True,
        form="keys",
    ),
]
Level = Annotated[
    Share,
    Option("P", "Probability of the intervals.", form="run", label="Probability of the intervals"),
]

Language = Literal["en", "es", "fr", "de"]
"""Codes of the languages of reports; the words of each are a folder of `report/words`."""


class Table(BaseModel):
    """A table of the specification: names that are not known are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
