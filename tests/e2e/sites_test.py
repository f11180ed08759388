"""Sites of many names in processes of their own: whoever folds, and whatever becomes of one, the bits are the simulation's."""
import os
import pathlib
import subprocess

from harness import RIVULET, TEN, RivuletTest, main

WORKER = os.environ.get("RIVULET_SITE_WORKER", str(pathlib.Path(RIVULET).with_name("site_worker")))

# Twelve clients a round, eight of which a site may ask for at a time; enough rounds and epochs to be in the middle of one.
LONG = ["run.rounds=12", "data.partition.clients=24", "server.clients_per_round=12", "client.epochs=1500"]
QUICK_TO_MISS = ["server.lease=1", "run.durability=round"]
# Ten of twelve clients a round: more than a site asks for.
SHORT = ["run.rounds=4", "data.partition.clients=12", "server.clients_per_round=10", "client.epochs=1", "evaluation.every=0"]


class Sites(RivuletTest):
    def expected(self, *sets, db="simulated.sqlite"):
        self.simulate(*[word for one in sets for word in ("--set", one)], db=db)
        return self.digests(db)

    def begin(self, *arguments):
        process = subprocess.Popen([WORKER, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, cwd=self.folder, text=True)
        self.processes.append(process)
        return process

    def serve(self, *sets, address="127.0.0.1:0", run="new", db="runs.sqlite"):
        process = self.begin("serve", self.scenario, self.path(db), address, run, *sets)
        line = process.stdout.readline()
        self.assertTrue(line.startswith("listening "), (line, process.stderr.read() if not line else ""))
        return process, line.split()[1]

    def work(self, address, name, *sets):
        return self.begin("work", address, name, self.scenario, *sets)

    def end(self, *processes):
        for process in processes:
            _, err = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, err)

    def assert_ended_or_late(self, *sites):
        """After the coordinator's end. On a busy machine one site may do all the work before another has called: that one
        finds nobody, and waits."""
        self.assertLessEqual({site.poll() for site in sites}, {0, None})

    def tasks(self):
        return self.query("SELECT round, client_id, status FROM client_rounds ORDER BY round, client_id")

    def test_two_sites_give_the_bits_of_the_simulation(self):
        expected = self.expected(*LONG)
        coordinator, address = self.serve(*LONG)
        sites = [self.work(address, name, *LONG) for name in ("site 1", "site 2")]
        self.end(coordinator)
        self.assert_ended_or_late(*sites)
        self.assertEqual(self.digests(), expected)
        self.assertEqual(self.tasks(),
                         self.query("SELECT round, client_id, status FROM client_rounds ORDER BY round, client_id",
                                    db="simulated.sqlite"))

    def test_each_algorithm_gives_the_bits_of_its_simulation(self):
        # What clients keep (of MOON, SCAFFOLD, Ditto and where a codec leaves something out) goes to the coordinator and to the
        # next site, what a version sends beside its model to all.
        served = {}
        for name, sets in TEN.items():  # side by side: they wait more than they work
            coordinator, address = self.serve(*SHORT, *sets, db=f"{name}.sqlite")
            served[name] = coordinator, [self.work(address, f"site {number}", *SHORT, *sets) for number in (1, 2)]
        for name, sets in TEN.items():
            with self.subTest(algorithm=name):
                expected = self.expected(*SHORT, *sets, db=f"simulated-{name}.sqlite")
                coordinator, sites = served[name]
                self.end(coordinator)
                self.assert_ended_or_late(*sites)
                if name != "fedbuff":
                    self.assertEqual(self.digests(f"{name}.sqlite"), expected)
                    self.assertEqual(*(self.measured_last(db) for db in (f"{name}.sqlite", f"simulated-{name}.sqlite")))
                    continue
                # What comes first is an accident here, and what is recorded of it gives the same versions again.
                self.assertEqual(self.query("SELECT status FROM runs", db=f"{name}.sqlite"), [("finished",)])
                settings = [word for one in [*SHORT, *sets] for word in ("--set", one)]
                self.run_rivulet("simulate", self.scenario, "--db", self.path(f"{name}.sqlite"), "--replay", "latest",
                                 *settings, code=0)

    def test_one_is_killed_in_the_middle_and_one_joins_late(self):
        expected = self.expected(*LONG)
        coordinator, address = self.serve(*LONG, *QUICK_TO_MISS)
        first = self.work(address, "site 1", *LONG)
        self.wait_for(lambda: self.committed() >= 2, "the second commit")
        second = self.work(address, "site 2", *LONG)
        self.wait_for(lambda: self.committed() >= 4, "the fourth commit")
        first.kill()
        first.wait()
        self.end(coordinator)
        self.assert_ended_or_late(second)
        self.assertEqual(self.digests(), expected)
        self.assertEqual({status for _, _, status in self.tasks()}, {"folded"})

    def test_the_coordinator_is_killed_and_goes_on_with_the_same_sites(self):
        expected = self.expected(*LONG)
        coordinator, address = self.serve(*LONG, *QUICK_TO_MISS)
        sites = [self.work(address, name, *LONG) for name in ("site 1", "site 2")]
        for commits in (2, 5):
            self.wait_for(lambda: self.committed() >= commits, f"{commits} commits")
            coordinator.kill()
            coordinator.communicate()
            coordinator, _ = self.serve(*LONG, *QUICK_TO_MISS, address=address, run="latest")
        self.end(coordinator)
        self.assertEqual(self.digests(), expected)
        self.assert_ended_or_late(*sites)

    def test_a_coordinator_that_admits_no_sites_turns_one_away(self):
        process = self.start("coordinator", self.scenario, "--db", self.path("runs.sqlite"), "--listen", "127.0.0.1:0",
                             "--insecure")
        line = process.stdout.readline()
        self.assertTrue(line.startswith("listening on "), line)
        site = self.work(line.split()[-1], "site 1")
        _, err = site.communicate(timeout=60)
        self.assertEqual(site.returncode, 1)
        self.assertIn("no such site is admitted here", err)
        process.kill()


if __name__ == "__main__":
    main()
