from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from inference import checkpoint_files
from risk.toy_model import Toy
from studies.test_compare import HERE, KEYS, some_table
from studies.test_designs import people
from unikat.data.checks import table_warnings
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import OutputError, SpecError
from unikat.inference import checkpoint
from unikat.inference.backends import Workers
from unikat.inference.chains import sample
from unikat.inference.plan import Plan, StopRule
from unikat.inference.progress import Watcher
from unikat.models import auto as options_module
from unikat.models.auto import Auto
from unikat.models.base import Start
from unikat.models.calibrated import OVERDISPERSION, SHIFTS, Calibrated
from unikat.models.catalogue import MODELS
from unikat.models.loglinear.conditional import LogLinear
from unikat.models.mixtures.latent_class import LatentClass
from unikat.risk.estimate import assess
from unikat.risk.measures import RiskMeasures
from unikat.risk.observe import observe, observer_for
from unikat.studies import auto as module
from unikat.studies import compare as comparing
from unikat.studies.auto import Execution, decided
from unikat.studies.calibrate import posterior, prior
from unikat.studies.compare import Candidate, ComparisonSettings, compare
from unikat.studies.evaluate import Job, run_job
from unikat.studies.fit import fit
from unikat.studies.held_out import HeldOutScore
from unikat.studies.rare_cells import RareCells
from unikat.studies.scores import Fit
from unikat.studies.store import HELD_OUT, RACE, FitStore

RIGHT, WRONG = "toy:prior=0.3", "toy:prior=0.3:independent=true"


@dataclass(frozen=True, kw_only=True)
class Refusing(Toy):
    name: ClassVar[str] = "refusing"

    def prepare(self, table: Any) -> Any:
        raise SpecError("This model needs other records.")


@dataclass(frozen=True, kw_only=True)
class Conditional(Toy):
    """Predicts as well as its parent, but cannot be chosen."""

    name: ClassVar[str] = "conditional"
    uncertainty: ClassVar[str] = "conditional"


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    for model in (Toy, Refusing, Conditional):
        monkeypatch.setitem(MODELS, model.name, model)
    names = (*options_module.CHOOSABLE, "toy", "refusing")
    monkeypatch.setattr(options_module, "CHOOSABLE", names)


def auto(*candidates: str, **options: Any) -> Auto:
    # Some hundreds of sweeps of the toy.
    return Auto(candidates=candidates, **{"evidence_seconds": 0.4 * len(candidates)} | options)


def chosen(
    model: Any, table: Any = None, seed: int = 1, n_chains: int = 4, **execution: Any
) -> Any:
    table = some_table() if table is None else table
    execution = {"workers": HERE} | execution
    return decided(model, table, seed=seed, n_chains=n_chains, execution=Execution(**execution))


def same(one: Any, other: Any) -> None:
    np.testing.assert_equal(asdict(one), asdict(other))


def rows(found: Calibrated) -> dict[str, Any]:
    return {row["model"]: row for row in found.told.values["candidates"]}


def test_other_models_are_left_alone():
    for model in (Toy(), LatentClass()):
        assert decided(model, some_table(), seed=1) is model


@pytest.mark.parametrize("candidates", [(WRONG, RIGHT), (RIGHT, WRONG)])
def test_the_model_that_predicts_better_is_chosen(candidates):
    """Whether it comes first or last: it is better by more than 5 standard errors."""
    asked = auto(*candidates)
    found = chosen(asked)
    assert isinstance(found, Calibrated)
    assert found.wrapped == Toy(prior=0.3)
    assert found.asked is asked
    told = found.told.values
    assert told["chosen"] == RIGHT
    assert [row["model"] for row in told["candidates"]] == list(candidates)
    right, wrong = rows(found)[RIGHT], rows(found)[WRONG]
    assert (right["chosen"], wrong["chosen"]) == (True, False)
    assert right["behind"] == right["behind_error"] == 0.0
    assert wrong["behind"] < -5.0 * wrong["behind_error"] < 0.0
    # Independent keys spread the records over too many cells.
    assert 0.0 < right["uniques"] < wrong["uniques"]
    assert right["tau1_lower"] <= right["tau1"] <= right["tau1_upper"]
    assert "not_fitted" not in told
    # The table has fewer keys and records than the calibration was learned from, and that is all.
    (outside,) = found.told.warnings
    assert outside.startswith("Model uncertainty was calibrated on samples with")


@pytest.mark.parametrize("order", [("0.05", "0.1"), ("0.1", "0.05")])
def test_in_doubt_the_first_is_kept(order):
    """On both sides of the prior that predicts best: the difference is within its chance."""
    first, second = (f"toy:prior={prior}" for prior in order)
    found = chosen(auto(first, second))
    assert found.told.values["chosen"] == first
    behind = rows(found)[first]["behind"], rows(found)[second]["behind"]
    assert min(behind) < 0.0 == max(behind)


@pytest.mark.parametrize(
    ("first", "rival", "raced"),
    [(RIGHT, WRONG, True), ("toy:prior=0.05", "toy:prior=0.1", False)],
)
def test_a_rival_that_is_surely_worse_is_stopped_early(monkeypatch, first, rival, raced):
    """By a quarter of the sweeps; one that may still be better makes all of them."""
    monkeypatch.setattr(module, "STOP", StopRule(rhat=1.0001, ess=1e6))
    kinds: list[tuple[str, int]] = []
    real = module.held_out_fit

    def watched(candidate, table, settings, *, kind=HELD_OUT, **how):
        found = real(candidate, table, settings, kind=kind, **how)
        kinds.append((kind, found.sampling.n_sweeps))
        return found

    monkeypatch.setattr(module, "held_out_fit", watched)
    found = chosen(auto(first, rival))
    assert found.told.values["chosen"] == first
    assert [kind for kind, _ in kinds] == ([RACE] if raced else [RACE, HELD_OUT])
    limit = module._limits(Toy(prior=0.3), some_table(), 0.4e9, 0.5)["held-out"]
    assert kinds[0][1] <= limit // 4
    assert raced or kinds[1][1] > 0.9 * limit


def test_models_without_a_posterior_are_shown_only():
    """However well they predict."""
    found = chosen(auto(WRONG, "conditional:prior=0.3"))
    assert found.told.values["chosen"] == WRONG
    assert rows(found)["conditional:prior=0.3"]["behind"] == 0.0
    assert rows(found)[WRONG]["behind"] < 0.0


def score(values: list[float]) -> Any:
    """A candidate with these scores of ten records each."""
    scores, counts = np.array(values), np.full(len(values), 10)
    possible = np.isfinite(scores)
    found = HeldOutScore(
        n_records=10 * len(values),
        n_zero=int(counts[~possible].sum()),
        mean=float(scores[possible].mean()),
        standard_error=0.1,
        scores=scores,
        counts=counts,
    )
    return SimpleNamespace(held_out=SimpleNamespace(score=found), model=Toy())


@pytest.mark.parametrize(
    ("others", "position"),
    [
        ([[-3.0, -3.0, -3.0]], 0),
        # Better by 0.1 or 0.3 with a standard error of 0.03, then in doubt.
        ([[-1.8, -2.1, -1.8]], 1),
        ([[-1.8, -2.1, -1.8], [-1.6, -1.9, -1.6]], 2),
        ([[-1.6, -1.9, -1.6], [-1.8, -2.1, -1.8]], 1),
        ([[-1.0, -3.0, -1.8]], 0),
        # Impossible records refute a model, however good it is elsewhere.
        ([[-1.0, -1.0, -np.inf]], 0),
    ],
)
def test_choices_by_hand(others, position):
    models = tuple(score(values) for values in ([-2.0, -2.0, -2.0], *others))
    assert module._choose(models, {}) is models[position]


def test_choices_by_hand_among_models_that_are_refuted():
    """Fewer impossible records come first, also among those that beat the first."""
    never = -np.inf
    first, most, some = score([never, never, -1.0]), score([never, -1.0, -1.0]), score([-2.0] * 3)
    assert module._choose((first, most, some), {}) is some
    assert module._choose((first, some, most), {}) is some
    assert module._choose((first, most), {}) is most


def test_the_error_is_what_the_rare_cells_tell_of_the_chosen_model():
    """From a comparison by itself, whose settings are those written down in the documentation."""
    # Of so small a population that cells seen once are rare.
    table, asked = replace(some_table(), population_size=170), auto(RIGHT)
    found = chosen(asked, table)
    settings = ComparisonSettings(
        seed=1,
        plan=Plan(n_chains=2, stop=StopRule(rhat=1.02, ess=400.0)),
        held_out=0.5,
        risk_chains=4,
        evidence=True,
    )
    candidate = Candidate(label="x", model=Toy(prior=0.3))
    limit = module._limits(candidate.model, table, 1e9 * asked.evidence_seconds, 0.5)["risk"]

    def begin() -> Start:
        plan = Plan(n_chains=4, stop=StopRule(rhat=1.02, ess=100.0, max_sweeps=limit // 8))
        measures = RiskMeasures.of(table)
        first = sample(candidate.model, table, measures, seed=1, plan=plan, workers=HERE)
        return Start(first.states, first.n_sweeps)

    (model,) = compare([candidate], table, settings, workers=HERE, begin=begin).models
    expected = posterior(prior(table), np.reshape(model.risk.evidence, (len(OVERDISPERSION), -1)))
    weights = np.array(found.weights).reshape(expected.shape)
    np.testing.assert_allclose(weights, expected, rtol=1e-12)
    np.testing.assert_allclose(weights.sum(), 1.0)
    assert not np.allclose(weights, prior(table), rtol=0.01)
    before = found.told.values["before"]
    assert before == {
        name: getattr(model.risk.tau1, name) for name in ("mean", "median", "lower", "upper")
    }
    spread, level = found.told.values["model_error"]
    assert (spread["what"], level["what"]) == ("overdispersion", "level")
    assert spread["lower"] <= spread["median"] <= spread["upper"]
    assert np.exp(SHIFTS[0]) <= level["lower"] <= level["median"] <= level["upper"]


@pytest.mark.slow
def test_the_last_fit_goes_on_from_the_evidence():
    """Of the chosen model, whichever place it has; the others have fewer chains and sweeps."""
    table = some_table()
    for candidates in ((WRONG, RIGHT), (RIGHT, WRONG)):
        found = chosen(auto(*candidates), n_chains=3)
        fitted, observer = observe(found, table, RiskMeasures.of)
        assert len(found.start.states) == 3
        plan = Plan(n_chains=3, stop=StopRule(max_sweeps=200))
        on = sample(found, fitted, observer, seed=1, plan=plan, start=found.start, workers=HERE)
        last = fit(found.asked, table, plan=plan, execution=Execution(workers=HERE)).draws
        np.testing.assert_array_equal(last.scalars["tau1"], on.scalars["tau1"])
        anew = sample(found, fitted, observer, seed=1, plan=plan, workers=HERE)
        assert not np.array_equal(on.scalars["tau1"], anew.scalars["tau1"])


def test_states_of_a_file_are_checked(tmp_path):
    """A kernel reads them without looking."""
    asked = auto("latent-class", evidence_seconds=1e-3)
    found = chosen(asked, folder=tmp_path)
    (path,) = tmp_path.glob("*-risk/finished.fit")
    header = json.loads(checkpoint_files.parts(path.read_bytes())[0])
    content = checkpoint.load(path, header["run"])
    n_sweeps = content["fit"]["n_before"] + content["fit"]["sampling"]["n_sweeps"]
    assert found.start.n_sweeps == n_sweeps > content["fit"]["n_before"] > 0
    state = content["fit"]["states"][0]
    for wrong in (state._replace(z=state.z[:-1]), state._replace(z=state.z + 30_000)):
        content["fit"]["states"] = (wrong, *content["fit"]["states"][1:])
        checkpoint.save(path, header["run"], content)
        with pytest.raises(OutputError, match="cannot be understood"):
            chosen(asked, folder=tmp_path, resume=True)


def test_evidence_and_states_are_those_of_the_model_selected():
    """Not of the first candidate: the same as where it is the only one."""
    table = replace(some_table(), population_size=170)
    both = chosen(auto(WRONG, RIGHT), table)
    alone, other = chosen(auto(RIGHT), table), chosen(auto(WRONG), table)
    assert both.told.values["chosen"] == RIGHT
    assert both.weights == alone.weights != other.weights
    assert both.start.n_sweeps == alone.start.n_sweeps
    np.testing.assert_equal(both.start.states, alone.start.states)
    with pytest.raises(AssertionError):
        np.testing.assert_equal(other.start.states, alone.start.states)


def test_candidates_that_refuse_the_table_are_listed():
    found = chosen(auto("refusing", RIGHT))
    assert found.told.values["chosen"] == RIGHT
    assert list(rows(found)) == [RIGHT]
    (refused,) = found.told.values["not_fitted"]
    assert refused == {"model": "refusing", "reason": "This model needs other records."}


def test_what_would_take_too_long_is_not_fitted(monkeypatch):
    """144 combinations in half a millisecond, half of what is set aside."""
    monkeypatch.setattr(module, "WALK_COST", 1e4)
    found = chosen(auto(RIGHT, "loglinear", evidence_seconds=1e-3))
    (refused,) = found.told.values["not_fitted"]
    assert refused["model"] == "loglinear"
    assert "144 combinations" in refused["reason"]
    assert list(rows(found)) == [RIGHT]
    module.refuse_large(LogLinear(), some_table(), 144 * module.WALK_COST)
    with pytest.raises(SpecError, match="evidence_seconds"):
        module.refuse_large(LogLinear(), some_table(), 143 * module.WALK_COST)


@pytest.mark.parametrize("candidates", [["refusing"], ["refusing", "conditional:prior=0.3"]])
def test_somebody_has_to_have_a_posterior(candidates):
    with pytest.raises(SpecError, match=r"(?s)No candidate .*refusing: This model needs other"):
        chosen(auto(*candidates))


@pytest.mark.parametrize(("seconds", "sweeps"), [(1e-9, 200), (1.0, 2750), (1e9, 20_000)])
def test_work_is_counted(seconds, sweeps):
    """0.55 of the work for all records, half of that observing; a sweep of the toy is 1e5 ns."""
    limits = module._limits(Toy(), some_table(), 1e9 * seconds, 0.5)
    assert limits["risk"] == sweeps
    assert 200 <= limits["held-out"] <= 20_000
    if seconds == 1.0:
        # Of the rest; half of the records cost less.
        assert abs(limits["held-out"] - 0.45e9 / 2e5 / 0.75) <= 1


def test_more_seconds_are_more_sweeps():
    """Where a fit ends by its limit and not by convergence."""
    counted = []
    for seconds in (1e-3, 0.12):
        found = chosen(auto("latent-class", evidence_seconds=seconds))
        counted.append(rows(found)["latent-class"])
    assert [row["converged"] for row in counted] == [False, False]
    assert counted[0]["score"] != counted[1]["score"]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_whatever_the_workers():
    table = replace(some_table(holes=True), population_size=170)
    asked = auto(RIGHT)
    one = chosen(asked, table)
    same(one, chosen(asked, table, workers=Workers(n_workers=2, n_threads=1)))
    assert chosen(asked, table, seed=2).weights != one.weights


@pytest.mark.slow
def test_a_second_call_goes_on_where_the_first_was(tmp_path, monkeypatch):
    asked = auto(WRONG, RIGHT)
    folder = tmp_path / "evidence"
    plain = chosen(asked)
    real, calls = comparing.sample, []

    def interrupted(*arguments, **options):
        calls.append(arguments)
        draws = real(*arguments, **options)
        return replace(draws, stop_reason="interrupted") if len(calls) == 3 else draws

    monkeypatch.setattr(comparing, "sample", interrupted)
    with pytest.raises(KeyboardInterrupt):
        chosen(asked, folder=folder)
    assert len(calls) == 3
    # That of the rival's first sweeps, then it is predicted and fitted.
    same(plain, chosen(asked, folder=folder, resume=True))
    assert len(calls) == 6
    # All is there: no new fit.
    same(plain, chosen(asked, folder=folder, resume=True))
    assert len(calls) == 6
    # Not asked to go on, it does all again.
    same(plain, chosen(asked, folder=folder))
    assert len(calls) == 11
    FitStore(folder=folder).clear()
    assert not folder.exists()


def test_what_is_done_is_told():
    stages, estimates, events = [], [], []
    fits = []

    def preliminary(estimate: Any) -> None:
        fits.append(len(stages))
        estimates.append(estimate)

    chosen(
        auto("refusing", WRONG, RIGHT), preliminary=preliminary,
        watcher=Watcher(progress=events.append, stage=stages.append),
    )  # fmt: skip
    # Of the first candidate that can be fitted, after its first sweeps.
    (first,) = estimates
    assert first.draws.model.wrapped.name == "toy"
    assert stages[fits[0] - 1].startswith("Candidate 2 of 3")
    assert "preliminary answer" in stages[fits[0] - 1]
    assert "all records" in stages[fits[0] - 2]
    assert any("toy:prior=0.3:independent=true" in stage for stage in stages)
    assert stages[-1].startswith("Candidate 3 of 3")
    assert events


@pytest.mark.parametrize("calibrate", [True, False])
def test_the_preliminary_answer_has_the_error_that_is_known_beforehand(calibrate: bool):
    """And moves nothing that follows; without calibration it is the model's own."""
    table, estimates = some_table(n=200), []
    asked = replace(auto(RIGHT, WRONG), calibrate=calibrate)
    found = chosen(asked, table, preliminary=estimates.append)
    same(found, chosen(asked, table))
    (first,) = estimates
    assert first.draws.model.uncertainty == ("calibrated" if calibrate else "posterior")
    if not calibrate:
        return
    model = first.draws.model
    np.testing.assert_allclose(model.weights, prior(table).ravel())
    assert model.told.chosen == RIGHT
    error = first.draws.retained("tau1") - first.draws.retained("tau1_model")
    assert error.std() > 0.05


def test_an_assessment_with_its_error():
    """Sampled until it has converged, with and without its error."""
    table = some_table(n=80)
    model = chosen(auto(RIGHT), table)
    plan = Plan(n_chains=2, stop=StopRule(ess=400.0, rhat=1.05))
    draws = sample(
        model, table, observer_for(model, RiskMeasures.of(table), table), seed=1, plan=plan,
        workers=HERE,
    )  # fmt: skip
    estimate = assess(draws, table)
    assert estimate.converged
    assert {"tau1", "tau1_model"} <= set(draws.diagnostics)
    # So that the ends of the intervals are known.
    assert draws.retained("tau1").size >= 1600
    assert draws.facts.values["chosen"] == RIGHT
    error = draws.retained("tau1") - draws.retained("tau1_model")
    assert error.std() > 0.05


def test_an_evaluation_of_it():
    population = people(60)
    plan = Plan(n_chains=2, stop=StopRule(max_sweeps=60))
    job = Job(
        fit=Fit(model="auto", n=20, repeat=1), sample=population.sample(np.arange(20)),
        second=None, model=auto("toy"), seed=3, plan=plan, level=0.95, n_threads=1, device="cpu",
    )  # fmt: skip
    found = run_job(job)
    assert found.error is None
    assert found.n_uniques > 0
    assert replace(run_job(job), seconds=None, records=None) == replace(
        found, seconds=None, records=None
    )


def test_a_comparison_is_not_one_of_choices():
    with pytest.raises(SpecError, match="'auto' is no model"):
        compare(
            [Candidate(label="auto", model=auto(RIGHT))],
            some_table(),
            ComparisonSettings(seed=1),
            workers=HERE,
        )


def test_a_file_without_rare_cells_tells_nothing():
    """Every combination occurs often but one that is frequent, too: nothing is learned."""
    codes = [[i % 3, 0] for i in range(60)]
    table = CellTable.from_codes([*codes, [5, 5]], KEYS, 300)
    rare = RareCells.of(table)
    assert rare.counts.tolist() == [1]
    # Its probability without its record is that of many units.
    totals = rare.start()
    totals.draws[:, -1] = 50
    totals.units[:], totals.records[:] = 5e4, 1e4
    assert not rare.log_likelihood(totals).any()
    nothing = RareCells.of(CellTable.from_codes(codes, KEYS, 300))
    assert len(nothing.cells) == 0
    flat = nothing.log_likelihood(nothing.start())
    np.testing.assert_allclose(posterior(prior(table), flat), prior(table), rtol=1e-9)


def test_what_the_table_says_of_its_keys_is_not_said_again_with_the_choice():
    once = np.minimum(np.arange(100), 30)
    keys = [Key.of_size("A", 31), Key.of_size("B", 2)]
    table = CellTable.from_codes(np.column_stack((once, np.arange(100) % 2)), keys, 5000)
    assert len(table_warnings(table)) == 1
    (outside,) = chosen(auto("toy"), table).told.warnings
    assert outside.startswith("Model uncertainty was calibrated on samples with")
