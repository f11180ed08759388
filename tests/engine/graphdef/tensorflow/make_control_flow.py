"""Writes control_*.pb: conditions and loops as TensorFlow 1 writes them (Switch, Merge, Enter, TensorArrayV3, …).

control_NAME.pb is a GraphDef with placeholders ("x", "w", …), the output y and loss = sum(y²)/2.
control_NAME.values.pb is a GraphDef of constants: each placeholder's value, y, and TensorFlow's gradient of the loss by
each floating placeholder ("gradient/…"). All under "0/", and for other inputs, of other branches and trip counts, under "1/", "2/", …

Made with TensorFlow 2.21.0:  python make_control_flow.py [FOLDER]
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf
from tensorflow.python.keras.layers.legacy_rnn.rnn_cell_impl import RNNCell

v1 = tf.compat.v1
v1.disable_eager_execution()
v1.disable_control_flow_v2()
FOLDER = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))


def write(name, message):
    with open(os.path.join(FOLDER, name), "wb") as file:
        file.write(message.SerializeToString(deterministic=True))


def cond_nested(x, w):
    total = tf.reduce_sum(x)
    return v1.cond(
        total > 0,
        lambda: v1.cond(total > 4, lambda: x * w, lambda: tf.tanh(x) + 1.0),
        lambda: v1.cond(tf.reduce_sum(w) > 0, lambda: x - w, lambda: tf.exp(x)),
    )


def cond_twice(x, w):
    positive = tf.reduce_sum(x) > 0
    a, b = v1.cond(positive, lambda: (x + w, x * 2.0), lambda: (x - w, w * 3.0))
    return a * v1.cond(positive, lambda: b * w, lambda: b + w)


def while_counted(x, w):
    return v1.while_loop(lambda i, h: i < 5, lambda i, h: (i + 1, tf.tanh(h * w + x)), [0, x])[1]


def while_data(x, w):
    return v1.while_loop(lambda h: tf.reduce_sum(tf.abs(h)) < 20.0, lambda h: [h * 1.5 + 0.1 * w], [x])[0] * w


def while_nested(x, w):
    def outer(i, h):
        inner = v1.while_loop(lambda j, g: j < i, lambda j, g: (j + 1, tf.tanh(g * w)), [0, h])[1]
        return i + 1, v1.cond(tf.reduce_sum(inner) > 0, lambda: inner * 0.5, lambda: inner + x)

    return v1.while_loop(lambda i, h: i < 4, outer, [0, x])[1]


def arrays(x, w):
    count = tf.shape(x)[0]
    read = tf.TensorArray(tf.float32, count).unstack(x)
    out = tf.TensorArray(tf.float32, count, element_shape=[3])

    def step(i, h, out):
        h = tf.tanh(read.read(i) + h * w[0])
        return i + 1, h, out.write(i, h * w[1])

    _, h, out = v1.while_loop(lambda i, h, out: i < count, step, [0, w[1], out])
    return out.stack() + h


def dynamic_rnn(x, kernel, length):
    class Cell(RNNCell):
        @property
        def state_size(self):
            return 4

        @property
        def output_size(self):
            return 4

        def call(self, inputs, state):
            state = tf.tanh(tf.matmul(tf.concat([inputs, state], 1), kernel))
            return state, state

    outputs, state = v1.nn.dynamic_rnn(Cell(), x, sequence_length=length, dtype=tf.float32)
    return outputs + tf.expand_dims(state, 1)


def make(name, body, inputs, others=()):
    graph = tf.Graph()
    with graph.as_default():
        placeholders = [v1.placeholder(tf.as_dtype(v.dtype), v.shape, name=n) for n, v in inputs.items()]
        y = tf.identity(body(*placeholders), name="y")
        loss = tf.reduce_sum(y * y / 2, name="loss")
        definition = graph.as_graph_def()
        floats = [p for p in placeholders if p.dtype == tf.float32]
        gradients = v1.gradients(loss, floats)
        results = []
        with v1.Session() as session:
            for values in (inputs,) + tuple(others):
                feeds = dict(zip(placeholders, values.values()))
                results.append((values, session.run([y] + [g for g in gradients if g is not None], feeds)))
        floats = [p for p, g in zip(floats, gradients) if g is not None]
    write("control_" + name + ".pb", definition)
    constants = tf.Graph()
    with constants.as_default():
        for i, (values, result) in enumerate(results):
            for n, value in values.items():
                tf.constant(value, name=f"{i}/{n}")
            tf.constant(result[0], name=f"{i}/y")
            for p, gradient in zip(floats, result[1:]):
                tf.constant(gradient, name=f"{i}/gradient/{p.op.name}")
    write("control_" + name + ".values.pb", constants.as_graph_def())
    ops = sorted({node.op for node in definition.node})
    print(name, len(definition.node), "nodes", [op for op in ops if op[0] in "SMENTL"])


draws = np.random.RandomState(0)


def random(*shape):
    return draws.uniform(-1, 1, shape).astype(np.float32)


X = np.array([[0.5, -0.25], [1.0, 0.75]], np.float32)
W = np.array([[0.3, 0.6], [-0.4, 0.9]], np.float32)
OTHERS = [{"x": X * k, "w": W * s} for k in (-1, 3, 30) for s in (1, -1)]
make("cond_nested", cond_nested, {"x": X, "w": W}, OTHERS)
make("cond_twice", cond_twice, {"x": X, "w": W}, OTHERS)
make("while_counted", while_counted, {"x": X, "w": W})
make("while_data", while_data, {"x": X, "w": W}, OTHERS)
make("while_nested", while_nested, {"x": X, "w": W}, OTHERS[:2])
make("arrays", arrays, {"x": random(5, 3), "w": random(2, 3)})
make("dynamic_rnn", dynamic_rnn,
     {"x": random(3, 6, 2), "kernel": random(6, 4), "length": np.array([6, 2, 4], np.int32)},
     [{"x": random(3, 6, 2), "kernel": random(6, 4), "length": np.array([1, 0, 3], np.int32)}])
