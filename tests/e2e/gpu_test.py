"""Training on a device as its users ask for it. There is none here: the library that `--device gpu` opens is the emulated
one, and where it is asked for the real one, what is said of its absence."""
import json
import os
import pathlib
import re
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

    def test_several_devices_give_the_same_bits(self):
        digests = self.on_device(db="one.sqlite")
        for several in ("gpu:0,gpu:1", "gpu:all"):
            db = several.replace(":", "").replace(",", "") + ".sqlite"
            self.simulate("--device", several, db=db, env={"RIVULET_CUDA_LIBRARY": EMULATED})
            self.assertEqual(self.digests(db), digests)

    def test_name_that_is_no_device_is_refused(self):
        for name, sentence in (("gpu:", "is unknown"), ("gpu:0,tpu", "is unknown"), ("gpu:1,gpu:1", "names GPU 1 twice")):
            ended = self.run_rivulet("simulate", self.scenario, "--device", name,
                                     env={"RIVULET_CUDA_LIBRARY": EMULATED}, code=2)
            self.assertIn(sentence, ended.err)
        self.assertIn("leaves some of 2 GPUs without one", self.run_rivulet(
            "simulate", self.scenario, "--device", "gpu:all", "--workers", "1",
            env={"RIVULET_CUDA_LIBRARY": EMULATED}, code=2).err)

    def test_trace_shows_what_the_device_did(self):
        trace = str(pathlib.Path(self.folder) / "run.json")
        self.on_device("--trace", trace, db="traced.sqlite")
        events = json.loads(pathlib.Path(trace).read_text())
        # On the host's clock: batches are gathered while the host says that it trains.
        gathered = [event for event in events if event.get("cat") == "gpu" and event["name"] == "gather_rows"]
        self.assertTrue(gathered)
        trained = [(event["ts"], event["ts"] + event["dur"]) for event in events
                   if event.get("ph") == "X" and (event["cat"], event["name"]) == ("phase", "train")]
        # Who looks on sees clients train at once, as they do when nobody looks on, and each on its own row.
        tasks = [event["name"] for event in events if event.get("ph") == "X" and event["cat"] == "task"]
        alone = [name for name in tasks if not name.endswith(" clients")]
        self.assertLessEqual(len(alone), 1, tasks)  # the first task of all, whose plan nobody has seen yet
        clients = [event["args"] for event in events if event.get("ph") == "X" and event["cat"] == "client"]
        self.assertGreater(len(clients), len(tasks))
        self.assertEqual({args["outcome"] for args in clients}, {"accepted"})
        self.assertEqual(len([args for args in clients if args.get("lanes", 1) > 1]), len(clients) - len(alone))
        for kernel in gathered:
            self.assertTrue(any(begin - 1e3 < kernel["ts"] and kernel["ts"] + kernel["dur"] < end + 1e3
                                for begin, end in trained), kernel)

    def test_op_is_timed_on_a_device_and_compared(self):
        ended = self.run_rivulet("bench", "op", "MatMul", "--shape", "4x6", "--shape", "6x5", "--device", "gpu",
                                 "--lanes", "3", "--json", env={"RIVULET_CUDA_LIBRARY": EMULATED})
        rows = json.loads(ended.out)["algorithms"]
        self.assertEqual([row["algorithm"] for row in rows], ["native", "gpu, 3 lanes"])
        self.assertLess(rows[1]["difference"], 1e-6)
        self.assertGreater(rows[1]["roofline_percent"], 0)
        for arguments in (["--device", "tpu"], ["--lanes", "2"]):
            self.run_rivulet("bench", "op", "MatMul", "--shape", "4x6", "--shape", "6x5", *arguments, code=2)

    def test_steps_are_profiled_on_a_device(self):
        trace = str(pathlib.Path(self.folder) / "steps.json")
        ended = self.run_rivulet("graph", "profile", "mlp", "--device", "gpu", "--lanes", "2", "--steps", "2:3", "--json",
                                 "--trace", trace, env={"RIVULET_CUDA_LIBRARY": EMULATED})
        profile = json.loads(ended.out)
        self.assertEqual(profile["steps"], 2)
        self.assertIn("GPU 0 (Emulated device), 2 lanes", profile["title"])
        products = [row for row in profile["instructions"] if row["op"] in ("MatMul", "_FusedMatMul")]
        self.assertTrue(products)
        for row in products:
            self.assertTrue(row["kernel"].startswith("product_"), row)
            self.assertGreater(row["ms"], 0)
        events = json.loads(pathlib.Path(trace).read_text())
        nodes = {event["args"]["node"] for event in events if event.get("cat") == "gpu" and "node" in event.get("args", {})}
        self.assertTrue(nodes)

    def test_profile_of_several_devices_is_refused(self):
        for arguments in (["--device", "gpu:0,gpu:1"], ["--lanes", "2"], ["--device", "gpu", "--attach", "1"]):
            self.run_rivulet("graph", "profile", "mlp", *arguments, env={"RIVULET_CUDA_LIBRARY": EMULATED}, code=2)

    def test_tf32_is_another_model_and_the_same_for_any_lanes(self):
        digests = self.on_device("--tf32", db="a.sqlite")
        self.assertEqual(self.on_device("--tf32", "--lanes", "1", db="b.sqlite"), digests)
        self.assertNotEqual(self.on_device(db="c.sqlite"), digests)
        counted = "SELECT DISTINCT scope, value FROM metrics WHERE name = 'device/tf32'"
        self.assertEqual(self.query(counted, db="b.sqlite"), [("federated", 3.0)])
        self.assertEqual(self.query(counted, db="c.sqlite"), [])
        self.assertIn("one client at a time, by TF32",
                      self.run_rivulet("runs", "show", "latest", "--db", self.path("b.sqlite"), code=0).out)
        self.run_rivulet("simulate", self.scenario, "--tf32", code=2)

    def test_history_says_as_how_many_lanes(self):
        self.on_device("--lanes", "2", db="lanes.sqlite")
        rows = self.query("SELECT round, scope, value FROM metrics WHERE name = 'device/lanes' ORDER BY round",
                          db="lanes.sqlite")
        self.assertEqual([row[1:] for row in rows], [("federated", 2.0)] * 4)
        shown = self.run_rivulet("runs", "show", "latest", "--db", self.path("lanes.sqlite"), code=0)
        self.assertIn("trained on a device, up to 2 clients at once", shown.out)
        self.simulate(db="host.sqlite")
        self.assertEqual(self.query("SELECT count(*) FROM metrics WHERE name = 'device/lanes'", db="host.sqlite"), [(0,)])
        self.assertNotIn("device", self.run_rivulet("runs", "show", "latest", "--db", self.path("host.sqlite"), code=0).out)

    def test_check_trains_on_both_and_gives_the_devices_bits(self):
        self.simulate("--device", "check", db="check.sqlite", env={"RIVULET_CUDA_LIBRARY": EMULATED})
        self.assertEqual(self.digests("check.sqlite"), self.on_device(db="device.sqlite"))

    def test_clients_on_their_devices_give_the_bits_of_a_simulation(self):
        digests = self.on_device(db="simulated.sqlite")
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("clients"), code=0)
        coordinator = self.start("coordinator", self.scenario, "--listen", "127.0.0.1:0", "--insecure", "--db",
                                 self.path("deployed.sqlite"))
        address = re.fullmatch(r"listening on (.*)\n", coordinator.stdout.readline())[1]
        self.follow(coordinator, "coordinator")
        names = sorted(path.stem for path in (self.folder / "clients").glob("*.tfrecord"))
        for number, name in enumerate(names):
            client = self.start("client", "--coordinator", address, "--insecure", "--name", name, "--state",
                                self.path(name), "--data", f"train={self.path('clients')}/{name}.tfrecord", "--device",
                                "check" if number == 0 else "gpu",
                                env={**os.environ, "RIVULET_CUDA_LIBRARY": EMULATED})
            self.follow(client, name)
        self.ends(coordinator, "coordinator")
        for process, name in zip(self.processes[1:], names):
            self.ends(process, name)
        self.assertEqual(self.digests("deployed.sqlite"), digests)

    def client(self, *arguments):
        return self.run_rivulet("client", "--coordinator", "127.0.0.1:1", "--insecure", "--name", "a", "--data",
                                f"train={self.path('data')}/train.tfrecord", *arguments,
                                env={"RIVULET_CUDA_LIBRARY": EMULATED})

    def test_client_is_told_what_goes_not_with_a_device(self):
        self.simulate(db="data.sqlite")  # makes the data
        self.assertIn("--checkpoint-seconds is for training on the processor",
                      self.client("--device", "gpu", "--checkpoint-seconds", "5").err)
        self.assertIn("there is no GPU 7 here", self.client("--device", "gpu:7").err)
        self.assertIn("--soft is for a GPU", self.client("--soft").err)
        several = "--device gpu:0,gpu:1 is several, and a client trains on one; give gpu or gpu:N"
        self.assertIn(several, self.client("--device", "gpu:0,gpu:1").err)
        self.assertIn(several, self.client("--preflight", "--device", "gpu:0,gpu:1").out)

    def test_preflight_looks_at_the_device(self):
        self.simulate(db="data.sqlite")  # makes the data
        self.assertRegex(self.client("--preflight", "--device", "gpu").out, r"device +Emulated device, \d+ MB of which")
        self.assertRegex(self.client("--preflight", "--device", "gpu:7").out, r"device .*there is no GPU 7 here")

    def test_script_says_what_each_part_would_run(self):
        ended = subprocess.run([SOURCE / "scripts/gpu.sh", "--dry-run", "--out", self.folder / "gpu"], text=True,
                               capture_output=True, check=True)
        for part, command in (("build", "rivulet_cuda gpu_tests"), ("sanitizer", "--tool racecheck"),
                              ("bench", "bench op MatMul"), ("cifar-tf32", "--device gpu --tf32"),
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
