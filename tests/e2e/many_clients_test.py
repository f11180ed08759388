"""A hundred thousand virtual clients cost a dozen bytes each, and rows only when they are selected."""
import os
import pathlib

from harness import RivuletTest, main, watch_memory


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


if __name__ == "__main__":
    main()
