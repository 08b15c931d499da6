"""Decimals after a comma: read where nothing else can be meant, or where the user says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from unikat.data import Design, Microdata, read
from unikat.errors import UnikatError

DESIGN = Design(population_size=10_000)


def text(tmp_path: Path, values: list[str], design: Design = DESIGN, **options: Any) -> Microdata:
    """Read a file with semicolons whose column X has these values, each three times."""
    path = tmp_path / "x.csv"
    rows = [f"{i % 2};{i % 3};{value}" for i, value in enumerate(values * 3)]
    path.write_text("\n".join(["A;B;X", *rows]) + "\n")
    return read(path, options.pop("keys", "A,X:cut(12)"), design, **options)


def refused(*arguments: Any, **options: Any) -> str:
    with pytest.raises(UnikatError) as caught:
        text(*arguments, **options)
    return str(caught.value)


def test_found_in_a_key(tmp_path: Path) -> None:
    microdata = text(tmp_path, ["12,5", "11,75", "7", "-3,25", "13,5e0", ",5", ""])
    assert microdata.keys[1].labels == ("< 12", ">= 12")
    assert microdata.tabulate().n_missing == (0, 3)
    cut = text(tmp_path, ["12,5", "11,75", "2"], keys="A,X:width(0.5)").keys[1].labels
    assert cut == ("[2, 2.5)", "[11.5, 12)", "[12.5, 13)")


def test_found_beside_codes_of_missing_values(tmp_path: Path) -> None:
    values = ["12,5", "refused", "11,75", "99,9"]
    message = refused(tmp_path, values)
    assert "key 'X': 3 value(s) are not finite numbers" in message
    assert "--missing-values" in message
    assert text(tmp_path, values, missing_values=["refused", "99,9"]).n_missing == (0, 6)


def test_found_in_weights(tmp_path: Path) -> None:
    design = Design(weights="X")
    table = text(tmp_path, ["12,5", "20,25", "7"], design, keys="A,B").tabulate()
    assert table.sampling is not None
    # They are scaled to their sum as a whole number.
    assert table.population_size == 119
    assert table.sampling.weights[:3] == pytest.approx([12.5, 20.25, 7.0], rel=0.003)
    numbers = text(tmp_path, ["12,5", "20,25", "7"], keys="A,B").numbers("X")
    assert numbers.tolist() == [12.5, 20.25, 7.0] * 3


def test_what_could_be_thousands_is_asked(tmp_path: Path) -> None:
    values = ["1,234", "12,500", "7"]
    message = refused(tmp_path, values)
    assert "key 'X': 6 value(s) are not finite numbers, so cut(12) cannot group them" in message
    assert "6 of them have a comma" in message
    assert "say --decimal , (in Python: decimal=',')" in message
    assert "1,234" not in message
    assert text(tmp_path, values, decimal=",").keys[1].labels == ("< 12", ">= 12")
    # A number below one with three decimals is no number of thousands.
    assert text(tmp_path, ["0,500", "12,500"]).keys[1].labels == ("< 12", ">= 12")
    design = Design(weights="X")
    assert "say --decimal ," in refused_weights(tmp_path, values, design)
    assert text(tmp_path, values, design, keys="A,B", decimal=",").tabulate().population_size == 62


def refused_weights(tmp_path: Path, values: list[str], design: Design, **options: Any) -> str:
    microdata = text(tmp_path, values, design, keys="A,B", **options)
    with pytest.raises(UnikatError) as caught:
        microdata.tabulate()
    return str(caught.value)


def test_points_and_commas_together(tmp_path: Path) -> None:
    message = refused(tmp_path, ["12,5", "11.75", "7"])
    assert "3 of them have a comma" in message
    message = refused(tmp_path, ["1.234,5", "11,75"], decimal=",")
    assert "3 of them have a point, and decimals were taken to follow a comma" in message
    assert "If it separates thousands, remove it" in message
    design = Design(weights="X")
    assert "values are no numbers" in refused_weights(tmp_path, ["12,5", "11.75"], design)


def test_a_point_that_is_asked_for(tmp_path: Path) -> None:
    assert "have a comma" in refused(tmp_path, ["12,5", "11,75"], decimal=".")
    assert "decimal=';') must be a point or a comma" in refused(tmp_path, ["1"], decimal=";")
    assert text(tmp_path, ["12.5", "11.75"]).keys[1].labels == ("< 12", ">= 12")


def test_numbers_are_no_texts() -> None:
    frame = pd.DataFrame({"A": [1, 2, 1, 2], "X": [12.5, 11.75, 12.5, 7]})
    design = Design(weights="X")
    for decimal in (None, ","):
        microdata = read(frame, "A,X:cut(12)", design, decimal=decimal)
        assert microdata.keys[1].labels == ("< 12", ">= 12")
        assert microdata.tabulate().population_size == 44


def test_levels_are_in_order_of_their_numbers(tmp_path: Path) -> None:
    values = ["10", "9,5", "2,25", "-1"]
    assert text(tmp_path, values, keys="A,X", decimal=",").keys[1].levels == (
        "-1",
        "2,25",
        "9,5",
        "10",
    )
