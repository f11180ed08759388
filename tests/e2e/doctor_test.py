"""`rivulet doctor`: what it says of this machine, and of GPUs that are there, missing, or not to be reached."""
import json
import os
import pathlib
import subprocess

from harness import RIVULET, RivuletTest, main

EMULATED = os.environ.get("RIVULET_GPU_EMULATED", str(pathlib.Path(RIVULET).with_name("librivulet_gpu_emulated.so")))


class Doctor(RivuletTest):
    def doctor(self, *arguments, **variables):
        done = subprocess.run([RIVULET, "doctor", *arguments], capture_output=True, text=True, cwd=self.folder, timeout=60,
                              env={**os.environ, **variables})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_it_tells_of_the_machine(self):
        found = json.loads(self.doctor("--json"))
        self.assertEqual(found["allowed_cores"], len(os.sched_getaffinity(0)))
        self.assertEqual(found["memory_bytes"], os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE"))
        self.assertLessEqual(0, found["available_bytes"])
        self.assertLessEqual(found["available_bytes"], found["memory_bytes"])
        model = [line.split(": ", 1)[1] for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                 if line.startswith("model name")]
        self.assertEqual(found["processor"], model[0] if model else None)
        self.assertTrue(found["kernel_instruction_set"])
        self.assertEqual(found["data_folder"].rstrip("/"), os.path.realpath(self.folder))
        parts = found["built_with"] + found["built_without"]
        self.assertEqual(sorted(parts), ["JPEG", "PNG", "data sets over HTTPS", "librivulet_cuda.so", "line editing", "pages over HTTP"])

    def test_fewer_instruction_sets_are_seen(self):
        self.assertEqual(json.loads(self.doctor("--json", RIVULET_CPU_TARGETS="sse4"))["kernel_instruction_set"], "SSE4")

    def test_devices_of_a_library_are_listed(self):
        found = json.loads(self.doctor("--json", RIVULET_CUDA_LIBRARY=EMULATED))
        self.assertEqual((found["gpu_library"], found["gpu_backend"]), (EMULATED, "emulated"))
        self.assertEqual([gpu["name"] for gpu in found["gpus"]], ["Emulated device"] * 2)
        self.assertIsNone(found["gpu_missing"])
        self.assertIsNone(found["gpu_records_missing"])
        self.assertIsNone(found["gpu_sums_missing"])
        self.assertEqual([library["name"] for library in found["gpu_libraries"]], ["cuBLASLt"])
        lines = self.doctor(RIVULET_CUDA_LIBRARY=EMULATED)
        self.assertRegex(lines, r"GPU library +\S+librivulet_gpu_emulated.so \(emulated\)\n")
        self.assertRegex(lines, r"GPU records +of kernels and copies\n")
        self.assertRegex(lines, r"cuBLASLt +none: the emulated device has kernels of our own alone\n")
        self.assertRegex(lines, r"sums of several GPUs +on the GPUs\n")
        self.assertRegex(lines, r"GPU 1 +Emulated device, 4.29 GB \(4.29 GB free\), driver none\n")

    def test_what_is_missing_is_named_with_the_mend(self):
        for library, sentence in (("/nowhere.so", "there is no '/nowhere.so', which RIVULET_CUDA_LIBRARY names"),
                                  (str(pathlib.Path(RIVULET)), "cannot be opened")):
            with self.subTest(library):
                found = json.loads(self.doctor("--json", RIVULET_CUDA_LIBRARY=library))
                self.assertIn(sentence, found["gpu_missing"])
                self.assertEqual((found["gpu_library"], found["gpus"]), (None, []))
                self.assertIn(f"none: {found['gpu_missing']}", self.doctor(RIVULET_CUDA_LIBRARY=library))
        lines = self.doctor(RIVULET_DATA="/nowhere")
        self.assertRegex(lines, "data folder +/nowhere, which is not there; RIVULET_DATA names another")


if __name__ == "__main__":
    main()
