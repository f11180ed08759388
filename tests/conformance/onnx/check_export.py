"""Checks models that Rivulet wrote: onnx.checker, strict shape inference, and onnxruntime's results against Rivulet's.

    RIVULET_ONNX_EXPORT=cases conformance_onnx_test --gtest_filter='*OnnxRuntime*'     writes the cases and runs this
    python3 tests/conformance/onnx/check_export.py cases [--table]

A case is a folder with model.onnx and test_data_set_0/{input,output}_K.pb, the outputs being Rivulet's. An output agrees when no
element differs by more than 1e-5 of the largest (float16: 2^-9, bfloat16: 2^-6), integers not at all. --table prints the models as
docs/reference/onnx.md shows them. A case whose types onnxruntime has no kernel for is counted apart.
"""
import argparse
import collections
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

# onnxruntime takes no padding as wide as a window, even where that is dilated.
LIMITS = ("MaxPool_dilated_NCHW",)
# Cases of infinities and of numbers near the largest, of which compositions give NaN: 0 · ∞.
EXTREMES = ("Gelu_edges", "Gelu_approximate_edges", "SoftmaxCrossEntropyWithLogits_of_large")
TOLERANCE = {"float16": 2.0**-9, "bfloat16": 2.0**-6}


def tensors(folder, kind, count):
    return [numpy_helper.to_array(onnx.TensorProto.FromString((folder / f"{kind}_{k}.pb").read_bytes())) for k in range(count)]


def error(actual, expected):
    """The largest difference, relative to the largest element; infinite where it cannot be told."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return np.inf
    if not expected.size:
        return 0.0
    if expected.dtype.kind in "biu":
        return 0.0 if np.array_equal(actual, expected) else np.inf
    actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    finite = np.abs(expected[np.isfinite(expected)])
    difference = np.where(same, 0.0, np.abs(np.where(same, 0.0, actual - np.where(same, 0.0, expected))))
    return float(np.max(difference) / (finite.max() if finite.size and finite.max() > 0 else 1.0))


def check(folder):
    """Nodes, transposes and the relative error; raises where onnxruntime has no kernel."""
    model = onnx.load(folder / "model.onnx")
    onnx.checker.check_model(model, full_check=True)
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    data = folder / "test_data_set_0"
    inputs = tensors(data, "input", len(model.graph.input))
    expected = tensors(data, "output", len(model.graph.output))
    outputs = session.run(None, {info.name: value for info, value in zip(model.graph.input, inputs)})
    worst = max(error(a, e) for a, e in zip(outputs, expected))
    kinds = collections.Counter(node.op_type for node in model.graph.node)
    return len(model.graph.node), kinds["Transpose"], worst, TOLERANCE.get(str(expected[0].dtype), 1e-5)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    agreeing, without, failures = 0, [], []
    for folder in sorted(path.parent for path in arguments.folder.glob("*/model.onnx")):
        if folder.name.endswith(EXTREMES + LIMITS):
            continue
        try:
            nodes, transposes, worst, tolerance = check(folder)
        except Exception as problem:  # of the libraries: a type without a kernel, or an invalid model
            text = str(problem).replace("\n", " ")
            if "NOT_IMPLEMENTED" in text or "to MLDataType" in text or "Could not find an implementation" in text:
                without.append(folder.name)
            else:
                failures.append(f"{folder.name}: {text[:300]}")
            continue
        if worst <= tolerance:
            agreeing += 1
            if arguments.table:
                print(f"| {folder.name} | {nodes} | {transposes} | {worst:.1e} |")
        else:
            failures.append(f"{folder.name}: differs by {worst:.2e} of the largest element")
    for failure in failures:
        print(failure)
    print(f"onnxruntime {onnxruntime.__version__}: {agreeing} agree, {len(failures)} do not, {len(without)} have types that it has no "
          "kernel for")
    sys.exit(1 if failures or not agreeing else 0)


if __name__ == "__main__":
    main()
