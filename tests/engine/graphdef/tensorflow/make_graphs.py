"""Writes the graphs and values of this folder: small models as TensorFlow's Python builds them.

NAME.pb is a GraphDef with placeholders image and label, loss, accuracy, init, a training op and a saver.
NAME.values.pb is a GraphDef of constants: a batch, the variables ("value/…"), and what TensorFlow computed from
them: loss, accuracy and gradients ("gradient/…").

Made with TensorFlow 2.21.0:  python make_graphs.py [FOLDER]
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
FOLDER = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
SIDE, CLASSES, BATCH = 6, 4, 5


def dense(x, inputs, units, name, resource):
    with v1.variable_scope(name, use_resource=resource):
        kernel = v1.get_variable("kernel", [inputs, units], initializer=v1.glorot_uniform_initializer(seed=1))
        bias = v1.get_variable("bias", [units], initializer=v1.zeros_initializer())
    return tf.matmul(x, kernel) + bias


def softmax(image, resource):
    return dense(tf.reshape(image, [-1, SIDE * SIDE]), SIDE * SIDE, CLASSES, "softmax", resource)


def mlp(image, resource):
    hidden = tf.nn.relu(dense(tf.reshape(image, [-1, SIDE * SIDE]), SIDE * SIDE, 7, "hidden", resource))
    return dense(hidden, 7, CLASSES, "output", resource)


def cnn(image, resource):
    with v1.variable_scope("convolution", use_resource=resource):
        kernel = v1.get_variable("kernel", [3, 3, 1, 3], initializer=v1.truncated_normal_initializer(stddev=0.3, seed=2))
        bias = v1.get_variable("bias", [3], initializer=v1.constant_initializer(0.1))
    features = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(image, kernel, 1, "SAME"), bias))
    pooled = tf.nn.max_pool2d(features, 2, 2, "SAME")
    flat = tf.reshape(pooled, [tf.shape(pooled)[0], 27])  # by the shape at run time
    return dense(flat, 27, CLASSES, "output", resource)


def write(name, message):
    with open(os.path.join(FOLDER, name), "wb") as file:
        file.write(message.SerializeToString(deterministic=True))


def make(name, body, resource):
    graph = tf.Graph()
    with graph.as_default():
        image = v1.placeholder(tf.float32, [None, SIDE, SIDE, 1], name="image")
        label = v1.placeholder(tf.int64, [None], name="label")
        logits = body(image, resource)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        loss = tf.reduce_mean(losses, name="loss")
        correct = tf.equal(tf.argmax(logits, 1), label)
        accuracy = tf.reduce_mean(tf.cast(correct, tf.float32), name="accuracy")
        variables = v1.trainable_variables()
        gradients = tf.gradients(loss, variables)
        v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss, name="train")
        v1.global_variables_initializer()
        v1.train.Saver()
        draws = np.random.RandomState(0)
        images = draws.rand(BATCH, SIDE, SIDE, 1).astype(np.float32)
        labels = draws.randint(0, CLASSES, BATCH)
        with v1.Session() as session:
            session.run("init")
            for variable in variables:  # biases are zero at first, which hides their shapes
                session.run(variable.assign_add(0.1 * draws.randn(*variable.shape).astype(np.float32)))
            feeds = {image: images, label: labels}
            results = session.run([loss, accuracy] + gradients, feeds)
            values = session.run(variables)
    definition = graph.as_graph_def()
    # The assignments above are no part of the model.
    kept = [node for node in definition.node if "AssignAdd" not in node.op]
    del definition.node[:]
    definition.node.extend(kept)
    write(name + ".pb", definition)

    constants = tf.Graph()
    with constants.as_default():
        tf.constant(images, name="image")
        tf.constant(labels, tf.int64, name="label")
        tf.constant(results[0], name="loss")
        tf.constant(results[1], name="accuracy")
        for variable, value, gradient in zip(variables, values, results[2:]):
            tf.constant(value, name="value/" + variable.op.name)
            tf.constant(gradient, name="gradient/" + variable.op.name)
    write(name + ".values.pb", constants.as_graph_def())


make("softmax_reference", softmax, False)
make("mlp_resource", mlp, True)
make("cnn_reference", cnn, False)
make("cnn_resource", cnn, True)
