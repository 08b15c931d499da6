"""Clusters by name: Dask, Ray and MPI as executors for chains and samples.

Whatever the cluster, the work is the same: a segment of a chain, or a sample to fit, goes out, and
its result comes back. So progress, checkpoints and all numbers are those of local processes.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import signal
import sys
import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, InvalidStateError
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unikat.errors import SpecError, UnikatError, brief, option
from unikat.files.scratch import scratch_folder
from unikat.inference.processes import available_cores, not_from_here

_SECONDS = 20
"""For which a cluster that does not answer is waited for."""
_POLL = 1e-3
"""Seconds between two looks of an MPI process for messages: MPI itself would look all the time."""
_TAG = 1
"""Of messages of MPI."""
_RETRIES = 3
"""Workers that may be lost over one piece of work, which is then done by another worker."""


class Cluster(Executor):
    """An executor on a cluster. A worker that is lost for good leaves as BrokenExecutor.

    Parameters
    ----------
    n_slots
        Pieces of work that it does at the same time.
    """

    def __init__(self, n_slots: int) -> None:
        self.n_slots = n_slots

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Queue a call; arguments may be what `share` returned."""
        answer: Future[Any] = Future()
        self._attempt(function, args, answer, _RETRIES)
        return answer

    def share(self, value: Any) -> Shared:
        """Send a value to the cluster once; return what stands for it among the arguments."""
        return Shared(value, self._place(value))

    def _attempt(
        self, function: Callable[..., Any], args: tuple[Any, ...], answer: Future[Any], left: int
    ) -> None:
        placed = tuple(one.place if isinstance(one, Shared) else one for one in args)

        def pass_on(done: Future[Any]) -> None:
            if answer.cancelled():
                return
            try:
                succeeded, value = done.result()
            except BaseException as error:
                # In a thread of its own: this one may be what the cluster answers by.
                threading.Thread(target=again, args=(error,), daemon=True).start()
                return
            with contextlib.suppress(InvalidStateError):
                # Unless nobody waits any more.
                if succeeded:
                    answer.set_result(value)
                else:
                    answer.set_exception(value)

        def again(error: BaseException) -> None:
            for remaining in reversed(range(left)):
                try:
                    # What was shared may have been lost with the worker.
                    for one in args:
                        if isinstance(one, Shared):
                            one.place = self._place(one.value)
                    self._attempt(function, args, answer, remaining)
                    return
                except Exception as failed:
                    # No other worker may be there yet.
                    error = failed
            with contextlib.suppress(InvalidStateError):
                # Its text is that of the cluster, and may be pages long.
                answer.set_exception(BrokenExecutor(f"a worker was lost ({type(error).__name__})"))

        self._send(function, placed).add_done_callback(pass_on)

    def _place(self, value: Any) -> Any:
        """Put a value on the cluster."""
        return value

    @abstractmethod
    def _send(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Future[Any]:
        """Call `_called(function, *args)` on the cluster."""


@dataclass
class Shared:
    """A value that the workers of a cluster have."""

    value: Any
    place: Any
    """What stands for it there."""


def _called(function: Callable[..., Any], *args: Any) -> tuple[bool, Any]:
    """Whether a call succeeded, and its result or error: clusters wrap errors in their own."""
    try:
        return True, function(*args)
    except Exception as error:
        return False, error


class _Dask(Cluster):
    def __init__(self, client: Any) -> None:
        super().__init__(max(sum(client.nthreads().values()), 1))
        self._client = client
        self._executor = client.get_executor(pure=False, retries=_RETRIES)

    def _place(self, value: Any) -> Any:
        return self._client.scatter(value, hash=False, broadcast=True)

    def _send(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Future[Any]:
        sent: Future[Any] = self._executor.submit(_called, function, *args)
        return sent


class _Ray(Cluster):
    def __init__(self, ray: Any) -> None:
        super().__init__(max(int(ray.cluster_resources().get("CPU", 1)), 1))
        self._ray = ray
        self._remote = ray.remote(num_cpus=1, max_retries=_RETRIES)(_called)

    def _place(self, value: Any) -> Any:
        return self._ray.put(value)

    def _send(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Future[Any]:
        sent: Future[Any] = self._remote.remote(function, *args).future()
        return sent


class _Mpi(Cluster):
    """The workers that mpi4py started, which are sent their work here.

    Its own pool sends by an intercommunicator, which MPICH cuts into pieces of a few kilobytes,
    and each piece waits for the next look of both processes: 300 kB take 35 ms.

    Parameters
    ----------
    comm
        Of all processes. This one is 0, the others are in `_serve`.
    """

    def __init__(self, comm: Any) -> None:
        super().__init__(comm.Get_size() - 1)
        self._comm = comm
        self._waiting: deque[tuple[Future[Any], bytes]] = deque()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="unikat-mpi", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Let the workers end when they have done what they were sent."""
        self._ended.set()
        self._thread.join()

    def _send(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Future[Any]:
        sent: Future[Any] = Future()
        content = pickle.dumps((function, args), protocol=pickle.HIGHEST_PROTOCOL)
        self._waiting.append((sent, content))
        return sent

    def _run(self) -> None:
        try:
            self._direct()
        except BaseException:
            # Nobody would answer those who wait. When a worker is lost MPI does the same.
            self._comm.Abort(1)
            raise

    def _direct(self) -> None:
        """Send what waits to workers that have nothing to do, and pass on what they answer."""
        comm = self._comm
        idle = list(range(1, comm.Get_size()))
        # The bytes are kept until they have been received.
        busy: dict[int, tuple[Future[Any], Any, bytes]] = {}
        while busy or not self._ended.is_set():
            while idle and self._waiting:
                sent, content = self._waiting.popleft()
                if sent.set_running_or_notify_cancel():
                    worker = idle.pop()
                    busy[worker] = sent, comm.Issend(content, worker, _TAG), content
            answered = [worker for worker in busy if comm.Iprobe(worker, _TAG)]
            for worker in answered:
                answer = _received(comm, worker)
                sent, request, _ = busy.pop(worker)
                request.Wait()
                idle.append(worker)
                try:
                    sent.set_result(pickle.loads(answer))
                except Exception as error:
                    sent.set_exception(error)
            if not answered:
                time.sleep(_POLL)
        for worker in idle:
            comm.Send(b"", worker, _TAG)


def _received(comm: Any, process: int) -> bytearray:
    """Wait for a message without keeping a core busy."""
    from mpi4py import MPI

    status = MPI.Status()
    while not comm.Iprobe(process, _TAG, status):
        time.sleep(_POLL)
    content = bytearray(status.Get_count(MPI.BYTE))
    comm.Recv(content, process, _TAG)
    return content


def _serve() -> None:
    """Do what process 0 sends until it sends nothing."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    while content := _received(comm, 0):
        request = comm.Issend(_pickled_answer(content), 0, _TAG)
        while not request.Test():
            time.sleep(_POLL)


def _pickled_answer(content: bytearray) -> bytes:
    try:
        function, args = pickle.loads(content)
        return pickle.dumps(_called(function, *args), protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        # Such an error may itself be what cannot be pickled. Its type is enough to look for.
        return pickle.dumps((False, UnikatError(f"{type(error).__name__} in a worker of MPI")))


class _Named:
    """A cluster that is started when it is first needed."""

    def __init__(self, name: str, n_workers: int | None, stack: contextlib.ExitStack) -> None:
        self._name, self._n_workers, self._stack = name, n_workers, stack
        self._found: Cluster | None = None

    def cluster(self) -> Cluster:
        """Start it, or connect to it."""
        if self._found is None:
            kind, _, address = self._name.partition(":")
            started = _STARTERS[kind](address, self._n_workers)
            self._found = self._stack.enter_context(started)
        return self._found


_asked: ContextVar[_Named | None] = ContextVar("unikat_executor", default=None)


@contextlib.contextmanager
def executor_for_run(name: str, n_workers: int | None) -> Iterator[None]:
    """Let `executor_of_run` return the executor of this name; end at the end what was started here.

    Parameters
    ----------
    name
        ``processes``; ``dask``: started on this machine; ``mpi``; ``dask:ADDRESS`` or
        ``ray:ADDRESS``: one that runs.
    n_workers
        Processes of one that is started here; None: one for each core.
    """
    if name == "processes":
        yield
        return
    with contextlib.ExitStack() as stack:
        token = _asked.set(_Named(name, n_workers, stack))
        try:
            yield
        finally:
            _asked.reset(token)


def executor_of_run() -> Cluster | None:
    """Return the executor of the run that goes on here; None: local processes."""
    asked = _asked.get()
    return None if asked is None else asked.cluster()


@contextlib.contextmanager
def _dask(address: str, n_workers: int | None) -> Iterator[Cluster]:
    with _package("dask", "dask"):
        import dask
        from distributed import Client, LocalCluster
    for name in ("distributed", "tornado"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with contextlib.ExitStack() as stack:
        # Memory is for the operating system to manage: a state is not to be written to disk, and a
        # worker not to be stopped, because of a guess.
        stack.enter_context(
            dask.config.set({"distributed.worker.memory.terminate": False,
                             "distributed.worker.memory.spill": False,
                             "distributed.worker.memory.target": False,
                             "distributed.worker.memory.pause": False})
        )  # fmt: skip
        try:
            if not address:
                folder = stack.enter_context(scratch_folder())
                # As long as it lasts: a worker that died is started again.
                stack.enter_context(not_from_here())
                cluster = stack.enter_context(
                    LocalCluster(
                        n_workers=n_workers or available_cores(),
                        threads_per_worker=1,
                        host="127.0.0.1",
                        # It has pages in any case: none means port 8787, which may be taken.
                        dashboard_address="127.0.0.1:0",
                        local_directory=str(folder),
                        silence_logs=logging.CRITICAL,
                    )
                )
            client = stack.enter_context(Client(address or cluster, timeout=_SECONDS))
            client.wait_for_workers(1, timeout=_SECONDS)
        except (OSError, TimeoutError, RuntimeError):
            raise _not_reached("Dask", address, "dask scheduler") from None
        yield _Dask(client)


@contextlib.contextmanager
def _ray(address: str, n_workers: int | None) -> Iterator[Cluster]:
    # Before the import, which reads them. Without the second, Ray ends the process at SIGTERM.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_DISABLE_FAILURE_SIGNAL_HANDLER"] = "1"
    # Else it asks for 15 minutes where nobody answers.
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "1")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    with _package("ray", "ray"):
        import ray
    if ray.is_initialized():
        # That of a script or notebook, which will end it.
        yield _Ray(ray)
        return
    with _logs_removed(ray):
        try:
            with _handler_kept(signal.SIGTERM):
                ray.init(address=address, configure_logging=False, log_to_driver=False)
        except (ConnectionError, TimeoutError, RuntimeError, ValueError):
            raise _not_reached("Ray", address, "ray start --head") from None
        yield _Ray(ray)


@contextlib.contextmanager
def _handler_kept(number: int) -> Iterator[None]:
    """Give a signal back the handler that it has; Ray sets one of its own."""
    before = signal.getsignal(number)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(number, before)


@contextlib.contextmanager
def _logs_removed(ray: Any) -> Iterator[None]:
    """Remove at the end what Ray has written for this process into the folder of the cluster."""
    try:
        yield
    finally:
        logs: list[Path] = []
        with contextlib.suppress(Exception):
            # None unless this machine is one of the cluster.
            folder = Path(ray._private.worker.global_worker.node.get_logs_dir_path())
            logs = list(folder.rglob(f"*_{os.getpid()}.log"))
        ray.shutdown()
        for log in logs:
            with contextlib.suppress(OSError):
                log.unlink()


@contextlib.contextmanager
def _mpi(address: str, n_workers: int | None) -> Iterator[Cluster]:
    without_workers = SpecError(
        "MPI was not started with workers. Put  mpiexec -n 5 python -m mpi4py.futures -m  before "
        "the command: one process directs, and the others work."
    )
    with _package("mpi", "mpi4py"):
        import mpi4py
    if f"{mpi4py.__name__}.futures" not in sys.orig_argv:
        # Every process would run the command. MPI is not imported: it waits for the others, which
        # may have ended for they found that another one writes into the folder.
        raise without_workers
    try:
        from mpi4py import MPI
        from mpi4py.futures import MPIPoolExecutor
    except RuntimeError:
        raise SpecError(
            "No MPI library is found. Install one with the system's packages (MPICH or Open MPI), "
            "or with  pip install mpich."
        ) from None
    comm = MPI.COMM_WORLD
    if comm.Get_size() < 2:
        raise without_workers
    with MPIPoolExecutor() as pool:
        for _ in range(comm.Get_size() - 1):
            pool.submit(_serve)
        with contextlib.closing(_Mpi(comm)) as cluster:
            yield cluster


@contextlib.contextmanager
def _package(extra: str, package: str) -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise SpecError(
            f"{option('executor', extra)} needs the package {package}: install it with  "
            f"pip install 'unikat[{extra}]'."
        ) from None


def _not_reached(what: str, address: str, command: str) -> UnikatError:
    if not address:
        return UnikatError(
            f"{what} could not be started on this machine; is there memory and disk left? Local "
            f"processes need less: {option('executor', 'processes')}."
        )
    return SpecError(
        f"{what} cannot be reached at {brief(address)}. Check the address, and that it was started "
        f"({command}) with workers that have the same versions of unikat and Python."
    )


_STARTERS: dict[str, Callable[[str, int | None], contextlib.AbstractContextManager[Cluster]]] = {
    "dask": _dask,
    "ray": _ray,
    "mpi": _mpi,
}
