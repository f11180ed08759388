"""rivulet graph worker: a task of a cluster as its users start it, and against TensorFlow where a Python has it.

RIVULET_TENSORFLOW_PYTHON names that Python; without it the comparisons are skipped by name.
"""
import os
import pathlib
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


if __name__ == "__main__":
    main()
