"""Bad input, each kind through the binary: one sentence, exit 1 or 2, nothing half-written."""
import os
import resource
import signal
import subprocess

from harness import RivuletTest, example, field, main, node, tfrecord

PIXELS = bytes(784)


class BadInput(RivuletTest):
    def refused(self, *arguments, fragments=(), code=(1, 2), **kwargs):
        result = self.run_rivulet("simulate", self.scenario, "--db", self.path("runs.sqlite"), *arguments, **kwargs)
        self.assert_refused(result, *fragments, code=code)
        return result

    def no_run(self):
        """Refused before anything was written."""
        self.assertFalse(os.path.exists(self.path("runs.sqlite")))
        self.assertFalse(os.path.exists(self.path("runs.sqlite.models")))

    def test_scenario(self):
        for arguments, fragments, code in [
            (["--set", "server.clients_per_rond=3"], ["server.clients_per_rond", "server.clients_per_round"], 2),
            (["--set", "client.epochs=many"], ["client.epochs", "integer"], 2),
            (["--set", "client.epochs=1.5"], ["client.epochs"], 2),
            (["--set", "data.partition.clients=0"], ["data.partition.clients"], 2),
            (["--set", "server.clients_per_round=7"], ["clients_per_round", "6"], 2),
            (["--set", "model.preset=mnist_cn"], ["mnist_cn", "mnist_cnn"], (1, 2)),
            (["--set", "data.partition.clients=97"], ["97", "96"], (1, 2)),
            (["--set", "data.train=missing.tfrecord", "--set", "data.synth.kind=\"\""], ["missing.tfrecord"], (1, 2)),
            (["--set", "data.input_feature=imag"], ["imag", "image"], (1, 2)),
            (["--set", "client.optimizer.learning_rate=nan"], ["learning_rate"], 2),
        ]:
            with self.subTest(arguments=arguments):
                self.refused(*arguments, fragments=fragments, code=code)
                self.no_run()

    def test_scenario_file(self):
        for name, text, fragments in [
            ("syntax.toml", "[run\nname = 3", ["syntax.toml:1:"]),
            ("binary.toml", b"\x00\xff\xfe" * 100, ["binary.toml"]),
            ("empty.toml", "", ["model"]),
            ("twice.toml", "[run]\nrounds = 1\nrounds = 2\n", ["twice.toml:3:"]),
        ]:
            with self.subTest(name=name):
                result = self.run_rivulet("simulate", self.write(name, text))
                self.assert_refused(result, *fragments)
        self.assert_refused(self.run_rivulet("simulate", self.path("none.toml")), "none.toml", code=1)
        self.assert_refused(self.run_rivulet("simulate", str(self.folder)), str(self.folder))

    def test_records(self):
        good = [example(PIXELS, i % 10) for i in range(12)]
        alone = ["--set", "data.synth.kind=\"\"", "--set", "data.test=\"\"", "--set", "server.max_attempts=1"]
        one = ["--set", "data.partition.clients=1", "--set", "server.clients_per_round=1"]
        for name, records, fragments in [
            ("label", good[:8] + [example(PIXELS, 10)] + good[9:], ["label.tfrecord: record 8", "10"]),
            ("negative", good[:8] + [example(PIXELS, -1)] + good[9:], ["negative.tfrecord: record 8", "-1"]),
            ("shape", good[:3] + [example(bytes(10), 1)] + good[4:], ["shape.tfrecord: record 3", "784", "10"]),
            ("type", good[:5] + [b"\xff\xff\xff"] + good[6:], ["type.tfrecord: record 5"]),
            ("empty", [], ["data.train", "no examples"]),
        ]:
            with self.subTest(name=name):
                path = self.write(name + ".tfrecord", tfrecord(records))
                self.refused("--set", f"data.train={path}", *one, *alone, "--rounds", "1", fragments=fragments, code=(1, 2))
                if os.path.exists(self.path("runs.sqlite")):
                    self.assertEqual(self.query("SELECT count(*) FROM rounds WHERE status = 'committed'"), [(0,)])
        path = self.write("torn.tfrecord", tfrecord(good)[:-5])
        self.refused("--set", f"data.train={path}", *alone, fragments=["torn.tfrecord", "record 11"])
        corrupt = bytearray(tfrecord(good))
        corrupt[len(corrupt) // 2] ^= 1
        path = self.write("corrupt.tfrecord", bytes(corrupt))
        self.refused("--set", f"data.train={path}", *one, *alone, "--rounds", "1", fragments=["corrupt.tfrecord", "record"])

    def test_one_bad_record_among_clients(self):
        """Its client is lost and told of once, and the run goes on."""
        good = [example(PIXELS, i % 10) for i in range(12)]
        path = self.write("label.tfrecord", tfrecord(good[:8] + [example(PIXELS, 10)] + good[9:]))
        result = self.simulate("--set", f"data.train={path}", "--set", "data.partition.clients=3", "--set",
                               "data.synth.kind=\"\"", "--set", "data.test=\"\"", "--rounds", "3")
        told = [line for line in result.err.splitlines() if "label.tfrecord: record 8 at byte" in line]
        self.assertEqual(len(told), 1, result)
        self.assertIn("tasks         3 were refused or failed", result.out)
        lost = self.query("SELECT round, status, error FROM client_rounds WHERE status <> 'folded'")
        self.assertEqual([(round, status) for round, status, _ in lost], [(1, "failed"), (2, "failed"), (3, "failed")])
        for _, _, error in lost:
            self.assertIn("label.tfrecord: record 8 at byte", error)

    def test_updates_that_cannot_be_folded(self):
        for model, fragments in [("mlp", []), ("logistic_regression", ["server.value_bits"])]:  # NaN; too large
            with self.subTest(model=model):
                self.refused("--set", "client.optimizer.learning_rate=1e6", "--set", f"model.preset={model}", "--set",
                             "server.max_attempts=1", fragments=fragments, code=1)
                self.assertEqual(self.query("SELECT count(*) FROM rounds WHERE status = 'committed'"), [(0,)])
                refused = self.query("SELECT status, error FROM client_rounds")
                self.assertTrue(refused)
                for status, error in refused:
                    self.assertIn(status, ("refused", "failed", "dropped"))
                self.assertTrue(any(error for _, error in refused))

    def test_database(self):
        text = self.write("notes.txt", "this is no database, but it is long enough to be taken for one\n" * 100)
        for db, fragments in [
            ("/nonexistent/folder/runs.sqlite", ["/nonexistent/folder"]),
            (str(self.folder), [str(self.folder)]),
            ("/dev/full", ["/dev/full"]),
            (text, ["notes.txt"]),
        ]:
            with self.subTest(db=db):
                result = self.run_rivulet("simulate", self.scenario, "--db", db)
                self.assert_refused(result, *fragments, code=1)
        with open(text) as file:
            self.assertTrue(file.read().startswith("this is no database"))
        self.assert_refused(self.run_rivulet("simulate", self.scenario, "--db", self.path("runs.sqlite"), "--resume",
                                             "nobody"), code=1)
        self.no_run()

    def test_files_that_may_not_grow(self):
        """A limit on the size of files: what a quota does to a model or a database in mid-run."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        self.run_rivulet("simulate", self.scenario, "--rounds", "1", "--db", self.path("before.sqlite"), code=0)
        result = self.run_rivulet("simulate", self.scenario, "--db", self.path("runs.sqlite"), preexec_fn=limit)
        self.assert_refused(result, code=1)
        self.assertEqual(list((self.folder / "runs.sqlite.models").rglob("*.safetensors*")), [])

    def test_full_disk(self):
        small = self.folder / "small"
        small.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(small)], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("a small file system cannot be mounted here")
        try:
            result = self.run_rivulet("simulate", self.scenario, "--db", str(small / "runs.sqlite"), "--rounds", "500",
                                      "--set", "run.keep_models=all", "--set", "run.durability=round")
            self.assertRegex(result.err, "space|full")
            self.assert_refused(result, code=1)
            # What was committed before is whole, and goes on where there is room.
            rounds = self.query("SELECT count(*), max(round) FROM rounds WHERE status = 'committed'",
                                db="small/runs.sqlite")[0]
            self.assertEqual(rounds[0], rounds[1])
            self.assertGreater(rounds[0], 0)
            subprocess.run(["mount", "-o", "remount,size=100m", str(small)], check=True)
            more = rounds[0] + 2
            self.run_rivulet("simulate", self.scenario, "--db", str(small / "runs.sqlite"), "--rounds", more, "--set",
                             "run.keep_models=all", "--resume", "latest", code=0)
            self.run_rivulet("simulate", self.scenario, "--db", self.path("whole.sqlite"), "--rounds", more, code=0)
            self.assertEqual(self.digests("small/runs.sqlite"), self.digests("whole.sqlite"))
        finally:
            subprocess.run(["umount", "-l", str(small)], check=True)

    def test_messages_are_told_in_our_words(self):
        """A name that is not UTF-8, of which Protobuf's library would write a line of its own."""
        plan = self.write("strange.plan", field(2, b"\xff\xfe"))
        result = self.run_rivulet("plan", "show", plan)
        self.assertEqual(result.code, 1, result)
        self.assertEqual(len(result.err.splitlines()), 1, result.err)
        self.assertTrue(result.err.startswith("rivulet: "), result.err)

    def test_graphs(self):
        float32, int64 = field(6, 1), field(6, 9)

        def shape(*dims):
            return field(7, b"".join(field(2, field(1, dim)) for dim in dims))

        def model(*nodes, image=shape(-1, 28, 28, 1)):
            """A model whose loss is the tensor `a` of `nodes`."""
            return (node("image", "Placeholder", dtype=float32, shape=image) +
                    node("label", "Placeholder", dtype=int64, shape=shape(-1)) + b"".join(nodes) +
                    node("loss", "Identity", "a", T=float32) + node("accuracy", "Identity", "a", T=float32) +
                    node("init", "NoOp"))

        for name, graph, fragments in [
            ("cycle.pb", model(node("a", "Identity", "b", T=float32), node("b", "Identity", "a", T=float32)), ["cycle"]),
            ("huge.pb", model(node("a", "Identity", "image", T=float32), image=shape(1 << 40, 1 << 40)), ["image"]),
            ("missing.pb", model(node("a", "Identity", "nowhere", T=float32)), ["nowhere"]),
            ("unknown.pb", model(node("a", "Identitty")), ["Identitty", "Identity"]),
            ("twice.pb", model(node("a", "Identity", "image", T=float32), node("a", "Identity", "image", T=float32)),
             ["'a'", "same name"]),
            ("type.pb", model(node("a", "Identity", "label", T=float32)), ["'a'"]),
            ("noise.pb", b"\xde\xad\xbe\xef" * 50, ["noise.pb"]),
            ("empty.pb", b"", ["empty.pb"]),
        ]:
            with self.subTest(name=name):
                path = self.write(name, graph)
                self.refused("--set", f"model.graph={path}", fragments=fragments, code=(1, 2))
                self.no_run()

    def test_clients_that_cannot_train(self):
        client = ["client", "--coordinator", "127.0.0.1:7", "--insecure", "--name", "a", "--data"]
        empty = self.write("empty.tfrecord", b"")
        self.assert_refused(self.run_rivulet(*client, f"train={empty}"), "empty.tfrecord", code=1)
        self.assert_refused(self.run_rivulet(*client, f"train={self.path('none*.tfrecord')}"), "none*", code=1)
        self.assert_refused(self.run_rivulet(*client, empty), "--data takes NAME=GLOB", code=2)


if __name__ == "__main__":
    main()
