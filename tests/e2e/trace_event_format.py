"""What the public description of the Trace Event Format asks of a file, as a check.

The JSON array format: an array of events; the ] at its end may be missing. Every event has "ph" (its phase), "pid" and
"tid"; all but metadata have "ts", in microseconds. What else an event needs follows from its phase."""
import collections
import json

PHASES = set("BEXiICbnesftPNODMVvRc(),")
METADATA = {"process_name", "process_labels", "process_sort_index", "thread_name", "thread_sort_index"}


def parse(text):
    """The events of a file, whose array may be open at its end."""
    text = text.strip()
    assert text.startswith("["), text[:80]
    if not text.endswith("]"):
        text = text.rstrip(",") + "]"
    events = json.loads(text)
    assert isinstance(events, list)
    return events


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check(events):
    """Raises AssertionError for what the format does not allow."""
    open_spans = collections.defaultdict(list)  # B without E, by row
    last = {}
    slices = collections.defaultdict(list)
    flows = collections.defaultdict(list)
    for event in events:
        assert isinstance(event, dict), event
        phase = event.get("ph")
        assert phase in PHASES, event
        for key in ("pid", "tid"):
            assert isinstance(event.get(key), int), event
        assert isinstance(event.get("args", {}), dict), event
        assert isinstance(event.get("cat", ""), str), event
        row = (event["pid"], event["tid"])
        if phase != "E":
            assert isinstance(event.get("name"), str) and event["name"], event
        if phase == "M":
            assert event["name"] in METADATA, event
            assert "args" in event, event
            if event["name"].endswith("_name"):
                assert isinstance(event["args"].get("name"), str), event
            continue
        assert is_number(event.get("ts")) and event["ts"] >= 0, event
        if phase in "BE":
            assert event["ts"] >= last.get(row, 0), ("goes back", event)
            last[row] = event["ts"]
            if phase == "B":
                open_spans[row].append(event)
            else:
                assert open_spans[row], ("E without B", event)
                begin = open_spans[row].pop()
                slices[row].append((begin["ts"], event["ts"]))
        elif phase == "X":
            assert is_number(event.get("dur")) and event["dur"] >= 0, event
            slices[row].append((event["ts"], event["ts"] + event["dur"]))
        elif phase in "iI":
            assert event.get("s", "t") in ("g", "p", "t"), event
        elif phase == "C":
            assert event.get("args") and all(is_number(value) for value in event["args"].values()), event
        elif phase in "stf":
            assert isinstance(event.get("id"), (str, int)), event
            assert event.get("cat"), event
            assert event.get("bp", "e") == "e", event
            flows[event["cat"], event["name"], event["id"]].append(event)
    for row, opened in open_spans.items():
        assert not opened, ("B without E", row, opened[:1])
    for row, spans in slices.items():
        # Spans of one thread lie within each other or apart. Two roundings of a nanosecond may touch.
        stack = []
        for begin, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while stack and stack[-1] <= begin + 0.0015:
                stack.pop()
            assert not stack or end <= stack[-1] + 0.0015, ("spans cross", row, begin, end, stack[-1])
            stack.append(end)
    return slices, flows


def check_arrows(slices, flows, ended=True):
    """Arrows begin before they go on, and each of their points lies on a span. `ended`: no round was cut off."""
    for key, points in flows.items():
        points = sorted(points, key=lambda point: point["ts"])
        assert points[0]["ph"] == "s", ("an arrow without its beginning", key)
        assert [point["ph"] for point in points].count("s") == 1, key
        for point in points:
            on = [1 for begin, end in slices[point["pid"], point["tid"]]
                  if begin - 0.0015 <= point["ts"] <= end + 0.0015]
            assert on or not ended, ("an arrow that touches nothing", point)
