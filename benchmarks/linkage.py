"""Expected links of an intruder whose keys have errors, beside links that are made.

    python benchmarks/linkage.py --samples 3 --model auto

Samples of the Adult data, which are the population. The keys of the whole population are spoilt at
given rates, and three intruders link every sample unique of the sample: one takes the person with
the largest match weight by agreement of each key, as `assess --key-errors` supposes; one knows how
frequent every combination is among the spoilt records, and takes the person who is most probably
the right one; and one links by exact agreement alone. Links that are correct are averaged over
several spoilt populations; of ties each counts by its chance.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pandas as pd
from common import data_file, machine, print_table

KEYS = ["age", "sex", "race", "marital_status", "education", "workclass", "occupation"]
RATES = {
    "none": [(0.0, 0.0)] * 7,
    "2%": [(0.02, 0.0)] * 7,
    "5%": [(0.05, 0.0)] * 7,
    "by key": [(0.1, 0.0), (0.002, 0.0), (0.02, 0.0), (0.05, 0.05), (0.1, 0.0), (0.1, 0.1),
               (0.15, 0.1)],
}  # fmt: skip


def spoilt(codes, rates, matrices, rng):
    """Records with errors; -1 where a value is missing."""
    found = codes.copy()
    for j, (_, missing) in enumerate(rates):
        matrix = matrices[j].cumsum(axis=1)
        drawn = (rng.random(len(codes))[:, None] > matrix[codes[:, j]][:, :-1]).sum(axis=1)
        found[:, j] = np.where(rng.random(len(codes)) < missing, -1, drawn)
    return found


def correct(weights, right):
    """Probability that the largest weight, one of these at random, is the right one's, (n,)."""
    best = weights.max(axis=1)
    ties = (weights >= best[:, None] - 1e-9).sum(axis=1)
    own = weights[np.arange(len(right)), right]
    return np.where(own >= best - 1e-9, 1.0 / ties, 0.0)


def linked(people, file, sample, rates, matrices, margins):
    """Correct links of the three intruders among the records `sample` of the population."""
    n, n_keys = people.shape
    weights, exact = np.zeros((len(sample), n)), np.ones((len(sample), n), bool)
    joint = np.zeros((len(sample), n))
    for j in range(n_keys):
        x, y = people[sample, j][:, None], file[:, j][None, :]
        matrix, there = matrices[j], y >= 0
        q = margins[j] @ matrix
        agree = np.diag(matrix)[people[sample, j]]
        share = q[people[sample, j]]
        with np.errstate(divide="ignore"):
            a, d = np.log(agree / share), np.log((1.0 - agree) / np.maximum(1.0 - share, 1e-300))
            likelihood = np.log(matrix)
        weights += np.where(there, np.where(x == y, a[:, None], d[:, None]), 0.0)
        exact &= x == y
        with np.errstate(divide="ignore"):
            known = np.log(1.0 - rates[j][1]) + likelihood[x, np.maximum(y, 0)]
            joint += np.where(there, known, np.log(rates[j][1]))
    _, place, counts = np.unique(file, axis=0, return_inverse=True, return_counts=True)
    joint -= np.log(counts[place.ravel()])[None, :]
    ties = exact.sum(axis=1)
    same = exact[np.arange(len(sample)), sample]
    return (
        correct(weights, sample).sum(),
        correct(joint, sample).sum(),
        np.where(same, 1.0 / np.maximum(ties, 1), 0.0).sum(),
    )


def by_splink(n: int) -> None:
    """Link n persons with their spoilt records."""
    from unikat.spec.key_errors import Rates
    from unikat.synthesis.attacks.linkage import blocking, link

    names = ["PUMA", "AGEP", "SEX", "RAC1P", "MAR", "SCHL", "COW", "CIT", "OCC"]
    frame = pd.read_parquet(data_file("acs2024_persons_west"))[names]
    codes = np.stack([pd.factorize(frame[name])[0] for name in names], axis=1).astype(np.int32)
    rng = np.random.default_rng(1)
    people = codes[rng.choice(len(codes), n, replace=False)]
    order = rng.permutation(n)
    file = people[order]
    for j in range(len(names)):
        wrong = rng.random(n) < 0.03
        file[wrong, j] = people[rng.integers(0, n, wrong.sum()), j]
        file[rng.random(n) < 0.02, j] = -1
    rates = [Rates(0.03, 0.02)] * len(names)
    begun, worked = time.perf_counter(), time.process_time()
    blocking(people, file, rates)
    blocked = time.perf_counter() - begun
    begun = time.perf_counter()
    found = link(people, file, names, rates, (np.arange(n), order), n_threads=2).facts
    every = found.accepted[0]
    print(
        f"{n:,} records: {time.perf_counter() - begun:.1f} s, {blocked:.1f} s of them blocking; "
        f"{time.process_time() - worked:.1f} s of the processor with blocking twice; "
        f"{found.n_pairs:,} pairs, {found.compared:.1%} of the true ones; {every.n_correct:,.0f} "
        f"links are right, {found.joined.n_correct:,.0f} by a join"
    )


def main() -> None:
    """Print estimates with their intervals, and the links that are made."""
    import unikat
    from unikat.inference.plan import Plan, StopRule
    from unikat.protection.linkage import linkage
    from unikat.protection.perturbation import wrong_matrix
    from unikat.protection.what_if import Posterior
    from unikat.spec.key_errors import Rates
    from unikat.studies.fit import fit

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--records", type=int, default=1_500)
    parser.add_argument("--files", type=int, default=3)
    parser.add_argument("--model", default="latent-class")
    parser.add_argument("--splink", type=int, help="link so many persons by Splink, and no more")
    options = parser.parse_args()
    print(machine())
    if options.splink:
        by_splink(options.splink)
        return
    frame = pd.read_parquet(data_file("adult_48842"))[KEYS]
    people = np.stack([pd.factorize(frame[name], sort=True)[0] for name in KEYS], axis=1)
    if (people < 0).any():
        people = people - people.min(axis=0)
    _, place, counts = np.unique(people, axis=0, return_inverse=True, return_counts=True)
    place = place.ravel()
    rows = []
    for seed in range(options.samples):
        rng = np.random.default_rng(seed)
        sample = np.sort(rng.choice(len(people), options.records, replace=False))
        whole = unikat.Design(population_size=len(people))
        table = unikat.read(
            pd.DataFrame(people[sample], columns=KEYS), KEYS, whole, missing="level"
        ).tabulate()
        fitted = fit(options.model, table, plan=Plan(n_chains=2, stop=StopRule(max_sweeps=600)))
        posterior = Posterior.of(fitted)
        alone = np.bincount(place[sample], minlength=len(counts))[place[sample]] == 1
        uniques = sample[alone]
        for name, rates in RATES.items():
            begun = time.perf_counter()
            found = linkage(posterior, [Rates(*one) for one in rates], 0.95)
            seconds = time.perf_counter() - begun
            n_levels = people.max(axis=0) + 1
            matrices = [
                wrong_matrix(people[:, j], n_levels[j], wrong) for j, (wrong, _) in enumerate(rates)
            ]
            margins = [
                np.bincount(people[:, j], minlength=n_levels[j]) / len(people)
                for j in range(len(KEYS))
            ]
            made = np.zeros(3)
            for _ in range(options.files):
                file = spoilt(people, rates, matrices, rng)
                for some in np.array_split(uniques, max(len(uniques) // 200, 1)):
                    made += linked(people, file, some, rates, matrices, margins)
            made /= options.files
            told = [
                f"{one.mean:.0f} ({one.lower:.0f} to {one.upper:.0f})"
                for one in (found.correct, found.exact)
            ]
            rows.append([seed, len(uniques), name, told[0], f"{made[0]:.0f}", f"{made[1]:.0f}",
                         told[1], f"{made[2]:.0f}", f"{seconds:.1f}"])  # fmt: skip
            print(rows[-1], flush=True)
    print_table(
        ["sample", "uniques", "errors", "correct links", "made", "made by joint frequencies",
         "exact links", "made", "s"], rows,
    )  # fmt: skip


if __name__ == "__main__":
    main()
