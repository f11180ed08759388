"""scripts/build.sh without a terminal: how far the build is, its exit status, and the log's errors."""
import pathlib
import re
import subprocess

from harness import RivuletTest, main

BUILD = pathlib.Path(__file__).resolve().parents[2] / "scripts/build.sh"

# Stands in for CMake and ninja: four steps of half a second each, then the status that the test wants.
SCRIPT = """set -euo pipefail
. {build}
cmake() {{ echo configured; }}
ninja() {{
  for step in 1 2 3 4; do echo "[$step/4] Building CXX object a/b.cc.o"; command sleep 0.5; done
  [ {status} = 0 ] || echo "FAILED: a/b.cc.o: error: wanted by the test"
  return {status}
}}
RIVULET_BUILD_REPORT_SECONDS=1 build release -- all
"""


class BuildScriptTest(RivuletTest):
    def build(self, status):
        return subprocess.run(["bash", "-c", SCRIPT.format(build=BUILD, status=status)], cwd=self.folder,
                              capture_output=True, text=True, timeout=60)

    def test_a_build_says_how_far_it_is_and_leaves_stdout_alone(self):
        built = self.build(status=0)
        self.assertEqual(built.returncode, 0, built.stderr)
        self.assertEqual(built.stdout, "")
        lines = built.stderr.splitlines()
        self.assertGreaterEqual(len(lines), 1)
        for line in lines:
            self.assertRegex(line, r"^Building: \d+ % after \d+ s, about \d+ s left$")
        percents = [int(re.search(r"(\d+) %", line)[1]) for line in lines]
        self.assertEqual(percents, sorted(percents))
        self.assertIn("[4/4]", (self.folder / "build/release.log").read_text())

    def test_a_failed_build_fails_and_prints_its_errors(self):
        built = self.build(status=3)
        self.assertNotEqual(built.returncode, 0)
        self.assertIn("FAILED: a/b.cc.o: error: wanted by the test", built.stderr)
        self.assertIn("building build/release failed; the whole log is build/release.log", built.stderr)


if __name__ == "__main__":
    main()
