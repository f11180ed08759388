"""FedAdam as its users meet it: its limit is federated averaging, and its moments survive whatever happens to the run."""
import json
import struct

from harness import RivuletTest, main

ADAM = ["--set", "algorithm.name=fedadam"]
LIMIT = [*ADAM, "--set", "algorithm.beta1=0", "--set", "algorithm.beta2=1", "--set", "algorithm.tau=1",
         "--set", "algorithm.initial_accumulator=0"]
PACED = [*ADAM, "--set", "server.learning_rate=0.01"]


class FedAdam(RivuletTest):
    def header(self, path):
        with open(path, "rb") as file:
            return json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))

    def model_files(self):
        return sorted((self.folder / "runs.sqlite.models").rglob("*.safetensors"))

    def test_in_the_limit_it_is_federated_averaging(self):
        self.simulate(db="averaging.sqlite")
        self.simulate(*LIMIT)
        self.assertEqual(self.digests(), self.digests("averaging.sqlite"))
        self.simulate(*PACED, db="paced.sqlite")
        self.assertNotEqual(self.digests("paced.sqlite"), self.digests())

    def test_deployed_it_does_what_the_simulation_did_and_clients_get_the_model_alone(self):
        self.simulate(*PACED, "--workers", "3")
        self.run_rivulet("up", self.scenario, "--db", self.path("up.sqlite"), "--clients", "6", *PACED, code=0)
        self.assertEqual(self.digests("up.sqlite"), self.digests())
        (size,), = self.query("SELECT bytes FROM models ORDER BY round DESC LIMIT 1", db="up.sqlite")
        (down,), = self.query("SELECT min(bytes_down) FROM client_rounds WHERE round > 1", db="up.sqlite")
        self.assertGreater(size, 3 * 4 * 7850)
        self.assertGreater(down, 4 * 7850)
        self.assertLess(down, size / 2)

    def test_killed_and_resumed_it_goes_on_with_its_moments(self):
        longer = ["--rounds", "40", "--set", "client.epochs=20", "--set", "run.durability=round", *PACED]
        self.simulate(*longer, db="whole.sqlite")
        process = self.start("simulate", self.scenario, "--db", self.path("runs.sqlite"), *longer)
        self.wait_for(lambda: self.committed() >= 3, "the third commit")
        process.kill()
        process.communicate()
        self.assertLess(self.committed(), 40)
        self.simulate(*longer, "--resume", "latest")
        self.assertEqual(self.digests(), self.digests("whole.sqlite"))

    def test_its_files_hold_moments_that_tools_tell_from_weights(self):
        self.simulate(*PACED)
        newest = self.model_files()[-1]
        header = self.header(newest)
        self.assertEqual(header["server/m"]["shape"], [7850])
        segments = json.loads(header["__metadata__"]["rivulet.segments"])
        self.assertEqual(segments["server/v"], "server")
        shown = self.run_rivulet("model", "inspect", newest, code=0).out
        self.assertIn("server/m", shown)
        exported = self.path("weights.npz")
        self.run_rivulet("model", "export", self.scenario, "--weights", newest, "--out", exported, code=0)
        shown = self.run_rivulet("model", "inspect", exported, code=0).out
        self.assertIn("dense1/kernel", shown)
        self.assertNotIn("server/m", shown)

    def test_a_file_that_lost_a_bit_of_a_moment_is_refused(self):
        self.simulate(*PACED)
        newest = self.model_files()[-1]
        damaged = bytearray(newest.read_bytes())
        damaged[-3] ^= 1
        newest.write_bytes(damaged)
        result = self.run_rivulet("simulate", self.scenario, "--db", self.path("runs.sqlite"), *PACED, "--resume",
                                  "latest", "--rounds", "6")
        self.assert_refused(result, "checksums", code=1)


if __name__ == "__main__":
    main()
