"""Synthetic files from a fitted model: seconds; and households beside the truth of a population.

    python benchmarks/synthesis.py speed
    python benchmarks/synthesis.py households --source eph --households 1000 --sweeps 600

`speed`: five data sets of 100,000 records by ten keys (`ny2000_sz_10000` resampled), and of 10,000
households with rules (`nestedcateg_origdata_newFormat` resampled), from the state of a chain after
some sweeps: drawn, and written as columns of the input's type.

`households`: the analogue of tables 2 and 4 of Hu, Reiter and Wang (2018). A sample of households,
synthetic files by every method, and 95% intervals of probabilities within households; of `eph`
(Argentine households, a population) the truth beside them and how many intervals contain it, over
one or several samples; of `peer` (the file of NestedCategBayesImpute) the sample's own share.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from common import data_file, machine, print_table

METHODS = ("truncated", "composition", "untruncated", "reject", "flat")
"""Of `unikat synthesize`; `composition` is truncated, with the composition of relations."""
EPH_KEYS = "REGION,REL,SEX,AGE:width(5),MARST"
EPH_ROLES = {"head": "REL == 1", "spouse": "REL == 2", "child": "REL == 3", "parent": "REL == 6"}
EPH_RULES = (
    "count(REL == 1) != 1",
    "count(REL == 2) > 1",
    "head.AGE < 10",
    "spouse.AGE < 10",
    "child.AGE > head.AGE",
    "parent.AGE < head.AGE",
)
EPH_SHARES = (
    "share(spouse present)",
    "share(spouse present | size = 2)",
    "share(spouse present | size = 4)",
    "share(count(REL == 3) >= 1)",
    "share(count(REL == 3) >= 1 and count(REL == 2) == 0)",
    "share(count(REL == 3) >= 1 and count(REL == 2) == 0 and head.SEX == 2)",
    "share(parent present)",
    "share(count(REL == 5) >= 1)",
    "share(all same MARST | size = 2)",
    "share(all same MARST | size = 3)",
    "share(all same SEX | size = 2)",
    "share(all same SEX | size = 3)",
    "share(count(AGE < 15) >= 1)",
    "share(count(AGE >= 65) == size)",
    "share(spouse.SEX == head.SEX)",
    "share(count(AGE < 15) >= 1 | size = 2)",
)
PEER_KEYS = "ownership,relate,sex,race,age:width(5)"
PEER_ROLES = {"head": "relate == 1", "spouse": "relate == 2", "child": "relate == 3"}
PEER_RULES = (
    "count(relate == 1) != 1",
    "count(relate == 2) > 1",
    "head.age < 15",
    "spouse.age < 15",
    "child.age > head.age",
)
PEER_SHARES = (
    "share(all same race | size = 2)",
    "share(all same race | size = 3)",
    "share(all same race | size = 4)",
    "share(spouse present)",
    "share(spouse present and ownership == 1)",
    "share(count(relate == 3) >= 1)",
    "share(count(relate == 3) >= 1 and count(relate == 2) == 0)",
    "share(count(relate == 9) >= 1)",
    "share(count(age < 15) >= 1)",
    "share(spouse.sex == head.sex)",
)


def eph() -> Any:
    """Households of at most six of one quarter, with the names of the keys above."""
    import pandas as pd

    rows = pd.read_parquet(data_file("eph_argentina_4_quarters"))
    rows = rows[rows["YQ"] == rows["YQ"].min()]
    rows = rows[rows.groupby("HH")["HH"].transform("size") <= 6]
    names = {"CH03": "REL", "CH04": "SEX", "CH06": "AGE", "CH07": "MARST"}
    found = rows.rename(columns=names)[["HH", "REGION", *names.values()]]
    # Without answer, and relations that the sample may not have.
    found = found[~found["HH"].isin(found.loc[~found["MARST"].between(1, 5), "HH"])]
    return found.assign(AGE=found["AGE"].clip(0, 98)).reset_index(drop=True)


def peer() -> Any:
    """The peer's households with their heads as rows."""
    import pandas as pd

    rows = pd.read_parquet(data_file("nestedcateg_origdata_newFormat"))
    heads = rows.drop_duplicates("Hhindex")
    heads = heads.assign(
        relate=1, **{name: heads[f"head{name}"] for name in ("sex", "race", "age")}
    )
    found = pd.concat([heads, rows]).sort_values("Hhindex", kind="stable")
    columns = ["Hhindex", "ownership", "relate", "sex", "race", "age"]
    return found[columns].rename(columns={"Hhindex": "HH"}).reset_index(drop=True)


SOURCES = {
    "eph": (eph, EPH_KEYS, "REGION", EPH_ROLES, EPH_RULES, EPH_SHARES),
    "peer": (peer, PEER_KEYS, "ownership", PEER_ROLES, PEER_RULES, PEER_SHARES),
}


def without_conflicts(frame: Any, keys: str, household_key: str, rules: Any, roles: Any) -> Any:
    """Households that obey all rules: those of the population of which the truth is known."""
    from unikat.inference.progress import SILENT
    from unikat.jobs.households import read_households
    from unikat.spec.synthesis import SynthesisSpec

    spec = SynthesisSpec.parse(
        {
            "keys": keys,
            "model": "households",
            "design": {"household": "HH"},
            "households": {"keys": household_key},
            "zeros": {"rules": rules, "roles": roles, "on_conflict": "drop"},
        }
    )
    _, sample = read_households(spec, frame, SILENT)
    return frame[sample.of_record >= 0].reset_index(drop=True)


def households(asked: argparse.Namespace) -> None:
    """Print the table of intervals of each sample, and how many contain the truth in all."""
    from unikat.inference.progress import SILENT
    from unikat.jobs.synthesize import _read_households, _shared
    from unikat.spec.synthesis import SynthesisSpec
    from unikat.synthesis.persons import plain_households
    from unikat.synthesis.shares import parse_formula, share_of

    make, keys, household_key, roles, rules, shares = SOURCES[asked.source]
    zeros = {"rules": list(rules), "roles": roles, "on_conflict": "drop"}
    population = without_conflicts(make(), keys, household_key, rules, roles)
    spec = SynthesisSpec.parse(
        {
            "keys": keys,
            "model": "households",
            "design": {"household": "HH"},
            "households": {"keys": household_key},
            "zeros": zeros,
        }
    )
    whole = _read_households(spec, population, SILENT)
    plain = plain_households(whole.persons, whole.persons.codes, _shared(whole))
    truth = [share_of(parse_formula(text), plain, roles).share for text in shares]
    options = {
        "keys": keys,
        "model": "households",
        "household": "HH",
        "household_keys": household_key,
        "zeros": zeros,
        "share": list(shares),
        "datasets": asked.datasets,
        "chains": asked.chains,
        "max_sweeps": asked.sweeps,
        "workers": asked.workers,
        "progress": False,
    }
    covered = {name: [0, 0] for name in ("original", *asked.methods)}
    for seed in range(asked.seed, asked.seed + asked.samples):
        intervals_of(asked, population, options, truth, seed, covered)
        counts = (f"{name} {held} of {n}" for name, (held, n) in covered.items())
        print(f"intervals that contain Q, to here: {', '.join(counts)}", flush=True)


def intervals_of(
    asked: argparse.Namespace,
    population: Any,
    options: Any,
    truth: Any,
    seed: int,
    covered: Any,
) -> None:
    """Print the intervals of one sample, and add those that contain the truth to `covered`."""
    import numpy as np

    import unikat

    numbers = population["HH"].unique()
    rng = np.random.default_rng(seed)
    n = len(numbers) if asked.source == "peer" else asked.households
    sample = population[population["HH"].isin(rng.permutation(numbers)[:n])]
    role = SOURCES[asked.source][3]["head"].split()[0]
    found = {}
    for method in asked.methods:
        begin = time.perf_counter()
        result = unikat.synthesize(
            sample,
            **options,
            method="truncated" if method == "composition" else method,
            set={"composition": role if method == "composition" else "none"},
            seed=seed,
        )
        found[method] = result.summary
        broken, fit = result.summary.impossible, result.summary.fit
        print(
            f"{method}, sample {seed}: {time.perf_counter() - begin:.0f} s, "
            f"{'converged' if result.converged else 'not converged'} in {fit.n_sweeps:,} sweeps of "
            f"{asked.chains} chains (R-hat {fit.rhat or 0:.3f}, effective sample size "
            f"{fit.ess or 0:.0f}); pMSE ratio of margins "
            f"{', '.join(f'{one.pmse_ratio:.2f}' for one in result.summary.margins)}; households "
            f"that break a rule {100 * max(broken.shares):.1f}%",
            flush=True,
        )
    rows = []
    for i, text in enumerate(options["share"]):
        row = [text[6:-1], f"{truth[i]:.3f}"]
        for name, counts in covered.items():
            share = found[name if name in METHODS else asked.methods[0]].shares[i]
            interval = share.original if name == "original" else share.synthetic
            if interval is None:
                row.append("–")
                continue
            inside = interval.lower <= truth[i] <= interval.upper
            counts[0] += inside
            counts[1] += 1
            row.append(f"{interval.lower:.3f}–{interval.upper:.3f}{'' if inside else ' *'}")
        rows.append(tuple(row))
    print_table(("probability", "Q", "original", *asked.methods), rows)
    print("* does not contain Q")


def speed(asked: argparse.Namespace) -> None:
    """Print seconds of five data sets."""
    import numpy as np
    import pyarrow.parquet as pq
    from households import ruled_table

    from unikat import Design, read
    from unikat.models.base import Stream
    from unikat.models.households.nested import NestedHouseholds
    from unikat.models.named import build_model
    from unikat.synthesis.generate import PosteriorState, draw_households
    from unikat.synthesis.partial import draw_members_given
    from unikat.synthesis.persons import Persons, columns_of
    from unikat.synthesis.utility import margin_utility, repeated_uniques

    rng = np.random.default_rng(1)
    keys = [f"X{j}" for j in range(1, 11)]
    small = pq.read_table(data_file("ny2000_sz_10000")).select(keys)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.parquet"
        pq.write_table(small.take(rng.integers(0, len(small), 100_000)), path)
        microdata = read(path, keys, Design(without_population=True))
        table = microdata.tabulate()
        persons = Persons(table.keys, table.cells[table.record_cell], np.arange(100_000))
        columns = columns_of(microdata, persons, (), (), None)
    for name in ("latent-class", "hdp", "gom"):
        model = build_model(name, {})
        data = model.prepare(table)
        state = model.init(Stream(1, 0, 0), data)
        for sweep in range(1, asked.sweeps + 1):
            state, _ = model.step(Stream(1, 0, sweep), state, data, 2)
        model.simulate(Stream(1, 0, 0), state, data, 10)
        begin = time.perf_counter()
        drawn = [
            model.simulate(Stream(1, chain, sweep), state, data, 100_000) for chain in range(5)
        ]
        middle = time.perf_counter()
        for number, codes in enumerate(drawn):
            columns.table(codes, table.keys, 1, number, keys)
        end = time.perf_counter()
        margin_utility(persons.codes, drawn, table.n_levels, keys)
        repeated_uniques(persons.codes, drawn, table.n_levels)
        last = time.perf_counter()
        times = (f"{one:.2f} s" for one in (middle - begin, end - middle, last - end))
        rows.append((f"{name}, 100,000 x 10", *times))
    homes = ruled_table(10_000)
    for composition in ("none", "REL"):
        model = NestedHouseholds(composition=composition)
        data = model.prepare(homes)
        state = model.init(Stream(1, 0, 0), data)
        for sweep in range(1, asked.sweeps + 1):
            state, info = model.step(Stream(1, 0, sweep), state, data, 2)
        at = PosteriorState(Stream(1, 0, sweep), state)
        draw_households(at, data, None, homes, homes)
        begin = time.perf_counter()
        for chain in range(5):
            at = PosteriorState(Stream(1, chain, sweep), state)
            draw_households(at, data, homes.layout.rules, homes, homes)
        seconds = time.perf_counter() - begin
        mass = info.values["impossible_mass"]
        name = f"households, 10,000, rules, composition {composition} ({mass:.0%} impossible)"
        rows.append((name, f"{seconds:.2f} s", "", ""))
        begin = time.perf_counter()
        for chain in range(5):
            at = PosteriorState(Stream(1, chain, sweep), state)
            draw_members_given(
                at, data, homes.layout.rules, members_of(homes), homes, homes, ["RACE", "AGE"]
            )
        seconds = time.perf_counter() - begin
        rows.append((f"{name}, race and age alone", f"{seconds:.2f} s", "", ""))
    print_table(("five data sets", "drawn", "as columns", "compared with the original"), rows)


def members_of(homes: Any) -> Any:
    """The persons of a table of households whose heads are apart."""
    import numpy as np

    from unikat.synthesis.persons import Persons, persons_of

    layout, cells = homes.layout, homes.cells[homes.record_cell]
    keys = (layout.household_keys[1], *layout.person_keys)
    codes = persons_of(cells, layout, [key.name for key in keys], {"REL": 0})
    sizes = layout.parts(cells)[0][:, 0] + 1
    household = np.repeat(np.arange(len(cells), dtype=np.int32), sizes)
    head = np.diff(household, prepend=-1) > 0
    return Persons(keys, codes, np.arange(len(codes)), household, head)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["speed", "households"])
    parser.add_argument("--source", choices=list(SOURCES), default="eph")
    parser.add_argument("--households", type=int, default=1000)
    parser.add_argument("--datasets", type=int, default=5)
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--sweeps", type=int, default=600)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--samples", type=int, default=1, help="with seeds from --seed on")
    parser.add_argument("--workers", type=int, default=None, help="processes; all cores")
    parser.add_argument("--seed", type=int, default=1, help="of the first sample and its fits")
    asked = parser.parse_args()
    print(machine())
    (speed if asked.what == "speed" else households)(asked)


if __name__ == "__main__":
    main()
