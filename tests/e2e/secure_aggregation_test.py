"""Secure aggregation over mutual TLS: the versions are those of a simulation's arithmetic, and neither the history nor the logs have a
client's own figures."""
import re
import sqlite3

from harness import RivuletTest, main

CLIENTS, ROUNDS = 5, 3
RUN = ["--rounds", ROUNDS, "--set", f"data.partition.clients={CLIENTS}", "--set", f"server.clients_per_round={CLIENTS}", "--set",
       "privacy.clip=1.0"]
DB = "secure.sqlite"


class SecureAggregation(RivuletTest):
    def setUp(self):
        super().setUp()
        self.ca("init", "--name", "study")
        self.ca("issue", "coordinator/localhost", "--host", "127.0.0.1", "--out", "coordinator")
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("clients"), *RUN[2:], code=0)
        self.names = sorted(path.stem for path in (self.folder / "clients").glob("*.tfrecord"))
        for name in self.names:
            self.ca("issue", f"client/{name}", "--out", name)

    def ca(self, *arguments):
        return self.run_rivulet("ca", *arguments, code=0).out

    def start_coordinator(self, *more, port=0, rounds=ROUNDS):
        process = self.start("coordinator", self.scenario, "--listen", f"127.0.0.1:{port}", "--db", DB, "--rounds", rounds, *RUN[2:],
                             "--set", "privacy.secure=secagg_plus", "--tls", "coordinator", *more)
        line = process.stdout.readline()
        match = re.fullmatch(r"listening on 127\.0\.0\.1:(\d+)\n", line)
        if not match:
            self.fail(f"{line}{process.stderr.read()}")
        return self.follow(process, "coordinator"), int(match.group(1))

    def start_client(self, name, port):
        return self.follow(self.start("client", "--coordinator", f"127.0.0.1:{port}", "--tls", name, "--data",
                                      f"train=clients/{name}.tfrecord", "--state", f"state-{name}"), name)

    def test_versions_are_those_of_the_arithmetic_and_nothing_of_one_client_is_known(self):
        coordinator, port = self.start_coordinator()
        clients = {name: self.start_client(name, port) for name in self.names}
        for name, process in clients.items():
            self.ends(process, name)
        self.ends(coordinator, "coordinator")
        self.simulate(*RUN, "--set", "privacy.secure=arithmetic", db="simulated.sqlite")
        self.assertEqual(len(self.digests(DB)), ROUNDS)
        self.assertEqual(self.digests(DB), self.digests("simulated.sqlite"))
        with sqlite3.connect(self.folder / DB) as history:
            rows = history.execute("SELECT status, examples, train_loss, update_norm, train_seconds FROM client_rounds").fetchall()
        self.assertEqual(rows, [("folded", None, None, None, None)] * (CLIENTS * ROUNDS))
        for name in self.names:
            self.assertEqual(len(list((self.folder / f"state-{name}" / "answered").iterdir())), ROUNDS)

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
        self.simulate("--rounds", rounds, *RUN[2:], "--set", "privacy.secure=arithmetic", db="simulated.sqlite")
        self.assertEqual(self.digests(DB), self.digests("simulated.sqlite"))

    def test_without_certificates_it_is_refused(self):
        said = self.run_rivulet("coordinator", self.scenario, "--listen", "127.0.0.1:0", "--insecure", "--db", DB, *RUN, "--set",
                                "privacy.secure=secagg_plus", code=1)
        self.assertIn("give the coordinator its folder of certificates (--tls)", said.err)


if __name__ == "__main__":
    main()
