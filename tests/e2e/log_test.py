"""What processes that run for months leave to read: --log of coordinator, aggregator and client, as text and as JSON; a file that is full
starts over."""
import json
import re
import threading

from harness import RivuletTest, main

CLIENTS, ROUNDS = 3, 2
RUN = ["--rounds", ROUNDS, "--set", f"data.partition.clients={CLIENTS}", "--set", f"server.clients_per_round={CLIENTS}"]


class Logs(RivuletTest):
    def setUp(self):
        super().setUp()
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("clients"), *RUN[2:], code=0)
        self.names = sorted(path.stem for path in (self.folder / "clients").glob("*.tfrecord"))

    def listening(self, *arguments):
        process = self.start(*arguments)
        line = process.stdout.readline()
        match = re.fullmatch(r"listening on (127\.0\.0\.1:\d+)\n", line)
        if not match:
            self.fail(f"{line}{process.stderr.read()}")
        threading.Thread(target=process.stderr.read, daemon=True).start()
        return process, match.group(1)

    def ran(self, *of_coordinator, of_client=()):
        coordinator, root = self.listening("coordinator", self.scenario, "--listen", "127.0.0.1:0", "--insecure", *RUN,
                                           "--aggregators", "--db", "runs.sqlite", *of_coordinator)
        aggregator, north = self.listening("aggregator", "--parent", root, "--listen", "127.0.0.1:0", "--insecure", "--name",
                                     "north", "--log", "north.log")
        processes = [coordinator, aggregator]
        for i, name in enumerate(self.names):
            processes.append(self.start("client", "--coordinator", north if i == 0 else root, "--insecure", "--name", name,
                                        "--data", f"train=clients/{name}.tfrecord", "--state", f"state-{name}",
                                        *(of_client if i == 0 else ())))
            threading.Thread(target=processes[-1].stderr.read, daemon=True).start()
        for process in processes:
            process.wait(timeout=60)
            self.assertEqual(process.returncode, 0)

    def read(self, name):
        return (self.folder / name).read_text()

    def test_as_json_each_line_says_of_what_it_is(self):
        (self.folder / "root.log").write_text("x" * 999_950 + "\n")
        self.ran("--log", "root.log", "--log-json", "--log-megabytes", "1", of_client=("--log", "client.log", "--log-json"))
        self.assertTrue(self.read("root.1.log").startswith("xxx"))
        run_id, = self.query("SELECT run_id FROM runs")[0]
        lines = [json.loads(line) for line in self.read("root.log").splitlines()]
        made = [line for line in lines if line["source"] == "round"]
        self.assertEqual([(line["level"], line["run_id"], line["round"], line["folded"]) for line in made],
                         [("info", run_id, i + 1, CLIENTS) for i in range(ROUNDS)])
        for line in lines:
            self.assertRegex(line["at"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        done = [json.loads(line) for line in self.read("client.log").splitlines() if '"done"' in line]
        self.assertEqual([(line["client_id"], line["run_id"], line["round"]) for line in done],
                         [(self.names[0], run_id, i + 1) for i in range(ROUNDS)])
        self.assertEqual([line["task_id"] for line in done],
                         [task for (task,) in self.query("SELECT task_id FROM client_rounds WHERE client_id = ? ORDER BY round",
                                                         self.names[0])])
        self.assertRegex(self.read("north.log"), r"Z info aggregator: the run is over")
        for name in "root.log", "root.1.log", "north.log", "client.log":
            self.assertEqual((self.folder / name).stat().st_mode & 0o777, 0o600, name)

    def test_what_is_no_file_is_no_log(self):
        begin = ["coordinator", self.scenario, "--listen", "127.0.0.1:0", "--insecure"]
        for log in "/dev/null", "clients":
            self.assertIn(f"'{log}' is no regular file", self.run_rivulet(*begin, "--log", log, code=1).err)
        self.assertIn("give --log a file that can be written", self.run_rivulet(*begin, "--log", "y" * 300,
                                                                               code=1).err)
        self.assertIn("give --log FILE too", self.run_rivulet(*begin, "--log-json", code=2).err)
        self.assertEqual(list(self.folder.glob("*.sqlite*")), [])


if __name__ == "__main__":
    main()
