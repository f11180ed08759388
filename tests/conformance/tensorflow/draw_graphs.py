"""Random graphs as files: drawn from the families, computed with TensorFlow, and written with the values."""
import json
import zlib

from family import Draw, FAMILIES
from google.protobuf import text_format
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


def drawn_case(seed, name, k):
    """A graph of the family `name`, its constants feed/NAME and fetch/N, and facts for the runner."""
    drawn = FAMILIES[name](Draw([seed, zlib.crc32(name.encode()), k]))
    graph, feeds, fetches, results = of_graph(drawn) if drawn.graph else of_function(drawn, False)
    values = {f"feed/{name}": np.asarray(x) for name, x in feeds.items()}
    values.update({f"fetch/{i}": np.asarray(x) for i, x in enumerate(results)})
    return graph, constants(values), {"tolerance": drawn.tolerance, "fetches": fetches}


def write(folder, case, graph, values, facts):
    (folder / f"{case}.pb").write_bytes(graph.SerializeToString())
    (folder / f"{case}.values.pb").write_bytes(values.SerializeToString())
    (folder / f"{case}.json").write_text(json.dumps(facts))


def as_line(case, graph, values, facts):
    """The case as text on one line, without what TensorFlow only notes down."""
    for message in (graph, values):
        for nodes in (message.node, *(function.node_def for function in message.library.function)):
            for node in nodes:
                node.ClearField("experimental_debug_info")
                node.ClearField("experimental_type")
                for note in ("_class", "_output_shapes", "_user_specified_name"):
                    node.attr.pop(note, None)
        message.ClearField("debug_info")
    texts = [text_format.MessageToString(message, as_one_line=True) for message in (graph, values)]
    return json.dumps({"case": case, **facts, "graph_text": texts[0], "values_text": texts[1]})
