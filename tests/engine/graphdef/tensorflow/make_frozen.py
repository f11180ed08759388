"""Writes frozen.pb, a small convolutional network with batch normalisation whose weights TensorFlow has frozen into
constants, and frozen.values.pb: a batch ("image") and what TensorFlow computes from it ("probabilities").

Made with TensorFlow 2.21.0:  python make_frozen.py [FOLDER]
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
FOLDER = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))


def write(name, message):
    with open(os.path.join(FOLDER, name), "wb") as file:
        file.write(message.SerializeToString(deterministic=True))


def variable(name, value):
    return v1.get_variable(name, initializer=tf.constant(value, tf.float32), use_resource=False)


draws = np.random.RandomState(3)
graph = tf.Graph()
with graph.as_default():
    image = v1.placeholder(tf.float32, [None, 6, 6, 1], name="image")
    kernel = variable("conv/kernel", 0.3 * draws.randn(3, 3, 1, 4))
    bias = variable("conv/bias", 0.1 * draws.randn(4))
    x = tf.nn.bias_add(tf.nn.conv2d(image, kernel, 2, "SAME"), bias)
    x, _, _ = v1.nn.fused_batch_norm(
        x, variable("bn/gamma", 1 + 0.1 * draws.rand(4)), variable("bn/beta", 0.1 * draws.randn(4)),
        variable("bn/mean", 0.1 * draws.randn(4)), variable("bn/variance", 0.5 + draws.rand(4)), is_training=False)
    x = tf.reshape(tf.nn.relu(x), [-1, 36])
    x = tf.matmul(x, variable("dense/kernel", 0.3 * draws.randn(36, 5))) + variable("dense/bias", 0.1 * draws.randn(5))
    tf.nn.softmax(x, name="probabilities")
    images = draws.rand(3, 6, 6, 1).astype(np.float32)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        probabilities = session.run("probabilities:0", {image: images})
        frozen = v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["probabilities"])
write("frozen.pb", frozen)

constants = tf.Graph()
with constants.as_default():
    tf.constant(images, name="image")
    tf.constant(probabilities, name="probabilities")
write("frozen.values.pb", constants.as_graph_def())
