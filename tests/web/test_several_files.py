"""Folders and patterns of files of data, read as one."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest

from web_client import SURVEY, Client

KEYS = {"key:age": "on", "key:sex": "on", "population_size": "900"}


@pytest.fixture
def parts(folder: Path) -> Path:
    frame = pd.read_csv(folder / "survey.csv")
    made = folder / "parts"
    made.mkdir()
    frame[:20].to_parquet(made / "a.parquet")
    frame[20:].to_parquet(made / "b.parquet")
    for value in ("x", "y"):
        (folder / "lake" / f"year={value}").mkdir(parents=True)
        frame.to_parquet(folder / "lake" / f"year={value}" / "0.parquet")
    return folder


@pytest.mark.parametrize(
    ("path", "n"), [("parts", 60), ("parts/*.parquet", 60), ("lake", 120), ("parts/a*", 20)]
)
def test_several_files_are_one(client: Client, parts: Path, path: str, n: int) -> None:
    page = client.ask("/file", params={"path": path})
    assert f"{n} records" in page.text
    counts = client.post("/keys/counts", {"path": path, **KEYS}, headers={"HX-Request": "true"})
    assert f"of {n} records" in counts.text
    assert client.post("/keys", {"path": path, **KEYS}).status_code == 303
    roles = {"path": path, "role:age": "key", "role:sex": "key"}
    assert client.post("/columns", roles | {"do": "show"}).status_code == 200
    draft = client.bench.draft(path)
    spec = draft.spec(client.bench.folder.source(path), parts)
    assert spec.data.path == parts / path


def test_they_are_offered(client: Client, parts: Path) -> None:
    assert "2 parquet files as one" in client.ask("/files?path=parts").text
    assert "2 partitions as one" in client.ask("/files?path=lake").text
    assert "as one</span>" not in client.ask("/files").text


def test_what_changes_is_read_again_and_groups_are_no_part(client: Client, parts: Path) -> None:
    path = "parts/*.parquet"
    assert "60 records" in client.ask("/file", params={"path": path}).text
    pd.read_csv(parts / "survey.csv")[:5].to_parquet(parts / "parts/c.parquet")
    assert "65 records" in client.ask("/file", params={"path": path}).text
    client.post("/keys/keep", {"path": path, **KEYS, "key:region": "on"})
    groups = {"path": path, "edit": "region", "levels:region": "found\n0-1 far"}
    done = client.post("/levels", groups)
    assert done.status_code == 303, done.text
    assert (parts / "groups/region-groups.csv").is_file()


def test_nothing_outside_is_read(client: Client, parts: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text(SURVEY)
    os.symlink(tmp_path / "secret.csv", parts / "parts/link.csv")
    (parts / "only").mkdir()
    os.symlink(tmp_path / "secret.csv", parts / "only/link.csv")
    for path in ("../*.csv", "parts/../../*.csv", "/tmp/*.csv", "only", "only/*.csv", "only/l*",
                 "none/*.csv", "parts/[", "**/*.csv", "", "."):  # fmt: skip
        answer = client.ask("/file", params={"path": path})
        assert answer.status_code in (404, 422), path
        assert "secret" not in answer.text
