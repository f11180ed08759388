"""docs/guide/own-data.md: its transcripts are what its commands print; of those that show commands alone, each succeeds. With
--update they are written anew."""
import os
import pathlib
import re
import subprocess
import sys

from harness import RIVULET, RivuletTest, main

GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "guide" / "own-data.md"
FILE = re.compile(r"<!-- file: (\S+) -->\n```\w*\n(.*?)```", re.S)
CONSOLE = re.compile(r"```console\n(.*?)```", re.S)


class DataGuide(RivuletTest):
    def transcript(self, commands):
        text = ""
        for command in commands:
            done = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, cwd=self.folder, timeout=300,
                                  env={**os.environ, "PATH": f"{pathlib.Path(RIVULET).parent}:{os.environ['PATH']}"})
            text += f"$ {command}\n{done.stdout.decode()}"
            self.codes.append(done.returncode)
        return text

    def test_transcripts_are_what_the_commands_print(self):
        guide = GUIDE.read_text()
        for name, text in FILE.findall(guide):
            self.write(name, text)
        blocks = CONSOLE.findall(guide)
        self.assertGreaterEqual(len(blocks), 3)
        for block in blocks:
            self.codes = []
            printed = self.transcript([line[2:] for line in block.splitlines() if line.startswith("$ ")])
            if "--update" in sys.argv:
                guide = guide.replace(f"```console\n{block}```", f"```console\n{printed}```", 1)
            elif all(line.startswith("$ ") for line in block.splitlines()):
                self.assertEqual(set(self.codes), {0}, printed)
            else:
                self.assertEqual(printed, block)
        if "--update" in sys.argv:
            GUIDE.write_text(guide)


if __name__ == "__main__":
    if "--update" in sys.argv:
        import unittest
        unittest.main(argv=[sys.argv[0]])
    main()
