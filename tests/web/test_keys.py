"""What the page of keys tells while it is filled in, and what its further fields become."""

from __future__ import annotations

import html
from pathlib import Path

import pytest

from unikat.web.drafts import Draft
from web_client import Client

PART = {"HX-Request": "true"}


@pytest.fixture
def town(folder: Path) -> Path:
    rows = []
    for i in range(240):
        married = "yes" if i % 60 > 17 and i % 2 else "no"
        rows.append(f"{i % 60 if i % 40 else 'NA'},{'fm'[i % 2]},{married},{8 + i % 3},{i // 3}\n")
    (folder / "town.csv").write_text("age,sex,married,w,hid\n" + "".join(rows))
    (folder / "sub").mkdir()
    (folder / "sub/census.csv").write_text("sex,count\nf,1100\nm,1100\n")
    (folder / "book.toml").write_text('[sex]\nlabels = { f = "female", m = "male" }\n')
    return folder


def posted(client: Client, where: str, **form: str) -> str:
    return html.unescape(client.post(where, {"path": "town.csv", **form}, headers=PART).text)


def test_groups_are_told_as_a_rule_is_written(client: Client, town: Path) -> None:
    form = {"column": "age", "grouping:age": "width(20)", "missing:age": "NA"}
    part = posted(client, "/keys/groups", **form, population_size="not yet said")
    assert (
        "3 groups; the smallest has 78 records, the largest 78 records; 6 missing values." in part
    )
    assert "0-19: 78 records" in part
    assert "<html" not in part
    # A group of one or two records is not counted.
    rare = posted(client, "/keys/groups", **form | {"grouping:age": "cut(59.5)", "column": "age"})
    assert "1 group of 234 records" in rare
    few = posted(client, "/keys/groups", **form | {"grouping:age": "cut(1)"})
    assert "the smallest has fewer than 3 records" in few
    assert "malformed" in posted(client, "/keys/groups", **form | {"grouping:age": "width("})
    assert "not finite numbers" in posted(client, "/keys/groups", **form | {"missing:age": ""})
    assert posted(client, "/keys/groups", **form | {"grouping:age": ""}).strip() == ""
    # Without a script the page has the groups of all keys.
    whole = client.post("/keys/groups", {"path": "town.csv", **form})
    assert whole.status_code == 200
    assert "3 groups" in whole.text
    assert "<html" in whole.text


def test_weights_tell_the_size_of_the_population(client: Client, town: Path) -> None:
    assert "<strong>2,160</strong>" in posted(client, "/keys/population", weights="w")
    assert posted(client, "/keys/population", weights="w", relative_weights="yes").strip() == ""
    assert posted(client, "/keys/population").strip() == ""
    assert "no numbers" in posted(client, "/keys/population", weights="sex")
    by_strata = posted(client, "/keys/population", strata="sex", stratum_sizes="sub/census.csv")
    assert "The strata have <strong>2,200</strong>" in by_strata
    assert "2 strata" in by_strata


def test_suggested_rules_can_be_added(client: Client, town: Path) -> None:
    form = {"key:age": "on", "key:married": "on", "grouping:age": "width(6)", "missing:age": "NA"}
    part = posted(client, "/keys/suggest", **form)
    rule = 'age < 18 and married == "yes"'
    assert f'value="{rule}"' in part
    whole = client.post("/keys/suggest", {"path": "town.csv", **form, "add": rule})
    assert f"\n{rule}</textarea>" in html.unescape(whole.text)
    assert "No combination is missing beyond chance" in whole.text
    assert posted(client, "/keys/check", **form).strip() == ""


def test_the_form_is_kept_while_it_is_filled_in(client: Client, town: Path) -> None:
    form = {
        "key:age": "on", "missing:age": "NA,-1", "missing_values": "99", "codebook": "book.toml",
        "household:1": "hid", "household:2": "sex", "margin:sub/census.csv": "on",
        "rules": "age < 3", "unit": "households", "head": "sex == 'f'", "scattered": "yes",
    }  # fmt: skip
    assert client.post("/keys/keep", {"path": "town.csv", **form}).status_code == 204
    draft = client.bench.draft("town.csv")
    assert draft.values["missing_values"] == "99; age: NA,-1"
    assert draft.values["household"] == "hid,sex"
    assert draft.values["model"] == "households"
    page = html.unescape(client.ask("/keys?path=town.csv").text)
    for held in ('name="missing:age" value="NA,-1"', 'name="missing_values" value="99"',
                 '<option value="book.toml" selected>', '<option value="households" selected>',
                 'name="margin:sub/census.csv" checked', 'name="scattered" value="yes" checked',
                 "<option value=\"sex\" selected>sex", "\nage < 3</textarea>"):  # fmt: skip
        assert held in page
    options = draft.options(town)
    assert options["codebook"] == str(town / "book.toml")
    assert options["margins"] == [str(town / "sub/census.csv")]
    assert "--margins sub/census.csv" in draft.command("new")
    assert "--missing-values '99; age: NA,-1'" in draft.command("new")


def test_every_file_that_is_named_is_read_before_the_run(client: Client, town: Path) -> None:
    form = {
        "path": "town.csv", "key:age": "on", "key:sex": "on", "grouping:age": "width(10)",
        "missing:age": "NA", "population_size": "2200",
    }  # fmt: skip
    known = form | {"margin:sub/census.csv": "on", "population_size": ""}
    assert client.post("/keys", known).status_code == 303
    assert "population 2,200" in client.ask("/run?path=town.csv").text
    registry = client.post("/keys", form | {"registry": "sub/census.csv"})
    assert registry.status_code == 422
    assert "has no column &#39;age&#39;" in registry.text
    homes = form | {"unit": "households", "population_size": "", "household:1": "hid"}
    # A synthesis needs no size.
    assert client.post("/keys", homes).status_code == 303
    page = client.ask("/run?path=town.csv").text
    assert "80 households of 240 persons" in page
    assert "No population size yet" in page
    assert client.post("/keys", homes | {"rules": "no rule"}).status_code == 422
    assert client.post("/keys", homes | {"population_households": "900"}).status_code == 303
    page = client.ask("/run?path=town.csv").text
    assert "80 households of 240 persons" in page
    assert '<option value="households" selected>' in page


@pytest.mark.parametrize("of_synthesis", [False, True])
def test_household_rules_are_checked_while_they_are_written(
    client: Client, folder: Path, of_synthesis: bool
) -> None:
    lines = [f"{h},{rel},{20 * rel + h}" for h in range(30) for rel in range(1 + h % 4)]
    (folder / "homes.csv").write_text("\n".join(["hid,rel,age", *lines, ""]))
    form = {"path": "homes.csv", "key:rel": "on", "key:age": "on", "household:1": "hid"}
    if of_synthesis:
        # It draws households where their column is named, and needs no other word.
        client.ask("/run?path=homes.csv&kind=synthesize")
    else:
        form["unit"] = "households"

    def said(rules: str) -> str:
        answer = client.post("/keys/check", form | {"rules": rules}, headers=PART)
        return html.unescape(answer.text)

    assert said("").strip() == ""
    # Of 30 households every fourth has three relatives of the head.
    assert "7 households break a rule." in said("count(rel >= 1) == 3\ncount(rel == 0) != 1")
    assert "0 households break a rule." in said("count(rel == 0) != 1")
    assert "Rule 2: no key is called 'rol'." in said("count(rel == 2) > 0\ncount(rol == 1) > 0")
    # The place is under the sign that is meant.
    wrong = said("count(rel == 0) != 1 nor age < 3")
    assert '<pre class="place">  count(rel == 0) != 1 nor age < 3</pre>' in wrong
    place = " " * 23 + "^"
    assert f'<pre class="place">{place}</pre>' in wrong
    # The households are kept, and read again if the file has changed.
    (folder / "homes.csv").write_text("\n".join(["hid,rel,age", *lines, "99,5,40", "99,5,40", ""]))
    assert "1 household breaks a rule." in said("count(rel == 0) != 1")
    if of_synthesis:
        run = {"path": "homes.csv", "kind": "synthesize", "action": "check"}
        page = client.post("/run", run)
        assert "1 household breaks a rule." in page.text
        assert '<option value="" selected>households</option>' in page.text
        assert client.post("/run", run | {"model": "latent-class"}).status_code == 422


def test_what_a_run_was_asked_fills_the_further_fields() -> None:
    spec = {
        "keys": ["age", "sex"],
        "data": {"missing_values": {"age": ["NA", -1], "sex": 9}},
        "design": {"household": ["hid"]},
        "relatives": {"keys": ["head.age"], "roles": {"head": "rel == 1"}},
    }
    values = Draft.of_run("town.csv", spec).values
    assert values["missing_values"] == "age: NA,-1; sex: 9"
    assert (values["relatives"], values["roles"]) == ("head.age", "head: rel == 1")


def test_forms_of_dates_are_listed_with_what_they_read(client: Client, folder: Path) -> None:
    days = [f"0{i % 9 + 1}/0{i % 7 + 1}/{1950 + i % 40},{i % 3}\n" for i in range(120)]
    (folder / "births.csv").write_text("birth,sex\n" + "".join(days) + "99/99/9999,1\n")
    form = {"path": "births.csv", "column": "birth", "missing:birth": "99/99/9999"}
    page = client.ask("/keys?path=births.csv").text
    for wanted in ("<option>DD/MM/YYYY</option>", "<option>MM/DD/YYYY</option>"):
        assert wanted in page
    assert 'name="dates:sex"' not in page
    by_year = form | {"key:birth": "on", "key:sex": "on", "grouping:birth": "year"}
    # What may be two days is not guessed: both readings stand there, and the option.
    part = posted(client, "/keys/groups", **by_year)
    for wanted in ("--dates", "08/01/1957 is 1957-01-08", "08/01/1957 is 1957-08-01"):
        assert wanted in part
    assert "All values fit" in part
    chosen = by_year | {"dates:birth": "DD/MM/YYYY"}
    assert "40 groups;" in posted(client, "/keys/groups", **chosen)
    client.post("/keys/keep", chosen)
    page = client.ask("/keys?path=births.csv").text
    assert "<option selected>DD/MM/YYYY</option>" in page
    # The wrong form says how many values do not fit.
    wrong = posted(client, "/keys/groups", **chosen | {"dates:birth": "YYYY-MM-DD"})
    assert "120 values do not fit" in wrong
