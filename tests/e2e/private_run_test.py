"""Runs with differential privacy as their users meet them: what is printed and stored of the spend, where the noise key is and is
not, and a site that stops when its own budget is spent."""
import json
import pathlib
import re
import subprocess

from harness import RIVULET, RivuletTest, main

CLIENT = str(pathlib.Path(RIVULET).with_name("rivulet-client"))
PRIVATE = ["--set", "algorithm.name=dp_fedavg", "--set", "algorithm.noise_multiplier=2", "--set", "privacy.clip=0.5"]
# Draws follow from a secret key, so each run has its own: of six clients one round in a million has nobody.
POISSON = ["--set", "selection.name=poisson", "--set", "selection.rate=0.9", "--set", "server.clients_per_round=5"]


class PrivateRuns(RivuletTest):
    def key(self, db):
        key, = self.folder.glob(f"{db}.models/*/noise.key")
        return key

    def test_what_is_told_of_the_spend(self):
        self.simulate(*PRIVATE, *POISSON, "--set", "privacy.epsilon=50", db="a.sqlite")
        rounds = self.query("SELECT round, epsilon, participant_epsilon, sampling_rate, delta FROM rounds", db="a.sqlite")
        for round, epsilon, participants, rate, delta in rounds:
            self.assertEqual((rate, delta), (0.9, 1e-5))
            self.assertLess(epsilon, participants)
            one = json.loads(self.run_rivulet("privacy", "epsilon", "--sigma", "2", "--rate", "0.9", "--rounds", str(round), "--delta",
                                              "1e-5", "--json", code=0).out)
            self.assertAlmostEqual(epsilon, one["epsilon"], delta=1e-3 * epsilon)
        shown = self.run_rivulet("runs", "show", "latest", "--db", self.path("a.sqlite"), code=0).out
        shown = re.sub(r"\s+", " ", shown)
        self.assertIn(f"epsilon {rounds[-1][1]:.4g} at delta 1e-05 against viewers of the models, of a budget of 50", shown)
        self.assertIn(f"epsilon {rounds[-1][2]:.4g} at delta 1e-05 against participants, who know who took part", shown)
        self.assertIn("unit: one client; neighbours: add-remove", shown)
        told = json.loads(self.run_rivulet("runs", "show", "latest", "--db", self.path("a.sqlite"), "--json", code=0).out)
        self.assertEqual(told["privacy/epsilon"], rounds[-1][1])
        self.run_rivulet("runs", "plot", "latest", "--metric", "privacy/epsilon", "--out", self.path("spend.svg"), "--db",
                         self.path("a.sqlite"), code=0)
        self.assertIn("privacy/epsilon", (self.folder / "spend.svg").read_text())
        said = self.query("SELECT message FROM events WHERE source = 'privacy'", db="a.sqlite")
        self.assertRegex(said[0][0], r"noise of 2 times the clip on the sums, secret; the unit is one client")

    def test_the_noise_key_is_the_runs_alone(self):
        self.simulate(*PRIVATE, db="a.sqlite")
        key = self.key("a.sqlite")
        self.assertEqual(key.stat().st_mode & 0o777, 0o600)
        secret = key.read_text().split()[-1]
        self.run_rivulet("runs", "verify", "latest", "--db", self.path("a.sqlite"), code=0)
        self.run_rivulet("simulate", self.scenario, "--replay", "latest", "--db", self.path("a.sqlite"), code=0)
        self.run_rivulet("backup", "--db", "a.sqlite", "--out", "copy.sqlite", code=0)
        self.run_rivulet("runs", "export", "latest", "--json", self.path("run.json"), "--db", self.path("a.sqlite"), code=0)
        for path in self.folder.rglob("*"):
            if path.is_file() and path != key:
                self.assertNotIn(secret.encode(), path.read_bytes(), path)
                self.assertNotEqual(path.name, "noise.key")

    def test_rounds_that_draw_nobody_release_noise_and_are_repeated(self):
        rare = ["--set", "selection.name=poisson", "--set", "selection.rate=0.001", "--set", "server.clients_per_round=5"]
        self.simulate(*PRIVATE, *rare, db="a.sqlite")
        rounds = self.query("SELECT status, selected, epsilon FROM rounds ORDER BY round", db="a.sqlite")
        self.assertEqual({row[0] for row in rounds}, {"committed"})
        self.assertTrue(all(before[2] < after[2] for before, after in zip(rounds, rounds[1:])), rounds)
        self.assertEqual(len(set(self.digests("a.sqlite"))), 4, "noise moves every version")
        self.run_rivulet("simulate", self.scenario, "--db", self.path("a.sqlite"), "--replay", "latest", *PRIVATE, *rare, code=0)

    def test_a_site_stops_when_its_own_budget_is_spent(self):
        three = ["--set", "data.partition.clients=3", "--set", "server.clients_per_round=3", "--set", "server.min_reports=2", "--set",
                 "run.rounds=3"]
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("records"), *three, code=0)
        one = json.loads(self.run_rivulet("privacy", "epsilon", "--sigma", "2", "--rounds", "1", "--delta", "1e-5", "--relation",
                                          "replace-one", "--json", code=0).out)["epsilon"]
        self.write("site.toml", f"[privacy]\nmax_epsilon = {one * 1.01}\nmin_cohort = 3\n")
        coordinator = self.start("coordinator", self.scenario, *three, *PRIVATE, "--listen", "127.0.0.1:0", "--insecure", "--db",
                                 "runs.sqlite")
        port = coordinator.stdout.readline().strip().rsplit(":", 1)[-1]
        clients = []
        for i in range(3):
            clients.append(subprocess.Popen(
                [CLIENT, "--coordinator", f"127.0.0.1:{port}", "--insecure", "--name", f"client-{i:05}", "--data",
                 f"train=records/client-{i:05}.tfrecord", "--state", f"state-{i}", *(["--policy", "site.toml"] if i == 0 else [])],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder))
        self.processes += clients
        said = [client.communicate(timeout=120)[1] for client in clients]
        coordinator.communicate(timeout=60)
        self.assertEqual([client.returncode for client in clients], [0, 0, 0], said)
        self.assertIn("privacy ledger: epsilon 0 of", said[0])
        rows = self.query("SELECT round, status, error FROM client_rounds WHERE client_id = 'client-00000' ORDER BY round")
        self.assertEqual([row[1] for row in rows], ["folded", "failed", "failed"], said[0])
        self.assertIn("its own configuration forbids it: privacy budget", rows[1][2])
        self.assertEqual(self.query("SELECT count(*) FROM rounds WHERE status = 'committed'"), [(3,)])
        ledger = (self.folder / "state-0/privacy/plaintext.ledger").read_text().splitlines()
        self.assertEqual(ledger[:2], ["rivulet privacy ledger 1", "charged 1 1"])
        self.assertEqual(len(ledger), 3)


    EXAMPLES = ["--set", "privacy.unit=example", "--set", "privacy.clip=1", "--set", "privacy.noise=2"]

    def test_single_examples_have_accounts_and_a_key_that_stays(self):
        self.simulate(*self.EXAMPLES, db="a.sqlite")
        folder, = self.folder.glob("a.sqlite.models/*")
        accounts = json.loads(self.run_rivulet("privacy", "accounts", str(folder), "--json", code=0).out)
        # Six clients of 16 examples or fewer; two epochs of at most four steps a task.
        tasks = dict(self.query("SELECT client_id, count(*) FROM client_rounds WHERE status = 'folded' GROUP BY 1", db="a.sqlite"))
        self.assertEqual(sorted(account["client"] for account in accounts), sorted(tasks))
        for account in accounts:
            self.assertEqual(account["steps"] % tasks[account["client"]], 0)
        key = folder / "examples/noise.key"
        self.assertEqual(key.stat().st_mode & 0o777, 0o600)
        self.run_rivulet("runs", "verify", "latest", "--db", self.path("a.sqlite"), code=0)
        self.run_rivulet("backup", "--db", "a.sqlite", "--out", "copy.sqlite", code=0)
        secret = key.read_text().split()[-1]
        for path in self.folder.rglob("*"):
            if path.is_file() and path != key:
                self.assertNotIn(secret.encode(), path.read_bytes(), path)

    def test_a_clients_account_is_in_its_state_and_goes_on_in_its_next_run(self):
        two = ["--set", "data.partition.clients=2", "--set", "server.clients_per_round=2", "--set", "server.min_reports=2"]
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("records"), *two, code=0)
        seen = []
        for rounds in (2, 1):
            coordinator = self.start("coordinator", self.scenario, *two, *self.EXAMPLES, "--rounds", str(rounds), "--listen", "127.0.0.1:0",
                                     "--insecure", "--db", "runs.sqlite")
            port = coordinator.stdout.readline().strip().rsplit(":", 1)[-1]
            clients = [subprocess.Popen(
                [CLIENT, "--coordinator", f"127.0.0.1:{port}", "--insecure", "--name", f"client-{i:05}", "--data",
                 f"train=records/client-{i:05}.tfrecord", "--state", f"state-{i}"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder) for i in range(2)]
            self.processes += clients
            said = [client.communicate(timeout=120)[1] for client in clients]
            coordinator.communicate(timeout=60)
            self.assertEqual([client.returncode for client in clients], [0, 0], said)
            accounts = [json.loads(self.run_rivulet("privacy", "accounts", f"state-{i}", "--json", code=0).out) for i in range(2)]
            for i, account in enumerate(accounts):
                self.assertEqual([one["client"] for one in account], [f"client-{i:05}"])
            seen.append(accounts[0][0])
            self.assertEqual(self.query("SELECT count(*) FROM client_rounds WHERE train_loss IS NOT NULL"), [(0,)])
        self.assertEqual((self.folder / "state-0/examples/noise.key").stat().st_mode & 0o777, 0o600)
        self.assertNotEqual((self.folder / "state-0/examples/noise.key").read_text(), (self.folder / "state-1/examples/noise.key").read_text())
        self.assertEqual(seen[1]["steps"], seen[0]["steps"] // 2 * 3)
        self.assertGreater(seen[1]["epsilon"], seen[0]["epsilon"])

    def test_local_noise_says_what_each_client_spends(self):
        local = ["--set", "algorithm.name=dp_fedavg", "--set", "algorithm.noise=local", "--set", "algorithm.noise_multiplier=8", "--set",
                 "privacy.clip=0.5"]
        self.simulate(*local, db="a.sqlite")
        rounds = self.query("SELECT round, epsilon, participant_epsilon, noise_multiplier FROM rounds ORDER BY round", db="a.sqlite")
        for round, epsilon, participants, multiplier in rounds:
            self.assertEqual(epsilon, participants)
            one = json.loads(self.run_rivulet("privacy", "epsilon", "--noise", "discrete-laplace", "--relation", "replace-one", "--sigma",
                                              repr(multiplier), "--sensitivity", "1000", "--dimension", "100", "--rounds", str(round),
                                              "--delta", "1e-5", "--json", code=0).out)
            self.assertAlmostEqual(epsilon, one["epsilon"], delta=1e-6 * epsilon)
        self.assertEqual(self.query("SELECT count(*) FROM client_rounds WHERE train_loss IS NOT NULL", db="a.sqlite"), [(0,)])
        shown = self.run_rivulet("runs", "show", "latest", "--db", self.path("a.sqlite"), code=0).out
        self.assertIn("of a client that took part in every", " ".join(shown.split()))
        self.assertIn("epsilon 0.25 of each task", " ".join(shown.split()))
        refused = self.run_rivulet("simulate", self.scenario, "--db", self.path("b.sqlite"), *local, "--set", "privacy.secure=arithmetic",
                                   code=2)
        self.assertIn('set privacy.secure = "none"', refused.err)

    def test_workers_change_no_bit_of_single_examples(self):
        models = []
        for workers in (1, 2, 3):
            db = f"w{workers}.sqlite"
            self.simulate(*self.EXAMPLES, "--set", "privacy.noise_source=seeded", "--workers", workers, db=db)
            models.append(self.query("SELECT model_digest FROM rounds ORDER BY round", db=db))
        self.assertEqual(models[1:], [models[0]] * 2)

    def test_spent_budgets_of_single_examples_end_the_run(self):
        ended = self.run_rivulet("simulate", self.scenario, "--db", self.path("b.sqlite"), *self.EXAMPLES, "--set", "privacy.epsilon=3",
                                 "--rounds", 30, code=1)
        self.assertIn("would spend more than epsilon 3 (privacy.epsilon) of the examples of client", ended.err)
        folder, = self.folder.glob("b.sqlite.models/*")
        accounts = json.loads(self.run_rivulet("privacy", "accounts", str(folder), "--json", code=0).out)
        self.assertTrue(all(0 < account["epsilon"] <= 3 for account in accounts), accounts)
        self.assertGreater(self.query("SELECT count(*) FROM rounds WHERE status = 'committed'", db="b.sqlite")[0][0], 1)


if __name__ == "__main__":
    main()
