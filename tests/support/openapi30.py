"""The OpenAPI document in the words of 3.0, for generators that do not read 3.1."""

from typing import Any

_NEWER = ("contentSchema", "contentMediaType", "prefixItems")


def downgraded(document: dict[str, Any]) -> dict[str, Any]:
    """The same document as OpenAPI 3.0.3: null by ``nullable``, bounds by booleans."""
    return {**_downgraded(document), "openapi": "3.0.3"}


def _downgraded(node: Any) -> Any:
    if isinstance(node, list):
        return [_downgraded(each) for each in node]
    if not isinstance(node, dict):
        return node
    schema = {key: _downgraded(each) for key, each in node.items() if key not in _NEWER}
    if "const" in schema:
        schema["enum"] = [schema.pop("const")]
    for bound in ("Minimum", "Maximum"):
        limit = schema.get(f"exclusive{bound}")
        if isinstance(limit, int | float) and not isinstance(limit, bool):
            schema[bound.lower()] = limit
            schema[f"exclusive{bound}"] = True
    return _nullable(schema)


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if schema.get("type") == "null":
        return {"nullable": True}
    for key in ("anyOf", "oneOf"):
        choices = schema.get(key)
        if not isinstance(choices, list) or {"nullable": True} not in choices:
            continue
        left = [each for each in choices if each != {"nullable": True}]
        del schema[key]
        schema["nullable"] = True
        if len(left) > 1:
            schema[key] = left
        elif left:
            schema |= {"allOf": left} if "$ref" in left[0] else left[0]
    return schema
