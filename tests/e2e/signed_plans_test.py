"""An author signs a plan offline, a coordinator serves it, and a site runs what it has pinned and nothing else."""
import json
import pathlib
import re
import subprocess

from harness import RIVULET, RivuletTest, main

CLIENT = str(pathlib.Path(RIVULET).with_name("rivulet-client"))
RUN = ["--set", "data.partition.clients=2", "--set", "server.clients_per_round=2", "--set", "run.rounds=2"]


class SignedPlans(RivuletTest):
    def setUp(self):
        super().setUp()
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("records"), *RUN, code=0)
        self.run_rivulet("plan", "build", self.scenario, *RUN, "--out", "tiny.plan", code=0)

    def author(self, name):
        """Its text, as sites pin it."""
        printed = self.run_rivulet("ca", "author", "--out", f"{name}.key", code=0).out.splitlines()
        self.assertRegex(printed[-1], "^ed25519:[A-Za-z0-9+/]{43}=$")
        self.assertEqual((self.folder / f"{name}.key").stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.run_rivulet("ca", "author", "--out", f"{name}.key", "--show", code=0).out.strip(), printed[-1])
        return printed[-1]

    def client(self, name, port, *more, program=(CLIENT,)):
        process = subprocess.Popen([*program, "--coordinator", f"127.0.0.1:{port}", "--insecure", "--name", name, "--data",
                                    f"train=records/{name}.tfrecord", "--state", f"state-{name}", *more],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder)
        self.processes.append(process)
        return process

    def coordinator(self, *more):
        process = self.start("coordinator", self.scenario, *RUN, "--listen", "127.0.0.1:0", "--insecure", "--db", "runs.sqlite", *more)
        return process, process.stdout.readline().strip().rsplit(":", 1)[-1]

    def show(self, *arguments):
        done = subprocess.run([CLIENT, "--coordinator", "127.0.0.1:9", "--insecure", "--name", "a", "--data", "train=records/*.tfrecord",
                               "--show-plan", *arguments], capture_output=True, text=True, cwd=self.folder, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_site_that_pins_runs_what_its_author_signed(self):
        author = self.author("author")
        self.write("site.toml", f'[plans]\nauthors = ["{author}"]\ncolumns = ["image", "label"]\nmax_epochs = 2\n')
        self.assertRegex(self.show("tiny.plan", "--policy", "site.toml"), "this_site +refuses it: plan 'tiny' is unsigned")
        self.run_rivulet("plan", "sign", "tiny.plan", "--key", "author.key", code=0)
        told = json.loads(self.show("tiny.plan", "--policy", "site.toml", "--json"))
        self.assertEqual((told["author"], told["this_site"]), (author, "would run it"))
        self.assertEqual(told["reads"], "of the data set 'train': image (uint8[28,28,1]), label (int64[])")
        self.assertIn("'delta' (7850 numbers as f32)", told["sends"])
        self.assertIn(author, self.run_rivulet("plan", "show", "tiny.plan", code=0).out)

        coordinator, port = self.coordinator("--plan", "tiny.plan")
        # What is offered is told without being done; whoever is started next finds the task as it was.
        looking = self.client("client-00000", port, "--show-plan", "offered", "--policy", "site.toml")
        other = self.client("client-00001", port)
        shown, said = looking.communicate(timeout=60)
        self.assertEqual(looking.returncode, 0, said)
        self.assertRegex(shown, r"this_site +would run it")
        pinning = self.client("client-00000", port, "--policy", "site.toml")
        for process in (pinning, other):
            said = process.communicate(timeout=60)[1]
            self.assertEqual(process.returncode, 0, said)
        coordinator.communicate(timeout=60)
        self.assertEqual(coordinator.returncode, 0)
        # The signature is no part of what is computed.
        self.simulate(*RUN, db="simulated.sqlite")
        self.assertEqual(self.digests(), self.digests("simulated.sqlite"))

    def test_a_site_refuses_other_plans_with_a_reason_that_the_coordinator_records(self):
        author, another = self.author("author"), self.author("another")
        self.write("site.toml", f'[plans]\nauthors = ["{author}"]\n')
        self.run_rivulet("plan", "sign", "tiny.plan", "--key", "another.key", "--out", "other.plan", code=0)
        coordinator, port = self.coordinator("--plan", "other.plan", "--set", "server.min_reports=1")
        pinning, other = self.client("client-00000", port, "--policy", "site.toml"), self.client("client-00001", port)
        self.assertEqual(other.wait(timeout=60), 0)
        self.assertEqual(coordinator.wait(timeout=60), 0)
        said = pinning.communicate(timeout=60)[1]
        self.assertIn(f"plan 'tiny' was signed by {another}, an author outside this site's plans.authors", said)
        errors = {error for (error,) in self.query("SELECT error FROM client_rounds WHERE client_id = 'client-00000'")}
        self.assertEqual(len(errors), 1, errors)
        self.assertRegex(errors.pop(), "author")
        self.assertEqual(self.committed(), 2)

    def test_what_cannot_be_signed_is_refused(self):
        self.author("author")
        self.assert_refused(self.run_rivulet("plan", "sign", "tiny.toml", "--key", "author.key"), "tiny.toml")
        self.assert_refused(self.run_rivulet("ca", "author", "--out", "author.key"), "'author.key' is there already")
        (self.folder / "author.key").chmod(0o644)
        self.assert_refused(self.run_rivulet("plan", "sign", "tiny.plan", "--key", "author.key"), "everybody on this machine may read it")
        self.run_rivulet("ca", "init", "--name", "study", code=0)
        self.run_rivulet("ca", "issue", "operator/a", "--out", "operator", code=0)
        self.assert_refused(self.run_rivulet("plan", "sign", "tiny.plan", "--key", "operator/node.key"), "is no author's key")


if __name__ == "__main__":
    main()
