"""Nearest cells of a synthetic file: distances that count the keys in which two records differ."""

from __future__ import annotations

import numpy as np

from unikat.kernels.jit import device, kernel


@device
def differences(target, columns, found):
    """Count for each cell the keys in which it differs from a target.

    target (n_keys,); columns (n_keys, n_cells) of the same type, one key's codes side by side;
    found (n_cells,) uint8 is overwritten, so there are at most 255 keys.
    """
    found[:] = 0
    for j in range(columns.shape[0]):
        column, code = columns[j], target[j]
        for c in range(found.shape[0]):
            found[c] += column[c] != code


@kernel
def nearest(targets, columns, counts, secrets, values, first, last, distance, share):
    """Find the records nearest to each target, and how many of them have its secret value.

    targets (n, n_keys) and columns (n_keys, n_cells) of the same type; counts (n_cells,): records
    of each cell; secrets (n,), values (n_cells,): what the intruder wants to know, and what the
    cells say. For targets first to last-1, distance (n,) gets the smallest number of keys in which
    a record differs, share (n,) the share of the records at that distance with the target's secret.
    """
    found = np.empty(columns.shape[1], np.uint8)
    for i in range(first, last):
        differences(targets[i], columns, found)
        least = found.min()
        total = right = 0
        for c in range(found.shape[0]):
            if found[c] == least:
                total += counts[c]
                if values[c] == secrets[i]:
                    right += counts[c]
        distance[i] = least
        share[i] = right / total


@kernel
def linked(targets, columns, others, other_columns, counts, first, last, share):
    """Find how likely two searches for a target end at the same record.

    Each search sees some of the keys: targets (n, n_keys) and columns (n_keys, n_cells); others
    and other_columns likewise. counts (n_cells,). For targets first to last-1, share (n,) gets
    |A and B| / (|A| |B|), A and B the records nearest in each search: the probability that one of A
    and one of B, drawn at random, are the same record.
    """
    found = np.empty(columns.shape[1], np.uint8)
    also = np.empty(columns.shape[1], np.uint8)
    for i in range(first, last):
        differences(targets[i], columns, found)
        differences(others[i], other_columns, also)
        least, also_least = found.min(), also.min()
        one = two = both = 0
        for c in range(found.shape[0]):
            if found[c] == least:
                one += counts[c]
                if also[c] == also_least:
                    both += counts[c]
            if also[c] == also_least:
                two += counts[c]
        share[i] = both / (one * two)


@kernel
def similar(targets, columns, counts, same, other, first, last, total):
    """Sum how similar the records of a file are to each target: a product over the keys.

    targets (n, n_keys) and columns (n_keys, n_cells) of the same type; counts (n_cells,): records
    of each cell; same, other (n, n_keys): factor of a key in which a record has the target's value,
    or another one. For targets first to last-1, total (n,) gets the sum over the records.
    """
    product = np.empty(columns.shape[1])
    for i in range(first, last):
        product[:] = counts
        for j in range(columns.shape[0]):
            column, code, equal, unequal = columns[j], targets[i, j], same[i, j], other[i, j]
            for c in range(product.shape[0]):
                product[c] *= equal if column[c] == code else unequal
        total[i] = product.sum()
