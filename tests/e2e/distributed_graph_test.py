"""rivulet graph worker: a task of a cluster as its users start it, and against TensorFlow where a Python has it.

RIVULET_TENSORFLOW_PYTHON names that Python; without it the comparisons are skipped by name.
"""
import os
import pathlib
import re
import signal
import socket
import subprocess
import unittest

from harness import RIVULET, RivuletTest, main

PROGRAM = pathlib.Path(__file__).with_name("tensorflow_cluster.py")


def reserve_ports(test, count):
    """Ports that nobody else is given until `test` ends: sockets stay bound to them, and a server listens beside them."""
    sockets = [socket.socket() for _ in range(count)]
    for reserved in sockets:
        test.addCleanup(reserved.close)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
    return [reserved.getsockname()[1] for reserved in sockets]


class Worker(RivuletTest):
    def test_serves_until_it_is_asked_to_stop(self):
        ps, worker = reserve_ports(self, 2)
        cluster = f"ps=127.0.0.1:{ps};worker=127.0.0.1:{worker}"
        process = self.start("graph", "worker", "--cluster", cluster, "--job", "worker", "--task", 0, "--insecure")
        self.assertEqual(process.stdout.readline(), f"/job:worker/replica:0/task:0 serves grpc://127.0.0.1:{worker}\n")
        taken = self.run_rivulet("graph", "worker", "--cluster", cluster, "--job", "worker", "--task", 0, "--insecure", code=1)
        self.assertIn(f"cannot listen on 127.0.0.1:{worker}", taken.err)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), 0)

    def test_what_makes_no_sense_is_a_usage_error(self):
        for arguments, said in [
                (["--cluster", "worker", "--job", "worker", "--task", 0, "--insecure"], "no JOB=HOST:PORT"),
                (["--cluster", "worker=127.0.0.1:1", "--job", "ps", "--task", 0, "--insecure"], "no job 'ps'; it has worker"),
                (["--cluster", "worker=127.0.0.1:1", "--job", "worker", "--task", 1, "--insecure"], "no task 1; it has 1"),
                (["--cluster", "worker=127.0.0.1:1", "--job", "worker", "--task", 0], "rivulet ca issue task/ID"),
                (["--cluster", "worker=192.0.2.1:1", "--job", "worker", "--task", 0, "--insecure"], "--insecure"),
                (["--cluster", "worker=127.0.0.1:1,192.0.2.1:1", "--job", "worker", "--task", 0, "--insecure"], "192.0.2.1")]:
            with self.subTest(arguments):
                self.assertIn(said, self.run_rivulet("graph", "worker", *arguments, code=2).err)


class ParameterServer(RivuletTest):
    """examples/parameter_server.cc: two parameter servers and up to three workers, each a process."""

    def train(self, workers, *options, pauses=()):
        """The lines that the workers print, the chief's first."""
        program = os.environ["RIVULET_PARAMETER_SERVER"]
        ports = [f"127.0.0.1:{port}" for port in reserve_ports(self, 2 + workers)]
        cluster = f"ps={','.join(ports[:2])};worker={','.join(ports[2:])}"
        servers = [subprocess.Popen([program, cluster, "ps", str(task)]) for task in range(2)]
        pauses = [*pauses, *[0] * (workers - len(pauses))]
        try:
            tasks = [subprocess.Popen([program, cluster, "worker", str(task), *map(str, options), str(pauses[task])],
                                      stdout=subprocess.PIPE, text=True) for task in range(workers)]
            said = [task.communicate(timeout=200)[0] for task in tasks]
            self.assertEqual([task.returncode for task in tasks], [0] * workers, said)
        finally:
            for server in servers:
                server.kill()
                server.wait()
        return said

    def of(self, line):
        said = re.fullmatch(r"step (\d+)  loss (\d+\.\d+)\n", line)
        self.assertTrue(said, line)
        return int(said[1]), float(said[2])

    def test_asynchronous_workers_restore_and_continue(self):
        steps, first = self.of(self.train(1, 200, self.folder / "one", 0)[0])
        self.assertEqual(steps, 200)
        self.train(2, 100, self.folder / "two", 0)
        steps, second = self.of(self.train(2, 100, self.folder / "two", 0)[0])
        self.assertGreaterEqual(steps, 200)  # the checkpoint has at least the chief's 100
        self.assertLess(second, first * 1.05)
        self.assertLess(first, 1.2)  # log 4 at first

    def test_synchronous_steps_need_two_of_three_workers(self):
        said = self.train(3, 100, self.folder / "sync", 2, pauses=(0, 0, 200))
        steps, loss = self.of(said[0])
        self.assertEqual(steps, 100)
        self.assertLess(loss, 1.3)
        steps, again = self.of(self.train(3, 100, self.folder / "sync", 2)[0])
        self.assertEqual(steps, 200)
        self.assertLess(again, loss)


class SplitLearning(RivuletTest):
    """Two owners' workers, and examples/split_learning.cc as the session that trains over them."""

    def setUp(self):
        super().setUp()
        self.program("data", self.folder)
        self.ports = reserve_ports(self, 2)
        self.cluster = "guest=127.0.0.1:{};host=127.0.0.1:{}".format(*self.ports)

    def program(self, *arguments, code=0):
        done = subprocess.run([os.environ["RIVULET_SPLIT_LEARNING"], *map(str, arguments)], capture_output=True, text=True,
                              timeout=280)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def owner(self, job, data, send=None):
        """A worker with its data; the line that says what it sends."""
        options = ["--data", f"{data}={self.folder / data}*.tfrecord"]
        if send is not None:
            (self.folder / f"{job}.txt").write_text(send)
            options += ["--send", self.folder / f"{job}.txt"]
        process = self.start("graph", "worker", "--cluster", self.cluster, "--job", job, "--task", 0, "--insecure", *options)
        self.assertIn("serves grpc://", process.stdout.readline())
        return process, process.stdout.readline()

    def test_the_cut_model_trains_to_the_bits_of_the_joined_one(self):
        host, guest = (line.split(": ")[1].split() for line in self.program("edges").splitlines())
        _, sends = self.owner("host", "features", "# of the features\n" + "\n".join(host))
        self.assertEqual(sends, "sends activations\n")
        self.owner("guest", "labels", "\n".join(guest))
        joined = self.program("joined", self.folder)
        self.assertEqual(self.program(f"grpc://127.0.0.1:{self.ports[0]}"), joined)
        losses = [float(line.split()[3]) for line in joined.splitlines()]
        self.assertEqual(len(losses), 5)
        self.assertLess(losses[-1], 0.6)  # log 3 at first

    def test_an_edge_that_its_owner_does_not_list_is_refused_by_name(self):
        _, guest = (line.split(": ")[1].split() for line in self.program("edges").splitlines())
        self.owner("guest", "labels", "\n".join(guest))
        process, sends = self.owner("host", "features")
        self.assertEqual(sends, "sends no tensor\n")
        said = self.program(f"grpc://127.0.0.1:{self.ports[0]}", code=1)
        self.assertIn("'activations' to '/job:guest/replica:0/task:0' from '/job:host/replica:0/task:0', whose owner does not "
                      "list that; the owner can add it to the file of --send", said)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), 0)

    def test_data_and_lists_that_cannot_be_are_told_at_the_start(self):
        (self.folder / "list.txt").write_text("activations\ntwo words\n")
        for options, said, code in [
                (["--data", "features"], "--data takes NAME=GLOB", 2),
                (["--data", "features=nothing*.tfrecord"], "nothing*.tfrecord", 1),
                (["--send", self.folder / "list.txt"], "line 2: 'two words' is no name of a tensor", 2),
                (["--send", self.folder / "none.txt"], "none.txt", 1)]:
            with self.subTest(options):
                self.assertIn(said, self.run_rivulet("graph", "worker", "--cluster", self.cluster, "--job", "host", "--task", 0,
                                                     "--insecure", *options, code=code).err)


class TensorFlow(RivuletTest):
    def compare(self, mode):
        python = os.environ.get("RIVULET_TENSORFLOW_PYTHON")
        if not python:
            self.skipTest("RIVULET_TENSORFLOW_PYTHON names no Python with TensorFlow")
        done = subprocess.run([python, str(PROGRAM), RIVULET, mode], capture_output=True, text=True, timeout=280)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr[-2000:])

    def test_its_session_drives_our_master(self):
        self.compare("sessions")

    def test_our_worker_is_a_task_of_its_master(self):
        self.compare("worker")

    def test_our_master_drives_its_worker(self):
        self.compare("master")

    def test_its_own_tests_of_servers_pass_with_either_end_ours(self):
        self.compare("tests")


if __name__ == "__main__":
    main()
