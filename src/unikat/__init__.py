"""Disclosure risk of categorical microdata.

The whole of an assessment::

    microdata = read(path, keys, Design(population_size=N))
    table = microdata.tabulate()
    draws = sample(HDP(), table, RiskMeasures.of(table), seed=1)
    estimate = assess(draws, table)
    write(estimate, folder)

The names below are loaded when first used, so that ``import unikat`` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unikat.data import CellTable, Design, Key, Microdata, read
    from unikat.errors import UnikatError
    from unikat.inference.chains import sample
    from unikat.models.empirical_bayes import ElamirSkinner, SkinnerHolmes
    from unikat.models.gom import GoM
    from unikat.models.hdp import HDP
    from unikat.models.individual_risk import IndividualRisk
    from unikat.models.latent_class import LatentClass
    from unikat.models.loglinear import LogLinear
    from unikat.models.mixed_effects import MixedEffects
    from unikat.models.population_count import PopulationCount
    from unikat.models.superpopulation import Superpopulation1, Superpopulation2
    from unikat.report.results import write
    from unikat.risk.compare import Candidate, ComparisonSettings, compare
    from unikat.risk.designs import Population
    from unikat.risk.estimate import RiskEstimate, assess
    from unikat.risk.evaluate import Study, evaluate
    from unikat.risk.exposure import views
    from unikat.risk.measures import RiskMeasures
    from unikat.zeros import Zeros
    from unikat.zeros.conflicts import apply_zeros

__version__ = "0.1.0"

__all__ = [
    "HDP",
    "Candidate",
    "CellTable",
    "ComparisonSettings",
    "Design",
    "ElamirSkinner",
    "GoM",
    "IndividualRisk",
    "Key",
    "LatentClass",
    "LogLinear",
    "Microdata",
    "MixedEffects",
    "Population",
    "PopulationCount",
    "RiskEstimate",
    "RiskMeasures",
    "SkinnerHolmes",
    "Study",
    "Superpopulation1",
    "Superpopulation2",
    "UnikatError",
    "Zeros",
    "__version__",
    "apply_zeros",
    "assess",
    "compare",
    "evaluate",
    "read",
    "sample",
    "views",
    "write",
]

_MODULES = {
    "GoM": "unikat.models.gom",
    "HDP": "unikat.models.hdp",
    "LatentClass": "unikat.models.latent_class",
    "LogLinear": "unikat.models.loglinear",
    "ElamirSkinner": "unikat.models.empirical_bayes",
    "SkinnerHolmes": "unikat.models.empirical_bayes",
    "MixedEffects": "unikat.models.mixed_effects",
    "IndividualRisk": "unikat.models.individual_risk",
    "PopulationCount": "unikat.models.population_count",
    "Superpopulation1": "unikat.models.superpopulation",
    "Superpopulation2": "unikat.models.superpopulation",
    "Candidate": "unikat.risk.compare",
    "CellTable": "unikat.data",
    "ComparisonSettings": "unikat.risk.compare",
    "Design": "unikat.data",
    "Key": "unikat.data",
    "Microdata": "unikat.data",
    "Population": "unikat.risk.designs",
    "RiskEstimate": "unikat.risk.estimate",
    "RiskMeasures": "unikat.risk.measures",
    "Study": "unikat.risk.evaluate",
    "UnikatError": "unikat.errors",
    "Zeros": "unikat.zeros",
    "apply_zeros": "unikat.zeros.conflicts",
    "assess": "unikat.risk.estimate",
    "compare": "unikat.risk.compare",
    "evaluate": "unikat.risk.evaluate",
    "read": "unikat.data",
    "sample": "unikat.inference.chains",
    "views": "unikat.risk.exposure",
    "write": "unikat.report.results",
}


def __getattr__(name: str) -> object:
    """Load a public name from the module that defines it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
