"""Three users' paths from files to a result, command by command as they would type them: no step fails, and none is tried twice.
The path of somebody with a CSV file is in first_use_test.py as well; a PyTorch module's is python/README.md, which a test runs."""
import json
import os
import pathlib
import re
import socket
import struct
import subprocess
import zlib

from harness import RIVULET, RivuletTest, main


def png(width, height, pixels):
    """A grey image of 8 bits."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    rows = b"".join(b"\0" + bytes(pixels[row * width : (row + 1) * width]) for row in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Paths(RivuletTest):
    def steps(self, *lines):
        """Runs each line as a shell would, with the program on PATH, and returns what it printed; the first that fails is named."""
        environment = {**os.environ, "PATH": f"{pathlib.Path(RIVULET).parent}:{os.environ['PATH']}"}
        printed = []
        for line in lines:
            done = subprocess.run(["bash", "-c", line], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=200)
            self.assertEqual(done.returncode, 0, f"{line}\n{done.stdout}{done.stderr}")
            printed.append(done.stdout)
        return printed

    def test_a_table_with_gaps_and_identifiers(self):
        rows = [f"P{i:04},{'NA' if i % 100 == 7 else 30 + i % 40},{'east' if i % 3 else 'west'},{'ill' if i % 40 > 20 else 'well'}"
                for i in range(400)]
        self.write("patients.csv", "Patient ID,age,ward,outcome\n" + "\n".join(rows) + "\n")
        done = self.run_rivulet("data", "import", "csv", "--from", "patients.csv", "--label", "outcome", "--key", "ward", "--out", "patients")
        self.assertEqual(done.code, 1, "the two questions that only the owner of the data answers")
        self.assertIn("Pass --without 'Patient ID'", done.err)
        shown = self.steps(
            "rivulet data import csv --from patients.csv --label outcome --key ward --without 'Patient ID' --missing NA --fill-missing "
            "--test-every 4 --out patients",
            "rivulet simulate patients/scenario.toml --rounds 3",
            "rivulet runs show latest",
            "rivulet model evaluate latest --classes")
        self.assertIn("rivulet simulate patients/scenario.toml", shown[0])
        self.assertRegex(shown[2], r"accuracy")
        self.assertRegex(shown[3], r"(?m)^ +ill ")

    def test_a_folder_of_images(self):
        for number in range(24):
            for name, bright in (("day", 200), ("night", 40)):
                pixels = [(bright + 7 * (number + at) % 40) for at in range(64)]
                self.write(f"photos/{name}/{number:02}.png", png(8, 8, pixels))
        if "PNG" not in self.run_rivulet("doctor").out:
            self.skipTest("this build reads no PNG")
        imported, _, shown, listed, evaluated, table = self.steps(
            "rivulet data import images --from photos --grey --test-every 4 --out records",
            "rivulet simulate records/scenario.toml --rounds 30 --set data.partition.clients=4",
            "rivulet runs show latest",
            "rivulet runs list",
            "rivulet model evaluate latest --classes --confusion matrix.svg",
            "rivulet runs clients latest --json")
        self.assertIn("rivulet simulate records/scenario.toml", imported)
        self.assertIn("finished", shown)
        self.assertEqual(len(re.findall("finished", listed)), 1)
        self.assertRegex(evaluated, r"(?m)^ +night ")
        self.assertIn(">day", (self.folder / "matrix.svg").read_text())
        self.assertEqual(len(json.loads(table)), 4)
        ((accuracy,),) = self.query("SELECT value FROM metrics WHERE name = 'test/accuracy' ORDER BY round DESC LIMIT 1", db="rivulet.sqlite")
        self.assertGreater(accuracy, 0.9)

    def test_three_sites_with_kits_and_an_operator(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.write("heart.toml", (self.folder / "tiny.toml").read_text())
        self.steps(
            "rivulet ca init --name 'Heart study'",
            f"rivulet ca kit coordinator/localhost --scenario heart.toml --listen 127.0.0.1:{port}",
            *(f"rivulet ca kit client/hospital-{site} --coordinator localhost:{port}" for site in "abc"),
            "rivulet ca issue operator/alice",
            'for kit in *.tar.gz; do tar -xzf "$kit"; done',
            "sed -i 's/clients = 6/clients = 3/; s/name = \"tiny\"/name = \"heart\"/' heart.toml && cp heart.toml coordinator-localhost",
            "rivulet data partition heart.toml --out records",
            "mkdir client-hospital-{a,b,c}/data",
            *(f"cp records/client-0000{number}.tfrecord client-hospital-{site}/data" for number, site in enumerate("abc")))
        environment = {**os.environ, "RIVULET": RIVULET}
        start = lambda kit: subprocess.Popen([self.path(f"{kit}/start")], cwd=self.path(kit), env=environment, text=True,
                                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        coordinator = start("coordinator-localhost")
        self.processes.append(coordinator)
        self.assertTrue(any(line.startswith("listening on") for line in iter(coordinator.stdout.readline, "")))
        (status,) = self.steps(f"rivulet status --coordinator localhost:{port} --tls operator-alice")
        self.assertIn("heart", status)
        sites = [start(f"client-hospital-{site}") for site in "abc"]
        self.processes += sites
        for process in (*sites, coordinator):
            said = process.communicate(timeout=120)[0]
            self.assertEqual(process.returncode, 0, said)
        database = next(pathlib.Path(self.path("coordinator-localhost")).glob("*.sqlite"))
        (table,) = self.steps(f"rivulet runs clients latest --json --db {database}")
        self.assertEqual([row["client_id"] for row in json.loads(table)], ["hospital-a", "hospital-b", "hospital-c"])


if __name__ == "__main__":
    main()
