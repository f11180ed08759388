"""rivulet.flower and rivulet.torch: what was written for other frameworks trains here, in their layout."""

import importlib.util
import unittest
import warnings

import packaged
import client_test
import harness
import rivulet

needs_flower = unittest.skipUnless(importlib.util.find_spec("flwr"), "needs Flower (flwr)")
needs_onnx = unittest.skipUnless(importlib.util.find_spec("onnx"), "needs onnx, which PyTorch writes ONNX with")


@packaged.needs_numpy
class Layout(unittest.TestCase):
    """Names and axes, without PyTorch."""

    def places(self, ours, theirs, **keywords):
        from rivulet import _torch_layout

        return _torch_layout.places(ours, theirs, **keywords)

    def test_a_square_kernel_is_transposed_by_its_name(self):
        import numpy as np

        found = self.places({"dense1/kernel": (3, 3), "dense1/bias": (3,)}, {"fc.weight": (3, 3), "fc.bias": (3,)})
        kernel = np.arange(9).reshape(3, 3)
        place = found["dense1/kernel"]
        self.assertEqual(place.theirs, "fc.weight")
        np.testing.assert_array_equal(place.way.there(kernel), kernel.T)
        np.testing.assert_array_equal(place.way.back(kernel.T), kernel)

    def test_every_way_leads_back(self):
        import numpy as np

        from rivulet import _torch_layout

        shapes = {
            "conv/kernel": (5, 4, 2, 3),
            "depthwise/kernel": (5, 4, 3, 1),
            "norm/gamma": (3,),
            "flat/kernel": (24, 7),
            "dense/kernel": (7, 7),
            "embedding/embeddings": (9, 2),
        }
        for name, known in _torch_layout.ways(shapes, {"flat": (4, 2, 3)}).items():
            for way in known:
                array = np.arange(np.prod(shapes[name])).reshape(shapes[name])
                with self.subTest(name=name, shape=way.shape):
                    self.assertEqual(way.there(array).shape, way.shape)
                    np.testing.assert_array_equal(way.back(way.there(array)), array)

    def test_layers_are_matched_by_names_said_names_or_shapes_that_only_they_have(self):
        ours = {"dense1/kernel": (4, 3), "dense2/kernel": (3, 3), "dense3/kernel": (3, 3), "dense3/bias": (3,)}
        theirs = {"a.weight": (3, 4), "b.weight": (3, 3), "c.weight": (3, 3), "c.bias": (3,)}
        with self.assertRaisesRegex(rivulet.RivuletError, "'dense2' may be 'b' or 'c' .*say names={'b': 'dense2', …}"):
            self.places(ours, theirs)
        found = self.places(ours, theirs, names={"b": "dense2"})
        self.assertEqual(
            {name: place.theirs for name, place in found.items()},
            {
                "dense1/kernel": "a.weight",
                "dense2/kernel": "b.weight",
                "dense3/kernel": "c.weight",
                "dense3/bias": "c.bias",
            },
        )
        equal = {f"dense{i}.weight": (3, 3) for i in (2, 1)}
        found = self.places({"dense1/kernel": (3, 3), "dense2/kernel": (3, 3)}, equal)
        self.assertEqual(found["dense2/kernel"].theirs, "dense2.weight")

    def test_a_model_that_came_by_onnx_lies_as_its_file_says(self):
        import numpy as np

        ours = {"0.weight": (3, 3), "0.bias": (3,), "2.weight": (5, 4, 2, 6), "table.weight": (7, 7)}
        theirs = {"0.weight": (3, 3), "0.bias": (3,), "2.weight": (6, 2, 5, 4), "table.weight": (7, 7)}
        from rivulet._torch_layout import stored_axes

        metadata = {"rivulet.axes": '{"0.weight":[1,0],"2.weight":[3,2,0,1]}'}
        axes = stored_axes(rivulet.Tensors({}, metadata))
        found = self.places(ours, theirs, axes=axes)
        square = np.arange(9).reshape(3, 3)
        np.testing.assert_array_equal(found["0.weight"].way.there(square), square.T)
        np.testing.assert_array_equal(found["table.weight"].way.there(square), square)
        self.assertEqual(found["2.weight"].way.there(np.zeros((5, 4, 2, 6))).shape, (6, 2, 5, 4))
        self.assertIsNone(stored_axes({}))
        renamed = {name.replace("0.", "fc."): shape for name, shape in theirs.items()}
        with self.assertRaisesRegex(rivulet.RivuletError, "'0.weight' would be the module's '0.weight' .*, which it has not"):
            self.places(ours, renamed, axes=axes)
        self.assertEqual(self.places(ours, renamed, names={"fc": "0"}, axes=axes)["0.bias"].theirs, "fc.bias")
        with self.assertRaisesRegex(rivulet.RivuletError, "the module's 'more.bias' has no counterpart"):
            self.places(ours, {**theirs, "more.bias": (1,)}, axes=axes)

    def test_a_model_of_a_modules_own_arrays_lies_as_there(self):
        import numpy as np

        shapes = {"0.weight": (3, 3), "0.bias": (3,), "1.running_mean": (3,)}
        found = self.places(shapes, dict(reversed(list(shapes.items()))))
        square = np.arange(9).reshape(3, 3)
        self.assertEqual({name: place.theirs for name, place in found.items()}, {name: name for name in shapes})
        np.testing.assert_array_equal(found["0.weight"].way.back(square), square)
        other = {**shapes, "0.weight": (3, 2)}
        with self.assertRaisesRegex(rivulet.RivuletError, r"'0.weight' would be .* of shape \(3, 3\), of shape \(3, 2\)"):
            self.places(shapes, other)

    def test_axes_that_are_none_are_told(self):
        from rivulet._torch_layout import stored_axes

        for said in ("[", "[]", "7", '{"w": 1}', '{"w": ["a"]}', '{"w": [1.5]}', "[" * 100_000):
            with self.subTest(said[:20]), self.assertRaisesRegex(rivulet.RivuletError, "'rivulet.axes' does not list"):
                stored_axes(rivulet.Tensors({}, {"rivulet.axes": said}))
        for axes in ((0,), (0, 2), (1, 1)):
            with self.subTest(axes), self.assertRaisesRegex(rivulet.RivuletError, r"gives 'w' of shape \(2, 3\) the axes"):
                self.places({"w": (2, 3)}, {"w": (2, 3)}, axes={"w": axes})

    def test_what_has_no_place_is_refused_by_name(self):
        dense = {"dense1/kernel": (4, 3), "dense1/bias": (3,)}
        flat = {"conv1/kernel": (3, 3, 1, 2), "dense1/kernel": (8, 3)}
        for ours, theirs, keywords, sentence in [
            (dense, {"fc.weight": (4, 3), "fc.bias": (3,)}, {}, "no layer of the module has the shapes of 'dense1'"),
            (dense, {"fc.weight": (3, 4)}, {}, "no layer of the module has the shapes of 'dense1'"),
            (
                dense,
                {"fc.weight": (3, 4), "fc.bias": (3,), "x.bias": (1,)},
                {},
                "the module's 'x.bias' has no counterpart",
            ),
            (
                dense,
                {"fc.weight": (3, 4), "fc.bias": (3,)},
                {"names": {"f": "dense1"}},
                "names says 'f', which is no layer",
            ),
            (dense, {"fc.weight": (3, 4), "fc.bias": (3,)}, {"flattened": {"x": (1, 2, 2)}}, "flattened names 'x'"),
            ({"lstm1/recurrent_kernel": (2, 8)}, {}, {}, "'lstm1/recurrent_kernel' of shape .* has no counterpart"),
            (flat, {}, {}, r"'dense1' takes a convolution's flattened output, .* pass flattened={'dense1': \(height"),
            (
                flat,
                {},
                {"flattened": {"dense1": (2, 3, 2)}},
                r"'dense1' takes images of \(2, 3, 2\), and it takes 8 values",
            ),
        ]:
            with self.subTest(sentence), self.assertRaisesRegex(rivulet.RivuletError, sentence):
                self.places(ours, theirs, **keywords)


def perceptron(torch):
    return torch.nn.Sequential(
        torch.nn.Flatten(),
        torch.nn.Linear(784, 200),
        torch.nn.ReLU(),
        torch.nn.Linear(200, 200),
        torch.nn.ReLU(),
        torch.nn.Linear(200, 10),
    )


def lenet5(torch):
    nn = torch.nn
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
    )


def digits(torch, file):
    examples = rivulet.read_examples(file, shapes={"image": (28, 28, 1)})
    pixels = torch.tensor(examples["image"]).permute(0, 3, 1, 2).float() / 255
    return pixels, torch.tensor(examples["label"])


@packaged.needs_torch
class Modules(harness.RivuletTest):
    """A model of the program, judged by PyTorch."""

    def judged(self, module, preset, **keywords):
        import torch

        self.simulate("--rounds", "3", "--set", f"model.preset={preset}", "--set", "client.epochs=5")
        run = rivulet.open(self.path("runs.sqlite")).run("latest")
        model = run.model()
        rivulet.torch.load(module, model, **keywords)
        pixels, labels = digits(torch, self.path("data/test.tfrecord"))
        with torch.no_grad():
            loss = torch.nn.functional.cross_entropy(module(pixels), labels).item()
        self.assertAlmostEqual(loss, run.scores["test/loss"], delta=1e-4)
        self.assertEqual(
            rivulet.model_digest(rivulet.torch.params(module, model, **keywords)), rivulet.model_digest(model)
        )

    def test_a_perceptron_with_a_square_layer(self):
        import torch

        self.judged(perceptron(torch), "mlp")

    def test_convolutions_and_what_flattens_them(self):
        import torch

        with self.assertRaisesRegex(rivulet.RivuletError, "'dense1' takes a convolution's flattened output"):
            self.judged(lenet5(torch), "lenet5")
        self.judged(lenet5(torch), "lenet5", flattened={"dense1": (5, 5, 16)})

    def test_params_of_a_module_load_again_under_its_names(self):
        import torch

        module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
        module(torch.rand(2, 3, 5, 5))
        arrays = rivulet.torch.params(module)
        self.assertEqual(list(arrays), ["0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var"])
        other = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
        rivulet.torch.load(other, arrays)
        for name, array in rivulet.torch.params(other).items():
            self.assertTrue((array == arrays[name]).all(), name)
        self.assertEqual(other[1].num_batches_tracked, 0)

    def test_what_does_not_fit_leaves_the_module_as_it_was(self):
        import torch

        module = torch.nn.Linear(2, 2)
        before = rivulet.torch.params(module)
        wrong = {"weight": before["weight"] + 1, "bias": before["bias"].astype("float64")}
        with self.assertRaisesRegex(rivulet.RivuletError, "'bias' is float64 of shape .2,., and the module's float32"):
            rivulet.torch.load(module, wrong)
        self.assertTrue((rivulet.torch.params(module)["weight"] == before["weight"]).all())
        with self.assertRaisesRegex(rivulet.RivuletError, "the module's 'weight' is torch.float64; models are float32"):
            rivulet.torch.params(module.double())


@packaged.needs_torch
class Scenarios(packaged.ProgramTest):
    """A module that the program's own clients train."""

    def setUp(self):
        super().setUp()
        self.work_in_folder()

    def module(self):
        import torch

        nn = torch.nn
        torch.manual_seed(3)
        return nn.Sequential(
            *(nn.Conv2d(1, 6, 5, padding=2), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(), nn.Dropout(0.25)),
            *(nn.Linear(294, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10)),  # one of them square
        )

    @needs_onnx
    def test_a_module_is_trained_by_the_program_and_comes_back(self):
        import torch

        net = self.module()
        before = rivulet.torch.params(net)
        example, draws = torch.rand(2, 1, 28, 28), torch.random.get_rng_state()
        scenario = rivulet.torch.scenario(net, example, loss=torch.nn.CrossEntropyLoss())
        self.assertTrue(torch.equal(torch.random.get_rng_state(), draws))
        self.assertEqual(rivulet.model_digest(rivulet.torch.params(net)), rivulet.model_digest(before))
        self.assertEqual(scenario["model"]["input"], {"kind": "pixels"})
        data = {"synth": {"kind": "digits", "writers": 20, "test_writers": 6, "examples_per_writer": 20}}
        files = {"train": "digits/train.tfrecord", "test": "digits/test.tfrecord"}
        run = rivulet.simulate(
            {
                **scenario,
                "run": {"name": "torch", "rounds": 3, "keep_models": "all"},
                "data": {**files, **data, "partition": {"kind": "iid", "clients": 4}},
                "server": {"clients_per_round": 4},
            }
        )
        # What it began with is the module's; a square layer that lay the wrong way round would differ.
        rivulet.torch.load(net, run.model(0))
        self.assertEqual(rivulet.model_digest(rivulet.torch.params(net)), rivulet.model_digest(before))
        rivulet.torch.load(net, run.model())
        net.eval()
        pixels, labels = digits(torch, "digits/test.tfrecord")
        with torch.no_grad():
            loss = torch.nn.functional.cross_entropy(net(pixels), labels).item()
        self.assertAlmostEqual(loss, run.scores["test/loss"], delta=1e-4)
        back = rivulet.torch.params(net, run.model())
        self.assertEqual(rivulet.model_digest(back), rivulet.model_digest(run.model()))
        self.run_rivulet("model", "export", run.id, "--db", "rivulet.sqlite", "--format", "pytorch", "--out", "net.st", code=0)
        exported = rivulet.load_safetensors("net.st")
        self.assertEqual(rivulet.model_digest(exported), rivulet.model_digest(rivulet.torch.params(net)))

    @needs_onnx
    def test_a_module_that_predicts_numbers_is_trained_by_the_program(self):
        import torch

        torch.manual_seed(5)
        features, wanted = torch.randn(60, 2), torch.tensor([[2.0], [-3.0]])
        prices = features @ wanted + 1 + 0.1 * torch.randn(60, 1)
        rows = ["a,b,price"] + [f"{a!r},{b!r},{c!r}" for a, b, c in torch.cat([features, prices], 1).tolist()]
        (self.folder / "houses.csv").write_text("\n".join(rows) + "\n")
        table = ["--from", "houses.csv", "--target", "price", "--test-every", 6, "--out", "houses"]
        self.run_rivulet("data", "import", "csv", *table, code=0)
        net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        losses = {torch.nn.MSELoss: "mse", torch.nn.L1Loss: "mae", torch.nn.HuberLoss: "huber", torch.nn.SmoothL1Loss: "huber"}
        for loss, objective in losses.items():
            with self.subTest(loss.__name__):
                scenario = rivulet.torch.scenario(net, torch.rand(2, 2), loss=loss(), target="numbers")
                self.assertEqual((scenario["model"]["target"], scenario["model"]["objective"]), ("numbers", objective))
                if loss is not torch.nn.MSELoss:
                    self.assertEqual(rivulet.torch.scenario(net, torch.rand(2, 2), loss=loss()), scenario)
                files = {"train": "houses/train.tfrecord", "test": "houses/test.tfrecord", "input_feature": "features"}
                run = rivulet.simulate(
                    {
                        **scenario,
                        "run": {"name": objective, "rounds": 2},
                        "data": {**files, "partition": {"kind": "iid", "clients": 5}},
                        "server": {"clients_per_round": 5},
                    }
                )
                trained = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
                rivulet.torch.load(trained, run.model())
                with torch.no_grad():
                    told = loss()(trained(features[5::6]), prices[5::6]).item()
                self.assertAlmostEqual(told, run.scores["test/loss"], delta=1e-4)

    def test_what_the_program_cannot_train_is_refused(self):
        import torch

        net, example = self.module(), torch.rand(2, 1, 28, 28)
        for arguments, sentence in [
            ({"loss": torch.nn.NLLLoss()}, "loss='NLLLoss' is none that the program trains with; give torch.nn.Cross"),
            ({"loss": torch.nn.HuberLoss(delta=2.0)}, "loss=.* has delta=2.0, which the program does not know"),
            ({"loss": torch.nn.L1Loss(), "target": "class"}, "target='class' is trained with the loss .* and not with 'mae'"),
            ({"loss": "mse", "target": "labels"}, "target='labels' is trained with the loss 'sigmoid_cross_entropy', and"),
            ({"loss": "mse", "target": "price"}, "target='price' is none of 'class', 'labels' and 'numbers'"),
            ({"loss": torch.nn.CrossEntropyLoss(label_smoothing=0.1)}, "has label_smoothing=0.1, which the program does"),
            ({"loss": torch.nn.CrossEntropyLoss(reduction="sum")}, "has reduction='sum', which the program does not"),
            ({"loss": "mse", "example": torch.rand(1, 1, 28, 28)}, r"example is of shape \(1, 1, 28, 28\); give a tensor of"),
            ({"loss": "mse", "example": [1, 2]}, "example is a list; give a tensor of at least two"),
            ({"loss": "mse", "kind": "sound"}, "kind='sound' is none of"),
            ({"loss": "mse", "module": self.module().double()}, "'0.weight' is torch.float64; models are float32"),
        ]:
            with self.subTest(sentence), self.assertRaisesRegex(rivulet.RivuletError, sentence):
                rivulet.torch.scenario(**{"module": net, "example": example, **arguments})
        self.assertFalse((self.folder / "model.onnx").exists())


class Quickstart:
    """As Flower's quickstart has its client, down to the names: parameters in PyTorch's layout and order."""

    def __init__(self, tasks, examples, own=None):
        self.tasks, self.n, self.own = tasks, examples, own

    def get_parameters(self, config):
        return [] if self.own is None else self.own

    def fit(self, parameters, config):
        self.tasks.append((parameters, config))
        for array in parameters:
            if array.dtype.kind == "f":
                array += 0.25  # Flower's arrays can be written to
        return parameters, self.n, {}

    def evaluate(self, parameters, config):
        return 0.5, self.n, {"accuracy": 0.75}


@packaged.needs_grpc
class Flower(client_test.Federation):
    def test_an_unmodified_numpy_client_trains_here(self):
        import numpy as np

        self.begin(1, "run.rounds=2", scenario=client_test.harness.SCENARIO.replace("logistic_regression", "mlp"))
        tasks = []
        wrapped = rivulet.flower.wrap(Quickstart(tasks, 5), layout="torch", config={"lr": 0.1})
        self.ends(*self.in_thread(wrapped, "ann"), "the run has finished after round 2")
        run = rivulet.open(self.path("runs.sqlite")).run("latest")
        for round_, (parameters, config) in enumerate(tasks):
            self.assertEqual(config["server_round"], round_ + 1)
            self.assertEqual((config["epochs"], config["local_epochs"], config["lr"]), (2, 2, 0.1))
            for given, (name, array) in zip(parameters, run.model(round_).items()):
                np.testing.assert_array_equal(given - np.float32(0.25), (array.T + np.float32(0.25)) - np.float32(0.25))
            for name, array in run.model(round_ + 1).items():
                np.testing.assert_allclose(array, run.model(round_)[name] + 0.25, atol=1e-6)
        self.assertEqual(self.query("SELECT examples, weight FROM client_rounds"), [(5, 5)] * 2)

    def given(self, own, **keywords):
        """What a client of these parameters is given of a model with a square and an oblong kernel."""
        import numpy as np

        model = {"a/kernel": np.float32([[1, 2], [3, 4]]), "b/kernel": np.ones((2, 3), np.float32)}
        tasks = []
        wrapped = rivulet.flower.wrap(Quickstart(tasks, 1, own), **keywords)
        result = wrapped.fit(model, rivulet.Context())
        for name, array in model.items():
            np.testing.assert_array_equal(result.arrays[name], array + 0.25)
        return [array.tolist() for array in tasks[0][0][:1]]

    def test_its_shapes_tell_its_layout_or_it_must_be_said(self):
        import numpy as np

        ours = [np.zeros((2, 2), np.float32), np.zeros((2, 3), np.float32)]
        torch = [array.T for array in ours]
        count = np.int64(7)
        self.assertEqual(self.given(ours), [[[1.25, 2.25], [3.25, 4.25]]])
        self.assertEqual(self.given(torch), [[[1.25, 3.25], [2.25, 4.25]]])
        self.assertEqual(self.given(None, layout="torch"), [[[1.25, 3.25], [2.25, 4.25]]])
        self.assertEqual(self.given([torch[0], count, torch[1]]), [[[1.25, 3.25], [2.25, 4.25]]])
        for own, keywords, sentence in [
            (None, {}, "do not decide whether kernels are .* pass layout='rivulet' or layout='torch'"),
            (ours, {"layout": "torch"}, r"the client has arrays of the shapes .*\(2, 3\).*the model gives .*\(3, 2\)"),
            (ours, {"layout": "keras"}, "layout is 'rivulet' or 'torch', not 'keras'"),
        ]:
            with self.subTest(sentence), self.assertRaisesRegex(rivulet.RivuletError, sentence):
                self.given(own, **keywords)

    def test_a_model_under_the_frameworks_own_names_lies_as_it_is_there(self):
        import numpy as np

        model = {"0.weight": np.float32([[1, 2], [3, 4]]), "0.bias": np.zeros(2, np.float32)}
        for own, layout in [(None, None), (None, "torch"), (list(model.values()), None), (list(model.values()), "torch")]:
            tasks = []
            result = rivulet.flower.wrap(Quickstart(tasks, 1, own), layout=layout).fit(model, rivulet.Context())
            np.testing.assert_array_equal(tasks[0][0][0], model["0.weight"] + 0.25)
            np.testing.assert_array_equal(result.arrays["0.weight"], model["0.weight"] + 0.25)
        # One that came by ONNX lies as its file says.
        by_onnx = rivulet.Tensors(model, {"rivulet.axes": '{"0.weight":[1,0]}'})
        tasks = []
        rivulet.flower.wrap(Quickstart(tasks, 1), layout="torch").fit(by_onnx, rivulet.Context())
        np.testing.assert_array_equal(tasks[0][0][0], model["0.weight"].T + 0.25)

    def test_what_is_no_client_is_refused_at_once(self):
        def make(name):
            return Quickstart([], 1)

        for given, sentence in [
            (make, "the function 'make', and takes its result: flower.wrap.make.….."),
            (Quickstart, "the class Quickstart, and takes an object of it"),
            (object(), "a object without a method 'fit'"),
            (None, "a NoneType without a method 'fit'"),
        ]:
            with self.subTest(sentence), self.assertRaisesRegex(rivulet.RivuletError, f"{sentence}.*client_fn=lambda"):
                rivulet.flower.wrap(given)

    def test_what_flower_makes_of_a_client_is_taken_too(self):
        class Made:
            numpy_client = Quickstart([], 4)

        wrapped = rivulet.flower.wrap(Made(), layout="rivulet")
        self.assertIs(wrapped._client, Made.numpy_client)

        class TrainsAlone:
            def fit(self, parameters, config):
                return parameters, 1, {}

        with self.assertRaises(NotImplementedError):
            rivulet.flower.wrap(TrainsAlone(), layout="rivulet").evaluate({}, rivulet.Context())

    def test_evaluations_bring_the_loss_beside_the_metrics(self):
        import numpy as np

        wrapped = rivulet.flower.wrap(Quickstart([], 4), layout="rivulet")
        told = wrapped.evaluate({"w": np.zeros((2, 2), np.float32)}, rivulet.Context())
        self.assertEqual((told.examples, dict(told.metrics)), (4, {"loss": 0.5, "accuracy": 0.75}))

    @needs_flower
    @packaged.needs_torch
    def test_flowers_own_class(self):
        import torch

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from flwr.client import NumPyClient

        # The class of Flower's quickstart with PyTorch.
        class FlowerClient(NumPyClient):
            def __init__(self, net, pixels, labels):
                self.net, self.pixels, self.labels = net, pixels, labels

            def get_parameters(self, config):
                return [value.cpu().numpy() for _, value in self.net.state_dict().items()]

            def set_parameters(self, parameters):
                pairs = zip(self.net.state_dict().keys(), parameters)
                self.net.load_state_dict({name: torch.tensor(value) for name, value in pairs}, strict=True)

            def fit(self, parameters, config):
                self.set_parameters(parameters)
                optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
                for _ in range(config["local_epochs"]):
                    optimizer.zero_grad()
                    loss = torch.nn.functional.cross_entropy(self.net(self.pixels), self.labels)
                    loss.backward()
                    optimizer.step()
                return self.get_parameters({}), len(self.labels), {"train_loss": loss.item()}

        self.begin(2, scenario=client_test.harness.SCENARIO.replace("logistic_regression", "mlp"))
        native, flower = self.names
        process = self.start_native(native)
        pixels, labels = digits(torch, self.file(flower))
        wrapped = rivulet.flower.wrap(FlowerClient(perceptron(torch), pixels, labels))
        self.ends(*self.in_thread(wrapped, flower), "the run has finished after round 4")
        self.assertEqual(process.wait(120), 0)
        losses = self.query("SELECT train_loss FROM client_rounds WHERE client_id = ? ORDER BY round", flower)
        self.assertLess(losses[-1], losses[0])


@packaged.needs_grpc
@packaged.needs_torch
class Loops(client_test.Federation):
    def test_native_numpy_and_torch_clients_are_one_run_and_its_model_follows_from_their_updates(self):
        import torch

        self.begin(3, scenario=client_test.harness.SCENARIO.replace("logistic_regression", "mlp"))
        native, numpy, pytorch = self.names
        processes = [self.start_native(native), self.start_python(numpy)]
        loader = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(*digits(torch, self.file(pytorch))), batch_size=5, shuffle=True
        )

        def train(module, loader, context):
            optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
            for _ in range(context.numbers["epochs"]):
                for pixels, labels in loader:
                    optimizer.zero_grad()
                    loss = torch.nn.functional.cross_entropy(module(pixels), labels)
                    loss.backward()
                    optimizer.step()
            return loss.item()

        client = rivulet.torch.client(perceptron(torch), loader, train)
        self.ends(*self.in_thread(client, pytorch), "the run has finished after round 4")
        for process in [*processes, self.coordinator]:
            self.assertEqual(process.wait(120), 0)
        tasks = self.query("SELECT round, client_id, task_id, status, update_digest, train_loss FROM client_rounds")
        self.assertEqual((len(tasks), {status for _, _, _, status, _, _ in tasks}), (12, {"folded"}))
        self.check_models(tasks)
        losses = [loss for _, name, _, _, _, loss in sorted(tasks) if name == pytorch]
        self.assertLess(losses[-1], losses[0])


@packaged.needs_grpc
@packaged.needs_torch
class OwnNetwork(client_test.Federation):
    """A network that the program has no graph of: docs/guide/python.md's recipe, as clients of a coordinator."""

    def test_it_is_trained_and_measured(self):
        import torch

        torch.manual_seed(3)

        def network():
            return torch.nn.Sequential(
                torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 3)
            )

        def train(module, loader, context):
            module.train()
            optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
            for _ in range(context.numbers["epochs"]):
                for pixels, labels in loader:
                    optimizer.zero_grad()
                    loss = torch.nn.functional.cross_entropy(module(pixels), labels)
                    loss.backward()
                    optimizer.step()
            return loss.item()

        def evaluate(module, loader, context):
            module.eval()
            with torch.no_grad():
                scores, labels = map(torch.cat, zip(*((module(pixels), labels) for pixels, labels in loader)))
            right = (scores.argmax(1) == labels).float().mean().item()
            return {"loss": torch.nn.functional.cross_entropy(scores, labels).item(), "accuracy": right}

        first = network()
        rivulet.save_safetensors(self.path("init.safetensors"), rivulet.torch.params(first))
        scenario = """
run = { name = "own", rounds = 3 }
model = { arrays = "init.safetensors", metrics = ["accuracy"] }
data = { partition = { clients = 2 } }
client = { epochs = 4, batch_size = 8 }
server = { clients_per_round = 2 }
evaluation = { federated_every = 3 }
"""
        self.coordinate(scenario)
        threads, loaders = [], []
        for number, name in enumerate(["north", "south"]):
            labels = torch.arange(24) % 3
            pixels = labels[:, None, None, None] + 0.3 * torch.randn(24, 1, 8, 8, generator=torch.Generator().manual_seed(number))
            # An order of its own: two threads would draw from one generator as they come.
            loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(pixels, labels), batch_size=8, shuffle=True,
                                                 generator=torch.Generator().manual_seed(number))
            loaders.append(loader)
            client = rivulet.torch.client(network(), loader, train, evaluate=evaluate)
            threads.append(self.in_thread(client, name))
        for thread in threads:
            self.ends(*thread, "the run has finished after round 3")
        run = rivulet.open(self.path("runs.sqlite")).run("latest")
        self.assertEqual(rivulet.model_digest(run.model(0)), rivulet.model_digest(rivulet.torch.params(first)))
        self.assertEqual(self.query("SELECT count(*) FROM client_rounds WHERE kind = 'train' AND status = 'folded'"), [(6,)])
        measured = dict(self.query("SELECT name, value FROM metrics WHERE scope = 'federated'"))
        last = network()
        rivulet.torch.load(last, run.model())
        by_torch = [evaluate(last, loader, None) for loader in loaders]
        for name in ("loss", "accuracy"):
            self.assertAlmostEqual(measured[f"evaluate/{name}"], sum(each[name] for each in by_torch) / 2, delta=1e-4)
        losses = [loss for (loss,) in self.query("SELECT train_loss FROM rounds ORDER BY round")]
        self.assertLess(losses[-1], losses[0])
        self.assertEqual(rivulet.model_digest(rivulet.torch.params(last, like=run.model())), rivulet.model_digest(run.model()))


if __name__ == "__main__":
    harness.main()
