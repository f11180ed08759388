"""Training on a device as its users ask for it. There is none here: the library that `--device gpu` opens is the emulated
one, and where it is asked for the real one, what is said of its absence."""
import os
import pathlib
import subprocess
import sys

from harness import RIVULET, RivuletTest, main

SOURCE = pathlib.Path(__file__).resolve().parents[2]
EMULATED = os.environ.get("RIVULET_GPU_EMULATED", str(pathlib.Path(RIVULET).parent / "librivulet_gpu_emulated.so"))


class Gpu(RivuletTest):
    def on_device(self, *arguments, db):
        self.simulate("--device", "gpu", *arguments, db=db, env={"RIVULET_CUDA_LIBRARY": EMULATED})
        return self.digests(db)

    def test_any_lanes_and_workers_give_the_same_bits(self):
        digests = self.on_device(db="a.sqlite")
        self.assertEqual(len(set(digests)), 4)
        self.assertEqual(self.on_device("--lanes", "1", db="b.sqlite"), digests)
        self.assertEqual(self.on_device("--workers", "2", "--lanes", "2", db="c.sqlite"), digests)

    def test_script_says_what_each_part_would_run(self):
        ended = subprocess.run([SOURCE / "scripts/gpu.sh", "--dry-run", "--out", self.folder / "gpu"], text=True,
                               capture_output=True, check=True)
        for part, command in (("build", "rivulet_cuda gpu_tests"), ("sanitizer", "--tool racecheck"),
                              ("shakespeare", "simulate " + str(self.folder / "gpu/shakespeare.toml --device gpu")),
                              ("mcmahan", "--lanes 1"), ("peers-resnet", "--work resnet")):
            self.assertIn(f"== {part}, ", ended.stdout)
            self.assertIn(command, ended.stdout)

    def test_works_of_the_figures_load(self):
        for work in ("cifar", "femnist", "resnet", "shakespeare", "mcmahan", "fold"):
            made = subprocess.run([sys.executable, SOURCE / "simulations/comparisons/gpu/works.py", "prepare", work, "--out",
                                   self.folder, "--rivulet", RIVULET, "--small"], text=True, capture_output=True,
                                  check=True)
            self.run_rivulet("simulate", made.stdout.strip(), "--dry-run")

    def test_number_beyond_the_devices_is_refused(self):
        ended = self.run_rivulet("simulate", self.scenario, "--device", "gpu:7", env={"RIVULET_CUDA_LIBRARY": EMULATED},
                                 code=1)
        self.assertIn("--device gpu:7: there is no GPU 7 here", ended.err)

    def test_library_that_is_not_there_is_named(self):
        ended = self.run_rivulet("simulate", self.scenario, "--device", "gpu",
                                 env={"RIVULET_CUDA_LIBRARY": "/nowhere/librivulet_cuda.so"}, code=1)
        self.assertIn("--device gpu: ", ended.err)
        self.assertIn("/nowhere/librivulet_cuda.so", ended.err)

    def test_device_goes_with_a_run_of_this_process_alone(self):
        for more in (["--dry-run"], ["--replay", "latest"], ["--listen", "127.0.0.1:0"]):
            self.run_rivulet("simulate", self.scenario, "--device", "gpu", *more, code=2)


if __name__ == "__main__":
    main()
