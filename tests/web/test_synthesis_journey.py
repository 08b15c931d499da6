"""An officer makes synthetic files and attacks them, by forms alone."""

from __future__ import annotations

import time

import pytest

from web_client import Client

LONGEST = 120.0
"""Seconds that a run may take on a busy machine."""
KEYS = {"path": "survey.csv", "key:age": "on", "key:sex": "on", "key:region": "on"}
SMALL = {"path": "survey.csv", "chains": "2", "workers": "1", "max_sweeps": "40"}


def ended(client: Client, id: str) -> str:
    end = time.monotonic() + LONGEST
    while (run := client.bench.runs.get(id)).active and time.monotonic() < end:
        time.sleep(0.1)
    return run.message or run.state


@pytest.mark.slow
def test_synthetic_files_are_made_attacked_and_verified(client: Client) -> None:
    assert client.ask("/run?path=survey.csv&kind=synthesize").status_code == 200
    assert client.post("/keys", KEYS).status_code == 303
    made = {"kind": "synthesize", "model": "latent-class", "datasets": "2", "out": "made"}
    assert client.post("/run", SMALL | made).status_code == 303
    assert ended(client, "made") in ("done", "unconverged")
    page = client.ask("/run?path=survey.csv&kind=attack").text
    assert 'name="synthetic:made"' in page
    attack = {"kind": "attack", "synthetic:made": "on", "targets": "region", "out": "attacked"}
    assert client.post("/run", SMALL | attack).status_code == 303
    assert ended(client, "attacked") in ("done", "unconverged")
    assert client.ask("/report/attacked").status_code == 200
    # The attack is changed and run again; a file of the synthesis can be verified.
    assert client.post("/again/attacked", {}).status_code == 303
    assert client.bench.draft("survey.csv").values["synthetic"] == "made"
    verify = {"kind": "verify", "protected": "made/synthetic_1.csv", "model": "latent-class"}
    client.post("/keys", KEYS | {"population_size": "5 000"})
    assert client.post("/run", SMALL | verify | {"out": "verified"}).status_code == 303
    assert ended(client, "verified") in ("done", "unconverged")
