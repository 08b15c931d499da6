"""Household rules of coarser keys: what is impossible whatever levels the groups stand for.

A group meets what all its levels meet, and its number lies between the least and the largest of
theirs. A comparison holds only if it holds for all numbers of its intervals, as it does for a level
that is a band. So a household of groups breaks a rule only if every household of their levels does.
A key that is left out is missing of everybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from unikat._typing import Float64, Int64
from unikat.kernels.household_rules import (
    CLAUSES,
    COMPARISONS,
    CONSTANTS,
    COUNT,
    COUNTS,
    HEAD_APART,
    HEAD_KEY,
    HEAD_MASK,
    HEAD_ROW,
    HOUSE,
    HOUSE_OFFSET,
    MASKS,
    N_CHOSEN,
    N_WORDS,
    NEEDS,
    OTHER_LEVEL,
    PERSON_OFFSET,
    RULE_FIRST,
    SAME_LEVEL,
    SIZE,
    TERMS,
    HouseholdRules,
)
from unikat.zeros.household_programs import packed

Groups = Sequence[Int64 | None]
"""(n_levels,) of each key: group of each level; None of a key that is left out."""


def coarser(program: HouseholdRules, house: Groups, persons: Groups) -> HouseholdRules | None:
    """Return the rules of coarser keys; None if none of them forbids anything.

    Parameters
    ----------
    program
        The rules of the keys as they were.
    house, persons
        What becomes of the household keys, the size first, and of those of members. A key that the
        head has apart has the groups of the members' key.
    """
    code = program.code
    masks: list[Int64] = []
    numbers: list[Float64] = []
    offsets: list[list[int]] = []
    for place, groups_of in ((HOUSE_OFFSET, house), (PERSON_OFFSET, persons)):
        offsets.append([])
        for k, groups in enumerate(groups_of):
            if groups is None:
                continue
            offsets[-1].append(sum(map(len, masks)))
            mask, intervals = _rows(program, int(code[code[place] + k]), groups)
            masks.append(mask)
            numbers.append(intervals)
    place_of = {False: _places(house), True: _places(persons)}
    head_row: list[int] = []
    for k, groups in enumerate(persons):
        if groups is None:
            continue
        row, start = int(code[code[HEAD_ROW] + k]), int(code[code[PERSON_OFFSET] + k])
        within = row - start
        if 0 < within <= len(groups):
            within = 1 + int(groups[within - 1])
        elif within > len(groups):
            within = 2 + int(groups.max())
        head_row.append(-1 if row < 0 else offsets[1][len(head_row)] + within)
    of_head = [int(code[code[HEAD_KEY] + j]) for j, one in enumerate(house) if one is not None]
    # Of a head among the members the keys tell it.
    head_meets = code[code[HEAD_MASK] : code[MASKS]] * code[HEAD_APART]
    meets = np.bitwise_or.reduce(np.vstack((*masks, head_meets)), axis=0)
    needs = code[code[NEEDS] : code[RULE_FIRST]].reshape(-1, code[N_WORDS])
    needed = ((needs & ~meets) == 0).all(axis=1)
    clauses = code[code[CLAUSES] : code[COMPARISONS]].reshape(-1, 4)
    comparisons = code[code[COMPARISONS] : code[TERMS]].reshape(-1, 4)
    terms = code[code[TERMS] : code[COUNTS]].reshape(-1, 4).copy()
    ends = code[code[COUNTS] : code[COUNTS] + 3 * _n_counts(terms)].reshape(-1, 3)
    counted = [bool(needed[first:end].any()) for first, _, end in ends.tolist()]
    tells = np.array([_tells(one, terms, house, persons, counted) for one in comparisons], bool)
    lives = np.array(
        [
            needed[first : first + n_persons + 1].all() and tells[begin:end].all()
            for first, n_persons, begin, end in clauses.tolist()
        ],
        bool,
    )
    rule_first = code[code[RULE_FIRST] : code[CLAUSES]]
    left = [int(lives[first:end].sum()) for first, end in pairwise(rule_first.tolist())]
    if not any(left):
        return None
    for comparison in comparisons:
        for term in terms[comparison[2] : comparison[3]]:
            if term[0] in (COUNT, SIZE):
                continue
            is_person = term[0] != HOUSE
            groups = (persons if is_person else house)[term[3]]
            if groups is None:
                # Of a clause that is gone.
                continue
            term[3] = place_of[is_person][int(term[3])]
            if comparison[0] >= SAME_LEVEL:
                term[1] = int(groups[: term[1]].max()) + 1
    rows = np.vstack(numbers)
    sections: list[Int64] = [
        *(np.array(one, np.int64) for one in offsets),
        np.array([place_of[True].get(k, -1) for k in of_head], np.int64),
        np.array(head_row, np.int64),
        code[code[HEAD_MASK] : code[MASKS]],
        np.vstack(masks).ravel(),
        needs.ravel(),
        np.cumsum([0, *left]),
        clauses[lives].ravel(),
        comparisons.ravel(),
        terms.ravel(),
        ends.ravel(),
    ]
    head = [int(code[place]) for place in (N_WORDS, HEAD_APART, N_CHOSEN)]
    drawn = {
        False: _drawn(program.house_keys, program.house_first, place_of[False]),
        True: _drawn(program.person_keys, program.person_first, place_of[True]),
    }
    return HouseholdRules(
        code=packed(head, sections, 2 * len(rows)),
        numbers=np.concatenate((rows.ravel(), program.numbers[code[CONSTANTS] :])),
        order=program.order,
        stage_first=program.stage_first,
        house_keys=drawn[False][0],
        house_first=drawn[False][1],
        person_keys=drawn[True][0],
        person_first=drawn[True][1],
    )


def n_rules_that_forbid(program: HouseholdRules | None) -> int:
    """Rules that have a clause that may hold."""
    if program is None:
        return 0
    code = program.code
    return int((np.diff(code[code[RULE_FIRST] : code[CLAUSES]]) > 0).sum())


def _rows(program: HouseholdRules, start: int, groups: Int64) -> tuple[Int64, Float64]:
    """Masks and numbers of a key's rows: missing, each group, and what the head always has."""
    code, n = program.code, len(groups)
    places = start + np.arange(n + 2)
    words = code[code[MASKS] + places[:, None] * code[N_WORDS] + np.arange(code[N_WORDS])]
    ends = program.numbers[2 * places[:, None] + np.arange(2)]
    parts = [1 + np.flatnonzero(groups == g) for g in range(int(groups.max()) + 1)]
    masks = [np.bitwise_and.reduce(words[part], axis=0) for part in parts]
    hulls = [(ends[part, 0].min(), ends[part, 1].max()) for part in parts]
    return (
        np.vstack((words[0], *masks, words[-1])),
        np.vstack((ends[0], *hulls, ends[-1])),
    )


def _tells(
    comparison: Int64, terms: Int64, house: Groups, persons: Groups, counted: Sequence[bool]
) -> bool:
    """Whether a comparison may hold of groups. `counted`: the counts that somebody may be in."""
    found = []
    for kind, _, _, k in terms[comparison[2] : comparison[3]].tolist():
        if kind == COUNT and not counted[k]:
            return False
        if kind not in (COUNT, SIZE):
            found.append(house[k] if kind == HOUSE else persons[k])
    if any(groups is None for groups in found):
        return False
    if comparison[0] < SAME_LEVEL:
        return True
    whole = [groups for groups in found if groups is not None]
    if all(np.array_equal(groups, np.arange(len(groups))) for groups in whole):
        return True
    # Of two different groups the levels differ; of one group they may.
    return bool(comparison[0] == OTHER_LEVEL and np.array_equal(whole[0], whole[-1]))


def _places(groups_of: Groups) -> dict[int, int]:
    """New place of each key that is kept."""
    kept = [k for k, groups in enumerate(groups_of) if groups is not None]
    return {k: place for place, k in enumerate(kept)}


def _drawn(keys: Int64, first: Int64, place_of: dict[int, int]) -> tuple[Int64, Int64]:
    """Keys of the stages that are kept, and where each stage begins."""
    stages = [
        [place_of[k] for k in keys[begin:end].tolist() if k in place_of]
        for begin, end in pairwise(first.tolist())
    ]
    return (
        np.array([k for stage in stages for k in stage], np.int64),
        np.cumsum([0, *map(len, stages)]).astype(np.int64),
    )


def _n_counts(terms: Int64) -> int:
    """Counts that comparisons take."""
    return int(terms[terms[:, 0] == COUNT, 3].max(initial=-1)) + 1
