"""What a protection is asked to perturb: PRAM by key, and keys that records exchange."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias

from pydantic import BeforeValidator, Field

from unikat.errors import shown
from unikat.language.keys import entry_of, parts_of, split_keys
from unikat.spec.small_files import Matrix

_NUMBER = r"(?:[0-9]{1,15}(?:\.[0-9]{1,15})?|\.[0-9]{1,15})"
_ABOVE = re.compile(rf"\s*r1\s*>\s*(?P<above>{_NUMBER})\s*")


def is_probability(text: str) -> bool:
    """Whether a text is the probability of keeping a value, and not the file of a matrix.

    Examples
    --------
    >>> is_probability("0.8"), is_probability(".8"), is_probability("8.csv")
    (True, True, False)
    """
    return re.fullmatch(_NUMBER, text) is not None


def are_probabilities(text: str) -> bool:
    """Whether a text is one probability of keeping a value, or several to choose from.

    Examples
    --------
    >>> are_probabilities("0.8"), are_probabilities("0.8, 0.9, 1"), are_probabilities("a,b.csv")
    (True, True, False)
    """
    return all(is_probability(part.strip()) for part in text.split(","))


def _pram(value: object) -> object:
    """Read `region: 0.8, 0.9; education: matrix.csv`; a mapping of keys stays as it is."""
    if isinstance(value, Mapping):
        return {str(name): _of_key(one) for name, one in value.items()}
    if not isinstance(value, str):
        return value
    found: dict[str, object] = {}
    for part in parts_of(value):
        # A name may hold a colon; the path of a file on Windows does: the name comes first.
        name, rule = entry_of(part, last=True)
        if not are_probabilities(rule):
            name, rule = entry_of(part)
        if not rule or not name:
            raise ValueError(
                "name each key and the probability of keeping its value, or the file of its "
                "matrix, as in 'region: 0.8; education: matrix.csv'"
            )
        if name in found:
            raise ValueError(f"{shown(name)} is named twice; name each key once")
        found[name] = _of_key(rule)
    return found


def _of_key(value: object) -> object:
    if isinstance(value, str):
        if not are_probabilities(value):
            return Path(value).expanduser()
        value = [float(part) for part in value.split(",")]
    if isinstance(value, (list, tuple)):
        # One probability is told, several are to choose from.
        return value[0] if len(value) == 1 else tuple(value)
    if isinstance(value, Mapping):
        rows: Mapping[Any, Any] = value
    elif hasattr(value, "to_dict") and hasattr(value, "index"):
        # A pandas frame: a row for each level.
        rows = value.to_dict("index")
    elif isinstance(value, (int, float, Path)) and not isinstance(value, bool):
        return value
    else:
        rows = {"": None}
    if not all(isinstance(row, Mapping) for row in rows.values()):
        raise ValueError(
            "for each key give the probability of keeping a value, such as 0.8, or a matrix: a "
            "mapping of each level to a mapping of levels to probabilities, a pandas frame, or a "
            "file"
        )
    return {
        str(level): {str(other): probability for other, probability in row.items()}
        for level, row in rows.items()
    }


Strengths: TypeAlias = tuple[Annotated[float, Field(ge=0.0, le=1.0)], ...]
"""Probabilities of keeping a value, among which a search chooses; 1: it is not perturbed."""
Pram: TypeAlias = dict[str, float | Strengths | Path | Matrix]
"""For each key that is perturbed the probability of keeping a value, several, or a matrix; a file
until it is read with the specification."""
PramByKey = Annotated[Pram, BeforeValidator(_pram)]


MOST = 64
"""Perturbations among which a search can choose."""


def check_probabilities(pram: Pram) -> Pram:
    """Return a perturbation if its probabilities can be used.

    Raises
    ------
    ValueError
        If one is out of range, named twice, or there are more than `MOST` combinations.
    """
    for name, one in pram.items():
        if isinstance(one, float) and not 0.0 <= one < 1.0:
            raise ValueError(
                f"the probability of keeping a value of {shown(name)} must be from 0 to below "
                "1, such as 0.8"
            )
        if isinstance(one, tuple) and not 1 < len(one) == len(set(one)):
            raise ValueError(
                f"probabilities of keeping a value of {shown(name)} must be different ones, "
                "such as 0.8, 0.9, 1"
            )
    if (n := math.prod(len(one) for one in pram.values() if isinstance(one, tuple))) > MOST:
        raise ValueError(
            f"there are {n:,} combinations of the probabilities of keeping values, more than "
            f"{MOST}; name fewer"
        )
    return pram


def perturbations_of(pram: Pram) -> tuple[Pram, ...]:
    """All perturbations that are allowed, those that change least first.

    Each has one probability or matrix for a key, and no key that is kept as it is.

    Examples
    --------
    >>> perturbations_of({"a": (0.8, 1.0), "b": 0.9})
    ({'b': 0.9}, {'a': 0.8, 'b': 0.9})
    """
    each = [one if isinstance(one, tuple) else (one,) for one in pram.values()]
    found: list[Pram] = [dict(zip(pram, some, strict=True)) for some in product(*each)]

    def strength(one: Pram) -> float:
        return sum(1.0 - kept for kept in one.values() if isinstance(kept, float))

    found.sort(key=strength)
    return tuple({name: one for name, one in some.items() if one != 1.0} for some in found)


def pram_text(pram: Pram) -> str:
    """Write a perturbation as `--pram` takes it.

    Examples
    --------
    >>> pram_text({"region": 0.8, "age": {}})
    'region: 0.8; age: matrix'
    """
    parts = (
        f"{name}: {one:g}" if isinstance(one, float) else f"{name}: matrix"
        for name, one in pram.items()
    )
    return "; ".join(parts)


class SwapRule(NamedTuple):
    """Keys that records exchange, and which records.

    Examples
    --------
    >>> SwapRule.of("region, district: r1 > 0.2")
    SwapRule(keys=('region', 'district'), above=0.2)
    """

    keys: tuple[str, ...]
    above: float
    """Records with a larger r1 are targets; 0: every sample unique is."""

    @classmethod
    def of(cls, text: str) -> SwapRule:
        """Read what is to be swapped.

        Raises
        ------
        ValueError
            If the text has another form.
        """
        names, rule = entry_of(text, last=True)
        found = _ABOVE.fullmatch(rule)
        keys = tuple(split_keys(text if found is None else names))
        above = float(found["above"]) if found else 0.0
        if above >= 1.0:
            raise ValueError(f"{shown(text)}: r1 is a probability; give a number below 1")
        if not keys or len(set(keys)) < len(keys):
            raise ValueError(
                f"{shown(text)} names no keys to swap; write them, each once, and the risk above "
                "which a record is a target: 'region', 'region, district' or 'region: r1 > 0.2'"
            )
        return cls(keys, above)

    def __str__(self) -> str:
        above = f": r1 > {self.above:.15g}" if self.above else ""
        return ", ".join(self.keys) + above


def _swap(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else value


SwapText = Annotated[str, BeforeValidator(_swap)]
