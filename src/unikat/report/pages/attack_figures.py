"""Figures of an attack as inline SVG; `drawing` gives each function its canvas."""

from __future__ import annotations

from collections.abc import Sequence

from unikat.report.pages.canvas import Canvas, drawing
from unikat.report.text.attack import span, title
from unikat.report.text.numbers import percent
from unikat.synthesis.attacks.rates import Rate
from unikat.synthesis.attacks.run import AttackResult


@drawing
def rates(canvas: Canvas, results: Sequence[AttackResult]) -> None:
    """Draw the success of each attack and, below it, that of its baseline."""
    canvas.inset()
    canvas.begin_rows(0.0, 100.0)
    said = []
    for result in results:
        words = (
            f"{percent(result.compared.value)}, without the file {percent(result.baseline.value)}"
        )
        canvas.row(title(result), words)
        said.append(f"{title(result)}: {words}.")
        kinds = ("doubt", "doubt-mark") if result.found else ("bar-mid", "bar")
        _interval(canvas, result.compared, f"{title(result)}: success", kinds)
        _interval(
            canvas, result.baseline, f"{title(result)}: without the file", ("bar-faint", "bar")
        )
        canvas.cursor += 6
    canvas.describe("Success of each attack, and of the same intruder without the file", said)
    canvas.end_rows("success, % of the guesses or records")


def _interval(canvas: Canvas, rate: Rate, what: str, kinds: tuple[str, str]) -> None:
    values = tuple(100.0 * value for value in (rate.lower, rate.value, rate.upper))
    canvas.interval(
        values, canvas.cursor + 6, f"{what} {percent(rate.value)} ({span(rate)})", kinds
    )
    canvas.cursor += 12
