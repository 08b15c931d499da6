"""When a chain is cut, kept, discarded: whole numbers only, the same on every machine.

All of these are functions of counted work and of the number of sweeps made, never of the clock,
so that a run can be repeated, resumed, or spread over other workers and give the same numbers.

Sweeps are numbered from 1. Epoch 0 is the sweeps 1..W and epoch e the sweeps W 2^(e-1)+1..W 2^e,
where W is `FIRST_EPOCH` kept draws. The estimate uses the running epoch and the one before it.
"""

from __future__ import annotations

import math

MAX_THIN = 50
FIRST_EPOCH = 8
"""Kept draws in epoch 0."""
CUTS_PER_EPOCH = 8
"""Rounds per doubling of the run: at most an eighth of the run is made after convergence."""
ROUND_WORK = 2e8
"""Counted work (nanoseconds, roughly) of a chain that is worth a round of its own."""
MAX_FIRST_ROUND = 16
"""Kept draws in the shortest rounds, however cheap they are."""


def default_thin(
    sweep_cost: float, observe_cost: float, *, goes_on: bool = False, times: float = 2.0
) -> int:
    """Sweeps per kept draw, so that observing costs at most half of what sweeping costs.

    Neighbouring sweeps share parameters, but most of the variance of tau is the drawn population's,
    which is new every time: looking more seldom than this loses more draws than it saves time.

    Parameters
    ----------
    sweep_cost, observe_cost
        Counted work of one sweep and of observing one kept state, in the same unit.
    goes_on
        The chains have run before and are long: they lack agreement, not draws. Observing then
        costs at most half of that.
    times
        What sweeping costs at least, over what observing does.
    """
    if sweep_cost <= 0.0:
        return 1
    times *= 2.0 if goes_on else 1.0
    return min(max(math.ceil(times * observe_cost / sweep_cost), 1), MAX_THIN)


def shortest_round(sweep_cost: float, observe_cost: float, thin: int) -> int:
    """Sweeps in the rounds at the start of a run: a power of two times `thin`."""
    work = max(thin * sweep_cost + observe_cost, 1.0)
    draws = 1
    while draws < MAX_FIRST_ROUND and 2 * draws * work <= ROUND_WORK:
        draws *= 2
    return draws * thin


def epoch(sweep: int, thin: int) -> int:
    """Epoch to which a sweep belongs."""
    return ((sweep - 1) // (FIRST_EPOCH * thin)).bit_length()


def epoch_start(number: int, thin: int) -> int:
    """Sweeps made before an epoch begins."""
    return 0 if number <= 0 else FIRST_EPOCH * thin << (number - 1)


def n_discarded_sweeps(n_sweeps: int, thin: int) -> int:
    """Sweeps at the start that are not used: a quarter to a half, from the third epoch on."""
    return epoch_start(epoch(n_sweeps, thin) - 1, thin) if n_sweeps else 0


def next_cut(n_sweeps: int, thin: int, shortest: int) -> int:
    """End of the round that starts after `n_sweeps`; it never passes the end of an epoch.

    The cuts are fixed places on the chain: a round that begins between two of them (after a run
    stopped there by a limit) ends at the next one.
    """
    number = epoch(n_sweeps + 1, thin)
    start, end = epoch_start(number, thin), epoch_start(number + 1, thin)
    length = min(max(shortest, (end - start) // CUTS_PER_EPOCH), end - start)
    return min(start + ((n_sweeps - start) // length + 1) * length, end)


def fewest_sweeps(draws: int, thin: int, shortest: int, *, before: int = 0) -> int:
    """Sweeps after which a run has so many kept draws that are used, at the end of a round.

    Parameters
    ----------
    draws
        Of each chain, at least 1.
    thin, shortest
        Sweeps per kept draw, and in the first rounds.
    before
        Sweeps of the runs that it goes on from, a multiple of `thin`.

    Examples
    --------
    >>> fewest_sweeps(100, 3, 24)
    528
    """
    made = 0
    while True:
        made = next_cut(made + before, thin, shortest) - before
        discarded = max(n_discarded_sweeps(made + before, thin) - before, 0)
        if (made - discarded) // thin >= draws and discarded + before > 0:
            return made
