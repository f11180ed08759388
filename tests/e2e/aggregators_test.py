"""Coordinator, aggregators in two levels and clients as processes: the bits of the simulation, whichever way an update went and whoever
was killed meanwhile; and who may be an aggregator."""
import contextlib
import re
import signal
import subprocess
import threading

from harness import RivuletTest, main

CLIENTS, PER_ROUND, ROUNDS = 5, 3, 4
RUN = ["--rounds", ROUNDS, "--set", f"data.partition.clients={CLIENTS}", "--set", f"server.clients_per_round={PER_ROUND}"]
DB = "tree.sqlite"


class Aggregators(RivuletTest):
    def setUp(self):
        super().setUp()
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("clients"), *RUN[2:], code=0)
        self.names = sorted(path.stem for path in (self.folder / "clients").glob("*.tfrecord"))

    def listening(self, name, *arguments):
        process = self.start(*arguments)
        line = process.stdout.readline()
        match = re.fullmatch(r"listening on (127\.0\.0\.1:\d+)\n", line)
        if not match:
            self.fail(f"{line}{process.stderr.read()}")
        return self.follow(process, name), match.group(1)

    def start_coordinator(self, *more, security=("--insecure",)):
        return self.listening("coordinator", "coordinator", self.scenario, "--listen", "127.0.0.1:0", *security, "--db", DB,
                              *RUN, *more)

    def start_aggregator(self, name, parent, *more, listen="127.0.0.1:0", security=None):
        return self.listening(name, "aggregator", "--parent", parent, "--listen", listen,
                              *(security or ["--insecure", "--name", name]), *more)

    def start_client(self, name, address, security=None):
        process = self.start("client", "--coordinator", address, *(security or ["--insecure", "--name", name]), "--data",
                             f"train=clients/{name}.tfrecord", "--state", f"state-{name}")
        threading.Thread(target=process.stderr.read, daemon=True).start()
        return process

    def ends(self, process, name=None, code=0):
        process.wait(timeout=60)
        if name:
            self.readers[name].join(timeout=10)
        self.assertEqual(process.returncode, code, "".join(self.logs.get(name, [])))

    def simulated(self, *more):
        self.simulate(*RUN, *more, db="flat.sqlite")
        return self.digests("flat.sqlite")

    def ways(self):
        return {way for (way,) in self.query("SELECT DISTINCT parent_id FROM client_rounds", db=DB)}

    def test_two_levels_with_states_and_broadcasts_give_the_bits_of_the_simulation(self):
        self.two_levels("--set", "algorithm.name=scaffold")

    def test_counts_of_metrics_add_up_over_aggregators(self):
        self.two_levels("--set", 'model.metrics=["accuracy", "f1", "auc"]', "--set", "evaluation.federated_every=1")
        told = [self.query("SELECT round, name, value FROM metrics WHERE scope = 'federated' AND name IN ('evaluate/f1', "
                           "'evaluate/auc', 'evaluate/auc_bound') ORDER BY round, name", db=db) for db in (DB, "flat.sqlite")]
        # Where rounds are faster than measurements, a deployed run leaves out a version between two measured ones.
        measured = {number for number, _, _ in told[0]}
        self.assertIn(ROUNDS, measured)
        self.assertEqual(len(told[0]), 3 * len(measured))
        self.assertEqual(told[0], [row for row in told[1] if row[0] in measured])

    def test_two_levels_where_versions_travel_by_a_codec_and_clients_choose_give_the_bits_of_the_simulation(self):
        self.two_levels("--set", "algorithm.name=ifca", "--set", "server.download=int8", "--set", "evaluation.federated_every=1")
        told = [self.query("SELECT round, client_id, value FROM metrics WHERE name = 'train/cluster' ORDER BY round, client_id",
                           db=db) for db in (DB, "flat.sqlite")]
        self.assertEqual(*told)
        self.assertEqual(len(told[0]), ROUNDS * PER_ROUND)

    def two_levels(self, *sets):
        expected = self.simulated(*sets)
        coordinator, root = self.start_coordinator("--aggregators", *sets)
        north, north_at = self.start_aggregator("north", root, "--aggregators", "--zstd")
        leaf, leaf_at = self.start_aggregator("leaf", north_at)
        clients = [self.start_client(name, (leaf_at, leaf_at, north_at, leaf_at, root)[i]) for i, name in enumerate(self.names)]
        for process, name in (coordinator, "coordinator"), (north, "north"), (leaf, "leaf"):
            self.ends(process, name)
        for client in clients:
            self.ends(client)
        self.assertEqual(self.digests(DB), expected)
        self.assertLessEqual({"north"}, self.ways())

    def test_aggregator_that_is_killed_and_started_again_gives_the_same_bits(self):
        long = ["--set", "client.epochs=80"]
        expected = self.simulated(*long)
        coordinator, root = self.start_coordinator("--tiers", *long)  # as the option was called
        north, address = self.start_aggregator("north", root)
        clients = [self.start_client(name, address) for name in self.names]
        self.wait_for(lambda: self.committed(DB) >= 2, "the second commit")
        north.kill()
        north.wait()
        north, _ = self.start_aggregator("north", root, listen=address)
        self.ends(coordinator, "coordinator")
        with contextlib.suppress(subprocess.TimeoutExpired):  # on a busy machine the first may have served the whole run
            north.wait(timeout=30)
            self.ends(north, "north")
        # A client that has not found the second aggregator by its end, as others did the work, goes on looking for it.
        self.assertLessEqual({client.poll() for client in clients}, {0, None})
        self.assertEqual(self.digests(DB), expected)

    def test_aggregator_that_keeps_what_it_acknowledges_asks_nobody_again(self):
        kept = ["--set", "server.checkpoint_reports=true", "--set", "client.epochs=80"]
        expected = self.simulated(*kept[2:])
        coordinator, root = self.start_coordinator("--aggregators", *kept)
        (self.folder / "north-state" / "tier").mkdir(parents=True)  # as the folder was called
        north, address = self.start_aggregator("north", root, "--state", "north-state")
        clients = [self.start_client(name, address) for name in self.names]
        # One that is still being written is private before anything is in it, but not from its first instant.
        held = lambda: [path for path in (self.folder / "north-state").rglob("*")
                        if ".tmp-" not in path.name and path.is_file()]
        self.wait_for(held, "an update that the aggregator keeps")
        for path in held():
            self.assertIn(self.folder / "north-state" / "tier", path.parents)
            self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        north.kill()
        north.wait()
        north, _ = self.start_aggregator("north", root, "--state", "north-state", listen=address)
        self.ends(coordinator, "coordinator")
        self.ends(north, "north")
        self.assertLessEqual({client.poll() for client in clients}, {0, None})
        self.assertEqual(self.digests(DB), expected)
        self.assertEqual(held(), [])

    def test_who_may_be_an_aggregator_is_the_certificates_to_say(self):
        ca = lambda *arguments: self.run_rivulet("ca", *arguments, code=0)
        ca("init", "--name", "study")
        ca("issue", "coordinator/localhost", "--host", "127.0.0.1", "--out", "coordinator")
        ca("issue", "aggregator/north", "--host", "127.0.0.1", "--out", "north")
        for name in self.names:
            ca("issue", f"client/{name}", "--out", name)
        expected = self.simulated()
        coordinator, root = self.start_coordinator("--aggregators", security=("--tls", "coordinator"))
        refused = self.run_rivulet("aggregator", "--parent", root, "--listen", "127.0.0.1:0", "--tls", self.names[0], code=1)
        self.assertIn("and this is an aggregator", refused.err)
        stranger = self.run_rivulet("client", "--coordinator", root, "--tls", "north", "--data",
                                    f"train=clients/{self.names[0]}.tfrecord", code=1)
        self.assertIn("and this is a client", stranger.err)
        north, address = self.start_aggregator("north", root, security=["--tls", "north"])
        clients = [self.start_client(name, address, ["--tls", name]) for name in self.names]
        self.ends(coordinator, "coordinator")
        self.ends(north, "north")
        for client in clients:
            self.ends(client)
        self.assertEqual(self.digests(DB), expected)
        self.assertEqual(self.ways(), {"north"})

    def test_coordinator_that_admits_no_aggregators_says_how_to(self):
        _, root = self.start_coordinator()
        refused = self.start("aggregator", "--parent", root, "--listen", "127.0.0.1:0", "--insecure", "--name", "north")
        _, err = refused.communicate(timeout=60)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("start this coordinator with --aggregators", err)

    def test_list_of_clients_counts_for_those_of_an_aggregator(self):
        self.write("list", "\n".join(self.names[1:]) + "\n")
        run = ["--set", f"server.min_clients={CLIENTS - 1}"]
        coordinator, root = self.start_coordinator("--aggregators", "--clients", "list", *run)
        north, address = self.start_aggregator("north", root)
        stranger = self.start_client(self.names[0], address)
        self.ends(stranger, code=1)
        clients = [self.start_client(name, address) for name in self.names[1:]]
        self.ends(coordinator, "coordinator")
        self.ends(north, "north")
        for client in clients:
            self.ends(client)
        self.assertIn(f"refused client '{self.names[0]}'", "".join(self.logs["coordinator"]))

    def test_coordinator_that_is_killed_and_resumed_finds_its_clients_through_the_aggregator(self):
        self.write("list", "\n".join(self.names) + "\n")
        long = ["--set", "client.epochs=80", "--clients", "list"]
        expected = self.simulated(*long[:2])
        coordinator, root = self.start_coordinator("--aggregators", *long)
        north, address = self.start_aggregator("north", root)
        clients = [self.start_client(name, address) for name in self.names]
        self.wait_for(lambda: self.committed(DB) >= 2, "the second commit")
        coordinator.kill()
        coordinator.wait()
        coordinator, _ = self.listening("again", "coordinator", self.scenario, "--listen", root, "--insecure", "--db", DB, *RUN,
                                        "--aggregators", *long, "--resume", "latest")
        self.ends(coordinator, "again")
        self.assertLessEqual({north.poll(), *(client.poll() for client in clients)}, {0, None})
        self.assertEqual(self.digests(DB), expected)
        self.assertEqual(self.ways(), {"north"})

    def test_aggregator_that_is_stopped_ends_cleanly(self):
        coordinator, root = self.start_coordinator("--aggregators")
        north, _ = self.start_aggregator("north", root)
        north.send_signal(signal.SIGTERM)
        self.ends(north, "north")
        self.assertIn("aggregator 'north' was stopped", "".join(self.logs["north"]))


if __name__ == "__main__":
    main()
