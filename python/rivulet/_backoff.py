"""The time that a client waits before it tries again."""

import random
from typing import Optional

LONGEST_WAIT_MS = 15_000
_FIRST_WAIT_MS, _WAIT_FACTOR = 200, 2.0


class Backoff:
    """Exponential, capped, with a jitter that follows from the client's name: clients that lost a coordinator together
    do not return in the same millisecond."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._draws: Optional[random.Random] = None  # to seed one takes longer than most calls, which need none
        self._tries = 0

    def next_ms(self) -> float:
        self._draws = self._draws or random.Random(self._name)
        full = min(LONGEST_WAIT_MS, _FIRST_WAIT_MS * _WAIT_FACTOR ** min(self._tries, 30))
        self._tries += 1
        return full * self._draws.uniform(0.5, 1)

    def reset(self) -> None:
        self._tries = 0
