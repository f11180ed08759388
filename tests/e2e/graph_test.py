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
        path = pathlib.Path(__file__).resolve().parents[2] / "docs" / "graph.md"
        guide = path.read_text(encoding="utf-8")
        text = " ".join(self.run_rivulet("graph", "optimize", "--help", code=0).out.split())
        names = text.split("this pass and no others: ", 1)[1].split(" --", 1)[0].rstrip(" .").split(", ")
        self.assertIn("fuse_updates", names)
        for name in names:
            self.assertIn(f"| `{name}` |", guide)

    def test_dot(self):
        text = self.run_rivulet("graph", "optimize", "logistic_regression", "--format", "dot", code=0).out
        self.assertTrue(text.startswith("digraph rivulet {") and text.endswith("}\n"))
        self.assertIn("_FusedMatMul", text)

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
