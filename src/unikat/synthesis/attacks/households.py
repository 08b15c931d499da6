"""An intruder who knows the generator and all households but one, or all persons but one.

As in `posterior`, a record being a household: the candidates differ from it in one value, of the
household or of a member, and are possible under the rules. A person's candidates are those that
differ in his values alone, the rest of his household being known. The generator is the nested
mixture, truncated to the possible households. Given its parameters the probability of being
possible cancels between households that are, so that g_t is p(t | z) / p(x | z) without truncation,
where z has the classes of the impossible households that the sampler adds, and their counts.

The levels of the composition are made from the original. Candidates keep the members' roles, so
that these levels are the same with any of them in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.table import CellTable
from unikat.errors import DataError, SpecError
from unikat.kernels import household_neighbours as kernels
from unikat.kernels.household_neighbours import Known, Targets
from unikat.kernels.nested_roles import Roles
from unikat.models.base import AnyModel, Stream
from unikat.models.households.composition import role_of, roles_of
from unikat.models.households.nested import NestedHouseholds
from unikat.models.households.records import (
    Columns,
    NestedData,
    lay_out_households,
    possible,
    prepare,
)
from unikat.models.households.state import NestedState
from unikat.rng import chain_key
from unikat.synthesis.attacks.fits import fitted_means
from unikat.synthesis.attacks.posterior import (
    Fitting,
    Mean,
    Prior,
    Question,
    RatioObserver,
    Told,
    Unit,
    errors_by_fit,
    joined_table,
    told,
)

MOST_HOUSEHOLDS = 1_000
"""Distinct households of the original that are attacked; of more, so many are drawn."""
HOUSEHOLD, PERSON = "one unknown household", "one unknown person"
HOUSEHOLDS: Unit = "household"
PERSONS: Unit = "person"


@dataclass(frozen=True, kw_only=True)
class Generator(NestedHouseholds):
    """The generator's model as it was fitted to the original, whatever the table."""

    roles: Roles | None = field(default=None, repr=False)
    """Levels of the composition; None: the sizes."""
    n_original: int = 0
    """Households of the original, by which the prior of the truncation goes."""

    @classmethod
    def of(cls, model: NestedHouseholds, original: CellTable) -> Generator:
        """Of a model and its original."""
        if model.ties != "none":
            raise SpecError(
                "An intruder's probabilities are not known for households with ties to the head. "
                "Attack files that were synthesised with ties=none, and leave the option out."
            )
        role = role_of(original, model.composition)
        return cls(
            **{one.name: getattr(model, one.name) for one in fields(model)},
            roles=None if role < 0 else roles_of(original, role),
            n_original=original.n_records,
        )

    def prepare(self, table: CellTable) -> NestedData:
        """Lay the households out."""
        return prepare(table, self.roles)

    def compile(self, zeros: bool = False) -> None:
        """Compile the kernels on a toy table, which has roles of its own."""
        composition = "none" if self.roles is None else NestedHouseholds.composition
        NestedHouseholds(composition=composition).compile(zeros)

    def n_possible(self, n: int) -> int:
        """Possible households after which the simulation stops."""
        return max(1, n - round(self.zeros_tempering * self.n_original))


class Candidates(NamedTuple):
    """What the intruder takes each household for, in the columns of `household_ratios`."""

    cells: Int32
    """(n, n_columns): the households."""
    targets: Targets
    possible: Bool
    """(n, n_each): the household itself first. Of members that are alike the first alone differs,
    since households have no order."""
    log_frequency: Float64
    """(n, n_each): log frequency of the value that differs, over that of the household's own."""
    log_orders: Float64
    """(n, n_each): log number of orders of the members, less the household's own."""


def candidates_of(data: NestedData, cells: Int32) -> Candidates:
    """List what complete households, (n, n_columns), are taken for."""
    columns = data.columns
    targets = targets_of(columns, cells)
    walk = columns.walk
    of_members = [
        data.person_levels.frequencies[columns.first_rows[key][:, None] + np.arange(n)].sum(axis=0)
        for key, n in zip(walk, columns.absent[walk], strict=True)
    ]
    of_slots = np.tile(np.concatenate(of_members), columns.n_slots)
    with np.errstate(divide="ignore"):
        frequency = np.log(np.concatenate(([1.0], data.household_levels.frequencies, of_slots)))
    shape = len(cells), len(frequency)
    allowed = np.zeros(shape, np.bool_)
    log_frequency, log_orders = np.zeros(shape), np.zeros(shape)
    for i in range(len(cells)):
        found = neighbours(columns, cells, targets, i)
        laid = lay_out_households(columns, found.cells, np.ones(len(found.cells), np.int64))
        at = i, found.places
        allowed[at] = data.rules is None or possible(columns, data.rules, found.cells)
        log_frequency[at] = frequency[found.places] - frequency[found.own]
        log_orders[at] = laid.log_orders - laid.log_orders[0]
    return Candidates(cells, targets, allowed, log_frequency, log_orders)


class Neighbours(NamedTuple):
    """A household, and those that differ from it in one value; roles are kept."""

    cells: Int32
    """(n, n_columns): itself first."""
    places: Int64
    """(n,): their columns of `household_ratios`."""
    own: Int64
    """(n,): the columns of its own value of what differs."""


def neighbours(columns: Columns, cells: Int32, targets: Targets, i: int) -> Neighbours:
    """List the neighbours of household i, of members that are alike of the first alone."""
    walk, offsets = columns.walk, columns.offsets
    members = members_of(columns, targets, i)
    house = columns.parts(cells[i : i + 1])[0][0]
    found, places, own = [(house, members)], [0], [0]
    for k in range(1, columns.n_household_keys):
        for level in range(int(offsets[k + 1] - offsets[k])):
            if level != house[k]:
                changed = house.copy()
                changed[k] = level
                found.append((changed, members))
                places.append(1 + int(offsets[k]) + level)
                own.append(1 + int(offsets[k]) + int(house[k]))
    n_own = int(columns.absent[walk].sum())
    for j in _distinct(targets, i):
        first = 1 + int(offsets[-1]) + j * n_own
        for key in walk:
            for level in range(columns.absent[key]):
                if level != members[j, key]:
                    person = members.copy()
                    person[j, key] = level
                    found.append((house, person))
                    places.append(first + level)
                    own.append(first + int(members[j, key]))
            first += int(columns.absent[key])
    houses, slots = (np.stack(part) for part in zip(*found, strict=True))
    every = np.ascontiguousarray(columns.joined(houses, slots))
    return Neighbours(every, np.array(places), np.array(own))


def members_of(columns: Columns, targets: Targets, i: int) -> Int32:
    """Codes of the members of household i, (n_slots, n_person_keys)."""
    walk, n_members = columns.walk, int(targets.n_members[i])
    roles = targets.role[i, :n_members]
    members = np.repeat(columns.absent[None, :], columns.n_slots, axis=0).astype(np.int32)
    rows = targets.members[i, :n_members]
    members[:n_members, walk] = rows - columns.first_rows[walk][:, roles].T
    if columns.roles.key >= 0:
        members[:n_members, columns.roles.key] = roles
    return members


def _distinct(targets: Targets, i: int) -> list[int]:
    """Members of a household, of those that are alike the first."""
    seen = np.column_stack((targets.role[i], targets.members[i]))[: targets.n_members[i]]
    return sorted(np.unique(seen, axis=0, return_index=True)[1].tolist())


def targets_of(columns: Columns, cells: Int32) -> Targets:
    """Lay complete households out for `household_ratios`; members as `nested.Drawn` has them."""
    laid = lay_out_households(columns, cells, np.ones(len(cells), np.int64))
    households = laid.households
    person = np.repeat(households.person, households.times)
    n_members = np.diff(households.token_starts)
    slot = np.arange(len(person)) - np.repeat(households.token_starts[:-1], n_members)
    owner = np.repeat(np.arange(len(cells)), n_members)
    members = np.zeros((len(cells), columns.n_slots, households.persons.shape[1]), np.int64)
    role = np.zeros(members.shape[:2], np.int64)
    members[owner, slot] = households.persons[person]
    role[owner, slot] = laid.role[person]
    return Targets(households.rows.astype(np.int64), members, role, n_members)


@dataclass(frozen=True, kw_only=True, eq=False)
class HouseholdRatios(RatioObserver):
    """Observer of the nested mixture that sums g_t."""

    candidates: Candidates
    chosen: Int64
    """(n,): cells of the original that are attacked."""

    @property
    def possible(self) -> Bool:
        """Which candidates are possible, (n, n_each)."""
        return self.candidates.possible

    def cost(self, model: AnyModel, data: Any) -> float:
        """Counted work of one observation: a sweep of classes, and all candidates."""
        n_members = float(self.candidates.targets.n_members.sum())
        levels = float(data.columns.absent[data.columns.walk].sum())
        return float(model.cost(data)[0] + 500.0 * n_members * (levels + 20.0))

    def ratios(
        self, stream: Stream, model: AnyModel, state: Any, data: Any
    ) -> tuple[Float64, Float64]:
        """Return the ratios under one state, and log p(x | all others).

        A state has no classes. They are those that the next sweep draws from it.
        """
        assert isinstance(model, NestedHouseholds)
        candidates, targets = self.candidates, self.candidates.targets
        after = stream._replace(sweep=stream.sweep + 1)
        drawn, tally, _ = model.allocated(after, state, data, 1)
        # The first record of each household's cell is the one that the intruder does not know.
        place = _places(data, candidates.cells)
        first = data.households.starts[place]
        n_classes = len(state.pi)
        kinds = np.zeros((len(place), n_classes, data.columns.n_slots), np.int64)
        g = drawn.g[first].astype(np.int64)
        there = np.arange(kinds.shape[2]) < targets.n_members[:, None]
        token = data.households.token_starts[place][:, None] + np.arange(kinds.shape[2])
        owner, slot = np.nonzero(there)
        kinds[owner, g[owner], slot] = drawn.m[token[there]]
        known = known_of(state, data.columns, tally.counts, tally.member_counts)
        share = np.empty(known.member_counts.shape)
        kernels.fill_shares(known, share)
        scale = np.empty(there.shape)
        key = chain_key(stream.seed, stream.chain)
        kernels.draw_kinds(key, after.sweep, targets, g, known, share, kinds, scale)
        ratio, log_own = np.empty(candidates.possible.shape), np.empty(len(place))
        kernels.household_ratios(targets, g, kinds, scale, known, share, ratio, log_own)
        return ratio, log_own


def _places(data: NestedData, cells: Int32) -> Int64:
    """Places of households among the cells of a table that has them."""
    offsets = data.cells.offsets[:-1]
    place = {row.tobytes(): i for i, row in enumerate(data.cells.rows)}
    rows = np.ascontiguousarray(cells + offsets, data.cells.rows.dtype)
    return np.array([place[row.tobytes()] for row in rows], np.int64)


def known_of(state: NestedState, columns: Columns, counts: Int64, member_counts: Int64) -> Known:
    """What the kernels need of a state and its counts (n_rows, n_classes)."""
    walk = columns.walk
    return Known(
        state.pi,
        state.omega,
        state.profile,
        state.member_profile,
        np.ascontiguousarray(counts.T, np.int64),
        np.ascontiguousarray(member_counts.T, np.int64),
        columns.offsets,
        np.ascontiguousarray(columns.first_rows[walk]),
        columns.absent[walk],
    )


def one_household_unknown(
    model: NestedHouseholds, table: CellTable, synthetic: Sequence[Int32], how: Fitting
) -> tuple[Told, Told]:
    """Attack each household of the original with all others known, and each person in it.

    Parameters
    ----------
    model
        The generator's model.
    table
        Households of the original, with the rules.
    synthetic
        Households of each synthetic file, (n_households, n_columns) in the levels and slots of the
        original, and possible.
    how
        It is fitted.

    Returns
    -------
    tuple
        What is learned of the households, and of the persons.

    Raises
    ------
    DataError
        If no household of the original is complete.
    KeyboardInterrupt
        On Ctrl-C.
    """
    generator = Generator.of(model, table)
    data = generator.prepare(table)
    observer = attacked_households(table, data, how.seed)
    candidates = observer.candidates
    tables = [table, *(joined_table(table, cells) for cells in synthetic)]
    homes = np.arange(len(candidates.cells))
    every = np.tile(np.arange(candidates.possible.shape[1]), (len(homes), 1))
    asked = (
        (HOUSEHOLD, HOUSEHOLDS, Persons(homes, every, None)),
        (PERSON, PERSONS, persons_of(candidates, table, data.columns)),
    )
    priors = [_priors(candidates, persons) for _, _, persons in asked]

    def of_persons(means: Sequence[Mean], persons: Persons) -> list[Mean]:
        return [mean.of_candidates(persons.at, persons.places >= 0) for mean in means]

    def errors(means: Sequence[Mean]) -> Float64:
        parts = [
            errors_by_fit(of_persons(means, persons), prior["uniform"])
            for (_, _, persons), prior in zip(asked, priors, strict=True)
        ]
        return np.concatenate(parts, axis=1)

    means, converged = fitted_means([(generator, one) for one in tables], observer, how, errors)
    variable, names = variables_of(table, data.columns)
    first, second = (
        told(
            of_persons(means, persons),
            prior,
            Question(
                name=name,
                unit=unit,
                variable=variable[persons.places.max(axis=0)],
                variables=names,
                household=persons.household,
                cell=observer.chosen[persons.household],
                codes=persons.codes,
            ),
            how,
            converged=converged,
        )
        for (name, unit, persons), prior in zip(asked, priors, strict=True)
    )
    return first, second


def _priors(candidates: Candidates, persons: Persons) -> dict[str, Prior]:
    """Give several priors of the intruder, as `persons.log_priors` does."""
    at = persons.at
    uniform = np.where(candidates.possible[at] & (persons.places >= 0), 0.0, -np.inf)
    # Members of a household come in any order; a person asked for is one member.
    orders = candidates.log_orders[at] if persons.codes is None else 0.0
    return {
        "uniform": Prior(uniform),
        "margins": Prior(uniform + candidates.log_frequency[at]),
        "model": Prior(uniform + orders, predicted=True),
    }


def attacked_households(table: CellTable, data: NestedData, seed: int) -> HouseholdRatios:
    """Draw the households that are attacked, and return what is computed of each kept state."""
    complete = np.flatnonzero(~table.incomplete)
    if not len(complete):
        raise DataError("No household of the original is complete, so that none can be attacked.")
    numbers = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(3,)))
    n = min(MOST_HOUSEHOLDS, len(complete))
    chosen = np.sort(numbers.choice(complete, n, replace=False))
    return HouseholdRatios(
        candidates=candidates_of(data, np.ascontiguousarray(table.cells[chosen])), chosen=chosen
    )


class Persons(NamedTuple):
    """The persons of households."""

    household: Int64
    """(n,)"""
    places: Int64
    """(n, n_each): of their candidates in the columns of `household_ratios`, -1 where none is."""
    codes: Int32 | None
    """(n, n_person_keys): their values, -1 where a key is not theirs; None of whole households."""

    @property
    def at(self) -> tuple[Int64, Int64]:
        """Their candidates among those of all households."""
        return self.household[:, None], self.places


def persons_of(candidates: Candidates, table: CellTable, columns: Columns) -> Persons:
    """List the persons; those of a household who are alike count once.

    A head who is apart has keys of the household.
    """
    layout, targets = table.layout, candidates.targets
    assert layout is not None
    n_rows = int(columns.offsets[-1])
    own = np.arange(int(columns.absent[columns.walk].sum()))
    found = [
        (i, np.append(0, 1 + n_rows + j * len(own) + own), members_of(columns, targets, i)[j])
        for i in range(len(candidates.cells))
        for j in _distinct(targets, i)
    ]
    if layout.head_apart:
        names = [key.name for key in layout.household_keys]
        heads = [f"head.{key.name}" for key in layout.person_keys]
        at = [names.index(name) if name in names else -1 for name in heads]
        of_head = [
            1 + np.arange(columns.offsets[at[k]], columns.offsets[at[k] + 1])
            if at[k] >= 0
            else np.full(columns.absent[k], -1)
            for k in columns.walk
        ]
        houses = columns.parts(candidates.cells)[0]
        values = np.where(np.less(at, 0), -1, houses[:, at]).astype(np.int32)
        found += [(i, np.concatenate(([0], *of_head)), one) for i, one in enumerate(values)]
    return Persons(
        np.array([household for household, _, _ in found]),
        np.stack([places for _, places, _ in found]),
        np.stack([codes for _, _, codes in found]),
    )


def variables_of(table: CellTable, columns: Columns) -> tuple[Int64, list[str]]:
    """Variable in which each column of `household_ratios` differs, -1 if in none; their names."""
    layout = table.layout
    assert layout is not None
    members = [layout.person_keys[k].name for k in columns.walk]
    n_levels = np.diff(columns.offsets)
    head = "head."
    names = [key.name.removeprefix(head) for key in layout.household_keys] + members
    sizes = np.concatenate(([1], n_levels, np.tile(columns.absent[columns.walk], columns.n_slots)))
    of_part = [None, *names[: len(n_levels)], *(members * columns.n_slots)]
    listed = list(dict.fromkeys(names[1:]))
    places = [-1 if name not in listed else listed.index(name) for name in of_part]
    return np.repeat(places, sizes), listed
