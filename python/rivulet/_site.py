"""A site of many names: does the part of many clients (rivulet._agent), one for each task.

Clients that train for a moment would mostly wait. So tasks are requested in batches, and a small update is sent without
waiting for its outcome. Outcomes are read at the end of the batch, and failed uploads are retried then.
"""

import logging
import os
import time
from typing import Any, Callable, List, NamedTuple

from rivulet import _protocol
from rivulet._agent import _ACCEPTED, _HOLD_MS, _Agent, _seed
from rivulet._client import Client, Context
from rivulet._client_state import ClientState
from rivulet._connection import CallError, Connection
from rivulet._errors import RivuletError
from rivulet._plan import CannotDo, Plan
from rivulet._site_states import SiteState
from rivulet._update import Message
from rivulet._upload import Begun, Upload
from rivulet._virtual import ClientFn

_ANY = 1  # Serves::Kind
_AT_ONCE_SECONDS, _MOST_TASKS = 0.05, 16  # what is asked for at once is about so much work
# They travel side by side over one connection; and only what is small is kept in memory.
_MOST_UNDER_WAY, _UNDER_WAY_BYTES = 16, 256 * 1024


class _Nobody(Client):
    """Before the first task."""

    def fit(self, params: Any, context: Context) -> Any:
        raise NotImplementedError


class _UnderWay(NamedTuple):
    task: Any
    context: Context
    message: Message
    seconds: float
    begun: Begun


class _Site(_Agent):
    def __init__(
        self, client_fn: ClientFn, connection: Connection, name: str, folder: str, tell: Callable[[BaseException], None]
    ) -> None:
        super().__init__(_Nobody(), connection, name, "", ClientState(None))
        self._client_fn = client_fn
        self._folder = folder
        self._tell = tell
        self._want = 1
        self._kept = SiteState(folder, "", "")
        self._under_way: List[_UnderWay] = []

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

    def _propose(self, task: Any, context: Context) -> None:
        self._kept.propose(task.run_id, context.round, task.id, context.state)

    def _submit(self, task: Any, message: Message, seconds: float, context: Context) -> Any:
        if len(message) > _UNDER_WAY_BYTES:
            return super()._submit(task, message, seconds, context)
        if len(self._under_way) == _MOST_UNDER_WAY:
            self._hear(self._under_way.pop(0))
        # What it is made of may be another's by the time that it has to be sent again.
        message = Message([bytes(message)])
        try:
            begun = Upload(self._header(task, len(message), seconds), message, task.step).begin(self._connection)
        except CallError:
            return super()._submit(task, message, seconds, context)
        self._under_way.append(_UnderWay(task, context, message, seconds, begun))
        return _protocol.SubmitResult(kind=_ACCEPTED)  # as far as is known by now

    def _hear(self, sent: _UnderWay) -> None:
        try:
            sent.begun.result()
        except CallError as error:
            if error.turned_away:
                raise
            try:
                super()._submit(sent.task, sent.message, sent.seconds, sent.context)
            except CallError as again:
                if again.turned_away:
                    raise
                if again.code != "NOT_FOUND":  # which says that the task went meanwhile
                    self._fail(sent.task, CannotDo(0, "", str(again)), sent.context)

    def _train(self, task: Any) -> None:
        self._run_id = task.run_id
        context = Context(
            run=task.run_id, client=task.client_id, task=task.id, round=task.base_version + 1, seed=_seed(task)
        )
        if os.path.basename(task.run_id) != task.run_id or task.run_id in ("", ".", ".."):
            failure = CannotDo(CannotDo.UNIMPLEMENTED, "this run's name", f"'{task.run_id}' is the name of no run")
            self._fail(task, failure, context)
            return
        self._kept = SiteState(os.path.join(self._folder, task.run_id, "python"), task.client_id, task.state_of)
        try:
            context.state.update(self._kept.kept())
        except RivuletError as error:
            self._tell(error)
            self._fail(task, CannotDo(CannotDo.RAISED, "fit (its state cannot be read)", str(error)), context)
            return
        self.perform(task, context)

    def _bunch(self, tasks: List[Any]) -> None:
        began = time.perf_counter()
        for task in tasks:
            self._train(task)
        while self._under_way:
            self._hear(self._under_way.pop(0))
        each = (time.perf_counter() - began) / len(tasks)
        self._want = max(1, min(_MOST_TASKS, int(_AT_ONCE_SECONDS / each)))

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
            if reply.tasks:
                self._bunch(list(reply.tasks))
            else:
                time.sleep(min(max(reply.wait_ms, 1), 1000) / 1000)

    def close(self) -> None:
        for sent in self._under_way:
            sent.begun.close()


def serve(
    client_fn: ClientFn,
    address: str,
    name: str,
    folder: str,
    tell: Callable[[BaseException], None],
    wanted: Callable[[], bool],
) -> None:
    """Train for the drawn clients until the run is over, or `wanted` says no."""
    logging.getLogger("rivulet").setLevel(logging.CRITICAL + 1)  # the run's history has it, for all clients
    connection = Connection(address)
    site = _Site(client_fn, connection, name, folder, tell)
    try:
        site.serve(wanted)
    except CallError as error:
        raise RivuletError(str(error)) from None
    finally:
        site.close()
        connection.close()
