"""What the tests of the Python package share: where it lies, and names for what a test needs."""

import importlib.util
import os
import pathlib
import random
import sys
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests/e2e")]

import harness  # noqa: E402


class ProgramTest(harness.RivuletTest):
    """The package starts the program that is tested."""

    def setUp(self):
        super().setUp()
        patched = unittest.mock.patch.dict(os.environ, {"RIVULET_BINARY": harness.RIVULET})
        patched.start()
        self.addCleanup(patched.stop)

    def work_in_folder(self):
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)


def installed(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it would be in
        return False


def mutations(content, count):
    """`content`, damaged in `count` ways, the same in every run: bytes changed, cut off, put in, left out."""
    chance = random.Random(1)
    for _ in range(count):
        damaged = bytearray(content)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(damaged) + 1)
            kind = chance.randrange(4)
            if kind == 0 and at < len(damaged):
                damaged[at] = chance.choice([0, 1, 127, 128, 255])
            elif kind == 1:
                del damaged[at:]
            elif kind == 2:
                damaged[at:at] = chance.randbytes(chance.randint(1, 4))
            elif kind == 3:
                del damaged[at : at + chance.randint(1, 4)]
        yield bytes(damaged)


needs_numpy = unittest.skipUnless(installed("numpy"), "needs NumPy (Debian's python3-numpy)")
needs_grpc = unittest.skipUnless(
    installed("grpc") and installed("google.protobuf") and installed("numpy"),
    "needs gRPC, Protobuf and NumPy (Debian's python3-grpcio, python3-protobuf and python3-numpy)",
)
needs_cloudpickle = unittest.skipUnless(installed("cloudpickle"), "needs cloudpickle (Debian's python3-cloudpickle)")
needs_safetensors = unittest.skipUnless(installed("safetensors"), "needs safetensors")
needs_pandas = unittest.skipUnless(installed("pandas"), "needs pandas")
needs_matplotlib = unittest.skipUnless(installed("matplotlib"), "needs matplotlib")
needs_torch = unittest.skipUnless(installed("torch"), "needs PyTorch")
needs_keras = unittest.skipUnless(installed("keras") and installed("tensorflow"), "needs Keras and TensorFlow")
needs_mypy = unittest.skipUnless(installed("mypy"), "needs mypy")
