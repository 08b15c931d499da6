"""Roles that are proposed for the columns of a file."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from unikat.data.roles import encoded, proposed, renumbered
from unikat.spec.columns import RoleTold

N = 400
RNG = np.random.default_rng(8)
DAYS = [date(1940, 1, 1) + timedelta(days=int(d)) for d in RNG.integers(0, 25_000, N)]
VISITS = [date(2024, 1, 1) + timedelta(days=int(d)) for d in RNG.integers(0, 300, N)]
INCOME = np.round(np.exp(RNG.normal(10.0, 0.5, N)), 2)
FREE = [f"asked the neighbour at number {i} about it" if i % 3 == 0 else None for i in range(N)]

IDENTIFIERS: dict[str, tuple[str, list[Any], str]] = {
    "numbered": ("pid", [*range(1000, 1000 + N)], "number"),
    "shuffled numbers without a name": ("V1", RNG.permutation(N).tolist(), "unique"),
    "numbers of nine digits": ("V2", RNG.integers(10**8, 10**9, N).tolist(), "unique"),
    "codes of letters": ("V3", [f"X{i:05d}" for i in range(N)], "unique"),
    "digits as texts": ("V4", [f"{i:05d}" for i in range(N)], "unique"),
    "names": ("LastName", [f"Q{i // 2}" for i in range(N)], "name"),
    "e-mail": ("V5", [f"p{i}@example.org" for i in range(N)], "email"),
    "phones": ("V6", [f"+34 91 {i:03d} 22 1{i % 10}" for i in range(N)], "phone"),
    "free text of some": ("V7", FREE, "text"),
    "days of birth": ("V8", DAYS, "birth"),
    "days of birth as texts": ("V9", [day.isoformat() for day in DAYS], "birth"),
    "other days": ("birth_date", VISITS, "birth"),
    "latitude": ("lat", np.round(RNG.uniform(40, 41, N), 4).tolist(), "coordinates"),
    "both": ("V10", [f"{40 + i / 1e4:.4f}, -3.70{i:03d}" for i in range(N)], "coordinates"),
}
OTHERS: dict[str, tuple[str, list[Any], str]] = {
    "number within the household": ("pid", (np.arange(N) % 4).tolist(), "plain"),
    "a name of few": ("name", ["survey a", "survey b"] * (N // 2), "plain"),
    "income": ("income", INCOME.tolist(), "continuous"),
    "income as texts": ("income", [f"{x:.2f}".replace(".", ",") for x in INCOME], "continuous"),
    "whole income": ("income", np.round(np.exp(RNG.normal(10, 0.9, N))).tolist(), "continuous"),
    "long labels": ("V1", ["Manager of transport and storage", "Clerk of all work"] * 200, "plain"),
    "days of visits": ("visit", VISITS, "plain"),
    "years": ("birth_year", RNG.integers(1930, 2010, N).tolist(), "plain"),
    "nothing": ("V2", [None] * N, "plain"),
    "few values": ("V3", [*range(5), *[None] * (N - 5)], "plain"),
    "postcodes": ("V4", [f"0{i % 90:04d}" for i in range(N)], "plain"),
}


def reasons(name: str, values: list[Any], **how: Any) -> tuple[str, str, bool]:
    (one,) = proposed({name: encoded(pa.chunked_array([pa.array(values)]))}, **how)
    return one.role, one.reason, one.removed


@pytest.mark.parametrize("what", IDENTIFIERS)
def test_what_names_persons_is_removed(what: str) -> None:
    name, values, reason = IDENTIFIERS[what]
    assert reasons(name, values, decimal=",") == ("identifier", reason, True)


@pytest.mark.parametrize("what", OTHERS)
def test_what_names_nobody_stays(what: str) -> None:
    name, values, reason = OTHERS[what]
    assert reasons(name, values, decimal=",") == ("other", reason, False)


def test_the_user_and_the_design_overrule() -> None:
    numbers = [*range(N)]
    assert reasons("pid", numbers, told={"pid": "other"}) == ("other", "told", False)
    assert reasons("x", [1] * N, told={"x": "removed"}) == ("removed", "told", True)
    assert reasons("w", numbers, weights=["w"]) == ("weight", "design", False)
    assert reasons("h", numbers, households=["h"]) == ("household", "design", False)
    assert reasons("nested", [[1, 2]] * N) == ("other", "plain", False)


HOMES = np.repeat(np.arange(N), 3)[:N] + 100
OF_HOMES = np.round(np.exp(RNG.normal(9.0, 0.5, N)))[HOMES - 100]


@pytest.mark.parametrize(
    ("frame", "found"),
    [
        # The name says which of two columns that members share numbers the households.
        ({"hh_id": HOMES, "income": OF_HOMES}, ["hh_id"]),
        ({"HHNR": HOMES, "wealth": OF_HOMES}, ["HHNR"]),
        ({"income": OF_HOMES, "idHogar": HOMES}, ["idHogar"]),
        # Without a name: the one of most values.
        ({"V1": HOMES, "V2": HOMES // 3}, ["V1"]),
        # Shares of a household are measured, not numbered.
        ({"V1": OF_HOMES + 0.5}, []),
        ({"V1": HOMES, "V2": OF_HOMES + 0.5}, ["V1"]),
        # Numbers of the members within one are none of households.
        ({"hhno": np.arange(N) % 3, "hhincome": OF_HOMES}, ["hhincome"]),
    ],
    ids=range(7),
)
def test_one_column_numbers_the_households(frame: dict[str, Any], found: list[str]) -> None:
    frame = frame | {"place": RNG.integers(0, 9, N)[HOMES - 100]}
    columns = {name: encoded(pa.chunked_array([pa.array(one)])) for name, one in frame.items()}
    roles = proposed(columns)
    assert [one.name for one in roles if one.role == "household"] == found
    # Where the design names them, there are no others.
    columns |= {"home": encoded(pa.chunked_array([pa.array(HOMES)]))}
    roles = proposed(columns, households=["home"])
    assert [one.name for one in roles if one.role == "household"] == ["home"]


def test_households_are_numbered_in_the_order_of_the_file() -> None:
    codes, _ = encoded(pa.chunked_array([["b", "a", None, "b", "c", ""]])) or (None, None)
    assert codes is not None
    assert renumbered(codes).tolist() == [1, 2, 0, 1, 3, 0]


def test_roles_are_read() -> None:
    assert RoleTold.of("Linked(a b)") == ("linked", "a b")
    assert RoleTold.of(" Sensitive") == ("sensitive", None)
    with pytest.raises(ValueError, match="is no role"):
        RoleTold.of("linked(a, b)")
