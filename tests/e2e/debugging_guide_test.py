"""docs/guide/debugging.md: its transcripts are what its commands print. With --update they are written anew."""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys

from harness import RIVULET, RivuletTest, main

GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "guide" / "debugging.md"
FILE = re.compile(r"<!-- file: (\S+) -->\n```\w*\n(.*?)```", re.S)
CONSOLE = re.compile(r"```console\n(.*?)```", re.S)


def normal(text):
    """Without what differs from run to run and from one processor to another: times, values, digests, kernels' names."""
    lines = []
    for line in text.splitlines():
        line = re.sub(r"\b[0-9a-f]{64}\b", "DIGEST", line)
        line = re.sub(r"\.cc:\d+", ".cc:N", line)
        line = re.sub(r"\b\d+:\d\d:\d\d\.\d+\b", "TIME", line)
        line = re.sub(r"-?\d+\.\d+(e[+-]\d+)?|\d+e[+-]?\d+", "#", line)
        line = re.sub(r"^(implementation|arena_bytes) .*", r"\1", line)
        lines.append(re.sub(r"\s+", " ", line).strip())
    return "\n".join(lines)


class DebuggingGuide(RivuletTest):
    def transcript(self, commands):
        text = ""
        for command in commands:
            done = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, cwd=self.folder, timeout=300,
                                  env={**os.environ, "LC_ALL": "C.UTF-8",  # by which `ls` sorts
                                       "PATH": f"{pathlib.Path(RIVULET).parent}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"})
            text += f"$ {command}\n{done.stdout.decode()}"
        return text

    def test_transcripts_are_what_the_commands_print(self):
        guide = GUIDE.read_text()
        for name, text in FILE.findall(guide):
            self.write(name, text)
        self.run_rivulet("debug", "tiny.toml", "-c", "help", code=0)  # makes the data
        blocks = CONSOLE.findall(guide)
        self.assertGreater(len(blocks), 6)
        for block in blocks:
            if "import numpy" in block and not importlib.util.find_spec("numpy"):
                continue
            commands = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
            printed = self.transcript(commands)
            if "--update" in sys.argv:
                guide = guide.replace(f"```console\n{block}```", f"```console\n{printed}```", 1)
            else:
                self.assertEqual(normal(printed), normal(block))
        if "--update" in sys.argv:
            GUIDE.write_text(guide)


if __name__ == "__main__":
    if "--update" in sys.argv:
        import unittest
        unittest.main(argv=[sys.argv[0]])
    main()
