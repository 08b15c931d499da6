"""Repeated samples from a population whose truth is known: how well the models do."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from unikat.classics.formulas import FORMULAS, Formula
from unikat.errors import SpecError, UnikatError
from unikat.inference.backends import Workers
from unikat.inference.identity import check_distinct
from unikat.inference.plan import Plan
from unikat.inference.processes import available_cores
from unikat.inference.progress import SILENT, Countdown, TimeLeft, Watcher
from unikat.inference.tasks import run_tasks
from unikat.models.base import AnyModel
from unikat.models.device import Device
from unikat.risk.exposure import views
from unikat.spec.models import USUAL
from unikat.studies.auto import Execution, check_ties
from unikat.studies.designs import (
    Allocation,
    DesignName,
    Levels,
    Population,
    Sample,
    chain_seed,
    draw_sample,
    second_sample,
)
from unikat.studies.fit import fit as fit_model
from unikat.studies.scores import Fit, FitScore, score_fit, score_point, score_synthetic
from unikat.studies.store import StudyStore
from unikat.studies.synthesizers import Synthesizer

INTERNAL = "an error inside the program"
_NONE: Mapping[str, Synthesizer] = {}
_FILES_OF = "files of "
"""Begins the label of a generator's fits, since a model of its name may be evaluated too."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """What samples are drawn, and how each is fitted.

    `EvaluationSpec` checks all but the sizes, whose shares are known with the population.
    """

    sizes: tuple[int, ...]
    """Sizes n of the samples."""
    repeats: int = 20
    """Samples of each size."""
    design: DesignName = "simple"
    allocation: Allocation = "proportional"
    """Shares of the strata in a stratified sample."""
    power: float = 0.5
    """Of the strata's sizes, where they are allocated by power."""
    levels: Levels = "population"
    """Of the samples' keys."""
    blank: float = 0.0
    """Share of the keys' values that are set missing, at random."""
    seed: int = 1
    plan: Plan = field(default_factory=Plan)
    """Chains of every fit, and when they stop."""
    level: float = 0.95
    """Probability of the intervals."""
    formulas: tuple[str, ...] = ()
    """Formulas of others (`unikat.classics.formulas.FORMULAS`) that are computed of each sample."""

    def __post_init__(self) -> None:
        if not self.sizes:
            raise SpecError("No sample size is given; name at least one, such as --n 1000,5%.")
        for n in self.sizes:
            if n < 1:
                raise SpecError(f"The sample size {n:,} is not possible; it must be at least 1.")
            if self.sizes.count(n) > 1:
                raise SpecError(f"The sample size {n:,} is asked for more than once.")


@dataclass(frozen=True, kw_only=True)
class StudyProgress:
    """Where a study stands."""

    done: int
    total: int
    failed: int
    seconds: float
    """Spent by this call."""
    time_left: TimeLeft | None
    """Estimated; None before the first fit of this call."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What a study has found."""

    study: Study
    models: tuple[str, ...]
    """Labels of the models."""
    population_size: int
    scores: tuple[FitScore, ...]
    """By size, model and repeat; all of the study if `complete`."""
    complete: bool
    """False after Ctrl-C."""
    told: tuple[FitScore, ...] = ()
    """Of other programs."""
    synthesizers: tuple[str, ...] = ()
    """Labels of the generators of synthetic files."""
    synthetic: tuple[FitScore, ...] = ()
    """Of these, in the order of `scores`."""

    @property
    def converged(self) -> bool:
        """Whether all fits converged."""
        return all(score.converged for score in (*self.scores, *self.synthetic))


def evaluate(
    population: Population,
    models: Mapping[str, AnyModel],
    study: Study,
    *,
    synthesizers: Mapping[str, Synthesizer] = _NONE,
    workers: Workers | None = None,
    store: StudyStore | None = None,
    watcher: Watcher = SILENT,
) -> Evaluation:
    """Draw samples from a population, fit every model to each, and compare with the truth.

    The numbers depend on population, models and study alone, unless the study has a time limit.
    A fit that fails is recorded with its reason.

    Parameters
    ----------
    population
        A file taken as the population.
    models
        By label.
    study
        Samples and fits.
    synthesizers
        Generators of synthetic files, by label: each makes a file of every sample.
    workers
        `n_workers` fits run at a time, by default one per core, each with `n_threads` threads, by
        default one.
    store
        Where finished fits are kept and looked up.
    watcher
        Told after every fit.

    Raises
    ------
    SpecError
        If a size is larger than the population, there is no model, two models are the same, or
        strata or sizes of units are lacking.
    UnikatError
        When a worker is lost.
    KeyboardInterrupt
        On Ctrl-C before any fit is finished; afterwards what is finished is returned.

    Examples
    --------
    >>> from unikat import HDP, CellTable, Key
    >>> from unikat.inference.chains import StopRule
    >>> keys = [Key.of_size(name, 2) for name in "ABC"]
    >>> codes = [[i & 1, i >> 1 & 1, i >> 2 & 1] for i in (0, 1, 2, 3, 3, 3, 7, 7)]
    >>> population = Population.of(CellTable.from_codes(codes, keys, population_size=8))
    >>> plan = Plan(n_chains=2, stop=StopRule(max_sweeps=50))
    >>> study = Study(sizes=(4,), repeats=2, plan=plan)
    >>> found = evaluate(population, {"hdp": HDP()}, study, workers=Workers(n_workers=1))
    >>> [score.n_drawn for score in found.scores]
    [4, 4]
    """
    check_study(population, models, study, synthesizers)
    workers = workers or Workers()
    files = {f"{_FILES_OF}{label}": one for label, one in synthesizers.items()}
    labels = [*models, *study.formulas, *files]
    fits = list(_fits(labels, study))
    found = {fit: score for fit in fits if store and (score := store.load(fit)) is not None}
    rest = [fit for fit in fits if fit not in found]
    tracker = _Tracker(done=len(found), total=len(fits), progress=watcher.progress)
    tracker.tell()
    if rest:
        _compile(models.values(), zeros=population.table.has_impossible)
    n_workers = min(workers.n_workers or available_cores(), max(len(rest), 1))
    jobs = _jobs(rest, population, {**models, **files}, study, workers)
    complete = True
    results = run_tasks(run_job, jobs, n_workers, workers.executor)
    try:
        for score in results:
            found[Fit(model=score.model, n=score.n, repeat=score.repeat)] = score
            if store is not None:
                store.save(score)
            tracker.add(score)
    except KeyboardInterrupt:
        if not found:
            raise
        complete = False
    finally:
        results.close()
    order = {fit: i for i, fit in enumerate(_by_size(fits, labels))}
    ordered = [found[fit] for fit in sorted(found, key=order.__getitem__)]
    return Evaluation(
        study=study,
        models=tuple(models),
        population_size=population.n_units,
        scores=tuple(score for score in ordered if score.model not in files),
        complete=complete,
        synthesizers=tuple(synthesizers),
        synthetic=tuple(
            replace(score, model=score.model.removeprefix(_FILES_OF))
            for score in ordered
            if score.model in files
        ),
    )


def check_study(
    population: Population,
    models: Mapping[str, AnyModel],
    study: Study,
    synthesizers: Mapping[str, Synthesizer] = _NONE,
) -> None:
    """Refuse a study that the population does not allow, before any work is done (SpecError)."""
    if not models and not synthesizers:
        raise SpecError(f"No model is named; give at least one, such as --models {USUAL}.")
    if synthesizers and 2 * max(study.sizes) > population.n_units:
        raise SpecError(
            f"The sample size {max(study.sizes):,} is more than half of the population, which has "
            f"{_units(population)}: synthetic files are compared with a second sample of others. "
            "Take at most half."
        )
    check_distinct(models.items())
    for model in models.values():
        check_ties(model)
        model.check_keys([key.name for key in population.table.keys])
        if getattr(model, "uses_weights", False):
            views(model, population.table)
    for n in study.sizes:
        if n > population.n_units:
            raise SpecError(
                f"The sample size {n:,} is larger than the population, which has "
                f"{_units(population)}; take at most that."
            )
    if study.allocation != "proportional" and population.strata is not None:
        n_strata = int(population.strata.max()) + 1
        if min(study.sizes) < n_strata:
            raise SpecError(
                f"The sample size {min(study.sizes):,} is smaller than the number of strata, "
                f"{n_strata:,}, and the allocation {study.allocation} takes at least one unit of "
                "each; draw more, or join strata."
            )


def _units(population: Population) -> str:
    if population.table.layout is not None:
        return population.table.unit.counted(population.n_units)
    return f"{population.n_units:,} units, one per row of the file"


@dataclass(frozen=True, kw_only=True)
class Job:
    """One fit as it is sent to a worker."""

    fit: Fit
    sample: Sample | None
    """None if no unit was drawn."""
    second: Sample | None
    """As many others, for a generator of synthetic files."""
    model: AnyModel | Formula | Synthesizer
    seed: int
    plan: Plan
    level: float
    n_threads: int
    device: Device


def run_job(job: Job) -> FitScore:
    """Fit a model to a sample, or compute a formula, and score it.

    An error becomes the score's message.
    """
    which, drawn = job.fit, job.sample
    if drawn is None:
        empty = FitScore(
            model=which.model,
            n=which.n,
            repeat=which.repeat,
            n_drawn=0,
            n_uniques=0,
            tau1_true=0.0,
            tau2_true=0.0,
        )
        return replace(empty, error="No unit was drawn: the expected size is small.")
    table = drawn.table
    address = asdict(which)
    try:
        if isinstance(job.model, Formula):
            begun = time.perf_counter()
            point = job.model.estimate(table)
            return score_point(drawn, point, **address, seconds=time.perf_counter() - begun)
        if isinstance(job.model, Synthesizer):
            return _synthesised(job, job.model, drawn)
        workers = Workers(n_workers=1, n_threads=job.n_threads, device=job.device)
        fitted = fit_model(
            job.model,
            table,
            seed=job.seed,
            plan=job.plan,
            level=job.level,
            execution=Execution(workers=workers),
        )
        if fitted.draws is not None and fitted.draws.stop_reason == "interrupted":
            raise KeyboardInterrupt
        estimate = fitted.estimate(job.level)
    except UnikatError as error:
        message = str(error)
    except Exception as error:
        message = _where(error)
    else:
        return score_fit(drawn, estimate, **address)
    return FitScore(
        model=which.model,
        n=which.n,
        repeat=which.repeat,
        n_drawn=table.n_records,
        n_uniques=table.n_uniques,
        tau1_true=drawn.tau1,
        tau2_true=drawn.tau2,
        error=message,
    )


def _synthesised(job: Job, synthesizer: Synthesizer, drawn: Sample) -> FitScore:
    """Let a generator make a synthetic file, and score it."""
    assert job.second is not None
    begun = time.perf_counter()
    made = synthesizer.score(
        drawn, job.second, seed=job.seed, plan=job.plan, n_threads=job.n_threads
    )
    return score_synthetic(drawn, made, **asdict(job.fit), seconds=time.perf_counter() - begun)


def _fits(models: Sequence[str], study: Study) -> Iterator[Fit]:
    """All fits, in an order in which a study that is stopped is balanced."""
    for repeat in range(1, study.repeats + 1):
        for n in study.sizes:
            for model in models:
                yield Fit(model=model, n=n, repeat=repeat)


def _by_size(fits: Iterable[Fit], models: list[str]) -> list[Fit]:
    return sorted(fits, key=lambda fit: (fit.n, models.index(fit.model), fit.repeat))


def _jobs(
    fits: Iterable[Fit],
    population: Population,
    models: Mapping[str, AnyModel | Synthesizer],
    study: Study,
    workers: Workers,
) -> Iterator[Job]:
    """Draw the samples, each once for all models that stand next to each other."""
    last: tuple[int, int] | None = None
    drawn: Sample | None = None
    for fit in fits:
        if (fit.n, fit.repeat) != last:
            last = (fit.n, fit.repeat)
            drawn = sample_of(population, study, fit.n, fit.repeat)
        model = models[fit.model] if fit.model in models else FORMULAS[fit.model]
        second = None
        if drawn is not None and isinstance(model, Synthesizer):
            second = second_sample(population, drawn, fit.n, fit.repeat, study.seed)
        yield Job(
            fit=fit,
            sample=drawn,
            second=second,
            model=model,
            seed=chain_seed(study.seed, fit.n, fit.repeat),
            plan=study.plan,
            level=study.level,
            n_threads=workers.n_threads or 1,
            device=workers.device,
        )


def sample_of(population: Population, study: Study, n: int, repeat: int) -> Sample | None:
    """Draw a sample of a study, the same each time; None if no unit is drawn."""
    return draw_sample(
        population,
        n,
        repeat,
        seed=study.seed,
        design=study.design,
        allocation=study.allocation,
        power=study.power,
        levels=study.levels,
        blank=study.blank,
    )


def _compile(models: Iterable[AnyModel], zeros: bool) -> None:
    """Compile before the workers start, which then read compiled kernels from the cache."""
    for model in models:
        model.compile(zeros)


def _where(error: Exception) -> str:
    """Describe an error without its message, which may hold values of records."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}: {INTERNAL}."


class _Tracker:
    """Counts fits, and estimates the time left from the pace of this call."""

    def __init__(
        self, *, done: int, total: int, progress: Callable[[StudyProgress], None] | None
    ) -> None:
        self._before = self._done = done
        self._total = total
        self._failed = 0
        self._progress = progress
        self._started = time.monotonic()
        self._countdown = Countdown()

    def add(self, score: FitScore) -> None:
        self._done += 1
        self._failed += score.error is not None
        self.tell()

    def tell(self) -> None:
        if self._progress is None:
            return
        seconds = time.monotonic() - self._started
        made = self._done - self._before
        self._progress(
            StudyProgress(
                done=self._done,
                total=self._total,
                failed=self._failed,
                seconds=seconds,
                time_left=self._countdown.update(
                    seconds / made * (self._total - self._done) if made else None
                ),
            )
        )
