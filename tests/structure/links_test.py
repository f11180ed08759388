"""Every link of a Markdown page leads somewhere: to a file of the tree, and to a heading of it. Every page of docs/ that a
source names is there."""
import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(r"(?<![\w./-])docs/[\w./-]+\.md\b")
SOURCES = {".h", ".cc", ".cu", ".py", ".proto", ".cmake", ".txt", ".sh", ".yml", ".toml"}


def files_of(root, suffixes):
    for path in sorted(root.rglob("*")):
        if path.suffix in suffixes and path.name != "links_test.py" and not any(
                part == "build" or part[0] == "." for part in path.relative_to(root).parts[:-1]):
            yield path


def anchors(text):
    """The headings of a page, as forges name them."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ +(.*?) *$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(root):
    """A sentence for each link that leads nowhere."""
    found = []
    for page in files_of(root, {".md"}):
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
        for target in LINK.findall(text):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, heading = target.partition("#")
            to = (page.parent / name).resolve() if name else page
            if not to.exists():
                found.append(f"{page.relative_to(root)} links {target}, which is not there")
            elif heading and to.suffix == ".md" and heading not in anchors(to.read_text()):
                found.append(f"{page.relative_to(root)} links {target}, which has no such heading")
    return found


def dead_names(root):
    """A sentence for each page of docs/ that a source names and that is not there."""
    return [f"{path.relative_to(root)} names {name}, which is not there" for path in files_of(root, SOURCES)
            for name in NAMED.findall(path.read_text(errors="replace")) if not (root / name).exists()]


class Links(unittest.TestCase):
    def test_every_link_leads_somewhere(self):
        self.assertEqual(dead_links(ROOT), [])

    def test_every_page_that_a_source_names_is_there(self):
        self.assertEqual(dead_names(ROOT), [])

    def test_planted_dead_links_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "docs").mkdir()
            (root / "docs/a.md").write_text("# One thing\n[b](b.md) [c](c.md) [d](#one-thing) [e](#two) [f](https://x.y/z)\n")
            (root / "docs/c.md").write_text("`[b](b.md)`\n")
            (root / "a.cc").write_text("// docs/a.md, docs/b.md\n")
            self.assertEqual(dead_links(root), ["docs/a.md links b.md, which is not there",
                                                "docs/a.md links #two, which has no such heading"])
            self.assertEqual(dead_names(root), ["a.cc names docs/b.md, which is not there"])


if __name__ == "__main__":
    sys.exit(unittest.main())
