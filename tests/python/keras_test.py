"""rivulet.keras: a Keras model that the program trains comes back under Keras' names, and what is no model is refused."""

import os

import packaged
import harness
import rivulet

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")


@packaged.needs_keras
class Scenarios(packaged.ProgramTest):
    def setUp(self):
        super().setUp()
        self.work_in_folder()

    def model(self):
        import keras

        layers = keras.layers
        keras.backend.clear_session()
        keras.utils.set_random_seed(3)
        return keras.Sequential(
            [
                *(keras.Input((28, 28, 1)), layers.Conv2D(6, 5, strides=2), layers.BatchNormalization(), layers.ReLU()),
                *(layers.Flatten(), layers.Dropout(0.5), layers.Dense(10)),
            ]
        )

    def run_of(self, section, **more):
        scenario = {
            **section,
            "run": {"name": "from Keras", "rounds": 3},
            "data": {
                "train": "digits/train.tfrecord",
                "test": "digits/test.tfrecord",
                "synth": {"kind": "digits", "writers": 10, "test_writers": 10, "examples_per_writer": 20, "seed": 3},
                "partition": {"kind": "iid", "clients": 5},
            },
            "client": {"epochs": 2, "batch_size": 10, "optimizer": {"kind": "sgd", "learning_rate": 0.1}},
            "server": {"clients_per_round": 5},
            **more,
        }
        return rivulet.simulate(scenario)

    def test_a_model_is_trained_by_the_program_and_comes_back(self):
        import keras
        import numpy as np

        model = self.model()
        before = rivulet.keras.params(model)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        section = rivulet.keras.scenario(model, loss=loss)
        self.assertEqual(section["model"]["inputs"], [{"name": "image", "kind": "pixels"}])
        statistics = [f"batch_normalization/moving_{name}" for name in ("mean", "variance")]
        self.assertEqual(section["model"]["freeze"], statistics)
        run = self.run_of(section)
        self.assertGreater(run.scores["test/accuracy"], 0.3)
        trained = run.model()
        self.assertEqual(set(trained), set(before))
        rivulet.keras.load(model, trained)
        examples = rivulet.read_examples("digits/test.tfrecord", shapes={"image": (28, 28, 1)})
        scores = model.predict(examples["image"].astype(np.float32) / 255, verbose=0)
        self.assertAlmostEqual(float(loss(examples["label"], scores)), run.scores["test/loss"], delta=1e-4)
        self.assertAlmostEqual((scores.argmax(1) == examples["label"]).mean(), run.scores["test/accuracy"], delta=1e-4)

    def test_layers_that_keras_does_not_train_keep_their_values(self):
        import keras
        import numpy as np

        model = self.model()
        model.layers[0].trainable = False
        section = rivulet.keras.scenario(model, loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        trained = self.run_of(section).model()
        for name, value in rivulet.keras.params(model).items():
            self.assertEqual(np.array_equal(trained[name], value), name in section["model"]["freeze"], name)
        self.assertEqual(sum("conv2d" in name for name in section["model"]["freeze"]), 2)

    def test_several_inputs_and_numbers(self):
        import keras
        import numpy as np

        age, words = keras.Input((2,), name="age"), keras.Input((4,), dtype="int64", name="words")
        y = keras.layers.Concatenate()([age, keras.layers.GRU(3)(keras.layers.Embedding(9, 4)(words))])
        model = keras.Model([age, words], keras.layers.Dense(1)(y))
        section = rivulet.keras.scenario(model, loss="mse", path="tables")
        self.assertEqual(section["model"]["graph"], "tables/graph.pb")
        self.assertEqual(
            section["model"]["inputs"], [{"name": "age", "kind": "values"}, {"name": "words", "kind": "tokens"}]
        )
        draws = np.random.default_rng(1)
        rows = {"age": draws.uniform(size=(40, 2)).astype(np.float32), "words": draws.integers(0, 9, (40, 4))}
        rivulet.write_examples("rows.tfrecord", {**rows, "label": rows["age"].sum(1, keepdims=True)})
        data = {"train": "rows.tfrecord", "partition": {"kind": "iid", "clients": 2}}
        trained = self.run_of(section, data=data, server={"clients_per_round": 2}).model()
        rivulet.keras.load(model, trained)
        for name, value in rivulet.keras.params(model).items():
            self.assertTrue(np.array_equal(trained[name], value), name)

    def test_refusals_say_what_to_do(self):
        import keras

        model = self.model()
        for keywords, sentence in (
            ({"loss": "nothing"}, "loss='nothing' is none of Keras' losses"),
            ({"loss": "mse", "kind": "photo"}, "kind='photo' is none of"),
            ({"loss": "mse", "target": "labels"}, "target='labels' is neither"),
        ):
            with self.subTest(sentence), self.assertRaisesRegex(rivulet.RivuletError, sentence):
                rivulet.keras.scenario(model, **keywords)
        text = keras.Input((None,), dtype="int64")
        open_ended = keras.Model(text, keras.layers.GlobalMaxPooling1D()(keras.layers.Embedding(9, 4)(text)))
        with self.assertRaisesRegex(rivulet.RivuletError, "give keras.Input every size but the batch's"):
            rivulet.keras.scenario(open_ended, loss="mse")
        with self.assertRaisesRegex(rivulet.RivuletError, "the model does not declare its inputs"):
            rivulet.keras.scenario(keras.Sequential([keras.layers.Dense(2)]), loss="mse")
        x = keras.Input((3,))
        twice = keras.Model(x, [keras.layers.Dense(2)(x), keras.layers.Dense(2)(x)])
        with self.assertRaisesRegex(rivulet.RivuletError, "the model has 2 outputs"):
            rivulet.keras.scenario(twice, loss="mse")
        half = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, dtype="float16")])
        with self.assertRaisesRegex(rivulet.RivuletError, "is float16, and models are float32"):
            rivulet.keras.scenario(half, loss="mse")

    def test_what_does_not_fit_leaves_the_model_as_it_was(self):
        import numpy as np

        model = self.model()
        before = rivulet.keras.params(model)
        first, *_, last = before
        for wrong, sentence in (
            ({first: before[first] + 1, last: np.zeros(3, np.float32)}, r"has the shape \(3,\), and the model's \(10,\)"),
            ({first: before[first] + 1, "dense9/kernel": before[last]}, "the model has no weight 'dense9/kernel'"),
        ):
            with self.subTest(sentence), self.assertRaisesRegex(rivulet.RivuletError, sentence):
                rivulet.keras.load(model, wrong)
        for name, value in rivulet.keras.params(model).items():
            self.assertTrue(np.array_equal(before[name], value), name)


if __name__ == "__main__":
    harness.main()
