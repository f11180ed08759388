"""ONNX's own test suites, as `rivulet model check` reports them: by suite and by operator."""

import collections
import json
import pathlib
import subprocess
import warnings
from typing import Any, Dict, List, Tuple

SUITES = ("node", "simple", "pytorch-converted", "pytorch-operator")
# Outputs that are NumPy's random numbers, and one that is rounded in each step to float16.
OTHER_NUMBERS = (
    "test_training_dropout",
    "test_training_dropout_default",
    "test_training_dropout_mask",
    "test_training_dropout_default_mask",
    "test_attention_4d_causal_fp16_expanded",
    "test_bernoulli",
)


def _bytes(value: Any, info: Any) -> bytes:
    from onnx import numpy_helper

    kind = info.type.WhichOneof("value")
    if kind == "tensor_type":
        return value.SerializeToString() if hasattr(value, "SerializeToString") else numpy_helper.from_array(value).SerializeToString()
    ways = {"sequence_type": numpy_helper.from_list, "optional_type": numpy_helper.from_optional, "map_type": numpy_helper.from_dict}
    written: bytes = ways[kind](value, info.name).SerializeToString()
    return written


def generate(folder: pathlib.Path) -> None:
    """The suites as folders, one a case, made by the package onnx."""
    import onnx.backend.test
    from onnx.backend.test.case import model, node

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [*node.collect_testcases(None), *model.collect_testcases()]
    for case in cases:
        if case.kind not in SUITES or case.model is None:
            continue
        for number, (inputs, outputs) in enumerate(case.data_sets):
            data = folder / case.kind / case.name / f"test_data_set_{number}"
            data.mkdir(parents=True, exist_ok=True)
            for side, values, infos in (("input", inputs, case.model.graph.input), ("output", outputs, case.model.graph.output)):
                for place, (value, info) in enumerate(zip(values, infos)):
                    (data / f"{side}_{place}.pb").write_bytes(_bytes(value, info))
        (folder / case.kind / case.name / "model.onnx").write_bytes(case.model.SerializeToString())
    written = pathlib.Path(onnx.backend.test.__file__).parent / "data"
    for suite in SUITES:
        if (written / suite).is_dir() and not (folder / suite).exists():
            (folder / suite).symlink_to(written / suite)


def reports(binary: str, cases: List[pathlib.Path]) -> List[Dict[str, Any]]:
    found: List[Dict[str, Any]] = []
    for begin in range(0, len(cases), 100):
        names = [str(case) for case in cases[begin : begin + 100]]
        ran = subprocess.run([binary, "model", "check", "--json", *names], capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in ran.stdout.splitlines()]
        found += lines
        if len(lines) < len(names):  # one of them ended the program
            lost = names[len(lines)]
            found.append({"case": lost, "passed": False, "unsupported": False, "crash": True, "ops": "", "message": ran.stderr})
            found += reports(binary, cases[begin + len(lines) + 1 : begin + 100])
    return found


def outcome(report: Dict[str, Any]) -> str:
    if report.get("crash"):
        return "crash"
    if report["passed"]:
        return "pass"
    if pathlib.Path(report["case"]).name.split("_expanded")[0] in OTHER_NUMBERS:
        return "other numbers"
    # What the importer refuses names the node and its opset; what it ran and got otherwise names an output.
    return "wrong" if str(report["message"]).startswith("output '") else "refused"


def suites(binary: str, folder: pathlib.Path) -> Tuple[Dict[str, "collections.Counter[str]"], List[Dict[str, Any]]]:
    counts: Dict[str, "collections.Counter[str]"] = {}
    all_reports: List[Dict[str, Any]] = []
    for suite in SUITES:
        cases = sorted(case for case in (folder / suite).iterdir() if (case / "model.onnx").exists())
        found = reports(binary, cases)
        counts[suite] = collections.Counter(outcome(report) for report in found)
        all_reports += [{**report, "suite": suite, "outcome": outcome(report)} for report in found]
    return counts, all_reports
