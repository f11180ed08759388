"""rivulet.analytics: what is answered over clients is what one would compute had one all of their rows."""

import re
import threading

import packaged
import harness
import rivulet

CLIENTS = 20


def rows_of(name):
    """Rows of a client: few or many, and each client's unlike the others'."""
    import numpy as np

    number = int(name.rsplit("-", 1)[1])
    draws = np.random.default_rng(number)
    rows = 5 + 20 * number if number != 3 else 0
    words = np.array(["cough", "fever", "rash", "coughing", "rare-%d" % number, "ill"])
    where = np.array([[-3, -3], [2, 2], [4, -4]])[draws.integers(0, 3, rows)]
    return {
        "age": np.round(draws.normal(30 + number, 12, rows), 1),
        "word": words[draws.choice(6, rows, p=[0.4, 0.25, 0.02, 0.15, 0.03, 0.15])],
        "patient": draws.integers(0, 5000, rows),
        "place": where + draws.normal(0, 0.3, (rows, 2)),
    }


def all_rows(column):
    import numpy as np

    return np.concatenate([rows_of(f"client-{number:05}")[column] for number in range(CLIENTS)])


@packaged.needs_grpc
@packaged.needs_cloudpickle
class Analytics(packaged.ProgramTest):
    def setUp(self):
        super().setUp()
        self.work_in_folder()

    def questions(self):
        import numpy as np
        from rivulet import analytics

        return {
            "moments": analytics.Moments("age", 0, 60),
            "ages": analytics.Histogram("age", range(0, 61, 10)),
            "quartiles": analytics.Quantiles("age", [0, 0.25, 0.5, 0.75, 1], 0, 120),
            "patients": analytics.DistinctCount("patient"),
            "words": analytics.HeavyHitters("word", 0.1, length=9),
            "places": analytics.KMeans("place", np.array([[0.0, 0.1], [0.3, 0.2], [0.2, -0.1], [9, 9]]), -10, 10, rounds=9),
        }

    def check(self, answered):
        import numpy as np

        ages = all_rows("age")
        inside = ages[(ages >= 0) & (ages <= 60)]
        moments = answered["moments"]
        self.assertEqual((moments["count"], moments["outside"]), (len(inside), len(ages) - len(inside)))
        self.assertGreater(moments["outside"], 10)
        self.assertAlmostEqual(moments["mean"], inside.mean(), places=4)
        self.assertAlmostEqual(moments["variance"] / inside.var(), 1, places=5)
        self.assertAlmostEqual(moments["deviation"], moments["variance"] ** 0.5)

        counts = np.histogram(ages, range(0, 61, 10))[0].tolist()
        self.assertEqual(answered["ages"]["counts"], counts)
        self.assertEqual(answered["ages"]["outside"], len(ages) - sum(counts))

        held = np.sort(ages[(ages >= 0) & (ages <= 120)])
        for share, found in zip([0, 0.25, 0.5, 0.75, 1], answered["quartiles"]):
            exact = held[max(int(np.ceil(share * len(held))) - 1, 0)]
            self.assertAlmostEqual(found, exact, delta=120 / 64**3 + 1e-9, msg=share)

        patients = len(set(all_rows("patient").tolist()))
        self.assertAlmostEqual(answered["patients"] / patients, 1, delta=0.02)

        words, heard = np.unique(all_rows("word"), return_counts=True)
        heavy = {str(word): int(count) for word, count in zip(words, heard) if count >= 0.1 * heard.sum()}
        self.assertEqual(answered["words"], heavy)
        self.assertEqual(sorted(heavy), ["cough", "coughing", "fever", "ill"])

        points, centres = all_rows("place"), np.array([[0.0, 0.1], [0.3, 0.2], [0.2, -0.1], [9, 9]])
        for _ in range(9):
            nearest = ((points[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
            squares = ((points - centres[nearest]) ** 2).sum()
            centres = np.array([points[nearest == k].mean(axis=0) if (nearest == k).any() else centres[k] for k in range(4)])
        np.testing.assert_allclose(answered["places"]["centres"], centres, atol=1e-4)
        self.assertEqual(answered["places"]["counts"], np.bincount(nearest, minlength=4).tolist())
        self.assertEqual(answered["places"]["counts"][3], 0)  # which stays where it is
        self.assertAlmostEqual(answered["places"]["squares"] / squares, 1, places=4)

    def test_answers_are_those_of_all_rows_together(self):
        from rivulet import analytics

        self.check(analytics.ask(self.questions(), rows_of, CLIENTS))
        again = analytics.ask(self.questions(), rows_of, CLIENTS, workers=1, db="again.sqlite")
        self.assertEqual(again["quartiles"], analytics.answers(self.questions(), rivulet.open("rivulet.sqlite").run("latest"))["quartiles"])

    def test_clients_of_a_coordinator_answer_alike(self):
        from rivulet import analytics

        questions = self.questions()
        scenario = analytics.scenario(questions, CLIENTS)
        rivulet.save_safetensors(self.path("first.safetensors"), scenario["model"]["arrays"])
        from rivulet._scenario import toml

        self.write("asked.toml", toml({**scenario, "model": {"arrays": self.path("first.safetensors")}}))
        coordinator = self.start("coordinator", "asked.toml", "--db", "deployed.sqlite", "--listen", "127.0.0.1:0", "--insecure")
        self.follow(coordinator, "coordinator")
        address = re.match(r"listening on (\S+)", coordinator.stdout.readline())[1]

        def answer(name):
            rivulet.run_client(analytics.client(questions, rows_of(name)), address, name=name)

        threads = [threading.Thread(target=answer, args=(f"client-{number:05}",)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.ends(coordinator, "coordinator")
        self.check(analytics.answers(questions, rivulet.open("deployed.sqlite").run("latest")))

    def test_some_clients_are_a_sample(self):
        from rivulet import analytics

        asked = {"ages": analytics.Histogram("age", [0, 200])}
        answered = analytics.ask(asked, lambda name: {"age": [20, 30]}, 100, per_round=10)
        self.assertEqual(answered["ages"]["counts"], [20])

    def test_what_cannot_be_asked_is_told(self):
        from rivulet import analytics

        for refused, sentence in (
            (lambda: analytics.Moments("age", 5, 5), "give a range"),
            (lambda: analytics.Histogram("age", [1, 1]), "each above the one before"),
            (lambda: analytics.Quantiles("age", [2], 0, 1), "shares of 0 to 1"),
            (lambda: analytics.Quantiles("age", [0.5], 0, 1, bins=64, rounds=5), "2\\^22"),
            (lambda: analytics.HeavyHitters("word", 0), "share of 0.001 to 1"),
            (lambda: analytics.DistinctCount("word", size=1), "16 or more"),
            (lambda: analytics.scenario({}, 5), "there is no question"),
        ):
            with self.assertRaisesRegex(rivulet.RivuletError, sentence):
                refused()
        with self.assertRaises(rivulet.RivuletError) as caught:
            analytics.ask({"size": analytics.Moments("size", 0, 1)}, rows_of, CLIENTS)
        self.assertIn("'size' asks for 'size', and there are age, word, patient, place", str(caught.exception.__cause__))
        with self.assertRaisesRegex(rivulet.RivuletError, "take|larger size"):
            analytics.ask({"all": analytics.DistinctCount("patient", size=16)}, rows_of, CLIENTS, db="full.sqlite")


if __name__ == "__main__":
    harness.main()
