"""rivulet.flower: clients that were written for Flower."""

from itertools import zip_longest
from typing import Any, Dict, List, Mapping, Optional, Tuple

import numpy as np

from rivulet._arrays import Array
from rivulet._client import Client, Context, Evaluation, Params
from rivulet._errors import RivuletError
from rivulet._torch_layout import Flattened, Shape, Way, lies_as_named, ways_of

__all__ = ["wrap"]


def _as_they_are(model: Mapping[str, Array]) -> List[Way]:
    return [Way(array.shape, lambda given: given, lambda given: given) for array in model.values()]


def _numpy_client(given: Any) -> Any:
    """The object with `fit`, which may be in Flower's wrapping (``to_client()``)."""
    client = getattr(given, "numpy_client", given)
    if not isinstance(client, type) and callable(getattr(client, "fit", None)):
        return client
    if isinstance(client, type):
        what = f"the class {client.__name__}, and takes an object of it: flower.wrap({client.__name__}(…))"
    elif callable(client):
        called = getattr(client, "__name__", type(client).__name__)
        what = f"the function '{called}', and takes its result: flower.wrap({called}(…))"
    else:
        what = f"a {type(client).__name__} without a method 'fit', and takes a flwr.client.NumPyClient"
    raise RivuletError(f"flower.wrap was given {what}; client_fn=lambda name: flower.wrap(make(name)) simulates many")


def _says_how_to_evaluate(client: Any) -> bool:
    """Flower's base class has an `evaluate` that measures nothing."""
    method = getattr(client, "evaluate", None)
    return method is not None and not (getattr(method, "__module__", None) or "").startswith("flwr.")


class _Wrapped(Client):
    def __init__(
        self,
        numpy_client: Any,
        layout: Optional[str],
        flattened: Optional[Flattened],
        config: Optional[Mapping[str, Any]],
    ) -> None:
        self._client = numpy_client
        self._layout = layout
        self._flattened = flattened
        self._config = dict(config or {})

    def _own(self) -> List[Array]:
        """The client's current parameters; none if it does not have the method, which is optional."""
        tell = getattr(self._client, "get_parameters", None)
        return [np.asarray(array) for array in (tell({}) or [])] if tell is not None else []

    def _ways(self, model: Mapping[str, Array], own: List[Shape]) -> List[Way]:
        """For each variable, the way to the client's arrays of floating-point numbers, which have the same order."""

        def to_torch(array_ways: List[Way], shape: Optional[Shape]) -> Way:
            return next((way for way in array_ways if way.shape == shape), array_ways[0])

        if self._layout == "rivulet":
            return _as_they_are(model)
        if self._layout == "torch":
            known = list(ways_of(model, self._flattened).values())
            return [to_torch(each, shape) for each, shape in zip_longest(known, own[: len(known)])]
        ours = _as_they_are(model)
        if lies_as_named(model) or all(array.ndim < 2 for array in model.values()):
            return ours
        try:
            theirs = [to_torch(each, None) for each in ways_of(model, self._flattened).values()]
        except RivuletError:
            theirs = []
        fitting = [each for each in (ours, theirs) if own and [way.shape for way in each] == own]
        if len(fitting) != 1:
            raise RivuletError(
                "the shapes of the client's arrays do not decide whether kernels are [in, out], as Rivulet's, or [out, in], as "
                "PyTorch's; pass layout='rivulet' or layout='torch'"
            )
        return fitting[0]

    def _given(self, model: Mapping[str, Array]) -> Tuple[List[Array], List[Way]]:
        own = self._own()
        floating = [array.shape for array in own if array.dtype.kind == "f"]
        found = self._ways(model, floating)
        wanted = [way.shape for way in found]
        if own and floating != wanted:
            raise RivuletError(f"the client has arrays of the shapes {floating}, and the model gives {wanted}")
        # Integer buffers stay what they are at the client, and where they are in its list.
        arrays = iter([np.array(way.there(array), order="C") for way, array in zip(found, model.values())])
        return [next(arrays) if array.dtype.kind == "f" else array for array in own] if own else list(arrays), found

    def _asked(self, context: Context) -> Dict[str, Any]:
        epochs = context.numbers.get("epochs", 1)
        asked = {"server_round": context.round, **context.numbers, "local_epochs": epochs}
        return {**asked, **self._config}

    def fit(self, params: Dict[str, Array], context: Context) -> Params:
        parameters, found = self._given(params)
        trained, examples, metrics = self._client.fit(parameters, self._asked(context))
        arrays = [np.asarray(array) for array in trained]
        arrays = [array for array in arrays if array.dtype.kind not in "iu"]
        shapes, wanted = [array.shape for array in arrays], [way.shape for way in found]
        if shapes != wanted:
            raise RivuletError(f"the client's fit gave arrays of the shapes {shapes}, and was given {wanted}")
        back = {name: way.back(array) for name, way, array in zip(params, found, arrays)}
        return Params(back, examples=examples, metrics=metrics)

    def evaluate(self, params: Dict[str, Array], context: Context) -> Evaluation:
        if not _says_how_to_evaluate(self._client):
            raise NotImplementedError
        parameters, _ = self._given(params)
        loss, examples, metrics = self._client.evaluate(parameters, self._asked(context))
        return Evaluation(examples=examples, metrics={"loss": loss, **(metrics or {})})


def wrap(
    numpy_client: Any,
    *,
    layout: Optional[str] = None,
    flattened: Optional[Flattened] = None,
    config: Optional[Mapping[str, Any]] = None,
) -> Client:
    """A Flower ``NumPyClient``, as it is, for `rivulet.run_client`.

    Its lists of arrays have the model's variables in the model's order. Integer arrays, such as batch normalisation's
    count, stay the client's own.

    Parameters
    ----------
    numpy_client : flwr.client.NumPyClient
        Or any object with its methods ``fit``, and ``evaluate`` and ``get_parameters`` where it has them; or the client
        that ``to_client()`` makes of it.
    layout : {"rivulet", "torch"}, optional
        Whose axes its arrays have: kernels are [in, out] and [height, width, in, out], or [out, in] and [out, in,
        height, width]. Default: the layout that the shapes of ``get_parameters`` have. If both fit, it is required.
    flattened : mapping of str to tuple, optional
        As of `rivulet.torch.load`, of layout "torch".
    config : mapping, optional
        Additions to the configuration of its methods, which has ``server_round``, ``epochs``, ``local_epochs``,
        ``batch_size`` and ``max_steps``.

    Returns
    -------
    rivulet.Client

    Raises
    ------
    RivuletError
        It is a function or a class, or has no ``fit``.
    """
    if layout not in (None, "rivulet", "torch"):
        raise RivuletError(f"layout is 'rivulet' or 'torch', not {layout!r}")
    return _Wrapped(_numpy_client(numpy_client), layout, flattened, config)
