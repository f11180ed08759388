"""A run of the suite in which a test needed a second try fails, unless the list excuses that test (.ci/second_tries)."""
import importlib.util
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("second_tries", ROOT / ".ci/second_tries.py")
second_tries = importlib.util.module_from_spec(spec)
spec.loader.exec_module(second_tries)

LOG = """
        Start 1: e2e.live
  1/3 Test    #1: e2e.live .........................***Failed    2.10 sec
        Start 1: e2e.live
  1/3 Test    #1: e2e.live .........................   Passed    1.90 sec
  2/3 Test    #2: Shapes/ReshapeTest.Keeps/0 .......   Passed    0.01 sec
  3/3 Test    #3: e2e.tls ..........................***Timeout  60.00 sec
"""


class SecondTries(unittest.TestCase):
    def test_a_second_try_fails_the_run(self):
        self.assertEqual(second_tries.verdict(LOG, {}),
                         (["e2e.live failed at least once", "e2e.tls failed at least once"], False))

    def test_excused_tests_do_not(self):
        said, right = second_tries.verdict(LOG, second_tries.excuses("# none\ne2e.live: reads a clock\ne2e.tls: slow\n"))
        self.assertTrue(right)
        self.assertEqual(said[0], "e2e.live failed at least once (excused: reads a clock)")

    def test_a_pattern_excuses_the_tests_that_it_matches(self):
        self.assertEqual(second_tries.verdict(LOG, second_tries.excuses("e2e.*: reads clocks\n")),
                         (["e2e.live failed at least once (excused: reads clocks)",
                           "e2e.tls failed at least once (excused: reads clocks)"], True))

    def test_a_pattern_excuses_no_other_test(self):
        said, right = second_tries.verdict(LOG, second_tries.excuses("e2e.l*: reads a clock\n"))
        self.assertFalse(right)
        self.assertEqual(said, ["e2e.live failed at least once (excused: reads a clock)", "e2e.tls failed at least once"])
        self.assertFalse(second_tries.verdict(LOG, second_tries.excuses("E2E.*: other case\ne2e.t*: slow\n"))[1])

    def test_an_exact_name_goes_before_a_pattern_and_the_earlier_pattern_before_the_later(self):
        listed = second_tries.excuses("e2e.*: first\n*.tls: second\ne2e.live: exact\n")
        self.assertEqual([listed[second_tries.entry_of(name, listed)] for name in ("e2e.live", "e2e.tls")], ["exact", "first"])

    def test_a_pattern_needs_a_test_and_a_letter(self):
        said, right = second_tries.verdict(LOG, second_tries.excuses("e2e.*: a\nui.*: b\n"))
        self.assertFalse(right)
        self.assertIn("ui.* is excused, but no test has this name: remove it from the list", said)
        self.assertTrue(second_tries.verdict(LOG, second_tries.excuses("e2e.*: a\nShapes/*: b\n"))[1])
        for everything in ("*", "*.*", "?*"):
            with self.assertRaisesRegex(ValueError, "excuses every test"):
                second_tries.excuses(f"{everything}: all of them\n")

    def test_a_clean_run_is_right(self):
        self.assertEqual(second_tries.verdict("1/1 Test #1: a ...   Passed    0.01 sec\n", {}), ([], True))

    def test_an_excuse_needs_a_reason_and_a_test(self):
        with self.assertRaisesRegex(ValueError, "e2e.live"):
            second_tries.excuses("e2e.live:\n")
        self.assertFalse(second_tries.verdict(LOG, {"e2e.live": "a", "e2e.tls": "b", "e2e.gone": "c"})[1])

    def test_the_list_can_be_read(self):
        second_tries.excuses((ROOT / ".ci/second_tries").read_text())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
