"""What a client in Python costs beside its `fit`: 6.65 MB of parameters, every task to a coordinator on this machine.

    PYTHONPATH=python python3 scripts/python_client_cost.py

Prints the median of the milliseconds from a task to the answer to its update, without `fit`, those of the processor, and
how far the process's anonymous memory grew, in multiples of the parameters; what gRPC takes when it is loaded is told
apart from that, as it is the same for any model. The coordinator's own work on the update is in
the first time. Then the same of what no client can do without: the parameters received from a bare socket and held
against their digest, and a difference sent, with the checksums of both. Machines differ, and so does what else they do.
"""

import hashlib
import os
import socket
import statistics
import subprocess
import tempfile
import threading
import time

import numpy as np

import rivulet
from rivulet import _agent, _connection, _program
from rivulet._crc32c import crc32c

SCENARIO = """
run = { name = "cost", rounds = 30 }
model = { preset = "mnist_cnn" }
server = { clients_per_round = 1 }

[data]
train = "train.tfrecord"
test = "test.tfrecord"
synth = { kind = "digits", writers = 2, test_writers = 1, examples_per_writer = 4 }
partition = { kind = "iid", clients = 1 }
"""


def anonymous():
    """Bytes of the process's memory that are no file's."""
    with open("/proc/self/status") as status:
        return 1024 * sum(int(line.split()[1]) for line in status if line.startswith(("RssAnon:", "RssShmem:")))


class Adds(rivulet.Client):
    seconds = processor = 0.0
    parameters = 0

    def fit(self, params, context):
        begin, processor = time.perf_counter(), time.process_time()
        trained = {name: array + np.float32(1e-6) for name, array in params.items()}
        self.parameters = sum(array.nbytes for array in params.values())
        self.seconds, self.processor = time.perf_counter() - begin, time.process_time() - processor
        return rivulet.Params(trained, examples=1)


class Timed(_agent._Agent):
    times, processors = [], []

    def perform(self, task, context):
        begin, processor = time.perf_counter(), time.process_time()
        useful = super().perform(task, context)
        self.times.append(time.perf_counter() - begin - self._client.seconds)
        self.processors.append(time.process_time() - processor - self._client.processor)
        return useful


CHUNK_BYTES = 256 * 1024


def chunks(content):
    return [content[at : at + CHUNK_BYTES] for at in range(0, len(content), CHUNK_BYTES)]


def serve(listening, size, times):
    """The other end of `bare`, in a process of its own."""
    connection, _ = listening.accept()
    room = memoryview(bytearray(size))
    for _ in range(times):
        connection.sendall(room)
        left = size
        while left > 0:
            left -= connection.recv_into(room[:left])


def bare(size, times=30):
    """(milliseconds, those of the processor) of a task that consists of its bytes alone."""
    listening = socket.create_server(("127.0.0.1", 0))
    if (child := os.fork()) == 0:
        serve(listening, size, times)
        os._exit(0)
    room, change = (np.zeros(size // 4, np.float32) for _ in range(2))
    came, sent = (memoryview(array).cast("B") for array in (room, change))
    measured = []
    with socket.create_connection(listening.getsockname()) as connection:
        for _ in range(times):
            began, processor = time.perf_counter(), time.process_time()
            have = 0
            while have < size:
                have += connection.recv_into(came[have:])
            crc32c(chunks(came))
            hashlib.sha256(came).digest()
            np.subtract(change, room, out=change)
            crc32c(chunks(sent))
            connection.sendall(sent)
            measured.append((time.perf_counter() - began, time.process_time() - processor))
    os.waitpid(child, 0)
    return [1000 * statistics.median(each) for each in zip(*measured[5:])]


def main():
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "cost.toml"), "w") as file:
            file.write(SCENARIO)
        coordinator = subprocess.Popen(
            [_program.program(), "coordinator", "cost.toml", "--listen", "127.0.0.1:0", "--insecure"],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        address = coordinator.stdout.readline().split()[-1]
        _agent._Agent = Timed
        client = Adds()
        without = anonymous()
        _connection.Connection(address).close()
        before, peak, ended = anonymous(), [0], threading.Event()

        def watch():
            while not ended.wait(0.002):
                peak[0] = max(peak[0], anonymous())

        watcher = threading.Thread(target=watch)
        watcher.start()
        rivulet.run_client(client, address, name="ann")
        ended.set()
        watcher.join()
        coordinator.wait()
    milliseconds, processor = (1000 * statistics.median(times[5:]) for times in (Timed.times, Timed.processors))
    grown = (peak[0] - before) / client.parameters
    print(f"a task beside fit: {milliseconds:.1f} ms, {processor:.1f} of the processor; {grown:.1f} x the parameters")
    print(f"gRPC, once it is loaded: {(before - without) / 1e6:.1f} MB")
    milliseconds, processor = bare(client.parameters)
    print(f"a bare socket: {milliseconds:.1f} ms, {processor:.1f} of the processor")


if __name__ == "__main__":
    main()
