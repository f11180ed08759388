"""What a Keras model's entry in the table says: its graph, its variables and a step by the program, against Keras."""

import json
import pathlib
import subprocess
import tempfile
from typing import Any, Dict, List, Tuple

from keras_catalogue import Entry  # first: it chooses how TensorFlow computes

import keras
import numpy as np
import rivulet
import rivulet.keras
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

Arrays = Dict[str, np.ndarray]
RATE = 0.25
TIMES = 4.0  # of Keras' own float32 distance, at most


def made(entry: Entry, dtype: str, values: Any = None) -> Any:
    """The entry's model, with `values`, or with first values in which no two weights are alike."""
    keras.backend.clear_session()  # layers of both types have equal names
    keras.config.set_floatx(dtype)
    try:
        model = entry.make()
    finally:
        keras.config.set_floatx("float32")
    draws = np.random.default_rng(11)
    for i, weight in enumerate(model.weights):
        value = weight.numpy()
        if values is not None:
            value = values[i]
        elif value.dtype == np.float32 and np.ptp(value) == 0:  # a bias, a scale or an average
            value = value + draws.uniform(0, 0.2, value.shape).astype(np.float32)
        weight.assign(value)
    return model


def objective(entry: Entry) -> Any:
    losses = keras.losses
    return losses.MeanSquaredError() if entry.numbers else losses.SparseCategoricalCrossentropy(from_logits=True)


def fed(model: Any, features: Arrays) -> Any:
    tensors = [tf.cast(x, tensor.dtype) for x, tensor in zip(features.values(), model.inputs)]
    return tensors if len(tensors) > 1 else tensors[0]


def keras_step(entry: Entry, model: Any, features: Arrays, labels: np.ndarray) -> Tuple[Arrays, np.ndarray]:
    """Weights after one step of SGD, by name, and the scores before it."""

    def step(label: Any, batch: Any) -> Any:
        with tf.GradientTape() as tape:
            scores = model(batch, training=False)
            loss = objective(entry)(label, scores)
        return scores, tape.gradient(loss, [weight.value for weight in model.trainable_weights])

    batch = fed(model, features)
    label = tf.cast(labels, batch.dtype) if entry.numbers else tf.constant(labels)
    scores, gradients = tf.function(step, autograph=False)(label, batch)
    after = {name: value.astype(np.float64) for name, value in rivulet.keras.params(model).items()}
    names = {id(weight): name for name, weight in rivulet.keras._weights(model).items()}
    for weight, gradient in zip(model.trainable_weights, gradients):
        if gradient is not None:
            name = names[id(weight)]
            after[name] = (weight.numpy() - RATE * tf.convert_to_tensor(gradient).numpy()).astype(np.float64)
    return after, scores.numpy().astype(np.float64)


def keras_scores(model: Any, features: Arrays) -> np.ndarray:
    scores = tf.function(lambda batch: model(batch, training=False), autograph=False)(fed(model, features))
    return scores.numpy().astype(np.float64)


def ratio(actual: np.ndarray, single: np.ndarray, exact: np.ndarray, start: np.ndarray) -> float:
    """The distance to the step in float64, by TIMES the distance of Keras' own step in float32."""
    rounding = np.linalg.norm(start) * 2.0**-24 + 2.0**-30
    return float(np.linalg.norm(actual - exact) / (TIMES * (np.linalg.norm(single - exact) + rounding)))


def worst(actual: Arrays, single: Arrays, exact: Arrays, start: Arrays) -> Tuple[float, str]:
    found = (0.0, "")
    for name, value in actual.items():
        there = ratio(value, single[name], exact[name], start[name])
        if not there <= found[0]:
            found = (there, name)
    return found


def run_graph(
    runner: str, graph: pathlib.Path, feeds: Arrays, fetches: List[str], targets: Any = (), step: Any = ()
) -> Any:
    """What the program computes of a graph; or why it does not."""
    folder = graph.parent
    case = folder / "case"
    values = tf.Graph()
    with values.as_default():
        for name, value in feeds.items():
            tf.constant(value, name=f"feed/{name}")
    case.with_suffix(".values.pb").write_bytes(values.as_graph_def().SerializeToString())
    facts = {"graph": str(graph), "fetches": fetches, "targets": list(targets), "step": list(step)}
    case.with_suffix(".json").write_text(json.dumps({**facts, "outputs": str(folder / "outputs.pb")}))
    done = subprocess.run([runner, str(folder), "case"], capture_output=True, text=True)
    if done.returncode != 0:
        return f"crash: {done.stderr[-200:]}"
    answer = json.loads(done.stdout)
    if answer["outcome"] != "run":
        return f"{answer['outcome']}: {answer['message']}"
    outputs = tf.compat.v1.GraphDef.FromString((folder / "outputs.pb").read_bytes())
    found = {node.name: tf.make_ndarray(node.attr["value"].tensor) for node in outputs.node}
    return [found[f"fetch/{i}"].astype(np.float64) for i in range(len(fetches))]


def roles(entry: Entry, model: Any, folder: pathlib.Path) -> str:
    """What the import's table says otherwise than Keras does, of both forms of loops; empty if nothing."""
    weights = rivulet.keras._weights(model)
    loops = any(isinstance(layer, (keras.layers.RNN, keras.layers.Bidirectional)) for layer in model.layers)
    for lower in (True, False) if loops else (False,):
        function, classes = rivulet.keras._loss(objective(entry), None)
        graph = rivulet.keras._frozen(model, rivulet.keras._inputs(model, None), function, classes, lower)
        (folder / "frozen.pb").write_bytes(graph.SerializeToString())
        arguments = ["model", "import", str(folder / "frozen.pb"), "--out", str(folder / "imported"), "--json"]
        printed = json.loads(rivulet._program.ask(arguments))
        table = {row["tensor"]: row["role"] for row in printed["tensors"]}
        trained = {id(weight) for weight in model.trainable_weights}
        for name, role in table.items():
            wanted = name in weights and id(weights[name]) in trained
            if (role == "weight") != wanted:
                return f"'{name}' is a {role}"
        lost = [name for name, weight in weights.items() if id(weight) in trained and name not in table]
        if lost:
            return f"'{lost[0]}' is not in the table"
    return ""


def programs_step(
    entry: Entry, model: Any, features: Arrays, labels: np.ndarray, folder: pathlib.Path
) -> Arrays:
    written = rivulet.keras.scenario(model, loss=objective(entry), path=folder / "model")
    tables = written["model"]["inputs"]
    for table, (_, kind) in zip(tables, entry.inputs):
        table["kind"] = "values" if kind == "values" else "tokens"  # images are floats here
    columns = {table["name"]: value.reshape(len(value), -1) for table, value in zip(tables, features.values())}
    rivulet.write_examples(folder / "train.tfrecord", {**columns, "label": labels})
    run = rivulet.simulate(
        {
            **written,
            "run": {"name": "step", "rounds": 1},
            "data": {"train": str(folder / "train.tfrecord"), "partition": {"kind": "iid", "clients": 1}},
            "client": {"epochs": 1, "batch_size": len(labels), "optimizer": {"kind": "sgd", "learning_rate": RATE}},
            # Steps of networks with first values are large, and one client's sum is fine enough for them.
            "server": {"clients_per_round": 1, "max_weight": len(labels), "value_bits": 14},
        },
        db=folder / "runs.sqlite",
    )
    return {name: value.astype(np.float64) for name, value in run.model().items()}


def trained(entry: Entry, runner: str, step: bool = True) -> Dict[str, Any]:
    """The row of a model: forward pass, table of variables, and one step of SGD, if `step`.

    A difference counts if two other draws of weights and data have it too, as of PyTorch's modules: in float32 a unit at
    a kink may take the other side, in Keras as here."""
    for draw in range(3):
        row = drawn(entry, runner, step, draw)
        if "refused" in row or isinstance(row["forward"], str) or max(row["forward"], row.get("step", 0)) <= 1:
            break
    return row


def drawn(entry: Entry, runner: str, step: bool, draw: int) -> Dict[str, Any]:
    keras.utils.set_random_seed(7 + draw)
    model = made(entry, "float32")
    start = rivulet.keras.params(model)
    double: Any = made(entry, "float64", list(start.values()))
    draws = np.random.default_rng(5 + draw)
    features = entry.features(draws)
    labels = entry.labels(draws, features)
    row: Dict[str, Any] = {"name": entry.name, "parameters": int(model.count_params())}
    row["variables"] = len(model.trainable_weights)
    if step:
        single, scores = keras_step(entry, model, features, labels)
        exact, exact_scores = keras_step(entry, double, features, labels)
    else:
        scores, exact_scores = (keras_scores(each, features) for each in (model, double))
        start = {}
    double = None  # of the largest networks it is gigabytes
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        try:
            row["roles"] = roles(entry, model, folder)
            feeds = {table[0]: x for table, x in zip(rivulet.keras._inputs(model, None), features.values())}
            found = run_graph(runner, folder / "imported" / "graph.pb", feeds, ["scores"], ["init"])
            row["forward"] = found if isinstance(found, str) else ratio(found[0], scores, exact_scores, exact_scores)
            if step:
                after = programs_step(entry, model, features, labels, folder)
                row["step"], row["where"] = worst(after, single, exact, start)
        except rivulet.RivuletError as error:
            row["refused"] = str(error)
    return row


# TensorFlow's own training graphs: gradients by GradientTape, and an update.


def optimizers() -> Dict[str, Any]:
    return {"SGD": lambda: keras.optimizers.SGD(RATE, momentum=0.9), "Adam": lambda: keras.optimizers.Adam(0.01)}


def loss_of(entry: Entry, model: Any, weights: List[Any], averages: List[Any], label: Any, features: Any) -> Any:
    batch = features if len(features) > 1 else features[0]
    scores, after = model.stateless_call(weights, averages, batch, training=True)
    return objective(entry)(label, scores), after


def with_inputs(entry: Entry, model: Any) -> Tuple[Any, List[Any]]:
    """SGD's step as a function from variables, labels and features to variables; and the variables."""
    trainable, others = len(model.trainable_variables), len(model.non_trainable_variables)

    def step(*tensors: Any) -> Any:
        weights, averages = list(tensors[:trainable]), list(tensors[trainable : trainable + others])
        label, *features = tensors[trainable + others :]
        with tf.GradientTape() as tape:
            tape.watch(weights)
            loss, after = loss_of(entry, model, weights, averages, label, features)
        gradients = [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, weights)]
        return [*(weight - RATE * gradient for weight, gradient in zip(weights, gradients)), *after]

    return tf.function(step, autograph=False), [*model.trainable_variables, *model.non_trainable_variables]


def with_variables(entry: Entry, model: Any, optimizer: Any) -> Tuple[Any, List[Any]]:
    """An optimiser's step as a function that assigns variables; and the variables, with the optimiser's."""
    optimizer.build(model.trainable_variables)

    def step(label: Any, *features: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = objective(entry)(label, model(list(features) if len(features) > 1 else features[0], training=True))
        optimizer.apply(tape.gradient(loss, [weight.value for weight in model.trainable_variables]))
        return loss

    variables = [*model.trainable_variables, *model.non_trainable_variables, *optimizer.variables]
    return tf.function(step, autograph=False), variables


def serialised(
    function: Any, specs: List[Any], variables: List[Any], values: List[np.ndarray]
) -> Tuple[Any, List[str], List[str]]:
    """The GraphDef of a function that assigns variables, its inputs' names and its assignments; "init" gives the
    variables `values`, and "read/N" reads them."""
    concrete = function.get_concrete_function(*specs)
    graph = concrete.graph.as_graph_def()
    numbers = {id(variable.value.handle): i for i, variable in enumerate(variables)}
    placeholders = {inside.op.name: numbers[id(outside)] for outside, inside in concrete.graph.captures}
    with tf.Graph().as_default() as more:
        for i, (variable, value) in enumerate(zip(variables, values)):
            kind = tf.as_dtype(variable.dtype)
            name = f"variable{i}"
            handle = tf.raw_ops.VarHandleOp(dtype=kind, shape=value.shape, shared_name=name, name=name)
            first = tf.constant(value, kind, name=f"value{i}")
            tf.raw_ops.AssignVariableOp(resource=handle, value=first, name=f"assign{i}")
            tf.raw_ops.ReadVariableOp(resource=handle, dtype=kind, name=f"read{i}")
    names = {name: f"variable{i}" for name, i in placeholders.items()}
    kept = [node for node in graph.node if node.name not in names]
    for node in kept:
        for k, fed in enumerate(node.input):
            node.input[k] = names.get(fed.split(":")[0], fed)
    del graph.node[:]
    graph.node.extend([*more.as_graph_def().node, *kept])
    fed = [tensor.op.name for tensor in concrete.graph.inputs if tensor.op.name not in names]
    return graph, fed, [operation.name for operation in concrete.graph.control_outputs]


def training_step(
    entry: Entry, kind: str, dtype: str, start: Any
) -> Tuple[Any, List[Any], List[np.ndarray], List[np.ndarray]]:
    """The step's function, its variables, their values before it, and labels with features."""
    model = made(entry, dtype, start)
    keras.config.set_floatx(dtype)
    try:
        optimizer = optimizers()[kind]() if kind in optimizers() else None
        function, variables = with_variables(entry, model, optimizer) if optimizer else with_inputs(entry, model)
    finally:
        keras.config.set_floatx("float32")
    draws = np.random.default_rng(5)
    features = entry.features(draws)
    labels = entry.labels(draws, features)
    if optimizer:
        for slot in optimizer.variables:
            if len(slot.shape) > 0:  # as after some steps: fresh ones hide half of the update
                slot.assign(draws.uniform(0.001, 0.01, slot.shape).astype(np.float32))
    batch = fed(model, features)
    label = labels.astype(dtype) if entry.numbers else labels
    given = [label, *(x.numpy() for x in (batch if isinstance(batch, list) else [batch]))]
    return function, variables, [variable.numpy() for variable in variables], given


def training(entry: Entry, runner: str) -> Dict[str, Any]:
    """How far the program's run of TensorFlow's training graphs is from TensorFlow's, each by the bound."""
    keras.utils.set_random_seed(7)
    values = [weight.numpy() for weight in made(entry, "float32").weights]
    row: Dict[str, Any] = {"name": entry.name}
    for kind in ("frozen", *optimizers()):
        results = {}
        for dtype in ("float64", "float32"):
            function, variables, before, given = training_step(entry, kind, dtype, values)
            specs = [tf.TensorSpec(np.shape(x), np.asarray(x).dtype, name=f"in{k}") for k, x in enumerate(given)]
            if kind == "frozen":
                results[dtype] = [x.numpy() for x in function(*map(tf.constant, [*before, *given]))]
            else:
                graph = serialised(function, specs, variables, before)
                function(*map(tf.constant, given))
                results[dtype] = [variable.numpy() for variable in variables]
        with tempfile.TemporaryDirectory() as name:
            file = pathlib.Path(name) / "step.pb"
            if kind == "frozen":
                specs = [tf.TensorSpec(np.shape(x), np.asarray(x).dtype) for x in [*before, *given]]
                frozen = convert_variables_to_constants_v2(function.get_concrete_function(*specs))
                file.write_bytes(frozen.graph.as_graph_def().SerializeToString())
                feeds = {tensor.op.name: x for tensor, x in zip(frozen.inputs, [*before, *given])}
                found = run_graph(runner, file, feeds, [tensor.name for tensor in frozen.outputs])
            else:
                definition, inputs, assignments = graph
                file.write_bytes(definition.SerializeToString())
                fetches, init = ([f"{what}{i}" for i in range(len(before))] for what in ("read", "assign"))
                found = run_graph(runner, file, dict(zip(inputs, given)), fetches, init, assignments)
        if isinstance(found, str):
            row[kind] = found
            continue
        # Integers are counters: the steps, and the state of random numbers, which are not drawn.
        pairs = zip(found, results["float32"], results["float64"], before)
        row[kind] = max(
            ratio(ours, single.astype(np.float64), exact.astype(np.float64), start)
            if start.dtype == np.float32
            else float("inf" if (ours != single).any() else 0)
            for ours, single, exact, start in pairs
        )
    return row
