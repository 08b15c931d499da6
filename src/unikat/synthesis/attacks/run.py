"""All attacks that need no model, averaged over the synthetic files, against a baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from unikat._typing import Float64, Int32
from unikat.synthesis.attacks.files import Files
from unikat.synthesis.attacks.membership import (
    FALSE_ALARMS,
    TESTS,
    Scores,
    Test,
    detection,
    recognised,
)
from unikat.synthesis.attacks.model_free import (
    SEVERAL,
    Attack,
    Setting,
    Tried,
    disclosive,
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
from unikat.synthesis.attacks.whole_households import whole_households

_ROUNDING = 1e-9
"""An excess that is no larger is none."""
OF_HOUSEHOLDS = " of households"
"""What follows the name of an attack whose records are households."""
_Named = tuple[str, int | None, Attack]
"""An attack with its name and the column that it wants to learn."""
EVEN = Rate(value=0.5, lower=0.5, upper=0.5)
"""A record of the original is as often nearer to the synthetic file as one of the control file."""

Baseline = Literal["control", "margins", "most frequent value", "even", "false alarms", "prior"]
"""What an intruder without the synthetic file has: success on records that the generator never saw;
a file that he makes from the margins; the most frequent value; half of the comparisons; the share
of non-members whom he takes for members; what he believed before."""


@dataclass(frozen=True, kw_only=True)
class AttackResult:
    """How well one attack succeeds, and how well it does without the synthetic file."""

    name: str
    """`replicated uniques`, `singling out by one key`, `singling out by several keys`,
    `linkability`, `attribute disclosure`, `inference`, `distance`, `density ratio` or `one unknown
    record`; of whole households `replicated uniques of households`, and so on."""
    target: str | None
    """What the intruder wants to learn; of `one unknown record` his prior; of `distance` and
    `density ratio` the share of non-members that he takes for members, None for pairs."""
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
        return self.excess is not None and self.excess.lower > _ROUNDING


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
    tests: Mapping[str, Test] = {},
) -> tuple[AttackResult, ...]:
    """Try all attacks that need no model; on whole households too, if all files tell them.

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
    tests
        Further tests of membership of records, by name; they need a control file.
    """
    seeds = [np.random.SeedSequence(seed, spawn_key=(part,)) for part in (0, 1, 6)]
    make = np.random.default_rng(seeds[1])
    own = [] if len(files.control) else [shuffled(files, len(one), make) for one in files.synthetic]
    alone: list[_Named] = [
        ("replicated uniques", None, replicated_uniques),
        ("singling out by one key", None, singling_out(1)),
        ("singling out by several keys", None, singling_out(SEVERAL)),
        ("linkability", None, linkability(*parts)),
    ]
    for name, attribute in (("attribute disclosure", disclosive), ("inference", inference)):
        alone += [(name, target, attribute(target)) for target in targets]
    made = {name: test(seed) for name, test in TESTS.items()}
    setting = _setting(files, n_attacks, seeds[0], n_threads)
    found = _of_records(setting, own, alone, {**made, **tests}, level, stage)
    n_files = len(files.synthetic)
    # Of households of the synthetic file, with persons made of the margins.
    homes = whole_households(
        replace(
            files,
            synthetic=(*files.synthetic, *own),
            synthetic_household=files.synthetic_household * (2 if own else 1),
        )
    )
    if homes is not None:
        together: list[_Named] = [
            ("replicated uniques", None, replicated_uniques),
            ("linkability", None, linkability(*parts)),
        ]
        of_homes = replace(homes, synthetic=homes.synthetic[:n_files])
        found += [
            replace(result, name=f"{result.name}{OF_HOUSEHOLDS}")
            for result in _of_records(
                _setting(of_homes, n_attacks, seeds[2], n_threads),
                homes.synthetic[n_files:],
                together,
                made,
                level,
                stage,
            )
        ]
    return tuple(found)


def _setting(files: Files, n_attacks: int, seed: np.random.SeedSequence, n_threads: int) -> Setting:
    """Draw the records that are attacked one by one."""
    draw = np.random.default_rng(seed)
    chosen = [
        np.sort(draw.choice(len(one), min(n_attacks, len(one)), replace=False))
        for one in (files.original, files.control)
    ]
    return Setting(files=files, original=chosen[0], control=chosen[1], n_threads=n_threads)


def _of_records(
    setting: Setting,
    own: Sequence[Int32],
    attacks: Sequence[_Named],
    tests: Mapping[str, Test],
    level: float,
    stage: Callable[[str], None],
) -> list[AttackResult]:
    """Try attacks, and with a control file the tests of membership.

    Without one, `own` are the files of an intruder who knows the margins.
    """
    files, found = setting.files, []
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
    if len(files.control) > 1:
        for name, test in tests.items():
            stage(f"Attacking: {name}")
            found += _membership(
                setting, name, [test(setting, one) for one in files.synthetic], level
            )
    return found


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


def _membership(
    setting: Setting, name: str, scores: Sequence[Scores], level: float
) -> list[AttackResult]:
    """Tell records of the original from those of the control file by their scores.

    In pairs of one of each; and where a share of the control records is taken for members.
    """
    ours, theirs = (np.array([one[side] for one in scores]) for side in (0, 1))
    households = (
        setting.household(ours.shape[1]),
        setting.household(theirs.shape[1], control=True),
    )

    def result(
        target: str | None, rate: Rate, by_file: Sequence[float], kind: Baseline, chance: Rate
    ) -> AttackResult:
        return AttackResult(
            name=name,
            target=target,
            n=float(len(setting.original)),
            rate=rate,
            by_file=tuple(by_file),
            compared=rate,
            baseline=chance,
            kind=kind,
            excess=excess_of(rate, chance),
        )

    each = [(a[None], b[None]) for a, b in zip(ours, theirs, strict=True)]
    rate = nearer_of(ours, theirs, level, households)
    pairs = [nearer_of(*one, level).value for one in each]
    found = [result(None, rate, pairs, "even", EVEN)]
    for share in FALSE_ALARMS:
        told = detection(ours, theirs, share, level, households)
        if told is not None:
            taken = [
                float(recognised(a, b, share)[0].mean()) for a, b in zip(ours, theirs, strict=True)
            ]
            chance = Rate(value=share, lower=share, upper=share)
            found.append(result(f"{share:.0%} false alarms", told, taken, "false alarms", chance))
    return found
