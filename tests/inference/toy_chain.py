"""A cheap chain with known behaviour: AR(1), its noise a pure function of the stream."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from unikat.inference.draws import Observer
from unikat.models.base import Info, Model, PopulationLaw, Stream, Uncertainty


@dataclass(frozen=True)
class ToyTable:
    """Stands for a CellTable: inference reads its fingerprint, weights and whether it has rules."""

    size: int = 3
    fingerprint: str = "f00d" * 16
    has_impossible: bool = False
    sampling: None = None


class ToyData(NamedTuple):
    scale: Any


class ToyInner(NamedTuple):
    value: Any
    label: str


class ToyState(NamedTuple):
    x: Any
    inner: ToyInner
    sweeps: int


class ToyTotals(NamedTuple):
    count: Any
    sums: Any


def noise(stream: Stream, size: int) -> Any:
    key = np.array([stream.seed, stream.chain], np.uint64)
    generator = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, stream.sweep]))
    return generator.standard_normal(size)


@dataclass(frozen=True, kw_only=True)
class Toy(Model[Any, Any]):
    name: ClassVar[str] = "toy"
    population: ClassVar[PopulationLaw] = "multinomial"
    uncertainty: ClassVar[Uncertainty] = "posterior"
    persistence: float = 0.5
    apart: float = 0.0
    """Distance between the means of different chains: above 0 they never agree."""
    work: float = 1.0
    pause: float = 0.0

    def prepare(self, table: Any) -> ToyData:
        return ToyData(np.ones(table.size))

    def init(self, stream: Stream, data: ToyData) -> ToyState:
        x = 3.0 * noise(stream, len(data.scale)) + 5.0
        return ToyState(x, ToyInner(np.array(x.sum(), np.float32), "start"), 0)

    def step(
        self, stream: Stream, state: ToyState, data: ToyData, n_threads: int
    ) -> tuple[ToyState, Info]:
        if self.pause:
            time.sleep(self.pause)
        rho = self.persistence
        x = rho * state.x + np.sqrt(1.0 - rho**2) * noise(stream, len(data.scale)) * data.scale
        inner = ToyInner(np.float32(x.sum()), f"sweep {stream.sweep}")
        return ToyState(x, inner, state.sweeps + 1), Info({"size": float(len(x))})

    def cell_probabilities(self, *arguments: Any) -> Any:
        raise NotImplementedError

    def predictive_probabilities(self, *arguments: Any) -> Any:
        raise NotImplementedError

    def impute(self, *arguments: Any) -> Any:
        raise NotImplementedError

    def simulate(self, *arguments: Any) -> Any:
        raise NotImplementedError

    def cost(self, data: ToyData) -> tuple[float, float]:
        return self.work, 0.0


@dataclass(frozen=True, kw_only=True)
class Watch(Observer):
    monitored: tuple[str, ...] = ("first",)
    work: float = 0.1

    def start(self) -> ToyTotals:
        return ToyTotals(np.zeros((), np.int64), np.zeros(3))

    def observe(
        self, stream: Stream, model: Any, state: ToyState, data: Any, totals: ToyTotals
    ) -> Mapping[str, float]:
        totals.count[...] += 1
        totals.sums[...] += state.x * 0.1
        mean = model.apart * stream.chain
        return {"first": float(state.x[0]) + mean, "zero": 0.0, "bad": float("nan")}

    def cost(self, model: Any, data: Any) -> float:
        return self.work


@dataclass(frozen=True, kw_only=True)
class Dying(Toy):
    """A worker that is killed, as by a system without memory."""

    def step(self, stream: Stream, state: Any, data: Any, n_threads: int) -> Any:
        if stream.sweep == 5 and stream.chain == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(stream, state, data, n_threads)


@dataclass(frozen=True, kw_only=True)
class DyingOnce(Toy):
    """A worker that is killed in the middle of its work, the first time that anybody does it."""

    mark: str
    """Path of a file that tells that it has happened."""

    def step(
        self, stream: Stream, state: ToyState, data: ToyData, n_threads: int
    ) -> tuple[ToyState, Info]:
        if stream.sweep == 301 and stream.chain == 1:
            try:
                os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().step(stream, state, data, n_threads)
