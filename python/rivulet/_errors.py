"""What the package raises."""

from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from rivulet._history import Run


class RivuletError(Exception):
    """Something that was asked for cannot be done.

    Its text is one sentence that names what, where and the mend; where the program said it, it is the program's own.
    """


class Interrupted(KeyboardInterrupt):
    """A simulation was interrupted, and ended cleanly.

    A `KeyboardInterrupt`, so that ``except Exception`` does not swallow it and a notebook stops where it stands.

    Attributes
    ----------
    run : Run or None
        What was committed until then; `rivulet.simulate` with ``resume=run`` goes on with it. None where the interrupt
        came before there was a run.
    """

    def __init__(self, sentence: str, run: "Optional[Run]" = None) -> None:
        super().__init__(sentence)
        self.run = run


def lacks_protobuf(error: ImportError) -> RivuletError:
    """What a client says where protobuf cannot be loaded."""
    return RivuletError(
        f"a client needs protobuf ({error}): pip install 'rivulet[client]', or Debian's python3-protobuf"
    )
