"""docs/guide/large-models.md runs from top to bottom.

    large_models_guide_test.py --update    writes what the commands print into the page"""

import os
import pathlib
import sys
import unittest.mock

import packaged
import harness
import guides_test


@packaged.needs_grpc
class LargeModelsGuide(harness.RivuletTest):
    bash = guides_test.Guides.bash
    follow_page = guides_test.Guides.follow_page
    update = False

    def setUp(self):
        super().setUp()
        (self.folder / "bin").mkdir()
        (self.folder / "bin/python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (self.folder / "bin/python3").chmod(0o755)
        patched = unittest.mock.patch.dict(
            os.environ,
            {
                "PYTHONPATH": os.pathsep.join([str(packaged.ROOT / "python"), *sys.path]),
                "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
                "OPENBLAS_NUM_THREADS": "1",
            },
        )
        patched.start()
        self.addCleanup(patched.stop)

    def test_the_page_is_run(self):
        self.follow_page("large-models", update=self.update, least=8)
        bases = [path.name for path in pathlib.Path(self.folder).rglob("*.safetensors") if len(path.stem) == 64]
        self.assertEqual(len(bases), 4)  # of the clients that had none of their own


if __name__ == "__main__":
    if "--update" in sys.argv:
        sys.argv.remove("--update")
        LargeModelsGuide.update = True
    harness.main()
