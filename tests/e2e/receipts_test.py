"""Receipts: a client's proof that its update counted, and two histories of one run that clients find out."""
import json
import shutil

from harness import RivuletTest, main

TWO = ("--set", "data.partition.clients=2", "--set", "server.clients_per_round=2", "--set", "server.min_reports=1")


class Receipts(RivuletTest):
    def ca(self, *arguments):
        self.run_rivulet("ca", *arguments, "--ca", self.path("authority"), code=0)

    def setUp(self):
        super().setUp()
        self.ca("init", "--name", "study")
        self.ca("issue", "coordinator/localhost", "--host", "127.0.0.1", "--out", "coordinator")
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("clients"), *TWO, code=0)
        self.names = sorted(path.stem for path in (self.folder / "clients").glob("*.tfrecord"))
        for name in self.names:
            self.ca("issue", f"client/{name}", "--out", name)

    def run_for(self, rounds, *more, db="runs.sqlite", code=0):
        coordinator = self.start("coordinator", self.scenario, *TWO, "--rounds", str(rounds), "--listen", "127.0.0.1:0", "--tls",
                                 "coordinator", "--db", db, *more)
        port = coordinator.stdout.readline().strip().rsplit(":", 1)[-1]
        self.follow(coordinator, "coordinator")
        clients = [self.follow(self.start("client", "--coordinator", f"127.0.0.1:{port}", "--tls", name, "--data",
                                          f"train=clients/{name}.tfrecord", "--state", f"state-{name}", "--receipts", f"receipts-{name}"), name)
                   for name in self.names]
        coordinator.wait(timeout=120)
        self.assertEqual(coordinator.returncode, code, self.logs["coordinator"])
        for client, name in zip(clients, self.names):
            client.wait(timeout=60)
            self.readers[name].join(timeout=10)

    def check(self, *folders, code=0):
        return self.run_rivulet("receipts", "check", *map(self.path, folders), "--authority", self.path("authority/authority.crt"), code=code)

    def test_updates_that_counted_have_receipts(self):
        self.run_for(4)
        folders = [f"receipts-{name}" for name in self.names]
        counted = self.query("SELECT client_id, count(*) FROM client_rounds WHERE status = 'folded' AND update_digest IS NOT NULL GROUP BY 1")
        self.assertEqual(sorted(client for client, _ in counted), self.names)
        for client, tasks in counted:
            receipts = list((self.folder / f"receipts-{client}").glob("receipt-*.json"))
            self.assertGreaterEqual(len(receipts), 1, self.logs[client])  # those of the last versions may not, when the run is over
            self.assertLessEqual(len(receipts), tasks)
            digests = {digest for digest, in self.query("SELECT update_digest FROM client_rounds WHERE client_id = ?", client)}
            self.assertTrue({json.loads(path.read_text())["identity"] for path in receipts} <= digests)
        self.check(*folders)
        verify = ("runs", "verify", "latest", "--records", "--db", self.path("runs.sqlite"), "--receipts")
        self.run_rivulet(*verify, self.path(folders[0]), code=0)
        receipt = next((self.folder / folders[0]).glob("receipt-*.json"))
        whole = receipt.read_text()
        receipt.write_text(whole.replace('"index":', '"index":1'))
        self.assert_refused(self.check(folders[0], code=1), receipt.name, code=1)
        receipt.write_text(whole)

    def test_a_replaced_history_is_refused_and_found(self):
        self.run_for(2)
        shutil.copy(self.path("runs.sqlite"), self.path("copy.sqlite"))
        shutil.copytree(self.path("runs.sqlite.models"), self.path("copy.sqlite.models"))
        self.run_for(12, "--resume", "latest")  # what is shown is at most three versions behind
        for name in self.names:
            shutil.copytree(self.path(f"receipts-{name}"), self.path(f"kept-{name}"))
        # The same run goes on from before, and makes its third version once more.
        shutil.rmtree(self.path(f"receipts-{self.names[1]}"))
        for path in (self.folder / f"state-{self.names[1]}").rglob("*"):
            if path.is_file() and path.parent.name == "updates":
                path.unlink()
        self.run_for(4, "--resume", "latest", db="copy.sqlite", code=0)
        first = "".join(self.logs[self.names[0]])
        self.assertIn("which it has shown before: the run's history was replaced", first)
        lost = self.run_rivulet("runs", "verify", "latest", "--records", "--db", self.path("copy.sqlite"), "--receipts",
                                self.path(f"kept-{self.names[0]}"))
        self.assert_refused(lost, "is not as its clients were shown it, first at version", code=1)


main()
