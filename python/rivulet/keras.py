"""rivulet.keras: Keras' models as models of scenarios that the program trains, and a run's models in Keras again.

Variables have the paths of Keras' weights (``dense/kernel``), and their shapes and axes too. Needs Keras 3 with the
TensorFlow backend.
"""

import os
import re
import tempfile
from typing import Any, Dict, List, Mapping, Optional, Tuple

import keras
import tensorflow as tf

from rivulet._arrays import Array
from rivulet._errors import RivuletError
from rivulet._files import PathLike
from rivulet._program import ask

__all__ = ["load", "params", "scenario"]

_KINDS = ("pixels", "values", "tokens")
_SPARSE = ("SparseCategoricalCrossentropy", "sparse_categorical_crossentropy")


def _weights(model: Any) -> Dict[str, Any]:
    """A model's weights by the names that their variables have: Keras' paths within the model, made unique."""
    found: Dict[str, Any] = {}
    for weight in model.weights:
        within = weight.path.removeprefix(f"{model.name}/")  # a Sequential's own name
        path = re.sub(r"[^\w.\-/]", "_", within, flags=re.ASCII).lstrip("_/-")
        name, n = path, 1
        while name in found:
            name, n = f"{path}_{n}", n + 1
        found[name] = weight
    return found


def _inputs(model: Any, kind: Optional[str]) -> List[Tuple[str, str, Any]]:
    """Name, kind and spec of each input."""
    tensors = getattr(model, "inputs", None)
    if not tensors:
        raise RivuletError(
            "the model does not declare its inputs; begin it with keras.Input(…), or wrap it: "
            "keras.Model(x, model(x)) of x = keras.Input(…)"
        )
    if kind is not None and kind not in _KINDS:
        raise RivuletError(f"kind={kind!r} is none of 'pixels', 'values' and 'tokens'")
    if kind is not None and len(tensors) > 1:
        raise RivuletError("kind= is of a model of one input; of several the kinds follow from types and shapes")
    described = []
    for tensor in tensors:
        shape = list(tensor.shape)
        if None in shape[1:]:
            raise RivuletError(
                f"the input '{tensor.name}' has the shape {tuple(shape)}; give keras.Input every size but the batch's"
            )
        whole = "int" in tensor.dtype
        held = kind or ("tokens" if whole else "pixels" if len(shape) == 4 else "values")
        name = tensor.name if len(tensors) > 1 else "tokens" if held == "tokens" else "image"
        described.append((name, held, tf.TensorSpec([None, *shape[1:]], tensor.dtype, name=name)))
    return described


def _loss(loss: Any, target: Optional[str]) -> Tuple[Any, bool]:
    """The loss as a function of labels and predictions, and whether labels are numbers of classes."""
    try:
        function = keras.losses.get(loss)
    except ValueError as error:
        raise RivuletError(f"loss={loss!r} is none of Keras' losses") from error
    if function is None:
        raise RivuletError("loss= is missing; give a loss of Keras', such as 'mse'")
    called = {type(function).__name__, getattr(function, "__name__", ""), str(getattr(loss, "name", ""))}
    if target not in (None, "class", "numbers"):
        raise RivuletError(f"target={target!r} is neither 'class' nor 'numbers'")
    return function, target == "class" or (target is None and not called.isdisjoint(_SPARSE))


def _renamed(graph: Any, names: Mapping[str, str]) -> None:
    """Gives nodes other names. A name that another node has would be ambiguous, so that node's gets a suffix."""
    renames = {new: f"{new}/node" for new in names.values() if any(node.name == new for node in graph.node)}
    renames.update(names)
    for node in graph.node:
        node.name = renames.get(node.name, node.name)
        for i, fed in enumerate(node.input):
            control, name, port = re.fullmatch(r"(\^?)([^:]+)(.*)", fed).groups()  # type: ignore[union-attr]
            node.input[i] = control + renames.get(name, name) + port


def _frozen(model: Any, inputs: List[Tuple[str, str, Any]], function: Any, classes: bool, lower: bool = False) -> Any:
    """A GraphDef of loss, scores and accuracy, whose weights are constants named as `_weights` names them."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    def outputs(label: Any, *features: Any) -> List[Any]:
        scores = model(list(features) if len(features) > 1 else features[0], training=False)
        result = [tf.identity(tf.reduce_mean(function(label, scores)), "loss"), tf.identity(scores, "scores")]
        if classes:
            hits = tf.equal(tf.argmax(scores, -1, output_type=tf.int64), label)
            result.append(tf.identity(tf.reduce_mean(tf.cast(hits, tf.float32)), "accuracy"))
        return result

    shape = [None, *model.outputs[0].shape[1:]]
    label = tf.TensorSpec(shape[:-1] if classes else shape, tf.int64 if classes else tf.float32, name="label")
    concrete = tf.function(outputs, autograph=False).get_concrete_function(label, *(spec for _, _, spec in inputs))
    graph = convert_variables_to_constants_v2(concrete, lower_control_flow=lower).graph.as_graph_def()
    handles = {id(weight.value.handle): name for name, weight in _weights(model).items()}
    captured = [(inside.op.name, id(outside)) for outside, inside in concrete.graph.captures]
    _renamed(graph, {inside: handles[outside] for inside, outside in captured if outside in handles})
    return graph


def scenario(
    model: Any,
    *,
    loss: Any,
    path: PathLike = "model",
    kind: Optional[str] = None,
    target: Optional[str] = None,
) -> Dict[str, Any]:
    """A model as the model of a scenario that the program's own clients train, without Python.

    The model is written as a TensorFlow graph, with the weights that it has, from which training begins. The trained
    weights return by ``load(model, run.model())``. The graph is that of ``training=False``: dropout does nothing, and
    batch normalisation takes its stored averages, which stay as they are.

    Parameters
    ----------
    model : keras.Model
        Functional or sequential, of float32 and of one output. Weights that Keras does not train, such as those of a
        layer of ``trainable = False``, keep their values.
    loss : keras.losses.Loss, function or str
        Of Keras', or a function of labels and predictions. Its mean is trained. Of scores without a softmax it is
        ``keras.losses.SparseCategoricalCrossentropy(from_logits=True)``.
    path : path
        The folder for ``graph.pb`` and ``model.safetensors``; one that is there is replaced.
    kind : str, optional
        The kind of the data: ``"pixels"``, bytes of which the model sees byte / 255; ``"values"``, floats;
        ``"tokens"``, integers. Default: pixels for [height, width, channels], tokens for integers, else values.
    target : str, optional
        ``"class"``: a label is the number of a class, and the run measures the accuracy. ``"numbers"``: it has the
        shape of the model's output. Default: a class for the sparse losses, else numbers.

    Returns
    -------
    dict
        ``{"model": …}``, for `rivulet.simulate`: ``{**scenario(…), "data": …, "server": …}``. The feature of a single
        input is ``image``, or ``tokens``; of several the names of their ``keras.Input``.

    Raises
    ------
    RivuletError
        The program cannot train a part of the model or the loss.
    """
    if keras.backend.backend() != "tensorflow":
        raise RivuletError(
            f"Keras runs on {keras.backend.backend()}; set KERAS_BACKEND=tensorflow before Keras is imported"
        )
    inputs = _inputs(model, kind)
    for name, weight in _weights(model).items():
        if weight.dtype in ("float16", "bfloat16", "float64"):
            raise RivuletError(f"the model's '{name}' is {weight.dtype}, and models are float32")
    if len(model.outputs) != 1:
        count = len(model.outputs)
        raise RivuletError(f"the model has {count} outputs; give one that has the output of the loss alone")
    function, classes = _loss(loss, target)
    graph = _frozen(model, inputs, function, classes)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "frozen.pb")
        with open(file, "wb") as written:
            written.write(graph.SerializeToString())
        ask(["model", "import", file, "--out", os.fspath(path)])
    fixed = {id(weight) for weight in model.non_trainable_weights}
    named = {node.name for node in graph.node}
    keep = [name for name, weight in _weights(model).items() if id(weight) in fixed and name in named]
    described: Dict[str, Any] = {
        "graph": os.path.join(os.fspath(path), "graph.pb"),
        "inputs": [{"name": name, "kind": held} for name, held, _ in inputs],
        "metrics": ["accuracy"] if classes else [],
    }
    if keep:
        described["freeze"] = keep
    return {"model": described}


def params(model: Any) -> Dict[str, Array]:
    """Copies of a model's weights, by the names that `scenario` gives them."""
    return {name: weight.numpy().copy() for name, weight in _weights(model).items()}


def load(model: Any, params: Mapping[str, Array]) -> None:
    """Put a run's model into a Keras model, in place.

    Parameters
    ----------
    model : keras.Model
        The one that `scenario` wrote, or another with the same layers' names.
    params : mapping of str to array
        A run's model, or the result of `rivulet.keras.params`. Weights that it lacks stay as they are.

    Raises
    ------
    RivuletError
        Names the weights that do not fit. The model is then as it was.
    """
    weights = _weights(model)
    for name, array in params.items():
        if name not in weights:
            raise RivuletError(
                f"the model has no weight '{name}'; its weights are {', '.join(weights) or 'none'}. Keras counts layers "
                "of a kind: give them names, or call keras.backend.clear_session() before the model is built"
            )
        if tuple(array.shape) != tuple(weights[name].shape):
            wanted = tuple(weights[name].shape)
            raise RivuletError(f"'{name}' has the shape {tuple(array.shape)}, and the model's {wanted}")
    for name, array in params.items():
        weights[name].assign(array)
