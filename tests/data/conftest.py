"""A small frame of every allowed type, and the folder of the real data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture
def shared_data() -> Path:
    """Folder of the real data."""
    if not SHARED.is_dir():
        pytest.skip(f"the real data are not there ({SHARED})")
    return SHARED


@pytest.fixture
def frame() -> pd.DataFrame:
    """300 records: text, integers, floats, categories, booleans; some missing."""
    rng = np.random.default_rng(11)
    n = 300
    frame = pd.DataFrame(
        {
            "REGION": rng.choice(["01", "02", "10", "x y"], n),
            "SEX": rng.integers(1, 3, n).astype(np.int8),
            "AGE": rng.integers(0, 90, n),
            "STATUS": pd.Categorical(
                rng.choice(["low", "middle", "high"], n), ["low", "middle", "high", "never"]
            ),
            "WORKS": rng.random(n) < 0.4,
            "INCOME": np.round(rng.gamma(2.0, 1000.0, n) - 500, 2),
        }
    )
    frame.loc[[4, 17, 30], "REGION"] = None
    frame["CHILDREN"] = rng.integers(0, 5, n).astype(float)
    frame.loc[frame.index % 10 == 3, "CHILDREN"] = np.nan
    return frame
