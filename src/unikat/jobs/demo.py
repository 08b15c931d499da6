"""The demo: a sample of a simulated town, assessed beside the truth."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from unikat.datasets import KEYS, Truth, draw_sample, simulate_town, truth
from unikat.errors import OutputError
from unikat.files.folder import owned
from unikat.files.writing import replace_file
from unikat.inference.progress import SILENT, Watcher
from unikat.jobs.assess import run
from unikat.jobs.outcome import check_folder
from unikat.report.facts.result import Result
from unikat.report.text.numbers import interval, number
from unikat.risk.estimate import Summary
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.from_options import specify
from unikat.spec.kinds import ASSESS
from unikat.spec.models import models_with

SAMPLE, TRUTH = "town-sample.csv", "truth.json"
CANDIDATES, EVIDENCE = models_with(candidate=True)[:2], 8.0
"""Fewer candidates than an assessment tries, and less work on them, so that the demo is quick."""


def run_demo(
    folder: Path, *, seed: int = 1, overwrite: bool = False, watcher: Watcher | None = None
) -> tuple[Result, Truth]:
    """Simulate a town, write a sample of it into a folder, and assess it like any other file.

    The folder gets `town-sample.csv`, `truth.json`, and what an assessment writes; the seed is
    that of the town, the sample and the chains.

    Raises
    ------
    Unfinished
        On Ctrl-C before there is an answer.
    """
    watcher = watcher or SILENT
    with owned(folder, (SAMPLE, TRUTH, *ASSESS.files, *ASSESS.work)):
        check_folder(ASSESS, folder, overwrite=overwrite)
        for name in (SAMPLE, TRUTH):
            if (folder / name).exists() and not overwrite:
                raise OutputError(
                    f"{folder / name} is already there; give --overwrite to replace it, or another "
                    "--out. Nothing was written."
                )
        watcher.stage("Simulating a town")
        n_people, known = write_town(folder, seed=seed)
        path = folder / SAMPLE
        options = {
            "keys": list(KEYS),
            "population_size": n_people,
            "set": {"candidates": list(CANDIDATES), "evidence_seconds": EVIDENCE},
            "seed": seed,
        }
        spec, inputs = specify(AssessmentSpec, path, options)
        found = run(spec, inputs, folder, resume=False, overwrite=overwrite, watcher=watcher)
    return found.result, known


def write_town(folder: Path, *, seed: int = 1) -> tuple[int, Truth]:
    """Simulate a town, and write a sample of it and the truth into a folder.

    Returns
    -------
    tuple
        The number of people of the town, and the truth.
    """
    town = simulate_town(seed=seed)
    sample = draw_sample(town, seed=seed)
    known = truth(town, sample)
    buffer = io.BytesIO()
    csv.write_csv(pa.Table.from_pandas(sample, preserve_index=False), buffer)
    replace_file(folder / SAMPLE, buffer.getvalue())
    replace_file(folder / TRUTH, (json.dumps(asdict(known), indent=2) + "\n").encode())
    return len(town), known


def compare(result: Result, known: Truth) -> str:
    """Say how the estimate compares with the true value, whichever way it went."""
    lines = ["The town is simulated, so the truth is known:", ""]
    rows = (("τ1", result.tau1, float(known.tau1)), ("τ2", result.tau2, known.tau2))
    for name, summary, true in rows:
        lines.append(f"  {name}  true {number(true)}, estimated {_beside(summary, true)}")
    missed = [name for name, summary, true in rows if not summary.lower <= true <= summary.upper]
    if missed:
        lines += [
            "",
            f"The interval of {' and '.join(missed)} does not contain the true value in this town.",
        ]
    if "chosen" in result.fit:
        tried, chosen = " and ".join(CANDIDATES), result.fit["chosen"]
        lines += [
            "",
            f"To be quick, the demo tried {tried} alone, for some seconds, and chose {chosen};",
            "unikat assess tries more models, for longer.",
        ]
    return "\n".join(lines)


def _beside(summary: Summary, true: float) -> str:
    contains = "contains" if summary.lower <= true <= summary.upper else "does not contain"
    return f"{number(summary.median)} ({interval(summary)}): the interval {contains} the true value"
