"""Names the tests of a ctest log that failed at least once. Exit 1 if one of them is not excused by the list.

    second_tries.py LOG LIST

LIST has a line "name: reason" for each excused test; lines that begin with # are comments. An entry without a reason, or of a
test that the log does not have, is an error: the list is to become shorter."""
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
            found[name] = reason
    return found


def verdict(log, listed):
    """Sentences to print, and whether every test that failed is excused."""
    runs = RUN.findall(log)
    failed = sorted({name for name, end in runs if re.search(r"\*\*\*(Failed|Timeout|Exception)", end)})
    said, right = [], True
    for name in failed:
        right &= name in listed
        said.append(f"{name} failed at least once" + (f" (excused: {listed[name]})" if name in listed else ""))
    for name in sorted(set(listed) - {name for name, _ in runs}):
        right = False
        said.append(f"{name} is excused, but no test has this name: remove it from the list")
    return said, right


def main():
    log, listed = (pathlib.Path(path).read_text(errors="replace") for path in sys.argv[1:3])
    said, right = verdict(log, excuses(listed))
    for sentence in said:
        print(sentence)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
