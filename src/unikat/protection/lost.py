r"""The information that the keys of a protected file have lost: recoded, suppressed and perturbed.

A value x of key j tells h_j(x) = -log2 of the share of the records that have it, which is the
entropy of the key in the mean. A published group tells its own h_j, a suppressed value nothing.
Where a share c_j of the values was made others, nobody knows which, and all of them tell less: by
the factor κ_j, the mutual information of true and published values over their entropy. It is taken
of values that were redrawn in proportion to the shares q of the groups with probability r,

    r = min(1, c_j / (1 - sum q²)),
    κ_j = sum over x, y of P(x, y) log2(P(x, y) / (q_x q_y)) / entropy of q,
    P(x, y) = (1 - r) q_x [x = y] + r q_x q_y.

With a weight w_j for each key, over the records that know it, recoding and perturbation lose the
root of the mean square of the keys' shares, and suppression the mean of its own, on top:

    lost_j = 1 - κ_j mean_i t_ij / mean_i h_j(x_ij),
    gone_j = κ_j mean_i (t_ij if suppressed, else 0) / mean_i h_j(x_ij),
    lost = (sum_j w_j lost_j² / sum_j w_j)^½ + sum_j w_j gone_j / sum_j w_j, at most 1,

where t_ij is h_j of the group. Of a file that is recoded alone this is what the search minimises
(`search.losses`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unikat._typing import Bool, Float64, Int32
from unikat.protection.hierarchies import entropy
from unikat.protection.recoding import Recoding


def information_lost(
    codes: Int32,
    recoding: Recoding,
    weights: Sequence[float],
    *,
    suppressed: Bool | None = None,
    perturbed: Int32 | None = None,
    weight_of_suppressed: float = 1.0,
) -> float:
    """Share of the information of the keys that is lost, 0 to 1.

    Parameters
    ----------
    codes
        (n, n_keys): of the records, -1 where missing.
    recoding
        Of the keys.
    weights
        How much the information of each key counts.
    suppressed
        (n, n_kept_keys): values of recoded keys that are set missing; None: none.
    perturbed
        (n, n_kept_keys): codes of recoded keys in place of the true ones; None: the true ones.
    weight_of_suppressed
        How much the information of a suppressed value counts, as a multiple.

    Examples
    --------
    One of four equally frequent levels is suppressed, then half of the values are redrawn.

    >>> import numpy as np
    >>> from unikat.data.keys import Key
    >>> from unikat.protection.recoding import Recoding, unchanged
    >>> codes, recoding = np.arange(4)[:, None], Recoding(keys=(unchanged(Key.of_size("a", 4)),))
    >>> information_lost(codes, recoding, [1.0], suppressed=codes == 0)
    0.25
    >>> round(information_lost(codes, recoding, [1.0], perturbed=codes // 2 * 2), 3)
    0.896
    """
    true, whole, lost, gone = recoding.codes(codes), 0.0, 0.0, 0.0
    for j, (one, weight) in enumerate(zip(recoding.keys, weights, strict=True)):
        known = codes[:, j] >= 0
        before = entropy(np.bincount(codes[known, j]))
        if before <= 0.0:
            continue
        whole += weight
        if one.key is None:
            lost += weight
            continue
        column = recoding.kept.index(j)
        groups = true[known, column]
        counts = np.bincount(groups)
        told = -np.log2(np.where(counts > 0, counts, 1) / len(groups))[groups] / before
        if perturbed is not None:
            changed = float((perturbed[known, column] != groups).mean())
            told = told * told_after(counts[counts > 0] / len(groups), changed)
        lost += weight * max(1.0 - float(told.mean()), 0.0) ** 2
        if suppressed is not None:
            hidden = np.where(suppressed[known, column], told, 0.0)
            gone += weight * weight_of_suppressed * float(hidden.mean())
    return float(min(np.sqrt(lost / whole) + gone / whole, 1.0)) if whole > 0.0 else 0.0


def told_after(shares: Float64, changed: float) -> float:
    """κ: what values still tell after a share of them was made others, as a share; 0 to 1."""
    other = 1.0 - float((shares**2).sum())
    if changed <= 0.0 or other <= 0.0:
        return 1.0
    r = min(1.0, changed / other)
    same = (1.0 - r) * shares + r * shares**2
    told = float((same * np.log2(same / shares**2)).sum()) + r * other * float(np.log2(r))
    return max(told, 0.0) / float(-(shares * np.log2(shares)).sum())
