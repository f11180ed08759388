"""rivulet.hf: a PEFT model's adapter is federated, under PEFT's names, and its base stays where it is."""

import copy
import unittest

import packaged
import harness
import rivulet

NAMES = ["base_model.model.classifier.weight", "base_model.model.dense.lora_A.weight", "base_model.model.dense.lora_B.weight"]


def torn_model(rank=2, inputs=4, outputs=5):
    """A module with the structure and names of a PEFT model: a Linear with an adapter, and one that is saved whole."""
    import torch

    class Wrapped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.base_layer = torch.nn.Linear(inputs, outputs)
            self.lora_A = torch.nn.ModuleDict({"default": torch.nn.Linear(inputs, rank, bias=False)})
            self.lora_B = torch.nn.ModuleDict({"default": torch.nn.Linear(rank, outputs, bias=False)})
            torch.nn.init.zeros_(self.lora_B["default"].weight)

        def forward(self, x):
            return self.base_layer(x) + 2 * self.lora_B["default"](self.lora_A["default"](x))

    class Saved(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.original_module = torch.nn.Linear(outputs, 3, bias=False)
            self.modules_to_save = torch.nn.ModuleDict({"default": torch.nn.Linear(outputs, 3, bias=False)})

        def forward(self, x):
            return self.modules_to_save["default"](x)

    class Inner(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.dense, self.classifier = Wrapped(), Saved()

        def forward(self, x):
            return self.classifier(torch.relu(self.dense(x)))

    class Base(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = Inner()

    class Model(torch.nn.Module):
        active_adapter = "default"

        def __init__(self):
            super().__init__()
            self.base_model = Base()
            for name, parameter in self.named_parameters():
                parameter.requires_grad = "lora_" in name or "modules_to_save" in name

        def forward(self, x):
            return self.base_model.model(x)

    torch.manual_seed(3)
    return Model()


def trained(model, context):
    """Three steps on examples of this client's own."""
    import torch

    draws = torch.Generator().manual_seed(sum(context.client.encode()))
    x = torch.randn(8, 4, generator=draws)
    labels = (x.sum(1) > 0).long()
    optimizer = torch.optim.SGD([each for each in model.parameters() if each.requires_grad], lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
    return float(loss)


SCENARIO = {
    "run": {"name": "adapters", "rounds": 3, "keep_models": "all"},
    "data": {"partition": {"clients": 4}},
    "server": {"clients_per_round": 4},
}


@packaged.needs_torch
class Adapters(packaged.ProgramTest):
    def setUp(self):
        super().setUp()
        self.work_in_folder()

    def test_a_run_moves_the_adapter_and_nothing_else(self):
        import numpy as np

        model = torn_model()
        base = copy.deepcopy(model.state_dict())
        section = rivulet.hf.scenario(model)
        self.assertEqual(section, {"model": {"arrays": "adapter.safetensors"}})
        run = rivulet.simulate(
            {**section, **SCENARIO}, client_fn=lambda name: rivulet.hf.client(torn_model(), trained, examples=8), workers=2
        )
        first, last = run.model(0), run.model()
        self.assertEqual(sorted(last), NAMES)
        for name in NAMES:
            self.assertGreater(abs(last[name] - first[name]).max(), 1e-3, name)
        losses = [row["train_loss"] for row in run.history.rows("SELECT train_loss FROM rounds ORDER BY round")]
        self.assertLess(losses[-1], losses[0])
        rivulet.hf.load(model, last)
        for name, array in rivulet.hf.params(model).items():
            self.assertTrue(np.array_equal(array, last[name]))
        for name, tensor in model.state_dict().items():
            if "base_layer" in name or "original_module" in name:
                self.assertTrue((tensor == base[name]).all(), name)

    def test_a_frozen_A_keeps_its_first_values(self):
        import numpy as np

        section = rivulet.hf.scenario(torn_model(), path="a.safetensors", freeze_a=True)
        self.assertEqual(section["model"]["freeze"], ["base_model.model.dense.lora_A.weight"])
        scenario = {**SCENARIO, "server": {"clients_per_round": 4, "lora": "freeze_a"}}

        def of_b(name):
            model = torn_model()
            model.base_model.model.dense.lora_A.requires_grad_(False)
            return rivulet.hf.client(model, trained, examples=8)

        run = rivulet.simulate({**section, **scenario}, client_fn=of_b, workers=1)
        first, last = run.model(0), run.model()
        self.assertTrue(np.array_equal(first[NAMES[1]], last[NAMES[1]]))
        self.assertFalse(np.array_equal(first[NAMES[2]], last[NAMES[2]]))

    def test_stacked_adapters_are_of_peft_s_layout_too(self):
        scenario = {**SCENARIO, "server": {"clients_per_round": 4, "lora": "stack"}}
        run = rivulet.simulate(
            {**rivulet.hf.scenario(torn_model()), **scenario},
            client_fn=lambda name: rivulet.hf.client(torn_model(), trained, examples=8),
            workers=2,
        )
        dropped = [row["value"] for row in run.history.rows("SELECT value FROM metrics WHERE name = 'server/lora_dropped'")]
        self.assertEqual(len(dropped), 3)
        losses = [row["train_loss"] for row in run.history.rows("SELECT train_loss FROM rounds ORDER BY round")]
        self.assertLess(losses[-1], losses[0])

    def test_clients_of_ranks_4_8_and_16_stack_to_the_mean_of_their_products(self):
        import numpy as np
        import torch

        ranks = dict(zip(("client-00000", "client-00001", "client-00002"), (4, 8, 16)))
        inputs, outputs = 16, 24  # no product has a rank beyond 16, so that the cut drops nothing

        def moves(rank):
            draws = np.random.default_rng(rank)
            return [draws.normal(0, 0.1, shape).astype(np.float32) for shape in ((rank, inputs), (outputs, rank))]

        def moved(model, context):
            dense = model.base_model.model.dense
            factors = dense.lora_A["default"].weight, dense.lora_B["default"].weight
            with torch.no_grad():
                for factor, move in zip(factors, moves(ranks[context.client])):
                    factor += torch.tensor(move)

        scenario = {
            "run": {"name": "ranks", "rounds": 2, "keep_models": "all"},
            "data": {"partition": {"clients": 3}},
            "server": {"clients_per_round": 3, "lora": "stack"},
        }
        run = rivulet.simulate(
            {**rivulet.hf.scenario(torn_model(16, inputs, outputs)), **scenario},
            client_fn=lambda name: rivulet.hf.client(torn_model(ranks[name], inputs, outputs), moved, examples=8),
            workers=1,
        )
        for round in (1, 2):
            a, b = (run.model(round - 1)[name].astype(np.float64) for name in NAMES[1:])
            products = [(b[:, :rank] + by_b) @ (a[:rank] + by_a) for rank in ranks.values() for by_a, by_b in [moves(rank)]]
            a, b = (run.model(round)[name].astype(np.float64) for name in NAMES[1:])
            np.testing.assert_allclose(b @ a, sum(products) / 3, rtol=0, atol=1e-6)
        dropped = [row["value"] for row in run.history.rows("SELECT value FROM metrics WHERE name = 'server/lora_dropped'")]
        self.assertLess(max(dropped), 1e-9)

    def test_a_client_of_a_smaller_rank_sends_zeros_beyond_it(self):
        import numpy as np

        runs = {name: np.ones(shape, np.float32) for name, shape in zip(NAMES, ((3, 5), (6, 4), (5, 6)))}
        came = rivulet.hf.client(torn_model(), trained, examples=8).fit(dict(runs), rivulet.Context(client="a")).arrays
        for name, first, rest in ((NAMES[1], np.s_[:2], np.s_[2:]), (NAMES[2], np.s_[:, :2], np.s_[:, 2:])):
            self.assertEqual(came[name].shape, runs[name].shape)
            self.assertFalse((came[name][first] == 1).all(), name)
            self.assertTrue((came[name][rest] == 0).all(), name)
        model = torn_model()
        model.base_model.model.dense.lora_A.requires_grad_(False)
        came = rivulet.hf.client(model, trained, examples=8).fit(dict(runs), rivulet.Context(client="a")).arrays
        self.assertTrue((came[NAMES[1]] == 1).all(), "a frozen A is sent as it came")
        with self.assertRaisesRegex(rivulet.RivuletError, "but for a smaller r at a client"):
            rivulet.hf.client(torn_model(7), trained, examples=8).fit(dict(runs), rivulet.Context(client="a"))

    def test_a_client_measures_a_version(self):
        client = rivulet.hf.client(torn_model(), trained, lambda model, context: {"loss": 2.5, "exact_match": 0.5}, examples=8)
        told = client.evaluate(rivulet.hf.params(client.model), rivulet.Context(client="a"))
        self.assertEqual((told.examples, dict(told.metrics)), (8, {"loss": 2.5, "exact_match": 0.5}))
        with self.assertRaises(NotImplementedError):
            rivulet.hf.client(torn_model(), trained, examples=8).evaluate({}, rivulet.Context())

    def test_adapters_of_another_configuration_are_refused(self):
        import numpy as np

        model = torn_model()
        before = rivulet.hf.params(model)
        for change, sentence in (
            ({NAMES[1]: np.zeros((3, 4), np.float32)}, "is \\(3, 4\\) in the run and \\(2, 4\\) in the model"),
            ({"other": np.zeros(1, np.float32)}, "'other' is missing in the model"),
        ):
            with self.assertRaisesRegex(rivulet.RivuletError, sentence):
                rivulet.hf.load(model, {**before, **change})
        with self.assertRaisesRegex(rivulet.RivuletError, "is missing in the run"):
            rivulet.hf.load(model, {NAMES[0]: before[NAMES[0]]})
        for name, array in rivulet.hf.params(model).items():
            self.assertTrue(np.array_equal(array, before[name]))

    def test_models_without_an_adapter_are_refused(self):
        import torch

        plain = torch.nn.Linear(2, 2)
        with self.assertRaisesRegex(rivulet.RivuletError, "no single active adapter"):
            rivulet.hf.client(plain, trained, examples=1)
        plain.active_adapter = "default"
        with self.assertRaisesRegex(rivulet.RivuletError, "has no LoRA tensors"):
            rivulet.hf.scenario(plain)
        half = torn_model()
        half.base_model.model.dense.lora_A.half()
        with self.assertRaisesRegex(rivulet.RivuletError, "autocast_adapter_dtype"):
            rivulet.hf.params(half)


@packaged.needs_torch
@unittest.skipUnless(packaged.installed("peft") and packaged.installed("transformers"), "needs PEFT and transformers")
class WithPeft(packaged.ProgramTest):
    def setUp(self):
        super().setUp()
        self.work_in_folder()

    def test_names_are_those_of_pefts_file(self):
        import peft
        import transformers

        config = transformers.GPT2Config(vocab_size=11, n_positions=8, n_embd=8, n_layer=1, n_head=2)
        model = peft.get_peft_model(
            transformers.GPT2LMHeadModel(config),
            peft.LoraConfig(r=2, target_modules=["c_attn", "wte"], modules_to_save=["ln_f"], fan_in_fan_out=True),
        )
        model.save_pretrained("saved")
        saved = rivulet.load_safetensors("saved/adapter_model.safetensors")
        ours = rivulet.hf.params(model)
        self.assertEqual(sorted(ours), sorted(name for name in saved if "wte.weight" not in name and "lm_head" not in name))
        for name, array in ours.items():
            self.assertTrue((array == saved[name]).all(), name)


if __name__ == "__main__":
    harness.main()
