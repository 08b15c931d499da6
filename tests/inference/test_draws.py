"""Draws as an ArviZ data tree and as a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from inference.toy_chain import Toy, ToyTable, Watch
from unikat import __version__
from unikat.errors import OutputError
from unikat.inference.backends import Workers
from unikat.inference.chains import sample
from unikat.inference.diagnostics import diagnose
from unikat.inference.plan import Plan, StopRule
from unikat.models.base import Start, Stream


@pytest.fixture(scope="module")
def draws():
    plan = Plan(n_chains=3, thin=2, stop=StopRule(max_sweeps=500))
    return sample(Toy(), ToyTable(), Watch(), seed=1, plan=plan, workers=Workers(n_workers=1))


class Numbers(Watch):
    """Says in which sweep it was asked."""

    def observe(
        self, stream: Stream, model: Any, state: Any, data: Any, totals: Any
    ) -> Mapping[str, float]:
        """Return the number of the sweep besides the scalars."""
        found = super().observe(stream, model, state, data, totals)
        return {**found, "sweep": float(stream.sweep)}


@pytest.mark.parametrize("made", [0, 60, 62, 401])
def test_the_sweeps_of_the_draws_are_known(made):
    plan = Plan(n_chains=3, thin=3, stop=StopRule(max_sweeps=300))
    start = None
    if made:
        before = Plan(n_chains=3, thin=1, stop=StopRule(max_sweeps=made))
        start = Start(sample(Toy(), ToyTable(), Watch(), seed=1, plan=before).states, made)
    found = sample(Toy(), ToyTable(), Numbers(), seed=1, plan=plan, start=start)
    sweeps = found.retained("sweep")
    assert sweeps.shape == (3, len(found.retained_sweeps()))
    assert (sweeps == np.array(found.retained_sweeps())).all()
    assert sweeps.size == found.totals.count


def test_datatree_has_retained_and_discarded_draws(draws):
    tree = draws.to_datatree()
    assert tree["posterior"]["first"].dims == ("chain", "draw")
    np.testing.assert_array_equal(tree["posterior"]["first"], draws.retained("first"))
    np.testing.assert_array_equal(
        tree["warmup_posterior"]["first"], draws.scalars["first"][:, : draws.n_discarded]
    )
    attributes = tree["posterior"].attrs
    assert attributes["inference_library_version"] == __version__
    assert (attributes["seed"], attributes["thin"], attributes["model"]) == (1, 2, "toy")


def test_file_is_read_by_arviz(draws, tmp_path):
    from arviz_stats import rhat
    from xarray import open_datatree

    path = tmp_path / "draws.nc"
    draws.write_netcdf(path)
    draws.write_netcdf(path)
    assert [file.name for file in tmp_path.iterdir()] == ["draws.nc"]
    tree = open_datatree(path, engine="h5netcdf").load()
    tree.close()
    np.testing.assert_array_equal(tree["posterior"]["first"], draws.retained("first"))
    assert float(rhat(tree, var_names="first")["first"]) == diagnose(draws.retained("first")).rhat
    assert tree["posterior"].attrs["stop_reason"] == "sweep limit"


def test_the_same_draws_give_the_same_file(draws):
    assert draws.to_netcdf() == draws.to_netcdf()


def test_a_file_that_cannot_be_written(draws, tmp_path):
    with pytest.raises(OutputError, match="cannot be written"):
        draws.write_netcdf(tmp_path / "missing" / "draws.nc")
