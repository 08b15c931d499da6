"""Groups made by hand: a key that is read in them is that of a file recoded beforehand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unikat
from unikat.data import Design, read
from unikat.errors import DataError, SpecError

UNKNOWN = Design(population_size=1_000_000)
NAMES = st.sampled_from(["north", "south", "10", "9", "b c", "ä;ö", 'say "x"'])


@st.composite
def files(draw):
    """Levels of some type, their groups, and records of which some miss the key."""
    n_levels = draw(st.integers(2, 6))
    numbers = draw(st.booleans())
    levels = [k + 1 if numbers else "abcdef"[k] for k in range(n_levels)]
    groups = {}
    for level in levels:
        stays = draw(st.integers(0, 2)) == 0
        groups[level] = str(level) if stays else draw(NAMES)
    region = draw(st.lists(st.sampled_from([*levels, None]), min_size=12, max_size=40))
    region += [*levels, *levels]
    sex = draw(st.lists(st.sampled_from("mf"), min_size=len(region) - 2, max_size=len(region) - 2))
    return groups, pd.DataFrame({"region": region, "sex": ["m", "f", *sex]})


def recoded(frame: pd.DataFrame, groups: dict[object, str]) -> pd.DataFrame:
    return frame.assign(
        region=[None if pd.isna(one) else groups[one] for one in frame.region.astype(object)]
    )


@given(files(), st.sampled_from(["integrate", "level", "wildcard"]), st.booleans())
@settings(max_examples=20, deadline=None)
def test_a_key_in_groups_is_that_of_a_file_recoded_beforehand(tmp_path_factory, made, how, as_file):
    groups, frame = made
    expected = recoded(frame, groups)
    if len(set(expected.region.dropna())) < 2:
        return
    given_groups: object = groups
    if as_file:
        path = tmp_path_factory.mktemp("groups") / "region-groups.csv"
        rows = pd.DataFrame({"level": [*groups], "group": [*groups.values()]})
        rows.to_csv(path, sep=";", header=False, index=False)
        given_groups = f"file({path})"
    one = read(frame, ["region", "sex"], UNKNOWN, missing=how, groups={"region": given_groups})
    other = read(expected, ["region", "sex"], UNKNOWN, missing=how)
    assert one.keys == other.keys
    assert one.keys[0].by_hand == ("file(region-groups.csv)" if as_file else "groups")
    a, b = one.tabulate(), other.tabulate()
    assert a.fingerprint == b.fingerprint
    np.testing.assert_array_equal(a.record_cell, b.record_cell)
    # Whoever asks for the column gets the groups.
    written = one.values(["sex", "region"])["region"].to_pylist()
    assert written == [None if pd.isna(value) else value for value in expected.region]
    codes, names = one.codes("region")
    assert [None if code < 0 else names[code] for code in codes.tolist()] == written
    # A file that was written in groups is read as it is.
    again = read(expected, ["region", "sex"], UNKNOWN, missing=how, groups={"region": given_groups})
    assert again.tabulate().fingerprint == a.fingerprint


def test_the_fit_is_that_of_the_recoded_file(frame_of_regions, tmp_path: Path) -> None:
    frame, groups = frame_of_regions
    run = {"population_size": 50_000, "model": "loglinear", "seed": 3}
    path = tmp_path / "region-groups.csv"
    path.write_text("".join(f"{level};{group}\n" for level, group in groups.items()))
    told = [
        unikat.assess(frame, ["region", "sex", "age"], groups={"region": groups}, **run),
        unikat.assess(frame, ["region", "sex", "age"], groups=f"region: file({path})", **run),
        unikat.assess(recoded(frame, groups), ["region", "sex", "age"], **run),
    ]
    found = {(one.tau1.mean, one.tau1.upper, one.estimate.table.fingerprint) for one in told}
    assert len(found) == 1
    assert told[1].summary.keys[0].binning == "file(region-groups.csv)"


@pytest.mark.slow
def test_released_and_synthetic_files_have_the_groups(frame_of_regions) -> None:
    frame, groups = frame_of_regions
    whole, keys = recoded(frame, groups), ["region", "sex", "age"]
    run = {"population_size": 50_000, "model": "latent-class", "max_sweeps": 40}
    plan = {"recode": "age: width(20)", **run}
    one = unikat.protect(frame, keys, groups={"region": groups}, **plan)
    other = unikat.protect(whole, keys, **plan)
    pd.testing.assert_frame_equal(one.frame, other.frame)
    run.pop("population_size")
    first = unikat.synthesize(frame, keys, groups={"region": groups}, datasets=1, **run)
    second = unikat.synthesize(whole, keys, datasets=1, **run)
    pd.testing.assert_frame_equal(first.frames[0], second.frames[0])


@pytest.fixture
def frame_of_regions():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "region": rng.integers(1, 8, 300),
            "sex": rng.choice(["m", "f"], 300),
            "age": rng.integers(20, 70, 300),
        }
    )
    groups = {level: "north" if level < 4 else "south" if level < 6 else str(level)
              for level in range(1, 8)}  # fmt: skip
    return frame, groups


def test_a_labelled_number_has_the_lowest_code_and_the_name_as_label(tmp_path: Path) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    frame = pd.DataFrame({"region": [1.0, 2, 3, 3, 9, 2] * 4, "sex": ["m", "f", "m"] * 8})
    labels = {"region": {1: "North", 2: "East", 3: "South", 9: "refused"}}
    pyreadstat.write_sav(
        frame, tmp_path / "a.sav", variable_value_labels=labels, missing_ranges={"region": [9]}
    )
    (tmp_path / "g.csv").write_text("North;upper\nEast;upper\nSouth;South\n")
    run = {"groups": f"region: file({tmp_path / 'g.csv'})", "model": "latent-class", "seed": 1}
    made = read(tmp_path / "a.sav", "region,sex", UNKNOWN, groups={"region": tmp_path / "g.csv"})
    (key, _) = made.keys
    assert (key.levels, key.labels) == ((1, 3), ("upper", "South"))
    unikat.protect(
        tmp_path / "a.sav", "region,sex", population_size=900, recode="sex: left out",
        max_sweeps=20, out=tmp_path / "p", **run,
    )  # fmt: skip
    table, meta = pyreadstat.read_sav(tmp_path / "p" / "protected.sav", user_missing=True)
    assert table.region.tolist() == [1.0, 1, 3, 3, 9, 1] * 4
    assert meta.variable_value_labels["region"] == {1: "upper", 3: "South", 9: "refused"}
    unikat.synthesize(
        tmp_path / "a.sav", "region,sex", datasets=1, max_sweeps=20, out=tmp_path / "s", **run
    )
    table, meta = pyreadstat.read_sav(tmp_path / "s" / "synthetic_1.sav", user_missing=True)
    assert set(table.region) <= {1.0, 3.0, 9.0}
    assert meta.variable_value_labels["region"][1] == "upper"


@pytest.mark.parametrize(
    ("groups", "fragment"),
    [
        ({"region": {1: "north", 2: "north"}}, "5 of the 7 levels of the key are in no row"),
        ({"place": {1: "north"}}, "has no column 'place'"),
        ({"region": {**dict.fromkeys(range(1, 7), "7"), 7: "x"}}, "name of a level that is not in"),
        ({"region": dict.fromkeys(range(1, 8), "all")}, "same level in every row once it is group"),
        ({"region": dict.fromkeys(range(1, 8), "=1+1")}, "cannot be the name of a group"),
        ({"region": {}}, "holds no groups"),
        ({"region": {**dict.fromkeys(range(1, 7), "x"), 7: None}}, "a group has no name"),
        ({"region": {**dict.fromkeys(range(1, 7), "x"), 7: " "}}, "a group has no name"),
        ({"region": {**dict.fromkeys(range(1, 7), "x"), 7: "NA"}}, "since it means missing"),
        ({"region": {**dict.fromkeys(range(1, 7), "x"), 7: "-9"}}, "since it means missing"),
        ({"age": {20: "x"}}, "is grouped by width\\(5\\) and by"),
    ],
)
def test_groups_that_fit_no_key_are_refused(frame_of_regions, groups, fragment) -> None:
    frame, _ = frame_of_regions
    with pytest.raises((SpecError, DataError), match=fragment):
        read(frame, ["region", "sex", "age:width(5)"], UNKNOWN, groups=groups, missing_values=[-9])


@pytest.mark.parametrize("text", ["region", "region: north", "region: file(); ", "file(a.csv)"])
def test_a_text_that_names_no_file_is_refused(frame_of_regions, text) -> None:
    frame, _ = frame_of_regions
    with pytest.raises(SpecError, match=r"as in 'REGION: file\(region-groups\.csv\)'"):
        unikat.assess(frame, ["region", "sex"], population_size=900, groups=text)


def test_a_group_never_has_a_code_that_is_declared_missing_beside_others(tmp_path: Path) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    frame = pd.DataFrame({"age": [1.0, 2, 3, 4] * 40, "job": [-1.0, 5, 6, 7] * 40})
    path = tmp_path / "a.sav"
    labels = {"job": {-1: "not asked", 5: "baker", 6: "cook", 7: "smith"}}
    pyreadstat.write_sav(frame, path, variable_value_labels=labels, missing_ranges={"job": [-1.0]})
    groups = {
        "not asked": "none or food",
        "5": "none or food",
        "cook": "none or food",
        "7": "smith",
    }
    data = read(path, "age,job", UNKNOWN, groups={"job": groups})
    assert data.keys[1].levels == (5, 7)
    assert set(data.values(["job"])["job"].to_pylist()) == {5.0, 7.0}


def test_the_codebook_of_a_protected_file_describes_the_groups() -> None:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({name: rng.integers(1, 5, 80) for name in ("region", "sex", "age")})
    entry = {"levels": [1, 2, 3, 4], "labels": {str(code): f"r{code}" for code in range(1, 5)}}
    groups = {"region": {"r1": "upper", "2": "upper", "3": "r3", "r4": "4"}}
    made = unikat.protect(
        frame, "region,sex,age", population_size=900, recode="age: left out", groups=groups,
        codebook={"region": entry}, model="latent-class", max_sweeps=10,
    )  # fmt: skip
    again = read(made.frame, "region,sex", UNKNOWN, codebook=made.codebook)
    assert again.keys[0].labels == ("upper", "r3", "r4")
    assert not any("label for" in said for said in again.warnings)


def test_a_kind_that_the_groups_do_not_have_is_said() -> None:
    frame = pd.DataFrame({"job": ["11", "12", "21"] * 4, "sex": ["m", "f"] * 6})
    own, coarse = {"11": "a", "12": "a", "21": "b"}, {"11": "1", "12": "1", "21": "2"}
    for how in ({"levels": {"job": "isco08"}}, {"codebook": {"job": {"kind": "isco08"}}}):
        one = read(frame, "job,sex", UNKNOWN, groups={"job": own}, **how)
        assert one.keys[0].told == ""
        assert any("'isco08'" in said and "without it" in said for said in one.warnings)
        one = read(frame, "job,sex", UNKNOWN, groups={"job": coarse}, **how)
        assert (one.keys[0].told, one.warnings) == ("isco08", ())


def test_a_protected_file_is_verified_whose_groups_were_recoded_further() -> None:
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({"region": rng.integers(1, 6, 90), "sex": rng.integers(0, 2, 90)})
    groups = {1: "north", 2: "north", 3: "south", 4: "south", 5: "east"}
    run = {"population_size": 900, "model": "latent-class", "max_sweeps": 10}
    made = unikat.protect(
        frame, "region,sex", groups={"region": groups}, recode="region: join(north,south)", **run
    )
    told = [
        unikat.verify(first, made.frame, keys="region,sex", **how, **run)
        for first, how in (
            (frame, {"groups": {"region": groups}}),
            (recoded(frame, groups), {}),
        )
    ]
    assert told[0].summary.keys == told[1].summary.keys
    assert told[0].summary.keys[0].n_recoded > 0
