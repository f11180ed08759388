"""Virtual clients written in Python: processes that train for the clients drawn in a simulation.

Each worker is a site of many names (federated/transport/coordinator_api.h): it requests several tasks at once, of any
clients, makes each task's client, and sends its update. So nothing is kept of clients without tasks.
"""

import contextlib
import importlib
import importlib.util
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
import traceback
from multiprocessing.connection import Connection as Pipe
from typing import TYPE_CHECKING, Any, Callable, List, Optional

from rivulet._errors import RivuletError, lacks

if TYPE_CHECKING:
    from rivulet._client import Client

ClientFn = Callable[[str], "Client"]

_TOOK_LONG_SECONDS = 5.0  # to end after the run is over


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers:
    """Processes that train. They hear of the program by `connect`, and are gone after `close`."""

    def __init__(self, client_fn: ClientFn, count: int, folder: str) -> None:
        try:
            importlib.import_module("google.protobuf")  # its first module alone, which costs little
        except ImportError as error:
            raise lacks("protobuf", "python3-protobuf", error) from error
        if "grpc" not in sys.modules and importlib.util.find_spec("grpc") is None:  # the workers load it, not this process
            raise lacks("grpcio", "python3-grpcio")
        # A fork costs less and takes any function. But not beside gRPC's threads, which a fork does not have: a client
        # that ran here has loaded it, or another package.
        self.forks = "grpc" not in sys.modules and os.name == "posix"
        self._client_fn = client_fn
        self._count = count
        self._folder = os.path.abspath(folder)
        self._processes: List[Any] = []
        self._pipes: List[Pipe] = []
        self._told: Optional[str] = None
        self.interrupted = False  # while they were waited for

    def start(self) -> None:
        """Once. A process that is not forked may turn out to be impossible: before there is anything else."""
        if not self.forks:
            function = packed(self._client_fn)
            for number in range(self._count):
                ours, theirs = multiprocessing.Pipe()
                with theirs:
                    self._processes.append(_Interpreter(theirs, f"rivulet worker {number}"))
                self._pipes.append(ours)
                with contextlib.suppress(OSError):  # one that ended at once is found by `lost`
                    ours.send((sys.path, function, f"python {number}", self._folder))
            return
        context: Any = multiprocessing.get_context("fork")
        importlib.import_module("rivulet._site")  # and Protobuf with it: once for all of them
        for number in range(self._count):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_work,
                args=(theirs, lambda: self._client_fn, f"python {number}", self._folder, os.getpid()),
                name=f"rivulet worker {number}",
                daemon=True,
            )
            process.start()
            theirs.close()
            self._processes.append(process)
            self._pipes.append(ours)

    def connect(self, address: str) -> None:
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.send(address)

    def lost(self) -> Optional[str]:
        """The exit of a worker that ended before the run did."""
        for process in self._processes:
            if process.exitcode:
                code = process.exitcode
                how = f"was ended by signal {-code}" if code < 0 else f"exited with {code}"
                return f"{process.name} {how}"
        return None

    def told(self) -> Optional[str]:
        """The first traceback that a client gave."""
        for pipe in self._pipes:
            with contextlib.suppress(EOFError, OSError):
                if self._told is None and pipe.poll():
                    self._told = str(pipe.recv())
        return self._told

    def close(self) -> None:
        """Waits until workers have stored the run's last tasks, at most until an interrupt."""
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.send(None)
        until = time.monotonic() + _TOOK_LONG_SECONDS
        for process in self._processes:
            try:
                process.join(max(0.0, until - time.monotonic()))
            except KeyboardInterrupt:
                self.interrupted, until = True, 0.0
            if process.exitcode is None:
                process.kill()
                process.join()
        self.told()
        for pipe in self._pipes:
            pipe.close()


def packed(function: Any, name: str = "client_fn", where: str = ", which it must where this one has loaded gRPC, as a client does") -> bytes:
    """A function, for another interpreter; `name` and `where` are for the sentence that refuses it. With it cloudpickle
    sends lambdas, closures and classes of the main program or a notebook. Of modules that can be imported it sends the
    names."""
    try:
        pickler: Any = importlib.import_module("cloudpickle")
    except ImportError:
        pickler = pickle
    try:
        content: bytes = pickler.dumps(function)
        if pickler is not pickle or b"__main__" not in content:
            return content
        why = "it stands in the main program"
    except Exception as error:  # of whatever it holds, and of whatever kind
        why = str(error)
    mend = (
        "pip install cloudpickle, or Debian's python3-cloudpickle"
        if pickler is pickle
        else "let it open files and locks, which cannot be sent, when it is called"
    )
    raise RivuletError(
        f"{name} cannot be sent to a new process ({why}){where}; {mend}"
    )


class _Interpreter:
    """A worker that is no fork but a separate interpreter, which runs nothing of the main program. It has the methods
    of `multiprocessing.Process`."""

    def __init__(self, pipe: Pipe, name: str) -> None:
        self.name = name
        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        begin = "import sys; sys.path.insert(0, sys.argv[1]); from rivulet import _virtual; _virtual.begun()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", begin, package, str(pipe.fileno()), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            pass_fds=[pipe.fileno()],
            start_new_session=True,  # a terminal's Ctrl-C is for whoever started the run
        )

    @property
    def exitcode(self) -> Optional[int]:
        return self._process.poll()

    def join(self, timeout: Optional[float] = None) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)

    def kill(self) -> None:
        self._process.kill()


def begun() -> None:
    """The life of an `_Interpreter`."""
    pipe, parent = Pipe(int(sys.argv[2])), int(sys.argv[3])
    try:
        paths, packed, name, folder = pipe.recv()
    except EOFError:
        return
    sys.path[:] = paths
    sys.argv[1:] = []
    _work(pipe, lambda: pickle.loads(packed), name, folder, parent)


def _work(pipe: Pipe, client_fn: Callable[[], ClientFn], name: str, folder: str, parent: int) -> None:
    """A worker's life. `client_fn` gives the function, or raises where it cannot be unpacked."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for whoever started the run
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _one_thread()
    from rivulet import _site

    def tell(error: BaseException) -> None:
        with contextlib.suppress(OSError):
            pipe.send("".join(traceback.format_exception(type(error), error, error.__traceback__)))

    try:
        serves = client_fn()
    except Exception as error:
        tell(error)
        sys.exit(1)
    address = None
    while address is None and os.getppid() == parent:
        if pipe.poll(1.0):
            try:
                address = pipe.recv()
            except EOFError:
                return
            if address is None:
                return
    if address is None:
        return
    try:
        _site.serve(serves, address, name, folder, tell, lambda: os.getppid() == parent and not pipe.poll())
    except RivuletError as error:
        tell(error)
        sys.exit(1)


def _one_thread() -> None:
    """As many workers as cores, each with several threads, would wait for each other."""
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    with contextlib.suppress(ImportError):  # of what is loaded already
        importlib.import_module("threadpoolctl").threadpool_limits(1)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
