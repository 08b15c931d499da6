"""Plans that somebody else wrote: what they may not do to a file, nor to who carries them out."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.protection.test_declared import people, spss, stata
from tests.protection.test_labelled import recoded

from unikat.cli.main import main
from unikat.files.toml import read_toml, write_toml
from unikat.protection.codes import in_words
from unikat.protection.groups import joined_name

pyreadstat = pytest.importorskip("pyreadstat", reason="the extra 'stat' is not installed")
RARE = "Farmers, Miners, Sailors"


class Carried:
    """A file, a plan of it, and what becomes of other plans."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
        self.folder, self.capsys = folder, capsys
        frame = people()
        self.source = {"sav": spss, "dta": stata}.get(kind, self._csv)(
            folder / f"people.{kind}", frame
        )
        rules = {"occ": [[3, 4, 5]], "age": "width(10)"}
        _, plan = recoded(self.source, rules, keys=["occ", "age", "sex"])
        path = folder / "plan.toml"
        path.write_text(plan.to_toml(folder))
        self.plan = read_toml(path)
        self.out = folder / f"out.{kind}"

    @staticmethod
    def _csv(path: Path, frame: pd.DataFrame) -> Path:
        frame.astype(int).to_csv(path, index=False)
        return path

    def changed(self, place: int, **values: Any) -> dict[str, Any]:
        plan = deepcopy(self.plan)
        plan["keys"][place] |= values
        return plan

    def run(self, plan: dict[str, Any], *more: str) -> tuple[int, str]:
        path = self.folder / "foreign.toml"
        path.write_text(write_toml(plan))
        self.capsys.readouterr()
        command = ["apply", str(path), str(self.source), "--out", str(self.out)]
        code = main([*command, *more])
        shown = self.capsys.readouterr()
        text = " ".join(f"{shown.out} {shown.err}".split())
        assert "defect" not in text, text
        assert "\x1b" not in text
        assert self.out.exists() == (code != 1)
        return code, text

    def read(self) -> pd.DataFrame:
        if self.out.suffix == ".csv":
            return pd.read_csv(self.out, dtype=str)
        read = pyreadstat.read_sav if self.out.suffix == ".sav" else pyreadstat.read_dta
        found: pd.DataFrame = read(self.out, user_missing=True)[0]
        return found


@pytest.fixture(params=["sav", "dta"])
def labelled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> Carried:
    return Carried(tmp_path, capsys, request.param)


@pytest.fixture
def spss_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Carried:
    return Carried(tmp_path, capsys, "sav")


@pytest.fixture
def text_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Carried:
    return Carried(tmp_path, capsys, "csv")


@pytest.mark.parametrize("code", ["abc", ".q", ".a", 2**53 + 1, 2**63 - 1, "9" * 5000, 1, ""])
def test_codes_that_cannot_be_taken_are_replaced_and_told(labelled: Carried, code: Any) -> None:
    """They were defects; and valid persons got a letter of Stata, which means missing."""
    known, text = labelled.run(labelled.changed(0, codes={RARE: code}))
    assert known == 0
    assert f"'{RARE}'" in text
    assert "13" in text
    frame = people()
    assert (labelled.read()["occ"][frame["occ"].isin([3, 4, 5])] == 13).all()


def test_a_valid_group_does_not_get_a_code_that_means_missing(spss_file: Carried) -> None:
    """Farmers became "Refused", which the file declares missing."""
    known, text = spss_file.run(spss_file.changed(0, codes={RARE: -7}))
    assert known == 0
    assert "the plan's code -7" in text
    frame, found = people(), spss_file.read()["occ"]
    assert (found[frame["occ"].isin([3, 4, 5])] == 13).all()
    assert found[frame["occ"] < 0].equals(frame["occ"][frame["occ"] < 0])


def test_two_groups_do_not_get_one_code(spss_file: Carried) -> None:
    codes = dict(spss_file.plan["keys"][1]["codes"])
    first, second = list(codes)[:2]
    code, text = spss_file.run(spss_file.changed(1, codes=codes | {first: codes[second]}))
    assert code == 1
    assert "two groups have the same code" in text


@pytest.mark.parametrize("rule", ["quantile(4)", "rare(0.05)", "bands(0.1)", "file(/etc/passwd)"])
def test_a_rule_that_depends_on_records_is_refused(text_file: Carried, rule: str) -> None:
    """It did nothing, and the file was taken for recoded."""
    code, text = text_file.run(text_file.changed(1, rule=rule))
    assert code == 1
    assert "no rule of a plan" in text


@pytest.mark.parametrize(
    "name",
    ["\x1b[31mred", "a\x00b", "two\nlines", "=1+1", "@SUM(A1)", "-2+cmd|' /C calc'!A0", "x" * 1001],
)
def test_names_of_groups_that_steer_a_program_are_refused(text_file: Carried, name: str) -> None:
    code, text = text_file.run(text_file.changed(0, rule={"3": name, "4": name}, codes={}))
    assert code == 1
    assert "the name of a group" in text


@pytest.mark.parametrize("name", ["<b>", "-5 to -1", "+", "- none (of these)", "= ="[1:]])
def test_other_names_are_written_as_they_are(text_file: Carried, name: str) -> None:
    code, _ = text_file.run(text_file.changed(0, rule={"3": name, "4": name}, codes={}))
    assert code == (1 if name.strip().startswith("=") else 0)


def test_only_numbers_are_put_into_words() -> None:
    assert in_words("<script>") == "<script>"
    assert in_words("<= -5") == "-5 and under"


def test_names_made_of_labels_hold_no_characters_that_steer() -> None:
    assert joined_name(["one\ttwo", "\x1b[31mred", "a\nb"]) == "one two, [31mred, a b"


def test_a_name_that_is_not_the_column_of_its_key_is_refused(spss_file: Carried) -> None:
    plan = spss_file.changed(0, name="age")
    plan["keys"][1] |= {"name": "occ"}
    code, text = spss_file.run(plan)
    assert code == 1
    assert "'age'" in text
    assert "'occ'" in text


def test_two_rules_for_one_column_are_refused(spss_file: Carried) -> None:
    twice = spss_file.plan | {"removed": ["age"]}
    for plan in (spss_file.changed(0, name="age"), twice):
        code, text = spss_file.run(plan)
        assert code == 1
        assert "the plan does two things to the column 'age'" in text


def test_a_group_of_rare_levels_that_is_none_is_refused(text_file: Carried) -> None:
    code, text = text_file.run(text_file.changed(0, rest="elsewhere"), "--unseen", "group")
    assert code == 1
    assert "rest" in text


def test_a_plan_that_leaves_all_out_is_refused(labelled: Carried) -> None:
    """It was a defect, or told as a damaged file."""
    plan = deepcopy(labelled.plan)
    for key in plan["keys"]:
        key |= {"rule": "left out", "codes": {}, "labels": {}}
    code, text = labelled.run(plan)
    assert code == 1
    assert "All keys are left out" in text


def test_rules_of_impossible_combinations_have_no_use_in_a_plan(text_file: Carried) -> None:
    code, text = text_file.run({**text_file.plan, "zeros": {"rules": ["age < 14"]}})
    assert code == 1
    assert "zeros" in text


def test_what_a_plan_takes_as_missing_is_told(text_file: Carried) -> None:
    """It can make a limit of k seem met: the values stay in the file."""
    data = text_file.plan["data"] | {"missing_values": {"sex": [1]}}
    code, text = text_file.run({**text_file.plan, "data": data})
    assert code == 0
    assert "sex: taken as missing: 1 (" in text


def test_a_group_that_is_called_as_another_level_is_told(text_file: Carried) -> None:
    code, text = text_file.run(text_file.changed(0, rule={"1": "2", "2": "1"}, codes={}, labels={}))
    assert code == 0
    assert "a level that is not in it" in text


def test_a_plan_of_another_version_says_so(text_file: Carried) -> None:
    code, text = text_file.run({**text_file.plan, "schema": "unikat.plan/2"})
    assert code == 1
    assert "another version of unikat" in text
    assert "Did you mean" not in text
