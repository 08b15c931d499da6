"""Generators of synthetic files side by side, on populations whose truth is known.

    python benchmarks/generators.py FOLDER --populations adult eph --n 2000 --repeats 4
    python benchmarks/generators.py --table

`unikat evaluate --synthesizers` draws the samples, lets every generator make a file of each, and
scores the files beside the population. A study that was interrupted goes on where it stopped. Of
each population, size and generator one line stands in results/generators.jsonl (the last counts),
of which `--table` makes the table of docs/design/generators.md. `homes-silc` and `homes-eph` have
households as units. With `--synthpop`, R's synthpop (in R's library, or in `--r-library`) makes a
file of each sample, too, of persons.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from common import data_file, machine, print_table
from leaderboard import population

RESULTS = Path(__file__).parent / "results" / "generators.jsonl"
GENERATORS = ("hdp", "latent-class", "cart", "independence")
HEAD = ["population", "n", "generator", "files", "distance of 1", "2", "3 keys", "to second",
        "uniques reproduced", "more than second", "population uniques", "true claims",
        "keys inferred", "pairs of members", "not converged", "seconds"]  # fmt: skip


def _silc() -> tuple[pd.DataFrame, list[str], dict[str, Any]]:
    frame = pd.read_parquet(data_file("eusilcP_population"))
    frame = frame[frame["hsize"] <= 6].assign(age_group=lambda one: one["age"] // 10)
    keys = ["region", "age_group", "gender", "ecoStat", "citizenship"]
    return frame, keys, {"household": "hid", "household_keys": "region"}


def _eph() -> tuple[pd.DataFrame, list[str], dict[str, Any]]:
    frame = pd.read_parquet(data_file("eph_argentina_4_quarters"))
    frame = frame[frame["YQ"] == frame["YQ"].max()].assign(age_group=lambda one: one["CH06"] // 10)
    frame = frame[frame.groupby("HH")["HH"].transform("size") <= 6]
    keys = ["REGION", "CH03", "CH04", "age_group", "NIVEL_ED"]
    return frame, keys, {"household": "HH", "household_keys": "REGION", "head": "CH03 == 1"}


HOMES = {"homes-silc": _silc, "homes-eph": _eph}
"""Populations of households of at most six members: frame, keys, and who lives together."""


def run(name: str, folder: Path, options: argparse.Namespace) -> None:
    """Evaluate the generators on a population, and keep what they gave."""
    import unikat

    if name in HOMES:
        frame, keys, homes = HOMES[name]()
    else:
        (frame, keys), homes = population(name), {}
    ask = partial(
        unikat.evaluate,
        frame,
        keys=keys,
        n=options.n,
        repeats=options.repeats,
        synthesizers=[*options.generators, *(["households"] if homes else [])],
        missing="level",
        **homes,
        max_sweeps=options.sweeps,
        workers=2,
        out=folder / name,
    )
    found = ask(resume=(folder / name).exists())
    if options.synthpop and not homes:
        samples = pd.read_parquet(folder / name / "samples.parquet")
        path = folder / f"{name}-synthpop.parquet"
        by_synthpop(frame, keys, samples, options.r_library).to_parquet(path)
        found = ask(resume=True, synthetic=path)
    with RESULTS.open("a", encoding="utf-8") as file:
        for one in found.summary.synthesizers:
            line = {
                "population": name,
                "units": found.summary.population.n_units,
                "sweeps": options.sweeps,
                "machine": machine(),
                "date": f"{datetime.now(UTC):%Y-%m-%d}",
                **_plain(one),
            }
            file.write(json.dumps(line) + "\n")


def by_synthpop(
    frame: pd.DataFrame, keys: list[str], samples: pd.DataFrame, library: str | None
) -> pd.DataFrame:
    """Files of synthpop's default, a key after the other by trees, of every sample."""
    drawn = frame.iloc[samples["row"] - 1][keys].reset_index(drop=True)
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "in.csv", Path(folder) / "out.csv"
        drawn.assign(n=samples["n"], repeat=samples["repeat"]).to_csv(path, index=False)
        subprocess.run(
            ["Rscript", str(Path(__file__).parent / "first_hour.R"), "many", str(path), str(out)],
            env=os.environ | ({"R_LIBS": library} if library else {}), check=True,
        )  # fmt: skip
        made = pd.read_csv(out, dtype=str, keep_default_na=False)
    for name in keys:
        made[name] = made[name].astype(frame[name].dtype)
    for name in ("n", "repeat"):
        made[name] = made[name].astype(int)
    return made.assign(synthesizer="synthpop")


def _plain(one: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(one)


def table() -> None:
    """Print what is known of each population, size and generator."""
    known: dict[tuple[str, int, str], dict[str, Any]] = {}
    for text in RESULTS.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        known[line["population"], line["n"], line["synthesizer"]] = line
    rows = []
    for (name, n, generator), line in known.items():
        second = known[name, n, "second-sample"]["distances"][-1]["mean"]
        more = line["reproduced"]
        ends = "" if more["lower"] is None else f" ({more['lower']:+.1%} to {more['upper']:+.1%})"
        rows.append(
            [
                name,
                f"{n:,}",
                generator,
                line["n_samples"],
                *(f"{one['mean']:.4f}" for one in line["distances"]),
                f"{line['distances'][-1]['mean'] / second:.2f}",
                f"{more['mean']:.1%}",
                "–" if generator == "second-sample" else f"{more['difference']:+.1%}{ends}",
                *(
                    f"{line[key]['mean']:.1%}" if line[key] else "–"
                    for key in ("reproduced_alone", "true_claims", "inferred")
                ),
                f"{line['apart']['mean']:.4f}" if line.get("apart") else "–",
                line["n_unconverged"],
                "–" if line["seconds"] is None else f"{line['seconds']:.1f}",
            ]
        )
    print_table(HEAD, rows)


def main() -> None:
    """Read what is asked for, and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--populations", nargs="+", default=["adult", "eph"])
    parser.add_argument("--generators", nargs="+", default=GENERATORS)
    parser.add_argument("--n", nargs="+", type=int, default=[2000])
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--sweeps", type=int, default=3000)
    parser.add_argument("--synthpop", action="store_true", help="also R's synthpop, of persons")
    parser.add_argument("--r-library", help="folder of R packages")
    parser.add_argument("--table", action="store_true", help="Print the table of what is there.")
    options = parser.parse_args()
    if not options.table:
        if options.folder is None:
            parser.error("FOLDER is needed")
        options.folder.mkdir(parents=True, exist_ok=True)
        for name in options.populations:
            run(name, options.folder, options)
    table()


if __name__ == "__main__":
    main()
