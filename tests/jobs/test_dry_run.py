"""A dry run: it says what the run then does, refuses what the run refuses, and writes nothing."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unikat
from unikat.cli.main import main
from unikat.datasets import simulate_town
from unikat.errors import UnikatError
from unikat.files.folder import owned
from unikat.inference import schedule
from unikat.inference.backends import Workers
from unikat.inference.chains import sample
from unikat.inference.plan import Plan, StopRule
from unikat.inference.segments import n_bytes
from unikat.inference.trial import SLOWER, Pace, course
from unikat.jobs import dry_run as module
from unikat.models.mixtures.hdp import HDP
from unikat.models.named import build_model
from unikat.protection.foreseen import search_seconds
from unikat.report.text.dry_run import lines, size

KEYS = ["age", "sex", "work", "place"]
SHORT: dict[str, Any] = {"chains": 2, "max_sweeps": 48, "workers": 1}


@pytest.fixture(autouse=True)
def _short_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """No number of these tests depends on how long sweeps are measured."""
    monkeypatch.setattr("unikat.inference.trial.TRIAL_SECONDS", 0.1)


def people(n: int = 240) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 6, n),
            "sex": rng.integers(0, 2, n),
            "work": np.minimum(rng.geometric(0.4, n) - 1, 4),
            "place": rng.integers(0, 4, n),
        }
    )


def everything(folder: Path) -> dict[str, Any]:
    """Content and times of all files and folders."""
    return {
        str(path): (path.stat().st_mtime_ns, None if path.is_dir() else path.read_bytes())
        for path in sorted(folder.rglob("*"))
    }


def dry(**options: Any) -> Any:
    options = {"keys": KEYS, "population_size": 3000, **SHORT, **options}
    return unikat.dry_run(unikat.assess, people(), **options)


def test_it_tells_what_is_in_the_file() -> None:
    frame = people()
    frame["sex"] = frame["sex"].astype("Int64")
    frame.loc[[3, 5, 8], "sex"] = None
    rules = ["work == 4 and age == 0"]
    broken = int(((frame.work == 4) & (frame.age == 0)).sum())
    assert broken > 0
    told = unikat.dry_run(
        unikat.assess, frame, keys=KEYS, population_size=3000, model="hdp", zeros=rules,
        zeros_conflict="drop", **SHORT,
    )  # fmt: skip
    left = frame[~((frame.work == 4) & (frame.age == 0))]
    assert told.n_records == len(left)
    assert told.n_cells == len(left.drop_duplicates())
    complete = left.dropna()
    alone = complete.groupby(KEYS).size() == 1
    assert told.n_sample_uniques == int(alone.sum())
    assert told.n_incomplete == len(left) - len(complete)
    assert {key.name: key.n_missing for key in told.keys}["sex"] == len(left) - len(complete)
    assert told.zeros is not None
    assert (told.zeros.n_dropped, told.zeros.n_impossible) == (broken, 8)
    assert (told.n_units, told.known_exactly) == (3000, False)


@pytest.mark.parametrize(
    "model", ["hdp", "latent-class", "loglinear", "loglinear:interval=bootstrap", "individual-risk"]
)
def test_a_run_goes_as_it_was_told(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thinning and limit are those of the run; one that asks for little stops at the fewest."""
    monkeypatch.setattr("unikat.inference.trial.TRIAL_SECONDS", 60.0)
    little = {"sampling.ess": 1e-3, "sampling.rhat": 1e6}
    options = {"model": model, "set": little, "chains": 2, "max_sweeps": 5000}
    (fit,) = dry(**options).fits
    options = {"keys": KEYS, "population_size": 3000, "workers": 1, **options}
    draws = unikat.assess(people(), **options)
    sampling = draws.result.sampling
    assert fit.thin == sampling.thin
    assert fit.n_chains == sampling.n_chains
    assert fit.fewest_sweeps == sampling.n_sweeps
    assert fit.max_sweeps == 5000 // sampling.thin * sampling.thin


def test_what_takes_long_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unikat.inference.trial.TRIAL_SECONDS", 0.0)
    (fit,) = dry(model="hdp").fits
    assert not fit.measured
    assert 0 < fit.seconds.lower < fit.seconds.upper
    told = dry(model="loglinear")
    (fit,) = told.fits
    assert fit.n_chains is None
    assert 0 < fit.seconds.lower < fit.seconds.upper
    assert "work of loglinear counted" in " ".join(lines(told))
    (fit,) = dry(model="loglinear", max_seconds=5).fits
    assert fit.seconds.upper == fit.seconds_at_limit == 5


@pytest.mark.slow
@pytest.mark.parametrize("candidates", [["latent-class", "hdp", "loglinear"], ["loglinear", "gom"]])
def test_auto_makes_the_fits_that_were_told(
    candidates: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call of `sample`, in its order: chains, limits, thinning.

    A rival may be predicted by a quarter of the sweeps first, or alone.
    """
    made: list[tuple[str, bool, int, int]] = []

    def recorded(model: Any, table: Any, observer: Any, *, plan: Plan, **how: Any) -> Any:
        draws = sample(model, table, observer, plan=plan, **how)
        held_out = "Predictive" in type(observer).__name__
        if made and made[-1][:2] == (model.name, held_out):
            made.pop(), limits.pop()
        made.append((model.name, held_out, plan.n_chains, draws.thin))
        limits.append(plan.stop.max_sweeps)
        return draws

    limits: list[int] = []
    monkeypatch.setattr("unikat.studies.compare.sample", recorded)
    monkeypatch.setattr("unikat.studies.fit.sample", recorded)
    options: dict[str, Any] = {
        "model": "auto", "chains": 3, "workers": 1, "max_sweeps": 400,
        "set": {"candidates": candidates, "evidence_seconds": 0.5},
    }  # fmt: skip
    told = dry(**options).fits
    unikat.assess(people(), keys=KEYS, population_size=3000, **options)
    (begun,) = (fit for fit in told if "first sweeps" in fit.purpose)
    assert begun.n_chains == 3
    told = [fit for fit in told if fit is not begun]
    foreseen = {(fit.model, "held-out" in fit.purpose): fit for fit in told[:-1]}
    assert len(made) == len(told)
    assert {call[:2] for call in made[:-1]} == set(foreseen)
    for (name, held_out, n_chains, thin), limit in zip(made[:-1], limits, strict=False):
        fit = foreseen[name, held_out]
        if held_out or name == candidates[0] or (name, "loglinear") == ("gom", candidates[0]):
            assert fit.n_chains == n_chains
            raced = held_out and name != candidates[0] and limit < fit.max_sweeps
            limit = limit if not raced else fit.max_sweeps
            assert fit.max_sweeps == limit // fit.thin * fit.thin
        if not held_out:
            assert fit.thin == thin
    # What is fitted at last goes on from what was selected.
    assert told[-1].model == "auto"
    assert told[-1].n_chains == made[-1][2] == 3
    assert limits[-1] == 400


def test_compare_makes_the_fits_that_were_told() -> None:
    options: dict[str, Any] = {
        "keys": KEYS, "population_size": 3000, "models": "hdp,loglinear", "chains": 2,
        "max_sweeps": 2000, "workers": 1, "set": {"sampling.ess": 1e-3, "sampling.rhat": 1e6},
    }  # fmt: skip
    told = unikat.dry_run(unikat.compare, people(), **options)
    found = unikat.compare(people(), **options)
    fits = {(fit.model, "held-out" in fit.purpose): fit for fit in told.fits}
    assert len(fits) == 4
    for model in found.summary.models:
        risk = fits[model.model, False]
        assert (risk.thin, risk.fewest_sweeps) == (model.sampling.thin, model.sampling.n_sweeps)


def test_evaluate_makes_the_fits_that_were_told() -> None:
    options: dict[str, Any] = {
        "keys": KEYS, "n": [40, 80], "repeats": 3, "models": "latent-class,loglinear", **SHORT,
    }  # fmt: skip
    told = unikat.dry_run(unikat.evaluate, people(), **{**options, "workers": 2})
    assert sum(fit.n_fits for fit in told.fits) == 12
    assert told.at_a_time == 2
    assert {fit.model for fit in told.fits} == {
        f"{model}, n {n}" for model in ("latent-class", "loglinear") for n in (40, 80)
    }
    # Side by side, two fits take the time of one.
    alone = sum(fit.n_fits * fit.seconds_at_limit for fit in told.fits)
    assert told.seconds_at_limit - told.seconds_to_read - module.START_SECONDS[1] == pytest.approx(
        alone / 2
    )


def test_where_the_file_tells_the_risk_nothing_is_fitted() -> None:
    told = dry(population_size=240)
    assert told.known_exactly
    assert told.fits == ()
    assert "The file itself tells the risk" in "\n".join(lines(told))


@pytest.mark.parametrize("start", [0, 96, 1000])
@pytest.mark.parametrize("thin", [1, 3, 50])
def test_the_fewest_sweeps_are_the_first_round_with_enough_draws(start: int, thin: int) -> None:
    before = -(-start // thin) * thin

    def kept(made: int) -> int:
        used = made - max(schedule.n_discarded_sweeps(made + before, thin) - before, 0)
        return used // thin

    found = schedule.fewest_sweeps(100, thin, 4 * thin, before=before)
    assert kept(found) >= 100
    made = 0
    while made < found:
        assert made == 0 or kept(made) < 100
        made = schedule.next_cut(made + before, thin, 4 * thin) - before
    assert made == found


def pace(**changed: Any) -> Pace:
    values: dict[str, Any] = {
        "measured": True, "sweep": 0.01, "observation": 0.02, "prepare": 0.0, "counted_sweep": 1e7,
        "counted_observation": 2e7, "data_bytes": 0.0, "job_bytes": 0.0, "state_bytes": 0.0,
        "totals_bytes": 0.0,
    }  # fmt: skip
    return Pace(**{**values, **changed})


def test_the_time_of_a_fit_is_sweeps_times_pace() -> None:
    plan = Plan(n_chains=4, stop=StopRule(max_sweeps=100_000))
    alone = course(HDP(), pace(), plan, Workers(n_workers=1))
    both = course(HDP(), pace(), plan, Workers(n_workers=2))
    three = course(HDP(), pace(), plan, Workers(n_workers=3))
    # Four chains on three workers take two turns, as on two.
    assert alone.seconds_per_sweep == 2 * both.seconds_per_sweep == 2 * three.seconds_per_sweep
    assert alone.thin == 4
    assert alone.seconds_per_sweep == pytest.approx(4 * (0.01 + 0.02 / 4))
    assert alone.at_limit == pytest.approx(100_000 * alone.seconds_per_sweep)
    fewest = alone.fewest_sweeps * alone.seconds_per_sweep
    assert alone.lower < fewest < alone.upper <= 1.25 * SLOWER * fewest * (1 + 1e-12)
    limited = Plan(n_chains=4, stop=StopRule(max_sweeps=100_000, max_seconds=7.0))
    short = course(HDP(), pace(), limited, Workers(n_workers=1))
    assert (short.upper, short.at_limit) == (7.0, 7.0)
    guessed = course(HDP(), pace(measured=False), plan, Workers(n_workers=1))
    assert guessed.lower < alone.lower
    assert guessed.upper > alone.upper


def test_arrays_are_counted_once() -> None:
    shared = np.zeros(100)
    assert n_bytes([shared, (shared, {"a": np.zeros(5, np.int8)}), "text", 3]) == 805


BAD: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (unikat.assess, {"keys": ["age", "nothing"]}),
    (unikat.assess, {"population_size": 3}),
    (unikat.assess, {"model": "hdpp"}),
    (unikat.assess, {"zeros": ["age == 0"]}),
    (unikat.assess, {"zeros": ["age = "], "zeros_conflict": "drop"}),
    (unikat.assess, {"model": "latent-class", "set": {"components": 10**9}}),
    (unikat.assess, {"model": "superpopulation-1", "registry": people(20)}),
    (unikat.assess, {"sensitive": "nothing"}),
    (unikat.assess, {"resume": True}),
    (unikat.compare, {"models": "hdp,hdp"}),
    (unikat.compare, {"models": "auto", "population_size": 240}),
    (unikat.compare, {"models": "hdp", "population_size": 240}),
    (unikat.compare, {}),
    (unikat.evaluate, {"n": 1000, "population_size": None}),
    (unikat.evaluate, {"n": 10, "design": "stratified", "population_size": None}),
]


@pytest.mark.parametrize(("run", "options"), BAD)
def test_what_the_run_refuses_is_refused_in_the_same_words(
    run: Callable[..., Any], options: dict[str, Any]
) -> None:
    said = []
    options = {"keys": KEYS, "population_size": 3000, **SHORT, **options}
    options = {name: value for name, value in options.items() if value is not None}
    for call in (run, lambda *given, **how: unikat.dry_run(run, *given, **how)):
        with pytest.raises(UnikatError) as refused:
            call(people(), **options)
        said.append(str(refused.value))
    assert said[0] == said[1]


def test_the_folder_is_looked_at_and_left(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "model": "loglinear", "set": {"sampling.ess": 1.0}, "max_sweeps": 200
    }  # fmt: skip
    dry(out=tmp_path / "new" / "deep", **options)
    assert list(tmp_path.iterdir()) == []
    done = {"keys": KEYS, "population_size": 3000, **SHORT, **options}
    unikat.assess(people(), out=tmp_path / "done", **done)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "result.json").write_text("mine")
    places = {
        "done": "already holds an assessment",
        "file": "is a file, not a folder",
        "file/below": "Cannot write to the folder",
        "foreign": "which unikat did not write there",
    }
    for name, words in places.items():
        with pytest.raises(UnikatError, match=words):
            unikat.assess(people(), out=tmp_path / name, **done)
    before = everything(tmp_path)
    for name, words in places.items():
        with pytest.raises(UnikatError, match=words):
            dry(out=tmp_path / name, **options)
    dry(out=tmp_path / "done", overwrite=True, **options)
    with owned(tmp_path / "done", ()), pytest.raises(UnikatError, match="Another run of unikat"):
        in_thread(lambda: dry(out=tmp_path / "done", overwrite=True, **options))
    assert everything(tmp_path) == before


def in_thread(call: Callable[[], Any]) -> None:
    """Call in another thread, whose locks are its own, and raise what it raises."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        pool.submit(call).result()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(UnikatError, match="Cannot write to the folder"):
        dry(out=tmp_path / "closed" / "out")


def test_too_little_memory_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    enough = dry(model="hdp")
    assert enough.enough_memory
    monkeypatch.setattr(module, "memory", lambda: 2**20)
    told = dry(model="hdp")
    assert not told.enough_memory
    said = " ".join(lines(told))
    assert "It may not be enough" in said
    assert "--workers 1" in said


def test_more_workers_and_chains_need_more_memory() -> None:
    def upper(**options: Any) -> float:
        return float(dry(model="hdp", **options).memory.upper)

    assert upper(workers=3, chains=6) > upper(workers=1, chains=6) + module.WORKER


def test_the_command_prints_words_or_json_or_nothing(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    people().to_csv("people.csv", index=False)
    command = ["people.csv", "--keys", ",".join(KEYS), "--dry-run"]
    policy = tmp_path.with_name("policy.toml")
    policy.write_text('[[scenario]]\nname = "all"\ntarget = "k >= 3"\n')
    each = {
        "assess": ["--population-size", "3000", "--model", "hdp"],
        "compare": ["--population-size", "3000", "--models", "hdp,loglinear"],
        "evaluate": ["--n", "50", "--models", "loglinear", "--repeats", "2"],
        "verify": ["people.csv", "--population-size", "3000", "--model", "hdp"],
        "protect": ["--population-size", "3000", "--model", "hdp", "--target", "tau1 <= 5"],
        "check": ["--policy", str(policy)],
        "synthesize": ["--model", "latent-class"],
        "attack": ["--synthetic", "people.csv", "--model", "latent-class"],
    }
    for name, options in each.items():
        assert main([name, *command, *options]) == 0
        said = capsys.readouterr().out
        assert "Expected time: " in said
        assert "Dry run: nothing was written." in said
        assert main([name, *command, *options, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["command"] == name
        assert told["folder"].startswith("people-")
        assert 0 < told["seconds"]["lower"] < told["seconds"]["upper"] < math.inf
        assert main([name, *command, *options, "--quiet"]) == 0
        assert capsys.readouterr().out == ""
    assert main(["attack", *command, *each["attack"], "--language", "es"]) == 0
    assert "Ensayo: no se escribió nada." in capsys.readouterr().out
    assert main(["assess", *command, "--population-size", "3"]) == 1
    assert "Error:" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]


def test_a_protection_fits_the_file_and_the_protected_file() -> None:
    common: dict[str, Any] = {"keys": KEYS, "population_size": 3000, "model": "hdp", **SHORT}
    once = unikat.dry_run(unikat.assess, people(), **common)
    told = unikat.dry_run(unikat.protect, people(), recode={"age": "width(2)"}, **common)
    assert [one.n_fits for one in told.fits] == [2 * one.n_fits for one in once.fits]
    assert (told.n_cells, told.n_sample_uniques) == (once.n_cells, once.n_sample_uniques)
    assert (told.command, told.known_exactly) == ("protect", False)
    same = unikat.dry_run(unikat.verify, people(), protected=people(), **common)
    assert [one.n_fits for one in same.fits] == [one.n_fits for one in once.fits]
    coarse = people().assign(age=[f"{age // 2 * 2}-{age // 2 * 2 + 1}" for age in people()["age"]])
    other = unikat.dry_run(unikat.verify, people(), protected=coarse, **common)
    assert [one.n_fits for one in other.fits] == [2 * one.n_fits for one in once.fits]
    # What the run refuses the dry run does.
    for options in ({"recode": {"agee": "width(2)"}}, {"target": "k >= 2", "keep": "agee"}):
        said = []
        for call in (unikat.protect, partial(unikat.dry_run, unikat.protect)):
            with pytest.raises(UnikatError) as refused:
                call(people(), **common, **options)
            said.append(str(refused.value))
        assert said[0] == said[1]


def test_a_search_is_foreseen_where_keys_are_missing() -> None:
    """The look by one state, by which it is, once had no halves to compare."""
    frame = people()
    frame["age"] = frame["age"].where(frame.index > 9)
    common: dict[str, Any] = {"keys": KEYS, "population_size": 3000, "model": "hdp", **SHORT}
    told = unikat.dry_run(unikat.protect, frame, target="tau1 <= 5", **common)
    assert told.seconds.upper > 0.0


@pytest.mark.parametrize("replaced", [(), ("age",)])
def test_a_synthesis_makes_the_fit_that_was_told(
    replaced: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unikat.inference.trial.TRIAL_SECONDS", 60.0)
    little = {"sampling.ess": 1e-3, "sampling.rhat": 1e6}
    options: dict[str, Any] = {
        "keys": KEYS, "replace": replaced, "datasets": 2, "chains": 2, "max_sweeps": 5000,
        "workers": 1, "set": little, "model": "latent-class",
    }  # fmt: skip
    told = unikat.dry_run(unikat.synthesize, people(), **options)
    (fit,) = told.fits
    made = unikat.synthesize(people(), **options).summary.fit
    assert (fit.n_chains, fit.n_fits) == (made.n_chains, 1)
    assert (fit.fewest_sweeps, fit.max_sweeps) == (made.n_sweeps, 5000 // fit.thin * fit.thin)
    assert (told.n_records, told.n_units) == (240, None)
    assert "population" not in "\n".join(lines(told))


def test_households_are_called_so_and_their_head_is_looked_for() -> None:
    town = simulate_town(150, households=True)
    given = {
        "keys": "relation,age,sex", "household": "household", "chains": 2, "workers": 1,
        "max_sweeps": 20,
    }  # fmt: skip
    told = unikat.dry_run(unikat.synthesize, town, **given)
    said = "\n".join(lines(told))
    assert told.unit == "household"
    assert f"{told.n_records} households" in said
    assert "records" not in said.partition("distinct")[0]


@pytest.mark.parametrize(
    ("options", "fits"),
    [
        ({}, 0),
        ({"population_size": 3000}, 3),
        # With the fit for the bound of membership.
        ({"model": "latent-class"}, 4),
        ({"model": "latent-class", "population_size": 3000}, 7),
    ],
    ids=["no model", "tau1", "intruder", "both"],
)
def test_an_attack_makes_the_fits_that_were_told(
    options: dict[str, Any], fits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fits of the original, and of two synthetic files."""
    made: list[int] = []

    def recorded(model: Any, table: Any, *rest: Any, **how: Any) -> Any:
        if how.get("start") is None:
            made.append(table.n_records)
        return sample(model, table, *rest, **how)

    monkeypatch.setattr("unikat.studies.fit.sample", recorded)
    monkeypatch.setattr("unikat.synthesis.attacks.fits.sample", recorded)
    monkeypatch.setattr("unikat.synthesis.attacks.membership_model.sample", recorded)
    rng = np.random.default_rng(8)
    synthetic = [people().sample(frac=1.0, random_state=rng).reset_index() for _ in range(2)]
    synthetic[1].loc[0, "place"] = 0
    given = {"keys": KEYS, "synthetic": synthetic, "targets": "place", **SHORT, **options}
    told = unikat.dry_run(unikat.attack, people(), **given)
    assert made == []
    unikat.attack(people(), **given)
    assert sum(fit.n_fits for fit in told.fits) == len(made) == fits
    assert "Attacks without a model are not counted" in "\n".join(lines(told))


def test_other_functions_are_refused() -> None:
    with pytest.raises(UnikatError, match="dry_run takes"):
        unikat.dry_run(unikat.read, people())


def test_sizes_in_words() -> None:
    assert [size(n) for n in (0, 999, 1000, 1024, 1023.9 * 2**10, 10 * 2**30, 1.5 * 2**40)] == [
        "0 bytes", "999 bytes", "1 KB", "1 KB", "1 MB", "10 GB", "1.5 TB",
    ]  # fmt: skip


def test_a_search_is_foreseen_by_a_look() -> None:
    frame = pd.DataFrame({"sex": list("fm") * 40, "age": np.arange(80) % 9})
    table = unikat.read(frame, ["sex", "age"], unikat.Design(population_size=900)).tabulate()
    search, (least, most) = search_seconds(build_model("latent-class", {}), table, 1)
    assert 0.0 < least < most < search
    # A model without states is not looked at.
    assert search_seconds(object(), table, 1) == (0.0, (0.0, 0.0))
