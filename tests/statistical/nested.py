"""The nested mixture of households once more: its prior, its sweep, and tests of the joint law.

All from the equations of the design note, in loops. Everything starts as one exact draw from the
prior, data included; see `joint`. Under rules households are drawn until a possible one comes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from statistical import joint
from unikat.data.households import HouseholdLayout
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.models.base import Stream
from unikat.models.households.composition import n_levels
from unikat.models.households.nested import NestedHouseholds
from unikat.models.households.records import prepare
from unikat.models.households.state import NestedState

Array = Any
Possible = Callable[[Array, Array], bool]
"""Whether a household is possible: its codes, and those of its members."""


@cache
def _layout(
    levels: tuple[int, ...], member_levels: tuple[int, ...], head_apart: bool, role: int
) -> HouseholdLayout:
    """Columns of households without rules."""
    return HouseholdLayout(
        household_keys=tuple(Key.of_size(f"H{k}", n) for k, n in enumerate(levels)),
        person_keys=tuple(Key.of_size(f"P{k}", n) for k, n in enumerate(member_levels)),
        n_slots=levels[0] - int(head_apart),
        head_apart=head_apart,
        role=role,
    )


class Prior(NamedTuple):
    """The fixed numbers: levels (the size first), households, gamma priors, sticks.

    profile: c_j / n_j, or None where it is learned with the gamma prior `law`; role: the person key
    that holds the role, -1 if none, and roles: the compositions that are listed, if there is one;
    head: the role of the head, to whose values those of others are tied, -1 without ties.
    """

    levels: tuple[int, ...]
    member_levels: tuple[int, ...]
    n: int
    alpha: tuple[float, float] = (2.0, 2.0)
    beta: tuple[float, float] = (2.0, 2.0)
    profile: float | None = 0.6
    law: tuple[float, float] = (3.0, 2.0)
    by_class: bool = False
    base: str = "uniform"
    head_apart: bool = False
    rules: Any = None
    possible: Possible | None = None
    role: int = -1
    roles: Any = None
    head: int = -1
    n_classes: int = 24
    n_kinds: int = 24

    @property
    def layout(self) -> HouseholdLayout:
        """The columns."""
        made = _layout(self.levels, self.member_levels, self.head_apart, self.role)
        return made if self.rules is None else replace(made, rules=self.rules)

    @property
    def blocks(self) -> tuple[int, ...]:
        """Levels of the household keys, the composition first."""
        return self.levels if self.role < 0 else (n_levels(self.roles), *self.levels[1:])

    @property
    def member_blocks(self) -> tuple[int, ...]:
        """Levels of the members' keys, once for each role, which is no such key."""
        n_roles = 1 if self.role < 0 else self.member_levels[self.role]
        own = [n for k, n in enumerate(self.member_levels) if k != self.role]
        return tuple(n for n in own for _ in range(n_roles))

    def block(self, k: int, role: int) -> int:
        """Place of a person key's profile among `member_blocks`."""
        n_roles = 1 if self.role < 0 else self.member_levels[self.role]
        return (k - int(0 <= self.role < k)) * n_roles + role


@dataclass(frozen=True, kw_only=True)
class Listed(NestedHouseholds):
    """With given compositions, whatever those of the sample."""

    roles: Any = None
    head: int = -1

    def prepare(self, table: CellTable) -> Any:
        """Lay the households out."""
        return prepare(table, self.roles, self.head)


def model_of(prior: Prior) -> NestedHouseholds:
    """The model under test with these priors."""
    more: dict[str, Any] = {"zeros_tempering": 0.0} if prior.rules is not None else {}
    return Listed(
        roles=prior.roles,
        head=prior.head,
        alpha_shape=prior.alpha[0],
        alpha_rate=prior.alpha[1],
        beta_shape=prior.beta[0],
        beta_rate=prior.beta[1],
        beta="by-class" if prior.by_class else "common",
        profile_concentration=prior.profile or "learned",
        profile_base=prior.base,  # type: ignore[arg-type]
        profile_shape=prior.law[0],
        profile_rate=prior.law[1],
        **more,
    )


def sticks(rng: np.random.Generator, concentration: float, n: int) -> Array:
    """First weights of GEM; the last of them takes what is left."""
    broken = rng.beta(1.0, concentration, n)
    broken[-1] = 1.0
    return broken * np.concatenate(([1.0], np.cumprod(1.0 - broken[:-1])))


def draw_profile(rng: np.random.Generator, prior: Prior, levels: tuple[int, ...]) -> Array:
    """Dirichlet parameters of all keys."""
    parts = []
    for n in levels:
        total = n * prior.profile if prior.profile else rng.gamma(prior.law[0], n / prior.law[1])
        base = rng.dirichlet(np.ones(n)) if prior.base == "learned" else np.full(n, 1.0 / n)
        parts.append(total * base)
    return np.concatenate(parts)


def draw_profiles(
    rng: np.random.Generator, profile: Array, levels: tuple[int, ...], n: int
) -> Array:
    """Profiles (n_rows, n): gamma numbers over their sums by key."""
    drawn = rng.standard_gamma(profile[:, None], (len(profile), n))
    starts = np.concatenate(([0], np.cumsum(levels)[:-1]))
    totals = np.repeat(np.add.reduceat(drawn, starts, axis=0), levels, axis=0)
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(drawn / totals, nan=1.0 / len(profile))


def tied_keys(prior: Prior) -> list[tuple[int, int]]:
    """Keys and roles whose values depend on the head's, in the order of the table of ties."""
    if prior.head < 0:
        return []
    return [
        (k, role)
        for k in range(len(prior.member_levels))
        for role in range(prior.member_levels[prior.role])
        if k != prior.role and role != prior.head
    ]


def draw_steps(rng: np.random.Generator, n: int) -> Array:
    """Probabilities that change at some of n differences."""
    drawn: list[float] = []
    for d in range(n):
        new = d == 0 or rng.random() < 0.15
        drawn.append(float(rng.random()) if new else drawn[-1])
    return np.array(drawn)


def draw_differences(rng: np.random.Generator, n: int) -> Array:
    """Law of the differences among n levels."""
    return 0.9999 * rng.dirichlet(np.full(2 * n - 1, 1.0 / (2 * n - 1))) + 0.0001 / (2 * n - 1)


def draw_ties(rng: np.random.Generator, prior: Prior) -> tuple[Array, Array]:
    """Table of ties and the laws it is made of: own draw, by the head's level, by a difference,
    and own draws that are kept by their difference."""
    table, laws = [np.empty((3, 0))], [np.empty(0)]
    for k, _ in tied_keys(prior):
        n = prior.member_levels[k]
        own, by_level, by_difference = rng.dirichlet([1.0, 0.5, 0.5])
        levels = rng.dirichlet(np.full(n, 1.0 / n), n)
        differences = draw_differences(rng, n)
        kept = draw_steps(rng, 2 * n - 1)
        for h in range(n):
            moved = [differences[x - h + n - 1] for x in range(n)]
            moved = [p / sum(moved) for p in moved]
            row = [by_level * levels[h, x] + by_difference * moved[x] for x in range(n)]
            stays = [kept[x - h + n - 1] for x in range(n)]
            table.append(np.array([[1.0 - sum(row), *row], [1.0, *stays], [0.0, *moved]]))
        laws += [np.array([own, by_level, by_difference]), levels.ravel(), differences, kept]
    return np.concatenate(table, axis=1), np.concatenate(laws)


def tie(prior: Prior, state: NestedState, k: int, role: int, head: int) -> Array | None:
    """Columns of the table of ties, (3, n + 1), given the head's level; None if not tied."""
    start = 0
    for key, one in tied_keys(prior):
        n = prior.member_levels[key]
        if (key, one) == (k, role):
            return state.ties[:, start + head * (n + 1) : start + (head + 1) * (n + 1)]
        start += n * (n + 1)
    return None


def draw_state(rng: np.random.Generator, prior: Prior) -> NestedState:
    """Parameters from the prior."""
    n, s = prior.n_classes, prior.n_kinds
    alpha = rng.gamma(prior.alpha[0], 1.0 / prior.alpha[1], 1)
    beta = rng.gamma(prior.beta[0], 1.0 / prior.beta[1], n if prior.by_class else 1)
    profile = draw_profile(rng, prior, prior.blocks)
    member_profile = draw_profile(rng, prior, prior.member_blocks)
    lam = draw_profiles(rng, profile, prior.blocks, n)
    phi = draw_profiles(rng, member_profile, prior.member_blocks, n * s)
    each = np.broadcast_to(beta, n)
    return NestedState(
        sticks(rng, float(alpha[0]), n),
        np.array([sticks(rng, float(b), s) for b in each]),
        lam.astype(np.float32),
        phi.astype(np.float32),
        alpha,
        beta,
        profile,
        member_profile,
        np.zeros(lam.shape, np.int32),
        np.zeros(phi.shape, np.int32),
        *draw_ties(rng, prior),
    )


def draw_rows(rng: np.random.Generator, prior: Prior, state: NestedState) -> Array:
    """Canonical rows of new, possible, households given the state."""
    rows = []
    n_kinds = state.omega.shape[1]
    offsets = np.concatenate(([0], np.cumsum(prior.blocks)))
    member_offsets = np.concatenate(([0], np.cumsum(prior.member_blocks)))

    def level(profile: Array) -> int:
        to = profile.cumsum()
        return min(int(to.searchsorted(rng.random() * to[-1])), len(to) - 1)

    tries = 0
    while len(rows) < prior.n:
        tries += 1
        assert tries < 200_000
        g = level(state.pi)
        codes = [level(state.lam[a:b, g]) for a, b in itertools.pairwise(offsets)]
        members = []
        roles = draw_roles(rng, prior, codes[0])
        codes[0] = len(roles) - 1 + int(prior.head_apart)
        roles.sort(key=lambda role: role != prior.head)
        one_head = roles.count(prior.head) == 1
        for role in roles:
            c = g * n_kinds + level(state.omega[g])
            member = []
            for k in range(len(prior.member_levels)):
                a, b = member_offsets[prior.block(k, role) :][:2] if k != prior.role else (0, 0)
                drawn = role if k == prior.role else level(state.phi[a:b, c])
                if one_head and members:
                    row = tie(prior, state, k, role, members[0][k])
                    given = 0 if row is None else level(row[0])
                    drawn = given - 1 if given else drawn
                    if row is not None and not given and rng.random() >= row[1, 1 + drawn]:
                        drawn = level(row[2]) - 1
                member.append(drawn)
            members.append(member)
        if prior.possible is None or prior.possible(np.array(codes), np.array(members)):
            shaped = np.array(members, np.int32).reshape(len(members), len(prior.member_levels))
            rows.append(prior.layout.pack(np.array([codes], np.int32), shaped)[0])
    return np.array(rows, np.int32)


def draw_roles(rng: np.random.Generator, prior: Prior, level: int) -> list[int]:
    """Roles of the members of a household with this level of the composition."""
    if prior.role < 0:
        return [0] * (level + 1 - int(prior.head_apart))
    roles = prior.roles
    listed = roles.members.tolist()
    if level < len(listed):
        return [r for r, n in enumerate(listed[level]) for _ in range(n)]
    while True:
        n = int(rng.choice(len(roles.sizes), p=roles.sizes)) + 1 - int(prior.head_apart)
        first = [] if roles.once < 0 else [roles.once]
        drawn = first + rng.choice(len(roles.shares), n - len(first), p=roles.shares).tolist()
        if [drawn.count(r) for r in range(len(roles.shares))] not in listed:
            return drawn


def composition(prior: Prior, members: list[tuple[int, ...]]) -> tuple[int, float, int]:
    """Level of the members' composition, its probability within it, and orders of the roles."""
    if prior.role < 0:
        return len(members) - 1 + int(prior.head_apart), 1.0, math.factorial(len(members))
    roles = prior.roles
    listed = roles.members.tolist()
    held = [member[prior.role] for member in members]
    n_each = [held.count(r) for r in range(len(roles.shares))]
    orders = math.prod(math.factorial(n) for n in n_each)
    if n_each in listed:
        return listed.index(n_each), 1.0, orders

    def chance(counts: list[int]) -> float:
        n = sum(counts)
        of_size = float(roles.sizes[n - 1 + int(prior.head_apart)])
        if roles.once >= 0:
            if counts[roles.once] != 1:
                return 0.0
            counts = [s for r, s in enumerate(counts) if r != roles.once]
        shares = [w for r, w in enumerate(roles.shares) if r != roles.once]
        ways = math.factorial(sum(counts)) // math.prod(math.factorial(s) for s in counts)
        return of_size * ways * math.prod(w**s for w, s in zip(shares, counts, strict=True))

    return len(listed), chance(n_each) / (1.0 - sum(map(chance, listed))), orders


def probability(prior: Prior, state: NestedState, row: Array) -> float:
    """Probability of a cell, by the formula; rules are not looked at."""
    layout = prior.layout
    codes, members = (part[0].copy() for part in layout.parts(np.asarray(row)[None, :]))
    offsets = np.concatenate(([0], np.cumsum(prior.blocks)))
    member_offsets = np.concatenate(([0], np.cumsum(prior.member_blocks)))
    n_kinds = state.omega.shape[1]
    there = [tuple(members[j]) for j in range(codes[0] + 1 - int(prior.head_apart))]
    codes[0], within, orders = composition(prior, there)
    for member in set(there):
        orders //= math.factorial(there.count(member))
    p = state.pi.copy()
    for k, x in enumerate(codes):
        if x >= 0:
            p = p * state.lam[offsets[k] + x]
    heads = [member for member in there if prior.head >= 0 and member[prior.role] == prior.head]
    for member in there:
        product = state.omega.copy()
        for k, x in enumerate(member):
            if x >= 0 and k != prior.role:
                role = member[prior.role] if prior.role >= 0 else 0
                first = member_offsets[prior.block(k, role)]
                factor = state.phi[first + x].reshape(-1, n_kinds)
                row = tie(prior, state, k, role, heads[0][k]) if len(heads) == 1 else None
                if row is not None:
                    levels = prior.member_levels[k]
                    profile = state.phi[first : first + levels]
                    lost = ((1.0 - row[1, 1:]) @ profile).reshape(-1, n_kinds)
                    own = row[1, 1 + x] * factor + row[2, 1 + x] * lost
                    factor = row[0, 0] * own + row[0, 1 + x]
                product = product * factor
        p = p * product.sum(axis=1)
    return float(p.sum() * orders * within)


def all_cells(prior: Prior) -> Array:
    """Every canonical household, possible or not."""
    layout = prior.layout
    persons = list(itertools.product(*map(range, prior.member_levels)))
    found = []
    for codes in itertools.product(*map(range, prior.levels)):
        n = codes[0] + 1 - int(prior.head_apart)
        for members in itertools.combinations_with_replacement(persons, n):
            shaped = np.array(members, np.int32).reshape(n, len(prior.member_levels))
            found.append(layout.pack(np.array([codes], np.int32), shaped)[0])
    return np.array(found, np.int32)


def is_possible(prior: Prior, rows: Array) -> Array:
    """Which rows are possible."""
    if prior.possible is None:
        return np.ones(len(rows), bool)
    codes, members = prior.layout.parts(rows)
    n_members = codes[:, 0] + 1 - int(prior.head_apart)
    return np.array(
        [prior.possible(c, m[:n]) for c, m, n in zip(codes, members, n_members, strict=True)]
    )


def tabulate(prior: Prior, rows: Array, hidden: Array | None = None) -> CellTable:
    """Tabulate the households, hidden keys missing."""
    if hidden is not None:
        rows = np.where(hidden, -1, rows)
    layout = prior.layout
    return CellTable.from_codes(rows, layout.columns, 10 * len(rows), layout=layout)


def functions(prior: Prior, state: NestedState, rows: Array) -> dict[str, float]:
    """Functions of the state that do not depend on how classes are labelled."""
    alpha, beta = float(state.alpha[0]), float(state.beta[0])
    n_kinds = state.omega.shape[1]
    size = float(state.pi @ state.lam[0])
    within = (state.omega**2).sum(axis=1)
    first = state.phi[0].reshape(-1, n_kinds)
    person = float(state.pi @ (state.omega * first).sum(axis=1))
    fits = np.array([probability(prior, state, row) for row in rows])
    found = {
        "alpha": alpha,
        "log alpha": math.log(alpha),
        "sum pi^2": float((state.pi**2).sum()),
        "alpha * sum pi^2": alpha * float((state.pi**2).sum()),
        "sum omega^2": float(state.pi @ within),
        "size": size,
        "size^2": float(state.pi @ state.lam[0] ** 2),
        "person": person,
        "person^2": float(state.pi @ (state.omega * first**2).sum(axis=1)),
        "class person": float(state.pi @ (state.omega * first).sum(axis=1) ** 2),
        "fit": float(fits.mean()),
        "log fit": float(np.log(np.maximum(fits, 1e-9)).mean()),
        "sizes": float(rows[:, 0].mean()),
        "first household": float(rows[:, min(1, len(prior.levels) - 1)].mean()),
        "first person": float((rows[:, len(prior.levels) + 1] == 0).mean()),
        "equal": float((rows[1:] == rows[:-1]).all(axis=1).mean()),
    }
    if prior.head >= 0:
        key, role = tied_keys(prior)[0]
        n = prior.member_levels[key]
        row = int(np.sum(prior.member_blocks[: prior.block(key, role)]))
        tied = state.phi[row].reshape(-1, n_kinds)
        differences, kept = state.tie_laws[3 + n * n :][: 4 * n - 2].reshape(2, -1)
        found |= {
            "tied person": float(state.pi @ (state.omega * tied).sum(axis=1)),
            "tied person^2": float(state.pi @ (state.omega * tied**2).sum(axis=1)),
            # Own draws and those given the head's know nothing of each other.
            "both": float(state.pi @ (state.omega * tied).sum(axis=1) * state.tie_laws[3]),
            "own draws": float(state.tie_laws[0]),
            "own draws^2": float(state.tie_laws[0] ** 2),
            "by level": float(state.tie_laws[1]),
            "first level": float(state.tie_laws[3]),
            "first level^2": float(state.tie_laws[3] ** 2),
            "same": float(differences[n - 1]),
            "same^2": float(differences[n - 1] ** 2),
            "farthest": float(differences[0]),
            "alike": float(state.ties[0, 1]),
            "kept": float(kept[n - 1]),
            "kept^2": float(kept[n - 1] ** 2),
            "step": float(kept[0] == kept[1]),
            "kept and alike": float(kept[n - 1] * differences[n - 1]),
            "kept, tied person": float(state.pi @ (state.omega * tied).sum(axis=1) * kept[n - 1]),
        }
    if not prior.by_class:
        found |= {
            "beta": beta,
            "log beta": math.log(beta),
            "beta * sum omega^2": beta * float(state.pi @ within),
        }
    else:
        found["mean beta"] = float(state.pi @ state.beta)
    if prior.profile is None:
        for name, profile, levels in (
            ("household", state.profile, prior.blocks),
            ("person", state.member_profile, prior.member_blocks),
        ):
            total = float(profile[: levels[0]].sum())
            found |= {f"{name} concentration": total, f"log {name}": math.log(total)}
            if prior.base == "learned":
                found[f"{name} base"] = float((profile[: levels[0]] ** 2).sum()) / total**2
    return found


def joint_test(
    prior: Prior,
    *,
    seed: int,
    n_runs: int,
    n_steps: int,
    n_prior: int = 600,
    model: NestedHouseholds | None = None,
    hidden: float = 0.0,
) -> dict[str, float]:
    """P-values of the means under the sampler against the prior's, by function."""
    rng = np.random.default_rng(seed)
    model = model or model_of(prior)

    def draw(rng: np.random.Generator) -> tuple[NestedState, Array]:
        state = draw_state(rng, prior)
        return state, draw_rows(rng, prior, state)

    def shown(rng: np.random.Generator, rows: Array) -> Array:
        gone = masks(rng, prior, rows, hidden)
        return rows if gone is None else np.where(gone, -1, rows)

    def drawn(rng: np.random.Generator) -> dict[str, float]:
        state, rows = draw(rng)
        return functions(prior, state, shown(rng, rows))

    expected = joint.drawn_once((prior, hidden), n_prior, drawn)
    means: list[Array] = []
    names: dict[str, float] = {}
    for run in range(n_runs):
        state, rows = draw(rng)
        seen = []
        for time in range(1, n_steps + 1):
            # What is hidden is of the state before the step, and would not go with the new one.
            rows = shown(rng, rows)
            state, _ = model.step(
                Stream(seed * 1000 + run, 0, time), state, model.prepare(tabulate(prior, rows)), 1
            )
            if 3 * time > n_steps and time % 3 == 0:
                names = functions(prior, state, rows)
                seen.append(list(names.values()))
            rows = draw_rows(rng, prior, state)
        means.append(np.mean(seen, axis=0))
        if len(means) % joint.EVERY == 0:
            found = joint.compared(names, means, expected)
            if joint.is_caught(found):
                return found
    return joint.compared(names, means, expected)


def masks(rng: np.random.Generator, prior: Prior, rows: Array, share: float) -> Array | None:
    """Keys that are not shown: never the size, nor one of a member that is not there."""
    if share == 0.0:
        return None
    hidden = rng.random(rows.shape) < share
    hidden[:, 0] = False
    if prior.role >= 0:
        hidden[:, len(prior.levels) + prior.role :: len(prior.member_levels)] = False
    if prior.head >= 0:
        # Of a key that a head lacks members would have no ties.
        is_head = prior.layout.parts(rows)[1][:, :, prior.role] == prior.head
        hidden[:, len(prior.levels) :] &= ~is_head.repeat(len(prior.member_levels), axis=1)
    n_levels = len(prior.levels)
    there = prior.layout.present(rows).repeat(len(prior.member_levels), axis=1)
    hidden[:, n_levels:] &= there
    return hidden


def rank_test(
    prior: Prior, *, seed: int, n_sets: int, n_draws: int = 7, thin: int = 12, warmup: int = 24
) -> list[float]:
    """Simulation-based calibration, chains started by the model itself; see `joint.rank_test`."""
    model = model_of(prior)
    rng = np.random.default_rng(seed)
    cells = all_cells(prior)
    cells = cells[is_possible(prior, cells)]
    cells = cells[np.linspace(0, len(cells) - 1, 5).astype(int)]
    ranks = []
    for data_set in range(n_sets):
        truth = draw_state(rng, prior)
        data = model.prepare(tabulate(prior, draw_rows(rng, prior, truth)))

        def numbers(state: NestedState) -> Array:
            # Those of any household: those of a possible one would be estimated.
            p = [probability(prior, state, row) for row in cells]
            beta = float(state.pi @ np.broadcast_to(state.beta, len(state.pi)))
            return np.array([*p, (state.pi**2).sum(), state.alpha[0], beta])

        true = numbers(truth)
        below = np.zeros(len(true))
        chain = data_set % 4
        state = model.init(Stream(data_set, chain, 0), data)
        for time in range(1, warmup + n_draws * thin + 1):
            state, _ = model.step(Stream(data_set, chain, time), state, data, 1)
            if time > warmup and (time - warmup) % thin == 0:
                seen = numbers(state)
                below += (seen < true) + (seen == true) * (rng.random(len(true)) < 0.5)
        ranks.append(below)
    return [
        float(stats.chisquare(np.bincount(column.astype(int), minlength=n_draws + 1)).pvalue)
        for column in np.array(ranks).T
    ]
