"""Writes sample/: training graphs of Keras models, with TensorFlow's variables after a step, for a test without TensorFlow.

  python3 make_sample.py

Needs TensorFlow and the Python package's folder beside this one. conformance.tensorflow_sample runs the files.
"""
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "outside"), str(HERE.parents[2] / "python")]
import keras_catalogue  # noqa: E402, first: it chooses how TensorFlow computes
import keras  # noqa: E402
import keras_step  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

CASES = (("lstm", "SGD"), ("separable", "SGD"), ("embedding", "Adam"))
NOTES = ("_class", "_output_shapes", "_user_specified_name", "_gradient_op_type", "_XlaHasReferenceVars", "_has_manual_control_dependencies")


def constants(values):
    with tf.Graph().as_default() as graph:
        for name, value in values.items():
            tf.constant(value, name=name)
    return graph.as_graph_def().SerializeToString(deterministic=True)


def without_notes(graph):
    """Neither names of files nor what TensorFlow only notes down: half of the bytes."""
    for nodes in (graph.node, *(function.node_def for function in graph.library.function)):
        for node in nodes:
            node.ClearField("experimental_debug_info")
            for note in NOTES:
                node.attr.pop(note, None)
    for function in graph.library.function:
        function.ClearField("arg_attr")
        for note in list(function.attr):
            del function.attr[note]
    graph.ClearField("debug_info")
    return graph


def main():
    folder = HERE / "sample"
    folder.mkdir(exist_ok=True)
    entries = keras_catalogue.by_name()
    for name, kind in CASES:
        entry = entries[name]
        keras.utils.set_random_seed(7)
        values = [weight.numpy() for weight in keras_step.made(entry, "float32").weights]
        function, variables, before, given = keras_step.training_step(entry, kind, "float32", values)
        specs = [tf.TensorSpec(np.shape(x), np.asarray(x).dtype, name=f"in{k}") for k, x in enumerate(given)]
        graph, inputs, assignments = keras_step.serialised(function, specs, variables, before)
        function(*map(tf.constant, given))
        case = folder / f"{name}_{kind.lower()}"
        case.with_suffix(".pb").write_bytes(without_notes(graph).SerializeToString(deterministic=True))
        after = {f"fetch/{i}": variable.numpy() for i, variable in enumerate(variables)}
        feeds = {f"feed/{name}": x for name, x in zip(inputs, given)}
        case.with_suffix(".values.pb").write_bytes(constants({**feeds, **after}))
        facts = {
            "targets": [f"assign{i}" for i in range(len(before))],
            "step": assignments,
            "fetches": [f"read{i}" for i in range(len(before))],
            "tolerance": 1e-6,
        }
        case.with_suffix(".json").write_text(json.dumps(facts) + "\n")


if __name__ == "__main__":
    main()
