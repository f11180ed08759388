"""docs/guide/certificates.md: its commands do what it says, from nothing to three sites that train. With --update the transcripts are written
anew."""
import os
import pathlib
import re
import socket
import subprocess
import sys
import unittest

from harness import RIVULET, RivuletTest, main

GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "guide" / "certificates.md"
STEP = re.compile(r"<!-- file: (?P<file>\S+) -->\n```\w*\n(?P<text>.*?)```|```console\n(?P<console>.*?)```|"
                  r"<!-- run -->\n```sh\n(?P<run>.*?)```", re.S)


def normal(text):
    """Without what differs from day to day and from place to place: serial numbers, dates, this test's folder."""
    text = re.sub(r"\b[0-9A-F]{32}\b", "SERIAL", text)
    text = re.sub(r"\b\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\dZ)?", "DATE", text)
    text = re.sub(r" in /\S+/data$", " in FOLDER/data", text, flags=re.M)
    return "\n".join(re.sub(r"\s+", " ", line).strip() for line in text.splitlines())


class CertificatesGuide(RivuletTest):
    def bash(self, script):
        done = subprocess.run(["bash", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, cwd=self.folder, timeout=300,
                              env={**os.environ, "PATH": f"{pathlib.Path(RIVULET).parent}:{os.environ['PATH']}"})
        return done.returncode, done.stdout.decode()

    def test_its_commands_do_what_it_says(self):
        guide = GUIDE.read_text()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        ran = 0
        for step in STEP.finditer(guide):
            if step["file"]:
                self.write(step["file"], step["text"])
            elif step["run"]:
                code, printed = self.bash(step["run"])
                self.assertEqual(code, 0, printed)
                self.assertIn("test accuracy", printed)
                for site in ("hospital-a", "hospital-b", "hospital-c"):
                    self.assertIn(f"{site}: the run is over", printed)
                ran += 1
            else:
                printed = ""
                for command in re.findall(r"^\$ (.*)$", step["console"], re.M):
                    printed += f"$ {command}\n" + self.bash(command.replace("7000", port))[1]
                if "--update" in sys.argv:
                    guide = guide.replace(step["console"], printed, 1)
                else:
                    self.assertEqual(normal(printed), normal(step["console"]))
        self.assertEqual(ran, 1)
        if "--update" in sys.argv:
            GUIDE.write_text(guide)


class CommandLine(RivuletTest):
    """What a person can get wrong."""

    def test_wrong_words_are_usage_errors(self):
        for arguments, fragments in [
            (["init"], ["--name"]),
            (["init", "--name", "x", "--days", "0"], ["--days", "between 1 and 36500"]),
            (["issue", "hospital-a"], ["client/ID"]),
            (["issue", "client/a\nb"], ["U+000A"]),
            (["issue", "aggregator/t"], ["--host"]),
            (["issue", "client/a", "--host", "a.example"], ["names no host"]),
            (["kit", "client/a"], ["--coordinator HOST:PORT"]),
            (["kit", "client/a", "--coordinator", "nowhere"], ["no port"]),
            (["kit", "client/a", "--coordinator", "h:1", "--listen", "h:1"], ["--listen is for the kit of a coordinator"]),
            (["kit", "operator/o"], ["'rivulet ca issue operator/o'"]),
            (["revoke"], ["NAME", "--serial"]),
            (["revoke", "client/a", "--reason", "keycompromise"], ["'key-compromise'"]),
            (["renew", "authority", "--out", "x"], ["leave out"]),
        ]:
            with self.subTest(arguments=arguments):
                self.assert_refused(self.run_rivulet("ca", *arguments), *fragments, code=2)

    def test_what_is_not_there_is_named_with_the_mend(self):
        self.assert_refused(self.run_rivulet("ca", "list"), "'ca' holds no authority", "'rivulet ca init'", code=1)
        self.run_rivulet("ca", "init", "--name", "study", code=0)
        self.assert_refused(self.run_rivulet("ca", "init", "--name", "study"), "holds an authority already", code=1)
        self.assert_refused(self.run_rivulet("ca", "renew", "client/a"), "'rivulet ca issue' makes the first one", code=1)
        self.assert_refused(self.run_rivulet("ca", "issue", "client/a", "--request", "none.csr"), "none.csr", code=1)
        self.assert_refused(self.run_rivulet("ca", "issue", "client/a", "--out", "/proc/nowhere/a"), "/proc/nowhere", code=1)
        self.run_rivulet("ca", "request", "client/a", code=0)
        self.assert_refused(self.run_rivulet("ca", "issue", "client/b", "--request", "client-a/node.csr"),
                            "is for 'client/a', not for 'client/b'", code=1)
        self.assertEqual(self.run_rivulet("ca", "list", code=0).out, "")

    def test_a_folder_may_be_called_like_a_subcommand(self):
        self.run_rivulet("ca", "init", "--name", "study", code=0)
        self.run_rivulet("ca", "kit", "client/a", "--coordinator", "h:1", "--out", "kit", code=0)
        self.assertIn("client/a", self.run_rivulet("ca", "show", "kit", code=0).out)

    def test_folders_and_archives_are_their_owners_alone(self):
        previous = os.umask(0)
        try:
            self.run_rivulet("ca", "init", "--name", "study", code=0)
            self.run_rivulet("ca", "kit", "client/ward 7", "--coordinator", "h:1", "--out", "kit", code=0)
            self.run_rivulet("ca", "kit", "client/b", "--coordinator", "h:1", code=0)
            self.run_rivulet("ca", "issue", "operator/o", code=0)
        finally:
            os.umask(previous)
        modes = {str(path.relative_to(self.folder)): path.stat().st_mode & 0o777 for path in self.folder.rglob("*")}
        for name, mode in modes.items():
            if name == "tiny.toml" or name == "ca/lock":
                continue
            private = 0o700 if name in ("ca", "kit", "operator-o", "kit/start") else 0o600
            self.assertEqual(mode, private, name)
        listing = subprocess.run(["tar", "-tvzf", self.path("client-b.tar.gz")], capture_output=True, text=True, check=True).stdout
        self.assertRegex(listing, r"(?m)^drwx------ .* client-b/\./$")
        self.assertRegex(listing, r"(?m)^-rw------- .* client-b/node.key$")
        self.assertRegex(listing, r"(?m)^-rwx------ .* client-b/start$")
        self.assertIn('RIVULET_COORDINATOR="h:1"', (self.folder / "kit/site.conf").read_text())


if __name__ == "__main__":
    if "--update" in sys.argv:
        unittest.main(argv=sys.argv[:1], defaultTest="CertificatesGuide")
    main()
