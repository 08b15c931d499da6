"""Membership by a model: the bound against a conjugate law, and the test on planted copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta, dirichlet, multinomial

from synthesis.attacks.test_model_free import files_of
from unikat import CellTable, Key, LatentClass
from unikat._typing import Float64, Int32
from unikat.inference.backends import Workers
from unikat.inference.chains import sample
from unikat.inference.plan import Plan, StopRule
from unikat.models.base import Stream
from unikat.report.text.attack import bound_said
from unikat.studies.auto import Execution
from unikat.synthesis.attacks import membership_model as module
from unikat.synthesis.attacks.membership_model import (
    BoundFacts,
    CellLaw,
    ModelRatio,
    membership_bound,
    total_variation,
)
from unikat.synthesis.attacks.posterior import Fitting
from unikat.synthesis.attacks.run import attack
from unikat.synthesis.generate import posterior_states

COUNTS = np.array([1, 2, 5, 30, 62])
PRIOR = 0.5


class Cells:
    """A model that gives each cell its drawn probability: the state itself."""

    def cell_probabilities(self, stream: Stream, state: Float64, data: Any, cells: Any) -> Float64:
        return state


def draws(counts: Any, n: int, seed: int) -> Float64:
    """Cells' probabilities given counts, with a Dirichlet prior, (n, n_cells)."""
    found: Float64 = dirichlet(PRIOR + np.asarray(counts)).rvs(n, random_state=seed)
    return found


def bounds(states: Float64) -> Float64:
    """Total variations by the observer."""
    codes = np.repeat(np.arange(len(COUNTS)), COUNTS)[:, None].astype(np.int32)
    table = CellTable.from_codes(codes, [Key.of_size("A", len(COUNTS))], 1000)
    observer = CellLaw.of(table, 1)
    totals = observer.start()
    for number, state in enumerate(states):
        observer.observe(Stream(1, 0, number), Cells(), state, None, totals)  # type: ignore[arg-type]
    return total_variation(totals)


def exact(counts: Any, cell: int) -> float:
    """Total variation between the laws of all cells given the counts, and given one fewer.

    Their ratio depends on the cell's probability alone, whose laws are beta.
    """
    a, rest = PRIOR + counts[cell], (PRIOR + np.asarray(counts)).sum() - PRIOR - counts[cell]
    value: float = quad(
        lambda x: abs(beta.pdf(x, a, rest) - beta.pdf(x, a - 1.0, rest)), 0.0, 1.0, limit=500,
        points=[beta.ppf(q, b, rest) for b in (a, a - 1.0) for q in (0.01, 0.5, 0.99)],
    )[0]  # fmt: skip
    return value / 2.0


def test_the_bound_is_the_total_variation_of_a_conjugate_law():
    found = bounds(draws(COUNTS, 40_000, 3))
    expected = [exact(COUNTS, cell) for cell in range(len(COUNTS))]
    # A sample unique with a prior of 1/2: w has no variance, and its mean converges slowly.
    assert found[1:] == pytest.approx(expected[1:], abs=0.02)
    assert found[0] == 1.0 or found[0] == pytest.approx(expected[0], abs=0.1)


def test_a_record_whose_weights_rest_on_few_draws_may_be_recognised_for_certain():
    states = draws(COUNTS, 300, 4)
    states[0, 3] = 1e-9
    found = bounds(states)
    assert found[3] == 1.0
    assert found[4] < 0.2


@pytest.mark.statistical
def test_the_best_test_of_a_conjugate_generator_keeps_to_the_bound_and_a_copy_does_not():
    """The intruder knows all other records and the model: likelihood ratio of single cells.

    x is in the original, or one that the law given all others has drawn is in its place. The
    detection less the false alarms of the best limit, over 20,000 files of each cell.
    """
    rng = np.random.default_rng(5)
    n_files, n_made = 20_000, 100
    for cell in (1, 2, 3):
        others = COUNTS - (np.arange(len(COUNTS)) == cell)
        advantage = {}
        for copies in (False, True):
            made = []
            for member in (True, False):
                counts = np.tile(others, (n_files, 1))
                if member:
                    counts[:, cell] += 1
                else:
                    drawn = rng.choice(
                        len(COUNTS), n_files, p=(PRIOR + others) / (PRIOR + others).sum()
                    )
                    counts[np.arange(n_files), drawn] += 1
                if copies:
                    # It copies each record once.
                    made.append(counts[:, cell])
                    continue
                law = rng.standard_gamma(PRIOR + counts)
                law /= law.sum(axis=1, keepdims=True)
                made.append(multinomial.rvs(n_made, law, random_state=rng)[:, cell])
            limits = range(int(max(one.max() for one in made)) + 1)
            advantage[copies] = max(
                float((made[0] > t).mean() - (made[1] > t).mean()) for t in limits
            )
        bound = exact(COUNTS, cell)
        assert 0.3 * bound < advantage[False] <= bound + 0.01
        assert advantage[True] > bound


def test_of_many_combinations_some_are_drawn_for_the_bound(monkeypatch):
    monkeypatch.setattr(module, "MOST_PERSONS", 3)
    codes = np.repeat(np.arange(len(COUNTS)), COUNTS)[:, None].astype(np.int32)
    table = CellTable.from_codes(codes, [Key.of_size("A", len(COUNTS))], 1000)
    law = CellLaw.of(table, 1)
    assert law.counts.tolist() == COUNTS[law.cells[:, 0]].tolist()
    assert len(set(law.cells[:, 0].tolist())) == 3


def test_with_several_files_more_can_be_told_and_pairs_follow():
    facts = BoundFacts(
        model="hdp", advantage=0.2, one_file=0.1, largest=1.0, n_certain=0, converged=True
    )
    # The largest area under a curve that rises at most 0.2 above the diagonal: from (0, 0.2) to
    # (0.8, 1).
    assert facts.pairs == pytest.approx(0.5 + 0.2 - 0.02)


def people(n: int, seed: int) -> Int32:
    """Persons of two kinds with five keys; most combinations are rare."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, n)
    keys = [(rng.integers(0, 5, n) + kind * (1 + j % 2)) % 7 for j in range(5)]
    return np.stack(keys, axis=1).astype(np.int32)


@pytest.mark.slow
def test_a_copy_exceeds_the_bound_and_an_honest_file_does_not():
    """And the test by the model finds the copy, but no second sample."""
    original, control, second = (people(300, seed) for seed in (1, 2, 3))
    model = LatentClass()
    table = CellTable.from_codes(original, [Key.of_size(f"K{j}", 7) for j in range(5)], 10**6)
    how = Fitting(
        label="latent-class",
        seed=1,
        plan=Plan(n_chains=2, stop=StopRule(rhat=1.1, ess=60.0, max_sweeps=2_000)),
        level=0.95,
        execution=Execution(workers=Workers(n_workers=1)),
    )
    bound = membership_bound(model, table, how, 2)
    assert 0.0 < bound.one_file < bound.advantage <= bound.largest < 1.0
    draws_of = sample(
        model, table, CellLaw.of(table, 1), seed=2, plan=how.plan, workers=how.execution.workers
    )
    data = model.prepare(table)
    state = next(iter(posterior_states(draws_of, model, data, 1)))
    made = model.simulate(state.stream, state.state, data, 300)
    beyond = "the files were not drawn by this model"
    for synthetic, copied in ((original, True), (made, False), (second, False)):
        test = ModelRatio(model=model, how=how)
        found = attack(
            files_of(original, synthetic, control), range(5), ([0, 1, 2], [3, 4]),
            n_attacks=1000, seed=1, level=0.95, tests={module.NAME: test},
        )  # fmt: skip
        # The synthetic file, and both halves of the control file.
        assert len(test.converged) == 3
        tests = {one.target: one for one in found if one.name == module.NAME}
        assert set(tests) == {None, "5% false alarms", "10% false alarms"}
        assert tests[None].found == copied or synthetic is made
        of_members = [one for one in found if one.kind in ("even", "false alarms")]
        assert (beyond in bound_said(bound, of_members)) == copied
