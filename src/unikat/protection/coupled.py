"""Local suppression where a suppressed value of any record matches every level.

A record may then be made safe by what is suppressed in another one. Two solutions are compared: the
best of each record by itself, and a few records that are suppressed so far that they match all that
are not safe. From the cheaper one every value is restored that is not needed. Where few records are
not safe, they and the records next to them are solved by integer programming (HiGHS by way of
SciPy), up to a number of nodes that does not depend on the clock. On a small table these are all
records, and the solution is optimal.

**Integer program.** s_ij = 1 if value j of record i is suppressed; m_ih = 1 if i and h, which
disagree in the keys D_ih, match; r_i = 1 if the risk of i is accepted. With a_i the matches that a
record lacks,

    minimise sum c_j s_ij   subject to   m_ih <= s_ij + s_hj          for j in D_ih,
                                         sum_h m_ih + a_i r_i >= a_i  for a_i > 0,
                                         r_i <= sum of s_ij, j not in T,

the last for every largest set T of keys whose suppression leaves the risk too high. m and r follow
from s, so only s is declared whole.

**Lower bound of a large table.** A record that is suppressed so far that it shows the keys K gives
one match each to at most cap(K) records, the most that share a margin of K among those that lack
matches, and what it lacks itself. These must add up to all the matches that are lacking, which is a
knapsack: the cheapest numbers of records to show each K that cover them. No solution costs less
than what the dearest record lacking one match needs by itself, either: the keys in which it
disagrees with its new match, or those of its own risk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.keys import MISSING
from unikat.data.patterns import distinct
from unikat.protection.matches import Patterns, as_bits

MOST_PAIRS = 400
"""Pairs of a record that lacks matches and any record that an integer program has."""
MOST_NODES = 200
"""Nodes of its search."""
ACCURACY = 1e-6
"""Of the solver, relative: a bound is that much lower, and solutions that near it are optimal."""
MOST_SETS = 1 << 12
"""Sets of keys that a bound or an integer program looks at."""
MOST_TRIED = 5_000_000
"""Values that are tried to be restored, times records; 30 are tried on any table."""


def coupled(
    codes: Int32,
    n_levels: Sequence[int],
    needed: int,
    accepts: Callable[[Int32], Bool],
    cost: Float64,
    own: Bool,
) -> tuple[Bool, float]:
    """Find values to suppress, and a lower bound of their cost.

    Parameters
    ----------
    codes
        (n, n_keys) with -1 where missing.
    n_levels
        Levels of each key.
    needed
        Matches that make a record safe, itself among them.
    accepts
        Whether the risk of patterns (m, n_keys) is low enough, (m,).
    cost
        (n_keys,) cost of a value, infinite for keys that are kept.
    own
        (n, n_keys) the best solution if suppressed values of others matched nothing new.

    Returns
    -------
    suppressed, bound
        (n, n_keys) and the lower bound.
    """
    lacking = _lacking(codes, n_levels, needed, accepts)
    if not lacking.any():
        return np.zeros_like(own), 0.0

    def price(mask: Bool) -> float:
        by_key = mask.sum(axis=0)
        return float(np.sum(by_key[by_key > 0] * cost[by_key > 0]))

    def safe(mask: Bool) -> bool:
        shown = np.where(mask, MISSING, codes)
        return not _lacking(shown, n_levels, needed, accepts).any()

    found = own
    broad = _broad(codes, lacking, needed, cost)
    if price(broad) < price(found) and safe(broad):
        found = broad
    found = _restored(codes, n_levels, found, needed, accepts, cost)
    # At least one value is suppressed.
    bound = max(float(cost.min()), _largest_own(lacking, own, cost))
    bound = max(bound, _covering_bound(codes, lacking, cost))
    rows = _near(codes, lacking, cost)
    if len(rows) and bound < price(found) * (1.0 - ACCURACY):
        between = bound * (1.0 - ACCURACY), price(found) * (1.0 + ACCURACY)
        part, proved = _programmed(codes[rows], lacking[rows], accepts, cost, between)
        if len(rows) == len(codes):
            bound = max(bound, proved)
        mask = np.zeros_like(own)
        mask[rows] = part
        if price(mask) < price(found) and safe(mask):
            found = mask
    bound *= 1.0 - ACCURACY
    if (cost[np.isfinite(cost)] % 1.0 == 0.0).all():
        bound = float(np.ceil(bound))
    return found, price(found) if bound >= price(found) * (1.0 - 2.0 * ACCURACY) else bound


def _matches(codes: Int32, n_levels: Sequence[int]) -> Int64:
    """Records that match each record, itself among them, (n,)."""
    found = distinct(codes, n_levels)
    patterns = Patterns(codes[found.first], found.counts)
    total = np.zeros(len(patterns.cells), np.int64)
    for rows, known in zip(patterns.members, patterns.known.tolist(), strict=True):
        total[rows] = patterns.matching(rows, known)
    return total[found.place]


def _lacking(
    codes: Int32, n_levels: Sequence[int], needed: int, accepts: Callable[[Int32], Bool]
) -> Int64:
    """Matches that each record lacks to be safe, (n,); 0 where its risk is accepted."""
    lacking = np.maximum(needed - _matches(codes, n_levels), 0)
    unsure = np.flatnonzero(lacking)
    if len(unsure):
        lacking[unsure[accepts(codes[unsure])]] = 0
    return lacking


def _broad(codes: Int32, lacking: Int64, needed: int, cost: Float64) -> Bool:
    """Suppress a few records so far that they match all that lack matches.

    Keys that are kept divide the records: in each part as many records as one lacks at most.
    """
    mask = np.zeros(codes.shape, np.bool_)
    allowed = np.isfinite(cost)
    price = np.where(allowed, cost, 0.0)
    parts = np.unique(codes[:, ~allowed], axis=0, return_inverse=True)[1].ravel()
    for part in np.unique(parts[lacking > 0]):
        rows = np.flatnonzero(parts == part)
        lack = lacking[rows] > 0
        # A key can stay where all that lack matches have the value, or none.
        asked = codes[rows[lack]]
        low = np.where(asked == MISSING, np.iinfo(np.int32).max, asked).min(axis=0)
        high = asked.max(axis=0)
        differs = (codes[rows] != MISSING) & allowed
        differs &= (high != MISSING) & ((low != high) | (codes[rows] != high))
        total = differs @ price
        # One that lacks matches can be a helper where there are enough others to match.
        total[lack] += 0.0 if lack.sum() >= needed else price.sum() + 1.0
        helpers = np.argsort(total, kind="stable")[: lacking[rows].max()]
        mask[rows[helpers]] = differs[helpers]
    return mask


def _restored(
    codes: Int32,
    n_levels: Sequence[int],
    mask: Bool,
    needed: int,
    accepts: Callable[[Int32], Bool],
    cost: Float64,
) -> Bool:
    """Restore every value that is not needed, the dearest first."""
    mask = mask.copy()
    shown = np.where(mask, MISSING, codes)
    total = _matches(shown, n_levels)
    rows, keys = np.nonzero(mask)
    order = np.argsort(-cost[keys], kind="stable")[: max(30, MOST_TRIED // len(mask))]
    for i, j in zip(rows[order], keys[order], strict=True):
        agree = ((shown == shown[i]) | (shown == MISSING) | (shown[i] == MISSING)).all(axis=1)
        lost = np.flatnonzero(agree & (shown[:, j] != codes[i, j]) & (shown[:, j] != MISSING))
        shown[i, j] = codes[i, j]
        unsure = lost[total[lost] <= needed]
        if total[i] - len(lost) < needed:
            unsure = np.append(unsure, i)
        if len(unsure) and not accepts(shown[unsure]).all():
            shown[i, j] = MISSING
            continue
        mask[i, j] = False
        total[lost] -= 1
        total[i] -= len(lost)
    return mask


def _largest_own(lacking: Int64, own: Bool, cost: Float64) -> float:
    """Largest cost of a record that lacks one match, if all others may help it."""
    # Whatever is suppressed in the record or in its new match would do in the record alone.
    one = lacking == 1
    return float((own[one] @ np.where(np.isfinite(cost), cost, 0.0)).max()) if one.any() else 0.0


def _covering_bound(codes: Int32, lacking: Int64, cost: Float64) -> float:
    """Cheapest records, each with the keys that it shows, that could give all matches lacking."""
    n_keys = codes.shape[1]
    if 1 << n_keys > MOST_SETS:
        return 0.0
    powers = np.int64(1) << np.arange(n_keys, dtype=np.int64)
    masks = np.unique(as_bits(codes != MISSING))
    asking = codes[lacking > 0]
    found = distinct(asking, (codes.max(axis=0) + 1).tolist())
    patterns = Patterns(asking[found.first], found.counts)
    prices, gains = [], []
    for shown in range(1 << n_keys):
        wider = masks[((masks & shown) == shown) & (masks != shown)]
        hidden = ((wider ^ shown)[:, None] & powers) > 0
        price = np.where(hidden, cost, 0.0).sum(axis=1).min(initial=np.inf)
        if not np.isfinite(price):
            continue
        prices.append(price)
        gains.append(patterns.most_alike(shown))
    gain = np.array(gains, np.float64) + lacking.max()
    price_of = np.array(prices)
    # Of the sets only those stay that give more than every cheaper one.
    order = np.lexsort((-gain, price_of))
    best = np.maximum.accumulate(np.concatenate(([0.0], gain[order])))
    order = order[gain[order] > best[:-1]]
    total = float(lacking.sum())
    done = milp(
        price_of[order],
        constraints=LinearConstraint(gain[order][None, :], total, np.inf),
        integrality=np.ones(len(order)),
        bounds=Bounds(0, np.inf),
        options={"node_limit": MOST_NODES, "mip_rel_gap": 0.0},
    )
    return 0.0 if done.mip_dual_bound is None else float(done.mip_dual_bound)


def _near(codes: Int32, lacking: Int64, cost: Float64) -> Int64:
    """Rows of the integer program: those that lack matches, and what is nearest to one of them.

    None if already these are too many.
    """
    asking = np.flatnonzero(lacking)
    most = MOST_PAIRS // len(asking)
    if most < min(len(asking) + 1, len(codes)) or 1 << codes.shape[1] > MOST_SETS:
        return np.empty(0, np.int64)
    distance = np.full(len(codes), np.inf)
    for i in asking:
        differs = (codes != codes[i]) & (codes != MISSING) & (codes[i] != MISSING)
        np.minimum(distance, np.where(differs, cost, 0.0).sum(axis=1), out=distance)
    distance[asking] = -1.0
    return np.sort(np.argsort(distance, kind="stable")[:most])


def _programmed(
    codes: Int32,
    lacking: Int64,
    accepts: Callable[[Int32], Bool],
    cost: Float64,
    between: tuple[float, float],
) -> tuple[Bool, float]:
    """Solve the integer program; return a mask, all False if none was found, and a lower bound.

    Columns are s (n x n_keys), then m of each pair and r of each record. The optimum is known
    to lie `between` two costs.
    """
    n, n_keys = codes.shape
    allowed = np.isfinite(cost)
    usable = (codes != MISSING) & allowed
    rows: list[dict[int, float]] = []
    least: list[float] = []
    n_columns = n * n_keys
    pairs: dict[tuple[int, int], int] = {}
    for i in np.flatnonzero(lacking).tolist():
        matches: dict[int, float] = {}
        for h in range(n):
            differs = (codes[i] != codes[h]) & (codes[i] != MISSING) & (codes[h] != MISSING)
            if not differs.any() or (differs & ~allowed).any():
                continue
            pair = (min(i, h), max(i, h))
            if pair not in pairs:
                pairs[pair] = n_columns
                for j in np.flatnonzero(differs).tolist():
                    rows.append({i * n_keys + j: 1.0, h * n_keys + j: 1.0, n_columns: -1.0})
                    least.append(0.0)
                n_columns += 1
            matches[pairs[pair]] = 1.0
        refused = _largest_refused(codes[i], usable[i], accepts)
        if refused is not None:
            matches[n_columns] = float(lacking[i])
            for others in refused:
                rows.append({i * n_keys + j: 1.0 for j in others} | {n_columns: -1.0})
                least.append(0.0)
            n_columns += 1
        rows.append(matches)
        least.append(float(lacking[i]))
    prices, upper, whole = np.zeros(n_columns), np.ones(n_columns), np.zeros(n_columns)
    prices[: n * n_keys] = np.tile(np.where(allowed, cost, 0.0), n)
    upper[: n * n_keys] = usable.ravel()
    whole[: n * n_keys] = 1.0
    matrix = sparse.lil_array((len(rows), n_columns))
    for place, row in enumerate(rows):
        for column, value in row.items():
            matrix[place, column] = value
    done = milp(
        prices,
        constraints=[
            LinearConstraint(matrix.tocsr(), np.array(least), np.inf),
            LinearConstraint(prices[None, :], *between),
        ],
        integrality=whole,
        bounds=Bounds(0.0, upper),
        options={"node_limit": MOST_NODES, "mip_rel_gap": 0.0},
    )
    bound = 0.0 if done.mip_dual_bound is None else float(done.mip_dual_bound)
    if done.x is None:
        return np.zeros(codes.shape, np.bool_), bound
    return (done.x[: n * n_keys] > 0.5).reshape(n, n_keys), bound


def _largest_refused(
    record: Int32, usable: Bool, accepts: Callable[[Int32], Bool]
) -> list[list[int]] | None:
    """Keys outside each largest set whose suppression leaves the risk too high; None if all do."""
    keys = np.flatnonzero(usable)
    bits = np.arange(1 << len(keys))
    hidden = ((bits[:, None] >> np.arange(len(keys))) & 1) > 0
    patterns = np.tile(record, (len(bits), 1))
    patterns[:, keys] = np.where(hidden, MISSING, patterns[:, keys])
    accepted = accepts(patterns)
    if not accepted[-1]:
        return None
    refused = bits[~accepted]
    # One more key suppressed, and the risk is accepted whichever it is.
    step = np.int64(1) << np.arange(len(keys))
    wider = refused[:, None] | step
    largest = (accepted[wider] | (wider == refused[:, None])).all(axis=1)
    return [keys[(int(one) & step) == 0].tolist() for one in refused[largest]]
