"""rivulet.analytics: statistics of all clients' data. Nothing is trained, and no row leaves its client. Each reports
sums of its rows, and the coordinator adds them up, as it does with any model's updates.

>>> from rivulet import analytics
>>> ages = {"mean": analytics.Moments("age", 0, 120), "ages": analytics.Histogram("age", range(0, 121, 10))}
>>> analytics.ask(ages, lambda name: {"age": rows_of(name)}, clients=100)["mean"]["deviation"]

A question's arrays are the "model" of a run without a graph (docs/guide/python.md). A version of it is the mean of the
round's reports, without the version before. A question of several rounds continues from it.
"""

import abc
import hashlib
import math
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from rivulet._arrays import Array
from rivulet._client import Client, Context, Params
from rivulet._errors import RivuletError
from rivulet._history import Run

__all__ = [
    "DistinctCount",
    "HeavyHitters",
    "Histogram",
    "KMeans",
    "Moments",
    "Quantiles",
    "Question",
    "answers",
    "ask",
    "client",
    "scenario",
]

Rows = Mapping[str, Any]


class Question(abc.ABC):
    """A statistic of a column of every client's rows.

    Attributes
    ----------
    column : str
        Whose values are asked for.
    rounds : int
        How many rounds it takes.
    """

    rounds = 1

    def __init__(self, column: str) -> None:
        self.column = column

    @abc.abstractmethod
    def first(self) -> Dict[str, Array]:
        """The arrays that a client reports, of zeros."""

    @abc.abstractmethod
    def tell(self, values: Array, told: Mapping[str, Array], round: int) -> Dict[str, Array]:
        """A client's report of its values in a round, given the mean of the round before. Each summand is at most 1 for
        each of its values."""

    @abc.abstractmethod
    def answer(self, told: Mapping[str, Array], clients: int) -> Any:
        """The answer, from the mean of the last round's reports and their number."""


def _total(mean: Any, clients: int) -> int:
    return int(np.rint(np.float64(mean) * clients))


class _Ranged(Question):
    """A question about numbers from `low` to `high`."""

    def __init__(self, column: str, low: float, high: float) -> None:
        super().__init__(column)
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise RivuletError(f"'{column}' is asked for from {low} to {high}; give a range")
        self.low, self.high = float(low), float(high)

    def _inside(self, values: Array) -> Array:
        numbers = np.asarray(values, np.float64).reshape(-1)
        return numbers[(numbers >= self.low) & (numbers <= self.high)]


class Moments(_Ranged):
    """Count, mean, variance (of all rows, not of a sample) and deviation of the values from `low` to `high`, and how many
    are `outside`, not numbers among them."""

    def first(self) -> Dict[str, Array]:
        return {"sums": np.zeros(4, np.float32)}

    def tell(self, values: Array, told: Mapping[str, Array], round: int) -> Dict[str, Array]:
        inside = self._inside(values)
        share = (inside - self.low) / (self.high - self.low) - 0.5
        sums = [len(inside), share.sum(), (share**2).sum(), np.size(values) - len(inside)]
        return {"sums": np.array(sums, np.float32)}

    def answer(self, told: Mapping[str, Array], clients: int) -> Dict[str, float]:
        count, first, second, outside = told["sums"].astype(np.float64)
        answered: Dict[str, float] = {"count": _total(count, clients), "outside": _total(outside, clients)}
        if answered["count"] == 0:
            return answered
        span, mean = self.high - self.low, first / count
        variance = max(second / count - mean**2, 0.0) * span**2
        return {
            **answered,
            "mean": float(self.low + (mean + 0.5) * span),
            "variance": float(variance),
            "deviation": math.sqrt(variance),
        }


class Histogram(Question):
    """The number of values in each bin, from each of `edges` to the next, with the last edge; and the number `outside`,
    which includes NaN."""

    def __init__(self, column: str, edges: Sequence[float]) -> None:
        super().__init__(column)
        self.edges = np.asarray(edges, np.float64)
        if self.edges.ndim != 1 or len(self.edges) < 2 or not (np.diff(self.edges) > 0).all():
            raise RivuletError(f"the histogram of '{column}' needs two or more edges, each above the one before")

    def first(self) -> Dict[str, Array]:
        return {"counts": np.zeros(len(self.edges), np.float32)}

    def tell(self, values: Array, told: Mapping[str, Array], round: int) -> Dict[str, Array]:
        numbers = np.asarray(values, np.float64).reshape(-1)
        counts = np.histogram(numbers[np.isfinite(numbers)], self.edges)[0]
        return {"counts": np.append(counts, len(numbers) - counts.sum()).astype(np.float32)}

    def answer(self, told: Mapping[str, Array], clients: int) -> Dict[str, Any]:
        counts = [_total(count, clients) for count in told["counts"]]
        return {"edges": self.edges.tolist(), "counts": counts[:-1], "outside": counts[-1]}


class Quantiles(_Ranged):
    """Quantiles: the values below which these shares of all values from `low` to `high` are. In each round the bin of a
    quantile is cut into `bins`; the answer is within the last one, (high − low) / bins^rounds wide."""

    def __init__(
        self, column: str, shares: Sequence[float], low: float, high: float, *, bins: int = 64, rounds: int = 3
    ) -> None:
        super().__init__(column, low, high)
        if not shares or not all(0 <= share <= 1 for share in shares):
            raise RivuletError(f"quantiles of '{column}' are asked for as shares of 0 to 1, such as [0.25, 0.5, 0.75]")
        if bins < 2 or rounds < 1 or bins**rounds > 1 << 22:
            raise RivuletError("quantiles need 2 bins or more and at most 2^22 in all rounds: bins to the power of rounds")
        self.shares, self.bins, self.rounds = [float(share) for share in shares], bins, rounds

    def first(self) -> Dict[str, Array]:
        asked = len(self.shares)
        return {"bin": np.zeros(asked, np.float32), "counts": np.zeros((asked, self.bins + 2), np.float32)}

    def _width(self, round: int) -> float:
        return (self.high - self.low) / float(self.bins**round)

    def _places(self, told: Mapping[str, Array]) -> Tuple[Array, Array]:
        """Each quantile's bin in the last round, and its place there, from 0 to 1."""
        places, within = [], []
        for bin, counts, share in zip(np.rint(told["bin"]), told["counts"].astype(np.float64), self.shares):
            counts = np.maximum(counts, 0)
            reached = np.cumsum(counts)
            wanted = share * reached[-1]
            # Rounding moves what was told by less than a tenth of a row; the quantile is not before its bin, nor behind.
            least = max(wanted * (1 - 1e-6), reached[-1] * 1e-9)  # the share 0 is the smallest value
            place = min(max(int(np.searchsorted(reached, least)), 1), self.bins)
            before = reached[place - 1]
            places.append(bin * self.bins + place - 1)
            within.append(min(max((wanted - before) / counts[place], 0.0), 1.0) if counts[place] > 0 else 0.5)
        return np.array(places), np.array(within)

    def tell(self, values: Array, told: Mapping[str, Array], round: int) -> Dict[str, Array]:
        bins = np.zeros(len(self.shares)) if round == 1 else self._places(told)[0]
        width = self._width(round)
        most = self.bins**round - 1  # the last one has what lies at the high end
        places = np.minimum(np.floor((self._inside(values) - self.low) / width), most)
        counts = [
            np.bincount(np.clip(places - bin * self.bins, -1, self.bins).astype(np.int64) + 1, minlength=self.bins + 2)
            for bin in bins
        ]
        return {"bin": bins.astype(np.float32), "counts": np.array(counts, np.float32)}

    def answer(self, told: Mapping[str, Array], clients: int) -> List[float]:
        places, within = self._places(told)
        return [float(value) for value in self.low + (places + within) * self._width(self.rounds)]


def _bytes_of(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, (str, int, np.integer)):
        return str(value).encode()
    raise RivuletError(f"{value!r} is a {type(value).__name__}; different values are counted of text, bytes or integers")


class DistinctCount(Question):
    """An estimate of the number of different values: text, bytes or integers. A client reports which of `size` places
    its values hash to, and not how often. The estimate follows from the number of empty places (linear counting, Whang
    et al. 1990). With as many values as places it is within some 1 % for 16,384 places."""

    def __init__(self, column: str, *, size: int = 1 << 14) -> None:
        super().__init__(column)
        if size < 16:
            raise RivuletError(f"values of '{column}' cannot be counted on {size} places; give 16 or more")
        self.size = size

    def first(self) -> Dict[str, Array]:
        return {"there": np.zeros(self.size, np.float32)}

    def tell(self, values: Array, told: Mapping[str, Array], round: int) -> Dict[str, Array]:
        there = np.zeros(self.size, np.float32)
        for value in set(values.tolist()):
            digest = hashlib.blake2b(_bytes_of(value), digest_size=8, person=b"rivulet").digest()
            there[int.from_bytes(digest, "little") % self.size] = 1
        return {"there": there}

    def answer(self, told: Mapping[str, Array], clients: int) -> float:
        empty = int((told["there"] < 0.5 / clients).sum())
        if empty == 0:
            raise RivuletError(
                f"'{self.column}' has more values than {self.size} places can count; ask with a larger size"
            )
        return -self.size * math.log(empty / self.size)


class HeavyHitters(Question):
    """The values that at least `share` of all rows have, with their counts: text, bytes or integers, compared by their
    first `length` bytes. They need not be known before: each round extends the frequent prefixes by a byte. All
    frequent values are found, as a prefix has no fewer rows than its values."""

    def __init__(self, column: str, share: float, *, length: int = 16) -> None:
        super().__init__(column)
        if not 0.001 <= share <= 1 or length < 1:
            raise RivuletError(f"values of '{column}' are heavy from a share of 0.001 to 1 on; and of a length of 1 or more")
        self.share, self.rounds = float(share), length
        self._most = math.floor(1 / self.share + 1e-9)

    def first(self) -> Dict[str, Array]:
        # A byte is its value and 1; 0: the value has ended.
        return {
            "beginnings": np.zeros((self._most, self.rounds), np.float32),
            "counts": np.zeros((self._most, 257), np.float32),
            "rows": np.zeros(1, np.float32),
        }

    def _heavy(self, told: Mapping[str, Array], round: int) -> Tuple[Array, Array]:
        """The frequent prefixes of the last round, `round`, a byte longer than before, and their counts."""
        counts = told["counts"].astype(np.float64)
        least = self.share * float(told["rows"][0]) * (1 - 1e-6)
        found = [] if least <= 0 else [(-counts[at], at) for at in zip(*np.nonzero(counts >= least))]
        chosen = sorted(found)[: self._most]
        beginnings = np.zeros((len(chosen), self.rounds), np.int64)
        for row, (_, (beginning, byte)) in zip(beginnings, chosen):
            row[:] = np.rint(told["beginnings"][beginning])
            row[round - 1] = byte
        return beginnings, np.array([-count for count, _ in chosen])

    def tell(self, values: Array, told: Mapping[str, Array], round: int) -> Dict[str, Array]:
        codes = np.zeros((np.size(values), self.rounds), np.int64)
        for row, value in zip(codes, values.tolist()):
            text = np.frombuffer(_bytes_of(value)[: self.rounds], np.uint8)
            row[: len(text)] = text.astype(np.int64) + 1
        beginnings = np.zeros((1, self.rounds), np.int64) if round == 1 else self._heavy(told, round - 1)[0]
        telling = self.first()
        telling["rows"][0] = len(codes)
        for number, beginning in enumerate(beginnings):
            with_it = codes[(codes[:, : round - 1] == beginning[: round - 1]).all(axis=1)]
            telling["beginnings"][number] = beginning
            telling["counts"][number] = np.bincount(with_it[:, round - 1], minlength=257)
        return telling

    def answer(self, told: Mapping[str, Array], clients: int) -> Dict[str, int]:
        beginnings, counts = self._heavy(told, self.rounds)
        texts = [bytes(code - 1 for code in beginning.tolist() if code > 0) for beginning in beginnings]
        return {text.decode(errors="replace"): _total(count, clients) for text, count in zip(texts, counts)}


class KMeans(Question):
    """Centres of clusters by Lloyd's algorithm over all clients' rows: vectors, or numbers, whose values are from `low`
    to `high` (values beyond are clamped). `first` are the centres that it begins with. A centre that no row is nearest
    to stays where it is."""

    def __init__(self, column: str, first: Any, low: float, high: float, *, rounds: int = 10) -> None:
        super().__init__(column)
        centres = np.asarray(first, np.float64)
        if centres.ndim == 1:
            centres = centres[:, None]
        if centres.ndim != 2 or centres.size == 0 or not low < high or rounds < 1:
            raise RivuletError(f"k-means of '{column}' begins with centres, a row each, and has a range and a round or more")
        self.low, self.high, self.rounds = float(low), float(high), rounds
        self._first = self._shares(centres)

    def _shares(self, values: Array) -> Array:
        return np.clip((values - self.low) / (self.high - self.low), 0.0, 1.0)

    def first(self) -> Dict[str, Array]:
        return {
            "centres": np.zeros(self._first.shape, np.float32),
            "moves": np.zeros(self._first.shape, np.float32),
            "counts": np.zeros(len(self._first), np.float32),
            "squares": np.zeros(1, np.float32),
        }

    def _moved(self, told: Mapping[str, Array]) -> Array:
        counts = told["counts"].astype(np.float64)[:, None]
        there = counts > 1e-9 * max(counts.sum(), 1e-300)
        moves = np.divide(told["moves"].astype(np.float64), counts, out=np.zeros(self._first.shape), where=there)
        return told["centres"].astype(np.float64) + moves

    def tell(self, values: Array, told: Mapping[str, Array], round: int) -> Dict[str, Array]:
        # As all of them read it, whatever was rounded.
        centres = (self._first if round == 1 else self._moved(told)).astype(np.float32)
        rows = self._shares(np.asarray(values, np.float64).reshape(-1, centres.shape[1]))
        telling = self.first()
        telling["centres"][:] = centres
        offsets = rows[:, None, :] - centres.astype(np.float64)[None]
        squares = (offsets**2).sum(axis=2)
        nearest = squares.argmin(axis=1)
        for number in range(len(centres)):
            telling["moves"][number] = offsets[nearest == number, number].sum(axis=0)
        telling["counts"][:] = np.bincount(nearest, minlength=len(centres))
        telling["squares"][0] = squares[np.arange(len(rows)), nearest].sum() / centres.shape[1]
        return telling

    def answer(self, told: Mapping[str, Array], clients: int) -> Dict[str, Any]:
        span = self.high - self.low
        squares = float(told["squares"][0]) * clients * self._first.shape[1] * span**2
        return {
            "centres": self.low + self._moved(told) * span,
            "counts": [_total(count, clients) for count in told["counts"]],
            "squares": squares,  # of the distances to the centres that rows were counted to
        }


Questions = Mapping[str, Question]


class _Telling(Client):
    def __init__(self, questions: Questions, rows: Rows) -> None:
        self._questions = questions
        self._rows = rows
        # Whoever has no row takes part too, and tells zeros.
        self.examples = max([1, *(len(values) for values in rows.values())])

    def fit(self, params: Mapping[str, Array], context: Context) -> Params:
        telling: Dict[str, Array] = {}
        for name, question in self._questions.items():
            if question.column not in self._rows:
                raise RivuletError(f"'{name}' asks for '{question.column}', and there are {', '.join(self._rows)}")
            told = {each: params[f"{name}/{each}"] for each in question.first()}
            values = np.asarray(self._rows[question.column])
            # Once a question is over its last answers stay, while others take more rounds.
            over = context.round > question.rounds
            for each, array in (told if over else question.tell(values, told, context.round)).items():
                telling[f"{name}/{each}"] = array
        return Params(telling, examples=self.examples, metrics={"train_loss": 0.0})


def client(questions: Questions, rows: Rows) -> Client:
    """A client for `rivulet.run_client` that answers these questions of its `rows`, columns by name."""
    return _Telling(questions, rows)


def scenario(
    questions: Questions, clients: int, *, per_round: Optional[int] = None, most_rows: int = 1 << 20
) -> Dict[str, Dict[str, Any]]:
    """The scenario by which so many clients are asked, as `rivulet.simulate` takes it.

    Parameters
    ----------
    questions : mapping
        By names of your own.
    clients : int
        How many there are. All are asked in every round, or `per_round` of them, whose answers are then of these alone.
    most_rows : int
        An upper bound of a client's rows; larger reports are refused.
    """
    if not questions:
        raise RivuletError("there is no question; give one or more by name")
    arrays = {f"{name}/{each}": zeros for name, asked in questions.items() for each, zeros in asked.first().items()}
    return {
        "run": {"name": "analytics", "rounds": max(question.rounds for question in questions.values())},
        "model": {"arrays": arrays},
        "data": {"partition": {"clients": clients}},
        "server": {
            "clients_per_round": per_round or clients,
            "weights": "uniform",
            "value_bits": max(math.ceil(math.log2(most_rows)), 9),
        },
    }


def answers(questions: Questions, run: Run) -> Dict[str, Any]:
    """The answers of a run that has finished, by the names of their questions."""
    rows = run.history.rows(
        "SELECT folded FROM rounds WHERE run_id = ? AND status = 'committed' ORDER BY round DESC LIMIT 1", [run.id]
    )
    if not rows:
        raise RivuletError(f"run '{run.id}' has no round that was answered")
    model, asked = run.model(), int(rows[0]["folded"])
    return {
        name: question.answer({each: model[f"{name}/{each}"] for each in question.first()}, asked)
        for name, question in questions.items()
    }


def ask(
    questions: Questions,
    rows_of: Callable[[str], Rows],
    clients: int,
    *,
    per_round: Optional[int] = None,
    most_rows: int = 1 << 20,
    **simulation: Any,
) -> Dict[str, Any]:
    """Asks virtual clients, and waits for the answers.

    Parameters
    ----------
    questions, clients, per_round, most_rows
        As of `scenario`.
    rows_of : callable
        Gives the rows of a client by its name, ``client-00000`` and so on: columns by name, in one of the processes that
        answer.
    **simulation
        More of `rivulet.simulate`: ``db``, ``workers``, ``set``.
    """
    from rivulet._simulation import simulate

    asked = scenario(questions, clients, per_round=per_round, most_rows=most_rows)
    run = simulate(asked, client_fn=lambda name: client(questions, rows_of(name)), **simulation)
    return answers(questions, run)
