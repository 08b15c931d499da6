"""Kernels of laws that a search asks for often: sums of indicators, and sums over groups."""

from __future__ import annotations

import numpy as np

from unikat.kernels.jit import kernel


@kernel
def add_indicators(p, law):
    """Convolve laws of sums of indicators with those of more indicators, (n_values, n_sums).

    p (n, n_sums): their probabilities; law[k] = P(sum = k). What is beyond the last value is lost.
    """
    n, n_sums = p.shape
    n_values = law.shape[0]
    for place in range(n):
        last = min(place + 1, n_values - 1)
        for s in range(n_sums):
            one = p[place, s]
            for k in range(last, 0, -1):
                law[k, s] = (law[k, s] - law[k, s] * one) + law[k - 1, s] * one
            law[0, s] -= law[0, s] * one


@kernel
def group_sums(theta, rows, starts, weights, out):
    """Sum rows of theta by group, each with its weight, into out (n_groups, n_components).

    rows (n_members,): group by group; one beyond theta adds nothing. starts (n_groups,): first
    member of each group. Sums are in double precision. weights (n_members,), or (0,) for 1 of each.
    """
    n_groups, n_components = out.shape
    total = np.empty(n_components)
    for g in range(n_groups):
        last = starts[g + 1] if g + 1 < n_groups else len(rows)
        total[:] = 0.0
        for i in range(starts[g], last):
            r = rows[i]
            if r >= theta.shape[0]:
                continue
            if len(weights):
                for k in range(n_components):
                    total[k] += theta[r, k] * weights[i]
            else:
                for k in range(n_components):
                    total[k] += theta[r, k]
        for k in range(n_components):
            out[g, k] = total[k]
