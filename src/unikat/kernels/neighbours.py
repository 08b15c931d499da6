"""Probabilities of a record and of those that differ from it in one key, given all other records.

Latent classes with the profiles integrated out: a record of class k has level v of key j with
probability (c_kjv + eta_jv) / sum_u (c_kju + eta_ju), c the other records' counts.
"""

from __future__ import annotations

import numpy as np

from unikat.kernels.jit import kernel


@kernel
def neighbour_ratios(rows, z, counts, profile, offsets, weights, ratio, own):
    """Find p(t | others) / p(x | others) for each record x and each neighbour t, into ratio.

    rows (n, n_keys) int32: row of the level of each key; z (n,): class of each record; counts
    (n_classes, n_rows) int64: tokens of all records by class, the record's own among them; profile
    (n_rows,): eta; offsets (n_keys + 1,): first row of each key; weights (n_classes,). ratio
    (n, n_each) gets the record itself first, then of each key in turn all other levels in order;
    own (n,) gets p(x | others).
    """
    n_classes, n_rows = counts.shape
    n_keys = rows.shape[1]
    # Probabilities of the levels in each class given all records, the record's own among them.
    share, inverse = np.empty((n_classes, n_rows)), np.empty((n_classes, n_rows))
    total = np.empty((n_classes, n_keys))
    for k in range(n_classes):
        for j in range(n_keys):
            total[k, j] = 0.0
            for row in range(offsets[j], offsets[j + 1]):
                total[k, j] += counts[k, row] + profile[row]
            for row in range(offsets[j], offsets[j + 1]):
                share[k, row] = (counts[k, row] + profile[row]) / total[k, j]
                inverse[k, row] = 1.0 / share[k, row]
    law = np.empty(n_rows)
    for i in range(rows.shape[0]):
        law[:] = 0.0
        truth = 0.0
        for k in range(n_classes):
            if k == z[i]:
                continue
            product = weights[k]
            for j in range(n_keys):
                product *= share[k, rows[i, j]]
            truth += product
            for j in range(n_keys):
                scale = product * inverse[k, rows[i, j]]
                for row in range(offsets[j], offsets[j + 1]):
                    law[row] += scale * share[k, row]
        # The record's own class, without the record.
        k = z[i]
        product = weights[k]
        for j in range(n_keys):
            row = rows[i, j]
            product *= (counts[k, row] - 1 + profile[row]) / (total[k, j] - 1.0)
        truth += product
        for j in range(n_keys):
            row = rows[i, j]
            scale = product / (counts[k, row] - 1 + profile[row])
            for other in range(offsets[j], offsets[j + 1]):
                law[other] += scale * (counts[k, other] + profile[other])
        own[i] = truth
        ratio[i, 0] = 1.0
        at = 1
        for j in range(n_keys):
            for row in range(offsets[j], offsets[j + 1]):
                if row != rows[i, j]:
                    ratio[i, at] = law[row] / truth
                    at += 1
