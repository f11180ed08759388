"""A site of many names: does a client's part (rivulet._agent) for whoever its tasks are for."""

import contextlib
import logging
import os
import time
from typing import Any, Callable

from rivulet._agent import _HOLD_MS, _Agent, _seed
from rivulet._client import Client, Context
from rivulet._client_state import DROPPED, FOLDED, ClientState, proposed_beside
from rivulet._connection import CallError, Connection
from rivulet._errors import RivuletError
from rivulet._plan import Plan
from rivulet._virtual import ClientFn

_ANY = 1  # Serves::Kind
_AT_ONCE_SECONDS, _MOST_TASKS = 0.05, 64  # what is asked for at once is about so much work
_MOST_EARLIER = 8  # states of a client that a run keeps for when the program dies with versions that it had not written
_HEARS_SECONDS, _LOOK_SECONDS = 2.0, 0.001


def _await_no(proposal: str) -> None:
    """A client's last task may have been another worker's, which has not heard yet that it counts. The proposal of one
    that died without hearing it is in no version."""
    until = time.monotonic() + _HEARS_SECONDS
    while os.path.exists(proposal):
        if time.monotonic() > until:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(proposal)
            return
        time.sleep(_LOOK_SECONDS)


class _Nobody(Client):
    """Before the first task."""

    def fit(self, params: Any, context: Context) -> Any:
        raise NotImplementedError


class _Site(_Agent):
    def __init__(
        self, client_fn: ClientFn, connection: Connection, name: str, folder: str, tell: Callable[[BaseException], None]
    ) -> None:
        super().__init__(_Nobody(), connection, name, "", ClientState(None))
        self._client_fn = client_fn
        self._folder = folder
        self._tell = tell
        self._want = 1

    def _request(self, **fields: Any) -> Any:
        request = super()._request(**fields)
        request.serves = _ANY
        request.ClearField("capabilities")
        request.capabilities.protocol = 1
        return request

    def _plan_of(self, task: Any, context: Context) -> Plan:
        plan = super()._plan_of(task, context)
        self._dataset = plan.dataset(task.kind)  # whose data it is, is the client's affair
        return plan

    def _raised(self, error: BaseException) -> None:
        self._tell(error)

    def _client_of(self, task: Any) -> Client:
        client = self._client_fn(task.client_id)
        if not hasattr(client, "fit"):
            given = type(client).__name__
            raise RivuletError(f"client_fn gave a {given} for '{task.client_id}'; it gives a rivulet.Client")
        return client

    def _train(self, task: Any) -> None:
        # A client's next task may be another worker's: what it keeps lies where all of them find it.
        path = os.path.join(self._folder, task.run_id, "python", f"{task.client_id}.safetensors")
        _await_no(proposed_beside(path))
        self._state = ClientState(path, _MOST_EARLIER)
        self._run_id = task.run_id
        context = Context(
            run=task.run_id,
            client=task.client_id,
            task=task.id,
            round=task.base_version + 1,
            seed=_seed(task),
            state=self._state.of(task.run_id, task.base_version + 1),
        )
        useful = self.perform(task, context)
        self._state.hear(task.id, FOLDED if useful else DROPPED)

    def serve(self, wanted: Callable[[], bool]) -> None:
        told = False
        while wanted():
            try:
                reply = self._connection.poll(self._request(want=self._want, hold_ms=_HOLD_MS, told=told))
            except CallError as error:
                if not error.transient:
                    raise
                time.sleep(0.05)
                continue
            if reply.HasField("over"):
                return
            told = not reply.tasks
            began = time.perf_counter()
            for task in reply.tasks:
                self._train(task)
            if reply.tasks:
                each = (time.perf_counter() - began) / len(reply.tasks)
                self._want = max(1, min(_MOST_TASKS, int(_AT_ONCE_SECONDS / each)))
            else:
                time.sleep(min(max(reply.wait_ms, 1), 1000) / 1000)


def serve(
    client_fn: ClientFn,
    address: str,
    name: str,
    folder: str,
    tell: Callable[[BaseException], None],
    wanted: Callable[[], bool],
) -> None:
    """Train for whoever is drawn until the run is over, or `wanted` says no."""
    logging.getLogger("rivulet").setLevel(logging.CRITICAL + 1)  # the run's history has it, for all clients
    connection = Connection(address)
    try:
        _Site(client_fn, connection, name, folder, tell).serve(wanted)
    except CallError as error:
        raise RivuletError(str(error)) from None
    finally:
        connection.close()
