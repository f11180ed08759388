"""The whole suite several times over, in random order and under load (scripts/repeat-tests.sh).

One turn runs every test that ctest knows of the tree once. Tests of one program of GoogleTest's run in one process, in an order that
--gtest_shuffle draws from the turn's seed, so that what one leaves behind meets any other; all else runs as ctest would start it. Programs
and other tests come in an order drawn from the seed too, --jobs of them at a time, beside --load processes that do nothing but compute.

A program that dies, or stands still for longer than any one of its tests may take, is told with the test it was at, and the tests behind
that one are run by themselves. Each result is a line of JSON in FOLDER/results (the turn, the program or test, its seed, seconds, how many
tests, which failed); what a failed one wrote lies beside it. Whatever has its line is not run again, until --anew.

The exit status is 1 if anything has failed in any turn, 0 if all turns are done and nothing has.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

STANDS_STILL = 300.0  # seconds without a word where no test has a limit of its own


class Stopped(Exception):
    """Somebody has ended this program: what it was at is done again."""


class Running:
    """The processes that are under way, which end with this one."""

    def __init__(self):
        self.lock, self.processes, self.stopped = threading.Lock(), set(), False

    def begin(self, *arguments, **options):
        with self.lock:
            if self.stopped:
                raise Stopped
            process = subprocess.Popen(*arguments, stdin=subprocess.DEVNULL, start_new_session=True, **options)
            self.processes.add(process)
            return process

    def end(self, process):
        with self.lock:
            self.processes.discard(process)
            if self.stopped:
                raise Stopped

    def stop(self):
        with self.lock:
            self.stopped = True
            for process in self.processes:
                kill(process)


RUNNING = Running()


def kill(process):
    """It, and whatever it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Unit:
    """What is started as one process: a program with all its tests, or one test of another kind."""

    def __init__(self, name, command, environment, folder, limit):
        self.name, self.command, self.environment, self.folder, self.limit = name, command, environment, folder, limit
        self.tests = []  # of GoogleTest's, as it names them; empty: it is one test


def properties_of(test):
    return {entry["name"]: entry["value"] for entry in test.get("properties", [])}


def environment_of(properties):
    environment = dict(entry.split("=", 1) for entry in properties.get("ENVIRONMENT", []))
    for change in properties.get("ENVIRONMENT_MODIFICATION", []):
        name, what = change.split("=", 1)
        operation, _, value = what.partition(":")
        before = environment.get(name, os.environ.get(name, ""))
        if operation == "path_list_prepend":
            environment[name] = value + (os.pathsep + before if before else "")
        elif operation == "set":
            environment[name] = value
        else:
            raise ValueError(f"ctest changes {name} by {operation}, which is not known here")
    return environment


def units_of(listing, only):
    """The units of what `ctest --show-only=json-v1` prints, by name: those that are `only`, by their own name or by ctest's."""
    units = {}
    for test in listing["tests"]:
        if "command" not in test:
            continue
        properties = properties_of(test)
        command = test["command"]
        filters = [word for word in command if word.startswith("--gtest_filter=")]
        name = pathlib.Path(command[0]).name if filters else test["name"]
        if not re.search(only, name) and not re.search(only, test["name"]):
            continue
        unit = units.get(name)
        if unit is None:
            unit = units[name] = Unit(name, command[:1] if filters else command, environment_of(properties),
                                      properties.get("WORKING_DIRECTORY"), 0.0)
        unit.limit = max(unit.limit, float(properties.get("TIMEOUT", STANDS_STILL)))
        if filters:
            unit.tests.append(filters[0].partition("=")[2])
    return units


def order_of(units, seed):
    names = sorted(units)
    random.Random(seed).shuffle(names)
    return names


RUNS = re.compile(r"^\[ RUN +\] (\S+)", re.M)
ENDED = re.compile(r"^\[ +(FAILED|OK|SKIPPED) +\] ([^\s,]+).* \(\d+ ms\)$", re.M)


def read_gtest(log):
    """(tests that ended, those of them that failed, the one that had begun and not ended) of a program's output."""
    ended = {match[2]: match[1] for match in ENDED.finditer(log)}
    begun = RUNS.findall(log)
    at = begun[-1] if begun and begun[-1] not in ended else None
    return list(ended), [name for name, how in ended.items() if how == "FAILED"], at


def start(command, unit, log, limit):
    """Its exit status; None: it said nothing for `limit` seconds and was killed."""
    environment = {**os.environ, **unit.environment}
    with open(log, "wb") as out:
        process = RUNNING.begin(command, stdout=out, stderr=subprocess.STDOUT, env=environment, cwd=unit.folder)
        size, since, status = 0, time.monotonic(), None
        while True:
            try:
                status = process.wait(timeout=1)
                break
            except subprocess.TimeoutExpired:
                pass
            now = os.path.getsize(log)
            if now != size:
                size, since = now, time.monotonic()
            elif time.monotonic() - since > limit:
                kill(process)
                process.wait()
                break
        RUNNING.end(process)
        return status


def run_unit(unit, turn_seed, log, slower):
    """(seconds, tests, failures by name) of one turn of one unit."""
    began, limit = time.monotonic(), unit.limit * slower
    if not unit.tests:
        status = start(unit.command, unit, log, limit)
        failed = {} if status == 0 else {unit.name: "stood still" if status is None else f"ended with {status}"}
        return time.monotonic() - began, 1, failed
    failed, left, logs, tests = {}, list(unit.tests), b"", 0
    while left:
        chosen = [] if len(left) == len(unit.tests) else ["--gtest_filter=" + ":".join(left)]
        status = start(unit.command + chosen + ["--gtest_shuffle", f"--gtest_random_seed={turn_seed % 99999 + 1}", "--gtest_color=no"],
                       unit, log, limit)
        written = log.read_bytes()
        logs += written
        ended, bad, at = read_gtest(written.decode(errors="replace"))
        tests += len(ended)
        failed.update({f"{unit.name} {name}": "failed" for name in bad})
        if at is None:
            if status != 0 and not bad:
                failed[unit.name] = f"ended with {status} beside its tests"
            break
        tests += 1
        failed[f"{unit.name} {at}"] = "stood still" if status is None else f"the program ended with {status}"
        left = [name for name in left if name not in set(ended) | {at}]
    log.write_bytes(logs)
    return time.monotonic() - began, tests, failed


def load(processes):
    """So many processes that compute for ever, at the tests' own priority."""
    return [RUNNING.begin([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]


def tell(results):
    """What all lines come to; how many tests failed in some turn."""
    runs, tests, failures = 0, 0, {}
    for line in results.read_text().splitlines() if results.exists() else []:
        entry = json.loads(line)
        runs, tests = runs + 1, tests + entry["tests"]
        for name, how in entry["failed"].items():
            failures.setdefault(name, []).append(f"turn {entry['turn']} (seed {entry['seed']}): {how}")
    for name in sorted(failures):
        print(f"FAILED {name}: {'; '.join(failures[name])}")
    print(f"{tests} tests in {runs} runs of programs, {len(failures)} of them failed at least once")
    return len(failures)


def main(arguments):
    cores = os.cpu_count() or 1
    parser = argparse.ArgumentParser(prog="scripts/repeat-tests.sh", description=__doc__.splitlines()[0])
    parser.add_argument("tree", nargs="?", default="build/release", help="a built tree [build/release]")
    parser.add_argument("--times", type=int, default=10, help="turns in all [10]")
    parser.add_argument("--load", type=int, default=cores, help="processes that compute beside the tests [one a core]")
    parser.add_argument("--jobs", type=int, default=cores, help="programs at a time [one a core]")
    parser.add_argument("--only", default="", help="programs and tests whose name has this regular expression")
    parser.add_argument("--seed", type=int, default=1, help="of the first turn; each later one has the next [1]")
    parser.add_argument("--results", type=pathlib.Path, help="a folder [TREE/repeated]")
    parser.add_argument("--anew", action="store_true", help="forgets what earlier calls have done")
    options = parser.parse_args(arguments)

    listing = json.loads(subprocess.run(["ctest", "--test-dir", options.tree, "--show-only=json-v1"], check=True, capture_output=True,
                                        text=True).stdout)
    units = units_of(listing, options.only)
    if not units:
        sys.exit(f"scripts/repeat-tests.sh: {options.tree} has no test whose name has '{options.only}'")
    folder = options.results or pathlib.Path(options.tree) / "repeated"
    if options.anew and folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / "results"
    done = {(entry["turn"], entry["unit"]) for entry in map(json.loads, results.read_text().splitlines())} if results.exists() else set()
    slower = 1 + (options.load + options.jobs) / cores  # a limit of ctest's is for a machine of its own
    lock = threading.Lock()

    def do(turn, name):
        if (turn, name) in done:
            return
        seed = options.seed + turn - 1
        log = folder / f"turn-{turn}-{name}.log"
        seconds, tests, failed = run_unit(units[name], seed, log, slower)
        if not failed:
            log.unlink()
        with lock:
            with open(results, "a") as lines:
                lines.write(json.dumps({"turn": turn, "unit": name, "seed": seed, "seconds": round(seconds, 1), "tests": tests,
                                        "failed": failed}) + "\n")
            for test, how in failed.items():
                print(f"turn {turn}: FAILED {test}: {how} ({log})", flush=True)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    load(options.load)
    try:
        for turn in range(1, options.times + 1):
            began = time.monotonic()
            pool = concurrent.futures.ThreadPoolExecutor(options.jobs)
            try:
                list(pool.map(lambda name, turn=turn: do(turn, name), order_of(units, options.seed + turn - 1)))
            except BaseException:
                RUNNING.stop()
                raise
            finally:
                pool.shutdown(cancel_futures=True)
            print(f"turn {turn} of {options.times}: {len(units)} programs, {time.monotonic() - began:.0f} s", flush=True)
    except KeyboardInterrupt:
        print("stopped; the same call goes on")
        return 1
    finally:
        RUNNING.stop()
    return 1 if tell(results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
