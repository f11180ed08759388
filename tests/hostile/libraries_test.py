"""Libraries of algorithms that throw, exit, give nothing or may be written by everybody: one sentence, exit 1 or 2, and a run that was
begun can be resumed. tests/e2e/algorithm_library_test.py and package_test.py have those of other versions and without symbols."""
import os
import pathlib
import re
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from world import World  # noqa: E402

from harness import main  # noqa: E402

LIBRARY = os.environ.get("RIVULET_HOSTILE_ALGORITHMS", "")


@unittest.skipUnless(LIBRARY, "needs RIVULET_HOSTILE_ALGORITHMS, which ctest sets")
class Libraries(World):
    def run_with(self, misbehaves, *more, library=LIBRARY, db="runs.sqlite"):
        return self.run_rivulet("simulate", self.scenario, "--quiet", "--db", db, "--algorithm-library", library, "--set",
                                "algorithm.name=hostile", *more, env={"RIVULET_HOSTILE_LIBRARY": misbehaves}, timeout=60)

    def test_what_it_throws_or_withholds_is_one_sentence(self):
        self.assertEqual(self.run_with("nowhere", db="well.sqlite").code, 0)
        for misbehaves, words, code in (
            ("load throws", "cannot be loaded: its initialisers threw 'thrown", 2),
            ("load throws a number", "cannot be loaded: its initialisers threw an exception", 2),
            ("compose throws", "thrown", 1),
            ("compose throws a number", "", 1),
            ("compose refuses", "reason", 2),
            ("compose names nothing", "there is no server optimizer 'no such optimizer'", 1),
            ("factory throws", "thrown", 1),
            ("factory gives nothing", "the factory of server optimizer 'hostile' gave none", 1),
            ("step throws", "thrown", 1),
            ("step throws a number", "", 1),
            ("step takes all memory", "memory", 1),
            ("step gives NaN", "", 1),
            ("step gives up", "round 1 cannot be committed", 1),
        ):
            with self.subTest(misbehaves):
                db = f"{misbehaves}.sqlite"
                result = self.run_with(misbehaves, db=db)
                self.assertEqual(result.code, code, result)
                self.assertRegex(result.err, r"(?m)^rivulet: ")
                self.assertIn(words, result.err)
                self.assertNotRegex(result.err, r"[\x00-\x08\x0b-\x1f\x7f]|terminate called|what\(\)")
                if misbehaves.startswith("step throws"):
                    # As after any crash: it goes on where it was, to the bits of one that nothing befell.
                    resumed = self.run_with("nowhere", "--resume", "latest", db=db)
                    self.assertEqual(resumed.code, 0, resumed)
                    self.assertEqual(self.digests(db), self.digests("well.sqlite"))

    def test_one_that_everybody_may_write_is_refused_before_its_code_runs(self):
        library = self.path("open.so")
        shutil.copy(LIBRARY, library)
        for mode in (0o777, 0o666, 0o757):
            os.chmod(library, mode)
            result = self.run_with("load exits", library=library)
            self.assert_refused(result, "open.so", f"has the mode {mode:04o}", "chmod o-w", code=2)
        self.assert_refused(self.run_rivulet("doctor", "--op-library", library), "chmod o-w", code=2)
        os.chmod(library, 0o775)
        self.assertEqual(self.run_with("nowhere", library=library).code, 0)

    def test_files_that_are_no_libraries(self):
        whole = pathlib.Path(LIBRARY).read_bytes()
        self.write("half.so", whole[:len(whole) // 2])
        self.write("head.so", whole[:64])
        self.write("junk.so", re.sub(rb"(?s)^(.{2000}).{4000}", lambda found: found[1] + b"\xff" * 4000, whole))
        os.mkfifo(self.path("pipe.so"))
        os.symlink("/dev/zero", self.path("zero.so"))
        os.symlink("circle.so", self.path("circle.so"))
        cut = [len(whole) * part // 16 for part in range(1, 16)] + [len(whole) - 1, 63, 16]
        for size in cut:
            self.write(f"cut-{size}.so", whole[:size])
        for name in ("half.so", "head.so", "junk.so", "pipe.so", "zero.so", "circle.so", *(f"cut-{size}.so" for size in cut)):
            with self.subTest(name):
                result = self.run_with("nowhere", library=self.path(name))
                # What the loader maps may be whole where symbols for debuggers are cut off.
                self.assertIn(result.code, (0, 1, 2) if name.startswith("cut-") else (1, 2), result)
                if result.code:
                    self.assertRegex(result.err, r"(?m)^rivulet: ")


if __name__ == "__main__":
    main()
