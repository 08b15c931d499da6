"""Several intruders, each of whom knows some of the keys: a plan has to reach the targets of all.

An intruder sees the margin of the recoded table over the keys that he knows, whose risk follows
from the same states of one fit (`what_if`). One who knows that the person is in the sample faces no
unobserved unit, so his risk is that of a population of the n records: every definition with N = n.
τ1 and τ2 are then the number of sample uniques, r1 is 1 of a sample unique and 0 of others, and the
smallest combination of the population is that of the file. No model is asked, unless missing keys
are integrated over.

Every measure of a margin falls as its keys are made coarser (see `search`), and depends on nothing
else. So what the search has found of a scenario is known of all plans that are as coarse in its own
keys.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import nan

from unikat.data.table import CellTable
from unikat.errors import SpecError, listed, suggest
from unikat.protection.recoding import KeyRecoding, Recoding, recodable, unchanged
from unikat.protection.search import Value
from unikat.protection.what_if import Posterior
from unikat.risk.limits import smallest
from unikat.spec.limits import COUNTED, Limit


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What an intruder knows, and a target that has to be reached against him."""

    name: str
    keys: tuple[str, ...]
    """Names of the keys that he knows."""
    in_sample: bool
    """Whether he knows that the person is in the sample."""
    target: Limit
    errors: float = 0.0
    """Probability that his value of a key is wrong."""

    @classmethod
    def of(
        cls,
        name: str,
        keys: Sequence[str],
        targets: Sequence[str],
        table: CellTable,
        *,
        in_sample: bool,
        errors: float = 0.0,
    ) -> list[Scenario]:
        """Make a scenario for each target; no keys: all of the table."""
        names = [key.name for key in recodable(table)]
        for key in keys:
            if key not in names:
                raise SpecError(
                    f"Scenario {name!r}: {key!r} is none of the keys: {listed(names)}."
                    f"{suggest(key, names)} A scenario names keys by their columns."
                )
        known = tuple(one for one in names if one in keys or not keys)
        return [
            cls(name=name, keys=known, in_sample=in_sample, target=Limit.of(text), errors=errors)
            for text in targets
        ]

    def margin(self, recoding: Recoding) -> Recoding | None:
        """Leave out the keys that he does not know; None if none is left that he does."""
        keys = tuple(one if one.name in self.keys else one.left_out() for one in recoding.keys)
        found = replace(recoding, keys=keys)
        return found if found.kept else None

    def is_counted(self, table: CellTable) -> bool:
        """Whether the file itself tells the measure, without a model."""
        known = self.in_sample and not table.incomplete.any()
        return self.target.plain in COUNTED or known

    def of_nothing(self, table: CellTable) -> float:
        """Measure of an intruder who knows no key: all records are alike to him."""
        if not self.target.wants_more:
            return 0.0
        of_all = self.target.plain == "population_k" and not self.in_sample
        return float(table.n_units if of_all else table.released.sum())


@dataclass(kw_only=True, eq=False)
class Scenarios:
    """The targets of scenarios, all of which a plan has to reach, and what was found of each.

    It is the goal of a search whose values are 0 where all targets are reached, and 1 elsewhere.
    """

    posterior: Posterior
    scenarios: Sequence[Scenario]
    level: float
    _found: dict[tuple[Scenario, int], list[tuple[tuple[KeyRecoding, ...], bool]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """Recodings of his own keys that were looked at, by the share of the records that is released,
    and whether they reach the target."""
    _best: dict[Scenario, float] = field(default_factory=dict)
    _coarser: dict[tuple[int, int], bool] = field(default_factory=dict)

    @staticmethod
    def met(value: float) -> bool:
        """Whether all targets are reached."""
        return value == 0.0

    @cached_property
    def _in_order(self) -> list[Scenario]:
        """The one that is cheapest to look at first."""
        table = self.posterior.table
        recoding = Recoding(keys=tuple(map(unchanged, recodable(table))))

        def cost(one: Scenario) -> tuple[bool, int]:
            margin = one.margin(recoding)
            size = 0 if margin is None else len(margin.table(table).cells)
            return not one.is_counted(table), size

        return sorted(self.scenarios, key=cost)

    def evaluate(self, recoding: Recoding) -> Value:
        """Whether a recoding misses a target, quickly; the first that it misses ends the look."""
        missed = not all(self._reaches(one, recoding) for one in self._in_order)
        return Value(float(missed), nan)

    def measure(self, one: Scenario, recoding: Recoding, *, quickly: bool = False) -> float:
        """What a recoding reaches of the target's measure, against an intruder.

        By all states; or quickly, by as many as tell whether the target is reached.
        """
        margin = one.margin(recoding)
        posterior = self.posterior.within_sample if one.in_sample else self.posterior
        if margin is None:
            return one.of_nothing(replace(posterior.table, held=recoding.held))
        if one.target.plain == "k":
            return smallest(margin.table(posterior.table))
        asked = one.target.without_errors(one.errors)
        if quickly:
            found = posterior.value(margin, asked, self.level).measure
        else:
            found = posterior.measured(margin, asked, self.level)
        return one.target.with_errors(found, one.errors)

    def measures(self, recoding: Recoding) -> list[float]:
        """What a recoding reaches against each intruder, by all states."""
        found = [self.measure(one, recoding) for one in self.scenarios]
        for one, measure in zip(self.scenarios, found, strict=True):
            self._note(one, measure)
        return found

    def unreached(self) -> SpecError:
        """Say which target no plan has reached."""
        missed = [
            one
            for one in self.scenarios
            if one in self._best and not one.target.met(self._best[one])
        ]
        if not missed:
            return SpecError("No recoding reaches the targets of all scenarios.")
        return SpecError(
            f"No recoding reaches {missed[0].target} of the scenario {missed[0].name!r}; the best "
            f"that was found has {missed[0].target.measure} {self._best[missed[0]]:.3g}."
        )

    def _reaches(self, one: Scenario, recoding: Recoding) -> bool:
        """Whether a target is reached, as far as the search looks; each margin is seen once."""
        own = tuple(part for part in recoding.keys if part.name in one.keys)
        # Shares of a search live as long as it does.
        found = self._found[one, id(recoding.held)]
        for other, reached in found:
            if reached and self._are_coarser(own, other):
                return True
            if not reached and self._are_coarser(other, own):
                return False
        measure = self.measure(one, recoding, quickly=True)
        self._note(one, measure)
        reached = one.target.met(measure)
        found.append((own, reached))
        return reached

    def _are_coarser(self, own: Sequence[KeyRecoding], other: Sequence[KeyRecoding]) -> bool:
        return all(self._is_coarser(*pair) for pair in zip(own, other, strict=True))

    def _is_coarser(self, one: KeyRecoding, other: KeyRecoding) -> bool:
        # Recodings of a search live as long as it does.
        pair = id(one), id(other)
        if pair not in self._coarser:
            self._coarser[pair] = one.is_coarser(other)
        return self._coarser[pair]

    def _note(self, one: Scenario, measure: float) -> None:
        better = max if one.target.wants_more else min
        self._best[one] = better(measure, self._best.get(one, measure))
