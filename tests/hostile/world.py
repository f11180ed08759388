"""What is attacked: a coordinator with TLS and pages, an aggregator and a simulation, as processes; and raw calls to them."""
import os
import pathlib
import re
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
# Tests start programs beside channels. gRPC's own part in a fork can abort the child before it becomes the program.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # failed handshakes are what is wanted

from harness import RivuletTest, field, varint  # noqa: E402

try:
    import grpc
except ImportError:
    grpc = None

from callers import Callers  # noqa: E402
from protos import calls  # noqa: E402

HAS_OPENSSL = shutil.which("openssl") is not None


def fixed64(number, value):
    return varint(number << 3 | 1) + value.to_bytes(8, "little")


def caller(name="", session=7, run=""):
    """CallerProto."""
    return field(1, name) + field(2, run) + fixed64(3, session)


class World(RivuletTest):
    """A folder with an authority `ca` and the certificates `coordinator`, `a` (a client), `ann` (an operator) and `north` (an
    aggregator)."""

    def make_authority(self):
        self.callers = Callers(self.folder, lambda *arguments: self.run_rivulet(*arguments, code=0))
        self.run_rivulet("ca", "init", "--name", "study", code=0)
        self.callers.issue("coordinator/localhost", "coordinator", "--host", "127.0.0.1")
        self.callers.issue("client/a", "a")
        self.callers.issue("client/b", "b")
        self.callers.issue("operator/ann", "ann")
        self.callers.issue("aggregator/north", "north", "--host", "localhost", "--host", "127.0.0.1")

    def listening(self, name, *arguments, **kwargs):
        """A process that says where it listens, first of all; with its port."""
        process = self.start(*arguments, **kwargs)
        line = process.stdout.readline()
        found = re.fullmatch(r"listening on 127\.0\.0\.1:(\d+)\n", line)
        if not found:
            self.fail(f"{line}{process.stderr.read()}")
        self.follow(process, name)
        return process, int(found[1])

    def start_coordinator(self, *more, name="coordinator", security=("--tls", "coordinator"), scenario=True, rounds=1000):
        return self.listening(name, "coordinator", *([self.scenario, "--rounds", rounds] if scenario else []), "--listen", "127.0.0.1:0",
                              *security, "--db", f"{name}.sqlite", *more)

    def pages_of(self, name):
        """The port of its pages."""
        self.said(name, r"it shows at https?://\S+")
        return int(re.search(r"it shows at https?://[^:/]+:(\d+)/", "".join(self.logs[name]))[1])

    def channel(self, port, folder=None, **more):
        """`folder`: the certificate; None: none. plaintext=True: no TLS at all."""
        options = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]
        if more.get("plaintext"):
            channel = grpc.insecure_channel(f"127.0.0.1:{port}", options)
        else:
            read = lambda path: (self.folder / path).read_bytes()
            own = (read(f"{folder}/node.key"), read(f"{folder}/node.crt")) if folder else (None, None)
            channel = grpc.secure_channel(f"127.0.0.1:{port}", grpc.ssl_channel_credentials(read("ca/authority.crt"), *own), options)
        self.addCleanup(channel.close)
        return channel

    def memory(self, process):
        """Its anonymous and shared resident memory in kB."""
        lines = pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon:", "RssShmem:")))

    def assert_lives(self, process, name):
        self.assertIsNone(process.poll(), f"{name} ended: {''.join(self.logs.get(name, []))}")


def ask(channel, call, *messages, timeout=20):
    """(code, sentence, replies) of one call; all messages are sent, then the end."""
    # As bytes: the messages may be none.
    if call.sends and call.gets:
        make, given = channel.stream_stream, iter(messages)
    elif call.sends:
        make, given = channel.stream_unary, iter(messages)
    elif call.gets:
        make, given = channel.unary_stream, messages[0]
    else:
        make, given = channel.unary_unary, messages[0]
    try:
        got = make(call.path)(given, timeout=timeout)
        return "OK", "", list(got) if call.gets else [got]
    except grpc.RpcError as error:
        return error.code().name, error.details() or "", []


CALLS = calls()
