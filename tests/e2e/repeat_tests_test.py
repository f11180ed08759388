"""scripts/repeat-tests.sh: each test once a turn, in an order of the turn's seed, and each that failed is named, once more from where it stopped."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from harness import RivuletTest, main

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/repeat-tests.sh"

# A program of GoogleTest's, as far as the script knows one: it notes its arguments, and does what its table says.
PROGRAM = """#!{python}
import os, sys, time
tests, acts = {tests}, {acts}
chosen = [word.partition("=")[2].split(":") for word in sys.argv if word.startswith("--gtest_filter=")]
with open({calls!r}, "a") as calls:
    calls.write(" ".join(["{name}"] + sys.argv[1:]) + "\\n")
failed = False
for test in [test for test in tests if not chosen or test in chosen[0]]:
    print("[ RUN      ] " + test, flush=True)
    act = acts.get(test, "passes")
    if act == "dies":
        os.kill(os.getpid(), 11)
    if act == "hangs":
        time.sleep(600)
    failed |= act == "fails"
    print(("[  FAILED  ] " if act == "fails" else "[       OK ] ") + test + " (3 ms)", flush=True)
sys.exit(failed)
"""


class RepeatTests(RivuletTest):
    def setUp(self):
        super().setUp()
        self.tree = pathlib.Path(self.folder) / "tree"
        self.tree.mkdir()
        self.calls = pathlib.Path(self.path("calls"))
        self.tests = []
        bin_folder = pathlib.Path(self.path("bin"))
        bin_folder.mkdir()
        ctest = bin_folder / "ctest"
        ctest.write_text(f"#!/bin/sh\ncat {self.path('listing')}\n")
        ctest.chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}

    def add(self, name, tests, timeout=60, **acts):
        """A program with these tests, or with None one test that is no program of GoogleTest's."""
        program = self.tree / name
        names = [f"Suite.{test}" for test in tests or [name]]
        program.write_text(PROGRAM.format(python=sys.executable, name=name, tests=names, calls=str(self.calls),
                                          acts={f"Suite.{test}": act for test, act in acts.items()}))
        program.chmod(0o755)
        properties = [{"name": "TIMEOUT", "value": timeout}]
        if tests is None:
            self.tests.append({"name": f"e2e.{name}", "command": [str(program)], "properties": properties})
        for test in names if tests else []:
            self.tests.append({"name": test, "command": [str(program), f"--gtest_filter={test}"], "properties": properties})

    def arguments(self, *words):
        pathlib.Path(self.path("listing")).write_text(json.dumps({"tests": self.tests}))
        return [str(SCRIPT), "--load", "0", "--jobs", "1", *words, str(self.tree)]

    def repeat(self, *words):
        return subprocess.run(self.arguments(*words), env=self.environment, capture_output=True, text=True, timeout=120)

    def test_each_turn_has_an_order_of_its_own_and_what_is_done_is_not_done_again(self):
        for number in range(6):
            self.add(f"program{number}", ["A", "B"])
        self.add("other", None)
        ended = self.repeat("--times", "3")
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertIn("39 tests in 21 runs of programs, 0 of them failed at least once", ended.stdout)
        calls = self.calls.read_text().splitlines()
        turns = [[call.split()[0] for call in calls[7 * turn:7 * turn + 7]] for turn in range(3)]
        self.assertEqual([sorted(turn) for turn in turns], [sorted(turns[0])] * 3)
        self.assertNotEqual(turns[0], turns[1])
        self.assertIn("--gtest_shuffle --gtest_random_seed=2", calls[0] if "other" not in calls[0] else calls[1])

        again = self.repeat("--times", "3")
        self.assertEqual((again.returncode, len(self.calls.read_text().splitlines())), (0, 21))
        more = self.repeat("--times", "4")
        self.assertEqual((more.returncode, len(self.calls.read_text().splitlines())), (0, 28))
        anew = self.repeat("--times", "1", "--anew", "--only", "e2e")
        self.assertEqual((anew.returncode, len(self.calls.read_text().splitlines())), (0, 29))

    def test_each_that_failed_is_named_whether_it_failed_died_or_stood_still(self):
        self.add("fails", ["A", "B", "C"], B="fails")
        self.add("dies", ["A", "B", "C"], B="dies")
        self.add("hangs", ["A", "B", "C"], timeout=2, B="hangs")
        self.add("bad", None, bad="fails")
        ended = self.repeat("--times", "2")
        self.assertEqual(ended.returncode, 1, ended.stderr)
        for line in ("FAILED fails Suite.B: turn 1 (seed 1): failed; turn 2 (seed 2): failed", "FAILED hangs Suite.B: turn 1 (seed 1): stood still",
                     "FAILED dies Suite.B: turn 1 (seed 1): the program ended with -11",
                     "FAILED e2e.bad: turn 1 (seed 1): ended with 1; turn 2 (seed 2): ended with 1",
                     "20 tests in 8 runs of programs, 4 of them failed at least once"):
            self.assertIn(line, ended.stdout)
        # What stands behind a test that died is run, and what was before it is not run again.
        calls = [call.split() for call in self.calls.read_text().splitlines() if call.startswith("dies")]
        self.assertEqual([[word for word in call if "filter" in word] for call in calls], [[], ["--gtest_filter=Suite.C"]] * 2)
        logs = sorted(path.name for path in (self.tree / "repeated").glob("*.log"))
        self.assertEqual(len(logs), 8)
        self.assertIn("[  FAILED  ] Suite.B", (self.tree / "repeated/turn-1-fails.log").read_text())

    def test_stopped_it_leaves_nothing_running_and_goes_on(self):
        self.add("first", ["A"])
        self.add("second", ["A"], A="hangs")
        process = subprocess.Popen(self.arguments("--times", "1", "--load", "1"), env=self.environment, stdout=subprocess.PIPE, text=True,
                                   start_new_session=True)
        for _ in range(600):
            if self.calls.exists() and "second" in self.calls.read_text():
                break
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        self.assertIn("stopped; the same call goes on", out)
        self.assertEqual(subprocess.run(["pgrep", "-f", str(self.tree / "second")], capture_output=True).stdout, b"")
        self.tests = []
        self.add("first", ["A"])
        self.add("second", ["A"])
        ended = self.repeat("--times", "1")
        self.assertEqual(ended.returncode, 0, ended.stdout)
        self.assertEqual((self.calls.read_text().count("first"), self.calls.read_text().count("second")), (1, 2))

    def test_a_tree_without_such_tests_is_said(self):
        self.add("first", ["A"])
        ended = self.repeat("--only", "nothing like it")
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("has no test whose name has 'nothing like it'", ended.stderr)


if __name__ == "__main__":
    main()
