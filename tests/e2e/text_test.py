"""Text from a plain file to a trained model: imported by speaker, learned by clients, judged on speeches kept apart."""
import json
import math

from harness import RivuletTest, main

SPEAKERS = {"FIRST LORD": "aye, my lord, ", "SECOND LORD": "no, my lord, ", "FOOL": "hey ho, the wind and the rain, ", "Messenger": "he comes, "}

SCENARIO = """
[run]
name = "text"
rounds = 3
seed = 5

[model]
preset = "tiny_transformer"

[data]
train = "plays/train.tfrecord"
test = "plays/test.tfrecord"
partition = { kind = "by_key", key = "speaker" }

[client]
epochs = 2
batch_size = 4
optimizer = { kind = "sgd", learning_rate = 0.3 }

[server]
clients_per_round = 4
"""


def play():
    """Every speaker says the same again and again, 11 times in turn with the others."""
    return "\n".join(f"{speaker}:\n{(words * 40)[:200]}\n" for _ in range(11) for speaker, words in SPEAKERS.items())


class Text(RivuletTest):
    def setUp(self):
        super().setUp()
        self.write("play.txt", play())
        self.run_rivulet("data", "import", "shakespeare", "--from", "play.txt", "--out", "plays", code=0)
        self.scenario = self.write("text.toml", SCENARIO)

    def test_import_makes_windows_by_speaker(self):
        told = self.run_rivulet("data", "inspect", "plays/train.tfrecord", code=0).out
        self.assertIn("tokens   int64[80]", told)
        # Ten speeches of 202 numbers each: 25 windows and the rest of a 26th, for each of four speakers.
        self.assertIn("examples  104", told)
        self.run_rivulet("data", "partition", self.scenario, "--out", "clients", code=0)
        self.assertTrue((self.folder / "clients/FIRST LORD.tfrecord").exists())
        refused = self.run_rivulet("data", "import", "shakespeare", "--from", self.write("no.txt", "Once\n"), "--out", "x")
        self.assert_refused(refused, "no.txt", "line 1", "text before the first speaker", code=1)

    def test_transformer_learns_and_workers_change_nothing(self):
        self.simulate("--workers", "1", db="a.sqlite")
        self.simulate("--workers", "3", db="b.sqlite")
        self.assertEqual(self.digests("a.sqlite"), self.digests("b.sqlite"))
        losses = self.metric("test/loss", "a.sqlite")
        self.assertLess(losses[-1], math.log(90) - 0.5)
        self.assertLess(losses[-1], losses[0])

    def test_perplexity_is_of_all_tokens_wherever_they_are(self):
        measured = ["--set", 'model.metrics=["accuracy", "perplexity", "exact_match"]', "--set", "evaluation.federated_every=1", "--rounds", "2"]
        self.simulate(*measured, "--workers", "1", "--set", "evaluation.batch_size=7", db="a.sqlite")
        self.simulate(*measured, "--workers", "2", "--set", "evaluation.batch_size=100", db="b.sqlite")

        def values(name, db):
            rows = "SELECT value FROM metrics WHERE scope IN ('central', 'federated') AND name = ? ORDER BY round"
            return [value for value, in self.query(rows, name, db=db)]

        for name in ("test/perplexity", "evaluate/perplexity"):
            perplexities, losses = values(name, "a.sqlite"), values(f"{name}_loss", "a.sqlite")
            self.assertLess(perplexities[-1], perplexities[0])
            for perplexity, loss in zip(perplexities, losses, strict=True):
                self.assertAlmostEqual(perplexity, math.exp(loss), places=9)
            # The last bits of a loss follow from the batch that it is computed in; of 65536 parts of 1 few differ.
            for one, other in zip(losses, values(f"{name}_loss", "b.sqlite"), strict=True):
                self.assertAlmostEqual(one, other, delta=2e-5)
        spread = [values(f"evaluate/perplexity/{part}", "a.sqlite")[-1] for part in ("p10", "p50", "p90")]
        self.assertEqual(spread, sorted(spread))
        self.assertEqual(set(self.metric("test/exact_match", "a.sqlite")), {0.0})
        told = json.loads(self.run_rivulet("model", "evaluate", "latest", "--db", self.path("a.sqlite"), "--json", code=0).out)
        self.assertAlmostEqual(told["test/perplexity"], self.metric("test/perplexity", "a.sqlite")[-1], delta=1e-2)
        # A stored scenario names the loss and all of its settings, which this preset has as its own.
        self.run_rivulet("model", "export", "latest", "--db", self.path("a.sqlite"), "--out", self.path("last.safetensors"), code=0)

    def test_lstm_learns_and_workers_change_nothing(self):
        lstm = ["--set", "model.preset=char_lstm", "--set", "client.optimizer.learning_rate=1", "--rounds", "2", "--set",
                "server.clients_per_round=2"]
        self.simulate(*lstm, "--workers", "1", db="a.sqlite")
        self.simulate(*lstm, "--workers", "2", db="b.sqlite", env={"OMP_NUM_THREADS": "2"})
        self.assertEqual(self.digests("a.sqlite"), self.digests("b.sqlite"))
        losses = self.metric("test/loss", "a.sqlite")
        self.assertLess(losses[-1], math.log(90) - 0.5)

    def test_adapters_learn_and_workers_change_nothing(self):
        for preset, targets, rate in (("tiny_transformer", "*attention*", 1), ("char_lstm", "dense/*", 3)):
            with self.subTest(preset=preset):
                adapted = ["--set", f"model.preset={preset}", "--set", f'model.lora.targets=["{targets}"]', "--rounds", "2", "--set",
                           f"client.optimizer.learning_rate={rate}"]
                self.simulate(*adapted, "--workers", "1", db=f"{preset}-1.sqlite")
                self.simulate(*adapted, "--workers", "2", db=f"{preset}-2.sqlite", env={"OMP_NUM_THREADS": "2"})
                self.assertEqual(self.digests(f"{preset}-1.sqlite"), self.digests(f"{preset}-2.sqlite"))
                losses = self.metric("test/loss", f"{preset}-1.sqlite")
                self.assertLess(losses[-1], losses[0])
        self.assert_refused(self.run_rivulet("simulate", self.scenario, "--set", "model.preset=char_lstm", "--set", 'model.lora.targets=["*"]'),
                            "model.lora", "is a weight of the recurrent cell")

    def test_portable_kernels_on_any_instruction_set(self):
        for preset in ("tiny_transformer", "char_lstm"):
            small = ["--set", f"model.preset={preset}", "--rounds", "1", "--set", "server.clients_per_round=1", "--set",
                     "client.epochs=1", "--kernels", "portable"]
            self.simulate(*small, db=f"{preset}.sqlite")
            for targets in ("avx2", "none"):
                with self.subTest(preset=preset, targets=targets):
                    db = f"{preset}-{targets}.sqlite"
                    self.simulate(*small, db=db, env={"RIVULET_CPU_TARGETS": targets})
                    self.assertEqual(self.digests(db), self.digests(f"{preset}.sqlite"))

    def test_images_are_no_text(self):
        refused = self.run_rivulet("simulate", self.scenario, "--set", "data.input_feature=speaker", "--db", "x.sqlite")
        self.assert_refused(refused, "speaker", "int64")


if __name__ == "__main__":
    main()
