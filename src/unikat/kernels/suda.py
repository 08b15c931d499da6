"""Minimal sample uniques: the smallest sets of keys on which a record is unique.

A record is unique on a set S of keys if no other record agrees with it on all of S; S is a minimal
sample unique (MSU) of the record if it is unique on S and on no smaller part of S.

Sets of keys are visited depth first, a bit mask each, in increasing order of the mask: the children
of a set are made by adding a key below its lowest one, so that every part of a set is visited
before the set itself. A set carries the groups of patterns that agree on it, and a child splits
them by one more key. What cannot matter below a set is dropped there:

- a record alone in its group is unique on the set and on all that follow: it is noted if no MSU
  found before is a part of the set, and leaves;
- two patterns of a group that are alike on the keys still to come stay together for ever: one is
  kept, and it can no longer be unique, only stand in the way of others;
- a group in which nobody can be unique any more leaves, and a set without groups ends its branch.

So the work is at most the number of key sets times the number of patterns, and in practice far
less: half of all sets have one key still to come, where a group has no more members than that key
has levels. With missing keys that match any level a pattern can be in several groups of one set,
and that bound does not hold.
"""

from __future__ import annotations

import numpy as np

from unikat.kernels.jit import device, kernel


@device
def enlarged(array, needed):
    """`array` with room for `needed` items, at least doubled if it has to grow."""
    if needed <= array.shape[0]:
        return array
    larger = np.empty(max(needed, 2 * array.shape[0]), array.dtype)
    larger[: array.shape[0]] = array
    return larger


@kernel
def minimal_uniques(codes, rest, n_codes, single, matching, weights, most, n_msu, key_score):
    """Find all MSUs of at most `largest` keys; return their number, or -1 if above `most`.

    codes (n_keys, n) int32, -1 missing; key 0 is added last, so the key with most levels should be
    the last one. rest (n_keys, n) int32: row j numbers the codes of a pattern on the keys before j,
    below n + 1, and is 0 exactly where all of these are missing. n_codes: most levels of a key.
    single (n,): patterns with one record. matching: a missing key matches any level, so it stands
    in the way of others; else a pattern with a missing key is no match on it. weights (largest,):
    what an MSU of k = 1.. keys adds to the score. n_msu (n, largest) and key_score (n, n_keys),
    which is the sum of the weights of the MSUs that hold the key, are added to in place.
    """
    n_keys, n = codes.shape
    largest = weights.shape[0]
    # Members of groups, those of all sets on the way down behind one another: pattern p as p if it
    # may become unique, as ~p if it only stands in the way.
    members = np.empty(2 * n, np.int32)
    for p in range(n):
        members[p] = p if single[p] else ~p
    ends = np.empty(n + 1, np.int64)
    ends[0] = n
    first_member = np.zeros(largest + 1, np.int64)
    first_group = np.zeros(largest + 1, np.int64)
    end_group = np.ones(largest + 1, np.int64)
    mask_at = np.zeros(largest + 1, np.int64)
    lowest = np.full(largest + 1, n_keys, np.int64)
    upcoming = np.zeros(largest + 1, np.int64)
    # The MSUs of each pattern by their lowest key, as chains from the last one found: a mask and
    # the place of the previous one, side by side, since most of the time goes into reading them.
    n_found = 0
    chain = np.empty(2 * n, np.int64)
    newest = np.full((n_keys, n), -1, np.int64)
    # Of the levels of the key that splits a group.
    touched = np.empty(n_codes, np.int64)
    size = np.zeros(n_codes, np.int64)
    able = np.zeros(n_codes, np.int64)
    place = np.empty(n_codes, np.int64)
    # Where a pattern of the same rest stands in the group under way.
    stamp = np.zeros(n + 1, np.int64)
    spot = np.empty(n + 1, np.int64)
    group = 0
    depth = 0
    while depth >= 0:
        j = upcoming[depth]
        if j == lowest[depth] or first_group[depth] == end_group[depth]:
            depth -= 1
            continue
        upcoming[depth] += 1
        mask = mask_at[depth] | (np.int64(1) << j)
        deeper = j > 0 and depth + 1 < largest
        end = first_member[depth]
        top = ends[end_group[depth] - 1]
        n_groups = end_group[depth]
        child_first = top
        for g in range(first_group[depth], end_group[depth]):
            begin = end
            end = ends[g]
            n_touched = 0
            n_missing = 0
            for m in range(begin, end):
                x = members[m]
                c = codes[j, x if x >= 0 else ~x]
                if c < 0:
                    n_missing += 1
                    continue
                if size[c] == 0:
                    touched[n_touched] = c
                    n_touched += 1
                    able[c] = 0
                size[c] += 1
                if x >= 0:
                    able[c] += 1
            if not matching:
                n_missing = 0
            room = top
            for t in range(n_touched):
                c = touched[t]
                if able[c] > 0 and size[c] + n_missing == 1:
                    place[c] = -2
                elif able[c] > 0 and deeper:
                    place[c] = room
                    room += size[c] + n_missing
                else:
                    place[c] = -1
            members = enlarged(members, room)
            for m in range(begin, end):
                x = members[m]
                p = x if x >= 0 else ~x
                c = codes[j, p]
                if c < 0:
                    if n_missing > 0:
                        for t in range(n_touched):
                            c = touched[t]
                            if place[c] >= 0:
                                members[place[c]] = ~p
                                place[c] += 1
                elif place[c] >= 0:
                    members[place[c]] = x
                    place[c] += 1
                elif place[c] == -2:
                    # Not unique before key j came: an MSU within the set holds j, its lowest key.
                    e = newest[j, p]
                    while e >= 0 and chain[2 * e] & ~mask != 0:
                        e = chain[2 * e + 1]
                    if e < 0:
                        if n_found == most:
                            return -1
                        chain = enlarged(chain, 2 * n_found + 2)
                        chain[2 * n_found] = mask
                        chain[2 * n_found + 1] = newest[j, p]
                        newest[j, p] = n_found
                        n_found += 1
                        n_msu[p, depth] += 1
                        for i in range(n_keys):
                            if mask >> i & 1:
                                key_score[p, i] += weights[depth]
            for t in range(n_touched):
                c = touched[t]
                if place[c] >= 0:
                    start = top
                    n_able = 0
                    group += 1
                    for m in range(place[c] - size[c] - n_missing, place[c]):
                        x = members[m]
                        r = rest[j, x if x >= 0 else ~x]
                        if r == 0:
                            # Nothing more is known of it: for others it is a match on all sets
                            # below, or on none.
                            if matching:
                                n_able = 0
                                break
                        elif stamp[r] != group:
                            stamp[r] = group
                            spot[r] = top
                            members[top] = x
                            top += 1
                            if x >= 0:
                                n_able += 1
                        elif members[spot[r]] >= 0:
                            members[spot[r]] = ~members[spot[r]]
                            n_able -= 1
                    if n_able > 0:
                        ends = enlarged(ends, n_groups + 1)
                        ends[n_groups] = top
                        n_groups += 1
                    else:
                        top = start
                size[c] = 0
        if n_groups > end_group[depth]:
            depth += 1
            first_member[depth] = child_first
            first_group[depth] = end_group[depth - 1]
            end_group[depth] = n_groups
            mask_at[depth] = mask
            lowest[depth] = j
            upcoming[depth] = 0
    return n_found
