"""No test of this folder may reach a network."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _offline(no_network: None) -> None:
    """Refuse the network."""
