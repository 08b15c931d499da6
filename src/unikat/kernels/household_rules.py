"""Kernels of household rules: which rule a household breaks.

A rule is a disjunction of *clauses*. A clause names some different persons of the household, says
what each of them needs (a bit mask: levels of keys, which include those of a role), what the
household needs, and compares sums of numbers (values of the persons, counts, extremes, the size).
It holds if such persons are there. What is missing meets nothing.

Numbers are intervals, since a level may be a group and a missing value may be any: a comparison
holds only if it holds for all numbers of the intervals.

A household that is simulated is seen in *stages*: the keys of a stage are drawn for the household
and all its members, then the rules are looked at that can be decided.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unikat.kernels.jit import kernel, leaf

BITS = 62
"""Bits that are used of each word of a mask."""

LESS, AT_MOST, EQUAL, UNEQUAL, SAME_LEVEL, OTHER_LEVEL = range(6)
"""Comparisons of a sum with 0, and of the levels of two values."""
PERSON, HOUSE, SIZE, COUNT, LEAST, GREATEST = range(6)
"""What a term is."""

HOUSE_ROW, CHOSEN_ROW, FIRST_PERSON = 0, 1, 2
"""Rows of the scratch: the household, the persons chosen, the persons (the head first if apart)."""


(
    N_WORDS, HEAD_APART, N_CHOSEN, HOUSE_OFFSET, PERSON_OFFSET, HEAD_KEY, HEAD_ROW, HEAD_MASK,
    MASKS, NEEDS, RULE_FIRST, CLAUSES, COMPARISONS, TERMS, COUNTS, CONSTANTS, N_HEADER,
) = range(17)  # fmt: skip
"""Places in `code` of numbers, and of the places where sections begin (see `HouseholdRules`)."""


class HouseholdRules(NamedTuple):
    """Rules of households as arrays.

    What rules are made of lies in two arrays, because compiled code is fast where it passes few.
    `code` begins with `N_HEADER` numbers: words of a mask, 1 if the head is not among the members,
    most persons that a clause names, and the places of these sections:

    - HOUSE_OFFSET (n_household_keys), PERSON_OFFSET (n_person_keys): row of code -1 of each key;
      level l has the row l + 1 further on;
    - HEAD_KEY (n_household_keys): the person key of which it is the head's value, or -1;
      HEAD_ROW (n_person_keys): row of the head's value where it is no household key, or -1;
      HEAD_MASK (n_words): what the head always meets;
    - MASKS (n_rows, n_words): what each row meets; NEEDS (n_needs, n_words): bits that are needed;
    - RULE_FIRST (n_rules + 1): first clause of each rule;
    - CLAUSES (n_clauses, 4): need of the household (those of the persons follow), number of
      persons, first comparison, end of the comparisons;
    - COMPARISONS (n_comparisons, 4): which, number of persons that it must know, first term, end of
      the terms;
    - TERMS (n_terms, 4): what, sign (number of levels where levels are compared), of PERSON which
      person, and the key or the count;
    - COUNTS (n_counts, 3): a person counts who meets one of the needs from the first number up to
      the second; does not who meets one from the second up to the third.

    `numbers` holds the least and the largest number of each row, then from CONSTANTS on the
    constant of each comparison.
    """

    code: npt.NDArray[np.int64]
    """What the rules are made of."""
    numbers: npt.NDArray[np.float64]
    """Numbers of levels, and constants."""
    order: npt.NDArray[np.int64]
    """(n_rules,): the rules by stage. Within a stage they may be permuted: this changes the speed,
    and which of several broken rules is found, but not in which stage."""
    stage_first: npt.NDArray[np.int64]
    """(n_stages + 1,): first place of each stage in `order`."""
    house_keys: npt.NDArray[np.int64]
    """Household keys, by the stage that draws them; the others no rule reads."""
    house_first: npt.NDArray[np.int64]
    """(n_stages + 1,): first place of each stage in `house_keys`."""
    person_keys: npt.NDArray[np.int64]
    """Person keys, by the stage that draws them for all members; the others no rule reads."""
    person_first: npt.NDArray[np.int64]
    """(n_stages + 1,): first place of each stage in `person_keys`."""


def household_scratch(rules: HouseholdRules, n_slots: int) -> npt.NDArray[np.int64]:
    """Room that `first_broken` keeps between the stages of a household of at most `n_slots`."""
    code = rules.code
    n_keys = max(code[PERSON_OFFSET] - code[HOUSE_OFFSET], code[HEAD_KEY] - code[PERSON_OFFSET])
    width = max(int(code[N_WORDS] + n_keys), int(code[N_CHOSEN]))
    return np.zeros((FIRST_PERSON + n_slots + int(code[HEAD_APART]), width), np.int64)


@leaf
def _add(code, row, scratch, i, place):
    """Note that person or household i has a row, at a place; and what it meets."""
    n_words = code[N_WORDS]
    scratch[i, n_words + place] = row
    start = code[MASKS] + row * n_words
    for w in range(n_words):
        scratch[i, w] |= code[start + w]


@leaf
def _begin(code, n_members, scratch):
    """Forget the household before."""
    n_words = code[N_WORDS]
    for w in range(n_words):
        scratch[HOUSE_ROW, w] = 0
        for i in range(FIRST_PERSON, FIRST_PERSON + code[HEAD_APART] + n_members):
            scratch[i, w] = 0
    if code[HEAD_APART]:
        for w in range(n_words):
            scratch[FIRST_PERSON, w] = code[code[HEAD_MASK] + w]
        for k in range(code[HEAD_MASK] - code[HEAD_ROW]):
            scratch[FIRST_PERSON, n_words + k] = code[code[HEAD_ROW] + k]


@leaf
def _look(rules, stage, house_codes, member_codes, n_members, scratch):
    """Note what the keys of a stage meet; of the first stage after forgetting all."""
    code = rules.code
    if stage == 0:
        _begin(code, n_members, scratch)
    for place in range(rules.house_first[stage], rules.house_first[stage + 1]):
        k = rules.house_keys[place]
        _add(code, code[code[HOUSE_OFFSET] + k] + house_codes[k] + 1, scratch, HOUSE_ROW, k)
        p = code[code[HEAD_KEY] + k]
        if p >= 0:
            row = code[code[PERSON_OFFSET] + p] + house_codes[k] + 1
            _add(code, row, scratch, FIRST_PERSON, p)
    first = FIRST_PERSON + code[HEAD_APART]
    for place in range(rules.person_first[stage], rules.person_first[stage + 1]):
        k = rules.person_keys[place]
        start = code[code[PERSON_OFFSET] + k] + 1
        for i in range(n_members):
            _add(code, start + member_codes[i, k], scratch, first + i, k)


@leaf
def _meets(code, need, scratch, i):
    n_words = code[N_WORDS]
    start = code[NEEDS] + need * n_words
    for w in range(n_words):
        if scratch[i, w] & code[start + w] != code[start + w]:
            return False
    return True


@leaf
def _number_meeting(code, first, end, n_persons, scratch):
    """Number of persons who meet one of the needs."""
    n = 0
    for i in range(FIRST_PERSON, FIRST_PERSON + n_persons):
        for need in range(first, end):
            if _meets(code, need, scratch, i):
                n += 1
                break
    return n


@leaf
def _row(code, term, scratch):
    """Row of the value of a person or of the household."""
    k = code[N_WORDS] + code[term + 3]
    if code[term] == PERSON:
        return scratch[scratch[CHOSEN_ROW, code[term + 2]], k]
    return scratch[HOUSE_ROW, k]


@leaf
def _same_level(code, comparison, scratch):
    """Whether two values are the same level: 1, 0, or -1 if one is missing."""
    level = -1
    same = 0
    for t in range(code[comparison + 2], code[comparison + 3]):
        term = code[TERMS] + 4 * t
        offset = code[PERSON_OFFSET] if code[term] == PERSON else code[HOUSE_OFFSET]
        other = _row(code, term, scratch) - code[offset + code[term + 3]] - 1
        if other < 0 or other >= code[term + 1]:
            return -1
        same = 1 if other == level else 0
        level = other
    return same


@leaf
def _extreme(code, numbers, k, end, largest, n_persons, scratch):
    """Least (end 0) or largest (end 1) number that the extreme of a key may be."""
    value = np.inf if end else -np.inf
    for i in range(n_persons):
        x = numbers[2 * scratch[FIRST_PERSON + i, code[N_WORDS] + k] + end]
        if i == 0 or (x > value if largest else x < value):
            value = x
    return value


@leaf
def _end_of_term(code, numbers, term, end, n_persons, scratch):
    """Least (end 0) or largest (end 1) number of a term."""
    what = code[term]
    k = code[term + 3]
    if what <= HOUSE:
        return numbers[2 * _row(code, term, scratch) + end]
    if what == SIZE:
        return float(n_persons)
    if what == COUNT:
        # At least those who count for sure; at most all but those who do not for sure.
        at = code[COUNTS] + 3 * k + end
        n = _number_meeting(code, code[at], code[at + 1], n_persons, scratch)
        return float(n_persons - n) if end else float(n)
    return _extreme(code, numbers, k, end, what == GREATEST, n_persons, scratch)


@leaf
def _end_of_sum(code, numbers, c, end, n_persons, scratch):
    """Least (end 0) or largest (end 1) number that the sum of a comparison may be."""
    comparison = code[COMPARISONS] + 4 * c
    total = numbers[code[CONSTANTS] + c]
    for t in range(code[comparison + 2], code[comparison + 3]):
        term = code[TERMS] + 4 * t
        sign = code[term + 1]
        which = end if sign > 0 else 1 - end
        total += sign * _end_of_term(code, numbers, term, which, n_persons, scratch)
    return total


@leaf
def _holds(code, numbers, c, n_persons, scratch):
    """Whether a comparison holds for sure."""
    which = code[code[COMPARISONS] + 4 * c]
    if which >= SAME_LEVEL:
        same = _same_level(code, code[COMPARISONS] + 4 * c, scratch)
        return same == (1 if which == SAME_LEVEL else 0)
    for end in (1, 0):
        x = _end_of_sum(code, numbers, c, end, n_persons, scratch)
        if which == LESS:
            return x < 0.0
        if which == AT_MOST:
            return x <= 0.0
        if which == EQUAL:
            if x != 0.0:
                return False
        elif x < 0.0 if end else x > 0.0:
            return True
    return which == EQUAL


@leaf
def _clause_holds(code, numbers, clause, n_persons, scratch):
    """Whether persons can be chosen of whom a clause holds."""
    need = code[clause]
    n_chosen = code[clause + 1]
    end = code[clause + 3]
    if n_chosen > n_persons or not _meets(code, need, scratch, HOUSE_ROW):
        return False
    c = code[clause + 2]
    while c < end and code[code[COMPARISONS] + 4 * c + 1] == 0:
        if not _holds(code, numbers, c, n_persons, scratch):
            return False
        c += 1
    # Depth d chooses person d; the comparisons are sorted by the persons they must know.
    d = 0
    i = FIRST_PERSON
    while d < n_chosen:
        fits = False
        while i < FIRST_PERSON + n_persons and not fits:
            fits = _meets(code, need + 1 + d, scratch, i)
            for e in range(d):
                if scratch[CHOSEN_ROW, e] == i:
                    fits = False
            if fits:
                scratch[CHOSEN_ROW, d] = i
                for at in range(c, end):
                    if code[code[COMPARISONS] + 4 * at + 1] == d + 1 and not _holds(
                        code, numbers, at, n_persons, scratch
                    ):
                        fits = False
                        break
            i += 1
        if fits:
            d += 1
            i = FIRST_PERSON
        elif d == 0:
            return False
        else:
            d -= 1
            i = scratch[CHOSEN_ROW, d] + 1
    return True


@leaf
def rule_is_broken(code, numbers, rule, n_persons, scratch):
    """Whether a household breaks a rule, all of whose keys `first_broken` has seen."""
    first = code[RULE_FIRST] + rule
    for clause in range(code[first], code[first + 1]):
        if _clause_holds(code, numbers, code[CLAUSES] + 4 * clause, n_persons, scratch):
            return True
    return False


@leaf
def first_broken(rules, stage, house_codes, member_codes, n_members, scratch):
    """Look at the keys of one stage; return the first rule that it shows to be broken, or -1.

    house_codes (n_household_keys,) and member_codes (at least n_members, n_person_keys): codes, -1
    where missing, of which those of this stage are read. scratch: `household_scratch`. The stages
    of a household are passed one after the other from 0.
    """
    _look(rules, stage, house_codes, member_codes, n_members, scratch)
    code = rules.code
    numbers = rules.numbers
    n_persons = n_members + code[HEAD_APART]
    for place in range(rules.stage_first[stage], rules.stage_first[stage + 1]):
        rule = rules.order[place]
        if rule_is_broken(code, numbers, rule, n_persons, scratch):
            return rule
    return -1


@kernel
def broken_rules(rules, house_codes, member_codes, n_members, scratch, broken):
    """Tell for each household which rules it breaks, into broken (n, n_rules) bool.

    house_codes (n, n_household_keys); member_codes (n, n_slots, n_person_keys); n_members (n,).
    """
    for h in range(n_members.shape[0]):
        n_persons = n_members[h] + rules.code[HEAD_APART]
        for stage in range(rules.stage_first.shape[0] - 1):
            _look(rules, stage, house_codes[h], member_codes[h], n_members[h], scratch)
            for place in range(rules.stage_first[stage], rules.stage_first[stage + 1]):
                rule = rules.order[place]
                broken[h, rule] = rule_is_broken(
                    rules.code, rules.numbers, rule, n_persons, scratch
                )


@kernel
def first_rules(rules, house_codes, member_codes, n_members, scratch, found):
    """Tell for each household the first rule it breaks, stage by stage, or -1, into found (n,)."""
    for h in range(n_members.shape[0]):
        found[h] = -1
        for stage in range(rules.stage_first.shape[0] - 1):
            found[h] = first_broken(
                rules, stage, house_codes[h], member_codes[h], n_members[h], scratch
            )
            if found[h] >= 0:
                break
