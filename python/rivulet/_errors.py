"""The exceptions of the package, and the cleaning of foreign text in them."""

import re
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from rivulet._history import Run

# Control characters (escape sequences and line ends among them), what turns the direction of text, what takes no place,
# and halves of characters.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]+"
)
_MOST_CHARACTERS = 1000


def clean(text: str, most: int = _MOST_CHARACTERS) -> str:
    """Text of a peer as one line that a terminal and a log may show: no control character, and not long."""
    shown = _UNPRINTABLE.sub(" ", text[: 2 * most])
    return shown if len(shown) <= most and len(text) <= 2 * most else shown[: most - 1] + "…"


class RivuletError(Exception):
    """Something that was asked for cannot be done.

    Its text names the failure, the input and the remedy. A failure of the program keeps the program's sentence.
    """


class Interrupted(KeyboardInterrupt):
    """A simulation was interrupted, and ended cleanly.

    A `KeyboardInterrupt`, so that ``except Exception`` does not swallow it and a notebook stops where it stands.

    Attributes
    ----------
    run : Run or None
        The committed rounds until then; `rivulet.simulate` with ``resume=run`` resumes it. None where the interrupt
        came before there was a run.
    """

    def __init__(self, sentence: str, run: "Optional[Run]" = None) -> None:
        super().__init__(sentence)
        self.run = run


def lacks(package: str, debian: str, error: object = "it is not installed") -> RivuletError:
    """The error of a client if a package cannot be loaded."""
    return RivuletError(f"a client needs {package} ({error}): pip install 'rivulet[client]', or Debian's {debian}")
