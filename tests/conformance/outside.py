#!/usr/bin/env python3
"""Conformance with models from outside: PyTorch's modules, ONNX's own suites, TensorFlow's graphs and Keras' models.

  outside.py --rivulet build/release/rivulet --python venv-torch/bin/python3 venv-tf/bin/python3 --write docs/reference/outside.md

Needs the packages torch, onnx and onnxscript for the parts "torch" and "onnx", and tensorflow for the parts "tensorflow",
"keras" and "applications"; torchvision and transformers for the networks that come from them. A part runs in this Python, or
in the first of --python that has its package. Modules of a package that is missing are left out and named. Without --write
the table is printed.

With --keep, rows stay in a folder and are not computed again, so that a long run can be continued.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "outside"), str(HERE.parents[1] / "python")]
PARTS = {"torch": "torch", "onnx": "onnx", "tensorflow": "tensorflow", "keras": "tensorflow", "applications": "tensorflow"}
BEGIN, END = "<!-- outside: begin -->\n", "<!-- outside: end -->\n"
SEED, EACH = 43043, 3  # of the random graphs


def names_of(part):
    """The rows of a part that has one for each model."""
    if part == "torch":
        import torch_catalogue

        return [entry.name for entry in torch_catalogue.CATALOGUE]
    import keras_catalogue

    return [entry.name for entry in (keras_catalogue.CATALOGUE if part == "keras" else keras_catalogue.applications())]


def row_of(part, name, arguments):
    if part == "torch":
        import torch_catalogue
        import torch_step

        entry = torch_catalogue.by_name()[name]
        if not torch_catalogue.available(entry):
            return {"name": name, "needs": entry.needs}
        return {"name": name, "found": [torch_step.compare(entry, exporter) for exporter in ("torchscript", "dynamo")]}
    import keras_catalogue
    import keras_step

    if part == "keras":
        entry = keras_catalogue.by_name()[name]
        return {**keras_step.trained(entry, arguments.runner), "training": keras_step.training(entry, arguments.runner)}
    entry = {entry.name: entry for entry in keras_catalogue.applications()}[name]
    return keras_step.trained(entry, arguments.runner, not arguments.no_steps)


def is_done(file):
    return file.exists() and "crash" not in json.loads(file.read_text())


def compute_rows(part, arguments, folder):
    """Writes the rows that `folder` lacks. Networks have a process each, so that one's memory is not the next one's."""
    folder.mkdir(parents=True, exist_ok=True)
    if part == "onnx":
        import onnx_suites

        with tempfile.TemporaryDirectory() as temporary:
            suites = pathlib.Path(arguments.suites or temporary)
            if not (suites / "node").exists():
                onnx_suites.generate(suites)
            counts, reports = onnx_suites.suites(arguments.rivulet, suites)
        (folder / "all.json").write_text(json.dumps({"counts": counts, "reports": reports}))
        return
    if part == "tensorflow":
        script = [str(HERE / "tensorflow/random_graphs.py"), arguments.runner, "--seed", str(SEED), "--each", str(EACH)]
        more = ["--families", arguments.families] if arguments.families else []
        subprocess.run([sys.executable, *script, *more, "--json", str(folder / "all.json")], stdout=sys.stderr, check=False)
        return
    names = names_of(part)
    for order, name in enumerate(names):
        file = folder / f"{name}.json"
        if is_done(file) or (arguments.only and name not in arguments.only):
            continue
        if part == "applications" and arguments.only != [name]:
            code = run_part(sys.executable, part, arguments, folder.parent, ["--only", name])
            if not file.exists():
                row = {"name": name, "crash": f"its process ended with {code}", "order": order, "of": len(names)}
                file.write_text(json.dumps(row))
            continue
        try:
            row = row_of(part, name, arguments)
        except Exception as error:  # of a peer or of the comparison; what the program refuses is a row
            row = {"name": name, "crash": f"{type(error).__name__}: {error}"}
        row.update(order=order, of=len(names))
        print(part, json.dumps(row)[:300], file=sys.stderr, flush=True)
        file.write_text(json.dumps(row))


def python_of(part, arguments):
    """The first Python that has the part's package, or None."""
    asks = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{PARTS[part]}') is None)"
    for python in (sys.executable, *arguments.python):
        if subprocess.run([python, "-c", asks], check=False).returncode == 0:
            return python
    return None


def run_part(python, part, arguments, keep, more=()):
    options = ["--rivulet", arguments.rivulet, "--runner", arguments.runner, "--keep", str(keep), "--rows", part]
    for name in ("suites", "families"):
        if getattr(arguments, name):
            options += [f"--{name}", getattr(arguments, name)]
    if arguments.no_steps:
        options.append("--no-steps")
    if arguments.only and not more:
        options += ["--only", *arguments.only]
    return subprocess.run([python, __file__, *options, *more], check=False).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rivulet", default=os.environ.get("RIVULET_BINARY", "build/release/rivulet"), help="the program")
    parser.add_argument("--runner", help="conformance_tensorflow_graphs [beside the program]")
    parser.add_argument("--python", nargs="+", default=[], help="other Pythons, for parts whose package this one lacks")
    parser.add_argument("--write", metavar="PAGE", help="page whose table is replaced")
    parser.add_argument("--parts", nargs="*", choices=PARTS, help="only these parts are computed; others come from --keep")
    parser.add_argument("--only", nargs="*", help="only these rows are computed")
    parser.add_argument("--keep", metavar="DIR", help="folder of rows; those in it are not computed again")
    parser.add_argument("--no-steps", action="store_true", help="keras.applications: no training steps, which take longest")
    parser.add_argument("--suites", metavar="DIR", help="folder of ONNX's suites; made where it is empty")
    parser.add_argument("--families", metavar="FILE", help="names of families of random graphs, one a line [all]")
    parser.add_argument("--rows", choices=PARTS, help=argparse.SUPPRESS)  # in a process of its own: writes rows alone
    arguments = parser.parse_args()
    arguments.rivulet = os.path.abspath(arguments.rivulet)
    arguments.runner = os.path.abspath(
        arguments.runner or os.path.join(os.path.dirname(arguments.rivulet), "conformance_tensorflow_graphs")
    )
    os.environ["RIVULET_BINARY"] = arguments.rivulet
    if arguments.rows:
        import logging
        import warnings

        warnings.filterwarnings("ignore")
        logging.disable(logging.WARNING)
        compute_rows(arguments.rows, arguments, pathlib.Path(arguments.keep) / arguments.rows)
        return 0

    import outside_tables

    with tempfile.TemporaryDirectory() as temporary:
        keep = pathlib.Path(arguments.keep or temporary)
        ended = False
        for part in PARTS if arguments.parts is None else arguments.parts:
            if (keep / part / "all.json").exists():
                continue
            python = python_of(part, arguments)
            if python is None:
                print(f"{part}: left out, as the package {PARTS[part]} is missing", file=sys.stderr)
            elif (code := run_part(python, part, arguments, keep)) != 0:
                print(f"{part}: its process ended with {code}", file=sys.stderr)
                ended = True
        text, failed = outside_tables.tables(keep)
    if arguments.write:
        page = pathlib.Path(arguments.write)
        before, rest = page.read_text().split(BEGIN)
        page.write_text(before + BEGIN + text + END + rest.split(END)[1])
    else:
        print(text, end="")
    return 1 if failed or ended else 0


if __name__ == "__main__":
    sys.exit(main())
