"""A local rule of one's own, from the text to the model: what the guide shows runs, simulated, deployed and resumed."""
import json
import pathlib

from harness import RivuletTest, main

RULES = pathlib.Path(__file__).parents[1] / "docs/local_rules"
PROX = ["--set", "algorithm.name=fedprox", "--set", "algorithm.mu=0.25"]


class LocalRules(RivuletTest):
    def build(self, name, rule):
        return self.run_rivulet("graph", "build", rule, "--out", self.path(name), code=0).out

    def own(self, rule="fedprox.txt", mu=0.25):
        self.build("rule.pb", RULES / rule)
        return ["--set", f"algorithm.graph={self.path('rule.pb')}", "--set", f"algorithm.mu={mu}"]

    def test_it_is_the_algorithm_that_it_writes_down_simulated_and_deployed(self):
        self.simulate(*PROX, db="prox.sqlite")
        self.simulate(*self.own(), "--workers", "3")
        self.assertEqual(self.digests(), self.digests("prox.sqlite"))
        self.run_rivulet("up", self.scenario, "--db", self.path("up.sqlite"), "--clients", "6", *self.own(), code=0)
        self.assertEqual(self.digests("up.sqlite"), self.digests())
        self.simulate(*self.own(mu=0.5), db="other.sqlite")
        self.assertNotEqual(self.digests("other.sqlite"), self.digests())

    def test_every_rule_of_the_guide_trains(self):
        for rule in sorted(RULES.glob("*.txt")):
            with self.subTest(rule.name):
                self.build("rule.pb", rule)
                server = ["--set", "algorithm.name=scaffold"] if rule.stem == "scaffold" else []
                self.simulate("--set", f"algorithm.graph={self.path('rule.pb')}", *server, db=f"{rule.stem}.sqlite")

    def test_a_mask_keeps_what_it_covers(self):
        self.build("rule.pb", RULES / "masked.txt")
        digests = {}
        for threshold in (0, 1e9):
            db = f"masked-{threshold}.sqlite"
            self.simulate("--rounds", "1", "--set", f"algorithm.graph={self.path('rule.pb')}", "--set", f"algorithm.threshold={threshold}", db=db)
            digests[threshold] = [digest for digest, in self.query("SELECT digest FROM models ORDER BY round", db=db)]
        self.simulate("--rounds", "1", db="plain.sqlite")
        self.assertEqual(digests[0], [digest for digest, in self.query("SELECT digest FROM models ORDER BY round", db="plain.sqlite")])
        self.assertEqual(*digests[1e9])

    def test_a_run_goes_on_without_the_file_and_with_its_settings(self):
        own = self.own()
        self.simulate(*own, "--rounds", "4", db="whole.sqlite")
        self.simulate(*own, "--rounds", "2")
        (self.folder / "rule.pb").unlink()
        result = self.run_rivulet("simulate", self.scenario, "--db", self.path("runs.sqlite"), "--resume", "latest", "--set", "algorithm.mu=1")
        self.assert_refused(result, "algorithm.mu")
        self.simulate("--rounds", "4", "--resume", "latest")
        self.assertEqual(self.digests(), self.digests("whole.sqlite"))

    def test_what_is_wrong_is_said_with_its_place(self):
        text = self.write("rule.txt", b"mu = 0.1\ngradient = grad + mu * (parms - base)\n")
        result = self.run_rivulet("graph", "build", text, "--out", self.path("rule.pb"))
        self.assert_refused(result, "rule.txt:2:25: there is no 'parms'. Did you mean 'params'?", code=1)
        self.assertFalse((self.folder / "rule.pb").exists())
        result = self.run_rivulet("simulate", self.scenario, "--db", self.path("runs.sqlite"), "--set", f"algorithm.graph={text}")
        self.assert_refused(result, "algorithm.graph: ", "rule.txt:2:25: there is no 'parms'. Did you mean 'params'?", code=2)
        junk = self.write("junk.pb", b"\x01\x02\x03")
        result = self.run_rivulet("simulate", self.scenario, "--db", self.path("runs.sqlite"), "--set", f"algorithm.graph={junk}")
        self.assert_refused(result, "algorithm.graph", "rivulet graph build", code=(1, 2))

    def test_a_rule_as_text_trains_as_its_graph_does(self):
        text = RULES / "fedprox.txt"
        self.build("rule.pb", text)
        self.simulate("--set", f"algorithm.graph={self.path('rule.pb')}", "--set", "algorithm.mu=0.5", db="graph.sqlite")
        self.simulate("--set", f"algorithm.graph={text}", "--set", "algorithm.mu=0.5", db="text.sqlite")
        self.assertEqual(self.digests("text.sqlite"), self.digests("graph.sqlite"))

    def test_what_it_is_can_be_shown(self):
        shown = self.build("rule.pb", RULES / "clipped_momentum.txt")
        self.assertIn("setting beta = 0.9\nsetting longest = 1\nremembers m from step to step\n", shown)
        told = self.run_rivulet("graph", "build", RULES / "scaffold.txt", "--out", self.path("rule.pb"), "--json", code=0).out
        self.assertEqual({key: json.loads(told)[key] for key in ("settings", "memory", "state", "broadcast", "update")},
                         {"settings": {}, "memory": [], "state": ["c"], "broadcast": ["c"], "update": ["dc"]})
        self.build("rule.pb", RULES / "clipped_momentum.txt")
        shown = self.run_rivulet("graph", "inspect", self.path("rule.pb"), code=0).out
        self.assertIn("memory/m", shown)


if __name__ == "__main__":
    main()
