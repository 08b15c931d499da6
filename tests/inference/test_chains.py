"""Sampling: the same numbers however the work is cut and wherever it runs; when it stops."""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pytest

from inference.toy_chain import Dying, Toy, ToyState, ToyTable, ToyTotals, Watch
from unikat.errors import OutputError, SpecError, UnikatError
from unikat.inference import plan as plans
from unikat.inference import schedule
from unikat.inference.backends import Workers
from unikat.inference.chains import sample
from unikat.inference.checkpoint import Checkpoint
from unikat.inference.diagnostics import as_part, diagnose
from unikat.inference.plan import Plan, StopRule
from unikat.inference.progress import Outlook, ProgressEvent, seconds_left
from unikat.inference.segments import Segment, run_segment
from unikat.models.base import Start, Stream
from unikat.models.preparing import report

HERE = Workers(n_workers=1)
SHORT = Plan(thin=3, stop=StopRule(max_sweeps=700))
TABLE = ToyTable()


def draw(model=None, *, plan=SHORT, workers=HERE, observer=None, **options):
    return sample(
        model or Toy(apart=1.0),
        TABLE,
        observer or Watch(),
        seed=7,
        plan=plan,
        workers=workers,
        **options,
    )


def same(one, other):
    """Compare two results to the last bit."""
    assert list(one.scalars) == list(other.scalars)
    for name in one.scalars:
        np.testing.assert_array_equal(one.scalars[name], other.scalars[name])
    for mine, theirs in zip(one.totals, other.totals, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    for name in ("n_discarded", "n_sweeps", "thin", "stop_reason", "converged", "diagnostics"):
        assert getattr(one, name) == getattr(other, name)


@pytest.fixture(scope="module")
def reference():
    return draw()


def by_hand(model, n_sweeps, thin):
    """Run the chains sweep by sweep, in the plainest way."""
    data = model.prepare(TABLE)
    observer = Watch()
    values, totals = [], []
    discarded = schedule.n_discarded_sweeps(n_sweeps, thin)
    for chain in range(4):
        state = model.init(Stream(7, chain, 0), data)
        first, parts = [], {}
        for sweep in range(1, n_sweeps + 1):
            state, _ = model.step(Stream(7, chain, sweep), state, data, 1)
            if sweep % thin == 0:
                epoch = schedule.epoch(sweep, thin)
                if epoch not in parts:
                    parts[epoch] = observer.start()
                seen = observer.observe(Stream(7, chain, sweep), model, state, data, parts[epoch])
                first.append(seen["first"])
        values.append(first)
        kept = [part for epoch, part in sorted(parts.items())][-2:]
        totals.append([sum(fields) for fields in zip(*kept, strict=True)])
    return np.array(values), ToyTotals(*(sum(f) for f in zip(*totals, strict=True))), discarded


def test_against_a_plain_loop(reference):
    values, totals, discarded = by_hand(Toy(apart=1.0), 699, 3)
    np.testing.assert_array_equal(reference.scalars["first"], values)
    np.testing.assert_array_equal(reference.totals.count, totals.count)
    np.testing.assert_array_equal(reference.totals.sums, totals.sums)
    assert reference.n_discarded == discarded // 3
    assert reference.n_sweeps == 699
    assert reference.thin == 3
    assert reference.scalars["size"].shape == (4, 233)


def test_totals_are_of_the_retained_draws(reference):
    retained = reference.retained("first") - np.arange(4.0)[:, None]
    assert reference.totals.count == retained.size
    assert reference.totals.sums[0] == pytest.approx(0.1 * retained.sum())
    assert 0.25 <= reference.n_discarded / reference.scalars["first"].shape[1] <= 0.5


@pytest.mark.parametrize(
    "workers",
    [
        Workers(n_workers=2),
        Workers(n_workers=4, n_threads=3),
        Workers(n_workers=1, n_threads=2),
        Workers(),
    ],
)
def test_numbers_do_not_depend_on_workers(reference, workers):
    same(draw(workers=workers), reference)


def test_a_costly_job_gets_processes_by_default(reference):
    same(draw(Toy(apart=1.0, work=1e6), plan=SHORT, workers=Workers()), reference)


def test_executor_of_the_user_is_used_and_left_open(reference):
    with ThreadPoolExecutor(3) as executor:
        same(draw(workers=Workers(executor=executor)), reference)
        assert executor.submit(lambda: 5).result() == 5


@pytest.mark.parametrize("made", [60, 99, 351])
def test_chains_that_go_on_are_those_of_one_long_run(reference, made):
    """Same draws, and the same discarded: those of the earlier run first."""
    start = Start(draw(plan=Plan(thin=1, stop=StopRule(max_sweeps=made))).states, made)
    plan = Plan(thin=3, stop=StopRule(max_sweeps=699 - made))
    later = draw(plan=plan, start=start)
    assert later.n_sweeps == 699 - made
    assert later.n_discarded == max(reference.n_discarded - made // 3, 0)
    for name, values in later.scalars.items():
        np.testing.assert_array_equal(values, reference.scalars[name][:, made // 3 :])
    assert later.totals.count == later.retained("first").size
    if later.n_discarded:
        np.testing.assert_array_equal(later.totals.sums, reference.totals.sums)
    same(draw(plan=plan, start=start, workers=Workers(n_workers=2)), later)


def test_chains_that_go_on_are_resumed(tmp_path):
    start = Start(draw(plan=Plan(thin=3, stop=StopRule(max_sweeps=99))).states, 99)
    whole = draw(plan=Plan(thin=3, stop=StopRule(max_sweeps=600)), start=start)
    short = Plan(thin=3, stop=StopRule(max_sweeps=150))
    draw(plan=short, start=start, checkpoint=Checkpoint(folder=tmp_path))
    again = Checkpoint(folder=tmp_path, resume=True)
    plan = Plan(thin=3, stop=StopRule(max_sweeps=600))
    same(draw(plan=plan, start=start, checkpoint=again), whole)
    for other in (None, start._replace(n_sweeps=102)):
        with pytest.raises(OutputError, match="another run"):
            draw(plan=plan, start=other, checkpoint=again)


def test_chains_go_on_all_or_none():
    start = Start(draw().states[:3], 699)
    with pytest.raises(SpecError, match="3 states for 4 chains"):
        draw(start=start)


class Parted(Watch):
    """A scalar that the chains sample, and a whole that has an error of its own in every draw."""

    @property
    def parts(self):
        return {"first": "whole"}

    def observe(self, stream, model, state, data, totals):
        found = super().observe(stream, model, state, data, totals)
        first = 50.0 + found["first"]
        error = np.random.default_rng([stream.sweep, stream.chain]).normal(0.0, 0.2)
        return {**found, "first": first, "whole": first * np.exp(error)}


def test_a_part_is_judged_by_its_whole():
    draws = draw(observer=Parted())
    part, whole = draws.retained("first"), draws.retained("whole")
    expected = as_part(diagnose(part), part, whole)
    assert draws.diagnostics["first"] == expected
    assert expected != diagnose(part)


@pytest.mark.parametrize("length", [3, 12, 999])
def test_numbers_do_not_depend_on_the_cutting(reference, monkeypatch, length):
    monkeypatch.setattr(schedule, "shortest_round", lambda *_: length)
    same(draw(), reference)


def test_what_cannot_be_pickled_runs_here(reference):
    @dataclass(frozen=True, kw_only=True)
    class Local(Toy):
        pass

    same(draw(Local(apart=1.0), workers=Workers(n_workers=2)), reference)


def test_segment_leaves_its_input_alone():
    model = Toy()
    job_totals = Watch().start()
    state = model.init(Stream(1, 0, 0), model.prepare(TABLE))
    from unikat.inference.segments import Job

    segment = Segment(
        job=Job(model=model, data=model.prepare(TABLE), observer=Watch()),
        chain=0,
        seed=1,
        first_sweep=1,
        n_sweeps=6,
        thin=2,
        n_threads=1,
        state=state,
        totals=job_totals,
    )
    result = run_segment(segment)
    assert job_totals.count == 0
    assert state.sweeps == 0
    assert result.totals.count == 3
    assert result.scalars["first"].shape == (3,)
    with pytest.raises(ValueError, match="no job"):
        run_segment(replace(segment, job=None))


class Interrupt:
    """A watcher that presses Ctrl-C after some rounds."""

    def __init__(self, after):
        self.after = after
        self.events = []

    def __call__(self, event):
        self.events.append(event)
        if event.sweeps >= self.after:
            raise KeyboardInterrupt


@pytest.mark.parametrize("after", [1, 24, 30, 100, 400, 699])
@pytest.mark.parametrize("workers", [HERE, Workers(n_workers=2)])
def test_resumed_run_gives_the_same_numbers(reference, tmp_path, after, workers):
    stopped = draw(progress=Interrupt(after), checkpoint=Checkpoint(folder=tmp_path))
    assert stopped.stop_reason == "interrupted"
    assert after <= stopped.n_sweeps <= 699
    assert not stopped.converged
    same(draw(workers=workers, checkpoint=Checkpoint(folder=tmp_path, resume=True)), reference)


def test_resuming_many_times_and_past_a_limit(tmp_path):
    """Also from places where a limit, not the schedule, has cut."""
    plan = Plan(thin=1, stop=StopRule(max_sweeps=5000))
    whole = draw(Toy(persistence=0.8), plan=plan)
    assert whole.stop_reason == "converged"
    for limit in (5, 77, 300, 301, 501):
        part = draw(
            Toy(persistence=0.8),
            plan=Plan(thin=1, stop=StopRule(max_sweeps=limit)),
            checkpoint=Checkpoint(folder=tmp_path, resume=True),
        )
        assert (part.stop_reason, part.n_sweeps) == ("sweep limit", limit)
    rest = Checkpoint(folder=tmp_path, resume=True)
    same(draw(Toy(persistence=0.8), plan=plan, checkpoint=rest), whole)
    same(draw(Toy(persistence=0.8), plan=plan, checkpoint=rest), whole)


def test_resuming_another_run_is_refused(tmp_path):
    draw(checkpoint=Checkpoint(folder=tmp_path))
    resume = Checkpoint(folder=tmp_path, resume=True)
    with pytest.raises(OutputError, match=r"model: Toy\(persistence=0.5, apart=1.0.*0.9"):
        draw(Toy(persistence=0.9), checkpoint=resume)
    with pytest.raises(OutputError, match=r"\(thin: 3 there, 4 here\)"):
        draw(plan=Plan(thin=4), checkpoint=resume)
    with pytest.raises(OutputError, match="measures: Watch"):
        draw(observer=Watch(monitored=("zero",)), checkpoint=resume)
    with pytest.raises(OutputError, match=r"seed: 7 there, 8 here"):
        sample(Toy(apart=1.0), TABLE, Watch(), seed=8, plan=SHORT, checkpoint=resume)
    with pytest.raises(OutputError, match=r"table: f00df00df00df00d there, babe"):
        sample(
            Toy(apart=1.0),
            ToyTable(fingerprint="babe" * 16),
            Watch(),
            seed=7,
            plan=SHORT,
            checkpoint=resume,
        )


def test_a_full_disk_ends_the_run_and_keeps_the_old_checkpoint(reference, tmp_path, monkeypatch):
    import errno

    from unikat.inference import checkpoint as module

    draw(progress=Interrupt(100), checkpoint=Checkpoint(folder=tmp_path))

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module.os, "fsync", full)
        with pytest.raises(OutputError, match="disk is full"):
            draw(checkpoint=Checkpoint(folder=tmp_path, resume=True, every=0.0))
    same(draw(checkpoint=Checkpoint(folder=tmp_path, resume=True)), reference)


def test_interrupt_before_the_first_round_is_raised(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        draw(progress=Interrupt(0), checkpoint=Checkpoint(folder=tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_converges_and_discards():
    result = draw(Toy(), plan=Plan())
    assert (result.converged, result.stop_reason) == (True, "converged")
    one = result.diagnostics["first"]
    assert one.rhat <= 1.01
    assert min(one.ess_bulk, one.ess_tail) >= 400
    # The start is far away; what is retained has forgotten it.
    assert result.n_discarded > 0
    assert abs(result.retained("first").mean()) < 0.2
    assert result.thin == 1


def test_constant_scalar_converges_once_there_are_draws_enough():
    result = draw(observer=Watch(monitored=("zero",)), plan=Plan())
    assert result.converged
    assert result.retained("zero").size >= 400


@pytest.mark.parametrize("names", [("bad",), ("first", "bad"), ()])
def test_without_a_number_there_is_no_convergence(names):
    result = draw(Toy(), observer=Watch(monitored=names))
    assert (result.converged, result.stop_reason) == (False, "sweep limit")


def test_chains_that_disagree_reach_the_limit(reference):
    assert (reference.converged, reference.stop_reason) == (False, "sweep limit")
    assert reference.diagnostics["first"].rhat > 1.1


@pytest.mark.parametrize("n_chains", [1, 2])
def test_few_chains(n_chains):
    result = draw(Toy(), plan=Plan(n_chains=n_chains))
    assert result.converged
    assert result.scalars["first"].shape[0] == n_chains


@pytest.mark.parametrize("limit", [2, 3, 5, 17, 120])
def test_a_limit_of_few_sweeps(limit):
    result = draw(plan=Plan(stop=StopRule(max_sweeps=limit)), observer=Watch(work=50.0))
    assert result.stop_reason == "sweep limit"
    assert result.thin == min(limit // 2, 50)
    assert result.n_sweeps == limit // result.thin * result.thin
    assert result.scalars["first"].shape[1] >= 2


@pytest.mark.parametrize("workers", [HERE, Workers(n_workers=2)])
def test_time_limit_keeps_a_prefix_of_the_same_numbers(workers):
    plan = Plan(thin=1, stop=StopRule(max_seconds=2.0))
    result = draw(Toy(apart=1.0, pause=0.002), plan=plan, workers=workers)
    assert result.stop_reason == "time limit"
    assert result.seconds < 4.0
    whole = draw(plan=Plan(thin=1, stop=StopRule(max_sweeps=result.n_sweeps)))
    np.testing.assert_array_equal(result.scalars["first"], whole.scalars["first"])
    np.testing.assert_array_equal(result.totals.sums, whole.totals.sums)


def test_a_time_limit_of_nothing_still_keeps_two_draws():
    plan = Plan(thin=2, stop=StopRule(max_seconds=1e-9))
    result = draw(Toy(pause=0.001), plan=plan)
    assert (result.stop_reason, result.n_sweeps) == ("time limit", 4)
    whole = draw(plan=Plan(thin=2, stop=StopRule(max_sweeps=4)), model=Toy())
    np.testing.assert_array_equal(result.scalars["first"], whole.scalars["first"])


@pytest.mark.parametrize("workers", [HERE, Workers(n_workers=2)])
def test_a_round_that_lasts_beyond_the_time_limit_is_given_up(workers, tmp_path, monkeypatch):
    monkeypatch.setattr(plans, "GRACE_SECONDS", 0.0)
    place = Checkpoint(folder=tmp_path)
    plan = Plan(thin=1, stop=StopRule(max_seconds=0.01))
    with pytest.raises(SpecError, match=r"--max-seconds.* 2 draws each.* Nothing was kept"):
        draw(Toy(pause=1.0), plan=plan, workers=workers, checkpoint=place)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_what_was_done_before_a_long_round_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(plans, "GRACE_SECONDS", 0.0)
    plan = Plan(thin=1, stop=StopRule(max_seconds=2.0))
    result = draw(
        Slowing(), plan=plan, workers=Workers(n_workers=1), checkpoint=Checkpoint(folder=tmp_path)
    )
    assert result.stop_reason == "time limit"
    assert 2 <= result.n_sweeps < SLOW_FROM
    whole = draw(Toy(), plan=Plan(thin=1, stop=StopRule(max_sweeps=result.n_sweeps)))
    np.testing.assert_array_equal(result.scalars["first"], whole.scalars["first"])


SLOW_FROM = 40


@dataclass(frozen=True, kw_only=True)
class Slowing(Toy):
    """A model whose sweeps take a second from one of them on."""

    def step(self, stream: Stream, state: ToyState, data, n_threads):
        if stream.sweep >= SLOW_FROM:
            time.sleep(1.0)
        return super().step(stream, state, data, n_threads)


def test_a_model_that_is_prepared_beyond_the_time_limit_is_given_up(monkeypatch):
    class Endless(Toy):
        def prepare(self, table):
            while True:
                report("still fitting")

    monkeypatch.setattr(plans, "GRACE_SECONDS", 0.0)
    plan = Plan(stop=StopRule(max_seconds=0.1))
    with pytest.raises(SpecError, match=r"not fitted in the time of .*--max-seconds.* 0\.1 s"):
        draw(Endless(), plan=plan)


def test_a_killed_worker_is_reported_and_the_run_resumed(tmp_path):
    place = Checkpoint(folder=tmp_path, every=0.0)
    plan = Plan(thin=1, stop=StopRule(max_sweeps=40))
    with pytest.raises(UnikatError, match=r"worker process ended unexpectedly.*--resume"):
        draw(Dying(), plan=plan, workers=Workers(n_workers=2), checkpoint=place)


def test_an_error_in_the_model_is_raised_as_it_is():
    with pytest.raises(NotImplementedError, match="not this one"):
        draw(Failing(), workers=Workers(n_workers=2))


@dataclass(frozen=True, kw_only=True)
class Failing(Toy):
    def step(self, stream: Stream, state: ToyState, data, n_threads):
        raise NotImplementedError("not this one")


def test_kernels_are_compiled_before_the_first_round():
    class Compiling(Toy):
        compiled: list[int] = []  # noqa: RUF012

        def compile(self, zeros):
            self.compiled.append(1)

        def init(self, stream, data):
            assert self.compiled
            return super().init(stream, data)

    draw(Compiling())
    assert len(Compiling.compiled) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: StopRule(rhat=1.0),
        lambda: StopRule(rhat=math.nan),
        lambda: StopRule(ess=0.0),
        lambda: StopRule(rhat=math.inf),
        lambda: StopRule(ess=math.inf),
        lambda: StopRule(max_sweeps=0),
        lambda: StopRule(max_sweeps=1),
        lambda: StopRule(max_sweeps=10**5000),
        lambda: StopRule(max_seconds=-1.0),
        lambda: StopRule(max_seconds=math.nan),
        lambda: StopRule(max_seconds=math.inf),
        lambda: Plan(n_chains=0),
        lambda: Plan(n_chains=1025),
        lambda: Plan(n_chains=10**5000),
        lambda: Plan(thin=0),
        lambda: Plan(thin=6, stop=StopRule(max_sweeps=10)),
        lambda: Workers(n_workers=0),
        lambda: Workers(n_workers=10**12),
        lambda: Workers(n_threads=0),
        lambda: Workers(n_threads=10**12),
        lambda: sample(Toy(), TABLE, Watch(), seed=-1),
    ],
)
def test_arguments_out_of_range(make):
    with pytest.raises(SpecError, match="must"):
        make()


def test_progress_is_told():
    events: list[ProgressEvent] = []
    result = draw(Toy(), plan=Plan(), progress=events.append)
    assert events[0].preparing == "fitting toy"
    assert events[0].sweeps == 0
    assert events[0].draws == {}
    sampling = [event.sweeps for event in events if not event.preparing]
    assert sampling[0] == 0
    assert sampling == sorted(set(sampling))
    last = events[-1]
    assert last.sweeps == result.n_sweeps
    assert list(last.draws) == ["first"]
    np.testing.assert_array_equal(last.draws["first"], result.retained("first"))
    assert last.rhat == result.diagnostics["first"].rhat
    assert last.max_sweeps == 200_000
    assert any(event.time_left is not None for event in events)


OUTLOOK = Outlook(
    sweeps=1000,
    checked_at=1000,
    rhat=1.005,
    ess=200.0,
    target_rhat=1.01,
    target_ess=400.0,
    max_sweeps=10_000,
    seconds_per_sweep=0.1,
    seconds_to_limit=None,
)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, 100.0),
        ({"rhat": 1.03}, 200.0),
        ({"ess": 4000.0}, 0.0),
        ({"ess": 1.0}, 900.0),
        ({"seconds_to_limit": 30.0}, 30.0),
        ({"sweeps": 1500}, 50.0),
        ({"rhat": 1.5}, None),
        ({"rhat": math.nan}, None),
        ({"ess": math.nan}, None),
        ({"seconds_per_sweep": 0.0}, None),
    ],
)
def test_time_left(change, expected):
    left = seconds_left(replace(OUTLOOK, **change))
    assert left == (None if expected is None else pytest.approx(expected))
