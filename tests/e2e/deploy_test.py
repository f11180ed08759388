"""A coordinator and its clients as processes: the same bits as the simulation, whoever dies meanwhile."""
import json
import os
import pathlib
import random
import re
import signal
import socket
import threading
import time

from harness import TEN, RivuletTest, example, main, tfrecord

CLIENTS, PER_ROUND, ROUNDS = 5, 2, 6
RUN = ["--rounds", ROUNDS, "--set", f"data.partition.clients={CLIENTS}", "--set",
       f"server.clients_per_round={PER_ROUND}"]


class Proxy:
    """Stands between one client and the coordinator, and lets the line go silent when the test says so.

    After `silence(limit)` it passes on `limit` more bytes from the client; then nothing passes in either direction and
    `silent` is set. The sockets stay open: to the coordinator the client has not hung up.
    """

    def __init__(self, target):
        self.target, self.silent = target, threading.Event()
        self.left = None
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def silence(self, limit):
        with self.lock:
            self.left = limit

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(self.target)
            except OSError:
                return
            threading.Thread(target=self._pump, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self._pump, args=(far, near, False), daemon=True).start()

    def _pump(self, source, sink, up):
        try:
            while True:
                data = source.recv(4096)
                if not data:
                    break
                with self.lock:
                    if up and self.left is not None:
                        data, self.left = data[:max(self.left, 0)], self.left - len(data)
                        if self.left < 0:
                            self.silent.set()
                    elif self.silent.is_set():
                        return
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Deploy(RivuletTest):
    def partition(self, *more):
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("clients"), *RUN[2:], *more, code=0)
        names = sorted(path.stem for path in (self.folder / "clients").glob("*.tfrecord"))
        self.assertEqual(len(names), CLIENTS)
        return names

    def start_coordinator(self, *more, run=RUN):
        process = self.start("coordinator", self.scenario, "--listen", "127.0.0.1:0", "--insecure", "--db",
                             self.path("deployed.sqlite"), *run, *more)
        line = process.stdout.readline()
        match = re.fullmatch(r"listening on (127\.0\.0\.1):(\d+)\n", line)
        if not match:
            self.fail(f"{line}{process.stderr.read()}")
        threading.Thread(target=process.stderr.read, daemon=True).start()
        return process, (match.group(1), int(match.group(2)))

    def start_client(self, name, address, *more):
        if not isinstance(address, str):
            address = "%s:%d" % address
        return self.start("client", "--coordinator", address, "--insecure", "--name", name, "--data",
                          f"train={self.path('clients')}/{name}.tfrecord", *more)

    def ends_well(self, process, what):
        try:
            out, err = process.communicate(timeout=60)
        except ValueError:  # a thread reads its stderr
            process.wait(timeout=60)
            return
        self.assertEqual(process.returncode, 0, f"{what}: {out}{err}")

    def simulated(self, *more):
        self.simulate(*RUN, *more, db="simulated.sqlite")
        return self.digests("simulated.sqlite")

    def test_five_clients_killed_and_late_equal_the_simulation(self):
        digests = self.simulated()
        cohorts = self.query("SELECT client_id, round FROM client_rounds ORDER BY round, client_id",
                             db="simulated.sqlite")
        in_training = next(client for client, round in cohorts if round == 2)
        in_upload = next(client for client, round in cohorts if round >= 2 and client != in_training)

        names = self.partition()
        coordinator, target = self.start_coordinator()
        # What each victim may still send once it has its task: two requests, but no update; or half an update.
        victims = {in_training: (Proxy(target), 2_000), in_upload: (Proxy(target), 16_000)}
        random.Random(5).shuffle(names)
        late = next(name for name in names if name not in victims)
        running = {}

        def kill_at_its_task(name):
            proxy, limit = victims[name]
            for line in running[name].stdout:
                event = json.loads(line)
                if event["event"] == "task" and event["round"] >= 2:
                    proxy.silence(limit)
                    break
            proxy.silent.wait(60)
            running[name].kill()

        killers = {}
        for name in names:
            if name in victims:
                running[name] = self.start_client(name, victims[name][0].address, "--json")
                killers[name] = threading.Thread(target=kill_at_its_task, args=(name,))
                killers[name].start()
            elif name != late:
                running[name] = self.start_client(name, target)
        time.sleep(5)  # four of five wait for the last
        self.assertEqual(self.committed("deployed.sqlite"), 0)
        running[late] = self.start_client(late, target)

        while killers:
            name = self.wait_for(lambda: next((n for n, killer in killers.items() if not killer.is_alive()), None),
                                 "a victim to get its task")
            del killers[name]
            self.assertTrue(victims[name][0].silent.is_set(), name)
            self.assertEqual(running[name].wait(timeout=60), -signal.SIGKILL)
            running[name] = self.start_client(name, target)
        for name, process in running.items():
            self.ends_well(process, name)
        self.ends_well(coordinator, "coordinator")

        self.assertEqual(self.digests("deployed.sqlite"), digests)
        sql = "SELECT client_id, round, attempt, status FROM client_rounds ORDER BY round, client_id"
        self.assertEqual(self.query(sql, db="deployed.sqlite"), self.query(sql, db="simulated.sqlite"))

    def test_coordinator_killed_and_interrupted_goes_on(self):
        digests = self.simulated("--set", "client.epochs=30")
        names = self.partition()
        more = ["--set", "client.epochs=30"]
        coordinator, target = self.start_coordinator(*more)
        clients = [self.start_client(name, target) for name in names]
        self.wait_for(lambda: self.committed("deployed.sqlite") >= 1, "a commit")
        coordinator.kill()
        coordinator.wait()
        again = ["--resume", "latest"]

        def restart():
            process = self.start("coordinator", self.scenario, "--listen", "127.0.0.1:%d" % target[1], "--insecure",
                                 "--db", self.path("deployed.sqlite"), *RUN, *more, *again)
            self.assertIn("listening", process.stdout.readline())
            return process

        coordinator = restart()
        self.wait_for(lambda: self.committed("deployed.sqlite") >= 3, "more commits")
        coordinator.send_signal(signal.SIGINT)
        _, err = coordinator.communicate(timeout=60)
        if coordinator.returncode != 0:  # else the run was over first
            self.assertEqual(coordinator.returncode, 1, err)
            self.assertIn("to resume: rivulet coordinator", err.splitlines()[-1])
            coordinator = restart()
            self.ends_well(coordinator, "coordinator")
        for name, process in zip(names, clients):
            self.ends_well(process, name)
        self.assertEqual(self.digests("deployed.sqlite"), digests)

    def test_plan_that_was_built_elsewhere(self):
        """The same bits as the scenario's own plan; what decides them is the plan's, also where it is resumed."""
        plan = self.path("built.plan")
        graph = ["--set", f"model.graph={self.folder / 'graph.pb'}"]
        told = self.run_rivulet("model", "export", "logistic_regression", "--out", self.folder / "graph.pb", code=0).out
        graph += ["--set", "model.loss=" + re.search(r"loss ([^;\s]+)", told).group(1), "--set",
                  "model.metrics=['%s']" % re.search(r"; accuracy ([^;\s]+)", told).group(1)]
        self.run_rivulet("plan", "build", self.scenario, "--out", plan, *graph, *RUN[2:], code=0)
        digests = self.simulated(*graph)
        names = self.partition()
        (self.folder / "graph.pb").unlink()  # of the model there is nothing but the plan
        coordinator, target = self.start_coordinator(*graph, "--plan", plan, run=["--rounds", ROUNDS // 2, *RUN[2:]])
        clients = [self.start_client(name, target) for name in names]
        self.ends_well(coordinator, "coordinator")
        for process in clients:
            process.wait(timeout=60)
        coordinator, target = self.start_coordinator(*graph, "--resume", "latest")
        clients = [self.start_client(name, target) for name in names]
        self.ends_well(coordinator, "coordinator")
        for name, process in zip(names, clients):
            self.ends_well(process, name)
        self.assertEqual(self.digests("deployed.sqlite"), digests)
        sql = "SELECT key, value FROM run_keys WHERE key LIKE 'client.%' OR key LIKE 'algorithm.%' ORDER BY key"
        self.assertEqual(self.query(sql, db="deployed.sqlite"), self.query(sql, db="simulated.sqlite"))

        listen = ["--listen", "127.0.0.1:0", "--insecure", "--db", self.path("refused.sqlite")]
        refused = lambda *more: self.run_rivulet("coordinator", self.scenario, *listen, *RUN, *graph, "--plan", plan,
                                                 *more)
        self.assert_refused(refused("--set", "client.epochs=17"), "client.epochs was 2 when the plan was built", "17")
        self.assert_refused(refused("--resume", "latest"), "--plan", "--resume", code=2)
        damaged = bytearray(pathlib.Path(plan).read_bytes())
        damaged[len(damaged) // 2] ^= 1
        pathlib.Path(plan).write_bytes(damaged)
        self.assert_refused(refused(), "built.plan", "damaged", code=1)
        self.assertFalse((self.folder / "refused.sqlite").exists())

    def test_graph_file_made_after_the_client_trains(self):
        """A model no client has heard of: a preset's graph with another name for everything that has one."""
        graph = self.folder / "graph.pb"
        told = self.run_rivulet("model", "export", "logistic_regression", "--out", graph, code=0).out
        loss = re.search(r"loss ([^;\s]+)", told).group(1)
        accuracy = re.search(r"; accuracy ([^;\s]+)", told).group(1)
        keys = ["--set", f"model.graph={graph}", "--set", f"model.loss={loss}", "--set",
                f"model.metrics=['{accuracy}']"]
        by_preset = self.simulated()
        self.simulate(*RUN, *keys, db="graph.sqlite")
        self.assertEqual(self.digests("graph.sqlite"), by_preset)
        names = self.partition()
        coordinator, target = self.start_coordinator(*keys)
        clients = [self.start_client(name, target) for name in names]
        for name, process in zip(names, clients):
            self.ends_well(process, name)
        self.ends_well(coordinator, "coordinator")
        self.assertEqual(self.digests("deployed.sqlite"), by_preset)

    def test_two_processes_of_one_name_neither_fails_the_other(self):
        """Started twice by mistake: both train, both upload, one of the two updates counts, and both end well."""
        digests = self.simulated()
        names = self.partition()
        coordinator, target = self.start_coordinator()
        clients = [self.start_client(name, target, "--json") for name in names + names]
        reports = []
        for name, process in zip(names + names, clients):
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, f"{name}: {out}{err}")
            reports += [event for event in map(json.loads, out.splitlines()) if event["event"] == "report"]
        self.ends_well(coordinator, "coordinator")
        told = [event["status"] for event in reports]
        self.assertEqual(told.count("accepted"), ROUNDS * PER_ROUND, reports)
        self.assertNotIn("refused", told, reports)
        self.assertEqual(self.digests("deployed.sqlite"), digests)
        self.assertEqual(self.query("SELECT status, count(*) FROM client_rounds GROUP BY 1", db="deployed.sqlite"),
                         [("folded", ROUNDS * PER_ROUND)])

    def test_failed_run_ends_everybody_within_seconds_and_with_its_sentence(self):
        """Clients that would train for days hear that their task is dead, and a coordinator waits for nobody who knows."""
        self.simulated()
        names = self.partition()
        coordinator, target = self.start_coordinator("--set", "client.epochs=1000000", "--set", "server.deadline=1.5",
                                                     "--set", "server.max_attempts=1")
        clients = [self.start_client(name, target) for name in names]
        self.wait_for(lambda: self.query("SELECT count(*) FROM rounds", db="deployed.sqlite") == [(1,)], "a deadline")
        failed = time.monotonic()
        self.assertEqual(coordinator.wait(timeout=60), 1)
        for name, process in zip(names, clients):
            _, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 1, f"{name}: {err}")
            self.assertIn("rivulet: the run has failed: round 1 failed after 1 attempt", err.splitlines()[-1])
        self.assertLess(time.monotonic() - failed, 15)

    def test_coordinator_without_any_data(self):
        """In a federation the data is where the clients are."""
        digests = self.simulated()
        names = self.partition()
        told = "".join(line for line in pathlib.Path(self.scenario).read_text().splitlines(keepends=True)
                       if not line.startswith(("train = ", "test = ", "synth = ")))
        self.scenario = self.write("elsewhere/no-data.toml", told)
        coordinator, target = self.start_coordinator()
        clients = [self.start_client(name, target) for name in names]
        for name, process in zip(names, clients):
            self.ends_well(process, name)
        self.ends_well(coordinator, "coordinator")
        self.assertEqual(self.digests("deployed.sqlite"), digests)
        self.assertEqual(list((self.folder / "elsewhere").iterdir()), [self.folder / "elsewhere/no-data.toml"])
        self.assert_refused(self.run_rivulet("simulate", self.scenario), "gives no data.train", code=2)

    def test_words_of_a_failing_client_stay_in_its_log(self):
        self.write("x-rays/bad.tfrecord", tfrecord([example(b"x" * 784, 4711)] * 8))
        self.write("clients/good.tfrecord", tfrecord([example(b"x" * 784, 4)] * 8))
        coordinator = self.start("coordinator", self.scenario, "--listen", "127.0.0.1:0", "--insecure", "--db",
                                 self.path("deployed.sqlite"), "--set", "data.partition.clients=2", "--set",
                                 "server.clients_per_round=2", "--set", "server.min_reports=2", "--set",
                                 "server.max_attempts=1")
        address = coordinator.stdout.readline().split()[-1]
        clients = {name: self.start("client", "--coordinator", address, "--insecure", "--name", name, "--data",
                                    f"train={self.path(folder)}/{name}.tfrecord")
                   for name, folder in (("bad", "x-rays"), ("good", "clients"))}
        logs = {name: process.communicate(timeout=60)[1] for name, process in clients.items()}
        _, logs["coordinator"] = coordinator.communicate(timeout=60)
        self.assertIn("x-rays", logs["bad"])
        self.assertIn("4711", logs["bad"])
        for line in (r"(?m)^\d\d:\d\d:\d\d waiting: 0 of 2 clients; round 1 starts when all have joined$",
                     r"(?m)^\d\d:\d\d:\d\d client 'good' has joined"):
            self.assertRegex(logs["coordinator"], line)
        stored = pathlib.Path(self.path("deployed.sqlite")).read_bytes().decode(errors="replace")
        for where in (logs["coordinator"], logs["good"], stored):
            self.assertRegex(where, r"feature 'label' of its record \d cannot be used")
            self.assertNotIn("x-rays", where)
            self.assertNotIn("4711", where)

    def test_client_of_a_name_that_no_row_holds_says_why(self):
        self.run_rivulet("simulate", self.scenario, "--rounds", "1", "--db", self.path("x.sqlite"), code=0)
        self.partition()
        coordinator, target = self.start_coordinator()
        bad = self.start("client", "--coordinator", "%s:%d" % target, "--insecure", "--name", "../../etc\n", "--data",
                         f"train={self.path('clients')}/client-00000.tfrecord")
        _, err = bad.communicate(timeout=60)
        self.assertEqual(bad.returncode, 2, err)  # a usage error, before anybody is called
        self.assertEqual(len([line for line in err.splitlines() if line.startswith("rivulet: ")]), 1, err)
        # A service that is asked to stop and does so has not failed.
        coordinator.send_signal(signal.SIGTERM)
        coordinator.wait(timeout=60)
        self.assertEqual(coordinator.returncode, 0)


class Up(RivuletTest):
    def children(self, process):
        found = []
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                words = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(words[1]) == process.pid and words[0] != "Z":
                found.append(int(stat.parent.name))
        return found

    def up(self, *more, rounds=ROUNDS):
        return self.start("up", self.scenario, "--clients", CLIENTS, "--db", self.path("up.sqlite"), "--rounds", rounds,
                          "--set", f"server.clients_per_round={PER_ROUND}", *more)

    def alive(self, pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    def gone(self, pids):
        self.wait_for(lambda: not any(self.alive(pid) for pid in pids), "the children to go", timeout=30)

    def test_up_equals_the_simulation(self):
        process = self.up("--json")
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, err)
        self.simulate(*RUN, db="simulated.sqlite")
        self.assertEqual(self.digests("up.sqlite"), self.digests("simulated.sqlite"))
        self.assertEqual(json.loads(out)["model_digest"], self.digests("simulated.sqlite")[-1])
        self.assertEqual(len(re.findall(r"(?m)^round \d/6 ", err)), ROUNDS, err)

    def test_each_algorithm_deployed_is_its_simulation(self):
        for name, sets in TEN.items():
            if name == "fedbuff":  # what comes first is an accident: asynchronous_test.py
                continue
            with self.subTest(algorithm=name):
                settings = [word for one in sets for word in ("--set", one)]
                _, err = (process := self.up(*settings, rounds=3)).communicate(timeout=120)
                self.assertEqual(process.returncode, 0, err)
                self.simulate("--rounds", 3, *RUN[2:], *settings, db=f"{name}.sqlite")
                self.assertEqual(*map(self.digests, ("up.sqlite", f"{name}.sqlite")))
                measured = self.measured_last("up.sqlite")
                self.assertEqual(measured, self.measured_last(f"{name}.sqlite"))
                self.assertEqual(bool(measured), name == "evaluation")

    def test_the_same_run_again_has_the_same_updates(self):
        """An update is what was computed: no clock is in it, and nothing of the run it was for."""
        sql = "SELECT round, client_id, update_digest FROM client_rounds ORDER BY 1, 2"
        runs = []
        for _ in range(2):
            _, err = (process := self.up(rounds=2)).communicate(timeout=120)
            self.assertEqual(process.returncode, 0, err)
            runs.append(self.query(sql, db="up.sqlite"))
            os.remove(self.path("up.sqlite"))
        self.assertEqual(len(runs[0]), 2 * PER_ROUND)
        self.assertTrue(all(re.fullmatch("[0-9a-f]{64}", digest) for _, _, digest in runs[0]), runs[0])
        self.assertEqual(runs[0], runs[1])

    def test_ctrl_c_stops_them_all(self):
        process = self.up("--set", "client.epochs=200", rounds=1000)
        self.wait_for(lambda: self.committed("up.sqlite") >= 1, "a commit")
        children = self.children(process)
        self.assertEqual(len(children), CLIENTS + 1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1, err)
        self.assertIn("to resume: rivulet up", err.splitlines()[-1])
        self.gone(children)

    def test_kill_of_up_leaves_no_orphan(self):
        process = self.up("--set", "client.epochs=200", rounds=1000)
        self.wait_for(lambda: self.committed("up.sqlite") >= 1, "a commit")
        children = self.children(process)
        self.assertEqual(len(children), CLIENTS + 1)
        process.kill()
        process.communicate()
        self.gone(children)

    def test_killed_client_is_started_again(self):
        process = self.up("--set", "client.epochs=30")
        self.wait_for(lambda: len(self.children(process)) == CLIENTS + 1, "the clients to start")
        os.kill(max(self.children(process)), signal.SIGKILL)
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn("starting it again", err)

    def test_bad_scenario_is_one_sentence(self):
        result = self.run_rivulet("up", self.scenario, "--clients", 2, "--db", self.path("up.sqlite"))
        self.assert_refused(result, "clients_per_round")
        self.assertFalse(os.path.exists(self.path("up.sqlite")))
        result = self.run_rivulet("up", self.scenario, "--clients", 6, "--db", "/nonexistent/x.sqlite")
        self.assert_refused(result, "/nonexistent", code=1)


if __name__ == "__main__":
    main()
