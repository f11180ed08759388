"""What libraries say when they fail reaches users as sentences of the program's: each library that reads, writes, listens or
computes here is made to fail in several ways, and nothing that is said then holds its macros, scopes, codes or addresses
(LIBRARY_WORDS of harness.py, which each refusal of the other tests is held against too)."""
import concurrent.futures
import gzip
import os
import pathlib
import resource
import socket
import sqlite3
import subprocess
import threading
import unittest

from harness import LIBRARY_WORDS, RIVULET, SCENARIO, RivuletTest, example, field, main, node, tfrecord

JUNK = bytes((i * 197 + 31) % 256 for i in range(600))
PEM = "-----BEGIN {0}-----\nTm8gY2VydGlmaWNhdGUgYXQgYWxsLCBidXQgYmFzZTY0Lg==\n-----END {0}-----\n"


class Speaker:
    """Listens, and says the same to whoever calls."""

    def __init__(self, says):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port, self.says = self.socket.getsockname()[1], says
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        try:
            while True:
                caller, _ = self.socket.accept()
                with caller:
                    caller.sendall(self.says)
                    caller.settimeout(0.2)
                    caller.recv(1 << 16)
        except OSError:
            pass  # closed, or the caller has gone


class Sentences(RivuletTest):
    def said(self, *arguments, code=(1, 2), **kwargs):
        """A call that must fail, with one sentence of ours."""
        with self.subTest(arguments=[str(argument)[:60] for argument in arguments]):
            result = self.run_rivulet(*arguments, **kwargs)
            self.assert_refused(result, code=code)

    def test_databases(self):
        self.simulate("--rounds", "1")
        whole = pathlib.Path(self.path("runs.sqlite")).read_bytes()
        with sqlite3.connect(self.path("other.sqlite")) as other:
            other.execute("CREATE TABLE stamps (country TEXT)")
        self.write("text.sqlite", "a letter\n" * 200)
        self.write("head.sqlite", whole[:100] + JUNK * 20)
        self.write("cut.sqlite", whole[:len(whole) // 2])
        self.write("pages.sqlite", whole[:4096] + b"\xff" * 8192 + whole[12288:])
        self.write("version.sqlite", whole[:60] + b"\x7f\xff\xff\xff" + whole[64:])
        for db in ("none.sqlite", "none/none.sqlite", ".", "/dev/full", "text.sqlite", "head.sqlite", "cut.sqlite", "pages.sqlite",
                   "version.sqlite", "other.sqlite", "tiny.toml/x.sqlite", "n" * 300):
            self.said("runs", "sql", "SELECT count(*) FROM rounds r JOIN metrics m USING (run_id) WHERE r.nobody = m.value", "--db", db)
            self.said("runs", "show", "nobody", "--db", db)
            if db not in ("none.sqlite", "n" * 300):
                self.said("backup", "--out", "/dev/full", "--db", db)
        for question in ("SELEC", "SELECT nothing FROM runs", "DELETE FROM runs", "SELECT (", "SELECT 1; SELECT 2", "SELECT ?", "",
                         "SELECT load_extension('x')", "ATTACH 'x' AS y", "SELECT zeroblob(3000000000)", "SELECT abs(-9223372036854775808)",
                         "SELECT '\0", "SELECT json('{')", "SELECT max(round) FROM rounds GROUP BY max(round)"):
            if "\0" not in question:
                self.said("runs", "sql", question, "--db", "runs.sqlite")
        for size in (4096, 20_000, 100_000):
            self.said("simulate", self.scenario, "--db", f"{size}.sqlite",
                      preexec_fn=lambda size=size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))

    def test_text_formats(self):
        for i, text in enumerate(("x = = 1", "[", "a = 1\na = 2", 'a = "\\q"', "a = 2026-13-45", "a = 1e999", 'a = "', "a = [1, 2", "[[a]]\n[a]",
                                  "a = 0x", "\x01", "a.b = 1\na = 2", "a = 99999999999999999999", b"a = \"\xff\"")):
            self.said("simulate", self.write(f"{i}.toml", text))
            self.said("simulate", self.scenario, "--set", f"data.partition={text}" if isinstance(text, str) else "=")
        for i, text in enumerate(('{"a": [1, }', "[", '"', "nul", '{"users": 3}', '{"users": ["a"], "user_data": {"a": {"x": 1}}}', b"\xff\xfe",
                                  "1e999", '{"a": "\\ud800"}', "[" * 5000, "")):
            path = self.write(f"{i}.json", text)
            self.said("data", "import", "leaf", "--from", path, "--out", "out")
            self.said("data", "columns", path, path, "--out", "pooled.json")
        for i, text in enumerate(("x", "node {", "node { nam: 'x' }", "node { name: 3 }", "versions { producer: 'a' }", "node { name: 'a' op: 'Nosuch' }",
                                  "node { name: 'a' op: 'Const' attr { key: 'dtype' value { type: DT_NOSUCH } } }",
                                  "node { name: 'a' op: 'Const' attr { key: 'dtype' value { type: 99 } } }",
                                  "node { name: 'a' op: 'Relu' attr { key: 'T' value { type: DT_STRING } } }",
                                  "node { name: 'a' op: 'Placeholder' attr { key: 'dtype' value { type: DT_RESOURCE } } }")):
            self.said("graph", "optimize", self.write(f"{i}.pbtxt", text))
        for text in ("mu = ", "gradient = grad +", "gradient = nobody", "gradient = grad + (", "x = 1 1", "gradient = grad / 0 /"):
            self.said("graph", "build", self.write("rule.txt", text), "--out", "out.pb")
        for text in ("a,b\n1,2\n3", "a,b\n\"x", "a,a\n1,2\n", "", "a,b\nx,y\n", b"a,b\n\xff,1\n", "a,b\n1e999,1\n"):
            self.said("data", "import", "csv", "--from", self.write("t.csv", text), "--label", "c", "--out", "out")

    def test_binary_formats(self):
        self.write("digits/train-images-idx3-ubyte.gz", gzip.compress(JUNK)[:-5])
        for name in ("t10k-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-labels-idx1-ubyte.gz"):
            self.write(f"digits/{name}", gzip.compress(JUNK))
        self.said("data", "import", "mnist", "--from", "digits", "--out", "out")
        self.write("digits/train-images-idx3-ubyte.gz", b"\x1f\x8b\x08\x00" + JUNK)
        self.said("data", "import", "mnist", "--from", "digits", "--out", "out")
        self.write("pictures/a/1.png", b"\x89PNG\r\n\x1a\n" + JUNK)
        self.said("data", "import", "images", "--from", "pictures", "--out", "out")
        os.remove(self.path("pictures/a/1.png"))
        self.write("pictures/a/1.jpg", b"\xff\xd8\xff\xe0" + JUNK)
        self.said("data", "import", "images", "--from", "pictures", "--out", "out")
        whole = {}
        for extension in ("onnx", "npz", "safetensors", "pb"):
            self.run_rivulet("model", "export", "logistic_regression", "--out", f"whole.{extension}", code=0)
            whole[extension] = pathlib.Path(self.path(f"whole.{extension}")).read_bytes()
        self.run_rivulet("plan", "build", self.scenario, "--out", "whole.plan", code=0)
        whole["plan"] = pathlib.Path(self.path("whole.plan")).read_bytes()
        for extension, data in whole.items():
            for name, damaged in (("junk", JUNK), ("empty", b""), ("cut", data[:len(data) // 2]), ("short", data[:9]), ("tail", data[9:]),
                                  ("head", JUNK[:64] + data[64:])):
                path = self.write(f"{name}.{extension}", damaged)
                if extension == "plan":
                    self.said("plan", "show", path)
                elif extension == "pb":
                    self.said("graph", "optimize", path)
                else:
                    self.said("model", "inspect", path)
                if extension == "onnx":
                    self.said("model", "import", path, "--out", "out")
        for name, data in (("junk", JUNK), ("cut", tfrecord([example(b"1234", 1)])[:-3])):
            self.said("data", "inspect", self.write(f"{name}.tfrecord", data))
        deep = b"".join(node(f"n{i}", "Identity", f"n{i + 1}", T=field(6, 1)) for i in range(5))
        self.said("graph", "optimize", self.write("open.pb", deep))
        self.said("graph", "optimize", self.write("type.pb", node("a", "Relu", T=field(6, 77))))
        self.said("graph", "optimize", self.write("name.pb", field(1, field(1, b"\xff\xfe") + field(2, "NoOp"))))

    def test_files_and_folders(self):
        os.symlink("loop", self.path("loop"))
        os.mkfifo(self.path("fifo"))
        for place in ("tiny.toml/x", "n" * 300, "loop", "loop/x", "none/x", "/dev/full", "/proc/1/x", "."):
            self.said("plan", "build", self.scenario, "--out", place)
            self.said("model", "export", "logistic_regression", "--out", f"{place}.onnx" if place.startswith(("n", "tiny")) else place)
            if place != "/dev/full":
                self.said("simulate", place)
                self.said("data", "inspect", place)
        for place in ("tiny.toml/x", "n" * 300, "loop/x", "/proc/1/x"):
            self.said("data", "synth", "digits", "--writers", "4", "--out", place)
            self.said("data", "import", "text", "--from", self.scenario, "--out", place)
            self.said("simulate", self.scenario, "--db", "new.sqlite", "--log", place)
            self.said("simulate", self.scenario, "--db", "new.sqlite", "--trace", place)

    def test_certificates(self):
        self.run_rivulet("ca", "init", "--name", "A", code=0)
        self.run_rivulet("ca", "init", "--ca", "other", "--name", "B", code=0)
        self.run_rivulet("ca", "issue", "client/a", "--out", "a", code=0)
        self.run_rivulet("ca", "issue", "coordinator/localhost", "--out", "coordinator", code=0)
        self.run_rivulet("ca", "author", "--out", "author.key", code=0)
        self.run_rivulet("plan", "build", self.scenario, "--out", "t.plan", code=0)
        for name, data in (("junk", JUNK), ("empty", b""), ("base64", PEM.format("CERTIFICATE")), ("key64", PEM.format("PRIVATE KEY")),
                           ("request64", PEM.format("CERTIFICATE REQUEST")), ("torn", "-----BEGIN CERTIFICATE-----\nTm8"),
                           ("locked", PEM.format("ENCRYPTED PRIVATE KEY"))):
            path = self.write(name, data)
            self.said("ca", "show", path)
            self.said("ca", "issue", "client/x", "--request", path, "--out", "x.crt")
            self.said("plan", "sign", "t.plan", "--key", path, "--out", "signed.plan")
            for file in ("node.crt", "node.key"):
                kit = pathlib.Path(self.path("a"))
                before = (kit / file).read_bytes()
                (kit / file).write_bytes(data if isinstance(data, bytes) else data.encode())
                self.said("client", "--coordinator", "127.0.0.1:7", "--tls", "a", "--data", "train=tiny.toml")
                (kit / file).write_bytes(before)
            before = pathlib.Path(self.path("ca/authority.key")).read_bytes()
            self.write("ca/authority.key", data)
            self.said("ca", "issue", "client/z", "--out", "z")
            pathlib.Path(self.path("ca/authority.key")).write_bytes(before)
        pathlib.Path(self.path("a/node.key")).write_bytes(pathlib.Path(self.path("coordinator/node.key")).read_bytes())
        self.said("client", "--coordinator", "127.0.0.1:7", "--tls", "a", "--data", "train=tiny.toml")
        for serial in ("zz", "00", "0" * 50):
            self.said("ca", "revoke", "--serial", serial)

    def test_networks(self):
        silent, page, junk = Speaker(b""), Speaker(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"), Speaker(JUNK)
        self.run_rivulet("ca", "init", "--name", "A", code=0)
        self.run_rivulet("ca", "issue", "operator/a", "--out", "operator", code=0)
        self.run_rivulet("ca", "issue", "coordinator/localhost", "--host", "127.0.0.1", "--out", "coordinator", code=0)
        for port in (7, silent.port, page.port, junk.port):
            self.said("status", "--coordinator", f"127.0.0.1:{port}", "--insecure")
            self.said("status", "--coordinator", f"127.0.0.1:{port}", "--tls", "operator")
        for address in ("nowhere.invalid:70", "127.0.0.1:99999", "127.0.0.1", ":::", "[::1:7", "256.1.1.1:7", "\x01:7"):
            self.said("status", "--coordinator", address, "--insecure")
            self.said("coordinator", self.scenario, "--listen", address, "--insecure", "--db", "new.sqlite")
        # Most are tried again after a second and after two more, so that they are made at once.
        urls = [f"{scheme}://127.0.0.1:{port}/x" for scheme in ("http", "https") for port in (7, silent.port, page.port, junk.port)]
        urls += ["nosuch://x", "file:///etc", "http://", "https://nowhere.invalid/x", "x"]
        with concurrent.futures.ThreadPoolExecutor(len(urls)) as pool:
            fetched = pool.map(lambda i: self.run_rivulet("data", "fetch", "mnist", "--mirror", urls[i], "--out", f"out{i}"), range(len(urls)))
        for url, result in zip(urls, fetched):
            with self.subTest(url=url):
                self.assert_refused(result, code=(1, 2))
        for way in (["--insecure"], ["--tls", "coordinator"]):
            self.said("coordinator", self.scenario, "--listen", f"127.0.0.1:{silent.port}", *way, "--db", "new.sqlite")
        self.said("dashboard", "--db", "none.sqlite", "--listen", f"127.0.0.1:{silent.port}")
        served = self.start("coordinator", self.scenario, "--listen", "127.0.0.1:0", "--tls", "coordinator", "--db", "tls.sqlite")
        port = served.stdout.readline().strip().rpartition(":")[2]
        self.run_rivulet("ca", "init", "--ca", "other", "--name", "B", code=0)
        self.run_rivulet("ca", "issue", "operator/b", "--ca", "other", "--out", "stranger", code=0)
        self.said("status", "--coordinator", f"127.0.0.1:{port}", "--insecure")
        self.said("status", "--coordinator", f"127.0.0.1:{port}", "--tls", "stranger")
        self.said("status", "--coordinator", f"127.0.0.2:{port}", "--tls", "operator")

    def test_libraries_and_arguments(self):
        elf = subprocess.run(["sh", "-c", "ls /lib/*/libm.so.6"], capture_output=True, text=True).stdout.split()[0]
        for kind in ("--op-library", "--algorithm-library"):
            for path in (self.write("junk.so", JUNK), self.write("cut.so", pathlib.Path(elf).read_bytes()[:5000]), elf, "none.so", ".", ""):
                self.said("doctor", kind, path)
        for arguments in (["--rounds", "x"], ["--rounds", ""], ["--rounds", "1e3"], ["--rounds", "9" * 40], ["--seed", "-1"], ["--rounds"],
                          ["--rounds", "1", "--rounds", "2"], ["--nosuch"], ["--nosuch=3"], ["-q"], ["x", "y"], ["--workers", "nan"],
                          ["--set", "=1"], ["--set", "a"], ["--set", "client.epochs='a'"], ["--set", "client.optimizer.learning_rate=nan"],
                          ["--set", "server.clients_per_round=1e400"], ["--db"], ["--progress", "x"], ["--vlog", "=="], ["--trace-megabytes", "-5"]):
            self.said("simulate", self.scenario, *arguments)
        self.said("debug", "logistic_regression", "--feed", f"image={self.write('x.npy', JUNK)}", "-c", "run")
        self.said("bench", "op", "Relu", "--shape", "99999999999x99999999999")
        self.said("bench", "op", "Nosuch", "--shape", "1")
        self.said("doctor", env={"RIVULET_CPU_TARGETS": "nosuch"})
        for option in ("--progress", "--vlog", "--op-library", "--algorithm-library"):
            self.said("runs", option, "", "list", code=2)
            self.said("runs", "list", option, "", code=2)

    def test_a_folder_that_is_gone(self):
        gone = self.folder / "gone"
        for arguments in (["doctor", "--op-library", "x.so"], ["model", "evaluate", "latest", "--data", "x"], ["simulate", "x.toml"],
                          ["data", "synth", "digits", "--out", "x"], ["runs", "list"]):
            gone.mkdir()
            self.said(*arguments, cwd=gone, before=["sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh"])

    @unittest.skipIf(os.environ.get("RIVULET_SANITIZE"), "a sanitizer reserves terabytes")
    def test_too_little_memory_and_threads(self):
        for megabytes in (150, 200, 300):
            result = self.run_rivulet("simulate", self.scenario, "--db", f"{megabytes}.sqlite", preexec_fn=lambda megabytes=megabytes:
                                      resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20)))
            self.assertIn(result.code, (0, 1), result)
            self.assertNotRegex(result.err, LIBRARY_WORDS)
        for descriptors in (5, 8, 12):
            result = self.run_rivulet("simulate", self.scenario, "--db", f"d{descriptors}.sqlite", preexec_fn=lambda descriptors=descriptors:
                                      resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors)))
            self.assertIn(result.code, (0, 1, 127), result)
            self.assertNotRegex(result.err, LIBRARY_WORDS)

    def test_the_words_are_noticed(self):
        for text in ("std::bad_alloc", "cannot: SQLITE_BUSY", "INVALID_ARGUMENT: x", "UNAVAILABLE: gone", "open: ENOENT", "at 0x7f32a10b4c00",
                     "absl::Status", "error:0A000086:SSL routines", "ipv4:127.0.0.1:7", "google.protobuf.Message",
                     "[json.exception.parse_error.101]", "what(): x", "RIVULET_CHECK", "basic_string::_M_create", "GRPC_STATUS_OK",
                     "_ZN7rivulet5Graph", "filesystem error: cannot", "X509_V_ERR", "name (null)"):
            self.assertRegex(text, LIBRARY_WORDS)
        for text in ("stored 0x8966b5b2, computed", "RIVULET_CPU_TARGETS", "EMNIST", "SIGTERM", "HTTP 400", "a PEM file", "type DT_FLOAT",
                     "fl.example.org:7000", "an SQLite database", "TLS", "layers.cc:77", "tiny.toml:1:5: Error", "OK", "client.optimizer.learning_rate"):
            self.assertNotRegex(text, LIBRARY_WORDS)


if __name__ == "__main__":
    main()
