"""Keys of relatives: who counts, and what is refused."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from unikat.errors import SpecError
from unikat.inference.progress import SILENT
from unikat.jobs.inputs import design_of, read_table
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.from_options import Inputs

FRAME = pd.DataFrame(
    {
        "HH": [7, 7, 7, 3, 5, 5, 5],
        "REL": ["head", "spouse", "child", "head", "child", "head", "spouse"],
        "SEX": ["f", "m", "f", "m", "m", "m", "f"],
        "AGE": [40, 38, 5, 70, 12, 38, 41],
    }
)
ROLES = "head: REL == 'head'; spouse: REL == 'spouse'"


def table_of(relatives: str, roles: Any = ROLES, **changes: Any) -> Any:
    values = {
        "keys": "SEX,AGE",
        "population_size": 900,
        "design": {"household": "HH"},
        "relatives": {"keys": relatives, "roles": roles},
        **changes,
    }
    spec = AssessmentSpec.parse(values)
    return read_table(spec, design_of(spec), Inputs(data=FRAME), SILENT)[1]


def test_a_person_has_the_keys_of_the_relatives():
    table = table_of("head.AGE,spouse.SEX")
    assert [key.name for key in table.keys] == ["SEX", "AGE", "head.AGE", "spouse.SEX"]
    rows = table.cells[table.record_cell]
    head, spouse = ([table.keys[j].labels[code] for code in rows[:, j].tolist()] for j in (2, 3))
    assert head == ["self", "40", "40", "self", "38", "self", "38"]
    assert spouse == ["m", "self", "m", "none", "f", "f", "self"]
    assert table.households is not None


def test_what_the_roles_need_is_no_key():
    table = table_of("head.AGE", keys="SEX,REL")
    assert [key.name for key in table.keys] == ["SEX", "REL", "head.AGE"]


@pytest.mark.parametrize(
    ("relatives", "changes", "message"),
    [
        ("AGE", {}, "'AGE'; write a role, a point and a key"),
        ("had.AGE", {}, "no rule says who is the had. Did you mean 'head'?"),
        ("head.AGE", {"design": {}}, "need to know who lives together"),
        ("head.AGE", {"roles": "head REL"}, "'head REL' is no role with its rule"),
        ("head.AGE", {"roles": "head: REL == 'chef'"}, "chef"),
        ("", {}, "no key of a relative"),
    ],
)
def test_what_does_not_fit_is_refused(relatives: str, changes: dict[str, Any], message: str):
    with pytest.raises(SpecError, match=message):
        table_of(relatives, **changes)


def test_a_role_that_nobody_has_is_refused():
    with pytest.raises(SpecError, match="Nobody in the file has the role 'head'"):
        table_of("head.AGE", roles={"head": "REL == 'head' and AGE > 70"}, keys="SEX,AGE,REL")
