"""A world that fails: every command of `--help`, with the n-th call of a kind failing (tests/testing/faulty_world.cc). What
must hold: no signal, no hang, exit codes 0, 1 and 2, success only with the result that an unharmed call gives, and failure
without a half-written file.

As a test each command meets each kind of fault at one n; with RIVULET_FAULTS_A_KIND=N at up to N, and a table is printed
(scripts/faulty-world.sh, docs/internals/results.md)."""
import hashlib
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

from harness import LIBRARY_WORDS, RIVULET, SCENARIO, main

PRELOAD = os.environ.get("RIVULET_FAULTY_WORLD", str(pathlib.Path(__file__).parents[2] / "build/release/tests/e2e/libfaulty_world.so"))
EMULATED = os.environ.get("RIVULET_GPU_EMULATED", str(pathlib.Path(RIVULET).with_name("librivulet_gpu_emulated.so")))
WHOLE = int(os.environ.get("RIVULET_FAULTS_A_KIND", "0"))  # 0: one

DB = ["--db", "runs.sqlite"]
CLIENT = ["--insecure", "--name", "a", "--data", "train=data/train.tfrecord"]
COMMANDS = {  # by the words of the command: what follows them
    "simulate": ["tiny.toml", "--rounds", "2", "--db", "new.sqlite"],
    "sweep": ["tiny.toml", "--rounds", "1", "--grid", "client.epochs=1,2", "--plot", "out.svg", "--db", "new.sqlite"],
    "runs list": DB, "runs show": ["latest", *DB], "runs rounds": ["latest", *DB], "runs clients": ["latest", *DB],
    "runs compare": ["tiny", "second", *DB], "runs plot": ["latest", "--out", "out.svg", *DB], "runs tail": ["latest", *DB],
    "runs export": ["latest", "--csv", "out", "--json", "out.json", "--tensorboard", "events", "--proof", "proof", *DB],
    "runs profile": ["latest", *DB],
    "preflight": ["tiny.toml", "--listen", "127.0.0.1:0", "--insecure", "--db", "new.sqlite"],
    "runs sql": ["SELECT round, status FROM rounds", *DB], "runs verify": ["latest", *DB],
    "runs prune": ["--keep", "0", "--yes", *DB], "runs import": ["runs.sqlite", "--db", "new.sqlite"],
    "backup": ["--out", "copy.sqlite", *DB], "runs tag": ["latest", "tag", *DB], "runs note": ["latest", "text", *DB],
    "ca init": ["--ca", "new", "--name", "B"], "ca kit": ["coordinator/h", "--ca", "ca", "--out", "kit"],
    "ca issue": ["operator/x", "--ca", "ca", "--out", "x"], "ca request": ["client/q", "--out", "q"],
    "ca renew": ["client/a", "--ca", "ca", "--out", "a.crt"], "ca revoke": ["client/a", "--ca", "ca"],
    "ca list": ["--ca", "ca"], "ca show": ["a"],
    "ca author": ["--out", "new.key"], "plan sign": ["t.plan", "--key", "author.key", "--out", "out.plan"],
    "plan build": ["tiny.toml", "--out", "out.plan"], "plan show": ["t.plan"],
    "data synth digits": ["--writers", "4", "--out", "out"], "data synth synthetic": ["--clients", "3", "--out", "out"],
    "data synth blobs": ["--out", "out"], "data import text": ["--from", "tiny.toml", "--out", "out"],
    "data import csv": ["--from", "t.csv", "--label", "c", "--out", "out"],
    "data import shakespeare": ["--from", "play.txt", "--out", "out"],
    "data partition": ["tiny.toml", "--out", "out", "--plot", "out.svg"], "data inspect": ["data/train.tfrecord"],
    "data verify": ["data/train.tfrecord"], "data columns": ["t/columns.json", "t/columns.json", "--out", "pooled.json"],
    "debug": ["tiny.toml", "-c", "run"],
    "model inspect": ["m.npz"], "model evaluate": ["latest", *DB], "model diff": ["m.npz", "m.safetensors"],
    "model export": ["logistic_regression", "--out", "out.onnx", "--external-data"],
    "model import": ["m.onnx", "--out", "out"],
    "model point": ["digits", "canary=latest", "--percent", "5", *DB], "model rollback": ["digits", *DB],
    "model points": ["digits", *DB], "model explain": ["digits", *DB],
    "graph inspect": ["m.pb", "--tensorboard", "events"], "graph optimize": ["m.pb", "--out", "out.pb"],
    "graph build": ["rule.txt", "--out", "out.pb"], "graph place": ["m.pb", "--out", "out"], "graph profile": ["logistic_regression", "--steps", "2"],
    "privacy epsilon": ["--sigma", "1", "--rate", "0.01", "--rounds", "10", "--delta", "1e-5"],
    "privacy delta": ["--sigma", "1", "--rate", "0.01", "--rounds", "10", "--epsilon", "1"],
    "privacy sigma": ["--epsilon", "1", "--rate", "0.01", "--rounds", "10", "--delta", "1e-5", "--accountant", "rdp"],
    "privacy rounds": ["--sigma", "9", "--epsilon", "1", "--delta", "1e-5", "--accountant", "zcdp"],
    "bench op": ["Relu", "--shape", "10x10", "--algorithm", "none"], "manual": ["--out", "out"], "completion": [],
    "help": ["runs", "show"], "version": [], "doctor": [], "new": ["mine.toml"], "scenarios": [],
}
EXCUSED = {
    "receipts check": "it wants a client's receipts, and keeps nothing",
    "privacy accounts": "it wants a client's accounts, and keeps nothing",
    "model base": "it reads what simulate with model.base reads, and keeps nothing",
    "model merge": "it wants a run with adapters, and writes as model export does",
    "graph worker": "serves until it is stopped",
    "privacy audit": "it wants a run with canaries, and reads it as runs verify does",
    "up": "its children are simulate's parts and the two below",
    "aggregator": "as the coordinator",
    "coordinator": "serves until it is stopped; gRPC aborts without memory (tests/coordinator has the faults of its disk)",
    "client": "as the coordinator",
    "worker": "as the client",
    "reproduce": "several sweeps",
    "data fetch": "asks a server; e2e.fetch_test has one that fails",
    "dashboard": "serves until it is stopped",
    "serve": "serves until it is stopped",
    "bench serve": "asks a server that runs, and keeps nothing",
    **dict.fromkeys(("status", "pause", "resume", "stop", "abort", "submit", "clients approve", "clients ban",
                     "clients remove", "clients audit"), "asks a coordinator that runs, and keeps nothing"),
    "model check": "reads what model import reads",
    "data import mnist": "one importer of files and one of folders stand for all; their parsers are fuzzed",
    "data import cifar10": "as mnist", "data import cifar100": "as mnist", "data import leaf": "as mnist",
    "data import numpy": "as mnist", "data import images": "as mnist",
}
FAULTS = [  # kind, error, from there on, must it be borne
    ("open", "EMFILE", False, False), ("write", "EIO", False, False), ("write", "ENOSPC", True, False),
    ("write", "EINTR", False, True), ("write", "SHORT", True, True), ("sync", "EIO", False, False),
    ("rename", "EIO", False, False), ("mmap", "ENOMEM", False, False), ("alloc", "ENOMEM", False, False),
    ("alloc", "ENOMEM", True, False)]
# Names that a call makes anew each time: keys, random identifiers, times. They are not compared, but must be whole.
DRAWN = ("ca ", "simulate", "sweep", "runs ", "model point", "model rollback", "graph place", "graph inspect")
LEFT = (".tmp", ".part")
# What was there before and a command may change or remove: its history with the models beside it, its authority's folder.
OWN = {"runs prune": "runs.sqlite", "runs tag": "runs.sqlite", "runs note": "runs.sqlite", "model point": "runs.sqlite",
       "model rollback": "runs.sqlite", "ca kit": "ca/", "ca issue": "ca/",
       "ca renew": "ca/", "ca revoke": "ca/"}
FOLDERS = ("out", "events", "proof", "new", "kit", "x", "q")  # what commands make as folders


def leaf_commands(words=()):
    """Every command without subcommands, as --help tells them."""
    text = subprocess.run([RIVULET, *words, "--help"], capture_output=True, text=True, check=True).stdout
    if "Subcommands:\n" not in text:
        return [" ".join(words)]
    lines = text.split("Subcommands:\n")[1].split("\n\n")[0].splitlines()
    names = [line.split()[0] for line in lines if line.startswith("  ") and not line.startswith("   ")]
    return [leaf for name in names for leaf in leaf_commands((*words, name))]


def files_of(folder):
    return {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}


@unittest.skipIf(os.environ.get("RIVULET_SANITIZE"), "a sanitizer has an allocator of its own")
class FaultyWorld(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.top = pathlib.Path(tempfile.mkdtemp(prefix="rivulet-faults-"))
        cls.before = cls.top / "before"
        cls.before.mkdir()
        (cls.before / "tiny.toml").write_text(SCENARIO)
        (cls.before / "rule.txt").write_text("mu = 0.1\ngradient = grad + mu * (params - base)\n")
        (cls.before / "t.csv").write_text("x,c\n" + "1.5,a\n2.5,b\n" * 20)
        (cls.before / "play.txt").write_text("First Citizen:\nSpeak, speak, and then be silent.\n\nAll:\nWe speak.\n\n" * 40)
        for line in ["simulate tiny.toml --rounds 2 --db runs.sqlite",
                     "simulate tiny.toml --rounds 2 --db runs.sqlite --set run.name=second", "model export logistic_regression --out m.onnx",
                     "model point digits latest:0 --db runs.sqlite", "model point digits latest:2 --db runs.sqlite",
                     "model export logistic_regression --out m.npz", "model export logistic_regression --out m.pb",
                     "model export logistic_regression --out m.safetensors", "plan build tiny.toml --out t.plan", "ca author --out author.key",
                     "data import csv --from t.csv --label c --out t", "ca init --ca ca --name A", "ca issue client/a --ca ca --out a"]:
            subprocess.run([RIVULET, *line.split()], cwd=cls.before, check=True, capture_output=True)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.top, ignore_errors=True)

    def call(self, command, fault=None, occupied=()):
        """The folder afterwards and how it ended, or None where it hung. In each of the folders `occupied` somebody else's file lies."""
        folder = self.top / "world"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.before, folder)
        for name in occupied:
            (folder / name).mkdir()
            (folder / name / "thesis.txt").write_text("somebody else's\n")
        counts = self.top / "counts"
        counts.unlink(missing_ok=True)
        # NVIDIA's runtime, which librivulet_cuda.so brings, does not bear to be loaded without memory.
        env = {**os.environ, "LD_PRELOAD": PRELOAD, "RIVULET_FAULT_COUNTS": str(counts), "RIVULET_CUDA_LIBRARY": EMULATED}
        if fault:
            env["RIVULET_FAULT"] = fault
        try:
            done = subprocess.run([RIVULET, *command.split(), *COMMANDS[command]], cwd=folder, env=env, timeout=60,
                                  capture_output=True, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return folder, None, {}
        number = {}
        for line in counts.read_text().splitlines() if counts.exists() else []:
            words = line.split()
            for kind, n in zip(words[::2], words[1::2]):
                number[kind] = max(int(n), number.get(kind, 0))
        return folder, done, number

    def check(self, command, fault, must_bear, good):
        """What is wrong with how a command met a fault: sentences."""
        folder, done, _ = self.call(command, fault)
        if done is None:
            return ["it hangs"]
        wrong = []
        if done.returncode not in (0, 1, 2):
            wrong.append(f"exit {done.returncode}: {done.stderr[-300:]!r}")
        if done.returncode != 0 and must_bear:
            wrong.append(f"it is not borne: {done.stderr[-200:]!r}")
        if done.returncode != 0 and not done.stderr and not fault.startswith("write"):
            wrong.append("it fails without a word")
        if leaked := LIBRARY_WORDS.search(done.stderr.decode(errors="replace")):
            wrong.append(f"it says {leaked.group()!r}: {done.stderr[-300:]!r}")
        there = files_of(folder)
        # What an authority has recorded already it finishes at the next call.
        if command.startswith("ca ") and any(name.endswith(".part") or ".part/" in name for name in there):
            subprocess.run([RIVULET, *command.split(), *COMMANDS[command]], cwd=folder, timeout=60, capture_output=True)
            there = files_of(folder)
        if done.returncode == 0 and set(good) - set(there) and not command.startswith(DRAWN):
            wrong.append(f"it succeeds without {sorted(set(good) - set(there))}")
        for name, path in there.items():
            # A folder or file that is being removed may fail to be removed; what was made must be whole or gone.
            if any(part in name for part in LEFT) and not fault.startswith(("alloc", "mmap")):
                wrong.append(f"it leaves {name}")
            elif name in good and not command.startswith(DRAWN) and path.read_bytes() != good[name]:
                wrong.append(f"{name} is not what it is otherwise")
            elif name.endswith(".sqlite"):
                with sqlite3.connect(path) as db:
                    answer = db.execute("PRAGMA integrity_check").fetchall()
                if answer != [("ok",)]:
                    wrong.append(f"{name}: {answer}")
        return wrong

    def test_every_command_is_here(self):
        self.assertEqual(sorted(leaf_commands()), sorted([*COMMANDS, *EXCUSED]))

    def test_no_command_changes_or_removes_what_is_not_its_own(self):
        before = {name: path.read_bytes() for name, path in files_of(self.before).items()}
        self.assertGreater(len(before), 20)
        for command in COMMANDS:
            occupied = [name for name in FOLDERS if name in COMMANDS[command]]
            for where in [()] + [occupied] * bool(occupied):
                with self.subTest(command=command, occupied=where):
                    folder, done, _ = self.call(command, occupied=where)
                    self.assertIn(done.returncode, (0, 1, 2) if where else (0,), done)
                    there = {name: path.read_bytes() for name, path in files_of(folder).items()}
                    changed = [name for name, bytes_before in before.items() if there.get(name) != bytes_before]
                    self.assertEqual([name for name in changed if not name.startswith(OWN.get(command, "/"))], [])
                    for name in where:
                        self.assertEqual(there.get(f"{name}/thesis.txt"), b"somebody else's\n")

    def test_every_command_through_every_fault(self):
        total = 0
        for command in COMMANDS:
            folder, done, number = self.call(command)
            self.assertEqual(done.returncode, 0, (command, done))
            self.assertGreater(number.get("alloc", 0), 0, f"{PRELOAD} was not loaded: nothing was counted")
            good = {name: path.read_bytes() for name, path in files_of(folder).items()}
            ran = 0
            for kind, error, on, must_bear in FAULTS:
                calls = number.get(kind, 0)
                most = min(calls, WHOLE or 1)
                # Spread over all calls; as a test one place, which is another for each command and stays the same.
                seed = int(hashlib.sha256(f"{command} {kind} {error}".encode()).hexdigest()[:8], 16)
                for n in sorted({1 + (seed + i * calls // most) % calls for i in range(most)}):
                    fault = f"{kind}:{n}{'+' if on else ''}:{error}"
                    with self.subTest(command=command, fault=fault):
                        self.assertEqual(self.check(command, fault, must_bear, good), [])
                    ran += 1
            total += ran
            if WHOLE:
                print(f"{command:26}{ran:6} faults in", ", ".join(f"{n} {kind}" for kind, n in number.items() if n), flush=True)
        if WHOLE:
            print(f"{len(COMMANDS)} commands, {total} faults")


if __name__ == "__main__":
    main()
