"""Every C++ file is as clang-format makes it, with the .clang-format of the tree. Releases of clang-format differ in small
ways, so the test runs with Debian 12's (14) and is skipped, with a sentence, where another one is installed."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
RELEASE = "14"
ENDINGS = (".cc", ".h", ".cu")  # .inc files are generated tables


def clang_format():
    """The program, and why it cannot be used: one of the two is None."""
    for name in (f"clang-format-{RELEASE}", "clang-format"):
        program = shutil.which(name)
        if program is None:
            continue
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
        release = re.search(r"version (\d+)", said)
        if release and release.group(1) == RELEASE:
            return program, None
    return None, f"clang-format {RELEASE} is not installed (package clang-format)"


def unformatted(program, files):
    """Paths, among `files`, that clang-format would write otherwise."""
    files = [str(file) for file in files]
    if not files:
        return []
    run = subprocess.run([program, "--dry-run", *files], capture_output=True, text=True, check=True)
    found = re.findall(r"^(.+?):\d+:\d+: warning: code should be clang-formatted", run.stderr, re.MULTILINE)
    return sorted(set(found))


def sources(root):
    return sorted(path for path in root.rglob("*") if path.suffix in ENDINGS
                  and path.relative_to(root).parts[0] not in ("build", ".git"))


PROGRAM, MISSING = clang_format()


@unittest.skipIf(PROGRAM is None, MISSING)
class Format(unittest.TestCase):
    def test_every_file_is_formatted(self):
        files = sources(ROOT)
        self.assertGreater(len(files), 1000)
        found = [pathlib.Path(file).relative_to(ROOT).as_posix() for file in unformatted(PROGRAM, files)]
        self.assertEqual(found, [], f"run: clang-format -i {' '.join(found)}")

    def test_a_file_that_is_not_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / ".clang-format").write_text((ROOT / ".clang-format").read_text())
            (root / "right.cc").write_text("int Sum(int a, int b) { return a + b; }\n")
            (root / "wrong.cc").write_text("int Sum( int a,int b )\n{ return a+b; }\n")
            self.assertEqual(unformatted(PROGRAM, sources(root)), [str(root / "wrong.cc")])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
