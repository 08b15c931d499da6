"""The five papers, table by table: fit our models to the data that are there.

    make reproduce
    python benchmarks/reproduce.py --list
    python benchmarks/reproduce.py --only paper1-table3 --seconds 120
    python benchmarks/reproduce.py --only paper1-table3 --again

`published.toml` has the published figures, and names for each what is computed beside it, as
`source|model|measure`. This command computes what `results/reproduction.jsonl` does not have yet,
cheap ones first, and appends a line for each fit; the last line counts. So a run that was
interrupted goes on where it stopped. `reproduction_page.py` makes `docs/reproduction.md` of both.
Sources whose file is not in ../shared/data are left out with a message.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

from common import DATA, POPULATION, data_file, keys_of, machine, zeros_table
from reproduction_page import PUBLISHED, RESULTS, references, results, usual_seconds

PAPER_PRIOR = "profile_concentration=1:profile_base=uniform"
MODELS = {
    "hdp-paper": f"hdp:alpha=per-record:{PAPER_PRIOR}",
    "gom-6-paper": f"gom:components=6:{PAPER_PRIOR}",
    "gom-20-paper": f"gom:components=20:{PAPER_PRIOR}",
    "gom-30-paper": f"gom:components=30:{PAPER_PRIOR}",
    "independence": "loglinear:terms=independence",
    "two-way": "loglinear:terms=two-way",
    "selected": "loglinear:terms=select",
}
"""Short names of `published.toml`; other names are those of the catalogue, with their options."""
CUTOFFS = (0.1, 0.3, 0.5, 0.7, 0.9)
RATES = (0.01, 0.02, 0.05, 0.1, 0.2)
ZEROS_POPULATION = 953_076
WRONG_POPULATION = 1_150_934
"""N of paper 2, which the program of paper 1's parametric rows has for files of `POPULATION`."""

Measures = dict[str, Any]


def spec_of(model: str) -> str:
    """Model of the catalogue of a short name."""
    if model.startswith("gom-K"):
        return f"gom:components={model[5:]}:{PAPER_PRIOR}"
    return MODELS.get(model, model)


def summary(values: Any) -> Measures:
    """Mean, standard deviation, median and 95% interval of draws."""
    import numpy as np

    lower, median, upper = np.quantile(values, [0.025, 0.5, 0.975])
    return {
        "mean": float(np.mean(values)), "sd": float(np.std(values)), "median": float(median),
        "lower": float(lower), "upper": float(upper),
    }  # fmt: skip


# --- samples of persons -----------------------------------------------------------------------


@cache
def adults() -> tuple[Any, list[int]]:
    """Keys of the ACS adults of two regions, ten as in paper 2, (N, 10), and their levels."""
    import numpy as np
    import pandas as pd
    from eleven import ACTIVITIES, RACES

    columns = ["AGEP", "SEX", "MAR", "RAC1P", "SCHL", "ESR", "IND", "CIT", "DIS", "MIL"]
    regions = ("northeast", "west")
    parts = [pd.read_parquet(data_file(f"acs2024_persons_{r}"), columns=columns) for r in regions]
    people = pd.concat(parts)
    people = people[people["AGEP"] >= 22]
    activity = {level: group for group, levels in enumerate(ACTIVITIES) for level in levels}
    deciles = np.quantile(people["AGEP"], np.arange(0.1, 1.0, 0.1))
    keys = [
        np.searchsorted(deciles, people["AGEP"], side="right"),
        people["SEX"] - 1,
        people["MAR"] - 1,
        people["RAC1P"].map(RACES).fillna(0),
        np.digitize(people["SCHL"], [16, 18, 21, 22]),
        people["ESR"].map({3: 1, 6: 2}).fillna(0),
        people["IND"].map(activity),
        people["CIT"] - 1,
        people["DIS"] - 1,
        people["MIL"] == 2,
    ]
    codes = np.stack([np.asarray(key, np.int64) for key in keys], axis=1)
    return codes, [int(n) + 1 for n in codes.max(axis=0)]


@cache
def sample(source: str) -> tuple[Any, Any]:
    """Table of a sample, and F of its sample uniques where the population is there."""
    import numpy as np

    from unikat import CellTable, Design, Key, read
    from unikat.data.patterns import pattern_ids

    if source.startswith("acs_adults"):
        codes, levels = adults()
        drawn = np.random.default_rng(1).permutation(len(codes))[: int(source.split("_")[-1])]
        keys = [Key.of_size(f"K{j}", n) for j, n in enumerate(levels)]
        table = CellTable.from_codes(codes[drawn], keys, population_size=len(codes))
        ids = pattern_ids(np.concatenate((table.cells[table.unique], codes)), levels)
        cells, counts = np.unique(ids[table.n_uniques :], return_counts=True)
        return table, counts[np.searchsorted(cells, ids[: table.n_uniques])]
    name, _, variant = source.partition("+")
    if name.startswith("ny2000_sz"):
        if variant != "ignored":
            return zeros_table(name), None
        keys, size = [f"X{j}" for j in range(1, 11)], ZEROS_POPULATION
    else:
        keys = keys_of(name)
        size = WRONG_POPULATION if variant == "wrongN" else POPULATION
    return read(data_file(name), keys, Design(population_size=size)).tabulate(), None


def of_sample(source: str) -> Measures:
    """What a sample is, and the truth where it is known."""
    table, frequencies = sample(source)
    found: Measures = {
        "n": table.n_records, "N": table.population_size, "cells": table.n_cells,
        "uniques": table.n_uniques,
    }  # fmt: skip
    if frequencies is not None:
        found["true_tau1"] = int((frequencies == 1).sum())
        found["true_tau2"] = float((1 / frequencies).sum())
    return found


def classified(r1: Any, frequencies: Any) -> Measures:
    """Shares of false negatives and false positives of r1 at cut-offs, as paper 2 counts them."""
    import numpy as np

    alone = frequencies == 1
    found = {}
    for cut in CUTOFFS:
        missed, alarm = (r1[alone] <= cut).mean(), (r1[~alone] > cut).mean()
        found[f"missed at {cut}"], found[f"alarm at {cut}"] = float(missed), float(alarm)
    for rate in RATES:
        cut = np.quantile(r1[~alone], 1.0 - rate)
        found[f"missed at rate {rate}"] = float((r1[alone] <= cut).mean())
    return found


def persons(source: str, model: str, seconds: float) -> Measures:
    """Fit a model to a sample of persons."""
    from unikat import fit
    from unikat.inference.backends import Workers
    from unikat.inference.diagnostics import worst_ess, worst_rhat
    from unikat.inference.plan import Plan, StopRule
    from unikat.studies.auto import Execution

    if model == "sample":
        return of_sample(source)
    table, frequencies = sample(source)
    plan = Plan(stop=StopRule(max_seconds=seconds))
    execution = Execution(workers=Workers(n_workers=1, n_threads=1))
    fitted = fit(spec_of(model), table, seed=1, plan=plan, execution=execution)
    draws, estimate = fitted.draws, fitted.estimate()
    names = {"tau1": "tau1", "expected": "tau1_expected", "tau2": "tau2"}
    found: Measures = {
        name: summary(draws.retained(scalar).ravel()) for name, scalar in names.items()
    }
    # The interval of tau1 is that of the result: with the model's error where there is one.
    found["tau1"] |= {"lower": estimate.tau1.lower, "upper": estimate.tau1.upper}
    for name in ("n_components", "alpha", "top", "n_classes"):
        if name in draws.scalars:
            found[name] = summary(draws.retained(name).ravel())
    found["fit"] = {
        "sweeps": draws.n_sweeps, "stopped": draws.stop_reason,
        "rhat": worst_rhat(draws.diagnostics), "ess": worst_ess(draws.diagnostics),
        "model": fitted.model.name,
    }  # fmt: skip
    if frequencies is not None:
        found |= classified(estimate.records.r1[table.unique], frequencies)
    return found


def path(source: str, model: str, seconds: float) -> Measures:
    """K from which τ1 stays, of the fits that are there; nothing while one of them is not."""
    from unikat.studies.path import PathPoint, stabilised

    there, points = results(), []
    for size in model.split(","):
        names = (f"gom-K{size}", f"gom-{size}-paper")
        lines = [there.get(f"{source.removeprefix('path:')}|{name}") for name in names]
        found = next((line["measures"] for line in lines if line), None)
        if found is None:
            return {}
        tau1, ess = found["tau1"], found["fit"]["ess"]
        points.append(PathPoint(value=int(size), mean=tau1["mean"], deviation=tau1["sd"], ess=ess))
    return {"chosen": stabilised(points)}


def cross_table(source: str, model: str, seconds: float) -> Measures:
    """Paper 1's table of age by education beside a sample's: records in empty cells, and z."""
    import numpy as np
    import pandas as pd

    published = np.array(PUBLISHED["population"]["age_by_education"])
    rows = pd.read_parquet(data_file(source.removeprefix("table:")))
    counts = np.zeros(published.shape)
    np.add.at(counts, (rows["X3"].to_numpy(), rows["X7"].to_numpy()), 1.0)
    share = published / published.sum()
    mean = share * len(rows)
    # Given the population, a cell's count is hypergeometric.
    left = (published.sum() - len(rows)) / (published.sum() - 1)
    z = (counts - mean)[share > 0] / np.sqrt((mean * (1 - share) * left)[share > 0])
    return {
        "total": int(published.sum()), "in empty cells": int(counts[share == 0].sum()),
        "cells": int((share > 0).sum()), "chi": float((z**2).mean()),
    }  # fmt: skip


# --- paper 1's program ------------------------------------------------------------------------


def program(source: str, model: str, seconds: float) -> Measures:
    """Run paper 1's published program, with the corrections that `model` names."""
    from published_hdp import run

    table, _ = sample(source.removeprefix("program:"))
    parts = set(model.split("+")) - {"as published"}
    n_start = 30 if "from 30" in parts else 10
    found = run(
        table, frozenset(parts - {"from 30"}), n_start=n_start,
        n_sweeps=30_000_000 // max(table.n_records, 3_000),
    )  # fmt: skip
    measures = {name: summary(values) for name, values in found.draws.items()}
    return measures | {"sweeps": found.n_sweeps, "fit": {"burn-in": found.burn_in}}


# --- paper 3 ----------------------------------------------------------------------------------


def eleven(source: str, model: str, seconds: float) -> Measures:
    """One of paper 3's models on the table of eleven.py with ages in so many bands."""
    import eleven as study
    import numpy as np

    n_ages = int(source.removeprefix("eleven-"))
    if model == "sample":
        table, frequencies = study.draw(n_ages, 1)
        return {
            "n": table.n_records, "N": table.population_size, "uniques": table.n_uniques,
            "true_tau1": int((frequencies == 1).sum()), "true_tau2": float((1 / frequencies).sum()),
        }  # fmt: skip
    if model not in study.MODELS:
        study.MODELS[model] = spec_of(model)
    found = study.fit(model, n_ages, 1, seconds, 200.0)
    kept = {name: found[name] for name in ("tau1", "tau2", "tau1_expected", "tau2_expected")}
    for group, (signed, absolute, squared) in found["errors"].items():
        kept[f"errors {group}"] = [signed, absolute, squared]
    kept["r1 of population uniques"] = float(found["r1"][0])
    kept["clusters"] = found.get("n_clusters", {}).get("mean")
    kept["fit"] = {name: found[name] for name in ("sweeps", "stopped", "rhat", "ess")}
    return json.loads(json.dumps(kept, default=np.ndarray.tolist))


# --- paper 4 ----------------------------------------------------------------------------------

ACS_SHARES = {
    "same race, 2": "share(all same RACE | size = 2)",
    "same race, 3": "share(all same RACE | size = 3)",
    "same race, 4": "share(all same RACE | size = 4)",
    "white, rent": "share(count(RACE == 1) == size and TENURE == 2)",
    "married, working": "share(count(MAR == 1) == size and count(WORK == 1) == size)",
    "college": "share(count(SCHOOL >= 4) == size)",
    "English alone": "share(count(ENGLISH == 1) == size)",
    "two workers": "share(count(WORK == 1) == 2)",
}
ACS_KEYS = "TENURE,ACRES,AGE,SEX,RACE,HISPANIC,SCHOOL,WORK,MAR,ENGLISH"
HOUSEHOLDS = 10_000


@cache
def acs_households() -> Any:
    """Adults of the private households of the ACS northeast, with keys like paper 4's table 1."""
    import numpy as np
    import pandas as pd

    names = ["HH", "AGEP", "SEX", "RAC1P", "HISP", "SCHL", "ESR", "MAR", "LANX"]
    people = pd.read_parquet(data_file("acs2024_persons_northeast"), columns=names)
    homes = pd.read_parquet(data_file("acs2024_households_northeast"))
    homes = homes[homes["TYPEHUGQ"] == 1]
    people = people[people["AGEP"] >= 18].merge(homes[["HH", "TEN", "BLD"]], on="HH")
    people = people[people.groupby("HH")["HH"].transform("size") <= 9]
    return pd.DataFrame({
        "HH": people["HH"], "TENURE": np.where(people["TEN"] <= 2, 1, 2),
        "ACRES": np.where(people["BLD"] == 2, 1, 2), "AGE": people["AGEP"], "SEX": people["SEX"],
        "RACE": people["RAC1P"].map({1: 1, 2: 2, 3: 3, 4: 3, 5: 3, 6: 4, 7: 4, 8: 5, 9: 6}),
        "HISPANIC": np.where(people["HISP"] == 1, 1, 2),
        "SCHOOL": 1 + np.digitize(people["SCHL"], [16, 18, 21, 22]),
        "WORK": people["ESR"].map({3: 2, 6: 3}).fillna(1).astype(int), "MAR": people["MAR"],
        "ENGLISH": np.where(people["LANX"] == 2, 1, 2),
    }).reset_index(drop=True)  # fmt: skip


def fit_of(found: Any) -> Measures:
    """How the fit behind synthetic files went."""
    fit = found.summary.fit
    return {"sweeps": fit.n_sweeps, "rhat": fit.rhat, "ess": fit.ess, "stopped": fit.stop_reason}


def shares_of(found: Any, names: list[str]) -> Measures:
    """Intervals of shares of the original and of the synthetic files."""
    result: Measures = {}
    for name, share in zip(names, found.summary.shares, strict=True):
        original, synthetic = share.original, share.synthetic
        result[f"original {name}"] = {"lower": original.lower, "upper": original.upper}
        if synthetic is not None:
            result[name] = {"lower": synthetic.lower, "upper": synthetic.upper}
    impossible = found.summary.impossible
    result["fit"] = fit_of(found)
    if impossible is not None:
        result["impossible"] = max(impossible.shares)
    result["pMSE"] = [one.pmse_ratio for one in found.summary.margins]
    return result


def beside_population(population: Any, files: Any, keys: str) -> list[float]:
    """How far margins of one, two and three keys of files are from the population's, in percent.

    Mean total variation distance, of persons.
    """
    import numpy as np
    import pandas as pd

    from unikat.synthesis.utility import margin_utility

    def table(frame: Any) -> Any:
        columns = {}
        for key in keys.split(","):
            name, _, width = key.partition(":")
            columns[name] = frame[name] // 5 if width else frame[name]
        return pd.DataFrame(columns)

    tables = [table(one) for one in (population, *files)]
    together = pd.concat(tables)
    codes = np.stack([pd.factorize(together[name])[0] for name in together], axis=1)
    ends = np.cumsum([len(one) for one in tables])[:-1]
    whole, *others = np.split(codes.astype(np.int32), ends)
    found = margin_utility(whole, others, (codes.max(axis=0) + 1).tolist(), list(together))
    return [100.0 * one.distance for one in found]


def truth_of(frame: Any, keys: str, household_keys: str, zeros: Any, shares: list[str]) -> list:
    """Shares of the whole population."""
    from unikat.inference.progress import SILENT
    from unikat.jobs.synthesize import _read_households, _shared
    from unikat.spec.synthesis import SynthesisSpec
    from unikat.synthesis.persons import plain_households
    from unikat.synthesis.shares import parse_formula, share_of

    spec = {
        "keys": keys, "model": "households", "design": {"household": "HH"},
        "households": {"keys": household_keys},
    }  # fmt: skip
    whole = _read_households(SynthesisSpec.parse(spec | ({"zeros": zeros} if zeros else {})), frame,
                             SILENT)  # fmt: skip
    plain = plain_households(whole.persons, whole.persons.codes, _shared(whole))
    roles = zeros["roles"] if zeros else {}
    return [share_of(parse_formula(text), plain, roles).share for text in shares]


PRIORS = {
    "nested": {},
    "nested-uniform": {"profile_concentration": 1, "profile_base": "uniform"},
    "nested-empirical": {"profile_concentration": "total", "profile_base": "empirical"},
    "flat": {},
}


def acs(source: str, model: str, seconds: float) -> Measures:
    """Synthetic households of the ACS, or the truth of its shares."""
    import numpy as np

    import unikat

    frame, shares = acs_households(), list(ACS_SHARES.values())
    numbers = np.random.default_rng(1).permutation(frame["HH"].unique())[:HOUSEHOLDS]
    drawn = frame[frame["HH"].isin(numbers)]
    if (source, model) == ("acs-population", "sample"):
        return {"margins": beside_population(frame, [drawn], ACS_KEYS)}
    if model == "sample":
        truth = truth_of(frame, ACS_KEYS, "TENURE,ACRES", None, shares)
        return dict(zip(ACS_SHARES, truth, strict=True)) | {"N": int(frame["HH"].nunique())}
    found = unikat.synthesize(
        drawn, keys=ACS_KEYS, model="households", household="HH",
        household_keys="TENURE,ACRES", share=shares, datasets=5, chains=2, max_sweeps=1000,
        max_seconds=seconds, workers=1, threads=1, progress=False, seed=1,
        method="flat" if model == "flat" else "truncated", set=PRIORS[model] or None,
    )  # fmt: skip
    if source == "acs-population":
        margins = beside_population(frame, found.frames, ACS_KEYS)
        return {"margins": margins, "fit": fit_of(found)}
    return shares_of(found, list(ACS_SHARES))


def eph(source: str, model: str, seconds: float) -> Measures:
    """Synthetic Argentine households by a method of synthesis.py, or the truth."""
    import numpy as np

    import synthesis as study
    import unikat

    make, keys, household_key, roles, rules, shares = study.SOURCES["eph"]
    zeros = {"rules": list(rules), "roles": roles, "on_conflict": "drop"}
    frame = study.without_conflicts(make(), keys, household_key, rules, roles)
    names = [text[6:-1].replace(" | ", ", ") for text in shares]
    numbers = np.random.default_rng(1).permutation(frame["HH"].unique())[:1000]
    drawn = frame[frame["HH"].isin(numbers)]
    if (source, model) == ("eph-population", "sample"):
        return {"margins": beside_population(frame, [drawn], keys)}
    if model == "sample":
        truth = truth_of(frame, keys, household_key, zeros, list(shares))
        return dict(zip(names, truth, strict=True)) | {"N": int(frame["HH"].nunique())}
    composition = roles["head"].split()[0] if model == "composition" else "none"
    found = unikat.synthesize(
        drawn, keys=keys, model="households", household="HH",
        household_keys=household_key, zeros=zeros, share=list(shares), datasets=5, chains=2,
        max_sweeps=600, max_seconds=seconds, workers=1, threads=1, progress=False, seed=1,
        method="truncated" if model == "composition" else model, set={"composition": composition},
    )  # fmt: skip
    if source == "eph-population":
        return {"margins": beside_population(frame, found.frames, keys), "fit": fit_of(found)}
    return shares_of(found, names)


# --- paper 5 ----------------------------------------------------------------------------------


def formula(source: str, model: str, seconds: float) -> Measures:
    """Risk of sample uniques by paper 5's models with the paper's values: no data are needed."""
    from unikat import PopulationCount

    size = {"population_size": 15_142_320, "n_cells": 20_384}
    found = {}
    for count in (1, 2, 3, 5, 10):
        laws = {"I": PopulationCount(alpha=0.92, a=0.86, b=80.0, count=count, **size)}
        for region, rate in (("large", 0.0034), ("Aosta", 0.028)):
            laws[f"II {region}"] = PopulationCount(
                alpha=0.1, a=80.0 * rate, b=80.0 * (1.0 - rate), count=count, **size
            )
        found |= {f"{name}, f = {count}": law.mean_inverse for name, law in laws.items()}
    return found


@cache
def regions() -> tuple[Any, Any]:
    """A sample of the ACS northeast with the paper's two sampling rates, and F of its cells."""
    from dataclasses import replace

    import numpy as np
    import pandas as pd

    from unikat import CellTable, Key
    from unikat.data.design import Sampling
    from unikat.data.patterns import pattern_ids

    names = ["SEX", "AGEP", "ST", "MAR", "ESR"]
    people = pd.read_parquet(data_file("acs2024_persons_northeast"), columns=names)
    codes = np.stack([
        people["SEX"] - 1, np.digitize(people["AGEP"], np.arange(5, 70, 5)),
        people["ST"].map({36: 1, 42: 2, 33: 0, 50: 0}).fillna(3), people["MAR"] - 1,
        people["ESR"].map({-1: 0, 3: 2, 6: 3}).fillna(1),
    ], axis=1).astype(np.int64)  # fmt: skip
    small = codes[:, 2] == 0
    drawn = np.random.default_rng(1).random(len(codes)) < np.where(small, 0.028, 0.0034)
    levels = [int(n) + 1 for n in codes.max(axis=0)]
    keys = [Key.of_size(f"K{j}", n) for j, n in enumerate(levels)]
    table = CellTable.from_codes(codes[drawn], keys, population_size=len(codes))
    strata = small.astype(np.int32)
    sizes = np.bincount(strata).astype(float)
    weights = (sizes / np.bincount(strata[drawn]))[strata[drawn]]
    sampling = Sampling(weights=weights, strata=strata[drawn], sizes=sizes, from_weights=True)
    ids = pattern_ids(np.concatenate((table.cells, codes)), levels)
    cells, counts = np.unique(ids[table.n_cells :], return_counts=True)
    return replace(table, sampling=sampling), counts[np.searchsorted(cells, ids[: table.n_cells])]


def classifier(source: str, model: str, seconds: float) -> Measures:
    """Paper 5's classification of cells at a risk of 0.05."""
    import numpy as np

    from unikat import fit
    from unikat.inference.backends import Workers
    from unikat.inference.plan import Plan, StopRule
    from unikat.studies.auto import Execution
    from unikat.studies.scores import classification

    table, frequencies = regions()
    unique = table.unique
    found: Measures = {"n": table.n_records, "uniques": table.n_uniques, "cells": table.n_cells}
    if model == "sample":
        found["unsafe"] = int((1 / frequencies[unique] > 0.05).sum())
        return found
    execution = Execution(workers=Workers(n_workers=1, n_threads=1))
    plan = Plan(stop=StopRule(max_seconds=seconds))
    fitted = fit(model, table, seed=1, plan=plan, execution=execution)
    r2 = fitted.estimate().records.r2
    small = table.cells[:, 2] == 0
    groups = {"uniques": unique, "small": small, "large": ~small, "all": np.ones(len(small), bool)}
    for name, which in groups.items():
        of = classification(r2[which], 1.0 / frequencies[which], 0.05)
        (safe, missed), (alarm, right) = of.tolist()
        found[f"classified {name}"] = [safe, missed, alarm, right]
    found["fit"] = {"sweeps": fitted.draws.n_sweeps, "stopped": fitted.draws.stop_reason}
    return found


# --- the run ----------------------------------------------------------------------------------

Compute = Callable[[str, str, float], Measures]
PERSONS = ("acs2024_persons_northeast",)
SOURCES: dict[str, tuple[Compute, tuple[str, ...]]] = {
    "formula": (formula, ()),
    "table:": (cross_table, ()),
    "path:": (path, PERSONS),
    "ny2000_clean": (persons, ()),
    "hdp_synthetic": (persons, ()),
    "ny2000_sz": (persons, ("ny2000_sz_disjoint_zeros",)),
    "acs_adults": (persons, (*PERSONS, "acs2024_persons_west")),
    "eleven-": (eleven, PERSONS),
    "regions": (classifier, PERSONS),
    "acs-households": (acs, (*PERSONS, "acs2024_households_northeast")),
    "acs-population": (acs, (*PERSONS, "acs2024_households_northeast")),
    "eph-population": (eph, ("eph_argentina_4_quarters",)),
    "eph-households": (eph, ("eph_argentina_4_quarters",)),
    "program:": (program, ()),
}
"""By the beginning of the source: what computes it, and the files that it needs."""


def source_of(identity: str) -> tuple[str, str, str]:
    """Beginning of the source in `SOURCES`, source and model of a fit."""
    source, model = identity.split("|")
    return next(name for name in SOURCES if source.startswith(name)), source, model


def files_of(identity: str) -> list[str]:
    """Data files that a fit needs and that are not there."""
    kind, source, _ = source_of(identity)
    needed = list(SOURCES[kind][1])
    name = source.removeprefix("program:").removeprefix("table:").partition("+")[0]
    if name.startswith(("ny2000", "hdp_synthetic")):
        needed.append(name)
    return [name for name in needed if not (DATA / f"{name}.parquet").exists()]


def wanted(only: list[str]) -> Iterator[str]:
    """Fits that the entries name, each once, cheap ones first; what needs other fits last."""
    found = {
        reference.rpartition("|")[0]
        for entry in PUBLISHED["entry"]
        if not only or entry["id"] in only
        for reference in references(entry)
    }

    def order(identity: str) -> tuple[bool, float, str]:
        return identity.startswith("path:"), usual_seconds(identity), identity

    return iter(sorted(found, key=order))


def append(identity: str, measures: Measures, seconds: float) -> None:
    """Add a line to the result file."""
    import unikat

    line = {
        "fit": identity, "measures": measures, "seconds": round(seconds, 1), "machine": machine(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}", "version": unikat.__version__,
    }  # fmt: skip
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")


def main() -> None:
    """Compute what is asked for and not there."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="ENTRY", help="paper1-table3")
    parser.add_argument("--seconds", type=float, help="longest for a fit; by default by its kind")
    parser.add_argument("--again", action="store_true", help="also what is there")
    parser.add_argument("--fits", default="", help="regular expression of fits, as --list prints")
    parser.add_argument("--list", action="store_true", help="print the fits, compute nothing")
    options = parser.parse_args()
    names = [entry["id"] for entry in PUBLISHED["entry"]]
    if unknown := set(options.only) - set(names):
        parser.error(f"no entry {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    there = results()
    for identity in wanted(options.only):
        if options.list or (identity in there and not options.again):
            if options.list:
                print(f"{'there' if identity in there else '     '} {identity}")
            continue
        if not re.search(options.fits, identity):
            continue
        if missing := files_of(identity):
            print(f"{identity}: skipped, needs {', '.join(missing)} in ../shared/data", flush=True)
            continue
        kind, source, model = source_of(identity)
        begun = time.perf_counter()
        print(f"{identity}: load {os.getloadavg()[0]:.1f}", end=" ", flush=True)
        longest = options.seconds or max(60.0, 5.0 * usual_seconds(identity))
        measures = SOURCES[kind][0](source, model, longest)
        seconds = time.perf_counter() - begun
        if measures:
            append(identity, measures, seconds)
        print(f"{seconds:.0f} s" if measures else "other fits are missing", flush=True)


if __name__ == "__main__":
    main()
