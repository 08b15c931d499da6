"""What a release shows and what its risk is, by loops over a file that is the population."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from protection.test_most_matches import counted
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.protection import release as release_module
from unikat.protection.recoding import parse_recoding
from unikat.protection.release import Releases
from unikat.protection.search import Plan, Value
from unikat.protection.subsample import Shares
from unikat.protection.what_if import Posterior
from unikat.spec.perturbation import SwapRule

LEVELS = (3, 3, 40)


def released(
    seed: int, *, share: float = 1.0, swap: str = "", n: int = 60
) -> tuple[Any, Releases, Plan]:
    """A file of which some records were not assessed, as they broke a rule."""
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, k, n) for k in LEVELS], axis=1).astype(np.int32)
    # No value that the records left out alone have.
    codes[5::7] = codes[:1]
    assessed = np.delete(np.arange(n), np.arange(5, n, 7))
    keys = [Key.of_size(name, k) for name, k in zip("ABC", LEVELS, strict=True)]
    table = CellTable.from_codes(codes[assessed], keys, population_size=len(assessed))
    shares = Shares.of([share], n, seed=seed) if share < 1.0 else None
    recoding = parse_recoding(table, {})
    if shares is not None:
        recoding = replace(recoding, held=shares.assessed(assessed).held[0])
    releases = Releases(
        posterior=Posterior.without_model(table),
        codes=codes,
        assessed=assessed,
        weights=[1.0] * 3,
        level=0.95,
        shares=shares,
        swap=SwapRule.of(swap) if swap else None,
        swap_match=("B",),
        seed=seed,
    )
    return codes, releases, Plan(recoding=recoding, lost=0.0, value=Value(0, 0))


@pytest.mark.parametrize("seed", range(4))
def test_k_of_a_perturbed_file_counts_what_is_written(seed: int) -> None:
    """A limit between whole numbers is the next one; what stays visible is what was perturbed."""
    _, releases, plan = released(seed)
    found = releases.of(plan, {"A": 0.2, "B": 0.3}, "k >= 2.5")
    assert found.suppressed is not None
    assert found.perturbed is not None
    written = found.perturbed.codes
    assert (written != found.recoded).any()
    shown = found.visible
    np.testing.assert_array_equal(shown[shown >= 0], written[shown >= 0])
    for row in shown:
        assert sum(all((row < 0) | (row == other)) for other in written) >= 3
    assert (shown >= 0).any()


@pytest.mark.parametrize("share", [1.0, 0.7])
def test_the_risk_of_a_release_is_that_of_its_records(share: float) -> None:
    """PRAM and swapping together, values hidden, records that are held back or not assessed."""
    of_swapped, of_pram = 0, 0
    for seed in range(12):
        codes, releases, plan = released(seed, share=share, swap="A: r1 > 0.5")
        pram: Any = {"B": (0.1, 0.97)[seed % 2]}
        found = releases.of(plan, pram, "k >= 2" if seed % 3 else None)
        assert found.share == share
        assert len(found.records) == round(share * len(codes))
        true = codes[releases.assessed]
        rows = np.array([list(releases.assessed).index(r) for r in found.records[found.rows]])
        np.testing.assert_array_equal(found.of_table, rows)
        np.testing.assert_array_equal(found.recoded, codes[found.records])
        shown, written = found.visible[found.rows], found.published[found.rows]
        each = {
            one: counted(true, rows, shown, written, one)
            for one in ((), ("A",), ("B",), ("A", "B"))
        }
        matches = releases.matches(found)
        assert matches.tau1.mean == max(one[0] for one in each.values())
        assert matches.tau2.mean == pytest.approx(max(one[1] for one in each.values()))
        assert matches.n_uniques == each[()][2]
        best = max(one[1] for one in each.values())
        of_swapped += best > max(each[one][1] for one in ((), ("B",)))
        of_pram += best > max(each[one][1] for one in ((), ("A",)))
    # Who leaves out the swapped key, or that of PRAM, has most in some.
    assert of_swapped > 0
    assert of_pram > 0


def test_records_are_swapped_by_their_own_risk(monkeypatch: pytest.MonkeyPatch) -> None:
    targets = {}
    perturb = release_module.perturb

    def watched(*args: Any, **how: Any) -> Any:
        targets["of"] = how["targets"]
        return perturb(*args, **how)

    monkeypatch.setattr(release_module, "perturb", watched)
    codes, releases, plan = released(3, share=0.7, swap="A: r1 > 0.5")
    found = releases.of(plan, {}, None)
    true = codes[releases.assessed]
    for place, record in enumerate(found.records):
        alone = (true == codes[record]).all(axis=1).sum() == 1
        expected = alone and record in releases.assessed
        assert (targets["of"][place] > 0.0) == expected, record
    assert 0 < (targets["of"] > 0.0).sum() < len(found.records)
