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


if __name__ == "__main__":
    main()
