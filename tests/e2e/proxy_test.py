"""A site behind an HTTP proxy, and one whose line is thin: the proxy is ours, and looks names up that the site cannot."""
import base64
import json
import os
import re
import select
import socket
import threading
import time

from harness import RivuletTest, main

RUN = ["--rounds", 2, "--set", "data.partition.clients=1", "--set", "server.clients_per_round=1"]
HOST = "fl.example.org"  # no machine's name here
PROXY_VARIABLES = ("https_proxy", "no_proxy")


class Proxy:
    """CONNECT and nothing else. `user` "": it asks for no password."""

    def __init__(self, names, user=""):
        self.names, self.wants = names, base64.b64encode(user.encode()).decode() if user else ""
        self.asked, self.socket = [], socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                threading.Thread(target=self.serve, args=(self.socket.accept()[0],), daemon=True).start()
            except OSError:
                return

    def serve(self, client):
        head = b""
        while b"\r\n\r\n" not in head:
            more = client.recv(4096)
            if not more:
                return
            head += more
        lines = head.decode().split("\r\n")
        self.asked.append(lines[0])
        target = re.fullmatch(r"CONNECT ([^ :]+):(\d+) HTTP/1\.[01]", lines[0])
        if self.wants and f"proxy-authorization: basic {self.wants}".lower() not in [line.lower() for line in lines]:
            client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
        elif not target or target[1] not in self.names:
            client.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")
        else:
            with socket.create_connection((self.names[target[1]], int(target[2]))) as server:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                self.pass_on(client, server)
        client.close()

    @staticmethod
    def pass_on(client, server):
        other = {client: server, server: client}
        while True:
            for end in select.select(list(other), [], [])[0]:
                try:
                    data = end.recv(65536)
                    other[end].sendall(data)
                except OSError:
                    return
                if not data:
                    return


class ThroughAProxy(RivuletTest):
    def setUp(self):
        super().setUp()
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("records"), *RUN[2:], code=0)
        self.run_rivulet("ca", "init", "--name", "study", code=0)
        self.run_rivulet("ca", "issue", f"coordinator/{HOST}", "--out", "coordinator", code=0)
        self.run_rivulet("ca", "issue", "client/client-00000", "--out", "client", code=0)

    def coordinator(self):
        process = self.start("coordinator", self.scenario, "--listen", "127.0.0.1:0", "--tls", "coordinator", "--db", "tls.sqlite", *RUN)
        return process, int(process.stdout.readline().rsplit(":", 1)[1])

    def client(self, port, env, *more):
        clean = {key: value for key, value in os.environ.items() if key.lower() not in PROXY_VARIABLES}
        return self.start("client", "--coordinator", f"{HOST}:{port}", "--tls", "client", "--data",
                          "train=records/client-00000.tfrecord", *more, env={**clean, **env})

    def test_https_proxy_connects_to_a_name_that_only_it_knows(self):
        proxy = Proxy({HOST: "127.0.0.1"}, user="site:secret")
        coordinator, port = self.coordinator()
        client = self.client(port, {"https_proxy": f"http://site:secret@127.0.0.1:{proxy.port}"})
        said = client.communicate(timeout=60)[1]
        self.assertEqual(client.returncode, 0, said)
        self.assertEqual(coordinator.wait(timeout=60), 0)
        self.assertIn(f"CONNECT {HOST}:{port}", proxy.asked[0])
        self.assertNotIn("secret", said)

    def test_a_proxy_that_refuses_is_named_without_its_password(self):
        proxy = Proxy({}, user="site:secret")
        client = self.client(7000, {"HTTPS_PROXY": f"http://site:secret@127.0.0.1:{proxy.port}"})
        line = client.stderr.readline()
        self.assertRegex(line, rf"^client-00000: the coordinator at {HOST}:7000 cannot be reached through the proxy "
                         rf"http://127\.0\.0\.1:{proxy.port}: the proxy does not connect to it; since \d\d:\d\d UTC, next try in \d")
        client.terminate()
        client = self.client(7000, {"https_proxy": f"http://site:wrong@127.0.0.1:{proxy.port}"})
        self.assertIn("the proxy wants a name and a password", client.stderr.readline())

    def test_an_operator_steers_through_it(self):
        proxy = Proxy({HOST: "127.0.0.1"}, user="office:secret")
        self.run_rivulet("ca", "issue", "operator/alice", "--out", "alice", code=0)
        coordinator = self.start("coordinator", "--listen", "127.0.0.1:0", "--tls", "coordinator", "--db", "tls.sqlite")
        port = int(coordinator.stdout.readline().rsplit(":", 1)[1])
        through = {"https_proxy": f"http://office:secret@127.0.0.1:{proxy.port}", "no_proxy": "", "NO_PROXY": ""}

        def operate(*words, code=0, env=through):
            return self.run_rivulet(*words, "--coordinator", f"{HOST}:{port}", "--tls", "alice", env=env, code=code)

        operate("submit", self.scenario, *RUN)
        operate("pause", "--reason", "maintenance")
        self.assertTrue(json.loads(operate("status", "--json").out)[0]["paused"])
        self.assertEqual(json.loads(operate("clients", "--json").out), [])
        operate("resume")
        operate("abort")
        self.assertEqual(proxy.asked, [f"CONNECT {HOST}:{port} HTTP/1.1"] * len(proxy.asked))
        self.assertEqual(len(proxy.asked), 6)
        for env, why in (({"https_proxy": f"http://office:wrong@127.0.0.1:{proxy.port}"}, "the proxy wants a name and a password"),
                         ({"no_proxy": HOST}, "this machine cannot find its name")):
            refused = operate("status", code=1, env={**through, **env})
            self.assertIn(why, refused.err)
            self.assertNotIn("office", refused.err)
        refused = operate("status", code=2, env={**through, "https_proxy": "socks5://user:secret@proxy"})
        self.assertIn("https_proxy names 'proxy', and a proxy is http://HOST:PORT", refused.err)

    def test_no_proxy_and_another_kind_of_proxy(self):
        proxy = Proxy({})
        direct = self.client(7000, {"https_proxy": f"http://127.0.0.1:{proxy.port}", "no_proxy": "other.org, .example.org"})
        self.assertIn("cannot be reached: this machine cannot find its name", direct.stderr.readline())
        self.assertEqual(proxy.asked, [])
        refused = self.run_rivulet("client", "--coordinator", f"{HOST}:7000", "--tls", "client", "--data",
                                   "train=records/client-00000.tfrecord", env={"https_proxy": "socks5://user:secret@proxy"})
        self.assert_refused(refused, "https_proxy names 'proxy', and a proxy is http://HOST:PORT", code=2)

    def test_a_bandwidth_cap_makes_an_upload_take_its_time(self):
        # 7,850 float32 are 31.4 kB, twice: at 16 KB a second two of these take four seconds, and the first has a start.
        proxy = Proxy({HOST: "127.0.0.1"})
        coordinator, port = self.coordinator()
        begin = time.monotonic()
        client = self.client(port, {"https_proxy": f"http://127.0.0.1:{proxy.port}"}, "--max-upload-rate", "16")
        said = client.communicate(timeout=60)[1]
        self.assertEqual(client.returncode, 0, said)
        self.assertGreater(time.monotonic() - begin, 3.5)
        self.assertEqual(coordinator.wait(timeout=60), 0)


if __name__ == "__main__":
    main()
