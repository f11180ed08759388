"""Numbers that go with tasks survive whatever happens to the run: the weights of agnostic federated learning, and a mu
of FedProx that moves."""
import json
import struct

from harness import RivuletTest, main

AGNOSTIC = ["--set", "algorithm.name=agnostic", "--set", "algorithm.weights_learning_rate=0.1"]
MOVING = ["--set", "algorithm.name=fedprox", "--set", "algorithm.mu_step=0.1", "--set", "algorithm.mu_falls=1"]


class TaskNumbers(RivuletTest):
    def newest_file(self):
        return sorted((self.folder / "runs.sqlite.models").rglob("*.safetensors"))[-1]

    def metadata(self, path):
        with open(path, "rb") as file:
            return json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))["__metadata__"]

    def test_killed_and_resumed_it_goes_on_with_them(self):
        for set_to in (AGNOSTIC, MOVING):
            with self.subTest(set_to[1]):
                name = set_to[1].rpartition("=")[2]
                longer = ["--rounds", "40", "--set", "client.epochs=20", "--set", "run.durability=round", *set_to]
                whole, cut = f"{name}-whole.sqlite", f"{name}-cut.sqlite"
                self.simulate(*longer, db=whole)
                process = self.start("simulate", self.scenario, "--db", self.path(cut), *longer)
                self.wait_for(lambda: self.committed(db=cut) >= 3, "the third commit")
                process.kill()
                process.communicate()
                self.assertLess(self.committed(db=cut), 40)
                self.simulate(*longer, "--resume", "latest", db=cut)
                self.assertEqual(self.digests(cut), self.digests(whole))

    def test_deployed_it_does_what_the_simulation_did(self):
        self.simulate(*AGNOSTIC, "--workers", "3")
        self.run_rivulet("up", self.scenario, "--db", self.path("up.sqlite"), "--clients", "6", *AGNOSTIC, code=0)
        self.assertEqual(self.digests("up.sqlite"), self.digests())
        self.assertIn("weight", self.metadata(self.newest_file())["rivulet.server_numbers"])

    def test_a_file_that_lost_a_bit_of_one_is_refused(self):
        self.simulate(*MOVING)
        newest = self.newest_file()
        newest.write_bytes(newest.read_bytes().replace(b" mu ", b" nu ", 1))
        result = self.run_rivulet("simulate", self.scenario, "--db", self.path("runs.sqlite"), *MOVING, "--resume",
                                  "latest", "--rounds", "6")
        self.assert_refused(result, "checksum of the server's numbers", code=1)


if __name__ == "__main__":
    main()
