"""One step of SGD, by the program and by PyTorch in float64: what a module's entry in the table says."""

import copy
import inspect
import pathlib
import tempfile
from typing import Any, Dict, Tuple

import numpy as np
import rivulet
import rivulet.torch
import torch

RATE = 0.25
TIMES = 4.0  # of PyTorch's own float32 distance, at most


def stepped(module: torch.nn.Module, batch: Any, labels: torch.Tensor, dtype: torch.dtype) -> Dict[str, np.ndarray]:
    module = copy.deepcopy(module).to(dtype).train()
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE)
    tensors = batch if isinstance(batch, tuple) else (batch,)
    scores = module(*(tensor.to(dtype) if tensor.is_floating_point() else tensor for tensor in tensors))
    loss = torch.nn.functional.cross_entropy(scores, labels)
    loss.backward()
    optimizer.step()
    return {name: parameter.detach().double().numpy() for name, parameter in module.named_parameters()}


def feature(tensor: torch.Tensor) -> np.ndarray:
    """A row per example; images of the engine's have their channels last."""
    array = tensor.numpy()
    if tensor.is_floating_point() and tensor.dim() == 4:
        array = array.transpose(0, 2, 3, 1)
    return array.reshape(len(array), -1)


def programs_step(
    module: torch.nn.Module, batch: Any, labels: torch.Tensor, kind: str, folder: pathlib.Path, exporter: str
) -> Tuple[Dict[str, np.ndarray], Dict[str, np.ndarray]]:
    """The parameters before and after, by the module's names."""
    names = list(inspect.signature(module.forward).parameters) if isinstance(batch, tuple) else ["x"]
    tensors = batch if isinstance(batch, tuple) else (batch,)
    features = {name: feature(tensor) for name, tensor in zip(names, tensors)}
    rivulet.write_examples(folder / "train.tfrecord", {**features, "label": labels.numpy()})
    scenario = rivulet.torch.scenario(
        module,
        batch,
        loss="sparse_softmax_cross_entropy",
        path=folder / "model.onnx",
        kind=None if isinstance(batch, tuple) else kind,
        exporter=exporter,
    )
    data = {"train": str(folder / "train.tfrecord"), "partition": {"kind": "iid", "clients": 1}}
    if not isinstance(batch, tuple):
        data["input_feature"] = "x"
    run = rivulet.simulate(
        {
            **scenario,
            "run": {"name": "step", "rounds": 1, "keep_models": "all"},
            "data": data,
            "client": {"epochs": 1, "batch_size": len(labels), "optimizer": {"kind": "sgd", "learning_rate": RATE}},
            "server": {"clients_per_round": 1},
        },
        db=folder / "runs.sqlite",
    )
    result = []
    for version in (0, 1):
        loaded = copy.deepcopy(module)
        rivulet.torch.load(loaded, run.model(version))
        result.append({name: parameter.detach().double().numpy() for name, parameter in loaded.named_parameters()})
    return result[0], result[1]


def step(entry: Any, exporter: str, seed: int) -> Tuple[str, str, float]:
    torch.manual_seed(seed)
    module = entry.make().float().train()
    batch = entry.batch()
    labels = torch.randint(0, 5, (len(batch[0] if isinstance(batch, tuple) else batch),))
    with tempfile.TemporaryDirectory() as name:
        try:
            before, after = programs_step(module, batch, labels, entry.kind, pathlib.Path(name), exporter)
        except rivulet.RivuletError as error:
            return "refused", str(error), 0.0
    exact, single = stepped(module, batch, labels, torch.float64), stepped(module, batch, labels, torch.float32)
    start = {name: parameter.detach().double().numpy() for name, parameter in module.named_parameters()}
    worst, where = 0.0, ""
    for parameter, wanted in exact.items():
        if not np.array_equal(before[parameter], start[parameter]):
            return "differs", f"{parameter} does not begin with the module's value", float("inf")
        # A parameter is stored in float32: half a unit in the last place of each element is nobody's distance.
        rounding = np.linalg.norm(start[parameter]) * 2.0**-24 + 2.0**-30
        bound = TIMES * (np.linalg.norm(single[parameter] - wanted) + rounding)
        ratio = float(np.linalg.norm(after[parameter] - wanted) / bound)
        if not ratio <= worst:
            worst, where = ratio, parameter
    return ("agrees" if worst <= 1 else "differs"), where, worst


def compare(entry: Any, exporter: str) -> Tuple[str, str, float]:
    """("agrees" or "differs" or "refused", the parameter or the reason, its distance to the bound).

    Where a unit stands at a kink, such as a ReLU's input within rounding of 0, float32 may take the other side, in
    PyTorch as here. A difference therefore counts if two other draws of weights and data have it too."""
    for seed in (7, 8, 9):
        found = step(entry, exporter, seed)
        if found[0] != "differs":
            break
    return found
