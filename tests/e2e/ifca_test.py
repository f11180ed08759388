"""Several models of which each client chooses one: deployed as simulated, killed and resumed, and what is told of it."""
import json

from harness import RivuletTest, main

IFCA = ["--set", "algorithm.name=ifca", "--set", "algorithm.clusters=3"]


class Ifca(RivuletTest):
    def clusters(self, db="runs.sqlite"):
        return self.query("SELECT round, client_id, value FROM metrics WHERE scope = 'client' AND name = 'train/cluster' "
                          "ORDER BY round, client_id", db=db)

    def test_deployed_it_does_what_the_simulation_did(self):
        measured = [*IFCA, "--set", "evaluation.federated_every=1"]
        self.simulate(*measured, "--workers", "3")
        self.run_rivulet("up", self.scenario, "--db", self.path("up.sqlite"), "--clients", "6", *measured, code=0)
        self.assertEqual(self.digests("up.sqlite"), self.digests())
        told = self.clusters()
        self.assertEqual(self.clusters("up.sqlite"), told)
        folded = self.query("SELECT count(*) FROM client_rounds WHERE kind = 'train' AND status = 'folded'")[0][0]
        self.assertEqual(len(told), folded)
        self.assertLessEqual({cluster for _, _, cluster in told}, {0, 1, 2})
        names = {name for (name,) in self.query("SELECT DISTINCT name FROM metrics WHERE scope IN ('central', 'federated')")}
        self.assertLessEqual({"test/accuracy", "cluster_1/test/accuracy", "cluster_2/test/accuracy", "personal/accuracy",
                              "cluster_0/loss", "cluster_2/loss"}, names)
        last = {client: cluster for _, client, cluster in told}
        shown = json.loads(self.run_rivulet("runs", "clients", "latest", "--db", self.path("runs.sqlite"), "--json", code=0).out)
        self.assertEqual({row["client_id"]: row["train/cluster"] for row in shown if row["train/cluster"] is not None}, last)

    def test_each_model_is_evaluated_and_exported_by_its_number(self):
        self.simulate(*IFCA, "--rounds", "2")
        at = ["--db", self.path("runs.sqlite")]
        measured = dict(self.query("SELECT name, value FROM metrics WHERE scope = 'central' AND round = 2"))
        for cluster in range(3):
            told = json.loads(self.run_rivulet("model", "evaluate", "latest", *at, "--cluster", cluster, "--json", code=0).out)
            self.assertEqual(told["cluster"], cluster)
            for name in ("test/loss", "test/accuracy"):
                self.assertEqual(told[name], measured[f"cluster_{cluster}/{name}" if cluster else name])
            out = self.path(f"{cluster}.safetensors")
            self.run_rivulet("model", "export", "latest:2", *at, "--cluster", cluster, "--out", out, code=0)
        self.assertEqual(len({(self.folder / f"{cluster}.safetensors").read_bytes() for cluster in range(3)}), 3)
        self.assert_refused(self.run_rivulet("model", "evaluate", "latest", *at, "--cluster", "3"), "--cluster is 3", "0 to 2")
        self.assert_refused(self.run_rivulet("model", "export", "mlp", *at, "--cluster", "1", "--out", self.path("x.pb")), "--cluster", "'mlp'")
        self.simulate("--rounds", "1", "--set", "server.average=0.5")
        self.assert_refused(self.run_rivulet("model", "export", "latest", *at, "--cluster", "0", "--out", self.path("x.safetensors")), "one model")
        # What a round measures is what is evaluated later: of versions that are averaged the average.
        measured = dict(self.query("SELECT name, value FROM metrics WHERE scope = 'central' AND round = 1 ORDER BY rowid"))
        told = json.loads(self.run_rivulet("model", "evaluate", "latest", *at, "--json", code=0).out)
        self.assertEqual(told["test/loss"], measured["test/loss"])
        # And it is what is exported: trained on by nobody, it measures the same.
        self.run_rivulet("model", "export", "latest", *at, "--out", self.path("average.safetensors"), code=0)
        self.simulate("--rounds", "1", "--set", f"model.weights={self.path('average.safetensors')}", "--set", "client.optimizer.learning_rate=0",
                      db="again.sqlite")
        again = dict(self.query("SELECT name, value FROM metrics WHERE scope = 'central' AND round = 1", db="again.sqlite"))
        self.assertAlmostEqual(again["test/loss"], measured["test/loss"], places=5)

    def test_killed_and_resumed_it_goes_on_with_all_models(self):
        longer = ["--rounds", "40", "--set", "client.epochs=20", "--set", "run.durability=round", *IFCA]
        self.simulate(*longer, db="whole.sqlite")
        process = self.start("simulate", self.scenario, "--db", self.path("cut.sqlite"), *longer)
        self.wait_for(lambda: self.committed(db="cut.sqlite") >= 3, "the third commit")
        process.kill()
        process.communicate()
        self.assertLess(self.committed(db="cut.sqlite"), 40)
        self.simulate(*longer, "--resume", "latest", db="cut.sqlite")
        self.assertEqual(self.digests("cut.sqlite"), self.digests("whole.sqlite"))
        self.assertEqual(self.clusters("cut.sqlite"), self.clusters("whole.sqlite"))


if __name__ == "__main__":
    main()
