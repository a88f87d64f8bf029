"""State, models, tokens and control of the server."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Depends, Response
from fastapi.responses import HTMLResponse

from octavo import __version__
from octavo.api.http.body import body
from octavo.api.http.errors import json_reply
from octavo.api.http.pages import page
from octavo.api.http.schema.answers import (
    Detokenized,
    Done,
    Health,
    ModelCard,
    ModelList,
    Tokenized,
    Version,
)
from octavo.api.http.schema.messages import conversation
from octavo.api.http.schema.openai import DetokenizeRequest, TokenizeRequest
from octavo.api.http.service import ReadyDep, Service, ServiceDep, same_origin, served_name

router = APIRouter()
TokenizeBody = Annotated[TokenizeRequest, Depends(body(TokenizeRequest))]
DetokenizeBody = Annotated[DetokenizeRequest, Depends(body(DetokenizeRequest))]

_STARTED = int(time.time())


@router.get("/health")
async def health(service: ServiceDep) -> Response:
    """200 while the server and its engine live, also while the model loads."""
    if service.is_alive:
        return json_reply(Health("ok"))
    return json_reply(Health("dead", service.dead_reason), status=503)


@router.get("/ready")
async def readiness(service: ServiceDep) -> Response:
    """200 once requests are served."""
    if not service.is_alive:
        return json_reply(Health("dead", service.dead_reason), status=503)
    if not service.is_ready:
        return json_reply(Health("loading"), status=503, headers={"Retry-After": "2"})
    return json_reply(Health("ready"))


@router.get("/version")
async def version() -> Response:
    """Version of octavo."""
    return json_reply(Version(__version__))


@router.get("/metrics")
async def metrics(service: ServiceDep) -> Response:
    """Counters and histograms as Prometheus text."""
    return Response(
        service.metrics.render(),
        headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
    )


@router.get("/docs", include_in_schema=False)
async def docs() -> HTMLResponse:
    """Readable form of ``/openapi.json``; loads nothing from elsewhere."""
    return HTMLResponse(page("docs.html"))


@router.get("/v1/models")
async def models(service: ServiceDep) -> Response:
    """Every name of the served model."""
    names = service.config.frontend.served_model_names
    return json_reply(ModelList([_card(service, name) for name in names]))


@router.get("/v1/models/{name:path}")
async def model(name: str, service: ServiceDep) -> Response:
    """One served model."""
    return json_reply(_card(service, served_name(service, name)))


@router.post("/tokenize")
async def tokenize(asked: TokenizeBody, service: ReadyDep) -> Response:
    """Token ids of a text, or of a conversation."""
    served_name(service, asked.model)
    if asked.messages is None:
        text, special = asked.prompt or "", asked.add_special_tokens is not False
    else:
        text, special = await _rendered(asked, service), bool(asked.add_special_tokens)
    token_ids = await service.encode(text, add_special_tokens=special)
    texts = None
    if asked.return_token_strs:
        texts = [await service.decode([token_id]) for token_id in token_ids]
    return json_reply(
        Tokenized(len(token_ids), service.config.model.max_model_len, token_ids, texts)
    )


@router.post("/detokenize")
async def detokenize(asked: DetokenizeBody, service: ReadyDep) -> Response:
    """Text of token ids."""
    served_name(service, asked.model)
    return json_reply(Detokenized(await service.decode(asked.tokens)))


@router.post("/reset_prefix_cache", dependencies=[Depends(same_origin)])
async def reset_prefix_cache(service: ReadyDep) -> Response:
    """Forget cached prefixes: no later request finds one. Running requests keep theirs."""
    await service.utility("reset_prefix_cache")
    return json_reply(Done(success=True))


async def _rendered(asked: TokenizeRequest, service: Service) -> str:
    continues = bool(asked.continue_final_message)
    wants_turn = asked.add_generation_prompt
    return await service.render_chat(
        conversation(asked.messages or []),
        add_generation_prompt=not continues if wants_turn is None else wants_turn,
        continue_final_message=continues,
        template_kwargs=asked.chat_template_kwargs or None,
    )


def _card(service: Service, name: str) -> ModelCard:
    config = service.config
    return ModelCard(name, _STARTED, config.model.max_model_len, root=config.model.name)
