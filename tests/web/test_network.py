"""Every use of the network is told in the same words, wherever it is told."""

from __future__ import annotations

import html
from pathlib import Path

from click.testing import CliRunner

from unikat.cli.main import cli
from unikat.spec.network import NETWORK
from web_client import Client


def words(text: str) -> str:
    return " ".join(text.split())


def test_readme_help_and_workbench_say_the_same(client: Client) -> None:
    readme = Path(__file__).parents[2] / "README.md"
    assert NETWORK in words(readme.read_text(encoding="utf-8"))
    assert NETWORK in words(CliRunner().invoke(cli, ["--help"]).output)
    assert NETWORK in words(html.unescape(client.ask("/files").text))
