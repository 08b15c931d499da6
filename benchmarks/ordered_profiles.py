"""Latent classes whose profiles are smooth over ordered levels, beside those of Dirichlet profiles.

    python benchmarks/ordered_profiles.py FOLDER

One sampler with two priors: of a class's profile of key j, and of the base measure of all classes.

    Dirichlet: as in `models.mixtures.profiles`, concentration and base measure learned
    ordered:   a Pólya tree. The levels are halved again and again; at node v of depth d a class
               goes left with probability Beta(eta_d s_v, eta_d (1 - s_v)), and
               s_v ~ Beta(kappa_d u_v, kappa_d (1 - u_v)), u_v the share of the node's levels on the
               left. Profiles are smooth where eta_d and kappa_d are large at deep nodes. Both are
               learned for each key and depth, uniformly over the logarithm

The sampler draws the records' classes given profiles and weights, then proposes splits and merges
of classes (Dahl 2005) with both integrated out; concentrations are drawn given tables, as in
`kernels.profiles`. Keys have the levels of the population, age and schooling in their order; other
keys have Dirichlet profiles under both priors. Printed: error of tau1 and tau2 by the model alone
and with the overdispersion k and shift d that make the population counts of the sample uniques
likely in the other surveys (`calibration.py`); and log scores.
"""

from __future__ import annotations

import argparse
import math
import time
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pandas as pd
from calibration import STUDIED
from common import data_file, machine, print_table
from learning import LAST, answers, of_truth

ACS = {"AGEP": None, "AGE5": None, "SCHL": None}
ADULT = [13, 3, 4, 5, 6, 0, 1, 2, 11, 15, 8, 7, 9, 12, 14, 10]
"""From preschool to doctorate."""
ARGENTINA = [7, 1, 2, 3, 4, 5, 6]
NEW_YORK = ["<15", "15", "16", "17", "[18,24]", "[25,35]", "[36,50]", "[51,70]", ">70"]
NORTHEAST, WEST = "acs2024_persons_northeast", "acs2024_persons_west"
ORDERED: dict[str, tuple[str, str, dict[str, list[Any] | None]]] = {
    "acs-northeast-6": (NORTHEAST, STUDIED["acs-adults-ne"][0], ACS),
    "acs-northeast-10": (NORTHEAST, STUDIED["acs-adults-ne"][1], ACS),
    "acs-west-6": (WEST, STUDIED["acs-adults-w"][0], ACS),
    "acs-west-10": (WEST, STUDIED["acs-adults-w"][1], ACS),
    "eph": ("eph_argentina_4_quarters", STUDIED["eph"][0], {"CH06": None, "NIVEL_ED": ARGENTINA}),
    "adult": ("adult_48842", STUDIED["adult"][0], {"age": None, "education": ADULT}),
    "ny": ("nyexample_X", "", {"AGE": NEW_YORK, "EDUC": [str(level) for level in range(12)]}),
}
"""File, keys (none named: all columns), and the ordered keys with their levels in order (None: as
they sort); a missing value is a level and the first."""
SIZES = (300, 1000, 3000)
PRIORS = ("Dirichlet", "ordered")
GRID = np.exp(np.linspace(math.log(0.05), math.log(5000.0), 36))
"""Values of eta_d and kappa_d."""
CLASSES, SWEEPS, WARM_UP, EVERY, MOVES = 60, 1600, 600, 8, 4
STARTS = (10, 30)
"""Classes that each chain starts with."""
HELD_OUT = 3000
compiled = numba.njit(cache=True)


class Keys(NamedTuple):
    """The keys' levels as rows, and the nodes of the ordered ones; a parent precedes its parts."""

    offsets: np.ndarray
    """(n_keys + 1,): first row of each key."""
    ordered: np.ndarray
    """(n_keys,)"""
    node: np.ndarray
    """(n_nodes, 6): first row, first row on the right, row after the last, node on the left and on
    the right (-1: a single level), parent (-1: none)."""
    group: np.ndarray
    """(n_nodes,): key and depth."""
    path: np.ndarray
    """(n_rows + 1,): first step of each row in `step`."""
    step: np.ndarray
    """(n_steps, 2): node and side (0 left) on the way to each row."""


class Sample(NamedTuple):
    """A sample as the chain reads it."""

    rows: np.ndarray
    """(n_cells, n_keys): row of each key's level."""
    cell: np.ndarray
    """(n,): cell of each record, ascending."""
    starts: np.ndarray
    """(n_cells + 1,): first record of each cell."""
    unique: np.ndarray
    """Cells with one record."""
    held_out: np.ndarray
    """(n_held_out, n_keys): rows of records that are not in the sample."""


class Prior(NamedTuple):
    """What is learned of the profiles' prior; the arrays are changed in place."""

    profile: np.ndarray
    """(n_rows,): Dirichlet parameters."""
    concentration: np.ndarray
    """(n_keys,): their sums."""
    eta: np.ndarray
    kappa: np.ndarray
    """(n_groups,) each."""
    split: np.ndarray
    """(n_nodes,): s."""


@compiled
def log_gamma(shape):
    """Draw the logarithm of a gamma variate."""
    if shape >= 1.0:
        return math.log(max(np.random.gamma(shape), 1e-300))
    below = math.log(max(np.random.random(), 1e-300)) / shape
    return math.log(max(np.random.gamma(shape + 1.0), 1e-300)) + below


@compiled
def log_beta(a, b):
    """Draw the logarithms of a beta variate and of one minus it."""
    x, y = log_gamma(a), log_gamma(b)
    most = max(x, y)
    total = most + math.log(math.exp(x - most) + math.exp(y - most))
    return x - total, y - total


@compiled
def opened(mass, size):
    """Draw how many tables `size` tokens open under concentration `mass`."""
    tables = 1
    for l in range(1, size):
        if np.random.random() * (mass + l) < mass:
            tables += 1
    return tables


@compiled
def pick(logs):
    """Draw an index with probability proportional to exp(logs)."""
    p = np.exp(logs - logs.max())
    rest = np.random.random() * p.sum()
    for i in range(p.shape[0]):
        rest -= p[i]
        if rest <= 0.0:
            return i
    return p.shape[0] - 1


@compiled
def allocate(rows, starts, theta, weights, z):
    """Draw the class of every record; those of cell c are starts[c] to starts[c + 1]."""
    n_classes = weights.shape[0]
    cumulated = np.empty(n_classes)
    for c in range(rows.shape[0]):
        total = 0.0
        for k in range(n_classes):
            p = weights[k]
            for j in range(rows.shape[1]):
                p *= theta[rows[c, j], k]
            total += p
            cumulated[k] = total
        for i in range(starts[c], starts[c + 1]):
            z[i] = np.searchsorted(cumulated, np.random.random() * total, side="right")


@compiled
def join(row, keys, counts, sides):
    """Add a record to a class's counts."""
    for r in row:
        counts[r] += 1
        for q in range(keys.path[r], keys.path[r + 1]):
            sides[keys.step[q, 0], keys.step[q, 1]] += 1


@compiled
def log_predictive(row, size, keys, prior, counts, sides):
    """Log-probability of a record in a class of `size` records, its profiles integrated out."""
    p = 1.0
    for j in range(row.shape[0]):
        r = row[j]
        if not keys.ordered[j]:
            p *= (prior.profile[r] + counts[r]) / (prior.concentration[j] + size)
        for q in range(keys.path[r], keys.path[r + 1]):
            v, side = keys.step[q]
            eta = prior.eta[keys.group[v]]
            share = prior.split[v] if side == 0 else 1.0 - prior.split[v]
            p *= (eta * share + sides[v, side]) / (eta + sides[v, 0] + sides[v, 1])
    return math.log(max(p, 1e-300))


@compiled
def split_merge(rows, cell, keys, prior, top, z, sizes):
    """Propose to split the class of two records, or to merge their classes (Dahl 2005)."""
    i, j = np.random.randint(len(z)), np.random.randint(len(z))
    one, other = z[i], z[j]
    split = one == other
    if split:
        for k in range(len(sizes)):
            if sizes[k] == 0:
                other = k
    if i == j or one == other:
        return
    members = np.empty(len(z), np.int64)
    n = 0
    for x in range(len(z)):
        if (z[x] == one or z[x] == z[j]) and x != i and x != j:
            members[n] = x
            n += 1
    for a in range(n - 1, 0, -1):
        b = np.random.randint(a + 1)
        members[a], members[b] = members[b], members[a]
    # The two classes and both together: sizes, counts, logarithms of the marginal likelihood.
    size, marginal = np.zeros(3), np.zeros(3)
    counts, sides = np.zeros((3, len(prior.profile))), np.zeros((3, len(keys.node), 2))
    to = np.zeros(n, np.int8)
    chosen = 0.0
    for a in range(-2, n):
        row = rows[cell[i if a == -2 else j if a == -1 else members[a]]]
        logs = [log_predictive(row, size[g], keys, prior, counts[g], sides[g]) for g in range(3)]
        if a < 0:
            g = a + 2
        else:
            p = 1.0 / (1.0 + size[1] / size[0] * math.exp(min(logs[1] - logs[0], 700.0)))
            g = int(np.random.random() >= p) if split else int(z[members[a]] != one)
            to[a] = g
            chosen += math.log(max(1.0 - p if g else p, 1e-300))
        for into in (g, 2):
            marginal[into] += logs[into]
            join(row, keys, counts[into], sides[into])
            size[into] += 1.0
    ratio = math.log(top) + math.lgamma(size[0]) + math.lgamma(size[1]) - math.lgamma(size[2])
    ratio += marginal[0] + marginal[1] - marginal[2] - chosen
    if math.log(np.random.random()) >= (ratio if split else -ratio):
        return
    for a in range(n):
        z[members[a]] = other if split and to[a] else one
    z[j] = other if split else one
    sizes[one], sizes[other] = (size[0], size[1]) if split else (size[2], 0)


@compiled
def draw_weights(sizes, top, weights):
    """Draw the classes' weights: of occupied ones Dirichlet, of empty ones sticks of the rest."""
    for k in range(len(sizes)):
        weights[k] = np.random.gamma(sizes[k]) if sizes[k] > 0 else 0.0
    rest = max(np.random.gamma(top), 1e-300)
    weights /= weights.sum() + rest
    rest = max(1.0 - weights.sum(), 1e-300)
    empty = np.flatnonzero(sizes == 0)
    for k in empty[:-1]:
        weights[k] = rest * math.exp(log_beta(1.0, top)[0])
        rest = max(rest - weights[k], 1e-300)
    weights[empty[-1:]] = rest


@compiled
def draw_top(top, occupied, n):
    """Draw the concentration of the weights (Escobar & West 1995), its prior Gamma(1/4, 1/4)."""
    shape, rate = 0.25 + occupied, 0.25 - log_beta(top + 1.0, float(n))[0]
    if np.random.random() * (n * rate + shape - 1.0) < n * rate:
        shape -= 1.0
    return max(math.exp(log_gamma(shape)) / rate, 1e-10)


@compiled
def learn_dirichlet(keys, counts, prior):
    """Draw concentration and base measure of the keys without order; counts (classes, rows)."""
    for j in range(len(keys.ordered)):
        if keys.ordered[j]:
            continue
        first, last = keys.offsets[j], keys.offsets[j + 1]
        tables = np.zeros(last - first)
        spread = 1.0 / (last - first)
        for k in range(len(counts)):
            size = 0
            for r in range(first, last):
                if counts[k, r] > 0:
                    size += counts[k, r]
                    tables[r - first] += opened(prior.profile[r], counts[k, r])
            if size > 0:
                spread -= log_beta(prior.concentration[j], float(size))[0]
        value = max(math.exp(log_gamma(1.0 + tables.sum())) / spread, 1e-30)
        for x in range(last - first):
            tables[x] = np.random.gamma(1.0 + tables[x])
        prior.profile[first:last] = np.maximum(value * tables / tables.sum(), 1e-30)
        prior.concentration[j] = value


@compiled
def learn_ordered(keys, counts, prior, grid):
    """Draw eta, kappa and s of the ordered keys; counts (classes, rows)."""
    tables = np.zeros((len(keys.node), 2))
    logs = np.zeros((len(prior.eta), len(grid)))
    for k in range(len(counts)):
        for v in range(len(keys.node)):
            first, middle, last = keys.node[v, :3]
            left, right = counts[k, first:middle].sum(), counts[k, middle:last].sum()
            if left + right == 0:
                continue
            g = keys.group[v]
            n = 0
            if left > 0:
                t = opened(prior.eta[g] * prior.split[v], left)
                tables[v, 0] += t
                n += t
            if right > 0:
                t = opened(prior.eta[g] * (1.0 - prior.split[v]), right)
                tables[v, 1] += t
                n += t
            for x in range(len(grid)):
                logs[g, x] += n * math.log(grid[x])
                logs[g, x] += math.lgamma(grid[x]) - math.lgamma(grid[x] + left + right)
    for g in range(len(prior.eta)):
        prior.eta[g] = grid[pick(logs[g])]
    logs[:] = 0.0
    for v in range(len(keys.node)):
        first, middle, last = keys.node[v, :3]
        for x in range(len(grid)):
            left = grid[x] * (middle - first) / (last - first)
            right = grid[x] - left
            logs[keys.group[v], x] += (
                math.lgamma(grid[x]) - math.lgamma(grid[x] + tables[v].sum())
                + math.lgamma(left + tables[v, 0]) - math.lgamma(left)
                + math.lgamma(right + tables[v, 1]) - math.lgamma(right)
            )  # fmt: skip
    for g in range(len(prior.kappa)):
        prior.kappa[g] = grid[pick(logs[g])]
    for v in range(len(keys.node)):
        first, middle, last = keys.node[v, :3]
        kappa = prior.kappa[keys.group[v]] / (last - first)
        s = log_beta(
            kappa * (middle - first) + tables[v, 0], kappa * (last - middle) + tables[v, 1]
        )
        prior.split[v] = min(max(math.exp(s[0]), 1e-12), 1.0 - 1e-12)


@compiled
def draw_profiles(keys, counts, prior, theta):
    """Draw theta (rows, classes) given the records' classes."""
    reached = np.zeros(len(keys.node))
    for k in range(len(counts)):
        for j in range(len(keys.ordered)):
            if keys.ordered[j]:
                continue
            first, last = keys.offsets[j], keys.offsets[j + 1]
            for r in range(first, last):
                theta[r, k] = log_gamma(prior.profile[r] + counts[k, r])
            theta[first:last, k] = np.exp(theta[first:last, k] - theta[first:last, k].max())
            theta[first:last, k] /= theta[first:last, k].sum()
        for v in range(len(keys.node)):
            first, middle, last, on_left, on_right, parent = keys.node[v]
            if parent < 0:
                reached[v] = 0.0
            eta = prior.eta[keys.group[v]]
            left = eta * prior.split[v] + counts[k, first:middle].sum()
            right = eta * (1.0 - prior.split[v]) + counts[k, middle:last].sum()
            logs = log_beta(left, right)
            for side, below, row in ((0, on_left, first), (1, on_right, middle)):
                if below >= 0:
                    reached[below] = reached[v] + logs[side]
                else:
                    theta[row, k] = math.exp(reached[v] + logs[side])


@compiled
def probabilities(rows, theta, weights):
    """Probability of each cell."""
    found = np.zeros(len(rows))
    for c in range(len(rows)):
        for k in range(len(weights)):
            p = weights[k]
            for j in range(rows.shape[1]):
                p *= theta[rows[c, j], k]
            found[c] += p
    return found


@compiled
def chain(seed, sample, keys, prior, z):
    """Run a chain; return draws of the sample uniques' probabilities, means of the held-out."""
    np.random.seed(seed)
    n_rows = len(prior.profile)
    theta, weights, top = np.empty((n_rows, CLASSES)), np.empty(CLASSES), 1.0
    sizes, counts = np.zeros(CLASSES, np.int64), np.zeros((CLASSES, n_rows), np.int64)
    p = np.zeros(((SWEEPS - WARM_UP) // EVERY, len(sample.unique)))
    held = np.zeros(len(sample.held_out))
    for sweep in range(SWEEPS):
        if sweep > 0:
            allocate(sample.rows, sample.starts, theta, weights, z)
        sizes[:] = 0
        for k in z:
            sizes[k] += 1
        if sweep > 20:
            for _ in range(MOVES):
                split_merge(sample.rows, sample.cell, keys, prior, top, z, sizes)
        counts[:] = 0
        for i in range(len(z)):
            for r in sample.rows[sample.cell[i]]:
                counts[z[i], r] += 1
        draw_weights(sizes, top, weights)
        top = draw_top(top, (sizes > 0).sum(), len(z))
        if sweep % 2 == 0:
            learn_dirichlet(keys, counts, prior)
            learn_ordered(keys, counts, prior, GRID)
        draw_profiles(keys, counts, prior, theta)
        if sweep >= WARM_UP and (sweep - WARM_UP) % EVERY == 0:
            unique = probabilities(sample.rows[sample.unique], theta, weights)
            p[(sweep - WARM_UP) // EVERY] = unique
            held += probabilities(sample.held_out, theta, weights) / len(p)
    return p, held


@cache
def population(name: str) -> tuple[np.ndarray, list[bool], np.ndarray]:
    """Read a population: codes, which keys are ordered, population counts of the rows' cells."""
    file, named, ordered = ORDERED[name]
    data = pd.read_parquet(data_file(file))
    if "AGEP" in data:
        data = data[data["AGEP"] >= 18].assign(AGE5=data["AGEP"] // 5)
    names = named.split() or list(data)
    codes = np.empty((len(data), len(names)), np.int64)
    for j, key in enumerate(names):
        column = data[key].astype(object)
        levels = ordered.get(key) or sorted(column.dropna().unique())
        codes[:, j] = pd.Categorical(column, levels).codes + 1
        codes[:, j] = np.unique(codes[:, j], return_inverse=True)[1]
    _, cell, counts = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
    return codes, [key in ordered for key in names], counts[cell.ravel()]


def keys_of(levels: np.ndarray, ordered: np.ndarray) -> Keys:
    """Halve the levels of the ordered keys again and again."""
    offsets = np.concatenate(([0], np.cumsum(levels)))
    nodes: list[list[int]] = []
    groups: list[int] = []
    steps: list[list[tuple[int, int]]] = [[] for _ in range(offsets[-1])]
    for j in np.flatnonzero(ordered):
        first_group = max(groups, default=-1) + 1
        queue = [(int(offsets[j]), int(offsets[j + 1]), 0, -1, 0)]
        for first, last, depth, parent, side in queue:
            v, middle = len(nodes), (first + last + 1) // 2
            nodes.append([first, middle, last, -1, -1, parent])
            groups.append(first_group + depth)
            if parent >= 0:
                nodes[parent][3 + side] = v
            for r in range(first, last):
                steps[r].append((v, int(r >= middle)))
            halves = (first, middle, depth + 1, v, 0), (middle, last, depth + 1, v, 1)
            queue += [half for half in halves if half[1] - half[0] > 1]
    return Keys(
        offsets,
        ordered,
        np.array(nodes, np.int64).reshape(-1, 6),
        np.array(groups, np.int64),
        np.concatenate(([0], np.cumsum([len(row) for row in steps]))),
        np.array([step for row in steps for step in row], np.int64).reshape(-1, 2),
    )


def first_prior(keys: Keys) -> Prior:
    """Start with every level alike."""
    levels, depths = np.diff(keys.offsets), np.ones(max(keys.group, default=-1) + 1)
    split = np.full(len(keys.node), 0.5)
    return Prior(np.ones(levels.sum()), levels.astype(float), 10 * depths, 10 * depths, split)


def run_case(name: str, n: int, repeat: int, prior: str, path: Path) -> str:
    """Draw a sample, fit it under a prior, and keep what the tables need."""
    begin = time.monotonic()
    codes, ordered, counts = population(name)
    rng = np.random.default_rng([29, list(ORDERED).index(name), n, repeat])
    order = rng.permutation(len(codes))
    sampled, others = codes[order[:n]], codes[order[n : n + HELD_OUT]]
    cells, first, cell, times = np.unique(
        sampled, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    unique = np.flatnonzero(times == 1)
    keys = keys_of(codes.max(axis=0) + 1, np.array(ordered) & (prior == "ordered"))
    starts, shift = np.concatenate(([0], np.cumsum(times))), keys.offsets[:-1]
    sample = Sample(cells + shift, np.sort(cell.ravel()), starts, unique, others + shift)
    kept, held = [], np.zeros(len(others))
    for number, n_starts in enumerate(STARTS):
        centres = cells[rng.choice(len(cells), n_starts, replace=False)]
        differing = (cells[:, None] != centres).sum(axis=2) + rng.random((len(cells), n_starts))
        z = np.repeat(differing.argmin(axis=1), times)
        p, held_out = chain(1000 * repeat + number, sample, keys, first_prior(keys), z)
        kept.append(p)
        held += held_out / len(STARTS)
    probability = np.concatenate(kept)[::2].astype(np.float32)
    of_unique = counts[order[:n]][first[unique]]
    np.savez(path, p=probability, F=of_unique, n=n, N=len(codes), held=np.log(held).mean())
    return f"{path.stem}: {time.monotonic() - begin:.0f} s"


class Case(NamedTuple):
    """A fitted sample under one prior."""

    survey: str
    n: int
    truth: np.ndarray
    """(k, d): log-likelihood of the population counts of the sample uniques."""
    answers: np.ndarray
    """(4, k, d): tau1, its variance, tau2, its variance."""
    true: tuple[float, float]
    lower: np.ndarray
    upper: np.ndarray
    """95% intervals of tau1 and tau2 by the model alone."""
    score: float
    """Mean log score of whether a sample unique is population unique."""
    held: float


def read_case(path: Path) -> Case:
    """Compute what the tables need of a case."""
    from unikat.kernels.overdispersion import FALL
    from unikat.models.calibrated import OVERDISPERSION, SHIFTS

    with np.load(path) as file:
        p, counts = np.maximum(file["p"].astype(float), 1e-30), file["F"].astype(np.int64)
        n, size, held = float(file["n"]), float(file["N"]), float(file["held"])
    grids = (OVERDISPERSION, SHIFTS, FALL)
    shape = len(OVERDISPERSION), len(SHIFTS)
    truth, found = np.zeros(shape), np.zeros((4, *shape))
    of_truth(p[::5].copy(), counts, n, size - n, size, *grids, LAST, truth)
    answers(p[::10].copy(), n, size, *grids, found)
    others = np.random.default_rng(0).poisson((size - n) * p)
    draws = np.stack([(others == 0).sum(axis=1), (1.0 / (1.0 + others)).sum(axis=1)])
    lower, upper = np.quantile(draws, (0.025, 0.975), axis=1)
    r1 = np.clip(np.exp((size - n) * np.log1p(-p)).mean(axis=0), 1e-4, 1 - 1e-4)
    score = np.where(counts == 1, np.log(r1), np.log1p(-r1)).mean()
    return Case(
        path.stem.split("-")[0],
        int(n),
        truth,
        found,
        (float((counts == 1).sum()), float((1.0 / counts).sum())),
        lower,
        upper,
        float(score),
        held,
    )


def errors(cases: list[Case]) -> np.ndarray:
    """Error of each case in percent: tau1 and tau2 by the model alone, then with (k, d), (n, 4)."""
    from unikat.models.calibrated import SHIFTS

    alone = 0, int(np.argmin(np.abs(SHIFTS)))
    rows = []
    for case in cases:
        others = [other for other in cases if other.survey != case.survey]
        weight = [sum(one.survey == other.survey for one in others) ** -0.5 for other in others]
        truth = sum(w * other.truth for w, other in zip(weight, others, strict=True))
        best = np.unravel_index(np.argmax(truth), np.shape(truth))
        found = [case.answers[2 * t, *at] / case.true[t] for at in (alone, best) for t in (0, 1)]
        rows.append(100.0 * np.array(found) - 100.0)
    return np.array(rows)


def tables(folder: Path) -> None:
    """Print errors under both priors, and differences with their standard errors."""
    names = sorted(path.stem.removesuffix("-ordered") for path in folder.glob("*-ordered.npz"))
    cases = {
        prior: [read_case(folder / f"{name}-{prior}.npz") for name in names] for prior in PRIORS
    }
    seldom = np.array([case.true[0] < 10 for case in cases["ordered"]])
    sizes = np.array([case.n for case in cases["ordered"]])
    error = {prior: errors(cases[prior]) for prior in PRIORS}
    score = {p: np.array([(100 * c.score, c.held) for c in cases[p]]) for p in PRIORS}
    rows: list[list[object]] = []
    for label, among in [("all", sizes > 0), *((n, sizes == n) for n in np.unique(sizes))]:
        among = among & ~seldom
        n = int(among.sum())
        for prior in PRIORS:
            of = [case for case, taken in zip(cases[prior], among, strict=True) if taken]
            row: list[object] = [label, n, prior]
            for t in range(4):
                e = error[prior][among, t]
                row.append(f"{e.mean():+.1f}% {np.abs(e).mean():.1f}% {(e**2).mean() ** 0.5:.1f}%")
            for t in (0, 1):
                held = [case.lower[t] <= case.true[t] <= case.upper[t] for case in of]
                row.append(f"{sum(held)}/{n}")
            rows.append([*row, *(f"{x:.2f}" for x in score[prior][among].mean(axis=0))])
        change = np.abs(error["ordered"]) - np.abs(error["Dirichlet"])
        change = np.column_stack([change, score["ordered"] - score["Dirichlet"]])[among]
        shown = [
            f"{x:+.2f} ± {s:.2f}"
            for x, s in zip(change.mean(axis=0), change.std(axis=0, ddof=1) / n**0.5, strict=True)
        ]
        rows.append([label, n, "difference", *shown[:4], "", "", *shown[4:]])
    print_table(
        ["n", "samples", "prior", "τ1", "τ2", "τ1, (k, d)", "τ2, (k, d)",
         "τ1 contained", "τ2 contained", "score of uniques", "held out"],
        rows,
    )  # fmt: skip


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--table", action="store_true", help="print what is there, run nothing")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for repeat in range(0 if options.table else options.repeats):
        for n in options.sizes:
            for name in ORDERED:
                for prior in PRIORS:
                    path = options.folder / f"{name}-{n}-{repeat}-{prior}.npz"
                    if not path.exists():
                        print(run_case(name, n, repeat, prior, path), flush=True)
    print(machine(), end="\n\n")
    tables(options.folder)


if __name__ == "__main__":
    main()
