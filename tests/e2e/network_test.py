"""Coordinator, aggregators and clients on machines of their own (network.py): in plaintext and over TLS, let in by certificate or by a list
of names, waiting for all or for nobody, flat and in a tree. Cables that are unplugged in mid-transfer, slow ones and lossy ones;
certificates that do not count, and others that are renewed meanwhile. What a synchronous run makes is what a simulation makes.

In a test every two of the four settings meet; RIVULET_NETWORK=whole (scripts/networks.sh) has all sixteen, a larger model, and a cable that
is out for longer than a connection lives."""
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import time
import unittest

from harness import RIVULET, SCENARIO
from network import NetworkTest, main_at_the_switch

ROOT = pathlib.Path(__file__).parents[2]
GUIDE = ROOT / "docs/guide/operations.md"

WHOLE = os.environ.get("RIVULET_NETWORK") == "whole"
CLIENTS, PER_ROUND, ROUNDS = 4, 2, 3
PORT = 7000
DB = "network.sqlite"
SETS = ["--set", f"data.partition.clients={CLIENTS}", "--set", f"server.clients_per_round={PER_ROUND}", "--set", f"run.rounds={ROUNDS}"]
ASYNCHRONOUS = ["--set", "algorithm.name=fedbuff", "--set", "server.in_flight=3", "--set", "evaluation.every=0"]
# 1,663,370 parameters: 6.65 MB each way.
LARGE = ["--set", "model.preset=mnist_cnn", "--set", "client.epochs=1", "--set", "evaluation.every=0"]
MODEL_BYTES = 6_653_480
ALL = list(itertools.product((False, True), repeat=4))
# Of each two settings all four pairs, with half of the runs: an odd number of them.
HALF = [settings for settings in ALL if sum(settings) % 2]


class Federation(NetworkTest):
    def setUp(self):
        super().setUp()
        self.made = []

    def partition(self, clients=CLIENTS):
        self.run_rivulet("data", "partition", self.scenario, "--out", self.path("records"), *SETS, "--set", f"data.partition.clients={clients}",
                         code=0)
        return sorted(path.stem for path in (self.folder / "records").glob("*.tfrecord"))

    def ca(self, *arguments):
        return self.run_rivulet("ca", *arguments, code=0).out

    def authority(self, *names):
        """Certificates for the coordinator, for an operator, for `names` (clients) and for two aggregators."""
        self.ca("init", "--name", "study")
        for role, name in (("coordinator", "root"), ("aggregator", "north"), ("aggregator", "leaf")):
            node = self.node(name)
            self.ca("issue", f"{role}/{node.host if role == 'coordinator' else name}", "--host", node.host, "--out", name)
        for name in names:
            self.ca("issue", f"client/{name}", "--out", name)
        self.ca("issue", "operator/alice", "--out", "alice")

    def security(self, tls, name, named=True):
        if tls:
            return ["--tls", name]
        return ["--insecure", "--insecure", *(["--name", name] if named else [])]

    def coordinator(self, *more, tls=True):
        process = self.start_at("root", "coordinator", self.scenario, "--listen", f"{self.node('root').host}:{PORT}", "--db", DB,
                                *self.security(tls, "root", named=False), *SETS, *more)
        self.listens(process, "root")
        return process

    def listens(self, process, name):
        line = process.stdout.readline()
        if not line.startswith("listening on "):
            self.fail(f"{line}{process.stderr.read()}")
        self.follow(process, name)

    def aggregator(self, name, parent, tls):
        node = self.node(name)
        process = self.start_at(name, "aggregator", "--parent", f"{self.node(parent).host}:{PORT}", "--listen", f"{node.host}:{PORT}",
                                *self.security(tls, name), *(["--aggregators"] if name == "north" else []))
        self.listens(process, name)
        return process

    def client(self, name, parent="root", tls=True, folder=None, *more):
        return self.follow(self.start_at(name, "client", "--coordinator", f"{self.node(parent).host}:{PORT}",
                                         *self.security(tls, folder or name), "--data", f"train=records/{name}.tfrecord", "--state",
                                         f"state-{name}", *more), name)

    def same_as_simulated(self, *more):
        self.simulate(*SETS, *more, db="simulated.sqlite")
        self.assertEqual(self.digests(DB), self.digests("simulated.sqlite"))

    def replays(self, *more):
        self.run_rivulet("simulate", self.scenario, "--db", self.path(DB), "--replay", "latest", *SETS, *more, code=0)

    def operate(self, *arguments):
        return self.run_rivulet(*arguments, "--coordinator", f"{self.node('root').host}:{PORT}", "--tls", "alice", code=0,
                                before=self.node("office").before).out


class EverySetting(Federation):
    def deploy(self, tls, listed, asynchronous, tree):
        names = self.partition()
        if tls:
            self.authority(*names)
        more = list(ASYNCHRONOUS) if asynchronous else []
        listen = ["--aggregators"] if tree else []
        if listed:
            self.write("expected.txt", "\n".join(names) + "\n")
            listen += ["--clients", "expected.txt"]
        processes = {"root": self.coordinator(*more, *listen, tls=tls)}
        if tree:
            processes["north"] = self.aggregator("north", "root", tls)
            processes["leaf"] = self.aggregator("leaf", "north", tls)
        if listed:
            # Of the right authority, and not expected: told why, whatever way it came; before the run can be over.
            if tls:
                self.ca("issue", "client/stranger", "--out", "stranger")
            self.write("records/stranger.tfrecord", (self.folder / f"records/{names[0]}.tfrecord").read_bytes())
            stranger = self.client("stranger", "leaf" if tree else "root", tls)
            self.ends(stranger, "stranger", code=1)
            self.assertIn("is not expected here", "".join(self.logs["stranger"]))
        parents = ("leaf", "leaf", "north", "root") if tree else ("root",) * CLIENTS
        for name, parent in zip(names, parents):
            processes[name] = self.client(name, parent, tls)
        for name, process in processes.items():
            self.ends(process, name)
        self.assertEqual(self.committed(DB), ROUNDS)
        if asynchronous:
            self.replays(*more)
        else:
            self.same_as_simulated(*more)
        came_by = {parent for (parent,) in self.query("SELECT DISTINCT parent_id FROM client_rounds WHERE status = 'folded'", db=DB)}
        self.assertLessEqual(came_by, {None, "north"} if tree else {None})

    def name_of(tls, listed, asynchronous, tree):
        return "_".join(("tls" if tls else "plaintext", "listed" if listed else "open", "asynchronous" if asynchronous else "synchronous",
                         "tree" if tree else "flat"))

    for settings in ALL if WHOLE else HALF:
        locals()["test_" + name_of(*settings)] = lambda self, settings=settings: self.deploy(*settings)
    del name_of, settings


class Cables(Federation):
    """One round of 6.65 MB each way, and what its cable carried: of what had arrived nothing is sent again."""

    def carried(self, name, direction):
        return self.node(name).sent_and_received()[direction]

    def unplugged_when_it_has(self, name, direction, most):
        begin = self.carried(name, direction)
        self.wait_for(lambda: self.carried(name, direction) - begin > most, f"{most} bytes of {name}")
        node = self.node(name)
        node.unplug()
        if WHOLE:  # both ends find out for themselves that nothing comes any more
            time.sleep(75)
        else:
            node.forget_connections()
            time.sleep(1)
        node.plug()

    def one_large_round(self, *client_options, prepare=lambda names: None):
        names = self.partition(PER_ROUND)
        self.authority(*names)
        # Nobody takes the place of who is away for as long as that.
        more = [*LARGE, "--rounds", 1, "--set", f"data.partition.clients={PER_ROUND}", "--set", "server.lease=300"]
        prepare(names)
        processes = {"root": self.coordinator(*more)}
        processes |= {name: self.client(name, "root", True, name, *client_options) for name in names}
        return more, names, processes

    def end_together(self, more, processes):
        for name, process in processes.items():
            self.ends(process, name)
        self.same_as_simulated(*more)

    def carried_once(self, name, direction):
        """What had come when the connection went, but for a MiB that was not whole and what was on its way."""
        self.assertGreater(self.carried(name, direction), MODEL_BYTES)
        self.assertLess(self.carried(name, direction), 1.07 * MODEL_BYTES + (2 << 20))

    def test_unplugged_while_an_update_goes_up(self):
        more, names, processes = self.one_large_round("--max-upload-rate", 3000)
        self.unplugged_when_it_has(names[0], 0, 3 << 20)
        self.end_together(more, processes)
        self.carried_once(names[0], 0)

    def test_unplugged_while_a_model_comes_down(self):
        more, names, processes = self.one_large_round(
            prepare=lambda names: self.node(names[0]).behind(bytes_per_second=4_000_000))
        self.unplugged_when_it_has(names[0], 1, 3 << 20)
        self.end_together(more, processes)
        self.carried_once(names[0], 1)

    def test_coordinator_unplugged_while_all_of_it_moves(self):
        more, names, processes = self.one_large_round("--max-upload-rate", 3000)
        self.unplugged_when_it_has("root", 1, 3 << 20)
        self.end_together(more, processes)
        for name in names:
            self.carried_once(name, 0)

    def test_slow_late_and_lossy_ones(self):
        names = self.partition()
        self.authority(*names)
        lines = [self.node(name).behind(**kind) for name, kind in zip(names, (
            {"delay": 0.15}, {"bytes_per_second": 60_000}, {"loss": 0.03, "seed": 2},
            {"delay": 0.03, "bytes_per_second": 200_000, "loss": 0.02, "seed": 3}))]
        processes = {"root": self.coordinator("--aggregators"), "north": self.aggregator("north", "root", True)}
        for number, name in enumerate(names):
            processes[name] = self.client(name, ("root", "north")[number % 2])
        for name, process in processes.items():
            self.ends(process, name)
        self.same_as_simulated()
        self.assertGreater(sum(line.lost for line in lines), 0)


class Certificates(Federation):
    def expired(self, name):
        """A folder as of `rivulet ca kit`, whose certificate ended yesterday; the authority's own program signs no such."""
        self.ca("request", f"client/{name}", "--out", name)
        self.write("usage", "extendedKeyUsage = clientAuth\n")
        subprocess.run(["openssl", "x509", "-req", "-in", f"{name}/node.csr", "-CA", "ca/authority.crt", "-CAkey", "ca/authority.key", "-days",
                        "-1", "-copy_extensions", "copyall", "-extfile", "usage", "-out", f"{name}/node.crt"], cwd=self.folder, check=True,
                       capture_output=True)
        for file in ("authority.crt", "revoked.crl"):
            self.replace(f"ca/{file}", f"{name}/{file}")

    def bare_call(self, node, folder):
        """As a program that is not ours, and asks itself nothing, would connect."""
        return subprocess.run([*self.node(node).before, "openssl", "s_client", "-connect", f"{self.node('root').host}:{PORT}", "-tls1_3",
                               "-alpn", "h2", "-cert", f"{folder}/node.crt", "-key", f"{folder}/node.key", "-CAfile", "ca/authority.crt"],
                              cwd=self.folder, input=b"", capture_output=True, timeout=20)

    def replace(self, source, target):
        (self.folder / target).write_bytes((self.folder / source).read_bytes())

    def refused_at_once(self, node, folder, *fragments):
        result = self.run_rivulet("client", "--coordinator", f"{self.node('root').host}:{PORT}", "--tls", folder, "--data",
                                  "train=records/*.tfrecord", before=self.node(node).before)
        self.assert_refused(result, *fragments, code=1)

    @unittest.skipUnless(shutil.which("openssl"), "there is no openssl")
    def test_those_that_do_not_count_and_those_that_are_renewed_in_mid_run(self):
        names = self.partition()
        self.authority(*names)
        more = ["--set", "client.epochs=300", "--rounds", 12]
        processes = {"root": self.coordinator("--aggregators", *more), "north": self.aggregator("north", "root", True)}
        for number, name in enumerate(names):
            processes[name] = self.client(name, ("root", "north")[number % 2])
        self.wait_for(lambda: self.committed(DB) >= 1, "a commit")
        self.operate("pause", "--reason", "certificates are renewed")

        self.expired("late")
        self.refused_at_once("site", "late", "the certificate of 'client/late' expired 1 day ago; renew it")
        self.bare_call("site", "late")
        self.said("root", "refused a connection: .*'client/late'.* expired")
        self.ca("issue", "client/gone", "--out", "gone")
        self.ca("revoke", "client/gone", "--reason", "key-compromise")
        self.replace("ca/revoked.crl", "root/revoked.crl")
        self.said("root", "the certificates in 'root' were read again")
        gone = self.start_stranger("gone")
        self.said("root", r"refused a connection: the certificate [0-9A-F]{32} of 'client/gone' was revoked")
        self.ca("init", "--name", "others", "--ca", "other")
        self.ca("issue", f"client/{names[0]}", "--ca", "other", "--out", "foreign")
        foreign = self.start_stranger("foreign")
        self.said("foreign", "is not signed by the authority 'others'")
        self.bare_call("site", "foreign")
        self.said("root", "refused a connection: .*(authority|signed)")
        # Another's certificate without its key is nothing; with its key it is that client, whatever machine it is on.
        self.ca("issue", "client/thief", "--out", "thief")
        self.replace(f"{names[0]}/node.crt", "thief/node.crt")
        self.refused_at_once("site", "thief", "the key 'thief/node.key' is not that of node.crt beside it")
        for name, process in (("gone", gone), ("foreign", foreign)):
            self.stop(process, name)

        for role, name in ("coordinator", "root"), ("aggregator", "north"), *(("client", name) for name in names):
            self.ca("renew", f"{role}/{self.node('root').host if name == 'root' else name}", "--out", f"{name}.renewed.crt")
            self.replace(f"{name}.renewed.crt", f"{name}/node.crt")
        self.operate("resume")
        for name, process in processes.items():
            self.ends(process, name)
            self.said(name, "the certificate of '[a-z]+/[^']+' was replaced")
        self.same_as_simulated(*more)

    def start_stranger(self, folder):
        return self.follow(self.start_at("site", "client", "--coordinator", f"{self.node('root').host}:{PORT}", "--tls", folder, "--data",
                                         "train=records/*.tfrecord"), folder)


class OperationsGuide(Federation):
    """docs/guide/operations.md, "From nothing": each block on its machine, as somebody new to it would type it."""

    STEP = re.compile(r"<!-- at: (?P<machines>[^,>]*?)(?P<stays>, stays)? -->\n```sh\n(?P<commands>.*?)```", re.S)

    def at(self, machine, commands):
        """The words that run `commands` on it, in a folder that is its own, where scp reaches the other machines'."""
        (self.folder / machine).mkdir(exist_ok=True)
        script = f"""set -e
            scp() {{ [ "$1" != -r ] || shift; cp -r "$1" "../${{2%:}}/"; }}
            cd {self.folder / machine}
            {commands.replace(f"{self.ROOT}:7000", f"{self.node(self.ROOT).host}:7000").replace(
                f"coordinator/{self.ROOT}", f"coordinator/{self.node(self.ROOT).host}")}"""
        return [*self.node(machine).before, "bash", "-c", script]

    ROOT = "fl.example.org"

    def test_its_commands_do_what_it_says(self):
        path = os.environ["PATH"]
        environment = {**os.environ, "PATH": f"{pathlib.Path(RIVULET).parent}:{path}"}
        environment.pop("RIVULET", None)
        sites = ("hospital-a", "hospital-b", "hospital-c")
        names = self.partition(len(sites))
        for site, name in zip(sites, names):
            self.write(f"{site}/records/{name}.tfrecord", (self.folder / f"records/{name}.tfrecord").read_bytes())
        self.write("office/scenario.toml", SCENARIO.replace("clients = 6", "clients = 3").replace('"data/', f'"{self.folder}/data/'))
        for machine in (self.ROOT, "office", *sites):
            self.at(machine, "")
        stay, ran = [], 0
        for step in self.STEP.finditer(GUIDE.read_text()):
            for machine in step["machines"].split():
                command = self.at(machine, step["commands"])
                if step["stays"]:
                    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
                    self.processes.append(self.follow(process, machine))
                    stay.append((process, machine))
                    if machine == self.ROOT:
                        self.assertIn("listening on", process.stdout.readline())
                    else:
                        self.said(machine, "waiting: the next run")
                    continue
                if "runs show" in step["commands"]:
                    self.wait_for(lambda: self.query("SELECT status FROM runs", db=f"{self.ROOT}/study.sqlite") == [("finished",)], "the run")
                done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
                self.assertEqual(done.returncode, 0, f"{machine}: {step['commands']}{done.stdout}{done.stderr}")
                ran += 1
        self.assertEqual(ran, 8 - 1)
        rows = self.query("SELECT DISTINCT client_id FROM client_rounds ORDER BY 1", db=f"{self.ROOT}/study-copy.sqlite")
        self.assertEqual([name for (name,) in rows], list(sites))
        for process, machine in stay:
            self.stop(process, machine)

    def test_what_a_site_may_see_is_what_the_programs_say(self):
        """Each sentence of the table stands in a source of ours, as it is or around the values that it has."""
        table = GUIDE.read_text().split("## What a site may see", 1)[1].split("\n## ", 1)[0]
        words = [word for line in table.splitlines() if line.startswith("| `") for word in re.findall(r"`([^`]+)`", line.split(" | ")[0])]
        self.assertGreater(len(words), 20)
        # String literals, joined where they are written in pieces.
        sources = "".join(path.read_text() for folder in ("aggregator", "certificates", "cli", "client", "coordinator", "engine/base", "federated", "rpc")
                          for path in (ROOT / folder).rglob("*.cc"))
        sources = re.sub(r'"\s*"', "", sources)
        self.assertEqual([word for word in words if word not in sources], [])


if __name__ == "__main__":
    main_at_the_switch()
