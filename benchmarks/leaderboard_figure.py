"""Figure of docs/leaderboard.md: estimate over truth, a row for each estimator, as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    at, used = LEFT, {_colour(line) for line in lines}
    for _, colour, words in SHARES:
        if colour not in used:
            continue
        marks.append(f'<circle cx="{at}" cy="{bottom + 18}" r="4" fill="{colour}"/>')
        marks.append(f'<text x="{at + 8}" y="{bottom + 22}">{words}</text>')
        at += 90
    height = bottom + 30
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {RIGHT + MARGIN} {height}" '
        f'width="{RIGHT + MARGIN}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="{RIGHT + MARGIN}" height="{height}" fill="white"/>\n'
        + "\n".join(marks)
        + "\n</svg>\n"
    )


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
