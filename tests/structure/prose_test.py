"""The pages that people read keep the rules of plain words: at most 30 words in a sentence, and hardly a "what" or
"who" as a pronoun. scripts/prose.py counts; the pages of NOT_YET do not keep them yet, and no page is added to it."""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import prose  # noqa: E402: it is found by the line above

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
