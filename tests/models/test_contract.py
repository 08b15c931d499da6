"""What every model promises: signatures, purity, repeatability, shapes, and coherent probabilities.

Parametrised over the catalogue, so that a new model meets these tests by standing there and in
`TRAITS` of `models/contract.py`.
"""

from __future__ import annotations

import inspect
import itertools
import json
import pickle
import re
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from scipy import stats

import unikat
from models.contract import (
    N_LEVELS,
    TRAITS,
    after,
    arrays,
    assert_same,
    every_model,
    leaves,
    random_table,
    variants,
)
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.models.base import (
    CellLaw,
    Facts,
    GroupsLevels,
    Info,
    IntegratesRisk,
    Model,
    OfHouseholds,
    PopulationLaw,
    Refits,
    Sampler,
    Simulator,
    Specified,
    Stream,
    Uncertainty,
)
from unikat.models.catalogue import MODELS, OF_HOUSEHOLDS
from unikat.models.mixtures.latent_class import LatentClass
from unikat.models.named import build_model
from unikat.zeros.diagram import build, possible

PACKAGE = Path(unikat.__file__).parent
PROTOCOLS = (Specified, Sampler, CellLaw, Simulator)


def methods_of(kind: type) -> dict[str, inspect.Signature]:
    """Signatures of the methods of a protocol."""
    found = inspect.getmembers(kind, inspect.isfunction)
    return {name: inspect.signature(one) for name, one in found if name[0] != "_"}


def broken(model: Any, protocol: type) -> list[str]:
    """Methods that are not there, or have other parameters than the protocol says."""
    own = methods_of(type(model))
    return [
        name
        for name, promised in methods_of(protocol).items()
        if name not in own
        or [(p.name, p.kind, p.default) for p in own[name].parameters.values()]
        != [(p.name, p.kind, p.default) for p in promised.parameters.values()]
    ]


@pytest.mark.parametrize("name", [*MODELS, *OF_HOUSEHOLDS])
def test_models_keep_the_protocols(name):
    """Every method, with its parameters in order; names and parameters in words."""
    model = build_model(name, {})
    for protocol in PROTOCOLS:
        assert isinstance(model, protocol)
        assert broken(model, protocol) == []
    for protocol in (IntegratesRisk, GroupsLevels, Refits, OfHouseholds):
        assert not isinstance(model, protocol) or broken(model, protocol) == []
    assert model.name == name
    assert model.population in get_args(PopulationLaw)
    assert model.uncertainty in get_args(Uncertainty)
    assert type(model).__dataclass_params__.frozen
    assert pickle.loads(pickle.dumps(model)) == model


def test_every_model_has_variants_here():
    assert set(TRAITS) == set(MODELS)


def test_what_only_some_models_can_do():
    can = {
        protocol: {
            name for name, kind in (MODELS | OF_HOUSEHOLDS).items() if isinstance(kind(), protocol)
        }
        for protocol in (IntegratesRisk, Refits, OfHouseholds)
    }
    assert can[IntegratesRisk] == {name for name, kind in MODELS.items() if kind.uses_weights}
    assert can[Refits] == {"loglinear"}
    assert can[OfHouseholds] == set(OF_HOUSEHOLDS)


def test_protocols_are_narrow_and_nobody_refuses_a_method():
    narrow = {kind: set(kind.__abstractmethods__) for kind in PROTOCOLS[1:]}
    assert sum(map(len, narrow.values())) == len(set().union(*narrow.values()))
    assert max(map(len, narrow.values())) <= 4
    sources = [path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")]
    assert not [text for text in sources if re.search(r"raise NotImplementedError", text)]


@pytest.mark.parametrize("method", ["step", "cell_probabilities", "simulate"])
def test_a_broken_promise_is_found(method):
    class Lacking(LatentClass):
        pass

    def other(self: Any, stream: Stream, state: Any) -> None:
        """Has other parameters."""

    setattr(Lacking, method, other)
    assert [broken(Lacking(), kind) for kind in PROTOCOLS].count([method]) == 1
    with pytest.raises(TypeError, match="abstract"):
        type("Empty", (Model,), {"name": "empty"})()


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("gom", {"components": 0}),
        ("gom", {"components": 2.0}),
        ("gom", {"components": True}),
        ("gom", {"components": 10_001}),
        ("gom", {"alpha": "none"}),
        ("gom", {"alpha_rate": 0.0}),
        ("latent-class", {"top_shape": 0.0}),
        ("latent-class", {"split_merge": 1}),
        ("latent-class", {"profile_base": "flat"}),
        ("hdp", {"profile_concentration": 0.0}),
        ("hdp", {"profile_concentration": "learn"}),
        ("hdp", {"profile_shape": float("nan")}),
        ("hdp", {"profile_rate": -1.0}),
        ("hdp", {"split_merge": "yes"}),
        ("loglinear", {"terms": " "}),
        ("loglinear", {"terms": 2}),
        ("loglinear", {"criterion": "B3"}),
        ("loglinear", {"underfitting": 0.0}),
        ("loglinear", {"tolerance": 0.0}),
        ("loglinear", {"tolerance": float("inf")}),
        ("loglinear", {"smoothing": -1.0}),
        ("loglinear", {"smoothing": True}),
        ("loglinear", {"interval": "none"}),
    ],
)
def test_impossible_options_are_refused(name, bad):
    with pytest.raises(SpecError, match=next(iter(bad))):
        build_model(name, bad)


@every_model
def test_functions_leave_their_arguments_alone(name, options):
    model: Any = build_model(name, options)
    table = random_table()
    data = model.prepare(table)
    state = after(model, data, 3)
    before = [array.copy() for array in arrays((state, data))]
    cells = table.cells.copy()
    new, info = model.step(Stream(3, 1, 9), state, data, 2)
    model.cell_probabilities(Stream(3, 1, 9), state, data, cells)
    model.impute(Stream(3, 1, 9), state, data)
    model.simulate(Stream(3, 1, 9), state, data, 10)
    for copy, array in zip(before, arrays((state, data)), strict=True):
        np.testing.assert_array_equal(copy, array)
    np.testing.assert_array_equal(cells, table.cells)
    assert type(new) is type(state)
    assert isinstance(info, Info)
    assert all(isinstance(value, float) for value in info.values.values())
    # A second step from the same state gives the same numbers.
    assert_same(new, model.step(Stream(3, 1, 9), state, data, 1)[0])


@every_model
def test_numbers_do_not_depend_on_threads(name, options):
    model: Any = build_model(name, options)
    data = model.prepare(random_table())
    ends = [after(model, data, 8, n_threads) for n_threads in (1, 2, 3, 7)]
    for other in ends[1:]:
        assert_same(ends[0], other)


@every_model
def test_fits_and_starts_repeat(name, options):
    model: Any = build_model(name, options)
    table = random_table()
    one, other = model.prepare(table), model.prepare(table)
    assert_same(one, other)
    assert_same(after(model, one, 0), after(model, other, 0))


@variants(chain=True)
def test_starts_differ_between_chains(name, options):
    model: Any = build_model(name, options)
    data = model.prepare(random_table())
    one, other = (arrays(after(model, data, 0, chain=chain)) for chain in (1, 2))
    assert not all(np.array_equal(*pair) for pair in zip(one, other, strict=True))


@variants(chain=False)
def test_a_state_that_is_empty_stays_so(name, options):
    model: Any = build_model(name, options)
    data = model.prepare(random_table())
    assert leaves(after(model, data, 2)) == []


@every_model
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_states_keep_their_types(name, options, missing):
    """A checkpoint holds them as arrays: of one type and number of axes, contiguous."""
    model: Any = build_model(name, options)
    data = model.prepare(random_table(missing=missing))
    state = after(model, data, 0)
    for sweep in range(1, 6):
        new, info = model.step(Stream(3, 1, sweep), state, data, 1)
        assert [(np.asarray(a).dtype, np.ndim(a)) for a in leaves(new)] == [
            (np.asarray(a).dtype, np.ndim(a)) for a in leaves(state)
        ]
        assert all(a.flags.c_contiguous for a in arrays(new))
        assert all(np.isfinite(value) for value in info.values.values())
        state = new


@every_model
def test_data_and_states_can_be_sent_to_workers(name, options):
    model: Any = build_model(name, options)
    table = random_table()
    data = model.prepare(table)
    state = after(model, data, 3)
    there_data, there_state = pickle.loads(pickle.dumps((data, state)))
    where = Stream(3, 1, 4)
    assert_same(
        model.step(where, there_state, there_data, 1)[0], model.step(where, state, data, 1)[0]
    )
    for function in (model.cell_probabilities, model.predictive_probabilities):
        np.testing.assert_array_equal(
            function(where, there_state, there_data, table.cells[2:9].clip(0)),
            function(where, state, data, table.cells[2:9].clip(0)),
        )


@every_model
def test_imputed_records_keep_what_is_known(name, options):
    model: Any = build_model(name, options)
    table = random_table()
    data = model.prepare(table)
    state = after(model, data, 5)
    cells = model.impute(Stream(3, 1, 9), state, data)
    patterns = np.repeat(table.cells, table.counts, axis=0)
    incomplete = patterns[(patterns < 0).any(axis=1)]
    assert cells.shape == incomplete.shape
    assert cells.dtype == np.int32
    assert ((cells >= 0) & (cells < N_LEVELS)).all()
    assert (cells == incomplete)[incomplete >= 0].all()
    np.testing.assert_array_equal(cells, model.impute(Stream(3, 1, 9), state, data))
    assert not np.array_equal(cells, model.impute(Stream(3, 1, 10), state, data))


@every_model
def test_probabilities_add_up(name, options):
    """All cells add to 1; a margin (-1) is the sum over the key's levels; no cells, no numbers."""
    model: Any = build_model(name, options)
    data = model.prepare(random_table())
    state = after(model, data, 5)
    where = Stream(3, 1, 5)
    cells = np.array(list(itertools.product(*map(range, N_LEVELS))), np.int32)
    for function in (model.cell_probabilities, model.predictive_probabilities):
        p = function(where, state, data, cells)
        assert p.dtype == np.float64
        assert p.shape == (len(cells),)
        assert (p > 0.0 if TRAITS[name].positive else p >= 0.0).all()
        assert function(where, state, data, cells[:0]).shape == (0,)
    law = getattr(model, TRAITS[name].law)
    p = law(where, state, data, cells)
    # For each key: profiles in single precision, and sticks of up to 1e-6 in total left out.
    rtol = TRAITS[name].tolerance * len(N_LEVELS)
    np.testing.assert_allclose(p.sum(), 1.0, rtol=rtol)
    table = p.reshape(N_LEVELS)
    for j in range(len(N_LEVELS)):
        margin = cells.copy()
        margin[:, j] = -1
        expected = np.broadcast_to(table.sum(axis=j, keepdims=True), N_LEVELS).ravel()
        got = law(where, state, data, margin)
        np.testing.assert_allclose(got, expected, rtol=rtol)
    none = np.full((1, len(N_LEVELS)), -1, np.int32)
    np.testing.assert_allclose(law(where, state, data, none), 1.0, rtol=1e-9)


@pytest.mark.statistical
@variants(independent=True)
def test_simulated_individuals_have_the_cell_probabilities(name, options):
    """Chi-square of 40,000 individuals over all cells; false alarm 1e-6 for each model."""
    model: Any = build_model(name, options)
    data = model.prepare(random_table())
    state = after(model, data, 20)
    n = 20_000
    draws = [model.simulate(Stream(3, 1, sweep), state, data, n) for sweep in (20, 21)]
    for draw in draws:
        assert draw.shape == (n, len(N_LEVELS))
        assert draw.dtype == np.int32
        assert ((draw >= 0) & (draw < N_LEVELS)).all()
    assert not np.array_equal(*draws)
    np.testing.assert_array_equal(draws[0], model.simulate(Stream(3, 1, 20), state, data, n))
    cells = np.array(list(itertools.product(*map(range, N_LEVELS))), np.int32)
    law = getattr(model, TRAITS[name].law)
    expected = law(Stream(3, 1, 20), state, data, cells)
    expected *= 2 * n / expected.sum()
    place = np.ravel_multi_index(tuple(np.concatenate(draws).T), N_LEVELS)
    observed = np.bincount(place, minlength=len(cells))
    common = expected >= 8.0
    f_obs = np.append(observed[common], observed[~common].sum())
    f_exp = np.append(expected[common], expected[~common].sum())
    keep = f_exp > 0.0
    assert stats.chisquare(f_obs[keep], f_exp[keep]).pvalue > 1e-6


@pytest.mark.parametrize("name", MODELS)
def test_a_file_of_which_nothing_is_known(name):
    """It leaves a model at its prior, or is refused."""
    keys = [Key.of_size("A", 2), Key.of_size("B", 3)]
    table = CellTable.from_codes([[-1, -1]] * 3, keys, 50)
    model: Any = build_model(name, {})
    if not TRAITS[name].without_known_keys:
        with pytest.raises(SpecError, match="No record has a key that is known"):
            model.prepare(table)
        return
    data = model.prepare(table)
    state = after(model, data, 5)
    cells = model.impute(Stream(3, 1, 6), state, data)
    assert cells.shape == (3, 2)
    assert ((cells >= 0) & (cells < [2, 3])).all()


@every_model
def test_impossible_cells_are_respected_or_refused(name, options):
    """K0 = 0 with K1 = 2, and K3 = 3 with K2 = 1: no probability, no individual, no completion."""
    # Rows are levels of the keys, one key after the other.
    conditions = np.ones((2, sum(N_LEVELS)), bool)
    conditions[0, [1, 2, 3]] = False
    conditions[1, [5, 7, 8, 9]] = False
    diagram = build(conditions, np.concatenate(([0], np.cumsum(N_LEVELS))))
    before = random_table()
    codes = np.repeat(before.cells, before.counts, axis=0)
    codes = codes[possible(diagram, codes)]
    table = CellTable.from_codes(codes, before.keys, before.population_size, zeros=diagram)
    model: Any = build_model(name, options)
    if not TRAITS[name].zeros:
        with pytest.raises(SpecError, match="impossible combinations"):
            model.prepare(table)
        return
    data = model.prepare(table)
    state = after(model, data, 5)
    where = Stream(3, 1, 5)
    cells = np.array(list(itertools.product(*map(range, N_LEVELS))), np.int32)
    allowed = possible(diagram, cells)
    assert 0 < (~allowed).sum() < len(cells) / 2
    for function in (model.cell_probabilities, model.predictive_probabilities):
        p = function(where, state, data, cells)
        assert (p[~allowed] == 0.0).all()
    p = getattr(model, TRAITS[name].law)(where, state, data, cells)
    np.testing.assert_allclose(p.sum(), 1.0, rtol=TRAITS[name].zeros_tolerance)
    assert possible(diagram, model.simulate(where, state, data, 500)).all()
    imputed = model.impute(where, state, data)
    assert len(imputed) == table.counts[table.incomplete].sum() > 50
    assert possible(diagram, imputed).all()


@pytest.mark.parametrize("name", MODELS)
def test_what_is_said_of_a_fit_can_be_written(name):
    model: Any = build_model(name, {})
    facts = model.facts(model.prepare(random_table()))
    assert isinstance(facts, Facts)
    assert json.loads(json.dumps(facts.values)) == facts.values
    assert all(isinstance(text, str) for text in facts.warnings)


@pytest.mark.parametrize("name", MODELS)
def test_models_compile_without_data(name: str) -> None:
    assert build_model(name, {}).compile() is None
