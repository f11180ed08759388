"""A file below engine/kernels/cpu that registers kernels is named after the file of engine/ops that declares those ops.

`<op file>.cc`, or `<op file>_<what>.cc` where a family needs several; a file that serves several families has the name of
one of them. What registers nothing (plans, loops, shims) has a name of its own.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
OPS = "engine/ops"
KERNELS = "engine/kernels/cpu"
# docs/guide/own-op.md shows it as the example of a vectorised kernel, by the name of its op.
NAMED_AFTER_ITS_OP = {"relu"}


def registered(root, path, macro):
    """The names that `path` gives to `macro`, as the preprocessor leaves them; macros of included headers count."""
    text = path.read_text()
    macros = []
    for include in re.findall(r'#include "(engine/[^"]+)"', text):
        header = root / include
        if header.exists():
            macros += re.findall(r"^#define RIVULET_.*$", header.read_text().replace("\\\n", " "), re.MULTILINE)
    # Left as it is, to be read below.
    macros = [line for line in macros if not re.match(rf"#define {macro}(_IMPL\d?_)?\(", line)]
    text = re.sub(r"^\s*#\s*(include|pragma).*$", "", text, flags=re.MULTILINE)
    result = subprocess.run([os.environ.get("CXX", "c++"), "-E", "-P", "-x", "c++", "-DHWY_ONCE=1", "-"],
                            input="\n".join(macros) + "\n" + text, text=True, capture_output=True, check=True).stdout
    calls = re.findall(rf"\b{macro}\(\s*((?:\"\w*\"\s*)*)", result)
    names = ["".join(re.findall(r'"(\w*)"', call)) for call in calls]
    if "" in names:
        raise ValueError(f"{path}: a name of {macro} is not a literal once preprocessed")
    return sorted(set(names))


def wrong_names(root):
    """A sentence for each kernel file that is not named after a family whose ops it registers; and how many register."""
    family = {op: path.stem for path in sorted((root / OPS).glob("*.cc")) for op in registered(root, path, "RIVULET_OP")}
    found, count = [], 0
    for path in sorted((root / KERNELS).rglob("*.cc")):
        ops = registered(root, path, "RIVULET_KERNEL")
        count += bool(ops)
        families = sorted({family.get(op, "?") for op in ops})
        if ops and path.stem not in NAMED_AFTER_ITS_OP and not any(
                path.stem == name or path.stem.startswith(name + "_") for name in families):
            found.append(f"{path.relative_to(root)} registers {', '.join(ops)}, which {OPS}/{families[0]}.cc declares: "
                         f"name it {families[0]}.cc or {families[0]}_<what>.cc")
    return found, count


class KernelNames(unittest.TestCase):
    def test_every_kernel_file_has_its_familys_name(self):
        found, count = wrong_names(ROOT)
        self.assertEqual(found, [])
        self.assertGreater(count, 50)

    def test_a_planted_wrong_name_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / OPS).mkdir(parents=True)
            (root / KERNELS / "elementwise").mkdir(parents=True)
            (root / OPS / "unary.cc").write_text('#define OP(name) RIVULET_OP(#name).Doc("")\nOP(Neg);\nOP(Abs);\n')
            kernels = '#define KERNELS(name) RIVULET_KERNEL(name, Device::kCpu, float, F)\nKERNELS("Neg");\n'
            for name in ("unary.cc", "elementwise/unary_fast.cc", "unaryfast.cc", "elementwise/signs.cc"):
                (root / KERNELS / name).write_text(kernels)
            (root / KERNELS / "plan.cc").write_text("int plan;\n")
            found, count = wrong_names(root)
            self.assertEqual(count, 4)
            self.assertEqual([sentence.split()[0] for sentence in found],
                             [f"{KERNELS}/elementwise/signs.cc", f"{KERNELS}/unaryfast.cc"])
            self.assertIn("registers Neg, which engine/ops/unary.cc declares: name it unary.cc or", found[0])


if __name__ == "__main__":
    sys.exit(unittest.main())
