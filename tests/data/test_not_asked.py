"""Codes that a file declares missing: who was not asked is a level, who refused is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from unikat.data import Design, read
from unikat.data.microdata import Microdata
from unikat.data.not_asked import Counted, telling_levels
from unikat.report.text.declared import declared_words
from unikat.spec.missing import missing_codes

pyreadstat = pytest.importorskip("pyreadstat", reason="the extra 'stat' is not installed")

DESIGN = Design(population_size=1_000_000)
NOT_ASKED = {-9: "Not applicable", -8: "Refused", -7: "No answer"}


def people(n: int = 1_000, slips: float = 0.01) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    age = rng.integers(0, 95, n)
    child = age < 15
    status = np.where(
        age < 16, -1, np.where(age > 66, 3, rng.choice([1, 2, 3], n, p=[0.7, 0.1, 0.2]))
    )
    occupation = np.where(child & (rng.random(n) >= slips), -9, rng.integers(1, 10, n))
    occupation[rng.random(n) < 0.02] = -8
    hours = np.where(status == 1, rng.integers(1, 5, n), -9)
    income = np.where(rng.random(n) < 0.15, -8, rng.integers(1, 6, n))
    wealth = np.where(income == -8, -8, rng.integers(1, 6, n))
    return pd.DataFrame(
        {
            "AGE": age, "OCC": occupation, "STATUS": status, "HOURS": hours, "INC": income,
            "WEALTH": wealth, "SEX": rng.integers(1, 3, n),
        }
    ).astype(float)  # fmt: skip


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spss") / "survey.sav"
    labels: dict[str, Any] = {
        "OCC": {1: "Managers", **NOT_ASKED},
        "STATUS": {1: "working", 2: "looking for work", 3: "inactive", -1: "Under 16"},
    }
    labels |= dict.fromkeys(("HOURS", "INC", "WEALTH"), NOT_ASKED)
    pyreadstat.write_sav(
        people(),
        path,
        variable_value_labels=labels,
        missing_ranges={name: [{"lo": -9, "hi": -1}] for name in labels},
    )
    return path


def levels_taken(microdata: Microdata) -> dict[str, dict[str, bool]]:
    return {
        key.name: {one.code: one.is_level for one in key.declared}
        for key in microdata.keys
        if key.declared
    }


def test_who_was_not_asked_is_a_level_and_who_refused_is_missing(survey: Path) -> None:
    microdata = read(survey, "AGE,OCC,STATUS,HOURS,INC,WEALTH,SEX", DESIGN)
    assert levels_taken(microdata) == {
        "OCC": {"-9": True, "-8": False},
        # Who does not work is told by the status alone, and of children the status by the age.
        "STATUS": {"-1": True},
        "HOURS": {"-9": True},
        # The same persons refuse both: nobody who was not asked.
        "INC": {"-8": False},
        "WEALTH": {"-8": False},
    }
    frame = people()
    missing = dict(zip((key.name for key in microdata.keys), microdata.n_missing, strict=True))
    assert missing["OCC"] == (frame["OCC"] == -8).sum()
    assert missing["HOURS"] == 0
    assert "Not applicable" in microdata.keys[1].labels


def test_ages_in_groups_tell_it_as_well(survey: Path) -> None:
    found = read(survey, "AGE:width(5),OCC,SEX", DESIGN)
    assert levels_taken(found)["OCC"] == {"-9": True, "-8": False}


def test_without_a_key_that_tells_it_the_code_is_missing_and_that_is_said(survey: Path) -> None:
    found = read(survey, "OCC,INC,SEX", DESIGN)
    assert levels_taken(found) == {"OCC": {"-9": False, "-8": False}, "INC": {"-8": False}}
    n = int((people()["OCC"] == -9).sum())
    said = declared_words(found.keys)
    assert f"OCC: taken as missing: -9 'Not applicable' ({n} records)" in said[0]
    # The example is the key with most records whose code may be an answer.
    n_refused = int((people()["INC"] == -8).sum())
    assert f"missing_values='{'OCC' if n > n_refused else 'INC'}: none'" in said[-1]
    (last,) = declared_words(tuple(reversed(found.keys)))[-1:]
    assert last == said[-1]


def test_few_other_answers_are_slips_and_many_are_none(tmp_path: Path) -> None:
    for slips, expected in ((0.0, True), (0.03, True), (0.2, False)):
        path = tmp_path / "survey.sav"
        pyreadstat.write_sav(
            people(4_000, slips),
            path,
            variable_value_labels={"OCC": NOT_ASKED},
            missing_ranges={"OCC": [-9, -8]},
        )
        found = read(path, "AGE,OCC,SEX", DESIGN)
        assert levels_taken(found)["OCC"]["-9"] is expected


def test_others_may_have_the_code_of_a_group_but_not_most_of_those_who_have_it(
    tmp_path: Path,
) -> None:
    """Adults who never worked have no occupation either, and no key tells who they are."""
    child = np.arange(1_000) < 200
    for n_others, expected in ((80, True), (400, False)):
        some = 2.0 + np.arange(1_000) % 2
        occupation = np.where(child | (np.arange(1_000) >= 1_000 - n_others), -9.0, some)
        frame = pd.DataFrame({"AGE": np.where(child, 1.0, 2.0), "OCC": occupation})
        path = tmp_path / "survey.sav"
        pyreadstat.write_sav(
            frame, path, variable_value_labels={"OCC": NOT_ASKED}, missing_ranges={"OCC": [-9, -8]}
        )
        assert levels_taken(read(path, "AGE,OCC", DESIGN))["OCC"]["-9"] is expected


def test_the_user_decides_by_key(survey: Path) -> None:
    keys = "AGE,OCC,INC"
    nothing = read(survey, keys, DESIGN, missing_values=missing_codes("OCC: none"))
    assert levels_taken(nothing) == {"OCC": {"-9": True, "-8": True}, "INC": {"-8": False}}
    assert {-9, -8} <= set(nothing.keys[1].levels)
    named = read(survey, keys, DESIGN, missing_values={"OCC": [-9]})
    assert levels_taken(named)["OCC"] == {"-9": False, "-8": False}
    book = {"INC": {"levels": [-8, 1, 2, 3, 4, 5]}}
    assert levels_taken(read(survey, keys, DESIGN, codebook=book))["INC"] == {"-8": True}
    told = read(survey, keys, DESIGN, answers={"INC": ["-8"]})
    assert levels_taken(told) == {"OCC": {"-9": False, "-8": False}, "INC": {"-8": True}}


def test_levels_that_chance_explains_tell_nothing() -> None:
    """A key of many levels with few records each has some of which all have the code."""
    rng = np.random.default_rng(4)
    n_accepted = 0
    for _ in range(200):
        has, level = rng.random(400) < 0.6, rng.integers(0, 150, 400)
        counted = Counted(np.bincount(level, minlength=150), np.bincount(level[has], minlength=150))
        n_accepted += bool(telling_levels([counted], 400, int(has.sum()))[0].any())
    # Each has a probability of at most 0.001, so two of 200 have one of about 0.02.
    assert n_accepted <= 1


def test_letters_of_stata_are_counted_by_key_with_their_labels(tmp_path: Path) -> None:
    frame = people()
    occupation = frame["OCC"].astype(object)
    n_asked, n_refused = int((frame["OCC"] == -9).sum()), int((frame["OCC"] == -8).sum())
    occupation[frame["OCC"] == -9], occupation[frame["OCC"] == -8] = "a", "z"
    path = tmp_path / "survey.dta"
    pyreadstat.write_dta(
        frame.assign(OCC=occupation),
        path,
        variable_value_labels={"OCC": {1: "Managers", "a": "Not applicable"}},
        missing_user_values={"OCC": ["a", "z"]},
    )
    everything = {"missing_values": missing_codes("OCC: none")}
    for keys, options, levels in (
        ("AGE,OCC,SEX", {}, {".a"}),
        ("OCC,SEX", {}, set()),
        ("OCC,SEX", everything, {".a", ".z"}),
        # A letter lies in no group of numbers.
        ("AGE,OCC:width(2),SEX", everything, set()),
    ):
        found = read(path, keys, DESIGN, **options)
        key = next(key for key in found.keys if key.name == "OCC")
        assert {one.code: (one.label, one.n_records) for one in key.declared} == {
            ".a": ("Not applicable", n_asked), ".z": (None, n_refused),
        }  # fmt: skip
        assert set(key.answers) == levels
        missing = n_asked * (".a" not in levels) + n_refused * (".z" not in levels)
        assert found.n_missing[found.keys.index(key)] == missing
    said = declared_words(read(path, "OCC,SEX", DESIGN).keys)
    assert said[0].startswith(f"OCC: taken as missing: .a 'Not applicable' ({n_asked} records)")
    assert "missing_values='OCC: none'" in said[1]
    assert len(said) == 2
