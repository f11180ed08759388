"""`rivulet privacy`: what it prints of rounds with noise, and what it refuses. The figures are dp-accounting's and TensorFlow
Privacy's."""
import json
import math

from harness import RivuletTest, main

POISSON = ["--sigma", "0.7", "--rate", "0.01", "--rounds", "120"]


class Privacy(RivuletTest):
    def privacy(self, *arguments):
        return json.loads(self.run_rivulet("privacy", *arguments, "--json", code=0).out)

    def test_epsilon_by_every_accountant(self):
        for accountant, epsilon, places in (("pld", 2.4612381, 3), ("rdp", 3.2392676, 6)):
            told = self.privacy("epsilon", *POISSON, "--delta", "1e-5", "--accountant", accountant)
            self.assertAlmostEqual(told["epsilon"], epsilon, places)
            self.assertEqual((told["delta"], told["accountant"], told["relation"], told["rate"], told["noise"], told["is_bound"]),
                             (1e-5, accountant, "add-remove", 0.01, "gaussian", True))
        self.assertEqual(told["order"], 4.4)
        central = self.privacy("epsilon", "--sigma", "1.5", "--rate", "0.04", "--rounds", "2249", "--delta", "1e-5", "--accountant", "gdp")
        self.assertTrue(6.59 < central["epsilon"] < 6.60)
        self.assertFalse(central["is_bound"])
        self.assertNotIn("epsilon_at_least", central)
        exact = self.privacy("epsilon", "--sigma", "1", "--rounds", "1", "--delta", "1e-5")
        self.assertAlmostEqual(exact["epsilon"], 4.3771780956812245, 7)
        self.assertEqual(exact["epsilon_at_least"], exact["epsilon"])

    def test_bounds_and_inverse_questions_agree(self):
        told = self.privacy("epsilon", *POISSON, "--delta", "1e-5")
        self.assertLessEqual(told["epsilon_at_least"], told["epsilon"])
        self.assertGreater(told["epsilon_at_least"], 0.99 * told["epsilon"])
        delta = self.privacy("delta", *POISSON, "--epsilon", repr(told["epsilon"]))
        self.assertAlmostEqual(delta["delta"] / 1e-5, 1, 2)
        sigma = self.privacy("sigma", *POISSON[2:], "--epsilon", repr(told["epsilon"]), "--delta", "1e-5")["sigma"]
        self.assertAlmostEqual(sigma, 0.7, 4)
        rounds = self.privacy("rounds", *POISSON[:4], "--epsilon", repr(told["epsilon"] + 1e-4), "--delta", "1e-5")["rounds"]
        self.assertEqual(rounds, 120)

    def test_mixtures_relations_and_noise_on_integers(self):
        one = ["epsilon", "--sigma", "2", "--rounds", "3", "--delta", "1e-6"]
        whole = self.privacy("epsilon", "--sigma", "2", "--rounds", "8", "--delta", "1e-6")["epsilon"]
        self.assertAlmostEqual(self.privacy(*one, "--with", "2,1,4", "--with", "2,1,1")["epsilon"], whole, 9)
        replaced = self.privacy(*one, "--relation", "replace-one")["epsilon"]
        self.assertAlmostEqual(replaced, self.privacy("epsilon", "--sigma", "1", "--rounds", "3", "--delta", "1e-6")["epsilon"], 9)
        fixed = self.privacy(*one, "--relation", "replace-one", "--rate", "0.1")
        self.assertLess(fixed["epsilon"], replaced)
        integers = self.privacy(*one, "--noise", "discrete-gaussian", "--sensitivity", "5000", "--dimension", "1000000",
                                "--contributors", "50")
        continuous = self.privacy(*one)["epsilon"]
        self.assertTrue(continuous <= integers["epsilon"] < continuous * 1.0001, integers)
        self.assertIsNone(self.privacy("epsilon", "--sigma", "0", "--rounds", "1", "--delta", "1e-6")["epsilon"])

    def test_people_read_the_relation_and_the_sampling(self):
        text = self.run_rivulet("privacy", "epsilon", *POISSON, "--delta", "1e-5", code=0).out
        self.assertRegex(text, r"epsilon +2\.461\d\d\n")
        self.assertRegex(text, r"at least +2\.4\d+\n")
        self.assertIn("add-remove: one member more or fewer\n", text)
        self.assertIn("Poisson, each member with probability 0.01\n", text)
        text = self.run_rivulet("privacy", "epsilon", *POISSON, "--delta", "1e-5", "--accountant", "gdp", code=0).out
        self.assertIn("an estimate by the central limit theorem, no bound", text)
        text = self.run_rivulet("privacy", "epsilon", "--sigma", "0", "--rounds", "1", "--delta", "1e-5", code=0).out
        self.assertRegex(text, r"epsilon +infinite\n")

    def test_wrong_questions_are_refused_with_the_mend(self):
        delta = ["--delta", "1e-5"]
        for arguments, fragments in (
                (["epsilon", *POISSON], ["--delta"]),
                (["epsilon", *POISSON, "--delta", "0"], ["delta is 0", "above 0"]),
                (["epsilon", "--sigma", "much", "--rounds", "1", *delta], ["--sigma takes a number", "'much'"]),
                (["epsilon", "--sigma", "-1", "--rounds", "1", *delta], ["multiplier is -1"]),
                (["epsilon", "--sigma", "1", "--rounds", "-1", *delta], ["--rounds"]),
                (["epsilon", "--sigma", "1", "--rounds", "1", "--rate", "2", *delta], ["rate is 2", "from 0 to 1"]),
                (["epsilon", *POISSON, *delta, "--accountant", "zcdp"], ["use pld or rdp"]),
                (["epsilon", *POISSON, *delta, "--accountant", "prv"], ["pld, rdp, zcdp and gdp"]),
                (["epsilon", *POISSON, *delta, "--noise", "skellam"], ["'skellam'", "discrete-gaussian"]),
                (["epsilon", *POISSON, *delta, "--relation", "none"], ["add-remove and replace-one"]),
                (["epsilon", *POISSON, *delta, "--with", "1,2"], ["SIGMA,RATE,ROUNDS", "'1,2'"]),
                (["delta", *POISSON, "--epsilon", "-1"], ["epsilon is -1"]),
                (["sigma", "--rounds", "10", "--epsilon", "1", *delta, "--with", "1,1,1"], ["leave --with out"])):
            with self.subTest(arguments=arguments):
                self.assert_refused(self.run_rivulet("privacy", *arguments), *fragments, code=2)
        self.assert_refused(self.run_rivulet("privacy", "rounds", "--sigma", "1", "--rate", "0", "--epsilon", "1", *delta),
                            "nothing limits them", code=1)
        self.assert_refused(self.run_rivulet("privacy", "epsilon", "--sigma", "0.1", "--rounds", "1", *delta, "--noise",
                                             "discrete-gaussian", "--sensitivity", "2", "--dimension", "9"), "finer units", code=1)

    def test_ten_thousand_steps(self):
        told = self.privacy("epsilon", "--sigma", "4", "--rate", "0.01", "--rounds", "10000", "--delta", "1e-5")
        self.assertTrue(math.isclose(told["epsilon"], 0.9469993059843788, rel_tol=1e-3), told)


if __name__ == "__main__":
    main()
