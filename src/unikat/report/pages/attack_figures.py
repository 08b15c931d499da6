"""Figures of an attack as inline SVG; `drawing` gives each function its canvas."""

from __future__ import annotations

from collections.abc import Sequence

from unikat.report.pages.canvas import Canvas, drawing
from unikat.report.text.attack import span, title
from unikat.report.text.numbers import percent
from unikat.report.text.words import say
from unikat.synthesis.attacks.rates import Rate
from unikat.synthesis.attacks.run import AttackResult


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
            _interval(canvas, rate, f"{title(result)}: {say(f'figures.attacks.{who}')}", colours)
        canvas.cursor += 6
    canvas.describe(say("figures.attacks.title"), said)
    canvas.end_rows(say("figures.attacks.axis"))


def _interval(canvas: Canvas, rate: Rate, what: str, kinds: tuple[str, str]) -> None:
    values = tuple(100.0 * value for value in (rate.lower, rate.value, rate.upper))
    canvas.interval(
        values, canvas.cursor + 6, f"{what} {percent(rate.value)} ({span(rate)})", kinds
    )
    canvas.cursor += 12
