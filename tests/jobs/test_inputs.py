"""The rules of households that a specification names."""

from __future__ import annotations

import pytest

from unikat.data import Key
from unikat.errors import SpecError
from unikat.jobs.inputs import make_household_zeros, make_zeros
from unikat.spec.rules import ZerosSpec
from unikat.spec.tables import DataSpec

AGE = Key.of_size("AGE", 90)
REL = Key(name="REL", levels=(1, 2, 3), labels=("head", "spouse", "child"))
RULES = """
rules = ['count(REL == "head") != 1', {rule = "spouse.AGE < 16", name = "spouses"}]
tables = ["more.csv"]

[roles]
spouse = 'REL == "spouse"'
"""


def read(tmp_path, text=RULES, head='REL == "head"'):
    (tmp_path / "zeros.toml").write_text(text)
    (tmp_path / "more.csv").write_text("AGE,REL\n0,head\n")
    spec = ZerosSpec.read(tmp_path / "zeros.toml")
    return make_household_zeros(spec, (), (AGE, REL), DataSpec(), head=head)


def test_a_file_of_rules_has_roles_and_tables(tmp_path):
    zeros = read(tmp_path)
    assert list(zeros.roles) == ["head", "spouse"]
    assert [rule.name or rule.text for rule in zeros.rules] == [
        'count(REL == "head") != 1',
        "spouses",
        "1 condition of more.csv",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (RULES + "head = 'AGE > 20'", "zeros.toml: The role 'head' is declared twice"),
        (RULES.replace("spouse.AGE", "child.AGE"), "zeros.toml: Rule 'spouses': no role is called"),
        (
            RULES.replace("'REL == \"spouse\"'", "3"),
            "roles: the condition of 'spouse' is 3; it must be a text",
        ),
    ],
)
def test_an_error_names_the_file(tmp_path, text, message):
    with pytest.raises(SpecError) as caught:
        read(tmp_path, text)
    assert message in str(caught.value)


def test_persons_have_no_roles(tmp_path):
    (tmp_path / "zeros.toml").write_text(
        "rules = ['spouse.AGE < 16']\n[roles]\nspouse = 'REL == 2'\n"
    )
    with pytest.raises(SpecError) as caught:
        make_zeros(ZerosSpec.read(tmp_path / "zeros.toml"), (AGE, REL), DataSpec())
    assert str(caught.value).splitlines()[-1] == (
        "Rules that count members or name roles are about whole households, and this run is "
        "about persons. Name the column of the households, --household COLUMN, where a model is "
        "fitted with --model households."
    )
