"""rivulet graph: what a user sees of a graph before and after the passes, and what TensorBoard reads of it."""
import json
import os
import pathlib
import unittest

from harness import RivuletTest, main


class Graph(RivuletTest):
    def optimize(self, *arguments):
        return json.loads(self.run_rivulet("graph", "optimize", *arguments, "--json", code=0).out)

    def test_inspect_lists_every_node(self):
        text = self.run_rivulet("graph", "inspect", "mlp", code=0).out
        self.assertRegex(text.splitlines()[0], r"^mlp, batch 10: \d+ nodes, 199210 parameters$")
        listed = json.loads(self.run_rivulet("graph", "inspect", "mlp", "--format", "json", code=0).out)
        nodes = {node["node"]: node for node in listed["nodes"]}
        self.assertEqual(nodes["image"]["op"], "Placeholder")
        self.assertEqual(nodes["image"]["output"], "float32[?,28,28,1]")
        self.assertEqual(len(nodes), int(text.split(":")[1].split()[0]))

    def test_training_adds_gradients_and_passes_make_it_smaller(self):
        shown = self.optimize("mnist_cnn", "--training")
        self.assertLess(shown["after"]["calls"], shown["before"]["calls"])
        self.assertLess(shown["after"]["nodes"], shown["before"]["nodes"])
        # Each row tells its own pass: it begins with the nodes that the row before left.
        rows = shown["passes"]
        self.assertEqual([row["nodes_before"] for row in rows[1:]], [row["nodes_after"] for row in rows[:-1]])
        self.assertEqual(rows[-1]["nodes_after"], shown["after"]["nodes"])
        self.assertTrue(all(row["rewrites"] for row in rows if row["nodes_after"] < row["nodes_before"] and row["pass"] != "prune"), rows)
        self.assertLessEqual(shown["after"]["arena_bytes"], shown["before"]["arena_bytes"])
        ops = [call["op"] for call in shown["calls"]]
        self.assertIn("_FusedMatMul", ops)
        self.assertIn("_MaxPoolReluGrad", ops)
        self.assertLess(shown["compile_milliseconds"], 5000)
        larger = self.optimize("mnist_cnn", "--training", "--batch", "20")
        self.assertGreater(larger["after"]["flop"], 1.9 * shown["after"]["flop"])

    def test_passes_are_chosen_by_name(self):
        all_passes = self.optimize("mlp")
        without = self.optimize("mlp", "--without", "fuse_products")
        only = self.optimize("mlp", "--pass", "fuse_products")
        self.assertIn("_FusedMatMul", [call["op"] for call in all_passes["calls"]])
        self.assertNotIn("_FusedMatMul", [call["op"] for call in without["calls"]])
        self.assertIn("_FusedMatMul", [call["op"] for call in only["calls"]])
        self.assertEqual({p["pass"] for p in only["passes"]}, {"prune", "fold_constants", "fuse_products"})
        self.assert_refused(self.run_rivulet("graph", "optimize", "mlp", "--without", "fuse_product"), "'fuse_products'")
        self.assert_refused(self.run_rivulet("graph", "optimize", "mlp", "--pass", "nothing"), "'nothing'")

    def test_memory_budget(self):
        free = self.optimize("resnet8", "--training")["after"]["arena_bytes"]
        fitted = self.optimize("resnet8", "--training", "--memory-budget", str(free * 9 // 10))
        self.assertLessEqual(fitted["after"]["arena_bytes"], free * 9 // 10)
        self.assertTrue([p for p in fitted["passes"] if p["pass"] == "recompute" and p["rewrites"]])
        self.assert_refused(self.run_rivulet("graph", "optimize", "mnist_cnn", "--memory-budget", "1000"), "1000", "budget")

    def test_optimised_file_runs_through_again(self):
        path = self.path("small.pb")
        self.run_rivulet("graph", "optimize", "mlp", "--out", path, code=0)
        text = self.run_rivulet("graph", "inspect", path, code=0).out
        self.assertIn("_FusedMatMul", text)
        self.assertIn("float32[10,28,28,1]", text)
        again = self.optimize(path)
        self.assertEqual(again["after"]["nodes"], again["before"]["nodes"])

    def test_scenario_shows_the_step_its_clients_run(self):
        shown = self.optimize(self.scenario, "--training")
        self.assertTrue([call for call in shown["calls"] if "sgd" in call["implementation"]
                         or call["op"] == "ResourceApplyGradientDescent"])

    def test_guide_names_every_pass(self):
        path = pathlib.Path(__file__).resolve().parents[2] / "docs" / "guide" / "graphs.md"
        guide = path.read_text(encoding="utf-8")
        text = " ".join(self.run_rivulet("graph", "optimize", "--help", code=0).out.split())
        names = text.split("run only this pass: ", 1)[1].split(" --", 1)[0].rstrip(" .").split(", ")
        self.assertIn("fuse_updates", names)
        for name in names:
            self.assertIn(f"| `{name}` |", guide)

    def test_dot(self):
        text = self.run_rivulet("graph", "optimize", "logistic_regression", "--format", "dot", code=0).out
        self.assertTrue(text.startswith("digraph rivulet {") and text.endswith("}\n"))
        self.assertIn("_FusedMatMul", text)

    def place(self, *arguments):
        return json.loads(self.run_rivulet("graph", "place", *arguments, "--json", code=0).out)

    def test_placement_follows_constraints_and_counts_what_travels(self):
        alone = self.place("mlp", "--training")
        self.assertEqual(alone["transfers"], 0)
        self.assertEqual({node["device"] for node in alone["nodes"]}, {"/job:localhost/replica:0/task:0/device:CPU:0"})
        split = self.place("mlp", "--training", "--on", "dense2=/cpu:1")
        devices = {node["node"]: node["device"][-5:] for node in split["nodes"]}
        self.assertEqual(devices["dense2/kernel"], "CPU:1")
        self.assertEqual(devices["dense1/kernel"], "CPU:0")
        self.assertGreater(split["transfers"], 1)
        halved = self.place("mlp", "--training", "--on", "dense2=/cpu:1", "--bfloat16")
        self.assertEqual(halved["transfers"], split["transfers"])
        self.assertLess(halved["transferred_bytes"], 0.6 * split["transferred_bytes"])
        text = self.run_rivulet("graph", "place", "mlp", "--on", "dense2=/cpu:1", code=0).out
        self.assertRegex(text, r"dense2/kernel +VarHandleOp +CPU:1 +constrained to '/device:CPU:1'")

    def test_placement_by_measured_costs_keeps_and_reads_them(self):
        costs = self.path("costs.pb")
        self.place("mlp", "--training", "--measure", "3", "--costs-out", costs)
        first, second = (self.place("mlp", "--training", "--costs", costs) for _ in range(2))
        self.assertEqual(first, second)
        self.assertTrue([node for node in first["nodes"] if node["why"].startswith("cost model: ends after")])

    def test_placement_writes_a_graph_per_device(self):
        prefix = self.path("part")
        self.run_rivulet("graph", "place", "mlp", "--on", "dense2=/cpu:1", "--out", prefix, code=0)
        for number in (0, 1):
            part = pathlib.Path(f"{prefix}.CPU_{number}.pb").read_bytes()
            self.assertIn(b"_Send", part)
            self.assertIn(b"_Recv", part)
            self.assertEqual(b"dense1/MatMul" in part, number == 0)

    def test_placement_that_cannot_be_is_refused(self):
        for arguments, fragments in [
            (["--on", "dense2=/cpu:7"], ["/device:CPU:7", "CPU:0", "soft placement"]),
            (["--on", "dense2=/cup:1"], ["--on", "'cup:1'"]),
            (["--on", "dense2"], ["PREFIX=DEVICE"]),
            (["--on", "dense9=/cpu:1"], ["dense9"]),
            (["--cpus", "0"], ["--cpus"]),
            (["--device-filter", "/job:ps"], ["/job:ps", "none"]),
            (["--costs", self.write("broken.costs", "no costs")], ["broken.costs"]),
        ]:
            self.assert_refused(self.run_rivulet("graph", "place", "mlp", *arguments), *fragments)
        self.run_rivulet("graph", "place", "mlp", "--on", "dense2=/cpu:7", "--soft", code=0)

    def test_refusals_are_sentences(self):
        for arguments, fragments in [
            (["mnist_cn"], ["'mnist_cnn'", ".toml"]),
            (["mlp", "--format", "svg"], ["'svg'", "dot"]),
            ([self.path("absent.pb")], ["absent.pb"]),
            ([self.write("broken.pb", "no graph")], ["broken.pb"]),
            (["mlp", "--batch", "0"], ["--batch"]),
        ]:
            self.assert_refused(self.run_rivulet("graph", "inspect", *arguments), *fragments)

    def test_tensorboard_reads_the_events(self):
        folder = self.path("events")
        self.run_rivulet("graph", "optimize", "mnist_cnn", "--training", "--tensorboard", folder, code=0)
        self.assertEqual(sorted(os.listdir(folder)), ["after", "before"])
        try:
            from tensorboard.backend.event_processing import event_accumulator
        except ImportError:
            raise unittest.SkipTest("TensorBoard is not installed")
        ops = {}
        for run in ("before", "after"):
            events = event_accumulator.EventAccumulator(os.path.join(folder, run))
            events.Reload()
            self.assertTrue(events.Tags()["graph"])
            ops[run] = {node.op for node in events.Graph().node}
            self.assertTrue(all("_output_shapes" in node.attr for node in events.Graph().node if node.op == "MatMul"))
        self.assertIn("ReluGrad", ops["before"])
        self.assertIn("_FusedMatMul", ops["after"])


if __name__ == "__main__":
    main()
