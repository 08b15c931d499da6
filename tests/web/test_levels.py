"""The levels of a key on the page What if: merged, cut into bands, folded up their tree."""

from __future__ import annotations

import json
import random
import re
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

import unikat
from unikat.language.levels import LevelGroups
from unikat.web.explorers import STATES
from web.test_browser import violations
from web.test_journey import CHROMIUM, PATIENCE, address, fits, heard, page  # noqa: F401
from web_client import Client

if TYPE_CHECKING:
    from playwright.sync_api import Page

RUN = {
    "keys": "age,region,job", "population_size": 900, "model": "latent-class", "max_sweeps": 60,
    "chains": 2, "workers": 1, "progress": False,
}  # fmt: skip
JOBS = ("1111", "1112", "1211", "2111", "2112", "2113", "2114", "3111", "3112", "3113", "3114")
AGES = [str(age) for age in range(20, 40)]


def level(value: str, **more: Any) -> dict[str, Any]:
    return {"value": value, "label": value, "n": 5, "risk": 1.0, "path": [], "valid": True} | more


KNOWN: dict[str, dict[str, Any]] = {
    "age": {"levels": [level(age) for age in AGES], "order": list(range(20))},
    "region": {
        "levels": [level(str(i), label=name) for i, name in enumerate(["North", "South", "East"])]
        + [level("-9", label="<no answer>", n=2, valid=False)],
        "order": [],
    },
    "job": {
        "levels": [level(code, path=[code[:n] for n in (1, 2, 3)]) for code in JOBS],
        "order": [],
        "labels": {"1": "Managers"},
        "heights": ["major group", "", ""],
    },
}


class FakeExplorer:
    """Answers as the process does, at once and without a model."""

    state, n_states, level = "ready", 400, 0.95
    keys: ClassVar = [
        {"name": name, "ordered": name == "age", "steps": [
            {"rule": rule, "words": words, "n_groups": 3, "lost": 0.1}
            for rule, words in (("", "as it is"), ("cut(30)", "in bands"))
        ]}
        for name in KNOWN
    ]  # fmt: skip

    def look(
        self, asker: str, steps: list[Any], target: str, key: str = "", besides: Any = None
    ) -> Any:
        groups = None
        if key:
            of = list(range(len(KNOWN[key]["levels"])))
            step = steps[list(KNOWN).index(key)]
            text = "found\n0-9\n10-19" if step == 1 else step
            for one in LevelGroups.parse(text).groups if text else ():
                of = [one.codes[0] if code in one.codes else group for code, group in enumerate(of)]
            groups = {"of_level": of, "labels": [f"G{i}" for i in of], "risk": [2.0] * len(of)}
        number = {"mean": 2.0, "lower": 1.0, "upper": 3.0}
        by_hand = {k: s for k, s in zip(KNOWN, steps, strict=True) if isinstance(s, str)}
        look = {
            "tau1": number, "tau2": number, "n_uniques": 7, "smallest": 1, "lost": 0.1,
            "n_states": 400, "persons": None, "judged": None, "groups": groups,
            "bins": [[0.5, 3.5, 1.0]],
            "rules": {k: f"file({k}-groups.csv)" for k in by_hand},
            "files": {k: [["0", "far; away"], ["1", "far; away"], ["2", "2"]] for k in by_hand},
        }  # fmt: skip
        return SimpleNamespace(
            answer={"kind": "look", "look": look}, done=True, stage=3, problem=""
        )

    def levels(self, key: str, kind: str) -> Any:
        if kind == "nace2":
            return SimpleNamespace(answer={"kind": "problem"}, done=True, problem="Not in NACE.")
        found = {
            "title": "Kind of X",
            "kind": "nominal",
            "words": "as said",
            "labels": {},
            "heights": [],
            "n_missing": 0,
        }
        answer = {"kind": "levels", "levels": {"name": key, **found, **KNOWN[key]}}
        return SimpleNamespace(answer=answer, done=True, problem="")

    def frontier(self) -> Any:
        number = {"mean": 2.0, "lower": 1.0, "upper": 3.0}
        steps = [0] * len(KNOWN)
        points = [
            {"steps": steps, "rules": {}, "tau1": {k: 9 * v for k, v in number.items()}, "lost": 0},
            {"steps": [1, 1, 0], "rules": {"age": "cut(30)"}, "tau1": number, "lost": 0.2},
            {
                "steps": [1, 0, 0],
                "rules": {"age": "cut(30)"},
                "tau1": number,
                "lost": 0.1,
                "kind": "suppress",
                "besides": {"suppress": "r1 <= 0.2"},
            },
        ]
        points = [{"kind": "recode", "besides": {}, "beaten": False} | one for one in points]
        answer = {
            "kind": "frontier",
            "points": points,
            "n_plans": 8,
            "n_others": 9,
            "every": True,
            "understated": "",
        }
        return SimpleNamespace(
            answer=answer, last={"frontier": answer}, done=True, stage=2, problem=""
        )

    def wait(self, ready: Any, seconds: float) -> None:
        assert ready()

    def early(self, steps: list[Any], target: str) -> str:
        return ""


@pytest.fixture
def asked(client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A workbench with a run whose process answers at once."""
    place = folder / "kept"
    place.mkdir()
    for name in (STATES, "result.json", "manifest.json"):
        (place / name).write_text("{}")
    (place / "assessment.toml").write_text('schema = "unikat.assessment/1"\n')
    monkeypatch.setattr(type(client.bench.explorers), "of", lambda *_: FakeExplorer())
    return client


def done(client: Client, **query: Any) -> dict[str, list[str]]:
    """What the address holds that a form is answered with."""
    found = client.ask("/what-if-levels/kept", params=query)
    assert found.status_code == 303, found.text
    return parse_qs(urlsplit(found.headers["location"]).query)


def test_merging_is_an_address_that_can_be_undone(asked: Client) -> None:
    text = asked.ask("/what-if-levels/kept?edit=region").text
    assert 'name="tick" value="3" data-records="fewer than 3" autocomplete="off" disabled' in text
    assert "&lt;no answer&gt;" in text
    assert '<p class="facts">Kind of X</p>' in text
    once = done(asked, edit="region", tick=["0", "2"], name="far", do="merge")
    assert once["levels:region"] == ["found\n0,2 far"]
    assert json.loads(once["undo"][0]) == ["0"]
    flat = {name: texts[0] for name, texts in once.items()}
    shown = asked.ask("/what-if-levels/kept", params=flat).text
    assert 'value="far"' in shown
    assert "--recode &#39;region: file(region-groups.csv)&#39;" in shown
    twice = done(asked, **flat, tick=["1", "2"], do="merge")
    assert twice["levels:region"] == ["found\n1-2"]
    assert json.loads(twice["undo"][0]) == ["0", "found\n0,2 far"]
    back = done(asked, **{name: texts[0] for name, texts in twice.items()}, do="undo")
    assert back["levels:region"] == ["found\n0,2 far"]
    assert "levels:region" not in done(asked, **flat, do="undo")
    assert "levels:region" not in done(asked, **flat, do="split:0")
    assert "levels:region" not in done(asked, **flat, do="clear")
    assert done(asked, **flat, **{"name:0": "near"})["levels:region"] == ["found\n0,2 near"]
    # Other keys stay where they stand.
    assert done(asked, **flat, **{"key:age": "1"}, do="split:0")["key:age"] == ["1"]


def test_who_goes_back_takes_the_groups_along(asked: Client) -> None:
    """The links lie outside of what an edit changes, and lost every group that was made."""
    merge = {"edit": "region", "tick": ["0", "2"], "name": "far", "do": "merge"}
    part = asked.ask("/what-if-levels/kept", params=merge, headers={"HX-Request": "true"}).text
    links = re.findall(r'<a id="(crumb|back)" href="([^"]*)" hx-swap-oob="true">', part)
    assert [name for name, _ in links] == ["crumb", "back"]
    for _, link in links:
        assert parse_qs(urlsplit(unescape(link)).query)["levels:region"] == ["found\n0,2 far"]
    whole = asked.ask("/what-if-levels/kept?edit=region").text
    assert [whole.count(f'<a id="{name}" ') for name, _ in links] == [1, 1]


def test_ordered_levels_are_bands_without_gaps(asked: Client) -> None:
    ticked = done(asked, edit="age", tick=["3", "5"], do="merge")
    assert ticked["levels:age"] == ["found\n3-5"]
    typed = done(asked, edit="age", bands="25; 30")
    assert typed["levels:age"] == ["found\n0-4\n5-9\n10-19"]
    flat = {name: texts[0] for name, texts in typed.items()}
    text = asked.ask("/what-if-levels/kept", params=flat).text
    assert 'name="bands" value="25, 30"' in text
    assert 'aria-label="Edge between 20 to 24 and 25 to 29"' in text
    moved = done(asked, **flat, **{"edge:0": "7", "edge:1": "10", "bands": "25, 30"})
    assert moved["levels:age"] == ["found\n0-6\n7-9\n10-19"]
    # An edge that is dragged to the end goes.
    gone = done(asked, **flat, **{"edge:0": "5", "edge:1": "20"})
    assert gone["levels:age"] == ["found\n0-4\n5-19"]
    assert "levels:age" not in done(asked, **flat, bands="")
    # Groups of a step can be gone on from.
    assert done(asked, edit="age", **{"key:age": "1"}, do="split:0")["levels:age"] == [
        "found\n10-19"
    ]
    assert done(asked, edit="age", start="1", started="0")["key:age"] == ["1"]


def test_a_tree_folds_up(asked: Client) -> None:
    text = asked.ask("/what-if-levels/kept?edit=job").text
    branches = re.findall(r'id="branch-(\d+)-merge">Merge all (\d+) levels of (\w+)', text)
    assert branches[0] == ("0", "3", "Managers")
    assert done(asked, edit="job", do="branch:0")["levels:job"] == ["found\n0-2"]
    up = done(asked, edit="job", do="height:1")["levels:job"]
    assert up == ["found\n0-2\n3-6\n7-10"]
    flat = {"edit": "job", "levels:job": up[0]}
    # The major groups, and what is the same as one of them.
    assert asked.ask("/what-if-levels/kept", params=flat).text.count(">merged</strong>") == 7


def test_another_kind_of_levels_and_what_is_no_page(asked: Client) -> None:
    kind = done(asked, edit="job", kind="nace2")
    assert kind["levels:job"] == ["nace2"]
    flat = {name: texts[0] for name, texts in kind.items()}
    assert "Not in NACE." in asked.ask("/what-if-levels/kept", params=flat).text
    for query in ("edit=none", "edit=region&levels:region=found%0A0-x"):
        assert asked.ask(f"/what-if-levels/kept?{query}").status_code == 404
    few = asked.ask("/what-if-levels/kept?edit=region&tick=1&do=merge")
    assert few.status_code == 303
    part = asked.ask(
        "/what-if-levels/kept?edit=region&tick=1&do=merge", headers={"HX-Request": "true"}
    )
    assert "Tick two levels or more" in part.text
    assert "<html" not in part.text


def test_the_groups_are_a_file_for_the_command_line(asked: Client) -> None:
    found = asked.ask("/what-if-groups/kept?edit=region&levels:region=found%0A0-1")
    assert found.headers["content-disposition"] == 'attachment; filename="region-groups.csv"'
    assert found.text == '0;"far; away"\n1;"far; away"\n2;2\n'
    assert asked.ask("/what-if-groups/kept?edit=region").status_code == 404


def test_the_groups_are_saved_into_the_folder_and_the_command_names_them(
    asked: Client, folder: Path
) -> None:
    at = {"levels:region": "ordered\n0-1 mine"}
    (folder / "region-groups.csv").write_text("of somebody else")
    (folder / "kept" / "assessment.toml").write_text(
        'schema = "unikat.assessment/1"\n[data.levels]\njob = "isco08"\nage = "file(../a.csv)"\n'
    )
    before = asked.ask("/what-if/kept", params=at).text
    assert "region: file(region-groups-2.csv)" in before
    assert "--levels &#39;job: isco08; age: file(a.csv); region: ordered&#39;" in before
    assert "Save the groups in the folder" in before
    told = asked.post("/what-if-groups/kept", at)
    assert told.status_code == 303
    saved = (folder / "region-groups-2.csv").read_text()
    assert saved == '0;"far; away"\n1;"far; away"\n2;2\n'
    assert (folder / "region-groups.csv").read_text() == "of somebody else"
    assert "/what-if/kept?" in told.headers["location"]
    after = asked.ask("/what-if/kept", params=at).text
    assert "region: file(region-groups-2.csv)" in after
    assert "Save the groups in the folder" not in after
    plain = asked.ask("/what-if/kept", params={"levels:region": "found\n0-1 mine"}).text
    assert "--levels" not in plain


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("levels")
    draw = random.Random(1)
    rows = (
        f"{draw.randrange(20, 40)},{draw.choice('NSEW')},{draw.choice(JOBS[:4])}\n"
        for _ in range(300)
    )
    (made / "survey.csv").write_text("age,region,job\n" + "".join(rows))
    unikat.assess(
        made / "survey.csv", out=made / "kept", keep_states=True, levels="job: isco08", **RUN
    )
    return made


class TestInABrowser:
    """From ticks to the protected file."""

    @pytest.fixture
    def folder(self, run: Path) -> Path:
        return run

    @pytest.mark.slow
    @pytest.mark.skipif(not CHROMIUM.exists(), reason=f"needs {CHROMIUM}")
    @pytest.mark.parametrize("keyboard", [False, True])
    def test_levels_are_merged_and_the_file_is_protected(
        self,
        address: str,  # noqa: F811
        page: Page,  # noqa: F811
        heard: dict[str, list[str]],  # noqa: F811
        run: Path,
        keyboard: bool,
    ) -> None:
        from playwright.sync_api import expect

        def press(found: Any, key: str = "Enter") -> None:
            if keyboard:
                found.focus()
                page.keyboard.press(key)
            else:
                found.click()
            page.wait_for_load_state()

        page.goto(address)
        page.goto(f"{address.partition('/?')[0]}/what-if/kept")
        numbers = page.locator("#numbers")
        expect(numbers.get_by_text("By all 400 states")).to_be_visible(timeout=PATIENCE)
        press(page.get_by_role("link", name="Levels of region"))
        before = numbers.get_by_role("row", name="Sample uniques").get_by_role("cell").last
        uniques = int(before.inner_text())
        for name in ("E", "W"):
            press(page.get_by_role("checkbox", name=name, exact=True), "Space")
        expect(page.locator("#ticked")).to_contain_text("2 levels ticked")
        page.get_by_label("Name of the merged group").fill("east or west")
        press(page.get_by_role("button", name="Merge the ticked levels"))
        name = page.get_by_label("Name of the group east or west")
        expect(name).to_be_visible(timeout=PATIENCE)
        expect(page.locator("#said")).to_have_text("2 levels are merged.")
        expect(numbers.get_by_text("By all 400 states")).to_be_visible(timeout=PATIENCE)
        expect(before).not_to_have_text(str(uniques), timeout=PATIENCE)
        assert int(before.inner_text()) < uniques
        press(page.get_by_role("button", name="Undo"))
        expect(name).to_have_count(0, timeout=PATIENCE)
        page.go_back()
        expect(name).to_be_visible(timeout=PATIENCE)
        for width in (320, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            assert fits(page)
        press(page.get_by_role("link", name="Back to all keys"))
        press(page.get_by_role("link", name="Levels of age"))
        page.get_by_label("Bands begin at").fill("25, 30")
        page.keyboard.press("Tab")
        edge = page.get_by_role("slider").first
        expect(edge).to_be_visible(timeout=PATIENCE)
        edge.focus()
        page.keyboard.press("ArrowRight")
        expect(page.get_by_label("Bands begin at")).to_have_value("26, 30", timeout=PATIENCE)
        expect(page.locator("#edge-0")).to_be_focused()
        assert violations(page) == []
        expect(page.locator("pre.command")).to_contain_text(
            "age: cut(26,30); region: file(region-groups.csv)", timeout=PATIENCE
        )
        with page.expect_download() as saved:
            press(page.get_by_role("link", name="region-groups.csv"))
        assert saved.value.path().read_text().splitlines()[0] == "E;east or west"
        out = f"applied-{keyboard}"
        page.get_by_label("Folder of the protected file").fill(out)
        press(page.get_by_role("button", name="Apply"))
        expect(page.get_by_role("heading", name=f"Result {out}")).to_be_visible(timeout=PATIENCE)
        rows = (run / out / "protected.csv").read_text().splitlines()
        assert {row.split(",")[1] for row in rows[1:]} == {"N", "S", "east or west"} & {
            row.split(",")[1] for row in rows[1:]
        }
        assert any("east or west" in row for row in rows)
        # htmx tells of each request that a newer one has replaced.
        assert [said for said in heard["complaints"] if not said.startswith("htmx:")] == []

    @pytest.mark.slow
    @pytest.mark.skipif(not CHROMIUM.exists(), reason=f"needs {CHROMIUM}")
    def test_who_types_before_the_scripts_are_there_is_followed(
        self,
        address: str,  # noqa: F811
        page: Page,  # noqa: F811
        heard: dict[str, list[str]],  # noqa: F811
    ) -> None:
        from playwright.sync_api import expect

        place = address.partition("/?")[0]
        page.goto(address)
        page.goto(f"{place}/what-if/kept")
        expect(page.get_by_text("By all 400 states")).to_be_visible(timeout=PATIENCE)
        # The parser has the field before the scripts, which wait for its end.
        page.add_init_script(
            """new MutationObserver((_, seen) => {
              const field = document.querySelector("#bands");
              if (field) { field.value = "25, 30"; seen.disconnect(); }
            }).observe(document, { childList: true, subtree: true });"""
        )
        page.goto(f"{place}/what-if-levels/kept?edit=age")
        expect(page.locator("#edge-1")).to_have_attribute("aria-valuetext", "30", timeout=PATIENCE)

    @pytest.mark.slow
    @pytest.mark.skipif(not CHROMIUM.exists(), reason=f"needs {CHROMIUM}")
    def test_an_answer_to_what_is_gone_replaces_nothing(
        self,
        address: str,  # noqa: F811
        page: Page,  # noqa: F811
        heard: dict[str, list[str]],  # noqa: F811
    ) -> None:
        from playwright.sync_api import expect

        place = address.partition("/?")[0]
        page.goto(address)
        page.goto(f"{place}/what-if/kept")
        expect(page.get_by_text("By all 400 states")).to_be_visible(timeout=PATIENCE)
        # The page is seen before its scripts have been read.
        page.wait_for_function("window.htmx")
        found = page.evaluate(
            """async (url) => {
              const asking = document.createElement("p");
              const numbers = document.querySelector("#numbers");
              numbers.append(asking);
              const newer = document.createElement("i");
              const answered = new Promise((done) =>
                document.addEventListener("htmx:beforeSwap", () => setTimeout(done, 200)));
              htmx.ajax("GET", url, { source: asking, target: "#numbers" });
              numbers.replaceChildren(newer);
              await answered;
              return numbers.firstElementChild === newer;
            }""",
            f"{place}/what-if-numbers/kept",
        )
        assert found
