"""A world that does not behave: streams that cannot be written, limits, signals, links and devices, and input made to
break or to mislead. Each was a fault once. What must hold: exit codes are 0, 1 and 2, one sentence says why, nothing is
half-written, nobody waits without end."""
import base64
import fcntl
import os
import pathlib
import pty
import resource
import shutil
import signal
import stat
import struct
import subprocess
import termios

from harness import RIVULET, SCENARIO, RivuletTest, field, main, measures_memory, node

CLIENT = ["client", "--coordinator", "127.0.0.1:7", "--insecure"]


class HostileWorld(RivuletTest):
    def arguments(self, *more, db="runs.sqlite"):
        return ["simulate", self.scenario, "--db", self.path(db), *more]

    def state(self, db="runs.sqlite"):
        return self.query("SELECT status FROM runs ORDER BY created_at DESC LIMIT 1", db=db)[0][0]

    def shell(self, line, timeout=120):
        return subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=self.folder, timeout=timeout,
                              stdin=subprocess.DEVNULL, env={**os.environ, "R": RIVULET, "S": self.scenario})

    # Standard error

    def test_standard_error_that_cannot_be_written(self):
        for name, redirection in [("full", "2>/dev/full"), ("closed", "2>&-"), ("reader-gone", "2> >(true)")]:
            with self.subTest(name=name):
                done = self.shell(f'"$R" simulate "$S" --db {name}.sqlite {redirection}')
                self.assertEqual(done.returncode, 0, done)
                self.assertIn("rounds        4", done.stdout)
                self.assertEqual(self.state(f"{name}.sqlite"), "finished")
        for line, code in [('"$R" simulate "$S" --rounds 0 2>&-', 2), ('"$R" simulate none.toml 2>/dev/full', 1),
                           ('"$R" --vlog=coordinator=2 simulate "$S" --rounds 1 2>/dev/full', 0)]:
            with self.subTest(line=line):
                self.assertEqual(self.shell(line).returncode, code)

    def test_both_streams_into_a_pipe_that_closes(self):
        done = self.shell('"$R" simulate "$S" --db runs.sqlite 2>&1 | head -1; echo "${PIPESTATUS[0]}"')
        self.assertIn(done.stdout.splitlines()[-1], ("0", "1"), done)  # the result had nowhere to go
        self.assertEqual(self.state(), "finished")

    def test_standard_error_that_nobody_reads(self):
        """A full pipe: progress is dropped, the run goes on and can be stopped."""
        process = self.start(*self.arguments("--rounds", "1000000"))
        fcntl.fcntl(process.stderr, fcntl.F_SETPIPE_SZ, 4096)
        self.wait_for(lambda: self.committed() > 100, "a hundred rounds that nobody reads about")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=30), 1)
        self.assertEqual(self.state(), "interrupted")

    def test_coordinator_and_client_whose_standard_error_nobody_reads(self):
        """They serve and train on, and end when they are asked to."""
        alone = ["--set", "data.partition.clients=1", "--set", "server.clients_per_round=1"]
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("clients"), *alone, code=0)
        [data] = (self.folder / "clients").glob("*.tfrecord")
        coordinator = self.start("--vlog=coordinator=2", "coordinator", self.scenario, "--db", self.path("runs.sqlite"),
                                 "--insecure", "--listen", "127.0.0.1:0", "--rounds", "1000000", *alone)
        address = coordinator.stdout.readline().split()[-1]
        self.fill_standard_error(coordinator)
        client = self.start("client", "--coordinator", address, "--insecure", "--name", data.stem, "--data",
                            f"train={data}", "--state", self.path("state"))
        self.fill_standard_error(client)
        before = self.committed()
        self.wait_for(lambda: self.committed() > before + 20, "twenty rounds that nobody reads about")
        for process in (coordinator, client):
            process.send_signal(signal.SIGTERM)
            self.assertIn(process.wait(timeout=30), (0, 1))
        self.assertEqual(self.state(), "interrupted")

    def test_up_whose_standard_error_nobody_reads(self):
        """Neither it nor the coordinator and clients that it has started wait for a reader."""
        process = self.start("up", self.scenario, "--db", self.path("runs.sqlite"), "--rounds", "1000000", "--clients", "6")
        self.fill_standard_error(process)
        self.wait_for(lambda: self.committed() > 20, "twenty rounds that nobody reads about")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=30), 1)
        self.assertEqual(self.state(), "interrupted")

    def fill_standard_error(self, process):
        """Nothing more fits, now and later."""
        pipe = os.open(f"/proc/{process.pid}/fd/2", os.O_WRONLY | os.O_NONBLOCK)
        try:
            while True:
                os.write(pipe, b".")
        except BlockingIOError:
            os.close(pipe)

    def test_standard_streams_that_are_closed_are_no_place_for_files(self):
        done = self.shell('"$R" simulate "$S" --db runs.sqlite <&- 2>&-')
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(len(self.digests()), 4)
        self.assertEqual(self.shell('"$R" --version >&-').returncode, 1)

    # Limits

    def test_limits(self):
        self.simulate("--rounds", "1", db="before.sqlite")  # makes the data
        for limit, value, fragments in [
            (resource.RLIMIT_FSIZE, 20_000, []),           # SIGXFSZ
            (resource.RLIMIT_NOFILE, 8, ["Too many open files"]),
            (resource.RLIMIT_NOFILE, 12, []),
        ]:
            with self.subTest(limit=limit, value=value):
                result = self.run_rivulet(*self.arguments(db=f"{limit}-{value}.sqlite"),
                                          preexec_fn=lambda: resource.setrlimit(limit, (value, value)))
                self.assert_refused(result, *fragments, code=1)

    def test_limits_that_are_too_low_for_threads(self):
        low = 64 << 10
        self.assert_refused(self.run_rivulet("version", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (low, low))),
                            "stacks", "ulimit -s", code=1)
        few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (9, 9))  # gRPC aborts without
        self.simulate("--rounds", "1", db="before.sqlite")
        self.assert_refused(self.run_rivulet(*CLIENT, "--name", "a", "--data", "train=data/train.tfrecord", preexec_fn=few),
                            "ulimit -n", code=1)

    @measures_memory
    def test_little_memory_ends_a_coordinator_and_does_not_hang_it(self):
        """Where threads no longer fit: whatever it gets to, it ends by itself or as asked."""
        self.simulate("--rounds", "1", db="before.sqlite")
        for megabytes in (150, 250, 300, 350, 500):
            with self.subTest(megabytes=megabytes):
                limit = megabytes << 20
                process = self.start("coordinator", self.scenario, "--db", self.path(f"{megabytes}.sqlite"), "--insecure",
                                     "--listen", "127.0.0.1:0",
                                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
                try:
                    process.wait(timeout=0.5)
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGTERM)
                _, err = process.communicate(timeout=30)
                self.assertIn(process.returncode, (0, 1), err)
                self.assertNotIn("fatal", err)

    def test_exports_that_do_not_fit_leave_nothing(self):
        self.simulate("--rounds", "1")
        for arguments in (["runs", "export", "latest", "--db", "runs.sqlite", "--csv", "out"],
                          ["runs", "export", "latest", "--db", "runs.sqlite", "--json", "out"],
                          ["runs", "export", "latest", "--db", "runs.sqlite", "--tensorboard", "out"],
                          ["runs", "plot", "latest", "--db", "runs.sqlite", "--out", "out.svg"],
                          ["data", "synth", "digits", "--out", "out"], ["data", "synth", "blobs", "--out", "out"],
                          ["data", "partition", self.scenario, "--out", "out"], ["manual", "--out", "out"],
                          ["graph", "inspect", "mlp", "--tensorboard", "out"]):
            with self.subTest(arguments=arguments):
                result = self.run_rivulet(*arguments, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
                self.assertEqual(result.code, 1, result)
                left = list(self.folder.glob("out*"))
                for path in left:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                self.assertEqual(left, [])

    def test_more_files_than_descriptors(self):
        self.simulate("--rounds", "1", db="before.sqlite")
        data = (self.folder / "data/train.tfrecord").read_bytes()
        for i in range(100):
            self.write(f"shards/{i:03}.tfrecord", data)
        result = self.run_rivulet(*CLIENT, "--name", "a\x01", "--data", "train=shards/*.tfrecord")
        self.assert_refused(result, "--name", "U+0001", code=2)  # checked before it polls
        process = self.start(*CLIENT, "--name", "a", "--data", "train=shards/*.tfrecord",
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
        line = process.stderr.readline()
        self.assertIn("cannot be reached", line)  # all the files were opened before
        process.kill()

    def test_a_graph_that_needs_more_than_there_is(self):
        float32 = field(6, 1)
        shape = field(7, field(2, field(1, 1 << 20)) + field(2, field(1, 1 << 18)))  # 1 TiB
        graph = self.write("huge.pb", node("x", "Placeholder", dtype=float32, shape=shape) +
                           node("y", "Neg", "x", T=float32))
        result = self.run_rivulet("graph", "profile", graph)
        self.assertEqual(result.code, 1, result)
        self.assertRegex(result.err, r"needs \d+ bytes .* are available.*'x'")

    def test_a_model_that_needs_more_than_there_is(self):
        """By the planned peak of one client, before any of it is taken; a client asks the same (tests/client/agent/agent_test.cc)."""
        layers = '[[model.layers]]\ntype = "flatten"\n' + "".join(
            f'[[model.layers]]\ntype = "dense"\nunits = {units}\n' for units in (2_000_000, 400_000, 10))
        huge = self.write("huge.toml", SCENARIO.replace('preset = "logistic_regression"', 'input = { shape = [28, 28, 1] }') + layers)
        for workers in ("1", "2"):
            with self.subTest(workers=workers):
                self.assert_refused(self.run_rivulet("simulate", huge, "--workers", workers, "--db", "runs.sqlite"),
                                    "planned to take", "MB are available", code=1)
                self.assertFalse(os.path.exists(self.path("runs.sqlite")))

    # Signals

    def test_hangup_ends_like_a_wish(self):
        process = self.start(*self.arguments("--rounds", "100000"))
        self.wait_for(lambda: self.committed() > 2, "two rounds")
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGHUP)  # shell and kernel say so both
        _, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 1)
        self.assertIn("--resume", err)
        self.assertEqual(self.state(), "interrupted")

    def test_nohup_is_kept(self):
        process = self.start(*self.arguments("--rounds", "100000"),
                             preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.wait_for(lambda: self.committed() > 2, "two rounds")
        process.send_signal(signal.SIGHUP)
        before = self.committed()
        self.wait_for(lambda: self.committed() > before + 2, "more rounds")
        process.kill()

    def test_interrupt_while_data_are_generated(self):
        process = self.start(*self.arguments("--set", "data.synth.writers=900000"))
        self.wait_for(lambda: list((self.folder / "data").glob("*.tmp-*")), "the beginning of the data")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=20), 1)
        self.assertEqual(list((self.folder / "data").iterdir()), [])

    def test_interrupt_while_data_are_imported(self):
        images = 2_000_000  # a hole: zeros that take no room
        for name, head, size in [("train-images-idx3-ubyte", (0x803, images, 28, 28), images * 784),
                                 ("train-labels-idx1-ubyte", (0x801, images), images),
                                 ("t10k-images-idx3-ubyte", (0x803, 1, 28, 28), 784),
                                 ("t10k-labels-idx1-ubyte", (0x801, 1), 1)]:
            path = self.write("in/" + name, struct.pack(f">{len(head)}I", *head))
            os.truncate(path, 4 * len(head) + size)
        process = self.start("data", "import", "mnist", "--from", self.path("in"), "--out", self.path("out"))
        self.wait_for(lambda: any(file.stat().st_size > 0 for file in (self.folder / "out").glob("train*"))
                      if (self.folder / "out").exists() else False, "the first records")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=20), 1)
        self.assertFalse((self.folder / "out").exists())

    def test_measuring_child_dies_with_its_parent(self):
        process = self.start("bench", "op", "MatMul", "--shape", "4000x4000", "--shape", "4000x4000", "--algorithm",
                             "none")
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        child = pathlib.Path("/proc", self.wait_for(lambda: children.read_text().split(), "the child")[0])
        process.kill()
        process.wait()

        def gone():
            try:
                return (child / "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
            except FileNotFoundError:
                return True

        self.wait_for(gone, "the child's end", 10)

    def test_profile_of_a_stopped_process(self):
        process = self.start(*self.arguments("--rounds", "100000"))
        self.wait_for(lambda: self.committed() > 0, "a round")
        process.send_signal(signal.SIGSTOP)
        result = self.run_rivulet("graph", "profile", "--attach", process.pid, timeout=30)
        self.assertEqual(result.code, 1, result)
        self.assertIn(f"process {process.pid} is stopped", result.err)
        process.kill()

    # Devices, links and folders

    def test_files_that_are_no_files(self):
        os.symlink("/dev/null", self.path("nothing"))
        self.write("real/weights.safetensors", "old")
        os.symlink("real/weights.safetensors", self.path("link.safetensors"))
        self.run_rivulet("model", "export", "logistic_regression", "--format", "safetensors", "--out", "nothing", code=0)
        self.run_rivulet("model", "export", "logistic_regression", "--out", "link.safetensors", code=0)
        self.run_rivulet("model", "export", "logistic_regression", "--format", "onnx", "--out", "nothing", code=0)
        self.run_rivulet("model", "export", "logistic_regression", "--format", "graphdef", "--out", "nothing", code=0)
        self.assertTrue(os.path.islink(self.path("nothing")))
        self.assertTrue(stat.S_ISCHR(os.stat(self.path("nothing")).st_mode))
        self.assertTrue(os.path.islink(self.path("link.safetensors")))
        self.assertGreater(os.path.getsize(self.path("real/weights.safetensors")), 1000)
        os.mkfifo(self.path("pipe"))
        process = self.start("model", "export", "logistic_regression", "--format", "safetensors", "--out", "pipe")
        with open(self.path("pipe"), "rb") as pipe:
            got = pipe.read()
        self.assertEqual(process.wait(timeout=20), 0)
        self.assertEqual(got, (self.folder / "real/weights.safetensors").read_bytes())
        self.assertTrue(stat.S_ISFIFO(os.lstat(self.path("pipe")).st_mode))

    def test_links_that_lead_nowhere(self):
        """Nobody's link is replaced or removed, and no key is left beside it."""
        os.symlink("nowhere/else", self.path("link"))
        os.symlink("circle", self.path("circle"))
        self.run_rivulet("ca", "init", "--name", "A", "--ca", "ca", code=0)
        self.run_rivulet("model", "export", "mlp", "--out", "mlp.onnx", code=0)
        self.write("text.txt", "some words\n" * 20)
        before = sorted(os.listdir(self.folder))
        for name in ("link", "circle"):
            for arguments in (["ca", "init", "--name", "B", "--ca", name],
                              ["ca", "issue", "operator/x", "--ca", "ca", "--out", name],
                              ["ca", "kit", "coordinator/h", "--ca", "ca", "--out", name],
                              ["ca", "request", "client/q", "--out", name],
                              ["data", "synth", "blobs", "--out", name],
                              ["data", "import", "text", "--from", "text.txt", "--out", name],
                              ["model", "import", "mlp.onnx", "--out", name]):
                with self.subTest(arguments=arguments):
                    self.assert_refused(self.run_rivulet(*arguments), name, code=1)
                    self.assertTrue(os.path.islink(self.path(name)))
                    self.assertEqual(sorted(set(os.listdir(self.folder)) - {"lock"}), before)
        self.assertNotIn("operator/x", self.run_rivulet("ca", "list", "--ca", "ca", code=0).out)

    def test_certificate_with_a_key_of_an_unknown_kind(self):
        """OpenSSL reads it, and has no key to give."""
        self.run_rivulet("ca", "init", "--name", "A", "--ca", "ca", code=0)
        pem = (self.folder / "ca/authority.crt").read_text()
        der = base64.b64decode("".join(line for line in pem.splitlines() if not line.startswith("-----")))
        for name, known in [("kind", "06072a8648ce3d0201"), ("curve", "06082a8648ce3d030107")]:
            with self.subTest(name=name):
                self.assertEqual(der.count(bytes.fromhex(known)), 1)
                changed = der.replace(bytes.fromhex(known), bytes.fromhex(known[:-2] + "7f"))
                text = "-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(changed).decode() + "-----END CERTIFICATE-----\n"
                self.assert_refused(self.run_rivulet("ca", "show", self.write(name + ".crt", text)), name + ".crt", "key", code=1)

    def test_a_plan_has_its_keys_beside_it(self):
        self.simulate("--rounds", "1")
        os.symlink("/dev/null", self.path("nothing"))
        self.assert_refused(self.run_rivulet("plan", "build", self.scenario, "--out", "nothing"), "nothing", "keys",
                            code=1)
        self.assertFalse(os.path.exists(self.path("nothing.keys.toml")))

    def test_a_place_for_state_that_is_no_folder(self):
        self.simulate("--rounds", "1")
        self.write("file", "")
        result = self.run_rivulet(*CLIENT, "--name", "a", "--data", "train=data/train.tfrecord", "--state", "file")
        self.assert_refused(result, "--state: 'file' is no folder", code=1)  # before it polls

    def test_empty_files_are_not_taken_for_none(self):
        self.simulate("--rounds", "1")
        empty = self.write("empty", b"")
        result = self.run_rivulet(*self.arguments("--set", f"client.input_graph={empty}"))
        self.assert_refused(result, "client.input_graph", "empty")
        self.assert_refused(self.run_rivulet("graph", "place", "logistic_regression", "--costs", empty),
                            "empty", "no costs", code=1)

    def test_a_file_larger_than_memory_is_named(self):
        hole = self.write("hole.toml", b"")
        os.truncate(hole, 1 << 42)
        self.assert_refused(self.run_rivulet("simulate", hole), "hole.toml", "memory", code=1)

    def test_numbers_that_32_bits_do_not_hold(self):
        """They would fail at every client, as a NaN that names no key."""
        self.simulate("--rounds", "1")
        for keys, fragments in [(["client.optimizer.kind=adam", "client.optimizer.epsilon=1e-45"], ["epsilon", "1.2e-38"]),
                                (["client.optimizer.kind=adam", "client.optimizer.beta1=0.9999999999999999"],
                                 ["beta1", "which is 1"]),
                                (["privacy.clip=5e-324"], ["privacy.clip"]),
                                (["privacy.clip=1", "privacy.noise=5e-324"], ["privacy.noise"]),
                                (["algorithm.name=fedadam", "algorithm.tau=1e308"], ["tau", "3.4e38"])]:
            with self.subTest(keys=keys):
                sets = [word for key in keys for word in ("--set", key)]
                self.assert_refused(self.run_rivulet(*self.arguments(*sets)), *fragments, code=2)

    def test_import_that_does_not_fit_leaves_no_folder(self):
        self.run_rivulet("model", "export", "mlp", "--out", "mlp.onnx", code=0)
        result = self.run_rivulet("model", "import", "mlp.onnx", "--out", "imported",
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000)))
        self.assertEqual(result.code, 1, result)
        self.assertFalse(os.path.exists(self.path("imported")))

    # The command line

    def test_arguments(self):
        dots = ".".join(["a"] * 20000)
        for arguments, fragments, code in [
            (self.arguments("--resume", ""), ["--resume", "empty"], 2),
            (self.arguments("--trace", ""), ["--trace", "empty"], 2),
            (["model", "inspect", "--", "-no-such-model"], ["-no-such-model"], 2),
            (self.arguments("--set", f"run.name={{{dots}=1}}"), ["run.name"], 2),
            (self.arguments("--set", f"{dots}=1"), ["unknown key 'a.a"], 2),
            (self.arguments("--set", "x" * 100_000), ["…"], 2),
            (["x" * 100_000], ["…"], 2),
            (self.arguments("--rounds", "9" * 30), ["--rounds", "at least 1"], 2),
            (self.arguments("--workers", "5000"), ["0 and 1024"], 2),
            (self.arguments("--set", "privacy.budget=1"), ["unknown key 'privacy.budget' in --set."], 2),
            (self.arguments("--set", "client.lr=1"), ["client.optimizer.learning_rate"], 2),
            (self.arguments("--set", 'run.name="a\\u202Eb"'), ["U+202E"], 2),
            (self.arguments("--set", "model.preset=nosuch"), ["nosuch"], 2),
            (self.arguments("--set", 'model.freeze=["nosuch*"]'), ["nosuch*"], 2),
            (["model", "inspect", self.write("layers.toml", SCENARIO.replace(
                'preset = "logistic_regression"', 'layers = [{ type = "nosuch" }]\ninput = { shape = [28, 28, 1] }'))],
             ["nosuch"], 2),
        ]:
            with self.subTest(arguments=[argument[:80] for argument in arguments]):
                self.assert_refused(self.run_rivulet(*arguments), *fragments, code=code)
        self.run_rivulet("--", "model", "inspect", "--", "logistic_regression", code=0)
        self.assertIn("0 to 1024", self.run_rivulet("simulate", "--help", code=0).out)

    def test_progress_fits_its_terminal(self):
        for columns in (20, 40, 60):
            with self.subTest(columns=columns):
                master, slave = pty.openpty()
                fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
                process = subprocess.Popen([RIVULET, *self.arguments("--rounds", "12", db=f"{columns}.sqlite")],
                                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=slave,
                                           cwd=self.folder, env={**os.environ, "TERM": "xterm"})
                self.processes.append(process)
                os.close(slave)
                drawn = b""
                try:
                    while chunk := os.read(master, 4096):
                        drawn += chunk
                except OSError:
                    pass  # the other end is closed
                os.close(master)
                self.assertEqual(process.wait(timeout=20), 0)
                lines = [line for line in drawn.decode().replace("\r\n", "\r").split("\r")
                         if "round" in line and "generating" not in line]
                self.assertTrue(lines)
                for line in lines:
                    self.assertLess(len(line.replace("\033[K", "")), columns, line)

    # Large and deep

    def test_text_that_nests_deeper_than_a_stack(self):
        text = "node { name: 'x' op: 'NoOp' " + "attr { key: 'f' value { func { name: 'g' " * 20000 + "} } }" * 20000 + "}"
        self.assert_refused(self.run_rivulet("model", "inspect", self.write("deep.pbtxt", text)), "deep.pbtxt", code=1)
        result = self.run_rivulet("simulate", self.write("deep.toml", ".".join(["a"] * 20000) + " = 1\n"))
        self.assert_refused(result, "deep.toml", "64 deep", code=2)

    def test_thousands_of_layers(self):
        """Three times the layers take three to four times as long (less fits into caches): nothing looks at every node for
        every node, in making the model and its plan, in gradients, passes and programs. It was seven times."""
        def seconds(layers):
            path = self.write(f"{layers}.toml", '[data]\ntrain = "none.tfrecord"\n[model]\ninput = { shape = [28, 28, 1] }\n'
                              '[[model.layers]]\ntype = "flatten"\n' + '[[model.layers]]\ntype = "dense"\nunits = 4\n' * layers +
                              '[[model.layers]]\ntype = "dense"\nunits = 10\n[data.partition]\nclients = 10\n')
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.run_rivulet("graph", "optimize", path, "--training", code=0)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        # Whatever else runs can only make them longer: the shortest of some tries counts.
        few, many = seconds(1000), seconds(3000)
        for _ in range(3):
            if many < 5.5 * few:
                break
            few, many = min(few, seconds(1000)), min(many, seconds(3000))
        self.assertLess(many, 5.5 * few)


if __name__ == "__main__":
    main()
