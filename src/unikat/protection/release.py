"""What the records of a file show under a plan: sampled, recoded, perturbed and suppressed.

The search for a plan and the file that is written ask the same code with the same seed, so that
what is promised of a plan is what is measured of its file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.keys import MISSING, Key
from unikat.data.table import CellTable
from unikat.errors import SpecError, listed, option
from unikat.models.households.records import NestedData
from unikat.protection.going_on import N_STATES
from unikat.protection.lost import information_lost
from unikat.protection.perturbed import CorrectMatches, Perturbed, most_matches, perturb
from unikat.protection.recoding import Recoding, recodable, unchanged
from unikat.protection.search import Plan
from unikat.protection.subsample import Shares, table_of
from unikat.protection.suppression import KAnonymity, RiskLimit, suppress, suppress_households
from unikat.protection.what_if import Posterior
from unikat.spec.limits import Limit
from unikat.spec.perturbation import Pram, SwapRule


def suppressed_values(
    limit: Limit,
    posterior: Posterior,
    recoding: Recoding,
    codes: Int32,
    weights: Sequence[float],
    keep: Sequence[str],
    n_states: int = N_STATES,
) -> Bool:
    """Values of recoded records that local suppression sets missing, (n, n_kept_keys).

    Of households the keys that are suppressed of all members; what is missing of some members, too.

    Parameters
    ----------
    limit
        That every record reaches, of r1 or k.
    posterior, recoding
        Of the file as it was, and what is done to it.
    codes
        (n, n_kept_keys): the recoded records; of households rows of the recoded table.
    weights
        How much a value of each key costs.
    keep
        Keys that lose no value.
    n_states
        By which r1 is asked for.
    """
    rule = (
        KAnonymity(math.ceil(limit.bound))
        if limit.plain == "k"
        else RiskLimit(limit.bound, posterior.margin_risk(recoding, n_states))
    )
    keep = [*keep, *_composition(posterior)]
    # A key whose information does not count is the first to go, but not for nothing.
    costs = [
        np.inf if recoding.keys[j].name in keep else max(weights[j], 1e-6) for j in recoding.kept
    ]
    try:
        table = recoding.table(posterior.table)
        if posterior.table.layout is None:
            return suppress(codes, table.n_levels, rule, costs=costs)
        if table.layout is None:
            # Members have no key any more. The size of a household stays.
            return suppress(codes, table.n_levels, rule, costs=[np.inf, *costs])[:, 1:]
        names = [recoding.keys[j].name for j in recoding.kept]
        own = [table.layout.name_of(key) for key in table.layout.variables]
        of_key = np.array(names)[:, None] == np.array(own)
        return suppress_households(codes, table.layout, of_key, rule, np.array(costs))
    except SpecError as error:
        if not keep:
            raise
        raise SpecError(
            f"{error} No value of {listed(keep)} is suppressed, since {option('keep')} names it, "
            "or since it tells the role of each member in the household."
        ) from None


def _composition(posterior: Posterior) -> list[str]:
    """Name the key that tells each member's role; it keeps its values, as the size does."""
    layout = posterior.table.layout
    role = -1 if layout is None or not posterior.states else _role(posterior.data)
    return [] if layout is None or role < 0 else [layout.person_keys[role].name]


def _role(data: Any) -> int:
    """Place of the key of members that is the composition, -1 if none is."""
    while not isinstance(data, NestedData):
        data = data.wrapped
    return int(data.columns.roles.key)


@dataclass(frozen=True, kw_only=True, eq=False)
class Homes:
    """How the persons of a file make up the households that are its units."""

    table: CellTable
    """Of the households."""
    keys: Sequence[Key]
    """Of the columns of the file."""
    household: Int32 = field(repr=False)
    """(n_rows,): household of each row of the file; -1 where it was left out."""
    head: Bool | None = field(repr=False)
    """(n_rows,): who is the head; None if it was not declared."""
    weights: Sequence[float]
    """How much the information of each key of the table counts."""

    def of_persons(self, recoding: Recoding) -> Recoding:
        """The recoding of the columns of the file, in their order."""
        by_name = {one.name: one for one in recoding.keys}
        return Recoding(keys=tuple(by_name.get(key.name) or unchanged(key) for key in self.keys))

    def weights_of(self, of_persons: Recoding) -> list[float]:
        """How much the information of each column of the file counts; 0 if it is no key."""
        names = (key.name for key in recodable(self.table))
        by_name = dict(zip(names, self.weights, strict=True))
        return [by_name.get(one.name, 0.0) for one in of_persons.keys]

    def units(self, recoding: Recoding, codes: Int32) -> Int32:
        """Rows of the recoded table that the persons of the file show.

        codes: (n_rows, n_kept_columns), what they show of the recoded columns of the file.
        """
        layout = self.table.layout
        assert layout is not None
        of_persons, coarse = self.of_persons(recoding), recoding.table(self.table)
        place = {of_persons.keys[j].name: c for c, j in enumerate(of_persons.kept)}
        there = self.household >= 0
        own = [self.table.cells[self.table.record_cell, 0]]
        for key in layout.household_keys[1:]:
            name = layout.name_of(key)
            if name not in place:
                continue
            whose = there if name == key.name or self.head is None else there & self.head
            values = np.full(coarse.n_records, MISSING, np.int32)
            np.maximum.at(values, self.household[whose], codes[whose, place[name]])
            own.append(values)
        if coarse.layout is None:
            return np.column_stack(own)
        if layout.head_apart and self.head is not None:
            there = there & ~self.head
        order = np.flatnonzero(there)[np.argsort(self.household[there], kind="stable")]
        persons = [place[key.name] for key in coarse.layout.person_keys]
        return coarse.layout.pack(np.column_stack(own), codes[order][:, persons])

    def suppressed(
        self, hidden: Bool, recoding: Recoding, codes: Int32, keep: Sequence[str]
    ) -> Bool:
        """Values of the persons of the file that are set missing, as `codes`.

        They are the values of all members in the keys that are `hidden`, (n_households,
        n_kept_keys); of persons whose household was not assessed all values.
        """
        names = [recoding.keys[j].name for j in recoding.kept]
        of_persons = self.of_persons(recoding)
        gone = np.zeros(codes.shape, np.bool_)
        for column, j in enumerate(of_persons.kept):
            if (name := of_persons.keys[j].name) in names:
                of_household = np.append(hidden[:, names.index(name)], name not in keep)
                gone[:, column] = of_household[self.household]
        gone &= codes != MISSING
        return gone


@dataclass(frozen=True, kw_only=True, eq=False)
class Release:
    """A plan with what is perturbed and suppressed besides, and what the released records show."""

    plan: Plan
    pram: Pram
    """As `--pram` takes it: keys and the probability of keeping a value, or a matrix."""
    rule: str | None
    """By which values are suppressed, as `--suppress` takes it; None if none are."""
    share: float
    """Of the records, that is released."""
    records: Int64 = field(repr=False)
    """(n_released,): numbers of the released records in the file."""
    rows: Int64 = field(repr=False)
    """(n_assessed,): those of them that are records of the table."""
    of_table: Int64 = field(repr=False)
    """(n_assessed,): their numbers in the table."""
    recoded: Int32 = field(repr=False)
    """(n_released, n_kept_keys): the true values, recoded."""
    perturbed: Perturbed | None = field(repr=False)
    suppressed: Bool | None = field(repr=False)
    """(n_released, n_kept_keys): values that are set missing; None: no rule asks for it."""
    lost: float
    """Share of the information of the keys that the file has lost by all of it, 0 to 1."""

    @property
    def published(self) -> Int32:
        """(n_released, n_kept_keys): what would be shown if no value were suppressed."""
        return self.recoded if self.perturbed is None else self.perturbed.codes

    @property
    def visible(self) -> Int32:
        """(n_released, n_kept_keys): what is shown, -1 where a value is missing."""
        if self.suppressed is None:
            return self.published
        return np.where(self.suppressed, -1, self.published).astype(np.int32)

    @property
    def is_changed(self) -> bool:
        """Whether values were perturbed or suppressed."""
        return self.perturbed is not None or self.suppressed is not None


@dataclass(frozen=True, kw_only=True, eq=False)
class Releases:
    """How the records of a file are released under any plan."""

    posterior: Posterior
    """Of the file as it was."""
    codes: Int32 = field(repr=False)
    """(n_records, n_keys): all records of the file, -1 where missing."""
    assessed: Int64 = field(repr=False)
    """(n_assessed,): which of them are the records of the table, in its order."""
    weights: Sequence[float]
    """How much the information of each key counts."""
    level: float
    """Probability of the intervals."""
    keep: Sequence[str] = ()
    """Keys that lose no value."""
    weight_of_suppressed: float = 1.0
    """How much the information of a suppressed value counts, as a multiple."""
    shares: Shares | None = None
    """Of all records of the file."""
    household: Int32 | None = field(default=None, repr=False)
    """(n_records,): household of each record, if they are perturbed together."""
    swap: SwapRule | None = None
    """None: no keys are exchanged."""
    swap_match: Sequence[str] = ()
    seed: int | None = None
    """Of all that is drawn."""
    homes: Homes | None = None
    """None where records are the units."""
    _risks: dict[int, tuple[Recoding, Float64]] = field(default_factory=dict, repr=False)

    def of_persons(self, recoding: Recoding) -> Recoding:
        """The recoding of the columns of the file: a household's is that of its members."""
        return recoding if self.homes is None else self.homes.of_persons(recoding)

    def n_units_of(self, values: Bool) -> int:
        """Records, or households where these are the units, that have any of some values.

        values: (n_released, n_columns). Each row of a household that was not assessed counts.
        """
        rows = values.any(axis=1)
        if self.homes is None:
            return int(rows.sum())
        whole = self.homes.household[rows]
        return len(np.unique(whole[whole >= 0])) + int((whole < 0).sum())

    def released(self, recoding: Recoding) -> tuple[float, Int64]:
        """The share of the records that a plan releases, and their numbers in the file."""
        if self.shares is None or recoding.held is None:
            return 1.0, np.arange(len(self.codes))
        parts = zip(self.shares.shares, self.shares.held, strict=True)
        share, held = next(
            (share, held)
            for share, held in parts
            if held is not None and np.array_equal(held[self.assessed], recoding.held)
        )
        return share, np.flatnonzero(~held)

    def of(self, plan: Plan, pram: Pram, rule: str | None, *, n_states: int = N_STATES) -> Release:
        """Sample, recode, perturb and suppress the records.

        Parameters
        ----------
        plan
            The recoding, and the records that are held back.
        pram, rule
            What is perturbed and suppressed besides. A limit of `k` counts the perturbed values;
            `r1` is that of the true ones.
        n_states
            By which r1 is asked for.
        """
        recoding = plan.recoding
        share, records = self.released(recoding)
        rows = np.flatnonzero(np.isin(records, self.assessed))
        of_table = np.searchsorted(self.assessed, records[rows])
        of_columns = self.of_persons(recoding)
        recoded = of_columns.codes(self.codes[records])
        perturbed = gone = None
        if pram or self.swap is not None:
            perturbed = self._perturbed(recoding, pram, records, recoded, rows, of_table)
        published = recoded if perturbed is None else perturbed.codes
        if rule is not None:
            limit = Limit.of(rule)
            shown = published if limit.plain == "k" else recoded
            units = shown if self.homes is None else self.homes.units(recoding, shown)
            how = limit, self.posterior, recoding, units, self.weights
            gone = suppressed_values(*how, self.keep, n_states)
            if self.homes is not None:
                gone = self.homes.suppressed(gone, recoding, shown, self.keep)
        weights = self.weights if self.homes is None else self.homes.weights_of(of_columns)
        of_keys = partial(information_lost, self.codes[records[rows]], of_columns, weights)
        lost = of_keys(
            suppressed=None if gone is None else gone[rows],
            perturbed=published[rows],
            weight_of_suppressed=self.weight_of_suppressed,
        )
        if self.homes is not None:
            # Of households the plan counts those, and all that was done besides is of persons.
            lost = min(plan.lost + lost - of_keys(), 1.0)
        if self.shares is not None:
            lost = self.shares.lost(lost, share)
        return Release(
            plan=plan,
            pram=pram,
            rule=rule,
            share=share,
            records=records,
            rows=rows,
            of_table=of_table,
            recoded=recoded,
            perturbed=perturbed,
            suppressed=gone,
            lost=lost,
        )

    def matches(
        self,
        release: Release,
        known: Recoding | None = None,
        n_states: int = N_STATES,
    ) -> CorrectMatches:
        """Tell the risk of matches with the released records, of the intruder who has most.

        Parameters
        ----------
        release
            Of :meth:`of`.
        known
            The recoding with the keys left out that the intruder does not know; None: he knows all.
        n_states
            By which the risk is computed.
        """
        recoding = release.plan.recoding
        known = recoding if known is None else known
        some = [recoding.kept.index(j) for j in known.kept]
        swapped = () if self.swap is None else self.swap.keys
        visible, published = (
            shown if self.homes is not None else np.ascontiguousarray(shown[:, some])
            for shown in (
                self.shown(release, release.visible),
                self.shown(release, release.published),
            )
        )
        return most_matches(
            self.posterior,
            known,
            visible,
            self.level,
            (*release.pram, *swapped),
            self._of_units(release),
            published,
            n_states=n_states,
        )

    def shown(self, release: Release, codes: Int32) -> Int32:
        """What `codes` of the released records show of the units that were assessed."""
        if self.homes is None:
            return codes[release.rows]
        return self.homes.units(release.plan.recoding, codes)

    def table(self, release: Release, codes: Int32) -> CellTable:
        """The table of the units that were assessed, with `codes` of the released records."""
        whole = release.plan.recoding.table(self.posterior.table)
        return table_of(whole, self.shown(release, codes), self._of_units(release))

    def _of_units(self, release: Release) -> Int64:
        """Numbers of the units in the table."""
        if self.homes is None:
            return release.of_table
        return np.arange(self.posterior.table.n_records)

    def _perturbed(
        self,
        recoding: Recoding,
        pram: Pram,
        records: Int64,
        recoded: Int32,
        rows: Int64,
        of_table: Int64,
    ) -> Perturbed:
        assert self.seed is not None
        keys = [one.key for one in recoding.keys if one.key is not None]
        names = {key.name for key in keys}
        targets = np.zeros(len(records))
        if self.swap is not None:
            r1 = self._r1(recoding)[of_table]
            targets[rows] = np.where(r1 > self.swap.above, r1, 0.0)
        return perturb(
            recoded,
            keys,
            pram=pram,
            swap=() if self.swap is None else self.swap.keys,
            match=[name for name in self.swap_match if name in names],
            targets=targets,
            household=None if self.household is None else self.household[records],
            seed=self.seed,
        )

    def _r1(self, recoding: Recoding) -> Float64:
        """r1 of the recoded records of the table, by which records are swapped; looked at once."""
        if id(recoding) not in self._risks:
            risk = self.posterior.what_if(recoding, self.level)
            r1 = np.nan_to_num(risk.records.r1_published)[risk.table.record_cell]
            # With its recoding, so that the number of the object stays its own.
            self._risks[id(recoding)] = recoding, r1
        return self._risks[id(recoding)][1]
