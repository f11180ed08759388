"""What a site finds out before it starts, and what it allows: each finding with its mend, each refusal with its reason."""
import json
import os
import pathlib
import socket
import subprocess

from harness import RIVULET, RivuletTest, main

CLIENT = str(pathlib.Path(RIVULET).with_name("rivulet-client"))
RUN = ["--rounds", 2, "--set", "data.partition.clients=2", "--set", "server.clients_per_round=2"]


class Site(RivuletTest):
    def setUp(self):
        super().setUp()
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("records"), *RUN[2:], code=0)

    def coordinator(self, *more):
        process = self.start("coordinator", self.scenario, "--listen", "127.0.0.1:0", "--insecure", "--db", "runs.sqlite", *RUN, *more)
        return process, process.stdout.readline().strip().rsplit(":", 1)[-1]

    def client(self, name, port, *more, state=None):
        process = subprocess.Popen([CLIENT, "--coordinator", f"127.0.0.1:{port}", "--insecure", "--name", name, "--data",
                                    f"train=records/{name}.tfrecord", "--state", state or f"state-{name}", *more],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder)
        self.processes.append(process)
        return process

    def preflight(self, name, port, *more, **kwargs):
        process = self.client(name, port, "--preflight", "--json", *more, **kwargs)
        printed, said = process.communicate(timeout=60)
        return process.returncode, {row["check"]: (row["verdict"], row["finding"]) for row in json.loads(printed)}, said

    def test_preflight_of_a_site_that_is_right(self):
        self.run_rivulet("plan", "build", self.scenario, *RUN[2:], "--out", "tiny.plan", code=0)
        coordinator, port = self.coordinator()
        code, found, said = self.preflight("client-00000", port, "--show-plan", "tiny.plan")
        self.assertEqual(code, 0, said)
        self.assertEqual({verdict for verdict, _ in found.values()}, {"good"}, found)
        self.assertEqual(set(found), {"policy", "plan", "data", "disk", "memory", "certificate", "coordinator"})
        self.assertIn("48 examples, bound to 'train'; the plan can read the first 48", found["data"][1])
        self.assertIn("a task takes 1 MB: 1 for the model", found["memory"][1].replace("takes 2 MB", "takes 1 MB"))
        self.assertIn(f"127.0.0.1:{port} answers", found["coordinator"][1])
        # It took no task: both clients, started now, do all of them.
        clients = [self.client(name, port) for name in ("client-00000", "client-00001")]
        for client in clients:
            said = client.communicate(timeout=60)[1]
            self.assertEqual(client.returncode, 0, said)
        self.assertEqual(coordinator.wait(timeout=60), 0)
        self.simulate(*RUN, db="simulated.sqlite")
        self.assertEqual(self.digests(), self.digests("simulated.sqlite"))

    def test_preflight_names_each_fault_with_its_mend(self):
        self.run_rivulet("plan", "build", self.scenario, *RUN[2:], "--set", "data.label_feature=diagnosis", "--out", "other.plan", code=0)
        self.write("site.toml", "[plans]\ncolumns = ['image', 'label']\n[budget]\nmemory_megabytes = 1\n")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.write("taken", "")
        code, found, said = self.preflight("client-00000", port, "--show-plan", "other.plan", "--policy", "site.toml",
                                           state=self.path("taken"))
        self.assertEqual(code, 1)
        self.assertIn("of 7 checks failed", said)
        for check, fragment in (("plan", "reads 'diagnosis' of each example, which is not in this site's plans.columns"),
                                ("data", "; make these records as the plan reads them (docs/guide/own-data.md)"),
                                ("disk", "is no folder; give one"),
                                ("coordinator", "nothing listens there; check that it runs")):
            self.assertEqual(found[check][0], "mend", (check, found))
            self.assertIn(fragment, found[check][1])
        self.run_rivulet("ca", "init", "--name", "study", code=0)
        self.run_rivulet("ca", "issue", "client/a", "--out", "a", code=0)
        (self.folder / "a/node.key").chmod(0o644)
        done = subprocess.run([CLIENT, "--coordinator", f"127.0.0.1:{port}", "--tls", "a", "--data", "train=none/*", "--preflight"],
                              capture_output=True, text=True, cwd=self.folder, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"mend +certificate +.*node\.key.*clock is at \d{4}-")
        self.assertRegex(done.stdout, r"mend +data +no file matches 'none/\*'")

    def test_too_large_a_task_is_refused_and_the_round_goes_on(self):
        self.write("site.toml", "[budget]\nmemory_megabytes = 1\nniceness = 5\nprocessors = 1\n")
        # 784 × 200 weights and more: some MB with their gradients and the program.
        coordinator, port = self.coordinator("--set", "model.preset=mlp", "--set", "server.min_reports=1")
        small, other = self.client("client-00000", port, "--policy", "site.toml"), self.client("client-00001", port)
        self.wait_for(lambda: os.getpriority(os.PRIO_PROCESS, small.pid) == 5, "the client to be nice")
        self.assertEqual(len(os.sched_getaffinity(small.pid)), 1)
        for client in (small, other):
            client.wait(timeout=60)
        self.assertEqual(coordinator.wait(timeout=60), 0)
        self.assertRegex(small.communicate()[1], r"a task of plan 'tiny' takes \d+ MB: .*this site allows it 0\.8 MB")
        self.assertEqual(self.committed(), 2)
        errors = self.query("SELECT DISTINCT error FROM client_rounds WHERE client_id = 'client-00000'")
        self.assertEqual(len(errors), 1, errors)
        self.assertIn("memory", errors[0][0])

    def test_while_it_may_not_a_site_asks_for_nothing_and_says_so(self):
        self.write("site.toml", "[when]\nmin_free_megabytes = 1000000000\n")
        client = self.client("client-00000", 9, "--policy", "site.toml")
        self.assertEqual(client.stderr.readline(),
                         "client-00000: waiting: less than 1000000000 MB of memory are free (when.min_free_megabytes)\n")
        client.terminate()
        self.assertEqual(client.wait(timeout=10), 0)

    def test_mistakes_in_a_policy_are_wrong_usage(self):
        self.write("site.toml", "[plans]\nop = []\n")
        refused = self.client("client-00000", 9, "--policy", "site.toml")
        said = refused.communicate(timeout=60)[1]
        self.assertEqual(refused.returncode, 2)
        self.assertEqual(said, "rivulet-client: site.toml:2:6: there is no key 'plans.op'. Did you mean 'plans.ops'?\n")


if __name__ == "__main__":
    main()
