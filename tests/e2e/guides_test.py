"""Guides of docs/guide run from top to bottom, in one folder each: files are written, commands are run, and they print what the
page shows but for times, numbers and names that differ from run to run. A command without output on the page must succeed.

    guides_test.py --update [PAGE…]    writes what the commands print into the pages

    <!-- file: NAME -->     the code block below is that file, as is one that stands under the name of a file of tests/docs
    ```console              commands, "$ …", each followed by what it prints
    <!-- varies -->         the commands of the block below succeed, and print other numbers each time
    <!-- run -->            the sh block below runs as a script and exits 0"""
import itertools
import os
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import time
import unittest

from harness import RIVULET, RivuletTest, main

GUIDES = pathlib.Path(__file__).parents[2] / "docs/guide"
PAGES = ("simulate", "deploy", "inspect", "privacy", "own-model", "adapters", "own-algorithm", "local-rules", "graphs", "profiling")
STEP = re.compile(r"<!-- file: (?P<file>\S+) -->\n```\w*\n(?P<text>.*?)```|"
                  r"^`(?P<copied>tests/docs/[\w/]+\.(?:toml|txt))`:\n\n```\w*\n(?P<shown>.*?)```|"
                  r"(?P<varies><!-- varies -->\n)?```console\n(?P<console>.*?)```|<!-- run -->\n```sh\n(?P<run>.*?)```", re.S | re.M)


def normal(text):
    """Without dates, times, and names that differ from run to run. Scenarios of the guides have kernels = "portable", so that
    all other numbers are equal on every machine."""
    text = re.sub(r"\b([a-z][\w-]*)-\d{8}T\d{6}-[0-9a-f]{4}\b", r"\1-RUN", text)
    text = re.sub(r"\b[0-9A-F]{32}\b|\b[0-9a-f]{64}\b|\b[0-9a-f]{12}…", "DIGEST", text)
    text = re.sub(r"\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z| UTC)?)?", "DATE", text)
    text = re.sub(r"\b\d+(\.\d+)? (s|ms|us|µs|min|h)\b", "TIME", text)
    text = re.sub(r"\b0\.0\d\d?\b", "SECONDS", text)  # the columns of seconds of trainings that take none
    return [re.sub(r"\s+", " ", line).strip() for line in text.splitlines()]


def first_difference(printed, shown):
    """A line of the page and the line that was printed in its place, or None."""
    for one, other in itertools.zip_longest(normal(shown), normal(printed)):
        if one != other:
            return f"the page has {one!r}, and printed was {other!r}"
    return None


class Guides(RivuletTest):
    def bash(self, script):
        done = subprocess.run(["bash", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              cwd=self.folder, timeout=300,
                              env={**os.environ, "COLUMNS": "120", "LC_ALL": "C.UTF-8",
                                   "PATH": f"{pathlib.Path(RIVULET).parent}:{os.environ['PATH']}"})
        return done.returncode, done.stdout.decode().replace(str(self.folder), "~")

    def follow_page(self, name, update=False, least=1):
        path = GUIDES / f"{name}.md"
        page = path.read_text()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        ran = 0
        for step in STEP.finditer(page):
            if step["file"]:
                self.write(step["file"], step["text"])
            elif step["copied"]:
                self.write(pathlib.Path(step["copied"]).name, step["shown"])
            elif step["run"]:
                code, printed = self.bash("set -e\n" + step["run"].replace("7000", port))
                self.assertEqual(code, 0, printed)
                ran += 1
            else:
                written = ""
                background = []
                for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", step["console"], re.M):
                    if command.endswith(" &"):
                        background.append(self.start(*shlex.split(command.replace("7000", port))[1:-1]))
                        written += f"$ {command}\n"
                        time.sleep(1)
                        continue
                    script = command.replace("7000", port)
                    code, printed = self.bash(script.replace("$!", str(background[-1].pid)) if background else script)
                    printed = "".join(line.rstrip() + "\n" for line in printed.replace(port, "7000").splitlines())
                    if update:
                        written += f"$ {command}\n{printed}"
                    elif shown and not step["varies"]:
                        self.assertIsNone(first_difference(printed, shown), f"{name}.md: $ {command}\n{printed}")
                    else:
                        self.assertEqual(code, 0, f"{name}.md: $ {command}\n{printed}")
                    ran += 1
                for process in background:
                    process.terminate()
                    process.communicate(timeout=60)
                if update:
                    page = page.replace(step["console"], written, 1)
        self.assertGreaterEqual(ran, least)
        if update:
            path.write_text(page)

    def test_readme(self):
        self.follow_page("../../README")

    def test_simulate(self):
        self.follow_page("simulate")

    def test_deploy(self):
        self.follow_page("deploy")

    def test_inspect(self):
        self.follow_page("inspect")

    def test_privacy(self):
        self.follow_page("privacy")

    def test_own_model(self):
        self.follow_page("own-model")

    def test_own_algorithm(self):
        self.follow_page("own-algorithm")

    def test_local_rules(self):
        self.follow_page("local-rules")

    def test_graphs(self):
        self.follow_page("graphs")

    def test_profiling(self):
        self.follow_page("profiling")

    def test_pages_that_others_run_are_run(self):
        """Each guide is run here or by a test that names it."""
        here = pathlib.Path(__file__).parents[1]
        tests = "".join(path.read_text() for path in (*here.rglob("*guide*_test.py"), *here.rglob("guide_test.cc"),
                                                      here / "e2e/network_test.py"))
        for page in ("python", "own-data", "own-op", "certificates", "operations", "debugging"):
            self.assertRegex(tests, rf"\b{page}\.md\b")
            self.assertTrue((GUIDES / f"{page}.md").exists(), page)

    def test_lines_are_compared_by_their_words(self):
        self.assertIsNone(first_difference("a 1.25 s\nb\n", "a 3.5 s\nb\n"))
        self.assertIn("'c', and printed was 'b'", first_difference("a\nb\n", "a\nc\n"))
        self.assertIsNotNone(first_difference("accuracy 0.51\n", "accuracy 0.52\n"))
        self.assertIn("None", first_difference("a\nb\n", "a\n"))
        self.assertIsNone(first_difference("run digits-20261120T235651-997b of 2026-11-20 23:56:51\n",
                                           "run digits-20250101T000000-aaaa of 2025-01-01 00:00:00\n"))


if __name__ == "__main__":
    if "--update" in sys.argv:
        names = sys.argv[sys.argv.index("--update") + 1:] or PAGES

        class Update(Guides):
            def runTest(self):
                for name in names:
                    self.tearDown()
                    self.setUp()
                    self.follow_page(name, update=True)

        result = unittest.TextTestRunner().run(Update("runTest"))
        sys.exit(not result.wasSuccessful())
    main()
