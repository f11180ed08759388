"""Ranks of MPI that fail or differ: one that is killed ends all, with a history that is resumed to the same bits; one that was given
another scenario trains what the first one says; a first rank of another program ends all. tests/e2e/ranks_test.py has what ranks are
for."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from world import World  # noqa: E402

from harness import RIVULET, main  # noqa: E402

MPIRUN = shutil.which("mpirun")
FOREIGN_RANK = os.environ.get("RIVULET_FOREIGN_RANK", "")
LIBRARY = pathlib.Path(RIVULET).with_name("librivulet-mpi.so")
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@unittest.skipUnless(MPIRUN, "there is no mpirun")
@unittest.skipUnless(LIBRARY.exists(), "built without librivulet-mpi.so (RIVULET_MPI)")
@unittest.skipIf(os.environ.get("RIVULET_SANITIZE"), "Open MPI is not made for sanitizers")
class Ranks(World):
    @staticmethod
    def has_ended(rank):
        try:
            return pathlib.Path(f"/proc/{rank}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
        except FileNotFoundError:
            return True

    def test_a_rank_that_is_killed_ends_all_and_the_run_is_resumed(self):
        sets = ["--set", "run.durability=round", "--set", "client.epochs=20"]
        process = subprocess.Popen([MPIRUN, "--oversubscribe", "-n", "3", RIVULET, "simulate", self.scenario, "--db", self.path("runs.sqlite"),
                                    "--rounds", "1000000", *sets], cwd=self.folder, env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        self.wait_for(lambda: self.committed() >= 2, "the second commit")
        ranks = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        self.assertEqual(len(ranks), 3)
        os.kill(int(ranks[-1]), signal.SIGKILL)
        process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)
        self.wait_for(lambda: all(map(self.has_ended, ranks)), "the other ranks' end", 20)
        rounds = ["--rounds", str(self.committed() + 2), *sets]
        self.run_rivulet("simulate", self.scenario, "--db", "runs.sqlite", "--resume", "latest", *rounds, code=0)
        self.simulate(*rounds, db="alone.sqlite")
        self.assertEqual(self.digests(), self.digests("alone.sqlite"))

    def test_a_rank_of_another_scenario_trains_what_the_first_says(self):
        other = self.write("other.toml", pathlib.Path(self.scenario).read_text().replace("seed = 7", "seed = 8"))
        self.simulate(db="alone.sqlite")
        one = lambda *arguments: ["-n", "1", RIVULET, "simulate", *arguments]
        for name, second in (("scenario", [other]), ("key", [self.scenario, "--set", "client.epochs=3", "--set", "update.codec=int8"])):
            with self.subTest(name):
                first, spare = self.path(f"{name}.sqlite"), self.path(f"{name}-other.sqlite")
                done = subprocess.run([MPIRUN, "--oversubscribe", *one(self.scenario, "--db", first), ":", *one(*second, "--db", spare)],
                                      cwd=self.folder, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(self.digests(f"{name}.sqlite"), self.digests("alone.sqlite"))
                self.assertFalse(os.path.exists(spare))

    @unittest.skipUnless(FOREIGN_RANK, "RIVULET_FOREIGN_RANK names no program")
    def test_an_order_of_another_program_ends_all_ranks_and_is_named(self):
        for order, sentence in ((["7"], "rank 0 sends order 7, which this program does not know"),
                                (["-1"], "rank 0 sends order -1, which this program does not know"),
                                ([], "rank 0 sends an order of 0 bytes, which names none"),
                                (["2"], "rank 0 orders a step of a rank that takes part in no run")):
            with self.subTest(order):
                done = subprocess.run([MPIRUN, "--oversubscribe", "-n", "1", FOREIGN_RANK, *order, ":", "-n", "1", RIVULET, "simulate",
                                       self.scenario, "--db", self.path("runs.sqlite")], cwd=self.folder, env=ENVIRONMENT,
                                      stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(sentence + "; start one program on all ranks", done.stderr)


if __name__ == "__main__":
    main()
