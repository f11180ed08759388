"""Draws random graphs of every family, computes them with TensorFlow and compares what Rivulet makes of the same files.

  python3 random_graphs.py BUILD/conformance_tensorflow_graphs --families tensorflow-families.txt [--seed N] [--each 2] [--only NAME,…]

Needs TensorFlow. Prints a table by family and outcome: agree, refused (by name), wrong, crash. Exits with 1 when a graph is
wrong or crashes.

  python3 random_graphs.py BUILD/conformance_tensorflow_graphs --keep FOLDER --reuse

Compares the files that an earlier run wrote into FOLDER, and nothing else: TensorFlow is not needed.

  python3 random_graphs.py BUILD/conformance_tensorflow_graphs --families sample/families.txt --each 1 --record sample/families.jsonl

Writes graphs with their values as text, a line each: the suite's sample for machines without TensorFlow.
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

def compare(runner, folder, cases):
    """What `runner` says of each case; one that ends it is a crash, and the rest is run again."""
    outcome = {}
    rest = list(cases)
    while rest:
        done = subprocess.run([runner, str(folder)] + rest, capture_output=True, text=True)
        for line in done.stdout.splitlines():
            answer = json.loads(line)
            outcome[answer["case"]] = (answer["outcome"], answer["message"])
        rest = [case for case in rest if case not in outcome]
        if rest:
            outcome[rest[0]] = ("crash", done.stderr.strip()[-300:] or f"exit {done.returncode}")
            rest = rest[1:]
    return outcome


def recorded(folder):
    return sorted(file.stem for file in folder.glob("*.json"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runner")
    parser.add_argument("--families", help="names of families, one a line; each must be known here")
    parser.add_argument("--seed", type=int, default=20261128)
    parser.add_argument("--each", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", help="a folder for the files")
    parser.add_argument("--reuse", action="store_true", help="compare the files of --keep again, without TensorFlow")
    parser.add_argument("--record", metavar="FILE", help="write the graphs that agree as lines of text")
    parser.add_argument("--json")
    args = parser.parse_args()
    if args.reuse and not args.keep:
        parser.error("--reuse compares the files of --keep: name the folder")
    names = []
    if args.families:
        lines = pathlib.Path(args.families).read_text().splitlines()
        names = [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]
    wanted = set(args.only.split(",")) if args.only else None
    temporary = tempfile.TemporaryDirectory()
    folder = pathlib.Path(args.keep or temporary.name)
    folder.mkdir(parents=True, exist_ok=True)
    cases, unwritten, texts = [], [], []
    if args.reuse:
        for case in recorded(folder):
            name = case.rsplit(".", 1)[0]
            if (not names or name in names) and (wanted is None or name in wanted):
                cases.append(case)
    else:
        import draw_graphs

        names = names or sorted(draw_graphs.FAMILIES)
        unknown = [name for name in names if name not in draw_graphs.FAMILIES]
        if unknown:
            print("families without a builder:", " ".join(unknown))
        for name in names:
            if name in unknown or (wanted is not None and name not in wanted):
                continue
            for k in range(args.each):
                case = f"{name}.{k}"
                try:
                    made = draw_graphs.drawn_case(args.seed, name, k)
                except Exception as error:  # a draw that TensorFlow itself refuses
                    unwritten.append((case, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"))
                    continue
                draw_graphs.write(folder, case, *made)
                if args.record:
                    texts.append(draw_graphs.as_line(case, *made))
                cases.append(case)
    outcome = compare(args.runner, folder, cases)
    counts = collections.Counter(kind for kind, _ in outcome.values())
    reasons = collections.defaultdict(list)
    for case, (kind, message) in sorted(outcome.items()):
        if kind != "agree":
            print(f"{kind:8} {case:28} {message[:200]}")
            reasons[kind].append(case)
    for case, message in unwritten:
        print(f"unwritten {case:28} {message[:160]}")
    families = len({case.rsplit(".", 1)[0] for case in outcome})
    print(f"{len(outcome)} graphs of {families} families: " + ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({c: list(o) for c, o in sorted(outcome.items())}, indent=1))
    if args.record:
        kept = [line for case, line in zip(cases, texts) if outcome[case][0] == "agree"]
        pathlib.Path(args.record).write_text("".join(f"{line}\n" for line in kept))
    sys.exit(1 if counts["wrong"] or counts["crash"] else 0)


if __name__ == "__main__":
    main()
