"""A running coordinator as its operators meet it, over mutual TLS and as processes: who takes part and who may, runs that are
submitted, paused, ended; what a restart knows of it; and that nobody else may."""
import json
import os
import pathlib
import re
import signal
import urllib.request

from harness import RivuletTest, main

DB = "operations.sqlite"
CLIENTS = 3
SETS = ["--set", f"data.partition.clients={CLIENTS}", "--set", f"server.clients_per_round={CLIENTS}"]


class Operations(RivuletTest):
    def setUp(self):
        super().setUp()
        self.run_rivulet("ca", "init", "--name", "study", code=0)
        for name, *more in (["coordinator/localhost", "--host", "127.0.0.1"], ["operator/alice"]):
            self.run_rivulet("ca", "issue", name, *more, "--out", name.split("/")[0], code=0)
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("clients"), *SETS, code=0)
        self.names = sorted(path.stem for path in (self.folder / "clients").glob("*.tfrecord"))
        for name in self.names:
            self.run_rivulet("ca", "issue", f"client/{name}", "--out", name, code=0)

    def start_coordinator(self, *arguments, port=0):
        process = self.start("coordinator", *arguments, "--listen", f"127.0.0.1:{port}", "--tls", "coordinator", "--db", DB)
        line = process.stdout.readline()
        match = re.fullmatch(r"listening on 127\.0\.0\.1:(\d+)\n", line)
        if not match:
            self.fail(f"{line}{process.stderr.read()}")
        self.port = int(match.group(1))
        return self.follow(process, "coordinator")

    def start_client(self, name, *more):
        return self.follow(self.start("client", "--coordinator", f"127.0.0.1:{self.port}", "--tls", name, "--data",
                                      f"train=clients/{name}.tfrecord", "--state", f"state-{name}", *more), name)

    def operate(self, *arguments, code=0, tls="operator"):
        return self.run_rivulet(*arguments, "--coordinator", f"127.0.0.1:{self.port}", "--tls", tls, code=code)

    def table(self, *arguments):
        return json.loads(self.operate(*arguments, "--json").out)

    def clients(self):
        return {row["client_id"]: row for row in self.table("clients")}

    def status(self, run=None):
        return self.table("status", *([run] if run else []))[0]

    def test_one_client_works_for_several_runs_on_several_data_sets(self):
        self.start_coordinator()
        self.start_client(self.names[0], "--data", f"ward=clients/{self.names[1]}.tfrecord")
        alone = ["--rounds", "3", "--set", "data.partition.clients=1", "--set", "server.clients_per_round=1"]
        runs = [json.loads(self.operate("submit", self.scenario, *alone, "--set", f"run.name={name}", "--set",
                                        f"data.name={name}", "--json").out)["run_id"] for name in ("train", "ward")]
        for run in runs:
            self.wait_for(lambda: self.status(run)["state"] == "finished", f"the end of {run}")
        self.assertNotEqual(self.digests(DB, runs[0]), self.digests(DB, runs[1]), "other records give another model")

    def test_runs_that_are_submitted_paused_and_ended_outlived_by_their_clients(self):
        coordinator = self.start_coordinator("--http", "127.0.0.1:0")
        processes = {name: self.start_client(name, *(["--zstd"] if name != self.names[0] else [])) for name in self.names}
        for name in self.names:
            self.said(name, "waiting: the next run")
        self.assertEqual(self.table("status"), [])

        first = json.loads(self.operate("submit", self.scenario, *SETS, "--rounds", "2", "--json").out)["run_id"]
        self.wait_for(lambda: self.status(first)["state"] == "finished", "the first run's end")
        self.assertEqual(self.status(first)["round"], 2)
        self.simulate(*SETS, "--rounds", 2, db="alone.sqlite")
        self.assertEqual(self.digests(DB, first), self.digests("alone.sqlite"))

        # The second goes on for as long as this test likes.
        self.operate("submit", self.scenario, *SETS, "--rounds", "100000", "--set", "run.name=second")
        self.wait_for(lambda: self.status("second")["round"] > 2, "rounds of the second run")
        self.assertIn("is paused: ", self.operate("pause", "second", "--reason", "maintenance").out)
        self.wait_for(lambda: self.status("second")["state"] == "waiting", "the open round's end")
        paused = self.status("second")
        self.assertTrue(paused["paused"])
        self.assertRegex(paused["awaits"], r"the run is paused by its operator; round \d+ starts when it is resumed")
        self.said("coordinator", r"it shows at http://\S+")
        url = re.search(r"it shows at (http://127\.0\.0\.1:\d+/)", "".join(self.logs["coordinator"])).group(1)
        with urllib.request.urlopen(url + "run?id=second", timeout=20) as answer:
            page = answer.read().decode()
        self.assertIn('<span class="status paused">', page)
        self.assertIn("paused by alice: maintenance", page)
        clients = self.clients()
        self.assertEqual(sorted(clients), self.names)
        for row in clients.values():
            self.assertEqual((row["state"], row["task_id"], row["parent_id"]), ("connected", None, None), row)
            self.assertGreaterEqual(row["certificate_days_left"], 300)
            self.assertEqual(self.run_rivulet("version", code=0).out.split()[:2], ["rivulet", row["version"]])
        self.operate("resume", "second")
        self.wait_for(lambda: self.status("second")["round"] > paused["round"], "rounds after the pause")
        self.operate("stop", "second")
        self.wait_for(lambda: self.status("second")["state"] == "stopped", "the second run's end")

        # What Prometheus reads of all of it.
        self.said("coordinator", r"it shows at http://\S+")
        url = re.search(r"it shows at (http://127\.0\.0\.1:\d+/)", "".join(self.logs["coordinator"])).group(1)
        with urllib.request.urlopen(url + "metrics", timeout=20) as answer:
            self.assertEqual(answer.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
            metrics = answer.read().decode()
        self.assertIn('rivulet_clients{state="connected"} 3\n', metrics)
        self.assertIn(f'rivulet_run_round{{run_id="{first}",name="tiny"}} 2\n', metrics)
        self.assertIn(f'rivulet_run_tasks_total{{run_id="{first}",name="tiny",status="folded"}} {2 * CLIENTS}\n', metrics)
        for direction in "up", "down":  # two clients of the three have it packed
            moved, wire = (float(re.search(rf'^rivulet_transfer{kind}_bytes_total{{direction="{direction}"}} (\S+)$', metrics, re.M)
                                 .group(1)) for kind in ("", "_wire"))
            self.assertLess(0, wire)
            self.assertLess(wire, moved)
        self.assertRegex(metrics, r'rivulet_run_state\{run_id="second-\S+",name="second",state="stopped"\} 1\n')

        # Nobody else may do any of it, and an operator may not train.
        for arguments in (["status"], ["clients"], ["abort"], ["clients", "ban", self.names[0]]):
            result = self.operate(*arguments, code=1, tls=self.names[0])
            self.assertIn("is the folder of 'client/", result.err)
        result = self.run_rivulet("client", "--coordinator", f"127.0.0.1:{self.port}", "--tls", "operator", "--data",
                                  f"train=clients/{self.names[0]}.tfrecord", code=1)
        self.assertIn("is the folder of 'operator/alice'", result.err)

        self.assertEqual([(row["operator_id"], row["action"], row["detail"]) for row in self.table("clients", "audit")],
                         [("alice", "submit", None), ("alice", "submit", None), ("alice", "pause", "maintenance"),
                          ("alice", "resume", None), ("alice", "stop", None)])
        self.assertEqual(self.query("SELECT count(*), count(serial) FROM audit", db=DB), [(5, 5)])
        coordinator.send_signal(signal.SIGTERM)
        self.ends(coordinator, "coordinator")
        for name, process in processes.items():
            self.assertIsNone(process.poll(), f"{name} waits for its coordinator")
            process.send_signal(signal.SIGTERM)
            self.ends(process, name)

    def test_a_coordinator_without_a_scenario_takes_nothing_that_belongs_to_one(self):
        for option, value in (("--plan", "a.plan"), ("--set", "run.rounds=2"), ("--rounds", 2), ("--seed", 2), ("--kernels", "portable")):
            with self.subTest(option):
                result = self.run_rivulet("coordinator", "--listen", "127.0.0.1:0", "--tls", "coordinator", "--db", DB, option, value,
                                          timeout=20)
                self.assert_refused(result, f"{option} needs a run from the command line", "rivulet submit", code=2)

    def submit_with_files(self, files, *arguments, code=0):
        """`files` by their keys, under names that lead to them in the process that submits and in no other."""
        sets, held = [], []
        for number, (key, path) in enumerate(files.items(), start=200):
            with open(path, "rb") as file:
                held.append(os.dup2(file.fileno(), number))
            sets += ["--set", f"{key}=/proc/self/fd/{number}"]
        try:
            return self.run_rivulet("submit", self.scenario, *SETS, *sets, *arguments, "--coordinator", f"127.0.0.1:{self.port}", "--tls",
                                    "operator", "--json", code=code, pass_fds=held)
        finally:
            for number in held:
                os.close(number)

    def test_files_of_the_model_and_its_rules_travel_with_what_is_submitted(self):
        larger = ["--set", "model.preset=mlp"]
        self.simulate(*SETS, *larger, "--rounds", 1, db="before.sqlite")
        weights, = (self.folder / "before.sqlite.models").glob("*/*1.safetensors")
        rule = pathlib.Path(__file__).parents[1] / "docs/local_rules/fedprox.txt"
        self.run_rivulet("graph", "build", rule, "--out", self.path("rule.pb"), code=0)
        files = {"model.weights": weights, "algorithm.graph": self.folder / "rule.pb"}
        self.simulate(*SETS, *larger, "--rounds", 2, *(word for key, path in files.items() for word in ("--set", f"{key}={path}")),
                      db="alone.sqlite")
        self.start_coordinator()
        for name in self.names:
            self.start_client(name)
        run = json.loads(self.submit_with_files(files, *larger, "--rounds", 2).out)["run_id"]
        self.wait_for(lambda: self.status(run)["state"] == "finished", "the run's end")
        self.assertEqual(self.digests(DB, run), self.digests("alone.sqlite"))
        # Nor does a coordinator need the model's file that trains each version on data of its own.
        tuned = [*larger, "--rounds", 2, "--set", f"server.fine_tune.data={self.path(f'clients/{self.names[0]}.tfrecord')}"]
        self.simulate(*SETS, *tuned, "--set", f"model.weights={weights}", db="tuned.sqlite")
        run = json.loads(self.submit_with_files({"model.weights": weights}, *tuned, "--set", "run.name=tuned").out)["run_id"]
        self.wait_for(lambda: self.status(run)["state"] == "finished", "the end of the run with fine-tuning")
        self.assertEqual(self.digests(DB, run), self.digests("tuned.sqlite"))
        # What clients in Python begin with, which is in no plan.
        arrays = {"model.arrays": weights}
        run = json.loads(self.submit_with_files(arrays, "--rounds", 1, "--set", "run.name=arrays").out)["run_id"]
        first, = self.query("SELECT digest FROM models WHERE round = 0 AND run_id = ?", run, db=DB)
        self.assertEqual([*first], self.digests("before.sqlite"))
        # What is not here is said here, and what is not there by the coordinator.
        here = self.operate("submit", self.scenario, *SETS, "--set", "model.weights=nowhere.safetensors", code=2)
        self.assert_refused(here, "model.weights: cannot open", "nowhere.safetensors")
        there = self.operate("submit", self.scenario, *SETS, "--set", "server.fine_tune.data=nowhere.tfrecord", code=1)
        self.assert_refused(there, "nowhere.tfrecord: no such file")

    def test_an_aggregator_serves_one_submitted_run_after_the_other(self):
        self.run_rivulet("ca", "issue", "aggregator/north", "--host", "127.0.0.1", "--out", "north", code=0)
        coordinator = self.start_coordinator("--aggregators")
        aggregator = self.start("aggregator", "--parent", f"127.0.0.1:{self.port}", "--listen", "127.0.0.1:0", "--tls", "north")
        line = aggregator.stdout.readline()
        self.follow(aggregator, "north")
        match = re.fullmatch(r"listening on 127\.0\.0\.1:(\d+)\n", line)
        self.assertTrue(match, line + "".join(self.logs["north"]))
        root, self.port = self.port, int(match.group(1))
        processes = {name: self.start_client(name) for name in self.names}
        self.port = root
        self.simulate(*SETS, "--rounds", 2, db="alone.sqlite")
        for name in "first", "second":
            self.operate("submit", self.scenario, *SETS, "--rounds", "2", "--set", f"run.name={name}")
            self.wait_for(lambda name=name: self.status(name)["state"] == "finished", f"the end of {name}")
            self.assertEqual(self.digests(DB, self.status(name)["run_id"]), self.digests("alone.sqlite"))
        self.assertEqual(self.query("SELECT DISTINCT parent_id FROM client_rounds", db=DB), [("north",)])
        for name, process in (*processes.items(), ("north", aggregator), ("coordinator", coordinator)):
            self.assertIsNone(process.poll(), f"{name} waits for the next run")
            process.send_signal(signal.SIGTERM)
            self.ends(process, name)

    def test_a_banned_client_is_out_at_once_and_after_a_restart(self):
        run = [self.scenario, *SETS, "--rounds", "100000"]
        coordinator = self.start_coordinator(*run)
        processes = {name: self.start_client(name) for name in self.names}
        self.wait_for(lambda: self.status()["round"] > 2, "some rounds")
        noisy, rest = self.names[0], self.names[1:]
        self.assertEqual(self.operate("clients", "ban", noisy, "--reason", "it sends noise").out,
                         f"client '{noisy}' is banned\n")
        self.ends(processes[noisy], noisy, code=1)
        self.assertIn(f"client '{noisy}' is banned here: it sends noise", "".join(self.logs[noisy]))
        made = self.status()["round"]
        self.wait_for(lambda: self.status()["round"] > made + 2, "rounds without it")
        self.assertEqual(self.clients()[noisy]["state"], "banned")
        dashboard = self.start("dashboard", "--db", DB, "--http", "127.0.0.1:0")
        url = re.search(r"http://\S+", dashboard.stdout.readline()).group(0)
        for path in "run?id=latest", f"client?run=latest&client={noisy}":
            with urllib.request.urlopen(url + path, timeout=20) as answer:
                self.assertIn('<span class="status banned">✗ banned</span>', answer.read().decode())
        dashboard.send_signal(signal.SIGTERM)
        dashboard.communicate(timeout=20)

        coordinator.send_signal(signal.SIGKILL)
        coordinator.wait()
        coordinator = self.start_coordinator(*run, "--resume", "latest", port=self.port)
        self.wait_for(lambda: self.status()["round"] > made + 4, "rounds after the restart")
        again = self.start_client(noisy)
        self.ends(again, noisy, code=1)
        self.assertEqual(self.clients()[noisy]["detail"], "it sends noise")
        self.assertEqual(self.query("SELECT status FROM clients WHERE client_id = ?", noisy, db=DB), [("banned",)])

        # At once: what is on its way is lost, and the process ends as one that was asked to.
        self.operate("abort")
        self.ends(coordinator, "coordinator")
        self.assertRegex(self.logs["coordinator"][-1], "to resume: rivulet coordinator ")
        for name in rest:
            processes[name].send_signal(signal.SIGTERM)
            self.ends(processes[name], name)


if __name__ == "__main__":
    main()
