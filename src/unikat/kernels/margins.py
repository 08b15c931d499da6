"""Records that share a margin: sums over the rows that are equal in some of the keys."""

from __future__ import annotations

import numpy as np

from unikat.kernels.jit import device, kernel


@device
def margin_hash(codes, keys):
    """Mix the codes of some keys into 64 bits."""
    mixed = np.uint64(0x243F6A8885A308D3)
    for j in keys:
        mixed = (mixed ^ np.uint64(codes[j] + 1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return mixed


@device
def find_slot(table, codes, row, keys):
    """Slot of the row that is equal to this one in the keys, or the empty one where it belongs."""
    last = np.uint64(len(table) - 1)
    slot = margin_hash(codes[row], keys) & last
    while table[slot] >= 0:
        other = table[slot]
        same = True
        for j in keys:
            if codes[other, j] != codes[row, j]:
                same = False
                break
        if same:
            break
        slot = (slot + np.uint64(1)) & last
    return slot


@kernel
def add_margin_counts(codes, counts, keys, asking, answering, total):
    """Add to each asking row the counts of the answering rows that are equal to it in some keys.

    codes (C, n_keys) int32; counts (C,) int64; keys (n,): the keys compared; asking (a,), answering
    (b,): rows; total (a,) int64 is added to. Rows are compared by their codes, so two margins are
    never mixed up; the hash decides on the time alone.
    """
    size = 2
    while size < 2 * len(asking):
        size *= 2
    table = np.full(size, -1, np.int32)
    sums = np.zeros(size, np.int64)
    slot_of = np.empty(len(asking), np.int64)
    for a in range(len(asking)):
        slot = find_slot(table, codes, asking[a], keys)
        if table[slot] < 0:
            table[slot] = asking[a]
        slot_of[a] = slot
    for row in answering:
        slot = find_slot(table, codes, row, keys)
        if table[slot] >= 0:
            sums[slot] += counts[row]
    for a in range(len(asking)):
        total[a] += sums[slot_of[a]]
