"""The mapping between our variables and PyTorch's, with other names and other axes.

Ours are TensorFlow's: a dense kernel is [in, out], a convolution's [height, width, in, out], and images are flattened
height × width × channels. PyTorch's are [out, in], [out, in, height, width], and channels × height × width. A square
kernel has the same shape either way, so a shape decides nothing about axes: the variable's name does (`dense1/kernel`).
Shapes decide only which layer is which, and only where no two layers could be taken for each other.
"""

import json
import operator
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from rivulet._arrays import Array
from rivulet._errors import RivuletError

Shape = Tuple[int, ...]
Names = Mapping[str, str]  # our layer by theirs: {"fc1": "dense1"}
Flattened = Mapping[str, Sequence[int]]  # by our layer: height, width, channels of the images that it takes flattened

_THEIRS = {
    "kernel": "weight",
    "embeddings": "weight",
    "gamma": "weight",
    "bias": "bias",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
}
_AS_IT_IS = ("embeddings", "gamma", "bias", "beta", "moving_mean", "moving_variance")


class Way(NamedTuple):
    """The conversion of one variable to PyTorch and back."""

    shape: Shape  # there
    there: Callable[[Array], Array]
    back: Callable[[Array], Array]


def _as_it_is(shape: Shape) -> Way:
    return Way(shape, lambda array: array, lambda array: array)


def _transposed(shape: Shape, axes: Tuple[int, ...]) -> Way:
    inverse = tuple(int(axis) for axis in np.argsort(axes))
    return Way(
        tuple(shape[axis] for axis in axes),
        lambda array: array.transpose(axes),
        lambda array: array.transpose(inverse),
    )


def _of_flattened_images(shape: Shape, image: Shape) -> Way:
    height, width, channels = image
    return Way(
        (shape[1], shape[0]),
        lambda array: array.reshape(height, width, channels, -1).transpose(3, 2, 0, 1).reshape(shape[1], -1),
        lambda array: array.reshape(-1, channels, height, width).transpose(2, 3, 1, 0).reshape(shape),
    )


def _split(name: str) -> Tuple[str, str]:
    layer, _, role = name.rpartition("/")
    return layer, role


def lies_as_named(model: Mapping[str, Array]) -> bool:
    """Whether the names of a model are a framework's (`0.weight`) and its file declares no other layout. Rivulet's have
    a layer and a role (`dense1/kernel`)."""
    return stored_axes(model) is None and not any("/" in name for name in model)


def ways_of(model: Mapping[str, Array], flattened: Optional[Flattened] = None) -> Dict[str, List[Way]]:
    """As `ways`, of a model with Rivulet's names or PyTorch's.

    A model under PyTorch's names has its file's layout. By default that is PyTorch's, as `rivulet.torch.params` gives
    it.
    """
    shapes = {name: tuple(array.shape) for name, array in model.items()}
    axes = stored_axes(model)
    if axes is None and not lies_as_named(model):
        return ways(shapes, flattened)
    return {name: [_stored_way(name, shape, axes or {})] for name, shape in shapes.items()}


def ways(ours: Mapping[str, Shape], flattened: Optional[Flattened] = None) -> Dict[str, List[Way]]:
    """By variable, its possible ways to PyTorch. If there are two, their shapes differ.

    RivuletError: a variable that has no place in PyTorch, or a dense layer behind a convolution without an entry in
    `flattened`.
    """
    flattened = dict(flattened or {})
    found: Dict[str, List[Way]] = {}
    channels: Optional[int] = None  # of the convolution before
    for name, shape in ours.items():
        layer, role = _split(name)
        if role in _AS_IT_IS:
            found[name] = [_as_it_is(shape)]
        elif role == "kernel" and len(shape) == 4:
            found[name] = [_transposed(shape, (3, 2, 0, 1))]
            if shape[3] == 1 and shape[2] > 1:  # of a depthwise convolution, or of one with a single output
                found[name].append(_transposed(shape, (2, 3, 0, 1)))
            channels = shape[3] if shape[3] > 1 else shape[2]
        elif role == "kernel" and len(shape) == 2:
            image = flattened.pop(layer, None)
            if image is not None:
                image = tuple(image)
                if len(image) != 3 or int(np.prod(image)) != shape[0]:
                    raise RivuletError(
                        f"flattened says that '{layer}' takes images of {image}, and it takes {shape[0]} values; give "
                        "their height, width and channels"
                    )
                found[name] = [_of_flattened_images(shape, image)]
            elif channels is not None and shape[0] != channels:
                raise RivuletError(
                    f"'{layer}' takes a convolution's flattened output, whose order differs in PyTorch; pass "
                    f"flattened={{'{layer}': (height, width, channels)}}"
                )
            else:
                found[name] = [_transposed(shape, (1, 0))]
            channels = None
        else:
            raise RivuletError(
                f"'{name}' of shape {shape} has no counterpart in PyTorch that is known here; write a rivulet.Client "
                "that says which"
            )
    if flattened:
        raise RivuletError(f"flattened names '{next(iter(flattened))}', which is no dense layer of the model")
    return found


class Place(NamedTuple):
    """The place of one of our variables in a state_dict."""

    theirs: str
    way: Way


def _layers(names: Sequence[str], separator: str) -> Dict[str, List[str]]:
    found: Dict[str, List[str]] = {}
    for name in names:
        layer, _, role = name.rpartition(separator)
        found.setdefault(layer, []).append(role)
    return found


def _fits(
    ours: str, roles: List[str], theirs: str, known: Mapping[str, List[Way]], shapes: Mapping[str, Shape]
) -> Optional[List[Place]]:
    places = []
    for role in roles:
        name = f"{theirs}.{_THEIRS[role]}" if theirs else _THEIRS[role]
        matching = [way for way in known[f"{ours}/{role}"] if way.shape == shapes.get(name)]
        if not matching:
            return None
        places.append(Place(name, matching[0]))
    return places


Axes = Mapping[str, Tuple[int, ...]]  # by variable: transposed by these it lies as PyTorch has it


def stored_axes(model: object) -> Optional[Axes]:
    """The layout of a model that came from PyTorch by ONNX, from its file (docs/internals/formats.md). None for other
    models, and for arrays without a file. RivuletError: the file has another text there."""
    metadata: Mapping[str, str] = getattr(model, "metadata", {})
    if "rivulet.axes" not in metadata:
        return None
    try:
        return {name: tuple(map(operator.index, order)) for name, order in json.loads(metadata["rivulet.axes"]).items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise RivuletError(
            "the model's metadata 'rivulet.axes' does not list axes by variable; the file is damaged, fetch it again"
        ) from error


def _stored_way(name: str, shape: Shape, axes: Axes) -> Way:
    if name not in axes:
        return _as_it_is(shape)
    if sorted(axes[name]) != list(range(len(shape))):
        raise RivuletError(
            f"the model's metadata 'rivulet.axes' gives '{name}' of shape {shape} the axes {axes[name]}; the file is "
            "damaged, fetch it again"
        )
    return _transposed(shape, axes[name])


def _check_spoken_for(ours: Mapping[str, Shape], theirs: Mapping[str, Shape], found: Mapping[str, Place]) -> None:
    spoken_for = {place.theirs for place in found.values()}
    for name in theirs:
        if name not in spoken_for:
            raise RivuletError(f"the module's '{name}' has no counterpart in the model, which has {', '.join(ours)}")


def _places_by_names(
    ours: Mapping[str, Shape], theirs: Mapping[str, Shape], names: Optional[Names], axes: Axes
) -> Dict[str, Place]:
    """The places for a model with PyTorch's names."""
    by_ours = {here: there for there, here in (names or {}).items()}
    found: Dict[str, Place] = {}
    for name, shape in ours.items():
        layer, dot, role = name.rpartition(".")
        there = f"{by_ours.get(layer, layer)}{dot}{role}"
        way = _stored_way(name, shape, axes)
        if theirs.get(there) != way.shape:
            has = f"of shape {theirs[there]}" if there in theirs else "which it has not"
            raise RivuletError(
                f"the model's '{name}' would be the module's '{there}' of shape {way.shape}, {has}; load it into the "
                "module that it was made from"
            )
        found[name] = Place(there, way)
    _check_spoken_for(ours, theirs, found)
    return found


def places(
    ours: Mapping[str, Shape],
    theirs: Mapping[str, Shape],
    names: Optional[Names] = None,
    flattened: Optional[Flattened] = None,
    axes: Optional[Axes] = None,
) -> Dict[str, Place]:
    """The place of each of our variables in a state_dict of `theirs`, whose variables are all assigned.

    Layers are matched as `names` says; else by equal names; else by shapes, where only one layer of each side has them.
    With `axes` the names are PyTorch's, and nothing is flattened in another order. If all names are equal, the model
    was made of such a module's arrays and needs no conversion. RivuletError names the ambiguous layers.
    """
    if axes is None and set(ours) == set(theirs):
        axes = {}
    if axes is not None:
        return _places_by_names(ours, theirs, names, axes)
    known = ways(ours, flattened)
    our_layers, their_layers = _layers(list(ours), "/"), _layers(list(theirs), ".")
    chosen = dict(names or {})
    for there, here in chosen.items():
        if there not in their_layers or here not in our_layers:
            owner, layer, has = (
                ("module", there, their_layers) if there not in their_layers else ("model", here, our_layers)
            )
            raise RivuletError(f"names says '{layer}', which is no layer of the {owner}; it has {', '.join(has)}")
    by_ours = {here: there for there, here in chosen.items()}
    by_ours.update({layer: layer for layer in our_layers if layer not in by_ours and layer in their_layers})
    found: Dict[str, Place] = {}
    taken = set(by_ours.values())
    for layer, roles in our_layers.items():
        candidates = [by_ours[layer]] if layer in by_ours else [each for each in their_layers if each not in taken]
        fitting = {each: _fits(layer, roles, each, known, theirs) for each in candidates}
        possible = {each: where for each, where in fitting.items() if where is not None}
        shape = next(known[f"{layer}/{role}"][0].shape for role in roles)
        if not possible:
            raise RivuletError(f"no layer of the module has the shapes of '{layer}', whose first is {shape} there")
        if len(possible) > 1:
            raise RivuletError(
                f"'{layer}' may be {' or '.join(repr(each) for each in possible)} of the module, which have equal shapes; "
                f"say names={{'{next(iter(possible))}': '{layer}', …}}"
            )
        ((there, where),) = possible.items()
        for role, place in zip(roles, where):
            found[f"{layer}/{role}"] = place
        taken.add(there)
    _check_spoken_for(ours, theirs, found)
    return found
