"""Every folder of sources opens with a README.md: a heading, and under it a noun phrase that says what the folder is. The folders
of NOT_YET have none yet, and no folder is added to it."""
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).parents[2]
TOPS = ("aggregator", "certificates", "cli", "client", "coordinator", "dataflow", "deploy", "engine", "examples", "federated", "http", "inspect",
        "pages", "proto", "python", "rpc", "scripts", "serving", "setup", "simulations")
# Files of one kind, told by the README above them.
DATA = {"simulations/scenarios"}

NOT_YET = {}


def folders(root):
    """The folders below TOPS that hold a source themselves, or folders that do."""
    found = set()
    for top in TOPS:
        for path in (root / top).rglob("*"):
            if path.suffix in (".h", ".cc", ".cu", ".proto", ".py", ".toml") and "egg-info" not in str(path):
                folder = path.relative_to(root).parent
                while folder.parts:
                    found.add(folder.as_posix())
                    folder = folder.parent
    return sorted(name for name in found if not any(name == data or name.startswith(data + "/") for data in DATA))


class Folders(unittest.TestCase):
    def test_every_folder_opens_with_a_readme(self):
        found = folders(ROOT)
        self.assertGreater(len(found), 60)
        self.assertEqual([name for name in found if not (ROOT / name / "README.md").exists() and name not in NOT_YET], [])

    def test_the_list_only_shrinks(self):
        self.assertEqual([name for name in NOT_YET if (ROOT / name / "README.md").exists() or not (ROOT / name).exists()], [])

    def test_every_script_and_part_of_the_build_is_listed(self):
        for folder in ("scripts", "cmake"):
            readme = (ROOT / folder / "README.md").read_text()
            self.assertEqual([path.name for path in sorted((ROOT / folder).iterdir())
                              if path.is_file() and path.name != "README.md" and f"`{path.name}`" not in readme], [], folder)

    def test_a_readme_has_a_heading_and_prose(self):
        for name in folders(ROOT):
            readme = ROOT / name / "README.md"
            if readme.exists():
                lines = [line for line in readme.read_text().splitlines() if line.strip()]
                self.assertRegex(lines[0], r"^# \S", name)
                self.assertGreater(len(lines), 1, name)


if __name__ == "__main__":
    sys.exit(unittest.main())
