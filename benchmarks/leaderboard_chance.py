"""What of the error of `auto` is chance, by the size of τ1: a part of docs/leaderboard.md."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

CALIBRATION = Path(__file__).parent / "results" / "persons.csv"
"""Samples by which docs/accuracy.md is made; each has `auto` without its survey."""
NORMAL = math.sqrt(math.pi / 2.0)
"""Standard deviation over mean absolute error, of a normal law."""
SMALL = 20
"""Samples of fewer population uniques are left out: their error is chance."""
SIZES = ((SMALL, 50), (50, 100), (100, 200), (200, 400), (400, math.inf))


def by_size(truths: Sequence[float]) -> Iterator[str]:
    """Say what of the error is chance; `truths` are those of the samples of the page."""
    with CALIBRATION.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["survey"] != "eusilc"]
    samples = [
        {name: float(row[f"{name}1"]) for name in ("true", "mean", "lower", "upper")}
        | {"chance": float(row["chance"])}
        for row in rows
    ]
    yield "\n## Chance and error of the model\n"
    yield (
        "The samples of persons of [the page on accuracy](accuracy.md#the-default-auto), by their "
        "true τ1; `auto` without their survey.\n"
    )
    yield "| true τ1 | samples | error | chance | by chance | error of the model | width |"
    yield "|---|---|---|---|---|---|---|"
    parts = []
    for low, high in (*SIZES, (SMALL, math.inf)):
        parts.append(Parts.of([one for one in samples if low <= one["true"] < high]))
        name = f"{low:g} and more" if high == math.inf else f"{low:g} to {high:g}"
        yield f"| {name} | {parts[-1].cells()} |"
    first, large, every = parts[0], parts[-2], parts[-1]
    left = math.sqrt(1.15**2 - 1.0) * large.deviation
    here = statistics.median(truths)
    there = statistics.median(one["true"] for one in samples if one["true"] >= SMALL)
    yield (
        "\n**Why 1.15 cannot be expected.** With τ1 chance falls faster than the error of the "
        f"model, so that the error over chance rises from {first.ratio:.2f} to {large.ratio:.2f}: "
        f"from a τ1 of {SIZES[-1][0]} on, 1.15 would leave the model an error of {left:.1%}, and "
        f"it has {large.model:.1%}, since a sample of a few percent does not tell the rare cells "
        "of its population so well. An interval of 1.15 × the width of who knows the risks would "
        "leave out this error; one that contains the truth as often as it says is "
        f"{large.width:.2f} × as wide there.\n"
    )
    yield (
        f"The {every.ratio:.2f} of all these samples and the number for `auto` in the first table "
        "above are one measure, the mean relative error over the mean relative error by chance. "
        f"The samples differ: the median τ1 is {there:.0f} there and {here:.0f} here."
    )


class Parts(NamedTuple):
    """Error of samples and what it consists of, as shares of τ1."""

    n: int
    error: float
    """Mean absolute error, as the next."""
    chance: float
    deviation: float
    """Root mean square by chance."""
    model: float
    """What is left of the root mean squared error."""
    width: float
    """Mean width, over that of who knows the risks."""

    @classmethod
    def of(cls, own: Sequence[dict[str, float]]) -> Parts:
        def mean(value: Callable[[dict[str, float]], float]) -> float:
            return sum(map(value, own)) / len(own)

        chance = mean(lambda one: one["chance"] / one["true"])
        squared = mean(lambda one: ((one["mean"] - one["true"]) / one["true"]) ** 2)
        by_chance = mean(lambda one: (NORMAL * one["chance"] / one["true"]) ** 2)
        width = mean(lambda one: (one["upper"] - one["lower"]) / one["true"])
        return cls(
            n=len(own),
            error=mean(lambda one: abs(one["mean"] - one["true"]) / one["true"]),
            chance=chance,
            deviation=math.sqrt(by_chance),
            model=math.sqrt(max(squared - by_chance, 0.0)),
            width=width / (2.0 * 1.96 * NORMAL * chance),
        )

    @property
    def ratio(self) -> float:
        """Error over that by chance."""
        return self.error / self.chance

    def cells(self) -> str:
        """Cells of a row of the table."""
        return (
            f"{self.n} | {self.error:.1%} | {self.chance:.1%} | {self.ratio:.2f} | "
            f"{self.model:.1%} | {self.width:.2f}"
        )
