"""A run's bar: in a terminal and in a notebook. Elsewhere nothing is shown."""

import html
import os
import re
import sys
import time
from typing import Any, Optional

ROUND = re.compile(r"round +(\d+)/(\d+)( \[[#-]*\])? *(.*)")
_REDRAW_SECONDS = 0.08


def _in_notebook() -> bool:
    """Whether this process is a notebook's kernel. IPython is asked only where it is loaded already."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


class Bar:
    """Shows the lines of a run: those of rounds in one place, the others above it. `close()` ends it."""

    def show(self, line: str) -> None:
        """Take one line of the program's."""

    def close(self) -> None:
        """Leave the last state to be read."""


class _TerminalBar(Bar):
    def __init__(self) -> None:
        self._last = ""
        self._drawn = 0.0

    def show(self, line: str) -> None:
        if not ROUND.match(line):
            sys.stderr.write(f"\r\033[K{line}\n")
            self._drawn = 0.0
            return
        self._last = line
        if time.monotonic() - self._drawn >= _REDRAW_SECONDS:
            self._draw()

    def _draw(self) -> None:
        try:
            columns = os.get_terminal_size(sys.stderr.fileno()).columns
        except (OSError, ValueError):
            columns = 0
        # A line that wraps would be drawn anew below itself, again and again.
        sys.stderr.write("\r\033[K" + (self._last[: columns - 1] if columns > 1 else self._last))
        sys.stderr.flush()
        self._drawn = time.monotonic()

    def close(self) -> None:
        if self._last:
            self._draw()
            sys.stderr.write("\n")
            sys.stderr.flush()


class _NotebookBar(Bar):
    def __init__(self, display: Any) -> None:
        self._display = display
        self._handle: Any = None
        self._last: Optional[str] = None
        self._drawn = 0.0

    def show(self, line: str) -> None:
        if not ROUND.match(line):
            print(line, file=sys.stderr)
            return
        self._last = line
        if time.monotonic() - self._drawn >= _REDRAW_SECONDS:
            self._draw()

    def _draw(self) -> None:
        found = ROUND.match(self._last or "")
        if found is None:
            return
        done, rounds, _, rest = found.groups()
        page = self._display.HTML(
            f'<progress value="{done}" max="{rounds}" style="width:20em"></progress> '
            f"round {done} of {rounds} &nbsp; {html.escape(rest)}"
        )
        if self._handle is None:
            self._handle = self._display.display(page, display_id=True)
        else:
            self._handle.update(page)
        self._drawn = time.monotonic()

    def close(self) -> None:
        self._draw()


def bar() -> Bar:
    """The bar that fits where this process runs."""
    if _in_notebook():
        import IPython.display

        return _NotebookBar(IPython.display)
    return _TerminalBar() if sys.stderr is not None and sys.stderr.isatty() else Bar()
