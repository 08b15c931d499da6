"""What a protection is asked to do with continuous variables: methods by column.

::

    numeric = entry { ";" entry }            income: microaggregate(5); wage: top(99%), round(100)
    entry   = columns ":" call { "," call }  income+wealth: microaggregate(3, by=region)
            | columns ":" "as it is"

Columns that are joined by "+" are changed together, as points. Methods of an entry are carried out
from left to right. Amounts with a percent sign are shares, of records or of a standard deviation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeAlias

from pydantic import AfterValidator, BeforeValidator

from unikat.errors import shown, suggest
from unikat.language.keys import Call, entries_of, split_keys

AS_IT_IS = "as it is"
"""The method of a column that stays, and that the intruder knows all the same."""
_LEAST = 1e-12
"""Amount of rounding and noise, at least; its inverse is the most."""
EXAMPLE = "'income: microaggregate(5); wage: top(99%), round(100)'"
"""Of the option, for messages."""


class _Form(NamedTuple):
    """What a method takes."""

    example: str
    percent: bool | None
    """Whether its amount is a percentage; None: either."""
    variants: tuple[str, ...] = ()
    """Words that may follow the amount; the first is what happens without one."""
    by: bool = False
    """Whether it takes columns within whose groups it works."""


_FORMS = {
    "top": _Form("top(99%) or top(50000, bound)", None, ("mean", "bound")),
    "bottom": _Form("bottom(1%) or bottom(0, bound)", None, ("mean", "bound")),
    "round": _Form("round(100) or round(100, random)", False, ("nearest", "random")),
    "microaggregate": _Form("microaggregate(5) or microaggregate(5, by=region)", False, by=True),
    "noise": _Form("noise(10%) or noise(10%, preserving)", True, ("plain", "preserving")),
    "swap": _Form("swap(5%)", True),
}


METHODS: Mapping[str, str] = {name: form.example for name, form in _FORMS.items()}
"""How each method is written."""


class Method(NamedTuple):
    """A method with its amount.

    Examples
    --------
    >>> Method.of("Top( 99% )")
    Method(name='top', amount=99.0, percent=True, variant='mean', by=())
    >>> str(Method.of("microaggregate(3,by=region+sex)"))
    'microaggregate(3, by=region+sex)'
    """

    name: str
    amount: float
    percent: bool
    variant: str
    """A word of the method; empty if it has none."""
    by: tuple[str, ...]
    """Columns within whose groups it works."""

    @property
    def is_random(self) -> bool:
        """Whether it draws numbers."""
        return self.name in ("noise", "swap") or self.variant == "random"

    @classmethod
    def of(cls, text: str) -> Method:
        """Read a method.

        Raises
        ------
        ValueError
            If there is none of this name, or its amount is none.
        """
        if text.strip().lower() == AS_IT_IS:
            return cls(AS_IT_IS, 0.0, False, "", ())
        call = Call.of(text)
        word = text.partition("(")[0].strip().lower() if call is None else call.word
        form = _FORMS.get(word)
        if form is None:
            raise ValueError(
                f"{shown(text)} is no method for continuous variables.{suggest(word, _FORMS)} "
                f"There are {', '.join(METHODS.values())}, and "
                f"'{AS_IT_IS}'"
            )
        first, *further = ("",) if call is None else call.arguments
        percent = first.endswith("%")
        amount = Call("", (first.removesuffix("%"),)).numbers
        by: tuple[str, ...] = ()
        if form.by and further and further[-1].startswith("by="):
            by = tuple(split_keys(further.pop()[3:], r"+"))
        variant = further[0].lower() if further else next(iter(form.variants), "")
        known = not further or (len(further) == 1 and variant in form.variants)
        if not amount or not known or form.percent not in (None, percent):
            raise ValueError(f"{shown(text)} is not written so; write {form.example}")
        method = cls(word, amount[0], percent, variant, by)
        method._check(text)
        return method

    def _check(self, text: str) -> None:
        amount = self.amount
        if self.percent and self.name in ("top", "bottom", "swap") and not 0.0 < amount < 100.0:
            raise ValueError(f"{shown(text)}: a percentage must be above 0% and below 100%")
        if self.name in ("round", "noise") and not _LEAST <= amount <= 1.0 / _LEAST:
            raise ValueError(
                f"{shown(text)}: the amount must be from {_LEAST:g} to {1.0 / _LEAST:g}"
            )
        if self.name == "microaggregate" and (amount < 2.0 or not amount.is_integer()):
            raise ValueError(f"{shown(text)}: a group has a whole number of records, 2 or more")

    def __str__(self) -> str:
        if self.name == AS_IT_IS:
            return AS_IT_IS
        parts = [f"{self.amount:.15g}{'%' if self.percent else ''}"]
        if self.variant not in _FORMS[self.name].variants[:1]:
            parts += [self.variant] if self.variant else []
        if self.by:
            parts.append(f"by={'+'.join(self.by)}")
        return f"{self.name}({', '.join(parts)})"


def columns_named(text: str, columns: Collection[str]) -> list[str]:
    """Return the columns of an entry: what is a column is that column, whatever it looks like.

    Examples
    --------
    >>> columns_named("income+wealth", ["income", "wealth"]), columns_named("a+b", ["a+b"])
    (['income', 'wealth'], ['a+b'])
    """
    return [text] if text in columns else split_keys(text, "+")


def _entries(value: object) -> object:
    """Read a text, or a mapping of columns to methods: texts, or lists of them."""
    if isinstance(value, str):
        entries = entries_of(value, last=True)
    elif isinstance(value, Mapping):
        entries = [("+".join(k) if isinstance(k, tuple) else str(k), v) for k, v in value.items()]
    else:
        return value
    found: dict[str, Sequence[Any]] = {}
    for name, methods in entries:
        if not name or not methods:
            raise ValueError(f"name each column and its methods, as in {EXAMPLE}")
        if name in found:
            raise ValueError(f"{shown(name)} is named twice; name each column once")
        found[name] = split_keys(methods) if isinstance(methods, str) else methods
    return found


def _normal(found: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(str(Method.of(one)) for one in texts) for name, texts in found.items()}


Numeric: TypeAlias = dict[str, tuple[str, ...]]
"""Methods by column, or by columns joined by `+`."""
NumericByColumn = Annotated[Numeric, BeforeValidator(_entries), AfterValidator(_normal)]


def methods_of(numeric: Numeric) -> dict[str, tuple[Method, ...]]:
    """Return the methods of each entry."""
    return {name: tuple(map(Method.of, texts)) for name, texts in numeric.items()}
