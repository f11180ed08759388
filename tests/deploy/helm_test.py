"""The chart of deploy/helm: with its defaults it is the manifests of deploy/kubernetes, and whatever it is given it has none of their
faults. Helm lints and renders it where it is: the program `helm`, or helm-python-sdk in RIVULET_DEPLOY_PYTHON. Elsewhere a small reader of
the template language renders it, which refuses what it does not know; where Helm is, both must print the same."""
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from manifests import DEPLOY, ROOT, VERSION, documents, faults, manifests, yaml

if yaml:
    import chart_reader

CHART = DEPLOY / "helm"
SCHEMAS = os.environ.get("RIVULET_DEPLOY_PYTHON") or sys.executable
SITE = {"name": "hospital-a", "tls": "hospital-a-tls", "records": "hospital-a-records"}
# Values that turn every branch of the templates one way and the other.
MANY = {
    "defaults": {},
    "run": {"coordinator": {"scenario": "rivulet-scenario"}},
    "site": {"coordinator": {"enabled": False}, "clients": [SITE], "client": {"coordinator": "fl.example.org:7000"}},
    "simulation": {"coordinator": {"enabled": False}, "simulation": {"enabled": True}},
    "all": {"image": {"repository": "registry.example.org/rivulet"}, "imagePullSecrets": [{"name": "registry"}],
            "nodeSelector": {"disk": "fast"}, "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
            "coordinator": {"options": ["--aggregators", "--set=run.name=a \"b\""], "data": "test-sets",
                            "storage": {"size": "1Ti", "className": "fast"}, "service": {"type": "LoadBalancer", "annotations": {"a": "b"}},
                            "callers": [{"ipBlock": {"cidr": "192.0.2.0/24"}}],
                            "http": {"namespaces": {"team": "ops"}, "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}}},
            "clients": [SITE, {**SITE, "name": "hospital-b"}],
            "client": {"options": ["--zstd"], "storage": {"className": "fast"}},
            "simulation": {"enabled": True, "options": ["--rounds=3"], "workers": 2, "workerOptions": ["--zstd"]}},
    "least": {"networkPolicy": {"enabled": False}, "clients": [SITE],
              "coordinator": {"scenario": "s", "http": {"enabled": False}, "options": ["--aggregators"], "data": "test-sets"}},
}
WRONG = {
    "a mistyped key": {"coordinater": {}},
    "a site without a certificate": {"clients": [{"name": "a", "records": "r"}]},
    "a name that is none of Kubernetes": {"clients": [{**SITE, "name": "Hospital A"}]},
    "a coordinator without a port": {"client": {"coordinator": "fl.example.org"}},
    "no worker": {"simulation": {"workers": 0}},
}


def run(*command):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


@functools.cache
def has_sdk():
    return run(SCHEMAS, "-c", "import helm_python")[0] == 0


def sdk(script, *arguments):
    """What a script prints that has the chart as `chart`."""
    return run(SCHEMAS, "-c", f"import helm_python, json, sys\nchart = helm_python.Chart.load({str(CHART)!r})\n{script}", *arguments)


@unittest.skipUnless(yaml, "needs yaml (Debian's python3-yaml)")
class Chart(unittest.TestCase):
    def rendered(self, values):
        return {path: documents(text) for path, text in chart_reader.render(CHART, values).items() if path.endswith(".yaml")}

    def plain(self, document):
        """Without what is Helm's own."""
        text = json.dumps(document)
        document = json.loads(text, object_hook=lambda it: {key: value for key, value in it.items()
                                                            if not key.startswith(("app.kubernetes.io/", "helm.sh/")) and key != "imagePullPolicy"})
        if not document["metadata"].get("annotations", True):
            del document["metadata"]["annotations"]
        return document

    def manifest(self, name):
        return json.loads(json.dumps(manifests()[name]))

    def test_defaults_are_the_manifests(self):
        for values, template, manifest in (("defaults", "coordinator", "coordinator.yaml"), ("run", "coordinator", "run.yaml"),
                                           ("site", "clients", "client.yaml"), ("simulation", "simulation", "simulation.yaml")):
            given = {**MANY[values], "client": {}}  # the coordinator of the manifests
            found = [self.plain(document) for document in self.rendered(given)[f"templates/{template}.yaml"]]
            with self.subTest(manifest=manifest):
                self.assertEqual(len(found), len(self.manifest(manifest)))
                for one, other in zip(found, self.manifest(manifest)):
                    self.assertEqual(one, other)

    def test_no_values_bring_a_fault(self):
        for name, values in MANY.items():
            found = [document for together in self.rendered(values).values() for document in together if document["kind"] != "ServiceMonitor"]
            told = list(faults(found))
            if name == "least":
                told = [fault for fault in told if "no network policy" not in fault]
            with self.subTest(values=name):
                self.assertTrue(found)
                self.assertEqual(told, [])

    def test_values_reach_the_pods(self):
        found = {f"{document['kind']} {document['metadata']['name']}": document for together in self.rendered(MANY["all"]).values()
                 for document in together}
        coordinator = found["StatefulSet rivulet-coordinator"]["spec"]
        container = coordinator["template"]["spec"]["containers"][0]
        self.assertEqual(container["args"][1:], ["rivulet", "--aggregators", '--set=run.name=a "b"'])
        self.assertEqual(container["image"], f"registry.example.org/rivulet:{VERSION}")
        self.assertEqual(coordinator["volumeClaimTemplates"][0]["spec"]["storageClassName"], "fast")
        self.assertIn("StatefulSet rivulet-client-hospital-b", found)
        self.assertEqual(found["Job rivulet-worker"]["spec"]["parallelism"], 2)
        for name in ("StatefulSet rivulet-coordinator", "StatefulSet rivulet-client-hospital-a", "Job rivulet-simulation", "Job rivulet-worker"):
            spec = found[name]["spec"]["template"]["spec"]
            self.assertEqual((spec["nodeSelector"], spec["imagePullSecrets"]), ({"disk": "fast"}, [{"name": "registry"}]), name)
        endpoint, = found["ServiceMonitor rivulet-coordinator"]["spec"]["endpoints"]
        port, = (port for port in found["Service rivulet-coordinator"]["spec"]["ports"] if port["name"] == endpoint["port"])
        self.assertIn(f"--http 0.0.0.0:{port['port']} ", container["args"][0])
        self.assertEqual(endpoint["authorization"]["credentials"], {"name": "rivulet-coordinator-http", "key": "token"})
        self.assertEqual(found["NetworkPolicy rivulet-coordinator"]["spec"]["ingress"][0]["from"][1], {"ipBlock": {"cidr": "192.0.2.0/24"}})

    def test_versions_are_the_programs(self):
        told = yaml.safe_load((CHART / "Chart.yaml").read_text())
        self.assertEqual((told["version"], told["appVersion"]), (VERSION, VERSION))

    def test_schema_names_every_value(self):
        def keys(values, schema, path=""):
            for key, value in values.items():
                self.assertIn(key, schema["properties"], path)
                if isinstance(value, dict) and "properties" in schema["properties"][key]:
                    self.assertFalse(schema["properties"][key]["additionalProperties"], f"{path}{key}")
                    keys(value, schema["properties"][key], f"{path}{key}.")

        keys(yaml.safe_load((CHART / "values.yaml").read_text()), json.loads((CHART / "values.schema.json").read_text()))

    def test_reader_refuses_what_it_does_not_know(self):
        with tempfile.TemporaryDirectory() as folder:
            chart = pathlib.Path(folder)
            (chart / "templates").mkdir()
            (chart / "Chart.yaml").write_text("name: c\n")
            (chart / "values.yaml").write_text("a: {b: 1}\n")
            for text, sentence in (("{{ .Values.a.c }}", "has no 'c'"), ("{{ lookup 1 }}", "no function 'lookup'"), ("{{ if .Values }}x", "missing"),
                                   ("{{ end }}", "not understood here"), ("{{ $x }}", "no variable"), ("{{ range .Values.a }}{{ end }}", "of no list"),
                                   ("{{ include \"d\" . }}", "no template 'd'"), ("{{ .Values.a | 1 }}", "one function or one value"),
                                   ("{{ if 1 }}{{ else if 2 }}{{ end }}", "not understood"), ("{{ a; b }}", "not understood")):
                (chart / "templates/t.yaml").write_text(text)
                with self.subTest(template=text), self.assertRaisesRegex(chart_reader.ChartError, sentence):
                    chart_reader.render(chart, {})


@unittest.skipUnless(yaml, "needs yaml (Debian's python3-yaml)")
class Helm(unittest.TestCase):
    def setUp(self):
        self.program = shutil.which("helm")
        if not self.program and not has_sdk():
            self.skipTest("there is no helm, and no helm-python-sdk (RIVULET_DEPLOY_PYTHON)")

    def with_values(self, values):
        file = tempfile.NamedTemporaryFile("w", suffix=".json")
        self.addCleanup(file.close)
        json.dump(values, file)
        file.flush()
        return file.name

    def lint(self, values):
        if self.program:
            return run(self.program, "lint", "--strict", CHART, "--values", self.with_values(values))
        code, printed = sdk("""
values = json.loads(sys.argv[1])
told = helm_python.lint(sys.argv[2], values)
print(json.dumps(told, default=str))
chart.validate_schema(values)
sys.exit(1 if told["errors"] or any(message["severity"] > 1 for message in told["messages"]) else 0)
""", json.dumps(values), CHART)
        return code, printed

    def render(self, values):
        """The documents of all templates, in Helm's order of files."""
        if self.program:
            code, printed = run(self.program, "template", "rivulet", CHART, "--kube-version", "1.31.0", "--values", self.with_values(values))
            self.assertEqual(code, 0, printed)
            return documents(printed)
        code, printed = sdk("print(json.dumps(chart.render(json.loads(sys.argv[1]), name='rivulet', namespace='default')))", json.dumps(values))
        self.assertEqual(code, 0, printed)
        files = {path: text for path, text in json.loads(printed).items() if path.endswith(".yaml")}
        return [document for path in sorted(files) for document in documents(files[path])]

    def test_lint_takes_the_chart_and_refuses_wrong_values(self):
        for name, values in MANY.items():
            code, printed = self.lint(values)
            self.assertEqual(code, 0, f"{name}: {printed}")
        for name, values in WRONG.items():
            code, printed = self.lint(values)
            self.assertNotEqual(code, 0, f"{name}: {printed}")

    def test_the_small_reader_prints_the_same(self):
        def ordered(found):
            return sorted(found, key=lambda document: (document["kind"], document["metadata"]["name"]))

        for name, values in MANY.items():
            read = [document for path, text in chart_reader.render(CHART, values).items() if path.endswith(".yaml") for document in documents(text)]
            with self.subTest(values=name):
                self.assertEqual(ordered(self.render(values)), ordered(read))

    def test_kubernetes_takes_all_that_it_renders(self):
        if run(SCHEMAS, "-c", "import kubernetes_validate")[0] != 0:
            self.skipTest("there is no kubernetes_validate (RIVULET_DEPLOY_PYTHON)")
        for name, values in MANY.items():
            found = [document for document in self.render(values) if document["kind"] != "ServiceMonitor"]
            code, printed = run(SCHEMAS, "-c", """
import json, sys, kubernetes_validate
for document in json.loads(sys.argv[1]):
    kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
""", json.dumps(found))
            self.assertEqual(code, 0, f"{name}: {printed}")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
