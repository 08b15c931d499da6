"""The little language of keys: what is a name, a rule, a value."""

from __future__ import annotations

import time

import pytest

from unikat.data import Design, read
from unikat.errors import DataError
from unikat.language.keys import Call, entry_of, key_of, split_keys
from unikat.spec.missing import missing_codes


def test_items_are_split_outside_of_parentheses() -> None:
    assert split_keys("A, B:cut(0, 5) ,C,") == ["A", "B:cut(0, 5)", "C"]
    assert split_keys("a: f(x; y); b", ";") == ["a: f(x; y)", "b"]


@pytest.mark.parametrize(
    ("text", "name", "rule"),
    [
        ("AGE", "AGE", None),
        ("AGE:width(5)", "AGE", "width(5)"),
        ("AGE : Width( 5 ) ", "AGE", "width(5)"),
        ("a:b:cut(0, 10)", "a:b", "cut(0,10)"),
        ("a:b", "a:b", None),
        ("in (EUR):width(5)", "in (EUR)", "width(5)"),
        ("AGE:width(5", "AGE:width(5", None),
        ("two\nlines:top(80)", "two\nlines", "top(80)"),
    ],
)
def test_a_key_is_a_name_and_a_rule(text: str, name: str, rule: str | None) -> None:
    found, call = key_of(text)
    assert (found, call and str(call)) == (name, rule)
    assert key_of(text, [text]) == (text, None), "what is a column has no rule"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("cut(0, -1.5)", (0.0, -1.5)), ("width()", ()), ("cut(1,x)", ()), ("cut(1,inf)", ())],
)
def test_numbers_of_a_rule(text: str, numbers: tuple[float, ...]) -> None:
    call = Call.of(text)
    assert call is not None
    assert call.numbers == numbers


def test_an_entry_is_split_at_the_first_or_the_last_sign_outside_of_parentheses() -> None:
    assert entry_of("a:b: c") == ("a", "b: c")
    assert entry_of("a:b: c", last=True) == ("a:b", "c")
    assert entry_of("(a:b) c") == ("", "(a:b) c")
    assert entry_of("a: f(x: y)", last=True) == ("a", "f(x: y)")
    assert entry_of(": a") == ("", "a")


def test_missing_codes_of_some_keys_and_of_all() -> None:
    assert missing_codes("x:y; AGE: 9,99; a:b: 3", ["AGE", "SEX"]) == {
        "AGE": ["x:y", "9", "99"],
        "SEX": ["x:y"],
        "a:b": ["x:y", "3"],
    }
    assert missing_codes("AGE: none; SEX: 9") == {"AGE": [], "SEX": ["9"]}


def test_a_name_of_many_characters_is_refused_at_once() -> None:
    import pandas as pd

    long = "k" * 70_000
    started = time.process_time()
    frame = pd.DataFrame({long: [1, 2, 1], "B": [1, 1, 2]})
    with pytest.raises(DataError, match="column 1 has 70,000 characters; names have at most 2,000"):
        read(frame, f"{long},B", Design(population_size=100))
    assert len(split_keys("(," * 35_000 + ")," * 35_000 + ",B")) == 2
    assert time.process_time() - started < 5
