"""Recodings of an assessment that was loaded, looked at one by one or searched: for the workbench.

Answers are those of `jobs.looks`.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

import numpy as np

from unikat.data.named_levels import level_names
from unikat.data.structure import structure_of
from unikat.errors import SpecError
from unikat.jobs.besides import Besides, releases_of, shares_of
from unikat.jobs.levels import (
    KeyGroups,
    KeyLevels,
    key_groups,
    key_levels,
    recoding_words,
    rows_of,
)
from unikat.jobs.looks import Choice, Counts, ExploredKey, Found, Look, Points, Range, Step
from unikat.jobs.plan_frontier import SHARES, PlanFrontier
from unikat.jobs.plan_pictures import ColumnsLeft, OtherColumns, Pictures, plan_pictures
from unikat.jobs.protection_target import aim_of, lost_by, verified
from unikat.jobs.saved_states import posterior_of
from unikat.language.levels import FOUND, LevelGroups
from unikat.protection.by_hand import recode_by_hand
from unikat.protection.going_on import N_STATES
from unikat.protection.hierarchies import Choices, choices
from unikat.protection.perturbed import CorrectMatches
from unikat.protection.recoding import KeyRecoding, Recoding, level_counts, recodable, unchanged
from unikat.protection.scenarios import Scenarios
from unikat.protection.search import Search, Tell
from unikat.protection.what_if import Posterior
from unikat.report.folders import assessment as results
from unikat.report.folders.outputs import SPEC
from unikat.report.text.protection import stopped_early
from unikat.report.text.track_record import unknown_of_result
from unikat.risk.estimate import RiskEstimate, known_exactly
from unikat.risk.limits import Reason, judge, smallest
from unikat.risk.predictive import of_law
from unikat.spec.from_options import specify
from unikat.spec.limits import Limit
from unikat.spec.protection import ProtectionSpec
from unikat.spec.trust import FOREIGN, Trust

T = TypeVar("T")
_Asked: TypeAlias = "tuple[tuple[Choice, ...], tuple[tuple[str, str], ...]]"
"""Steps of the keys, and what is done besides."""
NOTHING: Mapping[str, str] = MappingProxyType({})

MOST_LOOKS = 64
"""Recodings whose risk by all states is kept."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Exploration:
    """Recodings of the keys of a loaded assessment. Made by :meth:`open`.

    Examples
    --------
    >>> Exploration.open("no such folder")
    Traceback (most recent call last):
    unikat.errors.OutputError: no such folder is not a folder; name the folder of a run (its --out).
    """

    folder: str | os.PathLike[str]
    posterior: Posterior = field(repr=False)
    level: float
    unknown: tuple[Reason, ...]
    """Why the assessment's numbers may not tell whether a limit is met."""
    parts: Sequence[Choices] = field(repr=False)
    trust: Trust = FOREIGN
    """What counts of the specification of the run."""
    _made: dict[tuple[Choice, ...], Recoding] = field(default_factory=dict, repr=False)
    _seen: dict[_Asked, RiskEstimate] = field(default_factory=dict, repr=False)
    _matched: dict[_Asked, tuple[CorrectMatches, float]] = field(default_factory=dict, repr=False)
    """With suppressed or perturbed values, and the information lost."""
    _done: dict[tuple[tuple[str, str], ...], Besides | None] = field(
        default_factory=dict, repr=False
    )

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        progress: Callable[[str, float | None], None] | None = None,
        trust: Trust = FOREIGN,
    ) -> Exploration:
        """Read the file of an assessment again, and go on from the states that it kept.

        Parameters
        ----------
        folder
            Of the run.
        progress
            Given what is done, and the share of it that is, where that is known.
        trust
            What counts of the specification of the run, by which the data are read.
        """
        loaded = results.load(folder)
        # Refused at once, and not after the file was read.
        _asked(loaded.root, "k >= 1", trust)
        posterior = posterior_of(loaded, progress, trust)
        found = cls(
            folder=loaded.root,
            trust=trust,
            posterior=posterior,
            level=loaded.result.tau1.level,
            unknown=unknown_of_result(loaded.result),
            parts=choices(posterior.table),
        )
        # The first look compiles what it needs.
        found.look([0] * len(found.parts))
        return found

    @property
    def n_states(self) -> int:
        """States that a complete look takes; 0 where the file itself tells the risk."""
        return sum(map(len, self.posterior.states))

    @property
    def keys(self) -> tuple[ExploredKey, ...]:
        """The keys, each with what can be done to it."""
        found = []
        for key, part in zip(recodable(self.posterior.table), self.parts, strict=True):
            whole = max(part.entropy, 1e-300)
            steps = tuple(
                Step(
                    rule=one.text if one.changes else "",
                    words=recoding_words(one),
                    n_groups=0 if one.key is None else one.key.n_levels,
                    lost=min(float(lost) / whole, 1.0),
                )
                for one, lost in zip(part.recodings, part.lost, strict=True)
            )
            is_ordered = structure_of(key).is_ordered
            found.append(ExploredKey(name=key.name, ordered=is_ordered, steps=steps))
        return tuple(found)

    def levels(self, name: str, kind: str = FOUND) -> KeyLevels:
        """Tell what is known of the levels of a key, and the risk that each carries.

        Parameters
        ----------
        name
            Of the key.
        kind
            How its levels are meant: `found`, or a kind as --levels takes it.
        """
        self._check_key(name)
        return key_levels(self._before, name, kind)

    def counts(
        self, steps: Sequence[Choice], key: str = "", besides: Mapping[str, str] = NOTHING
    ) -> Counts | None:
        """Tell what the recoded file itself does; arguments as of `look`.

        None where values are suppressed or perturbed, which takes as long as a look.
        """
        recoding, also = self._recoding(steps), self._besides(besides)
        if also is not None:
            if also.changes_values:
                return None
            recoding = also.held(recoding)
        table = recoding.table(self.posterior.table)
        return Counts(
            n_uniques=table.n_uniques,
            smallest=int(smallest(table)),
            groups=self._groups(recoding, key),
        )

    def look(
        self,
        steps: Sequence[Choice],
        target: str = "",
        n_states: int | None = None,
        between: Callable[[], None] | None = None,
        key: str = "",
        besides: Mapping[str, str] = NOTHING,
    ) -> Look:
        """Tell the risk after a recoding.

        Parameters
        ----------
        steps
            Of each key, its place among `keys`' steps, or groups made by hand.
        target
            What is to be reached, as `tau1 <= 5`; empty if nothing is.
        n_states
            States to look at, spread over the chains; None: all. Few tell nothing of the target.
        between
            Called now and then; what it raises ends the look.
        key
            Whose groups are told; empty: of none.
        besides
            What is sampled, suppressed and perturbed: options of `protect` by name.
        """
        aim = _target(target) if target.strip() else None
        recoding, also = self._recoding(steps), self._besides(besides)
        if also is not None and also.changes_values:
            return self._look_at_matches(steps, also, aim, n_states, between, key, besides)
        if also is not None:
            recoding = also.held(recoding)
        asked = (tuple(steps), tuple(besides.items()))
        found = self._estimate(asked, recoding, n_states, between)
        # What was looked at by all states is not looked at again.
        complete = n_states is None or n_states >= self.n_states or asked in self._seen
        n_seen = self.n_states if complete else n_states or 0
        judged = None
        if aim is not None and complete:
            value = self.posterior.measured(recoding, aim, self.level, found)
            judged = judge(aim, [value], self.unknown)
        lost = lost_by(self.posterior.table, recoding)
        return Look(
            steps=tuple(steps),
            rules=_rules(recoding),
            files=self._files(recoding),
            tau1=Range.of(found.tau1_shown or found.tau1),
            tau2=Range.of(found.tau2_shown or found.tau2),
            n_uniques=found.table.n_uniques,
            smallest=int(smallest(found.table)),
            lost=lost if also is None else also.lost(lost),
            persons=self._persons(found),
            n_states=n_seen,
            groups=self._groups(recoding, key, found),
            bins=found.tau1_bins,
            judged=judged,
        )

    def _look_at_matches(
        self,
        steps: Sequence[Choice],
        also: Besides,
        aim: Limit | None,
        n_states: int | None,
        between: Callable[[], None] | None,
        key: str,
        besides: Mapping[str, str],
    ) -> Look:
        """Tell the risk of matches with suppressed and perturbed values."""
        asked = (tuple(steps), tuple(besides.items()))
        recoding = also.held(self._recoding(steps))
        complete = n_states is None or n_states >= self.n_states
        if asked in self._matched:
            (found, lost), complete = self._matched[asked], True
        else:
            states = None if complete else n_states
            all_of, release = also.release(self.posterior, recoding, self.level, states, between)
            found = all_of.matches(release, n_states=states or N_STATES)
            lost = release.lost
            if complete:
                _keep(self._matched, asked, (found, lost))
        judged = None
        if aim is not None and complete:
            judged = judge(aim, [found.measured.value(aim)], self.unknown)
        return Look(
            steps=tuple(steps),
            rules=_rules(recoding),
            files=self._files(recoding),
            tau1=Range.of(found.tau1),
            tau2=Range.of(found.tau2),
            n_uniques=found.n_uniques,
            smallest=found.smallest,
            lost=lost,
            n_states=self.n_states if complete else n_states or 0,
            groups=self._groups(recoding, key),
            bins=found.tau1_bins,
            judged=judged,
        )

    def _besides(self, texts: Mapping[str, str]) -> Besides | None:
        asked = tuple(texts.items())
        if asked not in self._done:
            found = Besides.of(texts, Path(self.folder, SPEC), self.trust, self.posterior)
            _keep(self._done, asked, found)
        return self._done[asked]

    def pictures(
        self,
        steps: Sequence[Choice],
        besides: Mapping[str, str] = NOTHING,
        pair: tuple[str, str] | None = None,
        between: Callable[[], None] | None = None,
    ) -> Pictures:
        """Tell what a plan does to the keys and where its risk is; arguments as of `look`.

        pair: keys of the tables; None: those in which the risk is most concentrated.
        """
        recoding, also = self._recoding(steps), self._besides(besides)
        found = visible = None
        if also is not None:
            recoding = also.held(recoding)
        if also is not None and also.changes_values:
            _, release = also.release(self.posterior, recoding, self.level, None, between)
            visible = release.visible
        else:
            found = self._estimate((tuple(steps), tuple(besides.items())), recoding, None, between)
        return plan_pictures(self._before, recoding, found, visible, pair)

    def columns(self, steps: Sequence[Choice], besides: Mapping[str, str] = NOTHING) -> ColumnsLeft:
        """Tell what the columns that are no keys would tell beside a plan; as of `look`.

        Suppressed and perturbed values are taken for shown and true.
        """
        recoding, also = self._recoding(steps), self._besides(besides)
        if also is not None:
            recoding = also.held(recoding)
        return self._others.left(self.posterior, recoding, self.level)

    @cached_property
    def _others(self) -> OtherColumns:
        spec = _asked(self.folder, "k >= 1", self.trust)
        return OtherColumns.read(spec, self.posterior.table)

    def find(
        self,
        target: str,
        between: Callable[[], None] | None = None,
        tell: Tell | None = None,
    ) -> Found:
        """Find the recoding that loses least and reaches a target.

        Parameters
        ----------
        target
            As `tau1 <= 5`.
        between
            Called before each look; what it raises ends the search.
        tell
            Told where the search stands.
        """
        spec = _asked(self.folder, str(_target(target)), self.trust)
        aim = aim_of(spec, Scenarios(posterior=self.posterior, scenarios=(), level=self.level))
        search = Search.of(self.parts, _interrupted(aim.quick, between), tell=tell)
        aim = aim._replace(closely=_interrupted(aim.closely, between))
        plan = verified(search, search.best(aim.goal), aim, ())
        early = ""
        if search.least is not None:
            n_plans = int(search.lost.size)
            early = stopped_early(n_plans, len(search.seen), plan.lost, search.least)
        return Found(steps=search.place(plan.recoding), early=early)

    def frontier(
        self,
        between: Callable[[], None] | None = None,
        tell: Tell | None = None,
        early: Callable[[Points], None] | None = None,
    ) -> Points:
        """Find the plans of each kind that no other of it beats; by all states.

        Parameters
        ----------
        between, tell
            As of `find`.
        early
            Given what is known so far, by few states, before each plan is looked at by all.
        """
        look_between = between or (lambda: None)

        def look(steps: Sequence[int], besides: Mapping[str, str]) -> tuple[Range, float]:
            recoding, also = self._recoding(steps), self._besides(besides)
            if also is None or not also.changes_values:
                recoding = recoding if also is None else also.held(recoding)
                risk = self._law_of(recoding, None, between)
                lost = lost_by(self.posterior.table, recoding)
                lost = lost if also is None else also.lost(lost)
                return Range.of(risk.tau1_shown or risk.tau1), lost
            all_of, release = also.release(self.posterior, recoding, self.level, None, between)
            return Range.of(all_of.matches(release).tau1), release.lost

        def allowed(**besides: str) -> bool:
            with contextlib.suppress(SpecError):
                return self._besides(besides) is not None
            return False

        spec = _asked(self.folder, "k >= 1", self.trust)
        shares = shares_of(SHARES, self.posterior.table) if allowed(subsample="50%") else None
        return PlanFrontier(
            parts=self.parts,
            posterior=self.posterior,
            releases=releases_of(spec, self.posterior, self.level, shares),
            suppress=spec.model.tells_what_is_left and allowed(suppress="r1 <= 0.5"),
            understated="" if spec.model.tells_what_is_left else spec.model.name,
            look=look,
            between=look_between,
            tell=tell,
            early=early or (lambda _: None),
        ).found()

    @cached_property
    def _before(self) -> RiskEstimate:
        steps = (0,) * len(self.parts)
        return self._estimate((steps, ()), self._recoding(steps), None, None)

    def _persons(self, found: RiskEstimate) -> Range | None:
        if found.persons is not None:
            return Range.of(found.persons)
        if (sizes := self.posterior.sizes(found.table)) is None:
            return None
        r1 = np.nan_to_num(found.records.r1, nan=0.0)
        return Range.at(float((found.table.counts * sizes * r1).sum()))

    def _check_key(self, name: str) -> None:
        if name not in [key.name for key in recodable(self.posterior.table)]:
            raise SpecError("There is no such key; open the page of the run again.")

    def _groups(
        self, recoding: Recoding, key: str, found: RiskEstimate | None = None
    ) -> KeyGroups | None:
        if not key:
            return None
        self._check_key(key)
        return key_groups(recoding, key, found)

    def _recoding(self, steps: Sequence[Choice]) -> Recoding:
        if (made := self._made.get(asked := tuple(steps))) is None:
            made = self._recoding_of(steps)
            _keep(self._made, asked, made)
        return made

    def _recoding_of(self, steps: Sequence[Choice]) -> Recoding:
        if len(steps) != len(self.parts) or not all(
            isinstance(at, str) or 0 <= at < len(part.recodings)
            for at, part in zip(steps, self.parts, strict=True)
        ):
            raise SpecError("The recoding is none of this file's; open the page of the run again.")
        chosen = [
            self._by_hand(j, at) if isinstance(at, str) else self.parts[j].recodings[at]
            for j, at in enumerate(steps)
        ]
        recoding = Recoding(keys=tuple(chosen))
        recoding.check_kept()
        return recoding

    def _by_hand(self, place: int, text: str) -> KeyRecoding:
        key = recodable(self.posterior.table)[place]
        try:
            made = LevelGroups.parse(text)
        except ValueError as error:
            raise SpecError(f"Key {key.name!r}: {error}; open the page of the run again.") from None
        if not made.groups:
            return unchanged(key)
        return recode_by_hand(key, level_counts(self.posterior.table)[place], made)

    def _files(self, recoding: Recoding) -> dict[str, tuple[tuple[str, str], ...]]:
        keys = zip(recoding.keys, recodable(self.posterior.table), strict=True)
        return {one.name: rows_of(one, level_names(key)) for one, key in keys if _is_by_hand(one)}

    def _estimate(
        self,
        asked: _Asked,
        recoding: Recoding,
        n_states: int | None,
        between: Callable[[], None] | None,
    ) -> RiskEstimate:
        if asked in self._seen:
            return self._seen[asked]
        found = self._law_of(recoding, n_states, between)
        if n_states is None:
            _keep(self._seen, asked, found)
        return found

    def _law_of(
        self, recoding: Recoding, n_states: int | None, between: Callable[[], None] | None
    ) -> RiskEstimate:
        posterior = replace(self.posterior, between=between)
        table = recoding.table(posterior.table)
        imputed = table.missing == "integrate" and bool(table.incomplete.any())
        if imputed or not posterior.states or known_exactly(table):
            return posterior.estimate(recoding, self.level, n_states=n_states, between=between)
        # The law alone: half of what all risks of the records take, and a third of few states.
        law = posterior.law(recoding, table, n_states or self.n_states)
        converged = posterior.stop_reason == "converged"
        return of_law(law, table, self.level, posterior.sizes(table), converged=converged)


def _keep(kept: dict[Any, T], asked: Any, found: T) -> None:
    """Keep an answer; the first of many goes."""
    if len(kept) >= MOST_LOOKS:
        # Counts are asked for by another thread.
        kept.pop(next(iter(kept)), None)
    kept[asked] = found


def _asked(folder: str | os.PathLike[str], target: str, trust: Trust) -> ProtectionSpec:
    """What `protect` would be asked to do with the file of an assessment."""
    path, asked = os.path.join(folder, SPEC), {"target": target}
    return specify(ProtectionSpec, path, asked, caller="The page", trust=trust)[0]


def _target(text: str) -> Limit:
    try:
        return Limit.of(text)
    except ValueError as error:
        raise SpecError(f"{error}.") from None


def _interrupted(
    evaluate: Callable[[Recoding], T], between: Callable[[], None] | None
) -> Callable[[Recoding], T]:
    """Call something else before each evaluation; what it raises ends them."""

    def evaluated(recoding: Recoding) -> T:
        if between is not None:
            between()
        return evaluate(recoding)

    return evaluated


def _rules(recoding: Recoding) -> dict[str, str]:
    return {
        one.name: f"file({groups_file(one.name)})" if _is_by_hand(one) else one.text
        for one in recoding.keys
        if one.changes
    }


def _is_by_hand(one: KeyRecoding) -> bool:
    return one.changes and one.text.startswith("groups ")


def groups_file(name: str) -> str:
    """Name of the file of the groups of a key.

    Examples
    --------
    >>> groups_file("REGION of birth")
    'REGION_of_birth-groups.csv'
    """
    return f"{re.sub(r'[^0-9A-Za-z_.-]', '_', name)}-groups.csv"
