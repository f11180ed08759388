"""Writes functions.pb, functions.values.pb and loop_model.pb: control flow as TensorFlow's Python writes it.

functions.pb has placeholders x (float [3, 4]), n (int32) and p (bool), variables w ([4, 4]) and b ([4]), and for every
case a result "case/NAME". functions.values.pb holds constants: the feeds ("x", "w", "b"), and for each case and each
feed of n and p what TensorFlow computed ("case/NAME/2/True"); of some also the gradients of the sum of squares
("grad/NAME/x/2/True", "grad/NAME/w/2/True").
loop_model.pb is a softmax classifier of 28 x 28 images whose logits are scaled by what a loop of 10 steps counts.

Made with TensorFlow 2.21.0:  python make_function_graphs.py [FOLDER]
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.enable_control_flow_v2()
FOLDER = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))


def write(name, message):
    with open(os.path.join(FOLDER, name), "wb") as file:
        file.write(message.SerializeToString(deterministic=True))


def constants(values):
    graph = tf.Graph()
    with graph.as_default():
        for name, value in values.items():
            node = tf.constant(value, name=name)
            assert node.op.name == name, (node.op.name, name)
    return graph.as_graph_def()


def functions(with_gradients):
    graph = tf.Graph()
    with graph.as_default():
        x = v1.placeholder(tf.float32, [3, 4], name="x")
        n = v1.placeholder(tf.int32, [], name="n")
        p = v1.placeholder(tf.bool, [], name="p")
        w = v1.get_variable("w", [4, 4], use_resource=True)
        b = v1.get_variable("b", [4], use_resource=True)

        def case(name, value, gradient=False):
            value = tf.identity(value, name="case/" + name)
            if gradient and with_gradients:  # which rewrites the forward nodes, so the graph is written without
                for of, got in zip("xw", tf.gradients(tf.reduce_sum(value * value), [x, w])):
                    tf.identity(tf.convert_to_tensor(got), name=f"grad/{name}/{of}")

        case("cond", tf.cond(p, lambda: tf.matmul(x, w), lambda: tf.tanh(x) + b), gradient=True)
        case("cond_shapes", tf.reshape(tf.cond(p, lambda: tf.reshape(x, [6, 2]), lambda: tf.reshape(x * 2, [6, 2])), [-1]))
        case("while_sum", tf.while_loop(lambda i, s: i < n, lambda i, s: [i + 1, s + tf.cast(i, tf.float32) * x],
                                        [0, tf.zeros_like(x)])[1])
        case("while_power", tf.while_loop(lambda i, y: i < n, lambda i, y: [i + 1, tf.tanh(tf.matmul(y, w))], [0, x])[1])
        case("while_cond", tf.while_loop(
            lambda i, y: tf.logical_and(i < 10, tf.reduce_sum(y) < 100.0),
            lambda i, y: [i + 1, tf.cond(tf.equal(i % 2, 0), lambda: y + 1.0, lambda: y * 1.5)], [0, x])[1])
        case("nested", tf.while_loop(
            lambda i, y: i < n,
            lambda i, y: [i + 1, tf.while_loop(lambda j, z: j < i, lambda j, z: [j + 1, z + b], [0, y])[1]], [0, x])[1])
        case("switch_case", tf.switch_case(n, [lambda: x, lambda: x * w[0], lambda: tf.exp(x)]), gradient=True)

        @tf.function
        def inner(v):
            return tf.nn.relu(tf.matmul(v, w) + b)

        @tf.function
        def outer(v, flag):
            return inner(v) + inner(v * 2.0), tf.where(flag, v, -v)

        case("call", outer(x, p)[0] + outer(x, p)[1], gradient=True)

        @tf.function
        def positive_rows(v):
            total = tf.zeros([4])
            for row in range(3):
                if tf.reduce_sum(v[row]) > 0:
                    total += v[row]
            return total

        case("autograph", positive_rows(x))

        @tf.function
        def counts(v):
            w.assign_add(tf.ones_like(w))
            return tf.matmul(v, w)

        case("assigns", counts(x))

    if not with_gradients:
        return write("functions.pb", graph.as_graph_def())
    random = np.random.default_rng(4)
    feeds = {"x": random.normal(size=[3, 4]).astype(np.float32), "w": (random.normal(size=[4, 4]) * 0.5).astype(np.float32),
             "b": random.normal(size=[4]).astype(np.float32)}
    values = dict(feeds)
    names = [op.name for op in graph.get_operations() if op.name.startswith(("case/", "grad/"))]
    with v1.Session(graph=graph) as session:
        for steps in (0, 1, 2, 5):
            for flag in (True, False):
                for name in names:
                    w.load(feeds["w"], session), b.load(feeds["b"], session)
                    values[f"{name}/{steps}/{flag}"] = session.run(name + ":0", {x: feeds["x"], n: steps, p: flag})
    write("functions.values.pb", constants(values))


def loop_model():
    graph = tf.Graph()
    with graph.as_default():
        image = v1.placeholder(tf.float32, [None, 28, 28, 1], name="image")
        label = v1.placeholder(tf.int64, [None], name="label")
        kernel = v1.get_variable("kernel", [784, 10], initializer=v1.glorot_uniform_initializer(seed=1), use_resource=True)
        bias = v1.get_variable("bias", [10], initializer=v1.zeros_initializer(), use_resource=True)
        scale = tf.while_loop(lambda i, s: i < 10, lambda i, s: [i + 1, s + 0.1], [0, 0.0], name="counting")[1]
        logits = (tf.matmul(tf.reshape(image, [-1, 784]), kernel) + bias) * scale
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        tf.reduce_mean(losses, name="loss")
        hits = tf.cast(tf.equal(tf.argmax(logits, 1), label), tf.float32)
        tf.reduce_mean(hits, name="accuracy")
        v1.global_variables_initializer()
    write("loop_model.pb", graph.as_graph_def())


functions(with_gradients=False)
functions(with_gradients=True)
loop_model()
