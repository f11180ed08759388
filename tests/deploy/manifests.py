"""The documents of deploy/ for Kubernetes, and the faults that they may have. Needs Debian's python3-yaml."""
import pathlib
import re

try:
    import yaml
except ImportError:
    yaml = None

ROOT = pathlib.Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
VERSION = re.search(r"project\(\w+\s+VERSION (\d+\.\d+\.\d+)", (ROOT / "CMakeLists.txt").read_text(), re.I)[1]


def documents(text):
    return [document for document in yaml.safe_load_all(text) if document]


def manifests():
    """The documents of each plain manifest, by its file's name."""
    return {path.name: documents(path.read_text()) for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))}


def pod_of(document):
    """The metadata and the spec of its pods; None of a document that has none."""
    if document["kind"] == "Pod":
        return document["metadata"], document["spec"]
    template = document["spec"].get("template") if document["kind"] in ("Job", "StatefulSet") else None
    return template and (template["metadata"], template["spec"])


def words(container):
    """All that a container runs, as one text."""
    return " ".join([*container.get("command", []), *container.get("args", [])])


def listens_on(container):
    return {int(port) for port in re.findall(r"--(?:listen|http|workers-at)[ =]0\.0\.0\.0:(\d+)", words(container))}


def faults_of_container(container, spec):
    def fault(wrong, sentence):
        return [f"container {container['name']}: {sentence}"] if wrong else []

    shut, resources = container.get("securityContext", {}), container.get("resources", {})
    yield from fault(shut.get("allowPrivilegeEscalation") is not False, "it may gain privileges")
    yield from fault(shut.get("readOnlyRootFilesystem") is not True, "its root file system can be written")
    yield from fault(shut.get("capabilities", {}).get("drop") != ["ALL"], "it keeps capabilities")
    yield from fault("memory" not in resources.get("limits", {}), "its memory has no limit")
    yield from fault(not {"cpu", "memory"} <= set(resources.get("requests", {})), "it requests no processor or memory")
    yield from fault(container["image"].rpartition(":")[2] != VERSION, f"its image is not of version {VERSION}")
    volumes = {volume["name"]: volume for volume in spec.get("volumes", [])}
    mounts = container.get("volumeMounts", [])
    yield from fault("/tmp" not in {mount["mountPath"] for mount in mounts}, "it has no /tmp to write to")
    for mount in mounts:
        source = volumes.get(mount["name"], {})
        yield from fault(("secret" in source or "configMap" in source) and not mount.get("readOnly"), f"{mount['mountPath']} can be written")
    ports = {port["containerPort"] for port in container.get("ports", [])}
    yield from fault(ports != listens_on(container), f"it declares the ports {sorted(ports)} and listens on {sorted(listens_on(container))}")
    yield from fault(ports and "readinessProbe" not in container, "calls reach it before it listens")


def faults_of_pod(document):
    _, spec = pod_of(document)
    shut = spec.get("securityContext", {})

    def fault(wrong, sentence):
        return [sentence] if wrong else []

    yield from fault(not shut.get("runAsNonRoot") or not shut.get("runAsUser"), "it may run as root")
    yield from fault(shut.get("seccompProfile") != {"type": "RuntimeDefault"}, "it has no seccomp profile")
    yield from fault(spec.get("automountServiceAccountToken") is not False, "it has a token of the cluster")
    yield from fault(spec.get("enableServiceLinks") is not False, "services put variables into its environment")
    for volume in spec.get("volumes", []):
        if "secret" in volume:
            mode = volume["secret"].get("defaultMode", 0o644)
            yield from fault(mode & 0o337, f"others may read the secret in {volume['name']}")
            yield from fault("fsGroup" not in shut or shut["fsGroup"] != shut.get("runAsGroup"),
                             f"the secret in {volume['name']} belongs to root, and the pod cannot read it")
    started = " ".join(words(container) for container in spec["containers"])
    one_run = re.search(r"rivulet (?:simulate|worker|coordinator \S+\.toml)", started) is not None
    kind = document["kind"]
    yield from fault(kind != "Pod" and spec.get("terminationGracePeriodSeconds", 30) < 60, "it has too little time to end cleanly")
    yield from fault(kind == "StatefulSet" and one_run, "it is restarted for ever after its run has finished")
    yield from fault(kind == "StatefulSet" and document["spec"].get("replicas") != 1, "there may be two of it")
    if kind == "Job":
        job = document["spec"]
        yield from fault(spec.get("restartPolicy") != "Never", "its failures are hidden by restarts in place")
        yield from fault(job.get("podReplacementPolicy") != "Failed", "a second pod may start beside one that is ending")
        rules = job.get("podFailurePolicy", {}).get("rules", [])
        names = [container["name"] for container in spec["containers"]]
        yield from fault(not any(rule["action"] == "FailJob" and rule.get("onExitCodes", {}).get("values") == [2] and
                                 rule["onExitCodes"].get("containerName") in names for rule in rules), "a wrong option is tried again")
        yield from fault(not any(rule["action"] == "Ignore" and {"type": "DisruptionTarget", "status": "True"} in
                                 rule.get("onPodConditions", []) for rule in rules), "evictions count as failures")
        stops_with_0 = re.search(r"rivulet (?:worker|coordinator) ", started)
        yield from fault(stops_with_0 and "status=143" not in started, "an eviction ends it with exit status 0, as if it had finished")
    for container in spec["containers"]:
        yield from faults_of_container(container, spec)


def selects(selector, labels):
    return selector.items() <= labels.items()


def faults(found):
    """Of documents that are applied together; each is a sentence that begins with kind and name."""
    pods = [(pod_of(document)[0].get("labels", {}), pod_of(document)[1]) for document in found if pod_of(document)]
    for document in found:
        title = f"{document['kind']} {document['metadata']['name']}"
        if pod_of(document):
            yield from (f"{title}: {fault}" for fault in faults_of_pod(document))
            labels = pod_of(document)[0].get("labels", {})
            ports = {port["containerPort"]: port["name"] for container in pod_of(document)[1]["containers"]
                     for port in container.get("ports", [])}
            policies = [other["spec"] for other in found if other["kind"] == "NetworkPolicy" and
                        selects(other["spec"]["podSelector"]["matchLabels"], labels)]
            opened = {port["port"] for policy in policies for rule in policy.get("ingress", []) for port in rule["ports"]}
            if not policies:
                yield f"{title}: no network policy selects it"
            elif opened != set(ports):
                yield f"{title}: it listens on {sorted(ports)}, and network policies open {sorted(opened)}"
            services = [other["spec"] for other in found if other["kind"] == "Service" and selects(other["spec"]["selector"], labels)]
            served = {port["targetPort"] for service in services for port in service["ports"]}
            if served != set(ports.values()):
                yield f"{title}: it has the ports {sorted(ports.values())}, and services lead to {sorted(served)}"
        elif document["kind"] == "Service" and not any(selects(document["spec"]["selector"], labels) for labels, _ in pods):
            yield f"{title}: it selects no pod"
