"""The README's example runs as it stands, and its commands are those of the Makefile."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.usefixtures("no_network")
def test_python_example_runs(tmp_path, monkeypatch, capsys):
    (example,) = blocks("python")
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "README.md", "exec"), {"__name__": "readme"})
    shown = capsys.readouterr().out
    assert re.search(r"^τ1 \d+ \(\d+ to \d+\)  population uniques in the file", shown, re.MULTILINE)
    assert shown.count("\n") == 5
    assert (tmp_path / "assessment" / "result.json").is_file()


def test_set_up_commands_are_single_lines_of_the_makefile():
    commands = [block.strip() for block in blocks("sh")][:2]
    assert commands == ["make demo", "make test"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(f"\n{command.split()[1]}: " in makefile for command in commands)


def test_links_lead_to_files():
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert [link for link in links if not (ROOT / link).is_file()] == []
