"""The README: its example and commands run, it is short, and its links lead to files."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

import doc_pages
import unikat
from unikat import datasets

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.usefixtures("no_network")
def test_python_example_runs(tmp_path, monkeypatch, capsys):
    (example,) = blocks("python")
    monkeypatch.chdir(tmp_path)
    few = "auto:candidates=latent-class,loglinear:evidence_seconds=0.5"
    quick = functools.partial(unikat.assess, model=few, chains=2, workers=1)
    monkeypatch.setattr(unikat, "assess", quick)
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


def test_it_is_short():
    assert README.count("\n") <= 150


@pytest.mark.slow
@pytest.mark.usefixtures("no_network")
def test_its_commands_run(tmp_path, monkeypatch):
    """The first assessment as it stands, and the options that the table of commands names."""
    monkeypatch.chdir(tmp_path)
    datasets.write_examples(tmp_path)
    (tmp_path / "zeros.toml").write_text("rules = ['age < 5 and education == \"higher\"']\n")
    keys = "--keys age,sex,education,region "
    population = "--population-size 712174 "
    named = re.findall(r"`(unikat [^`]*…[^`]*)`", README)
    assert len(named) == 12
    found = [line for block in blocks("sh") for line in block.splitlines() if "unikat" in line]
    for line in found:
        run(line)
    for line in named:
        without = ("evaluate", "synthesize", "--weights")
        given = keys + ("" if any(word in line for word in without) else population)
        if "households" in line:
            given = "--keys relation,age:width(10),sex --population-households 40000 "
        run(line.replace("… ", given).replace("--n 1000,", "--n 200,"))


def run(line: str) -> None:
    example = doc_pages.Example("README.md", 0, "sh", line, "", "")
    (words,) = doc_pages.commands(example)
    doc_pages.run_command(example, words)
