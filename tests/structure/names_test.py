"""No two files of a program define a class of one name in one named namespace. A linker keeps one of the two silently, and
the other's members then run over memory that is laid out otherwise; what is a file's own stands in a namespace without a
name."""
import collections
import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
LIBRARIES = ("engine", "dataflow", "certificates", "rpc", "federated", "setup", "client", "coordinator", "aggregator", "inspect", "http", "pages", "simulations", "cli")
# A program has one of these or the other.
ALTERNATIVES = ({"http/http_server.cc", "http/no_http_server.cc"}, {"cli/data/download.cc", "cli/data/no_download.cc"})

NOISE = re.compile(r"""
    //[^\n]* | /\*.*?\*/                                    # comments
  | R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)" | "(?:[^"\\\n]|\\.)*"   # strings
  | (?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)+'                     # characters, and not the marks between digits
  | ^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*                          # the preprocessor's
""", re.VERBOSE | re.DOTALL | re.MULTILINE)
NAMESPACE = re.compile(r"\bnamespace\s*((?:[\w:]|\s*::\s*)*)\s*$")
CLASS = re.compile(r"\b(?:class|struct|union|enum)\s+(?:(?:class|struct|alignas\([^)]*\)|\[\[[^]]*\]\]|[A-Z_]+\([^)]*\))\s+)*"
                   r"(\w+(?:::\w+)*(?:\s*<[^{;]*?>)?)\s*(?:final\s*)?(?::[^:].*)?$", re.DOTALL)


def definitions(text):
    """The classes that a file defines in namespaces that all have names, with these before them."""
    text = NOISE.sub(" ", text)
    found, scopes, begin = [], [], 0
    for at in re.finditer(r"[{};]", text):
        head, begin = text[begin:at.start()], at.end()
        if at.group() == "}":
            if scopes:
                scopes.pop()
        elif at.group() == "{":
            namespace, defined = NAMESPACE.search(head), CLASS.search(head)
            if namespace:
                scopes.append("".join(namespace.group(1).split()))
            else:
                # Elsewhere than in namespaces a name is somebody's own.
                if defined and all(scopes):
                    found.append("::".join([*scopes, re.sub(r"\s+", "", defined.group(1))]))
                scopes.append("")
    return found


def programs_of(name):
    """Which program's the file is: a library's is every program's, a test's that of its folder."""
    top, *rest = name.split("/")
    if top != "tests":
        return "" if top in LIBRARIES else None
    if rest[0] in ("testing", "emulated_gpu") or name.endswith(".h"):
        return ""
    # Each of these has a main of its own.
    return name if rest[0] in ("bench", "e2e", "fuzz") else "/".join(rest[:-1])


def doubles(root):
    """A sentence for each name that two files of a program define."""
    owners = collections.defaultdict(set)
    for path in sorted((*root.rglob("*.h"), *root.rglob("*.cc"), *root.rglob("*.cu"))):
        name = path.relative_to(root).as_posix()
        if name.startswith(("build", "examples/", "proto/")) or programs_of(name) is None:
            continue
        for defined in definitions(path.read_text()):
            owners[defined].add(name)
    found = []
    for defined, files in sorted(owners.items()):
        for one in sorted(files):
            for other in sorted(files):
                programs = {programs_of(one), programs_of(other)}
                if one < other and (len(programs) == 1 or "" in programs) and {one, other} not in ALTERNATIVES:
                    found.append(f"{defined} is defined by {one} and by {other}: move one into a namespace without a name, or "
                                 "call it otherwise")
    return found


class Names(unittest.TestCase):
    def test_no_name_is_defined_twice(self):
        self.assertEqual(doubles(ROOT), [])
        self.assertGreater(len(definitions((ROOT / "coordinator/rounds/protocol.h").read_text())), 20)

    def test_definitions_are_those_of_named_namespaces(self):
        text = """
        #include <x>  // struct Include {
        #define MACRO(name) \\
          struct name {
        namespace rivulet {
        struct Declared;
        class Plain final : public Base<int> { struct Inner { int a; }; void F() { struct Local {}; } };
        namespace deeper::still { template <typename T> struct Box { T t; }; template <> struct Box<int> {}; }
        namespace { struct Own {}; const char* text = "struct Text {"; const int n = 1'000; }
        enum class Kind : uint8_t { kOne }; struct Thing Make() { return {}; } struct Thing* pointer = nullptr;
        class GUARDED("mutex") Locked { }; const char* raw = R"(struct Raw {)";
        }
        struct Global {};
        """
        self.assertEqual(definitions(text), ["rivulet::Plain", "rivulet::deeper::still::Box", "rivulet::deeper::still::Box<int>",
                                             "rivulet::Kind", "rivulet::Locked", "Global"])

    def test_a_planted_double_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {"engine/a.h": "namespace rivulet {\nstruct Pair { int a; };\n}\n",
                               "client/b.cc": "namespace rivulet {\nstruct Pair { double a, b; };\n}\n",
                               "client/c.cc": "namespace rivulet {\nnamespace {\nstruct Pair { char a; };\n}\n}\n",
                               "tests/client/x_test.cc": "namespace rivulet {\nclass Fake {};\n}\n",
                               "tests/client/y_test.cc": "namespace rivulet {\nclass Fake {};\n}\n",
                               "tests/engine/z_test.cc": "namespace rivulet {\nclass Fake {};\n}\n"}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            self.assertEqual([sentence.split(":")[0] for sentence in doubles(root)], ["rivulet"] * 2)
            self.assertIn("rivulet::Fake is defined by tests/client/x_test.cc and by tests/client/y_test.cc", doubles(root)[0])
            self.assertIn("rivulet::Pair is defined by client/b.cc and by engine/a.h: move one", doubles(root)[1])


if __name__ == "__main__":
    sys.exit(unittest.main())
