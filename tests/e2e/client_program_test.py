"""`rivulet-client`, the program of sites: what is in it, and that it takes part as `rivulet client` does."""
import glob
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import unittest

from harness import RIVULET, RivuletTest, main

CLIENT = str(pathlib.Path(RIVULET).with_name("rivulet-client"))
# Of each part that a site has no use for, a name that every build of it defines.
ELSEWHERE = {
    "the coordinator": " rivulet::RunCoordinator::",
    "the history": " rivulet::History::",
    "presets": " rivulet::MobileNetV2(",
    "ONNX": " rivulet::onnx::",
    "algorithms": " rivulet::ComposePlan(",
    "simulations": " rivulet::Simulation::",
    "sites of many clients": " rivulet::Site::",
    "teams of devices": " rivulet::NewGpuTeam(",
    "libraries of ops and algorithms": " rivulet::LoadLibraries(",
    "operators' messages": " rivulet::rpc::StartRunRequestProto::",
    "messages of sessions": " rivulet::proto::ConfigProto::",
    "event files": " rivulet::proto::HParamsPluginData::",
    "the servers of calls": " rivulet::GrpcServer::",
}
MOST_BYTES = 13_000_000
# Not beside a sanitizer's library, which must be the first.
FAKE_TIME = "" if os.environ.get("RIVULET_SANITIZE") else next(iter(glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")), "")


def printed(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class ClientProgram(RivuletTest):
    def client(self, *arguments):
        return subprocess.run([CLIENT, *map(str, arguments)], capture_output=True, text=True, cwd=self.folder, timeout=60)

    @unittest.skipUnless(shutil.which("nm") and shutil.which("readelf"), "there is no nm or readelf")
    def test_it_links_nothing_that_a_site_has_no_use_for(self):
        ours, all_of_it = (printed("nm", "-C", "--defined-only", program) for program in (CLIENT, RIVULET))
        for part, name in ELSEWHERE.items():
            self.assertIn(name, all_of_it, f"'{name.strip()}' says nothing of {part} any more; name another")
            found = next((line for line in ours.splitlines() if name in line), "nothing")
            self.assertEqual(found, "nothing", part)
        needed = printed("readelf", "-d", CLIENT)
        self.assertIn("libgrpc++", needed)
        for library in ("sqlite", "onnx", "edit", "boost"):
            self.assertNotIn(library, needed)

    @unittest.skipIf(os.environ.get("RIVULET_SANITIZE"), "a sanitizer's program is not what is shipped")
    @unittest.skipUnless(shutil.which("strip"), "there is no strip")
    def test_stripped_it_is_small(self):
        stripped = self.path("stripped")
        subprocess.run(["strip", "-o", stripped, CLIENT], check=True)
        self.assertLessEqual(pathlib.Path(stripped).stat().st_size, MOST_BYTES)

    def test_help_version_and_errors_bear_its_name(self):
        self.assertRegex(self.client("--version").stdout, r"^rivulet-client \d+\.\d+\.\d+\n$")
        text = self.client("--help").stdout
        self.assertIn("Usage: rivulet-client [SUBCOMMAND] [OPTIONS]", text)
        self.assertIn("  rivulet-client --coordinator", text)
        self.assertNotRegex(text, "--(op|algorithm)-library")
        missing = self.client("--insecure")
        self.assertEqual(missing.returncode, 2)
        self.assertRegex(missing.stderr, "^rivulet-client: 'rivulet-client' needs --coordinator HOST:PORT; see")
        self.assertEqual(self.client("--version", "--nothing").returncode, 2)

    def test_it_makes_its_own_key_and_a_request_that_an_authority_signs(self):
        made = self.client("request", "client/hospital-b", "--out", self.path("site"))
        self.assertEqual((made.returncode, made.stderr), (0, ""))
        key = self.folder / "site/node.key"
        self.assertEqual(key.stat().st_mode & 0o777, 0o600)
        self.assertEqual(made.stdout, f"{key}: the key of client/hospital-b, which stays here\n"
                         f"{self.path('site/node.csr')}: send it to the authority\n")
        before = key.read_bytes()
        self.run_rivulet("ca", "init", "--name", "study", "--ca", self.path("ca"), code=0)
        self.run_rivulet("ca", "kit", "client/hospital-b", "--ca", self.path("ca"), "--request", self.path("site/node.csr"),
                         "--coordinator", "127.0.0.1:1", "--out", self.path("kit"), code=0)
        shutil.copytree(self.path("kit"), self.path("site"), dirs_exist_ok=True)
        self.assertEqual(key.read_bytes(), before)
        self.assertIn("client/hospital-b", self.run_rivulet("ca", "show", self.path("site"), code=0).out)
        again = self.client("request", "client/hospital-b", "--out", self.path("site"))
        self.assertEqual(again.returncode, 1)
        self.assertIn("site", again.stderr)
        self.assertEqual(self.client("request", "hospital-b").returncode, 2)
        self.assertIn("Usage: rivulet-client request NAME [OPTIONS]", self.client("request", "--help").stdout)

    @unittest.skipUnless(FAKE_TIME, "there is no libfaketime")
    def test_time_that_is_set_while_nobody_listens_keeps_it_from_nothing(self):
        """Waits of libraries on the wall clock are three hours late then: whoever asks it to end is heard, and a coordinator found."""
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("records"), code=0)
        world = {**os.environ, "LD_PRELOAD": FAKE_TIME, "FAKETIME": "+3h", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        clients = {}
        for number in range(2):
            name = f"client-0000{number}"
            clients[name] = self.follow(subprocess.Popen(
                [CLIENT, "--coordinator", f"127.0.0.1:{port}", "--insecure", "--name", name, "--data", f"train=records/{name}.tfrecord"],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=self.folder, env=world), name)
            self.processes.append(clients[name])
            self.said(name, "nothing listens there")
        clients["client-00000"].send_signal(signal.SIGTERM)
        clients["client-00000"].wait(timeout=20)
        coordinator = self.start("coordinator", self.scenario, "--listen", f"127.0.0.1:{port}", "--insecure", "--db", "late.sqlite",
                                 "--set", "data.partition.clients=1", "--set", "server.clients_per_round=1")
        self.ends(clients["client-00001"], "client-00001")
        self.assertEqual(coordinator.wait(timeout=60), 0)

    def test_kits_start_it_where_it_is_and_an_aggregator_and_the_bits_are_those_of_a_simulation(self):
        names = ("client-00000", "client-00001")
        run = ["--rounds", 2, "--set", "data.partition.clients=2", "--set", "server.clients_per_round=2"]
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("records"), *run[2:], code=0)
        self.run_rivulet("ca", "init", "--name", "study", code=0)
        self.run_rivulet("ca", "issue", "coordinator/localhost", "--out", "coordinator", code=0)
        coordinator = self.start("coordinator", self.scenario, "--listen", "127.0.0.1:0", "--tls", "coordinator", "--db", "tls.sqlite",
                                 "--aggregators", *run)
        port = coordinator.stdout.readline().rsplit(":", 1)[1].strip()
        self.run_rivulet("ca", "kit", "aggregator/north", "--host", "localhost", "--coordinator", f"localhost:{port}", "--listen",
                         "127.0.0.1:0", "--out", "north", code=0)
        aggregator = subprocess.Popen([self.path("north/start")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env={**os.environ, "RIVULET": RIVULET})
        self.processes.append(aggregator)
        above = {"client-00000": port, "client-00001": aggregator.stdout.readline().rsplit(":", 1)[1].strip()}
        bare = self.folder / "bin"  # a site that has no other program of ours
        bare.mkdir()
        (bare / "rivulet-client").symlink_to(CLIENT)
        env = {key: value for key, value in os.environ.items() if key != "RIVULET"} | {"PATH": f"{bare}:/usr/bin:/bin"}
        kits = []
        for name in names:
            self.run_rivulet("ca", "kit", f"client/{name}", "--coordinator", f"localhost:{above[name]}", "--data",
                             f"train={self.path('records')}/{name}.tfrecord", "--out", name, code=0)
            kits.append(subprocess.Popen([self.path(f"{name}/start")], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                                         env=env))
        self.processes += kits
        for kit in kits:
            said = kit.communicate(timeout=60)[1]
            self.assertEqual(kit.returncode, 0, said)
            self.assertIn("the run is over", said)
        self.assertEqual(aggregator.wait(timeout=60), 0)
        self.assertEqual(coordinator.wait(timeout=60), 0)
        self.simulate(*run, db="simulated.sqlite")
        self.assertEqual(self.digests("tls.sqlite"), self.digests("simulated.sqlite"))
        parents = dict(self.query("SELECT DISTINCT client_id, parent_id FROM client_rounds", db="tls.sqlite"))
        self.assertEqual(parents, {"client-00000": None, "client-00001": "north"})


if __name__ == "__main__":
    main()
