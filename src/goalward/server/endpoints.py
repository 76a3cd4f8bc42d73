"""The interface's description, made readable: a line for each thing a call takes."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["endpoints"]


def endpoints(openapi: dict[str, Any]) -> list[dict[str, Any]]:
    """Return method, path, words and parameters of every call of an OpenAPI description."""
    schemas = openapi.get("components", {}).get("schemas", {})
    return [
        {
            "method": method.upper(),
            "path": path,
            "words": call.get("description", ""),
            "takes": [_query(one) for one in call.get("parameters", [])] + _body(call, schemas),
        }
        for path, calls in openapi["paths"].items()
        for method, call in calls.items()
    ]


def _query(parameter: dict[str, Any]) -> dict[str, Any]:
    schema = parameter["schema"]
    return {
        "name": parameter["name"],
        "where": parameter["in"],
        "kind": _kind(schema),
        "needed": parameter.get("required", False),
        "words": parameter.get("description", schema.get("description", "")),
    }


def _body(call: dict[str, Any], schemas: dict[str, Any]) -> list[dict[str, Any]]:
    if "requestBody" not in call:
        return []
    (content,) = call["requestBody"]["content"].values()
    schema = schemas[content["schema"]["$ref"].rpartition("/")[2]]
    return [
        {
            "name": name,
            "where": "body",
            "kind": _kind(one),
            "needed": name in schema.get("required", []),
            "words": one.get("description", ""),
        }
        for name, one in schema["properties"].items()
    ]


def _kind(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(one) for one in schema["anyOf"]))
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2]).lower()
    kind = str(schema.get("type", "anything"))
    if "default" in schema:
        kind += f", {json.dumps(schema['default'])} by default"
    return kind
