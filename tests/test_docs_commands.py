"""The documentation and the tool agree: commands, options, links, and what is not offered."""

from __future__ import annotations

import re
import runpy
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import click
import pytest

from unikat.cli.main import cli

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
FOR_USERS = [page for page in PAGES if page.parent != DOCS / "design"]
HISTORY = {DOCS / "changelog.md"}
OTHER_PROGRAMS = {
    "docs/accuracy.md": {"--sizes", "--by-level", "--rhat", "--ess", "--seconds"},
    "docs/how-to/install.md": {"--target"},
    "docs/reproduction.md": {"--only", "--again", "--fits"},
    "docs/how-to/run-in-a-container.md": {
        *("--network", "--secret", "--target", "--user", "--userns", "--volume"),
    },
}
"""Options of benchmarks, of pip and of container programs, by the page that names them."""
_BLOCK = re.compile(r"^ *```[{]?(\w*)[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_DENIAL = re.compile(
    r"\bnot yet\b|\bnot (?:implemented|offered|supported)\b|\bis planned\b|\bcoming soon\b|"
    r"\bdoes not (?:change|recode|protect|write) (?:files|data)\b",
    re.IGNORECASE,
)
DENIALS = {
    "docs/explanation/log-linear.md": ("pairs of keys not yet in the model",),
    "docs/explanation/from-other-programs.md": (
        "thresholds on fixed combinations are not offered",
    ),
    "docs/accuracy.md": ("far better, and not yet 95%",),
}
"""Whatever a page for users says is not there; each was compared with the tool."""


def commands(group: click.Group = cli, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield the commands by name, those of a group by both names."""
    for name, command in group.commands.items():
        yield f"{before}{name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")


COMMANDS = dict(commands())
WITHOUT_REFERENCE = {"demo", "web", "report", "start"}
"""They have few options, which a guide names."""


def flags(command: click.Command) -> set[str]:
    """All names of its options."""
    options = (
        one
        for one in command.get_params(click.Context(command, **cli.context_settings))
        if isinstance(one, click.Option)
    )
    return {"--help", "-h"} | {name for one in options for name in (*one.opts, *one.secondary_opts)}


CONF = runpy.run_path(str(DOCS / "conf.py"))
GENERAL = flags(cli)
ALL = GENERAL.union(*map(flags, COMMANDS.values()))


def text(page: Path) -> str:
    """Return a page without comments, and with the tables of options that it asks for."""
    said = page.read_text(encoding="utf-8")
    said = re.sub(r"<!-- options: (\w+) -->", lambda found: CONF["options_table"](found[1]), said)
    return re.sub(r"<!--.*?-->", "", said, flags=re.DOTALL)


def spans(page: Path) -> Iterator[str]:
    """Yield what stands as code on a page: blocks of a shell by command, and code in a line."""
    said = text(page)
    for language, block in _BLOCK.findall(said):
        if language in ("sh", "bash", "text", ""):
            yield from block.replace("\\\n", " ").splitlines()
    outside = _BLOCK.sub("", said)
    yield from re.findall(r"`([^`\n]+)`", outside)


def called(span: str) -> tuple[str, list[str]] | None:
    """Return the command that a span calls, with its words; None if it calls none."""
    try:
        words = shlex.split(span, comments=True)
    except ValueError:
        words = span.split()
    if "unikat" not in words:
        return None
    place = words.index("unikat") + 1
    if not {"import", "from", "=", "pip", "install"}.isdisjoint(words[:place]):
        return None
    words = words[place:]
    while words and words[0] in GENERAL:
        words = words[1:]
    if not words or not re.fullmatch(r"[a-z]+", words[0]):
        return None
    both = " ".join(words[:2])
    return (both, words[2:]) if both in COMMANDS else (words[0], words[1:])


def options(words: list[str]) -> list[str]:
    return [word.split("=")[0] for word in words if re.match(r"--[a-z]", word)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_options_that_a_page_names_exist(page: Path):
    if page in HISTORY:
        return
    for span in spans(page):
        found = called(span)
        if found is not None:
            name, words = found
            assert name in COMMANDS, span
            unknown = set(options(words)) - flags(COMMANDS[name])
            assert not unknown, f"{unknown} of: {span}"
        elif span.startswith("--") and page in FOR_USERS:
            where = str(page.relative_to(ROOT))
            for name in options(span.split()[:1]):
                assert name in ALL or name in OTHER_PROGRAMS.get(where, ()), span


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        ("unikat assess x.csv --keys a", ("assess", ["x.csv", "--keys", "a"])),
        ("unikat zeros check x.csv", ("zeros check", ["x.csv"])),
        ("unikat --debug xyz --opt", ("xyz", ["--opt"])),
        ("import unikat", None),
    ],
)
def test_calls_are_found(span: str, expected: tuple[str, list[str]] | None):
    assert called(span) == expected


def named(flag: str, where: str) -> bool:
    return flag in ("-h", "--help") or bool(re.search(rf"(?<![\w-]){flag}(?![\w-])", where))


def test_every_command_and_option_is_documented():
    said = {page: text(page) for page in FOR_USERS}
    whole = "\n".join(said.values())
    for name, command in COMMANDS.items():
        assert re.search(rf"unikat {name}\b", whole), f"no page shows unikat {name}"
        for flag in flags(command) - {"-h", "--help"}:
            assert named(flag, whole), f"{flag} of {name}"
    reference = "\n".join(said[page] for page in said if page.parent == DOCS / "reference")
    for name, command in COMMANDS.items():
        if name not in WITHOUT_REFERENCE:
            missing = [flag for flag in flags(command) if not named(flag, reference)]
            assert not missing, f"of unikat {name}: {missing}"


def anchors(page: Path) -> set[str]:
    """Anchors of the headings of a page, as the documentation and GitHub make them."""
    bare = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    found: dict[str, int] = {}
    made = set(re.findall(r"^\(([\w-]+)\)=$", bare, re.MULTILINE))
    for title in re.findall(r"^#{1,6} +(.+?) *$", bare, re.MULTILINE):
        words = re.sub(r"\{\w+\}`([^`<]*?)(?: <[^>]*>)?`", r"\1", title)
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", words).lower().replace(" ", "-")
        slug = "".join(c for c in words if c.isalnum() or c in "-_")
        made.add(slug if slug not in found else f"{slug}-{found[slug]}")
        found[slug] = found.get(slug, 0) + 1
    return made


LINKS: Mapping[Path, list[str]] = {
    page: re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", text(page)) for page in PAGES
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_pages_and_headings(page: Path):
    for link in LINKS[page]:
        file, _, anchor = link.partition("#")
        target = page if not file else (page.parent / file).resolve()
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize("page", FOR_USERS, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_denies_is_not_there(page: Path):
    """A page that says that something is not offered is compared with the tool, and listed."""
    if page in HISTORY or page == DOCS / "adding-a-model.md":
        return
    said = " ".join(text(page).split())
    for known in DENIALS.get(str(page.relative_to(ROOT)), ()):
        assert known in said, f"no longer on the page: {known}"
        said = said.replace(known, "")
    assert [said[max(one.start() - 60, 0) : one.end() + 60] for one in _DENIAL.finditer(said)] == []


def test_what_other_programs_call_otherwise_is_mapped_to_commands():
    """What the tool does, the page for users of other programs does not deny."""
    page = (DOCS / "explanation" / "from-other-programs.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    for theirs, ours in {
        "localSuppression": "protect --suppress",
        "pram": "protect --pram",
        "recordSwap": "protect --swap",
        "globalRecode": "protect --recode",
        "`infoLoss`": "--tables",
        "`rankSwap`": "--numeric",
        "aggr = 3": "protect --numeric",
        "| microaggregation": "protect --numeric",
        "`dRisk(": "near_in_all",
        "IL1s": "il1s",
        "sdcApp": "unikat web",
        "generalisation hierarchies": "protect --recodings",
        "| suppression": "protect --suppress",
        "graphical interface": "unikat web",
    }.items():
        (row,) = [line for line in rows if theirs in line.split(" | ")[0]]
        assert ours in row, theirs


def test_how_far_classic_estimators_are_is_what_was_measured():
    """The guides and the report say `often off by 50% or more`: that follows from the table."""
    accuracy = (DOCS / "accuracy.md").read_text(encoding="utf-8")
    table = accuracy.split("## Classic estimators of population uniques")[1].split("\n## ")[0]
    errors = [
        int(found.replace("−", "-"))
        for line in table.splitlines()
        if re.search(r"\| [15]% \|", line)
        for found in re.findall(r"([+−]\d+)%", line)
    ]
    far = f"{sum(abs(error) >= 50 for error in errors)} of {len(errors)} estimates"
    for name in ("how-to/classic-measures.md", "explanation/from-other-programs.md"):
        assert far in " ".join((DOCS / name).read_text(encoding="utf-8").split()), name
    assert 2 * sum(abs(error) >= 50 for error in errors) > len(errors)


WITHOUT_TLS = {"celsius.lshtm.ac.uk", "www.ccsr.ac.uk"}
"""Old pages that are known by an address without TLS alone."""
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([a-z]+:[^)\s]*)\)|<?(\bhttps?://[^\s)>`\"]+)")


def external(pages: Mapping[str, str]) -> list[str]:
    """What is wrong with the form of links to other places; nobody is asked, and nothing is sent.

    An address has TLS and a host, a DOI is one, and all links to an address say the same.
    """
    wrong, texts = [], dict[str, str]()
    for page, said in pages.items():
        for words, link, bare in _LINK.findall(_BLOCK.sub("", said)):
            parts = urlsplit(link or bare)
            if parts.scheme not in ({"http"} if parts.hostname in WITHOUT_TLS else {"https"}):
                wrong.append(f"{page}: {link or bare} is not https")
            if not re.fullmatch(r"(?:[a-z0-9-]+\.)+[a-z]{2,}", parts.hostname or ""):
                wrong.append(f"{page}: {link or bare} has no host")
            doi = parts.path if parts.hostname == "doi.org" else "/10.1000/1"
            if "dx.doi.org" in parts.netloc or not re.fullmatch(r"/10\.\d{4,9}/\S+", doi):
                wrong.append(f"{page}: {link or bare} is no DOI")
            if words and texts.setdefault(link.rstrip("/"), words) != words:
                wrong.append(f"{page}: {link} is {words!r}, and elsewhere {texts[link]!r}")
    return wrong


def test_links_to_other_places_have_a_form_that_can_work():
    pages = [*PAGES, *(ROOT / f"{name}.md" for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY"))]
    texts = {str(page.relative_to(ROOT)): text(page) for page in pages}
    assert sum(len(_LINK.findall(said)) for said in texts.values()) > 15
    assert external(texts) == []
    planted = "[a](http://b.org/) [c](https://doi.org/a12) [d](https:e.org/) [f](https://a.org/g)"
    assert len(external({"x": planted, "y": "[h](https://a.org/g)"})) == 4
