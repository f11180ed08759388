"""The manifests of deploy/: Kubernetes and Compose take them, their programs understand them, and they have no fault of a known kind."""
import copy
import fnmatch
import os
import re
import subprocess
import sys
import unittest

from manifests import DEPLOY, ROOT, VERSION, faults, manifests, pod_of, yaml

sys.path.insert(0, str(ROOT / "tests/e2e"))
from harness import RivuletTest, main  # noqa: E402

# An interpreter that has kubernetes-validate, compose-spec and helm-python-sdk.
SCHEMAS = os.environ.get("RIVULET_DEPLOY_PYTHON") or sys.executable
needs_yaml = unittest.skipUnless(yaml, "needs yaml (Debian's python3-yaml)")


def run(*command, **kwargs):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs)
    return done.returncode, done.stdout


def has(module):
    return run(SCHEMAS, "-c", f"import {module}")[0] == 0


class Schemas(unittest.TestCase):
    def test_kubernetes_takes_them(self):
        if not has("kubernetes_validate"):
            self.skipTest("there is no kubernetes_validate (RIVULET_DEPLOY_PYTHON)")
        for manifest in (DEPLOY / "kubernetes").glob("*.yaml"):
            code, printed = run(SCHEMAS, "-c", """
import sys, yaml, kubernetes_validate
for document in yaml.safe_load_all(open(sys.argv[1])):
    kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
""", manifest)
            self.assertEqual(code, 0, printed)

    def test_compose_takes_it(self):
        if not has("compose_spec"):
            self.skipTest("there is no compose_spec (RIVULET_DEPLOY_PYTHON)")
        code, printed = run(SCHEMAS, "-c", """
import sys, yaml, compose_spec
document = yaml.safe_load(open(sys.argv[1]))
compose_spec.ComposeSpecification.model_validate(document)
# Its types are checked there, unknown keys are not.
known = {field.alias or name for name, field in compose_spec.Service.model_fields.items()}
for service in document["services"].values():
    assert set(service) <= known, set(service) - known
""", DEPLOY / "compose.yaml")
        self.assertEqual(code, 0, printed)


@needs_yaml
class Kubernetes(RivuletTest):
    def test_they_have_no_fault(self):
        found = manifests()
        self.assertEqual(sorted(found), ["client.yaml", "coordinator.yaml", "history.yaml", "run.yaml", "simulation.yaml"])
        for name, together in found.items():
            self.assertEqual(list(faults(together)), [], name)

    def test_planted_faults_are_found(self):
        def planted(name, kind, change):
            together = copy.deepcopy(manifests()[name])
            for document in together:
                if document["kind"] == kind:
                    change(document)
            return list(faults(together))

        def spec(change):
            return lambda document: change(pod_of(document)[1])

        def container(change):
            return lambda document: change(pod_of(document)[1]["containers"][0])

        def volume(document, name):
            return next(volume for volume in pod_of(document)[1]["volumes"] if volume["name"] == name)

        def says(script):
            return container(lambda it: it.update(args=[script]))

        for sentence, name, kind, change in [
                ("it may run as root", "client.yaml", "StatefulSet", spec(lambda it: it["securityContext"].pop("runAsUser"))),
                ("it has no seccomp profile", "client.yaml", "StatefulSet", spec(lambda it: it["securityContext"].pop("seccompProfile"))),
                ("it has a token of the cluster", "run.yaml", "Job", spec(lambda it: it.pop("automountServiceAccountToken"))),
                ("services put variables", "run.yaml", "Job", spec(lambda it: it.pop("enableServiceLinks"))),
                ("others may read the secret in tls", "run.yaml", "Job", lambda it: volume(it, "tls")["secret"].pop("defaultMode")),
                ("the secret in tls belongs to root", "simulation.yaml", "Job", spec(lambda it: it["securityContext"].pop("fsGroup"))),
                ("too little time to end", "run.yaml", "Job", spec(lambda it: it.pop("terminationGracePeriodSeconds"))),
                ("restarted for ever", "coordinator.yaml", "StatefulSet", says("rivulet coordinator /etc/rivulet/scenario.toml")),
                ("two of it", "coordinator.yaml", "StatefulSet", lambda it: it["spec"].update(replicas=2)),
                ("hidden by restarts", "run.yaml", "Job", spec(lambda it: it.update(restartPolicy="OnFailure"))),
                ("a second pod may start", "run.yaml", "Job", lambda it: it["spec"].pop("podReplacementPolicy")),
                ("a wrong option is tried again", "run.yaml", "Job", lambda it: it["spec"]["podFailurePolicy"]["rules"].pop(0)),
                ("evictions count", "run.yaml", "Job", lambda it: it["spec"]["podFailurePolicy"]["rules"].pop(1)),
                ("exit status 0", "simulation.yaml", "Job", says("exec rivulet worker --simulation rivulet-simulation:7000")),
                ("gain privileges", "client.yaml", "StatefulSet", container(lambda it: it["securityContext"].pop("allowPrivilegeEscalation"))),
                ("can be written", "client.yaml", "StatefulSet", container(lambda it: it["securityContext"].pop("readOnlyRootFilesystem"))),
                ("keeps capabilities", "client.yaml", "StatefulSet", container(lambda it: it["securityContext"].pop("capabilities"))),
                ("memory has no limit", "client.yaml", "StatefulSet", container(lambda it: it["resources"].pop("limits"))),
                ("requests no processor", "history.yaml", "Pod", container(lambda it: it["resources"].pop("requests"))),
                ("is not of version", "history.yaml", "Pod", container(lambda it: it.update(image="rivulet:latest"))),
                ("has no /tmp", "history.yaml", "Pod", container(lambda it: it["volumeMounts"].pop())),
                ("/tls can be written", "client.yaml", "StatefulSet", container(lambda it: it["volumeMounts"][2].pop("readOnly"))),
                ("declares the ports [7000]", "coordinator.yaml", "StatefulSet", container(lambda it: it["ports"].pop())),
                ("before it listens", "coordinator.yaml", "StatefulSet", container(lambda it: it.pop("readinessProbe"))),
                ("services lead to ['grpc']", "coordinator.yaml", "Service", lambda it: it["spec"]["ports"].pop()),
                ("selects no pod", "coordinator.yaml", "Service", lambda it: it["spec"].update(selector={"app": "rivulet"})),
                ("network policies open [7000]", "coordinator.yaml", "NetworkPolicy", lambda it: it["spec"]["ingress"].pop()),
                ("no network policy", "client.yaml", "NetworkPolicy", lambda it: it["spec"]["podSelector"].update(matchLabels={"a": "b"}))]:
            with self.subTest(fault=sentence):
                self.assertTrue(any(sentence in fault for fault in planted(name, kind, change)), planted(name, kind, change))

    def test_two_ways_of_a_coordinator_differ_in_their_end_alone(self):
        """coordinator.yaml and run.yaml are applied one in place of the other: services, policies and certificates stay."""
        found = manifests()
        for kind in ("Service", "NetworkPolicy"):
            self.assertEqual(*([document for document in found[name] if document["kind"] == kind] for name in ("coordinator.yaml", "run.yaml")))


@needs_yaml
class Compose(unittest.TestCase):
    def setUp(self):
        self.document = yaml.safe_load((DEPLOY / "compose.yaml").read_text())

    def test_its_services_are_shut_and_end_with_the_run(self):
        for name, service in self.document["services"].items():
            with self.subTest(service=name):
                self.assertRegex(service["restart"], r"^on-failure:\d+$")  # neither after the run's end nor for ever
                self.assertEqual(service["stop_grace_period"], "60s")
                self.assertTrue(service["read_only"])
                self.assertEqual((service["cap_drop"], service["security_opt"]), (["ALL"], ["no-new-privileges:true"]))
                self.assertLessEqual({"mem_limit", "pids_limit"}, set(service))
                self.assertEqual(service["image"].rpartition(":")[2], VERSION)
                self.assertTrue(all(mount.endswith(":ro") for mount in service["volumes"] if mount.startswith("./")), service["volumes"])
                self.assertIn("/var/lib/rivulet", [mount.split(":")[1] for mount in service["volumes"]])
        self.assertTrue(self.document["networks"]["federation"]["internal"])
        self.assertEqual(self.document["services"]["coordinator"]["ports"], ["127.0.0.1:8080:8080"])

    def test_its_coordinator_is_that_of_the_manifests(self):
        script = self.document["services"]["coordinator"]["command"][0].replace("$$", "$")
        for line in ('if rivulet runs show latest >/dev/null 2>&1; then set -- --resume latest "$@"; fi', "cp -f /etc/rivulet/* . || exit 1",
                     '--http 0.0.0.0:8080 --http-tls /tls --http-token /http/token "$@"'):
            self.assertIn(line, script)
            self.assertIn(line, (DEPLOY / "kubernetes/run.yaml").read_text())


class CommandLines(RivuletTest):
    def test_they_are_understood(self):
        """Every option that a manifest gives to a command is one of its help."""
        read = 0
        for manifest in [DEPLOY / "compose.yaml", *(DEPLOY / "kubernetes").glob("*.yaml"), *(DEPLOY / "helm/templates").glob("*.yaml")]:
            text = re.sub(r"(?m)^\s*#.*\n", "", manifest.read_text()).replace("\\\n", " ")
            found = re.findall(r"rivulet (coordinator|simulate|worker) (.*)", text) + re.findall(r"args: \[(dashboard), (.*)\]", text)
            found += [("client", line) for line in re.findall(r"command: \[(--coordinator.*)\]|^ +- (?:\{\{ printf \")?(--.*)", text, re.M)
                      for line in line if line]
            self.assertTrue(found, manifest)
            for command, line in found:
                known = self.run_rivulet(command, "--help", code=0).out
                for option in re.findall(r"(?<![\w-])--[a-z-]+", line):
                    self.assertIn(option, known, line)
                    read += 1
        self.assertGreater(read, 40)


class Images(unittest.TestCase):
    def test_containers_run_as_the_user_of_the_manifests(self):
        text = (DEPLOY / "Containerfile").read_text()
        for stage in text.split("\nFROM ")[2:]:
            self.assertIn("USER 10001:10001\nWORKDIR /var/lib/rivulet\nENTRYPOINT", stage)
            self.assertIn("chmod 0700 /var/lib/rivulet\n", stage)

    def test_keys_and_builds_stay_out_of_an_images_build_and_sources_do_not(self):
        patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]

        def left_out(path):
            folders = path.split("/")
            return any(fnmatch.fnmatch("/".join(folders[:end]), pattern) or
                       pattern.startswith("**/") and fnmatch.fnmatch(folders[end - 1], pattern[3:])
                       for pattern in patterns for end in range(1, len(folders) + 1))

        for path in (".git/config", "build/release/rivulet", "ca/authority.key", "deploy/tls/coordinator/node.key", "rivulet.sqlite-wal",
                     "client-hospital-a/node.crt", "client-hospital-a.tar.gz", "deploy/records/client-00000.tfrecord"):
            self.assertTrue(left_out(path), path)
        code, listed = run("git", "-c", "safe.directory=*", "ls-files", cwd=ROOT)
        if code != 0:
            self.skipTest("this is no checkout of git")
        self.assertGreater(len(listed.splitlines()), 500)
        self.assertEqual([path for path in listed.splitlines() if left_out(path)], [])


if __name__ == "__main__":
    main()
