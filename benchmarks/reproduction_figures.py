"""Figures of docs/reproduction.md: τ1 against K (paper 2, figure 1), as SVG without a library."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

WIDTH, HEIGHT, TOP, BOTTOM, GAP = 240, 260, 36, 214, 46
"""Of a panel; the axis of τ1 goes from BOTTOM up to TOP."""
LABEL = re.compile(r"n = ([\d,]+), K = (\d+)$")


def paths(lines: Iterable[dict[str, str]], found: dict[str, Any]) -> str:
    """Draw median and 95% interval of τ1 for each K, a panel for each n with the truth dashed.

    Parameters
    ----------
    lines
        Of the entry's table, with `label`, `ref` and `truth`.
    found
        The results by fit.
    """
    panels: dict[str, list[tuple[int, dict[str, float], float]]] = {}
    for line in lines:
        match = LABEL.match(line["label"])
        fits = [line[name].rpartition("|")[0] for name in ("ref", "truth")]
        if match and all(fit in found for fit in fits):
            estimate, truth = (found[fit]["measures"] for fit in fits)
            point = (int(match[2]), estimate["tau1"], truth["true_tau1"])
            panels.setdefault(match[1], []).append(point)
    drawn = [panel(at, n, points) for at, (n, points) in enumerate(panels.items())]
    width = WIDTH * max(len(panels), 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" width="{width}" '
        'font-family="sans-serif" font-size="11" text-anchor="middle">\n'
        f'<rect width="{width}" height="{HEIGHT}" fill="white"/>\n'
        + "\n".join(drawn)
        + "\n</svg>\n"
    )


def panel(at: int, n: str, points: list[tuple[int, dict[str, float], float]]) -> str:
    """One panel, by its place from the left."""
    left, right = at * WIDTH + GAP, (at + 1) * WIDTH - 12
    truth = points[0][2]
    high = 1.1 * max(truth, *(tau1["upper"] for _, tau1, _ in points))

    def y(value: float) -> str:
        return f"{BOTTOM - (BOTTOM - TOP) * value / high:.1f}"

    parts = [f'<text x="{(left + right) / 2}" y="18" font-weight="bold">n = {n}</text>']
    parts.append(f'<path d="M{left} {TOP}V{BOTTOM}H{right}" stroke="#555" fill="none"/>')
    for mark in (0.0, truth):
        parts.append(f'<text x="{left - 16}" y="{y(mark)}">{mark:,.0f}</text>')
    parts.append(
        f'<path d="M{left} {y(truth)}H{right}" stroke="#b00" stroke-dasharray="4 3"/>'
    )  # fmt: skip
    step = (right - left) / len(points)
    for place, (size, tau1, _) in enumerate(points):
        x = f"{left + step * (place + 0.5):.1f}"
        parts.append(
            f'<path d="M{x} {y(tau1["lower"])}V{y(tau1["upper"])}" stroke="#247" stroke-width="2"/>'
            f'<circle cx="{x}" cy="{y(tau1["median"])}" r="4" fill="#247"/>'
            f'<text x="{x}" y="{BOTTOM + 16}">{size}</text>'
        )
    parts.append(f'<text x="{(left + right) / 2}" y="{BOTTOM + 34}">K</text>')
    return "\n".join(parts)
