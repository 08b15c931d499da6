"""The page of an attack: one HTML file that needs no network and has no script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unikat.report.facts.attack import AttackSummary
from unikat.report.pages.canvas import Canvas, Drawing, drawing
from unikat.report.pages.figures import record_risks
from unikat.report.pages.template import fill
from unikat.report.text import attack as text
from unikat.report.text import linked
from unikat.report.text.attack import span, title
from unikat.report.text.numbers import level, percent
from unikat.report.text.words import say
from unikat.spec.attack import AttackSpec
from unikat.spec.provenance import Provenance
from unikat.synthesis.attacks.posterior import PosteriorFacts
from unikat.synthesis.attacks.rates import Rate
from unikat.synthesis.attacks.run import AttackResult


@dataclass(frozen=True, kw_only=True)
class AttackPage:
    """The context of `attack.html.j2`: every name that the template uses, and no other."""

    title: str
    summary: AttackSummary
    """The content of `attack.json`."""
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    """Table of all attacks."""
    findings: Sequence[str]
    """One for each attack."""
    rates: Drawing
    beliefs: Mapping[str, Sequence[Drawing]]
    """Of each intruder who knows all other records: probabilities of true values, and ranks."""
    level: str
    """Probability of the intervals, such as 95%."""
    provenance: Provenance
    command: str
    """What repeats the attack."""


@dataclass(frozen=True, kw_only=True)
class LinkedPage:
    """The context of `linked.html.j2`: every name that the template uses, and no other."""

    title: str
    summary: AttackSummary
    """The content of `attack.json`."""
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    """Links, by the probability from which they are accepted."""
    provenance: Provenance
    command: str
    """What repeats the attack."""


def render(summary: AttackSummary) -> str:
    """Render the page of an attack, a complete HTML document."""
    if summary.linkage is not None:
        return fill("linked.html.j2", linked_page(summary))
    return fill("attack.html.j2", context(summary))


def context(summary: AttackSummary) -> AttackPage:
    """Gather what the page shows."""
    return AttackPage(
        title=say("pages.attack_of", data=summary.original.name),
        summary=summary,
        head=text.head(),
        rows=[text.row(result) for result in summary.attacks],
        findings=[summary.sentences[f"attacks.{place}"] for place in range(len(summary.attacks))],
        rates=rates([result for result in summary.attacks if result.n]),
        beliefs={
            "household_posterior": beliefs(summary.household_posterior),
            "posterior": beliefs(summary.posterior),
        },
        level=level(summary.level),
        provenance=summary.provenance,
        command=AttackSpec.again(),
    )


def linked_page(summary: AttackSummary) -> LinkedPage:
    """Gather what the page of links with an external file shows."""
    return LinkedPage(
        title=say("pages.linked_with", data=summary.original.name),
        summary=summary,
        head=linked.head(),
        rows=linked.rows(summary),
        provenance=summary.provenance,
        command=AttackSpec.again(),
    )


def beliefs(facts: PosteriorFacts | None) -> Sequence[Drawing]:
    """Draw the histograms of an intruder with a uniform prior, if he has numbers."""
    if facts is None or not facts.priors or facts.priors[0].prior != "uniform":
        return ()
    prior = facts.priors[0]
    return (
        record_risks(prior.probabilities, words="rho"),
        record_risks(prior.ranks, words="rho_ranks"),
    )


@drawing
def rates(canvas: Canvas, results: Sequence[AttackResult]) -> None:
    """Draw the success of each attack and, below it, that of its baseline."""
    canvas.inset()
    canvas.begin_rows(0.0, 100.0)
    said = []
    for result in results:
        words = say("figures.attacks.words", result=result)
        canvas.row(title(result), words)
        said.append(f"{title(result)}: {words}.")
        kinds = ("doubt", "doubt-mark") if result.found else ("bar-mid", "bar")
        for rate, who, colours in (
            (result.compared, "success", kinds),
            (result.baseline, "without", ("bar-faint", "bar")),
        ):
            _interval(canvas, rate, title(result), say(f"figures.attacks.{who}"), colours)
        canvas.cursor += 6
    canvas.describe(say("figures.attacks.title"), said)
    canvas.end_rows(say("figures.attacks.axis"))


def _interval(canvas: Canvas, rate: Rate, name: str, who: str, kinds: tuple[str, str]) -> None:
    values = tuple(100.0 * value for value in (rate.lower, rate.value, rate.upper))
    words = f"{name}: {who} {percent(rate.value)} ({span(rate)})"
    canvas.interval(values, canvas.cursor + 6, words, kinds, name=name, series=who)
    canvas.cursor += 12
