"""Names the tests of a ctest log that failed at least once. Exit 1 if one of them is not excused by the list.

    second_tries.py LOG LIST

LIST has a line "name: reason" for each excused test; lines that begin with # are comments. A name may be a pattern of fnmatch:
"e2e.serving_*: reason". An exact name goes before a pattern, and an earlier pattern before a later one. An entry without a
reason, without a letter, or that matches no test of the log is an error: the list is to become shorter."""
import fnmatch
import pathlib
import re
import sys

RUN = re.compile(r"^ *\d+/\d+ Test +#\d+: (\S+) \.*(.*)$", re.MULTILINE)


def excuses(text):
    found = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, reason = (word.strip() for word in line.partition(": "))
            if not reason:
                raise ValueError(f"{name}: an excused test needs its reason, as 'name: reason'")
            if not re.search("[A-Za-z]", name):
                raise ValueError(f"{name} excuses every test: name them, as in 'e2e.serving_*: reason'")
            found[name] = reason
    return found


def entry_of(name, listed):
    """The entry that excuses the test, or None."""
    return name if name in listed else next((entry for entry in listed if fnmatch.fnmatchcase(name, entry)), None)


def verdict(log, listed):
    """Sentences to print, and whether every test that failed is excused."""
    runs = RUN.findall(log)
    failed = sorted({name for name, end in runs if re.search(r"\*\*\*(Failed|Timeout|Exception)", end)})
    said, right = [], True
    for name in failed:
        entry = entry_of(name, listed)
        right &= entry is not None
        said.append(f"{name} failed at least once" + (f" (excused: {listed[entry]})" if entry is not None else ""))
    names = {name for name, _ in runs}
    for entry in sorted(listed):
        if entry not in names and not fnmatch.filter(names, entry):
            right = False
            said.append(f"{entry} is excused, but no test has this name: remove it from the list")
    return said, right


def main():
    log, listed = (pathlib.Path(path).read_text(errors="replace") for path in sys.argv[1:3])
    said, right = verdict(log, excuses(listed))
    for sentence in said:
        print(sentence)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
