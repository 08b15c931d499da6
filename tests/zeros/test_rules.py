"""What is a rule, what it means, and where an error points."""

from __future__ import annotations

import numpy as np
import pytest

from unikat.data import Key
from unikat.errors import SpecError
from unikat.zeros import Rule, Zeros
from unikat.zeros.conditions import MOST_CONDITIONS

AGES = set(range(90))


def levels_of(rule: str, keys: tuple[Key, ...], name: str) -> set[int]:
    """Levels of the one key that a rule is about."""
    found = Rule.of(rule, keys)
    assert found.keys == (name,)
    j = [key.name for key in keys].index(name)
    union = found.conditions.any(axis=0)[found.offsets[j] : found.offsets[j + 1]]
    return set(np.flatnonzero(union).tolist())


@pytest.mark.parametrize(
    ("rule", "name", "expected"),
    [
        ("AGE < 14", "AGE", set(range(14))),
        ("14 > AGE", "AGE", set(range(14))),
        ("AGE <= 14", "AGE", set(range(15))),
        ("AGE >= 88.5", "AGE", {89}),
        ("14 <= AGE < 18", "AGE", {14, 15, 16, 17}),
        ("18 > AGE >= 14", "AGE", {14, 15, 16, 17}),
        ("not 14 <= AGE < 18", "AGE", AGES - {14, 15, 16, 17}),
        ("AGE == 3 or AGE == 5", "AGE", {3, 5}),
        ("AGE in (3, 5,\n 7)", "AGE", {3, 5, 7}),
        ("AGE not in (3, 5)", "AGE", AGES - {3, 5}),
        ("not (AGE != 3)", "AGE", {3}),
        ("not not AGE == 3", "AGE", {3}),
        ("AGE < 5 AND NOT AGE < 3", "AGE", {3, 4}),
        ("AGE < 2 or AGE < 5 and AGE > 3", "AGE", {0, 1, 4}),
        ('AGE < "3"', "AGE", {0, 1, 2}),
        ("`AGE` == 3", "AGE", {3}),
        ("SEX == 'male'", "SEX", {0}),
        ("SEX == 1", "SEX", {0}),
        ('SEX == "1"', "SEX", {0}),
        ("'female' == SEX", "SEX", {1}),
        ("EDUC == 10", "EDUC", {3}),
        ('EDUC == "10"', "EDUC", {3}),
        ('EDUC == "high"', "EDUC", {3}),
        ("EDUC >= 2", "EDUC", {2, 3}),
        ("INCOME < 1000", "INCOME", {0, 1}),
        ("INCOME <= 999", "INCOME", {0, 1}),
        ("INCOME > 4999", "INCOME", {3}),
        ("INCOME < 0", "INCOME", {0}),
        ("INCOME > -1", "INCOME", {1, 2, 3}),
        ('INCOME == "0-999"', "INCOME", {1}),
        ("AGEG < 15", "AGEG", {1}),
        ("AGEG <= 14", "AGEG", {1}),
        ("AGEG < 25", "AGEG", {0, 1, 3}),
        ("AGEG > 70", "AGEG", {2}),
        ("AGEG >= 71", "AGEG", {2}),
        ("AGEG == 15", "AGEG", {0}),
        ('AGEG == "<15"', "AGEG", {1}),
        ("AGEG != '[25,70]'", "AGEG", {0, 1, 2, 3}),
        ("`years married` > 1", "years married", {2, 3}),
        ("`years married` is missing", "years married", {4}),
        ("`years married` is not missing", "years married", {0, 1, 2, 3}),
        # A missing value meets no comparison, and none that is turned round either.
        ("`years married` != 1", "years married", {0, 2, 3}),
        ("not `years married` == 1", "years married", {0, 2, 3}),
        ("`years married` not in (0, 1)", "years married", {2, 3}),
        ("CODE == 2", "CODE", {1}),
        ("WEIGHT < 2.5", "WEIGHT", {0}),
    ],
)
def test_levels(rule, name, expected, keys):
    assert levels_of(rule, keys, name) == expected


def test_key_against_key(keys):
    rule = Rule.of("AGE < `years married`", keys)
    cells = np.zeros((4, len(keys)), dtype=int)
    cells[:, 0] = [0, 4, 5, 39]
    cells[:, 5] = [0, 2, 2, 3]
    assert rule.forbids(cells).tolist() == [False, True, False, True]
    cells[:, 5] = 4  # missing, as a level
    assert not rule.forbids(cells).any()


# What begins at the character that is pointed at stands between « and ».
@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("«AEG» < 14", "no key is called 'AEG'. Did you mean 'AG"),
        ("AGE < 14 and «XYZ» == 1", "The keys are AGE, SEX"),
        ("SEX == «male»", "If a level of 'SEX' is meant, put it in quotes"),
        ("SEX == «'femal'»", "Did you mean 'female'?"),
        ("SEX in (1, «3»)", "'SEX' has no level 3. Its levels are 'male', 'female'"),
        ("AGE «=» 14", "write == for equal"),
        ("AGE < 14 «&» SEX == 1", "write and"),
        ("AGE < 14 «|»| SEX == 1", "write or"),
        ("«!»AGE < 14", "write not"),
        ("AGE < 14 and«»", "a comparison is expected here"),
        ("AGE«»", "not the end of the rule"),
        ("«(»AGE < 14", "never closed"),
        ("AGE < 14«)»", "never opened"),
        ("AGE < 14 «SEX» == 1", "'and', 'or' or the end is expected here, not 'SEX'"),
        ("SEX == «'»male", "not closed"),
        ("«`»AGE < 14", "not closed"),
        ("AGE in «3»", "list in parentheses"),
        ("AGE in («)»", "a level is expected here"),
        ("AGE in (3 «4»)", "a comma or ')'"),
        ("AGE in (3, «x»)", "put a text in quotes"),
        ("AGE not «3»", "in is expected after not"),
        ("AGE is «3»", "missing is expected after is"),
        ("«1» < 2", "one of them must be a key"),
        ("«1» in (2)", "a key stands before 'in'"),
        ("AGE < «in»", "stands in backquotes"),
        ("AGE < «1»4years", "neither a number nor a name"),
        ("AGE < 14 «#» why", "comment"),
        ("«AGE» is missing", "not a level"),
        ("`years married` == «'missing'»", "`years married` is missing"),
        ("INCOME < «500»", "cuts through the level '0-999'"),
        ("AGEG >= «20»", "cuts through the level '[16,24]'"),
        ("AGEG == «20»", "only a part of the level '[16,24]'"),
        ("WEIGHT > «2.5»", "cuts through the level '[2.5, 5)'"),
        ("AGE < «'old'»", "compares 'AGE' with a number"),
        ("CODE «<» 2", "values and labels of 'CODE' are different numbers"),
        ("CODE == «1»", "means several levels of 'CODE'"),
        ("AGE «==» AGE", "compared with itself"),
        ("AGE «<» AGEG", "not certain for the level '0' of 'AGE' and the level '<15' of 'AGEG'"),
        ("AGE < 14 and\nSEX == «3»\nor AGE > 80", "has no level 3"),
        ("AGE < 14 and\t\tSEX == «3»", "has no level 3"),
        ("(" * 100 + "«(»AGE < 3" + ")" * 101, "nested more than 100 deep"),
    ],
)
def test_errors_point_at_the_place(rule, message, keys):
    text = rule.replace("«", "").replace("»", "")
    place = rule.index("«")
    with pytest.raises(SpecError) as caught:
        Rule.of(text, keys)
    said = str(caught.value)
    assert message in said
    *_, shown, caret = said.split("\n")
    at = caret.index("^")
    assert caret == caret[:at] + "^"
    assert caret[:at].replace("\t", " ").isspace()
    pointed = shown[at : at + 1]
    assert pointed == text[place : place + 1].rstrip("\n")
    # The piece before the caret is what stands before the place in its line.
    assert text[:place].rpartition("\n")[2].endswith(shown[2:at][-20:])


def test_a_key_with_words_for_levels_has_no_order(keys):
    region = Key(name="REGION", levels=("n", "s"), labels=("north", "south"))
    with pytest.raises(SpecError, match=r"'north' is neither a number nor an interval.*in \("):
        Rule.of("REGION < 3", (*keys, region))


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("", "is empty"),
        ("  \n ", "is empty"),
        ("AGE > 200", "forbids nothing"),
        ("AGE < 3 and AGE > 5", "forbids nothing"),
        ("SEX == 1 and not SEX == 1", "forbids nothing"),
        ("AGE >= 0", "forbids everything"),
        ("SEX == 1 or SEX == 2", "forbids everything"),
        ("AGE < 14 or SEX == 1 or AGE >= 14 and SEX == 2", "forbids everything"),
        # Neither side alone is everything, and they do not unite to one condition.
        ("AGE < 14 and SEX == 1 or AGE >= 14 or SEX == 2", "forbids everything"),
    ],
)
def test_rules_that_say_nothing(rule, message, keys):
    with pytest.raises(SpecError, match=message):
        Zeros.of([rule], keys)


def test_names_and_numbers_of_rules(keys):
    with pytest.raises(SpecError, match=r"^Rule 2: "):
        Zeros.of(["AGE < 14", "AEG < 14"], keys)
    with pytest.raises(SpecError, match=r"^Rule 'young': "):
        Zeros.of([("young", "AEG < 14")], keys)
    with pytest.raises(SpecError, match=r"^The rule 'AEG < 14': "):
        Rule.of("AEG < 14", keys)


def test_a_rule_that_would_explode_is_refused():
    keys = [Key.of_size(f"K{j}", 3) for j in range(40)]
    pairs = " and ".join(f"(K{j} == 0 or K{j + 1} == 0)" for j in range(0, 40, 2))
    with pytest.raises(SpecError, match=f"more than {MOST_CONDITIONS:,} conditions"):
        Rule.of(pairs, keys)


def test_long_lines_are_cut_around_the_place(keys):
    text = " or ".join(f"AGE == {n}" for n in range(80)) + " or AEG == 3"
    with pytest.raises(SpecError) as caught:
        Rule.of(text, keys)
    *_, shown, caret = str(caught.value).split("\n")
    assert len(shown) < 110
    assert shown[caret.index("^") :].startswith("AEG")
