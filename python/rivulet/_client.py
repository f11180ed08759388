"""rivulet.Client and rivulet.run_client: a client, its inputs and its results."""

import abc
import threading
from typing import Any, Dict, Mapping, Optional, Sequence, Union

from rivulet._arrays import Array
from rivulet._errors import RivuletError
from rivulet._files import PathLike


class Params:
    """A model that was trained, as it is now.

    Parameters
    ----------
    arrays : mapping
        The value of every variable that a model shares, by name, with the type and shape that `fit` was given. Frozen
        variables, and those of the base, may be left out.
    examples : int
        How many examples it was trained on; at least 1. Its weight, under most aggregations.
    metrics : mapping, optional
        Numbers that the plan declares, by name: ``train_loss`` is one of every plan. ``steps`` may be reported too.
    """

    def __init__(
        self, arrays: Mapping[str, Any], *, examples: int, metrics: Optional[Mapping[str, Any]] = None
    ) -> None:
        self.arrays = arrays
        self.examples = examples
        self.metrics = metrics


class Delta(Params):
    """An update of the model: the trained values less the values given to `fit`.

    Parameters
    ----------
    arrays, examples, metrics
        As of `Params`.
    """


class Evaluation:
    """Measurements of a model on a client's examples.

    Parameters
    ----------
    examples : int
        How many they are; at least 1.
    metrics : mapping
        Numbers that the plan declares, by name: ``loss``, ``accuracy``.
    """

    def __init__(self, *, examples: int, metrics: Mapping[str, Any]) -> None:
        self.examples = examples
        self.metrics = metrics


class Context:
    """The facts of a task, beside its model.

    Attributes
    ----------
    run : str
        The run's id.
    client : str
        This client's name.
    task : str
        The task's id, as in the history's `client_rounds`.
    round : int
        The round that the update is for: 1, 2, …
    seed : int
        64 bits of this client's own for this task. A retry of the task has the same seed, so draws from it repeat.
        Other clients cannot derive it.
    numbers : dict of str to int
        The scenario's numbers for training: ``epochs``, ``batch_size``, ``max_steps`` (0: no bound).
    state : dict of str to array
        The client's state from task to task. Values that `fit` stores here are kept once its update is in a version of
        the model, and dropped otherwise. `rivulet.run_client` keeps it in a file on demand.
    base : str or None
        The file or folder on this machine that has the model's base, for libraries that load it themselves. Its tensors
        are in `params` too, as read-only views of the file. None: the model has no base.
    """

    def __init__(
        self,
        *,
        run: str = "",
        client: str = "",
        task: str = "",
        round: int = 1,
        seed: int = 0,
        numbers: Optional[Mapping[str, int]] = None,
        state: Optional[Mapping[str, Array]] = None,
    ) -> None:
        self.run = run
        self.client = client
        self.task = task
        self.round = round
        self.seed = seed
        self.numbers = dict(numbers or {})
        self.state: Dict[str, Any] = dict(state or {})
        self.base: Optional[str] = None
        self._cancelled = threading.Event()

    @property
    def cancelled(self) -> bool:
        """Whether the coordinator needs this task no longer. `fit` may then return or raise anything."""
        return self._cancelled.is_set()


class Client(abc.ABC):
    """Trains a model on local examples, with any training code.

    Attributes
    ----------
    examples : int
        The number of examples that it reports when it joins. A run may refuse clients with too many or too few. The
        weight of an update follows from the number that `fit` returns.
    """

    examples: int = 1

    @abc.abstractmethod
    def fit(self, params: Dict[str, Array], context: Context) -> Union[Params, Delta]:
        """Train.

        Parameters
        ----------
        params : dict of str to array
            The model to begin with, by name, in Rivulet's layout, its base's tensors last. The arrays are read-only:
            copy an array to change it.
        context : Context
            The facts of the task.

        Returns
        -------
        Params or Delta
            The trained model, or its difference from `params`. The class decides which.
        """

    def evaluate(self, params: Dict[str, Array], context: Context) -> Evaluation:
        """Evaluate a model. A client without this method takes no part in federated evaluation.

        Parameters
        ----------
        params, context
            As of `fit`.

        Returns
        -------
        Evaluation
        """
        raise NotImplementedError


def run_client(
    client: Client,
    coordinator: Optional[str] = None,
    *,
    name: Optional[str] = None,
    kit: Optional[PathLike] = None,
    dataset: str = "train",
    tags: Sequence[str] = (),
    state: Optional[PathLike] = None,
    state_dir: Optional[PathLike] = None,
    hold_megabytes: int = 2000,
    base: Optional[Mapping[str, PathLike]] = None,
    base_dir: Optional[PathLike] = None,
    base_megabytes: int = 100_000,
    insecure: bool = False,
) -> str:
    """Take part in a run until it is over.

    Progress goes to the logger ``rivulet``: waiting, training and sending on level INFO, faults as WARNING and ERROR.

    Parameters
    ----------
    client : Client
        Trains.
    coordinator : str, optional
        Its address, ``HOST:PORT``. Default: the kit's.
    name : str, optional
        This client's name, the same at every start. With a kit it is the certificate's.
    kit : path, optional
        The folder of a start-up kit (``rivulet ca kit client/NAME``, docs/guide/certificates.md): this client shows the
        kit's certificate, and speaks TLS with a coordinator of the same authority only. Default: plain text, which is
        for a coordinator on this machine.
    dataset : str
        The data set that the client has: plans say by name on which they train.
    tags : sequence of str
        Words about that data set, which the client shows a coordinator: a run may be of clients with some tag alone
        (``selection.tags``). Nothing else about the data leaves.
    state : path, optional
        A file to keep `Context.state` in. Default: one below `state_dir`; without that it is kept as long as this call
        lasts.
    state_dir : path, optional
        A folder for data that outlasts this process: `Context.state`, and every finished update, from before it is sent
        until the version that it is in is on the coordinator's disk. Where this process or the coordinator is killed
        before, the update is sent again and `fit` is not called again. It may be the same folder for several clients.
        Default: nothing is held.
    hold_megabytes : int
        Limit for the finished updates there. The oldest gives way; 0 holds none.
    base : mapping of str to path, optional
        Own copies of bases, by digest: a safetensors file, or a folder with Hugging Face's index. They are compared at
        once, and nothing of them travels.
    base_dir : path, optional
        A folder for the bases that are fetched, which all clients of a machine may share. Default:
        ``$XDG_CACHE_HOME/rivulet/bases``, or ``~/.cache/rivulet/bases``.
    base_megabytes : int
        Limit for that folder. The base that was not used for the longest time gives way.
    insecure : bool
        Speak plain text to a coordinator that is not on this machine. The network between can then read and change
        messages.

    Returns
    -------
    str
        How the run ended, as the coordinator says it.

    Raises
    ------
    RivuletError
        The run failed, or the coordinator turned this client away: its sentence.
    """
    authority = None
    if kit is not None:
        from rivulet._kit import Kit

        authority = Kit(kit)
        if insecure:
            raise RivuletError("kit= is for certificates and insecure= for none; give one of them")
        if name is not None and name != authority.name:
            raise RivuletError(f"the kit '{authority.folder}' is of client '{authority.name}', not '{name}'; leave name out")
        name, coordinator = authority.name, coordinator or authority.coordinator
    if name is None:
        raise RivuletError("the client has no name; give kit=, or name= if the coordinator takes plain text")
    if coordinator is None:
        raise RivuletError("the coordinator's address is missing; give its HOST:PORT")
    examples = client.examples
    if isinstance(examples, bool) or not isinstance(examples, int) or examples < 1:
        raise RivuletError(f"client '{name}' has examples = {examples!r}; it is how many it has, at least 1")
    if isinstance(tags, str) or not all(isinstance(tag, str) and tag for tag in tags):
        raise RivuletError(f"tags = {tags!r}; they are a list of words, such as ['icu']")
    if isinstance(hold_megabytes, bool) or not isinstance(hold_megabytes, int) or hold_megabytes < 0:
        raise RivuletError(f"hold_megabytes = {hold_megabytes!r}; it is a whole number, and 0 holds nothing")
    if isinstance(base_megabytes, bool) or not isinstance(base_megabytes, int) or base_megabytes < 0:
        raise RivuletError(f"base_megabytes = {base_megabytes!r}; it is a whole number")
    from rivulet._base import Bases

    bases = Bases(base, base_dir, base_megabytes)
    from rivulet import _agent, _connection  # and with them Protobuf, which nothing else needs

    connection = _connection.Connection(coordinator, insecure=insecure, kit=authority)
    return _agent.work(client, connection, name, dataset, tags, state, state_dir, hold_megabytes, bases)
