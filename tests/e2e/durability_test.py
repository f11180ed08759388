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

    def coordinator(self, *more):
        process = self.start("coordinator", self.scenario, "--listen", self.address, "--insecure", "--db",
                             self.path("deployed.sqlite"), *RUN, *more)
        self.address = process.stdout.readline().split()[-1]
        threading.Thread(target=process.stderr.read, daemon=True).start()
        return process

    def client(self, name, *more, on_event=None):
        client = Client(self.start("client", "--coordinator", self.address, "--insecure", "--name", name, "--data",
                                   f"train=clients/{name}.tfrecord", "--state", f"state-{name}", "--json", *more), name)
        if on_event:
            client.on_event = on_event
        return client

    def files(self, name):
        folder = self.folder / f"state-{name}" / "updates"
        return [path for path in folder.rglob("*") if path.is_file()]

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
            held = self.files(client.name)
            self.assertEqual(len(held), 1, "that of round 1 is durable, that of round 2 is not")
            self.assertEqual(stat.S_IMODE(held[0].stat().st_mode), 0o600)
        self.kill(coordinator)
        coordinator = self.coordinator("--resume", "latest")
        for client in others:
            self.wait_for(lambda: (2, "accepted", True) in client.reports(), f"{client.name} to send it again")
        slow.process.send_signal(signal.SIGCONT)
        self.ends_as_simulated(coordinator, [slow, *others])
        for client in [slow, *others]:  # each round was trained once
            self.assertEqual([report[0] for report in client.reports() if not report[2]], list(range(1, ROUNDS + 1)))

    def test_both_sides_killed_and_an_update_that_is_damaged(self):
        coordinator = self.coordinator()
        slow = self.stop_at_round_2(self.names[0])
        others = [self.client(name) for name in self.names[1:]]
        for client in others:
            self.wait_for(lambda: (2, "accepted", False) in client.reports(), f"{client.name} to be acknowledged")
        for process in [coordinator, *(client.process for client in [slow, *others])]:
            self.kill(process)
        damaged = self.files(self.names[1])[0]
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
