"""Protection: seconds, what-if against new fits and the truth, and targets against the truth.

    python benchmarks/protection.py --only speed
    python benchmarks/protection.py --only joint
    python benchmarks/protection.py --only weighted --model hdp
    python benchmarks/protection.py --only smallest
    python benchmarks/protection.py --only what-if
    python benchmarks/protection.py --only subsample
    python benchmarks/protection.py --only suppressed --model auto:candidates=latent-class
    python benchmarks/protection.py --only perturbed --records 1000
    python benchmarks/protection.py --only target --trials 50

speed: the New York sample of 10,000 records and eight keys: what-if of single recodings by 400
states; and the search and the frontier of 10,000 census records. joint: the same with shares of
the records, and with perturbation and suppression allowed. weighted: processor time of the
search of 2,000 records of six keys with weights, beside that of the fit. smallest: 120 made records
of four keys protected to 'population_k >= 2' after 16 sweeps, as the fuzzer does. what-if: a sample
of each of ten populations, ten recodings of each drawn from those that the program makes: what-if
beside a new fit and the truth. subsample: 10%, 25% and 50% of the records of such samples, with
and without recoding: τ1 and τ2 of the released records by the one fit, and the truth. suppressed:
τ1 of the same samples after the values of records with r1 above a threshold are suppressed, and the
truth. perturbed: the same samples after PRAM of one key and of two, and protected to a target with
one key perturbed by 0.9, 0.7 or 0.5, which the search chooses: τ1 and τ2 of the file, and its
correct unique matches with the population. target: samples of the same populations protected to
'tau1 <= 5'; how often the true τ1 of the protected file is at most 5. --model auto takes minutes
for a sample; --apart takes twelve populations of six other surveys. Targets have the calibration of
`auto` that was learned without the survey of the population.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from common import DATA, cell_table, data_file, machine, print_table
from populations import APART, POPULATIONS, without_survey


def speed(options: argparse.Namespace) -> None:
    """Time what-if, search and frontier."""
    import unikat
    from unikat.inference.plan import Plan, StopRule
    from unikat.models.named import build_model
    from unikat.protection.hierarchies import choices
    from unikat.protection.recoding import parse_recoding
    from unikat.protection.search import Search, frontier
    from unikat.protection.what_if import Posterior
    from unikat.spec.limits import Limit
    from unikat.studies.fit import fit

    table = cell_table("ny2000_clean_10000")
    plan = Plan(stop=StopRule(max_sweeps=1_000))
    started = time.perf_counter()
    fitted = fit(build_model(options.model, {}), table, plan=plan)
    rows = [["fit of 1,000 sweeps", time.perf_counter() - started]]
    started = time.perf_counter()
    posterior = Posterior.of(fitted)
    rows.append([f"{sum(map(len, posterior.states))} states", time.perf_counter() - started])
    first = table.keys[0].name
    largest = max(table.keys, key=lambda key: key.n_levels).name
    for rules in ({}, {first: None}, {largest: "rare(0.05)"}, {first: None, largest: None}):
        recoding = parse_recoding(table, rules)
        posterior.estimate(recoding, 0.95, n_states=8)
        started = time.perf_counter()
        posterior.what_if(recoding)
        rows.append([f"what-if {rules}", time.perf_counter() - started])
    keys = ["AGEP", "SEX", "RAC1P", "MAR", "SCHL", "ESR", "CIT", "HISP"]
    people = pd.read_parquet(data_file("acs2024_persons_northeast"), columns=keys)
    whole = unikat.Design(population_size=len(people))
    sample = people.sample(10_000, random_state=1)
    table = unikat.read(sample, keys, whole, missing="level").tabulate()
    plan = Plan(stop=StopRule(max_sweeps=600))
    posterior = Posterior.of(fit(build_model(options.model, {}), table, plan=plan))
    for target in map(Limit.of, ("tau1_estimate <= 5", "tau1 <= 5", "population_k >= 5")):
        search = Search.of(
            choices(table),
            lambda recoding, target=target: posterior.value(recoding, target, 0.95),
        )
        started = time.perf_counter()
        found = frontier(search, target)
        rows.append(
            [
                f"{target}: search of {search.lost.size:,} plans, {found.n_looked_at:,} looked "
                f"at, {len(found.plans)} in the frontier",
                time.perf_counter() - started,
            ]
        )
    print_table(["what", "seconds"], [[what, f"{seconds:.2f}"] for what, seconds in rows])


def joint(options: argparse.Namespace) -> None:
    """Time the search among shares, recodings, perturbations and suppression."""
    import unikat
    from unikat.inference.plan import Plan, StopRule
    from unikat.models.named import build_model
    from unikat.protection.hierarchies import choices
    from unikat.protection.release import Releases
    from unikat.protection.released_plans import ReleasedPlans
    from unikat.protection.search import Search, frontier
    from unikat.protection.subsample import Shares
    from unikat.protection.what_if import Posterior
    from unikat.spec.limits import Limit
    from unikat.spec.perturbation import perturbations_of
    from unikat.studies.fit import fit

    keys = ["AGEP", "SEX", "RAC1P", "MAR", "SCHL", "ESR", "CIT", "HISP"]
    people = pd.read_parquet(data_file("acs2024_persons_northeast"), columns=keys)
    whole = unikat.Design(population_size=len(people))
    sample = people.sample(10_000, random_state=1)
    table = unikat.read(sample, keys, whole, missing="level").tabulate()
    posterior = Posterior.of(
        fit(build_model(options.model, {}), table, plan=Plan(stop=StopRule(max_sweeps=600)))
    )
    target, shares = Limit.of(options.target), Shares.of([0.25, 0.5, 1.0], 10_000, seed=1)
    search = Search.of(
        choices(table), lambda one: posterior.value(one, target, 0.95), shares=shares
    )
    releases = Releases(
        posterior=posterior, codes=table.cells[table.record_cell], assessed=np.arange(10_000),
        weights=[1.0] * len(keys), level=0.95, weight_of_suppressed=3.0, shares=shares, seed=1,
    )  # fmt: skip
    pram = {"AGEP": (0.7, 0.9, 1.0), "SCHL": (0.7, 0.9, 1.0)}
    rows, cpu, wall = [], time.process_time(), time.perf_counter()

    def note(what: str) -> None:
        nonlocal cpu, wall
        rows.append([what, f"{time.process_time() - cpu:.1f}", f"{time.perf_counter() - wall:.1f}"])
        cpu, wall = time.process_time(), time.perf_counter()

    found = frontier(search, target, posterior.tau1)
    lost = 1.0 if found.reached is None else found.reached.lost
    note(f"search of {search.lost.size:,} plans, {found.n_looked_at:,} looked at, {lost:.3f} lost")
    for suppress in (False, True):
        plans = ReleasedPlans(
            releases=releases, target=target, perturbations=perturbations_of(pram),
            suppress=suppress,
        )  # fmt: skip
        best = plans.best(found.plans, lost)
        said = "none is cheaper"
        if best is not None:
            said = f"{best.release.lost:.3f} lost by {best.release.pram}, {best.release.rule}"
        note(f"perturbation{' and suppression' * suppress}: {len(plans.seen)} looks, {said}")
    print_table(["what", "processor seconds", "seconds"], rows)


def weighted(options: argparse.Namespace) -> None:
    """Processor time of a fit and of the search, of a sample with weights."""
    import unikat
    from unikat.inference.backends import Workers
    from unikat.inference.plan import Plan, StopRule
    from unikat.models.named import build_model
    from unikat.protection.hierarchies import choices
    from unikat.protection.search import Search
    from unikat.protection.what_if import Posterior
    from unikat.spec.limits import Limit
    from unikat.studies.auto import Execution
    from unikat.studies.fit import fit

    keys = ["AGEP", "SEX", "RAC1P", "MAR", "SCHL", "ESR"]
    people = pd.read_parquet(data_file("acs2024_persons_northeast"), columns=[*keys, "PWGTP"])
    people = people[people["PWGTP"] > 0]
    sample = people.sample(options.records, random_state=1, weights=1.0 / people["PWGTP"])
    weights = sample["PWGTP"] * (len(people) / sample["PWGTP"].sum())
    design = unikat.Design(weights="weight")
    table = unikat.read(sample.assign(weight=weights), keys, design, missing="level").tabulate()
    plan = Plan(stop=StopRule(max_sweeps=options.sweeps))
    target, alone = Limit.of(options.target), Execution(workers=Workers(n_workers=1))
    rows = []
    started = time.process_time()
    fitted = fit(build_model(options.model, {}), table, plan=plan, execution=alone)
    rows.append([f"fit, {fitted.draws.n_sweeps:,} sweeps", time.process_time() - started])
    started = time.process_time()
    posterior = Posterior.of(fitted)
    rows.append(["states", time.process_time() - started])
    search = Search.of(choices(table), lambda one: posterior.value(one, target, 0.95))
    started = time.process_time()
    found = search.best(target)
    lost = "no plan" if found is None else f"{found.lost:.3f} lost"
    what = f"search of {search.lost.size:,} plans, {len(search.seen):,} looked at, {lost}"
    rows.append([what, time.process_time() - started])
    head = ["what", "processor seconds"]
    print_table(head, [[what, f"{seconds:.1f}"] for what, seconds in rows])


def smallest(options: argparse.Namespace) -> None:
    """Time a small run with a target of the smallest combination of the population."""
    import unikat

    rng = np.random.default_rng(5)
    people = pd.DataFrame(
        {
            "age": rng.integers(20, 60, 120),
            "sex": rng.integers(1, 3, 120),
            "work": rng.choice(["office", "farm", "mine", "school"], 120),
            "area": rng.exponential(1.7, 120).astype(int),
        }
    )
    rows = []
    # The first compiles, or loads what was compiled.
    for target in ("tau1 <= 50", "tau1 <= 50", "population_k >= 2", "population_k >= 50"):
        started = time.process_time()
        found = unikat.protect(
            people, keys=list(people), population_size=3000, target=target, model=options.model,
            chains=2, workers=1, max_sweeps=16, progress=False,
        )  # fmt: skip
        seconds = time.process_time() - started
        rows.append([target, found.summary.n_looked_at, found.summary.by_plan, f"{seconds:.1f}"])
    print_table(["target", "plans looked at", "reached", "processor seconds"], rows)


class Sampled(NamedTuple):
    """A population, and a sample of it."""

    keys: list[str]
    sample: pd.DataFrame
    rows: np.ndarray
    """Of the sample in the population."""
    everybody: Any
    """The population as a table of cells."""

    @classmethod
    def of(cls, name: str, n: int, trial: int) -> Sampled:
        """Draw n records, at most a fifth of the population."""
        import unikat

        source, keys = (POPULATIONS | APART)[name]
        columns = [key.split(":")[0] for key in keys]
        people = pd.read_parquet(DATA / f"{source}.parquet", columns=columns)
        if source.startswith("acs2024"):
            people = people[people["AGEP"] >= 18]
        n = min(n, len(people) // 5)
        rows = np.random.default_rng([trial, len(people)]).choice(len(people), n, replace=False)
        whole = unikat.Design(population_size=len(people))
        everybody = unikat.read(people, keys, whole, missing="level").tabulate()
        return cls(keys, people.iloc[rows], rows, everybody)

    def true_tau1(self, recoding: Any, *, unseen_are_other: bool) -> int:
        """Sample uniques of the recoded sample that are population unique."""
        return int((self.counts(recoding, unseen_are_other=unseen_are_other)[1] == 1).sum())

    def counts(self, recoding: Any, *, unseen_are_other: bool) -> tuple[Any, Any]:
        """Cell of each recoded record of the sample, and F of it.

        Rules of numbers hold for all levels of the population. Levels that the sample does not have
        are rare: they are among the `other` of a rule that merges rare ones; or, the best case of
        an intruder, groups of their own, as if the file said of which levels `other` consists.
        """
        from unikat.protection.groups import level_names
        from unikat.protection.recoding import Recoding, recode_key, unchanged

        counts = [np.zeros(key.n_levels, np.int64) for key in self.everybody.keys]
        keys = []
        for key, count, one in zip(self.everybody.keys, counts, recoding.keys, strict=True):
            rule = one.rule
            if isinstance(rule, Mapping):
                names = set(level_names(key))
                rule = {level: group for level, group in rule.items() if level in names}
                if unseen_are_other and one.rule and one.text.startswith("rare"):
                    other = next(iter(one.rule.values()))
                    rule |= dict.fromkeys(names - set(one.named or ()), other)
            keys.append(unchanged(key) if not rule else recode_key(key, count, rule))
        codes = Recoding(keys=tuple(keys)).codes(self.everybody.cells)[self.everybody.record_cell]
        _, place, size = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
        place = place.ravel()[self.rows]
        return place, size[place]


def random_recodings(table: Any, trial: int) -> list[Any]:
    """Ten recodings, each of keys whose recodings are drawn from those the program makes."""
    from unikat.protection.hierarchies import choices
    from unikat.protection.recoding import Recoding

    rng = np.random.default_rng([2, trial])
    parts = choices(table)
    found = []
    while len(found) < 10:
        changed = rng.random(len(parts)) < 0.4
        keys = tuple(
            one.recodings[rng.integers(len(one.recodings)) if some else 0]
            for one, some in zip(parts, changed, strict=True)
        )
        recoding = Recoding(keys=keys)
        if recoding.changes and len(recoding.kept) >= 2:
            found.append(recoding)
    return found


def assessed(drawn: Sampled, options: argparse.Namespace, **more: Any) -> Any:
    """The assessment of a sample."""
    import unikat

    return unikat.assess(
        drawn.sample, keys=drawn.keys, population_size=drawn.everybody.n_records,
        model=options.model, max_sweeps=options.sweeps, progress=False, missing="level",
        workers=options.workers, **more,
    )  # fmt: skip


def what_if(options: argparse.Namespace) -> None:
    """Compare what-if with new fits and with the truth."""
    import unikat

    rows, differences, missed = [], [], 0
    holds = np.zeros(2, int)
    errors = np.zeros(2)
    for trial, name in enumerate(POPULATIONS):
        drawn = Sampled.of(name, options.records, trial)
        given = {
            "population_size": drawn.everybody.n_records, "model": options.model,
            "progress": False, "max_sweeps": options.sweeps, "missing": "level",
        }  # fmt: skip
        result = unikat.assess(drawn.sample, keys=drawn.keys, **given)
        table = result.estimate.table
        for recoding in random_recodings(table, trial):
            found = result.what_if(recoding).tau1
            coarse = pd.DataFrame(recoding.codes(table.cells)[table.record_cell]).astype(str)
            coarse.columns = [f"K{j}" for j in range(coarse.shape[1])]
            new = unikat.assess(coarse, keys=list(coarse.columns), **given).tau1
            true = drawn.true_tau1(recoding, unseen_are_other=True)
            words = ", ".join(f"{one.name} {one.text}" for one in recoding.keys if one.changes)
            rows.append([name, words, true, f"{found.mean:.1f}", f"{new.mean:.1f}"])
            for i, one in enumerate((found, new)):
                holds[i] += one.lower <= true <= one.upper
                errors[i] += abs(one.mean - true)
            differences.append(abs(found.mean - new.mean) / max(new.mean, 1.0))
            missed += abs(found.mean - new.mean) > max(0.03 * new.mean, 1.0)
            print(rows[-1], flush=True)
    print_table(["population", "recoding", "true τ1", "what-if", "new fit"], rows)
    print(
        f"{len(rows)} recodings: intervals contain the true value in {holds[0]} (what-if) and "
        f"{holds[1]} (new fit); mean errors {errors[0] / len(rows):.1f} and "
        f"{errors[1] / len(rows):.1f} records; means differ by "
        f"{np.mean(differences):.1%} on average, by more than 3% and one "
        f"record in {missed}"
    )


def subsample(options: argparse.Namespace) -> None:
    """Compare τ1 and τ2 of released shares of a sample with the truth."""
    from unikat.protection.recoding import parse_recoding
    from unikat.protection.subsample import Shares

    rows, contained, errors, n = [], np.zeros(2, int), np.zeros(2), 0
    for trial, name in enumerate(POPULATIONS):
        drawn = Sampled.of(name, options.records, trial)
        result = assessed(drawn, options)
        table = result.estimate.table
        shares = Shares.of([0.1, 0.25, 0.5], table.n_records, seed=trial)
        for recoding in (parse_recoding(table, {}), *random_recodings(table, trial)[:2]):
            cell, size = drawn.counts(recoding, unseen_are_other=True)
            for share, held in zip(shares.shares, shares.held, strict=True):
                assert held is not None
                found = result._posterior.what_if(replace(recoding, held=held))
                _, first, same = np.unique(cell[~held], return_index=True, return_counts=True)
                of_uniques = size[~held][first[same == 1]]
                true = (of_uniques == 1).sum(), (1.0 / of_uniques).sum()
                n += 1
                for i, one in enumerate((found.tau1, found.tau2)):
                    contained[i] += one.lower <= true[i] <= one.upper
                    errors[i] += one.mean - true[i]
                rows.append([name, f"{share:.0%}", recoding.changes, true[0],
                             f"{found.tau1.mean:.1f}", f"{true[1]:.1f}",
                             f"{found.tau2.mean:.1f}"])  # fmt: skip
    print_table(["population", "share", "recoded", "true τ1", "τ1", "true τ2", "τ2"], rows)
    print(f"{n} released samples: intervals contain τ1 in {contained[0]} and τ2 in {contained[1]}; "
          f"mean errors {errors[0] / n:+.2f} and {errors[1] / n:+.2f}")  # fmt: skip


def suppressed(options: argparse.Namespace) -> None:
    """Compare τ1 after suppression by thresholds of r1 with the truth."""
    from unikat.data.patterns import agreeing_sums
    from unikat.protection.perturbed import correct_matches
    from unikat.protection.recoding import parse_recoding
    from unikat.protection.release import suppressed_values
    from unikat.spec.limits import Limit

    rows = []
    for trial, name in enumerate(POPULATIONS):
        drawn = Sampled.of(name, options.records, trial)
        result = assessed(drawn, options)
        posterior, table = result._posterior, result.estimate.table
        recoding, codes = parse_recoding(table, {}), table.cells[table.record_cell]
        weights = [1.0] * table.n_keys
        # The population in the levels of the sample; others are in none.
        maps = [
            np.array([ours.levels.index(one) if one in ours.levels else -2 for one in key.levels])
            for key, ours in zip(drawn.everybody.keys, table.keys, strict=True)
        ]
        columns = drawn.everybody.cells.T
        cells = np.stack([m[one] for m, one in zip(maps, columns, strict=True)], axis=1)
        n_levels = [n + 1 for n in table.n_levels]
        cells = np.where(cells < 0, table.n_levels, cells).astype(np.int32)
        people = drawn.everybody.counts[:, None].astype(float)
        sample = table.counts[:, None].astype(float)
        for threshold in (0.5, 0.2, 0.1, 0.05, 0.02):
            gone = suppressed_values(
                Limit.of(f"r1 <= {threshold}"), posterior, recoding, codes, weights, ()
            )
            shown = np.where(gone, -1, codes).astype(np.int32)
            found = correct_matches(posterior, recoding, shown, 0.95, None, codes)
            alone = agreeing_sums(shown, table.cells, sample, n_levels)[:, 0] == 1.0
            of_uniques = agreeing_sums(shown[alone], cells, people, n_levels)[:, 0]
            one = found.tau1
            rows.append([name, threshold, int(gone.sum()), int((of_uniques == 1).sum()),
                         f"{one.mean:.1f} ({one.lower:.0f} to {one.upper:.0f})",
                         f"{(1.0 / of_uniques).sum():.1f}", f"{found.tau2.mean:.1f}"])  # fmt: skip
            print(rows[-1], flush=True)
    head = ["population", "r1 <=", "values suppressed", "true τ1", "τ1", "true τ2", "τ2"]
    print_table(head, rows)


def perturbed(options: argparse.Namespace) -> None:
    """Compare τ1 and τ2 of perturbed files with their correct unique matches."""
    from unikat.protection.hierarchies import choices
    from unikat.protection.recoding import parse_recoding
    from unikat.protection.release import Releases
    from unikat.protection.released_plans import ReleasedPlans
    from unikat.protection.search import Plan, Search, Value, frontier
    from unikat.spec.limits import Limit
    from unikat.spec.perturbation import perturbations_of

    rows, contained, errors, n = [], np.zeros(2, int), np.zeros(2), 0
    target, kept = Limit.of(options.target), []
    for trial, name in list(enumerate(POPULATIONS))[options.first :]:
        drawn = Sampled.of(name, options.records, trial)
        result = assessed(drawn, options)
        posterior, table = result._posterior, result.estimate.table
        releases = Releases(
            posterior=posterior, codes=table.cells[table.record_cell], level=0.95, seed=trial,
            assessed=np.arange(table.n_records), weights=[1.0] * table.n_keys,
        )  # fmt: skip
        names = [key.name for key in sorted(table.keys, key=lambda key: -key.n_levels)]
        plan = Plan(recoding=parse_recoding(table, {}), lost=0.0, value=Value(0.0, 0.0))
        for pram in ({names[0]: 0.7}, {names[1]: 0.5}, {names[0]: 0.5, names[2]: 0.5}):
            release = releases.of(plan, pram, None)
            found = releases.matches(release)
            true = true_matches(drawn, release)
            n += 1
            for i, one in enumerate((found.tau1, found.tau2)):
                contained[i] += one.lower <= true[i] <= one.upper
                errors[i] += one.mean - true[i]
            rows.append([name, pram, true[0], f"{found.tau1.mean:.1f}", f"{true[1]:.1f}",
                         f"{found.tau2.mean:.1f}"])  # fmt: skip
            print(rows[-1], flush=True)
        # Ages and areas of many levels are what an office would perturb.
        pram = {names[0]: (0.9, 0.7, 0.5)}
        search = Search.of(
            choices(table, there=[names[0]]),
            lambda recoding, its=posterior: its.value(recoding, target, 0.95),
        )
        plans = ReleasedPlans(
            releases=releases, target=target, perturbations=perturbations_of(pram), suppress=False
        )
        unperturbed = frontier(search, target, posterior.tau1)
        started = time.process_time()
        best = plans.best(unperturbed.plans, 1.0)
        seconds = time.process_time() - started
        if best is None:
            print(name, "no plan reaches the target", flush=True)
            continue
        true = true_matches(drawn, best.release)
        without = 1.0 if unperturbed.reached is None else unperturbed.reached.lost
        kept.append([true[0], best.release.lost, without])
        print(name, best.release.pram, "true τ1", kept[-1], best.matches.tau1.upper,
              f"{len(plans.seen)} looks, {seconds:.0f} s", flush=True)  # fmt: skip
    print_table(["population", "kept with", "true τ1", "τ1", "true τ2", "τ2"], rows)
    print(f"{n} perturbed files: intervals contain τ1 in {contained[0]} and τ2 in {contained[1]}; "
          f"mean errors {errors[0] / n:+.2f} and {errors[1] / n:+.2f}")  # fmt: skip
    of_target, lost, without = np.array(kept).T
    print(f"{len(kept)} files protected to {target} with a key perturbed: met in "
          f"{np.count_nonzero(of_target <= target.bound)}, largest {of_target.max():.0f}; "
          f"{lost.mean():.0%} lost, {without.mean():.0%} by recoding alone")  # fmt: skip


def true_matches(drawn: Sampled, release: Any) -> tuple[int, float]:
    """Certain and expected correct matches with the population, of the intruder who has most."""
    recoding, found = release.plan.recoding, []
    names = [recoding.keys[j].name for j in recoding.kept]
    hidden = [name for name in names if name in release.pram]
    for ignored in ((), *((name,) for name in hidden), tuple(hidden)):
        left = [name not in ignored for name in names]
        keys = tuple(one.left_out() if one.name in ignored else one for one in recoding.keys)
        if not any(left):
            continue
        shown, true = release.visible[:, left], release.recoded[:, left]
        _, place, same = np.unique(shown, axis=0, return_inverse=True, return_counts=True)
        right = (same[place.ravel()] == 1) & (shown == true).all(axis=1)
        size = drawn.counts(replace(recoding, keys=keys), unseen_are_other=True)[1][right]
        found.append(((size == 1).sum(), (1.0 / size).sum()))
    return max(one for one, _ in found), max(two for _, two in found)


def targets(options: argparse.Namespace) -> None:
    """Count protected files whose true τ1 is at most the target.

    The plan is that of `unikat.protect`, without the frontier and the new fit at the end. `auto`
    has the calibration that was learned without the survey of the population.
    """
    from unikat.protection.hierarchies import choices
    from unikat.protection.search import Search
    from unikat.spec.limits import Limit
    from unikat.studies import calibrate

    target, found = Limit.of(options.target), []
    experience = calibrate.EXPERIENCE
    for trial in range(options.first, options.first + options.trials):
        names = list(APART if options.apart else POPULATIONS)
        name = names[trial % len(names)]
        drawn = Sampled.of(name, options.records, trial)
        calibrate.EXPERIENCE = without_survey(name, experience)
        started = time.perf_counter()
        result = assessed(drawn, options, seed=trial + 1)
        posterior = result._posterior
        parts = choices(result.estimate.table)
        search = Search.of(
            parts,
            lambda recoding, its=posterior: its.value(recoding, target, 0.95),
        )
        while (plan := search.best(target)) is not None:
            value = posterior.measured(plan.recoding, target, 0.95)
            if target.met(value):
                break
            search.miss(plan.recoding)
        if plan is None:
            print(trial, name, "no plan reaches the target", flush=True)
            continue
        true, alone = (drawn.true_tau1(plan.recoding, unseen_are_other=o) for o in (True, False))
        bits = sum(
            one.lost[one.recodings.index(key)]
            for one, key in zip(parts, plan.recoding.keys, strict=True)
        ) / sum(one.entropy for one in parts)
        found.append([true, float(plan.lost), float(bits), alone])
        before = f"{result.tau1.mean:.0f} ({result.tau1.lower:.0f} to {result.tau1.upper:.0f})"
        print(trial, name, before, "then", found[-1], value,
              f"{time.perf_counter() - started:.0f} s", flush=True)  # fmt: skip
    true, lost, bits, alone = np.array(found).T
    print(
        f"{len(true)} files: true τ1 at most 5 in {np.count_nonzero(true <= 5)} (unseen levels "
        f"apart: {np.count_nonzero(alone <= 5)}); largest {true.max():.0f}; {lost.mean():.0%} of "
        f"the information lost ({bits.mean():.0%} as the share of all bits)"
    )


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only",
        choices=[
            "speed",
            "joint",
            "weighted",
            "smallest",
            "what-if",
            "subsample",
            "suppressed",
            "perturbed",
            "target",
        ],
        default="speed",
    )
    parser.add_argument("--model", default="latent-class")
    parser.add_argument("--records", type=int, default=2_000)
    parser.add_argument("--sweeps", type=int, default=2_000)
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="of the trials")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--target", default="tau1 <= 5")
    parser.add_argument("--apart", action="store_true", help="populations of other surveys")
    options = parser.parse_args()
    print(machine())
    {
        "speed": speed,
        "joint": joint,
        "weighted": weighted,
        "smallest": smallest,
        "what-if": what_if,
        "subsample": subsample,
        "suppressed": suppressed,
        "perturbed": perturbed,
        "target": targets,
    }[options.only](options)


if __name__ == "__main__":
    main()
