"""Whoever is killed, finished work is not done again: it lies on a disk until the version that it is in does."""
import json
import pathlib
import signal
import stat
import threading

from harness import RivuletTest, main

CLIENTS, ROUNDS = 3, 3
# A round takes a client some tenths of a second, so that it can be stopped in the middle of one.
RUN = ["--rounds", ROUNDS, "--set", f"data.partition.clients={CLIENTS}", "--set", f"server.clients_per_round={CLIENTS}",
       "--set", "client.epochs=1000"]


class Client:
    """A client's process, what it has said so far, and its tasks: (round, status, resent)."""

    def __init__(self, process, name):
        self.process, self.name, self.events, self.changed = process, name, [], threading.Condition()
        self.on_event = lambda event: None
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=process.stderr.read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            event = json.loads(line)
            self.on_event(event)
            with self.changed:
                self.events.append(event)
                self.changed.notify_all()

    def of(self, kind):
        with self.changed:
            return [event for event in self.events if event["event"] == kind]

    def reports(self):
        return [(event["round"], event["status"], event["resent"]) for event in self.of("report")]


class Durability(RivuletTest):
    def setUp(self):
        super().setUp()
        self.simulate(*RUN, db="simulated.sqlite")
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("clients"), *RUN[2:], code=0)
        self.names = sorted(path.stem for path in (self.folder / "clients").glob("*.tfrecord"))
        self.address = "127.0.0.1:0"

    def coordinator(self, *more, run=RUN):
        process = self.start("coordinator", self.scenario, "--listen", self.address, "--insecure", "--db",
                             self.path("deployed.sqlite"), *run, *more)
        self.address = process.stdout.readline().split()[-1]
        threading.Thread(target=process.stderr.read, daemon=True).start()
        return process

    def client(self, name, *more, records="clients"):
        return Client(self.start("client", "--coordinator", self.address, "--insecure", "--name", name, "--data",
                                 f"train={records}/{name}.tfrecord", "--state", f"state-{name}", "--json", *more), name)

    def files(self, name, pattern="*"):
        folder = self.folder / f"state-{name}" / "updates"
        return [path for path in folder.rglob(pattern) if path.is_file()]

    def kill(self, process):
        process.kill()
        process.wait()

    def stop_at_round_2(self, name):
        """A client that stands still, for as long as the test wants, once it has its task of round 2."""
        def on_event(event):
            if event["event"] == "task" and event["round"] == 2:
                client.process.send_signal(signal.SIGSTOP)
        client = self.client(name)
        client.on_event = on_event
        return client

    def ends_as_simulated(self, coordinator, clients):
        self.assertEqual(coordinator.wait(timeout=60), 0)
        for client in clients:
            self.assertEqual(client.process.wait(timeout=60), 0, client.events[-3:])
        self.assertEqual(self.digests("deployed.sqlite"), self.digests("simulated.sqlite"))
        for name in self.names:
            self.assertEqual(self.files(name), [], "what is durable is held no longer")

    def test_coordinator_killed_with_updates_that_it_had_acknowledged(self):
        coordinator = self.coordinator()
        slow = self.stop_at_round_2(self.names[0])
        others = [self.client(name) for name in self.names[1:]]
        for client in others:
            self.wait_for(lambda: (2, "accepted", False) in client.reports(), f"{client.name} to be acknowledged")
            held = self.files(client.name, "*-r2-a1-update-0")
            self.assertEqual(len(held), 1, "it is in no durable version")
            self.assertEqual(stat.S_IMODE(held[0].stat().st_mode), 0o600)
        self.kill(coordinator)
        coordinator = self.coordinator("--resume", "latest")
        for client in others:
            self.wait_for(lambda: (2, "accepted", True) in client.reports(), f"{client.name} to send it again")
        slow.process.send_signal(signal.SIGCONT)
        self.ends_as_simulated(coordinator, [slow, *others])
        for client in [slow, *others]:  # each round was trained once
            self.assertEqual([report[0] for report in client.reports() if not report[2]], list(range(1, ROUNDS + 1)))

    def test_coordinator_that_checkpoints_reports_asks_nobody_again(self):
        coordinator = self.coordinator("--set", "server.checkpoint_reports=true")
        slow = self.stop_at_round_2(self.names[0])
        others = [self.client(name) for name in self.names[1:]]
        for client in others:
            self.wait_for(lambda: (2, "accepted", False) in client.reports(), f"{client.name} to be acknowledged")
        reports = lambda: [*(self.folder / "deployed.sqlite.models").glob("*/reports/*.report")]
        self.assertEqual([stat.S_IMODE(path.stat().st_mode) for path in reports()], [0o600, 0o600])
        self.kill(coordinator)
        coordinator = self.coordinator("--resume", "latest")
        slow.process.send_signal(signal.SIGCONT)
        self.ends_as_simulated(coordinator, [slow, *others])
        for client in others:
            self.assertEqual(client.reports(), [(round, "accepted", False) for round in range(1, ROUNDS + 1)])
        self.assertEqual([*(self.folder / "deployed.sqlite.models").glob("*/reports")], [])
        said = self.query("SELECT count(*) FROM events WHERE message LIKE '%acknowledged before the restart is counted'",
                          db="deployed.sqlite")
        self.assertEqual(said, [(2,)])

    def test_a_run_that_is_pruned_leaves_no_update_behind(self):
        coordinator = self.coordinator("--set", "server.checkpoint_reports=true")
        slow = self.stop_at_round_2(self.names[0])
        others = [self.client(name) for name in self.names[1:]]
        for client in others:
            self.wait_for(lambda: (2, "accepted", False) in client.reports(), f"{client.name} to be acknowledged")
        models = self.folder / "deployed.sqlite.models"
        self.assertEqual(len([*models.glob("*/reports/*.report")]), 2)
        coordinator.send_signal(signal.SIGINT)
        coordinator.wait(timeout=60)
        for client in [slow, *others]:
            self.kill(client.process)
        self.run_rivulet("runs", "prune", "--keep", 0, "--yes", "--db", self.path("deployed.sqlite"), code=0)
        self.assertEqual([*models.glob("*")], [])

    def test_client_killed_in_the_middle_of_a_training_goes_on_from_there(self):
        # Several checkpoints of a second each, also on a fast machine.
        long = ["--rounds", 1, "--set", "data.partition.clients=1", "--set", "server.clients_per_round=1", "--set",
                "client.epochs=40000"]
        self.simulate(*long, db="long.sqlite")
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("alone"), *long[2:], code=0)
        coordinator = self.coordinator(run=long)
        often = ["--checkpoint-seconds", "1"]
        first = self.client("client-00000", *often, records="alone")
        folder = self.folder / "state-client-00000" / "training"
        kept = lambda: [path for path in folder.glob("*") if ".tmp" not in path.name]
        self.wait_for(kept, "a checkpoint")
        self.assertEqual(stat.S_IMODE(kept()[0].stat().st_mode) & 0o077, 0)
        self.kill(first.process)
        self.assertEqual(first.reports(), [])
        second = self.client("client-00000", *often, records="alone")
        self.assertEqual(coordinator.wait(timeout=60), 0)
        self.assertEqual(second.process.wait(timeout=60), 0)
        self.assertRegex(second.of("event")[0]["message"], r"^resumes after step [1-9]\d* of an interrupted training$")
        self.assertEqual(self.digests("deployed.sqlite"), self.digests("long.sqlite"))
        self.assertEqual([*folder.glob("*")], [])

    def test_both_sides_killed_and_an_update_that_is_damaged(self):
        coordinator = self.coordinator()
        slow = self.stop_at_round_2(self.names[0])
        others = [self.client(name) for name in self.names[1:]]
        for client in others:
            self.wait_for(lambda: (2, "accepted", False) in client.reports(), f"{client.name} to be acknowledged")
        for process in [coordinator, *(client.process for client in [slow, *others])]:
            self.kill(process)
        damaged = self.files(self.names[1], "*-r2-a1-update-0")[0]
        damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
        coordinator = self.coordinator("--resume", "latest")
        clients = [self.client(name) for name in self.names]
        self.ends_as_simulated(coordinator, clients)
        resent = [[report[0] for report in client.reports() if report[2]] for client in clients]
        self.assertEqual(resent, [[], [], [2]])
        said = [event["message"] for event in clients[1].of("event")]
        self.assertEqual(len(said), 1, said)
        self.assertIn("the finished update of round 2 is dropped: ", said[0])

    def test_no_folder_to_hold_them_in_is_said_and_harms_nothing(self):
        pathlib.Path(self.path(f"state-{self.names[0]}")).mkdir()
        self.write(f"state-{self.names[0]}/updates", "a file")
        coordinator = self.coordinator()
        clients = [self.client(self.names[0]), self.client(self.names[1], "--hold-megabytes", "0"),
                   self.client(self.names[2])]
        self.assertEqual(coordinator.wait(timeout=60), 0)
        for client in clients:
            client.process.wait(timeout=60)
        self.assertEqual(self.digests("deployed.sqlite"), self.digests("simulated.sqlite"))
        said = [event["message"] for event in clients[0].of("event")]
        self.assertEqual(len(said), 1, said)
        self.assertIn("the finished update of round 1 is not kept on disk: ", said[0])
        self.assertFalse((self.folder / f"state-{self.names[1]}").exists())


if __name__ == "__main__":
    main()
