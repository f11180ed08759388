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
from typing import IO, Any, List, Mapping, Optional, Union

from rivulet._errors import Interrupted, RivuletError
from rivulet._files import PathLike
from rivulet._history import History, Run
from rivulet._program import program, sentence
from rivulet._progress import ROUND, Bar, bar
from rivulet._scenario import Scenario, scenario_file, set_arguments

_RESUMABLE = re.compile(r"--resume (\S+)")
_LOOK_SECONDS = 1.0


class _Child:
    """The program while it runs: `follow` it, then `wait` for its end, and `close` it in any case."""

    def __init__(self, command: List[str]) -> None:
        # A group of its own: a terminal's Ctrl-C goes to every process of the group, and a second one kills the
        # program. It is this process that hands on the first. And a kernel that is killed cannot hand on anything: then
        # the system does, where util-linux is there to ask it. It tells of each of our threads that ends, so that the
        # signal is the one that the program takes once however often it comes.
        setpriv = shutil.which("setpriv")
        if setpriv is not None:
            command = [setpriv, "--pdeathsig", "HUP", "--", *command]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        self._lines: "queue.Queue[Optional[str]]" = queue.Queue()
        self._printed: List[bytes] = []
        # Pipes are read by threads: an interrupt within a read would lose what was read of the line.
        self._readers = [
            threading.Thread(target=self._read_lines, args=(self._process.stderr,), daemon=True),
            threading.Thread(target=self._read_printed, args=(self._process.stdout,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        self.interrupted = False

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

    def follow(self, shown: Bar) -> List[str]:
        """Show what the program says until it ends, and return what is no round's line."""
        said: List[str] = []
        while True:
            try:  # an interrupt may come anywhere in here; at worst a line is not shown
                line = self._lines.get(timeout=_LOOK_SECONDS)
                if line is None:
                    return said
                if ROUND.match(line):
                    shown.show(line)
                    continue
                error = line.startswith("rivulet: ") or bool(said and said[-1].startswith("rivulet: "))
                said.append(line)
                if not error:
                    shown.show(line)
            except KeyboardInterrupt:
                self.interrupt()
            except queue.Empty:  # the last line may be the one that was lost
                if not self._readers[0].is_alive() and self._lines.empty():
                    return said

    def wait(self) -> "tuple[int, str]":
        """Its exit code and what it printed, once it has ended."""
        for reader in self._readers:
            reader.join()
        return self._process.wait(), b"".join(self._printed).decode(errors="replace")

    def close(self) -> None:
        """Where something went wrong here, the program ends too, cleanly."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        self.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()


def simulate(
    scenario: Scenario,
    *,
    rounds: Optional[int] = None,
    set: Optional[Mapping[str, Any]] = None,
    workers: Optional[int] = None,
    db: PathLike = "rivulet.sqlite",
    resume: Optional[Union[str, Run]] = None,
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
        Threads that train clients. Default: one per core. The result is the same for any number.
    db : path
        The history, created when missing. Models lie beside it, in ``DB.models/``.
    resume : str or Run, optional
        Go on with a run: its id, its name, ``"latest"``, or itself.

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
    if workers is not None:
        arguments += ["--workers", str(workers)]
    if resume is not None:
        arguments += ["--resume", resume if isinstance(resume, str) else resume.id]
    shown = bar()
    with scenario_file(scenario) as file:
        # After "--" a path that begins with a dash is no option.
        child = _Child([program(), "simulate", *arguments, "--", file.path])
        with contextlib.closing(child):
            try:
                said = child.follow(shown)
            finally:
                shown.close()
            code, printed = child.wait()
        why = file.named(sentence(said, code)) if code != 0 else ""
    if child.interrupted:
        raise _interrupted(code, why, printed, db)
    if code != 0:
        raise RivuletError(why)
    return History(db).run(json.loads(printed)["run_id"])


def _interrupted(code: int, why: str, printed: str, db: str) -> Interrupted:
    """The program's sentence, with the call that goes on instead of the command."""
    if code == 0:
        run = History(db).run(json.loads(printed)["run_id"])
        return Interrupted(f"interrupted; run {run.id} had finished", run)
    resumable = _RESUMABLE.search(why)
    if resumable is None:
        return Interrupted(f"interrupted: {why}")
    run = History(db).run(resumable.group(1))
    return Interrupted(f"{why.split(';')[0]}; to go on: rivulet.simulate(…, db={db!r}, resume={run.id!r})", run)
