"""rivulet.simulate: the program from Python. Runs, refusals, interrupts, bars."""

import json
import os
import pathlib
import pty
import shutil
import signal
import subprocess
import sys
import threading
import types
import unittest.mock

import packaged
import harness
import rivulet

SCENARIO = {
    "run": {"name": "tiny", "rounds": 4, "seed": 7},
    "model": {"preset": "logistic_regression"},
    "data": {
        "train": "data/train.tfrecord",
        "test": "data/test.tfrecord",
        "synth": {"kind": "digits", "writers": 12, "test_writers": 2, "examples_per_writer": 8, "seed": 3},
        "partition": {"kind": "iid", "clients": 6},
    },
    "client": {"epochs": 2, "batch_size": 5, "optimizer": {"kind": "sgd", "learning_rate": 0.1}},
    "server": {"clients_per_round": 3},
}


class Simulate(packaged.ProgramTest):
    def setUp(self):
        super().setUp()
        self.work_in_folder()

    def script(self, text, **keywords):
        """A Python process of its own, that has the package."""
        process = subprocess.Popen(
            [sys.executable, "-c", text],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": str(packaged.ROOT / "python")},
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **keywords},
        )
        self.processes.append(process)
        return process

    def test_a_file_and_its_dict_give_the_programs_bits(self):
        self.simulate()
        from_file = rivulet.simulate("tiny.toml", db="file.sqlite")
        rivulet.simulate(SCENARIO, db="dict.sqlite", workers=1)
        self.assertEqual((from_file.status, from_file.name), ("finished", "tiny"))
        self.assertEqual(self.digests("file.sqlite"), self.digests())
        self.assertEqual(self.digests("dict.sqlite"), self.digests())
        self.assertEqual(from_file.history.db, "file.sqlite")
        self.assertEqual([name for name in os.listdir() if name.startswith(".")], [])

    def test_arguments_have_their_effect(self):
        run = rivulet.simulate(
            pathlib.Path("tiny.toml"), rounds=2, set={"client.epochs": 1, "run.name": "5", "run.seed": 8}
        )
        self.assertEqual((run.name, run.seed), ("5", 8))
        self.assertEqual(self.query("SELECT count(*) FROM rounds", db="rivulet.sqlite"), [(2,)])
        keys = dict(self.query("SELECT key, value FROM run_keys", db="rivulet.sqlite"))
        self.assertEqual(keys["client.epochs"], "1")

    def test_curves_are_written_for_tensorboard_on_demand(self):
        run = rivulet.simulate("tiny.toml", rounds=2, logdir=pathlib.Path("logs"))
        (file,) = (self.folder / "logs" / run.id).iterdir()
        content = file.read_bytes()
        for name in ("test/accuracy", "train/loss"):
            self.assertIn(name.encode(), content)

    def test_a_dict_without_a_name_is_called_simulation(self):
        scenario = {**SCENARIO, "run": {"rounds": 1}}
        self.assertEqual(rivulet.simulate(scenario).name, "simulation")
        self.assertEqual(scenario["run"], {"rounds": 1})

    def test_resume_goes_on_with_the_same_bits(self):
        run = rivulet.simulate("tiny.toml", rounds=2)
        for resume in (run, "latest", run.id):
            rounds = len(self.digests("rivulet.sqlite", run.id)) + 1
            self.assertEqual(rivulet.simulate("tiny.toml", rounds=rounds, resume=resume), run)
        rivulet.simulate("tiny.toml", rounds=5, db="whole.sqlite")
        self.assertEqual(self.digests("rivulet.sqlite", run.id), self.digests("whole.sqlite"))

    def test_refusals_are_the_programs_sentences(self):
        for arguments, sentence in [
            ({"scenario": "none.toml"}, "cannot open 'none.toml': No such file or directory"),
            ({"scenario": "-none"}, "cannot open '-none': No such file or directory"),
            (
                {"scenario": "tiny.toml", "set": {"client.epoch": 1}},
                "unknown key 'client.epoch' in --set. Did you mean 'client.epochs'?",
            ),
            (
                {"scenario": {**SCENARIO, "run": {"rouns": 1}}},
                "unknown key 'run.rouns' in the scenario. Did you mean 'run.rounds'?",
            ),
            ({"scenario": "tiny.toml", "resume": "nobody"}, "there is no history at 'rivulet.sqlite'"),
        ]:
            with self.subTest(sentence), self.assertRaises(rivulet.RivuletError) as raised:
                rivulet.simulate(**{"db": "rivulet.sqlite", **arguments})
            self.assertEqual(str(raised.exception), sentence)
        self.assertEqual([name for name in os.listdir() if name.startswith(".")], [])

    def test_words_of_other_frameworks_as_arguments_lead_to_what_is_meant(self):
        for word, value, hint in [
            ("lr", 0.1, ". Did you mean set={'client.optimizer.learning_rate': 0.1}?"),
            ("epochs", 3, ". Did you mean set={'client.epochs': 3}?"),
            ("num_rounds", 3, ". Did you mean rounds=3?"),
            ("round", 3, ". Did you mean rounds=3?"),
            ("momentum", 0.9, ". Did you mean set={'client.optimizer.momentum': 0.9}?"),
            ("xyzzy", 1, ""),
        ]:
            with self.subTest(word), self.assertRaises(TypeError) as raised:
                rivulet.simulate("tiny.toml", **{word: value})
            self.assertEqual(str(raised.exception), f"simulate() has no argument '{word}'{hint}")

    def test_what_a_scenario_cannot_hold_is_refused_by_name(self):
        for scenario, sentence in [
            ({"run": {"name": None}}, "run.name is None, which a scenario cannot hold; leave the key out"),
            (
                {"run": {"name": {1}}},
                "run.name is a set, which a scenario cannot hold; give text, a number, a list or a dict",
            ),
            ({"model": {"layers": [{"units": b"x"}]}}, "model.layers\\[0\\].units is a bytes, which"),
            ({"run": 5}, "the scenario's 'run' is 5; a scenario is a dict of sections"),
            ({"run": {5: 5}}, "run has the key 5: keys of a scenario are text"),
        ]:
            with self.subTest(sentence), self.assertRaisesRegex(rivulet.RivuletError, sentence):
                rivulet.simulate(scenario)

    def test_values_arrive_as_they_are(self):
        from rivulet._scenario import toml, toml_value

        values = {
            "text": 'a "b"\\\n\t\x7fé',
            "path": pathlib.Path("x/y"),
            "yes": True,
            "int": -3,
            "float": 1e-7,
            "inf": float("inf"),
            "list": [1, (2, 3)],
            "table": {"odd key": {}, "k": [{"a": 1}]},
        }
        self.assertEqual(
            toml_value(values, "values"),
            '{ text = "a \\"b\\"\\\\\\n\\t\\u007fé", path = "x/y", yes = true, int = -3, float = 1e-07, inf = inf, '
            'list = [1, [2, 3]], table = { "odd key" = {}, k = [{ a = 1 }] } }',
        )
        if sys.version_info >= (3, 11):
            import tomllib

            self.assertEqual(tomllib.loads(toml({"a": values})), {"a": {**values, "path": "x/y", "list": [1, [2, 3]]}})

    @packaged.needs_numpy
    def test_numbers_of_numpy_are_numbers(self):
        import numpy

        from rivulet._scenario import toml_value

        values = [numpy.float32(0.5), numpy.int64(3), numpy.bool_(True), numpy.arange(2)]
        self.assertEqual(toml_value(values, "values"), "[0.5, 3, true, [0, 1]]")

    def test_layers_of_a_dict_are_layers(self):
        model = {"input": {"shape": [28, 28, 1]}, "layers": [{"type": "flatten"}, {"type": "dense", "units": 10}]}
        run = rivulet.simulate({**SCENARIO, "model": model}, rounds=1)
        self.assertEqual(self.query("SELECT parameters FROM models WHERE round = 1", db="rivulet.sqlite"), [(7850,)])
        self.assertEqual(run.status, "finished")

    def interrupt_when(self, condition, what):
        """Interrupts this process, as Ctrl-C and a notebook do, once `condition` holds."""

        def watch():
            self.wait_for(condition, what)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

        watching = threading.Thread(target=watch)
        watching.start()
        self.addCleanup(watching.join)

    def test_interrupt_ends_cleanly_and_resumes_with_the_same_bits(self):
        self.interrupt_when(lambda: self.committed("rivulet.sqlite") >= 2, "two rounds")
        with self.assertRaises(rivulet.Interrupted) as raised:
            rivulet.simulate("tiny.toml", rounds=100_000)
        self.assertIsInstance(raised.exception, KeyboardInterrupt)
        run = raised.exception.run
        self.assertEqual(run.status, "interrupted")
        self.assertRegex(
            str(raised.exception),
            f"^interrupted after round [0-9]+; to resume: rivulet.simulate\\(…, db='rivulet.sqlite', "
            f"resume='{run.id}'\\)$",
        )
        rounds = len(self.digests("rivulet.sqlite")) + 2
        self.assertEqual(rivulet.simulate("tiny.toml", rounds=rounds, resume=run).status, "finished")
        rivulet.simulate("tiny.toml", rounds=rounds, db="whole.sqlite")
        self.assertEqual(self.digests("rivulet.sqlite"), self.digests("whole.sqlite"))

    def test_interrupt_from_a_terminal_reaches_the_program_once(self):
        ours, theirs = pty.openpty()
        # setsid(1) makes the terminal the session's own, so that Ctrl-C goes to every process of the foreground.
        text = (
            "import fcntl, termios, rivulet\n"
            "fcntl.ioctl(2, termios.TIOCSCTTY, 0)\n"
            "try:\n"
            "    rivulet.simulate('tiny.toml', rounds=100_000)\n"
            "except rivulet.Interrupted as interrupted:\n"
            "    print(interrupted.run.status)\n"
        )
        process = self.script(text, stderr=theirs, start_new_session=True)
        os.close(theirs)
        draining = threading.Thread(target=self.drain, args=(ours,))
        draining.start()
        self.wait_for(lambda: self.committed("rivulet.sqlite") >= 1, "a round")
        os.write(ours, b"\x03")
        self.assertEqual(process.communicate()[0], "interrupted\n")
        draining.join()
        os.close(ours)

    @staticmethod
    def drain(terminal):
        """All that a terminal shows until nobody writes to it any more."""
        shown = b""
        try:
            while part := os.read(terminal, 4096):
                shown += part
        except OSError:  # EIO: the other end is closed
            pass
        return shown

    def test_second_interrupt_ends_the_program_at_once(self):
        from rivulet._simulation import _Child

        deaf = "import signal, sys, time; signal.signal(2, print); print('deaf', file=sys.stderr); time.sleep(60)"
        child = _Child([sys.executable, "-c", deaf])
        self.addCleanup(child.close)
        shown = []

        def show(line):  # interrupted wherever it stands, twice
            shown.append(line)
            child.interrupt()
            raise KeyboardInterrupt

        self.assertEqual(child.follow(types.SimpleNamespace(show=show)), ["deaf"])
        self.assertEqual((shown, child.wait()[0]), (["deaf"], -signal.SIGKILL))

    def test_killed_python_ends_its_run_cleanly(self):
        if not any(os.access(os.path.join(folder, "setpriv"), os.X_OK) for folder in os.get_exec_path()):
            self.skipTest("needs util-linux's setpriv")
        process = self.script("import rivulet; rivulet.simulate('tiny.toml', rounds=100_000)")
        self.wait_for(lambda: self.committed("rivulet.sqlite") >= 1, "a round")
        process.kill()
        history = rivulet.open("rivulet.sqlite")
        self.wait_for(lambda: history.run().status == "interrupted", "the run's end")

    def test_killed_program_says_how(self):
        def program_of_this_process():
            children = pathlib.Path(f"/proc/self/task/{threading.main_thread().native_id}/children").read_text().split()
            return next(
                (
                    int(child)
                    for child in children
                    if b"simulate" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes()
                ),
                None,
            )

        def kill():
            self.wait_for(lambda: self.committed("rivulet.sqlite") >= 1, "a round")
            os.kill(self.wait_for(program_of_this_process, "the program"), signal.SIGKILL)

        killing = threading.Thread(target=kill)
        killing.start()
        self.addCleanup(killing.join)
        with self.assertRaisesRegex(
            rivulet.RivuletError, "^the program was ended by signal 9; perhaps the machine's memory"
        ):
            rivulet.simulate("tiny.toml", rounds=100_000)

    def test_no_program_a_sentence(self):
        with unittest.mock.patch.dict(os.environ, {"RIVULET_BINARY": "/nowhere/rivulet"}):
            with self.assertRaisesRegex(
                rivulet.RivuletError, "RIVULET_BINARY is '/nowhere/rivulet', which is no program"
            ):
                rivulet.simulate("tiny.toml")

    def test_installed_by_pip_it_finds_the_build_of_its_checkout(self):
        checkout, site = self.folder / "check out", self.folder / "site"
        shutil.copytree(pathlib.Path(rivulet.__file__).parent, site / "rivulet", ignore=shutil.ignore_patterns("_bin"))
        about = site / "rivulet-0.2.0.dist-info"  # as pip leaves it
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: rivulet\nVersion: 0.2.0\n")
        (about / "direct_url.json").write_text(
            json.dumps({"dir_info": {}, "url": (checkout / "python").as_uri()})
        )
        find = [sys.executable, "-c", "from rivulet import _program; print(_program.program())"]
        keep = {name: value for name, value in os.environ.items() if name != "RIVULET_BINARY"}
        path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
        env = {**keep, "PYTHONPATH": path, "PATH": "/nowhere"}
        missing = subprocess.run(find, env=env, cwd=site, capture_output=True, text=True)
        self.assertIn("the program 'rivulet' was not found: it is neither on PATH nor at", missing.stderr)
        self.assertIn(str(checkout / "build/release/rivulet"), missing.stderr)
        built = checkout / "build/release/rivulet"
        built.parent.mkdir(parents=True)
        built.write_text("#!/bin/sh\n")
        built.chmod(0o755)
        found = subprocess.run(find, env=env, cwd=site, capture_output=True, text=True)
        self.assertEqual(found.stdout, f"{built}\n", found.stderr)

    def test_a_terminal_shows_a_bar(self):
        ours, theirs = pty.openpty()
        process = self.script("import rivulet; rivulet.simulate('tiny.toml')", stderr=theirs)
        os.close(theirs)
        shown = self.drain(ours)
        os.close(ours)
        self.assertEqual(process.wait(), 0, shown)
        lines = shown.decode().replace("\r\n", "\n").split("\n")
        self.assertRegex(lines[-2], "\033\\[K" r"round 4/4 \[#+\] accuracy [0-9.]+  test loss [0-9.]+  in ")
        self.assertIn("generating the data \"digits\"", lines[0])
        self.assertEqual(lines[-1], "")

    def test_neither_terminal_nor_notebook_shows_nothing(self):
        out, err = self.script("import rivulet; rivulet.simulate('tiny.toml')").communicate()
        self.assertEqual((out, err), ("", ""))

    def test_a_notebook_shows_a_bar_in_one_place(self):
        class ZMQInteractiveShell:
            pass

        shown = []
        handle = types.SimpleNamespace(update=shown.append)
        display = types.ModuleType("IPython.display")
        display.HTML = str
        display.display = lambda page, display_id: shown.append(page) or handle
        ipython = types.ModuleType("IPython")
        ipython.get_ipython = ZMQInteractiveShell
        ipython.display = display
        with unittest.mock.patch.dict(sys.modules, {"IPython": ipython, "IPython.display": display}):
            with unittest.mock.patch("sys.stderr"):
                rivulet.simulate("tiny.toml")
        self.assertRegex(shown[-1], '^<progress value="4" max="4".*round 4 of 4.*accuracy [0-9.]+')


class Package(harness.RivuletTest):
    def test_import_loads_neither_numpy_nor_anything_slow(self):
        done = subprocess.run(
            [sys.executable, "-c", "import sys, rivulet; print(*sorted(sys.modules))"],
            env={**os.environ, "PYTHONPATH": str(packaged.ROOT / "python")},
            capture_output=True,
            text=True,
            check=True,
        )
        loaded = set(done.stdout.split())
        self.assertEqual(loaded & {"numpy", "pandas", "json", "sqlite3", "subprocess", "typing"}, set())

    def test_its_version_is_the_programs(self):
        told = self.run_rivulet("--version", code=0).out.split()[-1]
        self.assertIn(f'\nversion = "{told}"\n', (packaged.ROOT / "python/pyproject.toml").read_text())

    @packaged.needs_numpy
    def test_every_name_is_there_and_told(self):
        for name in rivulet.__all__:
            self.assertTrue(getattr(rivulet, name).__doc__, name)
        self.assertLessEqual(set(rivulet.__all__), set(dir(rivulet)))
        with self.assertRaisesRegex(AttributeError, "module 'rivulet' has no attribute 'simulat'"):
            rivulet.simulat

    @packaged.needs_mypy
    @packaged.needs_numpy
    def test_types_hold(self):
        done = subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "-p", "rivulet", "--cache-dir", self.path("cache")],
            cwd=packaged.ROOT / "python",
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    harness.main()
