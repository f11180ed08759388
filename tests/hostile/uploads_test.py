"""Uploads that are changed after an honest client made them, in every codec, to a coordinator as a process: each is counted or refused
with a sentence, and the coordinator serves on. tests/simulations/hostile_updates_test.cc asks in one process, of every algorithm
too, whether what is refused leaves a trace in the sum."""
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from world import CALLS, World, ask, caller, grpc  # noqa: E402
import chance as chances  # noqa: E402
from protos import ROOT  # noqa: E402

from harness import field, main, measures_memory, varint  # noqa: E402

sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests/python")]
try:
    import relay
    from rivulet import _protocol
    from rivulet._crc32c import crc32c
    from rivulet._update import identity
except ImportError:
    relay = None

MUTANTS = 24
SECONDS = 20.0  # of all codecs
FLOAT = b"\x01\0\0\0\0\0\0\0"


def codecs():
    text = "".join(path.read_text() for path in sorted((ROOT / "federated/codecs").glob("*.cc")))
    return sorted(set(re.findall(r'\bRIVULET_CODEC\("(\w+)"', text)))


def fields(content):
    """[(number, wire type, payload)] of a message of ours: varints, fixed words and bytes."""
    found, at = [], 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = content[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(content):
        key = number()
        if key & 7 == 0:
            found.append((key >> 3, 0, number()))
        elif key & 7 == 2:
            size = number()
            found.append((key >> 3, 2, bytes(content[at:at + size])))
            at += size
        else:
            size = 8 if key & 7 == 1 else 4
            found.append((key >> 3, key & 7, bytes(content[at:at + size])))
            at += size
    return found


def joined(parts):
    return b"".join(varint(number << 3) + varint(value) if kind == 0 else
                    varint(number << 3 | 2) + varint(len(value)) + value if kind == 2 else
                    varint(number << 3 | kind) + value for number, kind, value in parts)


def changed(update, chance):
    """A change of the bytes, or of what is in them: a part's data, a scalar, a part twice or gone."""
    kind = chance.randrange(6)
    if kind == 0:
        return chances.mutated(update, chance)
    parts = fields(update)
    at = chance.randrange(len(parts))
    number, wire, payload = parts[at]
    inside = fields(payload)
    if kind == 1:
        parts.insert(chance.randrange(len(parts) + 1), parts[at])
    elif kind == 2:
        del parts[at]
    elif number == 2:  # a part: name, data
        inside = [(which, how, chances.mutated(value, chance) if which == 3 and kind < 5 else
                   (chance.choice([b"", b"delta\n", b"\x1b[2J", b"x" * 70_000]) if which == 1 and kind == 5 else value))
                  for which, how, value in inside]
        parts[at] = (number, wire, joined(inside))
    else:  # a scalar: name, double
        odd = chance.choice([b"\0\0\0\0\0\0\xf0\x7f", b"\0\0\0\0\0\0\xf8\x7f", b"\0\0\0\0\0\0\xf0\xff", b"\0\0\0\0\0\0\0\0",
                             b"\x9c\x75\x00\x88\x3c\xe4\x37\x7e", b"\0\0\0\0\0\0\xe0\xbf", FLOAT, chance.randbytes(8)])
        inside = [(which, how, odd if which == 2 else value) for which, how, value in inside]
        parts[at] = (number, wire, joined(inside))
    return joined(parts)


def messages(name, task, step, update, chance=None):
    """Of one upload; with `chance`, now and then not as the protocol has it."""
    crcs = [int(crc32c([update])[0])] if update else []
    odd = chance.randrange(12) if chance else -1
    announced = len(update) + (chance.choice([-1, 1, 1 << 20, -(1 << 40)]) if odd == 0 else 0)
    header = field(1, field(1, caller(name)) + field(2, field(1, task) + field(2, step) + field(3, announced)))
    chunks = [field(3, update)] if odd != 1 else [field(3, update[at:at + 7]) for at in range(0, min(len(update), 7_000), 7)]
    resume = field(2, 0) if odd != 2 else field(2, chance.choice([1, 1 << 20, -1, 1 << 62]))
    named = identity(step, len(update), crcs) if odd != 3 else chance.randbytes(32)
    sent = [header, resume, *chunks, field(4, named)]
    if odd == 4:
        chance.shuffle(sent)
    elif odd == 5:
        sent = sent[:chance.randrange(1, len(sent))]
    elif odd == 6:
        sent.insert(chance.randrange(len(sent) + 1), chance.choice([b"", b"\xff", field(5, update[:200]), header, chance.randbytes(40)]))
    return sent


@unittest.skipUnless(grpc and relay, "needs gRPC, Protobuf and NumPy (Debian's python3-grpcio, python3-protobuf and python3-numpy)")
class Uploads(World):
    IN_MEMORY = True

    def setUp(self):
        super().setUp()
        self.made = self.counted = 0

    @measures_memory
    def test_every_codec(self):
        names = os.environ.get("RIVULET_HOSTILE_CODECS", "").split() or codecs()
        self.assertGreaterEqual(len(codecs()), 18)
        print(f"RIVULET_HOSTILE_SEED={chances.SEED}", flush=True)
        for codec in names:
            with self.subTest(codec):
                self.attack(codec, chances.seconds(SECONDS) / len(names))
        print(f"uploads: {self.made} of {len(names)} codecs, {self.counted} counted, the others refused", flush=True)

    def attack(self, codec, seconds):
        clients = MUTANTS + 1
        sets = {"update.codec": codec, "data.partition.clients": clients, "data.synth.writers": clients, "client.epochs": 1,
                "server.clients_per_round": clients, "server.min_reports": 1, "server.lease": 600, "server.deadline": 600}
        if codec in ("top_k", "random_k", "random_k_shared"):
            sets["update.fraction"] = 0.1
        settings = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
        coordinator, port = self.start_coordinator(*settings, name=codec, security=("--insecure",), rounds=100_000)
        if not (self.folder / "clients").exists():
            self.run_rivulet("data", "partition", self.scenario, "--out", self.path("clients"), *settings, code=0)
        data = sorted((self.folder / "clients").glob("*.tfrecord"))[0]
        between = relay.Relay(f"127.0.0.1:{port}")
        self.addCleanup(between.stop)
        honest = self.start("client", "--coordinator", between.address, "--insecure", "--name", "honest", "--data", f"train={data}",
                            "--state", f"state-{codec}")
        channel = self.channel(port, plaintext=True)
        tasks, update = {}, b""

        def poll(name):
            content = field(1, caller(name)) + field(2, field(1, "0") + field(2, 1) + field(3, field(1, "train") + field(2, 8))) + field(5, 1)
            code, sentence, replies = ask(channel, CALLS["Coordinator.Poll"], content)
            self.assertEqual(code, "OK", f"{name}: {sentence}")
            for task in _protocol.PollReply.FromString(replies[0]).tasks:
                tasks[name] = task

        def captured():
            for name in (f"mutant-{i}" for i in range(MUTANTS)):
                if name not in tasks:
                    poll(name)
            return next((bytes(sent) for sent in between.updates.values() if sent), b"")

        def end_of(name, sent):
            code, sentence, replies = ask(channel, CALLS["Coordinator.Submit"], *sent)
            self.assertNotRegex(sentence, r"[\x00-\x08\x0b-\x1f\x7f]")
            result = next((reply.result for reply in map(_protocol.SubmitReply.FromString, replies) if reply.HasField("result")), None)
            if result is not None:
                self.assertNotRegex(result.reason, r"[\x00-\x08\x0b-\x1f\x7f]")
            return code, result

        update = self.wait_for(captured, f"an honest update by {codec}", 15)
        self.wait_for(lambda: captured() and tasks, "tasks")
        rest = self.memory(coordinator)
        for number, chance in chances.cases(f"uploads/{codec}", seconds):
            name = f"mutant-{number % MUTANTS}"
            if name not in tasks:
                poll(name)
                if name not in tasks:
                    continue
            task = tasks[name]
            code, result = end_of(name, messages(name, task.id, task.step, changed(update, chance), chance))
            self.made += 1
            self.counted += result is not None and result.kind == 0
            self.assertIn(code, ("OK", "INVALID_ARGUMENT", "NOT_FOUND", "DATA_LOSS", "FAILED_PRECONDITION", "CANCELLED", "OUT_OF_RANGE",
                                 "RESOURCE_EXHAUSTED", "UNAVAILABLE", "ABORTED"), f"case {number} of seed {chances.SEED}")
            if result is not None:
                del tasks[name]
            self.assert_lives(coordinator, f"{codec}, case {number} of seed {chances.SEED}: the coordinator")
        self.assertLess(self.memory(coordinator) - rest, 64 << 10)
        # Others are served on, and no number that is none has come through.
        before = self.committed(f"{codec}.sqlite")
        self.wait_for(lambda: [poll(f"mutant-{i}") for i in range(MUTANTS) if f"mutant-{i}" not in tasks] is not None and [
            end_of(name, messages(name, task.id, task.step, update)) for name, task in list(tasks.items()) if tasks.pop(name)] is not None
            and self.committed(f"{codec}.sqlite") > before, "a round of honest updates", 15)
        odd = self.query("SELECT round, name, value FROM metrics WHERE value IS NULL OR abs(value) > 1.7e308", db=f"{codec}.sqlite")
        self.assertEqual(odd, [])
        honest.kill()
        coordinator.kill()
        coordinator.wait()


if __name__ == "__main__":
    main()
