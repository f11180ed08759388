"""rivulet.open: tables, times, models and pages of a history that the program wrote."""

import builtins
import contextlib
import datetime
import os
import shutil
import sqlite3
import unittest.mock

import packaged
import harness
import rivulet


@contextlib.contextmanager
def without(*modules):
    """As if they were not installed."""
    real = builtins.__import__

    def refuse(name, *arguments, **keywords):
        if name.split(".")[0] in modules:
            raise ImportError(f"No module named '{name}'")
        return real(name, *arguments, **keywords)

    with unittest.mock.patch("builtins.__import__", refuse):
        yield


class History(harness.RivuletTest):
    @classmethod
    def setUpClass(cls):
        cls.written = harness.RivuletTest("run")
        cls.written.setUp()
        cls.addClassCleanup(cls.written.tearDown)
        # Written once, at its end: there are the models of its first and of its last version.
        cls.written.simulate("--set", "run.durability=end")
        cls.written.simulate("--set", "run.name=second", "--set", "evaluation.every=0")

    def setUp(self):
        super().setUp()
        for name in ("runs.sqlite", "runs.sqlite.models"):
            source = self.written.folder / name
            shutil.copytree(source, self.path(name)) if source.is_dir() else shutil.copy(source, self.path(name))
        self.history = rivulet.open(self.path("runs.sqlite"))
        self.first = self.history.run("tiny")

    def test_reading_leaves_nothing_beside_the_file_and_needs_no_log_where_there_can_be_none(self):
        before = sorted(os.listdir(self.folder))
        self.assertEqual(len(self.history.runs()), 2)
        self.assertEqual(sorted(os.listdir(self.folder)), before)
        with unittest.mock.patch("os.access", lambda *_: False):
            self.assertEqual(len(self.history.runs()), 2)
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_tables_without_pandas_are_dicts_that_the_views_hold(self):
        with without("pandas"):
            runs = self.history.runs()
            self.assertEqual(
                [(row["name"], row["status"], row["rounds"], row["seed"]) for row in runs],
                [("second", "finished", 4, 7), ("tiny", "finished", 4, 7)],
            )
            rounds = self.history.rounds("tiny")
            self.assertEqual([row["model_digest"] for row in rounds], self.digests(run=self.first.id))
            self.assertEqual(
                [row["test_accuracy"] for row in rounds],
                [
                    row[0]
                    for row in self.query("SELECT test_accuracy FROM round_summary WHERE run_id = ?", self.first.id)
                ],
            )
            self.assertEqual({row["selected"] for row in rounds}, {3})
            self.assertEqual(sum(row["tasks"] for row in self.history.clients("tiny")), 12)
            self.assertEqual([row["kind"] for row in self.history.tasks("tiny")], ["train"] * 12)
            central = [row for row in self.history.metrics("tiny") if row["scope"] == "central"]
            self.assertEqual(len(central), 8)
            self.assertEqual(self.history.sql("SELECT run_id FROM runs WHERE 0"), [])
        self.assertEqual(
            self.history.rows("SELECT name, created_at FROM runs WHERE name = :name", {"name": "tiny"}),
            [{"name": "tiny", "created_at": self.first.created_at}],
        )

    def test_times_are_aware_of_their_zone(self):
        with without("pandas"):
            (row,) = self.history.sql(
                "SELECT created_at, 'x' AS at, NULL AS seen_at FROM runs WHERE name = ?", ["tiny"]
            )
        self.assertEqual(row["created_at"], self.first.created_at)
        self.assertEqual(row["created_at"].utcoffset(), datetime.timedelta(0))
        self.assertLess(abs(datetime.datetime.now(datetime.timezone.utc) - row["created_at"]).total_seconds(), 3600)
        self.assertEqual((row["at"], row["seen_at"]), ("x", None))

    @packaged.needs_pandas
    def test_tables_with_pandas_are_dataframes_with_types(self):
        import pandas

        runs = self.history.runs()
        self.assertIsInstance(runs, pandas.DataFrame)
        self.assertEqual(str(runs["created_at"].dt.tz), "UTC")
        self.assertEqual(runs["rounds"].dtype, "int64")
        self.assertEqual(runs["best_accuracy"].dtype, "float64")
        self.assertEqual(list(runs["best_round"].isna()), [True, False])
        self.assertEqual(runs["best_round"].dtype, "Int64")
        empty = self.history.sql("SELECT run_id, created_at FROM runs WHERE 0")
        self.assertEqual((len(empty), list(empty.columns)), (0, ["run_id", "created_at"]))

    @packaged.needs_pandas
    def test_columns_of_many_rows_are_what_all_their_rows_are(self):
        late = "CASE WHEN i > 12000 THEN {} END"
        columns = {
            "integers": (late.format("i"), "Int64"),
            "floats": (late.format("i * 1.5"), "float64"),
            "both": ("CASE WHEN i > 12000 THEN 1 ELSE 1.5 END", "float64"),
            "seen_at": (late.format("'2025-01-31T14:25:30.123Z'"), "UTC"),
            "never_at": ("NULL", "UTC"),
            "at": ("CASE WHEN i > 12000 THEN 'noon' ELSE '2025-01-31T14:25:30.123Z' END", "object"),
            "texts": (late.format("'x'"), "object"),
            "mixed": ("CASE WHEN i > 12000 THEN 'x' ELSE i END", "object"),
        }
        told = ", ".join(f"{what} AS {name}" for name, (what, _) in columns.items())
        frame = self.history.sql(
            f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT {told} FROM n"
        )
        for name, (_, dtype) in columns.items():
            self.assertIn(dtype, str(frame[name].dtype), name)
        self.assertEqual(frame["integers"].iloc[-1], 20000)
        self.assertEqual(frame["seen_at"].iloc[-1].isoformat(), "2025-01-31T14:25:30.123000+00:00")
        self.assertEqual(list(frame["at"].iloc[[0, -1]]), ["2025-01-31T14:25:30.123Z", "noon"])
        self.assertEqual(
            {name: int(count) for name, count in frame.isna().sum().items() if count},
            {"integers": 12000, "floats": 12000, "seen_at": 12000, "never_at": 20000, "texts": 12000},
        )

    def test_run_by_id_name_latest_or_itself(self):
        self.assertEqual(self.history.run().name, "second")
        self.assertEqual(self.history.run(self.first.id), self.first)
        self.assertIs(self.history.run(self.first), self.first)
        self.assertEqual((self.first.name, self.first.seed, self.first.status), ("tiny", 7, "finished"))
        self.assertIn('preset = "logistic_regression"', self.first.config)
        with self.assertRaisesRegex(rivulet.RivuletError, "has no run 'nobody'"):
            self.history.run("nobody")

    def test_scores_of_the_newest_evaluated_model(self):
        (last,) = self.query(
            "SELECT test_accuracy, test_loss FROM round_summary WHERE run_id = ? AND round = 4", self.first.id
        )
        self.assertEqual(self.first.scores, {"test/accuracy": last[0], "test/loss": last[1]})
        self.assertEqual(self.history.run("second").scores, {})

    def test_a_question_that_is_none_a_sentence(self):
        for query, sentence in [
            ("SELECT colour FROM runs", "history '.*': no such column: colour"),
            ("DELETE FROM run", "history '.*': attempt to write a readonly database"),
            ("SELECT 1; SELECT 2", "history '.*': You can only execute one statement at a time"),
            ("", "the query gives no table"),
            (
                "SELECT run_id, run_id FROM runs",
                "two columns are called 'run_id'; give one of them another name with AS",
            ),
        ]:
            with self.subTest(query), self.assertRaisesRegex(rivulet.RivuletError, sentence):
                self.history.sql(query)

    def test_open_what_is_no_history_a_sentence(self):
        with contextlib.closing(sqlite3.connect(self.path("other.sqlite"))) as connection, connection:
            connection.execute("CREATE TABLE runs (run_id TEXT)")
        with contextlib.closing(sqlite3.connect(self.path("old.sqlite"))) as connection, connection:
            connection.execute(f"PRAGMA application_id = {0x52564C54}")
            connection.execute("PRAGMA user_version = 1")
        for name, sentence in [
            ("none.sqlite", "there is no history '.*none.sqlite'; rivulet.simulate"),
            ("other.sqlite", "is no history of rivulet's, but another database"),
            (
                "old.sqlite",
                "has version 1; Rivulet 0.1.0 is the last program that reads it, and .*'rivulet runs list --db .*old.sqlite'",
            ),
            ("tiny.toml", "history '.*tiny.toml': file is not a database"),
            (".", "'.*' is a folder, and a history is a file"),
        ]:
            with self.subTest(name), self.assertRaisesRegex(rivulet.RivuletError, sentence):
                rivulet.open(self.path(name))

    def test_a_name_that_looks_like_a_query_is_a_file(self):
        shutil.copy(self.path("runs.sqlite"), self.path("a ?mode=rwc#%20.sqlite"))
        self.assertEqual(rivulet.open(self.path("a ?mode=rwc#%20.sqlite")).run("tiny").id, self.first.id)

    def test_the_working_directory_may_change(self):
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.folder)
        history = rivulet.open("runs.sqlite")
        os.chdir(before)
        self.assertEqual(history.run("tiny").id, self.first.id)

    def test_reading_leaves_no_file_and_no_lock(self):
        self.history.rounds()
        self.assertEqual(
            sorted(name for name in os.listdir(self.folder) if name.startswith("runs")),
            ["runs.sqlite", "runs.sqlite.models"],
        )
        self.simulate("--rounds", "1")
        self.assertEqual(len(self.history.sql("SELECT * FROM runs")), 3)

    def test_reading_while_a_run_writes(self):
        process = self.start("simulate", self.scenario, "--db", self.path("runs.sqlite"), "--rounds", "100000")
        self.wait_for(lambda: self.history.run().status == "running" and len(self.history.rounds()) > 2, "three rounds")
        process.send_signal(2)
        process.communicate()
        self.assertEqual(self.history.run().status, "interrupted")

    @packaged.needs_numpy
    def test_model_of_a_renamed_history_is_found_beside_it(self):
        expected = rivulet.model_digest(self.first.model())
        os.rename(self.path("runs.sqlite"), self.path("moved.sqlite"))
        os.rename(self.path("runs.sqlite.models"), self.path("moved.sqlite.models"))
        os.symlink(self.path("moved.sqlite"), self.path("link.sqlite"))
        for name in ("moved.sqlite", "link.sqlite"):
            run = rivulet.open(self.path(name)).run("tiny")
            self.assertEqual(rivulet.model_digest(run.model()), expected)
            self.assertIn("moved.sqlite.models", run.model_path())

    @packaged.needs_numpy
    def test_model_that_is_not_there_a_sentence(self):
        for round, sentence in [
            (1, 'has no model of round 1 on disk; there are those of rounds 0, 4; with run.keep_models = "all"'),
            (9, "has no model of round 9; there are those of rounds 0, 4$"),
            ("newest", "has no model of round newest; there are"),
        ]:
            with self.subTest(round), self.assertRaisesRegex(rivulet.RivuletError, sentence):
                self.first.model(round)
        os.remove(self.first.model_path(4))
        self.assertIn("round-000000", self.first.model_path())

    @packaged.needs_numpy
    def test_model_that_is_another_is_refused(self):
        shutil.copy(self.first.model_path(0), self.first.model_path(4))
        with self.assertRaisesRegex(rivulet.RivuletError, "is not the model that the history has: its digest differs"):
            self.first.model()

    def test_pages_show_what_there_is_and_escape_it(self):
        page = self.history._repr_html_()
        self.assertIn(self.first.id, page)
        self.assertNotIn("older", page)
        with unittest.mock.patch("rivulet._history._SHOWN_RUNS", 1):
            page = self.history._repr_html_()
        self.assertIn("and 1 older", page)
        self.assertNotIn(self.first.id, page)
        page = self.first._repr_html_()
        for part in ("test/accuracy", "<polyline", "finished", self.first.id):
            self.assertIn(part, page)
        self.assertNotIn("<polyline", self.history.run("second")._repr_html_())
        self.simulate("--set", "run.name=<b>&", "--set", "run.rounds=1")
        page = self.history.run()._repr_html_()
        self.assertIn("&lt;b&gt;&amp;", page)
        self.assertNotIn("<h4><b>", page)

    def test_plot_without_matplotlib_or_metric_a_sentence(self):
        with without("matplotlib"), self.assertRaisesRegex(rivulet.RivuletError, "pip install 'rivulet\\[plot\\]'"):
            self.first.plot()
        with self.assertRaisesRegex(
            rivulet.RivuletError, "no metric 'f1' of the test set; it has test/accuracy, test/loss"
        ):
            self.first.plot("f1")
        with self.assertRaisesRegex(rivulet.RivuletError, "it was not evaluated"):
            self.history.run("second").plot()

    def test_plot_draws_on_what_it_is_given(self):
        ax = unittest.mock.Mock()
        self.assertIs(self.first.plot(ax=ax), ax)
        (((rounds, values), keywords),) = [(call.args, call.kwargs) for call in ax.plot.call_args_list]
        self.assertEqual((rounds, keywords), ([1, 2, 3, 4], {"label": "tiny"}))
        self.assertEqual(values[-1], self.first.scores["test/accuracy"])

    @packaged.needs_matplotlib
    def test_plot_makes_a_picture(self):
        import matplotlib

        matplotlib.use("Agg")
        ax = self.first.plot("test/loss")
        self.assertEqual((ax.get_ylabel(), len(ax.lines)), ("test/loss", 1))


if __name__ == "__main__":
    harness.main()
