"""`unikat attack --model households`: the folder, the way back from it, and bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unikat
from unikat.cli.main import main
from unikat.synthesis.attacks import posterior

KEYS = ["owner", "rel", "age", "sex"]
HOMES = ["--model", "households", "--household", "hid", "--household-keys", "owner"]
FEW = ["--chains", "2", "--max-sweeps", "60", "--workers", "1", "--allow-unconverged"]
FEW += ["--set", "sampling.ess=60", "--set", "sampling.rhat=2", "--set", "sampling.thin=1"]


def homes(n: int = 40, seed: int = 3) -> pd.DataFrame:
    """Households of up to four: a head, perhaps a spouse, and children; nothing is rare."""
    rng = np.random.default_rng(seed)
    rows = []
    for h in range(n):
        owner = int(rng.integers(0, 2))
        rels = [1] + [2] * int(rng.integers(0, 2)) + [3] * int(rng.integers(0, 3))
        rows += [(h, owner, r, *map(int, rng.integers(0, (3, 2)))) for r in rels]
    return pd.DataFrame(rows, columns=["hid", *KEYS])


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    homes().to_csv("original.csv", index=False)
    homes(seed=4).to_csv("made.csv", index=False)
    Path("zeros.toml").write_text("rules = ['count(rel == 2) > 1', 'count(rel == 3) > 2']\n")
    return tmp_path


def command(*options: str, keys: str = "owner,rel,age,sex", folder: str = "out") -> int:
    files = ["attack", "original.csv", "--synthetic", "made.csv", "--keys", keys]
    return main([*files, "--out", folder, *options])


def refused(capsys: pytest.CaptureFixture[str], *options: str, keys: str = ",".join(KEYS)) -> str:
    assert command("--quiet", *options, keys=keys) == 1
    assert not Path("out").exists()
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("Error: ")
    assert "Traceback" not in said.err
    return said.err


@pytest.mark.slow
def test_households_and_persons_are_attacked_and_the_folder_repeats_it(monkeypatch):
    """By their composition, under rules; a key of households need not be among the keys."""
    monkeypatch.setattr(posterior, "MOST_ERROR", 100.0)
    asked = [*HOMES, "--head", "rel == 1", "--zeros", "zeros.toml", *FEW, "--quiet"]
    assert command(*asked, keys="rel,age,sex") == 0
    found: dict[str, Any] = json.loads(Path("out/attack.json").read_text())
    assert found["keys"] == ["rel", "age", "sex", "owner"]
    of_homes, of_persons = found["household_posterior"], found["posterior"]
    frame = homes()
    cells = frame.sort_values(["hid", "rel", "age", "sex"]).groupby("hid")[KEYS]
    distinct = {tuple(map(tuple, rows.to_numpy())) for _, rows in cells}
    assert of_homes["n_persons"] == len(distinct)
    assert of_persons["n_persons"] == sum(len(set(rows)) for rows in distinct)
    # A household's owner and, of each distinct member, two other ages and the other sex.
    n = np.mean([1 + 1 + 3 * len(set(rows)) for rows in distinct])
    assert of_homes["n_candidates"] == round(n)
    assert of_persons["n_candidates"] == 1 + 3
    names = [one["name"] for one in found["attacks"] if one["kind"] == "prior"]
    assert names == ["one unknown household"] * 3 + ["one unknown person"] * 3
    uniform = {one["name"]: one for one in found["attacks"] if one["target"] == "uniform prior"}
    assert uniform["one unknown person"]["baseline"]["value"] == pytest.approx(1 / 4)
    assert "All other households known" in found["sentences"]["household_posterior"]
    # Nothing beside the file tells of its ties to the head.
    assert "Nothing beside made.csv tells" in found["sentences"]["household_posterior"]
    check_records(unikat.load("out").records, frame)
    page = Path("out/attack.html").read_text()
    assert found["sentences"]["household_posterior"] in page
    assert "of the persons." in page
    again_with = ["--out", "again", "--quiet", "--allow-unconverged"]
    assert main(["attack", "out/attack.toml", "--trust-spec", *again_with]) == 0
    again = json.loads(Path("again/attack.json").read_text())
    for one in (found, again):
        del one["provenance"]["started"]
    assert again == found


def check_records(records: pd.DataFrame, frame: pd.DataFrame) -> None:
    """Numbers of rows and households, and rows of a person who has these values."""
    homes = records[records.unit == "household"]
    assert homes.record.isna().all()
    whole = homes[homes.variable.isna() & (homes.prior == "uniform")]
    assert whole.f.sum() == frame.hid.nunique()
    assert ((whole.rho > 0) & (whole.rho < 1) & (whole.rho_se > 0)).all()
    assert np.allclose(whole.rho_before, 1 / whole.n_candidates)
    assert set(homes.variable.dropna()) == {"owner", "age", "sex"}
    persons = records[(records.unit == "person") & records.variable.isna()]
    persons = persons[persons.prior == "uniform"]
    rows = persons.record.astype(int)
    assert (frame.hid.to_numpy()[rows] == persons.household).all()
    first = frame.groupby(["hid", "rel", "age", "sex"]).head(1).index
    attacked = frame.hid.isin(persons.household)
    assert sorted(rows) == sorted(frame.index[attacked & frame.index.isin(first)])
    of_sex = records[(records.unit == "person") & (records.variable == "sex")]
    assert set(of_sex.n_candidates) == {2}
    assert set(of_sex["rank"]) <= {1.0, 1.5, 2.0}


def test_files_drawn_with_ties_to_the_head_are_refused(capsys):
    asked = ["synthesize", "original.csv", "--keys", ",".join(KEYS), *HOMES, "--head", "rel == 1"]
    few = ["--datasets", "2", "--chains", "2", "--max-sweeps", "20", "--allow-unconverged"]
    for ties, options in (("head", []), ("none", ["--set", "composition=none"])):
        assert main([*asked, *few, "--quiet", "--out", ties, *options]) == 0
        assert json.loads(Path(ties, "utility.json").read_text())["fit"]["ties"] == ties
    capsys.readouterr()
    said = refused(capsys, *HOMES, "--head", "rel == 1", "--synthetic", "head")
    said = " ".join(said.split())
    assert "Synthesise the files again with --set ties=none" in said
    assert "leave --model out" in said
    # What it names works.
    few = ["--household", "hid", "--attacks", "20", "--quiet", "--keys", ",".join(KEYS)]
    assert main(["attack", "original.csv", "--synthetic", "head", "--out", "out", *few]) == 0


@pytest.mark.slow
def test_python_gives_the_same_with_a_head_who_is_apart():
    frames = [pd.read_csv("original.csv"), pd.read_csv("made.csv")]
    asked = {
        "keys": "owner,rel,age,sex", "model": "households", "household": "hid",
        "household_keys": "owner", "head": "rel == 1", "chains": 2, "max_sweeps": 60,
        "set": {"households.head_keys": "age,sex", "sampling.thin": 1}, "workers": 1,
    }  # fmt: skip
    found = unikat.attack(frames[0], synthetic=frames[1], **asked)
    facts = found.summary.household_posterior
    assert facts is not None
    # The head's own two keys are the household's.
    assert facts.n_candidates > 1 + 1 + 2 + 1
    again = unikat.attack(frames[0], synthetic="made.csv", **asked)
    assert again.summary.household_posterior == facts


@pytest.mark.slow
def test_tau1_of_original_and_synthetic_households_is_that_of_assessments():
    frames = [pd.read_csv("original.csv"), pd.read_csv("made.csv")]
    asked = {"keys": KEYS, "population_size": 4000, "household": "hid", "max_sweeps": 60}
    asked |= {"chains": 2, "workers": 1}
    claims = unikat.attack(
        frames[0], synthetic=frames[1], model="households", household_keys="owner", **asked
    ).summary.claims
    of_files = [
        unikat.assess(frame, model="latent-class", missing="level", **asked).estimate
        for frame in frames
    ]
    assert [claims.tau1, claims.by_file[0].tau1] == [one.tau1 for one in of_files]


def test_households_are_attacked_whole_where_every_file_tells_them(capsys):
    """Five of forty households copied: the attack on them counts households, in any order."""
    original, made = homes(), homes(seed=4)
    copied = pd.concat([original[original.hid < 5], made[made.hid >= 5]]).iloc[::-1]
    homes(seed=5).to_csv("control.csv", index=False)
    copied.to_csv("made.csv", index=False)
    asked = ["--household", "hid", "--control", "control.csv"]
    assert command(*asked) == 0
    found = json.loads(Path("out/attack.json").read_text())
    of_homes = [one for one in found["attacks"] if one["name"].endswith(" of households")]
    assert [one["name"].partition(" of households")[0] for one in of_homes] == [
        "replicated uniques", "linkability", "distance", "density ratio",
    ]  # fmt: skip
    members = [
        frame.sort_values(KEYS).groupby("hid")[KEYS].apply(lambda rows: str(rows.to_numpy()))
        for frame in (original, copied)
    ]
    unique = [one[~one.duplicated(keep=False)] for one in members]
    share = unique[0].isin(unique[1]).sum() / original.hid.nunique()
    assert of_homes[0]["rate"]["value"] == pytest.approx(share)
    assert "of the original's households are unique by their members' keys" in str(
        found["sentences"]
    )
    assert "Households are not attacked" not in capsys.readouterr().err
    copied.drop(columns="hid").to_csv("made.csv", index=False)
    assert command(*asked, folder="without") == 0
    assert "made.csv has no column hid" in " ".join(capsys.readouterr().err.split())
    names = [one["name"] for one in json.loads(Path("without/attack.json").read_text())["attacks"]]
    assert not any("households" in name for name in names)


def test_bad_options_and_files_are_refused(capsys):
    assert "--household COLUMN" in refused(capsys, "--model", "households")
    assert "add --model households" in refused(capsys, "--head", "rel == 1")
    said = refused(capsys, *HOMES, "--head", "rel == 1", keys="owner,age,sex")
    assert "synthetic files have keys alone" in said
    assert "no column 'owned'" in refused(capsys, *HOMES[:4], "--household-keys", "owned")
    larger = homes()
    larger.loc[larger.hid < 3, "hid"] = 0
    larger.owner = 1
    larger.to_csv("made.csv", index=False)
    assert "larger than any of the original" in refused(capsys, *HOMES)
    homes(39, seed=4).to_csv("made.csv", index=False)
    assert "made.csv has 39 households, and the original 40" in refused(capsys, *HOMES)
    homes().drop(columns="hid").to_csv("made.csv", index=False)
    assert "hid" in refused(capsys, *HOMES)
    broken = homes()
    broken.loc[broken.rel == 3, "rel"] = 2
    broken.to_csv("made.csv", index=False)
    said = refused(capsys, *HOMES, "--zeros", "zeros.toml", *FEW)
    assert "break the household rules" in said
