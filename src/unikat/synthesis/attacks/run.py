"""All attacks that need no model, averaged over the synthetic files, against a baseline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from unikat._typing import Float64
from unikat.synthesis.attacks.files import Files
from unikat.synthesis.attacks.model_free import (
    SEVERAL,
    Attack,
    Setting,
    Tried,
    disclosive,
    distances,
    inference,
    linkability,
    replicated_uniques,
    shuffled,
    singling_out,
)
from unikat.synthesis.attacks.rates import (
    Contributions,
    Rate,
    excess_of,
    nearer_of,
    of_other_records,
    of_same_records,
    rate_of,
)

EVEN = Rate(value=0.5, lower=0.5, upper=0.5)
"""A record of the original is as often nearer to the synthetic file as one of the control file."""

Baseline = Literal["control", "margins", "most frequent value", "even", "prior"]
"""What an intruder without the synthetic file has: success on records that the generator never saw;
a file that he makes from the margins; the most frequent value; half of the comparisons; what he
believed before."""


@dataclass(frozen=True, kw_only=True)
class AttackResult:
    """How well one attack succeeds, and how well it does without the synthetic file."""

    name: str
    """`replicated uniques`, `singling out by one key`, `singling out by several keys`,
    `linkability`, `attribute disclosure`, `inference`, `distance` or `one unknown record`."""
    target: str | None
    """What the intruder wants to learn; of `one unknown record` his prior."""
    n: float
    """Guesses of the intruder, mean over the synthetic files."""
    rate: Rate
    """Success at the original, mean over the synthetic files."""
    by_file: tuple[float, ...]
    """Success with each synthetic file."""
    compared: Rate
    """Success at the original at the size of the control file, where the size matters."""
    baseline: Rate
    kind: Baseline
    """What the baseline is."""
    excess: Rate | None
    """(compared - baseline) / (1 - baseline); None if the baseline always succeeds, or the intruder
    could not guess. Below 0 the attack succeeds no more often than the baseline."""

    @property
    def found(self) -> bool:
        """Whether the attack succeeds more often than chance explains."""
        return self.excess is not None and self.excess.lower > 0.0


def attack(
    files: Files,
    targets: Sequence[int],
    parts: tuple[Sequence[int], Sequence[int]],
    *,
    n_attacks: int,
    seed: int,
    level: float,
    n_threads: int = 1,
    stage: Callable[[str], None] = lambda _: None,
) -> tuple[AttackResult, ...]:
    """Try all attacks that need no model.

    Parameters
    ----------
    files
        The files; without records of a control file the baselines are those of an intruder who
        knows the margins.
    targets
        Columns that an intruder wants to learn, each from the other keys.
    parts
        Keys of the two sources that an intruder wants to link.
    n_attacks
        Records of each file that are attacked one by one, where that takes a search; drawn at
        random.
    seed, level
        Of the draws; of the intervals.
    n_threads
        Threads; the numbers do not depend on it.
    stage
        Is told which attack comes next.
    """
    draw, make = (
        np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(part,))) for part in (0, 1)
    )
    chosen = [
        np.sort(draw.choice(len(one), min(n_attacks, len(one)), replace=False))
        for one in (files.original, files.control)
    ]
    setting = Setting(files=files, original=chosen[0], control=chosen[1], n_threads=n_threads)
    own = [] if len(files.control) else [shuffled(files, len(one), make) for one in files.synthetic]
    attacks: list[tuple[str, int | None, Attack]] = [
        ("replicated uniques", None, replicated_uniques),
        ("singling out by one key", None, singling_out(1)),
        ("singling out by several keys", None, singling_out(SEVERAL)),
        ("linkability", None, linkability(*parts)),
    ]
    for name, attribute in (("attribute disclosure", disclosive), ("inference", inference)):
        attacks += [(name, target, attribute(target)) for target in targets]
    found = []
    for name, target, method in attacks:
        stage(f"Attacking: {name}")
        tried = [method(setting, one) for one in files.synthetic]
        result = partial(
            _result, setting, name, None if target is None else files.names[target], tried, level
        )
        if len(files.control):
            found.append(result([one.control for one in tried], tried, "control"))
        elif target is None:
            made = [method(setting, one) for one in own]
            found.append(result([one.own for one in made], made, "margins"))
        else:
            guesses = [one.guess for one in tried if one.guess is not None]
            found.append(result(guesses, tried, "most frequent value"))
    if len(files.control):
        stage("Attacking: distance")
        found.append(_nearer(setting, level))
    return tuple(found)


def _result(
    setting: Setting,
    name: str,
    target: str | None,
    tried: Sequence[Tried],
    level: float,
    baseline: Sequence[Float64],
    made: Sequence[Tried],
    kind: Baseline,
) -> AttackResult:
    """Average over the files; `made` is what the baseline is of."""

    def contributions(
        values: Sequence[Float64], of: Sequence[Tried], control: bool = False
    ) -> Contributions:
        mean: Float64 = np.mean(values, axis=0)
        guesses = float(sum(one.n for one in of)) if tried[0].of_guesses else None
        return Contributions(mean, setting.household(len(mean), control=control), guesses)

    own = contributions([one.own for one in tried], tried)
    same_size = contributions([one.same_size for one in tried], tried)
    other = contributions(baseline, made, control=kind == "control")
    # Other baselines are of the records that are attacked.
    compare = of_other_records if kind == "control" else of_same_records
    found = compare(same_size, other, level)
    return AttackResult(
        name=name,
        target=target,
        n=float(np.mean([one.n for one in tried])),
        rate=rate_of(own, level),
        by_file=tuple(float(one.own.mean()) for one in tried),
        compared=found.attack,
        baseline=found.baseline,
        kind=kind,
        excess=found.excess if any(one.n for one in tried) else None,
    )


def _nearer(setting: Setting, level: float) -> AttackResult:
    """Compare the distances of the original's and the control's records to the synthetic file."""
    found = [distances(setting, one) for one in setting.files.synthetic]
    ours, theirs = (np.array([one[side] for one in found]) for side in (0, 1))
    households = (
        setting.household(ours.shape[1]),
        setting.household(theirs.shape[1], control=True),
    )
    rate = nearer_of(ours, theirs, level, households)
    return AttackResult(
        name="distance",
        target=None,
        n=float(len(setting.original)),
        rate=rate,
        by_file=tuple(
            nearer_of(a[None], b[None], level).value for a, b in zip(ours, theirs, strict=True)
        ),
        compared=rate,
        baseline=EVEN,
        kind="even",
        excess=excess_of(rate, EVEN),
    )
