"""The grammar of rules: what rules of households have that those of persons do not."""

from __future__ import annotations

import pytest

from unikat.errors import SpecError
from unikat.language.rules import Comparison, Count, KeyRef, Literal, Size, names_in, parse


def test_a_sign_belongs_to_the_number_that_follows() -> None:
    for text in ("AGE > -3", "AGE>-3", "AGE > - 3"):
        for households in (False, True):
            found = parse(text, households=households)
            assert isinstance(found, Comparison)
            ((sign, literal),) = found.right
            assert sign == 1
            assert literal == Literal(value=-3, position=text.index("-"))


def test_only_rules_of_households_have_a_size() -> None:
    persons, households = (parse("size > 3", households=which) for which in (False, True))
    assert isinstance(persons, Comparison)
    assert isinstance(households, Comparison)
    assert persons.left == ((1, KeyRef(name="size", position=0)),)
    assert households.left == ((1, Size(position=0)),)


def test_sums_and_counts_are_of_households() -> None:
    found = parse("count(AGE < 3) - 1 == head.AGE", households=True)
    assert isinstance(found, Comparison)
    (_, count), (sign, one) = found.left
    assert isinstance(count, Count)
    assert (sign, one) == (-1, Literal(value=1, position=17))
    for text in ("AGE + 1 > 3", "count(AGE < 3) == 1", "AGE - 1 > 3"):
        with pytest.raises(SpecError, match=r"a comparison .* is expected here"):
            parse(text)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("count(SEX == 1 and AGE < 3) > min(AGE)", ("SEX", "AGE")),
        ("head.AGE - `a b` > 3 or not REL in (1, 2)", ("head.AGE", "a b", "REL")),
        ("head.`a b` is missing", ("head.a b",)),
        ("size > 3", ()),
    ],
)
def test_names_of_keys(text: str, names: tuple[str, ...]) -> None:
    assert names_in(parse(text, households=True)) == names
