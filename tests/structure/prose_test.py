"""Prose keeps the rules of plain words: at most 30 words in a sentence, and hardly a "what" or "who" as a pronoun.

scripts/prose.py counts in README.md and docs/. scripts/prose_code.py counts in the code, where no pronoun and no word of the
dialect is allowed: in comments that open headers, in the folders' READMEs, in help texts, in docs of ops, algorithms and
scenario keys, and in the Python package's docstrings. Pages of NOT_YET do not keep
the rules yet, and no page is added to it."""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import prose  # noqa: E402: it is found by the line above
import prose_code  # noqa: E402

NOT_YET = {}


class Prose(unittest.TestCase):
    def test_pages_keep_the_rules(self):
        pages = prose.pages_of(ROOT)
        self.assertGreater(len(pages), 30)
        for path in pages:
            name = path.relative_to(ROOT).as_posix()
            if name not in NOT_YET:
                self.assertEqual(prose.Page(path.read_text()).faults(), [], name)

    def test_the_list_only_shrinks(self):
        for name in NOT_YET:
            self.assertTrue(prose.Page((ROOT / name).read_text()).faults(), f"{name} keeps the rules: take it off the list")

    def check(self, path, text):
        self.assertEqual(prose_code.Plain(text).faults(), [], path.relative_to(ROOT).as_posix())

    def test_headers_open_in_plain_words(self):
        for folder in prose_code.FOLDERS:
            headers = prose_code.headers_of(ROOT, folder)
            self.assertTrue(headers, folder)
            for path in headers:
                head = prose_code.head_of(path.read_text())
                self.assertTrue(head, f"{path}: no comment opens it")
                self.check(path, head)

    def test_pages_of_folders_keep_the_rules(self):
        for folder in prose_code.FOLDERS:
            for path in sorted((ROOT / folder).rglob("README.md")):
                self.check(path, path.read_text())

    def test_internals_are_free_of_the_dialect(self):
        for path in sorted((ROOT / "docs/internals").glob("*.md")):
            if path.name != "style.md":  # which lists its words
                self.check_within(path, path.read_text())

    def test_help_texts_keep_the_rules(self):
        found = 0
        for path in prose_code.sources_of(ROOT, "cli"):
            for texts in prose_code.help_of(path.read_text()):
                found += len(texts)
                for text in texts:
                    self.check(path, text)
        self.assertGreater(found, 300)

    def check_within(self, path, text):
        self.assertEqual(prose_code.Plain(text).faults_within(), [], path.relative_to(ROOT).as_posix())

    def test_docs_of_ops_keep_the_rules(self):
        found = 0
        for path in prose_code.sources_of(ROOT, "engine/ops"):
            for text in prose_code.docs_of(path.read_text()):
                found += 1
                self.check_within(path, text)
        self.assertGreater(found, 300)

    def test_docs_of_pieces_and_keys_and_messages_keep_the_rules(self):
        for folder in prose_code.PLAIN_TEXTS:
            found = 0
            for path in prose_code.sources_of(ROOT, folder):
                for text in prose_code.literals_of(path.read_text()):
                    found += 1
                    self.check_within(path, text)
            self.assertGreater(found, 0, folder)

    def test_docstrings_of_the_python_package_keep_the_rules(self):
        found = 0
        for path in sorted((ROOT / "python/rivulet").glob("*.py")):
            for text in prose_code.python_docs_of(path.read_text()):
                found += bool(text)
                self.check_within(path, text)
        self.assertGreater(found, 300)

    def test_docs_and_docstrings_are_found(self):
        source = 'RIVULET_OP("Add")\n    .Doc("The sum "\n "of x.");\n// .Doc("not this")\n'
        self.assertEqual(list(prose_code.docs_of(source)), ["The sum of x."])
        self.assertEqual(list(prose_code.literals_of('x("a step of it is\\n" "w ← w + Σ of a and b");')), ["a step of it is"])
        self.assertEqual(list(prose_code.literals_of('Run("SELECT a FROM b WHERE who");')), [])
        module = '"""A pool.\n\n>>> what\n\n==  ==\nwho\n==  ==\n"""\ndef grow():\n    """Adds one."""\n'
        self.assertEqual([" ".join(doc.split()) for doc in prose_code.python_docs_of(module)], ["A pool.", "Adds one."])

    def test_heads_comments_and_help_are_found(self):
        header = "// A pool.\n//\n//   Pool pool;\n// It grows.\n#pragma once\n\n// Adds one.\nint Add(int x);  // to it\n"
        self.assertEqual(prose.Page(prose_code.head_of(header)).sentences, ["A pool.", "It grows."])
        self.assertEqual(prose_code.comments_of(header).split("\n\n"), ["Adds one.", "to it"])
        source = ('Command c{.name = "x", .summary = "Print a "\n "table."};\n// .Flag("--no", &n, "not this")\n'
                  'c.Option("--rows", "N", &rows, Text("at most (N) rows"))\n .Flag("--all", &all, "all rows");\n')
        self.assertEqual(prose_code.help_of(source), (["Print a table."], ["at most (N) rows", "all rows"]))
        self.assertEqual(prose_code.texts_of(source), "at most (N) rows")

    def test_planted_faults_in_code_are_found(self):
        self.assertEqual(prose_code.Plain("Pool of threads.").faults(), [])
        faults = prose_code.Plain("What a pool is told by itself. Word" + " word" * 30).faults()
        self.assertEqual([fault.split(":")[0] for fault in faults], ["31 words", "a pronoun", "dialect", "no noun phrase"])

    def test_code_tables_and_headings_are_no_prose(self):
        page = prose.Page("# What is this\n\nOne `a b c` two.  Three e.g. four?\n```\nwhat code\n```\n| who | what |\n- five\n- six, [seven](x.md)\n"
                          "<!-- who -->\n")
        self.assertEqual(page.sentences, ["One Code two.", "Three e.g four?", "five", "six, seven"])
        self.assertEqual((page.words, page.pronouns), (9, 0))

    def test_planted_faults_are_found(self):
        self.assertEqual(prose.Page("word " * 30).faults(), [])
        self.assertEqual([fault.split(":")[0] for fault in prose.Page("word " * 31).faults()], ["31 words"])
        self.assertEqual(prose.Page("What is asked here? ").faults(), [])
        self.assertEqual(len(prose.Page("What is asked of whoever reads?").faults()), 1)


if __name__ == "__main__":
    sys.exit(unittest.main())
