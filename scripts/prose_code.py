#!/usr/bin/env python3
"""Measures the prose in code, a row a folder and kind: scripts/prose_code.py [FOLDER …]

  heads     the comment that opens a header or a .proto file: what a reader meets first
  comments  the other comments of headers
  help      summaries of commands and texts of their arguments
  texts     string literals of four words and more: errors, logs, pages, docs of ops, algorithms and scenario keys

Columns: words, sentences, median words a sentence, sentences beyond 30 words, pronouns ("what", "who") in 1,000 words, and
words of the dialect that docs/internals/style.md replaces. --long prints every sentence of a head or help text that breaks a
rule. Without folders, those of the program are measured."""
import argparse
import ast
import pathlib
import re
import statistics
import sys

import prose

FOLDERS = ["proto", "engine", "dataflow", "certificates", "rpc", "http", "federated", "setup", "client", "aggregator",
           "coordinator", "inspect", "pages", "serving", "simulations", "cli"]
# Folders whose texts keep the rules: docs of ops, docs of registered pieces and of keys, errors.
PLAIN_TEXTS = ["engine/base", "engine/data", "engine/io", "engine/ops", "federated/aggregation", "federated/algorithms",
               "federated/codecs", "federated/mechanisms", "federated/numbers", "federated/plan", "federated/scenario",
               "federated/selection", "federated/server_optimizers", "federated/transport", "client", "simulations", "coordinator",
               "engine/models", "dataflow/session"]
SQL = re.compile(r"\b(?:SELECT|INSERT|UPDATE|DELETE|CREATE|WHERE|JOIN)\b")
FORMULA = re.compile(r"[←Σ∇]")
# Words with a plainer one in docs/internals/style.md.
DIALECT = re.compile(r"\b(?:told|tells?|lies?|lay|nobody|somebody|anybody|goes on|go on|by (?:itself|themselves)"
                     r"|of (?:its|their|our) own|comes? to nothing|brings?|brought|means? ill|save for|held against)\b", re.IGNORECASE)
# A noun phrase begins with none of these.
OPENINGS = re.compile(r"(?:what|how|whether|who|whose|which|where|when|why|it|they|if|of|to)\b", re.IGNORECASE)
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
LITERALS = re.compile(r'(?<![\w\'])(?:"(?:[^"\\\n]|\\.)*"\s*)+')
ARGUMENT = re.compile(r"\.(Positional|OptionalPositional|Flag|CountedFlag|Option|Required|Repeated)\(")
SUMMARY = re.compile(r"\.summary\s*=\s*((?:\"(?:[^\"\\\n]|\\.)*\"\s*)+)")
NAMES_BEFORE_HELP = {"Positional": 1, "OptionalPositional": 1, "Flag": 1, "CountedFlag": 1, "Option": 2, "Required": 2,
                     "Repeated": 2}


def head_of(text):
    """The comment that opens a file, without its marks and without examples, which are indented."""
    lines = []
    for line in text.splitlines():
        if line.startswith("//"):
            lines.append(re.sub(r"^// ?", "", line))
        elif lines or not line.startswith("#ifndef"):
            break
    return "\n".join(line for line in lines if not line.startswith("  "))


def comments_of(text):
    """The comments behind the head, each line's and each run of lines' as a paragraph."""
    behind = re.sub(r"\A(?:#ifndef.*\n)?(?://.*\n)*", "", text)
    blocks, last = [], False
    for line in behind.splitlines():
        found = re.match(r"^\s*// ?(?! )(.*)", line) or re.search(r"\s// (.*)", line)
        alone = line.lstrip().startswith("//")
        if found and alone and last:
            blocks[-1] += " " + found[1]
        elif found:
            blocks.append(found[1])
        last = bool(found) and alone
    return "\n\n".join(blocks)


def text_of(literals):
    joined = "".join(LITERAL.findall(literals))
    return re.sub(r"\\n", "\n", joined).replace('\\"', '"')


def without_comments(text):
    return re.sub(r"^\s*(?://|#include).*$|(?<=[\s;{},)])// .*$", "", text, flags=re.MULTILINE)


def call_from(text, start):
    """The text of a call's arguments, from behind its opening parenthesis to the one that closes it."""
    depth, at = 1, start
    while at < len(text) and depth:
        literal = LITERAL.match(text, at)
        if literal:
            at = literal.end()
            continue
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return text[start:at - 1]


def help_of(text):
    """The summaries of a source's commands, and the texts of their arguments."""
    text = without_comments(text)
    summaries = [text_of(found[1]) for found in SUMMARY.finditer(text)]
    arguments = []
    for found in ARGUMENT.finditer(text):
        literals = [text_of(run) for run in LITERALS.findall(call_from(text, found.end()))]
        arguments += [literal for literal in literals[NAMES_BEFORE_HELP[found[1]]:] if " " in literal]
    return summaries, arguments


def literals_of(text):
    """The string literals of four words and more, without SQL and lines of formulas."""
    for run in LITERALS.findall(without_comments(text)):
        found = "\n".join(line for line in text_of(run).split("\n") if not FORMULA.search(line))
        if len(found.split()) > 3 and not SQL.search(found):
            yield found


def texts_of(text):
    return "\n\n".join(literals_of(text))


def docs_of(text):
    """The docs of the ops that a source registers."""
    text = without_comments(text)
    for found in re.finditer(r"\.Doc\(", text):
        yield "".join(map(text_of, LITERALS.findall(call_from(text, found.end()))))


def python_docs_of(text):
    """The docstrings of a Python module, without examples, tables and the heads of parameters."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            doc = re.sub(r"^(=+ +=+)$.*^\1$", "", ast.get_docstring(node) or "", flags=re.MULTILINE | re.DOTALL)
            yield re.sub(r"^( {4}.*[{}─→].*| {6}.*|>>> .*|[\w, ]+ : .*|-{3,}|[A-Z]\w+)$", "", doc, flags=re.MULTILINE)


class Plain(prose.Page):
    """The figures of a head or a help text, whose rules are stricter than a page's: no pronoun, no dialect."""

    def __init__(self, text):
        super().__init__(text)
        self.dialect = sum(len(DIALECT.findall(sentence)) for sentence in self.sentences)

    def faults_within(self):
        found = [f"{len(prose.words(sentence))} words: {sentence}" for sentence in self.long]
        found += [f"a pronoun: {sentence}" for sentence in self.sentences if prose.PRONOUNS.search(sentence)]
        return found + [f"dialect: {sentence}" for sentence in self.sentences if DIALECT.search(sentence)]

    def faults(self):
        """Those within, and an opening that is no noun phrase."""
        found = self.faults_within()
        if self.sentences and OPENINGS.match(self.sentences[0]):
            found.append(f"no noun phrase: {self.sentences[0]}")
        return found


def headers_of(root, folder):
    return sorted(path for ending in ("*.h", "*.proto") for path in (root / folder).rglob(ending))


def sources_of(root, folder):
    return sorted(path for ending in ("*.h", "*.cc") for path in (root / folder).rglob(ending))


def measure(root, folder):
    """(kind, its text) for each kind of a folder."""
    headers = [path.read_text(errors="replace") for path in headers_of(root, folder)]
    sources = [path.read_text(errors="replace") for path in sources_of(root, folder)]
    helps = [text for source in sources for texts in help_of(source) for text in texts]
    yield "heads", "\n\n".join(map(head_of, headers))
    yield "comments", "\n\n".join(map(comments_of, headers))
    if helps:
        yield "help", "\n\n".join(helps)
    yield "texts", "\n\n".join(map(texts_of, sources))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", help="folders to measure")
    parser.add_argument("--tree", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent, help="another checkout")
    parser.add_argument("--long", action="store_true", help="print each sentence that breaks a rule")
    given = parser.parse_args()
    print(f"{'folder':<14}{'kind':<10}{'words':>7}{'sentences':>10}{'median':>7}{'long':>6}{'what/who ‰':>12}{'dialect':>8}")
    for folder in given.folders or FOLDERS:
        for kind, text in measure(given.tree, folder):
            plain = Plain(text)
            rate = 1000 * plain.pronouns / max(plain.words, 1)
            print(f"{folder:<14}{kind:<10}{plain.words:>7}{len(plain.lengths):>10}{statistics.median(plain.lengths or [0]):>7.0f}"
                  f"{len(plain.long):>6}{rate:>12.1f}{plain.dialect:>8}")
        if given.long:
            for path in headers_of(given.tree, folder):
                for fault in Plain(head_of(path.read_text())).faults():
                    print(f"    {path.relative_to(given.tree)}: {fault}")
            for path in sources_of(given.tree, folder):
                for fault in (fault for texts in help_of(path.read_text()) for text in texts for fault in Plain(text).faults()):
                    print(f"    {path.relative_to(given.tree)}: {fault}")


if __name__ == "__main__":
    sys.exit(main())
