"""The search among recodings against looking at all of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.jobs.progress import describe
from unikat.jobs.protection_target import states_told
from unikat.protection.going_on import N_STATES
from unikat.protection.hierarchies import BASIC_COUNTS, OUT_COUNTS, choices
from unikat.protection.recoding import Recoding
from unikat.protection.search import Search, SearchProgress, Value, frontier, undominated
from unikat.spec.limits import Limit

AGES = Key(name="age", levels=tuple(range(20)), labels=tuple(map(str, range(20))))
PLACES = Key(name="place", levels=tuple("abcdef"), labels=tuple("abcdef"))
SEX = Key.of_size("sex", 2)


def sample_of(seed: int) -> CellTable:
    rng = np.random.default_rng(seed)
    codes = np.column_stack(
        [rng.integers(0, 20, 60), rng.geometric(0.4, 60).clip(1, 6) - 1, rng.integers(0, 2, 60)]
    )
    return CellTable.from_codes(codes, (AGES, PLACES, SEX), 500)


def uniques(table: CellTable, calls: list[Recoding] | None = None):
    def evaluate(recoding: Recoding) -> Value:
        if calls is not None:
            calls.append(recoding)
        found = recoding.table(table)
        return Value(float(found.n_uniques), float(found.n_uniques))

    return evaluate


GIVEN = {
    "age": ["width(2)", "width(4)", "width(5)", "quantile(3)", None],
    "place": [[["a", "b"]], [["a", "b"], ["c", "d"]], [["e", "f"]], None],
    "sex": [None],
}


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 1000), st.integers(0, 30), st.lists(st.floats(0.1, 3.0), min_size=3, max_size=3)
)
def test_best_plan_and_frontier_are_those_of_all_plans(
    seed: int, limit: int, weights: list[float]
) -> None:
    table = sample_of(seed)
    parts = choices(table, given=GIVEN)
    calls: list[Recoding] = []
    search = Search.of(parts, uniques(table, calls), weights)
    every = {}
    for place in itertools.product(*(range(len(part.recodings)) for part in parts)):
        recoding = search.recoding(place)
        if recoding.kept:
            every[place] = (float(search.lost[place]), recoding.table(table).n_uniques)
    target = Limit("tau1_estimate", float(limit))
    good = [lost for lost, n in every.values() if n <= limit]
    found = search.best(target)
    assert (found is None) == (not good)
    if found is not None:
        assert found.lost == pytest.approx(min(good))
        assert found.value.measure <= limit
    assert len(calls) < len(every)
    plans, reached, n_looked_at, _ = frontier(search, target)
    assert len(search.seen) <= n_looked_at <= len(every)
    assert (reached is None) == (found is None)
    # Of each halving of τ1 the cheapest plan is among them, or one that loses no more.
    bound = table.n_uniques / 2.0
    while bound >= 0.5 and (good := [one for one in every.values() if one[1] <= bound]):
        cheapest = min(good)
        assert any(plan.lost <= cheapest[0] + 1e-12 and plan.value.tau1 <= bound for plan in plans)
        bound = min(bound, cheapest[1]) / 2.0
    assert plans[0].value.tau1 == table.n_uniques or plans[0].lost == 0.0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.integers(0, 30))
def test_a_key_is_left_out_only_if_that_is_worth_what_it_counts(seed: int, limit: int) -> None:
    table = sample_of(seed)
    parts = choices(table)
    # Ages and keys of two values go last, and none that the user offers to leave out counts more.
    assert [one.out_counts for one in parts] == [BASIC_COUNTS, OUT_COUNTS, BASIC_COUNTS]
    assert [one.out_counts for one in choices(table, given=GIVEN)] == [1.0, 1.0, 1.0]
    search = Search.of(parts, uniques(table))
    every = [
        (sum(one.key is None for one in (recoding.keys[0], recoding.keys[2])), place)
        for place in itertools.product(*(range(len(part.recodings)) for part in parts))
        if (recoding := search.recoding(place)).kept and recoding.table(table).n_uniques <= limit
    ]
    found = search.best(Limit("tau1_estimate", float(limit)))
    assert (found is None) == (not every)
    if found is not None:
        place = search.place(found.recoding)
        assert search.cost[place] == pytest.approx(min(search.cost[at] for _, at in every))
        basic = sum(one.key is None for one in (found.recoding.keys[0], found.recoding.keys[2]))
        assert basic == min(n for n, _ in every)
        assert found.lost == search.lost[place] <= 1.0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.integers(0, 30))
def test_the_frontier_has_all_plans_that_none_looked_at_beats(seed: int, limit: int) -> None:
    table = sample_of(seed)
    looked: dict[tuple[int, ...], tuple[float, float]] = {}
    search = Search.of(choices(table, given=GIVEN), uniques(table))

    def evaluate(recoding: Recoding) -> Value:
        place = search.place(recoding)
        value = uniques(table)(recoding)
        looked[place] = float(search.lost[place]), value.tau1
        return value

    search.evaluate = evaluate
    found = frontier(search, Limit("tau1", float(limit)))
    best = {
        place
        for place, (lost, tau1) in looked.items()
        if not any((l <= lost and t <= tau1 and (l, t) != (lost, tau1)) for l, t in looked.values())
    }
    drawn = {(plan.lost, plan.value.tau1) for plan in found.plans}
    assert drawn == {looked[place] for place in best}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000))
def test_the_frontier_in_small_steps_is_that_of_all_plans(seed: int) -> None:
    table = sample_of(seed)
    parts = choices(table, given=GIVEN)
    search = Search.of(parts, uniques(table))
    every = [
        (float(search.cost[place]), recoding.table(table).n_uniques)
        for place in itertools.product(*(range(len(part.recodings)) for part in parts))
        if (recoding := search.recoding(place)).kept
    ]
    best = {
        one
        for one in every
        if not any(a <= one[0] and b <= one[1] for a, b in every if (a, b) != one)
    }
    found = frontier(search, None, step=0.999)
    assert found.complete
    assert {(plan.cost, plan.value.tau1) for plan in found.plans} == best
    spared = Search.of(parts, uniques(table))
    spared.most_looks, spared.more_looks = 2, 0
    few = frontier(spared, None, step=0.999)
    # Some plan is always there, and what is missing is said.
    assert few.plans
    assert few.complete <= ({(one.cost, one.value.tau1) for one in few.plans} == best)


def test_stricter_targets_go_on_from_what_is_known() -> None:
    table = sample_of(3)
    calls: list[Recoding] = []
    search = Search.of(choices(table, given=GIVEN), uniques(table, calls))
    assert search.best(Limit("tau1_estimate", 10.0)) is not None
    before = len(calls)
    again = Search.of(choices(table, given=GIVEN), uniques(table))
    one, two = search.best(Limit("tau1_estimate", 3.0)), again.best(Limit("tau1_estimate", 3.0))
    assert one is not None
    assert two is not None
    assert one.lost == two.lost
    assert len(calls) - before < len(again.seen)


def test_a_search_tells_where_it_stands() -> None:
    table, told = sample_of(3), []
    search = Search.of(choices(table, given=GIVEN), uniques(table), tell=told.append)
    found = search.best(Limit("tau1_estimate", 5.0))
    frontier(search, None)
    assert found is not None
    of_search = [one for one in told if one.name == "Search"]
    assert [one.looks for one in of_search] == list(range(1, len(search.seen) + 1))
    assert {one.name for one in told} == {"Search", "Frontier"}
    lost = [one.lost for one in of_search]
    known = [one for one in lost if one is not None]
    assert lost[0] is None
    assert known == sorted(known, reverse=True)
    assert known[-1] >= found.lost
    assert all(one.most_looks >= one.looks for one in told)


@pytest.mark.parametrize("limit", [1.0, 5.0, 15.0])
def test_a_search_that_stops_early_says_what_a_better_plan_would_lose(limit: float) -> None:
    table, goal = sample_of(3), Limit("tau1_estimate", limit)
    parts = choices(table, given=GIVEN)
    best = Search.of(parts, uniques(table)).best(goal)
    assert best is not None
    for looks in range(len(list(itertools.product(*(part.recodings for part in parts))))):
        calls: list[Recoding] = []
        early = Search.of(parts, uniques(table, calls))
        early.most_looks, early.more_looks = looks, 0
        found = early.best(goal)
        assert found is not None
        assert goal.met(found.value.measure)
        if early.least is None:
            assert found.lost == best.lost
            break
        assert early.least <= best.lost <= found.lost
        # No key of it can be made finer.
        place = early.place(found.recoding)
        for j, part in enumerate(parts):
            for i in np.flatnonzero(part.coarser[place[j]]):
                finer = early.recoding((*place[:j], int(i), *place[j + 1 :]))
                assert i == place[j] or finer.table(table).n_uniques > limit
    assert looks > 0
    assert early.least is None
    # What no plan reaches is known without a look at most of them.
    none = Search.of(parts, uniques(table))
    none.most_looks, none.more_looks = 0, 0
    assert none.best(Limit("tau1_estimate", -1.0)) is None


def test_a_plan_that_a_closer_look_rejects_is_not_found_again() -> None:
    table = sample_of(4)
    search = Search.of(choices(table, given=GIVEN), uniques(table))
    first = search.best(Limit("tau1_estimate", 5.0))
    assert first is not None
    search.miss(first.recoding)
    second = search.best(Limit("tau1_estimate", 5.0))
    assert second is not None
    assert second.recoding is not first.recoding
    assert second.lost >= first.lost


def test_keys_that_are_kept_stay_as_they_are() -> None:
    table = sample_of(5)
    parts = choices(table, keep=["age"])
    assert len(parts[0].recodings) == 1
    found = Search.of(parts, uniques(table)).best(Limit("tau1_estimate", 20.0))
    assert found is None or not found.recoding.keys[0].changes
    with pytest.raises(SpecError, match="keep fewer keys"):
        choices(table, keep=["age", "place", "sex"])
    with pytest.raises(SpecError, match=r"'plce' is none of the keys.*Did you mean 'place'"):
        choices(table, keep=["plce"])


def test_own_recodings_are_in_order_of_what_they_lose() -> None:
    table = sample_of(6)
    for part in choices(table):
        assert (np.diff(part.lost) >= 0.0).all()
        assert part.lost[0] == 0.0
        assert not part.recodings[0].changes
        assert part.recodings[-1].key is None
        assert part.lost[-1] == pytest.approx(part.entropy)
        # What is coarser loses at least as much.
        i, j = np.nonzero(part.coarser)
        assert (part.lost[i] >= part.lost[j] - 1e-12).all()


def test_undominated() -> None:
    table = sample_of(7)
    search = Search.of(choices(table), uniques(table))
    plans = [search.best(Limit("tau1_estimate", limit)) for limit in (30.0, 10.0, 10.0, 1.0)]
    found = undominated([plan for plan in plans if plan is not None])
    assert all(
        a.lost < b.lost and a.value.tau1 > b.value.tau1 for a, b in itertools.pairwise(found)
    )


@pytest.mark.parametrize(
    "text", ["tau1 < 5", "tau1 >= 5", "k <= 3", "r1 <= 1.5", "records <= 3", "tau3 <= 1", "5", ""]
)
def test_wrong_targets_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no limit|is a probability"):
        Limit.of(text)


@pytest.mark.parametrize(
    ("text", "value", "met"),
    [
        ("tau1 <= 5", 5.0, True),
        ("τ1≤5", 5.1, False),
        ("k >= 3", 3.0, True),
        ("population_k >= 5", 4.0, False),
        ("records(r1 > 0.2) <= 1,000", 1000.0, True),
    ],
)
def test_targets(text: str, value: float, met: bool) -> None:
    target = Limit.of(text)
    assert target.met(value) is met
    assert Limit.of(str(target)) == target


def test_states_that_are_made_are_told() -> None:
    told: list[SearchProgress] = []
    tell = states_told(told.append)
    assert tell is not None
    tell(0.0)
    tell(0.5)
    tell(1.0)
    assert [one.looks for one in told] == [1, N_STATES // 2, N_STATES]
    assert describe(told[1]).startswith(f"Posterior: state {N_STATES // 2} of at most {N_STATES}")
    assert states_told(None) is None
