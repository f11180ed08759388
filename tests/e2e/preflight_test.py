"""What a coordinator's `rivulet preflight` finds before it is started for months: all good, and each fault with its mend."""
import json
import socket
import sqlite3

from harness import SCENARIO, RivuletTest, main


class Preflight(RivuletTest):
    def setUp(self):
        super().setUp()
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("records"), code=0)

    def looked(self, *arguments, code, security=("--insecure",), listen="127.0.0.1:0", scenario=None, **kwargs):
        done = self.run_rivulet("preflight", *([scenario or self.scenario] if scenario != "" else []), "--listen", listen, "--db", "runs.sqlite", "--json",
                                *security, *arguments, code=code, **kwargs)
        found = {row["check"]: (row["verdict"], row["finding"]) for row in json.loads(done.out)}
        wrong = [check for check, (verdict, _) in found.items() if verdict == "mend"]
        if wrong:
            self.assertIn(f"{len(wrong)} of {len(found)} checks failed", done.err)
        return found, wrong

    def authority(self):
        self.run_rivulet("ca", "init", "--name", "study", code=0)
        self.run_rivulet("ca", "issue", "coordinator/127.0.0.1", "--out", "node", code=0)

    def test_a_coordinator_that_is_right(self):
        self.authority()
        found, wrong = self.looked(code=0, security=("--tls", "node"))
        self.assertEqual(wrong, [])
        self.assertEqual(list(found), ["scenario", "plan", "data", "disk", "memory", "history", "port", "certificate"])
        self.assertEqual(found["scenario"][1], "'tiny', 4 rounds")
        self.assertRegex(found["certificate"][1], r"coordinator/127\.0\.0\.1, good at \d{4}-")
        self.assertIn("will be made", found["history"][1])
        self.assertFalse((self.folder / "runs.sqlite").exists(), "it only looks")
        self.simulate("--rounds", 1)
        self.assertIn("'runs.sqlite' has 1 run", self.looked(code=0)[0]["history"][1])

    def test_a_coordinator_that_waits_for_what_is_submitted(self):
        self.authority()
        found, wrong = self.looked(code=0, security=("--tls", "node"), scenario="")
        self.assertEqual((wrong, list(found)), ([], ["disk", "memory", "history", "port", "certificate"]))
        for option in ("--set", "run.rounds=2"), ("--plan", "heart.plan"):
            result = self.run_rivulet("preflight", "--listen", "127.0.0.1:0", "--insecure", *option, code=2)
            self.assertIn(f"{option[0]} is of a run; give its SCENARIO.toml too", result.err)

    def test_a_port_that_is_taken_and_an_address_that_is_not_here(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            found, wrong = self.looked(code=1, listen=f"127.0.0.1:{port}")
            self.assertEqual(wrong, ["port"])
            self.assertIn(f"127.0.0.1:{port} cannot be listened on: another process listens there; stop it", found["port"][1])
        for listen, mend in (("192.0.2.1:7000", "no network of this machine has that address; 0.0.0.0 is all"),
                             ("nowhere.invalid:7000", "is no address of this machine"), ("127.0.0.1", "--listen: ")):
            found, wrong = self.looked(code=1, listen=listen, security=("--insecure", "--insecure"))
            self.assertIn("port", wrong)
            self.assertIn(mend, found["port"][1])

    def test_certificates_and_the_clock(self):
        self.authority()
        self.run_rivulet("ca", "issue", "client/a", "--out", "client", code=0)
        found, wrong = self.looked(code=1, security=("--tls", "client"))
        self.assertEqual(wrong, ["certificate"])
        self.assertRegex(found["certificate"][1], r"client/a.*; this machine's clock is at \d{4}-")
        (self.folder / "node/node.key").chmod(0o644)
        found, wrong = self.looked(code=1, security=("--tls", "node"))
        self.assertRegex(found["certificate"][1], r"node\.key.*chmod")
        found, wrong = self.looked(code=1, security=())
        self.assertEqual(wrong, ["certificate"])
        self.assertIn("--insecure", found["certificate"][1])

    def test_a_run_that_could_not_begin(self):
        self.write("broken.toml", "[run]\nround = 2\n")
        found, wrong = self.looked(code=1, scenario="broken.toml")
        self.assertEqual(wrong, ["scenario"])
        self.assertIn("Did you mean 'run.rounds'?", found["scenario"][1])
        lines = [line for line in SCENARIO.splitlines() if not line.startswith("synth")]
        self.write("elsewhere.toml", "\n".join(lines).replace("data/", "elsewhere/"))
        found, wrong = self.looked(code=1, scenario="elsewhere.toml")
        self.assertEqual(wrong, ["data"])
        self.assertIn("elsewhere/test.tfrecord", found["data"][1])
        found, wrong = self.looked("--set", "run.rounds=1000000", "--set", "run.keep_models='all'", "--set", "model.preset='mlp'",
                                   code=1)
        self.assertEqual(wrong, ["disk"])
        self.assertRegex(found["disk"][1], r"MB are free for '\.', and \d+ should be; make room, or put the history elsewhere")

    def test_histories_that_cannot_be_written(self):
        with sqlite3.connect(self.path("runs.sqlite")) as other:
            other.execute("CREATE TABLE recipes (name TEXT)")
        before = (self.folder / "runs.sqlite").read_bytes()
        found, wrong = self.looked(code=1)
        self.assertEqual(wrong, ["history"])
        self.assertIn("it is an SQLite database of something else", found["history"][1])
        self.assertEqual((self.folder / "runs.sqlite").read_bytes(), before)


if __name__ == "__main__":
    main()
