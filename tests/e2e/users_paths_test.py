"""Three users' paths from files to a result, command by command as they would type them: no step fails, and none is tried twice.
The path of somebody with a CSV file is in first_use_test.py as well."""
import importlib.util
import json
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import zlib

from harness import RIVULET, RivuletTest, main

PYTHON = pathlib.Path(__file__).resolve().parents[2] / "python"
NETWORK = '''
import csv, torch, rivulet

def network():  # a module of one's own: two layers and a normalisation
    return torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 2))

def table(ward):
    with open("visits.csv") as file:
        rows = [row for row in csv.DictReader(file) if ward in (None, row["ward"])]
    values = torch.tensor([[float(row["age"]) / 50, float(row["bmi"]) / 30] for row in rows]) - 1
    return torch.utils.data.TensorDataset(values, torch.tensor([int(row["ill"]) for row in rows]))

def train(net, loader, context):
    net.train()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.2)
    for _ in range(context.numbers["epochs"]):
        for values, labels in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(values), labels)
            loss.backward()
            optimizer.step()
    return loss.item()

def evaluate(net, loader, context=None):
    net.eval()
    loss = right = 0
    with torch.no_grad():
        for values, labels in loader:
            scores = net(values)
            loss += torch.nn.functional.cross_entropy(scores, labels, reduction="sum").item()
            right += (scores.argmax(1) == labels).sum().item()
    return {"loss": loss / len(loader.dataset), "accuracy": right / len(loader.dataset)}

def client(ward):
    loader = torch.utils.data.DataLoader(table(ward), batch_size=20, shuffle=True)
    return rivulet.torch.client(network(), loader, train, evaluate=evaluate)
'''
SIMULATED = '''
import torch, rivulet
from network import *

WARDS = ["east", "north", "west"]
torch.manual_seed(1)
rivulet.save_safetensors("init.safetensors", rivulet.torch.params(network()))
run = rivulet.simulate({
    "run": {"name": "tried", "rounds": 6},
    "model": {"arrays": "init.safetensors", "metrics": ["accuracy"]},
    "data": {"partition": {"clients": 3}},
    "client": {"epochs": 3},
    "evaluation": {"federated_every": 3},
}, client_fn=lambda name: client(WARDS[int(name.rpartition("-")[2])]))
net = network()
rivulet.torch.load(net, run.model())
print("accuracy", evaluate(net, torch.utils.data.DataLoader(table(None), batch_size=50))["accuracy"])
'''
READ = '''
import rivulet, torch
from network import *

net = network()
arrays = rivulet.load_safetensors("own.safetensors")
net.load_state_dict({name: torch.tensor(array) for name, array in arrays.items()}, strict=False)
print("accuracy", evaluate(net, torch.utils.data.DataLoader(table(None), batch_size=50))["accuracy"])
'''
SITE = '''
import sys, rivulet
from network import *

print(rivulet.run_client(client(sys.argv[2]), sys.argv[1], name=sys.argv[2]))
'''
FLOWER = '''
import sys, torch, rivulet
from network import *

class Client:  # as it was written for Flower: flwr.client.NumPyClient
    def __init__(self, ward):
        self.net, self.loader = network(), torch.utils.data.DataLoader(table(ward), batch_size=20, shuffle=True)
    def get_parameters(self, config):
        return [value.numpy() for value in self.net.state_dict().values() if value.dtype.is_floating_point]
    def fit(self, parameters, config):
        names = [name for name, value in self.net.state_dict().items() if value.dtype.is_floating_point]
        self.net.load_state_dict({name: torch.tensor(array) for name, array in zip(names, parameters)}, strict=False)
        class Context:
            numbers = {"epochs": int(config["epochs"])}
        return self.get_parameters(config), len(self.loader.dataset), {"train_loss": train(self.net, self.loader, Context)}

print(rivulet.run_client(rivulet.flower.wrap(Client(sys.argv[2])), sys.argv[1], name=sys.argv[2]))
'''
OWN = """
[run]
name = "own"
rounds = 4
[model]
arrays = "init.safetensors"
metrics = ["accuracy"]
[data]
partition = { clients = 3 }
[client]
epochs = 2
[server]
clients_per_round = 3
"""


def installed(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


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
        shown = self.steps(
            "rivulet data import csv --auto --from patients.csv --label outcome --key ward --test-every 4 --out patients",
            "rivulet simulate patients/scenario.toml --rounds 3",
            "rivulet runs show latest",
            "rivulet model evaluate latest --classes")
        self.assertIn("--auto used these options: --without 'Patient ID' --missing NA --fill-missing", shown[0])
        self.assertNotIn("P0001", (self.folder / "patients/columns.json").read_text())
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

    def needs(self, *modules):
        missing = [module for module in modules if not installed(module)]
        if missing:
            self.skipTest(f"this Python has no {', '.join(missing)}")

    def own_module(self):
        self.needs("numpy", "grpc", "google.protobuf", "torch", "cloudpickle")
        rows = [f"{20 + i * 7 % 60},{18 + i * 5 % 20},{('east', 'north', 'west')[i % 3]},{int(20 + i * 7 % 60 + 2 * (18 + i * 5 % 20) > 105)}"
                for i in range(300)]
        self.write("visits.csv", "age,bmi,ward,ill\n" + "\n".join(rows) + "\n")
        self.write("network.py", NETWORK)
        self.write("own.toml", OWN)
        os.environ["PYTHONPATH"] = str(PYTHON)
        self.addCleanup(os.environ.pop, "PYTHONPATH")

    def deploy(self, programs):
        """One coordinator and a program for each site, each started once."""
        coordinator = self.start("coordinator", "own.toml", "--listen", "127.0.0.1:0", "--insecure", "--db", "own.sqlite")
        address = coordinator.stdout.readline().removeprefix("listening on ").strip()
        sites = [subprocess.Popen([sys.executable, program, address, ward], cwd=self.folder, text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT) for program, ward in zip(programs, ("east", "north", "west"))]
        self.processes += sites
        for process in (*sites, coordinator):
            said = process.communicate(timeout=200)[0]
            self.assertEqual(process.returncode, 0, said)
        (shown,) = self.steps("rivulet runs show latest --db own.sqlite")
        self.assertIn("finished", shown)
        self.assertEqual(self.query("SELECT client_id, count(*) FROM client_rounds GROUP BY client_id", db="own.sqlite"),
                         [("east", 4), ("north", 4), ("west", 4)])

    def test_a_torch_module_of_ones_own_is_simulated_deployed_and_exported(self):
        self.own_module()
        self.write("try.py", SIMULATED)
        self.write("hospital.py", SITE)
        (tried,) = self.steps(f"{sys.executable} try.py")
        self.assertGreater(float(tried.rpartition(" ")[2]), 0.7)
        self.deploy(["hospital.py"] * 3)
        self.write("read.py", READ)
        _, read = self.steps("rivulet model export latest --db own.sqlite --format pytorch --out own.safetensors",
                             f"{sys.executable} read.py")
        self.assertGreater(float(read.rpartition(" ")[2]), 0.7)

    def test_a_client_written_for_flower_takes_part_at_the_first_try(self):
        self.own_module()
        self.write("flower_site.py", FLOWER)
        self.write("hospital.py", SITE)
        self.steps(f"{sys.executable} -c \"import rivulet; from network import *; "
                   "rivulet.save_safetensors('init.safetensors', rivulet.torch.params(network()))\"")
        self.deploy(["flower_site.py", "flower_site.py", "hospital.py"])

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
