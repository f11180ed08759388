"""What the tests of the Python package share: where it lies, and names for what a test needs."""

import importlib.util
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests/e2e")]


def _installed(module):
    return importlib.util.find_spec(module) is not None


needs_numpy = unittest.skipUnless(_installed("numpy"), "needs NumPy (Debian's python3-numpy)")
needs_pandas = unittest.skipUnless(_installed("pandas"), "needs pandas")
needs_matplotlib = unittest.skipUnless(_installed("matplotlib"), "needs matplotlib")
needs_mypy = unittest.skipUnless(_installed("mypy"), "needs mypy")
