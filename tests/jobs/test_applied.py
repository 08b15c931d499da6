"""Plans of samples carried out on whole populations, and what is known of the recoded file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.protection.test_labelled import recoded

from unikat.cli.main import main

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
ADULT = {
    "age": "bands(0.03)", "hours_per_week": "bands(0.05)", "native_country": "rare(0.02)",
    "education": "rare(0.04)", "occupation": "rare(0.04)", "sex": None,
}  # fmt: skip
ACS = {
    "AGEP": "bands(0.03)", "HISP": "rare(0.02)", "OCC": "rare(0.05)", "RAC1P": "rare(0.03)",
    "ESR": "rare(0.05)",
}  # fmt: skip


@pytest.mark.parametrize("key", ["", " "])
def test_a_key_without_a_column_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    """It was a defect (ValueError)."""
    (tmp_path / "x.csv").write_text("A,B\n1,2\n3,4\n")
    plan = tmp_path / "plan.toml"
    parts = [f"[[keys]]\nname = '{name}'\nkey = '{of}'\n" for name, of in (("A", key), ("B", "B"))]
    keys = "".join(parts)
    plan.write_text(f"schema = 'unikat.plan/1'\n{keys}")
    out = tmp_path / "y.csv"
    asked = ["apply", str(plan), str(tmp_path / "x.csv"), "--out", str(out)]
    assert main(asked) == 1
    assert "a key of a plan has a column" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("name", "book", "rules", "new"),
    [
        ("adult_48842", "adult_48842", ADULT, {"age", "hours_per_week", "native_country"}),
        ("acs2024_persons_west", "acs2024_persons", ACS, {"AGEP", "HISP", "OCC"}),
    ],
)
def test_a_plan_of_a_sample_serves_the_population(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    book: str,
    rules: dict[str, str | None],
    new: set[str],
) -> None:
    if not SHARED.is_dir():
        pytest.skip(f"the real data are not there ({SHARED})")
    codebook = SHARED / f"{book}.codebook.json"
    population = pd.read_parquet(SHARED / f"{name}.parquet")[list(rules)]
    source, whole = tmp_path / "sample.parquet", tmp_path / "population.parquet"
    population.sample(400, random_state=1).to_parquet(source, index=False)
    population.to_parquet(whole, index=False)
    made, plan = recoded(source, rules, codebook=str(codebook), keys=list(rules))
    path, out = tmp_path / "plan.toml", tmp_path / "all.parquet"
    path.write_text(plan.to_toml(tmp_path))
    command = ["apply", str(path), str(whole), "--out", str(out), "--quiet"]
    command += ["--codebook", str(codebook)]
    assert main(command) == 1
    assert "--unseen group" in capsys.readouterr().err
    assert not out.exists()
    assert main([*command, "--unseen", "group"]) == 0
    found = pd.read_parquet(out)
    sample, small = pd.read_parquet(source), made.table.to_pandas()
    unseen = set()
    for key in plan.keys:
        if key.rule == "left out":
            assert key.name not in found
            continue
        assert isinstance(key.rule, dict)
        column, text = population[key.name], found[key.name].astype(str)
        known = dict(zip(sample[key.name], small[key.name].astype(str), strict=True))
        # Levels of the sample become what they were there, but for a band that a new level begins.
        others = sorted(set(column) - set(known))
        unseen |= {key.name} if others else set()
        groups = {level: known[level] for level in known if known[level] != str(level)}
        for level in sorted(set(column)):
            shown = set(text[column == level])
            assert len(shown) == 1, (key.name, level)
            (value,) = shown
            if level in groups:
                assert value == groups[level], (key.name, level)
            elif level not in known and key.rest is not None:
                assert value == str(key.codes.get(key.rest, key.rest)), (key.name, level)
            elif level not in known:
                far = min(abs(other - level) for other in known)
                near = [other for other in known if abs(other - level) == far]
                joined = [groups[other] for other in near if other in groups]
                beside = {set(text[column == other]).pop() for other in near}
                assert value in (joined or beside), (key.name, level)
            else:
                assert value == str(level) or str(level) in value, (key.name, level)
    assert new <= unseen


def persons(path: Path) -> tuple[Path, Path]:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"age": rng.integers(20, 60, 300), "sex": rng.integers(1, 3, 300)})
    source = path / "persons.csv"
    frame.to_csv(source, index=False)
    _, plan = recoded(source, {"age": "width(5)"}, keys=["age", "sex"])
    (path / "plan.toml").write_text(plan.to_toml(path))
    return source, path / "plan.toml"


def test_columns_of_a_plan_are_found_under_names_that_read_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, plan = persons(tmp_path)
    plan.write_text(plan.read_text().replace("removed = []", 'removed = ["full_name"]'))
    frame = pd.read_csv(source).astype({"age": "Int64", "sex": "Int64"})
    frame.loc[3] = pd.NA
    frame = frame.assign(**{"Full Name": "x", "ssn": np.arange(300) + 123_456_000})
    frame.to_csv(source, index=False)
    assert main(["apply", str(plan), str(source), "--out", str(tmp_path / "new.csv")]) == 0
    shown = capsys.readouterr()
    told = " ".join((shown.out + shown.err).split())
    assert "that the plan does not name and that are copied: ssn" in told
    assert list(pd.read_csv(tmp_path / "new.csv")) == ["age", "sex", "ssn"]


@pytest.mark.parametrize(
    ("target", "code", "words"),
    [
        ("k >= 3", 0, "Limit met: k ≥ 3."),
        ("k >= 100", 3, "Limit not met: k ≥ 100. The smallest combination of key values has"),
        ("tau1 <= 5", 3, "Not known whether the limit is met: τ1 ≤ 5."),
        ("population_k >= 3", 3, "This run does not compute the measure."),
        ("tau1 < 5", 1, "is no limit"),
        (None, 0, "Nothing was estimated"),
    ],
)
def test_what_is_counted_is_judged(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    target: str | None,
    code: int,
    words: str,
) -> None:
    source, plan = persons(tmp_path)
    out = tmp_path / "out.csv"
    command = ["apply", str(plan), str(source), "--out", str(out)]
    assert main([*command, *(["--target", target] if target else [])]) == code
    said = capsys.readouterr()
    text = " ".join((said.out + said.err).split())
    assert words in text
    assert out.exists() == (code != 1)
    if code != 1:
        sizes = pd.read_csv(out).groupby(["age", "sex"]).size()
        unit = "sample unique" if (sizes == 1).sum() == 1 else "sample uniques"
        assert f"{(sizes == 1).sum()} {unit};" in text
        assert f"smallest combination of keys has {sizes.min()} record" in text
