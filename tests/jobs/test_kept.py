"""States that an assessment keeps: loaded, they give the numbers of the fresh assessment."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unikat
from protection.test_protect import people
from unikat.errors import DataError, OutputError, SpecError
from unikat.inference import checkpoint
from unikat.protection import kept
from unikat.report.folders.outputs import STATES
from unikat.risk.estimate import RiskEstimate

PERSONS = {"keys": "region,sex,age,education", "population_size": 4000}
QUICK = {"max_sweeps": 50, "chains": 2, "workers": 1, "progress": False}
RULES: dict[str, Any] = {"education": [["low", "mid"]], "sex": None}
AUTO = {"candidates": ("latent-class",), "evidence_seconds": 0.3}


def file_of(folder: Path, *, missing: float = 0.0) -> Path:
    frame = people(200)
    frame["weight"] = np.where(frame["sex"] == "f", 8.0, 12.0)
    frame["home"] = np.arange(len(frame)) // 3
    frame["member"] = np.where(np.arange(len(frame)) % 3, "other", "head")
    for name in ("region", "education"):
        gone = np.random.default_rng(len(name)).random(len(frame)) < missing
        frame.loc[gone, name] = None
    path = folder / "people.csv"
    frame.to_csv(path, index=False)
    return path


def same(one: RiskEstimate, other: RiskEstimate) -> None:
    assert one.draws is not None
    assert other.draws is not None
    assert one.draws.scalars.keys() == other.draws.scalars.keys()
    for name, values in one.draws.scalars.items():
        np.testing.assert_array_equal(values, other.draws.scalars[name])
    assert (one.tau1, one.tau2) == (other.tau1, other.tau2)
    np.testing.assert_array_equal(one.records.r1, other.records.r1)
    assert one.tau1.mean > 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({**PERSONS, "model": "latent-class", "zeros": ["region == '13' and education == 'high'"],
          "zeros_conflict": "drop"}, 0.0),
        ({**PERSONS, "model": "hdp"}, 0.1),
        ({**PERSONS, "model": "gom", "set": {"components": 5}}, 0.0),
        ({"keys": PERSONS["keys"], "weights": "weight", "model": "auto", "set": AUTO}, 0.1),
        ({"keys": "region,sex,education", "household": "home", "population_households": 1200,
          "model": "households", "set": {"calibrate": False}}, 0.0),
    ],
    ids=["zeros", "missing", "gom", "auto-design", "households"],
)  # fmt: skip
def test_loaded_states_give_the_numbers_of_the_fresh_assessment(
    options: dict[str, Any], missing: float, tmp_path: Path
) -> None:
    source = file_of(tmp_path, missing=missing)
    fresh = unikat.assess(source, out=tmp_path / "out", keep_states=True, **options, **QUICK)
    same(fresh.what_if(RULES), unikat.load(tmp_path / "out", trust_spec=True).what_if(RULES))
    assert stat.S_IMODE((tmp_path / "out" / STATES).stat().st_mode) == 0o600


def test_what_is_said_where_states_or_file_are_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = file_of(tmp_path), tmp_path / "out"
    asked: dict[str, Any] = {**PERSONS, "model": "latent-class", **QUICK}
    with pytest.raises(SpecError, match="loglinear does not tell what recoded keys"):
        unikat.assess(source, **{**asked, "model": "loglinear"}, keep_states=True)
    unikat.assess(source, out=out, **asked)
    assert not (out / STATES).exists()
    with pytest.raises(SpecError, match=r"kept no states .* again with --keep-states"):
        unikat.load(out, trust_spec=True).what_if(RULES)
    unikat.assess(pd.read_csv(source), out=tmp_path / "frame", keep_states=True, **asked)
    with pytest.raises(SpecError, match="is of a data frame"):
        unikat.load(tmp_path / "frame", trust_spec=True).what_if(RULES)
    unikat.assess(source, out=out, overwrite=True, keep_states=True, **asked)
    # A copy elsewhere still finds the file.
    unikat.load(out).save(tmp_path / "copy")
    loaded = unikat.load(tmp_path / "copy", trust_spec=True)
    whole = source.read_text()
    source.write_text("\n".join(whole.splitlines()[:-1]))
    with pytest.raises(DataError, match=r"people.csv has changed since .* assess it again"):
        loaded.what_if(RULES)
    source.unlink()
    with pytest.raises(DataError, match=r"people.csv"):
        loaded.what_if(RULES)
    source.write_text(whole)
    monkeypatch.setattr(kept, "__version__", "0.0")
    with pytest.raises(OutputError, match="whose numbers may differ"):
        loaded.what_if(RULES)
    monkeypatch.undo()
    assert loaded.what_if(RULES).tau1.mean > 0.0


def test_a_forged_file_is_refused(tmp_path: Path) -> None:
    source, out = file_of(tmp_path), tmp_path / "out"
    unikat.assess(source, out=out, keep_states=True, model="latent-class", **PERSONS, **QUICK)
    found = kept.Kept.read(out / STATES)
    assert found.ends is not None
    state = found.ends.states[0]
    table = unikat.load(out, trust_spec=True)._posterior.table
    for forged in (
        {"options": {"components": 3}},
        {"name": "no model"},
        {"weights": (1.0, "x")},
        {"ends": found.ends._replace(states=(state._replace(z=state.z + 1000),) * 2)},
    ):
        content = {name: getattr(found, name) for name in found.__dataclass_fields__} | forged
        checkpoint.save(out / "forged", {}, content)
        with pytest.raises(OutputError, match="forged cannot be read: it is damaged"):
            kept.Kept.read(out / "forged").posterior(out / "forged", table, None, None)
