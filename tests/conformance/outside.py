#!/usr/bin/env python3
"""Conformance with models from outside: what the program makes of PyTorch's modules and of ONNX's own suites.

  outside.py --rivulet build/release/rivulet --write docs/reference/outside.md

Needs the packages torch, onnx and onnxscript; torchvision and transformers for the networks that come from them. Modules
of a package that is missing are left out and named. Without --write the table is printed.
"""

import argparse
import collections
import logging
import os
import pathlib
import re
import sys
import tempfile
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "outside"), str(HERE.parents[1] / "python")]
EXPORTERS = ("torchscript", "dynamo")
BEGIN, END = "<!-- outside: begin -->\n", "<!-- outside: end -->\n"


def modules(only):
    """One row per module: what each exporter's file gives, with the ratio to the bound."""
    import torch_catalogue
    import torch_step

    rows, left_out = [], []
    for entry in torch_catalogue.CATALOGUE:
        if only and entry.name not in only:
            continue
        if not torch_catalogue.available(entry):
            left_out.append(f"{entry.name} ({entry.needs})")
            continue
        found = []
        for exporter in EXPORTERS:
            outcome, where, ratio = torch_step.compare(entry, exporter)
            found.append((outcome, where, ratio))
            print(f"{entry.name} {exporter}: {outcome} {ratio:.2f} {where[:200]}", file=sys.stderr)
        rows.append((entry.name, found))
    return rows, left_out


def cell(outcome, where, ratio):
    if outcome == "agrees":
        return f"{ratio:.2f}"
    if "PyTorch cannot write" in where:
        return "PyTorch does not write it"
    return outcome if outcome == "refused" else f"differs: {ratio:.2f}"


def module_table(rows, left_out):
    lines = ["| module | " + " | ".join(EXPORTERS) + " |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | " + " | ".join(cell(*each) for each in found) + " |" for name, found in rows]
    trained = sum(any(outcome == "agrees" for outcome, _, _ in found) for _, found in rows)
    lines += ["", f"{trained} of {len(rows)} modules train as in PyTorch by at least one exporter."]
    if left_out:
        lines += ["", "Left out, as a package is missing: " + ", ".join(left_out) + "."]
    return lines


def suite_tables(binary, folder):
    import onnx_suites

    if not (folder / "node").exists():
        onnx_suites.generate(folder)
    counts, reports = onnx_suites.suites(binary, folder)
    kinds = ("pass", "refused", "other numbers", "wrong", "crash")
    lines = ["| suite | cases | " + " | ".join(kinds) + " |", "| --- " * (len(kinds) + 2) + "|"]
    for suite, counter in counts.items():
        lines.append(f"| {suite} | {sum(counter.values())} | " + " | ".join(str(counter[kind]) for kind in kinds) + " |")
    refused = collections.Counter()
    for report in reports:
        if report["outcome"] == "refused":
            node = re.match(r"(\w+) '[^']*' \(opset", report["message"])
            refused[f"`{node.group(1)}`" if node else "types that Rivulet does not have"] += 1
    told = ", ".join(f"{what} {count}" for what, count in sorted(refused.items(), key=lambda item: (-item[1], item[0])))
    lines += ["", f"Refused, by operator: {told}."]
    return lines, reports


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rivulet", default=os.environ.get("RIVULET_BINARY", "build/release/rivulet"), help="the program")
    parser.add_argument("--write", metavar="PAGE", help="page whose table is replaced")
    parser.add_argument("--modules", nargs="*", help="only these modules of the catalogue, and no suites")
    parser.add_argument("--suites", metavar="DIR", help="folder of ONNX's suites; made where it is empty")
    arguments = parser.parse_args()
    os.environ["RIVULET_BINARY"] = os.path.abspath(arguments.rivulet)
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)

    rows, left_out = modules(arguments.modules)
    lines = ["### PyTorch", "", *module_table(rows, left_out)]
    failed = any(outcome == "differs" for _, found in rows for outcome, _, _ in found)
    if not arguments.modules:
        with tempfile.TemporaryDirectory() as temporary:
            table, reports = suite_tables(os.environ["RIVULET_BINARY"], pathlib.Path(arguments.suites or temporary))
        lines += ["", "### ONNX's suites", "", *table]
        failed = failed or any(report["outcome"] in ("wrong", "crash") for report in reports)
    text = "\n".join(lines) + "\n"
    if arguments.write:
        page = pathlib.Path(arguments.write)
        before, rest = page.read_text().split(BEGIN)
        page.write_text(before + BEGIN + text + END + rest.split(END)[1])
    else:
        print(text, end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
