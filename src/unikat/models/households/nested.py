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
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from unikat._typing import Float32, Float64, Int32
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.kernels import nested as kernels
from unikat.kernels import nested_split
from unikat.kernels.nested import Drawn, Tally, Weights
from unikat.kernels.nested_split import NestedPrior
from unikat.kernels.random import (
    PURPOSE_COMPLETE,
    PURPOSE_HOUSEHOLD_MASS,
    PURPOSE_HOUSEHOLDS,
    PURPOSE_IMPUTE,
    PURPOSE_SIMULATE,
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
from unikat.models.households.composition import role_of, roles_of
from unikat.models.households.grouped import grouped
from unikat.models.households.records import (
    HouseholdFacts,
    NestedData,
    possible,
    prepare,
    toy_table,
)
from unikat.models.households.truncation import (
    chance_of_possible,
    refuse,
    simulate_impossible,
)
from unikat.models.mixtures.components import draw_sticks, stick_tolerance
from unikat.models.mixtures.profiles import ProfilePrior
from unikat.models.mixtures.truncation import TruncationPrior
from unikat.models.options import PRIOR, check_bool, check_choice, check_numbers
from unikat.models.records import in_parts, start_classes
from unikat.models.state_checks import positive, within
from unikat.rng import chain_key

_FIRST = (24, 48, 36, 64)
"""Household classes at the start of a chain, by its number."""
_FIRST_KINDS = 12
"""Person classes of each at the start."""
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
_MOST = 100_000
"""Households simulated per possible one, and then some."""


class NestedState(NamedTuple):
    """State of the nested sampler; classes that are empty are part of it."""

    pi: Float64
    """(n_classes,)"""
    omega: Float64
    """(n_classes, n_kinds)"""
    lam: Float32
    """(n_household_rows, n_classes)"""
    phi: Float32
    """(n_person_rows, n_classes * n_kinds)"""
    alpha: Float64
    """(1,)"""
    beta: Float64
    """(1,), or (n_classes,) where each household class has its own."""
    profile: Float64
    """(n_household_rows,): Dirichlet parameters of lambda."""
    member_profile: Float64
    """(n_person_rows,): those of phi."""
    counts: Int32
    """(n_household_rows, n_classes): known keys of the households."""
    member_counts: Int32
    """(n_person_rows, n_classes * n_kinds): known keys of the members."""


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
        Propose to split or merge household classes in every sweep, of classes that have no
        impossible households; only with a common beta.
    composition
        Key of persons whose levels are the members' roles: how many members a household has of each
        takes the place of its size. `"auto"`: that which tells the head, if known; `"none"`: size.
    calibrate
        Include the model's error (`studies.auto.decided`).

    See Also
    --------
    ProfilePrior : the profiles' prior. The paper's is `profile_concentration=1` and
        `profile_base="uniform"`.
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
        check_bool(self, "calibrate")
        self.check_tempering()

    def prepare(self, table: CellTable) -> NestedData:
        """Lay the households out, and their distinct members."""
        role = role_of(table, self.composition)
        return prepare(table, None if role < 0 else roles_of(table, role))

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
        n_classes = _FIRST[stream.chain % len(_FIRST)]
        g = start_classes(data.cells, stream, n_classes)[data.cells.record_cell].astype(np.int16)
        persons = data.person_levels._replace(rows=data.households.persons)
        kind = start_classes(persons, stream, _FIRST_KINDS)
        m = kind[data.tokens.person].astype(np.int16)
        drawn = Drawn(g, m)
        tally = empty_tally(*_rows(data), n_classes, _FIRST_KINDS)
        kernels.count(data.households, drawn, tally)
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
        return self._refresh(stream, start, data, drawn, tally)[0]

    def state_fits(self, state: NestedState, data: NestedData, start: NestedState) -> bool:
        """Whether a state of a file has shapes that the kernels can read."""
        n_classes, n_kinds = state.omega.shape
        n_rows, n_member_rows = _rows(data)
        shares = (state.pi, state.omega, state.lam, state.phi)
        return (
            state.pi.shape == (n_classes,)
            and n_classes >= 1
            and n_kinds >= 1
            and state.lam.shape == state.counts.shape == (n_rows, n_classes)
            and state.phi.shape == (n_member_rows, n_classes * n_kinds)
            and state.member_counts.shape == state.phi.shape
            and state.alpha.shape == (1,)
            and state.beta.shape == ((1,) if self.beta == "common" else (n_classes,))
            and state.profile.shape == (n_rows,)
            and state.member_profile.shape == (n_member_rows,)
            and all(map(positive, (state.alpha, state.beta, state.profile, state.member_profile)))
            and all(bool(np.isfinite(a).all() and (a >= 0.0).all()) for a in shares)
            and all(within(a, 0, 2**31) for a in (state.counts, state.member_counts))
        )

    def step(
        self, stream: Stream, state: NestedState, data: NestedData, n_threads: int
    ) -> tuple[NestedState, Info]:
        """One sweep: all classes given the parameters, then the parameters given them."""
        drawn, tally, n_impossible = self.allocated(stream, state, data, n_threads)
        state, info = self._refresh(stream, state, data, drawn, tally)
        if data.rules is not None:
            n = self.n_possible(data.n_records)
            info.values["impossible_mass"] = 1.0 - max(n - 1, 0) / max(n + n_impossible - 1, 1)
        return state, info

    def allocated(
        self, stream: Stream, state: NestedState, data: NestedData, n_threads: int
    ) -> tuple[Drawn, Tally, int]:
        """Draw all classes given the parameters; with what is imputed and impossible in the tally.

        The last number is that of the impossible households.
        """
        key, weights = chain_key(stream.seed, stream.chain), _weights(state)
        households = data.households
        table = person_table(households, weights, n_threads)
        n_records, n_members = len(data.cells.record_cell), len(data.token_record)
        drawn = Drawn(np.empty(n_records, np.int16), np.empty(n_members, np.int16))
        tallies = [empty_tally(*_rows(data), *state.omega.shape) for _ in range(n_threads)]

        def allocate(part: int, first: int, last: int) -> None:
            kernels.allocate(
                key, stream.sweep, first, last, households, weights, table, drawn, tallies[part]
            )

        in_parts(allocate, len(households.rows), n_threads)
        if data.rules is None:
            return drawn, summed(tallies), 0
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
        )
        return drawn, summed([*tallies, more.tally]), more.n_impossible

    def _refresh(
        self, stream: Stream, state: NestedState, data: NestedData, drawn: Drawn, tally: Tally
    ) -> tuple[NestedState, Info]:
        """Weights, concentrations and profiles given the classes."""
        key, sweep = chain_key(stream.seed, stream.chain), stream.sweep
        person_key = chain_key(stream.seed, stream.chain, _PERSONS)
        before = _weights(state)
        classes = compacted(
            Classes(drawn, tally, before, state.beta), float(state.alpha[0]), data.token_record
        )
        tally, kept = classes.tally, classes.weights
        moved = False
        if self.split_merge and self.beta == "common":
            tally, moved = self._split_or_merge(key, sweep, state, data, classes)
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
        ), info

    def _split_or_merge(
        self, key: Any, sweep: int, state: NestedState, data: NestedData, classes: Classes
    ) -> tuple[Tally, bool]:
        """Propose a split or merge of household classes; return the counts, and if it was made."""
        drawn, tally = classes.drawn, classes.tally
        n_classes, n_kinds = tally.member_sizes.shape
        # So that two classes with all their person classes have room in one.
        occupied = np.sort((tally.member_sizes > 0).sum(axis=1))[-2:]
        room = max(n_kinds, int(occupied.sum()))
        prior = NestedPrior(
            float(state.alpha[0]),
            float(state.beta[0]),
            state.profile,
            state.member_profile,
            data.columns.offsets,
            data.columns.member_offsets,
        )
        # Households that are simulated or imputed are not moved, nor are classes that have some.
        sizes = np.bincount(drawn.g, minlength=n_classes)
        closed = tally.sizes > sizes
        after = Drawn(drawn.g.copy(), drawn.m.copy())
        one, _ = nested_split.propose(
            key,
            sweep,
            data.tokens,
            prior,
            room,
            after.g,
            after.m,
            np.where(closed, 0, sizes),
            closed,
        )
        if one < 0:
            return tally, False
        before = empty_tally(*_rows(data), n_classes, n_kinds)
        kernels.count(data.households, drawn, before)
        left = Tally(*(all_ - some for all_, some in zip(tally, before, strict=True)))
        tally = more_kinds(left, max(n_kinds, int(after.m.max(initial=0)) + 1))
        kernels.count(data.households, after, tally)
        return tally, True

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
        p = probabilities(data.columns, _weights(state), cells)
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
        return chance_of_possible(
            chain_key(stream.seed, stream.chain),
            stream.sweep,
            PURPOSE_HOUSEHOLD_MASS,
            max(data.n_records, _LEAST_SIMULATED),
            data.columns,
            data.rules,
            _weights(state),
        )

    def grouped_probabilities(
        self, stream: Stream, state: NestedState, data: NestedData, groups: Groups, cells: Int32
    ) -> Float64:
        """Probability of each cell of groups, (n,); see `grouped`."""
        chance = 1.0 if data.rules is None else self._chance(stream, state, data)
        return grouped(stream, data, _weights(state), groups, cells) / chance

    def independent_probabilities(
        self, state: NestedState, data: NestedData, cells: Int32
    ) -> Float64:
        """Probabilities of households if their members were independent, (n,); sizes are known."""
        return independent(data.columns, _weights(state), cells)

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
        tally = empty_tally(*_rows(data), *state.omega.shape)
        found = data.gaps.copy()
        left = np.arange(len(found))
        for attempt in range(_ATTEMPTS):
            drawn = completed(
                stream, purpose, data.columns, _weights(state), data.gaps[left], left, attempt
            )
            good = possible(data.columns, data.rules, drawn.cells)
            found[left[good]] = data.columns.canonical(drawn.cells[good])
            kernels.count_completed(drawn.rows, drawn.members, drawn.g, drawn.m, good, tally)
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
        weights = _weights(state)
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
        n_components = _FIRST_KINDS * _FIRST[0]
        levels = float(data.columns.offsets[-1] + data.columns.member_offsets[-1])
        persons = len(data.households.persons) * n_components
        members = len(data.token_record)
        sweep = 20.0 * levels * n_components + 1.0 * persons + 200.0 * members
        if data.rules is not None:
            sweep += 2000.0 * data.n_records
        return sweep, 100.0 * data.columns.n_slots + n_components


def _weights(state: NestedState) -> Weights:
    """The parameters as kernels take them."""
    return Weights(state.pi, state.omega, state.lam, state.phi)


def _rows(data: NestedData) -> tuple[int, int]:
    """Rows of the profiles of households and of persons."""
    return int(data.columns.offsets[-1]), int(data.columns.member_offsets[-1])
