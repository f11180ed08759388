"""The same seed gives the same model after every round, whatever surrounds the run."""
from harness import RivuletTest, main


class SameBits(RivuletTest):
    def test_workers_threads_folder_locale_and_home_change_nothing(self):
        self.simulate("--workers", "1", db="first.sqlite")
        digests = self.digests("first.sqlite")
        self.assertEqual(len(set(digests)), 4)  # every round learns something
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        for number, (arguments, env, cwd) in enumerate([
            (["--workers", "1"], {}, None),
            (["--workers", "2"], {}, None),
            (["--workers", "3"], {}, None),
            (["--workers", "16"], {}, None),
            ([], {"OMP_NUM_THREADS": "2"}, None),
            ([], {"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8"}, None),
            ([], {"HOME": "/nonexistent", "TMPDIR": str(elsewhere)}, elsewhere),
        ]):
            with self.subTest(arguments=arguments, env=env):
                self.simulate(*arguments, db=f"{number}.sqlite", env=env, cwd=cwd)
                self.assertEqual(self.digests(f"{number}.sqlite"), digests)

    def test_another_seed_changes_the_first_round(self):
        self.simulate(db="a.sqlite")
        self.simulate("--set", "run.seed=8", db="b.sqlite")
        self.assertNotEqual(self.digests("a.sqlite")[0], self.digests("b.sqlite")[0])

    def test_convolutions_too(self):
        small = ["--set", "model.preset=mnist_cnn", "--rounds", "2", "--set", "server.clients_per_round=2"]
        self.simulate(*small, "--workers", "1", db="a.sqlite")
        self.simulate(*small, "--workers", "3", db="b.sqlite", env={"OMP_NUM_THREADS": "2"})
        self.assertEqual(self.digests("a.sqlite"), self.digests("b.sqlite"))

    def test_bfloat16_too_whether_clients_are_trained_together_or_not(self):
        """Clients of one step are trained several at a time, by kernels for that; those of more one after the other."""
        for steps, settings in (("one", ["client.batch_size=64", "client.epochs=1"]), ("several", ["client.batch_size=10"])):
            small = ["--set", "model.preset=mlp", "--set", "client.precision=bfloat16", "--rounds", "2"]
            for setting in settings:
                small += ["--set", setting]
            self.simulate(*small, "--workers", "1", db=f"{steps}-1.sqlite")
            for workers in ("2", "16"):
                with self.subTest(steps=steps, workers=workers):
                    self.simulate(*small, "--workers", workers, db=f"{steps}-{workers}.sqlite")
                    self.assertEqual(self.digests(f"{steps}-{workers}.sqlite"), self.digests(f"{steps}-1.sqlite"))

    def test_portable_kernels_on_any_instruction_set(self):
        small = ["--set", "model.preset=mnist_cnn", "--rounds", "1", "--set", "server.clients_per_round=1"]
        for precision in ("float32", "bfloat16"):
            arguments = [*small, "--kernels", "portable", "--set", f"client.precision={precision}"]
            self.simulate(*arguments, db=f"{precision}.sqlite")
            for targets in ("avx2", "sse4,none", "none"):
                with self.subTest(precision=precision, targets=targets):
                    db = f"{precision}-{targets}.sqlite"
                    self.simulate(*arguments, db=db, env={"RIVULET_CPU_TARGETS": targets})
                    self.assertEqual(self.digests(db), self.digests(f"{precision}.sqlite"))

    def test_native_kernels_of_two_instruction_sets_differ(self):
        """So the variable does restrict what is used, on a machine that has more."""
        with open("/proc/cpuinfo") as file:
            if "avx512f" not in file.read():
                self.skipTest("no AVX-512 here")
        small = ["--set", "model.preset=mlp", "--rounds", "1"]
        self.simulate(*small, db="all.sqlite")
        self.simulate(*small, db="sse4.sqlite", env={"RIVULET_CPU_TARGETS": "sse4"})
        self.assertNotEqual(self.digests("all.sqlite")[-1], self.digests("sse4.sqlite")[-1])

    def test_unknown_instruction_set_is_refused(self):
        self.assert_refused(self.run_rivulet("simulate", self.scenario, env={"RIVULET_CPU_TARGETS": "avx22"}),
                            "RIVULET_CPU_TARGETS", "avx22", "avx2", code=2)


if __name__ == "__main__":
    main()
