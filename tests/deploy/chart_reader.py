"""A reader of Helm charts for machines without Helm: the part of Go's template language that `deploy/helm` uses.

Text, `{{ pipeline }}` with trimming, comments, `if`, `else`, `with`, `range` over lists, `define`, `include`, variables, strings and
numbers, and the functions of FUNCTIONS. Anything else is refused by a ChartError, and so is a value that is not there, where Helm
would render nothing. helm_test.py compares it with Helm where Helm is installed.
"""
import pathlib
import re

import yaml

ACTION = re.compile(r"\{\{(-(?=\s))?\s*(/\*.*?\*/|.*?)\s*((?<=\s)-)?\}\}", re.S)
WORD = re.compile(r'\s*("(?:[^"\\]|\\.)*"|-?\d+\b|\||\(|\)|:=|\$?[\w]*(?:\.\w+)+|\$\w*|\.|\w+)')


class ChartError(Exception):
    pass


def to_yaml(value):
    text = yaml.safe_dump(value, default_flow_style=False)
    return text.removesuffix("\n...\n").rstrip("\n")


def indent(width, text):
    return "\n".join(" " * width + line for line in text.split("\n"))


def both(*values):
    for value in values:
        if not value:
            return value
    return values[-1]


FUNCTIONS = {
    "and": both,
    "default": lambda fallback, value: value or fallback,
    "dict": lambda *pairs: dict(zip(pairs[::2], pairs[1::2])),
    "indent": indent,
    "ne": lambda one, other: one != other,
    "nindent": lambda width, text: "\n" + indent(width, text),
    "not": lambda value: not value,
    "printf": lambda form, *values: form % values,
    "quote": lambda value: '"%s"' % str(value).replace("\\", "\\\\").replace('"', '\\"'),
    "toYaml": to_yaml,
    "trim": lambda text: text.strip(),
}


def tokens(text):
    """Pairs of a kind, "text" or "action", and its content; white space is trimmed as the actions ask."""
    found, at, trim = [], 0, False
    for match in ACTION.finditer(text):
        between = text[at:match.start()]
        between = between.lstrip() if trim else between
        found.append(("text", between.rstrip() if match.group(1) else between))
        if not match.group(2).startswith("/*"):
            found.append(("action", match.group(2)))
        at, trim = match.end(), match.group(3) is not None
    found.append(("text", text[at:].lstrip() if trim else text[at:]))
    return found


def words(pipeline):
    found, at = [], 0
    while at < len(pipeline):
        match = WORD.match(pipeline, at)
        if not match:
            raise ChartError(f"'{pipeline[at:]}' is not understood")
        found.append(match.group(1))
        at = match.end()
    return found


def parse(stream, ends=()):
    """Nodes up to an action of `ends`, and that action."""
    nodes = []
    for kind, content in stream:
        first, _, rest = content.partition(" ")
        if kind == "text":
            nodes.append(("text", content))
        elif first in ends:
            return nodes, content
        elif first in ("if", "with", "range"):
            nodes.append((first, rest, *branches(stream)))
        elif first == "define":
            nodes.append(("define", rest.strip('"'), parse(stream, ("end",))[0]))
        elif first in ("else", "end", "template", "block", "break", "continue"):
            raise ChartError(f"'{content}' is not understood here")
        else:
            nodes.append(("print", content))
    if ends:
        raise ChartError(f"'{ends[-1]}' is missing")
    return nodes, None


def branches(stream):
    body, end = parse(stream, ("else", "end"))
    if end == "else":
        return body, parse(stream, ("end",))[0]
    if end != "end":
        raise ChartError(f"'{end}' is not understood")
    return body, []


class Scope:
    """`dot`, `$` and variables of one template's execution."""

    def __init__(self, templates, dot):
        self.templates, self.dot, self.variables = templates, dot, {"$": dot}

    def inner(self, dot):
        scope = Scope(self.templates, dot)
        scope.variables = dict(self.variables)
        return scope

    def value(self, word):
        if word.startswith('"'):
            return re.sub(r"\\(.)", r"\1", word[1:-1])
        if re.fullmatch(r"-?\d+", word):
            return int(word)
        name, *fields = word.split(".")
        if word == ".":
            return self.dot
        if name and not name.startswith("$"):
            raise ChartError(f"'{word}' is no value")
        if name and name not in self.variables:
            raise ChartError(f"there is no variable {name}")
        value = self.variables[name] if name else self.dot
        for field in fields:
            if not isinstance(value, dict) or field not in value:
                raise ChartError(f"{word} has no '{field}'")
            value = value[field]
        return value

    def call(self, name, arguments):
        if name == "include":
            template, dot = arguments
            if template not in self.templates:
                raise ChartError(f"there is no template '{template}'")
            return Scope(self.templates, dot).render(self.templates[template])
        if name not in FUNCTIONS:
            raise ChartError(f"there is no function '{name}' here")
        return FUNCTIONS[name](*arguments)

    def pipeline(self, rest):
        """The value of the words up to a closing bracket, which are consumed."""
        value, piped = None, False
        while True:
            function, arguments = None, []
            while rest and rest[0] not in ("|", ")"):
                word = rest.pop(0)
                if word == "(":
                    arguments.append(self.pipeline(rest))
                    if not rest or rest.pop(0) != ")":
                        raise ChartError("')' is missing")
                elif re.fullmatch(r"[A-Za-z]\w*", word):
                    if function or arguments:
                        raise ChartError(f"'{word}' stands after a value")
                    function = word
                else:
                    arguments.append(self.value(word))
            if piped:
                arguments.append(value)
            if not function and len(arguments) != 1:
                raise ChartError("a pipeline is one function or one value")
            value = self.call(function, arguments) if function else arguments[0]
            if not rest or rest[0] == ")":
                return value
            rest.pop(0)
            piped = True

    def evaluate(self, text):
        rest = words(text)
        value = self.pipeline(rest)
        if rest:
            raise ChartError(f"'{' '.join(rest)}' is left of '{text}'")
        return value

    def render(self, nodes):
        printed = ""
        for kind, content, *bodies in nodes:
            if kind == "text":
                printed += content
            elif kind == "print":
                variable = re.match(r"(\$\w+)\s*:=\s*", content)
                if variable:
                    self.variables[variable.group(1)] = self.evaluate(content[variable.end():])
                else:
                    printed += str(self.evaluate(content))
            elif kind == "if":
                printed += self.inner(self.dot).render(bodies[0] if self.evaluate(content) else bodies[1])
            elif kind == "with":
                value = self.evaluate(content)
                printed += self.inner(value).render(bodies[0]) if value else self.inner(self.dot).render(bodies[1])
            elif kind == "range":
                values = self.evaluate(content)
                if not isinstance(values, list):
                    raise ChartError(f"'range {content}' is of no list")
                printed += "".join(self.inner(value).render(bodies[0]) for value in values)
                printed += "" if values else self.inner(self.dot).render(bodies[1])
        return printed


def merged(defaults, values):
    """Maps are merged, everything else is replaced, as Helm does."""
    if not isinstance(defaults, dict) or not isinstance(values, dict):
        return values
    return {**defaults, **{key: merged(defaults[key], value) if key in defaults else value for key, value in values.items()}}


def render(chart, values, name="rivulet", namespace="default"):
    """What each template prints, by its path in the chart."""
    chart = pathlib.Path(chart)
    told = yaml.safe_load((chart / "Chart.yaml").read_text())
    root = {"Values": merged(yaml.safe_load((chart / "values.yaml").read_text()), values),
            "Chart": {key[:1].upper() + key[1:]: value for key, value in told.items()},
            "Release": {"Name": name, "Namespace": namespace, "Service": "Helm"}}
    files = {path.relative_to(chart).as_posix(): parse(iter(tokens(path.read_text())))[0] for path in sorted((chart / "templates").iterdir())}
    templates = {node[1]: node[2] for nodes in files.values() for node in nodes if node[0] == "define"}
    return {path: Scope(templates, root).render(nodes) for path, nodes in files.items() if not pathlib.Path(path).name.startswith("_")}
