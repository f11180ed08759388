"""Training with 16-bit products reaches what float32 reaches."""
import os
import pathlib
import unittest

from harness import RivuletTest, main


class Precision(RivuletTest):
    def accuracy(self, precision, *settings, rounds):
        db = f"{precision}.sqlite"
        self.simulate("--rounds", rounds, "--set", f"client.precision={precision}", *settings, db=db)
        return self.metric("test/accuracy", db)[-1]

    def test_synthetic_digits_are_learned_alike(self):
        settings = ["--set", "model.preset=mlp", "--set", "data.synth.writers=40", "--set", "data.synth.test_writers=20",
                    "--set", "data.synth.examples_per_writer=20", "--set", "data.partition.clients=10",
                    "--set", "client.epochs=3", "--set", "evaluation.batch_size=100"]
        wide = self.accuracy("float32", *settings, rounds=8)
        self.assertGreater(wide, 0.5)
        self.assertAlmostEqual(self.accuracy("bfloat16", *settings, rounds=8), wide, delta=0.04)  # of 400 images
        scaled = ["--set", "client.loss_scale.kind=dynamic", "--set", "client.loss_scale.scale=1024"]
        self.assertAlmostEqual(self.accuracy("float16", *settings, *scaled, rounds=8), wide, delta=0.04)

    @unittest.skipUnless(os.environ.get("RIVULET_TEST_DATA"), "needs RIVULET_TEST_DATA with mnist/")
    def test_mnist_is_learned_alike(self):
        source = pathlib.Path(os.environ["RIVULET_TEST_DATA"]) / "mnist"
        self.run_rivulet("data", "import", "mnist", "--from", source, "--out", self.path("mnist"), code=0)
        settings = ["--set", "model.preset=mnist_cnn", "--set", f"data.train={self.path('mnist/train.tfrecord')}",
                    "--set", f"data.test={self.path('mnist/test.tfrecord')}", "--set", "data.partition.clients=100",
                    "--set", "server.clients_per_round=10", "--set", "client.batch_size=10",
                    "--set", "client.epochs=1", "--set", "evaluation.every=3", "--set", "evaluation.batch_size=100"]
        wide = self.accuracy("float32", *settings, rounds=3)
        self.assertGreater(wide, 0.9)
        self.assertAlmostEqual(self.accuracy("bfloat16", *settings, rounds=3), wide, delta=0.01)  # after 180 steps each


if __name__ == "__main__":
    main()
