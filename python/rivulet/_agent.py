"""A client's part in a run.

    poll ──→ task ──→ fetch plan and model ──→ fit (a heartbeat keeps the lease) ──→ submit ──→ poll …

It has the steps of client/agent/agent.h and client/agent/task_runner.h of the repository, in the same order.
"""

import hashlib
import os
import secrets
import struct
import sys
import time
import traceback
from typing import Any, BinaryIO, Optional, Sequence, Set, Tuple

from rivulet import _protocol
from rivulet._arrays import Pages
from rivulet._base import Base, Bases, NoBase, refused
from rivulet._backoff import LONGEST_WAIT_MS, Backoff
from rivulet._client import Client, Context, Evaluation, Params
from rivulet._client_state import ClientState
from rivulet._connection import CallError, Connection
from rivulet._download import Download, FileDownload
from rivulet._errors import RivuletError, clean
from rivulet._files import PathLike
from rivulet._heartbeat import Heartbeat
from rivulet._held import Finished, HeldUpdates, digits
from rivulet._logging import log as _log
from rivulet._plan import EVALUATE, MOST_PLAN_BYTES, TRAIN, CannotDo, Plan
from rivulet._safetensors import Tensors
from rivulet._update import BadResult, Message, scalars_of, write_evaluation, write_update
from rivulet._upload import Upload

_PROTOCOL = 1
_HOLD_MS = 20_000
_TRANSFER_TRIES = 3  # of what arrives damaged
# A task whose blob is not there is given back so often before it is told to have failed, each time after a pause.
_TIMES_LOST = 3
_LOST_PAUSE_SECONDS = 0.1
_BYTES, _MODEL, _BASE = 0, 1, 3  # BlobId::Form
_ACCEPTED, _DUPLICATE = 0, 1  # SubmitResult::Kind

class _Cancelled(Exception):
    """The coordinator needs the task no longer."""


def _seed(task: Any) -> int:
    drawn = struct.pack("<QqIi", task.stream_key, task.base_version, task.ordinal, task.kind)  # as wide as on the wire
    return int.from_bytes(hashlib.sha256(b"RVPY" + drawn).digest()[:8], "little")


def _where(error: BaseException) -> str:
    """The line that raised it, of the last file that is not this package's. A place in a program is no one's data."""
    frames = [
        f"{os.path.basename(frame.filename)}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if os.path.dirname(frame.filename) != os.path.dirname(__file__)
    ]
    return f" at {frames[-1]}" if frames else ""


class _Agent:
    def __init__(
        self,
        client: Client,
        connection: Connection,
        name: str,
        dataset: str,
        state: ClientState,
        held: Optional[HeldUpdates] = None,
        tags: Sequence[str] = (),
        bases: Optional[Bases] = None,
    ) -> None:
        self._client = client
        self._bases = bases if bases is not None else Bases()
        self._connection = connection
        self._name = name
        self._dataset = dataset
        self._state = state
        self._held = held
        self._tags = tags
        self._run_id = ""
        self._session = secrets.randbits(64)
        self._plan: Tuple[bytes, Optional[Plan]] = (b"", None)
        self._model: Tuple[bytes, Optional[Tensors]] = (b"", None)
        self._pages = Pages()
        self._dropped: Set[str] = set()
        self._lost: Tuple[str, int] = ("", 0)  # the task whose blob was not there, and how often in a row

    # Calls, repeated where that may mend them.

    def _caller(self, caller: Any) -> None:
        caller.name, caller.run_id, caller.session = self._name, self._run_id, self._session

    def _request(self, **fields: Any) -> Any:
        request = _protocol.PollRequest(**fields)
        self._caller(request.caller)
        request.capabilities.version = f"python {sys.version_info[0]}.{sys.version_info[1]}"
        request.capabilities.protocol = _PROTOCOL
        request.capabilities.datasets.add(name=self._dataset, examples=self._client.examples, tags=self._tags)
        return request

    def _pause(self, error: CallError, backoff: Backoff, context: Optional[Context] = None) -> None:
        """Waits for the next try, or raises errors that waiting does not mend."""
        if context is not None and context.cancelled:
            raise _Cancelled
        if not error.transient:
            raise error
        wait_ms = backoff.next_ms()
        _log.warning("%s: %s; trying again in %.1f s", self._name, error, wait_ms / 1000)
        if context is None:
            time.sleep(wait_ms / 1000)
        elif context._cancelled.wait(wait_ms / 1000):
            raise _Cancelled

    def _poll(self, told: bool) -> Any:
        backoff = Backoff(self._name)
        while True:
            try:
                return self._connection.poll(self._request(want=1, hold_ms=_HOLD_MS, told=told))
            except CallError as error:
                if error.code == "NOT_FOUND" and self._run_id:
                    self._run_id = ""  # the coordinator serves another run by now: this client works for that one
                else:
                    self._pause(error, backoff)

    def _fetch(self, form: int, digest: bytes, most: int, context: Context) -> memoryview:
        backoff = Backoff(self._name)
        download = Download(self._pages, most)
        damaged = 0
        while True:
            before = download.size
            request = _protocol.FetchRequest(offset=before)
            self._caller(request.caller)
            request.id.form, request.id.digest = form, digest
            try:
                blob = download.receive(self._connection, request)
                # A model's digest is of what is in the file, and whoever parses it compares.
                if form == _MODEL or hashlib.sha256(blob).digest() == digest:
                    return blob
                download.forget()
                raise CallError(
                    "DATA_LOSS", f"{len(blob)} bytes arrived for blob {digest.hex()}, whose digest is another"
                )
            except CallError as error:
                if download.size > before:
                    backoff.reset()
                damaged += error.code == "DATA_LOSS"
                # A few tries: what is wrong again and again is wrong where it comes from.
                if error.code != "DATA_LOSS" or damaged == _TRANSFER_TRIES:
                    self._pause(error, backoff, context)

    def _submit(self, task: Any, message: Message, seconds: float, context: Context) -> Any:
        """Sends an update from the first block not staged yet, until the coordinator reports the outcome."""
        backoff = Backoff(self._name)
        upload = Upload(self._header(task, len(message), seconds), message, task.step)
        damaged = 0
        while True:
            furthest = upload.furthest
            try:
                result = upload.send(self._connection)
            except CallError as error:
                # Waits start over only when more has been staged than ever before: a connection that breaks at the same
                # byte each time is not tried again without a pause.
                if upload.furthest > furthest:
                    backoff.reset()
                damaged += error.code == "DATA_LOSS"
                # Full staging empties as other updates are folded.
                if error.code == "RESOURCE_EXHAUSTED" or (error.code == "DATA_LOSS" and damaged < _TRANSFER_TRIES):
                    error = CallError("UNAVAILABLE", str(error))
                self._pause(error, backoff, context)
            else:
                if upload.offset > 0:
                    size = len(message)
                    _log.info("%s: the upload went on at byte %d of %d", self._name, upload.offset, size)
                return result

    def _header(self, task: Any, size: int, seconds: float) -> Any:
        header = _protocol.SubmitMessage()
        self._caller(header.header.caller)
        submission = header.header.submission
        submission.task, submission.step, submission.bytes, submission.train_seconds = task.id, task.step, size, seconds
        return header

    # One task.

    def _plan_of(self, task: Any, context: Context) -> Plan:
        digest, plan = self._plan
        if plan is None or digest != task.plan:
            plan = Plan(bytes(self._fetch(_BYTES, task.plan, MOST_PLAN_BYTES, context)))
            self._plan = (task.plan, plan)
        return plan

    def _model_of(self, task: Any, plan: Plan, context: Context) -> Tensors:
        for blob in task.inputs:
            if blob.name == "model" and blob.id.form == _MODEL:
                break
        else:
            raise CannotDo(
                CannotDo.BAD_MODEL,
                "",
                f"task {task.id} names no model to start from; is the coordinator newer than this client?",
            )
        digest, model = self._model
        if model is None or digest != blob.id.digest:
            self._model = (b"", None)  # a version that nobody needs goes before the next one comes
            del model
            content = self._fetch(_MODEL, blob.id.digest, plan.most_model_bytes, context)
            model = plan.model(content, blob.id.digest)
            del content
            self._model = (blob.id.digest, model)
        return model

    def _base_of(self, plan: Plan, context: Context) -> Base:
        """The plan's base, fetched where no process of this user has done so before."""
        try:
            base = self._bases.of(plan.base, plan.most_base_bytes, lambda file: self._fetch_base(plan, file, context))
        except NoBase as error:
            raise CannotDo(CannotDo.BAD_MODEL, "base", str(error)) from error
        found = {name: array.shape for name, array in base.arrays.items()}
        if found != {variable.name: variable.shape for variable in plan.base_variables}:
            sentence = f"plan '{plan.name}' lists other tensors than its base {plan.base} has; it is damaged"
            raise CannotDo(CannotDo.BAD_PLAN, "", sentence)
        return base

    def _fetch_base(self, plan: Plan, file: BinaryIO, context: Context) -> None:
        backoff = Backoff(self._name)
        download = FileDownload(file, plan.most_base_bytes)
        damaged = 0
        _log.info("%s: fetching the base %s, from byte %d", self._name, plan.base, download.size)
        while True:
            before = download.size
            request = _protocol.FetchRequest(offset=before)
            self._caller(request.caller)
            request.id.form, request.id.digest = _BASE, bytes.fromhex(plan.base)
            try:
                download.receive(self._connection, request)
                _log.info("%s: the base has %d bytes", self._name, download.size)
                return
            except CallError as error:
                if error.code in ("FAILED_PRECONDITION", "NOT_FOUND", "INVALID_ARGUMENT", "OUT_OF_RANGE"):
                    if error.code == "OUT_OF_RANGE" and before > 0:  # what an earlier process kept is no part of it
                        download.forget()
                        continue
                    raise refused(plan.base, str(error)) from error
                if download.size > before:
                    backoff.reset()
                damaged += error.code == "DATA_LOSS"
                if error.code != "DATA_LOSS" or damaged == _TRANSFER_TRIES:
                    self._pause(error, backoff, context)

    def _client_of(self, task: Any) -> Client:
        return self._client

    def _propose(self, task: Any, context: Context) -> None:
        """Keeps a task's proposed state, before its update is sent."""
        self._state.propose(task.run_id, context.round, task.id, context.state)

    def _raised(self, error: BaseException) -> None:
        """Handles errors in a client's own code."""

    def _found(self, task: Any) -> Optional[Finished]:
        """The finished work of a task, with its state for the next one."""
        if self._held is None or task.kind != TRAIN:
            return None
        found = self._held.find(task)
        return None if found is None or (found.proposes and not self._state.has(task.id)) else found

    def _done(self, task: Any, what: str, context: Context) -> Tuple[Message, float, str]:
        """Does a task, unless that was done before: the update, the seconds that it took, and words for the log."""
        if task.kind not in (TRAIN, EVALUATE):
            sentence = f"task {task.id} is of kind {task.kind}, which this package does not know"
            raise CannotDo(CannotDo.UNIMPLEMENTED, f"tasks of kind {task.kind}", sentence)
        plan = self._plan_of(task, context)
        dataset = plan.dataset(task.kind)
        if dataset != self._dataset:
            sentence = f"plan '{plan.name}' is about data set '{dataset}', and this client has '{self._dataset}'"
            raise CannotDo(CannotDo.NO_EXAMPLES, dataset, sentence)
        found = self._found(task)
        if found is not None:
            return found.message, found.seconds, "sent the stored update"
        model = self._model_of(task, plan, context)
        context.numbers = plan.numbers(task.kind)
        given = Tensors(model, model.metadata)
        if plan.base:
            base = self._base_of(plan, context)
            given.update(base.arrays)
            context.base = base.path
        began = time.perf_counter()
        try:
            result = getattr(self._client_of(task), what)(Tensors(given, model.metadata), context)
        except NotImplementedError as error:
            sentence = f"this client does not say how to {what}"
            raise CannotDo(CannotDo.UNIMPLEMENTED, f"how to {what}", sentence) from error
        seconds = time.perf_counter() - began
        if context.cancelled:
            raise _Cancelled
        if not isinstance(result, Params if task.kind == TRAIN else Evaluation):
            wanted = "rivulet.Params or rivulet.Delta" if task.kind == TRAIN else "rivulet.Evaluation"
            given = type(result).__name__
            raise BadResult(f"it gave a {given}", f"{what} gave a {given}; it gives {wanted}")
        scalars, dropped = scalars_of(result, what, plan, task.kind)
        for name in dropped:
            if name not in self._dropped:
                self._dropped.add(name)
                takes = ", ".join(sorted(plan.declared(task.kind)))
                _log.warning(
                    "%s: the plan takes no metric '%s', and it is not sent; it takes %s", self._name, name, takes
                )
        if isinstance(result, Params):
            message: Message = write_update(result, scalars, plan, given)
            self._propose(task, context)
            if self._held is not None:  # on the disk before the first byte of it is sent
                self._held.keep(task, Finished(message, seconds, self._state.has(task.id)))
        else:
            message = write_evaluation(scalars)
        return message, seconds, ", ".join(f"{name} {value:.6g}" for name, value in scalars.items())

    def perform(self, task: Any, context: Context) -> bool:
        """A task always ends in one of two ways: with an update, or with a reason to the coordinator, which would
        otherwise wait for this client until its deadline. Whether it came to something."""
        round_ = f"{self._name}: round {context.round}"
        what = "fit" if task.kind == TRAIN else "evaluate"
        times_lost = self._lost[1] if self._lost[0] == task.id else 0
        self._lost = ("", 0)
        failure: Optional[CannotDo] = None
        message: Optional[Message] = None
        try:
            made, seconds, words = self._done(task, what, context)
            message = made
            result = self._submit(task, made, seconds, context)
            if result.kind not in (_ACCEPTED, _DUPLICATE):
                if self._held is not None:
                    self._held.drop(task.id, result.reason)
                _log.warning("%s: refused: %s", round_, result.reason)
                return False
            _log.info("%s: %s, %.2f s, %d bytes uploaded", round_, words, seconds, len(made))
            return True
        except _Cancelled:
            pass
        except CallError as error:
            if error.turned_away:
                raise
            # The task went while this client trained or sent; told to have failed, it might do so under the same
            # name, in which a coordinator that was started again has offered it anew.
            if error.code in ("NOT_FOUND", "ABORTED") and message is not None:
                _log.info("%s: too late: %s", round_, error)
                return False
            if error.code == "NOT_FOUND":
                # A coordinator that was killed may have lost the version that this task begins with, and makes it
                # again; the task is then offered under the same name. Told to have failed, it would go to another
                # client, and other clients would make the version than without the crash. So the coordinator is asked
                # whether it still knows of it.
                self._lost = (task.id, times_lost + 1)
                if times_lost + 1 < _TIMES_LOST:
                    _log.info("%s: %s; asking whether the task is still there", round_, error)
                    context._cancelled.wait(_LOST_PAUSE_SECONDS)
                    return False
            failure = CannotDo(0, "", str(error))
        except CannotDo as error:
            failure = error
        except BadResult as error:
            self._raised(error)
            failure = CannotDo(CannotDo.RAISED, f"{what} ({error.fact})", str(error))
        except Exception as error:
            # The text of an exception may hold what this client has. Its type, and the place in the program, do not.
            if not context.cancelled:
                self._raised(error)
                _log.exception("%s: %s raised", round_, what)
            failure = CannotDo(CannotDo.RAISED, f"{what} ({type(error).__name__}{_where(error)})", "")
        if failure is None or context.cancelled:
            _log.info("%s: too late: the coordinator needs it no longer", round_)
            return False
        if str(failure):
            _log.error("%s: failed: %s", round_, failure)
        self._fail(task, failure, context)
        return False

    def _fail(self, task: Any, failure: CannotDo, context: Context) -> None:
        request = _protocol.FailRequest()
        self._caller(request.caller)
        request.failure.task, request.failure.code, request.failure.subject = task.id, failure.code, failure.subject
        backoff = Backoff(self._name)
        while True:
            try:
                self._connection.fail(request)
                return
            except CallError as error:
                if error.code == "NOT_FOUND":
                    return
                try:
                    self._pause(error, backoff, context)
                except _Cancelled:
                    return

    # The run.

    def run(self) -> str:
        told = False
        awaited = ""
        idle = Backoff(self._name)  # after tasks that came to nothing: the same may be offered again at once
        while True:
            reply = self._poll(told)
            for outcome in reply.outcomes:
                self._state.hear(outcome.task, outcome.end, outcome.durable)
                if self._held is not None:
                    self._held.settle(outcome)
            if reply.HasField("over"):
                return self._end(reply.over)
            told = not reply.tasks
            if not reply.tasks:
                if reply.awaited.sentence != awaited:
                    awaited = reply.awaited.sentence
                    _log.info("%s: waiting: %s", self._name, awaited)
                time.sleep(min(max(reply.wait_ms, 1), LONGEST_WAIT_MS) / 1000)
            for task in reply.tasks:
                awaited = ""
                self._run_id = task.run_id
                context = Context(
                    run=task.run_id,
                    client=self._name,
                    task=task.id,
                    round=task.base_version + 1,
                    seed=_seed(task),
                    state=self._state.of(task.run_id, task.base_version + 1),
                )
                doing = "evaluating" if task.kind == EVALUATE else "training"
                _log.info("%s: round %d: %s", self._name, context.round, doing)

                def cancel(context: Context = context) -> None:
                    context._cancelled.set()
                    self._connection.cancel_streams()

                beat = self._request()
                beat.working_on.add(task=task.id)
                with Heartbeat(self._connection, beat, reply.wait_ms, cancel) as heartbeat:
                    useful = self.perform(task, context)
                if heartbeat.over is not None:
                    return self._end(heartbeat.over)
                if useful:
                    idle.reset()
                else:
                    time.sleep(idle.next_ms() / 1000)

    def _end(self, over: Any) -> str:
        sentence = clean(over.sentence) or "the run is over"
        if over.failed:  # it may be resumed, and then asks for what it had not written
            raise RivuletError(sentence)
        if self._held is not None and self._run_id:
            self._held.run_is_over(self._run_id)
        return sentence


def work(
    client: Client,
    connection: Connection,
    name: str,
    dataset: str,
    tags: Sequence[str],
    state: Optional[PathLike],
    state_dir: Optional[PathLike],
    hold_megabytes: int,
    bases: Bases,
) -> str:
    """As `rivulet.run_client` says; closes the connection."""
    try:
        held = None
        if state_dir is not None:
            folder = os.path.join(os.fspath(state_dir), digits(name))
            state = os.path.join(folder, "state.safetensors") if state is None else state
            if hold_megabytes > 0:
                held = HeldUpdates(os.path.join(folder, "updates"), name, hold_megabytes * 1_000_000)
        return _Agent(client, connection, name, dataset, ClientState(state), held, tags, bases).run()
    except CallError as error:
        raise RivuletError(str(error)) from None
    finally:
        connection.close()
