"""Runs clang-tidy (16) with the .clang-tidy of the tree, over what a build of this tree compiles.

    scripts/tidy.py                     files that differ from origin/main's merge base, or from the last commit
    scripts/tidy.py --all [FOLDER ...]  everything, or everything below these folders
    scripts/tidy.py --build build/dev   takes the flags from there (build/release)

A preset with unity batches is fine, and several times as fast: headers are parsed once for a batch. GCC's own flags and its
precompiled headers are left out. Exit 1: findings, printed once each."""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
GCC_ONLY = re.compile(r" (--param=\S+|-Wno-maybe-uninitialized|-Winvalid-pch|-W(?:all|extra|error)\b)")
FINDING = re.compile(r"^(/[^:]+):(\d+):\d+: (?:error|warning): (.*)$")


def changed():
    """Paths that differ from where the branch began, from the last commit, or are not committed."""
    def git(*words):
        run = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False)
        return run.stdout.split() if run.returncode == 0 else None
    base = git("merge-base", "HEAD", "origin/main") or ["HEAD~1"]
    return {*(git("diff", "--name-only", *base) or []), *(git("ls-files", "--others", "--exclude-standard") or [])}


def sources(command):
    """The files of a compile command: itself, or those of its batch."""
    file = pathlib.Path(command["directory"]) / command["file"]
    if "/Unity/" not in str(file):
        return {file}
    return {pathlib.Path(name) for name in re.findall(r'^#include "([^"]+)"', file.read_text(), re.MULTILINE)}


def without_gcc(command, folder):
    """The command for clang: GCC's flags left out, and precompiled headers included as text."""
    def text_of(header):
        copy = folder / f"{hashlib.sha256(header.group(1).encode()).hexdigest()[:12]}.h"
        copy.write_text(pathlib.Path(header.group(1)).read_text().replace("#pragma GCC system_header", ""))
        return f"-include {copy}"
    words = re.sub(r"-include (\S+cmake_pch\.hxx)", text_of, GCC_ONLY.sub("", command["command"]))
    # Boost 1.74 knows coroutines of GCC, and of clang only older ones.
    return {**command, "command": words + " -Wno-everything -DBOOST_ASIO_HAS_CO_AWAIT=1 -DBOOST_ASIO_HAS_STD_COROUTINE=1"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="every file, not only the changed ones")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("folders", nargs="*")
    options = parser.parse_args()
    tidy = shutil.which("clang-tidy-16")
    if tidy is None:
        sys.exit("clang-tidy-16 is not installed. Install the package clang-tidy-16.")
    database = options.build / "compile_commands.json"
    if not database.exists():
        sys.exit(f"{database} does not exist. Configure first: cmake --preset {options.build.name}")
    wanted = None if options.all else {ROOT / path for path in changed()}
    folders = [ROOT / folder for folder in options.folders]

    def concerns(file):
        return (wanted is None or file in wanted) and file.is_relative_to(ROOT) and not file.is_relative_to(ROOT / "build") and (
            not folders or any(file.is_relative_to(folder) for folder in folders))

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        # A source that several programs compile is read once.
        commands, seen = [], set()
        for command in json.loads(database.read_text()):
            files = {file for file in sources(command) if concerns(file)} - seen
            if files and command["file"].endswith((".cc", ".cxx")):
                seen |= files
                commands.append(without_gcc(command, folder))
        (folder / "compile_commands.json").write_text(json.dumps(commands))

        def check(command):
            run = subprocess.run([tidy, "-p", name, f"--config-file={ROOT / '.clang-tidy'}", "--quiet", command["file"]],
                                 capture_output=True, text=True, check=False)
            return run.stdout.splitlines()

        findings = set()
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for at, lines in enumerate(pool.map(check, commands)):
                for line in lines:
                    found = FINDING.match(line)
                    if found:
                        file = pathlib.Path(os.path.normpath(found.group(1)))
                        findings.add((file.relative_to(ROOT).as_posix() if file.is_relative_to(ROOT) else str(file),
                                      int(found.group(2)), found.group(3)))
                if sys.stderr.isatty():
                    print(f"\r{at + 1} of {len(commands)}", end="", file=sys.stderr, flush=True)
    for file, line, said in sorted(findings):
        print(f"{file}:{line}: {said}")
    print(f"{len(commands)} compilations, {len(findings)} findings", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
