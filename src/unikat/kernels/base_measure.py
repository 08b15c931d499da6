"""Base measures of the Dirichlet process of random effects phi, with Poisson counts.

The likelihood of an effect is e^(count phi - exposure e^phi). Two measures:

    normal   phi ~ N(mean, variance)
    gamma    e^phi ~ Gamma(1 / variance, 1 / variance), whose mean is 1
"""

from __future__ import annotations

import math
from typing import NamedTuple

from unikat.kernels.jit import device
from unikat.kernels.poisson_normal import draw_log_rate, log_rate_integral
from unikat.kernels.random import log_gamma_variate, normal


class Base(NamedTuple):
    """A base measure."""

    gamma: bool
    mean: float
    """Of phi; 0 and without a meaning under a gamma law."""
    variance: float
    """Of phi; of e^phi under a gamma law."""


@device
def draw_effect(generator, base):
    """Draw phi from the base measure."""
    if base.gamma:
        shape = 1.0 / base.variance
        return log_gamma_variate(generator, shape) - math.log(shape)
    return base.mean + math.sqrt(base.variance) * normal(generator)


@device
def draw_effect_given(generator, count, log_exposure, base):
    """Draw phi given a count and the logarithm of its exposure, exactly."""
    if base.gamma:
        shape = 1.0 / base.variance
        rate = math.log(shape + math.exp(log_exposure))
        return log_gamma_variate(generator, shape + count) - rate
    return draw_log_rate(generator, count, log_exposure, base.mean, base.variance)


@device
def log_effect_integral(count, log_exposure, base):
    """Log of the likelihood integrated over phi."""
    if base.gamma:
        shape = 1.0 / base.variance
        rate = math.log(shape + math.exp(log_exposure))
        total = shape * math.log(shape) - math.lgamma(shape)
        return total + math.lgamma(shape + count) - (shape + count) * rate
    return log_rate_integral(count, log_exposure, base.mean, base.variance)
