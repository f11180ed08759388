"""What searches with libFuzzer have come to, over all runs of a target: scripts/fuzz.sh adds a line a run to a file of
tab-separated numbers and shows the sums.

  fuzz_tally.py add TALLY TARGET "USER SYSTEM" STATUS LOG   a run's line, of the seconds that it took of a core and what
                                                            libFuzzer has logged; then the target's sums
  fuzz_tally.py table TALLY                           the sums of all targets, as a table of Markdown
"""
import collections
import pathlib
import re
import sys

# A run of `seconds` of one core and `inputs`; `edges` of the program were seen by its end, the last of them for the first
# time at the input `newest` (0: none in this run). `found` is what broke, or "-".
Run = collections.namedtuple("Run", "target seconds inputs edges newest found")
SHARE_WITHOUT_NEWS = 0.2  # of all inputs, the last, which have to bring no new edge
BROKEN = re.compile(r"^SUMMARY: \S+ (\S+)|ERROR: libFuzzer: (.+)", re.MULTILINE)


def run_of(target, seconds, status, log):
    """One run by its log. Edges that the corpus at hand reaches are those of runs before."""
    edges = newest = inputs = 0
    begun = False
    for number, kind, seen in re.findall(r"^#(\d+)\s+(\w+)\s+cov: (\d+)", log, re.MULTILINE):
        inputs = int(number)
        if int(seen) > edges and begun:
            newest = inputs
        edges = max(edges, int(seen))
        begun = begun or kind == "INITED"
    total = re.search(r"^stat::number_of_executed_units: (\d+)", log, re.MULTILINE)
    broken = BROKEN.search(log)
    found = "-" if status == 0 else (broken[1] or broken[2]) if broken else f"exit {status}"
    return Run(target, seconds, int(total[1]) if total else inputs, edges, newest, found.strip())


def runs_of(path):
    """{target: its runs in order} of a tally."""
    runs = collections.defaultdict(list)
    for line in pathlib.Path(path).read_text().splitlines():
        target, seconds, inputs, edges, newest, found = line.split("\t")
        runs[target].append(Run(target, int(seconds), int(inputs), int(edges), int(newest), found))
    return runs


def state_of(runs):
    """"broken", "not finished" (a new edge in the last fifth of all inputs) or "finished"."""
    if runs[-1].found != "-":
        return f"broken: {runs[-1].found}"
    total = sum(run.inputs for run in runs)
    newest = before = 0
    for run in runs:
        newest = before + run.newest if run.newest else newest
        before += run.inputs
    return "not finished" if newest > (1 - SHARE_WITHOUT_NEWS) * total else "finished"


def sums_of(runs):
    """Seconds, inputs, inputs a second, edges, state."""
    seconds, inputs = sum(run.seconds for run in runs), sum(run.inputs for run in runs)
    return seconds, inputs, inputs // max(seconds, 1), runs[-1].edges, state_of(runs)


def table(tally):
    lines = ["| target | seconds | inputs | a second | edges | |", "| --- | --- | --- | --- | --- | --- |"]
    for target, runs in sorted(runs_of(tally).items()):
        seconds, inputs, rate, edges, state = sums_of(runs)
        lines.append(f"| `{target}` | {seconds} | {inputs:,} | {rate:,} | {edges:,} | {state} |")
    return "\n".join(lines)


def main(arguments):
    if arguments[0] == "table":
        print(table(arguments[1]))
        return
    tally, target, seconds, status, log = arguments[1:]
    run = run_of(target, round(sum(map(float, seconds.split()))), int(status), pathlib.Path(log).read_text(errors="replace"))
    with open(tally, "a") as file:
        print(*run, sep="\t", file=file)
    seconds, inputs, rate, edges, state = sums_of(runs_of(tally)[target])
    print(f"{target:24} {seconds:6} s {inputs:12} inputs {rate:8} a second {edges:7} edges  {state}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
