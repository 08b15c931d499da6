"""Recodings of an assessment that was loaded, looked at one by one or searched: for the workbench.

Every answer is a dataclass of numbers and texts, which can be written as JSON.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeAlias, TypeVar

from unikat.data.structure import structure_of
from unikat.errors import SpecError
from unikat.jobs.levels import KeyGroups, KeyLevels, key_groups, key_levels, rows_of
from unikat.jobs.protection_target import aim_of, closer_look, lost_by, verified
from unikat.jobs.saved_states import posterior_of
from unikat.language.levels import FOUND, LevelGroups
from unikat.protection.by_hand import recode_by_hand
from unikat.protection.groups import level_names
from unikat.protection.hierarchies import Choices, choices
from unikat.protection.recoding import KeyRecoding, Recoding, level_counts, recodable, unchanged
from unikat.protection.scenarios import Scenarios
from unikat.protection.search import Search, Tell, Value, frontier
from unikat.protection.what_if import Posterior
from unikat.report.folders import assessment as results
from unikat.report.folders.outputs import SPEC
from unikat.report.text.plan_words import key_words
from unikat.report.text.protection import stopped_early
from unikat.report.text.track_record import unknown_of_result
from unikat.risk.estimate import RiskEstimate, Summary
from unikat.risk.limits import Judged, Reason, judge, smallest
from unikat.spec.from_options import specify
from unikat.spec.limits import Limit
from unikat.spec.protection import ProtectionSpec
from unikat.spec.trust import Trust

T = TypeVar("T")

Choice: TypeAlias = "int | str"
"""What becomes of a key: the place of a step, or groups made by hand (`language.levels`)."""
MOST_LOOKS = 64
"""Recodings whose risk by all states is kept."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A recoding of a key."""

    rule: str
    """As --recode takes it; empty: the key as it is."""
    words: str
    n_groups: int
    """Levels that are left, none if the key is left out."""
    lost: float
    """Share of the key's information that it loses, 0 to 1."""


@dataclass(frozen=True, kw_only=True)
class ExploredKey:
    """A key, and what can be done to it."""

    name: str
    ordered: bool
    """Its levels are numbers, so that recodings are steps of a slider."""
    steps: tuple[Step, ...]
    """From fine to coarse; the first is the key as it is."""


@dataclass(frozen=True, kw_only=True)
class Range:
    """A number with its interval."""

    mean: float
    lower: float
    upper: float

    @classmethod
    def of(cls, found: Summary) -> Range:
        """Take it from a summary."""
        return cls(mean=found.mean, lower=found.lower, upper=found.upper)


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What a recoded file itself tells, without a model."""

    n_uniques: int
    """Sample uniques."""
    smallest: int
    """Records in the smallest combination."""
    groups: KeyGroups | None
    """Of the key that was asked for."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """The risk after a recoding."""

    steps: tuple[Choice, ...]
    """Of each key."""
    rules: dict[str, str]
    """What is done, by key, as --recode takes it; keys that stay as they are excepted. Groups that
    no rule makes are `file(KEY-groups.csv)`."""
    files: dict[str, tuple[tuple[str, str], ...]]
    """What these files hold: level and group."""
    tau1: Range
    tau2: Range
    n_uniques: int
    """Sample uniques."""
    smallest: int
    """Records in the smallest combination."""
    lost: float
    """Share of the information of all keys that is lost."""
    n_states: int
    """States of the model that were looked at."""
    groups: KeyGroups | None = None
    """Of the key that was asked for."""
    judged: Judged | None = None
    """The target and the verdict; None without a target, or until all states were looked at."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """The plan of a search."""

    steps: tuple[int, ...]
    """Of each key."""
    early: str
    """That the search stopped early, and what a better plan would lose at least; else empty."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """A plan of the frontier."""

    steps: tuple[int, ...]
    rules: dict[str, str]
    tau1: Range
    lost: float


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
    inside: Path | None = None
    """The folder of the workbench; None: that of the run."""
    _seen: dict[tuple[Choice, ...], RiskEstimate] = field(default_factory=dict, repr=False)

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        progress: Callable[[str, float | None], None] | None = None,
        inside: Path | None = None,
    ) -> Exploration:
        """Read the file of an assessment again, and go on from the states that it kept.

        Parameters
        ----------
        folder
            Of the run.
        progress
            Given what is done, and the share of it that is, where that is known.
        inside
            The folder of the workbench, in which the data have to lie; None: that of the run.

        Raises
        ------
        OutputError, SpecError, DataError
            As :func:`unikat.jobs.saved_states.posterior_of`; or if `protect` takes no such run.
        """
        loaded = results.load(folder)
        # Refused at once, and not after the file was read.
        _asked(loaded.root, "k >= 1", inside)
        posterior = posterior_of(loaded, progress, Trust(inside=inside))
        found = cls(
            folder=loaded.root,
            inside=inside,
            posterior=posterior,
            level=loaded.result.tau1.level,
            unknown=unknown_of_result(loaded.result),
            parts=choices(posterior.table),
        )
        # The first look compiles what it needs.
        found._seen[(0,) * len(found.parts)] = found._before
        return found

    @property
    def n_states(self) -> int:
        """States that a complete look takes; 0 where the file itself tells the risk."""
        return sum(map(len, self.posterior.states))

    @property
    def keys(self) -> tuple[ExploredKey, ...]:
        """The keys, each with what can be done to it."""
        found = []
        for key, part in zip(self.posterior.table.keys, self.parts, strict=True):
            whole = max(part.entropy, 1e-300)
            steps = tuple(
                Step(
                    rule=one.text if one.changes else "",
                    words=_words(one),
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

        Raises
        ------
        SpecError
            If there is no such key, or its levels cannot be of that kind.
        """
        self._check_key(name)
        return key_levels(self._before, name, kind)

    def counts(self, steps: Sequence[Choice], key: str = "") -> Counts:
        """Tell what the recoded file itself does; arguments as of `look`."""
        recoding = self._recoding(steps)
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

        Raises
        ------
        SpecError
            If the target has no known form, a step is none of the key's, or no key is left.
        """
        aim = _target(target) if target.strip() else None
        recoding = self._recoding(steps)
        found = self._estimate(tuple(steps), n_states, between)
        # Whatever was asked, these are all states or some of them.
        n_seen = 0 if found.draws is None else found.draws.n_chains * found.draws.n_sweeps
        complete = found.draws is None or n_seen >= self.n_states
        judged = None
        if aim is not None and complete:
            value = self.posterior.measured(recoding, aim, self.level, found)
            judged = judge(aim, [value], self.unknown)
        return Look(
            steps=tuple(steps),
            rules=_rules(recoding),
            files=self._files(recoding),
            tau1=Range.of(found.tau1_shown or found.tau1),
            tau2=Range.of(found.tau2_shown or found.tau2),
            n_uniques=found.table.n_uniques,
            smallest=int(smallest(found.table)),
            lost=lost_by(self.posterior.table, recoding),
            n_states=n_seen,
            groups=self._groups(recoding, key, found),
            judged=judged,
        )

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

        Raises
        ------
        SpecError
            If none does, or the target has no known form.
        """
        spec = _asked(self.folder, str(_target(target)), self.inside)
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
        self, between: Callable[[], None] | None = None, tell: Tell | None = None
    ) -> tuple[Point, ...]:
        """Find plans of falling τ1, each of which loses least for its τ1; by all states."""

        def quick(recoding: Recoding) -> Value:
            found = self.posterior.tau1(recoding)
            return Value(found, found)

        search = Search.of(self.parts, _interrupted(quick, between), tell=tell)
        plans = frontier(search, None).plans
        look = _interrupted(lambda one: self.posterior.what_if(one, self.level), between)
        return tuple(
            Point(
                steps=search.place(plan.recoding),
                rules=_rules(plan.recoding),
                tau1=Range.of(risk.tau1_shown or risk.tau1),
                lost=plan.lost,
            )
            for plan, risk in closer_look(plans, None, look)
        )

    @cached_property
    def _before(self) -> RiskEstimate:
        return self.posterior.estimate(self._recoding([0] * len(self.parts)), self.level)

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
        if len(steps) != len(self.parts) or not all(
            isinstance(at, str) or 0 <= at < len(part.recodings)
            for at, part in zip(steps, self.parts, strict=True)
        ):
            raise SpecError("The recoding is none of this file's; open the page of the run again.")
        chosen = [
            self._by_hand(j, at) if isinstance(at, str) else self.parts[j].recodings[at]
            for j, at in enumerate(steps)
        ]
        if all(one.key is None for one in chosen):
            raise SpecError("All keys are left out, so nothing is left to publish; keep one.")
        return Recoding(keys=tuple(chosen))

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
        self, steps: tuple[Choice, ...], n_states: int | None, between: Callable[[], None] | None
    ) -> RiskEstimate:
        if steps in self._seen:
            return self._seen[steps]
        recoding = self._recoding(steps)
        found = self.posterior.estimate(recoding, self.level, n_states=n_states, between=between)
        if n_states is None:
            if len(self._seen) >= MOST_LOOKS:
                del self._seen[next(iter(self._seen))]
            self._seen[steps] = found
        return found


def _asked(folder: str | os.PathLike[str], target: str, inside: Path | None) -> ProtectionSpec:
    """What `protect` would be asked to do with the file of an assessment."""
    path, asked = os.path.join(folder, SPEC), {"target": target}
    return specify(ProtectionSpec, path, asked, caller="The page", inside=inside)[0]


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


def _words(one: KeyRecoding) -> str:
    if not one.changes:
        return "as it is"
    n_groups = None if one.key is None else one.key.n_levels
    return key_words("", one.text, title=one.title, n_groups=n_groups)
