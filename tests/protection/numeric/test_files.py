"""`unikat protect --numeric` from a file to a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyreadstat
import pytest

import unikat
from unikat.cli.main import main
from unikat.errors import DataError, SpecError

KEYS = ["sex", "region"]
QUICK: dict[str, Any] = {
    "keys": KEYS, "population_size": 5000, "model": "latent-class", "max_sweeps": 40, "chains": 2,
    "workers": 1, "progress": False,
}  # fmt: skip


def people(n: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(8)
    frame = pd.DataFrame(
        {
            "sex": rng.integers(1, 3, n),
            "region": rng.integers(1, 6, n),
            "income": rng.lognormal(8.0, 1.0, n).round(2),
            "wealth": rng.lognormal(10.0, 1.0, n).round().astype(np.int64),
            "name": "x",
        }
    )
    frame.loc[[4, 9], "income"] = np.nan
    return frame


def protected(data: Any, numeric: Any, **more: Any) -> Any:
    return unikat.protect(data, **{**QUICK, "numeric": numeric, **more})


def test_a_file_whose_only_change_is_a_continuous_variable(tmp_path: Path) -> None:
    people().to_csv(tmp_path / "a.csv", index=False)
    out = tmp_path / "out"
    options = [part for name, value in QUICK.items() if name not in ("keys", "progress")
               for part in (f"--{name.replace('_', '-')}", str(value))]  # fmt: skip
    numeric = "income+wealth: microaggregate(3, by=region); "
    code = main(["protect", str(tmp_path / "a.csv"), "--keys", "sex,region", *options, "--quiet",
                 "--allow-unconverged", "--numeric", numeric, "--out", str(out)])  # fmt: skip
    assert code == 0
    before, after = pd.read_csv(tmp_path / "a.csv"), pd.read_csv(out / "protected.csv")
    assert after[["sex", "region", "name"]].equals(before[["sex", "region", "name"]])
    assert after["income"].isna().equals(before["income"].isna())
    sizes = after.groupby(["income", "wealth", "region"]).size()
    assert sizes.min() >= 3
    text = pd.read_csv(out / "protected.csv", dtype=str)
    assert text["wealth"].str.fullmatch(r"\d+").all()
    # All numbers are written alike: one that is the mean of its group is not told by its zeros.
    assert text["income"].dropna().str.fullmatch(r"\d+\.\d\d").all()
    found = json.loads((out / "protect.json").read_text())
    assert found["verdict"] is None
    # Keys are as they were, so nothing is fitted again.
    assert found["after"]["tau1"] == found["before"]["tau1"]
    assert found["before"] == found["refit"]
    income, wealth = found["numeric"]["columns"]
    assert income["together"] == ["wealth"]
    assert income["n_values"] == 198
    assert income["n_missing"] == 2
    assert income["n_changed"] == (before["income"] != after["income"]).sum() - 2
    assert wealth["kept"]["mean"]["before"] == pytest.approx(before["wealth"].mean())
    assert wealth["kept"]["mean"]["after"] == pytest.approx(after["wealth"].mean())
    linkage = found["numeric"]["risk"]["linkage"]
    assert [one["digits"] for one in linkage] == [None, 2, 1]
    assert linkage[0]["before"] == 1.0
    page = (out / "report.html").read_text()
    for word in ("Continuous variables", "IL1s", "within 5%"):
        assert word in page
    # The run is repeated from its record, and read again.
    again = unikat.protect(out / "protect.toml", trust_spec=True, progress=False)
    assert again.frame["income"].equals(unikat.load(out).frame["income"])
    assert unikat.load(out).summary.numeric == again.summary.numeric


def test_draws_are_those_of_the_seed_and_of_the_column() -> None:
    frame = people()
    one = protected(frame, "income: noise(10%)", perturbation_seed=5)
    two = protected(frame, "wealth: round(100); income: noise(10%)", perturbation_seed=5)
    assert one.frame["income"].equals(two.frame["income"])
    # Two columns with the same numbers are not changed alike.
    twins = protected(
        frame.assign(wealth=frame["income"]), "income: noise(10%); wealth: noise(10%)"
    )
    known = twins.frame["income"].notna()
    assert (twins.frame["income"] != twins.frame["wealth"])[known].mean() > 0.9
    other = protected(frame, "income: noise(10%)")
    assert other.spec.perturbation_seed is not None
    assert not other.frame["income"].equals(one.frame["income"])


def test_codes_of_spss_and_stata_stay(tmp_path: Path) -> None:
    frame = people().astype({"sex": float, "region": float, "wealth": float})
    frame.loc[:9, "wealth"] = -9.0
    frame.loc[10:14, "wealth"] = 999.0
    labels = {"wealth": {-9.0: "refused", 999.0: "unknown", 1e6: "a million"}}
    pyreadstat.write_sav(
        frame, tmp_path / "a.sav", variable_value_labels=labels,
        missing_ranges={"wealth": [-9, {"lo": 998, "hi": 999}]},
        column_labels={"wealth": "Wealth"}, variable_format={"wealth": "F10.0", "income": "F12.2"},
        variable_measure={"income": "scale"},
    )  # fmt: skip
    _, before = pyreadstat.read_sav(tmp_path / "a.sav", user_missing=True)
    out = tmp_path / "out"
    found = protected(tmp_path / "a.sav", "wealth: microaggregate(4); income: top(95%)", out=out)
    after, meta = pyreadstat.read_sav(out / "protected.sav", user_missing=True)
    assert (after["wealth"][:10] == -9.0).all()
    assert (after["wealth"][10:15] == 999.0).all()
    assert after["wealth"][15:].value_counts().min() >= 4
    assert (after["wealth"] % 1.0 == 0.0).all()
    for name in ("missing_ranges", "variable_measure", "original_variable_types",
                 "column_names_to_labels", "variable_value_labels"):  # fmt: skip
        assert getattr(meta, name) == getattr(before, name), name
    assert [one.n_missing for one in found.summary.numeric.columns] == [15, 2]

    letters = people().astype({"wealth": object, "income": float})
    letters.loc[:4, "wealth"] = "a"
    pyreadstat.write_dta(letters, tmp_path / "a.dta", missing_user_values={"wealth": ["a"]})
    protected(tmp_path / "a.dta", "wealth: round(1000)", out=tmp_path / "stata")
    after, meta = pyreadstat.read_dta(tmp_path / "stata" / "protected.dta", user_missing=True)
    assert (after["wealth"][:5] == "a").all()
    assert (after["wealth"][5:].astype(float) % 1000 == 0).all()


def test_types_of_parquet_stay(tmp_path: Path) -> None:
    frame = people()
    table = pa.table(
        {
            "sex": frame["sex"], "region": frame["region"],
            "small": pa.array(np.arange(200) % 120, pa.uint8()),
            "price": pa.array([f"{i}.50" for i in range(200)]).cast(pa.decimal128(9, 2)),
            "single": pa.array(frame["income"], pa.float32()),
            "category": pa.array([str(i % 50) for i in range(200)]).dictionary_encode(),
        }
    )  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet")
    numeric = {
        "small": "noise(50%)",
        "price": "round(10)",
        "single": "swap(10%)",
        "category": "top(40, bound)",
    }
    protected(tmp_path / "a.parquet", numeric, out=tmp_path / "out")
    after = pq.read_table(tmp_path / "out" / "protected.parquet")
    assert after.schema.field("small").type == pa.uint8()
    assert after.schema.field("price").type == pa.decimal128(9, 2)
    assert after.schema.field("single").type == pa.float32()
    assert {str(value) for value in after["price"].to_pylist()} <= {
        f"{i}0.00" for i in range(21)
    } | {"0.00"}
    assert sorted(after["single"].to_pylist(), key=str) == sorted(
        table["single"].to_pylist(), key=str
    )
    assert set(after["category"].to_pylist()) == set(map(str, range(41)))


def test_decimals_with_a_comma(tmp_path: Path) -> None:
    frame = people()
    frame["income"] = frame["income"].fillna(1.25)
    text = frame.to_csv(index=False, sep=";", decimal=",")
    (tmp_path / "a.csv").write_text(text)
    protected(tmp_path / "a.csv", "income: microaggregate(3)", out=tmp_path / "out")
    after = pd.read_csv(tmp_path / "out" / "protected.csv", sep=";", decimal=",")
    assert after["income"].value_counts().min() >= 3
    assert after["income"].mean() == pytest.approx(frame["income"].mean(), rel=1e-4)


def test_with_recoding_and_suppression() -> None:
    frame = people()
    frame["age"] = np.random.default_rng(1).integers(0, 80, len(frame))
    found = protected(
        frame, "income: microaggregate(3, by=age)", keys=[*KEYS, "age"],
        recode="age: width(40)", suppress="k >= 2", missing="integrate",
    )  # fmt: skip
    after = found.frame
    shown = after.dropna(subset=["income"]).fillna({"age": "none"})
    assert shown.groupby(["income", "age"]).size().min() >= 3
    assert found.summary.numeric.risk.keys_after < found.summary.numeric.risk.keys_before


def test_members_of_a_household_keep_one_value() -> None:
    frame = people()
    frame["home"] = np.arange(200) // 2
    frame["income"] = frame.groupby("home")["wealth"].transform("sum") + 0.25
    found = protected(
        frame, "income: noise(50%); wealth: microaggregate(3)", household="home",
        population_size=10_000,
    )  # fmt: skip
    after = found.frame
    assert (after.groupby("home")["income"].nunique() == 1).all()
    assert (after["income"] != frame["income"]).mean() > 0.9
    income, wealth = found.summary.numeric.columns
    assert income.by_household
    assert not wealth.by_household
    # Groups of a column of households have so many of them.
    grouped = protected(frame, "income: microaggregate(3)", household="home").frame
    assert grouped.groupby("income")["home"].nunique().min() >= 3


def test_members_of_households_that_are_units_keep_one_value() -> None:
    frame = people().assign(home=np.arange(200) // 2, role=["head", "other"] * 100)
    frame["region"] = frame["home"] % 5
    frame["income"] = frame["home"] ** 2
    found = protected(
        frame, "income: noise(50%)", model="households", household="home",
        household_keys=["region"], head="role == 'head'", population_households=1000, max_sweeps=10,
    )  # fmt: skip
    assert found.summary.numeric.columns[0].by_household
    assert (found.frame.groupby("home")["income"].nunique() == 1).all()


def test_a_column_that_stays_is_known_to_the_intruder() -> None:
    frame = people()
    alone = protected(frame, "income: microaggregate(5)").summary.numeric
    beside = protected(frame, "income: microaggregate(5); wealth: as it is")
    assert beside.frame["wealth"].equals(frame["wealth"])
    assert beside.summary.numeric.risk.linkage[0].after > alone.risk.linkage[0].after
    assert not any("No value of" in said for said in beside.summary.warnings)


@pytest.mark.parametrize(
    ("numeric", "error", "said"),
    [
        ("name: round(10)", DataError, "200 value(s) are not finite numbers"),
        ("incme: round(10)", DataError, "Did you mean 'income'"),
        ("region: round(10)", SpecError, "is a key"),
        ("income: microaggregate(500)", DataError, "198 number(s)"),
        ("income: round(10); income+wealth: microaggregate(3)", SpecError, "twice"),
        ("income+income: microaggregate(3)", SpecError, "twice"),
        ("income: microaggregate(3, by=wealth); wealth: round(10)", SpecError, "group by a column"),
        ("income: microaggregate(3, by=place)", DataError, "no column 'place'"),
        ("income: top(99%)", SpecError, "mean of fewer than 3"),
        ("born: round(10)", DataError, "holds no numbers"),
        ("vast: noise(10%)", DataError, "squares"),
    ],
)
def test_bad_input_has_one_message_before_the_fit(numeric: str, error: Any, said: str) -> None:
    frame = people()
    frame["born"], frame["vast"] = pd.Timestamp("2000-01-01"), 1e300
    with pytest.raises(error) as found:
        protected(frame, numeric, max_sweeps=10**6)
    assert said in str(found.value)


def test_labelled_numbers_are_told_of(tmp_path: Path) -> None:
    book = {"wealth": {"labels": {"999999": "refused"}, "missing": [-9]}}
    frame = people()
    frame.loc[:3, "wealth"] = 999_999
    frame.loc[4:5, "wealth"] = -9
    found = protected(frame, "wealth: round(10)", codebook=book)
    assert found.summary.numeric.columns[0].n_labelled == 4
    assert found.summary.numeric.columns[0].n_missing == 2
    assert any("4 values of wealth have labels" in said for said in found.summary.warnings)
    declared = protected(frame, "wealth: round(10)", missing_values={"wealth": [999_999, -9]})
    assert (declared.frame["wealth"][:4] == 999_999).all()
    assert declared.summary.numeric.columns[0].n_missing == 6


@pytest.mark.parametrize(
    ("numeric", "said"),
    [
        ("income: microaggregate(30)", r"sample of 0.05 .*--subsample.* 30 are needed"),
        ("income: top(90%)", r"sample of 0.05 .*a mean of fewer than 3"),
    ],
)
def test_the_smallest_sample_is_looked_at_before_the_fit(
    monkeypatch: pytest.MonkeyPatch, numeric: str, said: str
) -> None:
    def no_fit(*_: Any, **__: Any) -> Any:
        raise AssertionError("fitted")

    monkeypatch.setattr("unikat.jobs.job.complete_fit", no_fit)
    with pytest.raises((SpecError, DataError), match=said):
        protected(people(), numeric, subsample=0.05, perturbation_seed=1)


def test_methods_and_rules_that_change_nothing_are_told() -> None:
    frame = people()
    found = protected(
        frame,
        "income: top(1000000000), round(1000)",
        recode={"region": "top(50)"},
        population_size=len(frame),
    ).summary
    (income,) = found.numeric.columns
    assert income.n_changed
    assert income.idle == ("top(1000000000)",)
    warnings = " ".join(found.warnings)
    assert "top(50) changes no record of this file" in warnings
    assert "Nothing was changed by top(1000000000) of income" in warnings
