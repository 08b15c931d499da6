"""`auto`: the options of a model selection. It is no model itself.

`studies.auto` fits the candidate models, selects one by its held-out log score, and puts a
`Calibrated` model in the place of `Auto`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from unikat.errors import SpecError, shown
from unikat.models.base import AnyModel, Specified, Uncertainty
from unikat.models.catalogue import MODELS, build
from unikat.models.options import check_bool, check_numbers
from unikat.spec.model import ModelSpec
from unikat.spec.models import models_with

CHOOSABLE, CANDIDATES = models_with(selectable=True), models_with(candidate=True)


def choosable(model: AnyModel) -> bool:
    """Whether `auto` may select a model: its error is known."""
    return model.name in CHOOSABLE


@dataclass(frozen=True, kw_only=True)
class Auto(Specified):
    """Several candidate models: the one that predicts best is selected and fitted with its error.

    Parameters
    ----------
    candidates
        Models as the command line names them. Those of `CHOOSABLE` can be selected; the others are
        shown for comparison.
    evidence_seconds
        Work spent on the evidence, in seconds of a usual processor: counted, not timed, so that
        the choice does not depend on the machine; from 0.001 to 604,800, a week.
    held_out
        Share of the records that are held out and predicted, from 0.01 to 0.99.
    calibrate
        Include the error of the selected model in the estimates; without it the model is only
        selected.

    Examples
    --------
    >>> import unikat
    >>> unikat.Auto(candidates="latent-class,loglinear", evidence_seconds=10).candidates
    ('latent-class', 'loglinear')
    """

    name: ClassVar[str] = "auto"
    candidates: tuple[str, ...] = CANDIDATES
    evidence_seconds: float = 60.0
    held_out: float = 0.5
    calibrate: bool = True

    def __post_init__(self) -> None:
        """Check the options."""
        texts: Any = self.candidates
        if isinstance(texts, str):
            texts = texts.split(",")
        if not isinstance(texts, (list, tuple)) or not all(
            isinstance(text, str) and text.strip() for text in texts
        ):
            raise SpecError(
                f"model option candidates is {shown(self.candidates)}; it must be a list of "
                'models, such as ["latent-class", "hdp"].'
            )
        object.__setattr__(self, "candidates", tuple(text.strip() for text in texts))
        check_numbers(self, {"evidence_seconds": (0.001, 604_800.0), "held_out": (0.01, 0.99)})
        check_bool(self, "calibrate")
        # Refuses candidates that do not exist before any file is read.
        if not any(model.name in CHOOSABLE for model in self.models().values()):
            raise SpecError(
                "model option candidates names no model that could be chosen: it must be known how "
                f"wrong it tends to be. Add one of {', '.join(CHOOSABLE)}."
            )

    @property
    def uncertainty(self) -> Uncertainty:
        """What the draws of the model in its place are draws of."""
        return "calibrated" if self.calibrate else "posterior"

    def models(self) -> dict[str, Any]:
        """The candidates by the names they were given."""
        found: dict[str, Any] = {}
        for text in self.candidates:
            named = ModelSpec.of(text)
            if named.name == self.name:
                raise SpecError("model option candidates names auto itself; leave it out.")
            found[text] = build(named.name, named.options, MODELS)
        return found

    def check_keys(self, names: Sequence[str]) -> None:
        """Let the candidates refuse keys (SpecError)."""
        for model in self.models().values():
            model.check_keys(names)

    def compile(self, zeros: bool = False) -> None:
        """Compile the kernels of the candidates (or load them from the cache)."""
        for model in self.models().values():
            model.compile(zeros)
