"""Counter-based random numbers: Philox4x32-10 and the samplers built on it.

Salmon, Moraes, Dror & Shaw (2011), "Parallel random numbers: as easy as 1, 2, 3". A draw is a
pure function of key = (seed, chain) and counter = (block, unit, sweep, purpose), so numbers do not
depend on threads, workers or the order of work.

A *generator* here is a uint32 array of length 12: [0:4] counter, [4:6] key, [6:10] the current
block of output, [10] the next position in it. `seek` points it at a unit; a kernel allocates one
generator and seeks it for every unit.
"""

from __future__ import annotations

import math

import numpy as np

from unikat.kernels.jit import device, leaf

GENERATOR_SIZE = 12

# Purposes keep the streams of different steps of one sweep apart.
PURPOSE_ASSIGN = 0
PURPOSE_TABLES = 1
PURPOSE_WEIGHTS = 2
PURPOSE_PROFILES = 3
PURPOSE_CONCENTRATION = 4
PURPOSE_POPULATION = 5
PURPOSE_IMPUTE = 6
PURPOSE_MEMBERSHIP = 7
PURPOSE_MOVES = 8
PURPOSE_SPLIT = 9
PURPOSE_SIMULATE = 10
PURPOSE_LEARN = 11
PURPOSE_ALLOCATE = 12
PURPOSE_IMPOSSIBLE = 13
PURPOSE_COMPLETE = 14
PURPOSE_MASS = 15
PURPOSE_MIXED = 16
PURPOSE_RIDGE = 17
PURPOSE_NUMBER = 18
PURPOSE_RATE = 19
PURPOSE_EFFECTS = 20
PURPOSE_CLUSTERS = 21
PURPOSE_VALUES = 22
PURPOSE_LANGEVIN = 23
PURPOSE_COEFFICIENTS = 24
PURPOSE_RECENTRE = 25
PURPOSE_RESCALE = 26
PURPOSE_BASE = 27
PURPOSE_COUNTS = 28
PURPOSE_PARTITION = 29
PURPOSE_CALIBRATE = 30
PURPOSE_RATES = 31
PURPOSE_MEMBERS = 32
PURPOSE_HOUSEHOLDS = 33
PURPOSE_HOUSEHOLD_MASS = 34
PURPOSE_HOUSEHOLD_SPLIT = 35
PURPOSE_ROLES = 36
PURPOSE_NEIGHBOURS = 37
PURPOSE_ORDER = 38
PURPOSE_THIN = 39
PURPOSE_SEATS = 40
PURPOSE_TIES = 41

_M0 = np.uint64(0xD2511F53)
_M1 = np.uint64(0xCD9E8D57)
_W0 = np.uint64(0x9E3779B9)
_W1 = np.uint64(0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_INV32 = 1.0 / 4294967296.0
_INV53 = 1.0 / 9007199254740992.0


@device
def philox(c0, c1, c2, c3, k0, k1):
    """Ten rounds of Philox4x32; all arguments and the four results are 32-bit values in uint64."""
    for _ in range(10):
        p0 = _M0 * c0
        p1 = _M1 * c2
        c0 = (p1 >> _SHIFT) ^ c1 ^ k0
        c2 = (p0 >> _SHIFT) ^ c3 ^ k1
        c1 = p1 & _LOW
        c3 = p0 & _LOW
        k0 = (k0 + _W0) & _LOW
        k1 = (k1 + _W1) & _LOW
    return c0, c1, c2, c3


@device
def seek(generator, key, unit, sweep, purpose):
    """Point `generator` at the first number of (unit, sweep, purpose) under `key` (2 × uint32)."""
    generator[0] = 0
    generator[1] = unit
    generator[2] = sweep
    generator[3] = purpose
    generator[4] = key[0]
    generator[5] = key[1]
    generator[10] = 4


@device
def next_bits(generator):
    """Next 32 random bits, as uint64."""
    position = generator[10]
    if position == 4:
        a, b, c, d = philox(
            np.uint64(generator[0]),
            np.uint64(generator[1]),
            np.uint64(generator[2]),
            np.uint64(generator[3]),
            np.uint64(generator[4]),
            np.uint64(generator[5]),
        )
        generator[6] = a
        generator[7] = b
        generator[8] = c
        generator[9] = d
        generator[0] += 1
        position = 0
    generator[10] = position + 1
    return np.uint64(generator[6 + position])


@device
def uniform(generator):
    """Uniform on the open interval (0, 1), 53 bits."""
    high = next_bits(generator) >> np.uint64(5)
    low = next_bits(generator) >> np.uint64(6)
    return (float(high) * 67108864.0 + float(low) + 0.5) * _INV53


@leaf
def locate(mass, mark):
    """Index at `mark` in the running sum of `mass`, (n,)."""
    chosen = 0
    for k in range(mass.shape[0]):
        if mass[k] > 0.0:
            # The last one with mass stands in where rounding runs past the end.
            chosen = k
            mark -= mass[k]
            if mark < 0.0:
                break
    return chosen


@device
def draw_one(generator, mass, total):
    """Draw an index in proportion to `mass`, whose sum is `total`."""
    return locate(mass, uniform(generator) * total)


@device
def exponential(generator):
    """Exponential with mean 1."""
    return -math.log(uniform(generator))


@device
def normal(generator):
    """Standard normal (Box-Muller; one of the pair is thrown away to keep the state small)."""
    radius = math.sqrt(-2.0 * math.log(uniform(generator)))
    return radius * math.cos(2.0 * math.pi * uniform(generator))


@device
def gamma(generator, shape):
    """Gamma(shape, 1) for shape >= 1 (Marsaglia & Tsang 2000); NaN for NaN."""
    if not shape < math.inf:
        # No draw would ever be accepted.
        return shape
    if shape == 1.0:
        return exponential(generator)
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(generator)
        v = 1.0 + c * x
        if v > 0.0:
            v = v * v * v
            if math.log(uniform(generator)) < 0.5 * x * x + d - d * v + d * math.log(v):
                return d * v


@device
def small_gamma(generator, shape):
    """Gamma(shape, 1) for shape < 1 (Best 1983, algorithm RGS); a tiny draw underflows to 0."""
    t = 0.07 + 0.75 * math.sqrt(1.0 - shape)
    b = 1.0 + math.exp(-t) * shape / t
    while True:
        v = b * uniform(generator)
        u = uniform(generator)
        if v <= 1.0:
            x = t * v ** (1.0 / shape)
            if u * (2.0 + x) <= 2.0 - x or u <= math.exp(-x):
                return x
        else:
            x = -math.log(t * (b - v) / shape)
            y = x / t
            if u * (shape + y * (1.0 - shape)) <= 1.0 or u <= y ** (shape - 1.0):
                return x


@device
def log_gamma_variate(generator, shape):
    """Logarithm of a Gamma(shape, 1) draw; exact for tiny shapes, whose draws underflow."""
    if shape >= 1.0:
        return math.log(gamma(generator, shape))
    return math.log(gamma(generator, shape + 1.0)) + math.log(uniform(generator)) / shape


@device
def log_beta_variate(generator, a, b):
    """Logarithm of a Beta(a, b) draw."""
    x = log_gamma_variate(generator, a)
    y = log_gamma_variate(generator, b)
    high = max(x, y)
    return x - high - math.log(math.exp(x - high) + math.exp(y - high))


@device
def log_factorial_ratio(a, b):
    """log(a! / b!), without cancellation when both are huge."""
    if min(a, b) < 1e6:
        return math.lgamma(a + 1.0) - math.lgamma(b + 1.0)
    step = a - b
    stirling = (a + 0.5) * math.log1p(step / b) + step * (math.log(b) - 1.0)
    return stirling + (1.0 / a - 1.0 / b) / 12.0


@device
def binomial(generator, trials, p):
    """Binomial(trials, p), `trials` as float64 up to 2**53, returned as float64.

    Inversion below a mean of 10, else BTRS (Hörmann 1993, transformed rejection). NaN for NaN.
    """
    if trials <= 0.0 or p <= 0.0:
        return 0.0
    if math.isnan(trials * p):
        # No draw would ever be accepted.
        return math.nan
    if p >= 1.0:
        return trials
    flipped = p > 0.5
    if flipped:
        p = 1.0 - p
    mean = trials * p
    if mean < 10.0:
        # P(0) through log1p: single-step products would lose everything for huge trials.
        term = math.exp(trials * math.log1p(-p))
        odds = p / (1.0 - p)
        u = uniform(generator)
        x = 0.0
        while u > term:
            u -= term
            x += 1.0
            if x > trials:
                # Rounding left a sliver beyond the support: draw again.
                x = 0.0
                term = math.exp(trials * math.log1p(-p))
                u = uniform(generator)
                continue
            term *= odds * (trials - x + 1.0) / x
            if term < 1e-300 and x > mean:
                break
    else:
        deviation = math.sqrt(mean * (1.0 - p))
        b = 1.15 + 2.53 * deviation
        a = -0.0873 + 0.0248 * b + 0.01 * p
        c = mean + 0.5
        vr = 0.92 - 4.2 / b
        alpha = (2.83 + 5.1 / b) * deviation
        log_odds = math.log(p / (1.0 - p))
        mode = math.floor((trials + 1.0) * p)
        while True:
            u = uniform(generator) - 0.5
            v = uniform(generator)
            us = 0.5 - abs(u)
            x = math.floor((2.0 * a / us + b) * u + c)
            if us >= 0.07 and v <= vr:
                break
            if x < 0.0 or x > trials:
                continue
            v = math.log(v * alpha / (a / (us * us) + b))
            bound = log_factorial_ratio(mode, x) + (x - mode) * log_odds
            bound += log_factorial_ratio(trials - mode, trials - x)
            if v <= bound:
                break
    return trials - x if flipped else x


@device
def poisson_variate(generator, mean):
    """Poisson(mean) as float64: inversion below 10, else PTRS (Hörmann 1993).

    From a mean of 1e12 on, where the draw deviates by a millionth and the acceptance loses its
    digits, it is the mean; NaN for NaN.
    """
    if not mean < 1e12:
        return mean
    if mean < 10.0:
        term = math.exp(-mean)
        u = uniform(generator)
        x = 0.0
        while u > term and x < 200.0:
            u -= term
            x += 1.0
            term *= mean / x
        return x
    b = 0.931 + 2.53 * math.sqrt(mean)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    vr = 0.9277 - 3.6224 / (b - 2.0)
    while True:
        u = uniform(generator) - 0.5
        v = uniform(generator)
        us = 0.5 - abs(u)
        x = math.floor((2.0 * a / us + b) * u + mean + 0.43)
        if us >= 0.07 and v <= vr:
            return x
        if x < 0.0 or (us < 0.013 and v > us):
            continue
        v = math.log(v * inverse_alpha / (a / (us * us) + b))
        # log(mean^x / x!) by way of the mode, which keeps its digits for a large mean.
        mode = math.floor(mean)
        bound = log_factorial_ratio(mode, x) + (x - mode) * math.log(mean)
        if v <= bound + (mode * math.log(mean) - mean - math.lgamma(mode + 1.0)):
            return x
