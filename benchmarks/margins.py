"""What known margins of the population do to the estimate: samples with and without them.

    python benchmarks/margins.py --repeats 6

The population are the adults of the ACS of the northeast. Samples are simple random ones, and such
in which persons took part with a probability by age and sex, from a third for young men to one for
old women: what post-stratification is for. Every sample is fitted without margins and with several.
Errors and widths are in percent of the mean truth. Young men are those under 40.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
import pandas as pd
from common import DATA, machine, print_table

import unikat

KEYS = ["ST", "AGEP", "SEX", "RAC1P", "MAR", "SCHL"]
MARGINS: dict[str, list[list[str]]] = {
    "none": [],
    "age × sex": [["AGEP", "SEX"]],
    "state × age × sex": [["ST", "AGEP", "SEX"]],
    "state × sex and age × sex": [["ST", "SEX"], ["AGEP", "SEX"]],
}


def people() -> pd.DataFrame:
    """Return the population."""
    frame = pd.read_parquet(DATA / "acs2024_persons_northeast.parquet", columns=KEYS)
    frame = frame[frame["AGEP"] >= 18]
    return frame[(frame >= 0).all(axis=1)].reset_index(drop=True)


def response(population: pd.DataFrame) -> np.ndarray:
    """Return how often persons take part, by age and sex, relative to those who most often do."""
    age = np.clip((population["AGEP"].to_numpy() - 18) / 50, 0.0, 1.0)
    woman = population["SEX"].to_numpy() == population["SEX"].max()
    return 1 / 3 + age / 3 + woman / 3


def truth(population: pd.DataFrame, sample: pd.DataFrame) -> tuple[float, float, float]:
    """τ1 and τ2 of a sample, and τ2 of its young men."""
    units = population.groupby(KEYS).size()
    records = sample.groupby(KEYS).size()
    uniques = units.loc[records[records == 1].index]
    matches = 1.0 / uniques
    young = young_men(uniques.reset_index()).to_numpy()
    return float((uniques == 1).sum()), float(matches.sum()), float(matches[young].sum())


def young_men(frame: pd.DataFrame) -> pd.Series:
    """Whether persons are of the group that takes part least."""
    return (frame["AGEP"] < 40) & (frame["SEX"] == frame["SEX"].min())


def estimates(population: pd.DataFrame, sample: pd.DataFrame, options: Any) -> list[dict[str, Any]]:
    """Estimate τ1 and τ2 with each set of margins."""
    true = truth(population, sample)
    found = []
    for name, margins in MARGINS.items():
        tables = [population.groupby(keys).size().rename("people").reset_index()
                  for keys in margins]  # fmt: skip
        known: dict[str, Any] = {"margins": tables} if tables else {
            "population_size": len(population)
        }  # fmt: skip
        result = unikat.assess(
            sample, keys=KEYS, model=options.model, codebook={
                key: {"levels": sorted(population[key].unique().tolist())} for key in KEYS
            }, max_sweeps=options.sweeps, chains=2, workers=1, threads=1, progress=False, **known,
        )  # fmt: skip
        for tau, value in zip(("tau1", "tau2"), true, strict=False):
            summary = getattr(result, tau)
            found.append({"margins": name, "tau": tau, "true": value, "mean": summary.mean,
                          "lower": summary.lower, "upper": summary.upper})  # fmt: skip
        chosen = (
            young_men(sample) & (sample.groupby(KEYS)["ST"].transform("size") == 1)
        ).to_numpy()
        young = float(result.records["r2"].to_numpy()[chosen].sum())
        found.append({"margins": name, "tau": "young", "true": true[2], "mean": young})
        print(found[-3:], file=sys.stderr, flush=True)
    return found


def rows(found: pd.DataFrame) -> list[list[object]]:
    """Rows of the table: a set of margins each."""
    table = []
    for (sample, name), group in found.groupby(["sample", "margins"], sort=False):
        row: list[object] = [sample, name]
        for tau in ("tau1", "tau2"):
            one = group[group["tau"] == tau]
            scale = 100 / one["true"].mean()
            error = scale * (one["mean"] - one["true"])
            held = (one["lower"] <= one["true"]) & (one["true"] <= one["upper"])
            width = scale * (one["upper"] - one["lower"]).mean()
            row += [
                f"{one['true'].mean():.1f}", f"{error.mean():+.1f}",
                f"{(error**2).mean() ** 0.5:.1f}", f"{width:.0f}", f"{held.sum()}/{len(one)}",
            ]  # fmt: skip
        one = group[group["tau"] == "young"]
        error = 100 / one["true"].mean() * (one["mean"] - one["true"])
        row += [f"{one['true'].mean():.1f}", f"{error.mean():+.1f}",
                f"{(error**2).mean() ** 0.5:.1f}"]  # fmt: skip
        table.append(row)
    return table


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--records", type=int, default=1_000)
    parser.add_argument("--model", default="latent-class")
    parser.add_argument("--sweeps", type=int, default=600)
    parser.add_argument("--samples", nargs="+", default=["simple", "unequal"])
    options = parser.parse_args()
    print(machine(), end="\n\n")
    population = people()
    laws = {"simple": None, "unequal": response(population)}
    laws = {name: law for name, law in laws.items() if name in options.samples}
    found = []
    for repeat in range(options.repeats):
        for sample, law in laws.items():
            rng = np.random.default_rng([repeat, law is None])
            shares = None if law is None else law / law.sum()
            drawn = rng.choice(len(population), options.records, replace=False, p=shares)
            for one in estimates(population, population.iloc[np.sort(drawn)], options):
                found.append({"sample": sample, **one})
    columns = ["true", "bias", "error", "width", "covered"]
    print_table(
        [
            "sample",
            "margins",
            *(f"{tau} {column}" for tau in ("τ1", "τ2") for column in columns),
            *(f"τ2 of young men, {column}" for column in columns[:3]),
        ],
        rows(pd.DataFrame(found)),
    )


if __name__ == "__main__":
    main()
