"""What made a result: versions, machine, time and data."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from typing import Self

from unikat._version import __version__


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What ran: versions, kind of machine, when, and on which data."""

    unikat: str
    python: str
    numpy: str
    numba: str
    platform: str
    started: str
    """Time at which the run began, ISO 8601 in UTC."""
    seed: int
    data_fingerprint: str
    """SHA-256 of keys, patterns, counts, population size and possible cells
    (`CellTable.fingerprint`)."""
    queries: tuple[str, ...] = ()
    """What ran on the server of a database; empty for files, frames and older results."""

    @classmethod
    def now(
        cls,
        *,
        seed: int,
        data_fingerprint: str,
        started: datetime | None = None,
        queries: tuple[str, ...] = (),
    ) -> Self:
        """Record this machine and the moment; `started` defaults to now."""
        moment = datetime.now(UTC) if started is None else started
        return cls(
            unikat=__version__,
            python=platform.python_version(),
            numpy=metadata.version("numpy"),
            numba=metadata.version("numba"),
            platform=f"{sys.platform}-{platform.machine()}",
            started=moment.astimezone(UTC).isoformat(timespec="seconds"),
            seed=seed,
            data_fingerprint=data_fingerprint,
            queries=queries,
        )
