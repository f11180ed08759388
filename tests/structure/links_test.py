"""Every link of a Markdown page leads somewhere: to a file of the tree, and to a heading of it. Every page of docs/ that a
source names is there, and so is every source that a page names."""
import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(r"(?<![\w./-])docs/[\w./-]+\.md\b")
SOURCE = re.compile(r"`((?:[a-z0-9_.-]+/)*[a-z0-9_]{2,}(?:-inl)?\.(?:h|cc|cu|py|proto|cmake))`")
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


def dead_sources(root):
    """A sentence for each source that a page names and that is not there: by its path, or by the end of it. Names with capital
    letters stand for many, and guides name files of their reader."""
    there = set()
    for path in files_of(root, SOURCES):
        parts = path.relative_to(root).parts
        there.update("/".join(parts[first:]) for first in range(len(parts)))
    found = []
    for page in files_of(root, {".md"}):
        name = page.relative_to(root).as_posix()
        if not name.startswith("docs/guide/"):
            text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
            found += [f"{name} names {source}, which is not there" for source in SOURCE.findall(text) if source not in there]
    return found


class Links(unittest.TestCase):
    def test_every_link_leads_somewhere(self):
        self.assertEqual(dead_links(ROOT), [])

    def test_every_page_that_a_source_names_is_there(self):
        self.assertEqual(dead_names(ROOT), [])

    def test_every_source_that_a_page_names_is_there(self):
        self.assertEqual(dead_sources(ROOT), [])

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
            (root / "one.cc").write_text("")
            (root / "README.md").write_text("`one.cc` `b/one.cc` `NAME.cc`\n```\n`two.cc`\n```\n")
            self.assertEqual(dead_sources(root), ["README.md names b/one.cc, which is not there"])


if __name__ == "__main__":
    sys.exit(unittest.main())
