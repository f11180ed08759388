"""A row of the matrix for every call: what is sent, and the status that each kind of caller gets."""
from harness import field

from world import caller

# Kinds of callers whose connection stands. A status that is missing in a row is PERMISSION_DENIED: nothing is open by default.
CLIENT, STRANGER, BANNED, AGGREGATOR, OPERATOR = "client", "not in --clients", "banned", "aggregator", "operator"
KINDS = (CLIENT, STRANGER, BANNED, AGGREGATOR, OPERATOR)


def poll(serves):
    datasets = field(2, field(1, "0") + field(2, 1) + field(3, field(1, "train") + field(2, 5)))
    return lambda name: [field(1, caller(name)) + datasets + (field(3, serves) if serves else b"")]


def submit(kind):
    return lambda name: [field(1, field(1, caller(name)) + field(2, field(1, "no-task") + field(3, 10) + (field(5, kind) if kind else b"")))]


def fetch(name):
    return [field(1, caller(name)) + field(2, field(2, b"x" * 32))]


def fail(name):
    return [field(1, caller(name)) + field(2, field(1, "no-task") + field(3, 1))]


def fixed(message):
    return lambda name: [message]


# call: [(what is asked, messages of a name, {kind: status})]. No caller knows a task or a blob.
ROWS = {
    "Coordinator.Poll": [("for itself", poll(0), {CLIENT: "OK"}),
                         ("for every client", poll(1), {}),
                         ("for its clients", poll(2), {AGGREGATOR: "OK"})],
    "Coordinator.Fetch": [("a blob that is none", fetch, {CLIENT: "NOT_FOUND", AGGREGATOR: "NOT_FOUND"})],
    "Coordinator.Submit": [("an update", submit(0), {CLIENT: "NOT_FOUND", AGGREGATOR: "NOT_FOUND"}),
                           ("a partial sum", submit(1), {AGGREGATOR: "NOT_FOUND"}),
                           ("a state", submit(2), {})],
    "Coordinator.Fail": [("of a task that is none", fail, {CLIENT: "NOT_FOUND", AGGREGATOR: "NOT_FOUND"})],
    "Control.Runs": [("all", fixed(b""), {OPERATOR: "OK"})],
    "Control.Clients": [("all", fixed(b""), {OPERATOR: "OK"})],
    "Control.Audit": [("all", fixed(b""), {OPERATOR: "OK"})],
    "Control.Command": [("an action that is none", fixed(field(1, "frobnicate")), {OPERATOR: "INVALID_ARGUMENT"}),
                        ("a ban of a name that is none", fixed(field(1, "ban") + field(2, "\n")), {OPERATOR: "INVALID_ARGUMENT"}),
                        ("the end of a run that is none", fixed(field(1, "abort") + field(2, "no-run")), {OPERATOR: "NOT_FOUND"})],
    "Control.StartRun": [("a scenario that is none", fixed(field(1, "nonsense")), {OPERATOR: "INVALID_ARGUMENT"})],
}
