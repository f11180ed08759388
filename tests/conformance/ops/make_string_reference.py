"""Writes string_reference.json: TensorFlow's ops on strings.

Run by hand (python3 make_string_reference.py) when a case is added; needs TensorFlow.
"""
import json
import pathlib

import numpy as np
import tensorflow as tf

cases = []


def number(x):
    return float(f"{x:.17g}") if np.isfinite(x) else "nan" if np.isnan(x) else "inf" if x > 0 else "-inf"


def tensor(value, constant):
    value = np.asarray(value)
    flat = value.reshape(-1).tolist()
    if value.dtype.kind in "OSU":
        dtype, flat = "string", [v.decode() if isinstance(v, bytes) else v for v in flat]
    else:
        dtype, flat = value.dtype.name, [number(x) for x in flat] if value.dtype.kind == "f" else flat
    entry = {"dtype": dtype, "shape": list(value.shape), "values": flat}
    if constant:
        entry["constant"] = True
    return entry


class Const:
    """An input that is known when a program is compiled."""

    def __init__(self, value, dtype=np.int32):
        self.value = np.asarray(value, dtype)


def case(name, op, inputs, attrs=None, list_of=0):
    """`inputs` by the op's names of them; `list_of` inputs at the front are one list."""
    attrs = attrs or {}
    values = {k: x.value if isinstance(x, Const) else np.asarray(x) for k, x in inputs.items()}
    given = {k: tf.constant(v) for k, v in values.items()}
    if list_of:
        names = list(given)
        given = {"inputs" if op == "StringJoin" else "values": [given[n] for n in names[:list_of]], **{n: given[n] for n in names[list_of:]}}
    outputs = getattr(tf.raw_ops, op)(**given, **{k: getattr(tf, v["type"]) if isinstance(v, dict) else v for k, v in attrs.items()})
    outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    cases.append({"name": f"Strings_{name}", "op": op, "attrs": attrs,
                  "inputs": [tensor(values[k], isinstance(inputs[k], Const)) for k in inputs],
                  "outputs": [tensor(o.numpy(), False) for o in outputs]})


def as_string(name, value, **attrs):
    case(f"AsString_{name}", "AsString", {"input": value}, attrs)


floats = np.array([[1.5, -2.25, 0.0], [1e10, np.inf, np.nan]])
words = np.array([["red", "green", ""], ["blue", "gr\u00fcn", "a b"]])
as_string("double", floats)
as_string("float", floats.astype(np.float32))
as_string("precision", floats, precision=3)
as_string("scientific", floats, scientific=True)
as_string("shortest", floats, shortest=True)
as_string("width", floats, width=12, precision=1, fill="0")
as_string("signed", floats, fill="+", width=9, shortest=True)
for dtype in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64):
    as_string(np.dtype(dtype).name, np.array([0, 1, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype))
as_string("filled", np.array([5, -17], np.int32), width=6, fill="0")
as_string("bool", np.array([True, False]))
as_string("string", words)
numbers = np.array(["1.5", " -2 ", "+3e2", "inf", "-nan", "1e-3"])
for out in ("float32", "float64"):
    case(f"StringToNumber_{out}", "StringToNumber", {"string_tensor": numbers}, {"out_type": {"type": out}})
for out in ("int32", "int64"):
    case(f"StringToNumber_{out}", "StringToNumber", {"string_tensor": np.array(["12", " -7 ", "0"])}, {"out_type": {"type": out}})
case("StringJoin", "StringJoin", {"a": words, "b": np.array("-"), "c": words[::-1]}, {"separator": ", "}, list_of=3)
case("StringJoin_scalars", "StringJoin", {"a": np.array("x"), "b": np.array("y")}, {}, list_of=2)
cube = np.array([f"{a}{b}{c}" for a in "ab" for b in "cde" for c in "fg"]).reshape(2, 3, 2)
for axes in ([0], [1], [-1], [0, 1], [1, 0], [2, 0], [2, 1, 0], []):
    name = "_".join(str(a).replace("-", "minus_") for a in axes) or "none"
    case(f"ReduceJoin_{name}", "ReduceJoin", {"inputs": cube, "reduction_indices": Const(axes)}, {"separator": "+"})
case("ReduceJoin_kept", "ReduceJoin", {"inputs": cube, "reduction_indices": Const([1])}, {"keep_dims": True})
case("StringLength", "StringLength", {"input": words})
case("StringLength_characters", "StringLength", {"input": words}, {"unit": "UTF8_CHAR"})
case("Substr", "Substr", {"input": np.array(["abcdef", "xyz"]), "pos": np.array(-2), "len": np.array(5)})
case("Substr_each", "Substr", {"input": np.array(["abcdef", "xyz"]), "pos": np.array([1, 3], np.int32), "len": np.array([2, 1], np.int32)})
case("StringLower", "StringLower", {"input": np.array(["MiXed 1", "ABC"])})
case("StringUpper", "StringUpper", {"input": np.array(["MiXed 1", "abc"])})
case("StringStrip", "StringStrip", {"input": np.array(["  a b\t\n", "c", " "])})
lengths = np.array(["".join(chr(97 + (i * 7 + n) % 26) for i in range(n)) for n in list(range(70)) + [127, 128, 129, 200, 1000]])
case("StringToHashBucketFast", "StringToHashBucketFast", {"input": lengths}, {"num_buckets": 2**62 + 1})
case("StringToHashBucketFast_few", "StringToHashBucketFast", {"input": words}, {"num_buckets": 10})

# Ops that move or compare elements of any type.
case("Identity", "Identity", {"input": words})
case("Reshape", "Reshape", {"tensor": words, "shape": Const([3, -1])})
case("ExpandDims", "ExpandDims", {"input": words, "axis": Const(1)})
case("Squeeze", "Squeeze", {"input": words[None]})
case("Transpose", "Transpose", {"x": words, "perm": Const([1, 0])})
case("GatherV2", "GatherV2", {"params": words, "indices": np.array([2, 0, 0]), "axis": Const(1)})
case("ConcatV2", "ConcatV2", {"a": words, "b": words[:, :1], "axis": Const(1)}, list_of=2)
case("Pack", "Pack", {"a": words, "b": words[::-1]}, {"axis": 1}, list_of=2)
case("Unpack", "Unpack", {"value": words}, {"num": 2})
case("Slice", "Slice", {"input": words, "begin": Const([0, 1]), "size": Const([-1, 2])})
case("Tile", "Tile", {"input": words, "multiples": Const([1, 2])})
case("Fill", "Fill", {"dims": Const([2, 2]), "value": np.array("x")})
case("PadV2", "PadV2", {"input": words, "paddings": Const([[0, 1], [1, 0]]), "constant_values": np.array("pad")})
case("SelectV2", "SelectV2", {"condition": np.array([True, False, True]), "t": words, "e": np.array("no")})
case("Equal", "Equal", {"x": words, "y": np.array(["red", "blue", ""])})
case("NotEqual", "NotEqual", {"x": words, "y": np.array("blue")})
path = pathlib.Path(__file__).parent / "string_reference.json"
path.write_text("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
print(len(cases), "cases")
