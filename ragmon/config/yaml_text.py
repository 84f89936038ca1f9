"""YAML of the settings: whatever a file holds, an error names the line and the key."""

from collections.abc import Iterator
from typing import Any

import yaml

_MOST_NODES = 100_000  # with those that aliases repeat
_MOST_DEPTH = 50  # of one inside another
_EXAMPLES = {"int": "a number such as 8321", "float": "a number such as 0.5"}


def parse(text: str) -> Any:
    """The content of a document.

    Raises:
        yaml.YAMLError: it is not YAML, holds a value that is none of its type or a key twice, or
            is too deep or too large; ``where`` words it.
    """
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None
        _check_size(root)
        return _constructed(loader, root)
    except RecursionError:
        raise yaml.YAMLError("it is nested too deeply") from None
    finally:
        loader.dispose()


def where(error: yaml.YAMLError) -> str:
    """An error with its line and column."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or " ".join(str(error).split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark else problem


class _Loader(yaml.SafeLoader):
    """Loader that refuses duplicate keys, as YAML demands and the library does not."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        if not isinstance(node, yaml.MappingNode):  # a text with the tag `!!map`
            raise _refused(node, "this is not a mapping")
        names = [name.value for name, _ in node.value if isinstance(name, yaml.ScalarNode)]
        if len(set(names)) < len(names):
            twice = next(name for name, _ in node.value if names.count(name.value) > 1)
            raise _refused(twice, f"`{twice.value}` is given twice")
        return super().construct_mapping(node, deep)

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        """One value; what the library raises for a bad one depends on its type."""
        try:
            return super().construct_object(node, deep)
        except yaml.YAMLError:
            raise
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError):
            kind = node.tag.rpartition(":")[2]
            text = f"`{node.value[:100]}`" if isinstance(node, yaml.ScalarNode) else "this"
            problem = f"{text} is not {_EXAMPLES.get(kind, f'a valid {kind}')}"
            raise _refused(node, problem) from None


def _refused(node: Any, problem: str) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


def _constructed(loader: _Loader, root: yaml.Node) -> Any:
    """The content of the tree; an error also names the key."""
    try:
        return loader.construct_document(root)
    except yaml.constructor.ConstructorError as error:
        mark = error.problem_mark
        key = mark and _key_at(root, (mark.line, mark.column))
        if key and f"`{key}`" not in str(error.problem):
            error.problem = f"{key}: {error.problem}"
        raise


def _key_at(root: yaml.Node, place: tuple[int, int]) -> str:
    """Dotted key of the innermost value that begins at or before a place and holds it."""
    best = ""
    for key, node in _values(root):
        start, end = node.start_mark, node.end_mark
        if (start.line, start.column) <= place <= (end.line, end.column):
            best = key
    return best


def _values(root: yaml.Node) -> Iterator[tuple[str, yaml.Node]]:
    """Every value with its dotted key, the outer one first."""
    pending: list[tuple[str, yaml.Node]] = [("", root)]
    while pending:
        prefix, node = pending.pop(0)
        if prefix:
            yield prefix, node
        dot = prefix + "." if prefix else ""
        if isinstance(node, yaml.MappingNode):
            named = [(name, value) for name, value in node.value if isinstance(name.value, str)]
            pending += [(f"{dot}{name.value}", value) for name, value in named]
        elif isinstance(node, yaml.SequenceNode):
            pending += [(f"{dot}{at}", item) for at, item in enumerate(node.value)]


def _check_size(root: yaml.Node) -> None:
    """Refuse what aliases make endless, or larger than any settings are."""
    count = 0
    pending = [(root, 1)]
    while pending:
        node, depth = pending.pop()
        count += 1
        if depth > _MOST_DEPTH:
            raise _refused(node, f"more than {_MOST_DEPTH} levels, or an alias inside itself")
        if count > _MOST_NODES:
            raise _refused(node, f"more than {_MOST_NODES} values, with those of aliases")
        if isinstance(node, yaml.MappingNode):
            pending += [(part, depth + 1) for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            pending += [(item, depth + 1) for item in node.value]
