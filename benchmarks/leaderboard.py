"""Everybody on the same samples of populations whose truth is known.

    python benchmarks/leaderboard.py FOLDER
    python benchmarks/leaderboard.py FOLDER --designs households missing-7 --populations pakistan-1
    python benchmarks/leaderboard.py FOLDER --populations pakistan-1 --shares 2 --repeats 1 --smoke
    python benchmarks/leaderboard.py --page

Designs: `persons` (simple random samples), `households` (whole households, whose members share
keys), `unequal` (as many persons from every region or state, so that weights differ), `missing-2`
and `missing-7` (simple random samples, 2% and 7% of the values set missing).

`unikat evaluate --leaderboard` draws the samples, fits the models and computes the formulas; the
copulas (copula.py) get the rows of the samples and give their estimates back by a file, as any
program can. `auto` has the calibration that was learned without the survey of the population.
A study that was interrupted goes on where it stopped. Of each design, population, size and
estimator one line stands in results/leaderboard.jsonl (the last counts), of which
docs/leaderboard.md is made.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import data_file, machine
from copula import mean_of_two, probabilities, vines
from populations import APART, HOUSEHOLD, POPULATIONS, STRATA, of_survey, without_survey

RESULTS = Path(__file__).parent / "results" / "leaderboard.jsonl"
DOCS = Path(__file__).parent.parent / "docs"
MODELS = ("auto", "loglinear", "skinner-holmes", "individual-risk")
COPULA, TWO = "gaussian-copula", "two-copulas"
CLAIRVOYANT = "clairvoyant"
SWEEPS = 300
"""Of the latent classes of the whole file."""
DESIGNS = ("persons", "households", "unequal", "missing-2", "missing-7")
LEAST = 300
"""Records of a sample, at least."""


class RefusedError(Exception):
    """A population cannot be sampled by a design."""


def plain(keys: list[str]) -> list[str]:
    """Names of the columns of keys such as AGEP:width(5)."""
    return [key.split(":")[0] for key in keys]


def population(name: str, further: Sequence[str] = ()) -> tuple[pd.DataFrame, list[str]]:
    """Rows and keys of a population, and further columns; adults of the ACS, all rows elsewhere."""
    source, keys = (APART | POPULATIONS)[name]
    columns = list(dict.fromkeys([*plain(list(keys)), *further]))
    frame = pd.read_parquet(data_file(source), columns=columns)
    if "AGEP" in frame and name.startswith("acs"):
        frame = frame[frame["AGEP"] >= 18]
    return frame.reset_index(drop=True), list(keys)


def drawn_by(design: str, name: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Options of a design for `unikat evaluate`, and columns that it needs besides the keys."""
    if design == "persons":
        return {}, ()
    if design.startswith("missing-"):
        return {"blank": int(design.removeprefix("missing-")) / 100}, ()
    household, strata = of_survey(name, HOUSEHOLD), of_survey(name, STRATA)
    if design == "households" and household:
        return {"design": "households", "household": list(household)}, household
    if design == "unequal" and strata:
        return {"design": "stratified", "strata": strata, "allocation": "equal"}, (strata,)
    raise RefusedError(f"{name} has no column for samples of {design}")


def known_risks(frame: pd.DataFrame, keys: list[str]) -> np.ndarray:
    """Risk r1 of every row, (N,), for who has seen the whole file.

    Probabilities are those of latent classes that are fitted to all of it. An estimate of what can
    be known: the file tells more of a cell than any sample of it, and less than its probability.
    """
    from unikat import Design, LatentClass, read
    from unikat.models.base import Stream

    table = read(frame, keys, Design(population_size=len(frame)), missing="level").tabulate()
    model = LatentClass()
    data = model.prepare(table)
    state = model.init(Stream(1, 0, 0), data)
    kept = []
    for sweep in range(1, SWEEPS + 1):
        stream = Stream(1, 0, sweep)
        state, _ = model.step(stream, state, data, 1)
        if sweep > SWEEPS // 2 and sweep % 10 == 0:
            p = model.cell_probabilities(stream, state, data, table.cells)
            kept.append(np.exp((len(frame) - 1) * np.log1p(-p)))
    return np.mean(kept, axis=0)[table.record_cell]


def coded(frame: pd.DataFrame, keys: list[str]) -> np.ndarray:
    """Codes of the keys of all rows, (N, n_keys), grouped as the keys say."""
    grouped = frame[plain(keys)].copy()
    for key in keys:
        name, _, how = key.partition(":")
        if how.startswith("width("):
            grouped[name] = grouped[name] // int(how[6:-1])
    return np.stack([pd.factorize(grouped[name], sort=True)[0] for name in grouped], axis=1)


def estimates(frame: pd.DataFrame, keys: list[str], rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """What the copulas and the clairvoyant say of samples, as `--estimates` reads it.

    Copulas know nothing of designs. Where values are missing they take the complete records, and
    their totals are scaled to all, as those of the formulas.
    """
    risks = known_risks(frame, keys)
    codes = coded(frame, keys)
    for (n, repeat), part in rows.groupby(["n", "repeat"]):
        scale, everybody = 1.0, part["row"].to_numpy() - 1
        if "blank" in part:
            complete = part[part["blank"].map(len) == 0]
            scale, part = len(part) / len(complete), complete
        units = part["row"].to_numpy() - 1
        own = np.stack([np.unique(c, return_inverse=True)[1] for c in codes[units].T], axis=1)
        _, cell, count = np.unique(own, axis=0, return_inverse=True, return_counts=True)
        alone = count[cell.ravel()] == 1
        sample = {"n": n, "repeat": repeat}
        whole = codes[everybody]
        _, first, times = np.unique(whole, axis=0, return_index=True, return_counts=True)
        address = sample | {"estimator": CLAIRVOYANT}
        yield address | {"tau1": risks[everybody[first[times == 1]]].sum()}
        for row in units[alone]:
            yield address | {"row": row + 1, "r1": risks[row]}
        begun = time.perf_counter()
        r1 = (1.0 - probabilities(own, own[alone])) ** (len(frame) - 1)
        address = sample | {"estimator": COPULA}
        yield address | {"tau1": scale * r1.sum(), "seconds": time.perf_counter() - begun}
        for row, risk in zip(units[alone] + 1, r1, strict=True):
            yield address | {"row": row, "r1": risk}
        if vines is not None:
            begun = time.perf_counter()
            tau1, tau2 = (scale * total for total in mean_of_two(own, len(frame)))
            found = {"estimator": TWO, "tau1": tau1, "tau2": tau2}
            yield sample | found | {"seconds": time.perf_counter() - begun}


def run(name: str, design: str, options: argparse.Namespace) -> None:
    """Evaluate everybody on one population, and keep a line for each estimator and size."""
    import unikat
    from unikat.studies import calibrate

    drawn, further = drawn_by(design, name)
    frame, keys = population(name, further)
    shares = (min(round(share * len(frame) / 100), options.most) for share in options.shares)
    sizes = sorted({max(LEAST, n) for n in shares})
    study = name if design == "persons" else f"{name}-{design}"
    out, told = options.folder / study, options.folder / f"{study}.csv"
    whole, of_households = calibrate.EXPERIENCE, calibrate.SAMPLED_HOUSEHOLDS
    calibrate.EXPERIENCE = without_survey(name, whole)
    if design == "households":
        calibrate.SAMPLED_HOUSEHOLDS = without_survey(name, of_households, "households")
    models = list(options.models)
    if options.evidence is not None:
        models = [
            f"auto:evidence_seconds={options.evidence:g}" if m == "auto" else m for m in models
        ]
    asked: dict[str, Any] = {
        "keys": keys, "n": sizes, "repeats": options.repeats, "models": models,
        "missing": "level", "seed": 1, "leaderboard": True, "out": out, "workers": 1, **drawn,
    }  # fmt: skip
    if options.smoke:
        asked |= {"max_sweeps": 300, "chains": 2}
    try:
        unikat.evaluate(frame, **asked, resume=True)
        rows = pd.read_parquet(out / "samples.parquet")
        pd.DataFrame(list(estimates(frame, keys, rows))).to_csv(told, index=False)
        unikat.evaluate(frame, **asked, resume=True, estimates=told)
    finally:
        calibrate.EXPERIENCE, calibrate.SAMPLED_HOUSEHOLDS = whole, of_households
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    note = {
        "population": name, "design": design, "N": len(frame), "machine": machine(),
        "smoke": options.smoke, "evidence": options.evidence,
        "date": f"{datetime.now(UTC):%Y-%m-%d}", "version": unikat.__version__,
    }  # fmt: skip
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a", encoding="utf-8") as file:
        for one in summary["results"]:
            kept = ("model", "n", "n_samples", "n_unconverged", "n_failed", "seconds", "tau1",
                    "tau2", "records", "r1_groups")  # fmt: skip
            line = note | {part: one[part] for part in kept}
            line["model"] = line["model"].partition(":evidence_seconds")[0]
            file.write(json.dumps(line) + "\n")


def main() -> None:
    """Evaluate, or write the page alone."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", help="of the studies")
    parser.add_argument("--populations", nargs="+", default=[*APART, *POPULATIONS])
    parser.add_argument("--designs", nargs="+", default=["persons"], choices=DESIGNS)
    parser.add_argument("--most", type=int, default=15_000, help="records of a sample, at most")
    parser.add_argument("--shares", nargs="+", type=float, default=[1.0, 3.0, 10.0], help="percent")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument(
        "--evidence", type=float, help="seconds of evidence of `auto`, as its option; 60 by default"
    )
    parser.add_argument("--smoke", action="store_true", help="300 sweeps of two chains")
    parser.add_argument("--page", action="store_true", help="write the page of the docs alone")
    options = parser.parse_args()
    if not options.page:
        if options.folder is None:
            parser.error("name a folder for the studies")
        for design, name in product(options.designs, options.populations):
            print(design, name, flush=True)
            try:
                run(name, design, options)
            except RefusedError as reason:
                print(reason, flush=True)
    from leaderboard_page import write

    write(DOCS)


if __name__ == "__main__":
    main()
