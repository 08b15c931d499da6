"""TOML and JSON that are damaged or hostile: one short message, whatever they hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from unikat.errors import SpecError
from unikat.files.json import parse_json
from unikat.files.toml import parse_toml, read_toml, toml_value
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.model import ModelSpec

DEEP = 20_000


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a = " + "[" * DEEP, "nested too deeply"),
        ("a = " + "{b = " * DEEP, "nested too deeply"),
        ("a = " + "9" * 5000, "more than 64 bits"),
        ("a = 0x" + "f" * 5000, "more than 64 bits"),
        ("a = [[{b = 9223372036854775808}]]", "more than 64 bits"),
        ("a = -9223372036854775809", "more than 64 bits"),
        ("a = 1979-02-30", "at line 1"),
        ("a = ", "at end of document"),
        ("\x00", "at line 1"),
    ],
)
def test_hostile_toml(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=told) as error:
        parse_toml(text)
    assert len(str(error.value)) < 200
    assert type(error.value) is ValueError
    path = tmp_path / "spec.toml"
    path.write_text(text)
    with pytest.raises(SpecError, match=told):
        read_toml(path)


def test_whole_numbers_of_64_bits_are_read() -> None:
    text = "a = [9223372036854775807, -9223372036854775808]"
    assert parse_toml(text) == {"a": [2**63 - 1, -(2**63)]}


@pytest.mark.parametrize("text", ["9" * 5000, "0x" + "f" * 5000, "[" * DEEP, "{a=" * DEEP, "1e"])
def test_a_value_that_is_none_stays_a_text(text: str) -> None:
    assert toml_value(text) == text
    assert ModelSpec.of(f"gom:components={text}").options == {"components": text}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[" * DEEP, "nested too deeply"),
        ('{"a":' * DEEP, "nested too deeply"),
        ("9" * 5000, "thousands of digits"),
        ("NaN", "a number that is none"),
        ('[1, "x", -Infinity]', "a number that is none"),
        ("{1: 2}", r"not valid JSON \(line 1"),
        ("", "not valid JSON"),
        (b"\xff\xfe\x00", "UTF-8"),
    ],
)
def test_hostile_json(text: str | bytes, told: str) -> None:
    with pytest.raises(ValueError, match=told) as error:
        parse_json(text)
    assert len(str(error.value)) < 200
    assert type(error.value) is ValueError


def test_constants_are_read_where_python_wrote_them() -> None:
    assert parse_json("[Infinity]", constants=True) == [float("inf")]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"max_sweeps": 1}, "max_sweeps is 1; it must be .*at least 2 and at most 1,000,000,000"),
        ({"max_sweeps": 10**18}, "max_sweeps is 10*; it must be .*at most 1,000,000,000"),
        ({"max_seconds": float("inf")}, "max_seconds is inf; it must be above 0 and at most"),
        ({"max_seconds": float("nan")}, "max_seconds is nan; it must be above 0 and at most"),
        ({"max_seconds": -1}, "max_seconds is -1; it must be above 0"),
        ({"threads": 10**12}, "threads is 10*; it must be at least 1 and at most 256"),
        ({"workers": 10**9}, "workers is 10*; it must be at least 1 and at most 1,024"),
        ({"chains": 10**9}, "chains is 10*; it must be at least 1 and at most 1,024"),
        ({"chains": 10**5000}, "chains is a whole number of about 5,00. digits"),
        ({"seed": -1}, "seed is -1; it must be at least 0"),
        ({"seed": 10**5000}, "seed is a whole number of about 5,00. digits"),
        ({"rhat": float("inf")}, "rhat is inf; it must be above 1 and at most 1,000,000"),
        ({"ess": float("inf")}, "ess is inf; it must be above 0 and at most"),
        ({"thin": 10**12}, "thin is 10*; it must be at least 1 and at most"),
    ],
)
def test_sizes_of_a_specification_are_bounded(values: dict[str, object], told: str) -> None:
    with pytest.raises(SpecError, match=told) as error:
        AssessmentSpec.parse({"sampling": values})
    assert len(str(error.value)) < 300
