"""The tables of docs/reference/outside.md, from the rows that outside.py has computed."""

import collections
import json
import re

EXPORTERS = ("torchscript", "dynamo")


def rows_in(folder):
    rows = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))] if folder.exists() else []
    return sorted(rows, key=lambda row: row.get("order", 0))


def number(value, bound=1.0):
    """A ratio, or why there is none."""
    if isinstance(value, str):
        return value.split(":")[0]
    return f"{value:.2f}" if value <= bound else f"differs: {value:.2f}"


def good(value):
    return not isinstance(value, str) and value <= 1


def of_torch(folder):
    def cell(outcome, where, ratio):
        if outcome == "agrees":
            return f"{ratio:.2f}"
        if "PyTorch cannot write" in where:
            return "PyTorch does not write it"
        return outcome if outcome == "refused" else f"differs: {ratio:.2f}"

    rows = rows_in(folder)
    made = [row for row in rows if "found" in row]
    lines = ["| module | " + " | ".join(EXPORTERS) + " |", "| --- | --- | --- |"]
    lines += [f"| `{row['name']}` | " + " | ".join(cell(*each) for each in row["found"]) + " |" for row in made]
    trained = sum(any(outcome == "agrees" for outcome, _, _ in row["found"]) for row in made)
    crashed = [row for row in rows if "crash" in row]
    lines += [f"| `{row['name']}` | crash | crash |" for row in crashed]
    lines += ["", f"{trained} of {len(made) + len(crashed)} modules train as in PyTorch by at least one exporter."]
    left_out = [f"{row['name']} ({row['needs']})" for row in rows if "needs" in row]
    if left_out:
        lines += ["", "Left out, as a package is missing: " + ", ".join(left_out) + "."]
    return lines, bool(crashed) or any(outcome == "differs" for row in made for outcome, _, _ in row["found"])


def counted(refused):
    """A table of what was refused how often."""
    by_count = collections.defaultdict(list)
    for what, count in sorted(refused.items()):
        by_count[count].append(what)
    lines = ["", "| refused cases | of each of |", "| --- | --- |"]
    return lines + [f"| {count} | {', '.join(by_count[count])} |" for count in sorted(by_count, reverse=True)]


def of_onnx(folder):
    (content,) = rows_in(folder)
    kinds = ("pass", "refused", "other numbers", "wrong", "crash")
    lines = ["| suite | cases | " + " | ".join(kinds) + " |", "| --- " * (len(kinds) + 2) + "|"]
    for suite, counts in content["counts"].items():
        found = [counts.get(kind, 0) for kind in kinds]
        lines.append(f"| {suite} | {sum(counts.values())} | " + " | ".join(map(str, found)) + " |")
    refused = collections.Counter()
    for report in content["reports"]:
        if report["outcome"] == "refused":
            node = re.match(r"(\w+) '[^']*' \(opset", report["message"])
            refused[f"`{node.group(1)}`" if node else "types that Rivulet does not have"] += 1
    return lines + counted(refused), any(report["outcome"] in ("wrong", "crash") for report in content["reports"])


def why_refused(message):
    missing = re.search(r"there is no op '(\w+)'", message)
    if missing:
        return f"`{missing.group(1)}`"
    if "supported data type" in message:
        return "types that Rivulet does not have"
    if "does not follow from the feeds" in message:
        return "sizes that depend on values, without a bound"
    return message.split(":")[0]


def of_tensorflow(folder):
    (outcomes,) = rows_in(folder)
    kinds = ("agree", "refused", "wrong", "crash")
    counts = collections.Counter(kind for kind, _ in outcomes.values())
    families = collections.defaultdict(set)
    for case, (kind, _) in outcomes.items():
        families[case.rsplit(".", 1)[0]].add(kind)
    whole = collections.Counter(next((kind for kind in reversed(kinds) if kind in found), "") for found in families.values())
    lines = ["| | all | " + " | ".join(kinds) + " |", "| --- " * 6 + "|"]
    for what, counter in (("graphs", counts), ("families", whole)):
        lines.append(f"| {what} | {sum(counter.values())} | " + " | ".join(str(counter[kind]) for kind in kinds) + " |")
    refused = collections.Counter(why_refused(message) for kind, message in outcomes.values() if kind == "refused")
    return lines + counted(refused), bool(counts["wrong"] or counts["crash"])


def of_models(rows, training):
    heads = ["model", "parameters", "forward pass", "variables", "step"]
    heads += ["training graph, frozen", "with SGD", "with Adam"] if training else []
    lines = ["| " + " | ".join(heads) + " |", "| --- " * len(heads) + "|"]
    agree = 0
    for row in rows:
        if "crash" in row:
            lines.append(f"| `{row['name']}` | crash" + " | " * (len(heads) - 1) + " |")
            continue
        refused = "refused" in row
        variables = row.get("roles") or f"{row['variables']} of {row['variables']}"
        cells = [f"`{row['name']}`", f"{row['parameters']:,}", number(row.get("forward", "refused")), variables]
        cells.append("refused" if refused else number(row["step"]) if "step" in row else "not run")
        ratios = [row.get("forward", "refused"), row.get("step", "refused" if refused else 0)]
        if training:
            ratios += [row["training"][kind] for kind in ("frozen", "SGD", "Adam")]
            cells += map(number, ratios[2:])
        agree += not row.get("roles") and all(map(good, ratios))
        lines.append("| " + " | ".join(cells) + " |")
    left_out = max(row.get("of", 0) for row in rows) - len(rows)
    more = f" Not run: {left_out}." if left_out > 0 else ""
    return [*lines, "", f"{agree} of {len(rows)} agree in every column that was run.{more}"], agree < len(rows)


PARTS = {
    "torch": ("PyTorch", of_torch),
    "onnx": ("ONNX's suites", of_onnx),
    "tensorflow": ("TensorFlow's random graphs", of_tensorflow),
    "keras": ("Keras' models", lambda folder: of_models(rows_in(folder), True)),
    "applications": ("keras.applications", lambda folder: of_models(rows_in(folder), False)),
}


def tables(keep):
    """The text of all parts of which there are rows, and whether one of them says a model is wrong."""
    text, failed = [], False
    for part, (title, lines_of) in PARTS.items():
        if not rows_in(keep / part):
            continue
        lines, wrong = lines_of(keep / part)
        text += ["" if text else None, f"### {title}", "", *lines]
        failed = failed or wrong
    return "\n".join(line for line in text if line is not None) + "\n", failed
