"""Pages that follow one call through the code name files and functions that are there."""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = ("a-poll.md", "an-update.md")
ROW = re.compile(r"^\| `([\w/.-]+)` \| `(\w+(?:::\w+)?)` \|", re.M)
# In running text: a function, and where it is defined if a file is named behind it.
NAMED = re.compile(r"`((?:[A-Z]\w+)::\w+)`")


def defines(text, function):
    """Whether a source has the definition: the function's name at the beginning of its line's declaration."""
    return re.search(r"^[^\s/#].*\b%s\(" % re.escape(function), text, re.M) is not None


def faults(root, page, text):
    rows = ROW.findall(text)
    if len(rows) < 5:
        yield f"{page}: {len(rows)} rows with a file and a function"
    for file, function in rows:
        path = root / file
        if not path.is_file():
            yield f"{page}: there is no {file}"
        elif not defines(path.read_text(), function):
            yield f"{page}: {file} does not define {function}"
    known = {function for _, function in rows}
    folders = [root / folder for folder in ("coordinator", "aggregator", "federated/transport")]
    for function in sorted(set(NAMED.findall(text)) - known):
        if not any(defines(path.read_text(), function) for folder in folders for path in folder.rglob("*.cc")):
            yield f"{page}: nothing defines {function}"


class Walks(unittest.TestCase):
    def test_files_and_functions_are_there(self):
        self.assertEqual([fault for page in PAGES for fault in faults(ROOT, page, (ROOT / "docs/internals" / page).read_text())], [])

    def test_a_renamed_function_is_found(self):
        page = (ROOT / "docs/internals" / PAGES[0]).read_text()
        self.assertEqual(list(faults(ROOT, "p", page.replace("`Rounds::Feed`", "`Rounds::Fed`"))), ["p: coordinator/rounds.cc does not define Rounds::Fed"])
        self.assertEqual(list(faults(ROOT, "p", page.replace("coordinator/clients.cc", "coordinator/gone.cc"))), ["p: there is no coordinator/gone.cc"])
        self.assertEqual(list(faults(ROOT, "p", page.replace("JoiningNames::Add", "JoiningNames::Put"))), ["p: nothing defines JoiningNames::Put"])


if __name__ == "__main__":
    sys.exit(unittest.main())
