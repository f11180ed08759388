"""`rivulet serve` and the labels of `rivulet model point`: answers over HTTP, switches, a canary, refusals."""
import base64
import errno
import http.client
import json
import os
import pathlib
import random
import re
import signal
import socket
import sqlite3
import ssl
import struct
import subprocess
import threading
import urllib.error
import urllib.request

import harness
import inputs_test
import onnx_test

PIXELS = 784


def image(number):
    return bytes(random.Random(number).randrange(256) for _ in range(PIXELS))


def weights_of(path):
    """The tensors of a safetensors file, as lists of floats by name, with their shapes."""
    data = open(path, "rb").read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            raw = data[8 + length + begin:8 + length + end]
            tensors[name] = (entry["shape"], struct.unpack(f"<{len(raw) // 4}f", raw))
    return tensors


class ServeTest(harness.RivuletTest):
    IN_MEMORY = True

    def setUp(self):
        super().setUp()
        self.simulate("--set", "run.keep_models=all")
        self.run_id = self.query("SELECT run_id FROM runs")[0][0]

    def model(self, *arguments, code=0):
        return self.run_rivulet("model", *arguments, "--db", self.path("runs.sqlite"), code=code)

    def point(self, name, target, *arguments):
        return json.loads(self.model("point", name, target, "--json", *arguments).out)

    def serve(self, *arguments, name="server"):
        """A server of the history, once it answers; its port of HTTP is kept."""
        process = self.start("serve", "--db", self.path("runs.sqlite"), "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--insecure",
                             *arguments)
        self.follow(process, name)
        line = process.stdout.readline()
        found = re.search(r"gRPC at (\S+) and over HTTP at http://127\.0\.0\.1:(\d+)/", line)
        if not found:
            process.wait(timeout=60)
            self.readers[name].join(timeout=10)
            self.fail(f"the server said '{line}' and {''.join(self.logs[name])}")
        self.grpc, self.port = found[1], int(found[2])
        return process

    def call(self, path, body=None, headers=None, raw=False):
        """(status, JSON or bytes, header fields)."""
        data = json.dumps(body).encode() if body is not None and not isinstance(body, bytes) else body
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=data, headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                status, content, fields = reply.status, reply.read(), reply.headers
        except urllib.error.HTTPError as error:
            status, content, fields = error.code, error.read(), error.headers
        return status, content if raw else json.loads(content), fields

    def predict(self, images, path="/v1/models/digits:predict", headers=None):
        values = [[b / 255 for b in pixels] for pixels in images]
        shaped = [[[[v] for v in row[i * 28:i * 28 + 28]] for i in range(28)] for row in values]
        return self.call(path, {"instances": shaped}, headers)

    def version_served(self, headers=None):
        status, reply, fields = self.predict([image(1)], headers=headers)
        self.assertEqual(status, 200, reply)
        return int(fields["rivulet-version"].split("/")[1])  # the round

    def expected(self, round_number, pixels):
        """The logits of a softmax regression, by hand."""
        tensors = weights_of(self.path(f"runs.sqlite.models/{self.run_id}/round-{round_number:06}.safetensors"))
        (_, weights) = next(value for value in tensors.values() if value[0] == [PIXELS, 10])
        (_, bias) = next(value for value in tensors.values() if value[0] == [10])
        return [bias[c] + sum(pixels[p] / 255 * weights[p * 10 + c] for p in range(PIXELS)) for c in range(10)]

    def assert_close(self, found, wanted):
        self.assertEqual(len(found), len(wanted))
        for a, b in zip(found, wanted):
            self.assertAlmostEqual(a, b, delta=1e-5)

    def test_labels_keep_numbers_and_step_back(self):
        self.assertEqual(self.point("digits", f"stable={self.run_id}:1")["version"], 1)
        self.assertEqual(self.point("digits", f"stable={self.run_id}:2")["version"], 2)
        self.assertEqual(self.point("digits", f"canary={self.run_id}:1", "--percent", "5")["version"], 1)
        self.assertEqual(self.point("digits", f"{self.run_id}:4")["version"], 3)
        self.assertEqual(json.loads(self.model("rollback", "digits", "--json").out)["round"], 2)
        self.assertEqual(json.loads(self.model("rollback", "digits", "--json").out)["round"], 1)
        self.assert_refused(self.model("rollback", "digits", code=1), "none before")
        rows = json.loads(self.model("points", "digits", "--json").out)
        self.assertEqual([(row["label"], row["round"]) for row in rows],
                         [("stable", 1), ("stable", 2), ("canary", 1), ("stable", 4), ("stable", 2), ("stable", 1)])
        kept = sorted(name for name in os.listdir(self.path("runs.sqlite.models/pointed")) if name.endswith(".safetensors"))
        self.assertLessEqual(len(kept), 4)

    def test_explain_names_the_clients_and_rounds(self):
        self.point("digits", f"{self.run_id}:3")
        self.point("digits", f"canary={self.run_id}:4", "--percent", "5")
        told = json.loads(self.model("explain", "digits", "--json").out)
        self.assertEqual((told["run_id"], told["round"], told["labels"], told["seed"]), (self.run_id, 3, "stable", "7"))
        self.assertEqual(told["files"], "as pointed to")
        clients, updates, examples = self.query("SELECT count(DISTINCT client_id), count(*), sum(examples) FROM client_rounds "
                                                "WHERE status = 'folded' AND committed_round <= 3")[0]
        self.assertEqual((told["clients"], told["updates"], told["examples"]), (clients, updates, examples))
        self.assertEqual(told["test/accuracy"], self.metric("test/accuracy")[3 if len(self.metric("test/accuracy")) > 4 else 2])
        self.assertEqual(json.loads(self.model("explain", "digits=canary", "--json").out)["round"], 4)
        self.assertEqual(json.loads(self.model("explain", "digits=1", "--json").out)["round"], 3)
        self.assert_refused(self.model("explain", "digits=7", code=1), "digits")

    def test_what_cannot_be_served_is_not_pointed_to(self):
        self.assert_refused(self.model("point", "digits", f"{self.run_id}:9", code=1), "no round 9")
        self.assert_refused(self.model("point", "digits", "nobody", code=1), "nobody")
        self.assert_refused(self.model("point", "digits", f"12={self.run_id}", code=2), "number")
        self.assert_refused(self.model("point", "a b", self.run_id, code=2), "letters")
        self.assert_refused(self.model("point", "digits", f"canary={self.run_id}", "--percent", "101", code=2), "0 to 100")
        folder = self.path(f"runs.sqlite.models/{self.run_id}")
        with open(f"{folder}/round-000003.safetensors", "r+b") as file:
            file.seek(-100, os.SEEK_END)
            file.write(b"\xff" * 8)
        self.assert_refused(self.model("point", "digits", f"{self.run_id}:3", code=1), "round-000003")
        os.remove(f"{folder}/round-000002.safetensors")
        self.assert_refused(self.model("point", "digits", f"{self.run_id}:2", code=1), "round-000002")
        self.assertEqual(self.query("SELECT count(*) FROM pointers"), [(0,)])

    def test_answers_are_the_models(self):
        self.point("digits", f"{self.run_id}:4")
        self.serve("--model", "digits", "--output", "logits", "--output", "probabilities")
        images = [image(n) for n in range(5)]
        wanted = [self.expected(4, pixels) for pixels in images]
        status, reply, fields = self.predict(images)
        self.assertEqual(status, 200, reply)
        digest = self.query("SELECT digest FROM models WHERE round = 4")[0][0]
        self.assertEqual(fields["rivulet-version"], f"{self.run_id}/4/{digest}")
        for found, by_hand in zip(reply["predictions"], wanted):
            self.assert_close(found["logits"], by_hand)
            self.assertAlmostEqual(sum(found["probabilities"]), 1, places=5)

        _, metadata, _ = self.call("/v2/models/digits")
        self.assertEqual(metadata["inputs"], [{"name": "image", "datatype": "FP32", "shape": [-1, 28, 28, 1]}])
        self.assertEqual(metadata["properties"]["round"], "4")
        self.assertEqual(self.call("/v2/health/ready")[0], 200)
        self.assertEqual(self.call("/v2/models/digits/versions/1/ready")[0], 200)
        self.assertEqual(self.call("/v2/models/digits/versions/2/ready")[0], 404)
        self.assertEqual(self.call("/v1/models/digits")[1]["model_version_status"][0]["state"], "AVAILABLE")
        self.assertEqual(self.call("/v1/models/digits/labels/stable/metadata")[0], 200)

        # Pixels as they are: numbers of one byte, text of base64, and bytes behind the JSON.
        flat = [value for pixels in images for value in pixels]
        request = {"id": "7", "inputs": [{"name": "image", "datatype": "UINT8", "shape": [5, 28, 28, 1], "data": flat}],
                   "outputs": [{"name": "logits"}]}
        status, reply, _ = self.call("/v2/models/digits/infer", request)
        self.assertEqual(status, 200, reply)
        self.assertEqual((reply["id"], reply["model_version"]), ("7", "1"))
        self.assert_close(reply["outputs"][0]["data"], [value for row in wanted for value in row])
        raw = struct.pack(f"<{len(flat)}f", *(value / 255 for value in flat))
        head = json.dumps({"inputs": [{"name": "image", "datatype": "FP32", "shape": [5, 28, 28, 1],
                                       "parameters": {"binary_data_size": len(raw)}}],
                           "outputs": [{"name": "logits", "parameters": {"binary_data": True}}]}).encode()
        status, content, fields = self.call("/v2/models/digits/infer", head + raw,
                                            {"Inference-Header-Content-Length": str(len(head))}, raw=True)
        self.assertEqual(status, 200, content)
        length = int(fields["Inference-Header-Content-Length"])
        self.assert_close(struct.unpack("<50f", content[length:]), [value for row in wanted for value in row])
        rows = {"instances": [{"image": {"b64": base64.b64encode(pixels).decode()}} for pixels in images]}
        status, reply, _ = self.call("/v1/models/digits/versions/1:predict", rows)
        self.assertEqual(status, 200, reply)
        self.assert_close(reply["predictions"][2]["logits"], wanted[2])
        columns = {"inputs": [{"b64": base64.b64encode(pixels).decode()} for pixels in images]}
        status, reply, _ = self.call("/v1/models/digits:predict", columns)
        self.assertEqual(status, 200, reply)
        self.assert_close(reply["outputs"]["logits"][4], wanted[4])
        metrics = self.call("/metrics", raw=True)[1].decode()
        self.assertIn('rivulet_serve_requests_total{model="digits",label="stable",version="1",end="answered"} 5', metrics)

    def test_same_answers_as_model_evaluate(self):
        records = [(image(n), n % 10) for n in range(50)]
        self.write("own.tfrecord", harness.tfrecord(harness.example(pixels, label) for pixels, label in records))
        measured = json.loads(self.model("evaluate", f"{self.run_id}:4", "--data", self.path("own.tfrecord"), "--json").out)
        self.serve("--model", f"digits={self.run_id}:4", "--fixed-batch", "16")
        right = 0
        for begin in range(0, 50, 10):
            batch = records[begin:begin + 10]
            reply = self.predict([pixels for pixels, _ in batch])[1]
            right += sum(row.index(max(row)) == label for row, (_, label) in zip(reply["predictions"], batch))
        self.assertEqual(right, measured["test/accuracy/right"])
        alone = [self.predict([pixels])[1]["predictions"][0] for pixels, _ in records[:4]]
        together = self.predict([pixels for pixels, _ in records[:4]])[1]["predictions"]
        self.assertEqual(alone, together)  # to the bit

    def test_switches_drop_nothing(self):
        self.point("digits", f"{self.run_id}:1")
        self.serve("--model", "digits")
        done, failures, rounds = threading.Event(), [], []

        def ask():
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            body = json.dumps({"inputs": [{"name": "image", "datatype": "UINT8", "shape": [1, 28, 28, 1], "data": list(image(1))}]})
            while not done.is_set():
                connection.request("POST", "/v2/models/digits/infer", body)
                reply = connection.getresponse()
                content = reply.read()
                if reply.status != 200:
                    failures.append(content)
                else:
                    rounds.append(int(reply.headers["rivulet-version"].split("/")[1]))
            connection.close()

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for target in (2, 3, 4, 1, 2):
                self.point("digits", f"{self.run_id}:{target}")
                self.wait_for(lambda: rounds and rounds[-1] == target, f"round {target} to be served")
            self.model("rollback", "digits")
            self.wait_for(lambda: rounds[-1] == 1, "the target before to be served")
        finally:
            done.set()
            for thread in threads:
                thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(set(rounds), {1, 2, 3, 4})

    def test_a_label_follows_a_run_behind_its_gates(self):
        accuracy = self.metric("test/accuracy")
        self.serve("--model", "digits", "--follow", f"digits={self.run_id}:latest")
        self.assertEqual(self.version_served(), 4)
        self.run_rivulet("simulate", self.scenario, "--db", self.path("runs.sqlite"), "--set", "run.keep_models=all", "--resume",
                         self.run_id, "--rounds", 6, code=0)
        self.wait_for(lambda: self.version_served() == 6, "the newest version to be served")
        process = self.processes[-1]
        self.stop(process, "server")
        self.assertEqual(self.query("SELECT author FROM pointers ORDER BY rowid DESC LIMIT 1"), [("rivulet serve",)])
        self.assertGreater(len(accuracy), 0)
        refused = self.run_rivulet("serve", "--db", self.path("runs.sqlite"), "--model", "held", "--insecure", "--follow",
                                   f"held={self.run_id}", "--min", "test/accuracy=1.1")
        self.assertIn("held=stable does not follow to", refused.err)
        self.assertIn("no label of the name 'held' was set", refused.err)
        for wrong in (("--follow", "held"), ("--follow", f"held={self.run_id}:3"), ("--min", "test/accuracy=1")):
            self.assert_refused(self.run_rivulet("serve", "--db", self.path("runs.sqlite"), "--model", "held", "--insecure", *wrong), "--",
                                code=2)

    def test_canary_is_sticky_and_grows(self):
        self.point("digits", f"{self.run_id}:1")
        self.point("digits", f"canary={self.run_id}:2", "--percent", "20")
        self.serve("--model", "digits")
        users = [f"user-{n}" for n in range(60)]
        ask = lambda: {user: self.version_served({"rivulet-user": user}) for user in users}
        first = ask()
        self.assertEqual(set(first.values()), {1, 2})
        self.assertEqual(ask(), first)
        self.point("digits", f"canary={self.run_id}:2", "--percent", "60")
        grown = [user for user in users if first[user] == 1]
        self.wait_for(lambda: any(self.version_served({"rivulet-user": user}) == 2 for user in grown), "the share to grow")
        second = ask()
        self.assertTrue(all(second[user] == 2 for user in users if first[user] == 2))
        self.assertEqual(self.predict([image(1)], "/v1/models/digits/labels/stable:predict", {"rivulet-user": users[0]})[2]
                         ["rivulet-version"].split("/")[1], "1")
        self.assertEqual(self.predict([image(1)], "/v1/models/digits/labels/nobody:predict")[0], 404)

    def other_run(self):
        """A run in the same history whose model takes other inputs."""
        self.write("table.csv", "a,b,shop,sold\n" + "".join(f"{n * 0.25},{n % 3},{'xyz'[n % 3]},{n * 0.5}\n" for n in range(20)))
        self.run_rivulet("data", "import", "csv", "--from", self.path("table.csv"), "--target", "sold", "--index", "shop", "--test-every",
                         5, "--out", self.path("table"), code=0)
        self.run_rivulet("simulate", self.write("inputs.toml", inputs_test.MODEL), "--db", self.path("runs.sqlite"), "--rounds", 1, code=0)
        return self.query(f"SELECT run_id FROM runs WHERE run_id <> '{self.run_id}'")[0][0]

    def test_a_worse_canary_loses_its_share(self):
        """A canary that takes other inputs fails for all users that it gets. Its share ends before its row can be written, and a new
        pointer gives it a share again."""
        other = self.other_run()
        self.point("digits", f"{self.run_id}:1")
        self.point("digits", f"canary={other}", "--percent", "50")
        server = self.serve("--model", "digits", "--abort-if", "errors=0.05", "--abort-if", "p99=100")
        body = {"inputs": [{"name": "image", "datatype": "UINT8", "shape": [1, 28, 28, 1], "data": list(image(1))}]}
        users = [f"user-{n}" for n in range(40)]
        ask = lambda: [self.call("/v2/models/digits/infer", body, {"rivulet-user": user})[0] for user in users]
        stopped = lambda: 'rivulet_serve_percent{model="digits",label="canary",version="2"} 0\n' in self.call("/metrics", raw=True)[1].decode()

        # Requests that name the canary are not compared.
        for _ in range(30):
            self.assertEqual(self.call("/v2/models/digits/versions/2/infer", body)[0], 400)
        writer = sqlite3.connect(self.path("runs.sqlite"), isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")
        first = ask()
        self.assertEqual(set(first), {200, 400})
        self.wait_for(stopped, "the canary to lose its share")
        self.assertEqual(set(ask()), {200})
        self.assertEqual(self.query("SELECT count(*) FROM pointer"), [(2,)])
        writer.execute("ROLLBACK")
        writer.close()
        newest = lambda: self.query("SELECT label, run_id, share, author, note FROM pointer ORDER BY rowid DESC LIMIT 1")[0]
        self.wait_for(lambda: newest()[3] == "rivulet serve", "the row that says why")
        self.assertEqual(newest()[:3], ("canary", other, None))
        self.assertRegex(newest()[4], r"^\d+ of \d+ requests failed, and 0 of \d+ of 'stable' \(--abort-if errors=0.05\)$")
        self.said("server", "'canary' .* gets no requests any more: .* requests failed")
        self.assertEqual(set(ask()), {200})

        # A new pointer, also to the same version, has a share again, until it is found worse again.
        self.point("digits", f"canary={other}", "--percent", "50")
        self.wait_for(lambda: 400 in ask(), "the canary to have a share")
        self.wait_for(lambda: stopped() and newest()[2] is None, "the canary to lose its share again")
        self.assertEqual(self.query("SELECT count(*) FROM pointer"), [(5,)])
        self.stop(server, "server")
        self.serve("--model", "digits", name="next")
        self.assertEqual(set(ask()), {200})
        for wrong in ("errors", "errors=2", "p99=0.5"):
            self.assert_refused(self.run_rivulet("serve", "--db", self.path("runs.sqlite"), "--model", "digits", "--insecure", "--abort-if", wrong),
                                "errors=0.01", code=2)
        self.assert_refused(self.run_rivulet("serve", "--db", self.path("runs.sqlite"), "--model", f"digits={self.run_id}", "--insecure",
                                             "--abort-if", "errors=0.01"), "--abort-if", code=2)

    def test_a_version_that_fails_leaves_the_old_one(self):
        self.point("digits", f"{self.run_id}:1")
        self.serve("--model", "digits")
        self.point("later", f"{self.run_id}:3")
        # A row that names a version whose file is damaged, as a disk might leave it.
        pointed = self.path("runs.sqlite.models/pointed")
        damaged = [name for name in os.listdir(pointed) if "-000003-" in name][0]
        content = open(f"{pointed}/{damaged}", "rb").read()
        os.remove(f"{pointed}/{damaged}")
        with open(f"{pointed}/{damaged}", "wb") as file:
            file.write(content[:-8] + b"\xff" * 8)
        connection = sqlite3.connect(self.path("runs.sqlite"))
        with connection:
            connection.execute("INSERT INTO pointer (name, label, run_id, round, digest, plan_digest, version, at, rolled_back) "
                               "SELECT 'digits', label, run_id, round, digest, plan_digest, 2, at, 0 FROM pointer WHERE name = 'later'")
        connection.close()
        self.said("server", "version 2 .* is failed")
        self.assertEqual(self.version_served(), 1)
        status, reply, _ = self.call("/v2/models/digits/ready")
        self.assertEqual((status, reply["ready"], reply["failed"][0]["version"]), (200, True, "2"))

    def test_hostile_calls_are_refused(self):
        self.point("digits", f"{self.run_id}:1")
        process = self.serve("--model", "digits", "--max-batch", "8")
        infer = "/v2/models/digits/infer"
        given = lambda **fields: {"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 28, 28, 1], "data": [0] * PIXELS, **fields}]}
        self.assertEqual(self.call(infer, given())[0], 200)
        for body in (given(shape=[2**62, 28, 28, 1]), given(shape=[-1, 28, 28, 1]), given(shape=[]), given(data=[1]),
                     given(name="other"), given(datatype="FP99"), given(data=["a"] * PIXELS), given(shape=[9, 28, 28, 1]),
                     given(parameters={"binary_data_size": 2**40}), given(data=[1e300] * PIXELS), {"inputs": given(data=[1])["inputs"] * 10_000},
                     {}, [], b"{", b"[" * 100_000, b""):
            status, reply, _ = self.call(infer, body)
            self.assertEqual(status, 400, reply)
            self.assertLess(len(reply["error"]), 1000)
            self.assertNotRegex(reply["error"], harness.LIBRARY_WORDS)
        self.assertEqual(self.call("/v2/models/nobody/infer", given())[0], 404)
        self.assertEqual(self.call("/v2/models/digits/versions/7/infer", given())[0], 404)
        self.assertEqual(self.call("/v1/models/digits:classify", {})[0], 501)
        status, reply, fields = self.call(infer)  # GET
        self.assertEqual((status, fields["Allow"]), (405, "POST"), reply)
        self.assertEqual(self.call("/v1/models/digits:predict")[0], 405)
        predict = "/v1/models/digits:predict"
        deep = [0]
        for _ in range(150):
            deep = [deep]
        for body in ({"instances": deep}, {"instances": [[[0] * 28] * 28]}, {"instances": [{"image": "x"}]}, {"instances": [{"other": 1}]},
                     {"instances": [{"b64": "%"}]}, {"instances": []}, {"inputs": {}}, {"instances": [None]}, {"instances": "x"},
                     {"inputs": {"image": {"b64": 7}}}, {"instances": [1], "inputs": [1]}, [], b"[" * 100_000, b"\xff\xfe", b"{}{}"):
            status, reply, _ = self.call(predict, body)
            self.assertEqual(status, 400, (body, reply))
            self.assertLess(len(reply["error"]), 1000)
            self.assertNotRegex(reply["error"], harness.LIBRARY_WORDS)
        status, reply, _ = self.call(infer, given(shape=[9, 28, 28, 1], data=[0] * (9 * PIXELS)))
        self.assertEqual((status, reply["error"]), (400, "the input 'image' has 9 examples, and a request has 1 to 8 (--max-batch); send "
                                                         "them in several requests"))
        for head, end, wanted in ((b"Content-Length: 1000000000", False, b" 413 "), (b"Content-Length: 3\r\nContent-Length: 4", False, b" 400 "),
                                  (b"Content-Length: 3\r\nTransfer-Encoding: chunked", False, b" 400 "),
                                  (b"Content-Length: 5000", True, b" 400 ")):
            with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
                connection.sendall(b"POST " + infer.encode() + b" HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n\r\n")
                if end:
                    connection.shutdown(socket.SHUT_WR)
                answer = b""
                while piece := connection.recv(4096):
                    answer += piece
                self.assertIn(wanted, answer.split(b"\r\n")[0] + b" ")
                self.assertIn("error", json.loads(answer.split(b"\r\n\r\n")[1]))
        # A page elsewhere takes no body, and whoever sends half of one is no burden.
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as half:
            half.sendall(b"POST " + infer.encode() + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n{")
            self.assertEqual(self.call(infer, given())[0], 200)
        self.assertEqual(self.call("/elsewhere", {}, raw=True)[0], 400)
        self.stop(process, "server")
        self.assertNotIn("0, 0, 0", "".join(self.logs["server"]))

    @harness.measures_memory
    def test_hostile_bodies_cost_bounded_memory(self):
        """Bodies as long as they may be, with as many values as they have room for, from many callers at once: without a count of
        values each would cost some twenty times its length."""
        self.point("digits", f"{self.run_id}:1")
        process = self.serve("--model", "digits", "--max-batch", "8")
        ask = lambda body: self.call("/v2/models/digits/infer", body)
        good = {"inputs": [{"name": "image", "datatype": "UINT8", "shape": [1, 28, 28, 1], "data": list(image(1))}]}
        self.assertEqual(ask(good)[0], 200)
        long = 1_100_000
        bodies = [b'{"inputs":[' + b"0," * (long // 2), b"[" + b"[]," * (long // 3), b'{"a":' + b"[" * long, b'{"inputs":[' + b'"",' * (long // 3),
                  b'{"inputs":[' + b"{}," * (long // 3) + b"{}]}"]
        resident = lambda: int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{process.pid}/status").read_text())[1]) / 1024
        before, statuses = resident(), []
        threads = [threading.Thread(target=lambda n=n: statuses.extend(ask(bodies[(n + i) % len(bodies)])[0] for i in range(5))) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((set(statuses), len(statuses)), ({400}, 80))
        self.assertLess(resident() - before, 100)  # MB: sixteen bodies, the buffers of as many connections, and a few values
        self.assertEqual(ask(good)[0], 200)

    def test_a_full_disk_stops_no_answer(self):
        """Answers go on, also of versions that are pointed to later; pointing is refused with a sentence and leaves the old pointers."""
        small = self.folder / "small"
        small.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", str(small)], capture_output=True).returncode != 0:
            self.skipTest("a small file system cannot be mounted here")
        try:
            self.run_rivulet("backup", "--db", self.path("runs.sqlite"), "--out", str(small / "runs.sqlite"), code=0)
            at = ("--db", str(small / "runs.sqlite"))
            self.run_rivulet("model", "point", "digits", f"{self.run_id}:1", *at, code=0)
            server = self.start("serve", *at, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--insecure", "--model", "digits",
                                "--abort-if", "errors=0.05")
            self.follow(server, "server")
            self.port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", server.stdout.readline())[1])
            with open(small / "filling", "wb", buffering=0) as filling:
                try:
                    while filling.write(b"x" * 4096):
                        pass
                except OSError as full:
                    self.assertEqual(full.errno, errno.ENOSPC)
            self.assertEqual(self.version_served(), 1)
            refused = self.run_rivulet("model", "point", "digits", f"{self.run_id}:2", *at)
            self.assert_refused(refused, code=1)
            self.assertRegex(refused.err, "space|full")
            refused = self.run_rivulet("model", "rollback", "digits", *at)
            self.assert_refused(refused, code=1)
            for user in range(20):
                self.assertEqual(self.version_served({"rivulet-user": f"user-{user}"}), 1)
            self.assertEqual(self.query("SELECT count(*) FROM pointer", db="small/runs.sqlite"), [(1,)])
            os.remove(small / "filling")
            self.run_rivulet("model", "point", "digits", f"{self.run_id}:2", *at, code=0)
            self.wait_for(lambda: self.version_served() == 2, "the next version to be served")
            self.stop(server, "server")
        finally:
            for process in self.processes:
                if process.poll() is None:
                    process.kill()
                    process.wait()
            subprocess.run(["umount", "-l", str(small)], check=True)

    def test_a_model_of_onnx(self):
        self.run_rivulet("simulate", self.scenario, "--db", self.path("onnx.sqlite"), "--rounds", 1, "--set", f"model.onnx={onnx_test.SMALL_CNN}",
                         "--set", "client.optimizer.learning_rate=0.05", code=0)
        run = self.query("SELECT run_id FROM runs", db="onnx.sqlite")[0][0]
        records = [(image(n), n % 10) for n in range(32)]
        self.write("own.tfrecord", harness.tfrecord(harness.example(pixels, label) for pixels, label in records))
        measured = json.loads(self.run_rivulet("model", "evaluate", run, "--data", self.path("own.tfrecord"), "--db", self.path("onnx.sqlite"),
                                               "--json", code=0).out)
        self.run_rivulet("model", "point", "net", run, "--db", self.path("onnx.sqlite"), code=0)
        self.serve("--db", self.path("onnx.sqlite"), "--model", "net", "--fixed-batch", "8")
        described = self.call("/v2/models/net/versions/1")[1]["inputs"]
        self.assertEqual(len(described), 1)
        right = 0
        for begin in range(0, 32, 8):
            batch = records[begin:begin + 8]
            tensor = {"name": described[0]["name"], "datatype": "UINT8", "shape": [8, *described[0]["shape"][1:]],
                      "data": [value for pixels, _ in batch for value in pixels]}
            status, reply, _ = self.call("/v2/models/net/infer", {"inputs": [tensor]})
            self.assertEqual(status, 200, reply)
            scores = reply["outputs"][0]["data"]
            right += sum(max(range(10), key=lambda c: scores[10 * row + c]) == label for row, (_, label) in enumerate(batch))
        self.assertEqual(right, measured["test/accuracy/right"])

    def test_addresses_beyond_this_machine_are_said_twice(self):
        self.point("digits", f"{self.run_id}:1")
        common = ("serve", "--db", self.path("runs.sqlite"), "--model", "digits")
        self.assert_refused(self.run_rivulet(*common, "--grpc", "0.0.0.0:0", "--insecure"), "--insecure")
        self.assert_refused(self.run_rivulet(*common), "ca issue models/")
        self.assert_refused(self.run_rivulet(*common, "--grpc", "127.0.0.1:0", "--http", "0.0.0.0:0", "--insecure"), "--http")
        self.assert_refused(self.run_rivulet("serve", "--db", self.path("runs.sqlite"), "--model", "nobody", "--insecure"), "nobody")

    def test_a_backup_is_served(self):
        self.point("digits", f"{self.run_id}:3")
        self.run_rivulet("backup", "--db", self.path("runs.sqlite"), "--out", self.path("copy.sqlite"), code=0)
        process = self.start("serve", "--db", self.path("copy.sqlite"), "--model", "digits", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0",
                             "--insecure")
        self.follow(process, "server")
        self.port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())[1])
        self.assertEqual(self.version_served(), 3)

    def test_a_model_of_several_inputs(self):
        rows = "".join(f"{n * 0.25},{n % 3},{'xyz'[n % 3]},{n * 0.5}\n" for n in range(20))
        self.write("table.csv", "a,b,shop,sold\n" + rows)
        self.run_rivulet("data", "import", "csv", "--from", self.path("table.csv"), "--target", "sold", "--index", "shop", "--test-every",
                         5, "--out", self.path("table"), code=0)
        self.run_rivulet("simulate", self.write("inputs.toml", inputs_test.MODEL), "--db", self.path("inputs.sqlite"), "--rounds", 2, code=0)
        run = self.query("SELECT run_id FROM runs", db="inputs.sqlite")[0][0]
        self.run_rivulet("model", "point", "shops", run, "--db", self.path("inputs.sqlite"), code=0)
        self.point("digits", self.run_id)
        self.serve("--db", self.path("inputs.sqlite"), "--model", "shops", "--model", "digits")  # two models of two histories
        self.assertEqual(self.predict([image(1)])[0], 200)
        tensors = weights_of(self.path(f"inputs.sqlite.models/{run}/round-000002.safetensors"))
        table, kernel, bias = (next(values for shape, values in tensors.values() if shape == wanted) for wanted in ([4, 2], [4, 1], [1]))
        asked = [([0.5, 2.0], 1), ([-1.0, 0.0], 3)]
        wanted = [bias[0] + sum(w * x for w, x in zip(kernel, [*numbers, *table[2 * shop:2 * shop + 2]])) for numbers, shop in asked]
        status, reply, _ = self.call("/v1/models/shops:predict",
                                     {"instances": [{"numbers": numbers, "shop": [shop]} for numbers, shop in asked]})
        self.assertEqual(status, 200, reply)
        self.assert_close([value for row in reply["predictions"] for value in row], wanted)
        status, reply, _ = self.call("/v1/models/shops:predict", {"inputs": {"numbers": [row for row, _ in asked], "shop": [[1], [3]]}})
        self.assertEqual(status, 200, reply)
        self.assert_close([value for row in reply["outputs"] for value in row], wanted)
        status, reply, _ = self.call("/v1/models/shops:predict", {"instances": [{"numbers": [0, 0], "shop": [4]}]})
        self.assertEqual(status, 400)
        self.assertIn("0 to 3", reply["error"])

    def test_callers_need_the_role_serve(self):
        self.run_rivulet("ca", "init", "--name", "study", code=0)
        self.run_rivulet("ca", "issue", "models/localhost", "--host", "127.0.0.1", "--out", "models", code=0)
        for name in ("serve/shop", "client/alice", "operator/ada"):
            self.run_rivulet("ca", "issue", name, "--out", name.split("/")[1], code=0)
        self.point("digits", f"{self.run_id}:1")
        process = self.start("serve", "--db", self.path("runs.sqlite"), "--model", "digits", "--grpc", "127.0.0.1:0", "--http",
                             "127.0.0.1:0", "--tls", "models")
        self.follow(process, "server")
        grpc, port = re.search(r"gRPC at (\S+) and over HTTP at https://127\.0\.0\.1:(\d+)/", process.stdout.readline()).groups()
        statuses = {}
        for caller in ("shop", "alice", "ada"):
            context = ssl.create_default_context(cafile=self.path("models/authority.crt"))
            context.load_cert_chain(self.path(f"{caller}/node.crt"), self.path(f"{caller}/node.key"))
            connection = http.client.HTTPSConnection("127.0.0.1", int(port), context=context, timeout=60)
            connection.request("GET", "/v2/models/digits")
            statuses[caller] = connection.getresponse().status
            connection.close()
        self.assertEqual(statuses, {"shop": 200, "alice": 403, "ada": 403})
        self.run_rivulet("bench", "serve", "digits", "--grpc", grpc, "--tls", "shop", "--seconds", "1", code=0)
        self.assert_refused(self.run_rivulet("bench", "serve", "digits", "--grpc", grpc, "--tls", "alice"), "serve/")
        self.assert_refused(self.run_rivulet("serve", "--model", "digits", "--db", self.path("runs.sqlite"), "--tls", "shop"), "models/")
        self.stop(process, "server")

    def test_a_kill_leaves_the_old_pointers_or_the_new(self):
        self.point("digits", f"{self.run_id}:1")
        chance = random.Random(5)
        for attempt in range(12):
            before = self.query("SELECT max(rowid), count(*) FROM pointers")[0]
            process = self.start("model", "point", "digits", f"{self.run_id}:{1 + attempt % 4}", "--db", self.path("runs.sqlite"))
            try:
                process.wait(timeout=chance.uniform(0.001, 0.15))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
            rows = self.query("SELECT run_id, round, digest FROM pointers")
            self.assertIn(len(rows), (before[1], before[1] + 1))
            newest = rows[-1]
            kept = os.listdir(self.path("runs.sqlite.models/pointed"))
            self.assertIn(f"{newest[0]}-{newest[1]:06}-{newest[2]}.safetensors", kept)
        self.serve("--model", "digits")
        self.assertEqual(self.version_served(), self.query("SELECT round FROM pointers ORDER BY rowid DESC LIMIT 1")[0][0])


if __name__ == "__main__":
    harness.main()
