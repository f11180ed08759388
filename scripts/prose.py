#!/usr/bin/env python3
"""Counts words per sentence in Markdown pages: scripts/prose.py README.md docs

Prints a row a page: words, sentences, median and longest sentence, sentences beyond 30 words, and how often "what" and
"who" stand as pronouns. --long prints the sentences themselves. Code, tables, headings, pictures and comments are left
out; a list item starts a sentence, and code within a line counts as one word."""
import argparse
import pathlib
import re
import statistics
import sys

LIMIT = 30  # words in a sentence
PRONOUNS = re.compile(r"\b(?:what|who|whom|whoever|whatever)\b", re.IGNORECASE)
PRONOUNS_PER_WORDS = 1000
FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2[`~]*[ \t]*$", re.MULTILINE | re.DOTALL)
# A full stop inside one of these ends no sentence.
ABBREVIATIONS = re.compile(r"\b(?:e\.g|i\.e|etc|cf|vs|al|Eq|Fig|No)\.(?=\s)")
END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[A-Z0-9_`*])")
ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+")


def paragraphs(text):
    """The page's prose: a string for each paragraph and list item."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = FENCE.sub("\n", text)
    block = []
    for line in [*text.splitlines(), ""]:
        bare = line.strip()
        apart = not bare or bare.startswith(("#", "|", "![")) or re.fullmatch(r"[-=*_]{3,}", bare)
        if (apart or ITEM.match(line)) and block:
            yield " ".join(block)
            block = []
        if not apart:
            block.append(ITEM.sub("", line).strip())


def plain(paragraph):
    """The words that a reader sees: links as their text, code as one word."""
    paragraph = re.sub(r"``.+?``|`[^`]+`", "Code", paragraph)
    paragraph = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)
    paragraph = re.sub(r"<[^>]+>", "", paragraph)
    return ABBREVIATIONS.sub(lambda match: match.group()[:-1], paragraph)


def sentences(text):
    for paragraph in paragraphs(text):
        for sentence in END.split(plain(paragraph)):
            if words(sentence):
                yield sentence.strip()


def words(sentence):
    """A word has a letter or a digit."""
    return [word for word in sentence.split() if re.search(r"\w", word)]


class Page:
    """One page's figures."""

    def __init__(self, text):
        self.sentences = list(sentences(text))
        self.lengths = [len(words(sentence)) for sentence in self.sentences]
        self.words = sum(self.lengths)
        self.pronouns = sum(len(PRONOUNS.findall(sentence)) for sentence in self.sentences)
        self.long = [sentence for sentence, length in zip(self.sentences, self.lengths) if length > LIMIT]

    def faults(self):
        """A sentence for each rule that the page does not keep."""
        found = [f"{len(words(sentence))} words: {sentence}" for sentence in self.long]
        allowed = -(-self.words // PRONOUNS_PER_WORDS)
        if self.pronouns > allowed:
            found.append(f'"what" and "who" {self.pronouns} times in {self.words} words, at most {allowed}: '
                         + " / ".join(s for s in self.sentences if PRONOUNS.search(s))[:2000])
        return found


def pages_of(root):
    """The pages that the rules hold for: README.md, the pages beside it and all of docs/."""
    return sorted([*root.glob("*.md"), *root.glob("docs/**/*.md")])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=pathlib.Path, help="Markdown files, or folders of them")
    parser.add_argument("--long", action="store_true", help="print each sentence that breaks a rule")
    options = parser.parse_args()
    pages = [page for path in options.pages for page in (sorted(path.rglob("*.md")) if path.is_dir() else [path])]
    print(f"{'words':>6} {'sentences':>9} {'median':>6} {'longest':>7} {'long':>5} {'what/who':>8}  page")
    faults = 0
    for path in pages:
        page = Page(path.read_text())
        print(f"{page.words:6} {len(page.lengths):9} {statistics.median(page.lengths or [0]):6.0f} {max(page.lengths or [0]):7} "
              f"{len(page.long):5} {page.pronouns:8}  {path}")
        faults += len(page.faults())
        for fault in page.faults() if options.long else ():
            print(f"    {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
