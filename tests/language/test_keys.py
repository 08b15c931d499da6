"""The little language of keys: what is a name, a rule, a value."""

from __future__ import annotations

import shlex
import time

import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from unikat.data import Design, read
from unikat.errors import DataError
from unikat.language.keys import Call, entries_of, entry_of, key_of, quoted, split_keys
from unikat.spec.kinds import PROTECT
from unikat.spec.missing import missing_codes, split_codes
from unikat.spec.recodings import tables_of, weights_of
from unikat.web.drafts import Draft


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


PIECES = st.sampled_from([*'ab1 ,;:=+()"', "ä", ":width(5)", '""', ": x"])
NAMES = st.lists(PIECES, min_size=1).map("".join).filter(lambda name: name == name.strip())


@given(st.lists(NAMES, min_size=1, max_size=4))
@settings(max_examples=200, deadline=None)
def test_any_names_make_a_list_in_quotes(names: list[str]) -> None:
    assert split_keys(", ".join(map(quoted, names))) == names
    assert split_keys("+".join(map(quoted, names)), "+") == names
    tables = ";".join(",".join(map(quoted, names)) for _ in range(2))
    assert tables_of(tables) == [names, names]


@given(st.lists(NAMES, min_size=1, max_size=4, unique=True), st.booleans())
@settings(max_examples=200, deadline=None)
def test_any_name_stands_before_a_value_in_quotes(names: list[str], last: bool) -> None:
    values = ["cut(18,65)", "left out", "file(a;b:c.csv)", "width(5), width(10)"]
    entries = list(zip(names, values, strict=False))
    text = "; ".join(f"{quoted(name)}: {value}" for name, value in entries)
    assert entries_of(text, last=last) == entries
    weights = ",".join(f"{quoted(name)}=2" for name in names)
    assert weights_of(weights) == dict.fromkeys(names, "2")
    assert split_codes("-1; " + "; ".join(f"{quoted(name)}: 9,8" for name in names)) == (
        "-1",
        dict.fromkeys(names, "9,8"),
    )
    # A rule follows a quoted name, but where a column is named like both.
    assume(f"{names[0]}:width(5)" not in names)
    assert [key_of(item, names)[0] for item in split_keys(f"{quoted(names[0])}:width(5), x")] == [
        names[0],
        "x",
    ]


@given(st.lists(NAMES, min_size=2, max_size=3, unique=True))
@settings(max_examples=50, deadline=None)
def test_the_command_of_the_workbench_names_any_column(names: list[str]) -> None:
    draft = Draft(
        path="a.csv",
        keys=tuple(names),
        groupings={names[0]: "width(5)"},
        of_keys={"levels": dict.fromkeys(names, "nominal"), "keep": {names[1]: "yes"}},
        kind=PROTECT,
    )
    draft = draft.updated({"columns": f"{quoted(names[0])}: other"}, ["columns"])
    words = shlex.split(draft.command("o"))
    given_ = dict(zip(words[3::2], words[4::2], strict=True))
    assert split_keys(given_["--keys"]) == [f"{names[0]}:width(5)", *names[1:]]
    assert dict(entries_of(given_["--levels"], last=True)) == dict.fromkeys(names, "nominal")
    assert split_keys(given_["--keep"]) == [names[1]]


def test_a_quotation_mark_within_a_name_is_a_character_like_others() -> None:
    assert split_keys('5" pipe, 6" pipe') == ['5" pipe', '6" pipe']
    assert split_keys('"open, b') == ['"open', "b"]
    assert entry_of('head: REL == "a; b"') == ("head", 'REL == "a; b"')
    # Each mark looks no further than the next one: else this would take very long.
    assert len(split_keys('"' * 20_001 + ", " * 20_000)) == 1


def test_the_message_shows_how_the_name_is_written() -> None:
    frame = pd.DataFrame({"a, b": [1, 2, 2], "c:d": [1, 1, 2]})
    with pytest.raises(DataError, match=r"""in double quotes: '"a, b"'"""):
        read(frame, "a, b, c:d", Design(population_size=9))
    keys = read(frame, '"a, b":cut(2), c:d', Design(population_size=9)).keys
    assert [key.name for key in keys] == ["a, b", "c:d"]
