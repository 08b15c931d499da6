"""Nested latent classes of households and of the persons in them (Hu, Reiter & Wang 2018, NDPMPM).

    G_i ~ pi                              class of household i
    X_ik | G_i = g ~ lambda_g^(k)         composition and household keys
    M_ij | G_i = g ~ omega_g              class of member j
    X_ijk | G_i = g, M_ij = m, r_ij = r ~ phi_gmr^(k)      keys of member j in role r
    pi ~ GEM(alpha),  omega_g ~ GEM(beta)
    lambda_g^(k), phi_gmr^(k) ~ Dirichlet(c_k b_k)     see `models.mixtures.profiles`

A record is a household. Its cell is its size, its household keys and the multiset of its members'
keys: members have no order. A household of s_r members of each role, of which a_t are alike, is in
its cell with probability

    p(c) = sum_g pi_g lambda_g(composition) prod_k lambda_gk(x_k)
           prod_r s_r! / prod_t a_t!  prod_j sum_m omega_gm prod_k phi_gmrk(x_jk).

The composition is how many members have each role (`composition.py`). Without roles, as in the
paper, it is the size, and all members have one role.

The full conditionals are those of the paper (supplement, section 7), but for the weights: given
the classes those of the occupied ones are Dirichlet distributed and the rest is broken into sticks,
so that the numbers of classes have no limit and the order of the sticks none to get stuck in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from unikat._typing import Float64, Int32
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.kernels import nested as kernels
from unikat.kernels import nested_completion
from unikat.kernels.nested import Drawn, Tally, Weights
from unikat.kernels.nested_split import NestedPrior
from unikat.kernels.random import (
    PURPOSE_COMPLETE,
    PURPOSE_HOUSEHOLD_MASS,
    PURPOSE_HOUSEHOLDS,
    PURPOSE_IMPUTE,
    PURPOSE_SIMULATE,
    PURPOSE_TIES,
)
from unikat.models.base import Info, Model, PopulationLaw, Stream, Uncertainty
from unikat.models.groups import Groups
from unikat.models.households.cells import (
    completed,
    independent,
    mean_profiles,
    over_sizes,
    person_table,
    probabilities,
)
from unikat.models.households.classes import (
    MOST_KINDS,
    Classes,
    compacted,
    empty_tally,
    more_classes,
    more_kinds,
    summed,
)
from unikat.models.households.composition import head_role, role_of, roles_of
from unikat.models.households.exact import chance_by_class
from unikat.models.households.grouped import grouped
from unikat.models.households.records import (
    HouseholdFacts,
    NestedData,
    possible,
    prepare,
    toy_table,
)
from unikat.models.households.splits import Records, all_records, split_and_merge
from unikat.models.households.state import (
    NestedState,
    counted,
    rows_of,
    state_fits,
    weights_of,
)
from unikat.models.households.ties import draw_laws, draw_origins, extended, first_laws, lost_draws
from unikat.models.households.truncation import (
    Simulated,
    chance_of_possible,
    refuse,
    simulate_impossible,
)
from unikat.models.mixtures.components import draw_sticks, stick_tolerance
from unikat.models.mixtures.profiles import ProfilePrior
from unikat.models.mixtures.truncation import TruncationPrior
from unikat.models.options import PRIOR, check_bool, check_choice, check_numbers
from unikat.models.records import START_CLASSES, generator_of, in_parts, start_classes
from unikat.rng import chain_key

_FIRST_KINDS = 4
"""Person classes of each household class at the start. They split with ease; many of them at the
start are alike in all household classes, which then merge with each other."""
_MOST_HELD = 64
"""Household classes at the start under rules where members draw their roles. Nearly all simulated
households are impossible then, and they hold the classes that they were drawn from in place."""
_USUAL = 300
"""Components of a chain that has settled, roughly."""
_PERSONS = 1
"""Part of the model whose random numbers have a key of their own: the persons' profiles."""
_LEAST_SIMULATED = 1000
"""Possible households by which the probability of being possible is estimated, at least."""
_COMPLETIONS = 64
"""Completions of a cell with keys left out, under rules."""
_BEYOND = 1 << 15
"""Attempt whose random numbers the simulation of households does not reach."""
_BATCH = 4096
"""Households that are drawn at a time, however many are wanted, so that the first are the same."""
_ATTEMPTS = 10_000
"""Draws of the missing keys of a household until it is possible."""
_MOST_LISTED = 40
"""Impossible households per household of the sample that split-merge moves take along, at most."""
_MOST = 100_000
"""Households simulated per possible one, and then some."""


@dataclass(frozen=True, kw_only=True)
class NestedHouseholds(ProfilePrior, TruncationPrior, Model[NestedState, NestedData]):
    """Nested latent classes of households and persons, any number of them.

    Parameters
    ----------
    alpha_shape, alpha_rate
        Gamma prior of alpha, each from 1e-6 to 1e6; the paper has 1/4 for both.
    beta
        Concentration of the person classes: `"common"`, or `"by-class"`, one for each household
        class.
    beta_shape, beta_rate
        Its gamma prior, as that of alpha.
    split_merge
        Propose to split or merge household classes in every sweep; only with a common beta.
    composition
        Key of persons whose levels are the members' roles: how many members a household has of each
        takes the place of its size. `"auto"`: that which tells the head, if known; `"none"`: size.
    ties
        `"head"`: the values of a member depend on those of the head, key by key and by role, where
        the composition is by role and one of its levels is that of the head. `"none"`: members of a
        class are independent.
    calibrate
        Include the model's error (`studies.auto.decided`).

    See Also
    --------
    ProfilePrior : the profiles' prior. The supplement's is `profile_concentration=1` and
        `profile_base="uniform"`.

    Examples
    --------
    >>> NestedHouseholds(beta="by-class", split_merge=False).composition
    'auto'
    """

    name: ClassVar[str] = "households"
    population: ClassVar[PopulationLaw] = "multinomial"
    uncertainty: ClassVar[Uncertainty] = "posterior"
    alpha_shape: float = 0.25
    alpha_rate: float = 0.25
    beta: Literal["common", "by-class"] = "common"
    beta_shape: float = 0.25
    beta_rate: float = 0.25
    split_merge: bool = True
    composition: str = "auto"
    ties: Literal["none", "head"] = "none"
    calibrate: bool = True

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        names = ("alpha_shape", "alpha_rate", "beta_shape", "beta_rate")
        check_numbers(self, dict.fromkeys(names, PRIOR))
        check_choice("beta", self.beta, ("common", "by-class"))
        check_bool(self, "split_merge")
        if not isinstance(self.composition, str) or not self.composition:
            raise SpecError("The option composition must be 'auto', 'none' or the name of a key.")
        check_choice("ties", self.ties, ("none", "head"))
        check_bool(self, "calibrate")
        self.check_tempering()

    def prepare(self, table: CellTable) -> NestedData:
        """Lay the households out, and their distinct members."""
        role = role_of(table, self.composition)
        if role < 0:
            return prepare(table)
        head = head_role(table, role) if self.ties == "head" else -1
        return prepare(table, roles_of(table, role, head), head)

    def compile(self, zeros: bool = False) -> None:
        """Compile the kernels (or load them from the cache) on a toy table."""
        table = toy_table(zeros)
        layout = table.layout
        assert layout is not None
        asked = "none" if self.composition == "none" else "auto"
        data = replace(self, composition=asked).prepare(table)
        stream = Stream(0, 0, 0)
        state, _ = self.step(stream, self.init(stream, data), data, 1)
        self.cell_probabilities(stream, state, data, table.cells)
        self.cell_probabilities(stream, state, data, layout.without(table.cells, 1))
        self.simulate(stream, state, data, 1)

    def init(self, stream: Stream, data: NestedData) -> NestedState:
        """Start from clusters of households and persons; they differ from chain to chain."""
        n_classes = START_CLASSES[stream.chain % len(START_CLASSES)]
        if data.rules is not None and data.columns.roles.key < 0:
            n_classes = min(n_classes, _MOST_HELD)
        g = start_classes(data.cells, stream, n_classes)[data.cells.record_cell].astype(np.int16)
        distinct = data.columns.base_rows(data.households.persons, data.entries)
        persons = data.person_levels._replace(rows=distinct)
        kind = start_classes(persons, stream, _FIRST_KINDS)
        m = kind[data.tokens.person].astype(np.int16)
        drawn = Drawn(g, m, data.member_rows)
        tally = counted(data, drawn, n_classes, _FIRST_KINDS)
        pi = np.full(n_classes, 1.0 / n_classes)
        common = self.beta == "common"
        mean = self.beta_shape / self.beta_rate
        start = NestedState(
            pi=pi,
            omega=np.full((n_classes, _FIRST_KINDS), 1.0 / _FIRST_KINDS),
            lam=np.ones((len(tally.counts), n_classes), np.float32),
            phi=np.ones((len(tally.member_counts), n_classes * _FIRST_KINDS), np.float32),
            alpha=np.array([self.alpha_shape / self.alpha_rate]),
            beta=np.full(1 if common else n_classes, mean),
            profile=self.first_profile(data.household_levels),
            member_profile=self.first_profile(data.person_levels),
            counts=np.empty((0, 0), np.int32),
            member_counts=np.empty((0, 0), np.int32),
        )
        state = self._refresh(stream, start, data, all_records(data, drawn, None), tally)[0]
        table, laws = first_laws(data.columns.ties, data.places)
        return state._replace(ties=table, tie_laws=laws)

    def state_fits(self, state: NestedState, data: NestedData, start: NestedState) -> bool:
        """Whether a state of a file has shapes that the kernels can read."""
        same_laws = state.tie_laws.shape == start.tie_laws.shape
        return same_laws and state_fits(state, data, self.beta == "common")

    def step(
        self, stream: Stream, state: NestedState, data: NestedData, n_threads: int
    ) -> tuple[NestedState, Info]:
        """One sweep: all classes given the parameters, then the parameters given them."""
        most_listed = _MOST_LISTED * data.n_records if self._moves_classes else 0
        drawn, tally, more = self.allocated(stream, state, data, n_threads, most_listed)
        records = all_records(data, drawn, more.records)
        before = weights_of(state)
        state, info = self._refresh(stream, state, data, records, tally)
        if data.rules is not None:
            info.values["impossible_mass"] = self._impossible_mass(data, before, more)
        return state, info

    def allocated(
        self,
        stream: Stream,
        state: NestedState,
        data: NestedData,
        n_threads: int,
        most_listed: int = 0,
    ) -> tuple[Drawn, Tally, Simulated]:
        """Draw all classes given the parameters; with what is imputed and impossible in the tally.

        The impossible households come last, see `simulate_impossible`.
        """
        key, weights = chain_key(stream.seed, stream.chain), weights_of(state)
        households, ties = data.households, data.columns.ties
        lost = lost_draws(ties, weights)
        wider = extended(ties, weights, data.entries, lost)
        table = person_table(households, wider, n_threads)
        n_records, n_members = len(data.cells.record_cell), len(data.token_record)
        drawn = Drawn(np.empty(n_records, np.int16), np.empty(n_members, np.int16))
        n_rows = len(weights.lam), len(wider.phi)
        tallies = [empty_tally(*n_rows, *state.omega.shape) for _ in range(n_threads)]

        def allocate(part: int, first: int, last: int) -> None:
            kernels.allocate(
                key, stream.sweep, first, last, households, wider, table, drawn, tallies[part]
            )

        in_parts(allocate, len(households.rows), n_threads)
        if ties.head >= 0:
            component = drawn.g[data.token_record].astype(np.int64) * state.omega.shape[1] + drawn.m
            members = (data.member_rows, data.places, data.columns.absent[data.columns.walk])
            origins = draw_origins(key, stream.sweep, ties, weights, lost, component, *members)
            drawn = drawn._replace(own_rows=origins.own_rows)
            tallies = [counted(data, drawn, *state.omega.shape)._replace(ties=origins.counts)]
        if data.rules is None:
            tally = summed(tallies)
            return drawn, tally, Simulated(tally, 0)
        if len(data.gaps):
            tallies.append(self._imputed(stream, state, data, PURPOSE_COMPLETE)[1])
        more = simulate_impossible(
            key,
            stream.sweep,
            PURPOSE_HOUSEHOLDS,
            self.n_possible(data.n_records),
            data.columns,
            data.rules,
            weights,
            n_threads,
            most_listed,
        )
        return drawn, summed([*tallies, more.tally]), more

    def _impossible_mass(self, data: NestedData, weights: Weights, more: Simulated) -> float:
        """Probability of an impossible household, or its unbiased estimate by a simulation."""
        if data.exact is not None:
            return 1.0 - float(weights.pi @ chance_by_class(data.exact, weights))
        n = self.n_possible(data.n_records)
        return 1.0 - max(n - 1, 0) / max(n + more.n_impossible - 1, 1)

    @property
    def _moves_classes(self) -> bool:
        """Whether classes are split and merged."""
        return self.split_merge and self.beta == "common"

    def _refresh(
        self, stream: Stream, state: NestedState, data: NestedData, records: Records, tally: Tally
    ) -> tuple[NestedState, Info]:
        """Weights, concentrations and profiles given the classes."""
        key, sweep = chain_key(stream.seed, stream.chain), stream.sweep
        person_key = chain_key(stream.seed, stream.chain, _PERSONS)
        before = weights_of(state)
        classes = compacted(
            Classes(records.drawn, tally, before, state.beta),
            float(state.alpha[0]),
            records.token_record,
        )
        tally, kept, moved = classes.tally, classes.weights, 0
        if self._moves_classes:
            prior = NestedPrior(
                float(state.alpha[0]),
                float(state.beta[0]),
                state.profile,
                state.member_profile,
                data.columns.offsets,
                data.columns.member_offsets,
            )
            n = data.n_records
            tally, moved = split_and_merge(key, sweep, prior, classes, records.tokens, n)
        pi, alpha, n_occupied = draw_sticks(
            key, sweep, float(state.alpha[0]), self.alpha_shape, self.alpha_rate, tally.sizes
        )
        if len(pi) > len(tally.sizes):
            tally = more_classes(tally, len(pi))
        tally, omega, beta = self._draw_member_weights(key, sweep, tally, pi, classes.beta)
        same = kept.phi.shape == tally.member_counts.shape
        profile, lam = self.draw_profiles(
            key,
            sweep,
            data.household_levels,
            tally.counts,
            tally.sizes > 0,
            state.profile,
            None if moved else kept.lam,
        )
        member_profile, phi = self.draw_profiles(
            person_key,
            sweep,
            data.person_levels,
            tally.member_counts,
            tally.member_sizes.ravel() > 0,
            state.member_profile,
            kept.phi if same and not moved else None,
        )
        info = Info(
            {
                "alpha": alpha,
                "beta": float(beta.mean()),
                "n_household_classes": float(n_occupied),
                "n_person_classes": float(np.count_nonzero(tally.member_sizes)),
                "split_merge": float(moved),
            }
        )
        ties, laws = state.ties, state.tie_laws
        if len(laws):
            rng = generator_of(stream, PURPOSE_TIES)
            ties, laws = draw_laws(rng, data.columns.ties, laws, tally.ties)
        return NestedState(
            pi,
            omega,
            lam,
            phi,
            np.array([alpha]),
            beta,
            profile,
            member_profile,
            tally.counts.astype(np.int32),
            tally.member_counts.astype(np.int32),
            ties,
            laws,
        ), info

    def _draw_member_weights(
        self, key: Any, sweep: int, tally: Tally, pi: Float64, beta: Float64
    ) -> tuple[Tally, Float64, Float64]:
        """Weights of the person classes and beta; more of them if the rest needs more sticks."""
        common = self.beta == "common"
        if not common and len(beta) < len(pi):
            beta = np.concatenate((beta, np.ones(len(pi) - len(beta))))
        tolerance = stick_tolerance(int(tally.member_sizes.sum()))
        while True:
            omega, remainder = np.empty(tally.member_sizes.shape), np.empty(len(pi))
            after = beta.copy()
            kernels.draw_member_weights(
                key,
                sweep,
                after,
                self.beta_shape,
                self.beta_rate,
                common,
                tally.member_sizes,
                omega,
                remainder,
            )
            n_kinds = len(omega.T)
            if float(pi @ remainder) < tolerance or n_kinds >= MOST_KINDS:
                return tally, omega, after
            # The same draw again, with more empty person classes.
            tally = more_kinds(tally, math.ceil(1.25 * n_kinds))

    def cell_probabilities(
        self, stream: Stream, state: NestedState, data: NestedData, cells: Int32
    ) -> Float64:
        """Probability of each cell for a new household, (n,), exactly; -1 leaves a key out.

        Under rules that of a possible household, without bias: the probability of being possible
        is estimated by simulation, and so is its part in a cell of which a key is left out.
        """
        return over_sizes(
            data.columns, cells, lambda part: self._of_sizes(stream, state, data, part)
        )

    def _of_sizes(
        self, stream: Stream, state: NestedState, data: NestedData, cells: Int32
    ) -> Float64:
        """Probabilities of cells with known sizes."""
        p = probabilities(data.columns, weights_of(state), cells)
        if data.rules is None:
            return p
        open_cells = np.flatnonzero((cells < 0).any(axis=1) & (p > 0.0))
        good = np.ones(len(cells))
        whole = np.flatnonzero((cells >= 0).all(axis=1))
        good[whole] = possible(data.columns, data.rules, np.ascontiguousarray(cells[whole]))
        for first in range(0, len(open_cells), _BATCH):
            which = open_cells[first : first + _BATCH]
            tries = np.repeat(cells[which], _COMPLETIONS, axis=0)
            drawn = self._complete(
                stream, PURPOSE_HOUSEHOLD_MASS, state, data, tries, first * _COMPLETIONS, _BEYOND
            )
            good[which] = (
                possible(data.columns, data.rules, drawn).reshape(len(which), -1).mean(axis=1)
            )
        return p * good / self._chance(stream, state, data)

    def _chance(self, stream: Stream, state: NestedState, data: NestedData) -> float:
        """Probability of being possible, by which others are divided (`chance_of_possible`)."""
        assert data.rules is not None
        if data.exact is not None:
            weights = weights_of(state)
            return float(weights.pi @ chance_by_class(data.exact, weights))
        return chance_of_possible(
            chain_key(stream.seed, stream.chain),
            stream.sweep,
            PURPOSE_HOUSEHOLD_MASS,
            max(data.n_records, _LEAST_SIMULATED),
            data.columns,
            data.rules,
            weights_of(state),
        )

    def grouped_probabilities(
        self, stream: Stream, state: NestedState, data: NestedData, groups: Groups, cells: Int32
    ) -> Float64:
        """Probability of each cell of groups, (n,); see `grouped`."""
        p = grouped(stream, data, weights_of(state), groups, cells)
        if data.rules is None:
            return p
        # Suppression asks for many margins of the same groups, state by state.
        chances = groups.found.setdefault(b"chances", {})
        if stream not in chances:
            chances[stream] = self._chance(stream, state, data)
        return p / float(chances[stream])

    def independent_probabilities(
        self, state: NestedState, data: NestedData, cells: Int32
    ) -> Float64:
        """Probabilities of households if their members were independent, (n,); sizes are known."""
        return independent(data.columns, weights_of(state), cells)

    def predictive_probabilities(
        self, stream: Stream, state: NestedState, data: NestedData, cells: Int32
    ) -> Float64:
        """`cell_probabilities` at the means of the profiles given the classes.

        It is the mean but for members of one household that share a person class: the probability
        is not linear in the profile that they share.
        """
        lam = mean_profiles(state.counts, state.profile, data.columns.offsets)
        phi = mean_profiles(state.member_counts, state.member_profile, data.columns.member_offsets)
        return self.cell_probabilities(stream, state._replace(lam=lam, phi=phi), data, cells)

    def impute(self, stream: Stream, state: NestedState, data: NestedData) -> Int32:
        """Draw the missing keys of the incomplete households, in the order of the records."""
        if data.rules is None:
            return self._complete(stream, PURPOSE_IMPUTE, state, data, data.gaps)
        return self._imputed(stream, state, data, PURPOSE_IMPUTE)[0]

    def _imputed(
        self, stream: Stream, state: NestedState, data: NestedData, purpose: int
    ) -> tuple[Int32, Tally]:
        """Draw what is missing, with the classes, until all are possible; count them."""
        assert data.rules is not None
        ties = data.columns.ties
        n_classes, n_kinds = state.omega.shape
        tally = empty_tally(*rows_of(data), n_classes, n_kinds, len(ties.own))
        found = data.gaps.copy()
        left = np.arange(len(found))
        for attempt in range(_ATTEMPTS):
            drawn = completed(
                stream, purpose, data.columns, weights_of(state), data.gaps[left], left, attempt
            )
            good = possible(data.columns, data.rules, drawn.cells)
            found[left[good]] = data.columns.canonical(drawn.cells[good])
            nested_completion.count_completed(
                drawn.rows, drawn.members, drawn.g, drawn.m, drawn.origins, ties, good, tally
            )
            left = left[~good]
            if not len(left):
                return found, tally
        raise SpecError(
            f"The missing keys of {len(left):,} households could not be completed in "
            f"{_ATTEMPTS:,} attempts such that the household rules hold. Check their known keys."
        )

    def simulate(
        self, stream: Stream, state: NestedState, data: NestedData, n_records: int
    ) -> Int32:
        """Draw new households: records of which every key is missing."""
        n_columns = len(data.cells.offsets) - 1

        def draw(start: int, n: int) -> Int32:
            empty = np.full((n, n_columns), -1, np.int32)
            return self._complete(stream, PURPOSE_SIMULATE, state, data, empty, start)

        if data.rules is None:
            return draw(0, n_records)
        found: list[Int32] = []
        left, start = n_records, 0
        while left > 0:
            cells = draw(start, _BATCH)
            start += _BATCH
            found.append(cells[possible(data.columns, data.rules, cells)][:left])
            left -= len(found[-1])
            if start > _MOST * (n_records - left + 1):
                refuse()
        return np.concatenate(found) if found else draw(0, 0)

    def _complete(
        self,
        stream: Stream,
        purpose: int,
        state: NestedState,
        data: NestedData,
        cells: Int32,
        start: int = 0,
        attempt: int = 0,
    ) -> Int32:
        """Cells in canonical form, with what was missing drawn."""
        which = start + np.arange(len(cells))
        weights = weights_of(state)
        drawn = completed(stream, purpose, data.columns, weights, cells, which, attempt)
        return data.columns.canonical(drawn.cells)

    def facts(self, data: NestedData) -> HouseholdFacts:
        """Members of the households, and how many of them differ."""
        return HouseholdFacts(
            members=int(data.households.token_starts[-1]),
            distinct_members=len(data.households.persons),
            incomplete_households=len(data.gaps),
        )

    def cost(self, data: NestedData) -> tuple[float, float]:
        """Nanoseconds, roughly, of a sweep and of one cell probability."""
        n_components = _USUAL
        levels = float(data.columns.offsets[-1] + data.columns.member_offsets[-1])
        persons = len(data.households.persons) * n_components
        members = len(data.token_record)
        sweep = 20.0 * levels * n_components + 1.0 * persons + 200.0 * members
        if data.rules is not None:
            sweep += 2000.0 * data.n_records
        return sweep, 100.0 * data.columns.n_slots + n_components
