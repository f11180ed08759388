"""Looking at where time goes: traces of runs, profiles of steps, profiles of running processes, single ops."""
import json
import os
import signal
import subprocess
import sys

import harness
import trace_event_format
from harness import field, node


def attr_type(number):
    return field(6, number)


def attr_shape(*dims):
    return field(7, b"".join(field(2, field(1, dim)) for dim in dims))


def planted_graph():
    """A small network, and in it a product of 64-bit integers, for which there is only the reference kernel."""
    float_, int64 = attr_type(1), attr_type(9)
    return b"".join([
        node("x", "Placeholder", dtype=float_, shape=attr_shape(256, 256)),
        node("y", "Placeholder", dtype=float_, shape=attr_shape(256, 256)),
        node("dense/MatMul", "MatMul", "x", "y", T=float_),
        node("dense/Relu", "Relu", "dense/MatMul", T=float_),
        node("planted/to_int", "Cast", "dense/Relu", SrcT=float_, DstT=int64),
        node("planted/slow", "MatMul", "planted/to_int", "planted/to_int", T=int64),
        node("planted/back", "Cast", "planted/slow", SrcT=int64, DstT=float_),
        node("out", "Tanh", "planted/back", T=float_),
    ])


class TraceTest(harness.RivuletTest):
    def events(self, name="trace.json"):
        with open(self.path(name), encoding="utf-8") as file:
            return trace_event_format.parse(file.read())

    def test_simulation(self):
        self.simulate(db="plain.sqlite")
        result = self.simulate("--trace", self.path("trace.json"), db="traced.sqlite")
        self.assertEqual(self.digests(db="plain.sqlite"), self.digests(db="traced.sqlite"))
        self.assertNotIn("trace", result.err)
        events = self.events()
        slices, flows = trace_event_format.check(events)
        trace_event_format.check_arrows(slices, flows)

        def spans(category):
            return [event for event in events if event["ph"] == "X" and event["cat"] == category]

        self.assertEqual(sorted(event["name"] for event in spans("round")), [f"round {n}" for n in (1, 2, 3, 4)])
        self.assertEqual(len(spans("task")), 4 * 3)
        self.assertEqual(len(spans("client")), 4 * 3)
        phases = {event["name"] for event in spans("phase")}
        self.assertEqual(phases, {"fetch", "train", "fold", "merge", "commit", "evaluate", "write"})
        # A task's arrow leads from its offer over its training to its fold.
        self.assertEqual(len(flows), 4 * 3)
        for points in flows.values():
            self.assertEqual(sorted(point["ph"] for point in points), ["f", "s", "t"])
        names = {event["args"]["name"] for event in events if event["ph"] == "M"}
        self.assertTrue({"rounds", "clients", "coordinator", "commits", "writes", "simulate tiny"} <= names, names)
        self.assertTrue(any(name.startswith("worker ") for name in names), names)
        self.assertTrue(any(name.startswith("client-0") for name in names), names)
        counters = {event["name"] for event in events if event["ph"] == "C"}
        self.assertIn("resident bytes", counters)
        self.assertTrue(any(name.startswith("arena bytes") for name in counters), counters)
        self.assertEqual(len([event for event in events if event["ph"] == "i" and "committed" in event["name"]]), 4)
        # From the kernel's symbol over the op to the layer.
        products = [event for event in spans("op") if event["name"] == "_FusedMatMul" or event["name"] == "MatMul"]
        self.assertTrue(products)
        for event in products:
            self.assertIn("rivulet::", event["args"]["kernel"])
            self.assertEqual(event["args"]["op"], event["name"])
            self.assertIn("float32[", event["args"]["shapes"])
            self.assertTrue(event["args"]["node"].replace("gradients/", "").startswith(event["args"]["layer"]))
        self.assertGreater(max(event["args"]["flops"] for event in products), 0)

    def test_killed_run_leaves_a_valid_trace(self):
        process = self.start("simulate", self.scenario, "--db", self.path("runs.sqlite"), "--rounds", "100000", "--trace",
                             self.path("trace.json"))
        trace = self.folder / "trace.json"
        self.wait_for(lambda: trace.exists() and trace.stat().st_size > 600_000, "a trace")
        process.kill()
        process.wait()
        slices, flows = trace_event_format.check(self.events())
        trace_event_format.check_arrows(slices, flows, ended=False)
        self.assertTrue(slices)

    def test_interrupted_run_closes_its_trace(self):
        process = self.start("simulate", self.scenario, "--db", self.path("runs.sqlite"), "--rounds", "100000", "--trace",
                             self.path("trace.json"))
        self.wait_for(lambda: self.committed() > 0, "a round")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        with open(self.path("trace.json"), encoding="utf-8") as file:
            text = file.read()
        self.assertTrue(text.endswith("]\n"))
        trace_event_format.check(json.loads(text))

    def test_limit_is_kept_and_told(self):
        result = self.simulate("--rounds", "40", "--trace", self.path("trace.json"), "--trace-megabytes", "1")
        self.assertIn("allow more", result.err)
        self.assertLessEqual(os.path.getsize(self.path("trace.json")), 1 << 20)
        trace_event_format.check(self.events())

    def test_refusals(self):
        self.assert_refused(self.run_rivulet("simulate", self.scenario, "--db", self.path("r.sqlite"), "--trace",
                                             self.path("missing/trace.json")), "missing/trace.json")
        self.assert_refused(self.run_rivulet("simulate", self.scenario, "--db", self.path("r.sqlite"),
                                             "--trace-megabytes", "5"), "--trace FILE", code=2)


class GraphProfileTest(harness.RivuletTest):
    def profile(self, *arguments, **kwargs):
        return json.loads(self.run_rivulet("graph", "profile", *arguments, "--json", code=0, **kwargs).out)

    def test_planted_slow_op_is_the_first_loss(self):
        # Twenty steps: the product takes 0.5 s of them, so that no pause of a busy machine in another op outweighs it.
        graph = self.write("planted.pb", planted_graph())
        profile = self.profile(graph, "--steps", "2:21")
        self.assertEqual(profile["steps"], 20)
        first = profile["losses"][0]
        self.assertEqual((first["node"], first["op"], first["layer"]), ("planted/slow", "MatMul", "planted"))
        self.assertIn("LoopMatMul", first["kernel"])
        self.assertIn(first["bound"], ("compute", "memory"))
        self.assertEqual(profile["layers"][0]["layer"], "planted")
        text = self.run_rivulet("graph", "profile", graph, "--steps", "20", code=0).out
        losses = text[text.index("largest losses"):].splitlines()
        self.assertTrue(losses[1].startswith("1. planted/slow (op MatMul, layer planted, kernel LoopMatMul [loops]"), text)

    def test_scenario_profiles_its_own_step_on_its_own_data(self):
        profile = self.profile(self.scenario, "--steps", "2:11", "--trace", self.path("trace.json"))
        self.assertEqual(profile["steps"], 10)
        self.assertIn("train.tfrecord", profile["title"])
        self.assertGreaterEqual(profile["run_seconds"], profile["kernel_seconds"])
        self.assertGreaterEqual(profile["step_seconds"], profile["run_seconds"])
        self.assertAlmostEqual(sum(row["percent"] for row in profile["ops"]), 100, places=3)
        self.assertAlmostEqual(sum(row["percent"] for row in profile["layers"]), 100, places=3)
        products = [row for row in profile["instructions"] if "MatMul" in row["op"]]
        self.assertTrue(all(row["mflop"] for row in products))
        self.assertTrue(any(row["built_at"] for row in products), products)
        self.assertGreater(profile["roofline"]["flops_per_second"], 1e8)
        with open(self.path("trace.json"), encoding="utf-8") as file:
            events = trace_event_format.parse(file.read())
        trace_event_format.check(events)
        self.assertEqual(len([event for event in events if event.get("cat") == "step"]), 10)

    def test_refusals(self):
        def refused(*arguments, **kwargs):
            return self.run_rivulet("graph", "profile", *arguments, **kwargs)
        self.assert_refused(refused(), "what to profile", code=2)
        self.assert_refused(refused("mlp", "--steps", "5:2"), "ends before it begins", code=2)
        self.assert_refused(refused("mlp", "--steps", "x"), "--steps", code=2)
        self.assert_refused(refused("no_such_preset"), "no_such_preset", code=2)
        self.assert_refused(refused("mlp", "--attach", "1"), "leave out", code=2)

    def peer_python(self):
        """A Python that has TensorBoard, or None."""
        for python in (os.environ.get("RIVULET_PEER_PYTHON"), sys.executable):
            if python and subprocess.run([python, "-c", "import tensorboard"], capture_output=True).returncode == 0:
                return python
        return None

    def test_tensorboard_reads_graph_and_run_metadata(self):
        python = self.peer_python()
        if python is None:
            self.skipTest("no Python with the package tensorboard; RIVULET_PEER_PYTHON may name one")
        self.profile("mlp", "--steps", "2:4", "--tensorboard", self.path("events"))
        script = """
import sys
from tensorboard.backend.event_processing import event_accumulator
events = event_accumulator.EventAccumulator(sys.argv[1])
events.Reload()
graph = events.Graph()
tags = events.Tags()["run_metadata"]
metadata = events.RunMetadata(tags[-1])
nodes = [node for device in metadata.step_stats.dev_stats for node in device.node_stats]
known = {node.name for node in graph.node}
named = [node for node in nodes if node.node_name in known]
print(len(graph.node), len(tags), len(named), min(node.all_end_rel_nanos for node in named),
      sum(len(node.output) for node in named), metadata.step_stats.dev_stats[0].device)
"""
        done = subprocess.run([python, "-c", script, self.path("events")], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        nodes, tags, named, shortest, outputs, device = done.stdout.split()[-6:]
        self.assertGreater(int(nodes), 20)
        self.assertEqual(int(tags), 3)
        self.assertGreater(int(named), 5)
        self.assertGreater(int(shortest), 0)
        self.assertGreater(int(outputs), 5)
        self.assertEqual(device, "/job:localhost/replica:0/task:0/device:CPU:0")


class AttachTest(harness.RivuletTest):
    def test_running_simulation_is_profiled_and_goes_on(self):
        process = self.start("simulate", self.scenario, "--db", self.path("runs.sqlite"), "--rounds", "100000")
        self.wait_for(lambda: self.committed() > 0, "a round")
        for steps in (10, 3):  # twice: one request leaves nothing behind
            result = self.run_rivulet("graph", "profile", "--attach", process.pid, "--steps", steps, "--json", code=0)
            profile = json.loads(result.out)
            self.assertGreaterEqual(profile["steps"], steps)
            self.assertEqual(profile["title"], "simulate tiny")
            self.assertTrue(any("MatMul" in row["op"] for row in profile["ops"]), profile["ops"])
        before = self.committed()
        self.wait_for(lambda: self.committed() > before, "another round")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)

    def test_refusals(self):
        def refused(*arguments):
            return self.run_rivulet("graph", "profile", "--attach", *arguments)
        # A process that would die of an unexpected signal must not get one.
        other = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
        try:
            self.assertIn("does not listen for profiles", refused(str(other.pid)).err)
            self.assertIsNone(other.poll())
        finally:
            other.kill()
            other.wait()
            other.stdin.close()
        self.assertIn("no process", refused(str(other.pid)).err)
        self.assert_refused(refused("0"), "--attach", code=2)


class BenchOpTest(harness.RivuletTest):
    def bench(self, *arguments):
        return json.loads(self.run_rivulet("bench", "op", *arguments, "--json", code=0).out)

    def test_all_algorithms_of_a_product_agree(self):
        bench = self.bench("MatMul", "--shape", "8x300", "--shape", "300x40")
        by_name = {row["algorithm"]: row for row in bench["algorithms"]}
        self.assertTrue({"native", "own", "eigen", "reference", "portable", "none"} <= set(by_name), by_name)
        self.assertEqual(by_name["reference"]["implementation"], "loops")
        self.assertEqual(bench["flops"], 2 * 8 * 300 * 40)
        for row in by_name.values():
            self.assertGreater(row["median_us"], 0)
            self.assertGreater(row["gflop_per_s"], 0)
            self.assertLessEqual(row["difference"], bench["tolerance"])
        self.assertGreater(by_name["reference"]["median_us"], by_name["native"]["median_us"])

    def test_other_ops_values_and_types(self):
        for arguments in (("Transpose", "--shape", "8x6x4", "--shape", "=2,0,1"),
                          ("Relu", "--shape", "100x7", "--dtype", "bfloat16"),
                          ("ConcatV2", "--shape", "4x5", "--shape", "4x3", "--shape", "=1"),
                          ("ResourceApplyGradientDescent", "--shape", "50x3", "--shape", "scalar", "--shape", "50x3"),
                          ("Conv2D", "--shape", "2x9x9x3", "--shape", "3x3x3x4", "--attr", "strides=1,1,1,1", "--attr",
                           "padding=SAME")):
            with self.subTest(arguments[0]):
                bench = self.bench(*arguments)
                self.assertEqual(bench["algorithms"][0]["algorithm"], "native")

    def test_one_algorithm(self):
        result = self.run_rivulet("bench", "op", "MatMul", "--shape", "8x8", "--shape", "8x8", "--algorithm", "portable",
                                  code=0)
        self.assertIn("portable", result.out)
        self.assertNotIn("reference", result.out)

    def test_refusals(self):
        def refused(*arguments):
            return self.run_rivulet("bench", "op", *arguments)
        self.assert_refused(refused("MatMull"), "MatMul", code=2)
        self.assert_refused(refused("MatMul", "--shape", "2x3", "--shape", "4x5"), "2", "3", "4", code=2)
        self.assert_refused(refused("MatMul", "--shape", "2x3"), "2 inputs (a, b)", code=2)
        self.assert_refused(refused("MatMul", "--shape", "2x3", "--shape", "3x2", "--attr", "transpose=1"),
                            "transpose_a", code=2)
        self.assert_refused(refused("MatMul", "--shape", "2xq", "--shape", "3x2"), "2xq", code=2)
        self.assert_refused(refused("MatMul", "--shape", "2x3", "--shape", "3x2", "--algorithm", "fast"), "native", code=2)
        self.assert_refused(refused("MatMul", "--shape", "2x3", "--shape", "3x2", "--dtype", "floot"), "floot", code=2)
        self.assert_refused(refused("Relu", "--shape", "=1,2", "--dtype", "bfloat16"), "type bfloat16", "sizes", code=2)
        self.assert_refused(refused("Reshape", "--shape", "2x3", "--shape", "=3,1.5"), "takes integers", code=2)
        self.assert_refused(refused("MatMul", "--shape", "999999999x999999999", "--shape", "3x2"), "2^28", code=2)


if __name__ == "__main__":
    harness.main()
