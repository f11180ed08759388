#!/usr/bin/env python3
"""The cost of one slow worker among three, by examples/parameter_server.cc: backup_workers.py PROGRAM [STEPS].

Every worker pauses PAUSE_MS before each gradient, the slow one ten times as long: it sleeps, so that it takes no time of
the others' cores. Steps of two gradients of three drop the slow worker's; steps of three wait for it. The cost is that
of a step over one of three workers alike, and over one of two workers without a third. Medians of ROUNDS in turns.
"""
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time

PAUSE_MS, ROUNDS = 20, 3


def free_ports(count):
    """Free ones below those that systems give to connections."""
    ports = []
    while len(ports) < count:
        port = random.SystemRandom().randrange(10_000, 32_768)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports


def seconds(program, steps, to_aggregate, pauses):
    """From the start of the workers to the end of the chief."""
    ports = [f"127.0.0.1:{port}" for port in free_ports(1 + len(pauses))]
    cluster = f"ps={ports[0]};worker={','.join(ports[1:])}"
    server = subprocess.Popen([program, cluster, "ps", "0"])
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        workers = [subprocess.Popen([program, cluster, "worker", str(task), str(steps), str(pathlib.Path(folder) / "c"),
                                     str(to_aggregate), str(pause)], stdout=subprocess.PIPE, text=True)
                   for task, pause in enumerate(pauses)]
        try:
            said = workers[0].communicate(timeout=600)[0].strip()
            took = time.monotonic() - begun
            for worker in workers[1:]:
                worker.communicate(timeout=60)
        finally:
            for process in [*workers, server]:
                process.kill()
                process.wait()
    print(f"{to_aggregate} of {len(pauses)}, pauses {pauses} ms: {took:.2f} s, {said}", flush=True)
    return took


def main():
    program, steps = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 300
    even, slow = [PAUSE_MS] * 3, [PAUSE_MS, PAUSE_MS, 10 * PAUSE_MS]
    took = [[seconds(program, steps, 2, pauses) for pauses in (even, even[:2], slow)] for _ in range(ROUNDS)]
    alike, two, backup = (statistics.median(column) for column in zip(*took))
    waiting = seconds(program, steps, 3, slow)
    print(f"the slow worker costs {100 * (backup / alike - 1):.1f} % of a step of three alike, {100 * (backup / two - 1):.1f} % of a "
          f"step of two; without a backup it takes {waiting / alike:.1f} times as long")


if __name__ == "__main__":
    main()
