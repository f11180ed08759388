"""Start-up kits: what a client in Python takes from one, and what it then speaks."""

import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock

import packaged
import harness
import rivulet


class Nobody(rivulet.Client):
    """Of tests in which nothing is trained."""

    def fit(self, params, context):
        raise NotImplementedError


@packaged.needs_numpy
class Kits(packaged.ProgramTest):
    def setUp(self):
        super().setUp()
        self.ca = self.path("ca")
        self.run_rivulet("ca", "init", "--ca", self.ca, "--name", "Study", code=0)

    def kit(self, name, *options):
        folder = self.path(name.replace("/", "-").replace(" ", "_"))
        self.run_rivulet("ca", "kit", name, "--ca", self.ca, "--out", folder, *options, code=0)
        return folder

    def test_a_kit_says_who_and_where(self):
        from rivulet._kit import Kit

        long = "ward " + "7" * 120
        for name in ("hospital-a", "ward 7", "müller.0~1", long):
            kit = Kit(self.kit(f"client/{name}", "--coordinator", "fl.example.org:7000"))
            self.assertEqual((kit.name, kit.coordinator), (name, "fl.example.org:7000"))
            self.assertIn(b"PRIVATE KEY", kit.key)

    def test_what_is_no_clients_kit_is_refused(self):
        client = Nobody()

        def refused(sentence, **arguments):
            with self.assertRaisesRegex(rivulet.RivuletError, sentence):
                rivulet.run_client(client, **arguments)

        kit = self.kit("client/ann", "--coordinator", "127.0.0.1:1")
        other = self.kit("coordinator/localhost", "--listen", "127.0.0.1:1", "--scenario", "s.toml")
        refused("there is no kit '/nowhere'", kit="/nowhere")
        refused("'node.crt' is no client's certificate", kit=other)
        refused("is of client 'ann', not 'bob'; leave name out", kit=kit, name="bob")
        refused("give one of them", kit=kit, insecure=True)
        refused("the client has no name; give kit=", coordinator="127.0.0.1:1")
        refused("the coordinator's address is missing", name="ann")
        os.unlink(os.path.join(kit, "node.key"))
        refused("cannot read 'node.key'", kit=kit)
        self.write("client-ann/node.crt", "nothing")
        self.write("client-ann/node.key", "nothing")
        refused("'node.crt' is no certificate", kit=kit)
        damaged = self.kit("client/bob", "--coordinator", "127.0.0.1:1")
        self.write("client-bob/node.key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
        refused("its certificates are of no use", kit=damaged)
        quoted = self.kit("client/eve", "--coordinator", "127.0.0.1:1")
        self.write("client-eve/site.conf", "RIVULET_COORDINATOR='127.0.0.1:1\n")
        refused("'site.conf' sets RIVULET_COORDINATOR to no word", kit=quoted)

    @packaged.needs_grpc
    @unittest.skipUnless(shutil.which("openssl"), "needs openssl")
    def test_an_encrypted_key_is_told_as_that(self):
        kit = self.kit("client/ann", "--coordinator", "127.0.0.1:1")
        key = os.path.join(kit, "node.key")
        encrypt = ["openssl", "pkcs8", "-topk8", "-v2", "aes-256-cbc", "-passout", "pass:secret", "-in", key, "-out", f"{key}.new"]
        subprocess.run(encrypt, check=True, capture_output=True)
        os.replace(f"{key}.new", key)
        with self.assertRaisesRegex(rivulet.RivuletError, "the key is encrypted; an unattended client needs one without"):
            rivulet.run_client(Nobody(), kit=kit)

    @packaged.needs_grpc
    def test_tls_1_2_is_refused(self):
        from rivulet import _protocol
        from rivulet._connection import CallError, Connection
        from rivulet._kit import Kit

        server = self.kit("coordinator/localhost", "--host", "127.0.0.1", "--listen", "127.0.0.1:1", "--scenario", "s.toml")
        kit = Kit(self.kit("client/ann", "--coordinator", "127.0.0.1:1"))
        with unittest.mock.patch("rivulet._connection._CALL_SECONDS", 5):
            for version, met in ((ssl.TLSVersion.TLSv1_2, "no shared cipher"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")):
                met_here = []
                with listening(server, version, met_here) as port, contextlib.closing(Connection(f"127.0.0.1:{port}", kit=kit)) as calls:
                    with self.assertRaises(CallError):
                        calls.poll(_protocol.PollRequest())
                    self.wait_for(lambda: met_here, "the handshake to end")
                    self.assertIn(met, met_here[0])

    @packaged.needs_grpc
    def test_where_grpc_was_loaded_for_tls_1_2_no_kit_is_used(self):
        kit = self.kit("client/ann", "--coordinator", "127.0.0.1:1")
        code = """
import sys
import grpc
import rivulet
from rivulet._connection import Connection
from rivulet._kit import Kit
Connection("127.0.0.1:1").close()
try:
    Connection("127.0.0.1:1", kit=Kit(sys.argv[1]))
except rivulet.RivuletError as error:
    print(error)
"""
        paths = {"PYTHONPATH": str(packaged.ROOT / "python")}
        environment = {name: value for name, value in os.environ.items() if name != "GRPC_SSL_CIPHER_SUITES"}
        told = []
        for more in ({}, {"GRPC_SSL_CIPHER_SUITES": "ECDHE-PSK-CHACHA20-POLY1305"}):
            done = subprocess.run(
                [sys.executable, "-c", code, kit], env={**environment, **paths, **more}, capture_output=True, text=True, check=True
            )
            told.append(done.stdout)
        self.assertIn("gRPC was loaded before this client, and would take TLS 1.2; connect before", told[0])
        self.assertEqual(told[1], "")

    @packaged.needs_grpc
    def test_what_is_spoken_is_tls_with_both_certificates(self):
        from rivulet import _protocol
        from rivulet._connection import CallError, Connection
        from rivulet._kit import Kit

        server = Kit.__new__(Kit)
        server.folder = self.kit("coordinator/localhost", "--host", "127.0.0.1", "--listen", "127.0.0.1:1", "--scenario", "s.toml")
        certificate, key, authority = map(server._read, ("node.crt", "node.key", "authority.crt"))
        kit = self.kit("client/ann", "--coordinator", "127.0.0.1:1")
        callers = []

        def poll(request, context):
            callers.append((request.caller.name, context.auth_context()["transport_security_type"]))
            names = [name.decode() for name in context.auth_context().get("x509_subject_alternative_name", [])]
            return _protocol.PollReply(over={"sentence": f"it is over for {', '.join(names)}"})

        with coordinator(poll, certificate, key, authority) as port:
            client = Nobody()
            self.assertIn("it is over", rivulet.run_client(client, f"127.0.0.1:{port}", kit=kit))
            self.assertEqual(callers, [("ann", [b"ssl"])])
            self.ca = self.path("other")
            self.run_rivulet("ca", "init", "--ca", self.ca, "--name", "Another study", code=0)
            stranger = Kit(self.kit("client/bob", "--coordinator", "127.0.0.1:1"))
            unittest.mock.patch("rivulet._connection._CALL_SECONDS", 3).start()
            self.addCleanup(unittest.mock.patch.stopall)
            for other in (Connection(f"127.0.0.1:{port}"), Connection(f"127.0.0.1:{port}", kit=stranger)):
                with self.assertRaises(CallError) as refused:
                    other.poll(_protocol.PollRequest())
                self.assertTrue(refused.exception.transient)
                other.close()
        self.assertEqual(len(callers), 1)


    @packaged.needs_grpc
    def test_a_run_of_our_own_coordinator_over_tls_with_a_native_client_beside(self):
        from rivulet._connection import CallError

        class Adds(rivulet.Client):
            def fit(self, params, context):
                time.sleep(0.05 if context.round > 1 else 0)
                arrays = {name: array + 1 for name, array in params.items()}
                return rivulet.Params(arrays, examples=3, metrics={"train_loss": 1})

        settings = ["--set", "data.partition.clients=2", "--set", "server.clients_per_round=2", "--set", "run.rounds=2"]
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("clients"), *settings, code=0)
        files = sorted((self.folder / "clients").glob("*.tfrecord"))
        server = self.kit("coordinator/localhost", "--host", "127.0.0.1", "--listen", "127.0.0.1:1", "--scenario", "s.toml")
        coordinator = self.start("coordinator", self.scenario, "--listen", "127.0.0.1:0", "--tls", server, "--db",
                                 self.path("tls.sqlite"), *settings)
        address = coordinator.stdout.readline().split()[-1]
        threading.Thread(target=coordinator.stderr.read, daemon=True).start()
        native = self.start("client", "--coordinator", address, "--tls", self.kit(f"client/{files[0].stem}", "--coordinator", address),
                            "--data", f"train={files[0]}")
        threading.Thread(target=native.stderr.read, daemon=True).start()
        kit = self.kit("client/ward 7", "--coordinator", address)
        # Who is on this machine without a certificate, or with one of another authority, takes no part.
        with self.assertRaisesRegex(CallError, "cannot be reached"):
            self.poll(address, None)
        ours, self.ca = self.ca, self.path("other")
        self.run_rivulet("ca", "init", "--ca", self.ca, "--name", "Another study", code=0)
        with self.assertRaisesRegex(CallError, "cannot be reached"):
            self.poll(address, self.kit("client/mallory", "--coordinator", address))
        self.ca = ours
        self.assertEqual(rivulet.run_client(Adds(), kit=kit), "the run has finished after round 2")
        self.assertEqual((coordinator.wait(60), native.wait(60)), (0, 0))
        rows = rivulet.open(self.path("tls.sqlite")).rows("SELECT client_id, status FROM client_rounds ORDER BY client_id")
        self.assertEqual([tuple(row.values()) for row in rows], [(files[0].stem, "folded")] * 2 + [("ward 7", "folded")] * 2)

    def poll(self, address, kit):
        from rivulet import _protocol
        from rivulet._connection import Connection
        from rivulet._kit import Kit

        connection = Connection(address, kit=None if kit is None else Kit(kit))
        try:
            connection.poll(_protocol.PollRequest())
        finally:
            connection.close()


@contextlib.contextmanager
def listening(kit, version, met):
    """A port whose every connection is spoken to in one version of TLS: how each handshake ended is added to `met`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.path.join(kit, "node.crt"), os.path.join(kit, "node.key"))
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2"])
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    try:
                        with context.wrap_socket(connection, server_side=True) as speaks:
                            met.append(speaks.version())
                    except OSError as error:
                        met.append(str(error))

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


@contextlib.contextmanager
def coordinator(poll, certificate, key, authority):
    """Serves polls over mutual TLS: its port."""
    import concurrent.futures

    from rivulet import _connection, _protocol

    grpc = _connection._loaded(tls=True)
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    method = grpc.unary_unary_rpc_method_handler(
        poll, request_deserializer=_protocol.PollRequest.FromString, response_serializer=lambda reply: reply.SerializeToString()
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("rivulet.rpc.Coordinator", {"Poll": method}),))
    port = server.add_secure_port(
        "127.0.0.1:0", grpc.ssl_server_credentials([(key, certificate)], authority, require_client_auth=True)
    )
    server.start()
    try:
        yield port
    finally:
        server.stop(None)


if __name__ == "__main__":
    harness.main()
