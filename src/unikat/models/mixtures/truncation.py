"""Structural zeros in the mixture models: truncation to the possible cells.

Given possible records only, the likelihood is prod_i p(x_i) / (1 - p0)^n. Every sweep simulates
the impossible records that came before n possible ones (Manrique-Vallier & Reiter 2014; paper 1,
section 4), whose tokens join those of the sample; given them, the rest of the sweep is that of the
model without zeros. Every sweep draws the missing keys again, as possible values.

A component in impossible cells changes neither the likelihood nor the risk, so the data do not
limit the number or size of such components: the number of impossible records would have a heavy
tail. A weak prior (1 - p0)^c limits it: the simulation stops c possible records early.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np

from unikat._typing import Float32, Float64, Int16, Int32, Int64
from unikat.errors import SpecError
from unikat.kernels import mixture, truncation
from unikat.kernels import weights as weight_kernels
from unikat.kernels import zeros as kernels
from unikat.kernels.random import PURPOSE_NUMBER
from unikat.kernels.zeros import Diagram
from unikat.models.options import check_numbers
from unikat.models.records import MixtureData, in_parts

_LANES = 8
"""Streams that the simulation is cut into, whatever the number of threads."""
_MOST = 400
"""Most impossible records per possible one."""
_AGAIN = 1 << 31
"""Added to the sweep for the second draw of a kind within it, which needs numbers of its own."""
_BATCH = 4096
"""Individuals simulated at a time, however many are wanted, so that the first ones are the same."""


@dataclass(frozen=True, kw_only=True)
class TruncationPrior:
    """Options of structural zeros.

    Parameters
    ----------
    zeros_tempering
        c / n of the weak prior (1 - p0)^c on the probability of the impossible cells; from 0,
        for none, to 0.99.
    """

    zeros_tempering: float = 0.02

    def check_tempering(self) -> None:
        """Refuse a tempering outside its range."""
        check_numbers(self, {"zeros_tempering": (0.0, 0.99)})

    def n_possible(self, n: int) -> int:
        """Possible records after which the simulation stops."""
        return max(1, n - round(self.zeros_tempering * n))


class ImpossibleRecords(NamedTuple):
    """Simulated impossible records, the keys that were not needed missing."""

    rows: Int32
    """(n_impossible, n_keys)"""
    z: Int16
    """(n_impossible, n_keys), or (n_impossible, 1) where a record has one component."""
    alpha: Float64
    """(n_impossible,), or (0,) where it is shared."""


def augmented(data: MixtureData, imputed: Int32, more: Int32) -> MixtureData:
    """Add rows of further records, and give the incomplete records their imputed rows.

    imputed (n_incomplete, n_keys), in the order of the records; more (n_more, n_keys).
    """
    n_cells, n = len(data.rows), len(data.record_cell)
    record_cell = np.concatenate((data.record_cell, np.empty(len(more), np.int32)))
    if len(imputed):
        record_cell[incomplete(data)] = n_cells + np.arange(len(imputed))
    record_cell[n:] = n_cells + len(imputed) + np.arange(len(more))
    at_least = np.full(len(data.at_least), float(n))
    tokens = np.bincount((more >= 0).sum(axis=1), minlength=len(at_least) + 1)
    at_least += len(more) - np.cumsum(tokens)[:-1]
    return data._replace(
        rows=np.concatenate((data.rows, imputed, more)), record_cell=record_cell, at_least=at_least
    )


def incomplete(data: MixtureData) -> Int64:
    """Records with a missing key."""
    return np.flatnonzero(np.any(data.rows < 0, axis=1)[data.record_cell])


def completed(
    key: Any, sweep: int, diagram: Diagram, data: MixtureData, z: Int16, theta: Float32
) -> Int32:
    """Draw the missing keys of the incomplete records, possible ones, (n_incomplete, n_keys).

    z (n_incomplete, n_keys) or (n_incomplete, 1): their components.
    """
    rows = data.rows[data.record_cell[incomplete(data)]]
    out = np.empty_like(rows)
    if len(rows):
        z = np.ascontiguousarray(z)
        kernels.complete(key, sweep, rows, z, diagram, data.offsets, theta, out)
    return out


def first_completed(key: Any, diagram: Diagram, data: MixtureData) -> Int32:
    """Missing keys at the start of a chain: possible ones, by the levels' shares in the file."""
    shares = (data.frequencies + 0.5).astype(np.float32)[:, None]
    n = len(incomplete(data))
    return completed(key, 0, diagram, data, np.zeros((n, 1), np.int16), shares)


def simulate_memberships(
    key: Any,
    sweep: int,
    diagram: Diagram,
    data: MixtureData,
    target: int,
    alpha: Float64,
    weights: Float64,
    theta: Float32,
    n_threads: int,
) -> ImpossibleRecords:
    """Simulate mixed memberships until `target` possible records have come.

    alpha (1,) is shared, or (2,) shape and rate of each record's own. With a shared one only the
    impossible records that are mixed are returned, with the components of all their keys: those of
    one component are left to `simulate_classes`.
    """
    n_keys = len(data.offsets) - 1
    levels = theta.T.astype(np.float64)
    for j in range(n_keys):
        part = slice(data.offsets[j], data.offsets[j + 1])
        levels[:, part] = np.cumsum(levels[:, part], axis=1)
    cumulative = np.cumsum(weights)
    shared = len(alpha) == 1
    if shared:
        together = chances_of_one(weights, alpha, n_keys)
        first_mixed = np.cumsum(np.maximum(weights - together, 0.0))
        share = float(together @ chances(diagram, data, theta)[0] / together.sum())
        mixed_law = truncation.MixedLaw(
            alpha[0], weights, cumulative, levels, together, first_mixed, min(share, 1.0)
        )
    targets = np.diff(target * np.arange(_LANES + 1) // _LANES)
    most = _MOST * target // _LANES + 1000
    found: list[ImpossibleRecords | None] = [None] * _LANES

    def simulate(_: int, first: int, last: int) -> None:
        for lane in range(first, last):
            if targets[lane] == 0:
                continue
            capacity = int(2 * targets[lane] + 64)
            while True:
                rows = np.empty((capacity, n_keys), np.int32)
                z = np.empty((capacity, n_keys), np.int16)
                alphas = np.empty(0 if shared else capacity)
                if shared:
                    n = truncation.simulate_mixed(
                        key, sweep, lane, targets[lane], diagram, data.offsets, mixed_law, rows, z
                    )
                else:
                    n = kernels.simulate_impossible(
                        key,
                        sweep,
                        lane,
                        targets[lane],
                        diagram,
                        data.offsets,
                        kernels.Memberships(alpha, cumulative, levels),
                        kernels.Found(rows, z, alphas),
                    )
                if n <= capacity or capacity > most:
                    break
                capacity = 2 * n
            if n > capacity:
                refuse_impossible()
            found[lane] = ImpossibleRecords(rows[:n], z[:n], alphas[:n])

    in_parts(simulate, _LANES, n_threads)
    rows, z, alphas = zip(*(lane for lane in found if lane is not None), strict=True)
    return ImpossibleRecords(np.concatenate(rows), np.concatenate(z), np.concatenate(alphas))


def simulate_classes(
    key: Any,
    sweep: int,
    diagram: Diagram,
    data: MixtureData,
    n_seen: int,
    together: Float64,
    theta: Float32,
    n_threads: int,
) -> ImpossibleRecords:
    """Simulate the impossible records of one component that come with `n_seen` others.

    together (n_components,): chance that all keys of a record come from the component.
    """
    chance = chances(diagram, data, theta)
    mass = together * np.maximum(1.0 - chance[0], 0.0)
    impossible = float(mass.sum())
    odds = impossible / max(1.0 - impossible, 1e-12)
    # The sweep stands above the word that counts blocks, so that sweeps share no number.
    rng = np.random.Generator(np.random.Philox(key=key, counter=[0, sweep, PURPOSE_NUMBER, 0]))
    n = int(rng.poisson(rng.gamma(n_seen) * odds))
    if n > _MOST * n_seen + 1000:
        refuse_impossible()
    # Without levels that lead to an impossible cell there are none.
    classes = np.repeat(np.arange(len(mass)), rng.multinomial(n, mass / impossible) if n else 0)
    rows = np.empty((n, len(data.offsets) - 1), np.int32)

    def draw(_: int, first: int, last: int) -> None:
        kernels.draw_impossible(
            key, sweep, first, last, classes, diagram, data.offsets, theta, chance, rows
        )

    in_parts(draw, n, n_threads)
    return ImpossibleRecords(rows, classes.astype(np.int16)[:, None], np.empty(0))


class MembershipPrior(NamedTuple):
    """What the simulation of impossible records takes as given."""

    alpha: Float64
    """(1,) shared, or (2,) shape and rate of each record's own."""
    profile: Float64
    """(n_rows,)"""
    exponents: Callable[[Int64], tuple[float, float]]
    """`share` and `total_exponent` of `along_ridges` by the tables (n_components,)."""


def impossible_memberships(
    key: Any,
    sweep: int,
    data: MixtureData,
    target: int,
    prior: MembershipPrior,
    theta: Float32,
    weights: Float64,
    tally: tuple[Int64, Int64],
    n_threads: int,
) -> tuple[Float32, Float64, ImpossibleRecords]:
    """Simulate the impossible records; before, move along what they leave open.

    tally: counts and stacks of the sample (`mixture.Tally`). Returns profiles and weights, too.
    """
    assert data.zeros is not None
    diagram, alpha = data.zeros, prior.alpha
    mixed = simulate_memberships(
        key, sweep, diagram, data, target, alpha, weights, theta, n_threads
    )
    if len(alpha) > 1:
        return theta, weights, mixed
    counts, stacks = tally[0].copy(), tally[1].copy()
    places, n = np.arange(len(mixed.rows), dtype=np.int32), len(mixed.rows)
    needed = np.where(mixed.rows >= 0, mixed.z, np.int16(-1))
    mixture.count(0, n, mixed.rows, places, needed, counts, np.zeros_like(stacks))
    mixture.count(0, n, np.zeros_like(mixed.rows), places, mixed.z, np.zeros_like(counts), stacks)
    tables = np.zeros(len(weights), np.int64)
    weight_kernels.draw_tables(key, sweep + _AGAIN, float(alpha[0]), stacks, weights, tables)
    theta, weights = along_ridges(
        key,
        sweep,
        diagram,
        data,
        truncation.Seen(counts, tables, target + n),
        truncation.RidgePrior(prior.profile, float(alpha[0]), *prior.exponents(tables)),
        theta,
        weights,
    )
    together = chances_of_one(weights, alpha, stacks.shape[0])
    pure = simulate_classes(key, sweep, diagram, data, target + n, together, theta, n_threads)
    rows = np.concatenate((mixed.rows, pure.rows))
    z = np.concatenate((needed, np.where(pure.rows >= 0, pure.z, np.int16(-1))))
    return theta, weights, ImpossibleRecords(rows, z, pure.alpha)


def chances_of_one(weights: Float64, alpha: Float64, n_keys: int) -> Float64:
    """Chance that all keys of a record come from each component, (n_components,); alpha (1,)."""
    out = np.empty(len(weights))
    truncation.chances_of_one(weights, alpha[0], n_keys, out)
    return out


def along_ridges(
    key: Any,
    sweep: int,
    diagram: Diagram,
    data: MixtureData,
    seen: truncation.Seen,
    prior: truncation.RidgePrior,
    theta: Float32,
    weights: Float64,
) -> tuple[Float32, Float64]:
    """Redraw (theta, weights) along what impossible cells leave open; see the kernel."""
    theta, weights = theta.copy(), weights.copy()
    truncation.along_ridges(key, sweep, diagram, data.offsets, seen, prior, theta, weights)
    return theta, weights


def chances(diagram: Diagram, data: MixtureData, theta: Float32 | Float64) -> Float64:
    """P(possible) of a record of each component at each node, (n_nodes, n_components)."""
    chance = np.empty((len(diagram.child) + 1, theta.shape[1]))
    kernels.possible_chances(diagram, data.offsets, theta, chance)
    return chance


def first_possible(
    simulate: Callable[[int, int], Int32], diagram: Diagram, n_records: int
) -> Int32:
    """Return the first possible ones of simulated records; `simulate(start, n)` draws n of them."""
    found: list[Int32] = []
    left, start = n_records, 0
    while left > 0:
        if start > _MOST * n_records + 1000:
            refuse_impossible()
        cells = simulate(start, _BATCH)
        start += _BATCH
        node = np.zeros(_BATCH, np.int64)
        for j in diagram.order.tolist():
            node = np.where(node < 0, -1, diagram.child[node, cells[:, j]])
        found.append(cells[node >= 0][:left])
        left -= len(found[-1])
    return np.concatenate(found) if found else simulate(0, 0)


def refuse_impossible() -> NoReturn:
    """Stop a chain whose impossible records outnumber the possible ones beyond measure."""
    raise SpecError(
        f"More than {_MOST} impossible records came for every possible one. Raise the model option "
        "zeros_tempering, which holds their number down, or check that the structural zeros are "
        "right."
    )
