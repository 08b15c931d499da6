"""Samples of whole households: keys that members share at the level of the household.

    python benchmarks/shared_at_household.py FOLDER --cases 100
    python benchmarks/shared_at_household.py FOLDER --table
    python benchmarks/shared_at_household.py FOLDER --check

The cases are those of sampled_households.py: first all samples with five or six shared keys, then,
in turn, samples with three or four and with none to two. Persons are the units of the risk in all
of them. The models are

1. latent classes of persons, with all members as draws;
2. the same without the companions of a record (`kernels.thinning`);
3. the nested model of households: shared keys are keys of the household, all others are keys of its
   members. Given the parameters, a household that was not sampled has no member in the cell (h, x)
   of a sample unique with probability

       1 - sum_g pi_g prod_k lambda_gk(h_k) sum_s lambda_g(s) (1 - (1 - q_g(x))^s),
       q_g(x) = sum_m omega_gm prod_k phi_gmk(x_k),

   and there are (N - n) / sum_g pi_g sum_s lambda_g(s) s of them. Where the size is itself one of
   the shared keys, s is that of the record. --check compares this with households drawn from a
   state;
4. two levels (`models.mixtures.homes`): latent classes of *households* give the law of h, and the
   persons' of 2 that of x given h.

Printed are the errors of the models alone: no error of the model is learned or added, so that an
interval holds the posterior distribution of the expected τ1 and binomial chance. A fifth line is
the mixture of 2 and 4 in equal parts. The log score is of each sample unique: is it unique in the
population? `NESTED` says to which cases the nested model is fitted. Results are in
docs/design/companions.md.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import print_table
from learning import SHARES, command, scored, shares, survey, tabulated
from sampled_households import CHAINS, KEPT, SWEEPS, WARM_UP, drawn

FEWEST, MOST = 600, 2000
"""Persons of a sample with fewer than five shared keys."""
EARLIER, ALL = 166, 212
"""Cases of sampled_households.py among which those to run are looked for: those of the table in
docs/accuracy.md, and with the further samples of which it tells."""
NESTED = {*range(14), *range(45, 60)}
"""Places in `order` of cases to which the nested model is fitted, which takes most of the time."""
LEAST = 20
"""True τ1 of a case that the table shows."""
METHODS = ("all members", "without the others", "nested", "two levels")
NESTED_SWEEPS = 400, 1000
"""Sweeps of the nested model left out, and all."""
NODES, WIDTHS = np.polynomial.legendre.leggauss(8)
POINTS, WIDTHS = 0.25 * (NODES + 1.0) ** 2, 0.5 * (NODES + 1.0) * WIDTHS
"""Points t = u² and weights of an integral from 0 to 1, in which r1 is smooth near t = 0."""


class Sample(NamedTuple):
    """A sample of whole households as the nested model reads it."""

    table: Any
    cells: np.ndarray
    """(n_uniques, n_household_keys + n_person_keys): shared, then own codes of the uniques."""
    sizes: np.ndarray
    """(n_uniques,): codes of the sizes of their households; -1 where the size is no key."""


@cache
def order() -> list[int]:
    """Cases to run: those with five or six shared keys, others, further ones with five or six."""
    groups: dict[str, list[int]] = {"many": [], "some": [], "few": []}
    for case in range(EARLIER):
        found = drawn(case)
        n_shared, n = found["n_shared"], len(found["sampled"])
        if n_shared >= 5:
            groups["many"].append(case)
        elif FEWEST <= n <= MOST:
            groups["some" if n_shared >= 3 else "few"].append(case)
    rest = [case for pair in zip(groups["some"], groups["few"], strict=False) for case in pair]
    further = [case for case in range(EARLIER, ALL) if drawn(case)["n_shared"] >= 5]
    return groups["many"] + rest + further


def household_sample(found: dict[str, Any], codes: np.ndarray, uniques: np.ndarray) -> Sample:
    """Tabulate households; codes (n, n_keys) of the sampled persons, uniques: rows of these."""
    from unikat import CellTable, Key
    from unikat.data.households import HouseholdLayout

    home, n_own = found["household"], codes.shape[1] - found["n_shared"]
    sizes = np.bincount(home)
    # A shared key that tells the size, and that the size tells, is the size.
    is_size = np.array([
        len(np.unique(np.column_stack((codes[:, k], sizes[home])), axis=0))
        == len(np.unique(codes[:, k])) == len(np.unique(sizes))
        for k in range(n_own, codes.shape[1])
    ], bool)  # fmt: skip
    shared = np.flatnonzero(~is_size) + n_own
    largest = max(int(sizes.max()), 2)
    keys = tuple(
        Key.of_size(f"key {k}", max(int(codes[:, k].max()) + 1, 2)) for k in range(codes.shape[1])
    )
    layout = HouseholdLayout(
        household_keys=(Key.of_size("size", largest), *(keys[k] for k in shared)),
        person_keys=keys[:n_own],
        n_slots=largest,
    )
    by_home = np.argsort(home, kind="stable")
    first = by_home[np.cumsum(sizes) - sizes]
    households = np.column_stack((sizes - 1, codes[first][:, shared]))
    rows = layout.pack(households, codes[by_home, :n_own])
    n_homes = int(len(found["codes"]) * len(rows) / len(codes))
    table = CellTable.from_codes(rows, layout.columns, n_homes, layout=layout)
    size = sizes[home[uniques]] - 1 if is_size.any() else np.full(len(uniques), -1)
    return Sample(table, codes[uniques][:, [*shared, *range(n_own)]], size)


def members_in(state: Any, data: Any, sample: Sample, t: np.ndarray) -> tuple[np.ndarray, float]:
    """One less the mean of t^(members of a random household in a cell), (len(t), n_cells).

    At t = 0 this is the probability that it has a member there. Also the mean size.
    """
    columns = data.columns
    pi, omega, lam = state.pi, state.omega, state.lam.astype(np.float64)
    n_shared = len(columns.offsets) - 2
    weight = np.repeat(pi[None, :], len(sample.cells), axis=0)
    for k in range(n_shared):
        weight *= lam[columns.offsets[1 + k] + sample.cells[:, k]]
    product = np.repeat(omega.reshape(1, -1), len(sample.cells), axis=0)
    for k in range(sample.cells.shape[1] - n_shared):
        product *= state.phi[columns.first_rows[k, 0] + sample.cells[:, n_shared + k]]
    q = product.reshape(len(product), *omega.shape).sum(axis=2)
    law = lam[: columns.offsets[1]]
    chance = np.repeat(law[:, None, :], len(q), axis=1)
    fixed = sample.sizes >= 0
    chance[:, fixed] *= (np.arange(len(law))[:, None] == sample.sizes[fixed])[:, :, None]
    found = np.empty((len(t), len(q)))
    for place, one in enumerate(t):
        each, power, some = 1.0 - q * (1.0 - one), np.ones_like(q), np.zeros_like(q)
        for of_size in chance:
            power *= each
            some += of_size * (1.0 - power)
        found[place] = (weight * some).sum(axis=1)
    return found, float(pi @ law.T @ np.arange(1, len(law) + 1))


def risks(missing: np.ndarray, units: float) -> np.ndarray:
    """r1, r2 and E[1/F²] of sample uniques, (3, n), with so many units drawn independently.

    missing (1 + n_points, n): one less the mean of t^(persons that a unit has in the cell), at 0
    and at POINTS. The mean of t^(F - 1) integrated over t is that of 1/F, and times -log t of 1/F².
    """
    mean = np.exp(units * np.log1p(-np.minimum(missing, 1.0 - 1e-12)))
    return np.stack((mean[0], WIDTHS @ mean[1:], (-np.log(POINTS) * WIDTHS) @ mean[1:]))


def summary(kept: list[np.ndarray]) -> dict[str, np.ndarray]:
    """Means and variances of τ1 and τ2, r1 by record, and expected τ1 by draw."""
    of = np.array(kept)
    r1, r2, square = of[:, 0], of[:, 1], of[:, 2]
    total1, total2 = r1.sum(axis=1), r2.sum(axis=1)
    within1 = (r1 * (1.0 - r1)).sum(axis=1).mean()
    within2 = np.maximum(square - r2 * r2, 0.0).sum(axis=1).mean()
    answers = np.array(
        [total1.mean(), within1 + total1.var(), total2.mean(), within2 + total2.var()]
    )
    return {"answers": answers, "r1": r1.mean(axis=0), "draws": total1}


def states(model: Any, data: Any, sweeps: tuple[int, int] = (WARM_UP, SWEEPS)) -> Any:
    """Fit by all chains; yield the kept states with their random stream."""
    from unikat.models.base import Stream

    warm_up, last = sweeps
    every = (last - warm_up) * CHAINS // KEPT
    for chain in range(CHAINS):
        state = model.init(Stream(1, chain, 0), data)
        for sweep in range(1, last + 1):
            stream = Stream(1, chain, sweep)
            state, info = model.step(stream, state, data, 1)
            if sweep > warm_up and (sweep - warm_up) % every == 0:
                yield stream, state, info


def prepared(case: int) -> tuple[dict[str, Any], Any, np.ndarray, Sample]:
    """Return a case as drawn, its persons, the population counts of its uniques, its households."""
    found = drawn(case)
    table, counts = tabulated(found["codes"], found["sampled"], found["chosen"], found["sampled"])
    table = replace(table, households=found["household"].astype(np.int32))
    codes = table.cells[table.record_cell]
    first = np.unique(table.record_cell, return_index=True)[1]
    sample = household_sample(found, codes, first[table.unique])
    return found, table, counts[table.unique], sample


def run_case(place: int, folder: Path) -> str:
    """Fit both models to the case of a place in `order`."""
    from unikat import LatentClass
    from unikat.data.companions import companions_of
    from unikat.models.households.nested import NestedHouseholds
    from unikat.risk.by_class import Look
    from unikat.risk.exposure import exposure_of

    case = order()[place]
    found, table, truth, sample = prepared(case)
    uniques = np.ascontiguousarray(table.cells[table.unique])
    if len(uniques) < 5:
        return f"{case}: too few sample uniques"
    rest = float(table.n_units - table.n_records)
    points = np.concatenate(([0.0], POINTS))
    kept: dict[str, list[np.ndarray]] = {name: [] for name in METHODS}
    seconds = [time.process_time()]

    model = LatentClass()
    data, exposure = model.prepare(table), exposure_of(table)
    companions = companions_of(table, uniques)
    for stream, state, _ in states(model, data):
        persons = Look(stream, model, state._replace(homes=()), data._replace(homes=None))
        p = [
            exposure.chances(persons, uniques),
            exposure.chances(persons, uniques, companions),
            exposure.chances(Look(stream, model, state, data), uniques, companions),
        ]
        for name, of in zip((*METHODS[:2], METHODS[3]), p, strict=True):
            kept[name].append(risks((1.0 - points[:, None]) * of, rest))
    seconds.append(time.process_time())

    classes = [[np.nan, np.nan]]
    if place in NESTED:
        nested = NestedHouseholds(composition="none")
        data, classes = nested.prepare(sample.table), []
        for _, state, info in states(nested, data, NESTED_SWEEPS):
            missing, mean = members_in(state, data, sample, points)
            kept["nested"].append(risks(missing, rest / mean))
            classes.append([info.values[f"n_{what}_classes"] for what in ("household", "person")])
    seconds.append(time.process_time())

    answer = {name: summary(draws) for name, draws in kept.items() if draws}
    nothing = {part: np.full_like(of, np.nan) for part, of in answer["two levels"].items()}
    answer.setdefault("nested", nothing)
    np.savez(
        folder / f"case-{place}.npz",
        case=case, source=found["source"], n=table.n_records, N=table.n_units,
        n_keys=table.n_keys, n_shared=found["n_shared"], uniques=len(truth), truth=truth,
        households=sample.table.n_records, has_size=bool((sample.sizes >= 0).any()),
        classes=np.mean(classes, axis=0), seconds=np.diff(seconds),
        **{part: np.array([answer[name][part] for name in METHODS])
           for part in ("answers", "r1", "draws")},
    )  # fmt: skip
    means = " ".join(f"{answer[name]['answers'][0]:.0f}" for name in METHODS)
    return (
        f"{case} {found['source']}: n {table.n_records}, {found['n_shared']} shared, true "
        f"{int((truth == 1).sum())}, {means}, {np.diff(seconds).round().tolist()} s"
    )


def read(path: Path) -> dict[str, Any]:
    """Read a case as it was kept."""
    with np.load(path) as file:
        return {name: file[name][()] for name in file.files}


def tables(cases: list[dict[str, Any]]) -> None:
    """Print every case, then errors and coverage of the models alone."""
    names = (*METHODS, "2 and 4 mixed")
    rows: list[list[object]] = []
    for c in cases:
        c |= {"true1": int((c["truth"] == 1).sum()), "true2": float((1.0 / c["truth"]).sum())}
        answers = [*c["answers"], mixture(c["answers"][1], c["answers"][3])]
        c["r1"] = [*c["r1"], (c["r1"][1] + c["r1"][3]) / 2.0]
        c["scores"] = [
            scored(c | {"answers": each.reshape(4, 1, 1)}, np.ones((1, 1)))
            if np.isfinite(each).all()
            else [np.nan] * 8
            for each in answers
        ]
        rows.append([
            int(c["case"]), str(c["source"]), int(c["n"]), int(c["households"]), int(c["n_shared"]),
            int(c["uniques"]), c["true1"],
            *(f"{mean:.0f} ± {variance**0.5:.0f}" for mean, variance in c["answers"][:, :2]),
            *(f"{r_hat(c['draws'][place]):.2f}" for place in (1, 3, 2)), *np.round(c["classes"]),
        ])  # fmt: skip
    print_table(["case", "survey", "n", "households", "shared", "uniques", "true τ1", *METHODS,
                 "R-hat of 2", "of 4", "of 3", "classes", "of persons"], rows)  # fmt: skip
    large = [c for c in cases if c["true1"] >= LEAST]
    looked_at = [c for c in large if c["case"] < EARLIER]
    many = [c for c in looked_at if c["n_shared"] >= 5]
    with_nested = [c for c in looked_at if np.isfinite(c["answers"]).all()]
    for title, part, groups in (
        ("All methods", with_nested, ((0, 2), (3, 4), (5, 6))),
        ("All samples", looked_at, ((0, 0), (1, 2), (3, 4), (5, 6))),
        ("Further samples", [c for c in large if c["case"] >= EARLIER], ((5, 6),)),
    ):
        if not part:
            continue
        print(f"\n{title}, by shared keys\n")
        print_errors(names, {
            f"{low} to {high}": [c for c in part if low <= c["n_shared"] <= high]
            for low, high in groups
        })  # fmt: skip
    print("\nFive or six shared keys, by survey\n")
    surveys = sorted({survey(c) for c in many})
    print_errors(names, {name: [c for c in many if survey(c) == name] for name in surveys})
    both, nested = np.array([c["seconds"] for c in with_nested]).T
    print(f"\nMedian processor seconds: latent classes of persons and of households "
          f"{np.median(both):.0f}, the nested model {np.median(nested):.0f}")  # fmt: skip


def print_errors(names: tuple[str, ...], groups: dict[str, list[dict[str, Any]]]) -> None:
    """Print the errors of each method in groups of cases that all have it."""
    rows: list[list[object]] = []
    for group, part in groups.items():
        for place, name in enumerate(names):
            of = np.array([c["scores"][place] for c in part])
            if len(of) and np.isfinite(of).all():
                score = np.mean([log_score(c, place) for c in part])
                rows.append([group, len(part), name, *shares(of), f"{score:.3f}"])
    print_table(["group", "samples", "model alone", *SHARES, "log score"], rows)


def mixture(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Means and variances of τ1 and τ2 of two models in equal parts."""
    both = (one + other) / 2.0
    both[1::2] += ((one - other) / 2.0)[::2] ** 2
    return both


def log_score(case: dict[str, Any], place: int) -> float:
    """Mean log-probability, in nats, of whether a sample unique is unique in the population."""
    r1 = np.clip(case["r1"][place], 1e-6, 1.0 - 1e-6)
    return float(np.where(case["truth"] == 1, np.log(r1), np.log1p(-r1)).mean())


def r_hat(draws: np.ndarray) -> float:
    """Split R-hat of draws of two chains of equal length."""
    parts = draws.reshape(2 * CHAINS, -1)
    within = parts.var(axis=1, ddof=1).mean()
    return float(np.sqrt(1.0 + parts.mean(axis=1).var(ddof=1) / within))


def check() -> None:
    """Compare the formulas with households drawn from a state of the nested model."""
    from unikat.models.households.nested import NestedHouseholds

    n, group = 400_000, 300
    points = np.concatenate(([0.0], POINTS))
    for case in (order()[0], order()[-1]):
        sample = prepared(case)[3]
        n_shared = len(sample.table.layout.household_keys) - 1

        def same_home(homes: np.ndarray, i: int, sample=sample, n_shared=n_shared) -> np.ndarray:
            """Which households have the shared keys of unique i."""
            size = (homes[:, 0] == sample.sizes[i]) | (sample.sizes[i] < 0)
            return size & (homes[:, 1:] == sample.cells[i, :n_shared]).all(axis=1)

        model: Any = NestedHouseholds(composition="none")
        data = model.prepare(sample.table)
        stream, state, _ = next(states(model, data, (100, 300)))
        missing, mean = members_in(state, data, sample, points)
        rows = model.simulate(stream._replace(chain=9), state, data, n)
        layout = sample.table.layout
        homes, members = layout.parts(rows)
        there = layout.present(rows)
        print(f"case {case}, nested: mean size {mean:.3f}, drawn {there.sum() / n:.3f}")
        off = []
        common = np.argsort(-missing[0])[:40]
        for i in common:
            alike = (members == sample.cells[i, n_shared:]).all(axis=2) & there
            inside = alike.sum(axis=1) * same_home(homes, i)
            drawn_ones = 1.0 - points[:, None] ** inside
            off.append((drawn_ones.mean(axis=1) - missing[:, i]) / drawn_ones.std(axis=1) * n**0.5)
            if i == common[0]:
                total = inside[: n // group * group].reshape(-1, group).sum(axis=1)
                of = [(total == 0).mean(), *((1.0 / (1.0 + total) ** k).mean() for k in (1, 2))]
                print("  r1, r2, E[1/F²] of the commonest cell:",
                      risks(missing[:, i : i + 1], group)[:, 0].round(4), "drawn", np.round(of, 4),
                      f"from {len(total)} populations of {group} households")  # fmt: skip
        print("  40 cells, root mean square of standard errors off:",
              np.sqrt(np.mean(np.square(off), axis=0)).round(2).tolist())  # fmt: skip


def main() -> None:
    """Run and print."""
    if "--check" in sys.argv:
        check()
    else:
        command(__doc__, run_case, 100, tables, read=read)


if __name__ == "__main__":
    main()
