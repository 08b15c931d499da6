"""Protection: from a file and a target to the recoded file that loses least, and its report."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from unikat._typing import Float64, Int32, Int64
from unikat.data.frames import FILE
from unikat.data.table import CellTable
from unikat.data.writers import WRITTEN, ending, has_own_format
from unikat.files.folder import claim, keep_inputs, refuse_links
from unikat.files.json import parse_json
from unikat.jobs.applied import plan_keys
from unikat.jobs.check import CHECKED, Check, check_protected, forget_check
from unikat.jobs.columns import Treated, treated, with_risk
from unikat.jobs.from_python import documented, run_from_python
from unikat.jobs.job import Job, in_folder
from unikat.jobs.numeric import with_numeric
from unikat.jobs.outcome import Outcome
from unikat.jobs.perturbing import perturbation_facts, released_facts
from unikat.jobs.protect_inputs import Loaded, load_and_check, looks_foreseen
from unikat.jobs.protection_choice import CLOSELY, SEARCH, Chosen, choose, releases_of
from unikat.jobs.protection_target import Stages, states_told, verdicts_of
from unikat.jobs.saved_states import posterior_beside, saved_fit
from unikat.jobs.schedule import ORIGINAL, PROTECTED, Left, Part, Schedule
from unikat.jobs.sensitive import inferred
from unikat.protection.going_on import MOST_GOING_ON, N_STATES
from unikat.protection.linked import telling
from unikat.protection.perturbed import CorrectMatches
from unikat.protection.recoding import Recoding, recodable
from unikat.protection.refit_rules import RefitRules, under_rules
from unikat.protection.release import Release
from unikat.protection.released import Released
from unikat.protection.scenarios import Scenarios
from unikat.protection.subsample import stands_for
from unikat.protection.what_if import Posterior
from unikat.report.facts.breakdown import breakdowns
from unikat.report.facts.classics import InferredResult
from unikat.report.facts.committee import key_shares
from unikat.report.facts.levels import LevelsFacts
from unikat.report.facts.protection import (
    SCHEMA,
    ProtectionSummary,
    RiskFacts,
    ScenarioFacts,
    SuppressionFacts,
)
from unikat.report.facts.risk_map import risk_map
from unikat.report.facts.table_counts import TableCounts
from unikat.report.folders import protection as results
from unikat.report.folders.folder import copied_files, read_records, read_run
from unikat.report.pages.protection import render
from unikat.report.text.declared import declared_words
from unikat.report.text.protection import LEAD
from unikat.report.text.summary import explained
from unikat.report.text.track_record import unknown_of, unknown_of_result
from unikat.risk.limits import Measured, Reason, Verdict, together, worst
from unikat.spec.kinds import PROTECT, Kind
from unikat.spec.level_kinds import PLAIN
from unikat.spec.plan import PlanSpec
from unikat.spec.protection import ProtectionSpec
from unikat.spec.recodings import LEFT_OUT
from unikat.spec.trust import SHOWN
from unikat.studies.fit import Fit


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Protection(Outcome):
    """A protected file; from :func:`unikat.protect`.

    Examples
    --------
    >>> import pandas as pd, unikat
    >>> ages = [20 + i // 2 for i in range(40)]
    >>> frame = pd.DataFrame({"sex": ["f", "m"] * 20, "age": ages})
    >>> found = unikat.protect(frame, keys=["sex", "age"], population_size=40, target="tau1 <= 0",
    ...                        recodings={"age": ["width(5)"]}, keep="sex")
    >>> found.verdict, found.frame.shape, int(found.plans["chosen"].sum())
    ('met', (40, 2), 1)
    """

    summary: ProtectionSummary
    spec: ProtectionSpec
    plan: PlanSpec
    """The recodings, as `plan.toml` holds them."""
    check: Check | None = None
    """Of the protected file, by the policy that the scenarios are of; None without one, without a
    folder, and of perturbed keys."""
    _made: Released | None = field(default=None)
    _source: Any = None

    kind: ClassVar[Kind] = PROTECT

    @classmethod
    def loaded(cls, folder: Path, trust_spec: bool) -> Self:
        """Read a protection from its folder; see `unikat.load`."""
        summary, spec = read_run(PROTECT, folder)
        assert isinstance(spec, ProtectionSpec)
        plan = PlanSpec.read(folder / PROTECT.others[0], SHOWN)
        check = Check.loaded(folder / CHECKED, trust_spec) if summary.policy == "checked" else None
        return cls(summary=summary, spec=spec, plan=plan, check=check, folder=folder.resolve())

    @property
    def verdict(self) -> Verdict | None:
        """Whether all targets, and all that a policy asks for, are met; None without any.

        Of a policy whose minimum cells and diversity nobody has judged, that is not known.
        """
        verdicts = [self.summary.verdict]
        if self.summary.policy == "not checked":
            verdicts.append("not known")
        if self.check is not None:
            verdicts.append(self.check.verdict)
        return worst(verdicts)

    @property
    def frame(self) -> Any:
        """The protected records, a frame of the kind of the data; of a file, a pandas frame."""
        if self._made is None:
            assert self.folder is not None
            return FILE.frame(read_records(PROTECT, self.folder, str(self.summary.file)))
        same_rows = self.summary.share == 1.0
        return self._frames.frame(self._made.table, same_rows=same_rows)

    @property
    def codebook(self) -> dict[str, Any] | None:
        """What the codes of the frame mean; None where they have no labels."""
        if self._made is None:
            assert self.folder is not None
            path = self.folder / results.codebook_beside(str(self.summary.file))
            return parse_json(path.read_bytes()) if path.exists() else None
        return self._made.codebook

    @property
    def plans(self) -> Any:
        """The plans of the frontier, a pandas frame."""
        return FILE.frame(results.plans_table(self.summary), same_rows=False)

    def _as_frame(self) -> Any:
        return self.frame

    def _said_first(self) -> list[str]:
        said = [line for line in repr(self).splitlines() if line]
        return [*said, *self.summary.warnings[:3]]

    def _page(self, summary: ProtectionSummary) -> str:
        return render(summary)

    def _others(self, folder: Path) -> Mapping[str, Callable[[Path], None]]:
        if self._made is None:
            assert self.folder is not None
            return copied_files(PROTECT, self.folder)
        made = results.writers(self.summary, self._made, self.plan, self._source, folder)
        return made | self._for_committee()

    def __repr__(self) -> str:
        said = self.summary.sentences
        places = ("verdict", "answer", *LEAD)
        return "\n".join(said[place] for place in places if place in said)


@documented(PROTECT)
def protect(data: Any, *given: Any, **options: Any) -> Protection:
    """Recode the keys of microdata so that a target is reached and the least information is lost.

    And perturb keys, or suppress single values, if that is asked for.

    Parameters
    ----------
    data
        As for :func:`unikat.assess`; or the path of a ``protect.toml``.

    Returns
    -------
    Protection
        The protected records, the plans that were found, and the risk before and after.

    Raises
    ------
    SpecError, DataError
        If an option or the data are wrong, or the target cannot be reached. Nothing was written.
    OutputError
        If `out` holds a protection and `overwrite` is not set, or it cannot be written.

    Examples
    --------
    >>> import pandas as pd, unikat
    >>> ages = [20 + i // 2 for i in range(40)]
    >>> frame = pd.DataFrame({"sex": ["f", "m"] * 20, "age": ages})
    >>> found = unikat.protect(frame, keys=["sex", "age"], population_size=40, target="tau1 <= 0",
    ...                        keep="sex", recodings={"age": ["width(5)", "width(10)"]})
    >>> found.plan.keys[1].rule, found.frame["age"].nunique()
    ('width(5)', 4)
    """
    return run_from_python(PROTECT, run, (data, *given), options)


@in_folder(PROTECT)
def run(job: Job[ProtectionSpec]) -> Protection:
    """Protect what a specification names, in a folder of its own (see :func:`in_folder`)."""
    spec, watcher, level = _with_seed(job.spec), job.watcher, job.spec.report.level
    asked = load_and_check(spec, job.inputs, watcher)
    file = _file_to_write(job, spec, asked)
    schedule = Schedule(watcher=watcher, parts=_parts(job, spec, asked))
    original = _original(spec, asked, job, schedule)
    posterior = original.posterior
    scenarios = Scenarios(posterior=posterior, scenarios=asked.scenarios, level=level)
    releases = releases_of(spec, asked, posterior)
    chosen = choose(spec, asked, scenarios, releases, schedule)
    watcher.stage("Assessing the protected file")
    again = schedule.job(job, "protected")
    risk = _risk(spec, asked, scenarios, chosen, original, again.fit)
    treatment = _treatment(spec, asked, chosen)
    summary = replace(
        _summary(job, spec, file, asked, chosen, risk, treatment),
        inferred=_inferred(asked, chosen, treatment, spec.sampling.seed),
    )
    said, made = {"declared": "\n".join(declared_words(asked.table.variables))}, treatment.made
    answer = job.finished(
        Protection(
            summary=explained(replace(summary, sentences=said)),
            spec=spec,
            plan=_plan(spec, treatment, chosen.release, len(asked.microdata.keys)),
            folder=job.folder,
            _made=made,
            _source=asked.microdata.source,
            _frames=job.frames,
        )
    )
    if summary.policy != "checked":
        return answer
    assert job.folder is not None
    codebook = None if made.codebook is None else job.folder / results.codebook_beside(file)
    last = schedule.job(job, "check")
    checked = check_protected(last, job.folder / file, codebook, made.table.column_names)
    return replace(answer, check=checked)


def _with_seed(spec: ProtectionSpec) -> ProtectionSpec:
    """Give a perturbation a seed that nobody knows, if it has none."""
    if not spec.is_random or spec.perturbation_seed is not None:
        return spec
    # Who knows it and the probabilities can tell which values are true.
    return spec.model_copy(update={"perturbation_seed": secrets.randbits(63)})


def _file_to_write(job: Job[ProtectionSpec], spec: ProtectionSpec, asked: Loaded) -> str:
    """Name the protected file, and prove that it can lie in the folder of the run."""
    source, folder = asked.microdata.source, job.folder
    file = f"protected{ending(source)}"
    if folder is not None:
        beside = results.codebook_beside(file)
        keep_inputs([folder / file, folder / beside], spec.input_files())
        claim(folder, [file, beside])
        refuse_links(folder, [CHECKED])
        if _policy_judged(spec, folder) == "checked":
            claim(folder, [CHECKED])
        forget_check(folder)
    if job.inputs.data is None and not has_own_format(source):
        job.watcher.note(f"The protected file is Parquet: {WRITTEN}.")
    return file


def _parts(job: Job[ProtectionSpec], spec: ProtectionSpec, asked: Loaded) -> list[Part]:
    """What takes long, in order, and what is known of it."""
    if job.watcher.progress is None:
        return []
    found = [] if spec.assessed else [Part(name="original", like="fit", tau1_of=ORIGINAL)]
    found.append(Part(name="states", like="fit", work=(0.0, MOST_GOING_ON)))
    if spec.seeks:
        looks = looks_foreseen(asked.model, asked.table, spec.sampling.seed)
        found.append(Part(name=SEARCH, foreseen=Left(0.0, looks.search)))
        found.append(Part(name=CLOSELY, foreseen=Left(*looks.closely)))
    if spec.changes_keys:
        found.append(Part(name="protected", like="fit", tau1_of=PROTECTED))
    if job.folder is not None and _policy_judged(spec, job.folder) == "checked":
        found.append(Part(name="check", like="fit"))
    return found


class _Original(NamedTuple):
    """A fit of the file as it is."""

    posterior: Posterior
    converged: bool
    unknown: tuple[Reason, ...]
    """Why its numbers may not tell whether a limit is met."""


def _original(
    spec: ProtectionSpec, asked: Loaded, job: Job[ProtectionSpec], schedule: Schedule
) -> _Original:
    """Fit the file as it is, or take the fit of an assessment that kept its states."""
    watcher = job.watcher
    if spec.assessed is not None:
        results = saved_fit(spec.assessed, spec.model, asked.table)
        states = states_told(schedule.begin("states").progress)

        def tell(words: str, share: float | None) -> None:
            if share == 0.0:
                watcher.stage("Going on from the fit of the assessment")
            elif share is not None and states is not None:
                states(share)

        posterior = posterior_beside(results, asked.table, tell)
        unknown = unknown_of_result(results.result)
        return _Original(posterior, results.result.converged, unknown)
    fitted = schedule.job(job, "original").fit("original", asked.model, asked.table)
    estimate = fitted.estimate(spec.report.level)
    watcher.stage("Going on from the fit")
    states = states_told(schedule.begin("states").progress)
    posterior = Posterior.of(fitted, progress=states)
    unknown = unknown_of(spec.model, estimate, converged=estimate.converged)
    return _Original(posterior, estimate.converged, unknown)


class _Risk(NamedTuple):
    """The risk before and after, by the plan and by a new fit."""

    stages: Stages
    verdicts: tuple[ScenarioFacts, ...]
    rules: RefitRules | None
    """Of impossible households; None without any."""
    matches: CorrectMatches | None
    """With what is shown after suppression and perturbation; None if there was neither."""
    converged: bool


def _risk(
    spec: ProtectionSpec,
    asked: Loaded,
    scenarios: Scenarios,
    chosen: Chosen,
    original: _Original,
    fit: Callable[..., Fit],
) -> _Risk:
    """Fit the model to the released file, and collect what is known of the risk."""
    release, releases, level = chosen.release, chosen.releases, scenarios.level
    recoding, perturbed = release.plan.recoding, release.perturbed is not None
    coarse = recoding.table(asked.table)
    if release.share < 1.0 or (release.suppressed is not None and not perturbed):
        coarse = releases.table(release, release.recoded if perturbed else release.visible)
    coarse, rules = under_rules(coarse, recoding, asked.table)
    # Before and after are by the same states, so that chance does not come between them.
    before, again = releases.posterior.what_if({}, level), asked.table
    refit, refitted, converged = before, lambda: original.posterior, original.converged
    sampled = len(release.records) < len(releases.codes)
    if spec.changes_keys and (not perturbed or recoding.changes or sampled):
        # A fit of perturbed records would take their values for true.
        # Another search may find another recoding.
        second = fit(f"protected-{coarse.fingerprint[:16]}", asked.model, coarse)
        again, refit, refitted = second.table, second.estimate(level), partial(Posterior.of, second)
        converged = converged and refit.converged
    matches = releases.matches(release) if release.is_changed else None
    stages = Stages(
        before=before,
        promised=next(risk for one, risk in chosen.shown if one is release.plan),
        again=again,
        refitted=refitted,
        refit=refit,
        released=None if matches is None else matches.measured,
        unknown=original.unknown if converged else ("not converged",),
        perturbed=partial(releases.matches, release) if perturbed else None,
    )
    verdicts = verdicts_of(level, scenarios, release.plan, stages)
    return _Risk(stages, verdicts, rules, matches, converged)


def _treatment(spec: ProtectionSpec, asked: Loaded, chosen: Chosen) -> Treated:
    """Make the released file, and tell what its other columns add to the risk."""
    release, releases, of_persons = chosen.release, chosen.releases, chosen.of_persons
    out, codes = release.records, releases.codes
    done = spec.model_copy(update={"pram": release.pram})
    scaled = _scaled(spec, asked.every, out) if release.share < 1.0 else {}
    treatment = treated(asked.columns, done, asked.microdata, codes, of_persons, release, scaled)
    shown = of_persons.codes(codes[asked.assessed])
    if release.suppressed is not None:
        # Perturbed values hide less: the intruder is thought to know the true ones.
        some = shown[release.of_table]
        shown[release.of_table] = np.where(release.suppressed[release.rows], -1, some)
    columns, left_over = with_risk(
        treatment.columns, asked.columns, releases.posterior, release.plan.recoding, shown,
        asked.assessed, release.of_table, releases.level,
    )  # fmt: skip
    made, numeric = with_numeric(
        spec,
        [one.of_rows(out) for one in asked.numeric],
        treatment.made,
        codes[out],
        release.visible,
        None if asked.household is None else asked.household[out],
    )
    return treatment._replace(made=made, columns=columns, left_over=left_over, numeric=numeric)


def _inferred(
    asked: Loaded, chosen: Chosen, treatment: Treated, seed: int
) -> dict[str, InferredResult]:
    """What an intruder learns about the columns that are sensitive, from either file."""
    release, releases = chosen.release, chosen.releases
    values = {
        one.name: asked.columns.codes(one.name).astype(np.int64)
        for one in treatment.columns
        if one.role == "sensitive" and one.action == "copied"
    }
    columns = [(name, one[asked.assessed], one[release.records]) for name, one in values.items()]
    recoding = release.plan.recoding
    return inferred(releases.posterior, recoding, release.visible, columns, releases.level, seed)


def _summary(
    job: Job[ProtectionSpec],
    spec: ProtectionSpec,
    file: str,
    asked: Loaded,
    chosen: Chosen,
    risk: _Risk,
    treatment: Treated,
) -> ProtectionSummary:
    """Every number of the page."""
    release, releases, of_persons = chosen.release, chosen.releases, chosen.of_persons
    stages, verdicts, table = risk.stages, risk.verdicts, asked.table
    of_file = verdicts[0] if verdicts and not spec.scenarios else None
    promised, perturbed = Measured.of(stages.promised), release.perturbed is not None
    facts_released = None
    if risk.matches is not None:
        shown = releases.table(release, release.visible)
        facts_released = RiskFacts.of_matches(risk.matches, shown)
    # Perturbed values have no risk of a record, and suppressed ones have it by the new fit.
    left = stages.promised if risk.matches is None else None if perturbed else stages.refit
    where = None if left is None else risk_map(left)
    names = None if where is None else where.names
    return ProtectionSummary(
        breakdowns=() if left is None else breakdowns(left),
        risk_map=where,
        table_counts=_table_counts(asked, chosen, names),
        schema=SCHEMA,
        data=spec.data.name,
        file=file,
        n_records=table.n_records,
        households=table.layout is not None,
        household_rules=risk.rules,
        population_size=table.n_units,
        verdict=together(one.target for one in verdicts),
        target=None if of_file is None else of_file.target,
        told=bool(spec.recode),
        by_plan=None if of_file is None else of_file.after,
        by_refit=None if of_file is None else of_file.refit,
        scenarios=verdicts if spec.scenarios else (),
        model=spec.model.name,
        converged=risk.converged,
        before=RiskFacts.of(stages.before),
        after=released_facts(
            RiskFacts.of(stages.promised), facts_released, None if perturbed else stages.refit
        ),
        released=facts_released,
        lost=release.lost,
        share=release.share,
        n_released=len(release.records),
        plans=chosen.facts(asked.tables),
        n_plans=chosen.n_plans,
        n_looked_at=chosen.n_looked_at,
        least_lost=chosen.least,
        n_states=sum(map(len, releases.posterior.states)) or N_STATES,
        levels=tuple(map(LevelsFacts.of, recodable(table))),
        columns=treatment.made.changes[: len(asked.microdata.keys)],
        other_columns=treatment.columns,
        left_over=treatment.left_over,
        refit=RiskFacts.of(stages.refit),
        suppression=None
        if release.rule is None or release.suppressed is None
        else SuppressionFacts(
            rule=release.rule,
            n_values=int(release.suppressed.sum()),
            n_records=releases.n_units_of(release.suppressed),
        ),
        keys=key_shares(of_persons, releases.codes, release.visible),
        utility=asked.tables.kept(of_persons, release.visible, release.records),
        perturbation=None
        if risk.matches is None
        else perturbation_facts(releases, release, risk.matches),
        numeric=treatment.numeric,
        telling=telling(
            asked.columns.left(treatment.treated),
            releases.codes,
            of_persons.keys,
            _hidden(of_persons, release.recoded, release.visible),
        ),
        identifying=treatment.identifying,
        policy=_policy_judged(spec, job.folder),
        n_not_assessed=len(release.records) - len(release.rows),
        agrees=_agree(
            promised if perturbed else stages.released or promised, Measured.of(stages.refit)
        ),
        level=releases.level,
        # A fingerprint of the original would confirm guesses of what was hidden.
        provenance=job.record(),
    )


def _table_counts(
    asked: Loaded, chosen: Chosen, names: tuple[str, str] | None
) -> TableCounts | None:
    """Count the cells of two keys before and after; names: those of the map."""
    tables, release, keys = asked.tables, chosen.release, asked.microdata.keys
    wanted = [one for one in tables.wanted if len(one) == 2 and max(one) < len(keys)]
    every = [key.name for key in keys]
    if asked.table.layout is not None or not (wanted or names):
        return None
    one, other = wanted[0] if wanted else map(every.index, names or ())
    if not (keys[one].n_levels and keys[other].n_levels):
        return None
    counts = tables.counts((one, other), chosen.of_persons, release.visible, release.records)
    return TableCounts.of((keys[one], keys[other]), *counts)


def _policy_judged(
    spec: ProtectionSpec, folder: Path | None
) -> Literal["checked", "not checked"] | None:
    """Whether the protected file is checked by the policy; None without one."""
    if spec.policy is None:
        return None
    # A model would take perturbed values for true, and a certificate is of a file.
    return "not checked" if spec.perturbs or folder is None else "checked"


def _scaled(spec: ProtectionSpec, every: CellTable, out: Int64) -> dict[str, Float64]:
    """Columns that a sample of the records changes, with factors: what each of them stands for."""
    factor = stands_for(every, out)
    factors = {spec.design.weights: factor, spec.design.inclusion: 1.0 / factor}
    return {name: factor for name, factor in factors.items() if name is not None}


def _hidden(recoding: Recoding, recoded: Int32, visible: Int32) -> frozenset[str]:
    """Keys of which values were perturbed or suppressed, (n, n_recoded_keys) before and after."""
    changed = (recoded != visible).any(axis=0)
    return frozenset(
        recoding.keys[j].name for j, some in zip(recoding.kept, changed, strict=True) if some
    )


def _agree(promised: Measured, refit: Measured) -> bool:
    """Whether the interval of either τ1 holds the other's mean."""
    one, two = promised.tau1, refit.tau1
    return one.lower - 0.5 <= two.mean <= one.upper + 0.5 or (
        two.lower - 0.5 <= one.mean <= two.upper + 0.5
    )


def _plan(spec: ProtectionSpec, treatment: Treated, release: Release, n_read: int) -> PlanSpec:
    """What is done to the columns, as it is done to other files.

    Of the `n_read` columns that were read those that only the rule of the head reads come last, and
    after all of them the linked ones.
    """
    shared = () if spec.households is None else spec.households.keys
    texts = list(dict.fromkeys((*spec.keys, *shared)))
    recoding, n = treatment.recoding, len(texts)
    besides = {
        "sampled": recoding.held is not None,
        "perturbed": release.perturbed is not None,
        "suppressed": release.rule is not None,
        "changed in its continuous variables": bool(spec.numeric),
    }
    plain = {name: kind for name, kind in spec.data.levels.items() if kind in PLAIN}
    some = [*range(n), *range(n_read, len(recoding.keys))]
    texts += [recoding.keys[j].name for j in some[n:]]
    made = treatment.made._replace(changes=tuple(treatment.made.changes[j] for j in some))
    named = replace(recoding, keys=tuple(recoding.keys[j] for j in some))
    found = plan_keys(named, texts, [treatment.keys[j] for j in some], made)
    done = {one.name: one.action for one in treatment.columns}
    return PlanSpec(
        also=tuple(name for name, so in besides.items() if so),
        # What is done stands in the plan; code systems and files of them are not read again.
        data=spec.data.model_copy(update={"path": None, "database": None, "levels": plain}),
        keys=found[:n],
        linked=tuple(one for one in found[n:] if one.rule != LEFT_OUT),
        removed=tuple(name for name, action in done.items() if action == "removed"),
        renumbered=tuple(name for name, action in done.items() if action == "renumbered"),
    )
