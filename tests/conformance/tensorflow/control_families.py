"""Families of loops, conditions, lists, random numbers and TensorFlow 1 graphs."""
import numpy as np
import tensorflow as tf

from family import Drawn, family

r = tf.raw_ops
v1 = tf.compat.v1


def one(name, tolerance=5e-5, lower=None):
    def register(builder):
        def build(d):
            drawn = builder(d)
            return Drawn(drawn[0], drawn[1], tolerance, d.bool() if lower is None else lower)
        family(name)(build)
        return builder
    return register


@one("assert")
def _(d):
    def f(x):
        tf.debugging.assert_greater(tf.reduce_sum(tf.abs(x)), -1.0, message="none")
        return x * 2
    return f, [d.floats(d.shape())]


@one("p_assert_lowered", lower=True)
def _(d):
    def f(x):
        with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(tf.abs(x) > -1), [x, "bad"])]):
            return x * 2 + tf.reduce_sum(x)
    return f, [d.floats(d.shape())]


@one("cf_case")
def _(d):
    n = d.int(-1, 4)
    return lambda i, x: tf.switch_case(i, [lambda: x * 2, lambda: tf.exp(x), lambda: x * x * 3, lambda: x]), [np.int32(n), d.floats([3])]


@one("p_case_v2")
def _(d):
    return lambda i, x: tf.switch_case(i, {0: lambda: x * 2, 1: lambda: tf.exp(x)}, default=lambda: x * 5), [np.int32(d.int(-1, 3)), d.floats([3])]


@one("cf_cond")
def _(d):
    return lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: tf.sin(x), lambda: x * 2), [d.floats(d.shape())]


def grad(f):
    def g(*x):
        with tf.GradientTape() as t:
            t.watch(x)
            y = tf.reduce_sum(f(*x))
        return t.gradient(y, list(x))
    return g


@one("cf_cond_grad")
def _(d):
    return grad(lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: tf.sin(x) * x, lambda: x * x)), [d.floats(d.shape())]


@one("cf_foldl")
def _(d):
    return lambda x: tf.foldl(lambda a, b: a * 0.5 + b, x), [d.floats([d.int(1, 4), 2])]


@one("cf_map")
def _(d):
    return lambda x: tf.map_fn(lambda a: tf.reduce_sum(a * a) + a, x), [d.floats([d.int(1, 4), 2])]


@one("cf_scan")
def _(d):
    return lambda x: tf.scan(lambda a, b: a * 0.5 + b, x, reverse=d.bool()), [d.floats([d.int(1, 4), 2])]


@one("cf_function")
def _(d):
    inner = tf.function(lambda x: tf.sin(x) * 2)
    return lambda x: inner(x) + inner(x * 2), [d.floats(d.shape())]


@one("cf_nested")
def _(d):
    n = d.int(1, 5)
    def f(x):
        def body(i, a):
            return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: a * 1.5, lambda: a + 1)
        return tf.while_loop(lambda i, a: i < n, body, [0, x])[1]
    return f, [d.floats([3])]


@one("cf_recursive")
def _(d):
    def power(x, n):
        return x if n == 0 else x * power(x * 0.5, n - 1)
    return lambda x: tf.reduce_sum(power(x, d.int(1, 4))), [d.floats([3])]


@one("cf_tensorarray")
def _(d):
    n = d.int(2, 4)
    def f(x):
        a = tf.TensorArray(tf.float32, n, element_shape=[2])
        for i in range(n):
            a = a.write(i, x[i] * float(i + 1))
        return a.stack(), a.gather([n - 1, 0])
    return f, [d.floats([n, 2])]


@one("cf_tensorarray_dyn")
def _(d):
    n = d.int(2, 4)
    def f(x):
        a = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[2])
        _, a = tf.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a.write(i, x * tf.cast(i, tf.float32))), [0, a])
        return a.stack()
    return f, [d.floats([2])]


@one("cf_while")
def _(d):
    n = d.int(0, 4)
    return lambda x, w: tf.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, tf.tanh(a @ w)), [0, x])[1], [d.floats([2, 3]), d.floats([3, 3])]


@one("cf_while_data")
def _(d):
    return lambda x: tf.while_loop(lambda a: tf.reduce_sum(a * a) < 50.0, lambda a: [a * 1.5 + 0.1], [x])[0], [d.floats([3])]


@one("cf_while_grad", 1e-4)
def _(d):
    n = d.int(1, 4)
    return grad(lambda x, w: tf.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, tf.tanh(a @ w)), [0, x], maximum_iterations=d.choice([None, 6]))[1]), [d.floats([2, 3]), d.floats([3, 3])]


@one("p_dyn_batch_shape")
def _(d):
    def f(x):
        n = tf.shape(x)[0]
        return tf.reshape(x * 2, tf.stack([n, -1])), tf.reshape(x, [n, 2, 3])
    return f, [d.floats([d.int(1, 4), 6])]


@one("p_dynamic_mask")
def _(d):
    return lambda x: tf.reduce_sum(tf.boolean_mask(x, x > 0)), [d.floats([d.int(3, 7)])]


@one("stateless_multinomial")
def _(d):
    return lambda x: r.StatelessMultinomial(logits=x, num_samples=d.int(1, 5), seed=[d.int(0, 99), 3], output_dtype=d.choice([tf.int32, tf.int64])), [d.floats([2, 4])]


@one("stateless_random")
def _(d):
    s = [d.int(0, 99), d.int(0, 99)]
    return lambda x: (tf.random.stateless_normal([3, 2], s) * x, tf.random.stateless_uniform([5], s, 0, 9, tf.int32), tf.random.stateless_uniform([d.int(2, 6)], s)), [d.floats([2])]


@one("stateless_random_v1")
def _(d):
    n = d.int(1, 9)
    op, t = d.choice([(r.StatelessRandomUniform, 0), (r.StatelessRandomNormal, 0), (r.StatelessTruncatedNormal, 0)])
    return lambda x: op(shape=[n, 2], seed=[d.int(0, 99), 5]) * x, [d.floats([2])]


# TensorFlow 1.
def old(name, tolerance=5e-5):
    def register(builder):
        def build(d):
            graph, inputs = builder(d)
            return Drawn(inputs=inputs, tolerance=tolerance, graph=graph)
        family(name)(build)
        return builder
    return register


@old("v1_batch_norm_v1")
def _(d):
    c = d.int(1, 4)
    def f(x):
        return v1.nn.fused_batch_norm(x, tf.ones([c]) * 1.5, tf.ones([c]), tf.zeros([c]), tf.ones([c]) * 2, is_training=False)[0]
    return f, [d.floats([2, 3, 3, c])]


@old("v1_case")
def _(d):
    def f(x):
        s = tf.reduce_sum(x)
        return v1.case([(s > 2, lambda: x * 2), (s > 0, lambda: -x), (s > -2, lambda: x * x)], default=lambda: x * 5, exclusive=False)
    return f, [d.floats([3])]


@old("v1_concat_grad")
def _(d):
    a = d.choice([0, 1, -1])
    def f(x, y):
        return tf.gradients(tf.reduce_sum(tf.concat([x, y * 2], a) ** 2), [x, y])
    return f, [d.floats([2, 3]), d.floats([2, 3])]


@old("v1_cond")
def _(d):
    return lambda x: v1.cond(tf.reduce_sum(x) > 0, lambda: tf.sin(x), lambda: x * 2), [d.floats([3])]


@old("v1_cond_grad")
def _(d):
    def f(x):
        y = v1.cond(tf.reduce_sum(x) > 0, lambda: tf.sin(x) * x, lambda: x * x * 2)
        return tf.gradients(tf.reduce_sum(y), x)[0]
    return f, [d.floats([3])]


@old("v1_cond_nested")
def _(d):
    def f(x):
        s = tf.reduce_sum(x)
        return v1.cond(s > 0, lambda: v1.cond(x[0] > 0, lambda: tf.sin(x), lambda: x * 3), lambda: x * 2)
    return f, [d.floats([3])]


@old("v1_conv_train", 2e-4)
def _(d):
    def f(x, w):
        y = tf.reduce_sum(v1.nn.conv2d(x, w, strides=[1, 1, 1, 1], padding=d.choice(["SAME", "VALID"])) ** 2)
        return tf.gradients(y, [x, w])
    return f, [d.floats([2, 5, 5, 2], -1, 1), d.floats([3, 3, 2, 2], -1, 1)]


@old("v1_dense_train", 1e-4)
def _(d):
    def f(x, w, b, y):
        h = tf.nn.relu(tf.matmul(x, w) + b)
        l = tf.reduce_mean(v1.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=h))
        return [l] + tf.gradients(l, [w, b])
    return f, [d.floats([d.int(2, 5), 3]), d.floats([3, 4]), d.floats([4]), None]


@old("v1_dropout_off")
def _(d):
    return lambda x: v1.nn.dropout(x, keep_prob=1.0) + 0.0, [d.floats([3])]


@old("v1_gather_v1")
def _(d):
    return lambda x, i: v1.gather(x, i), [d.floats([4, 2]), d.ints([d.int(1, 4)], 0, 3)]


@old("v1_losses")
def _(d):
    red = d.choice([v1.losses.Reduction.MEAN, v1.losses.Reduction.SUM, v1.losses.Reduction.SUM_BY_NONZERO_WEIGHTS])
    return lambda x, y: v1.losses.mean_squared_error(x, y, reduction=red), [d.floats([3, 2]), d.floats([3, 2])]


@old("v1_softmax_xent")
def _(d):
    return lambda x, y: v1.losses.softmax_cross_entropy(tf.nn.softmax(y), x, label_smoothing=d.choice([0, 0.1])), [d.floats([3, 4]), d.floats([3, 4])]


@old("v1_map_fn")
def _(d):
    return lambda x: v1.map_fn(lambda a: tf.reduce_sum(a) * a, x), [d.floats([d.int(1, 4), 2])]


@old("v1_scan")
def _(d):
    return lambda x: v1.scan(lambda a, b: a * 0.5 + b, x), [d.floats([d.int(1, 4), 2])]


@old("v1_metrics_argmax")
def _(d):
    return lambda x, y: tf.reduce_mean(tf.cast(tf.equal(tf.argmax(x, 1), y), tf.float32)), [d.floats([5, 3]), d.ints([5], 0, 2, np.int64)]


@old("v1_py_func")
def _(d):
    return lambda x: v1.py_func(lambda a: a * 2, [x], tf.float32), [d.floats([3])]


@old("v1_refvar")
def _(d):
    def f(x):
        v1.disable_resource_variables()
        with v1.variable_scope("s", use_resource=False):
            w = v1.get_variable("w", initializer=tf.constant([[0.5, -1.0], [2.0, 0.25]]))
        return tf.matmul(x, w)
    return f, [d.floats([d.int(1, 3), 2])]


@old("v1_split_v1")
def _(d):
    return lambda x: v1.split(x, [1, 2], 1), [d.floats([d.int(1, 3), 3])]


def loop(n, body, x):
    return v1.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, body(i, a)), [0, x])[1]


@old("v1_while")
def _(d):
    return lambda x, w: loop(d.int(0, 4), lambda i, a: tf.tanh(tf.matmul(a, w)), x), [d.floats([2, 3]), d.floats([3, 3])]


@old("v1_while_cond")
def _(d):
    return lambda x: loop(d.int(1, 4), lambda i, a: v1.cond(tf.equal(i % 2, 0), lambda: a * 1.5, lambda: a + 1), x), [d.floats([3])]


@old("v1_while_grad", 1e-4)
def _(d):
    def f(x, w):
        y = loop(d.int(1, 4), lambda i, a: tf.tanh(tf.matmul(a, w)), x)
        return tf.gradients(tf.reduce_sum(y), [x, w])
    return f, [d.floats([2, 3]), d.floats([3, 3])]


@old("v1_while_parallel1")
def _(d):
    def f(x):
        return v1.while_loop(lambda a: tf.reduce_sum(a * a) < 50.0, lambda a: a * 1.5 + 0.1, [x], parallel_iterations=1)
    return f, [d.floats([3])]


@old("v1_while_while")
def _(d):
    return lambda x: loop(d.int(1, 3), lambda i, a: loop(2, lambda j, b: b * 1.1 + tf.cast(i, tf.float32), a), x), [d.floats([3])]


# Strings.
@one("string_hash")
def _(d):
    return lambda x: tf.strings.to_hash_bucket_fast(tf.strings.as_string(x), d.int(5, 50)) + 1, [d.ints(d.shape())]


@one("string_ops")
def _(d):
    return lambda x: tf.strings.length(tf.strings.join([tf.strings.as_string(x), "abc"], d.choice(["", "-"]))), [d.ints(d.shape())]


@one("string_split")
def _(d):
    def f(x):
        s = tf.strings.split(tf.constant(["a b c", "d e"]))
        return s.row_lengths() + x
    return f, [np.int64(d.int(0, 5))]


@one("string_to_number")
def _(d):
    return lambda x: tf.strings.to_number(tf.constant(["1.5", "-2"])) + x, [d.floats([2])]


@one("parse_example")
def _(d):
    def example(v):
        return tf.train.Example(features=tf.train.Features(feature={"a": tf.train.Feature(float_list=tf.train.FloatList(value=v))})).SerializeToString()
    rows = [example([1.0, 2.0]), example([3.0, 4.0])]
    return lambda x: tf.io.parse_example(tf.constant(rows), {"a": tf.io.FixedLenFeature([2], tf.float32)})["a"] + x, [d.floats([2])]
