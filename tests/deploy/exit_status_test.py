"""The scripts of the manifests run with the real program, and their exit statuses: what a Job takes for the end of a run is its end,
and what it tries again can succeed. Nothing is a copy: script and paths are those of deploy/kubernetes."""
import json
import os
import pathlib
import re
import signal
import ssl
import subprocess
import sys
import threading
import unittest
import urllib.error
import urllib.request

from manifests import ROOT, manifests, pod_of, yaml

sys.path.insert(0, str(ROOT / "tests/e2e"))
from harness import RIVULET, RivuletTest, main  # noqa: E402


@unittest.skipUnless(yaml, "needs yaml (Debian's python3-yaml)")
class Pods(RivuletTest):
    def setUp(self):
        super().setUp()
        if "--http" not in self.run_rivulet("coordinator", "--help", code=0).out:
            self.skipTest("this build serves no pages (libboost-dev)")
        self.run_rivulet("ca", "init", "--name", "study", code=0)
        for name, out in (("coordinator/rivulet-coordinator", "coordinator"), ("coordinator/rivulet-simulation", "lead")):
            self.run_rivulet("ca", "issue", name, "--host", "localhost", "--out", out, code=0)
        for name, out in (("client/client-00000", "client-00000"), ("client/client-00001", "client-00001"), ("client/worker", "worker"),
                          ("operator/alice", "operator")):
            self.run_rivulet("ca", "issue", name, "--out", out, code=0)
        self.write("token-source/token", "0123456789abcdef0123456789abcdef")
        self.mount("token-source", "http")
        self.write("config-source/scenario.toml", pathlib.Path(self.scenario).read_text().replace("clients = 6", "clients = 2")
                   .replace("clients_per_round = 3", "clients_per_round = 2"))
        self.mount("config-source", "config", mode=0o444)
        self.run_rivulet("data", "partition", self.path("config-source/scenario.toml"), "--out", "records", code=0)
        (self.folder / "volume").mkdir()

    def mount(self, source, target, mode=0o440, version="1"):
        """As the kubelet mounts secrets and config maps: links through a folder of their version, and modes for user and group. A second
        version takes the first one's place at once."""
        mounted = self.folder / target
        data = mounted / f"..version-{version}"
        data.mkdir(parents=True)
        for path in (self.folder / source).iterdir():
            (data / path.name).write_bytes(path.read_bytes())
            (data / path.name).chmod(mode)
            if not (mounted / path.name).is_symlink():
                (mounted / path.name).symlink_to(f"..data/{path.name}")
        (mounted / "..data-next").symlink_to(data.name)
        (mounted / "..data-next").rename(mounted / "..data")

    def pod(self, manifest, name, tls, *options, simulation=""):
        """Starts the container of a manifest with the machine's paths and ports in place of the pod's, and further options."""
        container, = (pod_of(document)[1]["containers"][0] for document in manifests()[manifest]
                      if pod_of(document) and document["metadata"]["name"] == name)
        self.assertEqual(container["command"], ["/bin/sh", "-c"])
        script, *arguments = container["args"]
        if not (self.folder / f"{tls}-mount").exists():
            self.mount(tls, f"{tls}-mount")
        for pods, here in (("/tls", self.path(f"{tls}-mount")), ("/http/", self.path("http/")), ("/etc/rivulet/", self.path("config/")),
                           ("/data", self.path("worker-data")),
                           ("0.0.0.0:7000", "127.0.0.1:0"), ("0.0.0.0:8080", "127.0.0.1:0"), ("rivulet-simulation:7000", simulation)):
            script = re.sub(rf"(?<=[\s-]){re.escape(pods)}", here + ("/" if pods.endswith("/") else ""), script)
        self.assertNotRegex(script, r"\s/(tls|etc|http)\b")
        process = subprocess.Popen([*container["command"], script, *arguments, *options], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, cwd=self.folder / "volume", start_new_session=True,
                                   env={**os.environ, "PATH": f"{pathlib.Path(RIVULET).parent}:{os.environ['PATH']}"})
        self.processes.append(process)
        self.addCleanup(self.end_group, process.pid)
        return self.read(process)

    def end_group(self, group):
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def said(self, process, pattern):
        """What both of its streams match, as soon as they do."""
        return self.wait_for(lambda: re.search(pattern, "".join(process.lines)) or
                             process.poll() is not None and self.fail("".join(process.lines)), f"'{pattern}'")

    def listening(self, process):
        return int(self.said(process, r"listening on 127\.0\.0\.1:(\d+)")[1])

    def read(self, process):
        """Its streams, as they come; neither may fill."""
        process.lines = []
        process.readers = [threading.Thread(target=lambda stream=stream: process.lines.extend(iter(stream.readline, "")), daemon=True)
                           for stream in (process.stdout, process.stderr)]
        for reader in process.readers:
            reader.start()
        return process

    def ended(self, process):
        """Its exit status, and all that it has said."""
        process.wait(timeout=120)
        for reader in process.readers:
            reader.join(timeout=10)
        return process.returncode, "".join(process.lines)

    def clients(self, port):
        return [self.read(self.start("client", "--coordinator", f"localhost:{port}", "--tls", self.path(name), "--data",
                                     f"train={self.path('records')}/{name}.tfrecord", "--state", self.path(f"state-{name}")))
                for name in ("client-00000", "client-00001")]

    def runs(self):
        return json.loads(self.run_rivulet("runs", "list", "--json", "--db", self.path("volume/rivulet.sqlite"), code=0).out)

    def job(self):
        return self.pod("run.yaml", "rivulet-coordinator", "coordinator")

    def test_run_as_a_job_survives_an_eviction_and_ends_once(self):
        evicted = self.job()
        self.listening(evicted)
        evicted.send_signal(signal.SIGTERM)
        code, printed = self.ended(evicted)
        self.assertEqual(code, 143, printed)  # a failure, so that the Job starts another pod
        self.assertEqual([run["status"] for run in self.runs()], ["interrupted"])

        again = self.job()
        clients = self.clients(self.listening(again))
        code, printed = self.ended(again)
        self.assertEqual(code, 0, printed)  # the Job is complete
        self.assertEqual([self.ended(client)[0] for client in clients], [0, 0])
        self.assertEqual([(run["status"], run["rounds"]) for run in self.runs()], [("finished", 4)])

        code, printed = self.ended(self.job())  # a pod too many does nothing
        self.assertEqual(code, 0, printed)
        self.assertIn("had finished; nothing to do", printed)
        self.assertEqual(len(self.runs()), 1)
        # Relative paths of the scenario are on the volume: a config map cannot be written.
        self.assertTrue((self.folder / "volume/data/test.tfrecord").exists())
        self.assertEqual(sorted(path.name for path in (self.folder / "config").iterdir()), ["..data", "..version-1", "scenario.toml"])
        self.assertEqual((self.folder / "volume/rivulet.sqlite").stat().st_mode & 0o777, 0o600)

    def test_failed_run_and_wrong_scenario_have_statuses_that_the_job_tells_apart(self):
        scenario = self.folder / "config/..data/scenario.toml"
        scenario.chmod(0o644)
        text = scenario.read_text()
        scenario.write_text(text.replace("epochs = 2", "epochs = 1000000") + "deadline = 1\nmax_attempts = 1\n")
        failed = self.job()
        clients = self.clients(self.listening(failed))
        code, printed = self.ended(failed)
        self.assertEqual(code, 1, printed)  # counts towards the Job's backoffLimit
        self.assertIn("round 1 failed after 1 attempt", printed)
        self.assertEqual([self.ended(client)[0] for client in clients], [1, 1])
        self.assertEqual([run["status"] for run in self.runs()], ["failed"])

        scenario.write_text(text.replace('"sgd"', '"sgdx"'))
        (self.folder / "volume/rivulet.sqlite").unlink()
        code, printed = self.ended(self.job())
        self.assertEqual(code, 2, printed)  # FailJob
        self.assertIn("Did you mean 'sgd'?", printed)

    def test_coordinator_that_stays_serves_metrics_outlives_a_run_and_stops_with_0(self):
        def stays():
            process = self.pod("coordinator.yaml", "rivulet-coordinator", "coordinator")
            return process, self.listening(process), int(self.said(process, r"https://127\.0\.0\.1:(\d+)/")[1])

        process, port, http = stays()
        token = (self.folder / "token-source/token").read_text()

        def metrics(token):
            context = ssl.create_default_context(cafile=self.path("coordinator/authority.crt"))
            request = urllib.request.Request(f"https://localhost:{http}/metrics", headers={"Authorization": f"Bearer {token}"})
            with urllib.request.urlopen(request, context=context, timeout=30) as answer:
                return answer.read().decode()

        operate = ["--coordinator", f"localhost:{port}", "--tls", self.path("operator")]
        self.run_rivulet("submit", self.path("config-source/scenario.toml"), *operate, code=0)
        clients = self.clients(port)
        self.wait_for(lambda: [run["status"] for run in self.runs()] == ["finished"], "the run to finish")
        self.assertRegex(metrics(token), r'rivulet_run_state\{[^}]*state="finished"\} 1')
        with self.assertRaises(urllib.error.HTTPError) as refused:
            metrics("f" * 32)
        self.assertEqual(refused.exception.code, 401)
        refused.exception.close()
        self.assertIsNone(process.poll())  # the run is over, and the pod is not
        process.send_signal(signal.SIGTERM)
        code, printed = self.ended(process)
        self.assertEqual(code, 0, printed)

        process, _, _ = stays()  # moved: the newest run is over, and it waits for the next
        process.send_signal(signal.SIGTERM)
        code, printed = self.ended(process)
        self.assertEqual(code, 0, printed)
        self.assertIn("had finished; waiting for submitted runs", printed)
        for client in clients:
            client.send_signal(signal.SIGTERM)
            self.assertEqual(self.ended(client)[0], 0)

    def test_revocation_reaches_a_running_pod_through_its_secret(self):
        coordinator = self.pod("coordinator.yaml", "rivulet-coordinator", "coordinator")
        clients = self.clients(self.listening(coordinator))
        self.said(clients[0], "the next run")
        self.run_rivulet("ca", "revoke", "client/client-00000", code=0)
        self.write("coordinator/revoked.crl", (self.folder / "ca/revoked.crl").read_bytes())
        self.mount("coordinator", "coordinator-mount", version="2")
        code, printed = self.ended(clients[0])
        self.assertEqual(code, 1, printed)
        self.assertIn("was revoked on", printed)
        self.assertIsNone(coordinator.poll())

    def test_evicted_worker_and_simulation_are_replaced_and_end_once(self):
        scenario = self.folder / "config/..data/scenario.toml"
        scenario.chmod(0o644)
        text = scenario.read_text()
        scenario.write_text(text.replace("rounds = 4", "rounds = 100000"))
        simulation = self.pod("simulation.yaml", "rivulet-simulation", "lead")
        port = self.listening(simulation)
        worker = self.pod("simulation.yaml", "rivulet-worker", "worker", simulation=f"localhost:{port}")
        self.said(worker, "training for run")
        worker.send_signal(signal.SIGTERM)
        code, printed = self.ended(worker)
        self.assertEqual(code, 143, printed)
        simulation.send_signal(signal.SIGTERM)
        code, printed = self.ended(simulation)
        self.assertEqual(code, 1, printed[-1000:])
        (self.folder / "volume/rivulet.sqlite").rename(self.folder / "earlier.sqlite")
        scenario.write_text(text)

        # The worker alone trains, so that it hears of the end.
        simulation = self.pod("simulation.yaml", "rivulet-simulation", "lead", "--workers", "0")
        worker = self.pod("simulation.yaml", "rivulet-worker", "worker", simulation=f"localhost:{self.listening(simulation)}")
        code, printed = self.ended(simulation)
        self.assertEqual(code, 0, printed)
        code, printed = self.ended(worker)
        self.assertEqual(code, 0, printed)


if __name__ == "__main__":
    main()
