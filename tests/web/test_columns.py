"""The page of columns: roles with their reasons, and numbers before and after they are changed."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from unikat.web.drafts import Draft
from web_client import Client

PART = {"HX-Request": "true"}
KEYS = {"path": "town.csv", "role:age": "key", "role:region": "key"}


@pytest.fixture
def town(folder: Path) -> Path:
    """A file with an identifier, a column that tells a key, and an income of few high values."""
    lines = ["pid,age,region,place,income,weight"]
    for i in range(400):
        region = "ABCD"[i * i % 4]
        income = 90_000 + i if i % 50 == 0 else 1_000 + 7 * i % 900
        lines.append(f"{7000 + i},{i % 71},{region},{region}{i % 3},{income},{10 + i % 2}")
    (folder / "town.csv").write_text("\n".join(lines) + "\n")
    return folder


def row(text: str, name: str) -> str:
    """The row of a column, without its tags."""
    (found,) = (
        one for one in text.split('scope="row" id="c') if re.search(f'name="role:{name}"', one)
    )
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", found)))


def test_each_column_has_its_role_with_the_reason_that_a_protection_gives(
    client: Client, town: Path
) -> None:
    first = client.ask("/columns?path=town.csv")
    assert "No keys are marked yet" in first.text
    part = client.post("/columns", KEYS, headers=PART).text
    assert "removed : the name and the values are those of numbers of persons" in row(part, "pid")
    assert "linked with region: measure" in row(part, "place")
    assert "marked" in next(one for one in part.split("<tr") if "role:pid" in one)
    told = KEYS | {"role:pid": "other", "role:place": "linked(region)"}
    after = client.post("/columns", told, headers=PART).text
    assert "follows region, as you say" in row(after, "place")
    assert client.bench.draft("town.csv").values["columns"] == "pid: other; place: linked(region)"
    # No value of a record: neither of the identifier nor the largest income.
    assert "7001" not in part
    assert "90,350" not in part
    assert "90350" not in part


def test_numbers_are_shown_before_and_after(client: Client, town: Path) -> None:
    some = KEYS | {"method:0:income": "top", "amount:0:income": "95%", "method:1:income": "round"}
    part = client.post("/columns", some, headers=PART).text
    draft = client.bench.draft("town.csv")
    assert draft.values["numeric"] == "income: top(95%),round(100)"
    assert "Values changed" in row(part, "income")
    assert "income before (columns) and after (line)" in part
    # As the protection does it: what is above is set to its mean, so the mean stays.
    mean = re.search(r"Mean ([\d,]+) → ([\d,]+)", row(part, "income"))
    assert mean is not None
    before, after = (float(one.replace(",", "")) for one in mean.groups())
    assert abs(before - after) < 100
    refused = client.post("/columns", some | {"amount:1:income": "-5"}, headers=PART)
    assert "the amount must be from" in html.unescape(refused.text)
    # The other columns keep their reasons.
    assert "removed : the name and the values" in row(refused.text, "pid")
    # What was taken out of a list is gone.
    client.post("/columns", KEYS | {"method:0:income": ""}, headers=PART)
    assert "numeric" not in client.bench.draft("town.csv").values


def test_roles_of_keys_and_design_are_one_with_those_of_their_page(
    client: Client, town: Path
) -> None:
    keys = {"path": "town.csv", "key:age": "on", "key:region": "on", "weights": "weight"}
    client.post("/keys", keys)
    page = client.ask("/columns?path=town.csv").text
    assert 'name="role:weight"' not in page
    assert re.search(r'role:age".*?value="key" selected', page, re.DOTALL)
    gone = client.post("/columns", {"path": "town.csv", "role:age": "", "role:region": "key"})
    assert gone.headers["location"].endswith("/run?path=town.csv&kind=protect")
    assert client.bench.draft("town.csv").keys == ("region",)
    wrong = client.post("/columns", KEYS | {"role:place": "linked(place)"})
    assert wrong.status_code == 422
    assert "which is no key" in html.unescape(wrong.text)


def test_a_run_fills_the_page_again() -> None:
    spec = {"keys": ["age"], "columns": {"pid": "other"}, "numeric": {"income": ["round(100)"]}}
    from unikat.spec.kinds import PROTECT

    values = Draft.of_run("town.csv", spec, PROTECT).values
    assert (values["columns"], values["numeric"]) == ("pid: other", "income: round(100)")
