"""`unikat synthesize` from a file to files."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import unikat
from unikat.cli.main import main
from unikat.jobs import synthesis as answer
from unikat.jobs import synthesize as job

QUICK = ("--chains", "2", "--datasets", "3", "--max-sweeps", "60", "--workers", "1", "--quiet")
KEYS = "region,sex,age:width(10),education"


def people(n: int = 300) -> pd.DataFrame:
    """Persons with two columns that are no keys; children have no higher education."""
    rng = np.random.default_rng(5)
    age = rng.integers(0, 90, n)
    return pd.DataFrame(
        {
            "id": np.arange(n),
            "region": rng.choice(["01", "02", "11"], n),
            "sex": rng.choice(["f", "m"], n),
            "age": age,
            "note": "x",
            "education": np.where(age < 20, "low", rng.choice(["low", "mid", "high"], n)),
        }
    )


def synthesize(folder, *options, code=2):
    """Run the command; few sweeps do not converge."""
    assert main(["synthesize", *map(str, options), "--out", str(folder), *QUICK]) == code
    return [pd.read_csv(folder / f"synthetic_{i}.csv", dtype=str) for i in (1, 2, 3)]


def test_a_csv_file_from_end_to_end(tmp_path):
    source = tmp_path / "people.csv"
    people().to_csv(source, index=False, sep=";")
    out = tmp_path / "out"
    assert main(["synthesize", str(source), "--keys", KEYS, "--out", str(out), *QUICK]) == 2
    text = (out / "synthetic_1.csv").read_text()
    assert text.startswith("region;sex;age;education\n")
    frames = [pd.read_csv(out / f"synthetic_{i}.csv", sep=";", dtype=str) for i in (1, 2, 3)]
    for frame in frames:
        assert len(frame) == 300
        assert set(frame["region"]) == {"01", "02", "11"}
        assert frame["age"].astype(int).between(0, 89).all()
    assert not frames[0].equals(frames[1])
    found = json.loads((out / "utility.json").read_text())
    assert found["original"]["left_out"] == ["id", "note"]
    assert [one["order"] for one in found["margins"]] == [1, 2, 3]
    assert [one["n_margins"] for one in found["margins"]] == [4, 6, 4]
    page = (out / "synthesis.html").read_text()
    assert "<script" not in page
    assert page.count("<desc") == 6


def test_the_specification_repeats_the_run(tmp_path):
    source = tmp_path / "people.csv"
    people().to_csv(source, index=False)
    synthesize(tmp_path / "one", source, "--keys", KEYS, "--replace", "age", "--seed", "7")
    synthesize(tmp_path / "two", tmp_path / "one" / "synthesis.toml", "--trust-spec")
    for name in ("synthetic_1.csv", "synthetic_3.csv"):
        first, second = ((tmp_path / run / name).read_bytes() for run in ("one", "two"))
        assert first == second


def test_synthetic_records_obey_the_zeros(tmp_path):
    frame = people()
    rules = ["age < 20 and education in ('mid', 'high')"]
    for replaced in ((), ("education",), ("age", "sex")):
        found = unikat.synthesize(
            frame,
            keys=KEYS,
            zeros=rules,
            replace=replaced,
            model="latent-class",
            datasets=2,
            chains=2,
            max_sweeps=60,
            workers=1,
        )
        for synthetic in found.frames:
            young = synthetic["age"] < 20
            assert young.any()
            assert (synthetic.loc[young, "education"] == "low").all()
        assert found.summary.impossible.shares == (0.0, 0.0)


def test_replaced_keys_alone_change():
    frame = people()
    found = unikat.synthesize(
        frame, keys=KEYS, replace=["sex"], datasets=2, chains=2, max_sweeps=60, workers=1
    )
    kept = ["region", "age", "education"]
    for synthetic in found.frames:
        pd.testing.assert_frame_equal(synthetic[kept], frame[kept])
        assert (synthetic["sex"] != frame["sex"]).mean() > 0.2


def test_classes_of_the_design_keep_their_numbers(tmp_path):
    frame = people().assign(weight=np.where(np.arange(300) % 3 == 0, 10.0, 40.0))
    found = unikat.synthesize(
        frame, keys=KEYS, weights="weight", datasets=2, chains=2, max_sweeps=60, workers=1
    )
    for synthetic in found.frames:
        assert synthetic["weight"].tolist() == frame["weight"].tolist()


def test_results_combine_an_estimand():
    found = unikat.synthesize(people(), keys=KEYS, datasets=3, chains=3, max_sweeps=60, workers=1)

    def share(frame):
        p = float((frame["sex"] == "f").mean())
        return p, p * (1 - p) / len(frame)

    combined = found.combine(share)
    by_hand = np.mean([share(frame)[0] for frame in found.frames])
    assert combined.estimate == pytest.approx(by_hand)
    assert combined.lower < by_hand < combined.upper


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--keys", KEYS, "--replace", "income"], "no key"),
        (["--keys", "sex,education", "--replace", "sex,education"], "all keys"),
        (["--keys", KEYS, "--model", "loglinear"], "records cannot be drawn"),
        (["--keys", KEYS, "--datasets", "0"], "--datasets"),
        (["--keys", KEYS, "--method", "flat"], "households"),
        (["--keys", KEYS, "--share", "share(sex == 'f')"], "households"),
        (["--keys", KEYS, "--model", "households"], "--household"),
    ],
)
def test_bad_options_get_one_message(tmp_path, capsys, options, words):
    source = tmp_path / "people.csv"
    people().to_csv(source, index=False)
    out = tmp_path / "out"
    assert main(["synthesize", str(source), *options, "--out", str(out)]) == 1
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said
    assert not out.exists()


def test_one_file_is_made_and_is_attacked():
    made = unikat.synthesize(people(), keys=KEYS, datasets=1, chains=2, max_sweeps=60, workers=1)
    assert [len(frame) for frame in made.frames] == [len(people())]
    assert made.summary.sentences["files"].startswith("1 synthetic file, with")
    assert len(unikat.attack(people(), made, attacks=20).to_frame())
    with pytest.raises(unikat.SpecError, match="at least two"):
        made.combine(lambda frame: (1.0, 1.0))


def test_an_interrupted_run_keeps_its_chains_and_goes_on(tmp_path, capsys, monkeypatch):
    source, out = tmp_path / "people.csv", tmp_path / "out"
    people().to_csv(source, index=False)
    given = ["synthesize", str(source), "--keys", KEYS, *QUICK]
    sample = job.sample

    def stopped(*arguments, **options):
        return replace(sample(*arguments, **options), stop_reason="interrupted")

    monkeypatch.setattr(job, "sample", stopped)
    assert main([*given, "--out", str(out)]) == 2
    assert "--resume" in capsys.readouterr().err
    assert not list(out.glob("synthetic_*"))
    assert (out / "fits" / "model" / "sampling.checkpoint").exists()
    monkeypatch.setattr(job, "sample", sample)
    assert main([*given, "--out", str(out)]) == 1
    assert "unfinished synthesis" in capsys.readouterr().err
    assert main([*given, "--out", str(out), "--resume"]) == 2
    assert main([*given, "--out", str(tmp_path / "once")]) == 2
    for name in ("synthetic_1.csv", "synthetic_3.csv"):
        assert (out / name).read_bytes() == (tmp_path / "once" / name).read_bytes()


@pytest.mark.parametrize("stage", ["_draw", "margin_utility", "render"])
def test_an_interruption_after_the_fit_keeps_the_chains_too(tmp_path, capsys, monkeypatch, stage):
    source, out = tmp_path / "people.csv", tmp_path / "out"
    people().to_csv(source, index=False)

    def stopped(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(answer if stage == "render" else job, stage, stopped)
    assert main(["synthesize", str(source), "--keys", KEYS, *QUICK, "--out", str(out)]) == 2
    assert "--resume" in capsys.readouterr().err
    assert not list(out.glob("synthetic_*"))
    assert (out / "fits" / "model" / "sampling.checkpoint").exists()


def test_files_that_unikat_did_not_write_are_not_replaced(tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir()
    source = out / "synthetic_1.csv"
    people().to_csv(source, index=False)
    before = source.read_bytes()
    given = ["synthesize", str(source), "--keys", KEYS, *QUICK, "--out", str(out), "--overwrite"]
    assert main(given) == 1
    assert "would write" in capsys.readouterr().err
    (tmp_path / "people.csv").write_bytes(before)
    given[1] = str(tmp_path / "people.csv")
    assert main(given) == 1
    assert "did not write" in capsys.readouterr().err
    assert source.read_bytes() == before
