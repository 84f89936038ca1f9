"""Checkers of the house rules: pure functions from source text to findings, one line each."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

QUESTION_WORDS = frozenset(
    ["what", "which", "whether", "how", "who", "whose", "whom", "where", "when", "why"]
)
VAGUE_NAMES = frozenset(["each", "found", "held", "told", "said", "wanted", "given"])
RETIRED_WORDS = frozenset(
    ["docket", "drawing", "hush", "interview", "lane", "ledger", "lessons", "patience"]
).union(["purse", "shelf", "shelves", "tally", "trail", "upkeep"])
"""Words of our own that a term of the field has replaced."""

SHARED_CLASS_NAMES = frozenset({"Options"})
"""Class names that may stand in several modules: part of the shape of every plug-in."""

FUNCTION_LINES = 50
MODULE_LINES = 400
CONSTRUCTOR_ARGUMENTS = 6

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def docstring_openings(source: str) -> Iterator[str]:
    """Docstrings, also those of constants, that open with a question word."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, _DOCUMENTED):
            continue
        for statement in node.body:
            text = _text_of(statement)
            if text.split() and text.split()[0].strip(".,:;").lower() in QUESTION_WORDS:
                yield f"line {statement.lineno}: {text.splitlines()[0]}"


def vague_names(source: str) -> Iterator[str]:
    """Variables, parameters, attributes and functions named neither by type nor by role.

    A comprehension or lambda on one line may use them: there the type stands beside the name.
    """
    tree = ast.parse(source)
    excused = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, _COMPREHENSIONS) and node.lineno == node.end_lineno
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        name = _bound_name(node)
        if name.strip("_") in VAGUE_NAMES and id(node) not in excused:
            yield f"line {node.lineno}: {name}"


def retired_words(source: str) -> Iterator[str]:
    """Names with a retired word in them; snake and camel case are taken apart."""
    for node in ast.walk(ast.parse(source)):
        name = node.name if isinstance(node, ast.ClassDef) else _bound_name(node)
        if RETIRED_WORDS.intersection(word.lower() for word in _WORD.findall(name)):
            yield f"line {node.lineno}: {name}"


def repeated_classes(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Class names that stand in more than one module, with these modules."""
    modules: dict[str, list[str]] = defaultdict(list)
    for module, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef) and node.name not in SHARED_CLASS_NAMES:
                modules[node.name].append(module)
    return {name: places for name, places in modules.items() if len(places) > 1}


def too_large(source: str) -> Iterator[str]:
    """Functions, constructors and modules beyond the limits of this file."""
    lines = source.count("\n")
    if lines > MODULE_LINES:
        yield f"module of {lines} lines"
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, _FUNCTIONS):
            continue
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if length > FUNCTION_LINES:
            yield f"line {node.lineno}: {node.name} has {length} lines"
        arguments = len(node.args.args) + len(node.args.kwonlyargs) - 1
        if node.name == "__init__" and arguments > CONSTRUCTOR_ARGUMENTS:
            yield f"line {node.lineno}: a constructor of {arguments} arguments"


def private_uses(source: str) -> Iterator[str]:
    """Private attributes and names of other modules: ``x._y`` where x is not self or cls."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if _is_private(alias.name):
                    yield f"line {node.lineno}: from {node.module} import {alias.name}"
        elif isinstance(node, ast.Attribute) and _is_private(node.attr):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if owner not in {"self", "cls"}:
                yield f"line {node.lineno}: .{node.attr}"


def _text_of(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return statement.value.value if isinstance(statement.value.value, str) else ""
    return ""


def _bound_name(node: ast.AST) -> str:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return node.attr
    if isinstance(node, _FUNCTIONS):
        return node.name
    return node.arg if isinstance(node, ast.arg) else ""


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")
