"""The levels of a key merged before anything is fitted, and what the draft has of it."""

from __future__ import annotations

import html
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pandas as pd
import pytest

from unikat.web.draft_files import DraftFiles
from web_client import Client

PART = {"HX-Request": "true"}


@pytest.fixture
def town(client: Client, folder: Path) -> Path:
    lines = ["age,region,job,town"]
    for i in range(300):
        lines.append(
            f"{20 + i % 37},{'ABCDE'[i * i % 5]},{2111 + i % 3},{'x' * (i % 250 % 7)}T{i % 250:03}"
        )
    (folder / "town.csv").write_text("\n".join(lines) + "\n")
    (folder / "tree.csv").write_text("A;West\nB;West\nC;East\nD;East\nE;East\n")
    keys = {"path": "town.csv", "key:age": "on", "key:region": "on", "population_size": "9000"}
    client.post("/keys/keep", keys)
    return folder


def shown(client: Client, **query: str) -> str:
    answer = client.ask("/levels", params={"path": "town.csv", **query}, headers=PART)
    assert answer.status_code == 200, answer.text
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", answer.text)))


def numbers(text: str) -> list[list[int]]:
    """Sample uniques, k and combinations, before and now."""
    found = re.search(
        r"Sample uniques (\d+) (\d+) Smallest combination, k (\d+) (\d+) Combinations (\d+) (\d+)",
        text,
    )
    assert found is not None, text
    numbers = list(map(int, found.groups()))
    return [numbers[::2], numbers[1::2]]


def counted(frame: pd.DataFrame) -> list[int]:
    sizes = frame.groupby(["age", "region"]).size()
    return [int((sizes == 1).sum()), int(sizes.min()), len(sizes)]


def test_counts_follow_what_is_merged(client: Client, town: Path) -> None:
    frame = pd.read_csv(town / "town.csv")
    # Codes are places among the levels: A, B, C and E occur.
    levels = sorted(frame.region.unique())
    text = shown(client, **{"edit": "region", "levels:region": "found\n0-1 west"})
    merged = frame.assign(region=frame.region.replace(dict.fromkeys(levels[:2], "west")))
    assert numbers(text) == [counted(frame), counted(merged)]
    assert "All runs of the file take the key in these groups" in text
    # A column that is no key yet stands beside the keys.
    more = numbers(shown(client, edit="job"))
    assert more[0] == more[1]
    assert more[0][2] > counted(frame)[2]


def test_groups_are_a_rule_of_the_key_or_a_hierarchy_beside_the_file(
    client: Client, town: Path
) -> None:
    bands = {"path": "town.csv", "edit": "age", "levels:age": "found\n0-9\n10-36"}
    assert client.post("/levels", bands).headers["location"].endswith("/keys?path=town.csv")
    draft = client.bench.draft("town.csv")
    assert draft.groupings == {"age": "cut(30)"}
    again = client.ask("/levels?path=town.csv&edit=age").headers["location"]
    assert parse_qs(urlsplit(again).query)["levels:age"] == ["found\n0-9\n10-36"]
    form = {"path": "town.csv", "edit": "region", "levels:region": "found\n0,2 far"}
    client.post("/levels", form)
    assert (town / "region-groups.csv").read_text().startswith("A;far\nB;B\n")
    assert (town / "region-groups.csv").stat().st_mode & 0o077 == 0
    # The same groups are the same file; others do not replace it, nor what somebody else has.
    client.post("/levels", form | {"use": "recodings"})
    draft = client.bench.draft("town.csv")
    assert draft.of_keys["recodings"] == {"region": "file(region-groups.csv)"}
    assert not draft.of_keys.get("recode")
    near = form | {"levels:region": "found\n0-1 near"}
    client.post("/levels", near | {"use": "recode"})
    assert client.bench.draft("town.csv").of_keys["recode"]["region"] == "file(region-groups-2.csv)"
    command = client.ask("/run?path=town.csv&kind=protect").text
    assert "--recode &#39;region: file(region-groups-2.csv)&#39;" in command
    again = client.ask("/levels?path=town.csv&edit=region").headers["location"]
    assert parse_qs(urlsplit(again).query)["levels:region"] == ["found\n0-1 near"]
    # It is there after a restart, though the form was that of an assessment.
    client.ask("/run?path=town.csv&kind=assess")
    kept = DraftFiles(client.bench.folder).read("town.csv")
    assert kept is not None
    assert kept.of_keys == client.bench.draft("town.csv").of_keys
    # Every run takes the key in groups, if they are used for it, and the counts of the keys do.
    before = client.post("/keys/counts", {"path": "town.csv", "key:region": "on", "key:age": "on"})
    client.post("/levels", near)
    draft = client.bench.draft("town.csv")
    assert "region" not in draft.of_keys.get("recode", {})
    assert draft.of_keys["groups"] == {"region": "file(region-groups-2.csv)"}
    after = client.post("/keys/counts", {"path": "town.csv", "key:region": "on", "key:age": "on"})
    assert before.text != after.text
    again = client.ask("/levels?path=town.csv&edit=region").headers["location"]
    assert parse_qs(urlsplit(again).query)["levels:region"] == ["found\n0-1 near"]
    for kind in ("assess", "protect", "synthesize", "compare", "evaluate", "attack", "check"):
        client.ask(f"/run?path=town.csv&kind={kind}")
        command = client.bench.draft("town.csv").command("o")
        assert "--groups 'region: file(region-groups-2.csv)'" in command, kind
    client.ask("/run?path=town.csv&kind=assess")
    draft = client.bench.draft("town.csv").updated(
        {"population_size": "90000"}, ["population_size"]
    )
    spec = draft.spec(town / "town.csv", town)
    assert spec.data.groups == {"region": f"file({town / 'region-groups-2.csv'})"}
    # As in the file again.
    client.post("/levels", {"path": "town.csv", "edit": "region"})
    assert "region" not in client.bench.draft("town.csv").of_keys.get("groups", {})


def test_a_tree_is_chosen_on_the_page_and_reaches_every_run(client: Client, town: Path) -> None:
    text = shown(client, **{"edit": "region", "levels:region": "file(tree.csv)"})
    assert "Merge all" in text
    client.post(
        "/levels", {"path": "town.csv", "edit": "region", "levels:region": "file(tree.csv)\n0-1"}
    )
    client.post("/levels", {"path": "town.csv", "edit": "job", "levels:job": "isco08"})
    client.post("/keys/keep", {"path": "town.csv", "key:region": "on", "key:job": "on"})
    draft = client.bench.draft("town.csv")
    spec = draft.spec(town / "town.csv", town)
    assert spec.data.levels == {"region": f"file({town / 'tree.csv'})", "job": "isco08"}
    assert "--levels 'region: file(tree.csv); job: isco08'" in draft.command("o")
    # The form of a protection does not know them, and keeps them.
    client.post("/run", {"path": "town.csv", "kind": "protect", "out": "o", "action": "command"})
    assert client.bench.draft("town.csv").of_keys["levels"]["job"] == "isco08"
    outside = shown(client, **{"edit": "region", "levels:region": "file(../x.csv)"})
    assert "is not in the folder of the workbench" in outside


def test_many_levels_are_searched_sorted_and_paged(client: Client, town: Path) -> None:
    first = client.ask("/levels?path=town.csv&edit=town", headers=PART).text
    assert first.count('name="tick"') == 200
    assert "page 1 of 2" in first
    query = {"path": "town.csv", "edit": "town", "tick": ["3", "240"], "find": "T02", "do": "list"}
    found = client.ask("/levels", params=query, headers=PART).text
    assert found.count('type="checkbox"') == 10
    assert '<input type="hidden" name="tick" value="240">' in found
    assert re.search(r'name="tick" value="3"[^>]*checked', found)
    # Enter in the field that searches merges nothing.
    typed = client.ask("/levels", params=query | {"do": "merge", "found": ""}, headers=PART)
    assert "HX-Push-Url" not in typed.headers
    both = client.ask("/levels", params=query | {"do": "merge", "found": "T02"})
    assert "found\n3,240" in parse_qs(urlsplit(both.headers["location"]).query)["levels:town"]
    last = client.ask("/levels?path=town.csv&edit=town&sort=few&do=page:2", headers=PART).text
    assert last.count('type="checkbox"') == 50


def test_what_is_no_column_is_refused(client: Client, town: Path) -> None:
    for edit in ("", "none", "../town.csv"):
        assert client.ask("/levels", params={"path": "town.csv", "edit": edit}).status_code == 422
    wrong = {"path": "town.csv", "edit": "region", "levels:region": "found\n0-99"}
    assert client.post("/levels", wrong).status_code == 422


def test_keys_and_levels_count_the_same_combinations_where_values_are_missing(
    client: Client, town: Path
) -> None:
    frame = pd.read_csv(town / "town.csv")
    frame.loc[::9, "region"] = None
    frame.to_csv(town / "town.csv", index=False)
    complete = len(frame.dropna().groupby(["age", "region"]))
    keys = {"path": "town.csv", "key:age": "on", "key:region": "on"}
    said = client.post("/keys/counts", keys, headers=PART).text
    assert f"{complete} combinations without a missing key occur" in said
    assert numbers(shown(client, edit="region"))[0][2] == complete
