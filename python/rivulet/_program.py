"""The program that the package drives: its path, its calls and its errors."""

import importlib.metadata
import json
import os
import pathlib
import shutil
import subprocess
import urllib.parse
import urllib.request
from typing import List, Optional, Sequence

from rivulet._errors import RivuletError


BUILT = "build/release/rivulet"  # in a checkout


def _installed_from() -> Optional[pathlib.Path]:
    """The checkout whose folder `python` pip installed this package from (PEP 610); None for any other origin."""
    try:
        text = importlib.metadata.distribution("rivulet").read_text("direct_url.json")
        url = urllib.parse.urlsplit(json.loads(text or "{}").get("url", ""))
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return None
    return pathlib.Path(urllib.request.url2pathname(url.path)).parent if url.scheme == "file" else None


def program() -> str:
    """The path of `rivulet`: the value of RIVULET_BINARY, else the package's binary, else the checkout's build, else
    PATH's. The checkout is the one that holds the package or that it was installed from."""
    named = os.environ.get("RIVULET_BINARY")
    if named:
        if not os.access(named, os.X_OK):
            raise RivuletError(f"RIVULET_BINARY is '{named}', which is no program; let it name the rivulet binary")
        return named
    here = pathlib.Path(__file__).resolve()
    origin = _installed_from()
    places = [here.parent / "_bin/rivulet", here.parents[2] / BUILT]
    if origin is not None and origin / BUILT not in places:
        places.append(origin / BUILT)
    for path in places:
        if os.access(path, os.X_OK):
            return str(path)
    found = shutil.which("rivulet")
    if found is None:
        raise RivuletError(
            f"the program 'rivulet' was not found: it is neither on PATH nor at {', '.join(map(str, places))}. Build it "
            f"with ./quickstart.sh in the checkout, or let RIVULET_BINARY name {BUILT}"
        )
    return found


def sentence(errors: Sequence[str], returncode: int) -> str:
    """The reason why the program ended with `returncode`, in its own words if it printed any.

    Those are the last line that begins with its name, and the lines after it, which may be drawings.
    """
    for begin in range(len(errors) - 1, -1, -1):
        if errors[begin].startswith("rivulet: "):
            return "\n".join([errors[begin][len("rivulet: ") :], *errors[begin + 1 :]])
    how = f"was ended by signal {-returncode}" if returncode < 0 else f"exited with {returncode}"
    memory = "; perhaps the machine's memory was used up" if returncode == -9 else ""
    last = f"; the last it said was: {errors[-1]}" if errors else ""
    return f"the program {how}{memory}{last}"


def ask(arguments: List[str]) -> str:
    """Run the program to its end and return its output."""
    done = subprocess.run([program(), *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode != 0:
        raise RivuletError(sentence(done.stderr.decode(errors="replace").splitlines(), done.returncode))
    return done.stdout.decode(errors="replace")
