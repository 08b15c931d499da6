"""Errors of the keys in an intruder's file: `AGE: 0.05; SEX: 0.001; *: 0.02, missing(0.1)`.

::

    errors = NAME ":" rates { ";" NAME ":" rates }         the name * is all keys that are not named
    rates  = RATE [ "," "missing(" RATE ")" ]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, BeforeValidator

from unikat.errors import only_keys, shown
from unikat.language.keys import Call, entries_of, split_keys
from unikat.spec.option import Option

OTHERS = "*"
"""Stands for all keys that are not named."""
_FORM = (
    "name each key and the share of its values that are wrong, below 1, and if you like the share "
    "that is missing, as in 'AGE: 0.05; SEX: 0.001, missing(0.1); *: 0.02'"
)


class Rates(NamedTuple):
    """How often a key of an intruder's file is not the true one.

    Examples
    --------
    >>> Rates.of("0.05, missing(0.1)"), Rates.of("missing(0.1)")
    (Rates(wrong=0.05, missing=0.1), Rates(wrong=0.0, missing=0.1))
    """

    wrong: float = 0.0
    """Share of wrong values among those that are there, from 0 to below 1."""
    missing: float = 0.0
    """Share of missing values, from 0 to below 1."""

    @classmethod
    def of(cls, text: str) -> Rates:
        """Read the rates of a key.

        Raises
        ------
        ValueError
            If the text has another form, or a rate is not from 0 to below 1.
        """
        found: dict[str, float] = {}
        for part in split_keys(text):
            call = Call.of(part)
            if call is None:
                call = Call("wrong", (part,))
            if call.word not in cls._fields or call.word in found or len(call.numbers) != 1:
                raise ValueError(f"{shown(text)} is no rate of errors; {_FORM}")
            found[call.word] = call.numbers[0]
        if not found or not all(0.0 <= rate < 1.0 for rate in found.values()):
            raise ValueError(f"{shown(text)} is no rate of errors; {_FORM}")
        return cls(**found)

    def __str__(self) -> str:
        return f"{self.wrong:.15g}" + (f", missing({self.missing:.15g})" if self.missing else "")


def _by_key(value: object) -> object:
    """Read the option; of a mapping the values become texts."""
    if isinstance(value, Mapping):
        return {str(name): f"{rates}" for name, rates in value.items()}
    if not isinstance(value, str):
        return value
    entries = entries_of(value, last=True)
    found = dict(entries)
    if not all(name for name, _ in entries) or len(found) < len(entries) or not found:
        raise ValueError(_FORM)
    return found


KeyErrors = Annotated[
    dict[str, str],
    BeforeValidator(_by_key),
    AfterValidator(lambda rates: {name: str(Rates.of(text)) for name, text in rates.items()}),
    Option(
        "TEXT",
        "Errors of the keys in the file of an intruder who links: the share of wrong values of "
        "each key ('*': of all others), and if there are any of missing ones, as in 'AGE: 0.05; "
        "SEX: 0.001, missing(0.1)'. How many links are then correct.",
        accepts="str | Mapping[str, str | float]",
        form="run",
    ),
]
"""Errors of an intruder's keys, by key; empty if nothing is asked of them."""


def rates_of(errors: Mapping[str, str], names: Sequence[str]) -> list[Rates]:
    """Return the rates of each key."""
    only_keys("key_errors", (name for name in errors if name != OTHERS), names)
    return [Rates.of(errors.get(name, errors.get(OTHERS, "0"))) for name in names]
