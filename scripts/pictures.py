#!/usr/bin/env python3
"""The pictures of docs/pictures: plots and pages of a real run, made anew.

    scripts/pictures.py MNIST [--out docs/pictures] [--rounds 30]

MNIST is a folder with the four files of the data set (rivulet data import mnist --from). Trains the two-layer network of
simulations/scenarios/mnist-2nn.toml on labels that are dealt unevenly, twice, with RIVULET_BINARY (else
build/release/rivulet); takes a minute. Pages are shown by a headless Chromium, and their pictures are kept small: 900
points wide, their upper part.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
RIVULET = os.environ.get("RIVULET_BINARY") or str(ROOT / "build/release/rivulet")
sys.path.insert(0, str(ROOT / "tests/e2e"))


def rivulet(*arguments, cwd):
    return subprocess.run([RIVULET, *map(str, arguments)], cwd=cwd, check=True, stdout=subprocess.PIPE, text=True).stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mnist", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/pictures")
    parser.add_argument("--rounds", default="30")
    options = parser.parse_args()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shutil.copy(ROOT / "simulations/scenarios/mnist-2nn.toml", folder)
        rivulet("data", "import", "mnist", "--from", options.mnist.resolve(), "--out", "mnist", cwd=folder)
        for name, more in (("even", []), ("uneven", ["--set", "data.partition.kind=label_dirichlet", "--set", "data.partition.alpha=0.3"])):
            rivulet("simulate", "mnist-2nn.toml", "--rounds", options.rounds, "--set", f"run.name={name}", "--set", "run.keep_models=all", *more, cwd=folder)
        rivulet("runs", "plot", "even", "uneven", "--out", out / "accuracy.png", cwd=folder)
        rivulet("model", "evaluate", "uneven", "--confusion", out / "confusion.png", cwd=folder)
        from chromium import CHROMIUM, Browser

        if CHROMIUM is None:
            sys.exit("no Chromium: the pages have no pictures")
        server = subprocess.Popen([RIVULET, "dashboard", "--http", "127.0.0.1:0"], cwd=folder, stdout=subprocess.PIPE, text=True)
        try:
            url = re.search(r"http://\S+", server.stdout.readline())[0]
            for page, dark in (("run?id=uneven", False), ("labels?run=uneven", True)):
                with Browser(width=900, height=760, dark=dark) as browser:
                    browser.open(url + page)
                    browser.screenshot(out / f"{page.split('?')[0]}.png", whole=False)
        finally:
            server.terminate()
            server.wait()
    for picture in sorted(out.glob("*.png")):
        print(f"{picture}: {picture.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
