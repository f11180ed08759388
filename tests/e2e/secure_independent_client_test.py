"""A client that is none of ours takes part in secure rounds of a deployed run: the half that was written from the documentation alone
(tests/federated/secure/independent_client.py), with the Python package's connection. The versions are those of plain sums, to the bit."""
import hashlib
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import threading
import unittest

from harness import main
from secure_aggregation_test import DB, ROUNDS, SecureDeployment, settings


def has(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # its parent
        return False


HERE = pathlib.Path(__file__).parents[1]
sys.path += [str(HERE.parent / "python"), str(HERE / "federated" / "secure")]
try:
    import numpy as np
except ImportError:
    np = None
# gRPC is loaded by the connection, which sets it up before.
MISSING = ", ".join(name for name in ("numpy", "grpc", "google.protobuf", "cryptography") if not has(name))

CLIP = 64.0  # beyond all norms, as the package's own client does not clip
EXAMPLES, LOSS, SUM_STEP, STEPS, STEP_KIND = 20, 0.5, 2, 5, 3

# The same update for plain sums, by the package's own client.
PLAIN_CLIENT = """
import sys
import numpy as np
import rivulet
sys.path.insert(0, {e2e!r})
from secure_independent_client_test import EXAMPLES, LOSS, update_of

class Same(rivulet.Client):
    examples = EXAMPLES
    def fit(self, params, context):
        return rivulet.Delta({{name: update_of(array.shape, context.round) for name, array in params.items()}}, examples=EXAMPLES,
                             metrics={{"train_loss": LOSS}})

rivulet.run_client(Same(), {address!r}, kit={kit!r})
"""


def update_of(shape, round_):
    """An update of a variable whose norm is far below the clip."""
    at = np.arange(int(np.prod(shape)), dtype=np.int64)
    return ((at * 31 + round_ * 7) % 17 - 8).astype(np.float32).reshape(shape) * np.float32(2.0**-14) / np.float32(3)


def words_of(plan, variables, round_):
    """docs/internals/secure-aggregation.md, "Words"."""
    aggregation = plan.aggregation
    (part,) = aggregation.parts
    values = np.concatenate([update_of(variable.shape, round_).ravel() for variable in variables]).astype(np.float64)
    assert len(values) == part.elements and part.weigh == "examples" and aggregation.weight_fraction_bits == 0
    rounded = np.rint(EXAMPLES * values * 2.0**part.fraction_bits).astype(np.int64)
    numbers = [(EXAMPLES, 4), (1, 4), (np.count_nonzero(values), 4), (np.count_nonzero(values[rounded == 0]), 4)]
    for scalar in aggregation.scalars:
        assert scalar.name == "train_loss" and scalar.weigh == "examples"
        numbers.append((round(EXAMPLES * LOSS * 2**32), 8))
    limbs = [int(number) >> 16 * limb & 0xFFFF for number, count in numbers for limb in range(count)]
    bits = part.sum_bits or 64
    return np.concatenate([rounded, np.array(limbs, np.int64)]).astype(f"<u{bits // 8}"), bits


class IndependentAgent:
    """The calls of one client, until the run is over."""

    def __init__(self, kit, address):
        from rivulet import _agent, _connection, _kit

        self.kit = _kit.Kit(kit)
        self.connection = _connection.Connection(address, kit=self.kit)
        self.agent = _agent._Agent(self, self.connection, self.kit.name, "train", None)
        self.value_bits = None
        self.masked = 0  # answers with its words

    examples = 1  # how many it tells: the number is in the sum alone

    def half_of(self, task, context):
        from rivulet import _plan, _protocol
        from independent_client import Client

        content = bytes(self.agent._fetch(0, task.plan, _plan.MOST_PLAN_BYTES, context))
        plan = _protocol.Plan.FromString(content)
        self.value_bits = plan.aggregation.parts[0].value_bits
        model = next(blob.id.digest for blob in task.inputs if blob.name == "model")
        trained = [variable for variable in plan.model.variables if variable.segment == "trainable"]
        words, bits = words_of(plan, trained, task.base_version + 1)
        _, attempt = re.match(r"-r(\d+)-a(\d+)-", task.id[len(task.run_id):]).groups()
        secure = plan.aggregation.secure
        client = Client({
            "run": task.run_id, "plan": hashlib.sha256(content).hexdigest(), "model": model.hex(), "version": task.base_version,
            "attempt": int(attempt), "name": self.kit.name, "key": self.kit.key.decode(), "certificate": self.kit.certificate.decode(),
            "max_colluding": secure.max_colluding, "drop_out": secure.drop_out, "min_survivors": secure.min_survivors,
            "word_bits": bits, "words": words.tobytes().hex()})
        return [client.keys, client.shares, client.masked, client.agree, client.reveal]

    def answer(self, task, half, context):
        """Whether the step's answer was taken."""
        from rivulet._connection import CallError
        from rivulet._update import Message
        from rivulet._upload import Upload

        try:
            given = b""
            if task.step > 0:
                blob = next(blob for blob in task.inputs if blob.name == "step")
                given = bytes(self.agent._fetch(0, blob.id.digest, 1 << 20, context))
            message = Message([half[task.step](given)])
            header = self.agent._header(task, len(message), 0.0)
            header.header.submission.kind = STEP_KIND
            header.header.submission.ClearField("train_seconds")
            return Upload(header, message, task.step).send(self.connection).kind in (0, 1)
        except CallError as error:
            if error.code in ("ABORTED", "NOT_FOUND"):
                return False
            raise

    def run(self):
        from rivulet._client import Context

        halves, steps, context = {}, {}, Context()
        while True:
            request = self.agent._request(want=1, hold_ms=1000, told=True)
            for task, step in steps.items():
                request.working_on.add(task=task, held=True, step=step)
            reply = self.connection.poll(request)
            if reply.HasField("over"):
                self.connection.close()
                return reply.over.failed
            for task in reply.cancelled:
                halves.pop(task, None), steps.pop(task, None)
            for task in reply.tasks:
                self.agent._run_id = task.run_id
                if task.id not in halves:
                    assert task.step == 0 and task.kind == 0, task
                    halves[task.id] = self.half_of(task, context)
                elif task.step <= steps[task.id]:
                    continue
                taken = self.answer(task, halves[task.id], context)
                # Behind the sum's step the answers of others may have been enough meanwhile.
                assert taken or task.step > SUM_STEP, task
                self.masked += task.step == SUM_STEP
                steps[task.id] = task.step
                if task.step == STEPS - 1:
                    del halves[task.id], steps[task.id]


@unittest.skipIf(MISSING, f"without {MISSING}")
class IndependentClient(SecureDeployment):
    def test_its_rounds_are_those_of_plain_sums(self):
        coordinator, port = self.start_coordinator("--set", f"privacy.clip={CLIP}")
        clients = {name: self.start_client(name, port) for name in self.names[1:]}
        agent = IndependentAgent(self.path(self.names[0]), f"127.0.0.1:{port}")
        failed = []
        thread = threading.Thread(target=lambda: failed.append(agent.run()), daemon=True)
        thread.start()
        for name, process in clients.items():
            self.ends(process, name)
        self.ends(coordinator, "coordinator")
        thread.join(60)
        self.assertEqual(failed, [False])
        self.assertEqual(agent.masked, ROUNDS)
        self.assertEqual(len(self.digests(DB)), ROUNDS)

        # Plain sums have the resolution that privacy.clip gives those of the secure run.
        process = self.start("coordinator", self.scenario, "--listen", "127.0.0.1:0", "--db", "plain.sqlite", "--rounds", ROUNDS,
                             *settings(self.clients)[:4], "--set", f"server.value_bits={agent.value_bits}", "--tls", "coordinator")
        port = int(process.stdout.readline().rpartition(":")[2])
        coordinator = self.follow(process, "plain coordinator")
        clients = {f"plain {name}": self.follow(self.start("client", "--coordinator", f"127.0.0.1:{port}", "--tls", name, "--data",
                                                           f"train=clients/{name}.tfrecord"), f"plain {name}")
                   for name in self.names[1:]}
        code = PLAIN_CLIENT.format(e2e=str(HERE / "e2e"), address=f"127.0.0.1:{port}", kit=self.path(self.names[0]))
        own = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, cwd=self.folder,
                             env={**os.environ, "PYTHONPATH": str(HERE.parent / "python")})
        self.assertEqual(own.returncode, 0, own.stderr)
        for name, process in clients.items():
            self.ends(process, name)
        self.ends(coordinator, "plain coordinator")
        self.assertLess(self.query("SELECT max(update_norm) FROM client_rounds", db="plain.sqlite")[0][0], CLIP)
        self.assertEqual(self.digests(DB), self.digests("plain.sqlite"))


if __name__ == "__main__":
    main()
