"""Errors for unknown keyword arguments, with the probable intention."""

import difflib
import functools
import inspect
from typing import Any, Callable, TypeVar, cast

from rivulet._errors import RivuletError
from rivulet._program import ask

F = TypeVar("F", bound=Callable[..., Any])


def _meant(word: str) -> str:
    """The scenario's key that is called so elsewhere ("lr"), or ""; the program knows them."""
    try:
        return ask(["complete", "meant", "--", word]).strip()
    except (RivuletError, OSError):
        return ""


def suggests_keys(function: F) -> F:
    """Let a function with the arguments `set` and `rounds` refuse unknown keywords with a suggestion."""
    known = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def checked(*arguments: Any, **keywords: Any) -> Any:
        for word, value in keywords.items():
            if word in known:
                continue
            near = difflib.get_close_matches(word, known, n=1, cutoff=0.75)
            key = "" if near else _meant(word)
            short = key.rpartition(".")[2]
            hint = ""
            if near:
                hint = f". Did you mean {near[0]}={value!r}?"
            elif key.startswith("run.") and short in known:
                hint = f". Did you mean {short}={value!r}?"
            elif key:
                hint = f". Did you mean set={{{key!r}: {value!r}}}?"
            raise TypeError(f"{function.__name__}() has no argument '{word}'{hint}")
        return function(*arguments, **keywords)

    return cast(F, checked)
