"""Links of an intruder whose keys have errors, against enumerations and simulated intruders."""

from __future__ import annotations

import itertools
import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import unikat
from naive import correct_link, correct_match
from protection.test_protect import KEYS, people
from unikat.cli.main import main
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.inference.plan import Plan, StopRule
from unikat.protection import linkage as module
from unikat.protection.left_over import looks
from unikat.protection.linkage import Linkage, _Looking, _Patterns, check_linkage, linkage
from unikat.protection.recoding import parse_recoding
from unikat.protection.what_if import Posterior
from unikat.risk.law import Others
from unikat.spec.key_errors import Rates, rates_of
from unikat.studies.fit import fit

LEVELS = (4, 3, 2)
CELLS = np.array(list(itertools.product(*map(range, LEVELS))), np.int32)
N, SAMPLED = 400, 30
RATES = [Rates(0.15), Rates(0.1, 0.2), Rates(0.05)]
PLAN = Plan(n_chains=2, stop=StopRule(max_sweeps=100))


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    rng = np.random.default_rng(5)
    p = rng.dirichlet(np.full(len(CELLS), 0.4))
    codes = CELLS[rng.choice(len(CELLS), SAMPLED, p=p)]
    keys = [Key.of_size(name, n) for name, n in zip("ABC", LEVELS, strict=True)]
    table = CellTable.from_codes(codes, keys, population_size=N)
    return Posterior.of(fit("latent-class", table, seed=2, plan=PLAN), n_states=20)


@pytest.fixture(scope="module")
def larger() -> Posterior:
    table = unikat.read(people(300), KEYS.split(","), unikat.Design(population_size=4000))
    return Posterior.of(fit("latent-class", table.tabulate(), seed=2, plan=PLAN), n_states=40)


def looking_at(posterior: Posterior, rates: list[Rates]) -> tuple[_Looking, Any, Any, Any]:
    table = posterior.table
    cells = np.ascontiguousarray(table.cells[table.unique])
    looking = _Looking.of(posterior, rates, _Patterns.of(rates), cells)
    _, look, exposure, _ = next(looks(posterior, parse_recoding(table, {}), cells, 1))
    return looking, look, exposure, cells


def spoilt_shares(table: CellTable, matrices: Any) -> list[Any]:
    codes = table.cells[table.record_cell]
    return [
        np.bincount(codes[:, j], minlength=n) / len(codes) @ matrices[j]
        for j, n in enumerate(table.n_levels)
    ]


def mean_of(found: Linkage | None) -> float:
    assert found is not None
    return found.correct.mean


@pytest.fixture
def all_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LEFT_OUT", 1e-12)
    monkeypatch.setattr(module, "_NEGLIGIBLE", 0.0)


@pytest.mark.usefixtures("all_patterns")
def test_a_link_is_right_as_often_as_by_listing_all_spoilt_records(posterior: Posterior) -> None:
    looking, look, exposure, cells = looking_at(posterior, RATES)
    asked = looking._few(look, exposure)
    assert asked.all()
    expected = looking._expected(look, exposure, asked)
    table = posterior.table
    p = look.model.cell_probabilities(look.stream, look.state, look.data, CELLS)
    matrices = [looking.matrices[j] for j in range(3)]
    shares = spoilt_shares(table, matrices)
    n = len(cells)
    # Others of the cell: Poisson in one case, negative binomial as with a model error in another.
    laws = {
        "poisson": (Others(np.full(n, 0.8), np.zeros(n), np.zeros(n)), stats.poisson(0.8)),
        "error": (Others(np.zeros(n), np.full(n, 0.6), np.full(n, 2.0)),
                  stats.nbinom(0.6, 1.0 / 3.0)),
    }  # fmt: skip
    for law, others in laws.values():
        found = looking._sums(law, expected)[0][0]
        ignoring = looking._sums(law, np.zeros_like(expected))[0][0]
        for place in (0, n // 2, n - 1):
            x = cells[place]
            elsewhere = N * p * (x != CELLS).any(axis=1)
            own = others.pmf(np.arange(40))
            slow = correct_link(
                x.tolist(), CELLS.tolist(), elsewhere, own.tolist(),
                [one.tolist() for one in matrices], [one.missing for one in RATES], shares,
            )  # fmt: skip
            assert found[place] == pytest.approx(slow, rel=2e-4)
            # Planted: nobody of another cell comes in between.
            assert ignoring[place] > 1.05 * slow


@pytest.mark.usefixtures("all_patterns")
def test_patterns_of_one_weight_are_chosen_at_random() -> None:
    """Two keys with the same shares and rates: an error in either has the same weight."""
    cells = np.array(list(itertools.product(range(3), range(3), range(2))), np.int32)
    upper = [(0, 0, 1), (0, 1, 0), (0, 1, 0), (0, 2, 1), (1, 2, 0), (1, 1, 1), (2, 2, 0)]
    codes = [*upper, *((b, a, c) for a, b, c in upper if a != b)]
    keys = [Key.of_size(name, n) for name, n in zip("ABC", (3, 3, 2), strict=True)]
    table = CellTable.from_codes(codes, keys, population_size=100)
    posterior = Posterior.of(fit("latent-class", table, seed=2, plan=PLAN), n_states=20)
    looking, look, exposure, targets = looking_at(posterior, [Rates(0.3), Rates(0.3), Rates(0.1)])
    expected = looking._expected(look, exposure, looking._few(look, exposure))
    p = look.model.cell_probabilities(look.stream, look.state, look.data, cells)
    matrices = [looking.matrices[j] for j in range(3)]
    n = len(targets)
    law = Others(np.full(n, 0.8), np.zeros(n), np.zeros(n))
    found = looking._sums(law, expected)[0][0]
    own = stats.poisson(0.8).pmf(np.arange(40)).tolist()
    twice = np.flatnonzero(targets[:, 0] == targets[:, 1])
    assert len(twice) == 3
    assert (looking.last > looking.first)[twice].any(axis=1).all()
    for place in twice:
        x = targets[place]
        elsewhere = 100 * p * (x != cells).any(axis=1)
        slow = correct_link(
            x.tolist(), cells.tolist(), elsewhere, own,
            [one.tolist() for one in matrices], [0.0, 0.0, 0.0], spoilt_shares(table, matrices),
        )  # fmt: skip
        assert found[place] == pytest.approx(slow, rel=2e-4)


@pytest.mark.usefixtures("all_patterns")
def test_a_pair_that_agrees_is_right_as_shlomo_and_skinner_say(posterior: Posterior) -> None:
    rates = [Rates(0.15), Rates(0.1), Rates(0.05)]
    looking, look, exposure, cells = looking_at(posterior, rates)
    expected = looking._expected(look, exposure, looking._few(look, exposure))
    p = look.model.cell_probabilities(look.stream, look.state, look.data, CELLS)
    matrices = [looking.matrices[j] for j in range(3)]
    agree = looking.order == 0
    others, stays = expected[agree], looking.probability[agree]
    for place, x in enumerate(cells):
        own = (x == CELLS).all(axis=1)
        population = np.where(own, 1.0, N * p)
        (slow,) = correct_match([x], CELLS, population, matrices, 0.0)
        assert stays[place] / (stays[place] + others[place]) == pytest.approx(slow, rel=1e-6)


def test_without_errors_it_is_tau2(larger: Posterior) -> None:
    table = larger.table
    cells = np.ascontiguousarray(table.cells[table.unique])
    found = linkage(larger, [Rates()] * table.n_keys, 0.95)
    assert found is not None
    parts = larger.moments(parse_recoding(table, {}), table, cells, np.ones(len(cells)), 100)
    tau2 = np.mean([one.r2.sum() for one in parts])
    for one in (found.correct, found.exact, found.without_errors):
        assert one.mean == pytest.approx(tau2, rel=1e-10)
    assert found.correct.interval == pytest.approx(found.without_errors.interval, rel=1e-5)
    assert np.nansum(found.record_correct) == pytest.approx(tau2, rel=1e-10)


def test_more_errors_are_fewer_links(larger: Posterior) -> None:
    n_keys = larger.table.n_keys
    for rates in (lambda e: Rates(e), lambda e: Rates(0.02, e)):
        found = [mean_of(linkage(larger, [rates(e)] * n_keys, 0.95))
                 for e in (0.0, 0.01, 0.03, 0.1, 0.2)]  # fmt: skip
        assert (np.diff(found) < 0.0).all()
    # What tells most apart matters most.
    by_key = [
        mean_of(linkage(larger, [Rates(0.2 * (j == k)) for j in range(n_keys)], 0.95))
        for k in range(n_keys)
    ]
    assert all(one < mean_of(linkage(larger, [Rates()] * n_keys, 0.95)) for one in by_key)


@pytest.mark.statistical
@pytest.mark.slow
def test_expected_links_are_those_of_a_simulated_intruder(posterior: Posterior) -> None:
    """Populations are drawn from one state; the mean differs by 4.5 standard errors at most."""
    one = Posterior(
        table=posterior.table, fitted=posterior.fitted, model=posterior.model, data=posterior.data,
        states=((posterior.states[0][0],),),
    )  # fmt: skip
    looking, look, _, _ = looking_at(one, RATES)
    told = linkage(one, RATES, 0.95)
    assert told is not None
    p = look.model.cell_probabilities(look.stream, look.state, look.data, CELLS)
    table, rng = posterior.table, np.random.default_rng(1)
    codes = table.cells[table.record_cell]
    unique = np.flatnonzero(table.unique[table.record_cell])
    matrices = [looking.matrices[j] for j in range(3)]
    shares = spoilt_shares(table, matrices)
    correct, exact = [], []
    for _ in range(2_000):
        # The other records of the sample are drawn too: what is expected of them is the law.
        whole = CELLS[rng.choice(len(CELLS), N, p=p / p.sum())]
        for_links, for_exact = 0.0, 0.0
        spoilt = np.empty_like(whole)
        mine = np.empty((len(unique), 3), np.int32)
        for j in range(3):
            cumulative = matrices[j].cumsum(axis=1)
            for target, of in ((spoilt, whole), (mine, codes[unique])):
                drawn = (rng.random(len(of))[:, None] > cumulative[of[:, j]][:, :-1]).sum(axis=1)
                target[:, j] = np.where(rng.random(len(of)) < RATES[j].missing, -1, drawn)
        for i, row in enumerate(unique):
            x = codes[row]
            # Of the cell itself nobody is in the sample: so many fewer.
            in_cell = (whole == x).all(axis=1)
            kept = ~in_cell | (rng.random(N) < (N - SAMPLED) / N)
            file = np.vstack((mine[i], spoilt[kept]))
            weight = np.zeros(len(file))
            for j in range(3):
                stays, share = matrices[j][x[j], x[j]], shares[j][x[j]]
                with np.errstate(divide="ignore"):
                    each = np.where(file[:, j] == x[j], np.log(stays / share),
                                    np.log((1 - stays) / (1 - share)))  # fmt: skip
                weight += np.where(file[:, j] < 0, 0.0, each)
            best = weight >= weight.max() - 1e-9
            for_links += best[0] / best.sum()
            for_exact += (mine[i] == x).all() * best[0] / best.sum()
        correct.append(for_links)
        exact.append(for_exact)
    for draws, found in ((correct, told.correct), (exact, told.exact)):
        error = np.std(draws) / np.sqrt(len(draws))
        assert abs(np.mean(draws) - found.mean) < 4.5 * error + 0.003 * found.mean


def test_crowded_sets_are_left_out_without_a_difference(
    larger: Posterior, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = [Rates(0.1, 0.05)] * larger.table.n_keys
    monkeypatch.setattr(module, "_CROWD", np.inf)
    whole = mean_of(linkage(larger, rates, 0.95))
    monkeypatch.setattr(module, "_CROWD", 300.0)
    looking, look, exposure, _ = looking_at(larger, rates)
    assert not looking._few(look, exposure).all()
    assert mean_of(linkage(larger, rates, 0.95)) == pytest.approx(whole, rel=2e-3)


def test_parts_of_the_records_are_as_the_whole(
    larger: Posterior, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = [Rates(0.05, 0.02)] * larger.table.n_keys
    whole = linkage(larger, rates, 0.95)
    monkeypatch.setattr(module, "_BLOCK", 2_000)
    parts = linkage(larger, rates, 0.95)
    assert whole is not None
    assert parts is not None
    assert parts.correct.mean == pytest.approx(whole.correct.mean, rel=1e-12)
    assert parts.correct.interval == pytest.approx(whole.correct.interval, rel=1e-9)
    np.testing.assert_allclose(parts.record_correct, whole.record_correct, rtol=1e-9)


def test_a_design_has_its_own_law() -> None:
    frame = people(300)
    frame["w"] = np.where(np.arange(300) % 2 == 0, 5.0, 20.0)
    table = unikat.read(frame, KEYS.split(","), unikat.Design(weights="w")).tabulate()
    check_linkage(table, [Rates(0.05)] * table.n_keys)
    one = Posterior.of(fit("latent-class", table, seed=2, plan=PLAN), n_states=20)
    none, some = (linkage(one, [Rates(e)] * table.n_keys, 0.95) for e in (0.0, 0.05))
    assert none is not None
    assert some is not None
    assert none.correct.mean == pytest.approx(none.without_errors.mean, rel=1e-10)
    assert 0.5 * none.correct.mean < some.correct.mean < none.correct.mean


def test_incomplete_records_are_not_counted() -> None:
    frame = people(200)
    frame.loc[::10, "age"] = None
    table = unikat.read(frame, KEYS.split(","), unikat.Design(population_size=3000)).tabulate()
    one = Posterior.of(fit("latent-class", table, seed=2, plan=PLAN), n_states=20)
    none, some = (linkage(one, [Rates(e)] * table.n_keys, 0.95) for e in (0.0, 0.05))
    assert none is not None
    assert some is not None
    assert none.n_uniques == int((table.unique & ~table.incomplete).sum())
    assert np.isnan(none.record_correct[::10]).all()
    assert none.correct.mean == pytest.approx(none.without_errors.mean, rel=1e-10)
    assert some.correct.mean < none.correct.mean


def test_where_it_is_not_known() -> None:
    keys = [Key.of_size("A", 2), Key.of_size("B", 3)]
    census = CellTable.from_codes([[0, 1], [1, 2]], keys, 2)
    with pytest.raises(SpecError, match="whole population"):
        check_linkage(census, [Rates(0.1)] * 2)
    twenty = [Key.of_size(f"K{j}", 2) for j in range(20)]
    many = CellTable.from_codes(np.zeros((1, 20), int), twenty, 9)
    with pytest.raises(SpecError, match="lower rates"):
        check_linkage(many, [Rates(0.3)] * 20)


def test_rates_by_key() -> None:
    errors = {"A": "0.1, missing(0.2)", "*": "0.02"}
    assert rates_of(errors, ["A", "B"]) == [Rates(0.1, 0.2), Rates(0.02)]
    with pytest.raises(SpecError, match="none of the keys"):
        rates_of({"C": "0.1"}, ["A", "B"])


@pytest.mark.parametrize("text", ["age", "age: 5", "age: 0.1, 0.2", "age: often", "age: lost(0.1)",
                                  "age: 0.1; age: 0.2"])  # fmt: skip
def test_rates_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(SpecError, match=r"AGE: 0\.05"):
        unikat.assess(people(50), keys=KEYS, population_size=500, key_errors=text)


def test_assess_tells_the_links(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    frame = people(300)
    frame.to_csv(tmp_path / "people.csv", index=False)
    out = tmp_path / "out"
    code = main(["assess", str(tmp_path / "people.csv"), "--keys", KEYS, "--population-size",
                 "4000", "--model", "latent-class", "--max-sweeps", "60", "--chains", "2",
                 "--key-errors", "age: 0.05, missing(0.1); *: 0.02", "--out", str(out),
                 "--allow-unconverged"])  # fmt: skip
    assert code == 0
    found = json.loads((out / "result.json").read_text())["linkage"]
    assert {one["key"]: (one["wrong"], one["missing"]) for one in found["errors"]}["age"] == (
        0.05, 0.1,
    )  # fmt: skip
    correct, exact, without = (found[name] for name in ("correct", "exact", "without_errors"))
    assert exact["mean"] < correct["mean"] < without["mean"] < found["n_uniques"]
    assert correct["lower"] < correct["median"] < correct["upper"]
    records = pd.read_parquet(out / "records.parquet")
    assert records["link"].sum() == pytest.approx(correct["mean"], rel=1e-6)
    assert records["link"].notna().sum() == found["n_uniques"]
    assert "Linkage: " in capfd.readouterr().out
    assert 'id="linkage"' in (out / "report.html").read_text()
    spec = tomllib.loads((out / "assessment.toml").read_text())
    assert spec["key_errors"] == {"age": "0.05, missing(0.1)", "*": "0.02"}
    again = unikat.assess(out / "assessment.toml", out=tmp_path / "again", trust_spec=True)
    assert again.summary.linkage.correct.mean == pytest.approx(correct["mean"], rel=1e-12)
    asked: dict[str, Any] = {"keys": KEYS, "population_size": 4000, "key_errors": {"age": 0.1}}
    with pytest.raises(SpecError, match="impossible"):
        unikat.assess(
            frame, **asked, model="latent-class", zeros=["age < 1"], zeros_conflict="drop"
        )
    with pytest.raises(SpecError, match="links are correct"):
        unikat.assess(frame, **asked, model="skinner-holmes")
