"""A run's proof, as a third party checks it: by `rivulet-client` alone, and by the example in Python."""
import json
import pathlib
import subprocess
import sys

from harness import RIVULET, RivuletTest, main

CLIENT = str(pathlib.Path(RIVULET).with_name("rivulet-client"))
CHECKER = pathlib.Path(__file__).resolve().parents[2] / "examples" / "check_proof.py"
try:
    import cryptography
except ImportError:
    cryptography = None


class Proof(RivuletTest):
    def setUp(self):
        super().setUp()
        self.ca("init", "--name", "study")
        self.ca("issue", "coordinator/localhost", "--host", "127.0.0.1", "--out", "coordinator")
        two = ("--set", "data.partition.clients=2", "--set", "server.clients_per_round=2", "--set", "run.rounds=2")
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("clients"), *two, code=0)
        coordinator = self.start("coordinator", self.scenario, *two, "--listen", "127.0.0.1:0", "--tls", "coordinator", "--db", "runs.sqlite")
        port = coordinator.stdout.readline().strip().rsplit(":", 1)[-1]
        self.follow(coordinator, "coordinator")
        names = sorted(path.stem for path in (self.folder / "clients").glob("*.tfrecord"))
        for name in names:
            self.ca("issue", f"client/{name}", "--out", name)
            self.follow(self.start("client", "--coordinator", f"127.0.0.1:{port}", "--tls", name, "--data", f"train=clients/{name}.tfrecord",
                                   "--state", f"state-{name}"), name)
        self.assertEqual(coordinator.wait(timeout=120), 0)
        self.authority = self.path("authority/authority.crt")
        self.export()

    def ca(self, *arguments):
        self.run_rivulet("ca", *arguments, "--ca", self.path("authority"), code=0)

    def export(self):
        self.run_rivulet("runs", "export", "latest", "--proof", self.path("proof"), "--db", self.path("runs.sqlite"), code=0)

    def verify(self, *arguments):
        return subprocess.run([CLIENT, "verify", self.path("proof"), *arguments], capture_output=True, text=True, cwd=self.folder)

    def test_is_checked_without_the_history(self):
        told = json.loads(self.run_rivulet("runs", "verify", "latest", "--records", "--json", "--authority", self.authority, "--db",
                                           self.path("runs.sqlite"), code=0).out)
        self.assertEqual((told["records"], told["signatures"], told["signer"]), (3, 3, "coordinator/localhost"))
        shown = self.run_rivulet("model", "inspect", "latest:2", "--db", self.path("runs.sqlite"), code=0).out
        self.assertIn(f"{told['head']} of version 2 of run {told['run_id']}: the record in the history", shown)
        for path in list(self.folder.glob("runs.sqlite*")):
            if path.is_file():
                path.unlink()
        checked = self.verify("--authority", self.authority, "--head", told["head"], "--json")
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertEqual({name: json.loads(checked.stdout)[name] for name in ("records", "signatures", "updates", "head")},
                         {"records": 3, "signatures": 3, "updates": 2, "head": told["head"]})
        model, = (self.folder / "proof" / "models").glob("*2.safetensors")
        shown = self.run_rivulet("model", "inspect", str(model), "--db", self.path("none.sqlite"), code=0).out
        self.assertIn("not verified, as there is no history", shown)
        self.assertEqual(self.verify("--head", "0" * 64).returncode, 1)
        names = b"".join(path.read_bytes() for path in (self.folder / "proof").rglob("*.jsonl"))
        self.assertNotIn(b"client-0000", names, "names of clients stay in the history")

    def test_the_example_in_python_says_the_same(self):
        if cryptography is None:
            self.skipTest("the package cryptography is not installed")
        lines = [line for line in CHECKER.read_text().splitlines() if line.strip()]
        self.assertLessEqual(len(lines), 100)
        head = json.loads(self.verify("--json").stdout)["head"]

        def check(*arguments):
            return subprocess.run([sys.executable, str(CHECKER), self.path("proof"), *arguments], capture_output=True, text=True)

        good = check(self.authority, head)
        self.assertEqual(good.returncode, 0, good.stderr)
        self.assertIn(f"3 records and {len(list((self.folder / 'proof' / 'models').iterdir()))} models are as they should be; head {head}", good.stdout)
        self.run_rivulet("ca", "init", "--name", "Other", "--ca", self.path("other"), code=0)
        self.assertNotEqual(check(self.path("other/authority.crt")).returncode, 0)
        self.assertNotEqual(check(self.authority, "0" * 64).returncode, 0)
        for name in ("records.jsonl", "updates.jsonl", "plan", "models/round-000002.safetensors"):
            path = self.folder / "proof" / name
            whole = path.read_bytes()
            for at in (len(whole) // 3, len(whole) - 5):
                with self.subTest(name=name, at=at):
                    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
                    self.assertNotEqual(check(self.authority).returncode, 0)
                    self.assertNotEqual(self.verify("--authority", self.authority).returncode, 0)
                    path.write_bytes(whole)


main()
