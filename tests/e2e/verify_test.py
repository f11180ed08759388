"""Runs that were changed after they were made: each column that the records of versions cover is named by `runs verify`, and each that
docs/guide/verify.md lists as not covered is not."""
import json
import pathlib
import re
import sqlite3

from harness import RivuletTest, main

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "guide" / "verify.md"
PRIVATE = ["--set", "algorithm.name=dp_fedavg", "--set", "algorithm.noise_multiplier=2", "--set", "privacy.clip=0.5"]
ROWS = {  # the one that is changed, where it is not the first
    "attempt": "kind = 0 AND round = 1",
    "task": "status = 0 AND attempt_key = (SELECT attempt_key FROM attempt WHERE kind = 0 AND round = 1)",
    "client": "client IN (SELECT client FROM task WHERE status = 0)",
    "model": "file IS NOT NULL AND round = (SELECT max(round) FROM model)",
    "record": "round = 1",
    "blob": "name = 'configuration'",
}
FILLED = """
INSERT INTO audit_entry (at, action, operator_id) VALUES (1, 4, 'office');
INSERT INTO tag SELECT run, 'good' FROM run;
INSERT INTO note (run, at, text) SELECT run, 1, 'a note' FROM run;
INSERT INTO pointer (name, label, run_id, round, digest, plan_digest, version, at, rolled_back)
  VALUES ('digits', 'stable', 'other', 1, zeroblob(32), zeroblob(32), 1, 1, 0);
"""


def documented():
    """{table: (covered columns, others)} of the page."""
    listed = {}
    for table, covered, others in re.findall(r"^\| `(\w+)` \|([^|]*)\|([^|]*)\|$", PAGE.read_text(), re.MULTILINE):
        listed[table] = tuple({name.strip() for name in column.split(",") if name.strip()} for column in (covered, others))
    return listed


class Verify(RivuletTest):
    def verify(self, *arguments, code=0):
        return self.run_rivulet("runs", "verify", "latest", "--records", "--json", "--db", self.path("runs.sqlite"), *arguments, code=code)

    def change(self, sql, *values):
        connection = sqlite3.connect(self.path("runs.sqlite"))
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("PRAGMA ignore_check_constraints = ON")
        changed = connection.execute(sql, values).rowcount
        connection.commit()
        connection.close()
        self.assertEqual(changed, 1, sql)

    def deployed(self, *arguments):
        """A run of a coordinator with a certificate and clients that upload."""
        self.run_rivulet("up", self.scenario, "--clients", "3", "--db", self.path("runs.sqlite"), "--set", "run.rounds=2", "--set",
                         "server.clients_per_round=2", *arguments, code=0)

    def test_every_column_is_covered_as_the_page_says(self):
        self.deployed(*PRIVATE)
        connection = sqlite3.connect(self.path("runs.sqlite"))
        connection.executescript(FILLED)
        tables = [name for name, in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")]
        columns = {table: connection.execute(f"PRAGMA table_info({table})").fetchall() for table in tables}
        connection.close()
        told = json.loads(self.verify().out)
        self.assertEqual((told["records"], told["signatures"]), (3, 3))
        self.assertNotIn("break", told)
        listed = documented()
        self.assertEqual(sorted(listed), sorted(tables))
        for table in tables:
            covered, others = listed[table]
            self.assertEqual(covered | others, {column[1] for column in columns[table]}, table)
            self.assertEqual(covered & others, set(), table)
            keys = [column[1] for column in columns[table] if column[5]]
            made, = self.query("SELECT sql FROM sqlite_master WHERE name = ?", table)
            identity = ", ".join(keys) if "WITHOUT ROWID" in made[0] else "rowid"
            row = self.query(f"SELECT {identity} FROM {table} WHERE {ROWS.get(table, '1')} LIMIT 1")
            self.assertTrue(row, table)
            for _, name, kind, *_ in columns[table]:
                before, = self.query(f"SELECT {name} FROM {table} WHERE {ROWS.get(table, '1')} LIMIT 1")
                with self.subTest(table=table, column=name):
                    self.one_column(table, name, kind, before[0], identity, row[0], name in covered)

    def one_column(self, table, name, kind, before, identity, row, covered):
        if kind in ("INTEGER", "REAL"):
            after = (before or 0) + 7
        elif kind == "TEXT":
            after = (before or "") + "x"
        else:
            after = bytes([(before or b"\0")[0] ^ 1]) + (before or b"\0")[1:]
        whole = pathlib.Path(self.path("runs.sqlite")).read_bytes()
        where = " AND ".join(f"{key} = ?" for key in identity.split(", "))
        try:
            self.change(f"UPDATE {table} SET {name} = ? WHERE {where}", after, *row)
            done = self.verify(code=1 if covered else 0)
            if covered and name != "run":  # of another run nothing is left to compare
                place = json.loads(done.out)["break"]
                self.assertTrue(place["place"] and place["expected"] != place["found"], place)
                self.assertIn(place["place"], done.err)
        finally:
            for suffix in ("-wal", "-shm"):
                pathlib.Path(self.path("runs.sqlite") + suffix).unlink(missing_ok=True)
            pathlib.Path(self.path("runs.sqlite")).write_bytes(whole)


main()
