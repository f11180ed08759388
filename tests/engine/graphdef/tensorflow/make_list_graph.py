"""Writes lists.pb, a graph of TensorFlow's list ops over a placeholder x, and lists.values.pb: a value of x, what
TensorFlow computes for every tensor "out/…" and for the loss, and the loss's gradient ("gradient/x").

Made with TensorFlow 2.21.0:  python make_list_graph.py [FOLDER]
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
raw = tf.raw_ops
FOLDER = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
F = tf.float32


def write(name, message):
    with open(os.path.join(FOLDER, name), "wb") as file:
        file.write(message.SerializeToString(deterministic=True))


graph = tf.Graph()
with graph.as_default():
    x = v1.placeholder(F, [4, 3], name="x")
    row = tf.constant([3], tf.int32)
    rows = raw.TensorListFromTensor(tensor=x, element_shape=row)
    pushed = raw.TensorListPushBack(input_handle=rows, tensor=2 * x[0])
    changed = raw.TensorListSetItem(input_handle=pushed, index=2, item=3 * x[1])
    shorter, last = raw.TensorListPopBack(input_handle=changed, element_shape=row, element_dtype=F)
    empty = raw.EmptyTensorList(element_shape=row, max_num_elements=-1, element_dtype=F)
    for i in (3, 1):
        empty = raw.TensorListPushBack(input_handle=empty, tensor=x[i] * x[i])
    reserved = raw.TensorListReserve(element_shape=row, num_elements=3, element_dtype=F)
    for i in range(3):
        reserved = raw.TensorListSetItem(input_handle=reserved, index=i, item=tf.sin(x[i]))
    scattered = raw.TensorListScatter(tensor=x, indices=[2, 0, 3, 1], element_shape=row)
    placed = raw.TensorListScatterV2(tensor=x[:3], indices=[2, 0, 1], element_shape=row, num_elements=3)
    into = raw.TensorListScatterIntoExistingList(input_handle=changed, tensor=x[2:], indices=[0, 4])
    pieces = raw.TensorListSplit(tensor=tf.reshape(x, [12]), element_shape=tf.constant([-1], tf.int32),
                                 lengths=tf.constant([3, 3, 3, 3], tf.int64))
    longer = raw.TensorListResize(input_handle=rows, size=6)

    def stack(handle, elements=-1):
        return raw.TensorListStack(input_handle=handle, element_shape=row, element_dtype=F, num_elements=elements)

    joined, lengths = raw.TensorListConcatV2(input_handle=changed, element_shape=row,
                                             leading_dims=tf.constant([], tf.int64), element_dtype=F)
    outputs = {
        "changed": stack(changed, 5), "shorter": stack(shorter), "last": last, "empty": stack(empty),
        "reserved": stack(reserved), "scattered": stack(scattered), "placed": stack(placed), "into": stack(into),
        "pieces": stack(pieces, 4), "joined": joined,
        "item": raw.TensorListGetItem(input_handle=changed, index=1, element_shape=row, element_dtype=F),
        "gathered": raw.TensorListGather(input_handle=changed, indices=[3, 0, 3], element_shape=row, element_dtype=F),
    }
    loss = 0.0
    for weight, (name, output) in enumerate(sorted(outputs.items())):
        tf.identity(output, name="out/" + name)
        loss += (weight + 1) * tf.reduce_sum(output * output)
    tf.identity(raw.TensorListLength(input_handle=longer), name="out/length")
    tf.identity(raw.TensorListElementShape(input_handle=rows, shape_type=tf.int32), name="out/element_shape")
    tf.identity(lengths, name="out/lengths")
    tf.identity(loss, name="loss")
    gradient = tf.gradients(loss, x)[0]
    value = np.random.RandomState(5).randn(4, 3).astype(np.float32)
    fetches = {node.name: node.name + ":0" for node in graph.as_graph_def().node if node.name.startswith("out/")}
    fetches["loss"] = "loss:0"
    fetches["gradient/x"] = gradient
    with v1.Session() as session:
        results = session.run(fetches, {x: value})
kept = v1.graph_util.extract_sub_graph(graph.as_graph_def(), [name for name in fetches if name != "gradient/x"])
write("lists.pb", kept)

constants = tf.Graph()
with constants.as_default():
    tf.constant(value, name="x")
    for name, result in results.items():
        tf.constant(result, name=name)
write("lists.values.pb", constants.as_graph_def())
