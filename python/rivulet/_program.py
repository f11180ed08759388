"""The program that the package drives: where it is, and what it answers."""

import os
import pathlib
import shutil
import subprocess
from typing import List, Sequence

from rivulet._errors import RivuletError


def program() -> str:
    """The path of `rivulet`: what RIVULET_BINARY names, else the one that came with the package, else the build of the
    checkout that we lie in, else PATH's."""
    named = os.environ.get("RIVULET_BINARY")
    if named:
        if not os.access(named, os.X_OK):
            raise RivuletError(f"RIVULET_BINARY is '{named}', which is no program; let it name the rivulet binary")
        return named
    here = pathlib.Path(__file__).resolve()
    for path in (here.parent / "_bin/rivulet", here.parents[2] / "build/release/rivulet"):
        if os.access(path, os.X_OK):
            return str(path)
    found = shutil.which("rivulet")
    if found is None:
        raise RivuletError(
            "the program 'rivulet' is not on PATH; build it with ./quickstart.sh and let RIVULET_BINARY name "
            "build/release/rivulet"
        )
    return found


def sentence(errors: Sequence[str], returncode: int) -> str:
    """Why the program ended with `returncode`, in its own words where it had any.

    Those are the last line that begins with its name, and the lines after it, which draw what is meant.
    """
    for begin in range(len(errors) - 1, -1, -1):
        if errors[begin].startswith("rivulet: "):
            return "\n".join([errors[begin][len("rivulet: ") :], *errors[begin + 1 :]])
    how = f"was ended by signal {-returncode}" if returncode < 0 else f"exited with {returncode}"
    memory = "; perhaps the machine's memory was used up" if returncode == -9 else ""
    last = f"; the last it said was: {errors[-1]}" if errors else ""
    return f"the program {how}{memory}{last}"


def ask(arguments: List[str]) -> str:
    """Run the program to its end and return what it prints."""
    done = subprocess.run([program(), *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode != 0:
        raise RivuletError(sentence(done.stderr.decode(errors="replace").splitlines(), done.returncode))
    return done.stdout.decode(errors="replace")
