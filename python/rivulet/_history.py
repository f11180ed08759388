"""The history of runs (docs/reference/history.md), read through its views."""

import contextlib
import os
import sqlite3
import urllib.parse
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from rivulet import _page
from rivulet._errors import RivuletError
from rivulet._files import PathLike
from rivulet._tables import Table, dicts, table, time

if TYPE_CHECKING:
    import datetime

    from rivulet._base import Base

    import numpy.typing as npt

_APPLICATION_ID = 0x52564C54  # "RVLT"
_OLDEST_SCHEMA = 3  # the program reads no older ones
_NEWEST_FIRST = "ORDER BY created_at DESC, rowid DESC LIMIT 1"

_SHOWN_RUNS = 50  # on a page

Parameters = Union[Sequence[Any], Mapping[str, Any]]


def open(db: PathLike = "rivulet.sqlite") -> "History":
    """Open a history.

    Parameters
    ----------
    db : path
        The database of ``--db``. It is only read, also while a run writes.

    Returns
    -------
    History
    """
    return History(db)


class History:
    """Every run, round, client and metric of one database.

    Tables are `pandas.DataFrame` where pandas is installed and lists of dicts where it is not. Times are aware of their
    zone, which is UTC. Each call reads the rows of that moment. Nothing stays open between calls, so a History may be
    used by several threads and needs no closing.

    Attributes
    ----------
    db : str
        The database's path.
    """

    def __init__(self, db: PathLike) -> None:
        self.db = os.fspath(db)
        self._path = os.path.abspath(self.db)  # stays, where the working directory does not
        if not os.path.exists(self._path):
            raise RivuletError(f"there is no history '{self.db}'; rivulet.simulate(…, db='{self.db}') makes one")
        if os.path.isdir(self._path):
            raise RivuletError(f"'{self.db}' is a folder, and a history is a file")
        with self._connection() as connection:
            (application,), (version,) = (
                connection.execute(f"PRAGMA {pragma}").fetchone() for pragma in ("application_id", "user_version")
            )
        if application != _APPLICATION_ID:
            raise RivuletError(f"'{self.db}' is no history of rivulet's, but another database")
        if version < _OLDEST_SCHEMA:
            raise RivuletError(
                f"the history '{self.db}' has version {version}; Rivulet 0.1.0 is the last program that reads it, and its "
                f"newest build updates it with 'rivulet runs list --db {self.db}'"
            )

    def __repr__(self) -> str:
        return f"rivulet.open({self.db!r})"

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        path = urllib.parse.quote(self._path)
        # Opened for writing, and then only read: the last one to close the file removes its log. Where nothing may be made
        # beside it SQLite can use no log, and a file without one is read as one that nobody changes.
        log = self._path + "-wal"
        no_log = not os.path.exists(log) or os.path.getsize(log) == 0
        still = no_log and not os.access(os.path.dirname(self._path) or ".", os.W_OK)
        mode = "immutable=1" if still else "mode=rw"
        try:
            with contextlib.closing(sqlite3.connect(f"file:{path}?{mode}", uri=True, timeout=20)) as connection:
                connection.execute("PRAGMA query_only = ON")
                yield connection
        except (sqlite3.Error, sqlite3.Warning, UnicodeDecodeError) as error:  # the last: of a name that is no text
            raise RivuletError(f"history '{self.db}': {error}") from error

    @contextlib.contextmanager
    def _asked(self, query: str, parameters: Parameters) -> Iterator[Tuple[List[str], sqlite3.Cursor]]:
        """The columns of a query, and a cursor before its first row."""
        with self._connection() as connection:
            cursor = connection.execute(query, parameters)
            if cursor.description is None:
                raise RivuletError("the query gives no table; a history is asked with SELECT")
            yield [column[0] for column in cursor.description], cursor

    def _query(self, query: str, parameters: Parameters = ()) -> Tuple[List[str], List[Tuple[Any, ...]]]:
        with self._asked(query, parameters) as (names, cursor):
            return names, cursor.fetchall()

    def _first(self, query: str, *parameters: Any) -> Optional[Dict[str, Any]]:
        names, rows = self._query(query, parameters)
        return dict(zip(names, rows[0])) if rows else None

    def sql(self, query: str, parameters: Parameters = ()) -> Table:
        """Ask the views of docs/reference/history.md.

        Parameters
        ----------
        query : str
            One SELECT.
        parameters : sequence or mapping
            For the query's ``?`` or ``:name``.

        Returns
        -------
        DataFrame or list of dict
            Columns called ``at`` or ``…_at`` that hold the history's times become times.
        """
        with self._asked(query, parameters) as (names, cursor):
            return table(names, cursor.fetchmany)

    def rows(self, query: str, parameters: Parameters = ()) -> List[Dict[str, Any]]:
        """`sql`, as a list of dicts whether pandas is there or not."""
        return dicts(*self._query(query, parameters))

    def runs(self) -> Table:
        """One row per run, newest first: its configuration, progress and results."""
        return self.sql(
            "SELECT r.run_id, r.name, r.status, r.reason, r.seed, l.rounds, l.best_accuracy, l.best_round, "
            "l.last_accuracy, l.last_round, l.seconds, r.version, r.created_at, r.started_at, r.finished_at "
            "FROM runs r JOIN run_leaderboard l ON l.run_id = r.run_id ORDER BY r.created_at DESC, r.rowid DESC"
        )

    def run(self, run: "Union[str, Run]" = "latest") -> "Run":
        """A run, by its id, its name (the newest of that name), or ``"latest"``."""
        if isinstance(run, Run):
            return run
        row = (
            self._first(f"SELECT * FROM runs {_NEWEST_FIRST}")
            if run == "latest"
            else (
                self._first("SELECT * FROM runs WHERE run_id = ?", run)
                or self._first(f"SELECT * FROM runs WHERE name = ? {_NEWEST_FIRST}", run)
            )
        )
        if row is None:
            raise RivuletError(f"history '{self.db}' has no run" + ("" if run == "latest" else f" '{run}'"))
        return Run(self, row)

    def rounds(self, run: "Union[str, Run]" = "latest") -> Table:
        """One row per attempt at a round of a run, with the committed model's accuracy and loss on the test set."""
        return self.sql(
            "SELECT r.*, s.test_accuracy, s.test_loss FROM rounds r LEFT JOIN round_summary s "
            "ON s.run_id = r.run_id AND s.round = r.round AND r.status = 'committed' "
            "WHERE r.run_id = ? ORDER BY r.round, r.attempt",
            [self.run(run).id],
        )

    def clients(self, run: "Union[str, Run]" = "latest") -> Table:
        """One row per client of a run that has had a task: how many it was given, and how they ended."""
        return self.sql("SELECT * FROM client_reliability WHERE run_id = ? ORDER BY client_id", [self.run(run).id])

    def tasks(self, run: "Union[str, Run]" = "latest") -> Table:
        """One row per task of a run: one client's part in one attempt at a round."""
        return self.sql("SELECT * FROM client_rounds WHERE run_id = ? ORDER BY rowid", [self.run(run).id])

    def metrics(self, run: "Union[str, Run]" = "latest") -> Table:
        """One row per value: of the committed model on the test set, means over clients, and each client's."""
        return self.sql(
            "SELECT * FROM metrics WHERE run_id = ? ORDER BY round, scope, name, client_id", [self.run(run).id]
        )

    def _repr_html_(self) -> str:
        names, rows = self._query(
            "SELECT run_id, status, rounds, best_accuracy, last_accuracy, seconds, created_at "
            "FROM run_leaderboard ORDER BY created_at DESC LIMIT ?",
            [_SHOWN_RUNS],
        )
        ((count,),) = self._query("SELECT count(*) FROM runs")[1]
        return _page.history_page(self.db, names, rows, count - len(rows))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


class Run:
    """One run of a history.

    Attributes
    ----------
    id, name : str
        ``name`` is the scenario's; ``id`` is its own.
    seed : int
        Decides every draw of the run.
    config : str
        The scenario as TOML: every key, paths absolute.
    created_at : datetime
        Aware of its zone.
    history : History
        Where it is written.
    """

    def __init__(self, history: History, row: Mapping[str, Any]) -> None:
        self.history = history
        try:
            self.id: str = _text(row["run_id"])
            self.name: str = _text(row["name"])
            self.seed: int = int(row["seed"])
            self.config: str = _text(row["config"])
            self.created_at: "datetime.datetime" = time(_text(row["created_at"]))
        except (KeyError, TypeError, ValueError) as error:
            raise RivuletError(
                f"history '{history.db}' is damaged: its view 'runs' lacks columns ({error!r}); restore a backup"
            ) from error

    def __repr__(self) -> str:
        return f"rivulet.open({self.history.db!r}).run({self.id!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and (self.id, self.history._path) == (other.id, other.history._path)

    def __hash__(self) -> int:
        return hash((self.id, self.history._path))

    @property
    def status(self) -> str:
        """The status at this moment: ``running``, ``finished``, ``interrupted`` or ``failed``."""
        row = self.history._first("SELECT status FROM runs WHERE run_id = ?", self.id)
        return str(row["status"]) if row is not None else "removed"

    @property
    def scores(self) -> Dict[str, Optional[float]]:
        """Metrics of the newest evaluated model on the test set: ``test/accuracy``, ``test/loss``.

        A value that is not a number is None.
        """
        _, rows = self.history._query(
            "SELECT name, value FROM metrics WHERE run_id = :run AND scope = 'central' AND round = "
            "(SELECT max(round) FROM metrics WHERE run_id = :run AND scope = 'central') ORDER BY name",
            {"run": self.id},
        )
        return dict(rows)

    def rounds(self) -> Table:
        """`History.rounds` of this run."""
        return self.history.rounds(self)

    def clients(self) -> Table:
        """`History.clients` of this run."""
        return self.history.clients(self)

    def tasks(self) -> Table:
        """`History.tasks` of this run."""
        return self.history.tasks(self)

    def metrics(self) -> Table:
        """`History.metrics` of this run."""
        return self.history.metrics(self)

    def model_path(self, round: Union[int, str] = "latest") -> str:
        """The safetensors file of the model after a round; round 0 is the initial model.

        Parameters
        ----------
        round : int or "latest"
            ``"latest"`` is the newest one that is on disk.
        """
        return self._model(round)[0]

    def _model(self, round: Union[int, str]) -> Tuple[str, str]:
        """Path and digest of a model's file that is there."""
        _, rows = self.history._query(
            "SELECT round, digest, path FROM models WHERE run_id = ? ORDER BY round DESC", [self.id]
        )
        # Models lie beside the database itself, under its name: both may have been renamed since the row was written.
        real = os.path.realpath(self.history._path)
        there: List[int] = []
        for number, digest, path in rows:
            if not (isinstance(path, str) and isinstance(number, int)):
                continue
            beside = os.path.join(f"{real}.models", self.id, os.path.basename(path))
            for candidate in (beside, os.path.join(os.path.dirname(real), path)):
                if os.path.exists(candidate):
                    if round in (number, "latest"):
                        return candidate, digest
                    there.append(number)
                    break
        known = any(number == round for number, _, _ in rows)
        what = f"run {self.id} has no model" + (
            "" if round == "latest" else f" of round {round}" + (" on disk" if known else "")
        )
        kept = ("; there are those of rounds " + ", ".join(map(str, sorted(there)))) if there else ""
        mend = '; with run.keep_models = "all" every round\'s stays' if known else ""
        raise RivuletError(what + kept + mend)

    def model(
        self,
        round: Union[int, str] = "latest",
        *,
        widen_bfloat16: bool = False,
        base: Union[None, bool, PathLike] = None,
    ) -> "Dict[str, npt.NDArray[Any]]":
        """The model after a round, as arrays by name; round 0 is the initial model.

        Kernels have TensorFlow's layout, ``[height, width, in, out]`` and ``[in, out]``, also where a layer of
        PyTorch's would take them without complaint (docs/reference/weights.md).

        Parameters
        ----------
        round : int or "latest"
            ``"latest"`` is the newest one that is on disk.
        widen_bfloat16 : bool
            As of `rivulet.load_safetensors`.
        base : path or False, optional
            Of a model on top of a base model: where the base is. Default: ``model.base`` of the run. False leaves its tensors out.

        Returns
        -------
        dict of ndarray
            In the order of the model, with the file's ``metadata`` as an attribute. A base's tensors come last, as
            read-only views of its file; those of bfloat16 are float32.

        Raises
        ------
        RivuletError
            Where there is no such model, or the file's digest is not the one that the history has.
        """
        import json

        from rivulet._safetensors import Tensors, digest_of_stored, read_safetensors

        path, digest = self._model(round)
        tensors, stored = read_safetensors(path, widen_bfloat16)
        try:
            segments: Dict[str, str] = dict(json.loads(tensors.metadata.get("rivulet.segments", "{}")))
        except (ValueError, TypeError, RecursionError) as error:
            raise RivuletError(f"'{path}' does not say which segments its tensors are of; restore the file") from error
        if "server" in segments.values():  # what its optimiser keeps from round to round is no part of the model
            segments = {name: segment for name, segment in segments.items() if segment != "server"}
            metadata = {**tensors.metadata, "rivulet.segments": json.dumps(segments, separators=(",", ":"))}
            metadata.pop("rivulet.server_crc32c", None)
            tensors = Tensors({name: array for name, array in tensors.items() if name in segments}, metadata)
        shared = [name for name in tensors if segments.get(name) != "local"]
        over = tensors.metadata.get("rivulet.base")
        try:
            found = digest_of_stored(((name, *stored[name]) for name in shared), over)
        except ValueError:
            found = ""
        if found != digest:
            raise RivuletError(
                f"'{path}' is not the model that the history has: its digest differs from {digest}; restore the file"
            )
        if over is not None and base is not False:
            tensors.update(self._base(over, base).arrays)
        return tensors

    def _base(self, digest: str, path: Union[None, bool, PathLike]) -> "Base":
        """The base of a digest at a path, or where the run's configuration says."""
        from rivulet._base import Base, base_of_config

        given = path if path is not None and not isinstance(path, bool) else base_of_config(self.config)
        if given is None:
            raise RivuletError(f"run {self.id} needs the base {digest}; give its file: base=FILE")
        try:
            base = Base(given)
        except RivuletError as error:
            raise RivuletError(
                f"run {self.id} needs the base {digest}, and {error}; give its file with base=FILE, or base=False for "
                "the other tensors"
            ) from error
        if base.digest != digest:
            raise RivuletError(
                f"run {self.id} needs the base {digest}, and '{base.path}' has digest {base.digest}; give that file, "
                "unchanged, with base=FILE"
            )
        return base

    def _curve(self, name: str) -> Tuple[List[int], List[float]]:
        _, rows = self.history._query(
            "SELECT round, value FROM metrics WHERE run_id = ? AND scope = 'central' AND name = ? "
            "AND value IS NOT NULL ORDER BY round",
            [self.id, name],
        )
        return [row[0] for row in rows], [row[1] for row in rows]

    def plot(self, metric: str = "test/accuracy", *, ax: Any = None) -> Any:
        """Draw a metric of the test set over rounds, with matplotlib (``pip install 'rivulet[plot]'``).

        Parameters
        ----------
        metric : str
            Its name, such as ``test/accuracy`` or ``test/loss``.
        ax : matplotlib.axes.Axes, optional
            Where to draw, so that several runs share one picture. Default: a new one.

        Returns
        -------
        matplotlib.axes.Axes
        """
        rounds, values = self._curve(metric)
        if not rounds:
            names = [
                row[0]
                for row in self.history._query(
                    "SELECT DISTINCT name FROM metrics WHERE run_id = ? AND scope = 'central' ORDER BY name", [self.id]
                )[1]
            ]
            raise RivuletError(
                f"run {self.id} has no metric '{metric}' of the test set; "
                + (f"it has {', '.join(names)}" if names else "it was not evaluated")
            )
        if ax is None:
            try:
                import matplotlib.pyplot
            except ImportError as error:
                raise RivuletError("Run.plot() draws with matplotlib: pip install 'rivulet[plot]'") from error
            _, ax = matplotlib.pyplot.subplots()
            ax.set_xlabel("round")
            ax.set_ylabel(metric)
        ax.plot(rounds, values, label=self.name)
        return ax

    def _repr_html_(self) -> str:
        row = (
            self.history._first(
                "SELECT status, rounds, best_accuracy, best_round, seconds FROM run_leaderboard WHERE run_id = ?",
                self.id,
            )
            or {}
        )
        facts = {"run": self.id, **row, "seed": self.seed, "history": self.history.db}
        names, rows = self.history._query(
            "SELECT round, folded, refused, dropped, failed, examples, train_loss, test_accuracy, test_loss, "
            "train_seconds "
            "FROM round_summary WHERE run_id = ? ORDER BY round DESC LIMIT 10",
            [self.id],
        )
        curves = {name: self._curve(name) for name in ("test/accuracy", "test/loss")}
        return _page.run_page(self.name, facts, curves, names, rows)
