"""The installed package: the examples build against it and do what they say; an engine's program links no gRPC; libraries
of ops and of algorithms work in the program, and one that does not fit is refused before its code runs."""
import concurrent.futures
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

from harness import RIVULET, RivuletTest, main

ROOT = pathlib.Path(__file__).parents[2]
CACHE = ["ccache"] if shutil.which("ccache") else []
HEADER = "#include \"engine/program/op_library.h\"\n"


def run(*command, **kwargs):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **kwargs)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@unittest.skipIf(os.environ.get("RIVULET_SANITIZE"), "the examples are built without sanitizers")
@unittest.skipUnless(os.access(pathlib.Path(RIVULET).parent, os.W_OK), "cmake --install lists what it did in the build's folder")
class Package(RivuletTest):
    @classmethod
    def setUpClass(cls):
        cls.base = pathlib.Path(tempfile.mkdtemp(prefix="rivulet-package-"))
        cls.prefix, cls.built = cls.base / "prefix", cls.base / "examples"
        run("cmake", "--install", pathlib.Path(RIVULET).parent, "--prefix", cls.prefix)
        launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if CACHE else []
        run("cmake", "-S", ROOT / "examples", "-B", cls.built, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={cls.prefix}",
            "-DCMAKE_BUILD_TYPE=Release", *launcher)
        run("cmake", "--build", cls.built, env=cls.environment())

    @classmethod
    def environment(cls):
        """In which a compiler cache knows files again whatever the name of the folder."""
        return {**os.environ, "CCACHE_BASEDIR": str(cls.base), "CCACHE_NOHASHDIR": "1"}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.base, ignore_errors=True)

    def library(self, name, source):
        """A shared library of one source file, built as the example's CMake target is."""
        out = self.path(name + ".so")
        libraries = run("pkg-config", "--cflags", "absl_status", "fmt").split()
        run("c++", "-std=c++20", "-shared", "-fPIC", "-I", self.prefix / "include/rivulet", *libraries,
            self.write(name + ".cc", source), "-o", out)
        return out

    def test_the_training_example_learns(self):
        lines = run(self.built / "train").splitlines()
        right = [int(re.search(r"(\d+) of 200", line).group(1)) for line in lines]
        self.assertEqual(len(lines), 6)
        self.assertGreaterEqual(right[-1], 190, lines)
        self.assertEqual(lines, run(self.built / "train").splitlines())  # the same seed, the same bits

    def test_an_exported_graph_runs_from_its_file(self):
        graph = self.path("mlp.pb")
        self.run_rivulet("model", "export", "mlp", "--out", graph, code=0)
        out = run(self.built / "run_graph", graph, "loss")
        self.assertRegex(out, r"fed image float32\[2,28,28,1\]")
        self.assertRegex(out, r"loss float32\[\] = \d")
        refused = subprocess.run([self.built / "run_graph", graph, "los"], capture_output=True, text=True)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("'loss'", refused.stderr)

    def test_surgery_hides_a_column_and_its_gradient(self):
        self.assertEqual(run(self.built / "graph_surgery"), "y = 1604\ndy/dx = (4, 0, 800)\n")

    def test_a_program_of_the_engine_links_no_grpc(self):
        for program in ("train", "run_graph", "graph_surgery", "write_an_op"):
            linked = run("ldd", self.built / program)
            self.assertNotRegex(linked, "grpc|sqlite|CLI11|spdlog")
            self.assertIn("libprotobuf", linked)

    def test_a_program_of_the_component_cluster_runs_over_two_processes(self):
        program = self.built / "parameter_server"
        self.assertIn("libgrpc++", run("ldd", program))
        addresses = []
        for _ in range(2):  # nobody else is given these ports: their sockets stay bound
            reserved = socket.socket()
            self.addCleanup(reserved.close)
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            reserved.bind(("127.0.0.1", 0))
            addresses.append(f"127.0.0.1:{reserved.getsockname()[1]}")
        cluster = f"ps={addresses[0]};worker={addresses[1]}"
        server = subprocess.Popen([program, cluster, "ps", "0"])
        try:
            said = run(program, cluster, "worker", "0", "50", self.folder / "checkpoints")
        finally:
            server.kill()
            server.wait()
        self.assertRegex(said, r"^step 50  loss \d")

    def test_an_algorithm_of_ones_own_trains_in_the_installed_program(self):
        library = self.library("damped", (ROOT / "tests/docs/algorithm_library/damped.cc").read_text())

        def simulate(db, *arguments):
            run(self.prefix / "bin/rivulet", "simulate", self.scenario, "--db", self.path(db), *arguments, cwd=self.folder)
            return self.digests(db)

        average = simulate("average.sqlite")
        damped = ["--algorithm-library", library, "--set", "algorithm.name=damped"]
        self.assertEqual(simulate("limit.sqlite", *damped, "--set", "algorithm.damping=0"), average)
        self.assertNotEqual(simulate("damped.sqlite", *damped, "--set", "algorithm.damping=50"), average)

    def test_an_op_of_ones_own_trains_in_a_simulation(self):
        model = self.path("sine.pb")
        out = run(self.built / "write_an_op", model)
        self.assertIn("sin(2·0.5) = +0.8415   slope +1.0806", out)
        scenario = self.write("sine.toml", pathlib.Path(self.scenario).read_text().replace(
            'preset = "logistic_regression"', f'graph = "{model}"'))
        refused = self.run_rivulet("simulate", scenario, code=1)
        self.assertIn("there is no op 'Sine'", refused.err)
        library = self.built / "sine_op.so"
        self.run_rivulet("simulate", scenario, "--op-library", library, "--set", "run.rounds=8", "--set",
                         "client.epochs=2", "--set", "client.optimizer.learning_rate=0.05", "--db", self.path("runs.sqlite"), code=0)
        losses = [row[0] for row in self.query("SELECT train_loss FROM rounds ORDER BY round")]
        self.assertLess(losses[-1], 0.6 * losses[0], losses)
        # Deployed, the clients inherit the library.
        self.run_rivulet("up", scenario, "--clients", 3, "--op-library", library, "--set", "run.rounds=1", "--set",
                         "server.clients_per_round=2", "--db", self.path("up.sqlite"), code=0)

    def test_libraries_that_do_not_fit_are_refused(self):
        scenario = self.scenario
        cases = {
            "none": ("int nothing;\n", "RIVULET_OP_LIBRARY"),
            "older": ('extern "C" { extern const char rivulet_op_library_abi_0[]; const char rivulet_op_library_abi_0[] = "";'
                      ' }\n#include <cstdlib>\nstatic int ran = (std::abort(), 0);\n', "version 0 of the interface"),
            "taken": (HEADER + '#include "engine/graph/op.h"\nRIVULET_OP_LIBRARY("");\n'
                      'RIVULET_OP("Relu").Input("x: float").Output("y: float").Doc("Another.");\n', "'Relu'"),
            "unknown": (HEADER + '#include "engine/graph/op.h"\nRIVULET_OP_LIBRARY("");\nvoid missing();\n'
                        'static int called = (missing(), 0);\n', "missing"),
            "orphan": (HEADER + '#include "engine/program/kernel.h"\nRIVULET_OP_LIBRARY("");\n'
                       'RIVULET_KERNEL("Nobodys", ::rivulet::Device::kCpu, float, {});\n', "'Nobodys'|Nobodys"),
        }
        for name, (source, words) in cases.items():
            with self.subTest(name):
                result = self.run_rivulet("simulate", scenario, "--op-library", self.library(name, source))
                self.assertEqual(result.code, 2, result)
                self.assertRegex(result.err, words)
        for file, words in ((self.path("nowhere.so"), "nowhere.so"), (scenario, "not a shared library")):
            result = self.run_rivulet("simulate", scenario, "--op-library", file)
            self.assertEqual(result.code, 2, result)
            self.assertIn(words, result.err)

    def test_every_installed_header_stands_alone(self):
        """A header whose own source file includes it first is proved by the build; the others are compiled here."""
        include = self.prefix / "include/rivulet"
        alone = []
        for header in sorted((*include.glob("engine/**/*.h"), *include.glob("dataflow/**/*.h"))):
            name = header.relative_to(include)
            text = header.read_text()
            self.assertTrue(text.startswith("// "), f"{name} does not say what it is for")
            self.assertIn("#pragma once", text, name)
            source = ROOT / name.with_suffix(".cc")
            first = re.search(r'^#include ["<](.*)[">]', source.read_text(), re.M) if source.exists() else None
            if first is None or first.group(1) != str(name):
                alone.append(name)
        self.assertGreater(len(alone), 10)
        flags = run("pkg-config", "--cflags", "protobuf", "eigen3").split()

        def compile_alone(name):
            source = self.base / "alone" / name.with_suffix(".cc")
            source.parent.mkdir(parents=True, exist_ok=True)
            source.write_text(f'#include "{name}"\n')
            return subprocess.run([*CACHE, "c++", "-std=c++20", "-c", "-DHWY_SHARED_DEFINE", "-I", include, *flags,
                                   source.relative_to(self.base), "-o", source.with_suffix(".o")],
                                  capture_output=True, text=True, cwd=self.base, env=self.environment())

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for name, done in zip(alone, pool.map(compile_alone, alone)):
                self.assertEqual(done.returncode, 0, f"{name}\n{done.stderr}")


if __name__ == "__main__":
    main()
