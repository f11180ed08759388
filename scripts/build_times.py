#!/usr/bin/env python3
"""Where a build's time went, from ninja's log and the compile commands. Usage: see scripts/build-times.sh.

Times are those of single commands by the clock; with as many commands at once as there are cores, and nothing else
running, they are processor time. An incremental build's log holds the last time of every command that still counts."""
import argparse
import collections
import json
import os
import re
import shlex
import subprocess
import sys
import time


def read_log(folder):
    """Seconds by output; a command that makes several things is counted under the first."""
    latest = {}
    with open(os.path.join(folder, ".ninja_log")) as log:
        for line in log:
            fields = line.rstrip("\n").split("\t")
            if line.startswith("#") or len(fields) != 5:
                continue
            start, end, _, output, command = fields
            latest[output] = (int(start), int(end), command)
    seconds, seen = {}, set()
    for output, (start, end, command) in latest.items():
        if (start, end, command) in seen:
            continue
        seen.add((start, end, command))
        seconds[output] = (end - start) / 1000
    return seconds


def kind_of(output):
    if output.endswith(".gch"):
        return "precompiled headers"
    if output.endswith(".o"):
        return "sources"
    if ".pb." in output:
        return "generated"
    return "links"


def target_of(output):
    match = re.search(r"([^/]+)\.dir/", output)
    return match.group(1).removesuffix("_objects") if match else os.path.basename(output)


def print_table(title, rows, count):
    print(f"\n{title}")
    for seconds, text in sorted(rows, reverse=True)[:count]:
        print(f"{seconds:8.1f}  {text}")


def show_log(folder, count):
    by_kind, targets = collections.defaultdict(list), collections.defaultdict(lambda: [0.0, 0])
    for output, seconds in read_log(folder).items():
        kind = kind_of(output)
        name = re.sub(r"CMakeFiles/([^/]+)\.dir/", r"\1: ", output)
        by_kind[kind].append((seconds, name))
        if kind != "links":
            targets[target_of(output)][0] += seconds
            targets[target_of(output)][1] += 1
    print("Seconds of commands, whole build")
    for kind, rows in by_kind.items():
        print(f"{sum(row[0] for row in rows):8.1f}  {len(rows)} {kind}")
    print_table("Slowest sources (or batches of sources)", by_kind["sources"], count)
    print_table("Slowest precompiled headers", by_kind["precompiled headers"], count)
    print_table("Slowest links and other steps", by_kind["links"], count)
    print_table("Compilation by target", [(s, f"{name} ({n} units)") for name, (s, n) in targets.items()], 3 * count)


def compile_commands(folder):
    with open(os.path.join(folder, "compile_commands.json")) as commands:
        return [c for c in json.load(commands) if not c["file"].endswith(("cmake_pch.hxx.cxx", ".pb.cc"))]


def without_output_and_pch(command):
    words, kept = shlex.split(command), []
    while words and not re.search(r"(\+\+|g\+\+-\d+|clang[^/]*)$", words[0]):
        words.pop(0)  # ccache and its settings
    i = 0
    while i < len(words):
        if words[i] in ("-o", "-c", "-include", "-MF", "-MT"):
            i += 2
        else:
            kept.append(words[i])
            i += 1
    return [word for word in kept if word not in ("-MD", "-Winvalid-pch")]


def show_headers(folder, root, count):
    """Our own headers, each compiled alone, times how many sources include it, through others too."""
    commands = compile_commands(folder)
    sources = [f for f in subprocess.run(["git", "ls-files", "*.cc", "*.h"], cwd=root, text=True, check=True,
                                         capture_output=True).stdout.split()]
    includes = {}
    for name in sources:
        with open(os.path.join(root, name)) as file:
            includes[name] = set(re.findall(r'^#include "([^"]+)"', file.read(), re.M)) & set(sources)

    def reached(name, found):
        for header in includes[name] - found:
            found.add(header)
            reached(header, found)
        return found

    users = collections.Counter(h for name in sources if name.endswith(".cc") for h in reached(name, set()))
    flags = without_output_and_pch(max(commands, key=lambda c: c["command"].count("-isystem"))["command"])
    rows = []
    for done, (header, used) in enumerate(users.most_common(4 * count)):
        print(f"\rmeasuring {done + 1} of {min(len(users), 4 * count)}", end="", file=sys.stderr)
        before = os.times()
        subprocess.run(flags + ["-fsyntax-only", "-x", "c++", "-include", os.path.join(root, header), "/dev/null"],
                       cwd=folder, capture_output=True)
        after = os.times()
        alone = after.children_user + after.children_system - before.children_user - before.children_system
        rows.append((alone * used, f"{header}: {alone:.2f} s alone, in {used} sources"))
    print("\r", end="", file=sys.stderr)
    print_table("Dearest of our most included headers: seconds alone times sources, precompiled headers set aside",
                rows, count)


def main():
    parser = argparse.ArgumentParser(prog="build-times.sh", description=__doc__)
    parser.add_argument("folder", nargs="?", default="build/release", help="default: build/release")
    parser.add_argument("--headers", action="store_true", help="measure headers too (compiles each alone; minutes)")
    parser.add_argument("--count", type=int, default=15, help="lines of each table (default 15)")
    arguments = parser.parse_args()
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folder = os.path.abspath(arguments.folder)
    if not os.path.exists(os.path.join(folder, ".ninja_log")):
        sys.exit(f"build-times.sh: {arguments.folder} has no .ninja_log; build there first")
    show_log(folder, arguments.count)
    if arguments.headers:
        show_headers(folder, root, arguments.count)


if __name__ == "__main__":
    main()
