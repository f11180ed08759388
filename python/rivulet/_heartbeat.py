"""Heartbeats of a task from a separate thread, as often as the coordinator asks for them.

They keep the task's lease during long training. Their replies say when the task is needed no longer.
"""

import threading
from typing import Any, Callable, Optional

from rivulet._connection import CallError, Connection

_WAIT_MS, _LONGEST_WAIT_MS = 1000, 60_000


def _seconds(wait_ms: int) -> float:
    return (min(wait_ms, _LONGEST_WAIT_MS) if wait_ms > 0 else _WAIT_MS) / 1000


class Heartbeat:
    """While the block lasts. `request` is a poll that names the task and wants none."""

    def __init__(self, connection: Connection, request: Any, wait_ms: int, cancel: Callable[[], None]) -> None:
        self._connection = connection
        self._request = request
        self._wait = _seconds(wait_ms)
        self._cancel = cancel
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self.over: Optional[Any] = None  # what a beat was told of the run's end

    def __enter__(self) -> "Heartbeat":
        threading.Thread(target=self._run, name="rivulet heartbeat", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # A beat that is under way is not waited for: its answer is about a task that is done.
        with self._lock:
            self._ended.set()

    def _run(self) -> None:
        task = self._request.working_on[0].task
        while not self._ended.wait(self._wait):
            try:
                reply = self._connection.poll(self._request)
            except CallError:
                continue  # whoever trains and uploads repeats what must be repeated
            with self._lock:
                if self._ended.is_set():
                    return
                if reply.HasField("over"):
                    self.over = reply.over
                if self.over is not None or task in reply.cancelled:
                    self._cancel()
                    return
            self._wait = _seconds(reply.wait_ms)
