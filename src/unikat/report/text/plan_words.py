"""A plan as a person would write it, and how the levels of its keys were understood."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from unikat.errors import option
from unikat.language.keys import Call
from unikat.report.facts.levels import LevelsFacts
from unikat.report.facts.protection import PerturbedKey, PlanFacts
from unikat.report.text.language import known
from unikat.report.text.numbers import in_turn, number, significant, some, with_percent
from unikat.report.text.verdict import named
from unikat.report.text.words import say
from unikat.spec.recodings import LEFT_OUT

_OF_SHARE = ("rare", "bands", "local")
"""Rules with a share of the records."""


def plan_words(plan: PlanFacts, *, unchanged: bool = False) -> str:
    """Say what a plan does: `age in five-year bands, 85 and over together; region left out`.

    Parameters
    ----------
    plan
        The plan.
    unchanged
        Whether the keys that stay as they are are named, too.
    """
    said = [
        key_words(name, text, title=plan.titles.get(name, ""), n_groups=plan.n_groups.get(name))
        for name, text in plan.recodings.items()
    ]
    if unchanged and said and plan.unchanged:
        said.append(say("protection.key.unchanged", keys=some(plan.unchanged, 12)))
    if plan.share < 1.0:
        said.insert(0, say("protection.key.sampled", share=plan.share))
    if plan.perturb is not None:
        said.append(say("protection.key.perturbing", what=plan.perturb))
    if plan.suppress is not None:
        rule, n = named(plan.suppress), plan.n_suppressed
        said.append(say("protection.key.suppressing", rule=rule, n=n))
    return in_turn(said) or say("protection.key.nothing")


def key_words(name: str, text: str, *, title: str = "", n_groups: int | None = None) -> str:
    """Say what is done to a key.

    Parameters
    ----------
    name
        Of the key; empty if the words stand by themselves.
    text
        The rule.
    title
        What its groups are, `ISCO-08 major group`; `years` of ages.
    n_groups
        Levels that are left.

    Examples
    --------
    >>> key_words("age", "cut(5,10,15,20)", title="years")
    'age in five-year bands, 20 and over together'
    >>> key_words("place", "rare(0.05)"), key_words("job", "level(1)", title="ISCO-08 major group")
    ('place with levels under 5% together as other', 'job at ISCO-08 major group')
    """
    found = Call.of(text)
    if found is None:
        plain = "left_out" if text == LEFT_OUT else "plain"
        said = say(f"protection.key.{plain}", argument=text)
    elif found.word == "cut" and found.numbers:
        said = _cut_words(sorted(found.numbers), title)
    else:
        rule, argument = found.word, ", ".join(found.arguments)
        share = float(argument) if rule in _OF_SHARE else 0.0
        # A rule by itself does not tell how many groups it makes, nor of what.
        few = (rule == "bands" and n_groups is None) or (rule == "level" and not title)
        years = rule == "width" and title == "years"
        said = say(
            f"protection.key.{rule}{'_alone' * few}{'_years' * years}",
            argument=_width(float(argument)) if years else argument,
            part=with_percent(significant(100.0 * share, 3)),
            title=title or say("protection.key.hierarchy"),
            n=n_groups,
        )
    return f"{name} {said}".strip()


def method_words(one: PerturbedKey) -> str:
    """Name the method by which values of a key were perturbed."""
    return say(f"protection.perturbed.by.{one.method}")


def _cut_words(edges: Sequence[float], title: str) -> str:
    """Say in which bands numbers are: of one width, or which."""
    widths = {round(b - a, 9) for a, b in pairwise(edges)}
    last = say("protection.key.last", edge=edges[-1])
    if len(edges) < 3 or len(widths) > 1:
        spans = [
            say("protection.key.span", low=a, high=b - 1 if (b - a).is_integer() else b)
            for a, b in pairwise(edges)
        ]
        first = say("protection.key.first", edge=edges[0])
        return say("protection.key.bands_named", bands=", ".join([first, *spans, last]))
    width = widths.pop()
    ends = [last]
    if title != "years" or edges[0] > width:
        ends.insert(0, say("protection.key.first", edge=edges[0]))
    return say(
        f"protection.key.{'bands_years' if title == 'years' else 'bands_wide'}",
        width=_width(width),
        ends=say("protection.key.both_ends", first=ends[0], last=last) if ends[1:] else last,
    )


def _width(width: float) -> str:
    code = f"protection.width.{number(width)}"
    return say(code) if known(code) else number(width)


def level_words(keys: Sequence[LevelsFacts]) -> str:
    """Say how the levels of keys were understood, and why."""
    return in_turn(map(kind_words, keys))


def kind_words(one: LevelsFacts) -> str:
    """Say the kind of a key's levels, and why: `AGE numeric (named as an age is)`."""
    return say("levels.key", one=one, kind=say(f"levels.kind.{one.kind}"), why=_why(one))


def _why(one: LevelsFacts) -> str:
    return say(f"levels.why.{one.why}", one=one)


def assumed_words(keys: Sequence[LevelsFacts]) -> str:
    """Say which keys were taken for numbers though nothing says so, and the remedy; or nothing."""
    names = [one.name for one in keys if one.why == "assumed"]
    if not names:
        return ""
    remedy = option("levels", f"{names[0]}: nominal")
    return say("levels.assumed", names=some(names, 8), n=len(names), remedy=remedy)
