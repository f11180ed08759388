"""docs/guide/gpt2.md runs from top to bottom, and PyTorch computes the run's loss."""

import os
import sys
import unittest
import unittest.mock

import packaged
import harness
import guides_test
import rivulet

NEEDED = ("transformers", "peft", "onnx", "onnxscript")


@packaged.needs_torch
@unittest.skipUnless(all(map(packaged.installed, NEEDED)), f"needs {', '.join(NEEDED)}")
class Gpt2Guide(harness.RivuletTest):
    bash = guides_test.Guides.bash
    follow_page = guides_test.Guides.follow_page

    def setUp(self):
        super().setUp()
        (self.folder / "bin").mkdir()
        (self.folder / "bin/python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (self.folder / "bin/python3").chmod(0o755)
        patched = unittest.mock.patch.dict(
            os.environ,
            {
                "PYTHONPATH": os.pathsep.join([str(packaged.ROOT / "python"), *sys.path]),
                "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
                "RIVULET_BINARY": harness.RIVULET,
                "OMP_NUM_THREADS": "1",
                "HF_HUB_OFFLINE": "1",
            },
        )
        patched.start()
        self.addCleanup(patched.stop)

    def test_the_page_is_run(self):
        self.follow_page("gpt2", least=5)
        code, printed = self.bash("python3 back.py 2> back.log")
        self.assertEqual(code, 0, printed)
        before, after, merged = (line.split()[-1] for line in printed.splitlines())
        self.assertEqual(merged, "True")
        self.assertLess(float(after), float(before) - 0.05)
        run = rivulet.open(self.folder / "rivulet.sqlite").run("latest")
        measured = [row["value"] for row in run.history.rows("SELECT value FROM metrics WHERE name = 'test/loss' ORDER BY round")]
        self.assertAlmostEqual(float(after), measured[-1], delta=2e-4)


if __name__ == "__main__":
    harness.main()
