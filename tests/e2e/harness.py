"""What the end-to-end tests share: a temporary folder, tiny scenarios, the binary as a process, its history."""
import contextlib
import errno
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

RIVULET = os.environ.get("RIVULET_BINARY", str(pathlib.Path(__file__).parents[2] / "build/release/rivulet"))
# What the program is started by, and the tests themselves are not: a clock that jumps (scripts/hostile_environments.sh), a tracer.
WRAPPER = shlex.split(os.environ.get("RIVULET_WRAPPER", ""))

# Twelve writers of eight digits each, and two more to be judged on: generated in milliseconds, learned by a linear model.
SCENARIO = """
[run]
name = "tiny"
rounds = 4
seed = 7

[model]
preset = "logistic_regression"

[data]
train = "data/train.tfrecord"
test = "data/test.tfrecord"
synth = { kind = "digits", writers = 12, test_writers = 2, examples_per_writer = 8, seed = 3 }
partition = { kind = "iid", clients = 6 }

[client]
epochs = 2
batch_size = 5
optimizer = { kind = "sgd", learning_rate = 0.1 }

[server]
clients_per_round = 3
"""

# The ten algorithms that every other is modelled on, each set as it does something, and versions that clients measure.
TEN = {
    "fedavg": [],
    "fedprox": ["algorithm.name=fedprox", "algorithm.mu=0.5"],
    "fedadam": ["algorithm.name=fedadam", "server.learning_rate=0.05"],
    "moon": ["algorithm.name=moon", "algorithm.mu=5", "model.preset=mlp"],
    "evaluation": ["evaluation.federated_every=1", "evaluation.federated_clients=5"],
    "scaffold": ["algorithm.name=scaffold"],
    "trimmed_mean": ["algorithm.name=trimmed_mean", "algorithm.trim=0.34"],
    "fedbuff": ["algorithm.name=fedbuff", "server.clients_per_round=4", "server.in_flight=9", "server.max_staleness=3"],
    "top_k": ["update.codec=top_k", "update.fraction=0.1"],
    "dp_fedavg": ["algorithm.name=dp_fedavg", "algorithm.noise_multiplier=0.5", "algorithm.noise_source=seeded",
                  "privacy.clip=0.1"],
    "ditto": ["algorithm.name=ditto", "algorithm.lambda=0.1"],
}

# How libraries speak of themselves, in which no sentence for a user may: scopes and mangled names of C++, what its exceptions say of
# themselves, macros and codes of libraries and of the system, OpenSSL's lines, addresses. Names of the user's world look like some of
# them and are none: environment variables (RIVULET_CPU_TARGETS), checksums of 32 bits (0x8966b5b2), signals, and where a graph's node
# was made (layers.cc:77).
LIBRARY_WORDS = re.compile(
    r"\b(?:std|absl|grpc|grpc_core|google|protobuf|onnx|nlohmann|toml|CLI|fmt|spdlog|rivulet)::\w*"
    r"|\bgoogle\.protobuf\b|\bjson\.exception\b|\b_ZN?\w+"
    r"|\bterminate called\b|\bwhat\(\)|\bbad_(?:alloc|optional_access|variant_access|function_call|cast)\b|\bbasic_\w+|_M_\w+|__cxx11"
    r"|\bfilesystem error\b|\bregex_error\b|\bvector::|\bCHECK failed\b|\bCheck failed\b|\bRIVULET_(?:CHECK|ASSIGN|RETURN)\w*"
    r"|\b(?:SQLITE|GRPC|CURL[EM]?|CURLOPT|SSL|OPENSSL|ERR|X509|PEM|ASN1|EVP|BIO|ZSTD|Z|XML|PNG|JPEG|ABSL|TOML|CUDA|CUBLAS|CUDNN|NCCL|TYPE|"
    r"TensorProto|AttributeProto)_[A-Z][A-Z0-9_]*\b"
    r"|\b(?:INVALID_ARGUMENT|DEADLINE_EXCEEDED|NOT_FOUND|ALREADY_EXISTS|PERMISSION_DENIED|RESOURCE_EXHAUSTED|FAILED_PRECONDITION|"
    r"OUT_OF_RANGE|DATA_LOSS)\b|\b(?:OK|CANCELLED|UNKNOWN|ABORTED|UNIMPLEMENTED|INTERNAL|UNAVAILABLE|UNAUTHENTICATED):"
    r"|\b(?:" + "|".join(errno.errorcode.values()) + r")\b|\berror:[0-9A-Fa-f]{8}:|\bipv[46]:"
    r"|\b0x[0-9a-f]{9,}\b|\(nil\)|\(null\)")

# A sanitizer's shadow memory is no measure of ours.
measures_memory = unittest.skipIf(os.environ.get("RIVULET_SANITIZE"), "a sanitizer's memory is not the program's")


def watch_memory(process):
    """Samples a process's anonymous and shared resident memory; gives a function that tells its peak in kB once it has
    ended."""
    peak = [0]

    def sample():
        status = pathlib.Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            try:
                lines = status.read_text().splitlines()
            except OSError:
                return
            here = (int(line.split()[1]) for line in lines if line.startswith(("RssAnon:", "RssShmem:")))
            peak[0] = max(peak[0], sum(here))
            time.sleep(0.002)

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    return lambda: (thread.join(), peak[0])[1]


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __repr__(self):
        return f"exit {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class RivuletTest(unittest.TestCase):
    """A test with a folder of its own, and no process left behind."""

    # Of tests that start hundreds of runs, each of which syncs its files, and that play no crash: the folder lies in memory, where
    # the system has a folder there.
    IN_MEMORY = False

    def setUp(self):
        memory = "/dev/shm" if self.IN_MEMORY and os.access("/dev/shm", os.W_OK) else None
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rivulet-e2e-", dir=memory))
        self.scenario = self.write("tiny.toml", SCENARIO)
        self.processes = []
        self.logs, self.readers = {}, {}  # what processes that are followed have said, by the names that the test gives them

    def tearDown(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
            for stream in (process.stdout, process.stderr):
                if stream:
                    stream.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name):
        return str(self.folder / name)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    def run_rivulet(self, *arguments, code=None, env=None, cwd=None, timeout=300, before=(), **kwargs):
        done = subprocess.run([*before, *WRAPPER, RIVULET, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True,
                              cwd=cwd or self.folder, env={**os.environ, **(env or {})}, timeout=timeout, **kwargs)
        result = Result(done.returncode, done.stdout.decode(), done.stderr.decode())
        if code is not None:
            self.assertEqual(result.code, code, result)
        return result

    def start(self, *arguments, before=(), **kwargs):
        """`before`: a command that starts it, such as nsenter with its arguments."""
        process = subprocess.Popen([*before, *WRAPPER, RIVULET, *map(str, arguments)], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder, text=True, **kwargs)
        self.processes.append(process)
        return process

    def follow(self, process, name):
        """Its stderr, as it comes."""
        lines = self.logs.setdefault(name, [])
        self.readers[name] = threading.Thread(target=lambda: lines.extend(iter(process.stderr.readline, "")), daemon=True)
        self.readers[name].start()
        return process

    def said(self, name, pattern, timeout=60):
        try:
            self.wait_for(lambda: re.search(pattern, "".join(self.logs[name])), f"{name} to say '{pattern}'", timeout)
        except AssertionError as missing:
            self.fail(f"{missing}; it said {''.join(self.logs[name])}")

    def ends(self, process, name, code=0):
        process.wait(timeout=120)
        self.readers[name].join(timeout=10)
        self.assertEqual(process.returncode, code, f"{name}: {''.join(self.logs[name])}")

    def stop(self, process, name):
        process.send_signal(signal.SIGTERM)
        self.ends(process, name)

    def simulate(self, *arguments, db="runs.sqlite", **kwargs):
        return self.run_rivulet("simulate", self.scenario, "--db", self.path(db), *arguments, code=0, **kwargs)

    def query(self, sql, *values, db="runs.sqlite"):
        with contextlib.closing(sqlite3.connect(f"file:{self.path(db)}?mode=ro", uri=True, timeout=20)) as connection:
            return connection.execute(sql, values).fetchall()

    def digests(self, db="runs.sqlite", run=None):
        """model_digest of every committed round of the database's newest run, in order."""
        rows = self.query("SELECT round, model_digest FROM rounds WHERE status = 'committed' AND run_id = coalesce(?, "
                          "(SELECT run_id FROM runs ORDER BY created_at DESC LIMIT 1)) ORDER BY round", run, db=db)
        self.assertEqual([row[0] for row in rows], list(range(1, len(rows) + 1)))
        return [row[1] for row in rows]

    def measured_last(self, db="runs.sqlite"):
        """What clients have measured of the last version of the database's newest run."""
        return self.query("SELECT round, scope, client_id, name, value FROM metrics WHERE name LIKE 'evaluate/%' AND round = (SELECT "
                          "max(round) FROM metrics) AND run_id = (SELECT run_id FROM runs ORDER BY created_at DESC LIMIT 1) "
                          "ORDER BY scope, client_id, name", db=db)

    def metric(self, name, db="runs.sqlite"):
        """A metric of the coordinator's own test set, of every round that was evaluated, in order."""
        return [value for (value,) in self.query(
            "SELECT value FROM metrics WHERE scope = 'central' AND name = ? ORDER BY round", name, db=db)]

    def wait_for(self, condition, what, timeout=60):
        give_up = time.monotonic() + timeout
        while time.monotonic() < give_up:
            value = condition()
            if value:
                return value
            time.sleep(0.005)
        self.fail(f"waited {timeout} s for {what}")

    def committed(self, db="runs.sqlite"):
        """Committed rounds so far, while a run is under way."""
        try:
            return self.query("SELECT count(*) FROM rounds WHERE status = 'committed'", db=db)[0][0]
        except sqlite3.Error:
            return 0

    def assert_refused(self, result, *fragments, code=(1, 2)):
        """One sentence on stderr that names what is wrong, perhaps with lines that draw it; no crash, no types, nothing
        on stdout."""
        self.assertIn(result.code, code if isinstance(code, tuple) else (code,), result)
        errors = [line for line in result.err.splitlines() if line.startswith("rivulet: ")]
        self.assertEqual(len(errors), 1, result)
        last = [line for line in result.err.splitlines() if not line.startswith("    ")][-1]
        self.assertEqual(last, errors[0], result)
        self.assertLess(len(errors[0]), 1000, result)
        self.assertNotRegex(result.err, LIBRARY_WORDS)
        self.assertEqual(result.out, "", result)
        for fragment in fragments:
            self.assertIn(fragment, errors[0])


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC_TABLE = _crc_table()


def masked_crc(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def tfrecord(records):
    """TFRecord framing, as TensorFlow's documentation gives it."""
    out = b""
    for record in records:
        length = struct.pack("<Q", len(record))
        out += length + struct.pack("<I", masked_crc(length)) + record + struct.pack("<I", masked_crc(record))
    return out


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, payload):
    """A protobuf field: bytes and text are length-delimited, integers varints."""
    if isinstance(payload, int):
        return varint(number << 3) + varint(payload)
    payload = payload.encode() if isinstance(payload, str) else payload
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def example(image, label):
    """A tf.train.Example with the features image (bytes) and label (int64)."""
    def entry(name, feature):
        return field(1, field(1, name) + field(2, feature))
    return field(1, entry("image", field(1, field(1, image))) + entry("label", field(3, field(1, label))))


def node(name, op, /, *inputs, **attributes):
    """A NodeDef; attribute values are serialized AttrValues."""
    out = field(1, name) + field(2, op)
    for tensor in inputs:
        out += field(3, tensor)
    for key, value in attributes.items():
        out += field(5, field(1, key) + field(2, value))
    return field(1, out)


def main():
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
