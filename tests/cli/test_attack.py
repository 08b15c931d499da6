"""`unikat attack`: the folder, the way back from it, Python, and bad input."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unikat
from synthesis.attacks.test_model_free import simulated
from unikat.cli.main import main
from unikat.spec.attack import AttackSpec
from unikat.spec.kinds import ATTACK
from unikat.spec.trust import SHOWN

KEYS = ["A", "B", "C", "D", "E"]


def attacked(*arguments: str) -> list[str]:
    """Call the command, with all keys unless others are named."""
    keys = [] if "--keys" in arguments else ["--keys", ",".join(KEYS)]
    return ["attack", "original.csv", *keys, *arguments]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, codes in zip(("original", "made", "control"), simulated(), strict=True):
        pd.DataFrame(codes, columns=KEYS).to_csv(f"{name}.csv", index=False)
    return tmp_path


def run(*options: str, folder: str = "out") -> dict[str, Any]:
    assert main(attacked("--quiet", "--out", folder, *options)) == 0
    found: dict[str, Any] = json.loads(Path(folder, "attack.json").read_text())
    del found["provenance"]["started"]
    return found


def refused(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert main(attacked("--quiet", "--out", "out", *options)) == 1
    assert not Path("out").exists()
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("Error: ")
    assert "Traceback" not in said.err
    return said.err


def test_the_folder_repeats_the_attack_and_python_gives_the_same(capsys):
    found = run("--synthetic", "made.csv", "--control", "control.csv")
    # The records are those of an intruder who knows the model.
    files = set(ATTACK.files) - set(ATTACK.others)
    assert {path.name for path in Path("out").iterdir() if path.name[0] != "."} == files
    if os.name == "posix":
        assert all(stat.S_IMODE(Path("out", name).stat().st_mode) == 0o600 for name in files)
    assert main(["attack", "out/attack.toml", "--trust-spec", "--out", "again", "--quiet"]) == 0
    again = json.loads(Path("again/attack.json").read_text())
    del again["provenance"]["started"]
    assert again == found
    frames = [pd.read_csv(f"{name}.csv") for name in ("original", "made", "control")]
    answer = unikat.attack(frames[0], synthetic=[frames[1]], control=frames[2], keys=KEYS)
    assert answer.table["rate"].tolist() == [one["rate"]["value"] for one in found["attacks"]]
    assert answer.summary.sentences == found["sentences"]
    assert main(["attack", "out/attack.toml", "--trust-spec", "--out", "out"]) == 1
    assert "--overwrite" in capsys.readouterr().err


def test_the_terminal_shows_the_answer_and_every_attack(capsys):
    assert main(attacked("--synthetic", "made.csv", "--out", "out")) == 0
    said = capsys.readouterr().out
    found = json.loads(Path("out/attack.json").read_text())
    assert " ".join(found["sentences"]["answer"].split()) in " ".join(said.split())
    assert said.count("Inference: ") >= len(KEYS)
    assert "--control" in said


def test_formats_and_folders_are_read_alike(here: Path):
    frame = pd.read_csv("made.csv")
    (here / "folder").mkdir()
    frame.to_parquet("folder/synthetic_10.parquet")
    frame.astype(str).to_csv("folder/synthetic_2.csv", index=False)
    frame.astype(float).to_csv("folder/synthetic_1.csv", index=False)
    (here / "folder" / "utility.json").write_text("{}")
    pyreadstat = pytest.importorskip("pyreadstat")
    labels = {"A": {code: f"level {code}" for code in range(6)}}
    pyreadstat.write_sav(frame, "made.sav", variable_value_labels=labels)
    pyreadstat.write_dta(frame, "made.dta")
    found = run("--synthetic", "folder,made.sav,made.dta", "--control", "control.csv")
    assert [one["name"] for one in found["synthetic"]] == [
        "synthetic_1.csv", "synthetic_2.csv", "synthetic_10.parquet", "made.sav", "made.dta",
    ]  # fmt: skip
    assert all(len(set(one["by_file"])) == 1 for one in found["attacks"])


def test_targets_that_are_no_keys_are_learned_from_all_keys():
    found = run("--synthetic", "made.csv", "--keys", "A,B,C,D", "--targets", "E", "--link", "B")
    assert found["link"] == [["B"], ["A", "C", "D"]]
    assert {one["target"] for one in found["attacks"]} == {None, "E"}
    exact = next(one for one in found["attacks"] if one["name"] == "attribute disclosure")
    frames = [pd.read_csv(f"{name}.csv") for name in ("original", "made")]
    known = ["A", "B", "C", "D"]
    told = frames[1].groupby(known)["E"].agg(["nunique", "first"]).query("nunique == 1")["first"]
    right = frames[0].set_index(known)["E"] == told.reindex(frames[0].set_index(known).index)
    assert exact["rate"]["value"] == pytest.approx(right.mean())


def test_missing_values_are_values_of_their_own():
    for name in ("original", "made"):
        frame = pd.read_csv(f"{name}.csv")
        frame.loc[frame["C"] == 2, "C"] = None
        frame.to_csv(f"{name}-gaps.csv", index=False)
    gaps = unikat.attack("original-gaps.csv", synthetic="made-gaps.csv", keys=KEYS)
    whole = unikat.attack("original.csv", synthetic="made.csv", keys=KEYS)
    assert [one.rate for one in gaps.summary.attacks] == [one.rate for one in whole.summary.attacks]


def test_bad_synthetic_files_are_refused(capsys):
    frame = pd.read_csv("made.csv")
    frame.drop(columns="C").to_csv("less.csv", index=False)
    assert "less.csv has no column 'C'" in refused(capsys, "--synthetic", "less.csv")
    frame.assign(A=[987_654, *frame["A"][1:]]).to_csv("new.csv", index=False)
    said = refused(capsys, "--synthetic", "new.csv")
    assert "new.csv, key 'A': 1 record(s) have a level that the original does not have" in said
    assert "--codebook" in said
    assert "987" not in said
    assert "width" not in said
    ages = pd.DataFrame({"age": [*range(40)] * 2, "sex": [0, 1] * 40})
    ages.to_csv("ages.csv", index=False)
    ages.assign(age=ages["age"] + 1).to_csv("drawn.csv", index=False)
    with pytest.raises(unikat.DataError, match=r"compared by groups: age:width\(5\)"):
        unikat.attack("ages.csv", synthetic="drawn.csv", keys="age,sex")
    frame[:0].to_csv("none.csv", index=False)
    assert "has columns but no rows" in refused(capsys, "--synthetic", "none.csv")
    Path("empty.csv").write_text("")
    assert "is empty" in refused(capsys, "--synthetic", "empty.csv")
    assert "There is no file" in refused(capsys, "--synthetic", "absent.csv")
    assert "no synthetic file is named" in refused(capsys)


def test_bad_options_are_refused(capsys):
    made = ("--synthetic", "made.csv")
    assert "grouped by quantiles" in refused(capsys, *made, "--keys", "A:quantile(3),B")
    assert "none of the keys" in refused(capsys, *made, "--link", "F")
    assert "names all keys" in refused(capsys, *made, "--link", ",".join(KEYS))
    assert "no wildcard" in refused(capsys, *made, "--missing", "wildcard")
    assert "no column 'F'" in refused(capsys, *made, "--targets", "F")
    assert "no column 'F'" in refused(capsys, *made, "--control", "made.csv", "--keys", "A,F")


def test_a_declared_level_is_no_error(here: Path):
    pd.DataFrame([[9, 0, 0, 0, 0]], columns=KEYS).to_csv("new.csv", index=False)
    (here / "levels.json").write_text(json.dumps({"A": {"levels": [*range(6), 9]}}))
    found = run("--synthetic", "new.csv", "--codebook", "levels.json")
    assert found["attacks"][0]["rate"]["value"] == 0.0


def test_frames_cannot_be_repeated_from_the_file_alone(capsys):
    frames = [pd.read_csv(f"{name}.csv") for name in ("original", "made")]
    unikat.attack(frames[0], synthetic=frames[1], keys=KEYS, out="kept")
    assert AttackSpec.read("kept/attack.toml", SHOWN).synthetic[0].path is None
    assert main(["attack", "kept/attack.toml", "--trust-spec", "--out", "again"]) == 1
    assert "The original has no file" in capsys.readouterr().err


def test_claims_are_judged_by_a_population_and_by_an_assessment(capsys):
    frames = [pd.read_csv(f"{name}.csv") for name in ("original", "control")]
    pd.concat(frames).to_csv("people.csv", index=False)
    few = ["--max-sweeps", "60", "--chains", "2", "--workers", "1", "--allow-unconverged"]
    few += ["--population-size", "600"]
    keys = ",".join(KEYS)
    assess = ["assess", "original.csv", "--model", "latent-class", "--out", "risk", "--quiet"]
    assert main([*assess, "--keys", keys, *few]) == 0
    made = ("--synthetic", "made.csv", "--population", "people.csv")
    found = run(*made, "--risk", "risk", folder="judged")
    (claims,) = found["claims"]["by_file"]
    result = json.loads(Path("risk/result.json").read_text())
    assert found["claims"]["tau1"]["median"] == result["tau1"]["median"]
    assert claims["tau1"] is None
    assert claims["n_true"] <= claims["n_replicated"] <= claims["n_uniques"]
    assert 0.0 < claims["true"]["value"] < claims["n_replicated"]
    fitted = run(*made, *few, folder="fitted")
    assert fitted["claims"]["by_file"][0]["tau1"]["median"] > 0.0
    assert fitted["claims"]["model"] == "latent-class"
    assert not fitted["converged"]
    assert main(attacked("--synthetic", "made.csv", "--out", "two", *few[:-3], *few[-2:])) == 2
    capsys.readouterr()
    assert "has the keys" in refused(capsys, *made, "--risk", "risk", "--keys", "A,B")
    frames[0][:100].to_csv("original.csv", index=False)
    assert "name an assessment of this file" in refused(capsys, *made[:2], "--risk", "risk")
    assert "is not a folder" in refused(capsys, *made[:2], "--risk", "nowhere")


@pytest.mark.slow
@pytest.mark.parametrize("model", ["latent-class", "hdp"])
def test_an_intruder_who_knows_all_other_records(capsys, model):
    few = ["--max-sweeps", "2000", "--chains", "2", "--workers", "1"]
    few += ["--set", "sampling.rhat=1.1", "--set", "sampling.ess=150", "--allow-unconverged"]
    Path("zeros.toml").write_text("rules = ['A == 0 and B == 4']\n")
    made = ("--synthetic", "made.csv", "--keys", "A,B,C")
    found = run(*made, "--model", model, "--zeros", "zeros.toml", *few, folder="known")
    told = found["posterior"]
    assert told["n_candidates"] == 1 + 5 + 4 + 2
    assert told["n_persons"] == len(pd.read_csv("original.csv")[["A", "B", "C"]].drop_duplicates())
    assert {one["name"] for one in found["attacks"][-3:]} == {"one unknown record"}
    uniform = next(one for one in found["attacks"] if one["target"] == "uniform prior")
    assert uniform["baseline"]["value"] == pytest.approx(1 / told["n_candidates"], rel=0.1)
    assert uniform["n"] == told["n_persons"] - told["n_unknown"]
    rows = pd.read_parquet("known/attack-records.parquet")
    assert set(rows.unit) == {"combination"}
    whole = rows[rows.variable.isna() & (rows.prior == "uniform")]
    assert len(whole) == told["n_persons"]
    assert whole.rho.isna().sum() == told["n_unknown"] == whole["rank"].isna().sum()
    assert (whole.rho_se[whole.rho.notna()] < told["most_error"]).all()
    original = pd.read_csv("original.csv")[["A", "B", "C"]]
    first = original.drop_duplicates().index
    assert whole.record.tolist() == sorted(whole.record, key=lambda i: original.iloc[i].tolist())
    assert sorted(whole.record) == first.tolist()
    assert whole.f.sum() == len(original)
    capsys.readouterr()
    assert "mixtures" in refused(capsys, *made, "--model", "loglinear")
    asked = f"{model}:profile_base=empirical"
    assert "depends on the file" in refused(capsys, *made, "--model", asked)
    Path("zeros.toml").write_text("rules = ['A == 0 and C == 0']\n")
    said = refused(capsys, *made, "--model", model, "--zeros", "zeros.toml")
    assert "break" in said


def test_counts_of_the_population_are_one_more_prior(capsys):
    """From a file and from a frame alike; and refused where nobody has a prior."""
    original = pd.read_csv("original.csv")
    counts = (5 * original["A"].value_counts()).rename("people").reset_index()
    counts.to_csv("census.csv", index=False)
    asked = ["--keys", "A,B,C", "--synthetic", "made.csv", "--margins", "census.csv"]
    few = ["--model", "latent-class", "--max-sweeps", "40", "--chains", "2", "--workers", "1"]
    run(*asked, *few, "--allow-unconverged")
    rows = pd.read_parquet("out/attack-records.parquet")
    assert set(rows.prior) == {"uniform", "margins", "model", "population"}
    # Of the counts that are left one is his own; in the other variables all candidates are alike.
    of_a = rows[(rows.prior == "population") & (rows.variable == "A")].iloc[0]
    level = original["A"][of_a.record]
    left = 4 * original["A"].value_counts()
    left[level] += 1
    assert of_a.rho_before == pytest.approx(left[level] / left.sum())
    of_b = rows[rows.variable == "B"].set_index(["prior", "record"]).rho_before
    assert of_b["population"].tolist() == pytest.approx(of_b["uniform"].tolist())
    frame = pd.read_csv("original.csv")
    found = unikat.attack(
        frame, synthetic=pd.read_csv("made.csv"), keys="A,B,C", margins=counts,
        model="latent-class", max_sweeps=40, chains=2, workers=1,
    )  # fmt: skip
    again = found.records
    assert again.rho_before.tolist() == pytest.approx(rows.rho_before.tolist())
    capsys.readouterr()
    assert "--model" in main_error(capsys, *asked)
    counts.assign(people=1).to_csv("census.csv", index=False)
    assert "more records in the sample" in main_error(capsys, *asked, *few)


def main_error(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert main(attacked("--quiet", "--out", "other", *options)) == 1
    assert not Path("other").exists()
    return capsys.readouterr().err


def test_an_attack_that_has_not_converged_is_continued():
    """All fits go on from where they were, to the numbers of one run of that length."""
    asked = ["--synthetic", "made.csv", "--keys", "A,B,C", "--model", "hdp", "--chains", "2"]
    asked += ["--workers", "1", "--allow-unconverged", "--set", "sampling.thin=1"]
    run(*asked, "--max-sweeps", "40")
    kept = sorted(path.name for path in Path("out/fits").iterdir())
    assert kept == ["bound", "known-0", "known-1"]
    continued = run(*asked, "--max-sweeps", "80", "--resume")
    assert run(*asked, "--max-sweeps", "80", folder="whole") == continued
    tables = [pd.read_parquet(f"{name}/attack-records.parquet") for name in ("out", "whole")]
    pd.testing.assert_frame_equal(*tables)


def test_the_original_as_control_file_is_refused(capsys):
    said = refused(capsys, "--synthetic", "made.csv", "--control", "original.csv")
    assert "original.csv is no control file: it has the same records as original.csv" in said
    assert "name the other as the control file" in " ".join(said.split())


def test_files_of_a_fit_that_has_not_converged_are_told(capsys):
    made = ["--keys", ",".join(KEYS), "--model", "latent-class", "--datasets", "2", "--quiet"]
    few = ["--chains", "2", "--max-sweeps", "20", "--allow-unconverged", "--out", "made"]
    assert main(["synthesize", "original.csv", *made, *few]) == 0
    said = "The synthetic files come from a fit of latent-class that has not converged"
    found = run("--synthetic", "made", "--control", "control.csv")
    assert said in found["sentences"]["generator"]
    assert [one["fit"]["converged"] for one in found["synthetic"]] == [False, False]
    assert said in Path("out/attack.html").read_text()
    assert main(attacked("--synthetic", "made/synthetic_1.csv", "--out", "one")) == 0
    assert "Warning: The synthetic file comes from a fit" in capsys.readouterr().out
    # A file of that name elsewhere is not of that fit.
    Path("moved").mkdir()
    Path("moved/synthetic_1.csv").write_bytes(Path("made/synthetic_1.csv").read_bytes())
    moved = run("--synthetic", "moved", folder="third")
    assert moved["sentences"]["generator"] == ""


def test_tau1_of_the_original_is_that_of_an_assessment_of_its_households():
    frames = [pd.read_csv(f"{name}.csv").head(300) for name in ("original", "made")]
    for frame in frames:
        frame["home"] = np.arange(300, 0, -1) // 3
        frame["A"] = frame.groupby("home")["A"].transform("first")
    asked: dict[str, Any] = {
        "keys": KEYS, "population_size": 9000, "max_sweeps": 40, "chains": 2, "workers": 1,
    }  # fmt: skip
    found = {
        home: unikat.attack(
            frames[0], synthetic=frames[1], household=home, progress=False, **asked
        ).summary.claims
        for home in ("home", ())
    }
    whole = unikat.assess(
        frames[0], household="home", model="latent-class", missing="level", progress=False, **asked
    )
    assert whole.estimate is not None
    assert found["home"].tau1 == whole.estimate.tau1
    assert found["home"].tau1 != found[()].tau1
    # Nobody knows which synthetic persons would live together.
    assert found["home"].by_file[0].tau1 == found[()].by_file[0].tau1
