"""The command line itself: help, examples, wrong usage, exit codes."""
import contextlib
import json
import os
import pathlib
import pty
import re
import subprocess
import termios

from harness import RIVULET, RivuletTest, main


class Usage(RivuletTest):
    def subcommands(self, path):
        text = self.run_rivulet(*path, "--help", code=0).out
        self.assertIn("Usage: rivulet" + "".join(" " + word for word in path), text)
        if "Subcommands:" not in text:
            return []
        block = text.split("Subcommands:\n", 1)[1].split("\n\n", 1)[0]
        return re.findall(r"^  (\S+)", block, re.M)

    def test_every_subcommand_has_help_with_an_example(self):
        seen, todo = [], [[]]
        while todo:
            path = todo.pop()
            text = self.run_rivulet(*path, "--help", code=0).out
            children = self.subcommands(path)
            self.assertTrue("Example:\n  rivulet " in text, f"{path}: {text}")
            seen.append(" ".join(path))
            todo += [path + [child] for child in children]
        for name in ("simulate", "up", "coordinator", "client", "runs list", "runs show", "runs rounds", "runs clients",
                     "plan build", "plan show", "model export", "model import", "model check", "data import", "data inspect", "data verify", "data partition",
                     "data synth"):
            self.assertIn(name, seen)

    def test_what_every_command_takes_is_in_the_help_of_the_program_alone(self):
        whole = self.run_rivulet("--help", code=0).out.split("Global options:\n", 1)[1].split("\n\n", 1)[0]
        names = re.findall(r"^  (?:-h,)?(--[a-z-]+)", whole, re.M)
        self.assertEqual(set(names), {"--help", "--vlog", "--quiet", "--progress", "--op-library", "--algorithm-library"})
        one = self.run_rivulet("runs", "show", "--help", code=0).out
        self.assertEqual(re.findall(r"^  (-\S+)", one, re.M), ["--db", "--json", "--config"])
        self.assertTrue(one.endswith("Global options, such as --quiet, --progress and --vlog: rivulet --help\n"), one)
        self.run_rivulet("runs", "list", "--quiet", "--vlog", "*=0", "--db", self.path("none.sqlite"), code=1)

    def test_words_of_other_frameworks_lead_to_options_and_keys(self):
        for flag, meant in (("--lr", "--set client.optimizer.learning_rate=VALUE"), ("--epochs", "--set client.epochs=VALUE"),
                            ("--batch-size", "--set client.batch_size=VALUE"), ("--num-rounds", "--rounds N"),
                            ("--num_clients", "--set data.partition.clients=VALUE"), ("--momentum", "--set client.optimizer.momentum=VALUE"),
                            ("--weight_decay", "--set client.optimizer.weight_decay=VALUE"), ("--client.epochs", "--set client.epochs=VALUE"),
                            ("--random-seed", "--seed N"), ("--rouns", "--rounds")):
            with self.subTest(flag):
                refused = self.run_rivulet("simulate", self.scenario, flag, "3")
                self.assert_refused(refused, f"unknown option '{flag}'", f"Did you mean '{meant}'?", code=2)
        self.assert_refused(self.run_rivulet("runs", "list", "--lr", "3"), "see 'rivulet runs list --help'", code=2)
        for key, meant in (("lr", "client.optimizer.learning_rate"), ("num-rounds", "run.rounds"), ("privacy.sigma", "privacy.noise")):
            refused = self.run_rivulet("simulate", self.scenario, "--set", f"{key}=3", "--db", self.path("a.sqlite"))
            self.assert_refused(refused, f"Did you mean '{meant}'?", code=2)
            self.assertEqual(self.run_rivulet("complete", "meant", key, code=0).out, meant + "\n")

    def test_what_options_do_stands_in_one_column(self):
        options = re.findall(r"^  -.*$", self.run_rivulet("--help", code=0).out, re.M)
        self.assertTrue(any("…" in line for line in options), options)
        self.assertEqual({re.match(r"  -\S+( [A-Z]\S*)? +", line).end() for line in options}, {30}, options)

    def test_version(self):
        self.assertRegex(self.run_rivulet("--version", code=0).out, r"^rivulet \d+\.\d+\.\d+\n$")

    def test_wrong_usage_is_two_and_names_the_nearest(self):
        for arguments, fragments in [
            (["simulat"], ["'rivulet simulat'", "'simulate'"]),
            (["frobnicate"], ["'rivulet frobnicate'", "--help"]),
            (["simulate"], ["needs SCENARIO.toml"]),
            (["simulate", self.scenario, "--rouns", "3"], ["'--rouns'", "'--rounds'"]),
            (["simulate", self.scenario, "--rounds", "three"], ["--rounds", "'three'"]),
            (["simulate", self.scenario, "--rounds", "0"], ["--rounds", "at least 1"]),
            (["simulate", self.scenario, "--workers", "-1"], ["--workers", "between 0 and"]),
            (["simulate", self.scenario, "--workers", "99999999999999999999"], ["--workers"]),
            (["simulate", self.scenario, "--db"], ["--db needs a value"]),
            (["simulate", self.scenario, "--set", "client.epochs"], ["KEY=VALUE", "'client.epochs'"]),
            (["simulate", self.scenario, "extra.toml"], ["'extra.toml'"]),
            (["simulate", self.scenario, "--device", "tpu"], ["--device 'tpu'", "gpu:N"]),
            (["simulate", self.scenario, "--device", "gpu:-1"], ["--device 'gpu:-1'"]),
            (["simulate", self.scenario, "--lanes", "4"], ["--lanes", "--device gpu"]),
            (["runs"], ["needs a subcommand"]),
            (["runs", "shwo", "latest"], ["'show'"]),
            (["runs", "show"], ["needs RUN"]),
            (["up", self.scenario], ["--clients"]),
            (["model", "export", "mnist_cn", "--out", self.path("m.pb")], ["'mnist_cnn'"]),
            (["coordinator", self.scenario, "--listen", "127.0.0.1:0"], ["--insecure"]),
            (["coordinator", self.scenario, "--listen", "0.0.0.0:0", "--insecure"], ["--insecure twice"]),
            (["coordinator", self.scenario, "--listen", "nowhere", "--insecure"], ["--listen", "'nowhere'"]),
            (["client", "--coordinator", "127.0.0.1:0", "--insecure", "--name", "a", "--data", "train=x"], []),
            (["client", "--coordinator", "192.0.2.1:7", "--insecure", "--name", "a", "--data", "train=x"],
             ["--insecure twice"]),
            (["client", "--coordinator", "127.0.0.1:7", "--insecure", "--name", "a", "--data", "x"], ["NAME=GLOB"]),
            (["client", "--coordinator", "127.0.0.1:7", "--insecure", "--name", "a"], ["--data"]),
        ]:
            with self.subTest(arguments=arguments[:4]):
                expected = (1, 2) if arguments[0] == "client" and not fragments else 2
                self.assert_refused(self.run_rivulet(*arguments), *fragments, code=expected)

    def test_no_subcommand_prints_help_and_is_two(self):
        result = self.run_rivulet()
        self.assertEqual(result.code, 2)
        self.assertIn("Subcommands:", result.out)

    def test_plan_is_built_and_shown_and_is_the_one_that_a_run_uses(self):
        plan = self.path("tiny.plan")
        self.assertIn(plan, self.run_rivulet("plan", "build", self.scenario, "--out", plan, code=0).out)
        shown = json.loads(self.run_rivulet("plan", "show", plan, "--json", code=0).out)
        self.simulate("--rounds", "1")
        self.assertEqual(self.query("SELECT plan_digest FROM runs"), [(shown["digest"],)])
        self.assertEqual(shown["plan"], "tiny")
        self.assertEqual(shown["bytes"], pathlib.Path(plan).stat().st_size)
        self.assertEqual(shown["update_elements"], 7850)
        self.assertIn("2 epochs, batches of 5 shuffled", shown["train_pass_1"])
        self.run_rivulet("plan", "build", self.scenario, "--set", "client.epochs=1", "--out", self.path("one.plan"), code=0)
        self.assertIn("'train', 1 epoch, batches of 5", self.run_rivulet("plan", "show", self.path("one.plan"), code=0).out)
        self.assertEqual(shown["train_pass_1_input"], "none")
        self.assertEqual(shown["train_part_delta"], "params - base_params")
        self.assertIn("resolution_of_sum", self.run_rivulet("plan", "show", plan, code=0).out)
        self.write("cut.plan", pathlib.Path(plan).read_bytes()[:1000])
        self.assert_refused(self.run_rivulet("plan", "show", self.path("cut.plan")), "cut.plan", code=1)

    def test_closed_stdout_is_a_failure_without_a_crash(self):
        with open("/dev/full", "wb") as full:
            import subprocess
            from harness import RIVULET
            done = subprocess.run([RIVULET, "--help"], stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.decode(), "rivulet: standard output could not be written\n")


    def test_reader_that_has_seen_enough_gets_no_message(self):
        self.simulate()
        for subcommand in (["--help"], ["runs", "rounds", "latest", "--json", "--db", self.path("runs.sqlite")]):
            process = self.start(*subcommand)
            process.stdout.close()
            self.assertEqual(process.stderr.read(), "")
            process.wait()
            self.assertIn(process.returncode, (0, 1))


class Runs(RivuletTest):
    def test_history_from_the_command_line(self):
        self.assert_refused(self.run_rivulet("runs", "list", "--db", self.path("none.sqlite")), "none.sqlite", code=1)
        result = self.simulate("--json")
        outcome = json.loads(result.out)
        self.assertEqual(outcome["status"], "finished")
        self.assertEqual(outcome["round"], 4)
        self.assertEqual(outcome["model_digest"], self.digests()[-1])
        db = ["--db", self.path("runs.sqlite")]

        runs = json.loads(self.run_rivulet("runs", "list", *db, "--json", code=0).out)
        self.assertEqual([(run["run_id"], run["name"], run["rounds"]) for run in runs],
                         [(outcome["run_id"], "tiny", 4)])
        for name in ("latest", "tiny", outcome["run_id"]):
            shown = json.loads(self.run_rivulet("runs", "show", name, *db, "--json", code=0).out)
            self.assertEqual(shown["run_id"], outcome["run_id"])
            self.assertIn("logistic_regression", shown["config"])

        rounds = json.loads(self.run_rivulet("runs", "rounds", "latest", *db, "--json", code=0).out)
        columns = [row[1] for row in self.query("PRAGMA table_info(rounds)")]
        for name in rounds[0]:
            self.assertTrue(name in columns or name in ("test_accuracy", "test_loss"), name)
        self.assertEqual([row["model_digest"] for row in rounds], self.digests())
        self.assertEqual([row["test_accuracy"] for row in rounds], self.metric("test/accuracy"))

        clients = json.loads(self.run_rivulet("runs", "clients", "latest", *db, "--json", code=0).out)
        self.assertEqual(sum(client["tasks"] for client in clients), 4 * 3)

        for subcommand in (["list"], ["show", "latest"], ["rounds", "latest"], ["clients", "latest"]):
            text = self.run_rivulet("runs", *subcommand, *db, code=0).out
            self.assertGreater(len(text.splitlines()), 1)
        self.assert_refused(self.run_rivulet("runs", "show", "tinny", *db), "tinny", "tiny", code=1)

    def test_tags_and_notes_are_of_a_run(self):
        self.simulate()
        db = ["--db", self.path("runs.sqlite")]
        for words in (["tag", "latest", "baseline"], ["tag", "tiny", "baseline"], ["tag", "tiny", "first week"],
                      ["note", "latest", "with the old labels"]):
            self.assertEqual(self.run_rivulet("runs", *words, *db, code=0).out, "")
        self.assertEqual(self.query("SELECT tag FROM tags ORDER BY tag"), [("baseline",), ("first week",)])
        self.assertEqual(self.query("SELECT text FROM notes"), [("with the old labels",)])
        shown = json.loads(self.run_rivulet("runs", "show", "latest", *db, "--json", code=0).out)
        self.assertEqual(shown["tags"], "baseline, first week")
        self.assertRegex(shown["notes"], r"^\d{4}-\d\d-\d\dT[0-9:.]+Z with the old labels$")
        self.assert_refused(self.run_rivulet("runs", "note", "latest", "", *db), "TEXT is given an empty value", code=2)
        for text in (" ", "two\nlines"):
            self.assert_refused(self.run_rivulet("runs", "note", "latest", text, *db), "no line of text", code=2)
        self.assert_refused(self.run_rivulet("runs", "tag", "tinny", "x", *db), "tinny", code=1)
        self.assert_refused(self.run_rivulet("runs", "tag", "tiny", "x", "--db", self.path("none.sqlite")),
                            "none.sqlite", code=1)
        self.assertFalse((self.folder / "none.sqlite").exists())

    def test_accuracy_is_what_its_counts_say(self):
        self.simulate()
        rates = self.query("SELECT value, right, total FROM metrics WHERE name = 'test/accuracy' ORDER BY round")
        self.assertGreater(len(rates), 0)
        for value, right, total in rates:
            self.assertEqual(value, right / total)

    def test_results_and_progress(self):
        result = self.simulate()
        self.assertRegex(result.out, r"(?m)^test accuracy 0\.\d{4}$")
        self.assertIn(self.path("runs.sqlite"), result.out)
        model = re.search(r"(?m)^model +(.*)$", result.out).group(1)
        self.assertTrue(model.endswith(".safetensors"))
        with open(self.folder / model, "rb") as file:
            self.assertGreater(len(file.read()), 4 * 7850)
        self.assertEqual(len(re.findall(r"(?m)^round +\d+/4 \[[#-]{20}\] accuracy 0\.\d{4}  test loss \d", result.err)), 4)
        self.assertIn("ETA", result.err)
        trained = self.simulate("--set", "evaluation.every=4", db="trained.sqlite")
        self.assertRegex(trained.err, r"(?m)^round 3/4 \[[#-]{20}\] train loss \d")

    def test_on_a_terminal_rounds_stay_and_the_bar_is_below_them(self):
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (24, 100))
        process = subprocess.Popen([RIVULET, "simulate", self.scenario, "--db", self.path("runs.sqlite")], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=theirs, cwd=self.folder, env={**os.environ, "TERM": "xterm"})
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # the end of a terminal that nobody writes to
            while part := os.read(ours, 65536):
                shown += part
        os.close(ours)
        self.assertEqual(process.wait(), 0, shown)
        # What is left on the screen: behind the last beginning of each line.
        lines = [line.split("\r\033[K")[-1] for line in shown.decode().replace("\r\n", "\n").split("\n")]
        rounds = [line for line in lines if line.startswith("round")]
        self.assertRegex(rounds[0], r"^round 1/4 accuracy 0\.\d{4}  test loss \d\.\d{4}$")
        self.assertRegex(rounds[-1], r"^round 4/4 \[#{20}\] accuracy 0\.\d{4}  test loss \d\.\d{4}  in ")
        self.assertEqual(sum("[" in line for line in rounds), 1)


if __name__ == "__main__":
    main()
