"""What has to be seen in a browser: tabs, the way back, the keyboard, every page as it is drawn."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from starlette.routing import Route

import unikat
from unikat.spec.kinds import KINDS
from unikat.web.app import make_app
from unikat.web.folder import Folder
from unikat.web.security import Access
from web_client import PORT, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
PATIENCE = 90_000
"""Milliseconds that a run may take on a busy machine."""
WIDTHS = (400, 800, 1280)
NO_PAGES = (
    "/events/{id:path}", "/download/{id:path}", "/report/{id:path}", "/static/{name}", "/",
    "/levels", "/records-file/{id:path}", "/neighbours/{id:path}",
)  # fmt: skip
"""Addresses with no page of their own. The report is looked at as the file that it is: as the
workbench sends it, it is shut in so that no script runs in it, not even one that looks at it."""

pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"needs {CHROMIUM}"),
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file, a finished run of it, and what its forms can choose."""
    made = tmp_path_factory.mktemp("browser")
    lines = [
        f"{i * 7 % 90 if i % 9 else 'NA'},{'fm'[i % 2]},{'ABCD'[i * i % 4]},{i * i * 3 % 17},30\n"
        for i in range(200)
    ]
    (made / "people.csv").write_text("age,sex,region,work,weight\n" + "".join(lines))
    (made / "others.csv").write_text("sex,region\n" + "f,A\nm,B\nf,B\nm,A\n" * 20)
    (made / "codebook.toml").write_text('[sex]\nlabels = { f = "female", m = "male" }\n')
    (made / "census.csv").write_text("sex,count\nf,3000\nm,3000\n")
    unikat.assess(
        made / "people.csv", keys="age,sex,region,work", missing_values="age: NA",
        population_size=6000, model="latent-class", chains=2, max_sweeps=60, workers=1,
        out=made / "finished", progress=False,
    )  # fmt: skip
    return made


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """The address of a workbench of that folder, with its token."""
    with serving(folder) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import expect, sync_playwright

    # On a machine that does much else a page may take its time.
    expect.set_options(timeout=30_000)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"]
        )
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def state(address: str, browser: Browser) -> Any:
    """What the browser keeps once the address was opened, which works once."""
    context = browser.new_context()
    context.new_page().goto(address)
    kept = context.storage_state()
    context.close()
    # It is kept when the browser is closed, and opened again.
    assert all(cookie["expires"] > time.time() for cookie in kept["cookies"])
    return kept


@pytest.fixture
def context(browser: Browser, state: Any, address: str) -> Iterator[BrowserContext]:
    """A window of the browser; nothing may be complained about, or asked of anybody else."""
    opened = browser.new_context(storage_state=state, viewport={"width": 800, "height": 900})
    asked, complaints = watched(opened)
    yield opened
    opened.close()
    origin = address[: address.index("/", len("http://"))]
    assert asked
    assert [url for url in asked if not url.startswith((f"{origin}/", "data:"))] == []
    assert complaints == []


def watched(context: BrowserContext) -> tuple[list[str], list[str]]:
    """Collect what a window asks for, and what it complains about."""
    asked: list[str] = []
    complaints: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    # The browser also tells that a page which says what is wrong has a status that says so.
    told = ("/find?", "/beside?", "/what-if", "/runs/none", "row=0")
    context.on(
        "console",
        lambda message: (
            None
            if any(part in message.location["url"] for part in told)
            else complaints.append(f"{message.location['url']}: {message.text}")
        ),
    )
    context.on("weberror", lambda error: complaints.append(str(error.error)))
    return asked, complaints


@pytest.fixture
def at(address: str) -> Any:
    """The whole address of a page."""
    base = address.partition("/?")[0]
    return lambda path: f"{base}{path}"


@pytest.fixture
def page(context: BrowserContext) -> Page:
    context.set_default_timeout(30_000)
    return context.new_page()


def test_one_run_in_two_tabs_stopped_and_continued_by_another_window(
    context: BrowserContext, browser: Browser, state: Any, page: Page, at: Any, folder: Path
) -> None:
    from playwright.sync_api import expect

    page.goto(at("/keys?path=people.csv"))
    for name in ("age", "sex", "region", "work"):
        page.get_by_label(name, exact=True).check()
    page.get_by_label("Missing codes of age").fill("NA")
    page.get_by_label("Population size").fill("6000")
    page.get_by_role("button", name="Check and go on").click()
    page.get_by_label("Model", exact=True).select_option("hdp")
    page.get_by_text("For statisticians").click()
    # It would take minutes.
    long = {"Chains": "2", "Processes": "1", "Most sweeps of a chain": "1000000"}
    for name, value in long.items():
        page.get_by_label(name, exact=True).fill(value)
    page.get_by_label("Folder of the results").fill("long")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("heading", name="Run long")).to_be_visible()
    other = context.new_page()
    other.goto(at("/runs/long"))
    for tab in (page, other):
        expect(tab.locator(".stage")).to_contain_text("Running")
        expect(tab.locator("#progress svg").first).to_be_visible(timeout=PATIENCE)
    # The window is closed in the middle of the run, and another one opened.
    page.close()
    other.close()
    again = browser.new_context(storage_state=state)
    asked, complaints = watched(again)
    back, third = again.new_page(), again.new_page()
    third.goto(at("/runs/long"))
    back.goto(at("/runs"))
    row = back.get_by_role("row").filter(has=back.get_by_role("link", name="long", exact=True))
    expect(row).to_contain_text("Running")
    row.get_by_role("link", name="long", exact=True).click()
    back.get_by_role("button", name="Stop the run").click()
    # Each tab goes on by itself when the run has ended.
    for tab in (back, third):
        expect(tab.get_by_text("Interrupted")).to_be_visible(timeout=PATIENCE)
    back.get_by_label("Most sweeps of a chain").fill("100")
    back.get_by_role("button", name="Continue the run").click()
    expect(back.get_by_role("heading", name="Result long")).to_be_visible(timeout=PATIENCE)
    assert (folder / "long/report.html").exists()
    third.reload()
    expect(third.get_by_role("heading", name="Result long")).to_be_visible()
    assert asked
    assert complaints == []
    again.close()
    page = context.new_page()
    page.goto(at("/files"))


def test_the_way_back_keeps_what_forms_hold(page: Page, at: Any) -> None:
    from playwright.sync_api import expect

    page.goto(at("/file?path=people.csv"))
    page.get_by_role("link", name="Choose the keys").click()
    page.get_by_label("age", exact=True).check()
    page.get_by_label("Missing codes of age").fill("NA")
    rule = page.get_by_label("Grouping of age")
    rule.press_sequentially("width(30)")
    # The groups appear while the rule is written.
    expect(page.get_by_text("3 groups; the smallest has")).to_be_visible()
    page.get_by_label("Weights", exact=True).select_option("weight")
    expect(page.get_by_text("The weights sum to 6,000")).to_be_visible()
    page.get_by_role("link", name="Run", exact=True).click()
    expect(page.get_by_role("heading", name="Assess people.csv")).to_be_visible()
    page.go_back()
    expect(page.get_by_label("age", exact=True)).to_be_checked()
    expect(rule).to_have_value("width(30)")
    expect(page.get_by_label("Missing codes of age")).to_have_value("NA")
    expect(page.get_by_label("Weights", exact=True)).to_have_value("weight")
    expect(page.get_by_text("3 groups; the smallest has")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="people.csv")).to_be_visible()
    page.go_forward()
    expect(rule).to_have_value("width(30)")


def test_two_tabs_of_one_form_warn_each_other(
    context: BrowserContext, page: Page, at: Any, folder: Path
) -> None:
    from playwright.sync_api import expect

    (folder / "tabs.csv").write_bytes((folder / "others.csv").read_bytes())

    other = context.new_page()
    for tab in (page, other):
        tab.goto(at("/keys?path=tabs.csv"))
    page.get_by_label("Population size").fill("5000")
    with page.expect_response("**/keys/keep"):
        page.get_by_label("Population size").press("Tab")
    other.get_by_label("Population size").fill("7000")
    other.get_by_label("Population size").press("Tab")
    expect(other.get_by_role("alert")).to_contain_text("Another tab has changed this form")
    assert violations(other) == []
    other.get_by_role("button", name="Keep what I wrote here").click()
    expect(other.get_by_role("alert")).to_have_count(0)
    page.reload()
    expect(page.get_by_label("Population size")).to_have_value("7000")
    # Enter goes on.
    page.get_by_label("sex", exact=True).check()
    page.get_by_label("region", exact=True).check()
    page.get_by_label("Population size").press("Enter")
    expect(page.get_by_role("heading", name="Assess tabs.csv")).to_be_visible()
    # The command follows the form without a button, once the page is loaded.
    page.wait_for_load_state()
    page.get_by_label("Model", exact=True).select_option("hdp")
    expect(page.locator("#command")).to_contain_text("--model hdp")


def test_suggested_rules_are_added_and_checked_without_another_button(page: Page, at: Any) -> None:
    from playwright.sync_api import expect

    page.goto(at("/keys?path=people.csv"))
    for name in ("sex", "region"):
        page.get_by_label(name, exact=True).check()
    page.get_by_role("button", name="Suggest rules").click()
    add = page.get_by_role("button", name=re.compile("^Add")).first
    add.click()
    rules = page.get_by_label("One rule on each line")
    expect(rules).to_have_value(re.compile("region"))
    expect(page.get_by_text("0 records break a rule.")).to_be_visible()
    rules.fill("sex == 'f'")
    expect(page.get_by_text("100 records break a rule.")).to_be_visible()


def test_the_main_job_is_done_by_keyboard_alone(page: Page, at: Any) -> None:
    from playwright.sync_api import expect

    page.goto(at("/files"))
    press_on(page, "link", re.compile("^others.csv"), "Enter")
    press_on(page, "link", "Choose the keys", "Enter")
    for name in ("sex", "region"):
        press_on(page, "checkbox", name, "Space")
    press_on(page, "textbox", "Population size", "5")
    page.keyboard.type("000")
    press_on(page, "button", "Check and go on", "Enter")
    expect(page.get_by_role("heading", name="Assess others.csv")).to_be_visible()
    press_on(page, "combobox", "Model", "l")
    press_on(page, "textbox", "Folder of the results", "End")
    page.keyboard.type("-by-keyboard")
    press_on(page, "button", "Start", "Enter")
    expect(page.get_by_role("heading", name=re.compile("by-keyboard$"))).to_be_visible()
    press_on(page, "button", "Stop the run", "Enter")
    # The page goes on by itself when the run has ended: not while another is asked for.
    ended = page.locator("#progress:not([data-after])")
    result = page.get_by_role("heading", name=re.compile("^Result"))
    expect(ended.or_(result)).to_be_visible(timeout=PATIENCE)
    # The table of records is sorted and leads on by keyboard, too.
    page.goto(at("/records/finished"))
    press_on(page, "link", "r2", "Enter", within="#records")
    expect(page.get_by_role("columnheader", name="r2")).to_have_attribute("aria-sort", "descending")


def press_on(
    page: Page, role: Any, name: str | re.Pattern[str], key: str, *, within: str = "body"
) -> None:
    """Go to an element with the tabulator key, and press a key there."""
    from playwright.sync_api import expect

    wanted = page.locator(within).get_by_role(role, name=name, exact=True).first
    expect(wanted).to_be_visible()
    for _ in range(120):
        page.keyboard.press("Tab")
        if wanted.evaluate("element => element === document.activeElement"):
            # Who works by keyboard has to see where he is.
            seen = wanted.evaluate("e => getComputedStyle(e).outlineStyle !== 'none'")
            assert seen, f"{name} shows no focus"
            page.keyboard.press(key)
            return
    raise AssertionError(f"{name} is not reached by keyboard")


def test_records_are_filtered_as_one_types(page: Page, at: Any) -> None:
    from playwright.sync_api import expect

    page.goto(at("/records/finished"))
    before = page.locator("#records .facts").inner_text()
    page.get_by_label("A key that causes it").select_option("work")
    expect(page.locator("#records .facts")).not_to_have_text(before)
    expect(page).to_have_url(re.compile("key=work"))
    page.get_by_label("Row of the file").press_sequentially("0")
    expect(page.get_by_role("alert")).to_contain_text("the first is 1")
    page.get_by_label("Row of the file").fill("")
    page.get_by_role("link", name="Risk r1").click()
    expect(page.get_by_label("A key that causes it")).to_have_value("work")
    row = page.locator(".risky tbody tr").first
    plain = row.evaluate("row => getComputedStyle(row).backgroundColor")
    row.hover()
    assert row.evaluate("row => getComputedStyle(row).backgroundColor") != plain


def test_columns_get_roles_and_numbers_are_seen_before_and_after(
    page: Page, at: Any, folder: Path
) -> None:
    from playwright.sync_api import expect

    # A file that no other test has marked keys of.
    lines = [f"{7000 + i},{i * 7 % 50},{'fm'[i % 2]},{1000 + i * i % 977}\n" for i in range(120)]
    (folder / "wages.csv").write_text("pid,age,sex,wage\n" + "".join(lines))
    page.goto(at("/columns?path=wages.csv"))
    for name in ("age", "sex"):
        with page.expect_response("**/columns"):
            page.get_by_label(f"Role of {name}").select_option("key")
        expect(page.get_by_label(f"Role of {name}")).to_have_value("key")
    expect(page.locator(".marked")).to_contain_text("removed")
    page.locator("summary", has_text="wage").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Method, wage").focus()
    with page.expect_response("**/columns"):
        page.get_by_label("Method, wage").select_option("round")
    expect(page.get_by_role("img", name="wage before (columns) and after (line)")).to_be_visible()
    # What is open stays so, and the field that was changed keeps the focus.
    expect(page.get_by_label("Amount of round, wage")).to_have_value("100")
    expect(page.get_by_label("Method, wage")).to_be_focused()
    assert violations(page) == []
    page.get_by_role("button", name="Go on to the protection").click()
    expect(page.locator("#command")).to_contain_text("--numeric 'wage: round(100)'")
    (folder / "wages.csv").unlink()


DROP = """([name, size]) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(size)], name));
  const how = { dataTransfer: data, bubbles: true, cancelable: true };
  const refused = document.body.dispatchEvent(new DragEvent("dragover", how));
  if (refused) { throw new Error("a drop is not taken"); }
  document.body.dispatchEvent(new DragEvent("drop", how));
}"""


def test_a_dropped_file_is_found_in_the_folder_and_not_sent(
    page: Page, at: Any, folder: Path
) -> None:
    from playwright.sync_api import expect

    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.method))
    size = (folder / "people.csv").stat().st_size
    page.goto(at("/files"))
    page.evaluate(DROP, ["people.csv", size])
    expect(page.get_by_role("heading", name="people.csv")).to_be_visible()
    # What takes a drop is there once the page is loaded, which may be after its heading.
    page.wait_for_load_state()
    page.evaluate(DROP, ["people.csv", size + 1])
    expect(page.get_by_role("alert")).to_contain_text("has another size")
    page.wait_for_load_state()
    page.evaluate(DROP, ["elsewhere.csv", 10])
    expect(page.get_by_role("alert")).to_contain_text("is not in the folder of the workbench")
    assert set(sent) == {"GET"}


def pages_of(folder: Path) -> list[str]:
    """Addresses of every page of the workbench."""
    guard, _ = make_app(Folder.of(folder), Access(port=PORT))
    found = ["/file?path=people.csv&rows=1", "/records/finished?values=1", "/runs/none",
             "/neighbours/finished?row=7", "/neighbours/finished?row=8&values=1"]  # fmt: skip
    found += ["/levels?path=people.csv&edit=region", "/levels?path=people.csv&edit=work"]
    found += [f"/run?path=people.csv&kind={kind}" for kind in KINDS]
    for route in guard._app.routes:  # type: ignore[attr-defined]  # of the application inside
        assert isinstance(route, Route)
        if "GET" in (route.methods or ()) and route.path not in NO_PAGES:
            path = route.path.replace("{id:path}", "finished").replace("/find", "/find?name=x.y")
            found.append(path if "?" in path or path == "/files" else f"{path}?path=people.csv")
    return found


def name_of(path: str) -> str:
    return re.sub(r"\W+", "-", path).strip("-")


def violations(page: Page, *rules: str) -> list[str]:
    """What axe-core finds wrong with a page, by these rules or all."""
    import axe_playwright_python

    source = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text()
    # Evaluated by the browser itself: the page's policy, which allows no such script, stays.
    page.evaluate(source)
    options: dict[str, Any] = {"resultTypes": ["violations"], "iframes": False}
    if rules:
        options["runOnly"] = list(rules)
    found: Sequence[Any] = page.evaluate("options => axe.run(options)", options)["violations"]
    return [
        f"{one['id']}: {one['help']}: {json.dumps([node['target'] for node in one['nodes']][:3])}"
        for one in found
    ]


def test_every_page_is_accessible(
    browser: Browser, page: Page, at: Any, folder: Path, request: pytest.FixtureRequest
) -> None:
    pictures = request.config.getoption("--pictures")
    problems = {}
    for path in pages_of(folder):
        answer = page.goto(at(path))
        assert answer is not None
        if "<html" not in answer.text():
            # A part of a page, for a script.
            continue
        assert page.locator("h1").count() == 1, path
        if path.startswith("/keys"):
            page.get_by_label("Grouping of work").fill("width(5)")
            # A key that an earlier test has grouped shows its groups, too.
            page.get_by_text("groups; the smallest").first.wait_for()
        page.evaluate(
            "document.querySelectorAll('main details').forEach((one) => (one.open = true))"
        )
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            # What else there is does not depend on the colours.
            if found := violations(page, *(["color-contrast"] if scheme == "dark" else [])):
                problems[f"{path}, {scheme}"] = found
            for width in WIDTHS:
                if width != 400 and not pictures:
                    continue
                page.set_viewport_size({"width": width, "height": 900})
                element = "document.documentElement"
                assert page.evaluate(f"{element}.scrollWidth <= {element}.clientWidth"), path
                if pictures:
                    Path(pictures).mkdir(parents=True, exist_ok=True)
                    place = Path(pictures, f"{name_of(path)}-{width}-{scheme}.png")
                    page.screenshot(path=place, full_page=True)
            page.set_viewport_size({"width": 800, "height": 900})
    report = browser.new_page()
    report.goto((folder / "finished/report.html").as_uri())
    if found := violations(report):
        problems["report"] = found
    report.close()
    assert problems == {}


@pytest.mark.slow
def test_a_file_of_60_megabytes_is_opened(page: Page, at: Any, folder: Path) -> None:
    from playwright.sync_api import expect

    lines = [",".join(str(i * j % (3 + j * j)) for j in range(20)) for i in range(9973)]
    block = "\n".join(lines) + "\n"
    with (folder / "large.csv").open("w") as file:
        file.write(",".join(f"v{j}" for j in range(20)) + "\n")
        file.write(block * (60_000_000 // len(block) + 1))
    began = time.monotonic()
    page.goto(at("/file?path=large.csv"), timeout=PATIENCE)
    expect(page.get_by_text("20 columns")).to_be_visible()
    assert time.monotonic() - began < 20
    (folder / "large.csv").unlink()
