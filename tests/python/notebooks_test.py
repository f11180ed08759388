"""examples/*.ipynb: each runs from top to bottom; and a cell that is interrupted, as by a notebook's button, goes on."""

import asyncio
import importlib.util
import inspect
import os
import sqlite3
import threading
import time
import unittest
import unittest.mock

import packaged
import harness

needs_jupyter = unittest.skipUnless(
    all(importlib.util.find_spec(module) for module in ("nbclient", "nbformat", "ipykernel")),
    "needs Jupyter (nbclient, nbformat, ipykernel)",
)


@needs_jupyter
@packaged.needs_numpy
class Notebooks(harness.RivuletTest):
    def ran(self, name):
        import nbclient
        import nbformat

        book = nbformat.read(packaged.ROOT / f"examples/{name}.ipynb", as_version=4)
        self.execute(nbclient.NotebookClient(book, timeout=120, resources={"metadata": {"path": self.path("")}}))
        return book.cells

    def execute(self, client):
        environment = {"RIVULET_BINARY": harness.RIVULET, "PYTHONPATH": str(packaged.ROOT / "python")}
        with unittest.mock.patch.dict(os.environ, environment):
            client.execute()

    def test_a_cell_that_is_interrupted_goes_on_in_the_next(self):
        import nbclient
        import nbformat

        cells = [
            """import rivulet
scenario = {
    "run": {"name": "long", "rounds": 100000},
    "model": {"preset": "logistic_regression"},
    "data": {"synth": {"kind": "digits", "writers": 4, "test_writers": 2, "examples_per_writer": 10},
             "partition": {"kind": "iid", "clients": 4}},
    "server": {"clients_per_round": 2},
    "evaluation": {"every": 0},
}""",
            """try:
    rivulet.simulate(scenario)
except rivulet.Interrupted as stopped:
    run = stopped.run
(run.status, before := max(row["round"] for row in run.history.rows("SELECT round FROM rounds")))""",
            """rivulet.simulate(scenario, resume=run, rounds=before + 2)
(run.status, max(row["round"] for row in run.history.rows("SELECT round FROM rounds")) - before)""",
        ]
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])

        def interrupt():
            until = time.monotonic() + 60
            while time.monotonic() < until:
                try:
                    if len(self.query("SELECT round FROM rounds", db="rivulet.sqlite")) >= 3:
                        break
                except sqlite3.Error:  # there is no history yet, or no table in it
                    pass
                time.sleep(0.05)
            asked = client.km.interrupt_kernel()  # what the button does
            if inspect.isawaitable(asked):
                asyncio.run(asked)

        def begin(cell, cell_index):
            if cell_index == 1:
                threading.Thread(target=interrupt, daemon=True).start()

        resources = {"metadata": {"path": self.path("")}}
        client = nbclient.NotebookClient(book, timeout=120, resources=resources, on_cell_execute=begin)
        self.execute(client)
        stopped, finished = (cell.outputs[-1]["data"]["text/plain"] for cell in book.cells[1:])
        self.assertEqual(eval(stopped)[0], "interrupted")
        self.assertEqual(eval(finished), ("finished", 2))

    @packaged.needs_matplotlib
    @packaged.needs_pandas
    def test_compare_algorithms(self):
        last = self.ran("compare_algorithms")[-1]
        self.assertTrue(any("image/png" in output.get("data", {}) for output in last.outputs))

    @packaged.needs_grpc
    def test_clients_in_numpy(self):
        scores = self.ran("clients_in_numpy")[-2].outputs[0]["data"]["text/plain"]
        self.assertGreater(eval(scores)["test/accuracy"], 0.5)

    @packaged.needs_grpc
    @packaged.needs_torch
    def test_own_training_loop(self):
        by_torch, by_the_program = eval(self.ran("own_training_loop")[-1].outputs[0]["data"]["text/plain"])
        self.assertGreater(by_the_program, 0.5)
        self.assertAlmostEqual(by_torch, by_the_program, delta=1.5 / 300)  # a tie may fall otherwise


if __name__ == "__main__":
    harness.main()
