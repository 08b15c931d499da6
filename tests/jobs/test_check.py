"""Checks of files against policies, and certificates."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unikat
from unikat.cli.main import main
from unikat.errors import DataError, SpecError
from unikat.jobs import check as module
from unikat.report.facts.certificate import read_certificate
from unikat.risk.limits import worst

POLICY: dict[str, Any] = {
    "title": "House rules",
    "never": ["FULL_NAME"],
    "scenario": [{"name": "neighbour", "keys": ["SEX", "AGE"], "target": ["k >= 3"]}],
}
MODEL: dict[str, Any] = {"model": "latent-class", "chains": 2, "max_sweeps": 60, "workers": 1}


def people(n: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "SEX": rng.choice(["f", "m"], n),
            "AGE": rng.choice(["20-39", "40-59", "60+"], n),
            "REGION": rng.choice(["a", "b", "c", "d", "e", "f"], n),
            "INCOME": rng.choice(["low", "high"], n),
        }
    )


def verdicts(found: unikat.Check) -> dict[tuple[str, str], tuple[float | None, str]]:
    return {
        (one.scenario, one.target.limit): (one.target.value, one.target.verdict)
        for one in found.summary.limits
    }


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file and a policy, in the working folder."""
    monkeypatch.chdir(tmp_path)
    people().to_csv("safe.csv", index=False)
    (tmp_path / "policy.toml").write_text(
        'title = "House rules"\nnever = ["NAME"]\n[[scenario]]\nname = "neighbour"\n'
        'keys = ["SEX", "AGE"]\ntarget = ["k >= 3"]\n'
    )
    return tmp_path


def no_fit(*_: Any, **__: Any) -> Any:
    raise AssertionError("fitted")


def test_what_the_file_tells_needs_no_model_and_no_population(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("unikat.jobs.job.complete_fit", no_fit)
    frame = people()
    policy = {
        "minimum_cell": 30,
        "scenario": [
            {"name": "neighbour", "keys": "SEX,AGE",
             "target": ["k >= 3", "diversity(INCOME) >= 2"]},
            {"name": "colleague", "keys": "SEX,AGE,REGION", "in_sample": True,
             "target": ["r1 <= 0.5", "tau1 <= 400"]},
            {"name": "with errors", "keys": "SEX,AGE,REGION", "in_sample": True, "errors": 0.5,
             "target": ["r1 <= 0.5", "tau1 <= 400", "tau1_estimate <= 400"]},
        ],
    }  # fmt: skip
    found = unikat.check(frame, policy=policy)
    assert isinstance(found, unikat.Check)
    counts = frame.value_counts(["SEX", "AGE"])
    uniques = float((frame.value_counts(["SEX", "AGE", "REGION"]) == 1).sum())
    assert uniques > 0
    told = verdicts(found)
    assert told["neighbour", "k >= 3"] == (counts.min(), "met")
    diverse = frame.groupby(["SEX", "AGE"])["INCOME"].nunique().min()
    assert told["neighbour", "diversity(INCOME) >= 2"] == (diverse, "met")
    assert told["colleague", "r1 <= 0.5"] == (1.0, "not met")
    assert told["colleague", "tau1 <= 400"] == (uniques, "met")
    # Errors lower what is certain of a record, and not what luck may give.
    assert told["with errors", "r1 <= 0.5"] == (pytest.approx(0.5), "met")
    assert told["with errors", "tau1 <= 400"] == (uniques, "met")
    assert told["with errors", "tau1_estimate <= 400"][0] == pytest.approx(0.5 * uniques)
    levels = {one.keys: one.target.value for one in found.summary.limits if not one.scenario}
    for (name,), value in levels.items():
        assert value == frame[name].value_counts().min()
    assert found.summary.model is None
    assert found.summary.population_size is None
    assert found.verdict == "not met"
    assert found.certificate is None, "a frame is no file"
    assert list(found.table["verdict"]).count("met") == len(told) - 1 + len(levels) - 1 - sum(
        value < 30 for value in levels.values()
    )


def test_the_population_is_asked_for_only_if_a_limit_does() -> None:
    policy = {"scenario": [{"name": "all", "keys": "SEX,AGE,REGION", "target": "tau1 <= 5"}]}
    with pytest.raises(SpecError, match="population size"):
        unikat.check(people(), policy=policy)
    gaps = people().assign(AGE=lambda it: it["AGE"].where(it.index > 3))
    inside = {"scenario": [policy["scenario"][0] | {"in_sample": True}]}
    with pytest.raises(SpecError, match="population size"):
        unikat.check(gaps, policy=inside)


def test_a_model_judges_as_an_assessment_does() -> None:
    frame, keys = people(), ["SEX", "AGE", "REGION"]
    targets = ["tau1 <= 50", "tau1_estimate <= 50", "r1 <= 0.9", "records(r1 > 0.1) <= 900"]
    policy = {
        "confidence": 0.9,
        "scenario": [
            {"name": "all", "keys": keys, "target": targets},
            {"name": "errors", "target": [*targets, "tau2_estimate <= 90"], "errors": 0.25},
        ],
    }
    found = unikat.check(frame, policy=policy, population_size=600, **MODEL)
    result = unikat.assess(
        frame, keys=keys, population_size=600, set={"report.level": 0.9}, **MODEL
    )
    told = verdicts(found)
    assert told["all", "tau1 <= 50"][0] == result.tau1.upper
    assert told["all", "tau1_estimate <= 50"][0] == result.tau1.mean
    assert told["errors", "tau1 <= 50"][0] == result.tau1.upper
    assert told["errors", "tau1_estimate <= 50"][0] == pytest.approx(0.75 * result.tau1.mean)
    assert told["errors", "tau2_estimate <= 90"][0] == result.tau2.mean
    assert told["errors", "r1 <= 0.9"][0] == pytest.approx(0.75 * told["all", "r1 <= 0.9"][0])
    r1 = result.records["r1"]
    assert told["all", "records(r1 > 0.1) <= 900"][0] == (r1 > 0.1).sum()
    assert told["errors", "records(r1 > 0.1) <= 900"][0] == (0.75 * r1 > 0.1).sum()
    assert found.summary.model == "latent-class"
    if not found.converged:
        assert {verdict for _, verdict in told.values()} == {"not known"}


def test_keys_of_the_policy_have_to_be_there_unless_it_is_said() -> None:
    policy = {"scenario": [
        {"name": "neighbour", "keys": "SEX,AGE", "target": "k >= 100"},
        {"name": "by place", "keys": "PLACE", "target": "k >= 100"},
    ]}  # fmt: skip
    frame = people()
    with pytest.raises(DataError, match="no column 'PLACE', which the policy names"):
        unikat.check(frame, policy=policy)
    found = unikat.check(frame, policy=policy, left_out="PLACE")
    # Who knows none of the keys sees no other ones instead.
    assert verdicts(found)["by place", "k >= 100"] == (len(frame), "met")
    assert found.summary.left_out == ("PLACE",)
    with pytest.raises(SpecError, match="'AG', which is none of the keys"):
        unikat.check(frame, policy=policy, left_out="PLACE,AG")
    sensitive = {"scenario": [{"name": "x", "keys": "SEX", "target": "diversity(HEALTH) >= 2"}]}
    with pytest.raises(DataError, match="no column 'HEALTH'"):
        unikat.check(frame, policy=sensitive)


@pytest.mark.parametrize("there", ["REGION", "region", "re gion"])
def test_a_key_that_is_in_the_file_cannot_be_left_out(there: str) -> None:
    policy = {"scenario": [{"name": "x", "keys": "SEX,REGION", "target": "k >= 2"}]}
    frame = people().rename(columns={"REGION": there})
    with pytest.raises(SpecError, match="is a column of"):
        unikat.check(frame, policy=policy, left_out="REGION")
    assert unikat.check(people()[["SEX"]], policy=policy, left_out="REGION").verdict == "met"


@pytest.mark.parametrize("known", [["SEX", "AGE"], ["SEX"]])
def test_a_record_without_his_keys_counts_for_no_other(known: list[str]) -> None:
    """Blank ones certify no file: neither k of others, nor their diversity."""
    frame = people(60).assign(INCOME="low")
    frame.loc[frame.index[50:], ["SEX", "AGE", "INCOME"]] = [None, None, "high"]
    frame.loc[0, ["SEX", "AGE"]] = ["m", None]
    policy = {"scenario": [
        {"name": "x", "keys": known, "target": ["k >= 3", "diversity(INCOME) >= 2"]}
    ]}  # fmt: skip
    found = verdicts(unikat.check(frame, policy=policy))
    shown = frame.loc[:49, ["SEX", "AGE"]]
    complete = shown.drop(0)
    alike = [
        int((complete.loc[:, known] == one).all(axis=1).sum()) + (one["SEX"] == "m")
        for _, one in complete.loc[:, known].iterrows()
    ]
    least = min([*alike, int((shown["SEX"] == "m").sum())])
    assert found["x", "k >= 3"] == (least, "met" if least >= 3 else "not met")
    assert found["x", "diversity(INCOME) >= 2"] == (1.0, "not met")


def test_a_record_without_any_key_is_judged_with_the_others() -> None:
    frame = people(60).assign(REGION=np.arange(60) % 25)
    frame.loc[frame.index[:3], ["SEX", "AGE", "REGION"]] = None
    targets = ["k >= 4", "tau1 <= 100"]
    policy = {"scenario": [{"name": "x", "keys": "SEX,AGE,REGION", "target": targets}]}
    found = verdicts(unikat.check(frame, policy=policy, population_size=300, **MODEL))
    # It may be anybody, and hides nobody.
    assert found["x", "k >= 4"] == (1.0, "not met")
    assert 0.0 < (found["x", "tau1 <= 100"][0] or 0.0) <= 57.0


def test_a_record_without_a_value_is_in_no_level() -> None:
    frame = people().assign(REGION=lambda it: it["REGION"].where(it["REGION"] != "f"))
    frame.loc[frame.index[:2], "REGION"] = "f"
    found = unikat.check(frame, policy={"minimum_cell": 5, "keys": ["REGION"]})
    assert [one.target.value for one in found.summary.limits] == [2.0]
    assert found.verdict == "not met"
    assert found.summary.n_incomplete == frame["REGION"].isna().sum() > 2


def test_a_policy_without_keys_takes_those_of_the_call() -> None:
    policy = {"scenario": [{"name": "all", "target": "k >= 2"}]}
    with pytest.raises(SpecError, match="names no keys"):
        unikat.check(people(), policy=policy)
    found = unikat.check(people(), policy=policy, keys="SEX,AGE")
    assert found.summary.limits[0].keys == ("SEX", "AGE")
    further = unikat.check(people(), policy=policy | {"keys": ["SEX"]}, keys="AGE")
    assert set(further.summary.keys) == {"SEX", "AGE"}


NAMED_ALIKE = [
    "FULL_NAME",
    "full name",
    "Full-Name",
    "Full\u200bName",
    "\uff26ull_name",
    " fullname ",
]


@pytest.mark.parametrize("name", NAMED_ALIKE)
def test_columns_that_never_leave_are_found_under_names_that_read_alike(name: str) -> None:
    found = unikat.check(people().assign(**{name: "x"}), policy=POLICY)
    assert (found.verdict, found.summary.forbidden) == ("not met", (name,))
    alone = unikat.check(people(), policy={"never": ["FULL_NAME"]})
    assert (alone.verdict, alone.summary.n_records) == ("met", None)


def test_the_whole_way_from_a_file_to_its_certificate(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["check", "safe.csv", "--policy", "policy.toml"]
    assert main([*command, "--dry-run"]) == 0
    assert sorted(one.name for one in written.iterdir()) == ["policy.toml", "safe.csv"]
    assert main([*command, "--json"]) == 0
    told = capsys.readouterr().out
    folder = written / "safe-checked"
    assert json.loads(told[told.index("{") :]) == json.loads((folder / "check.json").read_text())
    made = json.loads((folder / "certificate.json").read_text())
    for what, path in (("file", "safe.csv"), ("policy", "policy.toml")):
        content = (written / path).read_bytes()
        assert made["files"][what]["sha256"] == hashlib.sha256(content).hexdigest()
        assert made["files"][what]["size"] == len(content)
    assert (folder / "policy.toml").read_bytes() == (written / "policy.toml").read_bytes()
    verify = ["check", "safe.csv", "--certificate", str(folder / "certificate.json")]
    assert main(verify) == 0
    assert "same to the last byte" in capsys.readouterr().out
    assert main([*verify, "--policy", "policy.toml"]) == 0
    # Of a folder that is handed on alone the policy is not compared, and that is said.
    (folder / "policy.toml").rename(written / "other.toml")
    assert main(verify) == 0
    assert "Not compared: policy" in capsys.readouterr().out
    assert main(["check", str(folder / "check.toml"), "--trust-spec", "--out", "again"]) == 0
    again = json.loads(Path("again/certificate.json").read_text())
    assert {**again, "made": 0, "digest": 0} == {**made, "made": 0, "digest": 0}
    found = unikat.load("again")
    assert found.certificate == read_certificate(Path("again/certificate.json")).__class__(
        **vars(found.certificate)
    )
    found.save("copy")
    assert Path("copy/certificate.json").read_bytes() == Path("again/certificate.json").read_bytes()


def test_exit_codes(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (written / "policy.toml").read_text()
    Path("strict.toml").write_text(text.replace("k >= 3", "k >= 300"))
    assert main(["check", "safe.csv", "--policy", "strict.toml", "--out", "strict"]) == 3
    assert main(["check", "safe.csv", "--certificate", "strict/certificate.json"]) == 3
    assert "does not meet" in capsys.readouterr().out
    whole = text.replace('"AGE"]', '"AGE", "REGION"]')
    Path("model.toml").write_text(whole.replace("k >= 3", "tau1 <= 500"))
    model = ["--population-size", "600", "--model", "latent-class", "--max-sweeps", "20"]
    asked = ["check", "safe.csv", "--policy", "model.toml", *model, "--out", "model"]
    assert main(asked) == 2
    assert json.loads(Path("model/certificate.json").read_text())["verdict"] == "not known"
    assert main(["check", "safe.csv", "--certificate", "model/certificate.json"]) == 2
    assert main([*asked, "--resume"]) == 2
    assert main(["check", "safe.csv"]) == 1
    assert "no policy is named" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("safe.csv", "is not the file of the certificate"),
        ("safe-checked/policy.toml", "is not the policy of the certificate"),
        ("safe-checked/certificate.json", ""),
    ],
)
def test_one_changed_byte_is_told(written: Path, path: str, said: str) -> None:
    unikat.check("safe.csv", policy="policy.toml", out="safe-checked")
    certificate = "safe-checked/certificate.json"
    whole = Path(path).read_bytes()
    rng = np.random.default_rng(len(whole))
    for place in rng.integers(len(whole), size=60):
        changed = bytearray(whole)
        changed[place] ^= int(rng.integers(1, 256))
        Path(path).write_bytes(bytes(changed))
        with pytest.raises((DataError, SpecError)) as caught:
            unikat.check("safe.csv", certificate=certificate)
        assert said in str(caught.value)
    for other in (whole[:-1], whole + b"\n", b""):
        Path(path).write_bytes(other)
        with pytest.raises((DataError, SpecError)):
            unikat.check("safe.csv", certificate=certificate)
    Path(path).write_bytes(whole)
    assert unikat.check("safe.csv", certificate=certificate).verdict == "met"


def signed(text: str, **changed: Any) -> str:
    """A certificate that says something else, with the digest that belongs to it."""
    from unikat.files.json import json_text

    found = json.loads(text) | changed
    found.pop("digest")
    plain = json.dumps(found, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return json_text(found | {"digest": hashlib.sha256(plain.encode()).hexdigest()})


def another_version(text: str) -> str:
    return text.replace("unikat.certificate/1", "unikat.certificate/2")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (another_version, "another version"),
        (lambda _: "{}", "no schema of a certificate"),
        (lambda _: "[1]", "no schema of a certificate"),
        (lambda _: "[" * 100_000, "nested too deeply"),
        (lambda _: "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"), "not valid JSON"),
        (lambda text: text.replace('"met"', '"splendid"'), "no certificate of unikat"),
        (lambda text: text.replace('"level": 0.95', '"level": 0.95, "more": 1'), "was changed"),
        (lambda text: text.replace('"House rules"', '"house rules"'), "was changed"),
        (lambda text: signed(text, verdict="not met"), "contradicts itself"),
        (lambda text: signed(text, forbidden=["FULL_NAME"]), "contradicts itself"),
        (lambda text: signed(text, files={}), "no digest of the file"),
        (lambda text: text.replace("House rules", "\\ud800"), "was changed"),
    ],
    ids=range(12),
)
def test_a_certificate_that_is_none_is_refused(
    written: Path, change: Callable[[str], str], said: str
) -> None:
    unikat.check("safe.csv", policy="policy.toml", out="run")
    path = Path("run/certificate.json")
    path.write_text(change(path.read_text()))
    with pytest.raises((SpecError, DataError)) as caught:
        unikat.check("safe.csv", certificate=path)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 1_000


def test_the_original_is_certified_by_a_salted_digest(written: Path) -> None:
    people(60).to_csv("original.csv", index=False)
    found = unikat.check("safe.csv", policy="policy.toml", original="original.csv", out="run")
    content, salt = Path("original.csv").read_bytes(), found.spec.salt
    assert found.certificate is not None
    digest = found.certificate.files["original"].sha256
    assert digest == hmac.new(bytes.fromhex(salt), content, hashlib.sha256).hexdigest()
    # Without the salt a guess of the original cannot be confirmed.
    text = Path("run/certificate.json").read_text()
    assert salt not in text
    assert hashlib.sha256(content).hexdigest() not in text
    how: Any = {"certificate": "run/certificate.json", "original": "original.csv"}
    with pytest.raises(SpecError, match="salt"):
        unikat.check("safe.csv", **how)
    assert unikat.check("safe.csv", **how, salt=salt).compared == ("file", "policy", "original")
    Path("original.csv").write_bytes(content + b" ")
    with pytest.raises(DataError, match="is not the original"):
        unikat.check("safe.csv", **how, salt=salt)


def test_a_certificate_holds_no_value_of_the_file(written: Path) -> None:
    secret = people().assign(SEX=lambda it: it["SEX"].replace({"f": "qqfemale", "m": "qqmale"}))
    secret.to_csv("safe.csv", index=False)
    unikat.check("safe.csv", policy="policy.toml", out="run")
    assert "qq" not in Path("run/certificate.json").read_text()
    assert "qq" not in Path("run/check.json").read_text()


def test_a_file_that_changes_while_it_is_checked_gets_no_certificate(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = module.load_and_check

    def and_change(*how: Any) -> Any:
        found = loaded(*how)
        with open("safe.csv", "a") as file:
            file.write("f,20-39,a,low\n")
        return found

    monkeypatch.setattr(module, "load_and_check", and_change)
    with pytest.raises(DataError, match="was changed while it was checked"):
        unikat.check("safe.csv", policy="policy.toml", out="run")
    assert not Path("run/certificate.json").exists()


def protected_by(text: str, **more: Any) -> unikat.Protection:
    Path("policy.toml").write_text(f'schema = "unikat.policy/1"\n{text}')
    how: dict[str, Any] = {"scenarios": "policy.toml", "progress": False, "overwrite": True}
    how |= {"keys": "SEX,AGE,REGION", "population_size": 600, "recode": {"REGION": "left out"}}
    found: unikat.Protection = unikat.protect("safe.csv", **(how | MODEL | more))
    return found


NEIGHBOUR = '[[scenario]]\nname = "neighbour"\nkeys = ["SEX", "AGE"]\nin_sample = true\n'


def test_scenarios_of_a_policy_are_the_targets_of_a_protection(written: Path) -> None:
    found = protected_by(
        f"confidence = 0.9\n{NEIGHBOUR}errors = 0.5\n"
        'target = ["r1 <= 0.6", "k >= 2", "diversity(INCOME) >= 2"]\n'
        '[[scenario]]\nname = "diverse"\ntarget = "diversity(INCOME) >= 2"\n',
        overwrite=False,
    )
    assert [one.target.limit for one in found.summary.scenarios] == ["r1 <= 0.6", "k >= 2"]
    assert found.summary.scenarios[0].errors == 0.5
    assert found.summary.level == 0.9
    assert found.check is None, "nothing was written"
    assert found.summary.policy == "not checked"
    assert "was not judged" in " ".join(found.summary.warnings)


def test_a_blank_record_certifies_no_file(written: Path) -> None:
    frame = people()
    frame.loc[frame.index[0], ["SEX", "AGE"]] = None
    frame.to_csv("safe.csv", index=False)
    asked = f'{NEIGHBOUR}target = ["k >= 2"]\n'
    Path("policy.toml").write_text(f'schema = "unikat.policy/1"\n{asked}')
    with pytest.raises(SpecError, match="lower bounds"):
        unikat.check("safe.csv", policy="policy.toml", missing="wildcard", progress=False)
    found = protected_by(asked, out="out", missing="wildcard")
    assert found.check is not None
    assert found.check.spec.data.missing == "integrate"


def test_a_policy_whose_minimum_cell_nobody_judged_is_not_met(written: Path) -> None:
    found = protected_by(
        f'minimum_cell = 1000\n{NEIGHBOUR}target = ["k >= 2"]\n', out="out", pram="SEX: 0.9"
    )
    assert (found.check, found.summary.policy) == (None, "not checked")
    assert found.summary.verdict == "met"
    assert found.verdict == unikat.load("out").verdict == "not known"


def test_a_protection_by_a_policy_is_certified(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = people()
    frame.assign(Name=[f"n{i % 9}" for i in range(len(frame))]).to_csv("safe.csv", index=False)
    asked = (
        f'never = ["name"]\nminimum_cell = 20\n{NEIGHBOUR}target = ["k >= 2"]\n'
        '[[scenario]]\nname = "all"\ntarget = ["tau1 <= 900", "diversity(INCOME) >= 2"]\n'
    )
    found = protected_by(asked, out="out")
    assert found.check is not None
    assert found.verdict == worst([found.summary.verdict, found.check.verdict])
    summary = found.check.summary
    assert summary.left_out == ("REGION",)
    assert "Name" not in summary.columns, "it never leaves, so it is removed"
    assert {one.target.limit for one in summary.limits} == {
        "k >= 2", "k >= 20", "tau1 <= 900", "diversity(INCOME) >= 2",
    }  # fmt: skip
    certificate = read_certificate(Path("out/check/certificate.json"))
    assert set(certificate.files) == {"file", "policy", "original"}
    # The same as by hand.
    again = unikat.check(
        "out/protected.csv", policy="policy.toml", left_out="REGION", original="safe.csv",
        salt=found.check.spec.salt, population_size=600, keys="SEX,AGE,REGION", **MODEL,
        out="by-hand",
    )  # fmt: skip
    assert isinstance(again, unikat.Check)
    assert again.summary.limits == summary.limits
    assert again.certificate is not None
    assert again.certificate.files == certificate.files
    assert unikat.load("out").verdict == found.verdict
    assert main(["check", "out/protected.csv", "--certificate", "out/check/certificate.json"]) == 0
    assert "Certified" in capsys.readouterr().out
    # Another file has no certificate of the one before.
    Path("scenarios.toml").write_text(f'{NEIGHBOUR}target = ["k >= 2"]\n')
    protected_by("", out="out", scenarios="scenarios.toml")
    assert not Path("out/check/certificate.json").exists()


def test_a_policy_that_a_protected_file_misses_ends_in_exit_code_3(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("policy.toml").write_text(
        f'schema = "unikat.policy/1"\nminimum_cell = 100\n{NEIGHBOUR}target = ["k >= 2"]\n'
    )
    code = main([
        "protect", "safe.csv", "--keys", "SEX,AGE", "--population-size", "600", "--scenarios",
        "policy.toml", "--model", "latent-class", "--chains", "2", "--max-sweeps", "60", "--recode",
        "AGE: join(20-39,40-59)", "--out", "out", "--allow-unconverged",
    ])  # fmt: skip
    assert code == 3
    assert "minimum cell" in capsys.readouterr().out
    assert read_certificate(Path("out/check/certificate.json")).verdict == "not met"


def test_a_protection_reaches_the_minimum_cell_of_keys_that_no_scenario_names(
    written: Path,
) -> None:
    frame = people(300)
    frame.loc[frame.index[:6], "REGION"] = "rare"
    frame.to_csv("safe.csv", index=False)
    Path("policy.toml").write_text(
        f'schema = "unikat.policy/1"\nminimum_cell = 10\n{NEIGHBOUR}target = ["k >= 2"]\n'
    )
    unikat.protect(
        "safe.csv", keys="SEX,AGE,REGION", population_size=3_000, scenarios="policy.toml",
        progress=False, out="out", **MODEL,
    )  # fmt: skip
    counts = pd.read_csv("out/protected.csv")["REGION"].value_counts()
    assert counts.min() >= 10
    assert len(counts) > 1
    cells = json.loads(Path("out/check/check.json").read_text())["limits"]
    assert {one["target"]["verdict"] for one in cells if not one["scenario"]} == {"met"}


@pytest.mark.parametrize(
    ("text", "more", "said"),
    [
        ('never = ["sex"]\n', {}, "'SEX' never leaves by policy.toml, and is a key"),
        ('never = ["income"]\n', {"columns": "INCOME: other"}, "'INCOME' never leaves"),
        ('keys = ["INCOME"]\n', {}, "names the key 'INCOME', which is none of the keys"),
        ("DIVERSE", {"columns": "INCOME: removed"}, "limits the diversity of 'INCOME'"),
    ],
)
def test_a_policy_that_a_protection_cannot_meet_is_refused_before_the_fit(
    written: Path, text: str, more: dict[str, Any], said: str
) -> None:
    target = '["k >= 2", "diversity(INCOME) >= 2"]' if text == "DIVERSE" else '"k >= 2"'
    asked = f'{text.removeprefix("DIVERSE")}[[scenario]]\nname = "n"\ntarget = {target}\n'
    with pytest.raises(SpecError, match=said):
        protected_by(asked, out="out", **more)
    assert not Path("out").exists()


def test_the_confidence_and_the_errors_of_a_policy_count() -> None:
    def told(confidence: float) -> Any:
        policy = {
            "confidence": confidence,
            "scenario": [
                {
                    "name": "all",
                    "keys": ["SEX", "AGE", "REGION"],
                    "target": ["tau1 <= 50", "records(r1 > 0.3) <= 900"],
                },
                {"name": "errors", "target": ["records(r1 > 0.3) <= 900"], "errors": 0.5},
            ],
        }
        found = unikat.check(people(), policy=policy, population_size=140, **MODEL)
        assert found.summary.level == confidence
        return verdicts(found)

    low, high = told(0.5), told(0.99)
    assert low["all", "tau1 <= 50"][0] < high["all", "tau1 <= 50"][0]
    assert low["errors", "records(r1 > 0.3) <= 900"][0] < low["all", "records(r1 > 0.3) <= 900"][0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--original", "safe.csv", "--salt", "guess"], "32 to 128 hexadecimal digits"),
        (["--salt", "0" * 32], "--salt is of the digest of the original, and none is named"),
        (["--original", "gone.csv"], "gone.csv: No such file"),
    ],
)
def test_the_digest_of_the_original_is_asked_for_as_it_can_be_made(
    written: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert main(["check", "safe.csv", "--policy", "policy.toml", *options, "--out", "run"]) == 1
    assert said in capsys.readouterr().err
    assert not Path("run").exists()


def test_a_salt_in_capitals_is_the_same(written: Path) -> None:
    how: dict[str, Any] = {"policy": "policy.toml", "original": "safe.csv"}
    one = unikat.check("safe.csv", **how, salt="ab" * 16)
    two = unikat.check("safe.csv", **how, salt="AB" * 16)
    assert one.summary.files == two.summary.files


def test_what_means_nothing_beside_a_certificate_is_refused_by_name(written: Path) -> None:
    unikat.check("safe.csv", policy="policy.toml", out="run")
    with pytest.raises(SpecError, match=r"--population-size.*--seed.*byte by byte"):
        unikat.check("safe.csv", certificate="run/certificate.json", population_size=9, seed=4)
    # A specification of a run has more than is compared.
    again = ["check", "run/check.toml", "--trust-spec", "--certificate", "run/certificate.json"]
    assert main(again) == 0


def test_a_certificate_that_names_no_file_says_so(written: Path) -> None:
    unikat.check("safe.csv", policy="policy.toml", out="run")
    path = Path("run/certificate.json")
    values = json.loads(path.read_text())
    del values["files"]["policy"]
    path.write_text(json.dumps(values))
    with pytest.raises(SpecError, match="no digest of the policy"):
        unikat.check("safe.csv", certificate=path)
