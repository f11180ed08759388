#!/usr/bin/env python3
"""Makes the terminal transcripts of a guide anew: scripts/transcripts.py docs/guide/profiling.md [--rivulet BINARY]

A block ```console holds commands, "$ rivulet …", each followed by what it printed. All are run again, in order and in one
folder that has a copy of the scenarios, and what they print takes the old output's place. A command that ends in " &"
stays running until the block ends; "$!" is its number. Lines beyond 160 columns are cut."""
import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]


def run_block(commands, folder, env):
    background = []
    out = []
    try:
        for command in commands:
            out.append(f"$ {command}")
            shell = command
            for process in background:
                shell = shell.replace("$!", str(process.pid))
            if shell.endswith(" &"):
                process = subprocess.Popen(["bash", "-c", "exec " + shell[:-2]], cwd=folder, env=env,
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                background.append(process)
                time.sleep(2)
                continue
            done = subprocess.run(["bash", "-c", shell], cwd=folder, env=env, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=False)
            out += [line.rstrip()[:160] for line in done.stdout.replace(str(folder), "~").splitlines()]
    finally:
        for process in background:
            process.send_signal(signal.SIGINT)
            process.wait(60)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("guides", nargs="+")
    parser.add_argument("--rivulet", default=str(ROOT / "build/release/rivulet"))
    options = parser.parse_args()
    for guide in options.guides:
        path = pathlib.Path(guide)
        with tempfile.TemporaryDirectory(prefix="rivulet-transcript-") as folder:
            folder = pathlib.Path(folder)
            shutil.copytree(ROOT / "simulations/scenarios", folder / "simulations/scenarios")
            (folder / "bin").mkdir()
            (folder / "bin/rivulet").symlink_to(pathlib.Path(options.rivulet).resolve())
            env = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", "COLUMNS": "160"}

            def again(match):
                commands = [line[2:] for line in match.group(1).splitlines() if line.startswith("$ ")]
                return "```console\n" + "\n".join(run_block(commands, folder, env)) + "\n```"

            path.write_text(re.sub(r"```console\n(.*?)\n```", again, path.read_text(), flags=re.S))


if __name__ == "__main__":
    main()
