"""The grammar of kinds of levels, and of levels that stay apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from unikat.errors import SpecError
from unikat.spec.protection import ProtectionSpec

ASKED = {"keys": "EDU,ISCO", "target": "tau1 <= 5"}


def test_kinds_and_levels_that_stay_apart() -> None:
    spec = ProtectionSpec.parse(
        {
            **ASKED,
            "data": {"levels": "EDU: Ordered; ISCO: isco08; a:b: prefix(1, 2)"},
            "apart": "EDU: 1, 5",
        }
    )
    assert spec.data.levels == {"EDU": "ordered", "ISCO": "isco08", "a:b": "prefix(1, 2)"}
    assert spec.apart == {"EDU": ("1", "5")}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"data": {"levels": "EDU: order"}}, "'order' is no kind of levels"),
        ({"data": {"levels": "EDU: isco8"}}, "Did you mean 'isco08'"),
        ({"data": {"levels": "ordered"}}, "name each key and the kind of its levels"),
        ({"data": {"levels": "EDU: prefix(0)"}}, "is no kind of levels"),
        ({"apart": "EDU: 1"}, "two or more of a key"),
        ({"apart": "1, 5"}, "two or more of a key"),
    ],
)
def test_what_is_no_kind(asked: dict[str, object], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        ProtectionSpec.parse({**ASKED, **asked})
    assert said in str(caught.value)


def test_a_file_counts_from_the_folder_of_the_specification(tmp_path: Path) -> None:
    path = tmp_path / "protect.toml"
    path.write_text('keys = ["EDU", "ISCO"]\ntarget = "tau1 <= 5"\n[data]\npath = "x.csv"\n'
                    'levels = {EDU = "file(tree.csv)"}\n')  # fmt: skip
    spec = ProtectionSpec.read(path)
    assert spec.data.levels == {"EDU": f"file({tmp_path / 'tree.csv'})"}
    assert tmp_path / "tree.csv" in {*map(Path, spec.input_files())}
