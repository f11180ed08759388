"""What synchronous runs of federated averaging compute is frozen: the digest of the model after every round, who was
drawn, and the norm of every update. A change of the program that changes one of them has changed somebody's results.

Under `--kernels portable`, whose bits no processor changes. `RIVULET_FREEZE=1` writes frozen_digests.json anew instead of
comparing: for a new kind of run, never for one that differs."""
import hashlib
import json
import os
import pathlib

from harness import RivuletTest, main

FROZEN = pathlib.Path(__file__).with_name("frozen_digests.json")

CONVOLUTIONS = ('[{ type = "conv2d", filters = 4, size = 3, stride = 2 }, { type = "batch_norm" }, { type = "activation", function = "relu" }, '
                '{ type = "max_pool", size = 2 }, { type = "flatten" }, { type = "dropout", rate = 0.25 }, { type = "dense", units = 10 }]')

# Each of two to four rounds: what is common is in the harness's scenario.
RUNS = {
    "logistic_regression": {},
    "one_step_each": {"client.epochs": 1, "client.batch_size": 64, "server.clients_per_round": 6},
    "by_key": {"data.partition.kind": "by_key", "data.partition.clients": 0, "server.clients_per_round": 5},
    "shards_server_rate_bounds": {"data.partition.kind": "shards", "server.learning_rate": 0.5, "server.value_bits": 3,
                                  "server.max_weight": 100},
    "mlp_momentum_cosine": {"model.preset": "mlp", "client.optimizer.kind": "momentum", "client.schedule.kind": "cosine",
                            "run.rounds": 3, "server.clients_per_round": 2},
    "mlp_adam_clip": {"model.preset": "mlp", "client.optimizer.kind": "adam", "client.optimizer.learning_rate": 0.001,
                      "client.optimizer.clip_norm": 1.0, "run.rounds": 2, "server.clients_per_round": 2},
    "bfloat16_dynamic_loss_scale": {"client.precision": "bfloat16", "client.loss_scale.kind": "dynamic", "run.rounds": 2},
    "layers_batch_norm_dropout": {"model.layers": CONVOLUTIONS, "model.preset": "", "model.input.shape": "[28, 28, 1]",
                                  "run.rounds": 2, "server.clients_per_round": 2},
    "mnist_cnn": {"model.preset": "mnist_cnn", "client.epochs": 1, "run.rounds": 1, "server.clients_per_round": 2},
}

TEXT = """
[run]
name = "text"
rounds = 2
seed = 5

[model]
preset = "tiny_transformer"

[data]
train = "plays/train.tfrecord"
partition = { kind = "by_key", key = "speaker" }

[client]
batch_size = 4
optimizer = { kind = "sgd", learning_rate = 0.3 }

[server]
clients_per_round = 2
"""


def sha256(rows):
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


class FrozenDigests(RivuletTest):
    maxDiff = None

    def told(self, db="runs.sqlite"):
        rows = self.query("SELECT round, attempt, client_id, base_round, task_id, weight, update_norm FROM client_rounds "
                          "ORDER BY round, attempt, client_id", db=db)
        # A task's id begins with the run's, which is random, and ends with the client's ordinal at its base version.
        cohorts = [[*row[:4], row[4].rsplit("-", 1)[1]] for row in rows]
        return {"models": self.digests(db), "cohorts": sha256(cohorts), "norms": sha256([[*row[:3], *row[5:]] for row in rows])}

    def hold(self, name, told):
        frozen = json.loads(FROZEN.read_text()) if FROZEN.exists() else {}
        if os.environ.get("RIVULET_FREEZE") == "1":
            frozen[name] = told
            FROZEN.write_text(json.dumps(frozen, indent=1, sort_keys=True) + "\n")
        self.assertEqual(told, frozen[name])

    def run_of(self, settings, *arguments, command="simulate", db="runs.sqlite"):
        sets = [word for key, value in settings.items() if value != "" for word in ("--set", f"{key}={value}")]
        self.run_rivulet(command, self.scenario, "--db", self.path(db), "--kernels", "portable", *sets, *arguments, code=0)
        return self.told(db)

    def test_simulations(self):
        plain = pathlib.Path(self.scenario).read_text()
        for number, (name, settings) in enumerate(RUNS.items()):
            with self.subTest(name):
                self.write("tiny.toml", plain.replace('preset = "logistic_regression"', "") if "model.layers" in settings else plain)
                self.hold(name, self.run_of(settings, db=f"{number}.sqlite"))

    def test_resumed(self):
        self.run_of({}, "--rounds", 2)
        self.hold("logistic_regression", self.run_of({}, "--resume", "latest", "--rounds", 4))

    def test_deployed(self):
        self.hold("logistic_regression", self.run_of({}, "--clients", 6, command="up"))

    def test_text(self):
        self.write("play.txt", "\n".join(f"{speaker}:\n{(words * 40)[:200]}\n" for _ in range(4) for speaker, words in
                                         {"LORD": "aye, my lord, ", "FOOL": "hey ho, the wind and the rain, "}.items()))
        self.run_rivulet("data", "import", "shakespeare", "--from", "play.txt", "--out", "plays", code=0)
        self.scenario = self.write("text.toml", TEXT)
        self.hold("tiny_transformer", self.run_of({}))


if __name__ == "__main__":
    main()
