"""Every parser of outside bytes has a row in docs/internals/parsers.md, with a bound and a fuzz target; every row names what there is."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).parents[2]
# Every folder of sources: a new one is found without a list that names it.
ROOMS = sorted(path.name for path in ROOT.iterdir()
               if path.is_dir() and path.name not in ("build", "cmake", "docs", "examples", "scripts", "tests") and path.name[0] != ".")
# A function that gives StatusOr or Status of bytes, and is named as such functions are.
DECLARED = re.compile(r"^[ ]{0,2}(?:static )?StatusOr<.*?> ((?:Parse|Read|Decode|Unpack|From(?:Bytes|Message))\w*)\(", re.M)
# Not of outside bytes: why.
WITHIN = {
    "ReadAll": "a file's bytes, whoever reads them",
    "ReadClocks": "a device's clocks",
    "ReadFeature": "a part of a plan, read by Plan::Read",
    "ReadLabels": "labels of a data set that is open",
    "ReadState": "a client's state in this process (and, of bytes, the row of that name)",
    "ReadOwn": "settings that a scenario or a plan has read",
    "ReadStateOf": "a client's state in this process",
    "Read": "members of classes that have a row under the class's name, or read what this process wrote",
    "ParsePaper": "papers that the program ships",
}


def rows():
    """{parser: (bound, targets, inputs)}."""
    found = {}
    for line in (ROOT / "docs/internals/parsers.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[0].startswith("`"):
            found[cells[0].strip("`")] = tuple(cells[2:])
    return found


def declared():
    """{parser: header}; a member is named with its class where it is called as others are."""
    found = {}
    for room in ROOMS:
        for header in sorted((ROOT / room).rglob("*.h")):
            text = header.read_text()
            for match in DECLARED.finditer(text):
                name = match[1]
                if name in ("Parse", "Read", "FromBytes", "ParseStored", "Decode"):
                    owners = re.findall(r"^(?:class|struct) (\w+)[^;]*\{", text[: match.start()], re.M)
                    name = f"{owners[-1]}::{name}" if owners else name
                found[name] = str(header.relative_to(ROOT))
    return found


def targets():
    text = "".join(path.read_text() for path in sorted((ROOT / "tests/fuzz/targets").glob("*.cc")))
    return set(re.findall(r'Registered \w+\{\s*\{"(\w+)"', text))


class Parsers(unittest.TestCase):
    def test_every_parser_has_a_row(self):
        named = rows()
        for parser, header in declared().items():
            short = parser.rpartition("::")[2]
            if short in WITHIN and parser not in named:
                continue
            self.assertTrue(parser in named or short in named,
                            f"{header}: {parser} reads bytes and has no row in docs/internals/parsers.md (or a reason in {__file__})")

    def test_every_kind_of_outside_bytes_is_there(self):
        named = rows()
        for parser in ("HttpServer", "ReadRevocationList", "ReadRequest", "LoadIdentity", "History::Open", "History::Import",
                       "Invitation::FromBytes", "FromMessage"):
            self.assertIn(parser, named)

    def test_every_row_names_what_there_is(self):
        code = "".join(path.read_text() for room in ROOMS for path in sorted((ROOT / room).rglob("*.h")))
        for parser, (bound, by, _) in rows().items():
            for part in parser.split("::"):
                self.assertTrue(re.search(rf"\b{part}\b", code), f"{parser} is nowhere declared")
            self.assertTrue(bound, parser)
            for name in re.findall(r"`(\w+)`", by):
                self.assertIn(name, targets(), f"the row of {parser} names a fuzz target that there is not")
            for path in re.findall(r"`(tests/[\w/.]+)`", by):
                self.assertTrue((ROOT / path).exists(), path)
            self.assertTrue(re.search(r"`", by), f"{parser} has neither a fuzz target nor a test")

    def test_every_target_is_some_rows(self):
        # Those that attack what programs write for themselves, and parts of what has a row.
        others = {"chunk_messages", "cifar", "codec", "leaf", "metrics_labels", "packed_file", "rule_graph", "slice", "table",
                  "table_import", "tensor_proto"}
        named = {name for _, by, _ in rows().values() for name in re.findall(r"`(\w+)`", by)}
        self.assertEqual(targets() - named - others, set())

    def test_searches_are_numbers_and_each_has_one(self):
        told = {}
        for parser, (_, by, inputs) in rows().items():
            names, numbers = re.findall(r"`(\w+)`", by), [number.strip() for number in inputs.split(", ")]
            self.assertEqual(len(numbers), max(len(names), 1), parser)
            for name, number in zip(names, numbers):
                self.assertTrue(re.fullmatch(r"–|\d{1,3}(,\d{3})*", number), parser)
                self.assertEqual(told.setdefault(name, number), number, name)


if __name__ == "__main__":
    unittest.main()
