"""How right the time left is that protections, comparisons and attacks tell.

    python benchmarks/time_left.py
    python benchmarks/time_left.py --only compare --times 0.4 --record

Runs some of each kind on samples of the simulated town, and writes down what the progress tells
when 10, 30, 50 and 70% of the run are over: the range of the time left, beside the true one. Also
in how much of the time a range is told, in how much of that it holds the true time left, in how
much its upper end does, and whether the bar ever went back. --times takes so many times the
records. --record adds a line for each run to `results/time-left.jsonl`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import machine, print_table

PLACES = (0.1, 0.3, 0.5, 0.7)
RESULTS = Path(__file__).parent / "results" / "time-left.jsonl"


@contextlib.contextmanager
def noted(events: list[tuple[float, Any]]) -> Iterator[None]:
    """Note the events of all runs, with the seconds since now."""
    from unikat.inference.progress import Watcher
    from unikat.jobs import from_python

    begun, before = time.monotonic(), from_python.watching

    @contextlib.contextmanager
    def watching(_: bool | None = None) -> Iterator[Watcher]:
        yield Watcher(progress=lambda event: events.append((time.monotonic() - begun, event)))

    from_python.watching = watching
    try:
        yield
    finally:
        from_python.watching = before


def runs(times: float, only: str | None) -> Iterator[tuple[str, str, Any]]:
    """Return the runs: kind, what it is about, and a function that makes it."""
    import unikat
    from unikat.datasets import simulate_town

    town = simulate_town(60_000)
    keys = list(town.columns)
    size = len(town)

    def sample(n: int, seed: int) -> Any:
        return town.sample(round(times * n), random_state=seed).reset_index(drop=True)

    how = {"population_size": size, "progress": True}
    quick = "auto:evidence_seconds=10"
    for n, model in ((500, "latent-class"), (1_000, "latent-class"), (300, quick)):
        file = sample(n, n)
        yield (
            "protect",
            f"n {n:,}, {model}, tau1 <= 5",
            lambda file=file, model=model: unikat.protect(
                file, keys=keys, target="tau1 <= 5", model=model, **how
            ),
        )
    file = sample(500, 7)
    yield (
        "protect",
        f"n 500, {quick}, suppression searched",
        lambda: unikat.protect(
            file, keys=keys, target="tau1 <= 5", model=quick, suppress="search", **how
        ),
    )
    for n, models in (
        (300, "latent-class,hdp,loglinear"),
        (500, "hdp,latent-class"),
        (300, f"{quick},latent-class"),
    ):
        file = sample(n, n + 1)
        yield (
            "compare",
            f"n {n:,}, {models}",
            lambda file=file, models=models: unikat.compare(file, keys=keys, models=models, **how),
        )
    attacks = ((300, "latent-class", 2), (500, None, 3))
    for n, model, files in attacks if only in (None, "attack") else ():
        file, control = sample(n, n + 2), sample(n, n + 3)
        made = unikat.synthesize(
            file, keys=keys, model="latent-class", datasets=files, progress=False
        )
        more = {} if model is None else {"model": model}
        yield (
            "attack",
            f"n {n:,}, {files} files, {model or 'no model'}",
            lambda file=file, control=control, made=made, more=more: unikat.attack(
                file, made, control=control, **more, **how
            ),
        )


def told_at(events: list[tuple[float, Any]], second: float) -> Any:
    """Return the range that is shown at a time; None without one."""
    shown = None
    for at, event in events:
        if at > second:
            break
        shown = getattr(event, "time_left", None)
    return shown


def judged(events: list[tuple[float, Any]], total: float) -> dict[str, Any]:
    """Hold what was told against what came."""
    from unikat.jobs.progress import share_done

    places = {}
    for place in PLACES:
        shown, left = told_at(events, place * total), (1.0 - place) * total
        if shown is None:
            places[f"{place:.0%}"] = None
            continue
        upper = None if math.isinf(shown.upper) else round(shown.upper / left, 2)
        places[f"{place:.0%}"] = [round(shown.lower / left, 2), upper]
    seconds = told = within = below = 0.0
    for (at, event), (then, _) in zip(events, [*events[1:], (total, None)], strict=True):
        seconds += then - at
        shown = getattr(event, "time_left", None)
        if shown is not None:
            told += then - at
            below += (then - at) * (total - at <= shown.upper)
            within += (then - at) * (shown.lower <= total - at <= shown.upper)
    shares = [share for _, event in events if (share := share_done(event)) is not None]
    looks = {
        one.name: f"{one.looks} of {one.most_looks}" for _, one in events if hasattr(one, "looks")
    }
    return {
        "seconds": round(total, 1),
        "looks": looks,
        "told": round(told / max(seconds, 1e-9), 2),
        "within": round(within / max(told, 1e-9), 2) if told else None,
        "upper_held": round(below / max(told, 1e-9), 2) if told else None,
        "bar_went_back": shares != sorted(shares),
        "ends_over_true": places,
    }


def main() -> None:
    """Make the runs, and print and record what they told."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("protect", "compare", "attack"))
    parser.add_argument("--times", type=float, default=1.0)
    parser.add_argument("--record", action="store_true")
    asked = parser.parse_args()
    where, rows = machine(), []
    for kind, about, run in runs(asked.times, asked.only):
        if asked.only not in (None, kind):
            continue
        events: list[tuple[float, Any]] = []
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
        begun = time.monotonic()
        with noted(events):
            run()
        total = time.monotonic() - begun
        found = {"run": kind, "about": about, "times": asked.times, **judged(events, total)}
        found["load"] = [round(load, 1), round(os.getloadavg()[0], 1)]
        rows.append(found)
        print(json.dumps(found), flush=True)
        if asked.record:
            with RESULTS.open("a") as file:
                file.write(json.dumps({"machine": where, **found}) + "\n")
    print_table(
        ["run", "about", "seconds", "told", "range held", "upper end held", *map(str, PLACES)],
        [
            [
                one["run"], one["about"], one["seconds"], one["told"], one["within"],
                one["upper_held"], *(at or "–" for at in one["ends_over_true"].values()),
            ]
            for one in rows
        ],
    )  # fmt: skip


if __name__ == "__main__":
    main()
