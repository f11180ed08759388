"""What scripts/fuzz_tally.py makes of libFuzzer's logs."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))
import fuzz_tally  # noqa: E402

LOG = """INFO: seed corpus: files: 2
#3\tINITED cov: 100 ft: 120 corp: 2/30b exec/s: 0 rss: 60Mb
#20\tNEW    cov: 104 ft: 130 corp: 3/40b lim: 4096 exec/s: 0 rss: 60Mb L: 10/20 MS: 1 ChangeBit-
#300\tREDUCE cov: 104 ft: 130 corp: 3/38b lim: 4096 exec/s: 0 rss: 60Mb L: 8/20 MS: 1 EraseBytes-
#512\tpulse  cov: 104 ft: 130 corp: 3/38b lim: 4096 exec/s: 256 rss: 60Mb
#900\tNEW    cov: 104 ft: 131 corp: 4/48b lim: 4096 exec/s: 256 rss: 60Mb L: 10/20 MS: 1 ChangeBit-
#1000\tDONE   cov: 104 ft: 131 corp: 4/48b lim: 4096 exec/s: 250 rss: 60Mb
stat::number_of_executed_units: 1000
stat::average_exec_per_sec:     250
"""


def line_of(log, status=0, tally=None):
    """What `add` says of one run more."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "log"
        path.write_text(log)
        tally = tally or pathlib.Path(folder) / "tally"
        return subprocess.run([sys.executable, SCRIPTS / "fuzz_tally.py", "add", tally, "idx", "3.1 0.8", str(status), path],
                              capture_output=True, text=True, check=True).stdout


class FuzzTallyTest(unittest.TestCase):
    def test_one_run_is_told_by_its_log(self):
        run = fuzz_tally.run_of("idx", 4, 0, LOG)
        self.assertEqual(run, ("idx", 4, 1000, 104, 20, "-"))
        self.assertRegex(line_of(LOG), r"^idx +4 s +1000 inputs +250 a second +104 edges  finished\n$")

    def test_new_edge_in_the_last_fifth_is_not_finished(self):
        late = LOG.replace("#900\tNEW    cov: 104", "#900\tNEW    cov: 105")
        self.assertRegex(line_of(late), r"105 edges  not finished\n$")
        self.assertEqual(fuzz_tally.state_of([fuzz_tally.run_of("idx", 4, 0, late)]), "not finished")

    def test_what_the_corpus_reaches_is_not_new(self):
        run = fuzz_tally.run_of("idx", 4, 0, LOG.replace("cov: 100", "cov: 104"))
        self.assertEqual(run.newest, 0)

    def test_runs_add_up_and_the_last_fifth_is_of_all(self):
        late = fuzz_tally.run_of("idx", 4, 0, LOG.replace("#900\tNEW    cov: 104", "#900\tNEW    cov: 105"))
        calm = fuzz_tally.Run("idx", 4, 100, 105, 0, "-")
        self.assertEqual(fuzz_tally.sums_of([late, calm]), (8, 1100, 137, 105, "not finished"))  # 900 of 1100
        self.assertEqual(fuzz_tally.sums_of([late, calm, calm]), (12, 1200, 100, 105, "finished"))  # 900 of 1200
        self.assertEqual(fuzz_tally.state_of([calm, late._replace(newest=20, inputs=1000)]), "finished")
        with tempfile.TemporaryDirectory() as folder:
            tally = pathlib.Path(folder) / "tally"
            line_of(LOG, tally=tally)
            self.assertRegex(line_of(LOG, tally=tally), r"^idx +8 s +2000 inputs")
            self.assertEqual(fuzz_tally.table(tally).splitlines()[2], "| `idx` | 8 | 2,000 | 250 | 104 | finished |")

    def test_what_broke_is_said(self):
        crash = LOG.split("#900")[0] + ("==7==ERROR: AddressSanitizer: heap-buffer-overflow on address\n"
                                        "SUMMARY: AddressSanitizer: heap-buffer-overflow a.cc:3 in Read\n")
        self.assertRegex(line_of(crash, status=77), r"512 inputs.* broken: heap-buffer-overflow\n$")
        self.assertRegex(line_of("", status=1), r" 0 inputs.* broken: exit 1\n$")
        slow = LOG.split("#900")[0] + "==7== ERROR: libFuzzer: timeout after 20 seconds\nSUMMARY: libFuzzer: timeout\n"
        self.assertRegex(line_of(slow, status=70), r"broken: timeout")


if __name__ == "__main__":
    unittest.main()
