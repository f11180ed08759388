"""Would the tests notice? Plants single changes in a folder's code (a sign, a bound, a condition, a dropped check, swapped
arguments), builds what changed and runs the folder's tests; one that they do not notice is a survivor. See mutate.sh."""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parents[1]
# By folder: the tests that are to notice, each with the cases of it that are the folder's.
FOLDERS = {
    "engine/io": {"engine_io_test": "*"},
    "engine/kernels": {"engine_kernels_test": "*", "engine_ops_test": "*", "conformance_ops_test": "*",
                       "engine_kernels_cuda_test": "*"},
    "federated/aggregation": {"federated_test": "*", "federated_algorithms_test": "RobustRules*"},
    "coordinator/rounds": {"rounds_test": "*-*RunMachineLatestTest.AnyEvents*"},
    "coordinator/intake": {"coordinator_test": "*Intake*:Staging*:Upload*:ReadUpdate*:Pot*:*SitePartial*:ReportStore*:"
                                               "AggregatorSessions*:*OneBadClient*:AcceptedReportsTest*:*Resume*"},
}
# A change may leave a name unused or `&&` within `||`: it is the tests that are asked, not the compiler's warnings.
QUIET = "".join(f'#pragma GCC diagnostic ignored "-W{name}"\n' for name in
                ("parentheses", "unused-variable", "unused-but-set-variable", "unused-parameter", "bool-compare", "type-limits"))
CHANGES = [  # kind, what is found, what it becomes
    ("sign", r" \+ ", " - "), ("sign", r" - ", " + "), ("sign", r" \+= ", " -= "), ("sign", r" -= ", " += "),
    ("bound", r" <= ", " < "), ("bound", r" < ", " <= "), ("bound", r" >= ", " > "), ("bound", r" > ", " >= "),
    ("bound", r"(?<=[ (])0(?=[;,) ])", "1"), ("bound", r"(?<=[ (])1(?=[;,) ])", "2"),
    ("condition", r" == ", " != "), ("condition", r" != ", " == "), ("condition", r" && ", " || "),
    ("condition", r" \|\| ", " && "), ("condition", r"(?<=[(] )!|(?<=[(])!(?=\w)", ""),
    ("condition", r"\btrue\b", "false"), ("condition", r"\bfalse\b", "true"),
    ("check", r"^( *)RIVULET_RETURN_IF_ERROR\((.*)\);$", r"\1(void)(\2);"),
    ("check", r"\bif \((.+)\) (return (?:[A-Z]\w+\(|\w*[sS]tatus).*)$", r"if ((\1) && false) \2"),
    ("arguments", r"\b(\w+)\((\w+), (\w+)\)", r"\1(\3, \2)"),
]


def mutants_of(source, folder):
    """(file, line from 0, kind, the line as it becomes), each a single change."""
    found = []
    for path in sorted((source / folder).rglob("*")):
        if path.suffix not in (".cc", ".h"):
            continue
        for number, line in enumerate(path.read_text().splitlines()):
            code = line.split("//")[0]
            if not code.strip() or code.lstrip().startswith(("#", "*", "static_assert", "using", "template")):
                continue
            texts = [match.span() for match in re.finditer(r'"(?:[^"\\]|\\.)*"', code)]
            for kind, old, new in CHANGES:
                for match in re.finditer(old, code):
                    if any(begin < match.end() and match.start() < end for begin, end in texts) and kind != "check":
                        continue
                    changed = code[:match.start()] + match.expand(new) + code[match.end():]
                    if changed != code:
                        found.append((str(path.relative_to(source)), number, kind, changed))
    return found


def copy_tree(source):
    """The files as they stand, but for what git ignores: the checkout itself is never changed. What is the same keeps its time."""
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=TOP, check=True,
                           capture_output=True).stdout.decode().split("\0")
    for name in filter(None, names):
        old, new = TOP / name, source / name
        if old.is_file() and not (new.exists() and new.read_bytes() == old.read_bytes()):
            new.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(old, new)


def run_tests(build, tests, limit):
    """None where all pass, or what noticed."""
    for test, cases in tests.items():
        program = next(path for path in build.rglob(test) if path.is_file() and os.access(path, os.X_OK))
        try:
            done = subprocess.run([program, f"--gtest_filter={cases}", "--gtest_fail_fast", "--gtest_brief=1"], cwd=program.parent,
                                  capture_output=True, text=True, errors="replace", timeout=limit, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return f"{test} does not end"
        if done.returncode != 0:
            failed = re.search(r"\[  FAILED  \] ([\w/.]+)", done.stdout)
            return failed[1] if failed else f"{test} ends with {done.returncode}"
    return None


def plant(path, number, becomes, ninja, build, tests, limit):
    """(outcome, what noticed) of the line as it becomes; the file is as it was when this returns."""
    text = path.read_text()
    lines = text.split("\n")
    lines[number] = becomes
    try:
        path.write_text(QUIET + "\n".join(lines))
        built = subprocess.run(ninja, capture_output=True).returncode == 0
        by = run_tests(build, tests, limit) if built else None
    finally:
        path.write_text(text)
    return "does not compile" if not built else "caught" if by else "survived", by


def try_again(known, source, *how):
    """Survivors of earlier calls under the tests as they are now: where they are caught, the entry says so."""
    for entry in known:
        if entry["outcome"] != "survived":
            continue
        path = source / entry["file"]
        places = [number for number, line in enumerate(path.read_text().split("\n")) if line == entry["was"]]
        if places:
            # Lines move as files are mended.
            nearest = min(places, key=lambda number: abs(number + 1 - entry["line"]))
            outcome, entry["by"] = plant(path, nearest, entry["becomes"], *how)
            entry["outcome"] = "caught after mending" if outcome == "caught" else "survived"
        else:
            entry["outcome"] = "gone"
        print(f"{entry['outcome']:20} {entry['file']}:{entry['line']} {entry['becomes'].strip()}" +
              (f"   by {entry['by']}" if entry["by"] else ""), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", choices=FOLDERS)
    parser.add_argument("--mutants", type=int, default=30, help="so many that compile, those of the results counted [30]")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=pathlib.Path, help="gone on with where it is there [build/mutate/FOLDER-SEED.jsonl]")
    parser.add_argument("--again", action="store_true", help="try what survived once more, after tests were mended, and nothing new")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    given = parser.parse_args()
    top = TOP / "build/mutate"
    source, build, tests = top / "source", top / "build", FOLDERS[given.folder]
    results = given.results or top / f"{given.folder.replace('/', '-')}-{given.seed}.jsonl"
    copy_tree(source)
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    ninja = ["ninja", "-C", build, "-j", str(given.jobs), *tests]
    subprocess.run(["cmake", "-S", source, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DRIVULET_UNITY=OFF",
                    "-DRIVULET_TESTS=ON", "-DRIVULET_BENCH=OFF", "-DCMAKE_CXX_FLAGS_RELEASE=-O1", *launcher],
                   check=True, stdout=subprocess.DEVNULL)
    built = subprocess.run(ninja, capture_output=True, text=True, errors="replace")
    if built.returncode != 0:
        errors = [line for line in built.stdout.splitlines() if "error:" in line]
        sys.exit(f"{given.folder}: its tests do not build, each file by itself:\n" + "\n".join(errors[:10] or [built.stdout[-2000:]]))
    before = time.monotonic()
    noticed = run_tests(build, tests, 1800)
    if noticed:
        sys.exit(f"{given.folder}: its tests fail before anything is changed: {noticed}")
    limit = 5 * (time.monotonic() - before) + 20

    known = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    if given.again:
        try_again(known, source, ninja, build, tests, limit)
        results.write_text("".join(json.dumps(entry) + "\n" for entry in known))
        subprocess.run(ninja, stdout=subprocess.DEVNULL)  # as it was
        return
    tried = {(entry["file"], entry["line"], entry["becomes"]) for entry in known}
    candidates = mutants_of(source, given.folder)
    print(f"{given.folder}: {len(candidates)} changes are possible, {len(known)} were tried before", flush=True)
    random.Random(given.seed).shuffle(candidates)
    for file, number, kind, becomes in candidates:
        if sum(entry["outcome"] != "does not compile" for entry in known) >= given.mutants:
            break
        if (file, number + 1, becomes) in tried:
            continue
        was = (source / file).read_text().split("\n")[number]
        outcome, by = plant(source / file, number, becomes, ninja, build, tests, limit)
        entry = {"file": file, "line": number + 1, "kind": kind, "was": was, "becomes": becomes, "outcome": outcome, "by": by}
        known.append(entry)
        with results.open("a") as out:
            out.write(json.dumps(entry) + "\n")
        print(f"{outcome:16} {file}:{number + 1} {kind:10} {becomes.strip()}" + (f"   by {by}" if by else ""), flush=True)
    subprocess.run(ninja, stdout=subprocess.DEVNULL)  # as it was
    counts = {outcome: sum(entry["outcome"] == outcome for entry in known) for outcome in ("caught", "survived")}
    print(f"{given.folder}: {counts['caught']} caught, {counts['survived']} survived")
    for entry in known:
        if entry["outcome"] == "survived":
            print(f"  {entry['file']}:{entry['line']}\n    {entry['was'].strip()}\n    {entry['becomes'].strip()}")


if __name__ == "__main__":
    main()
