"""Schemas are those of the classes, and what is written meets them."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

import schemas
import unikat
from unikat.datasets import draw_sample, simulate_town
from unikat.spec.kinds import KINDS

KEYS = ["age", "sex", "education"]
SHORT: dict[str, Any] = {"chains": 2, "max_sweeps": 48, "workers": 1}


def test_schemas_are_those_of_the_classes() -> None:
    there = {path.name: path.read_text(encoding="utf-8") for path in schemas.FOLDER.glob("*.json")}
    assert there == schemas.schemas(), "run  python tests/schemas.py"


def test_every_schema_stands_on_the_page() -> None:
    page = (Path(__file__).parents[1] / "docs" / "reference" / "schemas.md").read_text("utf-8")
    listed = set(re.findall(r"`(unikat\.[a-z-]+/\d+)`", page))
    assert listed == {json.loads(one)["$id"] for one in schemas.schemas().values()}


def runs(folder: Path) -> dict[str, Any]:
    town = simulate_town(600)
    sample = draw_sample(town, 0.2)
    common: dict[str, Any] = {"population_size": 600, "model": "latent-class", **SHORT}
    made = unikat.synthesize(sample, KEYS, datasets=2, **SHORT)
    policy = {"never": ["name"], "scenario": [{"name": "n", "keys": KEYS, "target": "k >= 3"}]}
    sample.to_csv(folder / "sample.csv", index=False)
    return {
        "assess": unikat.assess(sample, KEYS, classics=True, by="tenure", **common),
        "compare": unikat.compare(
            sample, KEYS, population_size=600, models=["latent-class", "loglinear"], **SHORT
        ),
        "evaluate": unikat.evaluate(town, KEYS, n=90, repeats=2, models="loglinear", **SHORT),
        "protect": unikat.protect(sample, KEYS, target="k >= 2", **common),
        "synthesize": made,
        "attack": unikat.attack(sample, made, attacks=50),
        "verify": unikat.verify(sample, sample, KEYS, **common),
        "check": unikat.check(folder / "sample.csv", policy),
    }


def test_what_is_written_meets_its_schema(tmp_path: Path) -> None:
    known = {json.loads(one)["$id"]: json.loads(one) for one in schemas.schemas().values()}

    def errors(content: Any) -> list[ValidationError]:
        return list(Draft202012Validator(known[content["schema"]]).iter_errors(content))

    answers = runs(tmp_path)
    assert set(answers) == set(KINDS)
    seen = set()
    for name, answer in answers.items():
        folder = answer.save(tmp_path / name)
        for path in [*folder.glob("*.json"), *folder.glob("*.toml")]:
            text = path.read_text(encoding="utf-8")
            content = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
            # A policy is kept as somebody wrote it, in a shorter form than unikat's.
            if content.get("schema") in known and path.name != "policy.toml":
                assert errors(content) == [], path.name
                seen.add(content["schema"])
    assert seen == set(known) - {"unikat.policy/1"}
    planted = json.loads((tmp_path / "assess" / "result.json").read_text(encoding="utf-8"))
    planted["tau1"]["mean"] = "about 5"
    assert errors(planted)
    del planted["tau1"]
    assert errors(planted)


@pytest.mark.parametrize("name", ["result-1.json", "plan-1.json"])
def test_schemas_are_in_the_package(name: str) -> None:
    from importlib.resources import files

    assert json.loads((files("unikat") / "schemas" / name).read_text(encoding="utf-8"))["$id"]
