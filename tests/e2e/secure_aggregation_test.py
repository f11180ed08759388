"""Secure aggregation over mutual TLS: the versions are those of a simulation's arithmetic, and neither the history nor the logs have a
client's own figures."""
import re
import sqlite3

from harness import RivuletTest, main

CLIENTS, ROUNDS = 5, 3
DB = "secure.sqlite"


def settings(clients):
    return ["--set", f"data.partition.clients={clients}", "--set", f"server.clients_per_round={clients}", "--set", "privacy.clip=1.0"]


class SecureDeployment(RivuletTest):
    clients = CLIENTS

    def setUp(self):
        super().setUp()
        self.ca("init", "--name", "study")
        self.ca("issue", "coordinator/localhost", "--host", "127.0.0.1", "--out", "coordinator")
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("clients"), *settings(self.clients), code=0)
        self.names = sorted(path.stem for path in (self.folder / "clients").glob("*.tfrecord"))
        for name in self.names:
            self.ca("issue", f"client/{name}", "--out", name)

    def ca(self, *arguments):
        return self.run_rivulet("ca", *arguments, code=0).out

    def start_coordinator(self, *more, port=0, rounds=ROUNDS):
        process = self.start("coordinator", self.scenario, "--listen", f"127.0.0.1:{port}", "--db", DB, "--rounds", rounds,
                             *settings(self.clients), "--set", "privacy.secure=secagg_plus", "--tls", "coordinator", *more)
        line = process.stdout.readline()
        match = re.fullmatch(r"listening on 127\.0\.0\.1:(\d+)\n", line)
        if not match:
            self.fail(f"{line}{process.stderr.read()}")
        return self.follow(process, "coordinator"), int(match.group(1))

    def start_client(self, name, port):
        return self.follow(self.start("client", "--coordinator", f"127.0.0.1:{port}", "--tls", name, "--data",
                                      f"train=clients/{name}.tfrecord", "--state", f"state-{name}"), name)


class SecureAggregation(SecureDeployment):
    def test_versions_are_those_of_the_arithmetic_and_nothing_of_one_client_is_known(self):
        measured = ["--set", f"evaluation.federated_every={ROUNDS}"]
        coordinator, port = self.start_coordinator(*measured)
        clients = {name: self.start_client(name, port) for name in self.names}
        for name, process in clients.items():
            self.ends(process, name)
        self.ends(coordinator, "coordinator")
        self.assertEqual(len(self.digests(DB)), ROUNDS)
        for secure in ("arithmetic", "secagg_plus"):
            db = f"{secure}.sqlite"
            self.simulate("--rounds", ROUNDS, *settings(CLIENTS), *measured, "--set", f"privacy.secure={secure}", db=db)
            self.assertEqual(self.digests(DB), self.digests(db))
            self.assertEqual(self.figures(DB), self.figures(db))
        # None of one client, and nothing of how they are spread.
        self.assertEqual(self.query("SELECT count(*) FROM metrics WHERE name LIKE 'evaluate/%'", db=DB), [(2,)])
        with sqlite3.connect(self.folder / DB) as history:
            rows = history.execute("SELECT status, examples, train_loss, update_norm, train_seconds FROM client_rounds").fetchall()
        # Each round's training, and the measuring of the last version.
        self.assertEqual(rows, [("folded", None, None, None, None)] * (CLIENTS * (ROUNDS + 1)))
        for name in self.names:
            self.assertEqual(len(list((self.folder / f"state-{name}" / "answered").iterdir())), ROUNDS + 1)

    def figures(self, db):
        found = self.query("SELECT round, name, value FROM metrics WHERE name IN ('evaluate/accuracy', 'evaluate/loss') "
                           "AND scope = 'federated' ORDER BY name", db=db)
        self.assertEqual([row[:2] for row in found], [(ROUNDS, "evaluate/accuracy"), (ROUNDS, "evaluate/loss")])
        return found

    def test_through_an_aggregator_that_is_killed_the_versions_are_those_of_the_arithmetic(self):
        self.ca("issue", "aggregator/north", "--host", "127.0.0.1", "--out", "north")
        all_of_them = ["--set", f"server.min_reports={CLIENTS}", "--set", "server.lease=4"]
        coordinator, port = self.start_coordinator("--aggregators", *all_of_them, rounds=100000)
        aggregator, north = self.start_aggregator(port)
        clients = {name: self.start_client(name, north if i < 3 else port) for i, name in enumerate(self.names)}
        self.wait_for(lambda: self.committed(DB) >= 2, "two commits")
        # A sum that lacks the words it had is abandoned, and the next attempt has all clients again.
        aggregator.kill()
        aggregator.wait()
        aggregator, _ = self.start_aggregator(port, at=north)
        before = self.committed(DB)
        self.wait_for(lambda: self.committed(DB) >= before + 2, "two rounds more")
        for process in (coordinator, aggregator, *clients.values()):
            process.kill()
            process.wait()
        # An attempt that is made again trains with another stream, so that only versions before it are the simulation's.
        rounds = self.committed(DB)
        again = self.query("SELECT min(round) FROM rounds WHERE attempt > 1", db=DB)[0][0] or rounds + 1
        self.simulate("--rounds", rounds, *settings(CLIENTS), "--set", "privacy.secure=arithmetic", db="simulated.sqlite")
        self.assertEqual(self.digests(DB)[:again - 1], self.digests("simulated.sqlite")[:again - 1])

    def start_aggregator(self, port, at=0):
        process = self.start("aggregator", "--parent", f"127.0.0.1:{port}", "--listen", f"127.0.0.1:{at}", "--tls", "north")
        line = process.stdout.readline()
        match = re.fullmatch(r"listening on 127\.0\.0\.1:(\d+)\n", line)
        if not match:
            self.fail(f"{line}{process.stderr.read()}")
        return self.follow(process, "north"), int(match.group(1))

    def test_killed_coordinator_makes_the_attempt_anew_and_changes_no_bit(self):
        # It goes on for as long as this test needs; how far it has come then is how far the simulation is to come.
        coordinator, port = self.start_coordinator(rounds=100000)
        clients = {name: self.start_client(name, port) for name in self.names}
        self.wait_for(lambda: self.committed(DB) >= 2, "two commits")
        coordinator.kill()
        coordinator.wait()
        rounds = self.committed(DB) + ROUNDS
        coordinator, _ = self.start_coordinator("--resume", "latest", port=port, rounds=rounds)
        for name, process in clients.items():
            self.ends(process, name)
        self.ends(coordinator, "coordinator")
        self.simulate("--rounds", rounds, *settings(CLIENTS), "--set", "privacy.secure=arithmetic", db="simulated.sqlite")
        self.assertEqual(self.digests(DB), self.digests("simulated.sqlite"))

    def test_without_certificates_it_is_refused(self):
        said = self.run_rivulet("coordinator", self.scenario, "--listen", "127.0.0.1:0", "--insecure", "--db", DB,
                                *settings(CLIENTS), "--set", "privacy.secure=secagg_plus", code=1)
        self.assertIn("give the coordinator its folder of certificates (--tls)", said.err)

    def test_workers_make_the_same_versions_without_keys(self):
        secure = ["--rounds", str(ROUNDS), *settings(CLIENTS), "--set", "privacy.secure=secagg_plus"]
        simulation = self.start("simulate", self.scenario, "--workers-at", "127.0.0.1:0", "--db", self.path(DB), *secure)
        address = next(line.split()[-1] for line in simulation.stderr if line.startswith("listening on "))
        worker = self.start("worker", "--simulation", address, "--workers", 2)
        for process in (simulation, worker):
            _, err = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, err)
        self.simulate(*secure, db="alone.sqlite")
        self.assertEqual(self.digests(DB), self.digests("alone.sqlite"))


class TwelveClients(SecureDeployment):
    clients = 12

    def test_two_killed_in_a_round_leave_the_versions_of_a_plain_run_of_the_same_survivors(self):
        coordinator, port = self.start_coordinator("--set", "server.min_reports=9", "--set", "server.lease=4", rounds=100000)
        clients = {name: self.start_client(name, port) for name in self.names}
        self.wait_for(lambda: self.committed(DB) >= 2, "two commits")
        for name in (self.names[3], self.names[8]):
            clients[name].kill()
            clients[name].wait()
        before = self.committed(DB)
        self.wait_for(lambda: self.committed(DB) >= before + 3, "three rounds more")
        coordinator.kill()
        coordinator.wait()
        rounds = self.committed(DB)
        folded = self.query("SELECT client_id, round FROM client_rounds WHERE status = 'folded' AND round <= ?", rounds, db=DB)
        self.assertEqual(sum(at == rounds for _, at in folded), 10)
        self.write("trace.csv", "".join(f"{name},{at},{at}\n" for name, at in folded).encode())
        self.simulate("--rounds", rounds, *settings(12), "--set", "server.min_reports=9", "--set", "server.value_bits=1", "--set",
                      f"selection.trace={self.path('trace.csv')}", db="plain.sqlite")
        self.assertEqual(self.digests(DB), self.digests("plain.sqlite"))


if __name__ == "__main__":
    main()
