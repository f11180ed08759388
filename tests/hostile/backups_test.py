"""Backups while somebody works against them: files that are cut, swapped for links, devices and pipes, before and while they are copied,
and histories made to harm whoever opens them. A backup is whole or refused with a sentence, gives away nothing from elsewhere, and
replaces nothing. tests/e2e/backup_test.py has what a backup is for; tests/coordinator/history has hostile schemas."""
import os
import pathlib
import shutil
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(__file__))
from world import World  # noqa: E402
import chance as chances  # noqa: E402

from harness import main  # noqa: E402

SECRET = b"the secret of somebody else\n"


class Backups(World):
    def setUp(self):
        super().setUp()
        self.simulate()
        [self.run] = (self.folder / "runs.sqlite.models").iterdir()
        self.secret = pathlib.Path(self.write("secret", SECRET))

    def backup(self, out="out.sqlite", **kwargs):
        """Within a time in which no pipe and no endless device is waited for."""
        return self.run_rivulet("backup", "--db", "runs.sqlite", "--out", out, timeout=60, **kwargs)

    def assert_gives_nothing_away(self, out):
        for path in self.folder.rglob("*"):
            if path.is_file() and not path.is_symlink() and path != self.secret and str(path.relative_to(self.folder)).startswith(out):
                self.assertNotIn(SECRET, path.read_bytes(), path)

    def assert_backup_refused(self, out, *words):
        result = self.backup(out)
        self.assert_refused(result, *words, code=1)
        self.assertFalse(os.path.lexists(self.path(out)), out)
        self.assert_gives_nothing_away(out)

    def test_files_that_are_no_files_of_the_run(self):
        for name in ("plan", "round-000004.safetensors"):
            file = self.run / name
            whole = file.read_bytes()

            def link_to(target):
                file.symlink_to(target)

            for what, put, words in (
                ("a link to a secret", lambda: link_to(self.secret), ["is a link"]),
                ("a link to itself", lambda: link_to(file), []),
                ("a link to a device", lambda: link_to("/dev/zero"), ["is a link"]),
                ("a pipe", lambda: os.mkfifo(file), ["is not a plain file"]),
                ("a folder", file.mkdir, ["is not a plain file"]),
                ("nothing in it", lambda: file.write_bytes(b""), ["is not the file that its run has written"]),
                ("its first half", lambda: file.write_bytes(whole[:len(whole) // 2]), ["is not the file that its run has written"]),
                ("more than it", lambda: file.write_bytes(whole + SECRET), ["is not the file that its run has written"]),
                ("a hole of two terabytes", lambda: (file.write_bytes(b""), os.truncate(file, 2 << 40)), ["memory"]),
            ):
                with self.subTest(f"{name}: {what}"):
                    file.unlink()
                    put()
                    self.assert_backup_refused(f"{what}.sqlite", *words)
                    shutil.rmtree(file) if file.is_dir() and not file.is_symlink() else file.unlink()
                    file.write_bytes(whole)
        self.assertEqual(self.backup().code, 0)

    def test_places_that_are_taken(self):
        for what, put in (("a file", lambda path: path.write_bytes(SECRET)), ("a link to a file", lambda path: path.symlink_to(self.secret)),
                          ("a link to nothing", lambda path: path.symlink_to("nowhere")), ("a pipe", os.mkfifo), ("a folder", os.mkdir)):
            with self.subTest(what):
                path = self.folder / f"{what}.sqlite"
                put(path)
                before = os.lstat(path)
                self.assert_refused(self.backup(path.name), "is there already", code=1)
                self.assertEqual(os.lstat(path).st_ino, before.st_ino)
        self.assertEqual(self.secret.read_bytes(), SECRET)
        self.assertFalse((self.folder / "nowhere").exists())

    def test_histories_that_are_none(self):
        whole = (self.folder / "runs.sqlite").read_bytes()
        file = self.folder / "runs.sqlite"
        for what, put in (("a pipe", lambda: os.mkfifo(file)), ("endless zeros", lambda: file.symlink_to("/dev/zero")),
                          ("a folder", file.mkdir), ("a secret", lambda: file.symlink_to(self.secret)),
                          ("half of it", lambda: file.write_bytes(whole[:len(whole) // 2])), ("its first page", lambda: file.write_bytes(whole[:4096])),
                          ("holes", lambda: (file.write_bytes(whole[:100]), os.truncate(file, 1 << 40)))):
            with self.subTest(what):
                file.unlink()
                put()
                self.assert_backup_refused(f"{what}.sqlite")
                shutil.rmtree(file) if file.is_dir() and not file.is_symlink() else file.unlink()
                file.write_bytes(whole)
        self.assertEqual(self.backup().code, 0)

    def test_damaged_copies_are_opened_or_refused(self):
        """What comes back from a backup is read by every command: any bytes may be changed in it."""
        self.assertEqual(self.backup().code, 0)
        whole = (self.folder / "out.sqlite").read_bytes()
        opened = 0
        for number, chance in chances.cases("damaged copies", chances.seconds(8)):
            file = self.folder / f"damaged-{number}.sqlite"
            damaged = bytearray(whole)
            for _ in range(chance.randint(1, 12)):
                at = chance.randrange(len(damaged)) if chance.random() < 0.6 else chance.randrange(4096)
                damaged[at] = chance.choice([0, 255, damaged[at] ^ (1 << chance.randrange(8))])
            if chance.random() < 0.2:
                del damaged[chance.randrange(len(damaged)):]
            file.write_bytes(damaged)
            if chance.random() < 0.3:
                (self.folder / f"{file.name}-{chance.choice(['wal', 'journal', 'shm'])}").write_bytes(chance.randbytes(chance.choice([0, 32, 4096, 40_000])))
            command = chance.choice([["runs", "list"], ["runs", "show", "latest"], ["runs", "verify", "latest"], ["backup", "--out", f"again-{number}.sqlite"],
                                     ["runs", "export", "latest", "--json", f"export-{number}.json"],
                                     ["simulate", self.scenario, "--resume", "latest", "--rounds", "5"]])
            result = self.run_rivulet(*command, "--db", file.name, timeout=60)
            self.assertNotRegex(result.out + result.err, r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]")
            self.assertIn(result.code, (0, 1, 2), f"case {number} of seed {chances.SEED}: {command}: {result}")
            if result.code:
                self.assertRegex(result.err, r"(?m)^rivulet: ", f"case {number} of seed {chances.SEED}: {command}: {result}")
            opened += result.code == 0
            for path in self.folder.glob(f"*-{number}.*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        print(f"damaged copies: {opened} were opened", flush=True)

    def test_while_somebody_works_against_it(self):
        """The run writes on while its files are cut and swapped at random, and put back; each backup is whole or is none."""
        process = self.start("simulate", self.scenario, "--rounds", 1_000_000, "--db", "busy.sqlite", "--set", "run.durability=round", "--quiet")
        self.wait_for(lambda: self.committed("busy.sqlite") >= 3, "rounds")
        [run] = (self.folder / "busy.sqlite.models").iterdir()
        plan = (run / "plan").read_bytes()
        stopped = threading.Event()

        def attack():
            chance = chances.of("attack", 0)
            while not stopped.is_set():
                try:
                    beside = self.folder / "beside"
                    kind = chance.randrange(4)
                    if kind == 0:
                        beside.symlink_to(self.secret)
                    elif kind == 1:
                        os.mkfifo(beside)
                    else:
                        beside.write_bytes(plan[:chance.randrange(len(plan))] if kind == 2 else SECRET)
                    os.replace(beside, run / "plan")
                    time.sleep(chance.random() / 50)
                    beside.write_bytes(plan)
                    os.replace(beside, run / "plan")
                    for version in sorted(run.glob("round-*.safetensors"))[:1]:
                        os.truncate(version, chance.randrange(1000))
                    time.sleep(chance.random() / 50)
                except OSError:
                    pass

        attacker = threading.Thread(target=attack, daemon=True)
        attacker.start()
        whole = 0
        for number, _ in chances.cases("backups under attack", chances.seconds(5)):
            out = f"copy-{number}.sqlite"
            result = self.run_rivulet("backup", "--db", "busy.sqlite", "--out", out, timeout=60)
            self.assertIn(result.code, (0, 1), result)
            self.assertEqual(result.code == 0, os.path.lexists(self.path(out)), result)
            self.assert_gives_nothing_away(f"copy-{number}")
            if result.code == 0:
                whole += 1
                self.assertEqual((self.folder / f"{out}.models" / run.name / "plan").read_bytes(), plan)
                self.run_rivulet("runs", "show", "latest", "--db", out, code=0)
            else:
                self.assertRegex(result.err, r"(?m)^rivulet: ")
            for path in self.folder.glob(f"copy-{number}.*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        stopped.set()
        attacker.join()
        self.assertIsNone(process.poll())
        print(f"backups under attack: {whole} were whole", flush=True)


if __name__ == "__main__":
    main()
