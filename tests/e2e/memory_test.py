"""The deltas of a hundred clients are 665 MB; neither a simulation nor a coordinator holds them."""
import os
import subprocess

from harness import RivuletTest, main, measures_memory, watch_memory

SIMULATION_KB = 300_000
COORDINATOR_KB = 110_000  # 64 MB of staged uploads are in it
COHORT = ["--rounds", "2", "--set", "model.preset=mnist_cnn", "--set", "data.synth.writers=100", "--set",
          "data.partition.clients=100", "--set", "server.clients_per_round=100", "--set", "client.epochs=1"]


@measures_memory
class Memory(RivuletTest):
    def test_simulation_of_a_hundred(self):
        process = self.start("simulate", self.scenario, "--db", self.path("runs.sqlite"), "--workers", "2", *COHORT)
        peak = watch_memory(process)
        _, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0, err)
        print(f"simulate: {peak()} kB", flush=True)
        self.assertGreater(peak(), 10_000)
        self.assertLess(peak(), SIMULATION_KB)

    def test_coordinator_of_a_hundred(self):
        process = self.start("coordinator", self.scenario, "--listen", "127.0.0.1:0", "--insecure", "--db",
                             self.path("runs.sqlite"), *COHORT)
        address = process.stdout.readline().split()[-1]
        peak = watch_memory(process)
        try:
            load = subprocess.run([os.environ["RIVULET_MANY_NAMES"], address, "100"], capture_output=True, timeout=300)
        except subprocess.TimeoutExpired as stuck:
            process.kill()
            self.fail(f"the round never ended; load: {stuck.stderr}, coordinator: {process.communicate()}")
        self.assertEqual(load.returncode, 0, load.stderr.decode())
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, err)
        self.assertEqual(self.query("SELECT count(*) FROM client_rounds WHERE status = 'folded'"), [(200,)])
        print(f"coordinator: {peak()} kB", flush=True)
        self.assertGreater(peak(), 10_000)
        self.assertLess(peak(), COORDINATOR_KB)


if __name__ == "__main__":
    main()
