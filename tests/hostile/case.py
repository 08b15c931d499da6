"""What a case of the fuzzer is, and the file that all cases spoil.

Records hold secrets: levels `zqx0v`, `zqx1v`, ..., and incomes of seven digits that begin with
9173. None of them may be seen outside the results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

KEYS = "AGE,SEX,WORK,AREA"
HEADER = "AGE,SEX,WORK,AREA,INCOME,W,HOME"
SHORT = ["--chains", "2", "--workers", "1", "--max-sweeps", "16", "--quiet"]


@dataclass
class Case:
    """A command in a folder that holds its inputs."""

    kind: str
    arguments: list[str]
    outputs: list[str]
    """Where it may write: nothing else may change, and these only where it does not fail."""
    environment: dict[str, str] = field(default_factory=dict)
    shows_values: bool = False
    """Whether showing levels is what the command is for, once it succeeds."""
    subprocess: bool = False
    call: Callable[[], int] | None = None
    """What to do in place of the command; `arguments` then say it in words."""


def people(n: int = 120) -> str:
    """Text of a file of people, always the same."""
    rng = Random(5)
    lines = [HEADER]
    for i in range(n):
        work = rng.choice(("office", "farm", "mine", "school"))
        lines.append(
            f"{rng.randrange(20, 60)},{rng.randint(1, 2)},{work},zqx{int(rng.expovariate(0.6))}v,"
            f"{9173000 + i},{rng.choice((20, 25, 30))},{i // 3}"
        )
    return "\n".join(lines) + "\n"
