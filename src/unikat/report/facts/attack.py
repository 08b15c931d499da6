"""The content of `attack.json`: every number that its page shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from unikat.report.facts.classics import InferredResult
from unikat.report.facts.overview import Overview
from unikat.spec.provenance import Provenance
from unikat.synthesis.attacks.claims import Claims
from unikat.synthesis.attacks.linkage import LinkFacts
from unikat.synthesis.attacks.membership_model import BoundFacts
from unikat.synthesis.attacks.posterior import PosteriorFacts
from unikat.synthesis.attacks.run import AttackResult

SCHEMA = "unikat.attack/1"


@dataclass(frozen=True, kw_only=True)
class GeneratorFit:
    """The fit that made a synthetic file, as the folder of `unikat synthesize` tells."""

    model: str
    converged: bool
    stop_reason: str
    ties: str | None = None
    """See `synthesis.FitSummary`."""


@dataclass(frozen=True, kw_only=True)
class FileFacts:
    """A file of the attack."""

    name: str
    """Without its folder."""
    n_records: int
    fit: GeneratorFit | None = None
    """Of a synthetic file; None if it is not known."""


@dataclass(frozen=True, kw_only=True)
class AttackSummary(Overview):
    """The content of `attack.json`."""

    schema: str
    original: FileFacts
    synthetic: tuple[FileFacts, ...]
    control: FileFacts | None
    """Records that the generator never saw; None if there are none."""
    keys: tuple[str, ...]
    targets: tuple[str, ...]
    """What an intruder wants to learn."""
    link: tuple[tuple[str, ...], tuple[str, ...]]
    """Keys of the two sources that an intruder wants to link."""
    n_attacked: int
    """Records of the original that were attacked one by one."""
    seed: int
    level: float
    attacks: tuple[AttackResult, ...]
    claims: Claims | None
    """τ of the synthetic files; None without them."""
    posterior: PosteriorFacts | None
    """The intruder who knows all persons but one; None if no model of the generator is named."""
    household_posterior: PosteriorFacts | None
    """The intruder who knows all households but one; None if the model is none of households."""
    membership_bound: BoundFacts | None
    """What no test of membership can exceed; None if no model of persons is named."""
    inferred: dict[str, InferredResult] = field(default_factory=dict)
    """What an intruder learns of each target that is no key, from the original and from all
    synthetic files; empty where the size of the population is not known."""
    converged: bool
    """Whether all fits converged."""
    sentences: dict[str, str]
    provenance: Provenance
    external: FileFacts | None = None
    """The file that the original was linked with; None if synthetic files were attacked."""
    linkage: LinkFacts | None = None
    """What the engine found."""

    def overview(self) -> list[dict[str, Any]]:
        """Success of each attack and its excess, or the links of a linkage."""
        if self.linkage is not None:
            return [
                {"probability": one.probability, "links": one.n_links, "correct": one.n_correct}
                for one in self.linkage.accepted
            ]
        return [
            {
                "attack": one.name,
                "target": one.target,
                "success": one.rate.value,
                "without_the_file": one.baseline.value,
                "excess": None if one.excess is None else one.excess.value,
                "excess_lower": None if one.excess is None else one.excess.lower,
                "excess_upper": None if one.excess is None else one.excess.upper,
            }
            for one in self.attacks
        ]
