"""Ten thousand virtual clients cost rows, not memory."""
import os

from harness import RivuletTest, main


class ManyClients(RivuletTest):
    def peak_kilobytes(self, clients, db):
        process = self.start("simulate", self.scenario, "--db", self.path(db), "--rounds", "3", "--set",
                             f"data.partition.clients={clients}", "--set", "data.synth.writers=100", "--set",
                             "data.synth.examples_per_writer=100", "--set", "server.clients_per_round=10")
        # The process is waited for with its resource usage: ru_maxrss is in kilobytes.
        err = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0, err)
        return usage.ru_maxrss

    def test_ten_thousand_clients(self):
        few = self.peak_kilobytes(100, "few.sqlite")
        many = self.peak_kilobytes(10_000, "many.sqlite")
        if not os.environ.get("RIVULET_SANITIZE"):  # a sanitizer's memory is not the program's
            self.assertLess(many - few, 30_000, f"{few} and {many} kB")
        self.assertEqual(self.query("SELECT count(*) FROM client_rounds", db="many.sqlite"), [(30,)])
        self.assertEqual(self.query("SELECT sum(examples) FROM rounds", db="many.sqlite"), [(30,)])


if __name__ == "__main__":
    main()
