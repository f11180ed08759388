#!/usr/bin/env python3
"""Writes sequence_reference.json: LSTM, GRU, SimpleRNN and attention with their gradients, by PyTorch, and
keras_sequence_reference.json: the layers by Keras, and TensorFlow's fused cells.

Our recurrent ops take the product of the inputs with the kernel ready-made, so a peer's layer gets that product as its
input and an identity as its kernel. Run with an interpreter that has torch, then (for the rest) one that has tensorflow:

    python make_sequence_reference.py torch       # writes sequence_reference.json
    python make_sequence_reference.py tensorflow  # writes keras_sequence_reference.json
"""
import json
import pathlib
import sys

import numpy as np

FOLDER = pathlib.Path(__file__).parent
cases = []


def tensor(array, constant=False):
    array = np.asarray(array)
    entry = {"dtype": str(array.dtype), "shape": list(array.shape),
             "values": [v.item() if array.dtype.kind in "bi" else float(f"{v:.17g}" if array.dtype == np.float64 else f"{v:.9g}")
                        for v in array.reshape(-1)]}
    if constant:
        entry["constant"] = True
    return entry


def case(name, op, attrs, inputs, outputs, output_gradients, input_gradients, unseen=(), rtol=None):
    """`outputs` and their gradients are those compared; `unseen` are shapes of the op's other outputs, behind them."""
    entry = {"name": name, "op": op, "attrs": attrs, "inputs": inputs, "outputs": [tensor(o) for o in outputs]}
    for shape in unseen:
        entry["outputs"].append(tensor(np.zeros(shape, outputs[0].dtype)))
        output_gradients = output_gradients + [np.zeros(shape, outputs[0].dtype)]
    entry["any"] = list(range(len(outputs), len(outputs) + len(unseen)))
    entry["output_gradients"] = [None if i >= len(outputs) or g is None else tensor(g) for i, g in enumerate(output_gradients)]
    entry["input_gradients"] = [None if g is None else tensor(g) for g in input_gradients]
    if rtol:
        entry["rtol"] = rtol
    cases.append(entry)


rng = np.random.default_rng(20)
TIME, BATCH, UNITS = 5, 3, 4
NONE = lambda dtype: tensor(np.zeros(0, dtype), constant=True)


def with_torch():
    import torch

    def leaf(shape, dtype):
        return torch.tensor(rng.uniform(-1, 1, shape), dtype=dtype, requires_grad=True)

    def blocks(matrix, order, axis):
        parts = torch.chunk(matrix, len(order), dim=axis)
        return torch.cat([parts[i] for i in order], dim=axis)

    def recurrent(kind, dtype, lengths=None, bidirectional=False, nonlinearity="tanh"):
        gates = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}[kind]
        # Ours in terms of theirs: PyTorch's LSTM has Keras' order; its GRU has r, z, n where ours has z, r, n.
        order = [1, 0, 2] if kind == "GRU" else list(range(gates))
        projection = leaf((TIME, BATCH, gates * UNITS), dtype)
        kernels = [leaf((UNITS, gates * UNITS), dtype) for _ in range(2 if bidirectional else 1)]
        biases = [leaf((gates * UNITS,), dtype) for _ in kernels] if kind == "GRU" else None
        starts = [leaf((BATCH, UNITS), dtype) for _ in kernels]
        cells = [leaf((BATCH, UNITS), dtype) for _ in kernels] if kind == "LSTM" else None
        layer_type = {"LSTM": torch.nn.LSTM, "GRU": torch.nn.GRU, "SimpleRNN": torch.nn.RNN}[kind]
        more = {"nonlinearity": nonlinearity} if kind == "SimpleRNN" else {}
        layer = layer_type(gates * UNITS, UNITS, bidirectional=bidirectional, **more).to(dtype)
        eye = torch.eye(gates * UNITS, dtype=dtype)
        weights = {}
        for i, suffix in enumerate(["", "_reverse"][:len(kernels)]):
            weights["weight_ih_l0" + suffix] = blocks(eye, order, 0)
            weights["weight_hh_l0" + suffix] = blocks(kernels[i].T, order, 0)
            weights["bias_ih_l0" + suffix] = torch.zeros(gates * UNITS, dtype=dtype)
            weights["bias_hh_l0" + suffix] = (blocks(biases[i], order, 0) if biases
                                              else torch.zeros(gates * UNITS, dtype=dtype))
        x = projection
        state = torch.stack(starts)
        state = (state, torch.stack(cells)) if cells else state
        if lengths is not None:
            x = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths), enforce_sorted=False)
        output, final = torch.func.functional_call(layer, weights, (x, state))
        if lengths is not None:
            output, _ = torch.nn.utils.rnn.pad_packed_sequence(output, total_length=TIME)
        finals = list(final) if cells else [final]
        for i in range(len(kernels)):
            results = [output[..., i * UNITS:(i + 1) * UNITS]] + [f[i] for f in finals]
            upstream = [torch.tensor(rng.uniform(-1, 1, r.shape), dtype=dtype) for r in results]
            leaves = [projection, kernels[i]] + ([biases[i]] if biases else []) + [starts[i]] + ([cells[i]] if cells else [])
            gradients = torch.autograd.grad(results, leaves, upstream, retain_graph=True)
            arrays = [leaf_.detach().numpy() for leaf_ in leaves]
            name = str(arrays[0].dtype)
            inputs = [tensor(a) for a in arrays] + ([NONE(name)] if kind == "LSTM" else [])
            inputs.append(tensor(np.array(lengths, np.int32), constant=True) if lengths is not None else NONE("int32"))
            attrs = {"time_major": True, "reverse": i == 1}
            if kind == "SimpleRNN":
                attrs["activation"] = nonlinearity
            unseen = {"LSTM": [(TIME, BATCH, 4 * UNITS), (TIME, BATCH, UNITS)], "GRU": [(TIME, BATCH, 4 * UNITS)], "SimpleRNN": []}[kind]
            label = "_".join([kind, name] + (["lengths"] if lengths is not None else []) + (["reverse"] if i else [])
                             + ([nonlinearity] if kind == "SimpleRNN" else []))
            case(label, kind, attrs, inputs, [r.detach().numpy() for r in results], [u.numpy() for u in upstream],
                 [g.numpy() for g in gradients] + [None] * (len(inputs) - len(leaves)), unseen)

    for kind in ["LSTM", "GRU", "SimpleRNN"]:
        for dtype in [torch.float32, torch.float64]:
            recurrent(kind, dtype, bidirectional=dtype == torch.float64)
        recurrent(kind, torch.float64, lengths=[5, 2, 3], bidirectional=True)
    recurrent("SimpleRNN", torch.float64, nonlinearity="relu")

    def attention(name, dtype=torch.float64, heads=2, shared=2, time=3, keys=4, mask=None, causal=False, scale=None):
        q, k, v = leaf((2, heads, time, 4), dtype), leaf((2, shared, keys, 4), dtype), leaf((2, shared, keys, 3), dtype)
        repeat = heads // shared
        leaves, added = [q, k, v], None
        if mask == "added":
            added = leaf((heads, 1, keys), dtype)
            leaves.append(added)
        elif mask == "bool":
            added = torch.tensor(rng.uniform(0, 1, (2, 1, time, keys)) < 0.7)
            added[..., 0] = True
        if torch.is_tensor(added) and causal:
            raise ValueError("PyTorch takes one of them")
        output = torch.nn.functional.scaled_dot_product_attention(
            q, k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1), attn_mask=added, is_causal=causal, scale=scale)
        upstream = torch.tensor(rng.uniform(-1, 1, output.shape), dtype=dtype)
        gradients = [g.numpy() for g in torch.autograd.grad(output, leaves, upstream)]
        inputs = [tensor(leaf_.detach().numpy()) for leaf_ in leaves]
        if mask == "bool":
            inputs.append(tensor(added.numpy(), constant=True))
        elif mask is None:
            inputs.append(NONE("bool"))
        attrs = {"causal": causal}
        if scale:
            attrs["scale"] = scale
        case(f"Attention_{name}", "ScaledDotProductAttention", attrs, inputs, [output.detach().numpy()], [upstream.numpy()],
             gradients + [None] * (len(inputs) - len(leaves)), [(2, heads, time)])

    attention("float32", torch.float32)
    attention("float64")
    attention("causal", causal=True, keys=3)
    attention("bool_mask", mask="bool")
    attention("added_mask", mask="added")
    attention("grouped", heads=4, shared=2)
    attention("scale", scale=0.75)
    attention("many_rows", time=40, keys=7)


def with_keras():
    import tensorflow as tf
    keras = tf.keras

    def recurrent(kind, **options):
        gates = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}[kind]
        x = tf.Variable(rng.uniform(-1, 1, (BATCH, TIME, gates * UNITS)))
        kernel = rng.uniform(-1, 1, (UNITS, gates * UNITS))
        bias = rng.uniform(-1, 1, (gates * UNITS,))
        after = options.get("reset_after", True)
        layer = getattr(keras.layers, kind)(UNITS, return_sequences=True, return_state=True, dtype="float64", **options)
        layer.build(x.shape)
        weights = [np.eye(gates * UNITS), kernel]
        if kind == "GRU" and after:
            weights.append(np.stack([np.zeros_like(bias), bias]))
        else:
            weights.append(np.zeros_like(bias))
        layer.set_weights(weights)
        with tf.GradientTape(persistent=True) as tape:
            results = layer(x)
            upstream = [rng.uniform(-1, 1, r.shape) for r in results]
            loss = tf.add_n([tf.reduce_sum(r * u) for r, u in zip(results, upstream)])
        by_weight = tape.gradient(loss, layer.trainable_weights)
        attrs = {"activation": options.get("activation", "tanh")}
        inputs, gradients = [tensor(x.numpy()), tensor(kernel)], [tape.gradient(loss, x).numpy(), by_weight[1].numpy()]
        if kind != "SimpleRNN":
            attrs["recurrent_activation"] = options.get("recurrent_activation", "sigmoid")
        if kind == "LSTM":
            attrs["output_activation"] = attrs["activation"]
            inputs += [NONE("float64")] * 3
        elif kind == "GRU":
            attrs["reset_after"] = after
            inputs += [tensor(bias) if after else NONE("float64"), NONE("float64")]
            gradients += [by_weight[2].numpy()[1] if after else None]
        else:
            inputs += [NONE("float64")]
        inputs.append(NONE("int32"))
        gradients += [None] * (len(inputs) - len(gradients))
        unseen = {"LSTM": [(BATCH, TIME, 4 * UNITS), (BATCH, TIME, UNITS)], "GRU": [(BATCH, TIME, 4 * UNITS)], "SimpleRNN": []}[kind]
        label = "_".join(["Keras", kind] + [str(v) for v in options.values()])
        case(label, kind, attrs, inputs, [r.numpy() for r in results], upstream, gradients, unseen, rtol=1e-12)

    def sigmoid(v):
        return tf.math.sigmoid(v)

    def lstm_cell(forget_bias, cell_clip, use_peephole):
        """The formula of LSTMBlockCell, for its gradients; its values come from the op itself."""
        def formula(x, cs_prev, h_prev, w, wci, wcf, wco, b):
            i, ci, f, o = tf.split(tf.concat([x, h_prev], 1) @ w + b, 4, axis=1)
            peep = 1.0 if use_peephole else 0.0
            i, f, ci = sigmoid(i + peep * cs_prev * wci), sigmoid(f + forget_bias + peep * cs_prev * wcf), tf.tanh(ci)
            cs = ci * i + cs_prev * f
            if cell_clip > 0:
                cs = tf.clip_by_value(cs, -cell_clip, cell_clip)
            o, co = sigmoid(o + peep * cs * wco), tf.tanh(cs)
            return i, cs, f, o, ci, co, co * o
        return formula

    def gru_cell(x, h_prev, w_ru, w_c, b_ru, b_c):
        r, u = tf.split(sigmoid(tf.concat([x, h_prev], 1) @ w_ru + b_ru), 2, axis=1)
        c = tf.tanh(tf.concat([x, h_prev * r], 1) @ w_c + b_c)
        return r, u, c, u * h_prev + (1 - u) * c

    def cell(name, op, attrs, shapes, formula):
        inputs = [tf.Variable(rng.uniform(-1, 1, shape).astype(np.float32)) for shape in shapes]
        results = getattr(tf.raw_ops, op)(**dict(zip(INPUT_NAMES[op], inputs)), **attrs)
        with tf.GradientTape() as tape:
            again = formula(*inputs)
            upstream = [rng.uniform(-1, 1, r.shape).astype(np.float32) for r in again]
            loss = tf.add_n([tf.reduce_sum(r * u) for r, u in zip(again, upstream)])
        for a, b in zip(results, again):
            np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-6)
        gradients = [None if g is None else g.numpy() for g in tape.gradient(loss, inputs)]
        case(name, op, attrs, [tensor(v.numpy()) for v in inputs], [r.numpy() for r in results], upstream, gradients, rtol=3e-6)

    INPUT_NAMES = {"LSTMBlockCell": ["x", "cs_prev", "h_prev", "w", "wci", "wcf", "wco", "b"],
                   "GRUBlockCell": ["x", "h_prev", "w_ru", "w_c", "b_ru", "b_c"]}
    lstm_shapes = [(3, 5), (3, 4), (3, 4), (9, 16), (4,), (4,), (4,), (16,)]
    for name, attrs in {"plain": {}, "peephole": {"use_peephole": True, "forget_bias": 0.25},
                        "clip": {"cell_clip": 0.25, "use_peephole": True}, "no_clip": {"cell_clip": -1.0}}.items():
        whole = {"forget_bias": 1.0, "cell_clip": 3.0, "use_peephole": False, **attrs}
        cell(f"LSTMBlockCell_{name}", "LSTMBlockCell", whole, lstm_shapes, lstm_cell(**whole))
    cell("GRUBlockCell", "GRUBlockCell", {}, [(3, 5), (3, 4), (9, 8), (9, 4), (8,), (4,)], gru_cell)

    def block(op, name, length, **attrs):
        """Whole sequences. The gradient is that of the cell's formula step by step: TensorFlow's own gradient of
        BlockLSTMV2 (2.21) does not agree with finite differences of the op, as that of BlockLSTM does."""
        shapes = [(4, 3, 5), (3, 4), (3, 4), (9, 16), (4,), (4,), (4,), (16,)]
        inputs = [tf.Variable(rng.uniform(-1, 1, shape).astype(np.float32)) for shape in shapes]
        names = ["x", "cs_prev", "h_prev", "w", "wci", "wcf", "wco", "b"]
        results = [r.numpy() for r in getattr(tf.raw_ops, op)(seq_len_max=length, **dict(zip(names, inputs)), **attrs)]
        for r in results:
            r[length:] = 0  # TensorFlow leaves some of them as they were
        swapped = [0, 2, 1, 3] if op == "BlockLSTMV2" else [0, 1, 2, 3]  # to the cell's i, ci, f, o
        with tf.GradientTape() as tape:
            x, cs, h, w, wci, wcf, wco, b = [tf.identity(v) for v in inputs]
            w = tf.concat([tf.split(w, 4, axis=1)[k] for k in swapped], 1)
            b = tf.concat([tf.split(b, 4)[k] for k in swapped], 0)
            one = lstm_cell(attrs.get("forget_bias", 1.0) if op == "BlockLSTM" else 0.0, attrs.get("cell_clip", 0.0),
                            attrs.get("use_peephole", False))
            cells, states = [], []
            for t in range(length):
                _, cs, _, _, _, _, h = one(x[t], cs, h, w, wci, wcf, wco, b)
                cells.append(cs)
                states.append(h)
            rest = [tf.zeros_like(h)] * (4 - length)
            again = {1: tf.stack(cells + rest), 6: tf.stack(states + rest)}
            upstream = [rng.uniform(-1, 1, r.shape).astype(np.float32) if k in again else None for k, r in enumerate(results)]
            loss = tf.add_n([tf.reduce_sum(again[k] * upstream[k]) for k in again])
        for k in again:
            np.testing.assert_allclose(results[k], again[k].numpy(), atol=1e-6)
        gradients = [None if g is None else g.numpy() for g in tape.gradient(loss, inputs)]
        if not attrs.get("use_peephole"):
            gradients[4:7] = [None] * 3
        case(f"{op}_{name}", op, attrs, [tensor(np.int64(length), constant=True)] + [tensor(v.numpy()) for v in inputs],
             results, upstream, [None] + gradients, rtol=3e-6)

    block("BlockLSTM", "plain", 4, forget_bias=0.5, cell_clip=-1.0)
    block("BlockLSTM", "peephole", 3, cell_clip=-1.0, use_peephole=True)
    block("BlockLSTMV2", "plain", 4)
    block("BlockLSTMV2", "peephole", 2, use_peephole=True)
    recurrent("LSTM")
    recurrent("LSTM", activation="softsign")
    recurrent("GRU")
    recurrent("GRU", reset_after=False)
    recurrent("GRU", reset_after=True, activation="relu")
    recurrent("SimpleRNN")
    recurrent("SimpleRNN", activation="sigmoid")


peer = sys.argv[1]
{"torch": with_torch, "tensorflow": with_keras}[peer]()
target = FOLDER / ("sequence_reference.json" if peer == "torch" else "keras_sequence_reference.json")
target.write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
print(f"{target.name}: {len(cases)} cases")
