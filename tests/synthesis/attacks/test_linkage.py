"""Links of a file with an external one, by Splink, against weights computed pair by pair."""

from __future__ import annotations

import json
import logging
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import unikat
from unikat.cli.main import main
from unikat.errors import SpecError
from unikat.spec.key_errors import Rates
from unikat.synthesis.attacks import linkage as module
from unikat.synthesis.attacks.linkage import Links, blocking, link

pytest.importorskip("splink", reason="needs the extra link: pip install 'unikat[link]'")

LEVELS = (40, 30, 6, 5, 2)
NAMES = ["a", "b", "c", "d", "e"]
RATES = [Rates(0.05, 0.05)] * 5


def files(seed: int, n: int = 300, m: int = 500) -> tuple[Any, Any, tuple[Any, Any]]:
    """A file, an external one with errors, and who is who; half of the file is in the other."""
    rng = np.random.default_rng(seed)
    people = np.stack([rng.choice(k, 2 * m, p=rng.dirichlet(np.full(k, 0.7))) for k in LEVELS], 1)
    persons = rng.permutation(2 * m)
    mine, other = persons[:n], np.concatenate((persons[: n // 2], persons[n : n + m - n // 2]))
    spoilt = people[other].copy()
    for j, k in enumerate(LEVELS):
        wrong = rng.random(m) < RATES[j].wrong
        spoilt[wrong, j] = rng.integers(0, k, wrong.sum())
        spoilt[rng.random(m) < RATES[j].missing, j] = -1
    return people[mine].astype(np.int32), spoilt.astype(np.int32), (mine, other)


def weights(file: Any, external: Any, *, by_value: bool = True) -> Any:
    """Match weights of all pairs in bits; not `by_value`: the same for all values of a key."""
    found = np.zeros((len(file), len(external)))
    for j, rate in enumerate(RATES):
        x, y = file[:, j], external[:, j]
        both = np.concatenate((x[x >= 0], y[y >= 0]))
        share = np.bincount(both, minlength=LEVELS[j]) / len(both)
        shares = [np.bincount(one[one >= 0], minlength=LEVELS[j]) / (one >= 0).sum()
                  for one in (x, y)]  # fmt: skip
        alike = float(shares[0] @ shares[1])
        with np.errstate(divide="ignore"):
            agree = np.log2((1 - rate.wrong) / (share[x] if by_value else np.full(len(x), alike)))
        differ = np.log2(rate.wrong / (1 - alike))
        known = (x[:, None] >= 0) & (y[None] >= 0)
        found += np.where(known, np.where(x[:, None] == y[None], agree[:, None], differ), 0.0)
    return found


def candidates(file: Any, external: Any, sets: Any) -> Any:
    found = np.zeros((len(file), len(external)), bool)
    for some in sets:
        agree = (file[:, None, some] == external[None][:, :, some]).all(axis=2)
        found |= agree & (external[:, some] >= 0).all(axis=1)[None]
    return found


def linked(seed: int, truth: bool = True) -> tuple[Any, Any, Any, Links]:
    file, external, persons = files(seed)
    return file, external, persons, link(file, external, NAMES, RATES, persons if truth else None)


def test_links_are_those_with_the_largest_weight() -> None:
    file, external, persons, found = linked(1)
    plan = blocking(file, external, RATES)
    assert found.facts.blocking == tuple(tuple(NAMES[j] for j in one) for one in plan.sets)
    pairs = candidates(file, external, plan.sets)
    assert found.facts.n_pairs == pairs.sum()
    every = np.where(pairs, weights(file, external), -np.inf)
    best = every.max(axis=1)
    record = found.columns["row"] - 1
    np.testing.assert_array_equal(record, np.flatnonzero(pairs.any(axis=1)))
    np.testing.assert_allclose(found.columns["weight"], best[record], atol=1e-6)
    ties = every >= best[:, None] - 1e-6
    np.testing.assert_array_equal(found.columns["n_tied"], ties.sum(axis=1)[record])
    other = found.columns["external_row"] - 1
    assert ties[record, other].all()
    same = persons[0][:, None] == persons[1][None]
    correct = (ties & same).sum(axis=1) / np.maximum(ties.sum(axis=1), 1)
    np.testing.assert_allclose(found.columns["correct"], correct[record])
    prior = 1.0 / len(external)
    odds = np.where(pairs, 2.0**every * prior / (1.0 - prior), 0.0)
    probability = odds.max(axis=1) / (1.0 + odds.sum(axis=1))
    np.testing.assert_allclose(found.columns["probability"], probability[record], rtol=1e-6)
    # Planted: values that are rare count as much as common ones.
    plain = np.where(pairs, weights(file, external, by_value=False), -np.inf)
    assert np.abs(plain.max(axis=1)[record] - found.columns["weight"]).max() > 1.0


def test_links_are_counted() -> None:
    file, external, persons, found = linked(2)
    facts = found.facts
    assert facts.n_shared == 150
    every = facts.accepted[0]
    assert every.n_links == len(found.columns["row"])
    assert every.n_correct == pytest.approx(found.columns["correct"].sum())
    assert every.correct is not None
    assert every.correct.value == pytest.approx(found.columns["correct"].sum() / len(file))
    assert every.correct.lower < every.correct.value < every.correct.upper
    n_links = [one.n_links for one in facts.accepted]
    assert n_links == sorted(n_links, reverse=True)
    # The errors of the true pairs: a wrong value may be the right one.
    mine, theirs = np.nonzero(persons[0][:, None] == persons[1][None])
    for j, (name, wrong, missing) in enumerate(facts.observed):
        there = external[theirs, j] >= 0
        assert name == NAMES[j]
        assert missing == pytest.approx(1.0 - there.mean())
        assert wrong == pytest.approx((file[mine, j] != external[theirs, j])[there].mean())
    # Surer links are right more often; and more are found than by a join.
    right = [one.right.value for one in facts.accepted if one.right is not None and one.n_links]
    assert right == sorted(right)
    agree = (file[:, None] == external[None]).all(axis=2)
    same = persons[0][:, None] == persons[1][None]
    assert facts.joined.n_links == agree.any(axis=1).sum()
    expected = ((agree & same).sum(axis=1) / np.maximum(agree.sum(axis=1), 1)).sum()
    assert facts.joined.n_correct == pytest.approx(expected)
    assert every.n_correct is not None
    assert every.n_correct > expected


def test_persons_with_several_records_tell_no_rates() -> None:
    file, external, persons = files(2)
    of_two = persons[0] // 2, persons[1] // 2
    found = link(file, external, NAMES, RATES, of_two).facts
    single = [np.flatnonzero(np.bincount(one, minlength=500) == 1) for one in of_two]
    both = np.intersect1d(*single)
    assert 0 < found.n_single == len(both) < 150
    mine, theirs = (
        np.array([np.flatnonzero(one == person)[0] for person in both]) for one in of_two
    )
    there = external[theirs, 0] >= 0
    expected = (file[mine, 0] != external[theirs, 0])[there].mean()
    assert found.observed[0][1] == pytest.approx(expected)
    none = link(file, external, NAMES, RATES, (persons[0] * 0, persons[1] * 0)).facts
    assert (none.n_single, none.observed, none.n_shared) == (0, (), 300)


def test_without_the_truth_nothing_is_said_of_it() -> None:
    *_, known = linked(3)
    *_, found = linked(3, truth=False)
    assert found.facts.n_shared is None
    assert found.facts.observed == ()
    assert "correct" not in found.columns
    assert {one.n_correct for one in (*found.facts.accepted, found.facts.joined)} == {None}
    assert [one.n_links for one in found.facts.accepted] == [
        one.n_links for one in known.facts.accepted
    ]


def test_blocking_keeps_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    shares, said = [], []
    monkeypatch.setattr(module, "MOST_PAIRS", 3_000)
    for seed in range(20):
        file, external, persons = files(seed)
        plan = blocking(file, external, RATES)
        pairs = candidates(file, external, plan.sets)
        same = persons[0][:, None] == persons[1][None]
        shares.append((pairs & same).sum() / same.sum())
        said.append(plan.compared)
        assert pairs.sum() <= 10 * len(external)
    # A wrong value may be the right one, so that a little more are kept.
    assert np.mean(said) - 0.01 < np.mean(shares) < np.mean(said) + 0.03


def test_nothing_to_link_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PAIRS", 1)
    one = np.zeros((200, 2), np.int32)
    with pytest.raises(SpecError, match="Name more keys"):
        link(one, one, NAMES[:2], RATES[:2], None)


def survey(folder: Path) -> dict[str, Any]:
    """Write a file and an external one, whose values are easily found in texts."""
    file, external, persons = files(4, 200, 300)
    for name, codes, own in (("file", file, persons[0]), ("register", external, persons[1])):
        frame = pd.DataFrame({key: [None if c < 0 else f"SECRET{key}{c}" for c in codes[:, j]]
                              for j, key in enumerate(NAMES)})  # fmt: skip
        frame["pid"] = [f"PERSON{one}" for one in own]
        frame.to_csv(folder / f"{name}.csv", index=False)
    return {"keys": "a,b,c,d,e", "external": folder / "register.csv", "id": "pid"}


def test_attack_links_with_an_external_file(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    survey(tmp_path)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))

    def refuse(*_: Any) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    out = tmp_path / "out"
    with caplog.at_level(logging.DEBUG):
        code = main(["attack", str(tmp_path / "file.csv"), "--external",
                     str(tmp_path / "register.csv"), "--keys", "a,b,c,d,e", "--id", "pid",
                     "--key-errors", "*: 0.05, missing(0.05)", "--out", str(out)])  # fmt: skip
    assert code == 0
    assert not list(scratch.iterdir())
    said = capfd.readouterr()
    assert "a: 0.0" in " ".join(said.out.split())
    assert "linked to the right person" in " ".join(said.out.split())
    found = json.loads((out / "attack.json").read_text())
    links = pq.read_table(out / "links.parquet")
    assert found["linkage"]["accepted"][0]["n_links"] == links.num_rows
    assert found["external"] == {"name": "register.csv", "n_records": 300, "fit": None}
    assert found["linkage"]["errors"][0] == ["a", 0.05, 0.05]
    for text in (said.out, said.err, caplog.text, (out / "attack.json").read_text(),
                 (out / "attack.html").read_text(), str(links.to_pylist())):  # fmt: skip
        assert "SECRET" not in text
        assert "PERSON" not in text
    assert {oct(one.stat().st_mode & 0o777) for one in out.iterdir()} == {"0o600"}
    again = unikat.attack(out / "attack.toml", out=tmp_path / "again", trust_spec=True)
    assert again.summary.linkage == unikat.load(out).summary.linkage
    assert again.records["row"].tolist() == links["row"].to_pylist()
    assert again.table.shape == (4, 3)


def test_frames_are_linked_as_files_are(tmp_path: Path) -> None:
    asked = survey(tmp_path)
    by_file = unikat.attack(tmp_path / "file.csv", **asked)
    asked["external"] = pd.read_csv(tmp_path / "register.csv")
    by_frame = unikat.attack(pd.read_csv(tmp_path / "file.csv"), **asked)
    assert by_frame.summary.linkage == by_file.summary.linkage
    assert "right person" in str(by_frame).replace("\n", " ")


def test_without_the_engine_it_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = survey(tmp_path)
    monkeypatch.setitem(sys.modules, "splink", None)
    with pytest.raises(SpecError, match=r"pip install 'unikat\[link\]'"):
        unikat.attack(tmp_path / "file.csv", **asked)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"synthetic": "x.csv"}, "cannot both"),
        ({"population_size": 1_000}, "cannot both"),
        ({"keys": "a"}, "two keys"),
        ({"id": "a"}, "who is who"),
        ({"external": None, "synthetic": "x.csv"}, "add --external"),
        ({"key_errors": "z: 0.1"}, "none of the keys"),
        ({"dry_run": True}, None),
    ],
)
def test_what_does_not_go_together(more: dict[str, Any], said: str | None, tmp_path: Path) -> None:
    asked = {**survey(tmp_path), **more}
    if asked.pop("dry_run", False):
        with pytest.raises(SpecError, match="nothing to tell"):
            unikat.dry_run(unikat.attack, tmp_path / "file.csv", **asked)
        return
    with pytest.raises(SpecError, match=said):
        unikat.attack(tmp_path / "file.csv", **asked)
