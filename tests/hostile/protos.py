"""The services that proto/rpc declares, which processes of a run answer: every call with its kind. Those of `rivulet serve` are
proto/serving's, and tests/e2e/serve_test.py has its hostile calls."""
import collections
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
# `path`: "/rivulet.rpc.Control/Runs"; `sends` and `gets`: whether the requests or the replies are a stream.
Call = collections.namedtuple("Call", "path sends gets")
_SERVICE = re.compile(r"^service (\w+) \{(.*?)^\}", re.M | re.S)
_CALL = re.compile(r"\brpc (\w+)\s*\(\s*(stream )?\s*[\w.]+\s*\)\s*returns\s*\(\s*(stream )?\s*[\w.]+\s*\)")


def calls():
    """{"Control.Runs": Call} of every file but a model server's."""
    found = {}
    for file in sorted((ROOT / "proto" / "rpc").rglob("*.proto")):
        text = re.sub(r"//.*", "", file.read_text())
        package = re.search(r"^package ([\w.]+);", text, re.M)
        for service in _SERVICE.finditer(text):
            declared = list(_CALL.finditer(service[2]))
            assert len(declared) == len(re.findall(r"\brpc\b", service[2])), f"{file}: a call that is not understood"
            for call in declared:
                found[f"{service[1]}.{call[1]}"] = Call(f"/{package[1]}.{service[1]}/{call[1]}", bool(call[2]), bool(call[3]))
    return found
