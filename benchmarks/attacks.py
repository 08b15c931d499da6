"""Attacks on synthetic files: seconds, and how often they find something where there is nothing.

    python benchmarks/attacks.py --only speed
    python benchmarks/attacks.py --only unknown --records 10000
    python benchmarks/attacks.py --only rho --draws 100 --repeats 8 --sweeps 4000
    python benchmarks/attacks.py --only households --draws 500
    python benchmarks/attacks.py --only alarms --repeats 200

speed: all attacks without a model on 50,000 records of ten keys with a control file of the same
size. unknown: the attack with all other records known, 3,500 combinations with 25 candidates, five
synthetic files of the original's law (or, with --copies, of copies of its records), until every
record is sure or --sweeps or --seconds of a fit are reached. rho: how the printed
standard errors of log rho compare with its spread over --repeats runs, on three real files.
households: the attack of Argentine
households (their data in ../shared/data) with two rules, two synthetic files and
--draws for `sampling.ess`, by two chains of at most --sweeps sweeps, in one process. alarms:
original, synthetic and control file are independent samples of one population, so that every
attack that succeeds more often at the original is a false alarm; or, with --unequal, the control
file has half the records. The population is the census data in ../shared/data where they are, else
simulated.
"""

from __future__ import annotations

import argparse
import os
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


def print_parts(fits) -> None:
    """Print what each part of each fit takes."""
    inner = fits._Fit._sampled

    def sampled(fit, *args):
        begun, before = time.perf_counter(), time.process_time()
        draws = inner(fit, *args)
        print(
            f"{fit.name}: {draws.n_sweeps:,} sweeps of each chain, every {draws.thin} looked at, "
            f"{draws.stop_reason}: {time.perf_counter() - begun:.1f} s, "
            f"{time.process_time() - before:.1f} processor seconds",
            flush=True,
        )
        return draws

    fits._Fit._sampled = sampled


def unknown(options: argparse.Namespace) -> None:
    """Time the attack with all other records known, until every record is sure; in one process."""
    from unikat import CellTable, Key
    from unikat.inference.backends import Workers
    from unikat.inference.plan import Plan, StopRule
    from unikat.models.named import build_model
    from unikat.studies.auto import Execution
    from unikat.synthesis.attacks import fits
    from unikat.synthesis.attacks.persons import one_unknown
    from unikat.synthesis.attacks.posterior import Fitting

    levels = (9, 2, 5, 6, 4, 3, 2)
    generator = np.random.default_rng(1)
    n = options.records
    # Of twenty classes; independent keys would be split into hundreds of them.
    profiles = [generator.dirichlet(np.full(k, 0.4), 20).cumsum(axis=1) for k in levels]

    def drawn() -> np.ndarray:
        classes = generator.integers(0, 20, n)
        return np.stack(
            [(generator.random(n)[:, None] > law[classes, :-1]).sum(axis=1) for law in profiles], 1
        ).astype(np.int32)

    codes = drawn()
    keys = [Key.of_size(f"K{j}", k) for j, k in enumerate(levels)]
    table = CellTable.from_codes(codes, keys, 10**6)
    # Copies of records are what a generator makes that has learned them by heart.
    made = [codes[generator.integers(0, n, n)] if options.copies else drawn() for _ in range(5)]
    print_parts(fits)
    started, spent = time.perf_counter(), time.process_time()
    stop = StopRule(max_sweeps=options.sweeps, max_seconds=options.seconds)
    how = Fitting(
        label=options.model,
        seed=1,
        plan=Plan(n_chains=options.chains, stop=stop),
        level=0.95,
        execution=Execution(workers=Workers(n_workers=1)),
    )
    facts = one_unknown(build_model(options.model, {}), table, made, how).facts
    print(
        f"{options.model}: {facts.n_persons:,} combinations of {n:,} records, "
        f"{facts.n_candidates} candidates, 5 files: {time.perf_counter() - started:.0f} s, "
        f"{time.process_time() - spent:.0f} processor seconds, load {os.getloadavg()[0]:.0f}. "
        f"Standard error of log rho {facts.standard_error:.3f} (median), {facts.n_unknown} "
        f"without a number; converged: {facts.converged}"
    )


def rho(options: argparse.Namespace) -> None:
    """Compare the printed standard errors of log rho with its spread over runs, on real files."""
    import unikat
    from unikat.synthesis.attacks import posterior

    # Fewer draws than a user takes tell as much of the ratio.
    posterior.MOST_ERROR = options.most_error
    census = pd.read_parquet(data_file("ny2000_clean_1000"))
    acs = pd.read_parquet(data_file("acs2024_persons_northeast"), columns=KEYS[:7])
    persons = {
        "New York 2000": census.drop(columns="N", errors="ignore").sample(
            options.records, random_state=1
        ),
        "ACS 2024": acs.assign(AGEP=acs.AGEP // 10).sample(options.records, random_state=1),
    }
    sampling = {"sampling.ess": options.draws, "sampling.rhat": 1.05}
    rows = []
    for name, frame in persons.items():
        asked = {"keys": list(frame.columns), "workers": 1, "set": sampling}
        for model in ("latent-class", "hdp"):
            made = unikat.synthesize(frame, model=model, datasets=2, max_sweeps=1_000, **asked)
            rows.append([name, model, *spread(options, frame, made, model=model, **asked)])
            print(*rows[-1], sep=" | ", flush=True)
    original, asked = homes_of(options)
    made = unikat.synthesize(original, datasets=2, max_sweeps=1_000, **asked)
    asked |= {"set": sampling, "workers": 1}
    rows.append(["EPH households", "households", *spread(options, original, made, **asked)])
    print_table(
        ["file", "model", "records", "with a number", "median error", "spread / error", "median"],
        rows,
    )


def spread(options: argparse.Namespace, frame, made, **asked):
    """Records, share with a number, their median standard error, and how runs differ by it."""
    import unikat

    runs = []
    for seed in range(options.repeats):
        found = unikat.attack(
            frame, synthetic=made.frames, seed=seed, max_sweeps=options.sweeps, **asked
        ).records
        whole = found[found.variable.isna() & (found.prior == "uniform")]
        runs.append(whole.set_index(["unit", "household", "record"])[["rho", "rho_se"]])
    log_rho = np.log(np.stack([run.rho.to_numpy() for run in runs]))
    error = np.stack([run.rho_se.to_numpy() for run in runs])
    known = np.isfinite(log_rho).all(axis=0)
    if not known.any():
        return (log_rho.shape[1], "none", f"{np.median(error):.3f}", "–", "–")
    ratio = np.var(log_rho[:, known], axis=0, ddof=1) / np.mean(error[:, known] ** 2, axis=0)
    return (
        log_rho.shape[1],
        f"{np.isfinite(log_rho).mean():.1%}",
        f"{np.median(error[:, known]):.3f}",
        f"{np.sqrt(np.mean(ratio)):.2f}",
        f"{np.sqrt(np.median(ratio)):.2f}",
    )


def homes_of(options: argparse.Namespace):
    """Argentine households, and what is asked of them."""
    people = pd.read_parquet(data_file("eph_argentina_4_quarters"))
    people = people[people.YQ.min() == people.YQ]
    home = pd.factorize(people.HH)[0]
    chosen = np.random.default_rng(1).choice(home.max() + 1, options.homes, replace=False)
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
    return original, asked


def households(options: argparse.Namespace) -> None:
    """Attack households and persons in them, and time it."""
    import unikat

    original, asked = homes_of(options)
    asked |= {"workers": 1}
    made = unikat.synthesize(original, datasets=2, max_sweeps=1_000, **asked)
    from unikat.synthesis.attacks import fits

    print_parts(fits)
    started, spent = time.perf_counter(), time.process_time()
    found = unikat.attack(
        original,
        synthetic=made.frames,
        max_sweeps=options.sweeps,
        max_seconds=options.seconds,
        set={"sampling.ess": options.draws},
        **asked,
    )
    seconds = time.perf_counter() - started
    for facts in (found.summary.household_posterior, found.summary.posterior):
        print(
            f"{facts.n_persons} {facts.unit}s, {facts.n_candidates} candidates on average, "
            f"{facts.n_unknown} without a number; standard error of log rho "
            f"{facts.standard_error:.3f} (median); converged: {facts.converged}"
        )
    rows = [
        [one.name, one.target, f"{one.rate.value:.1%}", f"{one.baseline.value:.1%}"]
        for one in found.summary.attacks
        if one.kind == "prior"
    ]
    print_table(["attack", "prior", "named first", "before"], rows)
    print(
        f"{seconds:.0f} s with the attacks that need no model, {time.process_time() - spent:.0f} "
        f"processor seconds, load {os.getloadavg()[0]:.0f}"
    )


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
        "--only", choices=["speed", "unknown", "rho", "households", "alarms"], default="speed"
    )
    parser.add_argument("--records", type=int, default=None)
    parser.add_argument("--homes", type=int, default=100)
    parser.add_argument("--keys", type=int, default=6)
    parser.add_argument("--model", default="hdp")
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--sweeps", type=int, default=40_000)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--most-error", type=float, default=0.2)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=None)
    parser.add_argument("--copies", action="store_true")
    parser.add_argument("--unequal", action="store_true")
    options = parser.parse_args()
    records = {"alarms": 2_000, "unknown": 10_000, "rho": 300}
    options.records = options.records or records.get(options.only, 50_000)
    print(machine())
    globals()[options.only](options)


if __name__ == "__main__":
    main()
