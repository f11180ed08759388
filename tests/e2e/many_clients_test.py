"""A hundred thousand virtual clients, or a million, cost a dozen bytes each, and rows only when they are selected."""
import os
import pathlib

from harness import RivuletTest, example, main, tfrecord, watch_memory

# An image of four pixels a client.
MILLION = """
[run]
name = "million"
rounds = 3
[model]
layers = [{type = "flatten"}, {type = "dense", units = 10}]
input = {shape = [2, 2, 1], kind = "pixels"}
[data]
train = "million.tfrecord"
partition = {kind = "iid", clients = 1000000}
[server]
clients_per_round = 1000
[evaluation]
every = 0
"""


class ManyClients(RivuletTest):
    def peak_kilobytes(self, kind, clients, db):
        process = self.start("simulate", self.scenario, "--db", self.path(db), "--rounds", "3", "--set",
                             f"data.partition.clients={clients}", "--set", f"data.partition.kind={kind}", "--set",
                             "data.synth.writers=1000", "--set", "data.synth.examples_per_writer=100", "--set",
                             "server.clients_per_round=10",
                             *(["--set", "data.partition.shards_per_client=1"] if kind == "shards" else []))
        peak = watch_memory(process)
        _, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0, err)
        return peak()

    def test_a_hundred_thousand_clients(self):
        for kind in ("iid", "shards"):
            db = f"{kind}.sqlite"
            many = self.peak_kilobytes(kind, 100_000, db)
            print(f"{kind}: {many} kB", flush=True)
            if not os.environ.get("RIVULET_SANITIZE"):  # a sanitizer's memory is not the program's
                self.assertLess(many, 30_000)
            self.assertEqual(self.query("SELECT count(*), sum(examples) FROM client_rounds", db=db), [(30, 30)])
            # Whoever was never selected left no row.
            selected = self.query("SELECT count(DISTINCT client_id) FROM client_rounds", db=db)
            self.assertEqual(self.query("SELECT count(*) FROM clients", db=db), selected)
            self.assertEqual(self.query("SELECT count(*) FROM run_clients", db=db), selected)
            self.assertLess(pathlib.Path(self.path(db)).stat().st_size, 1_000_000)

    def test_a_million_clients(self):
        self.write("million.tfrecord", tfrecord([example(bytes([label, 0, 255, 9]), label) for label in range(10)]) * 100_000)
        process = self.start("simulate", self.write("million.toml", MILLION), "--db", self.path("runs.sqlite"), "--workers", "2")
        peak = watch_memory(process)
        _, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0, err)
        print(f"million: {peak()} kB", flush=True)
        if not os.environ.get("RIVULET_SANITIZE"):
            self.assertLess(peak(), 120_000)
        self.assertEqual(self.query("SELECT count(*) FROM client_rounds WHERE status = 'folded'"), [(3000,)])
        # With the rows of three rounds.
        self.assertLess(pathlib.Path(self.path("runs.sqlite")).stat().st_size, 5_000_000)


if __name__ == "__main__":
    main()
