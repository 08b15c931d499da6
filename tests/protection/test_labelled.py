"""Protected files with labels: what was written is read again, with its codes and labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unikat._typing import Bool, Int32
from unikat.cli.main import main
from unikat.data import Design, read
from unikat.data.writers import write_records
from unikat.jobs.applied import plan_keys
from unikat.protection.recoding import parse_recoding
from unikat.protection.released import Released, released
from unikat.spec.plan import PlanSpec

pyreadstat = pytest.importorskip("pyreadstat", reason="the extra 'stat' is not installed")

RELIGION = {
    1: "No religion", 2: "Christian", 3: "Muslim", 4: "Hindu", 5: "Sikh", 6: "Jewish",
    7: "Other religion", -8: "Not asked", 99: "Refused",
}  # fmt: skip
HEALTH = {1: "Very good", 2: "Good", 3: "Fair", 4: "Bad", 5: "Very bad"}
KEYS = ["religion", "health", "age", "area", "sex"]
LONG = "A county with a very long name " * 4
AREAS = {"N": "North", "S": "South", "E": LONG[:119], "W": "West"}


def people(n: int = 500) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    shares = [0.4, 0.4, 0.1, 0.02, 0.02, 0.02, 0.02, 0.02]
    return pd.DataFrame(
        {
            "id": np.arange(n, dtype=float),
            "religion": rng.choice([1.0, 2, 3, 4, 5, 6, -8, 99], n, p=shares),
            "health": rng.choice([1.0, 2, 3, 4, 5], n, p=[0.3, 0.4, 0.2, 0.08, 0.02]),
            "age": np.where(rng.random(n) < 0.02, np.nan, rng.integers(0, 98, n)),
            "area": rng.choice(["N", "S", "E", "W"], n, p=[0.5, 0.46, 0.02, 0.02]),
            "sex": rng.choice([1.0, 2.0], n),
            "income": np.round(rng.gamma(2.0, 1000.0, n), 2),
        }
    )


def written(path: Path, frame: pd.DataFrame) -> Path:
    # Columns of text are as wide as their longest value.
    area = frame["area"].where(np.arange(len(frame)) > 0, frame["area"].str.ljust(6))
    pyreadstat.write_sav(
        frame.assign(area=area),
        path,
        compress=path.suffix == ".zsav",
        file_label="a survey",
        column_labels={"religion": "Religion of the person", "income": "Income, in pounds"},
        variable_value_labels={
            "religion": RELIGION,
            "health": HEALTH,
            "area": AREAS,
            "sex": {1: "male", 2: "female"},
            "age": {97: "97 and over"},
        },
        missing_ranges={"religion": [99, {"lo": -9, "hi": -1}], "age": [{"lo": 998, "hi": 999}]},
        variable_measure={"religion": "nominal", "health": "ordinal", "age": "scale"},
        variable_format={"income": "F12.2", "religion": "F2.0", "area": "A6"},
    )
    return path


def recoded(
    source: Any,
    rules: dict[str, Any],
    out: Path | None = None,
    *,
    codebook: Any = None,
    keys: list[str] = KEYS,
    suppress: Bool | None = None,
    show: Int32 | None = None,
) -> tuple[Released, PlanSpec]:
    """Recode a file, and write it if a path is given."""
    microdata = read(source, keys, Design(population_size=10_000), codebook=codebook)
    table = microdata.tabulate()
    recoding = parse_recoding(table, rules)
    codes = table.cells[table.record_cell]
    made = released(microdata, codes, recoding, suppress, show, codebook=codebook)
    if out is not None:
        write_records(out, made.table, microdata.source, made.labels, letters=made.letters)
    plan = PlanSpec(keys=plan_keys(recoding, keys, microdata.keys, made))
    return made, plan


@pytest.mark.parametrize("ending", ["sav", "zsav"])
def test_codes_and_labels_of_spss(tmp_path: Path, ending: str) -> None:
    frame = people()
    source = written(tmp_path / f"survey.{ending}", frame)
    _, before = pyreadstat.read_sav(source, user_missing=True)
    out = tmp_path / f"out.{ending}"
    rules = {
        "religion": "rare(0.05)",
        "health": "bands(0.15)",
        "age": "top(65)",
        "area": "rare(0.05)",
    }
    made, _ = recoded(source, rules, out)
    found, meta = pyreadstat.read_sav(out, user_missing=True)
    # Codes that stay keep code and label; the group has a code that no value and no label had.
    religion = meta.variable_value_labels["religion"]
    assert religion == {
        1: "No religion", 2: "Christian", 3: "Muslim", 14: "other (Hindu, Sikh, Jewish)",
        -8: "Not asked", 99: "Refused",
    }  # fmt: skip
    joined = frame["religion"].isin([4, 5, 6])
    assert (found.loc[joined, "religion"] == 14).all()
    assert found.loc[~joined, "religion"].equals(frame.loc[~joined, "religion"])
    # Bands of an ordered key, and ages: as they were, or 65 and over.
    assert meta.variable_value_labels["health"] == {
        1: "Very good", 2: "Good", 13: "Fair, Bad, Very bad",
    }  # fmt: skip
    assert meta.variable_value_labels["age"] == {165: "65 and over"}
    young = ~(frame["age"] >= 65)
    assert found.loc[young, "age"].equals(frame.loc[young, "age"])
    assert set(found.loc[~young, "age"]) == {165}
    # Text stays text of its width, and labels have at most 120 bytes.
    assert set(found["area"]) == {"N", "S", "G1"}
    assert meta.variable_value_labels["area"]["N"] == "North"
    label = meta.variable_value_labels["area"]["G1"]
    assert label.startswith("other (A county with a very long name")
    assert label.endswith("... and 1 other)")
    assert len(label.encode()) <= 120
    for name in ("missing_ranges", "variable_measure", "original_variable_types", "file_label",
                 "column_names_to_labels", "variable_storage_width"):  # fmt: skip
        assert getattr(meta, name) == getattr(before, name), name
    assert found[["id", "sex", "income"]].equals(frame[["id", "sex", "income"]])
    assert meta.variable_value_labels["sex"] == {1: "male", 2: "female"}
    # The report says which levels were joined.
    assert made.changes[0].joined == (("other (Hindu, Sikh, Jewish)", ("Hindu", "Sikh", "Jewish")),)


@pytest.mark.slow
def test_codes_of_groups_are_free_of_codes_that_mean_missing(tmp_path: Path) -> None:
    frame = people()
    frame["age"] = frame["age"].fillna(998.0)
    source = tmp_path / "survey.sav"
    pyreadstat.write_sav(frame, source, missing_ranges={"age": [{"lo": 98, "hi": 10**9}]})
    out = tmp_path / "out.sav"
    recoded(source, {"age": "width(20)"}, out, keys=["age", "sex"])
    found, meta = pyreadstat.read_sav(out, user_missing=True)
    missing = frame["age"] == 998
    assert found.loc[missing, "age"].eq(998).all()
    groups = found.loc[~missing, "age"]
    assert (groups < 98).all()
    assert set(meta.variable_value_labels["age"].values()) == {
        "0-19", "20-39", "40-59", "60-79", "80-99",
    }  # fmt: skip
    read_again, _ = pyreadstat.read_sav(out)
    assert read_again["age"].isna().equals(missing)


def test_suppressed_and_perturbed_levels_lose_their_labels(tmp_path: Path) -> None:
    frame = people()
    source, out = written(tmp_path / "survey.sav", frame), tmp_path / "out.sav"
    # All who are Hindu lose the value; all Sikh are shown as Jewish.
    gone = np.zeros((len(frame), len(KEYS)), np.bool_)
    gone[frame["religion"] == 4, 0] = True
    microdata = read(source, KEYS, Design(population_size=10_000))
    table = microdata.tabulate()
    show = table.cells[table.record_cell].copy()
    sikh, jewish = (microdata.keys[0].levels.index(code) for code in (5, 6))
    show[show[:, 0] == sikh, 0] = jewish
    recoded(source, {}, out, suppress=gone, show=show)
    found, meta = pyreadstat.read_sav(out, user_missing=True)
    assert set(meta.variable_value_labels["religion"]) == {1, 2, 3, 6, -8, 99}
    expected = frame["religion"].mask(frame["religion"] == 4).replace(5, 6)
    assert found["religion"].equals(expected)
    # Columns that nothing was done to keep all their labels.
    assert meta.variable_value_labels["health"] == HEALTH


def test_stata_keeps_letters_and_labels(tmp_path: Path) -> None:
    frame = people(200)
    income = frame["income"].astype(object)
    income[:5] = "a"
    religion = frame["religion"].replace({-8: 2.0, 99: 1.0}).astype(object)
    religion[:3] = "b"
    source, out = tmp_path / "survey.dta", tmp_path / "out.dta"
    pyreadstat.write_dta(
        frame.assign(income=income, religion=religion),
        source,
        variable_value_labels={
            "religion": {code: label for code, label in RELIGION.items() if 0 < code < 99}
            | {"b": "Refused"},
            "income": {"a": "Not asked"},
        },
        missing_user_values={"income": ["a"], "religion": ["b"]},
    )
    recoded(source, {"religion": "rare(0.05)"}, out)
    found, meta = pyreadstat.read_dta(out, user_missing=True)
    assert found["income"][:5].tolist() == ["a"] * 5
    assert found["religion"][:3].tolist() == ["b"] * 3
    assert meta.variable_value_labels["income"] == {"a": "Not asked"}
    assert meta.variable_value_labels["religion"] == {
        1: "No religion", 2: "Christian", 3: "Muslim", 14: "other (Hindu, Sikh, Jewish)",
        "b": "Refused",
    }  # fmt: skip
    assert found["area"].tolist() == frame["area"].tolist()


def test_suppressed_values_have_no_letter(tmp_path: Path) -> None:
    frame = people(200)
    religion = frame["religion"].replace({-8: 2.0, 99: 1.0}).astype(object)
    religion[:3] = "b"
    source, out = tmp_path / "survey.dta", tmp_path / "out.dta"
    pyreadstat.write_dta(
        frame.assign(religion=religion), source, missing_user_values={"religion": ["b"]}
    )
    microdata = read(source, ["religion", "sex"], Design(population_size=10_000), missing="level")
    table = microdata.tabulate()
    gone = np.zeros((len(frame), 2), np.bool_)
    gone[[1, 5], 0] = True
    codes = table.cells[table.record_cell]
    made = released(microdata, codes, parse_recoding(table, {}), gone)
    write_records(out, made.table, microdata.source, made.labels, letters=made.letters)
    found, _ = pyreadstat.read_dta(out, user_missing=True)
    assert found["religion"].isna().to_numpy().nonzero()[0].tolist() == [1, 5]
    assert found["religion"][[0, 2]].tolist() == ["b", "b"]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_codebook_is_written_beside_files_without_labels(tmp_path: Path, ending: str) -> None:
    frame = people().assign(religion=lambda d: d["religion"].astype(int))
    source = tmp_path / f"survey.{ending}"
    if ending == "csv":
        frame.to_csv(source, index=False)
    else:
        frame.to_parquet(source)
    book = {
        "religion": {
            "labels": {str(code): label for code, label in RELIGION.items()},
            "missing": [-8, 99],
        },
        "age": "in years",
        "sex": {"1": "male", "2": "female"},
    }
    made, plan = recoded(source, {"religion": "rare(0.05)", "area": None}, codebook=book)
    assert made.codebook is not None
    assert made.codebook["religion"] == {
        "labels": {
            "1": "No religion", "2": "Christian", "3": "Muslim",
            "14": "other (Hindu, Sikh, Jewish)",
            "-8": "Not asked", "99": "Refused",
        },
        "missing": [-8, 99],
    }  # fmt: skip
    assert made.codebook["sex"] == book["sex"]
    joined = frame["religion"].isin([4, 5, 6])
    expected = frame["religion"].mask(joined, 14).astype(str)
    assert [str(value) for value in made.table["religion"].to_pylist()] == expected.tolist()
    # The plan does the same to another file, and writes its codebook.
    (tmp_path / "book.json").write_text(json.dumps(book))
    data = plan.data.model_copy(update={"codebook": tmp_path / "book.json"})
    path = tmp_path / "plan.toml"
    path.write_text(plan.model_copy(update={"data": data}).to_toml(tmp_path))
    out = tmp_path / f"again.{ending}"
    assert not main(["apply", str(path), str(source), "--out", str(out), "--quiet"])
    assert json.loads((tmp_path / "again.codebook.json").read_text()) == made.codebook
    again = pd.read_csv(out, dtype=str) if ending == "csv" else pq.read_table(out).to_pandas()
    assert again["religion"].astype(str).tolist() == expected.tolist()


def test_ordered_categories_stay_ordered() -> None:
    grades = ["none", "low", "mid", "high"]
    values = ["low"] * 40 + ["mid"] * 40 + ["high"] * 3 + ["none"] * 2
    frame = pd.DataFrame(
        {"grade": pd.Categorical(values, grades, ordered=True), "n": [1, 2, 3, 4, 5] * 17}
    )
    made, _ = recoded(frame, {"grade": "bands(0.1)"}, keys=["grade", "n"])
    column = made.table["grade"].combine_chunks()
    assert pa.types.is_dictionary(column.type)
    assert column.type.ordered
    assert column.dictionary.to_pylist() == ["none, low", "mid, high"]
    unordered = frame.assign(grade=frame["grade"].cat.as_unordered())
    made, _ = recoded(unordered, {"grade": "rare(0.1)"}, keys=["grade", "n"])
    column = made.table["grade"].combine_chunks()
    assert not column.type.ordered
    assert column.dictionary.to_pylist() == ["other (none, high)", "low", "mid"]


def applied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *more: str
) -> tuple[int, str, Path]:
    """Carry a plan of a sample out on a file that has levels which it lacked."""
    sample = people()
    sample = sample[~sample["religion"].isin([6.0]) & (sample["health"] != 3)]
    source = written(tmp_path / "survey.sav", sample)
    _, plan = recoded(
        source, {"religion": "rare(0.05)", "health": "bands(0.1)", "age": "width(10)"}
    )
    path = tmp_path / "plan.toml"
    path.write_text(plan.to_toml(tmp_path))
    population = people(900)
    population.loc[0:2, "religion"] = 7.0
    other, out = written(tmp_path / "population.sav", population), tmp_path / "all.sav"
    code = main(["apply", str(path), str(other), "--out", str(out), *more])
    said = capsys.readouterr()
    return code, " ".join((said.out + said.err).split()), out


def test_levels_that_the_sample_lacked_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said, out = applied(tmp_path, capsys)
    n = int((people(900)["religion"] == 6).sum())
    assert code == 1
    assert f"'Jewish' ({n} records)" in said
    assert "'Other religion' (3 records)" in said
    assert "--unseen group" in said
    assert not out.exists()


def test_levels_that_the_sample_lacked_go_into_groups(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said, out = applied(tmp_path, capsys, "--unseen", "group")
    assert code == 0
    assert "'Other religion' (3 records), not in the plan, put into 'other (Hindu, Sikh)'" in said
    found, meta = pyreadstat.read_sav(out, user_missing=True)
    # The same codes as in the sample.
    religion = meta.variable_value_labels["religion"]
    assert religion[14] == "other (Hindu, Sikh, Jewish, Other religion)"
    population = people(900)
    population.loc[0:2, "religion"] = 7.0
    joined = population["religion"].isin([4, 5, 6, 7])
    assert set(found.loc[joined, "religion"]) == {14}
    assert found.loc[~joined, "religion"].equals(population.loc[~joined, "religion"])
    # Fair lies between Good, which stays, and the band of Bad and Very bad.
    assert set(found.loc[population["health"] >= 3, "health"]) == {14}
    assert meta.variable_value_labels["health"] == {
        1: "Very good", 2: "Good", 14: "Fair, Bad, Very bad",
    }  # fmt: skip
    assert set(found["age"].dropna()) == {100.0 + 10 * n for n in range(10)}


def test_a_level_that_only_records_tell_is_named_by_its_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.DataFrame({"town": ["a"] * 50 + ["b"] * 40 + ["c", "d"], "n": [1, 2] * 46})
    _, plan = recoded(frame, {"town": "rare(0.1)"}, keys=["town", "n"])
    path = tmp_path / "plan.toml"
    path.write_text(plan.to_toml(tmp_path))
    other = frame.copy()
    other.loc[[3, 7], "town"] = "secret"
    other.to_csv(tmp_path / "other.csv", index=False)
    command = ["apply", str(path), str(tmp_path / "other.csv")]
    command += ["--out", str(tmp_path / "out.csv")]
    assert main(command) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "1 level that no codebook names (2 records, data rows 4, 8)" in said
    assert "secret" not in said
    assert main([*command, "--unseen", "group"]) == 0
    found = pd.read_csv(tmp_path / "out.csv")["town"]
    assert found.tolist() == [
        "other (c, d)" if town in "cd" or len(town) > 1 else town for town in other["town"]
    ]
    assert "secret" not in capsys.readouterr().out
