"""What every message goes through: escapes, quotes that are cut, lists that end, a last bound."""

from __future__ import annotations

import json
from itertools import count

import pytest

from unikat.errors import DataError, bounded, brief, has_surrogates, listed, suggest, visible


@pytest.mark.parametrize("text", ["\x1b[2J", "\x00", "\x9b", "\r", "\u202e", "\udcff", "\u2028"])
def test_what_steers_a_terminal_is_an_escape_that_json_reads(text: str) -> None:
    said = visible(f"a{text}b")
    assert text not in said
    assert said.isprintable()
    assert json.loads(f'"{said}"') == f"a{text}b"


def test_letters_and_line_ends_stay() -> None:
    text = "Größe τ1 – ½ 漢字 שלום\n\t…"
    assert visible(text) == text
    assert has_surrogates("a\ud800")
    assert not has_surrogates(text)


@pytest.mark.parametrize("length", [79, 80, 81, 1_000, 10**6])
def test_a_long_text_keeps_its_ends(length: int) -> None:
    text = "b" + "x" * (length - 2) + "e"
    said = brief(text)
    assert (said == text) == (length <= 80)
    assert len(said) <= 83
    assert (said[0], said[-1]) == ("b", "e")
    assert brief("a\n  b\tc") == "a b c"


def test_lists_end() -> None:
    assert listed(["a"]) == "a"
    assert listed([str(i) for i in range(5)]) == "0, 1, 2, 3, 4"
    assert listed([str(i) for i in range(1_005)]) == "0, 1, 2, 3, 4 and 1,000 more"


def test_a_message_is_bounded_and_keeps_its_end() -> None:
    lines = ["first", *(f"  line {i} {'x' * 300}" for i in range(500)), "Remedy: name it."]
    said = str(DataError("\n".join(lines)))
    assert said.startswith("first\n")
    assert said.endswith("Remedy: name it.")
    assert len(said) < 1_250
    assert said.count("\n") < 15
    short = "\n".join(f"line {i}" for i in range(15))
    assert bounded(short) == short
    assert "2 lines left out" in bounded(short + "\nanother")


def test_a_suggestion_looks_at_a_bounded_number_of_short_candidates() -> None:
    assert suggest("x" * 81, ["x" * 80]) == ""
    assert suggest("x" * 80, ["x" * 81]) == ""
    endless = (f"{i:060}" for i in count())
    assert suggest("abcdef", endless) == ""
    assert int(next(endless)) <= 2_001
    assert suggest("aeg", ["AGE", "SEX"]) == " Did you mean 'AGE'?"
