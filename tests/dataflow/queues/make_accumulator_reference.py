"""Writes accumulator_reference.json: random operations on ConditionalAccumulators of TensorFlow 2.21, with their results.

Run by hand (python3 make_accumulator_reference.py); needs TensorFlow. Each sequence has one accumulator. An operation is
["apply", step, shape, values], ["take", required], ["set_step", step] or ["count"]; its result is a list of values (the
count, or the taken gradient behind its shape), or the code of the error. No take waits.
"""
import json
import pathlib

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()


def plain(values):
    return [float(value) for value in np.asarray(values).reshape(-1)]


def draw_shape(random, declared):
    shape = [int(random.integers(1, 4)) if size is None else size for size in declared]
    if random.random() < 0.1:
        shape = shape + [1]  # another rank
    return shape


def operation(random, dtype, declared):
    kind = random.choice(["apply", "take", "set_step", "count"], p=[0.55, 0.25, 0.08, 0.12])
    if kind == "apply":
        shape = draw_shape(random, declared)
        values = random.uniform(-3, 3, shape).astype(dtype)
        return [kind, int(random.integers(0, 6)), shape, plain(values)]
    if kind == "take":
        return [kind, int(random.integers(-1, 4))]
    return [kind, int(random.integers(0, 6))] if kind == "set_step" else [kind]


def sequence(seed):
    random = np.random.default_rng(seed)
    dtype = ["float16", "float32", "float64"][seed % 3]
    declared = [[2, 3], [None, 2], []][seed // 3 % 3]
    reduction = "MEAN" if seed % 2 == 0 else "SUM"
    operations, results = [], []
    with tf.Graph().as_default(), tf.Session() as session:
        accumulator = tf.ConditionalAccumulator(getattr(tf, dtype), shape=declared, reduction_type=reduction)
        step = tf.placeholder(tf.int64, [])
        gradient = tf.placeholder(getattr(tf, dtype), None)
        required = tf.placeholder(tf.int32, [])
        apply = accumulator.apply_grad(gradient, local_step=step)
        take = accumulator.take_grad(required)
        set_step = accumulator.set_global_step(step)
        count = accumulator.num_accumulated()
        while len(operations) < 30:
            each = operation(random, dtype, declared)
            try:
                if each[0] == "apply":
                    values = np.array(each[3], dtype).reshape(each[2])
                    session.run(apply, {step: each[1], gradient: values})
                    result = []
                elif each[0] == "take":
                    if each[1] > session.run(count):
                        continue
                    taken = session.run(take, {required: each[1]})
                    result = [list(taken.shape), plain(taken)]
                elif each[0] == "set_step":
                    session.run(set_step, {step: each[1]})
                    result = []
                else:
                    result = [int(session.run(count))]
            except tf.errors.OpError as error:
                result = error.error_code
            operations.append(each)
            results.append(result)
    return {"dtype": dtype, "shape": [-1 if size is None else size for size in declared], "reduction": reduction,
            "operations": operations, "results": results}


if __name__ == "__main__":
    sequences = [sequence(seed) for seed in range(36)]
    lines = ",\n".join(json.dumps(each) for each in sequences)
    (pathlib.Path(__file__).parent / "accumulator_reference.json").write_text(f"[\n{lines}\n]\n")
