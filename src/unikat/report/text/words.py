"""Sentences by code: the catalogue says them, Python chooses which and gives the facts.

A sentence of the catalogue is a Jinja template. It may choose the form of a word by a number, and
nothing else: which sentence is said is chosen in Python, so that no language repeats a rule.
A sentence about households, where it is another one, has the code of that on records with
`@household` behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Protocol

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from unikat.data.units import RECORD, Unit
from unikat.report.text import language, numbers
from unikat.report.text.language import DEFAULT, catalogue, wording


def say(*codes: object, unit: Unit = RECORD, **facts: Any) -> str:
    """Say sentences, with blanks between them.

    Parameters
    ----------
    codes
        Of the sentences; what is empty, zero, None or false is left out.
    unit
        What the numbers are of.
    facts
        By the names that the sentences use.

    Examples
    --------
    >>> say("numbers.stays", name="τ1", first="11 (9 to 13)")
    'τ1 stays at 11 (9 to 13)'
    """
    facts["unit"] = _Nouns(unit)
    return " ".join(_template(_code(str(code), unit)).render(facts) for code in codes if code)


def marked(code: str, **facts: Any) -> Markup:
    """Say a sentence of a page: it may hold tags, and facts are escaped.

    Examples
    --------
    >>> marked("web.command.rules", name="<a>")
    Markup('with these rules in the file &lt;a&gt;:')
    """
    return Markup(_template_of(code, language.current(), language.office(), True).render(facts))


def wording_of(kind: str, part: str) -> str:
    """Return the code of a phrase about a kind of uncertainty."""
    own = f"uncertainty.{kind}.{part}"
    return own if language.known(own) else f"uncertainty.default.{part}"


def table(start: str) -> Iterator[str]:
    """Yield the codes that begin so, in the order of the file."""
    return (code for code in catalogue(DEFAULT) if code.startswith(f"{start}."))


class _Nouns:
    """Words for a unit: `unit.many` is `units.household.many`."""

    def __init__(self, unit: Unit) -> None:
        self.name = unit.one

    def __getattr__(self, name: str) -> str:
        try:
            return str(wording(f"units.{self.name}.{name}"))
        except KeyError:
            raise AttributeError(name) from None


def nouns(unit: Unit) -> Any:
    """Return the words for a unit, for pages: `one`, `many`, `whom` and so on."""
    return _Nouns(unit)


def counted(n: float, noun: str | _Nouns, adjective: str = "") -> str:
    """Write a number of things that have a name in the catalogue.

    Examples
    --------
    >>> counted(1200, "household"), counted(1, "record", "incomplete")
    ('1,200 households', '1 incomplete record')
    """
    name = noun.name if isinstance(noun, _Nouns) else noun
    name = f"{adjective} {name}" if adjective else name
    return f"{numbers.number(n)} {form(n, *wording(f'nouns.{name}'))}"


def form(n: float, *forms: str) -> str:
    """Return the form of a word that goes with a number of things: one, then several.

    Which numbers are one is a matter of the language: in French all below two.

    Examples
    --------
    >>> form(1, "has", "have"), form(0, "has", "have")
    ('has', 'have')
    """
    if wording("numbers.plural") == "from two":
        return forms[0] if abs(round(n, 1)) < 2 else forms[-1]
    # As it is written: 1.0 is written as 1.
    return forms[0] if numbers.number(n) == "1" else forms[-1]


def capital(text: str) -> str:
    """Begin a text with a capital letter."""
    return f"{text[:1].upper()}{text[1:]}"


def small(text: str) -> str:
    """Begin a text with a small letter."""
    return f"{text[:1].lower()}{text[1:]}"


def _code(code: str, unit: Unit) -> str:
    own = f"{code}@{unit.one}"
    return own if language.known(own) else code


@cache
def _template_of(
    code: str, spoken: str, of_office: language.Office | None, with_tags: bool = False
) -> Template:
    return _environment(with_tags).from_string(wording(code))


def _template(code: str) -> Template:
    return _template_of(code, language.current(), language.office())


def _written(value: Any) -> Any:
    """Write a number of a sentence as a reader wants it."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return numbers.number(value)
    return value


@cache
def _environment(with_tags: bool = False) -> Environment:
    made = Environment(undefined=StrictUndefined, finalize=_written, autoescape=with_tags)
    made.filters |= {
        "percent": numbers.percent,
        "whole_percent": numbers.whole_percent,
        "digits": numbers.digits,
        "significant": numbers.significant,
        "interval": numbers.interval,
        "estimated": numbers.estimated,
        "duration": numbers.duration,
        "date": numbers.date,
        "of": counted,
        "form": form,
        "listed": numbers.listed,
        "some": numbers.some,
        "capital": capital,
        "small": small,
    }
    return made


def placeholders(code: str, spoken: str) -> set[str]:
    """Return the facts that a sentence of the catalogue takes."""
    from jinja2 import meta

    return meta.find_undeclared_variables(_environment().parse(wording(code, spoken)))


class Estimate(numbers.Ends, Protocol):
    """A mean with an interval."""

    @property
    def mean(self) -> float:
        """The estimate."""


def changed(name: str, before: Estimate, after: Estimate) -> str:
    """Say how a number changes: it falls, rises or stays, as its reader sees it.

    Examples
    --------
    >>> from types import SimpleNamespace as E
    >>> one, two = E(mean=11.0, lower=9.0, upper=13.0), E(mean=5.0, lower=3.0, upper=8.0)
    >>> changed("τ1", one, two), changed("τ1", one, one)
    ('τ1 falls from 11 (9 to 13) to 5 (3 to 8)', 'τ1 stays at 11 (9 to 13)')
    """
    first, then = (numbers.estimated(one.mean, one) for one in (before, after))
    how = "falls" if after.mean < before.mean else "rises"
    if numbers.number(before.mean) == numbers.number(after.mean):
        how = "stays" if first == then else "stays_about"
    return say(f"numbers.{how}", name=name, first=first, then=then)
