"""Protection: from a file and a target to the recoded file that loses least, and its report."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from unikat._typing import Int32
from unikat.data.frames import FILE
from unikat.data.writers import WRITTEN, ending, has_own_format
from unikat.files.folder import claim, keep_inputs
from unikat.files.json import parse_json
from unikat.jobs.applied import plan_keys
from unikat.jobs.columns import Treated, treated, with_risk
from unikat.jobs.from_python import documented, run_from_python
from unikat.jobs.job import Job, Outcome, in_folder
from unikat.jobs.numeric import with_numeric
from unikat.jobs.perturbing import (
    perturbation_facts,
    perturbed_records,
    released_facts,
)
from unikat.jobs.protect_inputs import Loaded, load_and_check
from unikat.jobs.protection_target import (
    Stages,
    aim_of,
    closer_look,
    explicit_plan,
    verdicts_of,
    verified,
    with_suppression,
)
from unikat.protection.going_on import N_STATES
from unikat.protection.linked import telling
from unikat.protection.lost import information_lost
from unikat.protection.perturbed import most_matches
from unikat.protection.recoding import Recoding, recodable
from unikat.protection.released import Released
from unikat.protection.scenarios import Scenarios
from unikat.protection.search import Plan, Search, frontier
from unikat.protection.subsample import table_of
from unikat.protection.suppressed_plans import SuppressedPlan, suppressed_values
from unikat.protection.what_if import Posterior
from unikat.report.facts.committee import key_shares
from unikat.report.facts.levels import LevelsFacts
from unikat.report.facts.protection import (
    SCHEMA,
    PlanFacts,
    ProtectionSummary,
    RiskFacts,
    SuppressionFacts,
)
from unikat.report.folders import protection as results
from unikat.report.folders.folder import copied_files, read_records, read_run
from unikat.report.pages.protection import render
from unikat.report.text.declared import declared_words
from unikat.report.text.summary import explained
from unikat.report.text.track_record import unknown_of
from unikat.risk.estimate import RiskEstimate
from unikat.risk.limits import Measured, Verdict, together
from unikat.spec.kinds import PROTECT, Kind
from unikat.spec.level_kinds import PLAIN
from unikat.spec.limits import Limit
from unikat.spec.plan import PlanSpec
from unikat.spec.protection import BY_SEARCH, ProtectionSpec
from unikat.spec.recodings import LEFT_OUT
from unikat.spec.trust import SHOWN
from unikat.studies.fit import complete_fit


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Protection(Outcome):
    """A protected file; from :func:`unikat.protect`."""

    summary: ProtectionSummary
    spec: ProtectionSpec
    plan: PlanSpec
    """The recodings, as `plan.toml` holds them."""
    _made: Released | None = field(default=None)
    _source: Any = None

    kind: ClassVar[Kind] = PROTECT

    @classmethod
    def loaded(cls, folder: Path, trust_spec: bool) -> Self:
        """Read a protection from its folder; see `unikat.load`."""
        summary, spec = read_run(PROTECT, folder)
        assert isinstance(spec, ProtectionSpec)
        plan = PlanSpec.read(folder / PROTECT.others[0], SHOWN)
        return cls(summary=summary, spec=spec, plan=plan, folder=folder.resolve())

    @property
    def verdict(self) -> Verdict | None:
        """Whether the target, or those of all scenarios, are met; None if there is none."""
        return self.summary.verdict

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
        places = (
            "verdict",
            "answer",
            "hidden",
            "plan",
            "households",
            "sampled",
            "suppression",
            "perturbation",
            "matches",
            "numeric",
            "refit",
        )
        return "\n".join(said[place] for place in places if place in said)


@documented(PROTECT)
def protect(data: Any, **options: Any) -> Protection:
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
    return run_from_python(PROTECT, run, data, options)


@in_folder(PROTECT)
def run(job: Job[ProtectionSpec]) -> Protection:
    """Protect what a specification names, in a folder of its own (see :func:`in_folder`)."""
    spec, inputs, folder, watcher = job.spec, job.inputs, job.folder, job.watcher
    if spec.is_random and spec.perturbation_seed is None:
        # Who knows it and the probabilities can tell which values are true.
        spec = spec.model_copy(update={"perturbation_seed": secrets.randbits(63)})
    asked = load_and_check(spec, inputs, watcher)
    model, microdata, table = asked.model, asked.microdata, asked.table
    parts, weights, every, tables = asked.parts, asked.weights, asked.every, asked.tables
    codes = every.cells[every.record_cell]
    file = f"protected{ending(microdata.source)}"
    if folder is not None:
        beside = results.codebook_beside(file)
        keep_inputs([folder / file, folder / beside], spec.input_files())
        claim(folder, [file, beside])
    if inputs.data is None and not has_own_format(microdata.source):
        watcher.note(f"The protected file is Parquet: {WRITTEN}.")
    level, seed = spec.report.level, spec.sampling.seed
    how: Any = {"seed": seed, "plan": job.plan, "level": level, "execution": job.execution}
    fitted = complete_fit("original", model, table, **how)
    estimate = fitted.estimate(level)
    watcher.stage("Going on from the fit")
    posterior = Posterior.of(fitted)
    # Before and after are by the same states, so that chance does not come between them.
    before = posterior.what_if({}, level)
    scenarios = Scenarios(posterior=posterior, scenarios=asked.scenarios, level=level)
    rule: str | None = spec.suppress
    variants: tuple[SuppressedPlan, ...] = ()
    if not spec.seeks:
        chosen = asked.plan
        plans = [explicit_plan(table, {}, weights), chosen] if chosen.recoding.changes else [chosen]
        shown = [(one, posterior.what_if(one.recoding, level)) for one in plans]
        n_plans, n_looked_at, least = 1, 1, None
    else:
        watcher.stage("Searching")
        aim = aim_of(spec, scenarios)
        shares = None if asked.shares is None else asked.shares.assessed(asked.assessed)
        search = Search.of(parts, aim.quick, weights, shares=shares, tell=watcher.progress)
        found = frontier(search, aim.goal, aim.tau1)
        if spec.suppress == BY_SEARCH:
            watcher.stage("Suppressing")
            chosen, rule, variants = with_suppression(spec, weights, search, found, aim, posterior)
        else:
            chosen = verified(search, found.reached, aim, spec.keep)
        others = [one for one in found.plans if not _same(one.recoding, chosen.recoding)]
        shown = closer_look(
            [*others, chosen], chosen, lambda recoding: posterior.what_if(recoding, level)
        )
        n_plans, n_looked_at = int(search.lost.size), found.n_looked_at
        least = search.least if rule == spec.suppress else None
    promised = next(risk for one, risk in shown if one is chosen)
    share, out = asked.released(chosen.recoding)
    rows = np.flatnonzero(np.isin(out, asked.assessed))
    # Numbers of the same in the table.
    of_table = np.searchsorted(asked.assessed, out[rows])
    households = None if asked.household is None else asked.household[out]
    of_persons = asked.of_persons(chosen.recoding)
    recoded = of_persons.codes(codes[out])
    perturbed = None
    if spec.perturbs:
        watcher.stage("Perturbing")
        perturbed = perturbed_records(spec, chosen, promised, recoded, rows, of_table, households)
    published = recoded if perturbed is None else perturbed.codes
    gone = None
    if rule is not None:
        limit = Limit.of(rule)
        gone = suppressed_values(limit, posterior, chosen.recoding, published, weights, spec.keep)
    visible = published if gone is None else np.where(gone, -1, published).astype(np.int32)
    watcher.stage("Assessing the protected file")
    coarse, again = chosen.recoding.table(table), fitted
    if share < 1.0 or (gone is not None and perturbed is None):
        shown_true = recoded if perturbed is not None else visible
        coarse = table_of(coarse, shown_true[rows], of_table)
    unperturbed = perturbed is None or chosen.recoding.changes or len(out) < len(codes)
    if spec.changes_keys and unperturbed:
        # A fit of perturbed records would take their values for true.
        # Another search may find another recoding.
        again = complete_fit(f"protected-{coarse.fingerprint[:16]}", model, coarse, **how)
    refit = before if again is fitted else again.estimate(level)
    perturbation = matches = facts_released = None
    if perturbed is not None or gone is not None:
        matches = most_matches(
            posterior,
            chosen.recoding,
            visible[rows],
            level,
            spec.perturbed,
            of_table,
            published[rows],
        )
        whole = chosen.recoding.table(table)
        facts_released = RiskFacts.of_matches(matches, table_of(whole, visible[rows], of_table))
    if perturbed is not None and matches is not None:
        perturbation = perturbation_facts(
            spec, chosen, perturbed, recoded, matches, posterior, visible[rows]
        )
    treatment = treated(
        asked.columns,
        spec,
        microdata,
        codes,
        of_persons,
        gone,
        None if perturbed is None else published,
        records=out if share < 1.0 else None,
        scaled=_scaled(spec, len(out) / len(codes)),
    )
    shown_keys = of_persons.codes(codes[asked.assessed])
    if gone is not None:
        # Perturbed values hide less: the intruder is thought to know the true ones.
        shown_keys[of_table] = np.where(gone[rows], -1, shown_keys[of_table])
    other_columns, left_over = with_risk(
        treatment, asked.columns, posterior, chosen.recoding, shown_keys, asked.assessed, of_table,
        level,
    )  # fmt: skip
    made, numeric = with_numeric(
        spec,
        [one.of_rows(out) for one in asked.numeric],
        treatment.made,
        codes[out],
        visible,
        households,
    )
    converged = estimate.converged and again.estimate(level).converged
    by_plan = Measured.of(promised) if matches is None else matches.measured
    stages = Stages(
        before=before,
        promised=promised,
        again=again,
        refit=refit,
        released=None if matches is None else by_plan,
        perturbed=perturbed is not None,
        unknown=unknown_of(spec.model, estimate, converged=converged),
    )
    verdicts = verdicts_of(level, scenarios, chosen, stages)
    of_file = verdicts[0] if verdicts and not spec.scenarios else None
    facts = (
        *(_plan_facts(asked, one, risk, one is chosen) for one, risk in shown),
        *(_variant_facts(asked, one) for one in variants),
    )
    # Of households nothing but the recoding is done.
    lost = chosen.lost
    if table.layout is None:
        lost = information_lost(
            codes[out[rows]],
            chosen.recoding,
            weights,
            suppressed=None if gone is None else gone[rows],
            perturbed=published[rows],
            weight_of_suppressed=spec.weight_of_suppressed if spec.suppress == BY_SEARCH else 1.0,
        )
    if asked.shares is not None:
        lost = asked.shares.lost(lost, share)
    summary = ProtectionSummary(
        schema=SCHEMA,
        data=spec.data.name,
        file=file,
        n_records=table.n_records,
        households=table.layout is not None,
        population_size=table.n_units,
        verdict=together(one.target for one in verdicts),
        target=None if of_file is None else of_file.target,
        told=bool(spec.recode),
        by_plan=None if of_file is None else of_file.after,
        by_refit=None if of_file is None else of_file.refit,
        scenarios=verdicts if spec.scenarios else (),
        model=spec.model.name,
        converged=converged,
        before=RiskFacts.of(before),
        after=released_facts(
            RiskFacts.of(promised), facts_released, None if perturbed is not None else refit
        ),
        released=facts_released,
        lost=lost,
        share=share,
        n_released=len(out),
        plans=facts,
        n_plans=n_plans,
        n_looked_at=n_looked_at,
        least_lost=least,
        n_states=sum(map(len, posterior.states)) or N_STATES,
        levels=tuple(map(LevelsFacts.of, recodable(table))),
        columns=made.changes[: len(microdata.keys)],
        other_columns=other_columns,
        left_over=left_over,
        refit=RiskFacts.of(refit),
        suppression=None
        if rule is None or gone is None
        else SuppressionFacts(
            rule=rule,
            n_values=int(gone.sum()),
            n_records=int(gone.any(axis=1).sum()),
        ),
        keys=key_shares(of_persons, codes, visible),
        utility=tables.kept(of_persons, visible, out),
        perturbation=perturbation,
        numeric=numeric,
        telling=telling(
            asked.columns.left(treatment.treated),
            codes,
            of_persons.keys,
            _hidden(of_persons, recoded, visible),
        ),
        identifying=treatment.identifying,
        n_not_assessed=len(out) - len(rows),
        agrees=_agree(by_plan if perturbed is None else Measured.of(promised), Measured.of(refit)),
        level=level,
        # A fingerprint of the original would confirm guesses of what was hidden.
        provenance=job.record(),
    )
    said = {"declared": "\n".join(declared_words(table.variables))}
    return job.finished(
        Protection(
            summary=explained(replace(summary, sentences=said)),
            spec=spec,
            plan=_plan(spec, treatment, len(microdata.keys), suppressed=rule is not None),
            folder=folder,
            _made=made,
            _source=microdata.source,
            _frames=job.frames,
        )
    )


def _same(one: Recoding, other: Recoding) -> bool:
    return one.keys == other.keys and one.held is other.held


def _plan_facts(asked: Loaded, plan: Plan, risk: RiskEstimate, chosen: bool) -> PlanFacts:
    share, out = asked.released(plan.recoding)
    utility = asked.tables.kept(asked.of_persons(plan.recoding), None, out)
    return PlanFacts.of(plan, RiskFacts.of(risk), utility, share, chosen)


def _variant_facts(asked: Loaded, one: SuppressedPlan) -> PlanFacts:
    """The facts of a plan with suppressed values that was looked at."""
    share, out = asked.released(one.plan.recoding)
    rows = np.flatnonzero(np.isin(asked.assessed, out))
    true = one.plan.recoding.codes(asked.table.cells[asked.table.record_cell[rows]])
    visible = np.where(one.suppressed, -1, true).astype(np.int32)
    table = table_of(one.plan.recoding.table(asked.table), visible, rows)
    utility = asked.tables.kept(one.plan.recoding, visible, asked.assessed[rows])
    plan = replace(one.plan, lost=one.lost)
    facts = PlanFacts.of(plan, RiskFacts.of_matches(one.matches, table), utility, share, False)
    return replace(facts, suppress=one.rule, n_suppressed=int(one.suppressed.sum()))


def _scaled(spec: ProtectionSpec, share: float) -> dict[str, float]:
    """Columns that a sample of the records changes: what each of them stands for."""
    if share == 1.0:
        return {}
    factors = {spec.design.weights: 1.0 / share, spec.design.inclusion: share}
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


def _plan(spec: ProtectionSpec, treatment: Treated, n_read: int, *, suppressed: bool) -> PlanSpec:
    """What is done to the columns, as it is done to other files.

    Of the `n_read` columns that were read those that only the rule of the head reads come last, and
    after all of them the linked ones.
    """
    shared = () if spec.households is None else spec.households.keys
    texts = list(dict.fromkeys((*spec.keys, *shared)))
    recoding, n = treatment.recoding, len(texts)
    besides = {
        "sampled": recoding.held is not None,
        "perturbed": spec.perturbs,
        "suppressed": suppressed,
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
