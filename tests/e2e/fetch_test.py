"""`rivulet data fetch` against a server of this test's: one that cuts off, starts anew, redirects, lies or crawls."""
import http.server
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import threading
import time
import unittest

from harness import RIVULET, RivuletTest, main

DATA = os.environ.get("RIVULET_TEST_DATA", "")
FILE = pathlib.Path(DATA, "tinyshakespeare/input.txt")
BUILT = "data sets over HTTPS" in subprocess.run([RIVULET, "doctor"], capture_output=True, text=True).stdout.split("without")[0]


class Server(http.server.ThreadingHTTPServer):
    """Answers each request as the next word of `says` tells, the last one for all that follow."""
    daemon_threads = True

    def __init__(self, body, says):
        super().__init__(("127.0.0.1", 0), Handler)
        self.body, self.says, self.ranges, self.scheme = body, list(says), [], "http"
        self.over = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.server_port}/folder"

    def next(self):
        return self.says.pop(0) if len(self.says) > 1 else self.says[0]


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, code, length, **headers):
        self.send_response(code)
        self.send_header("Content-Length", str(length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def do_GET(self):
        server, how = self.server, self.server.next()
        asked = self.headers.get("Range")
        server.ranges.append(asked)
        body, code, headers = server.body, 200, {}
        if asked and how not in ("no range", "416"):
            first = int(asked.removeprefix("bytes=").removesuffix("-"))
            headers = {"Content_Range": f"bytes {first}-{len(body) - 1}/{len(body)}"}
            body, code = body[first:], 206
        if how in ("404", "503", "416"):
            return self.answer(int(how), 0)
        if how.startswith("to "):
            return self.answer(302, 0, Location=how[3:])
        if how == "other bytes":
            body = bytes(reversed(body))
        if how == "longer":
            body += b"more"
        if how == "shorter":
            body = body[:-4]
        self.answer(code, len(body), **headers)
        try:
            if how == "cut":
                self.wfile.write(body[:300_000])
                self.wfile.flush()
                self.connection.close()
            elif how == "crawl":
                self.wfile.write(body[:200_000])
                self.wfile.flush()
                server.over.wait(60)
            else:
                self.wfile.write(body)
        except OSError:
            pass


@unittest.skipUnless(FILE.is_file(), "RIVULET_TEST_DATA names no folder with tinyshakespeare/")
@unittest.skipUnless(BUILT, "built without libcurl")
class Fetch(RivuletTest):
    def serve(self, *says):
        server = Server(FILE.read_bytes(), says)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.addCleanup(server.over.set)
        return server

    def fetch(self, server, *arguments, **kwargs):
        return self.run_rivulet("data", "fetch", "tinyshakespeare", "--mirror", server if isinstance(server, str) else server.url,
                                *arguments, **kwargs)

    def original(self):
        return pathlib.Path(self.path("tinyshakespeare/original/input.txt"))

    def incomplete(self):
        return pathlib.Path(self.path("tinyshakespeare/original/input.txt.incomplete"))

    def assert_fetched(self, server):
        out = self.fetch(server, code=0).out
        self.assertEqual(self.original().read_bytes(), FILE.read_bytes())
        self.assertFalse(self.incomplete().exists())
        self.assertEqual(out, "tinyshakespeare/train.tfrecord: 11930 examples\ntinyshakespeare/test.tfrecord: 1225 examples\n")

    def test_it_is_fetched_checked_and_imported_and_not_fetched_again(self):
        server = self.serve("whole")
        self.assert_fetched(server)
        self.assert_fetched(server)
        self.assertEqual(server.ranges, [None])

    def test_a_cut_connection_is_made_again_where_it_was_cut(self):
        server = self.serve("cut", "cut", "whole")
        self.assert_fetched(server)
        self.assertEqual([bool(asked) for asked in server.ranges], [False, True, True])
        self.assertEqual(server.ranges[2], "bytes=600000-")

    def test_a_server_that_cannot_begin_in_the_middle_begins_anew(self):
        for how in ("no range", "416"):
            with self.subTest(how):
                shutil.rmtree(self.path("tinyshakespeare"), ignore_errors=True)
                server = self.serve("cut", how, "whole")
                self.assert_fetched(server)

    def test_a_redirect_is_followed_and_one_without_end_is_not(self):
        there = self.serve("whole")
        self.assert_fetched(self.serve(f"to {there.url}/input.txt"))
        self.original().unlink()
        self.assert_refused(self.fetch(self.serve("to /folder/input.txt")), "redirects", code=1)

    def test_a_busy_server_is_asked_again(self):
        self.assert_fetched(self.serve("503", "whole"))

    def test_bytes_that_are_others_are_never_kept(self):
        for how, *fragments in [("other bytes", "sha256", "nothing of it is kept"), ("longer", "longer than 1115394 bytes"),
                                ("shorter", "1115390 bytes long, and not 1115394")]:
            with self.subTest(how):
                self.assert_refused(self.fetch(self.serve(how)), *fragments, code=1)
                self.assertFalse(self.original().exists())
                self.assertFalse(self.incomplete().exists())
                self.assertFalse(pathlib.Path(self.path("tinyshakespeare/train.tfrecord")).exists())

    def test_a_file_that_lies_there_and_is_another_is_not_overwritten(self):
        self.write("tinyshakespeare/original/input.txt", "mine")
        self.assert_refused(self.fetch(self.serve("whole")), "is another file", "move it away", code=1)
        self.assertEqual(self.original().read_text(), "mine")

    def test_ctrl_c_stops_it_and_the_next_call_goes_on(self):
        server = self.serve("crawl", "whole")
        process = self.start("data", "fetch", "tinyshakespeare", "--mirror", server.url)
        self.wait_for(lambda: self.incomplete().exists() and self.incomplete().stat().st_size == 200_000, "what came so far")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(20), 1)
        self.assert_fetched(server)
        self.assertEqual(server.ranges, [None, "bytes=200000-"])

    def test_without_a_network_it_says_which_files_go_where(self):
        closed = self.serve("whole")
        closed.shutdown()
        closed.server_close()
        result = self.fetch(closed)
        self.assertEqual(result.code, 1)
        for fragment in ("copy the files there by another way", "tinyshakespeare/original/input.txt (1115394 bytes, sha256 86c4e6aa",
                         "from https://raw.githubusercontent.com/karpathy"):
            self.assertIn(fragment, result.err)
        shutil.copy(FILE, self.original())
        self.assert_fetched(closed)  # asks nobody
        self.assertIn("404", self.run_rivulet("data", "fetch", "mnist", "--mirror", self.serve("404").url).err)

    def test_https_by_authorities_that_are_known_and_never_down_to_http(self):
        key, certificate = self.path("key.pem"), self.path("certificate.pem")
        made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2",
                               "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"], capture_output=True)
        if made.returncode != 0:
            self.skipTest("no openssl to make a certificate")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        plain = self.serve("whole")

        def secure(*says):
            server = self.serve(*says)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            server.scheme = "https"
            return server
        self.assert_refused(self.fetch(secure("whole")), "certificate", code=1)
        known = {"SSL_CERT_FILE": certificate}
        self.assert_refused(self.fetch(secure(f"to {plain.url}/input.txt"), env=known), "https://127.0.0.1", code=1)
        self.assertEqual(plain.ranges, [])
        self.fetch(secure("whole"), env=known, code=0)
        self.assertEqual(self.original().read_bytes(), FILE.read_bytes())


class Pinned(RivuletTest):
    def test_every_set_is_listed_with_where_its_digests_come_from(self):
        out = self.run_rivulet("data", "fetch", code=0).out
        for name in ("cifar10", "cifar100", "fashion-mnist", "mnist", "tinyshakespeare"):
            self.assertRegex(out, rf"(?m)^{name} +\d")
        self.assertEqual(out.count("digests: "), 5)
        self.assert_refused(self.run_rivulet("data", "fetch", "minst"), "Did you mean 'mnist'?", code=2)
        self.assert_refused(self.run_rivulet("data", "fetch", "mnist", "--mirror", "nowhere"), "--mirror", code=2)

    @unittest.skipUnless(pathlib.Path(DATA, "mnist").is_dir(), "RIVULET_TEST_DATA names no folder with mnist/")
    def test_files_that_were_brought_are_checked_and_imported_without_a_network(self):
        shutil.copytree(pathlib.Path(DATA, "mnist"), self.path("mnist/original"))
        out = self.run_rivulet("data", "fetch", "mnist", "--mirror", "http://127.0.0.1:1", code=0).out
        self.assertEqual(out, "mnist/train.tfrecord: 60000 examples\nmnist/test.tfrecord: 10000 examples\n")


if __name__ == "__main__":
    main()
