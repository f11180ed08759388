#!/usr/bin/env python3
"""Measures of the house: what a change of structure should lower, printed as one table for a checkout.

    scripts/house.py                    this checkout
    scripts/house.py --json             for programs
    scripts/house.py --tree DIR         another checkout, such as a worktree of an earlier commit

Lines and comment share by folder, the classes with the most private methods and guarded members, sources beyond 400 lines, and
rooms that include each other. A room is a folder with sources; a cycle is a set of rooms that reach each other by includes.
Private methods are counted in headers by their declarations, so the figure is a measure for comparison and no parser's truth.
"""
import argparse
import collections
import json
import pathlib
import re
import sys

FOLDERS = ["engine", "dataflow", "certificates", "rpc", "federated", "setup", "client", "aggregator", "coordinator", "inspect", "http", "pages", "simulations", "cli", "tests"]
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
CLASS = re.compile(r"^(?:class|struct) (?:[A-Z_]+(?:\([^)]*\))? )?(\w+)(?: final)?(?: : [^{;]*)?\s*\{", re.M)
# A declaration begins a line two columns in, and a call's parenthesis follows a name.
METHOD = re.compile(r"^  (?!using|friend|return|static_assert|//|RIVULET_)[\w:<>,&*\[\] ]*?[ &*>]~?(\w+)\(", re.M)


def sources(tree, folder):
    return sorted(path for ending in ("*.h", "*.cc", "*.cu") for path in (tree / folder).rglob(ending) if "build" not in path.parts)


def comment_share(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return sum(line.startswith("//") for line in lines), len(lines)


def body_of(text, start):
    """The text of a class from behind its opening brace to the matching one."""
    depth = 1
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[start:at]
    return text[start:]


def classes(tree):
    for folder in FOLDERS:
        if folder == "tests":
            continue
        for path in sources(tree, folder):
            if path.suffix != ".h":
                continue
            text = path.read_text(errors="replace")
            for found in CLASS.finditer(text):
                body = body_of(text, found.end())
                if "private:" not in body:
                    continue
                private = re.sub(r"//[^\n]*", "", body.split(" private:", 1)[1])
                flat = re.sub(r"\{[^{}]*\}", ";", private)  # bodies of inline functions and of plain inner structs
                yield {"class": found[1], "header": str(path.relative_to(tree)), "private_methods": sum(not name.isupper() and "_" not in name[:1] for name in METHOD.findall(flat)),
                       "guarded_members": private.count("GUARDED_BY")}


def room_cycles(tree):
    """Sets of two and more rooms that include each other, by Tarjan's strongly connected components."""
    rooms = {path.parent for folder in FOLDERS if folder != "tests" for path in sources(tree, folder)}
    arrows = collections.defaultdict(set)
    for room in rooms:
        for path in room.iterdir():
            if path.suffix in (".h", ".cc", ".cu"):
                for name in INCLUDE.findall(path.read_text(errors="replace")):
                    target = (tree / name).parent
                    if target in rooms and target != room:
                        arrows[room].add(target)
    index, low, stack, on_stack, found = {}, {}, [], set(), []

    def visit(room):
        index[room] = low[room] = len(index)
        stack.append(room)
        on_stack.add(room)
        for target in sorted(arrows[room]):
            if target not in index:
                visit(target)
                low[room] = min(low[room], low[target])
            elif target in on_stack:
                low[room] = min(low[room], index[target])
        if low[room] == index[room]:
            component = []
            while not component or component[-1] != room:
                component.append(stack.pop())
                on_stack.discard(component[-1])
            if len(component) > 1:
                found.append(sorted(str(member.relative_to(tree)) for member in component))

    sys.setrecursionlimit(10000)
    for room in sorted(rooms):
        if room not in index:
            visit(room)
    return sorted(found)


def measure(tree):
    folders = []
    for folder in FOLDERS:
        texts = [path.read_text(errors="replace") for path in sources(tree, folder)]
        comments, lines = map(sum, zip(*map(comment_share, texts))) if texts else (0, 0)
        folders.append({"folder": folder, "files": len(texts), "lines": sum(text.count("\n") for text in texts),
                        "comments": round(comments / lines, 3) if lines else None})
    long = [{"file": str(path.relative_to(tree)), "lines": count} for folder in FOLDERS if folder != "tests"
            for path in sources(tree, folder) if (count := path.read_text(errors="replace").count("\n")) > 400]
    largest = sorted(classes(tree), key=lambda found: (-found["private_methods"], found["class"]))[:5]
    return {"folders": folders, "largest_classes": largest, "sources_over_400_lines": sorted(long, key=lambda f: -f["lines"]),
            "room_cycles": room_cycles(tree)}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--tree", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    arguments.add_argument("--json", action="store_true")
    given = arguments.parse_args()
    house = measure(given.tree.resolve())
    if given.json:
        print(json.dumps(house, indent=1))
        return
    print(f"{'folder':<14}{'files':>7}{'lines':>9}{'comments':>10}")
    for row in house["folders"]:
        share = "" if row["comments"] is None else f"{row['comments']:.1%}"
        print(f"{row['folder']:<14}{row['files']:>7}{row['lines']:>9}{share:>10}")
    print(f"\n{'private methods':>15}{'guarded':>9}  class")
    for row in house["largest_classes"]:
        print(f"{row['private_methods']:>15}{row['guarded_members']:>9}  {row['class']} ({row['header']})")
    print(f"\nsources over 400 lines: {len(house['sources_over_400_lines'])}")
    for row in house["sources_over_400_lines"]:
        print(f"{row['lines']:>15}  {row['file']}")
    print(f"\ncycles among rooms: {len(house['room_cycles'])}")
    for cycle in house["room_cycles"]:
        print("  " + ", ".join(cycle))


if __name__ == "__main__":
    main()
