"""rivulet debug: planted faults found by the tool meant for them, and every command as a script meets it."""
import json
import os
import pathlib
import subprocess
import unittest

from harness import RIVULET, RivuletTest, main

try:
    import numpy
except ImportError:
    numpy = None


def tensor_shape(*dims):
    return "shape { " + " ".join(f"dim {{ size: {size} }}" for size in dims) + " }"


def placeholder(name, *dims):
    return (f'node {{ name: "{name}" op: "Placeholder" attr {{ key: "dtype" value {{ type: DT_FLOAT }} }} '
            f'attr {{ key: "shape" value {{ {tensor_shape(*dims)} }} }} }}\n')


def op(name, kind, *inputs, attributes=""):
    return f'node {{ name: "{name}" op: "{kind}" ' + " ".join(f'input: "{i}"' for i in inputs) + f" {attributes} }}\n"


TYPE = 'attr { key: "T" value { type: DT_FLOAT } }'
# log(x - 0.5) of the made-up input 0, 1/7, 2/7, …: NaN below one half.
NAN_GRAPH = (placeholder("x", -1, 7) +
             'node { name: "half" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } } '
             'attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 0.5 } } } }\n' +
             op("shifted", "Sub", "x", "half", attributes=TYPE) + op("planted", "Log", "shifted", attributes=TYPE) +
             op("doubled", "AddV2", "planted", "planted", attributes=TYPE) + op("out", "Tanh", "doubled", attributes=TYPE))


class Debug(RivuletTest):
    def debug(self, what, *commands, json_output=True, code=0, arguments=()):
        words = [word for command in commands for word in ("-c", command)]
        result = self.run_rivulet("debug", what, *words, *arguments, *(["--json"] if json_output else []), code=code)
        if not json_output:
            return result.out
        values, decoder, rest = [], json.JSONDecoder(), result.out.strip()
        while rest:
            value, end = decoder.raw_decode(rest)
            values.append(value)
            rest = rest[end:].lstrip()
        return values

    def test_planted_shape_error_is_drawn(self):
        graph = self.write("shape.pbtxt", placeholder("image", -1, 784) + placeholder("kernel", 512, 10) +
                           op("logits", "MatMul", "image", "kernel"))
        result = self.run_rivulet("debug", graph, "-c", "run", code=1)
        self.assert_refused(result, "MatMul 'logits'", "784", "512", "'image' float32[?,784]")
        self.assertEqual(result.err.splitlines()[1:], ["    MatMul(image,  kernel)",
                                                       "           [?,784] [512,10]",
                                                       "              ^^^   ^^^"], result)

    def test_planted_nan_is_found_where_it_was_made(self):
        graph = self.write("nan.pbtxt", NAN_GRAPH)
        stop, listed = self.debug(graph, "run -f has_nan", "lt -f has_nan")
        self.assertEqual((stop["stopped"], stop["node"], stop["op"]), ("condition", "planted", "Log"))
        self.assertEqual(stop["nan"], 40)
        self.assertEqual([row["tensor"] for row in listed], ["planted"])
        text = self.debug(graph, "run -f has_nan", json_output=False)
        self.assertIn("has_nan holds for 'planted' after step 1, call", text)

    def test_planted_divergence_of_a_scenario_is_found(self):
        (stop,) = self.debug(self.scenario, "run -f has_inf_or_nan",
                             arguments=("--set", "model.preset=mlp", "--set", "client.optimizer.learning_rate=1e6"))
        self.assertEqual(stop["stopped"], "condition")
        self.assertEqual(stop["phase"], "step")
        self.assertGreater(stop["nan"] + stop["infinite"], 0)

    def test_debugged_run_ends_as_the_plain_one(self):
        plain = self.debug(self.scenario, "run -n")[-1]
        watched = self.debug(self.scenario, "break loss; run -f abs>1e30")
        self.assertEqual(watched[-1]["stopped"], "breakpoint")
        watched = self.debug(self.scenario, *["step 3"] * 5, "run -f abs>1e30")[-1]
        self.assertEqual(plain["stopped"], "over")
        self.assertRegex(plain["outcome"], r"^8 steps over 16 examples, loss [0-9.]+, update [0-9a-f]{64}$")
        self.assertEqual(watched, plain)

    def test_steps_and_tensors(self):
        stop, listed = self.debug(self.scenario, "run -t 2", "lt -s size -r")
        self.assertEqual((stop["stopped"], stop["step"]), ("step", 2))
        names = {row["tensor"]: row for row in listed}
        self.assertIn("image", names)
        self.assertEqual(names["image"]["from"], "read")
        self.assertEqual([row["bytes"] for row in listed], sorted((row["bytes"] for row in listed), reverse=True))
        (_, only) = self.debug(self.scenario, "run", "lt -t ^Mean$")
        self.assertEqual({row["op"] for row in only}, {"Mean"})
        (_, only) = self.debug(self.scenario, "run", "lt -n ^loss$ -s name")
        self.assertEqual([row["tensor"] for row in only], ["loss"])

    def test_values_slices_and_statistics(self):
        _, whole, part, statistics = self.debug(self.scenario, "run", "pt label -a", "pt image[0, 10:12, ::7]",
                                                "pt image -s")
        self.assertEqual(whole["shape"], [5])
        self.assertTrue(all(0 <= label < 10 for label in whole["values"]))
        self.assertEqual(part["shape"], [2, 4, 1])
        self.assertEqual(statistics["elements"], 5 * 784)
        self.assertEqual(statistics["nan"], 0)
        self.assertLessEqual(statistics["max"], 1)
        text = self.debug(self.scenario, "run", "pt label -r 0,9", json_output=False)
        self.assertRegex(text, r"label int64\[5\]:\n\[\*\d\*( \*\d\*){4}\]")

    def test_nodes_and_their_neighbours(self):
        _, info, inputs, outputs, deep = self.debug(self.scenario, "run", "ni loss -t", "li loss", "lo image", "li loss -r")
        self.assertEqual((info["node"], info["op"]), ("loss", "Mean"))
        self.assertIn("call", info)
        self.assertTrue(info["op_doc"])
        self.assertIn("cross_entropy", [row["node"] for row in inputs])
        self.assertTrue(outputs)
        self.assertGreater(len(deep), len(inputs))
        run, source = self.debug(self.scenario, "ri", "ps")
        self.assertEqual(run["client"], "client-00000")
        self.assertEqual(run["batch_size"], 5)
        self.assertTrue(all(":" in row["built_at"] for row in source) and source)
        self.assertIn("logits", " ".join(row["which"] for row in source))

    def test_what_a_pass_took_away_is_explained(self):
        result = self.run_rivulet("debug", self.scenario, "-c", "run; pt dense1/MatMul", code=1)
        self.assertIn("is no separate call", result.err)
        self.assertIn("fuse_products", result.err)
        self.assertIn("--no-passes", result.err)
        values = self.debug(self.scenario, "run; pt dense1/MatMul", arguments=("--no-passes",))
        self.assertEqual(values[1]["shape"], [5, 10])

    def test_failed_call_can_be_looked_into(self):
        graph = self.write("index.pbtxt", placeholder("table", 4, 2) +
                           'node { name: "index" op: "Placeholder" attr { key: "dtype" value { type: DT_INT32 } } '
                           f'attr {{ key: "shape" value {{ {tensor_shape(3)} }} }} }}\n' +
                           'node { name: "axis" op: "Const" attr { key: "dtype" value { type: DT_INT32 } } '
                           'attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 0 } } } }\n' +
                           op("rows", "GatherV2", "table", "index", "axis"))
        if numpy is None:
            self.skipTest("numpy is not installed")
        numpy.save(self.path("index.npy"), numpy.array([0, 3, 9], "int32"))
        feed = ("--feed", "index=" + self.path("index.npy"))
        values = self.debug(graph, "run; pt index", arguments=feed, code=1)
        self.assertEqual(values[0]["stopped"], "failed")
        self.assertIn("9", values[0]["error"])
        self.assertEqual(values[1]["values"], [0, 3, 9])
        # The error of the run names the node and its inputs with their values.
        result = self.run_rivulet("debug", graph, "-c", "run", *feed, code=1)
        self.assertIn("rivulet: GatherV2 'rows'", result.err)
        self.assertIn("'index' int32[3] = [0, 3, 9]", result.err)

    @unittest.skipIf(numpy is None, "numpy is not installed")
    def test_dumps_are_numpys(self):
        _, written, dump = self.debug(self.scenario, "run", "pt image -w " + self.path("image.npy"),
                                      "dump " + self.path("dumped"))
        image = numpy.load(self.path("image.npy"))
        self.assertEqual((image.shape, image.dtype), ((5, 28, 28, 1), numpy.dtype("float32")))
        index = json.loads(pathlib.Path(self.path("dumped/index.json")).read_text())
        self.assertEqual(len(index), dump["files"])
        for entry in index:
            array = numpy.load(os.path.join(self.path("dumped"), entry["file"]))
            self.assertEqual((list(array.shape), str(array.dtype)), (entry["shape"], entry["dtype"]), entry)
            self.assertAlmostEqual(float(array.max()), entry["statistics"]["max"], places=5)

    def test_memory_bound_keeps_statistics(self):
        result = self.run_rivulet("debug", self.scenario, "--memory", "2000", "-c", "run; pt image", code=1)
        self.assertIn("were not kept; raise --memory", result.err)
        (_, statistics) = self.debug(self.scenario, "run; pt image -s", arguments=("--memory", "2000"))
        self.assertEqual(statistics["elements"], 5 * 784)

    def test_a_later_round_begins_with_its_model(self):
        first = self.debug(self.scenario, "run -n", arguments=("--client", "client-00003"))[-1]["outcome"]
        later = self.debug(self.scenario, "run -n", arguments=("--client", "client-00003", "--round", "3"))[-1]["outcome"]
        self.assertNotEqual(first, later)
        loss = lambda outcome: float(outcome.split("loss ")[1].split(",")[0])
        self.assertLess(loss(later), loss(first))

    def test_script_and_terminal_less_input(self):
        script = self.write("look.txt", "# a comment\nrun\n\nlt -n ^loss$\n")
        text = self.run_rivulet("debug", self.scenario, "--script", script, code=0).out
        self.assertIn("rivulet> lt -n ^loss$", text)
        done = subprocess.run([RIVULET, "debug", self.scenario], input=b"run\nnonsense\nri\nquit\n", capture_output=True,
                              cwd=self.folder, timeout=300)
        self.assertEqual(done.returncode, 0, done)
        self.assertIn(b"there is no command 'nonsense'", done.stdout)  # and it goes on
        self.assertIn(b"steps_finished", done.stdout)

    def test_wrong_words_are_refused(self):
        for command, fragment in (("lst", "Did you mean"), ("pt", "pt TENSOR"), ("run -f nan", "has_inf_or_nan"),
                                  ("run -t 0", "'0'"), ("lt -n (", "regular expression"), ("lt -x", "no flag -x"),
                                  ("lt -s colour", "colour"), ("run; pt image[", "lacks a closing bracket"),
                                  ("run; pt image[9]", "index 9 is beyond axis 0"), ("pt 'image", "quote"), ("step x", "'x'")):
            result = self.run_rivulet("debug", self.scenario, "-c", command)
            self.assertEqual(result.code, 2, (command, result))
            self.assertIn(fragment, result.err, command)
        for command, fragment in (("pt image", "nothing has run yet"), ("ni imag", "Did you mean 'image'"),
                                  ("run -n; run", "the run is over"), ("dump x", "nothing has run yet")):
            result = self.run_rivulet("debug", self.scenario, "-c", command)
            self.assertEqual(result.code, 1, (command, result))
            self.assertIn(fragment, result.err, command)
        self.assert_refused(self.run_rivulet("debug", self.scenario, "--client", "client-0003"), "client-00003", code=2)
        self.assert_refused(self.run_rivulet("debug", "mlp", "--client", "x"), "is a graph", code=2)
        self.assert_refused(self.run_rivulet("debug", self.scenario, "--training"), "are for a graph", code=2)

    def test_presets_run_too(self):
        stop, over, listed = self.debug("mnist_cnn", "run", "run -n", "lt", arguments=("--training", "--batch", "2"))
        self.assertEqual(stop["stopped"], "step")
        self.assertEqual(over["stopped"], "over")
        self.assertIn("loss", [row["tensor"] for row in listed])

    def test_verbose_logs_have_module_and_level(self):
        result = self.run_rivulet("debug", self.scenario, "-c", "run -n", "--vlog", "pass_steps=2,comp?le=1", code=0)
        self.assertRegex(result.err, r"(?m)^V1 [0-9:.]+ compile\.cc:\d+\] compiled \d+ calls")
        self.assertRegex(result.err, r"(?m)^V2 [0-9:.]+ pass_steps\.cc:\d+\] client 'client-00000': step 0, 5 examples")
        result = self.run_rivulet("debug", self.scenario, "-c", "run -n", env={"RIVULET_VLOG": "optimize=1"}, code=0)
        self.assertRegex(result.err, r"(?m)^V1 .* optimize\.cc:\d+\] pass fuse_products")
        self.assertNotIn("pass_steps.cc", result.err)
        self.assert_refused(self.run_rivulet("debug", self.scenario, "--vlog", "pass_steps:2"),
                            "'pass_steps:2' is no log level", code=2)


if __name__ == "__main__":
    main()
