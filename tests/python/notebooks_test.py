"""examples/*.ipynb: each runs from top to bottom."""

import importlib.util
import os
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
        environment = {"RIVULET_BINARY": harness.RIVULET, "PYTHONPATH": str(packaged.ROOT / "python")}
        with unittest.mock.patch.dict(os.environ, environment):
            nbclient.NotebookClient(book, timeout=120, resources={"metadata": {"path": self.path("")}}).execute()
        return book.cells

    @packaged.needs_matplotlib
    @packaged.needs_pandas
    def test_compare_algorithms(self):
        last = self.ran("compare_algorithms")[-1]
        self.assertTrue(any("image/png" in output.get("data", {}) for output in last.outputs))

    @packaged.needs_protobuf
    def test_clients_in_numpy(self):
        scores = self.ran("clients_in_numpy")[-2].outputs[0]["data"]["text/plain"]
        self.assertGreater(eval(scores)["test/accuracy"], 0.5)

    @packaged.needs_protobuf
    @packaged.needs_torch
    def test_own_training_loop(self):
        by_torch, by_the_program = eval(self.ran("own_training_loop")[-1].outputs[0]["data"]["text/plain"])
        self.assertGreater(by_the_program, 0.5)
        self.assertAlmostEqual(by_torch, by_the_program, delta=1.5 / 300)  # a tie may fall otherwise


if __name__ == "__main__":
    harness.main()
