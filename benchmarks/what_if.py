"""What if: seconds from the move of a slider to new numbers, by the process behind the page.

    python benchmarks/web.py --only what-if

A sample of 10,000 census records with eight keys, latent classes of 600 sweeps. Measured are the
opening, the first answer (by some states) and the last (by all) while nothing else is asked, the
same while the frontier is searched, and the frontier. A browser adds some hundredths of a second.

    python benchmarks/web.py --only levels

Levels merged by hand: of the same sample seconds to the new τ1, by some states; and of 100,000
records with twelve keys seconds to the counts of the merged file (sample uniques, k, groups).
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from common import data_file, processor_seconds

if TYPE_CHECKING:
    from unikat.web.explorers import Explorer

KEYS = ["AGEP", "SEX", "RAC1P", "MAR", "SCHL", "ESR", "CIT", "HISP"]
MORE = ["COW", "MIL", "DIS", "LANX"]
MOVES = 12


def what_if() -> list[tuple[str, str, str]]:
    """Measure the process behind a what-if page: what, seconds, asked."""
    with _opened(10_000, KEYS, 600) as (explorer, took):
        rows = [("what-if page ready", f"{took:.1f} s", "–")]
        moves = _moves(explorer)
        rows += _measured(explorer, moves, "")
        began = time.perf_counter()
        frontier = explorer.frontier()
        rows += _measured(explorer, moves, ", during a search")
        explorer.wait(lambda: frontier.done, 3600)
        took = time.perf_counter() - began
        rows.append(("frontier, with these looks", f"{took:.0f} s", "–"))
    return rows


def levels() -> list[tuple[str, str, str]]:
    """Measure merges of levels by hand: what, seconds, asked."""
    rows = []
    for n, keys, n_sweeps, stage, what, asked in (
        (10_000, KEYS, 600, 2, "new τ1, by 20 states", "0.3 s"),
        (100_000, KEYS + MORE, 40, 1, "new counts", "0.2 s"),
    ):
        with _opened(n, keys, n_sweeps) as (explorer, _):
            took, cpu = [], []
            pid = explorer._process.pid
            for i in range(MOVES):
                # Another pair of races is merged each time, while the last look is still going on.
                steps = [f"found\n{i % 4},{4 + i % 3}" if key == "RAC1P" else 0 for key in keys]
                steps[keys.index("AGEP")] = f"found\n{20 + i}-{30 + i}"
                began, before = time.perf_counter(), processor_seconds(pid)
                question = explorer.look("page", steps, "tau1 <= 5", "RAC1P")
                explorer.wait(
                    lambda asked=question, stage=stage: asked.stage >= stage or asked.done, 600
                )
                assert not question.problem, question.problem
                took.append(time.perf_counter() - began)
                cpu.append(processor_seconds(pid) - before)
            middle, used = statistics.median(took), statistics.median(cpu)
            words = f"{middle:.2f} s (processor {used:.2f} s), slowest of {MOVES} {max(took):.2f} s"
            rows.append((f"merge to {what}, n = {n:,}, {len(keys)} keys", words, asked))
    return rows


@contextmanager
def _opened(n: int, keys: list[str], n_sweeps: int) -> Iterator[tuple[Explorer, float]]:
    """Assess a sample; yield the process of its page and the seconds until that was ready."""
    import unikat
    from unikat.web.explorers import Explorer

    people = pd.read_parquet(data_file("acs2024_persons_northeast"), columns=keys)
    with tempfile.TemporaryDirectory() as name:
        file, out = Path(name) / "sample.parquet", Path(name) / "out"
        people.sample(n, random_state=1).to_parquet(file)
        unikat.assess(
            file, keys=keys, population_size=len(people), missing="level", model="latent-class",
            max_sweeps=n_sweeps, keep_states=True, out=out, progress=False,
        )  # fmt: skip
        began = time.perf_counter()
        explorer = Explorer(out, Path(name))
        explorer.wait(lambda: explorer.state == "ready", 600)
        assert explorer.state == "ready", explorer.text
        yield explorer, time.perf_counter() - began
        explorer.close()


def _moves(explorer: Explorer) -> Iterator[list[int]]:
    """Steps of the keys, none of them twice: one key after the other is made coarser."""
    sizes = [len(key["steps"]) for key in explorer.keys]
    for first in range(len(sizes)):
        for second in range(first + 1, len(sizes)):
            for at in range(1, sizes[first] - 1):
                yield [at if j == first else int(j == second) for j in range(len(sizes))]


def _measured(
    explorer: Explorer, moves: Iterator[list[int]], when: str
) -> list[tuple[str, str, str]]:
    first, last = [], []
    for _ in range(MOVES):
        began = time.perf_counter()
        question = explorer.look("page", next(moves), "tau1 <= 5")
        explorer.wait(lambda asked=question: asked.answer is not None, 600)
        first.append(time.perf_counter() - began)
        explorer.wait(lambda asked=question: asked.done, 600)
        last.append(time.perf_counter() - began)
    return [
        (
            f"{what}, {MOVES} moves of sliders{when}",
            f"{statistics.median(took):.2f} s (slowest {max(took):.2f})",
            asked,
        )
        for what, took, asked in (("first numbers", first, "0.7 s"), ("all states", last, "–"))
    ]
