"""Replies and downloads that are changed on their way to a client and to a worker: a false coordinator. Each ends a call or the process
with a sentence; nobody crashes, grows or writes outside its folder, and honest replies are served again after them."""
import os
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from world import World, grpc  # noqa: E402
import chance as chances  # noqa: E402
from protos import ROOT  # noqa: E402

from harness import main, measures_memory  # noqa: E402

sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests/python")]
try:
    import relay

    class FalseRelay(relay.Relay):
        """Every third reply is changed while `lies` is set."""

        def __init__(self, target):
            self.lies, self.told, self.lock = True, 0, threading.Lock()
            super().__init__(target)

        def changed(self, content):
            with self.lock:
                number, self.told = self.told, self.told + 1
            chance = chances.of("replies", number)
            if not self.lies or chance.random() < 0.66:
                return content
            return chances.mutated(content, chance, chance.choice([1, 1, 2, 8])) if chance.random() < 0.9 else chance.randbytes(chance.choice([0, 9, 5000]))

        def _unary(self, name):
            honest = super()._unary(name)
            return lambda request, context: self.changed(honest(request, context))

        def _fetch(self, request, context):
            for content in super()._fetch(request, context):
                yield self.changed(content)

        def _submit(self, messages, context):
            for content in super()._submit(messages, context):
                yield self.changed(content)
except ImportError:
    relay = None


@unittest.skipUnless(grpc and relay, "needs gRPC, Protobuf and NumPy (Debian's python3-grpcio, python3-protobuf and python3-numpy)")
class Replies(World):
    def attack(self, name, between, start, committed):
        """`start`: a process; again, whenever one has ended."""
        before = set(os.listdir(self.folder))
        ends, peak, process = {}, 0, None
        for number, _ in chances.cases(f"{name}s", chances.seconds(8), most=10_000):
            if process is None or process.poll() is not None:
                if process is not None:
                    ends[process.returncode] = ends.get(process.returncode, 0) + 1
                    self.readers[f"{name} {len(self.logs)}"].join(timeout=5)
                    self.assertIn(process.returncode, (0, 1, 2), f"seed {chances.SEED}: {self.logs[f'{name} {len(self.logs)}'][-3:]}")
                process = start()
                self.follow(process, f"{name} {len(self.logs) + 1}")
            try:
                peak = max(peak, self.memory(process))
            except FileNotFoundError:
                pass
            threading.Event().wait(0.02)
        print(f"{name}: {between.told} replies, ends {ends}, {peak >> 10} MB at the peak", flush=True)
        self.assertLess(peak, 400 << 10)
        for lines in self.logs.values():
            self.assertNotRegex("".join(lines), r"[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f\u202e]")
        strange = [path for path in set(os.listdir(self.folder)) - before if not path.startswith(("state", "runs.sqlite", "data"))]
        self.assertEqual(strange, [])
        between.lies = False
        if process.poll() is None:
            process.kill()
            process.wait()
        last = self.follow(start(), f"{name} at last")
        rounds = committed()
        try:
            self.wait_for(lambda: committed() > rounds, "a round of honest replies", 60)
        except AssertionError as failure:
            self.fail(f"{failure}; seed {chances.SEED}, {last.poll()}: { {each: lines[-4:] for each, lines in self.logs.items() if lines[-4:]} }"[:4000])

    @measures_memory
    def test_to_a_client(self):
        sets = ["--set", "data.partition.clients=1", "--set", "server.clients_per_round=1", "--set", "server.lease=1"]
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("data/clients"), *sets[:2], code=0)
        [data] = (self.folder / "data/clients").glob("*.tfrecord")
        _, port = self.start_coordinator(*sets, name="runs", security=("--insecure",), rounds=1_000_000)
        between = FalseRelay(f"127.0.0.1:{port}")
        self.addCleanup(between.stop)
        self.attack("client", between, lambda: self.start("client", "--coordinator", between.address, "--insecure", "--name", "a", "--data",
                                                          f"train={data}", "--state", "state"), self.committed)

    @measures_memory
    def test_to_a_worker(self):
        simulation = self.start("simulate", self.scenario, "--db", "runs.sqlite", "--rounds", 1_000_000, "--workers", 0, "--workers-at",
                                "127.0.0.1:0", "--set", "server.lease=1", "--set", "run.durability=round", "--set",
                                "server.max_attempts=1000000", "--insecure")
        port = next(line.rsplit(":", 1)[1].strip() for line in simulation.stderr if line.startswith("listening on "))
        self.follow(simulation, "simulation")
        between = FalseRelay(f"127.0.0.1:{port}")
        self.addCleanup(between.stop)
        self.attack("worker", between, lambda: self.start("worker", "--simulation", between.address, "--insecure", "--workers", 1, "--data",
                                                          "data"), self.committed)
        self.assert_lives(simulation, "simulation")


if __name__ == "__main__":
    main()
