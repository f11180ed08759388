"""Draws random graphs of every family, computes them with TensorFlow and compares what Rivulet makes of the same files.

  python3 random_graphs.py BUILD/conformance_tensorflow_graphs --families tensorflow-families.txt [--seed N] [--each 2] [--only NAME,…]

Needs TensorFlow. Prints a table by family and outcome: agree, refused (by name), wrong, crash. Exits with 1 when a graph is
wrong or crashes.
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile
import zlib

from family import Draw, FAMILIES
import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

import array_families  # noqa: F401
import control_families  # noqa: F401
import elementwise_families  # noqa: F401
import layer_families  # noqa: F401

v1 = tf.compat.v1


def flat(value):
    value = tf.nest.flatten(value)
    return [tf.convert_to_tensor(v) for v in value if v is not None]


def of_function(drawn, open_batch):
    """A frozen graph with outputs out_0, …; and what TensorFlow computes."""
    def shape(x):
        dims = list(np.shape(x))
        return [None] + dims[1:] if open_batch and dims and drawn.freeze else dims

    specs = [tf.TensorSpec(shape(x), tf.as_dtype(np.asarray(x).dtype), name=f"in_{i}") for i, x in enumerate(drawn.inputs)]
    def outputs(*inputs):
        return [tf.identity(o, name=f"out_{i}") for i, o in enumerate(flat(drawn.function(*inputs)))]
    concrete = tf.function(outputs, autograph=False).get_concrete_function(*specs)
    frozen = convert_variables_to_constants_v2(concrete, lower_control_flow=drawn.lower)
    results = concrete(*[tf.constant(x) for x in drawn.inputs])
    graph = frozen.graph.as_graph_def()
    feeds = {i.name.split(":")[0]: x for i, x in zip(frozen.inputs, drawn.inputs)}
    fetches = [o.name for o in frozen.outputs]
    return graph, feeds, fetches, [o.numpy() for o in results]


def of_graph(drawn):
    v1.disable_control_flow_v2()
    try:
        graph = tf.Graph()
        with graph.as_default():
            inputs = [np.asarray(x) if x is not None else None for x in drawn.inputs]
            for i, x in enumerate(inputs):
                if x is None:
                    inputs[i] = np.arange(len(inputs[0])).astype(np.int32) % 4
            holders = [v1.placeholder(x.dtype, x.shape, name=f"in_{i}") for i, x in enumerate(inputs)]
            outputs = [tf.identity(o, name=f"out_{i}") for i, o in enumerate(flat(drawn.graph(*holders)))]
            with v1.Session(graph=graph) as session:
                session.run(v1.global_variables_initializer())
                results = session.run(outputs, dict(zip(holders, inputs)))
                names = [o.op.name for o in outputs]
                definition = v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), names)
        return definition, {f"in_{i}": x for i, x in enumerate(inputs)}, [o.name for o in outputs], results
    finally:
        v1.enable_control_flow_v2()


def constants(values):
    graph = tf.Graph()
    with graph.as_default():
        for name, value in values.items():
            tf.constant(value, name=name)
    return graph.as_graph_def()


def write(folder, case, drawn, open_batch):
    graph, feeds, fetches, results = of_graph(drawn) if drawn.graph else of_function(drawn, open_batch)
    (folder / f"{case}.pb").write_bytes(graph.SerializeToString())
    values = {f"feed/{name}": np.asarray(x) for name, x in feeds.items()}
    values.update({f"fetch/{i}": np.asarray(x) for i, x in enumerate(results)})
    (folder / f"{case}.values.pb").write_bytes(constants(values).SerializeToString())
    (folder / f"{case}.json").write_text(json.dumps({"tolerance": drawn.tolerance, "fetches": fetches}))


def compare(runner, folder, cases):
    """What `runner` says of each case; one that ends it is a crash, and the rest is run again."""
    outcome = {}
    rest = list(cases)
    while rest:
        done = subprocess.run([runner, str(folder)] + rest, capture_output=True, text=True)
        for line in done.stdout.splitlines():
            answer = json.loads(line)
            outcome[answer["case"]] = (answer["outcome"], answer["message"])
        rest = [case for case in rest if case not in outcome]
        if rest:
            outcome[rest[0]] = ("crash", done.stderr.strip()[-300:] or f"exit {done.returncode}")
            rest = rest[1:]
    return outcome


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runner")
    parser.add_argument("--families", help="names of families, one a line; each must be known here")
    parser.add_argument("--seed", type=int, default=20261128)
    parser.add_argument("--each", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", help="a folder for the files")
    parser.add_argument("--reuse", action="store_true", help="compare the files of --keep again")
    parser.add_argument("--json")
    args = parser.parse_args()
    names = sorted(FAMILIES)
    if args.families:
        lines = pathlib.Path(args.families).read_text().splitlines()
        names = [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]
    if args.only:
        names = [n for n in names if n in args.only.split(",")]
    unknown = [n for n in names if n not in FAMILIES]
    if unknown:
        print("families without a builder:", " ".join(unknown))
    temporary = tempfile.TemporaryDirectory()
    folder = pathlib.Path(args.keep or temporary.name)
    folder.mkdir(parents=True, exist_ok=True)
    cases, unwritten = [], []
    for name in names:
        for k in range(args.each if name in FAMILIES else 0):
            case = f"{name}.{k}"
            if not (args.reuse and (folder / f"{case}.json").exists()):
                draw = Draw([args.seed, zlib.crc32(name.encode()), k])
                try:
                    write(folder, case, FAMILIES[name](draw), False)
                except Exception as error:  # a draw that TensorFlow itself refuses
                    unwritten.append((case, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"))
                    continue
            cases.append(case)
    outcome = compare(args.runner, folder, cases)
    counts = collections.Counter(kind for kind, _ in outcome.values())
    reasons = collections.defaultdict(list)
    for case, (kind, message) in sorted(outcome.items()):
        if kind != "agree":
            print(f"{kind:8} {case:28} {message[:200]}")
            reasons[kind].append(case)
    for case, message in unwritten:
        print(f"unwritten {case:28} {message[:160]}")
    families = len({case.rsplit(".", 1)[0] for case in outcome})
    print(f"{len(outcome)} graphs of {families} families: " + ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({c: list(o) for c, o in sorted(outcome.items())}, indent=1))
    sys.exit(1 if counts["wrong"] or counts["crash"] else 0)


if __name__ == "__main__":
    main()
