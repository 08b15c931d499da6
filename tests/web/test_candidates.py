"""Plans side by side: the frontier moves with the sliders, and candidates survive a restart."""

from __future__ import annotations

import json
import re
from html import escape, unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from unikat.web.app import make_app
from unikat.web.candidates import MOST, Candidates
from unikat.web.draft_files import DRAFTS
from unikat.web.folder import Folder
from unikat.web.security import Access
from web.test_levels import FakeExplorer, asked  # noqa: F401
from web_client import PORT, Client

SECOND = "?key%3Aage=1&key%3Aregion=1"
"""The second plan of the frontier, as the list names it."""


@pytest.fixture
def page(asked: Client) -> Client:  # noqa: F811
    return asked


def saved(client: Client, name: str, **fields: str) -> int:
    answer = client.post("/what-if-save/kept", {"name": name, "target": "tau1 <= 5", **fields})
    return answer.status_code


def columns(text: str) -> list[str]:
    table = text[text.index("beside-plans") : text.index("</thead>", text.index("beside-plans"))]
    return re.findall(r'<th scope="col"[^>]*>(?:<a [^>]*>)?([^<]*)', table)[1:]


def test_candidates_are_side_by_side_and_there_after_a_restart(page: Client, folder: Path) -> None:
    assert "beside-plans" not in page.ask("/what-if/kept").text
    assert saved(page, "Plan <A>", **{"key:age": "1", "subsample": "50%"}) == 303
    assert saved(page, " by   hand", **{"levels:region": "found\n0-1 far"}) == 303
    text = page.ask("/what-if/kept").text
    assert columns(text) == ["Now", "Plan &lt;A&gt;", "by hand"]
    assert "subsample: 50%" in text
    assert "grouped by hand" in text
    # Nobody else may read what may quote values.
    (place,) = (folder / DRAFTS).iterdir()
    assert place.stat().st_mode & 0o077 == 0
    _, bench = make_app(Folder.of(folder), Access(port=PORT))
    assert [one.name for one in bench.candidates.of("kept")] == ["Plan <A>", "by hand"]
    bench.runs.close()
    # The name of a run takes them with it.
    assert page.post("/rename/kept", {"name": "other"}).status_code == 303
    assert [one.name for one in page.bench.candidates.of("other")] == ["Plan <A>", "by hand"]
    assert page.bench.candidates.of("kept") == []
    assert page.post("/what-if-remove/other", {"name": "Plan <A>"}).status_code == 303
    assert columns(page.ask("/what-if/other").text) == ["Now", "by hand"]


def test_what_cannot_be_saved_is_said(page: Client, folder: Path) -> None:
    assert saved(page, " ") == 422
    assert saved(page, "x" * 61) == 422
    for number in range(MOST):
        assert saved(page, str(number)) == 303
    assert saved(page, "0") == 303
    assert saved(page, "one more") == 422
    (place,) = (folder / DRAFTS).iterdir()
    kept = Candidates(page.bench.folder)
    assert len(kept.of("kept")) == MOST
    content = json.loads(place.read_text())
    # What somebody else may have written is not read, nor what is none of ours.
    for wrong in ({"run": "x"}, {"schema": "other"}, {"candidates": [1, {"name": 2}, {}]}):
        place.write_text(json.dumps(content | wrong))
        assert kept.of("kept") == []
    place.write_text(json.dumps(content))
    place.chmod(0o666)
    assert kept.of("kept") == []


def test_the_frontier_marks_the_plan_of_the_sliders(page: Client) -> None:
    def here(query: str) -> str:
        text = page.ask(f"/what-if/kept?{query}").text
        assert "Every plan that no other beats: 2 of 8 recodings." in text
        (found,) = re.findall(r'<option value="([^"]*)" selected>(?=τ1|choose|the chosen)', text)
        return unescape(found)

    assert here("") == "?"
    assert here("key:age=1&key:region=1") == SECOND
    # It is none of the frontier.
    assert here("key:age=1") == ""
    assert here("key:age=1&key:region=1&suppress=k >= 3") == ""
    # A plan of another kind sets the field of what is done besides, too.
    kept = "?key%3Aage=1&suppress=r1+%3C%3D+0.2"
    assert here("key:age=1&suppress=r1 <= 0.2") == kept
    assert (
        page.ask(f"/what-if/kept?go=1&plan={quote(kept)}")
        .headers["location"]
        .endswith("key%3Aage=1&target=+&suppress=r1+%3C%3D+0.2")
    )
    text = page.ask("/what-if/kept").text
    assert '<optgroup label="values suppressed">' in text
    assert text.count("<polygon") >= 2
    moved = page.ask("/what-if-numbers/kept?key:age=1&key:region=1", headers={"X-Page": "a"}).text
    assert '<div id="frontier" hx-swap-oob="true">' in moved
    assert f'<option value="{escape(SECOND)}" selected>' in moved
    goes = page.ask(f"/what-if/kept?go=1&plan={quote(SECOND)}&target=tau1 <= 5&suppress=k >= 3")
    assert goes.status_code == 303
    assert goes.headers["location"].endswith(f"{SECOND}&target=tau1+%3C%3D+5")
    for wrong in ("7", "?key:age=x", "?out=/etc", "//evil"):
        moved_to = page.ask(f"/what-if/kept?go=1&plan={quote(wrong)}")
        assert moved_to.status_code in (200, 303)
        assert "evil" not in moved_to.headers.get("location", "")
        assert "etc" not in moved_to.headers.get("location", "")


def test_a_chosen_plan_stays_chosen(page: Client) -> None:
    """Later answers draw the list again."""

    def listed(answer: Any) -> str:
        (found,) = re.findall(
            r'<option value="([^"]*)" selected>', answer.text.split("#plan-was")[-1]
        )
        return unescape(found)

    told = f"plan={quote(SECOND)}&was=%3F"
    address = page.ask(f"/what-if-frontier/kept?chose=1&{told}").headers["HX-Replace-Url"]
    at = address.removeprefix(page.access.base)
    for later in (at, f"/what-if-frontier/kept?{told}", f"/what-if-numbers/kept?key:age=1&{told}"):
        answer = page.ask(later, headers={"X-Page": "a"})
        assert listed(answer) == SECOND
    # The address follows, and the sliders do with the button alone.
    assert quote(SECOND, safe="") in answer.headers["HX-Replace-Url"]
    assert "Information lost" in answer.text
    # Nobody chose the plan of the sliders, which the list shows: it moves with them.
    moved = page.ask("/what-if-frontier/kept?key:age=1&key:region=1&plan=%3F&was=%3F")
    assert listed(moved) == SECOND
    # One that all states have beaten is not forgotten in silence.
    gone = page.ask("/what-if-frontier/kept?plan=%3Fkey%253Ajob%3D1&was=")
    assert listed(gone) == "?key%3Ajob=1"
    assert "the chosen plan, which another one beats" in gone.text


def test_numbers_by_few_states_are_never_called_those_of_all(
    page: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Racing(FakeExplorer):
        """The answer by all states comes while that of the file as it is is waited for."""

        def look(self, asker: str, *what: Any, **more: Any) -> Any:
            found = super().look(asker, *what, **more)
            if asker == "as it is":
                if self.waiting is not None:
                    self.waiting.answer, self.waiting.done = found.answer, True
                    judged = {"limit": "tau1 <= 5", "value": 3.0, "verdict": "met"}
                    found.answer["look"]["judged"] = judged
            else:
                found.answer["look"]["n_states"], found.done = 20, False
                self.waiting = found
            return found

        waiting: Any = None

    racing = Racing()
    monkeypatch.setattr(type(page.bench.explorers), "of", lambda *_: racing)
    text = page.ask("/what-if-numbers/kept?target=tau1 <= 5", headers={"X-Page": "a"}).text
    assert "By all 400 states" in text
    assert "Limit met: τ1 ≤ 5." in text
