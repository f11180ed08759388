"""server.partial = "disk": the bits of sums in memory, from a file without a name that is reserved before the run begins."""
import json
import pathlib
import re
import resource
import signal
import threading

from harness import RivuletTest, main

CLIENTS, ROUNDS = 3, 4
RUN = ["--rounds", ROUNDS, "--set", f"data.partition.clients={CLIENTS}", "--set", f"server.clients_per_round={CLIENTS}"]
DISK = ["--set", "server.partial=disk"]
DB = "runs.sqlite"


class SumsOnDisk(RivuletTest):
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

    def start_coordinator(self, *more, name="coordinator", listen="127.0.0.1:0"):
        return self.listening(name, "coordinator", self.scenario, "--listen", listen, "--insecure", "--db", DB, *RUN, *more)

    def start_client(self, name, address):
        process = self.start("client", "--coordinator", address, "--insecure", "--name", name, "--data",
                             f"train=clients/{name}.tfrecord", "--state", f"state-{name}")
        threading.Thread(target=process.stderr.read, daemon=True).start()
        return process

    def mapped(self, process):
        """Files of the test's folder that a process has in its memory, each without a name."""
        maps = pathlib.Path(f"/proc/{process.pid}/maps").read_text().splitlines()
        return [line for line in maps if str(self.folder) in line and line.endswith("(deleted)")]

    def files(self):
        """Beside the history's own."""
        return {path.name for path in self.folder.iterdir()} - {DB, f"{DB}-wal", f"{DB}-shm", f"{DB}.models"}

    def in_memory(self):
        self.simulate(*RUN, db="memory.sqlite")
        return self.digests("memory.sqlite")

    def test_clients_give_the_bits_of_memory(self):
        expected = self.in_memory()
        before = self.files()
        coordinator, address = self.start_coordinator(*DISK)
        self.assertEqual(len(self.mapped(coordinator)), 1, "it is there before anybody is asked")
        self.assertEqual(self.files(), before)
        clients = [self.start_client(name, address) for name in self.names]
        self.ends(coordinator, "coordinator")
        for client in clients:
            self.assertEqual(client.wait(timeout=60), 0)
        self.assertEqual(self.digests(), expected)
        self.assertEqual(self.files() - before, {f"state-{name}" for name in self.names})

    def test_partial_sums_of_aggregators_give_the_bits_of_memory(self):
        expected = self.in_memory()
        coordinator, root = self.start_coordinator("--aggregators", *DISK)
        ways = [root]
        for name in "north", "south":
            aggregator, address = self.listening(name, "aggregator", "--parent", root, "--listen", "127.0.0.1:0", "--insecure",
                                                 "--name", name)
            self.assertEqual(self.mapped(aggregator), [])
            ways.append(address)
        clients = [self.start_client(name, way) for name, way in zip(self.names, ways)]
        self.ends(coordinator, "coordinator")
        for client in clients:
            self.assertEqual(client.wait(timeout=60), 0)
        self.assertEqual(self.digests(), expected)
        rows = self.query("SELECT DISTINCT parent_id FROM client_rounds")
        self.assertLessEqual({"north", "south"}, {way for (way,) in rows})

    def test_killed_with_updates_in_the_file_leaves_none_and_goes_on_to_the_same_bits(self):
        expected = self.in_memory()
        before = self.files()
        patient = [*DISK, "--set", "server.lease=600", "--set", "server.presence=600"]
        coordinator, address = self.start_coordinator(*patient)
        # One of three is known and answers nothing more, so that the sum of the others waits for it.
        last = self.start_client(self.names[-1], address)
        self.wait_for(lambda: self.query("SELECT * FROM clients"), "the first client's row")
        last.send_signal(signal.SIGSTOP)
        others = [self.start_client(name, address) for name in self.names[:-1]]

        def folded():
            status = self.run_rivulet("status", "--coordinator", address, "--insecure", "--json", code=0)
            return [run["folded"] for run in json.loads(status.out)] == [CLIENTS - 1]

        self.wait_for(folded, "two updates in the sum")
        self.assertEqual(len(self.mapped(coordinator)), 1)
        coordinator.kill()
        coordinator.wait()
        self.assertLessEqual(self.files() - before, {f"state-{name}" for name in self.names})
        last.send_signal(signal.SIGCONT)
        again, _ = self.start_coordinator(*patient, "--resume", "latest", name="again", listen=address)
        self.assertEqual(len(self.mapped(again)), 1)
        self.ends(again, "again")
        for client in [*others, last]:
            self.assertEqual(client.wait(timeout=60), 0)
        self.assertEqual(self.digests(), expected)

    def test_without_room_for_the_file_nothing_begins(self):
        few = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
        words = ["coordinator", self.scenario, "--listen", "127.0.0.1:0", "--insecure", "--db", DB, *RUN, "--set", "model.preset=mlp"]
        refused = self.run_rivulet(*words, *DISK, preexec_fn=few)
        self.assert_refused(refused, "cannot reserve 1593680 bytes", "server.partial", "ulimit -f", code=1)
        self.assertEqual(self.query("SELECT * FROM runs"), [])
        self.assertFalse((self.folder / f"{DB}.models").exists())

    def test_secure_sums_have_no_such_file(self):
        words = ["plan", "build", self.scenario, "--out", self.path("plan"), "--set", "privacy.secure=arithmetic", *DISK]
        self.assert_refused(self.run_rivulet(*words), "server.partial", "privacy.secure")


if __name__ == "__main__":
    main()
