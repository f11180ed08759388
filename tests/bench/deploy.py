"""./bench.sh --deploy: what a deployment costs on this machine, beside what gRPC alone, `write` and the processor take for the same in
the same run. A row a line; those with a mark say what it is and whether it is reached. Both ends share the machine's cores: of these
figures the shares count. `--quick` leaves out the large transfers and takes a tenth of the clients, to see that all of it works."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).parents[2]
BUILD = pathlib.Path(os.environ.get("RIVULET_BUILD", ROOT / "build/release"))
sys.path.insert(0, str(ROOT / "tests/e2e"))
from harness import SCENARIO, watch_memory  # noqa: E402

QUICK = "--quick" in sys.argv
SMALL, LARGE = 6_653_480, 665_348_000
UPLOADS, NAMES, CONNECTIONS = (100, 1_000, 100) if QUICK else (1_000, 10_000, 500)
STAGING_MB = 16  # as docs/guide/operations.md has it where a thousand clients may send at once: two of these updates lie in memory
IDLE_SECONDS = 10 if QUICK else 60
MIB = 1 << 20


def row(what, *figures, mark=None, reached=None):
    words = [f"{what:<34}", *figures]
    if mark:
        words.append(f"(mark {mark}: {'reached' if reached else 'not reached'})")
    print("  ".join(words), flush=True)


class Deployment:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.processes = []
        self.run("ca", "init", "--name", "bench")
        self.run("ca", "issue", "coordinator/localhost", "--host", "127.0.0.1", "--out", "coordinator")
        for name in "client", "other":
            self.run("ca", "issue", f"client/{name}", "--out", name)
        (self.folder / "scenario.toml").write_text(SCENARIO)

    def run(self, *words):
        subprocess.run([BUILD / "rivulet", *map(str, words)], cwd=self.folder, check=True, capture_output=True)

    def start(self, program, *words):
        process = subprocess.Popen([BUILD / program, *map(str, words)], cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=open(self.folder / "stderr", "ab"), text=True)
        self.processes.append(process)
        return process

    def load(self, *words):
        done = subprocess.run([BUILD / "deploy_load", *map(str, words)], cwd=self.folder, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def coordinator(self, *words):
        process = self.start("rivulet", "coordinator", *words)
        return process, process.stdout.readline().rsplit(":", 1)[1].strip()

    def end(self, process):
        process.terminate()
        process.communicate()


def memory(process):
    """RssAnon + RssShmem in bytes."""
    lines = pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon:", "RssShmem:"))) << 10


def processor_seconds(process):
    words = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def transfers(deployment):
    for size, turns in ((SMALL, 15),) if QUICK else ((SMALL, 40), (LARGE, 5)):
        for wire, more in ("plaintext", []), ("TLS", [deployment.folder]):
            for line in deployment.load("transfer", size, turns, deployment.folder, *more):
                what, bare, ours, share = (line[key] for key in ("what", "bare", "ours", "share"))
                shares = f"share {share:.2f}, of processor time {line['processor_share']:.2f}"
                if what == "poll":
                    if size == SMALL:
                        row(f"small calls, {wire}", f"{300 / ours:,.0f} a second, gRPC alone {300 / bare:,.0f}, {shares}",
                            mark="0.60" if more else None, reached=share >= 0.6)
                elif what == "spool":
                    if not more:
                        row(f"upload to the spool, {size / 1e6:g} MB", f"{size / ours / 1e9:.2f} GB/s, write {size / bare / 1e9:.2f}, "
                            f"{shares}")
                else:
                    row(f"{what}, {size / 1e6:g} MB, {wire}", f"{size / ours / 1e9:.2f} GB/s, gRPC alone {size / bare / 1e9:.2f}, "
                        f"{shares}", mark="0.80", reached=share >= 0.8)


def folds():
    if not (BUILD / "rivulet_bench").exists():
        return row("check and fold", "there is no rivulet_bench")
    printed = subprocess.run([BUILD / "rivulet_bench", "--benchmark_filter=^fold/100", "--benchmark_format=json"], capture_output=True,
                             text=True, check=True).stdout
    for bench in json.loads(printed)["benchmarks"]:
        figures = [f"{key} {value:.2f}" for key, value in bench.items() if "share" in key or "GB/s" in key]
        row("check and fold, 100 of 6.65 MB", f"{bench['cpu_time']:.0f} {bench['time_unit']} of processor time", *figures)


def visitors(deployment):
    coordinator, port = deployment.coordinator("scenario.toml", "--listen", "127.0.0.1:0", "--insecure", "--db", "visits.sqlite", "--set",
                                               f"data.partition.clients={NAMES + 1}", "--set", f"data.synth.writers={NAMES + 1}", "--set",
                                               "data.synth.examples_per_writer=1")
    before, used = memory(coordinator), processor_seconds(coordinator)
    line, = deployment.load("visit", port, NAMES)
    row(f"{NAMES:,} clients poll once and leave", f"{line['seconds']:.1f} s, {line['failed']} failed, coordinator "
        f"{(processor_seconds(coordinator) - used) / NAMES * 1e6:.0f} us of processor time and {(memory(coordinator) - before) / NAMES:.0f} "
        f"bytes each")
    deployment.end(coordinator)


def uploads(deployment):
    coordinator, port = deployment.coordinator(
        "scenario.toml", "--listen", "127.0.0.1:0", "--insecure", "--db", "uploads.sqlite", "--rounds", 1, "--set", "model.preset=mnist_cnn",
        "--set", f"data.partition.clients={UPLOADS}", "--set", f"data.synth.writers={UPLOADS}", "--set", "data.synth.examples_per_writer=1",
        "--set", f"server.clients_per_round={UPLOADS}", "--set", "evaluation.every=0", "--set",
        f"server.staging_megabytes={STAGING_MB}")
    peak = watch_memory(coordinator)
    begin = time.monotonic()
    done = subprocess.run([BUILD / "many_names", f"127.0.0.1:{port}", str(UPLOADS)], capture_output=True, text=True)
    coordinator.wait()
    if done.returncode != 0:
        sys.exit(done.stderr)
    allowed = 64 * MIB + 2 * SMALL + 2 * SMALL
    row(f"a round of {UPLOADS:,} uploads of 6.65 MB", f"{STAGING_MB} MB staged, {time.monotonic() - begin:.1f} s, coordinator at most {peak() * 1024 / MIB:.0f} MiB",
        mark=f"{allowed / MIB:.0f} MiB", reached=peak() * 1024 <= allowed)


def held_connections(deployment):
    for wire, more in ("plaintext", []), ("TLS", [deployment.folder]):
        each = {}
        for kind in "bare", "ours":
            server = deployment.start("deploy_load", "serve", kind, *more)
            port = server.stdout.readline().strip()
            before = memory(server)
            callers = deployment.start("deploy_load", "hold", kind, port, CONNECTIONS, *more)
            callers.stdout.readline()
            each[kind] = (memory(server) - before) / CONNECTIONS / 1024
            callers.communicate()
            server.communicate()
        row(f"a held connection, {wire}", f"{each['ours']:.1f} KiB, gRPC alone {each['bare']:.1f}, {each['ours'] - each['bare']:.1f} above it",
            mark="8 KiB", reached=each["ours"] - each["bare"] <= 8)


def idle(deployment):
    deployment.run("data", "synth", "digits", "--writers", 2, "--out", "records")
    coordinator, port = deployment.coordinator("--listen", "127.0.0.1:0", "--tls", "coordinator", "--db", "idle.sqlite")
    clients = [deployment.start("rivulet-client", "--coordinator", f"127.0.0.1:{port}", "--tls", name, "--data", "train=records/*.tfrecord",
                                "--state", f"state-{name}") for name in ("client", "other")]
    time.sleep(3)
    before = [processor_seconds(process) for process in (coordinator, *clients)]
    time.sleep(IDLE_SECONDS)
    used = [(processor_seconds(process) - one) / IDLE_SECONDS for process, one in zip((coordinator, *clients), before)]
    row("two clients that wait", f"{max(used[1:]):.3%} of a core each at most, their coordinator {used[0]:.3%}", mark="0.1 % for both",
        reached=sum(used[1:]) < 0.001)
    for process in (*clients, coordinator):
        deployment.end(process)


def main():
    # On a disk: a spool in memory would be measured against itself.
    folder = tempfile.mkdtemp(prefix="rivulet-deploy-", dir=os.environ.get("TMPDIR", "/var/tmp"))
    deployment = Deployment(folder)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", flush=True)
    try:
        transfers(deployment)
        folds()
        visitors(deployment)
        uploads(deployment)
        held_connections(deployment)
        idle(deployment)
    finally:
        for process in deployment.processes:
            if process.poll() is None:
                process.kill()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)


if __name__ == "__main__":
    main()
