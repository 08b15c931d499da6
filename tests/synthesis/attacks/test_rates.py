import itertools
import json
import math
from dataclasses import asdict

import numpy as np
import pytest
from pydantic import TypeAdapter
from scipy.stats import multinomial

from unikat.files.json import json_text
from unikat.synthesis.attacks.rates import (
    Contributions,
    Rate,
    excess_of,
    of_other_records,
    of_same_records,
    probability_of_signs,
    rate_of,
)


def test_excess_of_few_large_contributions_raises_no_more_false_alarms_than_its_level() -> None:
    # Most records contribute next to nothing, a few much; the baseline has half the records.
    generator = np.random.default_rng(5)
    repeats, alarms, alone = 4_000, 0, 0
    for _ in range(repeats):
        one, other = (
            Contributions(
                generator.random(n) ** 3 * 1e-3
                + (generator.random(n) < 0.004) * generator.random(n)
            )
            for n in (2_000, 1_000)
        )
        found = of_other_records(one, other, 0.95).excess
        separate = excess_of(rate_of(one, 0.95), rate_of(other, 0.95))
        assert found is not None
        assert separate is not None
        alarms += found.lower > 0.0
        alone += separate.lower > 0.0
    # Nominal: 2.5%. Each with its own variance raises about twice as many: the test would see it.
    assert alarms / repeats < 0.03
    assert alone / repeats > 0.04


def test_rates_that_are_compared_are_those_of_each_group() -> None:
    one, other = Contributions(np.array([0.0, 1.0, 1.0])), Contributions(np.array([0, 0, 1.0, 0]))
    found = of_other_records(one, other, 0.95)[:2]
    assert [rate.value for rate in found] == [one.share, other.share]
    assert all(rate.lower < rate.value < rate.upper for rate in found)
    # Nothing varies: as wide as the guesses are few.
    none = of_other_records(
        Contributions(np.zeros(100), None, 4.0), Contributions(np.zeros(50), None, 2.0), 0.95
    )
    assert none.attack.upper < none.baseline.upper < 1.0


def pairs(both: int, gained: int, lost: int, neither: int) -> tuple[Contributions, Contributions]:
    """After and before, of so many records."""
    times = [both, gained, lost, neither]
    after, before = (np.repeat(x, times).astype(float) for x in ([1, 1, 0, 0], [1, 0, 1, 0]))
    return Contributions(after), Contributions(before)


def test_forty_more_of_the_same_records_are_no_chance() -> None:
    """400 of 1,000 are right before, and the same 400 and 40 more after."""
    after, before = pairs(400, 40, 0, 560)
    found = of_same_records(after, before, 0.95).excess
    assert found is not None
    assert found.value == pytest.approx(0.04 / 0.6)
    assert 0.04 < found.lower < found.value < found.upper < 0.1
    assert probability_of_signs(after.values - before.values) == 2.0**-40
    # Were they other records, it could be chance.
    other = of_other_records(after, before, 0.95).excess
    assert other is not None
    assert other.lower < 0.0


def test_the_probability_of_signs_is_that_of_all_signs() -> None:
    generator = np.random.default_rng(4)
    for n in (1, 3, 9, 16):
        for values in (generator.integers(-3, 4, n).astype(float), generator.normal(size=n)):
            sums = [
                float(np.dot(signs, np.abs(values)))
                for signs in itertools.product((-1.0, 1.0), repeat=n)
            ]
            exact = np.mean(np.array(sums) >= values.sum() - 1e-9)
            assert probability_of_signs(values) == pytest.approx(exact)
    assert probability_of_signs(np.zeros(5)) == 1.0
    # Of more units, that of the normal law, against random signs: 4 standard errors.
    values = generator.normal(0.3, 1.0, 60)
    signs = generator.choice([-1.0, 1.0], (200_000, 60))
    drawn = float((signs @ np.abs(values) >= values.sum()).mean())
    error = np.sqrt(drawn * (1.0 - drawn) / 200_000)
    assert abs(probability_of_signs(values) - drawn) < 4.0 * error + 0.003


@pytest.mark.statistical
def test_the_interval_of_paired_rates_covers_the_excess() -> None:
    """Every outcome of 24 records, weighed by its probability: no draws, so no false alarm.

    The 95% interval covers in 92.5% of all at least, and in 97% on average; where the excess is 0
    the attack is found with a probability of at most 2.5%.
    """
    n = 24
    outcomes = np.array([
        (a, b, c, n - a - b - c)
        for a in range(n + 1) for b in range(n + 1 - a) for c in range(n + 1 - a - b)
    ])  # fmt: skip
    ends = np.array([
        (-np.inf, np.inf) if (found := of_same_records(*pairs(*one), 0.95).excess) is None
        else (found.lower, found.upper)
        for one in outcomes.tolist()
    ])  # fmt: skip
    assert (ends[:, 0] <= ends[:, 1]).all()
    covered = []
    for before, differs, excess in itertools.product(
        (0.02, 0.1, 0.3, 0.5, 0.8, 0.95), (0.02, 0.05, 0.1, 0.2, 0.4, 0.6), (0.0, 0.05, 0.2, 0.5)
    ):
        more = excess * (1.0 - before)
        gained, lost = (differs + more) / 2.0, (differs - more) / 2.0
        law = np.array([before - lost, gained, lost, 1.0 - before - gained])
        if law.min() < 0.0:
            continue
        weight = multinomial.pmf(outcomes, n, law)
        inside = (ends[:, 0] <= excess + 1e-12) & (excess - 1e-12 <= ends[:, 1])
        covered.append(float(weight @ inside))
        assert excess > 0.0 or weight @ (ends[:, 0] > 0.0) <= 0.025
    assert min(covered) > 0.925
    assert np.mean(covered) > 0.97


@pytest.mark.statistical
def test_households_raise_no_more_false_alarms_than_the_level() -> None:
    """What is found of a household is found of all its persons, and the truth is no excess.

    6,000 tries: at most 2.5% are expected, and 3.2% is more than 3 standard errors above. Taken
    for independent persons, they raise far more.
    """
    generator = np.random.default_rng(8)
    household = np.repeat(np.arange(80), generator.integers(1, 8, 80))
    alarms = {True: 0, False: 0}
    for _ in range(6_000):
        before, after = (generator.random((2, 80)) < 0.3)[:, household].astype(float)
        for together in alarms:
            of = household if together else None
            one, other = Contributions(after, of), Contributions(before, of)
            found = of_same_records(one, other, 0.95).excess
            assert found is not None
            alarms[together] += found.lower > 0.0
    assert alarms[True] / 6_000 < 0.032
    assert alarms[False] / 6_000 > 0.1


def test_households_widen_the_interval_of_a_rate() -> None:
    household = np.repeat(np.arange(50), 4)
    values = np.repeat(np.arange(50) % 5 == 0, 4).astype(float)
    one = rate_of(Contributions(values, household), 0.95)
    # As few trials as there are households.
    assert one == rate_of(Contributions(values[::4]), 0.95)
    assert one.upper - one.lower > 1.9 * np.ptp(
        [(alone := rate_of(Contributions(values), 0.95)).lower, alone.upper]
    )


def test_an_excess_without_a_lower_end_is_read_back() -> None:
    sure = excess_of(Rate(value=0.5, lower=0.4, upper=0.6), Rate(value=0.4, lower=0.0, upper=1.0))
    assert sure is not None
    assert sure.lower == -math.inf
    written = json_text(asdict(sure))
    assert TypeAdapter(Rate).validate_python(json.loads(written)) == sure
