"""The first hour of somebody with files and no scenario: what a command refuses says what to do, and doing it leads to a run."""
import json

from harness import RivuletTest, main


class Tables(RivuletTest):
    def patients(self):
        """720 rows: an identifier, an age of which a few cells are no numbers, a ward and whether the patient is ill."""
        rows = [f"P{i:04},{'NA' if i % 100 == 7 else '?' if i == 50 else 30 + i % 40},{'east' if i % 3 else 'west'},{'ill' if i % 40 > 20 else 'well'}"
                for i in range(720)]
        self.write("patients.csv", "Patient ID,age,ward,outcome\n" + "\n".join(rows) + "\n")

    def load(self, *options, code=0):
        return self.run_rivulet("data", "import", "csv", "--from", "patients.csv", "--label", "outcome", "--key", "ward", *options,
                                "--out", "patients", code=code)

    def test_identifiers_do_not_get_into_a_file_that_is_sent(self):
        self.patients()
        numbers = ("--missing", "NA", "--missing", "?", "--fill-missing")
        self.assert_refused(self.load(*numbers, code=1), "column 'Patient ID' has 720 different values in 720 rows",
                            "Pass --without 'Patient ID'", code=1)
        said = self.load(*numbers, "--without", "Patient ID").out
        self.assertIn("  Patient ID  left out\n", said)
        self.assertIn("  ward        key, names the client\n", said)
        self.assertIn("patients/columns.json holds every value of 'outcome'\n", said)
        text = (self.folder / "patients/columns.json").read_text()
        self.assertNotIn("P0001", text)
        self.assertEqual(json.loads(text)["discloses"], ["the mean and deviation of 'age'", "every value of 'outcome': ill, well"])

    def test_texts_among_numbers_are_named(self):
        self.patients()
        refused = self.load("--without", "Patient ID", code=1)
        self.assert_refused(refused, "column 'age': 9 of 720 cells are no numbers: 'NA' (8 cells, first in line 9), '?' (line 52).",
                            "--missing 'NA'", "--missing '?'", "--fill-missing", code=1)
        self.load("--without", "Patient ID", "--missing", "NA", "--missing", "?", "--fill-missing")
        self.write("patients.csv", 'fee,outcome\n"1,000",ill\n"2,500",well\n')
        refused = self.run_rivulet("data", "import", "csv", "--from", "patients.csv", "--label", "outcome", "--out", "fees")
        self.assert_refused(refused, "'1,000' (line 2)", "--thousands ,", "--decimal ,", code=1)
        said = self.run_rivulet("data", "import", "csv", "--from", "patients.csv", "--label", "outcome", "--thousands", ",", "--out", "fees",
                                code=0).out
        self.assertIn("  fee      number\n", said)


if __name__ == "__main__":
    main()
