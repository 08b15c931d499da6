"""The steps on matrices and frames: they find what the runs find, and refuse bad input."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import unikat
from unikat import HDP, CellTable, Design, Key, Plan, StopRule, tabulate
from unikat.errors import DataError, SpecError
from unikat.protection.what_if import Posterior

CODES = np.random.default_rng(5).binomial(5, [0.3, 0.5, 0.4], (150, 3))
KEYS = ["a", "b", "c"]
SHORT = Plan(n_chains=2, stop=StopRule(max_sweeps=60))


def fitted() -> unikat.Fit:
    return unikat.fit(HDP(), tabulate(CODES, population_size=900), plan=SHORT)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table, dict.copy])
def test_a_matrix_and_a_frame_give_the_same_table(kind: Callable[[Any], Any]) -> None:
    columns = dict(zip(KEYS, CODES.T, strict=True))
    data = CODES if kind is dict.copy else kind(columns)
    assert tabulate(data, KEYS, population_size=900).fingerprint == (
        unikat.read(pd.DataFrame(columns), KEYS, Design(population_size=900)).tabulate().fingerprint
    )


def test_codes_are_counted_as_they_are() -> None:
    some = CODES.copy()
    some[:9, 1] = -1
    keys = [Key.of_size(name, 7) for name in KEYS]
    wanted = CellTable.from_codes(some, keys, 900, "wildcard")
    table = tabulate(
        some.tolist(), "a, b, c", population_size=900, n_levels=[7] * 3, missing="wildcard"
    )
    assert table.fingerprint == wanted.fingerprint
    assert [key.name for key in tabulate(some, population_size=900).keys] == [
        "key1",
        "key2",
        "key3",
    ]


def test_masked_codes_are_missing() -> None:
    some = np.ma.masked_equal(CODES.astype(np.uint8), 5)
    wanted = tabulate(np.where(CODES == 5, -1, CODES), population_size=900)
    assert tabulate(some, population_size=900).fingerprint == wanted.fingerprint
    read = unikat.read(some, KEYS, Design(population_size=900))
    assert read.n_missing == wanted.n_missing


def test_the_steps_give_the_numbers_of_an_assessment() -> None:
    options: dict[str, Any] = {"keys": KEYS, "population_size": 900, "chains": 2, "max_sweeps": 60}
    whole = unikat.assess(CODES, model="hdp", workers=1, **options)
    table = unikat.read(CODES, KEYS, Design(population_size=900)).tabulate()
    fit = unikat.fit("hdp", table, plan=SHORT)
    assert unikat.estimate_risk(fit).tau1 == fit.estimate().tau1
    assert unikat.estimate_risk(fit).tau1.mean == whole.tau1.mean


def test_recoded_keys_are_those_of_the_posterior() -> None:
    fit, rules = fitted(), {"key1": "width(2)", "key3": None}
    found = unikat.recode(fit, rules, level=0.8)
    wanted = Posterior.of(fit).what_if(rules, 0.8)
    assert (found.tau1, found.table.fingerprint) == (wanted.tau1, wanted.table.fingerprint)
    codes = found.table.cells[found.table.record_cell]
    np.testing.assert_array_equal(codes, np.column_stack([CODES[:, 0] // 2, CODES[:, 1]]))


def test_runs_take_matrices() -> None:
    made = unikat.synthesize(CODES, keys=KEYS, datasets=2, chains=2, max_sweeps=60)
    synthetic = [frame.to_numpy() for frame in made.frames]
    assert [one.shape for one in synthetic] == [CODES.shape] * 2
    frames = [pd.DataFrame(one, columns=KEYS) for one in (CODES, *synthetic)]
    options: dict[str, Any] = {"keys": KEYS, "population_size": 900, "model": "hdp"}
    short: dict[str, Any] = {"chains": 2, "max_sweeps": 60, "workers": 1}
    coarse = np.column_stack([CODES[:, 0] // 2, CODES[:, 1:]])
    assert unikat.verify(CODES, protected=coarse, **options, **short).spec.keys == tuple(KEYS)
    attacks = unikat.attack(CODES, synthetic=synthetic, keys=KEYS)
    pd.testing.assert_frame_equal(
        attacks.table, unikat.attack(frames[0], synthetic=frames[1:], keys=KEYS).table
    )


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: tabulate(CODES * 1.0, population_size=900), DataError, "whole numbers"),
        (lambda: tabulate(CODES[:, 0], population_size=900), DataError, "matrix"),
        (lambda: tabulate([], population_size=900), DataError, "matrix"),
        (lambda: tabulate([[0, 1], [2]], population_size=900), DataError, "Each record"),
        (lambda: tabulate(CODES - 2, population_size=900), DataError, "got -2"),
        (lambda: tabulate(CODES + np.uint64(2**63), population_size=900), DataError, "got"),
        (lambda: tabulate(CODES > 1, population_size=900), DataError, "bool"),
        (lambda: tabulate(CODES, population_size=900, n_levels=[2, 2, 2]), DataError, "outside"),
        (lambda: tabulate(CODES, population_size=10), SpecError, "population size"),
        (lambda: tabulate(CODES, population_size=900, n_levels=[9, 9]), SpecError, "n_levels"),
        (lambda: tabulate(CODES, population_size=900, n_levels=[9, 9, 0]), SpecError, "n_levels"),
        (lambda: tabulate(CODES, "a,b", population_size=900), SpecError, "keys"),
        (lambda: tabulate(CODES, ["a", "a", "b"], population_size=900), SpecError, "keys"),
        (lambda: tabulate(CODES + 10**6, population_size=900), SpecError, "levels"),
        (lambda: tabulate(pd.DataFrame(CODES), population_size=900), SpecError, "name the columns"),
        (lambda: tabulate(3, KEYS, population_size=900), DataError, "int"),
        (lambda: unikat.fit("hdpp", tabulate(CODES, population_size=900)), SpecError, "hdp"),
        (lambda: unikat.fit(HDP, tabulate(CODES, population_size=900)), SpecError, "neither"),
        (lambda: unikat.fit(HDP(), CODES), SpecError, "tabulate"),
        (
            lambda: unikat.fit(HDP(), tabulate(CODES, population_size=900), plan=3),
            SpecError,
            "plan",
        ),
        (lambda: unikat.estimate_risk(fitted(), level="0.9"), SpecError, "level"),
        (lambda: unikat.recode(fitted(), {"key9": None}), SpecError, "key9"),
        (lambda: unikat.estimate_risk(CODES), SpecError, "fit"),
        (lambda: unikat.recode(CODES, {}), SpecError, "fit"),
        (lambda: unikat.assess(CODES, keys="a,b", population_size=900), DataError, "2 keys"),
        (lambda: unikat.assess(CODES, population_size=900), DataError, "0 keys"),
        (lambda: unikat.assess(CODES - 2, keys=KEYS, population_size=900), DataError, "-1"),
    ],
)
def test_bad_input_is_refused_in_words(call: Callable[[], Any], error: type, words: str) -> None:
    with pytest.raises(error, match=words) as told:
        call()
    assert len(str(told.value)) < 400


def types_in(annotation: Any) -> Iterator[type]:
    """The classes in an annotation."""
    if isinstance(annotation, type):
        yield annotation
    for part in typing.get_args(annotation):
        yield from types_in(part)


def test_every_type_of_a_public_signature_is_public() -> None:
    public = {name: getattr(unikat, name) for name in unikat.__all__}
    functions = {name: one for name, one in public.items() if inspect.isfunction(one)}
    for name, one in public.items():
        # The methods of models are for those who write one.
        if isinstance(one, type) and not one.__module__.startswith("unikat.models."):
            functions |= {
                f"{name}.{at}": method
                for at, method in inspect.getmembers(one, inspect.isroutine)
                if at[0] != "_" and getattr(method, "__module__", "").startswith("unikat")
            }
    assert {"fit", "tabulate", "recode", "Microdata.tabulate"} <= set(functions)
    # Imported for types alone.
    known = vars(typing) | public | {"pa": pa, "DataTree": Any, "duckdb": duckdb}
    assert [
        (name, kind.__qualname__)
        for name, function in functions.items()
        for annotation in typing.get_type_hints(function, None, known).values()
        for kind in types_in(annotation)
        if kind.__module__.startswith("unikat") and kind not in public.values()
    ] == []
