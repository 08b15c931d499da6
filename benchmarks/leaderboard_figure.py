"""Figures of docs/leaderboard.md, as SVG: estimate over truth, coverage against width, AUC."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

LEFT, RIGHT, ROW, TOP, MARGIN = 150, 630, 24, 40, 20
LEAST, MOST = 0.1, 10.0
"""Ends of the scale; what lies beyond is drawn at the end, as a triangle."""
TICKS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
SHARES = ((0.02, "#c60", "below 2%"), (0.06, "#247", "2% to 6%"), (2.0, "#083", "from 6%"))
"""Colours by the share of the population that is sampled."""


def x(ratio: float) -> float:
    """Place of a ratio on the scale."""
    part = math.log(min(max(ratio, LEAST), MOST) / LEAST) / math.log(MOST / LEAST)
    return LEFT + (RIGHT - LEFT) * part


def ratios(lines: Sequence[dict[str, Any]], models: Sequence[str]) -> str:
    """Draw the mean estimate of tau1 over the mean truth, a mark for each population and size.

    Parameters
    ----------
    lines
        Of results/leaderboard.jsonl, the last of each population, size and estimator.
    models
        Estimators from the top down.
    """
    bottom = TOP + ROW * len(models)
    marks = [
        f'<path d="M{x(tick):.1f} {TOP}V{bottom}" stroke="{"#555" if tick == 1.0 else "#ddd"}"/>'
        f'<text x="{x(tick):.1f}" y="{TOP - 8}" text-anchor="middle">{tick:g}</text>'
        for tick in TICKS
    ]
    for place, model in enumerate(models):
        y = TOP + ROW * (place + 0.5)
        marks.append(f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{escape(model)}</text>')
        for line in lines:
            tau1 = line["tau1"]
            if line["model"] == model and tau1 and tau1["truth"] > 0:
                marks.append(_mark(line, tau1["estimate"] / tau1["truth"], y))
    used = {_colour(line) for line in lines}
    marks += _key([(colour, words) for _, colour, words in SHARES if colour in used], bottom + 18)
    return _drawn(marks, bottom + 30)


COLOURS = ("#247", "#c60", "#083", "#808", "#a00")
SHAPES = {
    "persons": "circle", "households": "square", "unequal": "diamond", "missing-2": "up",
    "missing-7": "down",
}  # fmt: skip
"""Of the marks of each design."""
WIDEST = 3.0
LIKE = ("auto", "clairvoyant", "skinner-holmes", "gaussian-copula")
"""Estimators whose AUC is drawn."""


def coverage_and_width(points: Sequence[tuple[str, str, float, float]]) -> str:
    """Draw coverage against width, a mark for each model and design.

    Parameters
    ----------
    points
        Model, design, share of intervals that contained the truth, and width over that of who
        knows the risks.
    """
    left, top, bottom = 60, 20, 320
    models = list(dict.fromkeys(model for model, *_ in points))
    designs = [design for design in SHAPES if any(design == one for _, one, *_ in points)]

    def place(width: float, coverage: float) -> tuple[float, float]:
        across = left + (RIGHT - left) * min(width, WIDEST) / WIDEST
        return across, bottom - (bottom - top) * coverage

    marks = []
    for coverage in (0.0, 0.25, 0.5, 0.75, 0.95):
        _, y = place(0.0, coverage)
        colour = "#555" if coverage == 0.95 else "#ddd"
        marks.append(f'<path d="M{left} {y:.1f}H{RIGHT}" stroke="{colour}"/>')
        marks.append(_words(left - 8, y + 4, f"{coverage:.0%}", "end"))
    for width in range(4):
        across, _ = place(width, 0.0)
        marks.append(f'<path d="M{across:.1f} {top}V{bottom}" stroke="#ddd"/>')
        marks.append(
            f'<text x="{across:.1f}" y="{bottom + 18}" text-anchor="middle">{width}</text>'
        )
    marks.append(_words(RIGHT, bottom + 32, "width over that of who knows the risks", "end"))
    for model, design, coverage, width in points:
        colour = COLOURS[models.index(model) % len(COLOURS)]
        tip = f"{model}, {design}: {coverage:.0%}, width {width:.2f}"
        marks.append(_shape(SHAPES[design], *place(width, coverage), colour, tip))
    marks += _key(list(zip(COLOURS, models, strict=False)), bottom + 54, left)
    for number, design in enumerate(designs):
        at = left + 110 * number
        marks.append(_shape(SHAPES[design], at, bottom + 76, "#555", design))
        marks.append(f'<text x="{at + 10}" y="{bottom + 80}">{escape(design)}</text>')
    return _drawn(marks, bottom + 90)


def among_populations(rows: Mapping[str, Mapping[str, float]]) -> str:
    """Draw the AUC of some estimators, from 0.5 to 1, a row for each population."""
    bottom = TOP + ROW * len(rows)

    def across(auc: float) -> float:
        return LEFT + (RIGHT - LEFT) * (auc - 0.5) / 0.5

    marks = []
    for tick in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
        place, colour = f"{across(tick):.1f}", "#555" if tick == 0.9 else "#ddd"
        marks.append(f'<path d="M{place} {TOP}V{bottom}" stroke="{colour}"/>')
        marks.append(_words(across(tick), TOP - 8, f"{tick:g}", "middle"))
    for row, (name, found) in enumerate(rows.items()):
        y = TOP + ROW * (row + 0.5)
        marks.append(f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{escape(name)}</text>')
        for colour, model in zip(COLOURS, LIKE, strict=False):
            if found.get(model, 0.0) >= 0.5:
                tip = f"{model}, {name}: {found[model]:.3f}"
                marks.append(_shape("circle", across(found[model]), y, colour, tip))
    marks += _key(list(zip(COLOURS, LIKE, strict=False)), bottom + 18, 60)
    return _drawn(marks, bottom + 30)


def _key(entries: Sequence[tuple[str, str]], y: float, left: float = LEFT) -> list[str]:
    """Colours and what they stand for, in one row."""
    marks, at = [], left
    for colour, words in entries:
        marks.append(f'<circle cx="{at}" cy="{y}" r="4" fill="{colour}"/>')
        marks.append(f'<text x="{at + 8}" y="{y + 4}">{escape(words)}</text>')
        at += 30 + 7 * len(words)
    return marks


def _drawn(marks: Sequence[str], height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {RIGHT + MARGIN} {height}" '
        f'width="{RIGHT + MARGIN}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="{RIGHT + MARGIN}" height="{height}" fill="white"/>\n'
        + "\n".join(marks)
        + "\n</svg>\n"
    )


def _shape(shape: str, across: float, y: float, colour: str, words: str) -> str:
    """A mark with a title."""
    around = {
        "circle": "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", "square": "m-4 -4h8v8h-8z",
        "diamond": "m0 -5l5 5l-5 5l-5 -5z", "up": "m-5 4l5 -9l5 9z", "down": "m-5 -4l5 9l5 -9z",
    }  # fmt: skip
    title = f"<title>{escape(words)}</title>"
    return (
        f'<path d="M{across:.1f} {y:.1f}{around[shape]}" fill="{colour}" fill-opacity=".7">'
        f"{title}</path>"
    )


def _words(across: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{across:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _colour(line: dict[str, Any]) -> str:
    return next(colour for most, colour, _ in SHARES if line["n"] / line["N"] < most)


def _mark(line: dict[str, Any], ratio: float, y: float) -> str:
    colour = _colour(line)
    tip = f"<title>{escape(line['population'])}, n = {line['n']:,}: {ratio:.2f}</title>"
    place = x(ratio)
    if LEAST <= ratio <= MOST:
        style = f'fill="{colour}" fill-opacity=".7"'
        return f'<circle cx="{place:.1f}" cy="{y}" r="4" {style}>{tip}</circle>'
    out = 7 if ratio > MOST else -7
    return f'<path d="M{place:.1f} {y - 5}l{out} 5l{-out} 5z" fill="{colour}">{tip}</path>'
