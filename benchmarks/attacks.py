"""Attacks on synthetic files: seconds, and how often they find something where there is nothing.

    python benchmarks/attacks.py --only speed
    python benchmarks/attacks.py --only unknown
    python benchmarks/attacks.py --only households --draws 500
    python benchmarks/attacks.py --only alarms --repeats 200

speed: all attacks without a model on 50,000 records of ten keys with a control file of the same
size. unknown: the attack with all other records known, 3,500 combinations with 25 candidates, five
synthetic files, 500 draws of each fit, without the sweeps between the draws. households: the same
of Argentine households (their data in ../shared/data) with two rules, two synthetic files and
--draws effective draws of each of three fits, by two chains of at most --sweeps sweeps. alarms:
original, synthetic and control file are independent samples of one population, so that every
attack that succeeds more often at the original is a false alarm; or, with --unequal, the control
file has half the records. The population is the census data in ../shared/data where they are, else
simulated.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

import numpy as np
import pandas as pd
from common import DATA, data_file, machine, print_table

KEYS = ["AGEP", "SEX", "RAC1P", "HISP", "CIT", "SCHL", "MAR", "ESR", "OCC", "ST"]
LEVELS = [94, 2, 9, 24, 5, 25, 5, 7, 27, 9]


def population(keys: list[str]) -> np.ndarray:
    """Codes of a population, (N, n_keys)."""
    census = DATA / "acs2024_persons_northeast.parquet"
    if census.exists():
        frame = pd.read_parquet(census, columns=keys)
        return np.stack([pd.factorize(frame[key])[0] for key in keys], 1).astype(np.int32)
    print("The census data are not here: independent keys are simulated.")
    generator = np.random.default_rng(1)
    levels = [LEVELS[KEYS.index(key)] for key in keys]
    return np.stack(
        [np.minimum(generator.geometric(1 / (1 + n / 4), 600_000), n) - 1 for n in levels], 1
    ).astype(np.int32)


def files_of(original: np.ndarray, synthetic: np.ndarray, control: np.ndarray):
    """Make the files of an attack from codes."""
    from unikat.synthesis.attacks.files import Files

    n = original.shape[1]
    joined = np.concatenate((original, synthetic, control))
    return Files(
        names=tuple(KEYS[:n]),
        n_keys=n,
        n_levels=tuple((joined.max(axis=0) + 1).tolist()),
        original=original,
        synthetic=(synthetic,),
        control=control,
        population=original[:0],
    )


def run(files, seed: int, n_attacks: int = 10_000):
    """Try all attacks that need no model."""
    from unikat.inference.processes import available_cores
    from unikat.synthesis.attacks.run import attack

    n = files.n_keys
    return attack(
        files,
        range(n),
        (range((n + 1) // 2), range((n + 1) // 2, n)),
        n_attacks=n_attacks,
        seed=seed,
        level=0.95,
        n_threads=available_cores(),
    )


def speed(options: argparse.Namespace) -> None:
    """Time the attacks that need no model."""
    people, n = population(KEYS), options.records
    chosen = np.random.default_rng(1).choice(len(people), 3 * n, replace=False)
    parts = [people[chosen[i * n : (i + 1) * n]] for i in range(3)]
    run(files_of(*(part[:500] for part in parts)), 1)
    rows = []
    for what, synthetic in (("independent", parts[1]), ("copy", parts[0])):
        started = time.perf_counter()
        found = run(files_of(parts[0], synthetic, parts[2]), 1)
        rows.append(
            [what, f"{time.perf_counter() - started:.1f} s", sum(one.found for one in found)]
        )
    print_table(["synthetic file", "seconds", f"attacks of {len(found)} that succeed"], rows)


def unknown(options: argparse.Namespace) -> None:
    """Time the attack with all other records known, by the draws of six fits."""
    from unikat import CellTable, Key, LatentClass
    from unikat.models.base import Stream
    from unikat.synthesis.attacks.posterior import (
        CandidateRatios,
        Mean,
        after,
        joined_table,
        log_priors,
        neighbours,
    )

    levels = (9, 2, 5, 6, 4, 3, 2)
    generator = np.random.default_rng(1)
    n = 10_000
    # Of twenty classes; independent keys would be split into hundreds of them.
    classes = generator.integers(0, 20, n)
    profiles = [generator.dirichlet(np.full(k, 0.4), 20).cumsum(axis=1) for k in levels]
    codes = np.stack(
        [(generator.random(n)[:, None] > law[classes, :-1]).sum(axis=1) for law in profiles], 1
    )
    keys = [Key.of_size(f"K{j}", k) for j, k in enumerate(levels)]
    table = CellTable.from_codes(codes, keys, 10**6)
    chosen = np.sort(generator.choice(table.n_cells, min(3_500, table.n_cells), replace=False))
    candidates = neighbours(table.cells[chosen], levels)
    made = [codes[generator.integers(0, n, n)].astype(np.int32) for _ in range(5)]
    observer, model = CandidateRatios(candidates=candidates), LatentClass()
    seconds, means = 0.0, []
    for one in (table, *(joined_table(table, synthetic) for synthetic in made)):
        data = model.prepare(one)
        state, totals = model.init(Stream(1, 0, 0), data), observer.start()
        for sweep in range(1, 101):
            state, _ = model.step(Stream(1, 0, sweep), state, data, 2)
        # Compiles what is not compiled yet.
        observer.observe(Stream(1, 0, 100), model, state, data, observer.start())
        for sweep in range(101, 101 + options.draws):
            state, _ = model.step(Stream(1, 0, sweep), state, data, 2)
            started = time.process_time()
            observer.observe(Stream(1, 0, sweep), model, state, data, totals)
            seconds += time.process_time() - started
        means.append(Mean.of_sums(totals))
    started = time.process_time()
    records = table.cells[table.record_cell]
    for prior in log_priors(candidates, means[0], records, levels).values():
        _, _, effective = after(means[0], means[1:], prior)
    seconds += time.process_time() - started
    print(
        f"{len(chosen):,} combinations, {candidates.possible.shape[1]} candidates, 5 files, "
        f"{options.draws} draws of each of six fits: {seconds:.1f} processor seconds; effective "
        f"number of draws {np.median(effective):.0f} (median), {effective.min():.0f} (smallest)"
    )


def households(options: argparse.Namespace) -> None:
    """Attack households and persons in them, and time it."""
    import unikat

    people = pd.read_parquet(data_file("eph_argentina_4_quarters"))
    people = people[people.YQ.min() == people.YQ]
    home = pd.factorize(people.HH)[0]
    chosen = np.random.default_rng(1).choice(home.max() + 1, options.records, replace=False)
    people = people.assign(HOME=home)[np.isin(home, chosen)]
    columns = ["HOME", "REGION", "CH03", "CH04", "CH06"]
    original = people.sort_values("HOME")[columns].reset_index(drop=True)
    asked = {
        "keys": "REGION,CH03,CH04,CH06:width(20)",
        "household": "HOME",
        "household_keys": "REGION",
        "head": "CH03 == 1",
        "zeros": ["count(CH03 == 1) != 1", "count(CH03 == 2) > 1"],
        "model": "households",
        "chains": 2,
        "workers": 2,
    }
    made = unikat.synthesize(original, datasets=2, max_sweeps=1_000, **asked)
    started = time.perf_counter()
    found = unikat.attack(
        original,
        synthetic=made.frames,
        max_sweeps=options.sweeps,
        set={"sampling.ess": options.draws},
        **asked,
    )
    seconds = time.perf_counter() - started
    for facts in (found.summary.household_posterior, found.summary.posterior):
        print(
            f"{facts.n_persons} {facts.unit}s, {facts.n_candidates} candidates on average, "
            f"{facts.n_unknown} without a number; effective number of draws "
            f"{facts.effective_draws:.0f} (median); converged: {facts.converged}"
        )
    rows = [
        [one.name, one.target, f"{one.rate.value:.1%}", f"{one.baseline.value:.1%}"]
        for one in found.summary.attacks
        if one.kind == "prior"
    ]
    print_table(["attack", "prior", "named first", "before"], rows)
    print(f"{seconds:.0f} s with the attacks that need no model")


def alarms(options: argparse.Namespace) -> None:
    """Count attacks that succeed with a synthetic file that has nothing to do with the original."""
    keys = KEYS[: options.keys]
    people, n = population(keys), options.records
    n_control = n // 2 if options.unequal else n
    counts: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    any_found = 0
    for repeat in range(options.repeats):
        generator = np.random.default_rng(repeat)
        chosen = generator.choice(len(people), 2 * n + n_control, replace=False)
        parts = np.split(people[chosen], [n, 2 * n])
        found = run(files_of(*parts), repeat)
        for one in found:
            tried[one.name] += 1
            counts[one.name] += one.found
        any_found += any(one.found for one in found)
    rows = [[name, tried[name], f"{counts[name] / tried[name]:.1%}"] for name in tried]
    rows.append(["any of them", options.repeats, f"{any_found / options.repeats:.1%}"])
    print_table(["attack", "tries", "false alarms"], rows)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", choices=["speed", "unknown", "households", "alarms"], default="speed"
    )
    parser.add_argument("--records", type=int, default=None)
    parser.add_argument("--keys", type=int, default=6)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--sweeps", type=int, default=40_000)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--unequal", action="store_true")
    options = parser.parse_args()
    records = {"alarms": 2_000, "households": 100}
    options.records = options.records or records.get(options.only, 50_000)
    print(machine())
    run_of = {"speed": speed, "unknown": unknown, "households": households, "alarms": alarms}
    run_of[options.only](options)


if __name__ == "__main__":
    main()
