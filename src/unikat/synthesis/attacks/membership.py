"""Membership: whether somebody who knows a record can tell that its person is in the original.

A test gives each record a score, the smaller the more it looks like one of the original. It is
tried on records of the original, the *members*, and on those of the control file, which come from
the same population and were not seen by the generator. See docs/design/attacks.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import betaincinv

from unikat._typing import Float64, Int32, Int64
from unikat.kernels.nearest import similar
from unikat.models.records import in_parts
from unikat.synthesis.attacks.model_free import Setting, cells_of, distances
from unikat.synthesis.attacks.rates import AnyHousehold, Contributions, Rate, rate_of

FALSE_ALARMS = (0.01, 0.05, 0.10)
"""Shares of the non-members that an intruder accepts to take for members."""
BANDWIDTHS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)
"""Shares of a value's probability that go to all values, in a smoothed density."""
_MOST_TRIED = 500
"""Reference records by which a bandwidth is chosen."""
_LEAST, _ROUNDING = 1e-300, 1e-9
_LEAST_BEYOND = 5
"""Non-members beyond a limit that is learned from them."""

Scores = tuple[Float64, Float64]
"""(n_targets,) and (n_control_targets,): small for records that look like members."""
Test = Callable[[Setting, Int32], Scores]
"""A test with one synthetic file."""


def density_ratio(seed: int) -> Test:
    """Make the test by how much denser the synthetic file is at a record than the population.

    Van Breugel, Sun, Qian and van der Schaar (2023), with kernels for categories as densities. The
    control file is halved at random. Each half is what the intruder knows of the population where
    the records of the other half, and one half of the original's, are tried.
    """

    def test(setting: Setting, synthetic: Int32) -> Scores:
        return by_halves(
            setting,
            seed,
            lambda _, reference, records: _log_ratio(setting, synthetic, reference, records),
        )

    return test


def by_halves(
    setting: Setting, seed: int, log_ratio: Callable[[int, Int32, Int32], Float64]
) -> Scores:
    """Score records by a half of the control file that they are not in.

    log_ratio: of the number of a half (0 or 1), the records of the control file that are the
    reference, and records that are tried, (n, n_columns), the log of how much denser the synthetic
    file is there, (n,).
    """
    files = setting.files
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(5,)))
    # Persons of a household are not independent: none is the reference of another.
    household = files.control_household
    units = np.arange(len(files.control)) if household is None else household
    control_half = _halves(units, generator)
    halves = _halves(setting.original, generator), control_half[setting.control]
    scores = np.empty(len(setting.original)), np.empty(len(setting.control))
    for half in (0, 1):
        tried = [np.flatnonzero(found == half) for found in halves]
        records = np.concatenate(
            [
                files.original[setting.original[tried[0]]],
                files.control[setting.control[tried[1]]],
            ]
        )
        found = log_ratio(half, files.control[control_half != half], records)
        for side, rows, part in zip(scores, tried, np.split(found, [len(tried[0])]), strict=True):
            side[rows] = -part
    return scores


TESTS: dict[str, Callable[[int], Test]] = {
    "distance": lambda seed: distances,
    "density ratio": density_ratio,
}
"""Tests by name, each made with a seed."""


def recognised(ours: Float64, theirs: Float64, false_alarm: float) -> tuple[Float64, Float64]:
    """Find who is taken for a member if a share of the non-members is taken for one.

    Parameters
    ----------
    ours, theirs
        (n,), (m,): scores of members and of non-members, the smaller the more like a member.
    false_alarm
        Share of the non-members, from 0 to 1.

    Returns
    -------
    tuple
        (n,), (m,): 1 for those who are taken for members; of those at the limit itself, which
        are told apart by lot, the probability. The mean of the second is `false_alarm`.

    Examples
    --------
    >>> ours, theirs = np.array([0.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0, 3.0])
    >>> [taken.tolist() for taken in recognised(ours, theirs, 0.25)]
    [[1.0, 0.5, 0.0], [0.5, 0.5, 0.0, 0.0]]
    """
    wanted = false_alarm * len(theirs)
    limit = np.sort(theirs)[max(math.ceil(wanted), 1) - 1]
    lot = (wanted - np.count_nonzero(theirs < limit)) / np.count_nonzero(theirs == limit)
    first, second = (
        np.where(scores < limit, 1.0, np.where(scores == limit, lot, 0.0))
        for scores in (ours, theirs)
    )
    return first, second


def detection(
    ours: Float64,
    theirs: Float64,
    false_alarm: float,
    level: float,
    households: tuple[AnyHousehold, AnyHousehold] = (None, None),
) -> Rate | None:
    """Estimate the share of the members who are recognised at a rate of false alarms.

    The limit of the scores is learned from the non-members. So the interval has two parts, added
    as squares (Zou and Donner 2008): that of the members beyond this limit, and what they would be
    at the limits whose false alarms in the population may be as asked, by Clopper and Pearson's
    interval. Tried on normal scores, the 95% interval covers in 94% to 98% of trials if five
    non-members or more are beyond the limit.

    Parameters
    ----------
    ours, theirs
        (n_files, n), (n_files, m) scores; shares are means over the files.
    false_alarm
        Share of the non-members who are taken for members, between 0 and 1.
    level
        Probability of the interval.
    households
        Household of each of ours, (n,), and of theirs, (m,); None: records are independent.

    Returns
    -------
    Rate or None
        None if fewer than five non-members, or households of them, are beyond the limit.
    """
    found = [recognised(a, b, false_alarm) for a, b in zip(ours, theirs, strict=True)]
    own, other = (
        Contributions(np.mean([one[side] for one in found], axis=0), households[side])
        for side in (0, 1)
    )
    if false_alarm * len(other.deviations) < _LEAST_BEYOND:
        return None
    # Where the lot decides on all who can be recognised, no more than its probability is reached.
    most = float(own.values.max()) or 1.0
    of_most = rate_of(Contributions(own.values / most, households[0]), level)
    rate = Rate(value=most * of_most.value, lower=most * of_most.lower, upper=most * of_most.upper)
    ends = [false_alarm, false_alarm]
    # If the lot alone decides on all non-members, nothing is learned from them.
    if np.ptp(other.values) > _ROUNDING:
        n = false_alarm * (1.0 - false_alarm) / other.variance
        beyond = false_alarm * n
        ends = [
            betaincinv(beyond, n - beyond + 1.0, 0.5 - level / 2.0),
            betaincinv(beyond + 1.0, n - beyond, 0.5 + level / 2.0),
        ]
    lower, upper = (
        np.mean([recognised(a, b, end)[0].mean() for a, b in zip(ours, theirs, strict=True)])
        for end in ends
    )
    return Rate(
        value=rate.value,
        lower=max(rate.value - math.hypot(rate.value - rate.lower, rate.value - lower), 0.0),
        upper=min(rate.value + math.hypot(rate.upper - rate.value, upper - rate.value), 1.0),
    )


def _halves(units: Int32 | Int64, generator: np.random.Generator) -> Int64:
    """Give each element the half, 0 or 1, to which its unit is drawn, (n,)."""
    values, place = np.unique(units, return_inverse=True)
    half: Int64 = (generator.permutation(len(values)) % 2)[place]
    return half


def _log_ratio(setting: Setting, synthetic: Int32, reference: Int32, records: Int32) -> Float64:
    """Log density of the synthetic file at each record, less that of the reference, (n,).

    The bandwidth is that with which the synthetic file predicts the reference best. Records that
    are tried have no say in it, so that members and non-members stay alike.
    """
    files = setting.files
    margins = []
    for j in range(files.n_keys):
        of_files = (files.original, files.control, synthetic)
        occurs = np.unique(np.concatenate([file[:, j] for file in of_files]))
        counts = np.bincount(reference[:, j], minlength=files.n_levels[j]) + 0.5
        margins.append(counts / counts[occurs].sum())
    known = reference[:: max(1, len(reference) // _MOST_TRIED)]
    predicted = [
        _log_density(setting, synthetic, known, margins, bandwidth).sum()
        for bandwidth in BANDWIDTHS
    ]
    bandwidth = BANDWIDTHS[int(np.argmax(predicted))]
    ours, theirs = (
        _log_density(setting, file, records, margins, bandwidth) for file in (synthetic, reference)
    )
    return ours - theirs


def _log_density(
    setting: Setting,
    file: Int32,
    records: Int32,
    margins: Sequence[Float64],
    bandwidth: float,
) -> Float64:
    """Log density of a file at each record, smoothed by the kernel of Aitchison and Aitken (1976).

    Each record of the file has the density of the product over the keys of (1 - bandwidth) [same
    value] + bandwidth margin(value), which adds up to 1 over all cells.
    """
    keys = range(setting.files.n_keys)
    cells, counts = cells_of(setting.files, file[:, keys], keys)
    columns = np.ascontiguousarray(cells.T)
    targets = np.ascontiguousarray(records[:, keys]).astype(cells.dtype)
    other = bandwidth * np.stack([margins[j][records[:, j]] for j in keys], axis=1)
    same = 1.0 - bandwidth + other
    total = np.empty(len(records))

    def work(_: int, start: int, stop: int) -> None:
        similar(targets, columns, counts, same, other, start, stop, total)

    in_parts(work, len(records), setting.n_threads)
    # With many keys the product can be too small for a number.
    density: Float64 = np.log(np.maximum(total / len(file), _LEAST))
    return density
