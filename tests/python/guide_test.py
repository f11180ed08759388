"""docs/guide/python.md and python/README.md: their code runs from top to bottom; examples/label_skew.py prints what the page shows."""

import os
import re
import subprocess
import sys
import unittest.mock

import packaged
import harness

GUIDE = packaged.ROOT / "docs/guide/python.md"


@packaged.needs_numpy
class Guide(harness.RivuletTest):
    def setUp(self):
        super().setUp()
        patched = unittest.mock.patch.dict(
            os.environ,
            {"RIVULET_BINARY": harness.RIVULET, "PYTHONPATH": str(packaged.ROOT / "python"), "MPLBACKEND": "Agg"},
        )
        patched.start()
        self.addCleanup(patched.stop)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)

    def run_page(self, path, least_blocks):
        page = path.read_text()
        blocks = list(re.finditer(r"^```python\n(.*?)^```$", page, re.M | re.S))
        self.assertGreaterEqual(len(blocks), least_blocks)
        session = {"__name__": "session"}
        for block in blocks:
            needed = re.match(r"# needs: (.+)", block[1])
            if needed and not all(map(packaged.installed, needed[1].split(", "))):
                continue
            line = page.count("\n", 0, block.start(1))
            exec(compile("\n" * line + block[1], str(path), "exec"), session)
        return session

    def test_the_page_of_package_indexes_is_one_session(self):
        session = self.run_page(packaged.ROOT / "python/README.md", 3)
        self.assertEqual(session["run"].scores.keys(), {"test/accuracy", "test/loss"})

    def test_its_code_is_one_session(self):
        self.run_page(GUIDE, 9)
        self.assertTrue((self.folder / "changed.safetensors").exists())

    def test_its_example_prints_what_it_shows(self):
        done = subprocess.run(
            [sys.executable, packaged.ROOT / "examples/label_skew.py", "here"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        shown = re.search(
            r"^\$ PYTHONPATH=python python3 examples/label_skew.py\n(.*?)^```$", GUIDE.read_text(), re.M | re.S
        )[1]

        # Another kind of CPU rounds differently: what is alike are words, and the numbers nearly.
        def parts(text):
            return re.sub(r"\d\.\d+", "#", text), [float(number) for number in re.findall(r"\d\.\d+", text)]

        words, numbers = parts(done.stdout)
        self.assertEqual(words, parts(shown)[0])
        for number, expected in zip(numbers, parts(shown)[1]):
            self.assertAlmostEqual(number, expected, delta=0.1, msg=done.stdout)
        by_numpy, by_the_program = numbers[-2:]
        self.assertAlmostEqual(by_numpy, by_the_program, delta=1.5 / 500)  # a tie may fall otherwise


if __name__ == "__main__":
    harness.main()
