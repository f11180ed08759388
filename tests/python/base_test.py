"""model.base: tensors that no task changes are fetched once, and no version has them."""

import os
import pathlib
import unittest
import unittest.mock

import packaged
import rivulet
from arrays_test import safetensors
from client_test import Federation

SCENARIO = """
[run]
name = "adapter"
rounds = 3
seed = 7

[model]
arrays = "adapter.safetensors"
base = "base.safetensors"

[data]
partition = { clients = 2 }

[server]
clients_per_round = 2
"""
ROWS = 499  # so that tensors do not end at a multiple of 64 bytes


class Adapting(rivulet.Client):
    """Adds a number that follows from the base to the adapter, and keeps what it was given."""

    examples = 10

    def __init__(self):
        self.bases, self.names = [], []

    def fit(self, params, context):
        import numpy as np

        self.bases.append(context.base)
        self.names.append(list(params))
        assert params["layer.weight"].shape == (ROWS, ROWS) and not params["layer.weight"].flags.writeable
        assert params["layer.bias"].dtype == "float32"  # from bfloat16
        step = np.float32(params["layer.weight"][3, 4] + params["layer.bias"][0])
        return rivulet.Params(
            {"lora_A": params["lora_A"] + step, "lora_B": params["lora_B"], "layer.weight": params["layer.weight"]},
            examples=10,
            metrics={"train_loss": 1.0},
        )


class Changing(Adapting):
    def fit(self, params, context):
        changed = params["layer.weight"].copy()
        changed[0, 0] += 1
        return rivulet.Params(
            {"lora_A": params["lora_A"], "lora_B": params["lora_B"], "layer.weight": changed},
            examples=10,
            metrics={"train_loss": 1.0},
        )


@packaged.needs_grpc
class Bases(Federation):
    def setUp(self):
        super().setUp()
        import numpy as np

        draws = np.random.default_rng(3)
        self.weight = draws.normal(0, 1, (ROWS, ROWS)).astype("<f4")
        self.bias = (np.arange(ROWS) % 7).astype("<f4")
        self.write_base()
        a, b = draws.normal(0, 1, (ROWS, 4)).astype("<f4"), np.zeros((4, ROWS), "<f4")
        self.write(
            "adapter.safetensors",
            safetensors({"lora_A": ("F32", [ROWS, 4], a.tobytes()), "lora_B": ("F32", [4, ROWS], b.tobytes())}),
        )
        self.a = a
        self.adapter_bytes = a.nbytes + b.nbytes
        environment = dict(os.environ, XDG_CACHE_HOME=self.path("cache"))
        patch = unittest.mock.patch.dict(os.environ, environment)
        patch.start()
        self.addCleanup(patch.stop)

    def tensors(self):
        halves = (self.bias.view("<u4") >> 16).astype("<u2")
        return {
            "layer.bias": ("BF16", [ROWS], halves.tobytes()),
            "layer.weight": ("F32", [ROWS, ROWS], self.weight.tobytes()),
        }

    def write_base(self, name="base.safetensors"):
        return self.write(name, safetensors(self.tensors()))

    def write_shards(self, folder):
        import json

        tensors = self.tensors()
        pathlib.Path(self.path(folder)).mkdir()
        files = {name: f"model-{i}.safetensors" for i, name in enumerate(tensors)}
        for name, file in files.items():
            self.write(f"{folder}/{file}", safetensors({name: tensors[name]}))
        self.write(f"{folder}/model.safetensors.index.json", json.dumps({"weight_map": files}))
        return self.path(folder)

    def clients(self, kinds=(Adapting, Adapting), **keywords):
        """Runs a client of each kind to the end of the run."""
        clients = [kind() for kind in kinds]
        threads = [
            self.in_thread(client, f"client {i}", **{key: value(i) if callable(value) else value for key, value in keywords.items()})
            for i, client in enumerate(clients)
        ]
        for thread, told in threads:
            self.ends(thread, told, "the run has finished after round 3")
        self.assertEqual(self.coordinator.wait(60), 0)
        return clients

    def bytes_down(self):
        rows = self.query("SELECT round, client_id, bytes_down FROM client_rounds WHERE kind = 'train' ORDER BY rowid")
        return {(round_, client): down for round_, client, down in rows}

    def digest_of_base(self):
        from rivulet._base import Base

        return Base(self.path("base.safetensors")).digest

    def test_the_base_travels_once_and_is_in_no_version(self):
        self.coordinate(SCENARIO)
        clients = self.clients(base_dir=lambda i: self.path(f"bases {i}"))
        base_bytes = self.weight.nbytes + self.bias.nbytes // 2
        # What is fetched at first has the plan too.
        for (round_, client), down in self.bytes_down().items():
            fetched = self.adapter_bytes + (base_bytes if round_ == 1 else 0)
            self.assertGreaterEqual(down, fetched, (round_, client))
            self.assertLessEqual(down, fetched + 4096, (round_, client))
        for file in pathlib.Path(self.path("runs.sqlite.models")).rglob("round-*.safetensors"):
            self.assertLessEqual(file.stat().st_size, self.adapter_bytes + 4096)
        digest = self.digest_of_base()
        for i, client in enumerate(clients):
            self.assertEqual(set(client.bases), {self.path(f"bases {i}/{digest}.safetensors")})
            self.assertEqual(client.names[0], ["lora_A", "lora_B", "layer.bias", "layer.weight"])
        self.run_rivulet("runs", "verify", "latest", "--db", self.path("runs.sqlite"), code=0)
        # Whoever reads a version finds the base, or learns what is missing.
        run = rivulet.open(self.path("runs.sqlite")).run("latest")
        model = run.model()
        self.assertEqual(list(model), ["lora_A", "lora_B", "layer.bias", "layer.weight"])
        self.assertTrue((model["layer.weight"] == self.weight).all())
        self.assertEqual(list(run.model(base=False)), ["lora_A", "lora_B"])
        self.assertFalse((model["lora_A"] == self.a).all())
        pathlib.Path(self.path("base.safetensors")).rename(self.path("elsewhere.safetensors"))
        with self.assertRaisesRegex(rivulet.RivuletError, f"needs the base {digest}, and .*base.safetensors.*base=FILE"):
            run.model()
        self.assertTrue((run.model(base=self.path("elsewhere.safetensors"))["layer.bias"] == self.bias).all())

    def test_a_second_run_fetches_nothing_and_two_clients_of_a_machine_fetch_once(self):
        self.coordinate(SCENARIO)
        self.clients()
        base_bytes = self.weight.nbytes
        first = [down for (round_, _), down in self.bytes_down().items() if round_ == 1]
        self.assertEqual(sum(down > base_bytes for down in first), 1, first)
        self.relay.stop()
        self.coordinate(SCENARIO)
        self.clients()
        newest = self.query("SELECT bytes_down FROM client_rounds WHERE run_id = (SELECT run_id FROM runs ORDER BY created_at DESC LIMIT 1)")
        self.assertEqual(len(newest), 6)
        for (down,) in newest:
            self.assertLessEqual(down, self.adapter_bytes + 4096)

    def test_own_copies_are_compared_and_nothing_of_them_travels(self):
        digest = self.digest_of_base()
        shards = self.write_shards("shards")
        self.coordinate(SCENARIO.replace("[server]", "[server]\nserve_base = false"))
        self.weight[0, 0] += 1
        changed = self.write_base("changed.safetensors")
        self.weight[0, 0] -= 1
        thread, told = self.in_thread(Adapting(), "client 0", base={digest: changed})
        thread.join(60)
        self.assertRegex(str(told[0]), f"changed.safetensors' has digest [0-9a-f]{{64}}, and not {digest}")
        self.clients(base={digest: shards})
        for down in self.bytes_down().values():
            self.assertLessEqual(down, self.adapter_bytes + 4096)
        self.assertFalse(pathlib.Path(self.path("cache")).exists())

    def test_a_client_without_its_own_copy_learns_how_to_give_it(self):
        digest = self.digest_of_base()
        self.coordinate(
            SCENARIO.replace("[server]", '[server]\nserve_base = false\nmax_attempts = 1').replace("rounds = 3", "rounds = 1")
        )
        with self.assertLogs("rivulet", "ERROR") as logs:
            threads = [self.in_thread(Adapting(), f"client {i}") for i in range(2)]
            for thread, told in threads:
                thread.join(120)
                self.assertTrue(told)
        self.assertRegex(
            "\n".join(logs.output),
            f"the base {digest} is not here, and the coordinator does not send it: .*server.serve_base = false.*"
            rf"rivulet.run_client\(..., base={{'{digest}': FILE}}\)",
        )
        errors = {error for (error,) in self.query("SELECT error FROM client_rounds WHERE status = 'failed'")}
        self.assertRegex(" ".join(errors), "does not have the plan's base")

    def test_a_download_that_was_cut_off_resumes_and_a_damaged_copy_is_fetched_again(self):
        digest = self.digest_of_base()
        self.coordinate(SCENARIO)
        folder = pathlib.Path(self.path("bases"))
        folder.mkdir()
        self.clients(base_dir=folder)
        kept = folder / f"{digest}.safetensors"
        whole = kept.read_bytes()
        half = len(whole) // 2
        for content, name, fetched in [
            (whole[:half], f"{digest}.part", len(whole) - half),
            (whole[:-1] + bytes([whole[-1] ^ 1]), f"{digest}.safetensors", len(whole)),
        ]:
            kept.unlink()
            (folder / name).write_bytes(content)
            self.relay.stop()
            self.coordinate(SCENARIO)
            self.clients(base_dir=folder)
            self.assertEqual(kept.read_bytes(), whole)
            newest = self.query(
                "SELECT sum(bytes_down) FROM client_rounds WHERE round = 1 AND run_id = (SELECT run_id FROM runs ORDER BY created_at DESC LIMIT 1)"
            )
            self.assertLessEqual(abs(newest[0][0] - fetched - 2 * self.adapter_bytes), 2 * 4096, name)

    def test_a_simulation_gives_the_versions_of_a_deployed_run(self):
        self.coordinate(SCENARIO)
        self.clients()
        deployed = self.digests()
        run = rivulet.simulate(
            self.scenario, client_fn=lambda name: Adapting(), workers=2, db=self.path("simulated.sqlite")
        )
        self.assertEqual(run.status, "finished")
        self.assertEqual(self.digests("simulated.sqlite"), deployed)

    def test_the_folder_of_bases_is_bounded_and_the_oldest_gives_way(self):
        self.coordinate(SCENARIO)
        folder = pathlib.Path(self.path("bases"))
        folder.mkdir()
        for i, name in enumerate(["a" * 64, "b" * 64]):
            (folder / f"{name}.safetensors").write_bytes(bytes(1_000_000))
            os.utime(folder / f"{name}.safetensors", (1000 - i, 1000 - i))
        self.clients(base_dir=folder, base_megabytes=4)
        self.assertEqual(
            sorted(path.name[:3] for path in folder.glob("*.safetensors")), sorted(["aaa", self.digest_of_base()[:3]])
        )

    def test_a_base_that_was_changed_is_refused_by_both_sides(self):
        digest = self.digest_of_base()
        # In place, while a coordinator has it open: its clients refuse it.
        self.coordinate(SCENARIO)
        with open(self.path("base.safetensors"), "r+b") as file:
            file.seek(-1, os.SEEK_END)
            (last,) = file.read(1)
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last ^ 1]))
        with self.assertLogs("rivulet", "ERROR") as logs:
            threads = [self.in_thread(Adapting(), f"client {i}") for i in range(2)]
            self.wait_for(lambda: any("sent a base of digest" in line for line in logs.output), "a refusal")
            self.coordinator.terminate()
            self.coordinator.wait(60)
        self.assertRegex("\n".join(logs.output), f"the coordinator sent a base of digest [0-9a-f]{{64}} for {digest}")
        # The coordinator itself, when the run is resumed.
        resumed = self.run_rivulet(
            "coordinator", self.scenario, "--listen", "127.0.0.1:0", "--insecure", "--db", self.path("runs.sqlite"),
            "--resume", "latest", *self.arguments,
        )  # fmt: skip
        self.assert_refused(resumed, "base.safetensors' has digest", digest, "unchanged")
        # The right one may be anywhere.
        self.write_base("restored.safetensors")
        self.start_coordinator("--resume", "latest", "--set", f"model.base={self.path('restored.safetensors')}")
        for thread, told in threads:
            self.ends(thread, told, "the run has finished after round 3")

    def test_a_client_that_changes_the_base_is_told(self):
        self.coordinate(SCENARIO.replace("[server]", "[server]\nmax_attempts = 1"))
        with self.assertLogs("rivulet", "ERROR") as logs:
            threads = [self.in_thread(kind(), f"client {i}") for i, kind in enumerate((Changing, Changing))]
            for thread, told in threads:
                thread.join(120)
        self.assertRegex("\n".join(logs.output), "fit changed 'layer.weight', which is of the base")


if __name__ == "__main__":
    unittest.main()
