"""A coordinator and its clients over mutual TLS, as processes with certificates of one authority: the bits of the simulation, while
certificates are renewed, the coordinator is killed, and a client is shut out."""
import json
import os
import re
import signal
import subprocess

from harness import RIVULET, RivuletTest, main

CLIENTS, PER_ROUND, ROUNDS = 5, 2, 10
RUN = ["--rounds", ROUNDS, "--set", f"data.partition.clients={CLIENTS}", "--set",
       f"server.clients_per_round={PER_ROUND}", "--set", "client.epochs=100"]
DB = "tls.sqlite"


class Tls(RivuletTest):
    def setUp(self):
        super().setUp()
        self.ca("init", "--name", "study")
        self.ca("issue", "coordinator/localhost", "--host", "127.0.0.1", "--out", "coordinator")

    def ca(self, *arguments):
        return self.run_rivulet("ca", *arguments, code=0).out

    def partition(self):
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("clients"), *RUN[2:], code=0)
        names = sorted(path.stem for path in (self.folder / "clients").glob("*.tfrecord"))
        for name in names:
            self.ca("issue", f"client/{name}", "--out", name)
        return names

    def start_coordinator(self, port=0, *more, rounds=ROUNDS, epochs=100):
        process = self.start("coordinator", self.scenario, "--listen", f"127.0.0.1:{port}", "--tls", "coordinator", "--db", DB,
                             "--rounds", rounds, *RUN[2:-1], f"client.epochs={epochs}", *more)
        line = process.stdout.readline()
        match = re.fullmatch(r"listening on 127\.0\.0\.1:(\d+)\n", line)
        if not match:
            self.fail(f"{line}{process.stderr.read()}")
        return self.follow(process, "coordinator"), int(match.group(1))

    def start_client(self, name, port, tls=None):
        return self.follow(self.start("client", "--coordinator", f"127.0.0.1:{port}", "--tls", tls or name, "--data",
                                      f"train=clients/{name}.tfrecord", "--state", f"state-{name}"), name)

    def replace(self, source, target):
        """As cp does it; not in one step."""
        (self.folder / target).write_bytes((self.folder / source).read_bytes())

    def renew(self, name, folder):
        self.ca("renew", name, "--out", f"{folder}.crt")
        self.replace(f"{folder}.crt", f"{folder}/node.crt")

    def test_renewals_and_a_killed_coordinator_change_no_bit(self):
        # It goes on for as long as this test needs; how far it has come then is how far the simulation is to come.
        names = self.partition()
        coordinator, port = self.start_coordinator(rounds=100000)
        clients = {name: self.start_client(name, port) for name in names}
        self.wait_for(lambda: self.committed(DB) >= 1, "a commit")
        for name in names:
            self.renew(f"client/{name}", name)
        self.renew("coordinator/localhost", "coordinator")
        self.said("coordinator", "the certificate of 'coordinator/localhost' was replaced")
        for name in names:  # within its next look at the files, and not only when the run is over
            self.said(name, rf"the certificate of 'client/{name}' was replaced: [0-9A-F]{{32}}, 365 days")
        before = self.committed(DB)
        self.wait_for(lambda: self.committed(DB) > before, "another commit")
        coordinator.kill()
        coordinator.wait()
        self.said(names[1], r"cannot be reached: \D+; since \d\d:\d\d UTC, next try in \d")
        rounds = self.committed(DB) + ROUNDS
        coordinator, _ = self.start_coordinator(port, "--resume", "latest", rounds=rounds)
        for name, process in clients.items():
            self.ends(process, name)
            self.assertIn("the run is over", self.logs[name][-1])
        self.ends(coordinator, "coordinator")
        self.simulate("--rounds", rounds, *RUN[2:], db="simulated.sqlite")
        self.assertEqual(self.digests(DB), self.digests("simulated.sqlite"))

    def test_revoked_client_loses_its_place_and_the_run_goes_on(self):
        names = self.partition()
        run = ["--set", "server.lease=2", "--set", "server.presence=3"]
        coordinator, port = self.start_coordinator(0, *run, rounds=100000, epochs=30)
        clients = {name: self.start_client(name, port) for name in names}
        self.wait_for(lambda: self.committed(DB) >= 1, "a commit")
        gone = names[2]
        self.ca("issue", "operator/ann", "--out", "ann")
        self.replace("ca/revoked.crl", "earlier.crl")
        self.ca("revoke", f"client/{gone}", "--reason", "key-compromise")
        self.replace("ca/revoked.crl", "coordinator/revoked.crl")
        revoked = rf"the certificate [0-9A-F]{{32}} of 'client/{gone}' was revoked on [-\d]+ \(key-compromise\); ask the authority"
        self.ends(clients.pop(gone), gone, code=1)
        self.assertRegex(self.logs[gone][-1], "^rivulet: " + revoked)
        self.said("coordinator", "refused a call: " + revoked)
        folded = lambda: self.query("SELECT count(*) FROM client_rounds WHERE client_id = ? AND status = 'folded'", gone, db=DB)
        # Operators see it, and its round did not wait for its lease: another was asked.
        def state_of_gone():
            told = self.run_rivulet("clients", "--coordinator", f"127.0.0.1:{port}", "--tls", "ann", "--json", code=0)
            found, = (client for client in json.loads(told.out) if client["client_id"] == gone)
            return found
        self.wait_for(lambda: state_of_gone()["state"] == "revoked", "operators to be told")
        state = state_of_gone()
        self.assertRegex(state["error"], revoked)
        self.assertRegex(state["error_at"], r"^\d{4}-")
        self.said("coordinator", f"client '{gone}' is refused: " + revoked)
        # What it had sent by then is in the next versions.
        rounds = self.committed(DB) + 3
        self.wait_for(lambda: self.committed(DB) >= rounds, "the run to go on")
        before = folded()
        # Started again it is refused as it connects, and hears that much.
        again = self.start_client(gone, port)
        self.said(gone, rf"it closed the connection because it does not admit the certificate [0-9A-F]{{32}} of 'client/{gone}'")
        self.said("coordinator", "refused a connection: " + revoked)
        # Nor does the list from before let it in.
        self.replace("earlier.crl", "coordinator/revoked.crl")
        old = "is older than the last one, .* stays in force"
        self.said("coordinator", old)
        told = self.run_rivulet("status", "--coordinator", f"127.0.0.1:{port}", "--tls", "ann", "--json", code=0)
        self.assertRegex(json.loads(told.out)[0]["warnings"], old)
        self.assertRegex(told.err, f"^warning: .*{old}")
        self.assertEqual(len(list(self.folder.glob(f"{DB}.revoked-*.crl"))), 1)
        self.stop(again, gone)
        self.wait_for(lambda: self.committed(DB) >= rounds + 5, "the run to go on")
        self.stop(coordinator, "coordinator")
        self.assertRegex(self.logs["coordinator"][-1], r"to resume: rivulet coordinator .* --tls coordinator$")
        for name, process in clients.items():
            self.stop(process, name)
        self.assertEqual(folded(), before)

    def test_a_kit_without_a_scenario_waits_for_what_is_submitted_also_after_runs_that_ended(self):
        self.run_rivulet("ca", "kit", "coordinator/fl", "--listen", "127.0.0.1:0", "--out", "kit", code=0)
        site = self.folder / "kit/site.conf"
        self.assertIn('RIVULET_SCENARIO="scenario.toml"', site.read_text())
        site.write_text(site.read_text().replace('"scenario.toml"', '""'))
        for ended in (False, True):
            if ended:
                self.simulate(db="kit/rivulet.sqlite")
            process = subprocess.Popen([self.folder / "kit/start"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       env={**os.environ, "RIVULET": RIVULET})
            self.processes.append(process)
            self.follow(process, f"coordinator {ended}")
            self.assertRegex(process.stdout.readline(), r"^listening on 127\.0\.0\.1:\d+\n$")
            self.stop(process, f"coordinator {ended}")
            self.assertEqual("had finished; waiting for submitted runs" in "".join(self.logs[f"coordinator {ended}"]), ended)

    def test_what_a_person_can_get_wrong(self):
        name, = self.partition()[:1]
        coordinator = ["coordinator", self.scenario, "--listen", "127.0.0.1:0", "--db", DB, *RUN]
        client = ["client", "--coordinator", "127.0.0.1:1", "--data", f"train=clients/{name}.tfrecord"]
        for arguments, fragments, code in [
            (coordinator, ["--tls DIR", "'rivulet ca kit coordinator/HOST'", "--insecure"], 2),
            (client, ["--tls DIR", "'rivulet ca kit client/ID'", "--insecure"], 2),
            ([*client, "--tls", name, "--insecure"], ["--tls", "--insecure"], 2),
            ([*client, "--tls", name, "--name", "other"], [f"'{name}'", "--name"], 2),
            ([*client, "--insecure"], ["--name ID"], 2),
            ([*client, "--tls", "coordinator"], ["'coordinator/localhost'", "client/"], 1),
            ([*coordinator, "--tls", name], [f"'client/{name}'", "coordinator/"], 1),
            ([*client, "--tls", "nowhere"], ["'nowhere/node.crt' is missing", "'rivulet ca kit'"], 1),
        ]:
            with self.subTest(arguments=arguments):
                self.assert_refused(self.run_rivulet(*arguments), *fragments, code=code)
        self.assertFalse((self.folder / DB).exists())

    def test_what_is_wrong_between_them_is_said_by_who_finds_it(self):
        names = self.partition()
        self.ca("init", "--name", "others", "--ca", "other")
        self.ca("issue", "client/stranger", "--ca", "other", "--out", "stranger")
        self.replace("clients/" + names[0] + ".tfrecord", "clients/stranger.tfrecord")
        coordinator, port = self.start_coordinator()
        stranger = self.start_client("stranger", port)
        self.said("stranger", "the certificate of 'coordinator/localhost' is not signed by the authority 'others'")
        # By a name that its certificate does not bear.
        astray = self.follow(self.start("client", "--coordinator", f"127.0.0.2:{port}", "--tls", names[0], "--data",
                                        f"train=clients/{names[0]}.tfrecord"), "astray")
        self.said("astray", r"cannot be reached: nothing listens there")
        for name, process in {"stranger": stranger, "astray": astray, "coordinator": coordinator}.items():
            self.stop(process, name)
        for log in self.logs.values():
            self.assertNotRegex("".join(log), r"SSL|ipv4:|handshake|subchannel")

    def test_only_who_stands_in_the_list_is_admitted(self):
        names = self.partition()
        self.write("expected.txt", "\n".join(names[:-1]) + "\n")
        coordinator, port = self.start_coordinator(0, "--clients", "expected.txt", epochs=30)
        clients = {name: self.start_client(name, port) for name in names}
        self.ends(clients[names[-1]], names[-1], code=1)
        self.assertIn("is not expected here; ask the coordinator's operator", self.logs[names[-1]][-1])
        self.said("coordinator", f"refused client '{names[-1]}', which is not expected; to admit it, add its name to 'expected.txt'")
        self.write("expected.txt", "\n".join(names) + "\n")
        clients[names[-1]] = self.start_client(names[-1], port)
        for name, process in clients.items():
            self.ends(process, name)
        self.ends(coordinator, "coordinator")
        self.assert_refused(self.run_rivulet("coordinator", self.scenario, "--listen", "127.0.0.1:0", "--insecure", "--clients",
                                             "nobody.txt", "--db", "none.sqlite"), "nobody.txt", code=1)
        self.assertFalse((self.folder / "none.sqlite").exists())

    def test_up_needs_no_word_about_it(self):
        run = ["--rounds", 2, "--set", f"server.clients_per_round={PER_ROUND}"]
        self.simulate(*run, "--set", f"data.partition.clients={CLIENTS}", db="simulated.sqlite")
        done = self.run_rivulet("up", self.scenario, "--clients", CLIENTS, "--db", "up.sqlite", *run, "--json", code=0)
        self.assertEqual(json.loads(done.out)["model_digest"], self.digests("simulated.sqlite")[-1])
        rows = self.query("SELECT DISTINCT client_id FROM client_rounds ORDER BY 1", db="up.sqlite")
        self.assertLessEqual(len(rows), CLIENTS)


if __name__ == "__main__":
    main()
