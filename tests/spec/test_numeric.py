"""Methods for continuous variables: how they are written."""

from __future__ import annotations

import pytest

from unikat.errors import SpecError
from unikat.spec.numeric import Method, columns_named
from unikat.spec.protection import ProtectionSpec


def asked(numeric: object, **more: object) -> ProtectionSpec:
    return ProtectionSpec.parse({"keys": "A,B", "numeric": numeric, **more})


@pytest.mark.parametrize(
    ("more", "role"),
    [
        ({"design": {"weights": "w"}}, "weight"),
        ({"columns": "w: identifier"}, "identifier"),
        ({"columns": "w: removed"}, "removed"),
        ({"columns": "w: household"}, "household"),
        ({"design": {"household": "w"}}, "household"),
    ],
)
def test_what_is_no_measurement_is_not_changed(more: dict[str, str], role: str) -> None:
    for numeric in ("w: round(10)", "income+w: microaggregate(3)"):
        with pytest.raises(SpecError, match=f"changed by --numeric, and is {role}"):
            asked(numeric, **more)
    asked("w: round(10)", columns="w: sensitive")


def test_a_text_and_a_mapping_say_the_same() -> None:
    text = asked("income+wealth: Microaggregate(3,by=region); wage: top(99%),round(100)")
    mapping = asked(
        {("income", "wealth"): "microaggregate(3, by=region)", "wage": ["top(99%)", "round(100)"]}
    )
    assert text.numeric == mapping.numeric
    assert text.numeric == {
        "income+wealth": ("microaggregate(3, by=region)",),
        "wage": ("top(99%)", "round(100)"),
    }
    # What is written repeats the run.
    assert asked(text.model_dump()["numeric"]).numeric == text.numeric


@pytest.mark.parametrize(
    "text",
    ["top(99%)", "top(50000, bound)", "bottom(0.5%)", "bottom(-3)", "round(0.05, random)",
     "microaggregate(5)", "microaggregate(5, by=a+b)", "noise(10%, preserving)", "swap(5%)",
     "as it is"],
)  # fmt: skip
def test_a_method_is_written_as_it_is_read(text: str) -> None:
    assert str(Method.of(text)) == text
    assert Method.of(text) == Method.of(f" {text.upper().replace('BY=A+B', 'by=a+b')} ")


@pytest.mark.parametrize(
    ("numeric", "said"),
    [
        ("income: microagregate(5)", "microaggregate"),
        ("income: top(100%)", "below 100%"),
        ("income: bottom(-1%)", "above 0%"),
        ("income: top(many)", "top(99%)"),
        ("income: top(99%, median)", "top(99%)"),
        ("income: round(0)", "from 1e-12 to 1e+12"),
        ("income: round(5%)", "round(100)"),
        ("income: microaggregate(1)", "2 or more"),
        ("income: microaggregate(2.5)", "whole number"),
        ("income: noise(0.1)", "noise(10%)"),
        ("income: swap(0%)", "above 0%"),
        ("income: swap", "swap(5%)"),
        ("income: round(1); income: round(2)", "named twice"),
        ("round(100)", "name each column"),
        ("income:", "name each column"),
    ],
)
def test_what_is_wrong_is_said(numeric: str, said: str) -> None:
    with pytest.raises(SpecError, match="numeric") as error:
        asked(numeric)
    assert said in str(error.value)


def test_a_column_with_a_plus_in_its_name_is_that_column() -> None:
    assert columns_named("a+b", ["a", "b", "a+b"]) == ["a+b"]
    assert columns_named("a+b", ["a", "b"]) == ["a", "b"]


def test_a_seed_belongs_to_methods_that_draw() -> None:
    assert asked("income: noise(5%)", perturbation_seed=3).is_random
    assert asked("income: round(10, random)").is_random
    assert not asked("income: top(99%), microaggregate(3)").is_random
    with pytest.raises(SpecError, match="draw"):
        asked("income: round(10)", perturbation_seed=3)


def test_continuous_variables_need_no_target() -> None:
    spec = asked("income: round(10)")
    assert not spec.seeks
    assert not spec.changes_keys
    with pytest.raises(SpecError, match="no target"):
        asked({})
