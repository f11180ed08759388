"""A network of the test's own: each node is a network namespace with an address, a cable (veth) and a place at one switch (bridge).
A cable can be unplugged, and made a bad one: this kernel may have neither netem nor tbf, so delay, rate and loss are those of a
thread that carries frames from one end of a cable to the other.

The test's own process stands at the switch, in a namespace that it is started in anew (main below). Namespaces have no names: each is
held by a process that ends when this one does, and with it go its cables, so that a test that is killed leaves nothing behind."""
import collections
import os
import pathlib
import random
import select
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

from harness import RivuletTest, main

INSIDE = "RIVULET_TEST_STANDS_AT_THE_SWITCH"
FIRST = "10.77.0."
SOL_PACKET, PACKET_VNET_HDR = 263, 15
# As who is root, or as who is root in a user namespace, where the system lets anybody make one.
UNSHARE = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return done.stdout


def what_is_missing():
    """Why no network can be made here; "" where one can."""
    missing = [program for program in ("unshare", "nsenter", "ip") if not shutil.which(program)]
    if missing:
        return f"there is no {', '.join(missing)}"
    try:
        run(*UNSHARE, "sh", "-c", "ip link add name s type bridge && ip link add name a type veth peer name b")
    except OSError as refused:
        return f"this machine lets nobody make network namespaces ({refused})"
    return ""


def main_at_the_switch():
    """main() in a namespace of its own; the tests that need one are skipped by name where there is none."""
    if INSIDE not in os.environ and not what_is_missing():
        os.execvpe("unshare", [*UNSHARE, sys.executable, *sys.argv], {**os.environ, INSIDE: "1"})
    main()


class Line(threading.Thread):
    """A bad cable between two ends that are here: carries frames both ways, each `delay` seconds late, at no more than
    `bytes_per_second`, and loses every one with the probability `loss`."""

    QUEUE_SECONDS = 0.3  # how long a frame may wait for its turn; what would wait longer is lost, as at any router

    def __init__(self, ends, delay, bytes_per_second, loss, seed):
        super().__init__(daemon=True)
        self.delay, self.rate, self.loss, self.random = delay, bytes_per_second, loss, random.Random(seed)
        self.lost = 0
        self.stopped = threading.Event()
        self.sockets = []
        for end in ends:
            raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            # Checksums are left to devices, which these cables do not have: they travel beside the frame.
            raw.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            raw.bind((end, 0x0003))
            self.sockets.append(raw)
        self.start()

    def run(self):
        waiting = {raw: collections.deque() for raw in self.sockets}  # by where they go
        free_at = dict.fromkeys(self.sockets, 0.0)
        while not self.stopped.is_set():
            now = time.monotonic()
            due = min((queue[0][0] for queue in waiting.values() if queue), default=now + 0.05)
            for here in select.select(self.sockets, [], [], max(0, due - now))[0]:
                try:
                    frame, address = here.recvfrom(1 << 17)
                except OSError:  # its end was unplugged
                    continue
                if address[2] == socket.PACKET_OUTGOING:  # what this line itself put on it
                    continue
                there = self.sockets[1 - self.sockets.index(here)]
                now = time.monotonic()
                if self.random.random() < self.loss or free_at[there] > now + self.QUEUE_SECONDS:
                    self.lost += 1
                    continue
                free_at[there] = max(now, free_at[there]) + (len(frame) / self.rate if self.rate else 0)
                waiting[there].append((free_at[there] + self.delay, frame))
            now = time.monotonic()
            for there, queue in waiting.items():
                while queue and queue[0][0] <= now:
                    try:
                        there.send(queue.popleft()[1])
                    except OSError:  # its end is unplugged
                        self.lost += 1
        for raw in self.sockets:
            raw.close()

    def stop(self):
        self.stopped.set()
        self.join()


class Node:
    """A machine: `host` is its address, `before` the words that start a command there."""

    def __init__(self, number):
        self.number, self.host, self.port = number, f"{FIRST}{number}", f"port{number}"
        # It reads until this process is no more.
        self.holder = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.before = ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net"]
        self.line = None
        here = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{self.holder.pid}/ns/net") == here:
            time.sleep(0.001)
        # One frame a packet, so that what a line loses is one packet too.
        run("ip", "link", "add", "name", self.port, "gso_max_segs", 1, "type", "veth", "peer", "name", "eth0", "gso_max_segs", 1, "netns",
            self.holder.pid)
        run(*self.before, "sh", "-c", f"ip addr add {self.host}/24 dev eth0 && ip link set lo up && ip link set eth0 up")
        run("ip", "link", "set", self.port, "master", "switch", "up")

    def unplug(self):
        run("ip", "link", "set", self.port, "down")

    def plug(self):
        run("ip", "link", "set", self.port, "up")

    def forget_connections(self):
        """As a router or a firewall does that is started again: what was connected is so no more."""
        run(*self.before, "ss", "-K", "-t")

    def behind(self, delay=0.0, bytes_per_second=0, loss=0.0, seed=1):
        """Its cable is a bad one from now on."""
        near, far = f"near{self.number}", f"far{self.number}"
        run("ip", "link", "add", "name", near, "gso_max_segs", 1, "type", "veth", "peer", "name", far, "gso_max_segs", 1)
        run("ip", "link", "set", self.port, "nomaster")
        run("ip", "link", "set", far, "master", "switch", "up")
        run("ip", "link", "set", near, "up")
        self.line = Line((self.port, near), delay, bytes_per_second, loss, seed)
        return self.line

    def sent_and_received(self):
        """Bytes of its cable so far, frames and all."""
        for row in pathlib.Path("/proc/net/dev").read_text().splitlines():
            name, _, counts = row.partition(":")
            if name.strip() == self.port:
                words = counts.split()
                return int(words[0]), int(words[8])
        raise KeyError(self.port)

    def leave(self):
        if self.line:
            self.line.stop()
            run("ip", "link", "del", f"near{self.number}")
        run("ip", "link", "del", self.port)
        self.holder.stdin.close()
        self.holder.wait()


@unittest.skipUnless(INSIDE in os.environ, what_is_missing() or "this is started by main_at_the_switch()")
class NetworkTest(RivuletTest):
    """A test with a switch of its own and nodes at it."""

    def setUp(self):
        super().setUp()
        self.nodes = {}
        run("ip", "link", "add", "name", "switch", "type", "bridge")
        run("ip", "addr", "add", f"{FIRST}254/24", "dev", "switch")
        run("ip", "link", "set", "switch", "up")

    def tearDown(self):
        super().tearDown()
        for node in self.nodes.values():
            node.leave()
        run("ip", "link", "del", "switch")

    def node(self, name):
        if name not in self.nodes:
            self.nodes[name] = Node(len(self.nodes) + 1)
        return self.nodes[name]

    def start_at(self, name, *arguments, **kwargs):
        return self.start(*arguments, before=self.node(name).before, **kwargs)
