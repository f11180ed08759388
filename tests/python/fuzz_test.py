"""Each reader of bytes that come from elsewhere: damaged anyhow, they are read or refused by an error of ours.

    python3 tests/python/fuzz_test.py --search READER [libFuzzer's options]

searches one reader with atheris, guided by coverage, from the same beginnings, for as long as it is told to.
"""

import contextlib
import json
import logging
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import packaged
import harness

MUTATIONS = 300
SEARCHED = 20_000  # inputs of each reader, where atheris is installed


def header_of(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


class Readers:
    """By name what reads, from which bytes a search begins, and which errors may come of it."""

    def __init__(self, folder):
        import numpy as np

        import rivulet
        from rivulet import _connection, _plan

        self.np, self.rivulet = np, rivulet
        self.folder = pathlib.Path(folder)
        ours = (rivulet.RivuletError,)
        calls = (_connection.CallError,)
        self.all = {
            "safetensors": (self.safetensors, self.models(), ours),
            "safetensors_in_memory": (self.in_memory, self.models(), (ValueError,)),  # which the plan's error quotes
            "state": (self.state, self.models(), ours),
            "axes": (self.axes, [b'{"w":[1,0]}', b"[" * 5000, b'{"w":[0.5]}'], ours),
            "records": (self.records, self.record_files(), ours),
            "example": (self.example, [self.an_example()], ours),
            "plan": (self.plan, [self.a_plan().SerializeToString()], (_plan.CannotDo,)),
            "chunk": (self.chunk, [self.a_chunk()], calls),
            "poll_reply": (self.poll_reply, self.replies(), ours + calls),
            "submit_reply": (self.submit_reply, self.submit_replies(), calls),
            "held_update": (self.held_update, [self.a_held_update()], ours),
            "site_conf": (self.site_conf, [b"RIVULET_COORDINATOR='127.0.0.1:7000'\nA=\"b c\"\n"], ours),
            "certificate": (self.certificate, [self.a_certificate()], ours),
            "history": (self.history, [self.a_history(), self.a_runs_history()], ours),
        }

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content)
        return path

    # Models and what clients keep.

    def models(self):
        path = self.folder / "seed.safetensors"
        kept = {"rivulet.run_id": "r", "rivulet.round": "3", "rivulet.task_id": "t", "rivulet.segments": '{"a":"trainable"}'}
        self.rivulet.save_safetensors(path, {"a": self.np.ones((2, 3), "f4"), "b": self.np.zeros(3, bool)}, kept)
        huge = {"dtype": "F32", "shape": [1 << 62, 0], "data_offsets": [0, 0]}
        return [
            path.read_bytes(),
            header_of({"w": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}, bytes(4)),
            header_of({"w": huge}),
            header_of({"w": {**huge, "shape": [0] * 65}}),
            header_of({"w": {**huge, "shape": [1] * 65, "data_offsets": [0, 4]}}, bytes(4)),
            header_of({"w": {**huge, "shape": [(1 << 63) - 1] * 20 + [0]}}),
            header_of(b'{"w":' + b"[" * 100_000),
            header_of(b'{"w":{"dtype":"F32","shape":[' + b"9" * 5000 + b'],"data_offsets":[0,4]}}', bytes(4)),
            header_of(b'{"__metadata__":' + b'{"a":' * 50_000),
        ]

    def safetensors(self, content):
        self.rivulet.load_safetensors(self.file("model.safetensors", content), widen_bfloat16=True)

    def in_memory(self, content):
        from rivulet._safetensors import view_safetensors

        view_safetensors(memoryview(content))

    def state(self, content):
        from rivulet._client_state import ClientState

        state = ClientState(self.file("state.safetensors", content))
        state.of("r", 4)
        state.hear("t", 0, durable=True)

    def axes(self, content):
        from rivulet._torch_layout import places, stored_axes

        text = content.decode(errors="replace")
        axes = stored_axes(self.rivulet.Tensors({}, {"rivulet.axes": text}))
        places({"w": (2, 3)}, {"w": (3, 2)}, axes=axes)

    # Records.

    def an_example(self):
        return self.rivulet.encode_example({"x": self.np.ones(2, "f4"), "n": [1, -2], "s": "text"})

    def record_files(self):
        import gzip

        path = self.folder / "seed.tfrecord"
        self.rivulet.write_records(path, [self.an_example(), b"", b"x" * 100])
        return [path.read_bytes(), gzip.compress(path.read_bytes(), mtime=0)]

    def records(self, content):
        path = self.file("some.tfrecord", content)
        list(self.rivulet.read_records(path))
        self.rivulet.read_examples(path)

    def example(self, content):
        self.rivulet.decode_example(content)

    # What a coordinator says.

    def a_plan(self):
        from rivulet import _protocol

        message = _protocol.Plan(format=2, name="tiny")
        message.model.variables.add(name="w", dtype=1, shape=(2, 3), segment="trainable")
        message.model.variables.add(name="table", dtype=1, shape=(4,), segment="frozen")
        program = message.programs.add(kind=0)
        program.passes.add(dataset="train", epochs=1, batch_size=2).scalars.add(name="train_loss")
        program.parts.add(part="delta", less="base_params", **{"from": "params"})
        message.aggregation.parts.add(name="delta", codec="f32", elements=6)
        return message

    def plan(self, content):
        from rivulet import _plan

        plan = _plan.Plan(content)
        for kind in (_plan.TRAIN, _plan.EVALUATE):
            plan.dataset(kind), plan.numbers(kind), plan.declared(kind), plan.required(kind)
        plan.most_model_bytes
        plan.parts()
        plan.model(memoryview(self.models()[0]), bytes(32))

    def a_chunk(self):
        from rivulet import _protocol

        return _protocol.Chunk(total_bytes=7, data=b"content", crc=1234).SerializeToString()

    def chunk(self, content):
        from rivulet._arrays import Pages
        from rivulet._download import Download

        calls = unittest.mock.MagicMock()
        calls.fetch.return_value.__enter__.return_value = iter([content])
        calls.fetch.return_value.__exit__.return_value = False
        Download(Pages(), 1 << 20).receive(calls, None)

    def replies(self):
        from rivulet import _protocol

        reply = _protocol.PollReply(wait_ms=1 << 62, cancelled=["t"])
        task = reply.tasks.add(id="r-r1-a1-ann-0", run_id="r", client_id="ann", plan=b"p" * 32, stream_key=7, base_version=1, ordinal=1)
        task.inputs.add(name="model").id.MergeFrom(type(task.inputs[0].id)(form=300, digest=b"m" * 32))
        reply.outcomes.add(task="r-r1-a1-ann-0", durable=True)
        reply.outcomes.add(task="r-r" + "9" * 5000 + "-a1-ann-0")
        reply.awaited.sentence = "two more"
        over = _protocol.PollReply()
        over.over.sentence = "it is over"
        strange = _protocol.PollReply()
        strange.tasks.add(kind=-1, step=-1, base_version=-1, run_id="../..", id="\0")
        return [each.SerializeToString() for each in (reply, over, strange)]

    def poll_reply(self, content):
        """A client's life, whose coordinator says this again and again."""
        from rivulet import _protocol
        from rivulet._agent import _Agent
        from rivulet._client import Client, Params
        from rivulet._client_state import ClientState
        from rivulet._connection import CallError, Connection
        from rivulet._held import HeldUpdates

        class Adds(Client):
            def fit(self, params, context):
                return Params(params, examples=1)

        connection = unittest.mock.MagicMock()
        over = _protocol.PollReply()
        over.over.sentence = "it is over"
        # What is in it is what a call would give.
        reply = Connection.parsed(connection, _protocol.PollReply, content)
        connection.poll.side_effect = [reply, reply, reply, over]
        connection.fetch.side_effect = CallError("NOT_FOUND", "no such blob")
        held = HeldUpdates(str(self.folder / "held"), "ann", 1 << 20)
        with unittest.mock.patch("time.sleep"), unittest.mock.patch("rivulet._agent._LOST_PAUSE_SECONDS", 0):
            with unittest.mock.patch("rivulet._agent.Heartbeat") as beat:
                beat.return_value.__enter__.return_value.over = None
                _Agent(Adds(), connection, "ann", "train", ClientState(None), held).run()

    def submit_replies(self):
        from rivulet import _protocol

        staged, result = _protocol.SubmitReply(), _protocol.SubmitReply()
        staged.staged.crcs.extend([1, 2, 3])
        result.result.kind = 2
        result.result.reason = "too late"
        return [staged.SerializeToString(), result.SerializeToString()]

    def submit_reply(self, content):
        from rivulet import _protocol
        from rivulet._connection import Connection
        from rivulet._update import Message
        from rivulet._upload import Upload

        class Calls:
            address = "nowhere"
            parsed = Connection.parsed

            @contextlib.contextmanager
            def submit(self, messages):
                yield iter([content, content])

        for size in (10, 2 << 20):
            Upload(_protocol.SubmitMessage(), Message([bytes(size)]), 0).send(Calls())

    # Files of a client's own.

    def held_task(self):
        from rivulet import _protocol

        return _protocol.PollReply().tasks.add(id="r-r1-a1-ann-0", run_id="r", client_id="ann", plan=b"p" * 32)

    def a_held_update(self):
        from rivulet._held import Finished, HeldUpdates
        from rivulet._update import Message

        HeldUpdates(str(self.folder / "held"), "ann", 1 << 20).keep(self.held_task(), Finished(Message([b"update"]), 1.0, False))
        (path,) = (self.folder / "held").iterdir()
        self.held_path = path
        return path.read_bytes()

    def held_update(self, content):
        from rivulet._held import HeldUpdates

        self.held_path.write_bytes(content)
        HeldUpdates(str(self.folder / "held"), "ann", 1 << 20).find(self.held_task())

    def kit(self, name, content):
        from rivulet._kit import Kit

        folder = self.folder / "kit"
        folder.mkdir(exist_ok=True)
        for file in ("node.crt", "node.key", "authority.crt"):
            (folder / file).write_bytes(self.a_certificate())
        (folder / "site.conf").write_bytes(b"")
        (folder / name).write_bytes(content)
        kit = Kit(folder)
        kit.check()

    def a_certificate(self):
        import base64

        inner = b"0\x20\x86\x1drivulet:client/m%C3%BCller.0~1"
        return b"-----BEGIN CERTIFICATE-----\n" + base64.b64encode(inner) + b"\n-----END CERTIFICATE-----\n"

    def site_conf(self, content):
        self.kit("site.conf", content)

    def certificate(self, content):
        self.kit("node.crt", content)

    def a_history(self):
        import sqlite3

        path = self.folder / "seed.sqlite"
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.executescript(
                """
                PRAGMA page_size = 512; PRAGMA application_id = 1381387348; PRAGMA user_version = 9;
                CREATE TABLE runs (run_id, name, seed, config, created_at, status);
                CREATE TABLE models (run_id, round, digest, path);
                CREATE TABLE metrics (run_id, round, scope, name, value);
                INSERT INTO runs VALUES ('r', 'tiny', 7, '', '2026-01-31T23:59:59.999Z', 'finished');
                INSERT INTO models VALUES ('r', 1, 'd', 'x.safetensors');
                INSERT INTO metrics VALUES ('r', 1, 'central', 'test/loss', 0.5);
                """
            )
        return path.read_bytes()

    def a_runs_history(self):
        import sqlite3

        path = self.folder / "real.sqlite"
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.executescript((packaged.ROOT / "tests/e2e/stored_run/history.sql").read_text())
        return path.read_bytes()

    def history(self, content):
        path = self.file("some.sqlite", content)
        history = self.rivulet.open(path)
        run = history.run()
        for ask in (history.runs, run.rounds, run.clients, run.tasks, run.metrics, run.model, run._repr_html_, history._repr_html_):
            with contextlib.suppress(self.rivulet.RivuletError):
                ask()
        run.scores, run.status

    def read(self, name, content):
        read, _, errors = self.all[name]
        with contextlib.suppress(*errors):
            read(content)


@contextlib.contextmanager
def readers():
    logger = logging.getLogger("rivulet")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield Readers(folder)
    finally:
        logger.setLevel(level)


@packaged.needs_grpc
class Fuzz(unittest.TestCase):
    def test_damaged_anyhow_bytes_are_read_or_refused(self):
        with readers() as found:
            for name, (_, seeds, _) in found.all.items():
                with self.subTest(name):
                    for seed in seeds:
                        found.read(name, seed)
                        few = MUTATIONS if len(seed) < 10_000 else 5
                        for damaged in packaged.mutations(seed, few):
                            found.read(name, damaged)
                    chance = random.Random(2)
                    for size in range(0, 64, 3):
                        found.read(name, chance.randbytes(size))

    def test_a_reader_that_raises_another_error_would_be_found(self):
        with readers() as found:
            found.all["axes"] = (lambda content: {}["no such key"], [], found.all["axes"][2])
            with self.assertRaises(KeyError):
                found.read("axes", b"")

    @unittest.skipUnless(packaged.installed("atheris"), "needs atheris")
    def test_a_search_guided_by_coverage_finds_nothing(self):
        with readers() as found:
            names = list(found.all)
        for name in names:
            with self.subTest(name):
                searched = subprocess.run(
                    [sys.executable, __file__, "--search", name, f"-atheris_runs={SEARCHED}", "-max_total_time=8", "-verbosity=0"],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                self.assertEqual(searched.returncode, 0, searched.stdout[-3000:] + searched.stderr[-3000:])


def search(name, options):
    import atheris

    with atheris.instrument_imports(include=["rivulet"], enable_loader_override=False):
        import rivulet  # noqa: F401
        from rivulet import _agent, _datasets, _download, _history, _kit, _plan, _safetensors, _torch_layout  # noqa: F401
    with readers() as found, tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(found.all[name][1]):
            (pathlib.Path(corpus) / str(number)).write_bytes(seed)
        os.chdir(corpus)  # where what it finds is written
        atheris.Setup([sys.argv[0], *options, corpus], lambda content: found.read(name, content))
        atheris.Fuzz()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--search"]:
        search(sys.argv[2], sys.argv[3:])
    else:
        harness.main()
