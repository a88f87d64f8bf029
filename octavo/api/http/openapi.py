"""The OpenAPI document: request schemas from pydantic, answers from msgspec."""

from __future__ import annotations

from typing import Any  # documents are free-form JSON

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from octavo.api.http.errors import ErrorBody
from octavo.api.http.schema.answers import (
    ChatCompletion,
    Completion,
    Detokenized,
    Done,
    Health,
    ModelCard,
    ModelList,
    Tokenized,
    Version,
)
from octavo.api.http.schema.openai import (
    ChatCompletionRequest,
    CompletionRequest,
    DetokenizeRequest,
    TokenizeRequest,
)

_REFERENCE = "#/components/schemas/{}"
_BODIES: dict[str, type[BaseModel]] = {
    "/v1/chat/completions": ChatCompletionRequest,
    "/v1/completions": CompletionRequest,
    "/tokenize": TokenizeRequest,
    "/detokenize": DetokenizeRequest,
}
_ANSWERS: dict[str, type[msgspec.Struct]] = {
    "/v1/chat/completions": ChatCompletion,
    "/v1/completions": Completion,
    "/v1/models": ModelList,
    "/v1/models/{name}": ModelCard,
    "/tokenize": Tokenized,
    "/detokenize": Detokenized,
    "/reset_prefix_cache": Done,
    "/health": Health,
    "/ready": Health,
    "/version": Version,
}


_LIMITED_BY_SERVER = ("top_logprobs", "logprobs", "prompt_logprobs")


class Application(FastAPI):
    """FastAPI with the document below; its own knows neither our bodies nor our answers."""

    def openapi(self) -> dict[str, Any]:
        """The document, made at its first use."""
        if self.openapi_schema is None:
            document = _document(self)
            if (service := getattr(self.state, "service", None)) is not None:
                _limit(document, service.config.frontend.max_logprobs)
            self.openapi_schema = document
        return self.openapi_schema


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    _, defined = models_json_schema(
        [(schema, "validation") for schema in _BODIES.values()],
        ref_template=_REFERENCE.format("{model}"),
    )
    _, answers = msgspec.json.schema_components(
        [*_ANSWERS.values(), ErrorBody], ref_template=_REFERENCE.format("{name}")
    )
    document["components"] = {
        "schemas": {**defined["$defs"], **answers},
        "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
    }
    document["security"] = [{}, {"key": []}]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            _complete(operation, _BODIES.get(path), _ANSWERS.get(path))
    return document


def _limit(document: dict[str, Any], max_logprobs: int) -> None:
    """Put in the bounds that the operator has set."""
    schemas = document["components"]["schemas"]
    for request in (ChatCompletionRequest, CompletionRequest):
        for name in _LIMITED_BY_SERVER:
            described = schemas[request.__name__]["properties"].get(name, {})
            for kind in described.get("anyOf", ()):
                if kind.get("type") == "integer":
                    kind["maximum"] = max_logprobs


def _complete(
    operation: dict[str, Any],
    request: type[BaseModel] | None,
    answer: type[msgspec.Struct] | None,
) -> None:
    if request is not None:
        operation["requestBody"] = {"required": True, "content": _json(request)}
    failure = {"description": "An error in OpenAI's shape", "content": _json(ErrorBody)}
    success = {"description": "Success"} | ({"content": _json(answer)} if answer else {})
    operation["responses"] = {"200": success, "default": failure}


def _json(schema: type) -> dict[str, object]:
    reference = {"$ref": _REFERENCE.format(schema.__name__)}
    return {"application/json": {"schema": reference}}
