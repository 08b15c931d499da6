import numpy as np

from unikat.synthesis.attacks.rates import excess_of, rate_of, rates_of


def test_excess_of_few_large_contributions_raises_no_more_false_alarms_than_its_level() -> None:
    # Most records contribute next to nothing, a few much; the baseline has half the records.
    generator = np.random.default_rng(5)
    repeats, alarms, alone = 4_000, 0, 0
    for _ in range(repeats):
        one, other = (
            generator.random(n) ** 3 * 1e-3 + (generator.random(n) < 0.004) * generator.random(n)
            for n in (2_000, 1_000)
        )
        found = excess_of(*rates_of(one, other, 0.95))
        separate = excess_of(rate_of(one, 0.95), rate_of(other, 0.95))
        assert found is not None
        assert separate is not None
        alarms += found.lower > 0.0
        alone += separate.lower > 0.0
    # Nominal: 2.5%. Each with its own variance raises about twice as many: the test would see it.
    assert alarms / repeats < 0.03
    assert alone / repeats > 0.04


def test_rates_that_are_compared_are_those_of_each_group() -> None:
    one, other = np.array([0.0, 1.0, 1.0]), np.array([0.0, 0.0, 1.0, 0.0])
    found = rates_of(one, other, 0.95)
    assert [rate.value for rate in found] == [one.mean(), other.mean()]
    assert all(rate.lower < rate.value < rate.upper for rate in found)
    # Nothing varies: as wide as the guesses are few.
    none = rates_of(np.zeros(100), np.zeros(50), 0.95, (4.0, 2.0))
    assert none[0].upper < none[1].upper < 1.0
