"""mpirun rivulet simulate: processes that MPI has started together train for one run, and the bits are those of one process."""
import os
import pathlib
import shutil
import signal
import subprocess
import unittest

from harness import RIVULET, RivuletTest, main

MPIRUN = shutil.which("mpirun")
LIBRARY = pathlib.Path(RIVULET).with_name("librivulet-mpi.so")
SHORT = ["run.rounds=3", "data.partition.clients=12", "server.clients_per_round=4", "client.epochs=1"]
# As root, in a container: Open MPI asks for both. More processes than processors are meant here.
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def settings(sets):
    return [word for one in sets for word in ("--set", one)]


@unittest.skipUnless(MPIRUN, "there is no mpirun")
@unittest.skipUnless(LIBRARY.exists(), "built without librivulet-mpi.so (RIVULET_MPI)")
@unittest.skipIf(os.environ.get("RIVULET_SANITIZE"), "Open MPI is not made for sanitizers")
class Ranks(RivuletTest):
    def command(self, ranks, *arguments):
        return [MPIRUN, "--oversubscribe", "-n", str(ranks), RIVULET, "simulate", *map(str, arguments)]

    def by_ranks(self, ranks, *arguments, code=0, **variables):
        done = subprocess.run(self.command(ranks, *arguments), cwd=self.folder, env={**os.environ, **ROOT, **variables},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def test_two_and_four_give_the_bits_of_one(self):
        for name, sets in (("fedavg", []), ("scaffold", ["algorithm.name=scaffold"]),
                           ("median", ["algorithm.name=trimmed_mean", "algorithm.trim=0.34"])):
            sets = [*SHORT, *sets]
            self.simulate(*settings(sets), db=f"{name}.sqlite")
            for ranks in (2, 4):
                with self.subTest(name, ranks=ranks):
                    db = f"{name}-{ranks}.sqlite"
                    done = self.by_ranks(ranks, self.scenario, "--db", self.path(db), "--json", *settings(sets))
                    self.assertEqual(self.digests(db), self.digests(f"{name}.sqlite"))
                    self.assertEqual(len(done.stdout.splitlines()), 1)  # the first one speaks for all

    def test_ranks_with_a_device_each_give_the_bits_of_one_device(self):
        emulated = os.environ.get("RIVULET_GPU_EMULATED", str(pathlib.Path(RIVULET).with_name("librivulet_gpu_emulated.so")))
        self.simulate(*settings(SHORT), "--device", "gpu", db="one.sqlite", env={"RIVULET_CUDA_LIBRARY": emulated})
        for device in ("gpu", "gpu:1"):
            db = device.replace(":", "") + "-ranks.sqlite"
            self.by_ranks(3, self.scenario, "--db", self.path(db), "--device", device, *settings(SHORT),
                          RIVULET_CUDA_LIBRARY=emulated)
            self.assertEqual(self.digests(db), self.digests("one.sqlite"))
        done = self.by_ranks(2, self.scenario, "--device", "gpu:0,gpu:7", code=1, RIVULET_CUDA_LIBRARY=emulated)
        self.assertIn("rank 1 cannot take part: --device gpu:0,gpu:7: there is no GPU 7 here", done.stderr)

    def test_an_interrupted_run_goes_on_with_another_number(self):
        # More rounds than any processor does before the signal; how many there are in the end follows from what was done.
        sets = settings(["run.durability=round", "client.epochs=20"])
        process = subprocess.Popen(self.command(2, self.scenario, "--db", self.path("runs.sqlite"), "--rounds", 1000000, *sets),
                                   cwd=self.folder, env={**os.environ, **ROOT}, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        self.wait_for(lambda: self.committed() >= 2, "the second commit")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        self.assertIn("--resume", err)
        rounds = ["--rounds", str(self.committed() + 2), *sets]
        self.by_ranks(3, self.scenario, "--db", self.path("runs.sqlite"), "--resume", "latest", *rounds)
        self.simulate(*rounds, db="alone.sqlite")
        self.assertEqual(self.digests(), self.digests("alone.sqlite"))

    def test_a_rank_that_is_another_program_ends_all(self):
        for garbage in ("short", "huge"):
            with self.subTest(garbage):
                command = [*self.command(1, self.scenario, "--db", self.path("garbage.sqlite")), ":", "-n", "1",
                           os.environ["RIVULET_GARBAGE_RANK"], garbage]
                done = subprocess.run(command, cwd=self.folder, env={**os.environ, **ROOT}, stdin=subprocess.DEVNULL,
                                      capture_output=True, text=True, timeout=120)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("rank 1 answers otherwise than this program does", done.stderr)

    def test_what_is_wrong_is_said_once_and_ends_all(self):
        done = self.by_ranks(3, self.scenario, "--set", "client.epoch=5", code=2)
        self.assertIn("client.epoch", done.stderr)
        self.assertEqual(done.stderr.count("rivulet: "), 1)
        done = self.by_ranks(2, self.scenario, "--workers-at", "127.0.0.1:0", code=2)
        self.assertIn("are for one process", done.stderr)


class NoLibrary(RivuletTest):
    def test_a_rank_without_the_library_says_so(self):
        alone = self.folder / "bin/rivulet"
        alone.parent.mkdir()
        shutil.copy(RIVULET, alone)
        done = subprocess.run([alone, "simulate", self.scenario], cwd=self.folder, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, env={**os.environ, "OMPI_COMM_WORLD_SIZE": "2"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("started as a rank of MPI", done.stderr)
        self.assertFalse((self.folder / "rivulet.sqlite").exists())


if __name__ == "__main__":
    main()
