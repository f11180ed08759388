"""rivulet.simulate: the program as a child process."""

import contextlib
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import threading
import time
from typing import IO, TYPE_CHECKING, Any, List, Mapping, Optional, Union

from rivulet._errors import Interrupted, RivuletError
from rivulet._files import PathLike
from rivulet._history import History, Run
from rivulet._keywords import suggests_keys
from rivulet._program import program, sentence
from rivulet._progress import ROUND, Bar, bar
from rivulet._scenario import Scenario, scenario_file, set_arguments

if TYPE_CHECKING:
    from rivulet._aggregate import AggregateFn
    from rivulet._virtual import ClientFn, Workers

_RESUMABLE = re.compile(r"--resume (\S+)")
_LISTENING = "listening on "
_LOOK_SECONDS = 1.0


class _Child:
    """The program while it runs: `follow` it, then `wait` for its end, and `close` it in any case."""

    def __init__(self, command: List[str], environment: Optional[Mapping[str, str]] = None) -> None:
        # A group of its own: a terminal's Ctrl-C goes to every process of the group, and a second one kills the
        # program. It is this process that hands on the first. And a kernel that is killed cannot hand on anything: then
        # the system does, where util-linux is there to ask it. It tells of each of our threads that ends, so that the
        # signal is the one that the program takes once however often it comes.
        setpriv = shutil.which("setpriv")
        if setpriv is not None:
            command = [setpriv, "--pdeathsig", "HUP", "--", *command]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
        self._lines: "queue.Queue[Optional[str]]" = queue.Queue()
        self._printed: List[bytes] = []
        self._readers: List[threading.Thread] = []
        self.interrupted = False
        self.ended_here = False  # asked to end, by nobody who waits for the run

    def _listen(self) -> None:
        """Pipes are read by threads: an interrupt within a read would lose a part of the line. They are started late: a
        fork has none of the threads, but the locks that they held."""
        if not self._readers:
            self._readers = [
                threading.Thread(target=self._read_lines, args=(self._process.stderr,), daemon=True),
                threading.Thread(target=self._read_printed, args=(self._process.stdout,), daemon=True),
            ]
            for reader in self._readers:
                reader.start()

    def _read_lines(self, stream: IO[bytes]) -> None:
        for line in stream:
            self._lines.put(line.decode(errors="replace").rstrip("\n"))
        self._lines.put(None)

    def _read_printed(self, stream: IO[bytes]) -> None:
        self._printed.append(stream.read())

    def interrupt(self) -> None:
        """The first one asks for a clean end, the second one for an end."""
        self._process.send_signal(signal.SIGKILL if self.interrupted else signal.SIGINT)
        self.interrupted = True

    def follow(self, shown: Bar, workers: "Optional[Workers]" = None) -> List[str]:
        """Show the program's output until it ends, and return the lines that are no round's. `workers` hear where the
        program listens; when one of them is lost, the run ends."""
        said: List[str] = []
        self._listen()
        while True:
            try:  # an interrupt may come anywhere in here; at worst a line is not shown
                try:
                    line = self._lines.get(timeout=_LOOK_SECONDS)
                except queue.Empty:  # the last line may be the one that was lost
                    # Who was asked to end is not asked again: that would be an end at once.
                    asked = self.ended_here or self.interrupted
                    if workers is not None and not asked and workers.lost() is not None:
                        self.ended_here = True
                        self._process.send_signal(signal.SIGINT)
                    if not self._readers[0].is_alive() and self._lines.empty():
                        return said
                    continue
                if line is None:
                    return said
                if ROUND.match(line):
                    shown.show(line)
                    continue
                if workers is not None and line.startswith(_LISTENING):
                    workers.connect(line[len(_LISTENING) :])
                    continue
                error = line.startswith("rivulet: ") or bool(said and said[-1].startswith("rivulet: "))
                said.append(line)
                if not error:
                    shown.show(line)
            except KeyboardInterrupt:
                self.interrupt()

    def wait(self) -> "tuple[int, str]":
        """Its exit code and its output, once it has ended."""
        self._listen()
        while True:
            try:
                for reader in self._readers:
                    reader.join()
                return self._process.wait(), b"".join(self._printed).decode(errors="replace")
            except KeyboardInterrupt:
                self.interrupt()

    def close(self) -> None:
        """After an error here the program ends too, cleanly."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        self.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()


@suggests_keys
def simulate(
    scenario: Scenario,
    *,
    rounds: Optional[int] = None,
    set: Optional[Mapping[str, Any]] = None,
    workers: Optional[int] = None,
    db: PathLike = "rivulet.sqlite",
    resume: Optional[Union[str, Run]] = None,
    client_fn: "Optional[ClientFn]" = None,
    aggregate: "Optional[AggregateFn]" = None,
    logdir: Optional[PathLike] = None,
) -> Run:
    """Run a federation of virtual clients, and wait for it.

    A bar is shown in a terminal and in a notebook. Ctrl-C (in a notebook: *interrupt the kernel*) ends the run cleanly,
    and it can be resumed. A second one ends it at once; even then nothing that was committed is lost.

    Parameters
    ----------
    scenario : path or dict
        A TOML file, or its content as a dict of sections. Relative paths in a file start at its folder, in a dict at
        the working directory.
    rounds : int, optional
        Rounds to run, in all. Default: the scenario's, of a resumed run its own.
    set : mapping, optional
        Keys of the scenario to change, such as ``{"client.epochs": 5}``. Relative paths start at the working directory.
    workers : int, optional
        Threads that train clients; with `client_fn` processes. Default: one per core. The result is the same for any
        number, as far as the clients' own is.
    db : path
        The history, created when missing. Models are beside it, in ``DB.models/``.
    resume : str or Run, optional
        Resume a run: its id, its name, ``"latest"``, or itself.
    client_fn : callable, optional
        Clients in Python: gives the `rivulet.Client` of a name whenever that is drawn, in one of the processes that
        train. Its result is used for one task; a client's state from task to task is `Context.state`. The names are
        ``client-00000``, ``client-00001``, …, as many as ``data.partition.clients``; or with ``data.train`` those of
        its partition. Default: the program trains the scenario's model itself.
    aggregate : callable, optional
        Aggregates the updates of each round in place of the algorithm, as ``aggregate(updates, state)``, in a separate
        process: `updates` have `client`, `weight` and `delta`, read-only arrays by variable. It returns the model's
        change as such a dict, alone or with the state that the next round's call gets. A resumed run needs it again.
    logdir : path, optional
        A folder in which the run's curves are written as TensorBoard reads them, in a folder of the run's id.

    Returns
    -------
    Run
        The run, finished.

    Raises
    ------
    RivuletError
        The sentence of the program.
    Interrupted
        Where it was interrupted: a `KeyboardInterrupt` with the `run` so far.
    """
    db = os.fspath(db)
    arguments = ["--json", "--db", db, *set_arguments(set)]
    if rounds is not None:
        arguments += ["--rounds", str(rounds)]
    if client_fn is not None:
        arguments += ["--workers-at", "127.0.0.1:0"]
    elif workers is not None:
        arguments += ["--workers", str(workers)]
    if logdir is not None:
        arguments += ["--logdir", os.fspath(logdir)]
    if resume is not None:
        arguments += ["--resume", resume if isinstance(resume, str) else resume.id]
    with contextlib.ExitStack() as stack:
        processes = None
        if client_fn is not None:
            from rivulet._virtual import Workers, cores

            if workers is not None and workers < 1:
                raise RivuletError(f"workers={workers} leaves no process to train; give at least 1")
            processes = Workers(client_fn, workers or cores(), f"{db}.models")
            stack.callback(processes.close)
            if not processes.forks:
                processes.start()
        environment: Mapping[str, str] = {}
        if aggregate is not None:
            from rivulet._aggregate_pickle import aggregate_arguments

            more, environment = stack.enter_context(aggregate_arguments(aggregate))
            arguments += more
        file = stack.enter_context(scenario_file(scenario))
        shown = bar()
        began = time.time()
        # After "--" a path that begins with a dash is no option.
        child = _Child([program(), "simulate", *arguments, "--", file.path], environment)
        with contextlib.closing(child):
            if processes is not None and processes.forks:
                processes.start()  # while the program starts, and before any thread of this call
            try:
                said = child.follow(shown, processes)
            finally:
                shown.close()
            code, printed = child.wait()
        why = file.named(sentence(said, code)) if code != 0 else ""
        lost = processes.lost() if processes is not None and child.ended_here else None
        told = processes.told() if processes is not None else None
    if child.interrupted or (processes is not None and processes.interrupted):
        raise _interrupted(code, why, printed, db, resume, began)
    if lost is not None:
        raise RivuletError(f"a process that trains clients is gone: {lost}; {why}") from _raised(told)
    if code != 0:
        raise RivuletError(why) from _raised(told)
    return History(db).run(_run_id(printed))


def _run_id(printed: str) -> str:
    try:
        return str(json.loads(printed)["run_id"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RivuletError(
            f"the program {program()} ended well and named no run; is it another version than this package?"
        ) from error


class ClientError(Exception):
    """The first exception of a client of ``client_fn``, as the traceback in its process."""


def _raised(told: Optional[str]) -> Optional[ClientError]:
    return None if told is None else ClientError(f"\n{told}")


def _interrupted(
    code: int, why: str, printed: str, db: str, resume: Optional[Union[str, Run]], began: float
) -> Interrupted:
    """The program's sentence, with the call that resumes instead of the command."""
    if code == 0:
        run = History(db).run(_run_id(printed))
        return Interrupted(f"interrupted; run {run.id} had finished", run)
    resumable = _RESUMABLE.search(why)
    found = History(db).run(resumable.group(1)) if resumable else _of_this_call(db, resume, began)
    if found is None:
        return Interrupted(f"interrupted: {why}")
    return Interrupted(f"{why.split(';')[0]}; to resume: rivulet.simulate(…, db={db!r}, resume={found.id!r})", found)


def _of_this_call(db: str, resume: Optional[Union[str, Run]], began: float) -> Optional[Run]:
    """The run of a program that was ended before it could name it, as by a second interrupt."""
    try:
        run = History(db).run("latest" if resume is None else resume if isinstance(resume, str) else resume.id)
    except RivuletError:
        return None
    # The history's times are of milliseconds.
    return run if resume is not None or run.created_at.timestamp() >= began - 0.001 else None
