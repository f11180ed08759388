"""rivulet worker: processes that train a simulation's clients join and leave as they like, and the bits are those of one process."""
import os
import re
import shutil
import signal

from harness import RivuletTest, main

# Twelve clients a round, in rounds that last long enough to be in the middle of one.
LONG = ["run.rounds=5", "data.partition.clients=24", "server.clients_per_round=12", "client.epochs=4000"]
SHORT = ["run.rounds=3", "data.partition.clients=12", "server.clients_per_round=4", "client.epochs=1", "evaluation.every=0"]
QUICK_TO_MISS = ["server.lease=0.5", "run.durability=round"]


def settings(sets):
    return [word for one in sets for word in ("--set", one)]


class Workers(RivuletTest):
    def expected(self, *sets, db="alone.sqlite"):
        self.simulate(*settings(sets), db=db)
        return self.digests(db)

    def serve(self, *sets, arguments=(), address="127.0.0.1:0", db="runs.sqlite"):
        """The simulation, and where it listens."""
        process = self.start("simulate", self.scenario, "--db", self.path(db), "--workers-at", address, *arguments,
                             *settings(sets))
        return process, self.listening(process)

    def listening(self, process):
        for line in process.stderr:
            if line.startswith("listening on "):
                return line.split()[-1]
        self.fail("it does not listen")

    def work(self, address, *arguments, threads=1, **kwargs):
        return self.start("worker", "--simulation", address, "--workers", threads, *arguments, **kwargs)

    def end(self, *processes, timeout=120):
        for process in processes:
            _, err = process.communicate(timeout=timeout)
            self.assertEqual(process.returncode, 0, err)

    def end_beside(self, simulation, worker):
        """The simulation's stderr, once it has ended well. `worker` joined late: on a busy machine all the work may be done
        before it joins, and then it finds nobody and waits."""
        _, err = simulation.communicate(timeout=120)
        self.assertEqual(simulation.returncode, 0, err)
        self.assertIn(worker.poll(), (0, None))
        return err

    def refused(self, process, *sentences, code=1):
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, code, err)
        for sentence in sentences:
            self.assertIn(sentence, err)

    def statuses(self, db="runs.sqlite"):
        return self.query("SELECT round, client_id, status FROM client_rounds ORDER BY round, client_id", db=db)

    def test_one_is_killed_in_each_round_and_one_joins_late(self):
        expected = self.expected(*LONG)
        for count in (1, 2, 5):
            with self.subTest(workers=count):
                db = f"{count}.sqlite"
                simulation, address = self.serve(*LONG, *QUICK_TO_MISS, db=db)
                workers = [self.work(address) for _ in range(count)]
                for committed in range(1, 5):
                    self.wait_for(lambda: self.committed(db=db) >= committed, f"commit {committed}")
                    workers.pop(0).kill()
                    workers.append(self.work(address))  # in the middle of the round that follows
                _, err = simulation.communicate(timeout=120)
                self.assertEqual(simulation.returncode, 0, err)
                if count == 1:  # of several, those that are killed may have had nothing
                    self.assertIn("others get its tasks", err)
                self.assertEqual(self.digests(db), expected)
                self.assertEqual(self.statuses(db), self.statuses("alone.sqlite"))
                # One that comes when the others have done all the work finds nobody, and goes on looking.
                self.assertLessEqual({worker.poll() for worker in workers}, {0, None})

    def test_the_simulation_is_killed_and_goes_on_with_the_same_workers(self):
        expected = self.expected(*LONG)
        simulation, address = self.serve(*LONG, *QUICK_TO_MISS)
        workers = [self.work(address) for _ in range(2)]
        self.wait_for(lambda: self.committed() >= 2, "the second commit")
        simulation.kill()
        simulation.communicate()
        simulation, _ = self.serve(*LONG, *QUICK_TO_MISS, address=address, arguments=["--resume", "latest"])
        self.end(simulation)
        self.assertEqual(self.digests(), expected)
        self.assertLessEqual({worker.poll() for worker in workers}, {0, None})

    def test_a_worker_that_is_asked_to_go_ends_well_and_keeps_to_its_processors(self):
        expected = self.expected(*LONG)
        simulation, address = self.serve(*LONG, *QUICK_TO_MISS)
        one = {min(os.sched_getaffinity(0))}
        asked = self.start("worker", "--simulation", address, preexec_fn=lambda: os.sched_setaffinity(0, one))
        self.wait_for(lambda: self.committed() >= 1, "the first commit")
        asked.send_signal(signal.SIGTERM)
        _, err = asked.communicate(timeout=60)
        self.assertEqual(asked.returncode, 0, err)
        self.assertIn("with 1 thread\n", err)
        self.assertIn("other workers train its tasks", err)
        self.end_beside(simulation, self.work(address))
        self.assertEqual(self.digests(), expected)

    def test_the_simulation_trains_too_and_what_clients_keep_goes_to_and_fro(self):
        for algorithm in ("algorithm.name=scaffold", "update.codec=top_k", "algorithm.name=fedbuff"):
            with self.subTest(algorithm):
                name = algorithm.split("=")[1]
                sets = [*SHORT, algorithm]
                if name == "fedbuff":
                    sets += ["server.in_flight=9", "server.max_staleness=3"]
                expected = self.expected(*sets, db=f"alone-{name}.sqlite")
                simulation, address = self.serve(*sets, arguments=["--workers", "1"], db=f"{name}.sqlite")
                worker = self.work(address, "--zstd", threads=2)
                self.end(simulation)
                self.assertEqual(self.digests(f"{name}.sqlite"), expected)
                self.assertIn(worker.poll(), (0, None))

    def test_attackers_are_played_by_workers_and_by_nobody_else(self):
        sets = [*SHORT, "attack.name=sign_flip", "attack.fraction=0.4"]
        expected = self.expected(*sets)
        self.assertNotEqual(expected, self.expected(*SHORT, db="honest.sqlite"))
        simulation, address = self.serve(*sets)
        self.end(self.work(address), simulation)
        self.assertEqual(self.digests(), expected)

    def test_data_may_lie_elsewhere_and_must_be_the_same(self):
        expected = self.expected(*SHORT)
        elsewhere = self.folder / "elsewhere"
        simulation, address = self.serve(*SHORT)
        other = self.write("other/train.tfrecord", (self.folder / "data/test.tfrecord").read_bytes())
        self.refused(self.work(address, "--data", os.path.dirname(other)), "is not that of the simulation")
        # It is generated there, as the scenario describes it.
        self.end(self.work(address, "--data", elsewhere), simulation)
        self.assertTrue((elsewhere / "train.tfrecord").exists())
        self.assertEqual(self.digests(), expected)

    def test_a_worker_opens_and_creates_nothing_outside_its_folder(self):
        """What a false simulation would have it make, by absolute paths, by .. and through links."""
        expected = self.expected(*SHORT)
        trap = self.folder / "trap"
        trap.mkdir()
        names = [f"data.train={trap}/new/deep/train.tfrecord", f"data.test={trap}/new/test.tfrecord", "data.synth.kind=digits"]
        simulation, address = self.serve(*SHORT, *names)
        made = sorted(self.path_names(trap))  # by the simulation itself
        shutil.rmtree(trap / "new")
        # It has no folder: what the scenario generates lies below one of its own.
        self.end(self.work(address), simulation)
        self.assertEqual(self.path_names(trap), [])
        self.assertNotEqual(made, [])
        self.assertRegex("\n".join(self.path_names(self.folder)), r"rivulet-worker/[0-9a-f]{16}/train\.tfrecord")
        self.assertEqual(self.digests(), expected)

        # A link in its folder that leads out of it is not followed, to read or to write.
        for name, target in (("read", self.folder / "data/train.tfrecord"), ("write", trap / "new.tfrecord")):
            with self.subTest(name):
                folder = self.folder / f"links-{name}"
                folder.mkdir()
                (folder / "train.tfrecord").symlink_to(target)
                simulation, address = self.serve(*SHORT, db=f"{name}.sqlite")
                self.refused(self.work(address, "--data", folder), "is a link that leads out of")
                self.assertEqual(self.path_names(trap), [])
                simulation.kill()
                simulation.communicate()

    def path_names(self, folder):
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())

    def test_under_tls_all_threads_of_a_worker_bear_its_name(self):
        sets = ["run.rounds=10", *LONG[1:]]  # a busy machine is long in noticing the second
        expected = self.expected(*sets)
        self.run_rivulet("ca", "init", "--name", "cluster", code=0)
        self.run_rivulet("ca", "issue", "coordinator/localhost", "--host", "127.0.0.1", "--out", "head", code=0)
        self.run_rivulet("ca", "issue", "client/node-1", "--out", "node", code=0)
        simulation, address = self.serve(*sets, *QUICK_TO_MISS, arguments=["--tls", "head"])
        killed = self.work(address, "--tls", "node", threads=2)
        self.wait_for(lambda: self.committed() >= 2, "the second commit")
        killed.kill()
        err = self.end_beside(simulation, self.work(address, "--tls", "node", threads=3))
        self.assertEqual(self.digests(), expected)
        threads = re.findall("'(.*)' has joined", err)
        self.assertNotEqual(threads, [])
        for thread in threads:
            self.assertRegex(thread, "^node-1 thread [0-9a-f]+$")
        self.assertEqual({status for _, _, status in self.statuses()}, {"folded"})

    def test_who_has_no_simulation_is_told_so(self):
        coordinator = self.start("coordinator", self.scenario, "--db", self.path("runs.sqlite"), "--listen", "127.0.0.1:0",
                                 "--insecure")
        address = coordinator.stdout.readline().split()[-1]
        self.refused(self.work(address), "is no simulation that lets workers in")
        coordinator.kill()
        coordinator.wait()
        self.refused(self.work(address, "--patience", 1), "was not reached for 1 s")

    def test_what_does_not_go_together_is_told(self):
        for arguments, sentence in (
                (["--workers", "0"], "leaves no worker"),
                (["--insecure"], "without --workers-at none do"),
                (["--workers-at", "0.0.0.0:0"], "this node has no identity"),
                (["--workers-at", "0.0.0.0:0", "--insecure"], "--insecure twice"),
                (["--workers-at", "127.0.0.1:0", "--replay", "latest"], "give one of them")):
            with self.subTest(arguments):
                result = self.run_rivulet("simulate", self.scenario, *arguments, code=2)
                self.assertIn(sentence, result.err)
        self.run_rivulet("worker", "--simulation", "10.0.0.1:7000", code=2)


if __name__ == "__main__":
    main()
