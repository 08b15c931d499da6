"""Code systems as they are published, and the kinds of levels that are found."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from unikat.data import Design, read
from unikat.data.hierarchies import TREES, code_system, read_hierarchy
from unikat.data.keys import Key
from unikat.data.spans import span_of
from unikat.data.structure import structure_of
from unikat.errors import DataError, SpecError
from unikat.spec.level_kinds import SYSTEMS


def heights(name: str) -> list[int]:
    """Codes of a system at each height, from the top."""
    tree = code_system(name)
    paths = [
        {column[row] for column in tree.groups} | {tree.levels[row]}
        for row in range(len(tree.levels))
    ]
    found = Counter(map(len, paths))
    return [found[height] for height in sorted(found)]


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("isco08", [10, 43, 130, 436]),
        ("nace2", [21, 88, 272, 615]),
        ("isic4", [21, 88, 238, 419]),
        ("icd10", [22, 263, 2050]),
        ("soc2018", [23, 98, 459, 867]),
        # With a region outside of all others for each country and height.
        ("nuts2024", [27, 92 + 27, 244 + 27, 1165 + 27]),
        ("us_states", [4, 9, 51]),
        ("isced2011", [3, 9]),
    ],
)
def test_code_systems_are_whole(name: str, codes: list[int]) -> None:
    assert heights(name) == codes


def test_every_country_is_there_once() -> None:
    tree = code_system("iso3166")
    countries = [code for code in tree.levels if len(code) == 3 and code.isupper()]
    assert len(countries) == 249
    # Three codes for each, and the regions.
    assert tree.rows(["DE", "276", "DEU", "Germany"][:1], [""]) == tree.rows(["276"], [""])
    germany, taiwan = (row or 0 for row in tree.rows(["DEU", "TWN"], ["", ""]))
    assert [column[germany] for column in tree.groups] == ["Western Europe", "Europe"]
    # M49 has no subregion for it.
    assert [column[taiwan] for column in tree.groups] == ["TWN", "Asia"]


def test_each_system_says_where_it_is_from() -> None:
    assert {path.stem for path in TREES.glob("*.csv")} == {*SYSTEMS}
    for name in SYSTEMS:
        about = code_system(name).about
        assert {"name", "title", "version", "source", "taken", "levels"} <= {*about}
        tree = code_system(name)
        assert len(tree.titles) == len(tree.groups)
        assert all(tree.labels[code] for code in tree.levels)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("34", 34, 34),
        ("20-24", 20, 24),
        ("20 to 24 years", 20, 24),
        ("Age 20 to 24", 20, 24),
        ("65 and over", 65, np.inf),
        ("85+", 85, np.inf),
        ("94 and older", 94, np.inf),
        ("65 y más", 65, np.inf),
        ("under 5", -np.inf, 5),
        ("16 or less", -np.inf, 16),
        ("[20, 30)", 20, 30),
        ("over 90", 90, np.inf),
    ],
)
def test_texts_that_name_numbers(text: str, low: float, high: float) -> None:
    found = span_of(text)
    assert found is not None
    assert found.interval[:2] == (low, high)


@pytest.mark.parametrize("text", ["Aged care", "3rd", "10th", "a 5", "1,000 to 2,000", "", "over"])
def test_texts_that_name_none(text: str) -> None:
    assert span_of(text) is None


def key_of(name: str, levels: list[object], labels: list[str] | None = None, **more: str) -> Key:
    return Key(
        name=name,
        levels=tuple(levels),
        labels=tuple(labels or map(str, levels)),
        **more,  # type: ignore[arg-type]  # of fields of text
    )


@pytest.mark.parametrize(
    ("key", "kind", "why"),
    [
        (key_of("AGE", list(range(90))), "numeric", "age"),
        (key_of("rooms", [1, 2, 3]), "numeric", "assumed"),
        (key_of("rooms", [1, 2, 3], measure="scale"), "numeric", "scale"),
        (key_of("region", [1, 2, 3], measure="nominal"), "nominal", "measure"),
        (key_of("band", ["16-24", "25-64", "65 and over"]), "ordered", "spans"),
        (key_of("band", [1, 2], ["under 20", "20+"]), "ordered", "spans"),
        (key_of("place", [1, 2, 3], ["North", "South", "East"]), "nominal", "labels"),
        (key_of("place", ["N", "S"]), "nominal", "texts"),
        # Codes of places, which overlap as numbers.
        (key_of("place", ["25-503", "25-703", "26-100"]), "nominal", "texts"),
        (key_of("edu", [0, 1, 2, 3], ["No schooling", "Primary", "High school", "Master"]),
         "ordered", "words"),
        (key_of("health", [1, 2, 3], ["Very good", "Fair", "Bad"]), "ordered", "words"),
        # In another order than that of the codes.
        (key_of("edu", [0, 1, 2, 3], ["Master", "No schooling", "Primary", "High school"]),
         "nominal", "labels"),
        (key_of("ST", [9, 23, 50]), "hierarchical", "codes"),
        (key_of("code", ["01", "02"]), "nominal", "zeros"),
        (key_of("isco", [1, 2, 3]), "hierarchical", "codes"),
        # Without leading zeros, as a spreadsheet leaves them.
        (key_of("isco", [110, 1111, 2111]), "hierarchical", "codes"),
        (key_of("isco", [110, 1111, 2110]), "numeric", "assumed"),
        # Codes that are few and short are those of a list only if the column says so.
        (key_of("job", [1, 2, 3]), "numeric", "assumed"),
        (key_of("job", [1111, 1112, 2111]), "numeric", "assumed"),
        (key_of("year", list(range(1950, 2010))), "numeric", "assumed"),
        (key_of("cause", [f"A{n:02}.{n % 8}" for n in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)]),
         "hierarchical", "codes"),
        (key_of("ST", [1, 6], ["Alabama", "California"]), "hierarchical", "codes"),
        (key_of("x", ["a1", "a2", "b1"], told="prefix(1)", told_by="option"),
         "hierarchical", "option"),
        (key_of("edu", [1, 2], ["low", "high"], told="ordered", told_by="codebook"),
         "ordered", "codebook"),
    ],
)  # fmt: skip
def test_kinds_are_found_with_their_reason(key: Key, kind: str, why: str) -> None:
    found = structure_of(key)
    assert (found.kind, found.why) == (kind, why)


def test_ordered_categories_and_a_codebook() -> None:
    grades = pd.Categorical(["low", "high", "mid"] * 4, ["low", "mid", "high"], ordered=True)
    frame = pd.DataFrame({"grade": grades, "job": [1, 2, 3] * 4})
    book = {"job": {"kind": "ordered", "labels": {"1": "a", "2": "b", "3": "c"}}}
    keys = read(frame, ["grade", "job"], Design(population_size=100), codebook=book).keys
    assert [(structure_of(key).kind, structure_of(key).why) for key in keys] == [
        ("ordered", "source"),
        ("ordered", "codebook"),
    ]
    # What the user says goes before both.
    told = read(frame, ["grade", "job"], Design(population_size=100), codebook=book,
                levels={"grade": "nominal", "job": "numeric"}).keys  # fmt: skip
    assert [(structure_of(key).kind, structure_of(key).why) for key in told] == [
        ("nominal", "option"),
        ("numeric", "option"),
    ]
    with pytest.raises(SpecError, match="names no file of levels"):
        read(frame, ["grade", "job"], Design(population_size=100),
             codebook={"job": {"kind": "file(x.csv)"}})  # fmt: skip


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ({"place": "numeric"}, "3 of its 3 levels are no numbers"),
        ({"job": "isco08"}, "1 of its 3 levels are not in ISCO-08"),
        ({"jbo": "isco08"}, "has no column 'jbo'"),
    ],
)
def test_kinds_that_the_levels_contradict(levels: dict[str, str], said: str) -> None:
    frame = pd.DataFrame({"place": ["N", "S", "E"] * 4, "job": [1111, 2111, 8888] * 4})
    with pytest.raises(SpecError) as caught:
        read(frame, ["place", "job"], Design(population_size=100), levels=levels)
    assert said in str(caught.value)
    # Levels that only records tell are counted, not named.
    assert "8888" not in str(caught.value)


def test_a_tree_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("# levels: field, job\ncode,label,parent\nA,Farming,\nB,Trade,\n"
                    "1,Farmer,A\n2,Fisher,A\n3,Shopkeeper,B\n")  # fmt: skip
    tree = read_hierarchy(path)
    assert tree.levels == ("A", "B", "1", "2", "3")
    assert tree.groups == (("A", "B", "A", "A", "B"),)
    assert tree.titles == ("field",)
    key = key_of("job", [1, 2, 3], told=f"file({path})", told_by="option")
    assert structure_of(key).rows == (2, 3, 4)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("code,label,parent\nA,Farming\n", "another number of fields"),
        ("code,label,parent\nA,Farming,B\n", "the parent 'B' is no code"),
        ("code,label,parent\nA,Farming,\nA,Trade,\n", "a code in more than one row"),
        ("code,label,parent\nA,Farming,B\nB,Trade,A\n", "is above itself"),
        ("code,label,parent\nA,Farming,\n", "holds no groups"),
        ("# name: x\nlabel,code\nA,B\n", "write the header so"),
    ],
)
def test_trees_that_are_none(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=said):
        read_hierarchy(path)
