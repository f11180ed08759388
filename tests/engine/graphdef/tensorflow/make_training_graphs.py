"""Writes training_*.pb: gradients as TensorFlow itself writes them, in graphs of both versions.

training_NAME.pb is a GraphDef; training_NAME.values.pb has constants: "0/feed/NAME" what is fed, "0/fetch/NAME" what
TensorFlow computes of it, and the same for other inputs under "1/", …

Made with TensorFlow 2.21.0:  python make_training_graphs.py [FOLDER]
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

v1 = tf.compat.v1
FOLDER = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(20261128)


def write(name, graph, runs):
    values = tf.Graph()
    with values.as_default():
        for i, (feeds, fetches) in enumerate(runs):
            for kind, named in (("feed", feeds), ("fetch", fetches)):
                for key, value in named.items():
                    tf.constant(value, name=f"{i}/{kind}/{key}")
    for suffix, message in ((".pb", graph), (".values.pb", values.as_graph_def())):
        with open(os.path.join(FOLDER, f"training_{name}{suffix}"), "wb") as file:
            file.write(message.SerializeToString(deterministic=True))


def floats(*shape):
    return rng.uniform(-1.5, 1.5, shape).astype(np.float32)


def of_version_1(name, function, draws):
    v1.disable_control_flow_v2()
    graph = tf.Graph()
    with graph.as_default():
        holders = [v1.placeholder(x.dtype, x.shape, name=f"in_{i}") for i, x in enumerate(draws[0])]
        outputs = [tf.identity(o, name=f"out_{i}") for i, o in enumerate(function(*holders))]
        with v1.Session() as session:
            runs = []
            for draw in draws:
                results = session.run(outputs, dict(zip(holders, draw)))
                runs.append(({f"in_{i}": x for i, x in enumerate(draw)}, {f"out_{i}": r for i, r in enumerate(results)}))
    v1.enable_control_flow_v2()
    write(name, graph.as_graph_def(), runs)


def of_version_2(name, function, draws, lower):
    specs = [tf.TensorSpec(x.shape, x.dtype, name=f"in_{i}") for i, x in enumerate(draws[0])]
    traced = tf.function(lambda *x: [tf.identity(o, name=f"out_{i}") for i, o in enumerate(function(*x))], autograph=False)
    concrete = traced.get_concrete_function(*specs)
    frozen = convert_variables_to_constants_v2(concrete, lower_control_flow=lower)
    names = [o.name.split(":")[0] for o in frozen.outputs]
    runs = []
    for draw in draws:
        results = concrete(*[tf.constant(x) for x in draw])
        runs.append(({f"in_{i}": x for i, x in enumerate(draw)}, {n: r.numpy() for n, r in zip(names, results)}))
    write(name, frozen.graph.as_graph_def(), runs)


def by_tape(function):
    def gradients(*x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(function(*x))
        return [y] + tape.gradient(y, list(x))
    return gradients


def by_graph(function):
    def gradients(*x):
        y = tf.reduce_sum(function(*x))
        return [y] + tf.gradients(y, list(x))
    return gradients


def counted(x, w):
    return v1.while_loop(lambda i, h: i < 4, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w))), [0, x])[1]


def as_long_as(x, w):
    return v1.while_loop(lambda h: tf.reduce_sum(h * h) < 40.0, lambda h: [h * 1.3 + tf.sin(h * w)], [x])[0]


def nested(x, w):
    def inner(h):
        return v1.while_loop(lambda j, g: j < 2, lambda j, g: (j + 1, tf.sin(g * w) + g), [0, h])[1]
    return v1.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, inner(h) * 0.5), [0, x])[1]


def condition(x, w):
    return v1.cond(tf.reduce_sum(x) > 0, lambda: tf.sin(x) * w, lambda: x * x * w)


def convolution(x, w):
    y = tf.nn.relu(tf.nn.conv2d(x, w, 1, "SAME"))
    return tf.concat([y, y * y], 3)


def conditional(x, w):
    def body(i, h):
        return i + 1, v1.cond(tf.reduce_sum(h) > 0, lambda: tf.sin(h * w) - 0.5, lambda: h * h * w + 0.3)
    return v1.while_loop(lambda i, h: i < 5, body, [0, x])[1]


def recurrent(x, w):
    """Rows of x are read from an array, and states are written to one, as tf.nn.dynamic_rnn does."""
    steps = x.shape[0]
    rows = tf.TensorArray(tf.float32, steps, element_shape=[3]).unstack(x)
    states = tf.TensorArray(tf.float32, steps, element_shape=[3])
    def body(i, h, states):
        h = tf.tanh(rows.read(i) + tf.reduce_sum(h * w, 0))
        return i + 1, h, states.write(i, h)
    return v1.while_loop(lambda i, h, s: i < steps, body, [0, tf.zeros([3]), states])[2].stack()


def array(x, w):
    """Without a loop: an element is read or gathered twice, and elements are written by different ops."""
    a = tf.TensorArray(tf.float32, 3, element_shape=[3], clear_after_read=False).write(0, x).write(1, x * w).write(2, w)
    return a.read(1) * a.read(0) + a.read(1) + tf.reduce_sum(a.gather([2, 0, 2]), 0)


two = [[floats(2, 3), floats(3, 3)], [floats(2, 3), floats(3, 3)]]
same = [[floats(3) + 1, floats(3)], [floats(3) - 1, floats(3)]]
images = [[floats(2, 5, 5, 2), floats(3, 3, 2, 3)]]
of_version_1("loop", by_graph(counted), two)
of_version_1("loop_by_data", by_graph(as_long_as), same)
of_version_1("loop_in_loop", by_graph(nested), same)
of_version_1("condition", by_graph(condition), same)
of_version_1("convolution", by_graph(convolution), images)
of_version_2("convolution_tape", by_tape(convolution), images, True)
for lower in (True, False):
    suffix = "lowered" if lower else "functional"
    of_version_2(f"loop_{suffix}", by_tape(lambda x, w: tf.while_loop(lambda i, h: i < 4, lambda i, h: (i + 1, tf.tanh(h @ w)), [0, x])[1]), two, lower)
    of_version_2(f"condition_{suffix}", by_tape(lambda x, w: tf.cond(tf.reduce_sum(x) > 0, lambda: tf.sin(x) * w, lambda: x * x * w)), same, lower)
    of_version_2(f"case_{suffix}", lambda i, x: [tf.switch_case(i, [lambda: x * 2, lambda: tf.exp(x), lambda: x * x], default=lambda: x - 1)],
                 [[np.int32(i), floats(3)] for i in (-1, 0, 1, 2, 7)], lower)
of_version_1("loop_with_condition", by_graph(conditional), same)
of_version_1("loop_with_arrays", by_graph(recurrent), [[floats(4, 3), floats(3, 3)] for _ in range(2)])
of_version_1("arrays", by_graph(array), same)
of_version_1("map", by_graph(lambda x, w: v1.map_fn(lambda a: tf.reduce_sum(a * w) * a, x)), [[floats(4, 3), floats(3)]])
of_version_1("scan", by_graph(lambda x, w: v1.scan(lambda a, b: a * w + tf.sin(b), x)), [[floats(4, 3), floats(3)]])
