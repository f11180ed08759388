"""A backup while a run writes: it is whole, it can be gone on with, and to the same bits."""
import json

from harness import RivuletTest, main

# Each version but the newest two is pruned at once (run.keep_models): the hardest case for whoever copies.
RUN = ["--set", "run.durability=round"]


class BackupTest(RivuletTest):
    def test_a_backup_of_a_writing_run_goes_on_to_the_same_bits(self):
        process = self.start("simulate", self.scenario, "--rounds", 100000, "--db", "runs.sqlite", *RUN)
        self.wait_for(lambda: self.committed() >= 3, "rounds")
        for copy in ("first.sqlite", "second.sqlite"):
            made = json.loads(self.run_rivulet("backup", "--db", "runs.sqlite", "--out", f"backups/{copy}", "--json", code=0).out)
            self.assertEqual(made["runs"], 1)
            # The plan and at least the newest version; a slow disk commits several versions at once, and all of them stand.
            self.assertGreaterEqual(made["files"], 2)
            self.assertEqual(made["files"], sum(path.is_file() for path in (self.folder / "backups" / f"{copy}.models").rglob("*")))
            self.assertIsNone(process.poll())
        process.kill()
        process.wait()
        done = self.committed(db="backups/second.sqlite")
        self.assertGreaterEqual(done, 3)
        self.run_rivulet("runs", "show", "latest", "--db", "backups/second.sqlite", code=0)
        self.simulate("--rounds", done + 2, *RUN, "--resume", "latest", db="backups/second.sqlite")
        self.simulate("--rounds", done + 2, db="undisturbed.sqlite")
        self.assertEqual(self.digests("backups/second.sqlite"), self.digests("undisturbed.sqlite"))
        paths = {path.split("/")[0] for (path,) in self.query("SELECT path FROM models WHERE path IS NOT NULL", db="backups/second.sqlite")}
        self.assertEqual(paths, {"second.sqlite.models"})

    def test_it_replaces_nothing_and_wants_a_history(self):
        self.simulate("--rounds", 1)
        self.run_rivulet("backup", "--db", "runs.sqlite", "--out", "copy.sqlite", code=0)
        self.assert_refused(self.run_rivulet("backup", "--db", "runs.sqlite", "--out", "copy.sqlite"), "'copy.sqlite' is there already")
        self.assert_refused(self.run_rivulet("backup", "--db", "none.sqlite", "--out", "other.sqlite"), "none.sqlite")
        self.assert_refused(self.run_rivulet("backup", "--db", "tiny.toml", "--out", "other.sqlite"), "tiny.toml")
        self.assertFalse((self.folder / "other.sqlite").exists())
        # A backup is a history like any other.
        self.run_rivulet("backup", "--db", "copy.sqlite", "--out", "again.sqlite", code=0)
        self.assertEqual(self.digests("again.sqlite"), self.digests("runs.sqlite"))


if __name__ == "__main__":
    main()
