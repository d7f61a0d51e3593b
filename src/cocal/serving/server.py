"""The routes of `cocal serve`, as a plug-in of vLLM's server (its group of entry points `vllm.endpoint_plugins`).

vLLM answers; the plug-in follows what its engine generates for each answer, and adds the confidences.
"""

import asyncio
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse
from fastapi.routing import APIRoute
from prometheus_client import Gauge
from pydantic import BaseModel, Field
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.completion.protocol import CompletionRequest
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest
from vllm.entrypoints.serve.engine.protocol import ErrorResponse
from vllm.entrypoints.serve.instrumentator.health import health
from vllm.entrypoints.serve.middleware import authenticate
from vllm.entrypoints.serve.utils.api_utils import load_aware_call, validate_json_request, with_cancellation
from vllm.entrypoints.serve.utils.orca_metrics import metrics_header
from vllm.entrypoints.serve.utils.sse_keep_alive import with_sse_keep_alive
from vllm.exceptions import VLLMValidationError

from cocal.confidence import saved
from cocal.engines.states import LARGEST
from cocal.errors import ContractError
from cocal.models.loading import read_vocabulary
from cocal.rollouts.encoding import Encoder
from cocal.serving.bodies import ConfidenceBody, other_mode, steered, telling
from cocal.serving.choices import Shown, of_response, streamed, whole
from cocal.serving.launch import Served
from cocal.serving.scoring import OTHER_MODE, RECORDER, STEERED, FollowedEngine, Recorder, Scorer

_COMPANION = Gauge(
    "cocal_companion_info",
    "The companion that is served",
    ["companion", "base_model", "block", "poolings", "target", "seeds"],
    multiprocess_mode="mostrecent",
)
COUNTING = "/metrics"
"""The route that tells why answers ended, and so needs the key where answers may be withheld."""
OPEN = frozenset(
    (
        *("/openapi.json", "/docs", "/docs/oauth2-redirect", "/redoc", "/static"),
        *("/load", "/version", "/kv_event_sources", "/health", COUNTING, "/ping"),
        *("/v1/models", "/v1/messages/count_tokens"),
        *("/v1/chat/completions/render", "/v1/messages/render", "/v1/completions/render", "/v1/responses/render"),
        *("/v1/chat/completions/derender", "/v1/completions/derender", "/inference/v1/abort_requests"),
        *("/scale_elastic_ep", "/is_scaling_elastic_ep"),
    )
)
"""Routes of vLLM's that tell nothing of what the model writes, and need no key where nothing is withheld."""
GUARDED = frozenset(("/tokenize", "/detokenize"))
"""Routes that reveal nothing but use computing time, and so need the key."""
OWN = frozenset(("/", "/v1/chat/completions", "/v1/completions", "/v1/confidence"))
"""Routes of ours that stay on; they withhold what is to be withheld."""
router = APIRouter()


class _Wishes(BaseModel):
    """What is to be shown of confidences, and what is wanted of a response while it grows."""

    confidence_members: bool = Field(default=False, description="Confidences of all members are wanted, too.")
    confidence_every: int | None = Field(
        default=None,
        ge=1,
        le=LARGEST,
        strict=True,
        description="The confidence after every so many tokens is wanted, too.",
    )
    confidence_stop_below: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="A response ends where its confidence falls below this, which is looked at after every "
        "`confidence_every` tokens (by default those that the companion has learnt from).",
    )


class ChatBody(_Wishes, ChatCompletionRequest):
    """vLLM's body of `/v1/chat/completions`, with what is wanted of confidences."""


class CompletionBody(_Wishes, CompletionRequest):
    pass


class ResponseBody(_Wishes, ResponsesRequest):
    pass


class Service:
    """What the routes need, from vLLM's engine client, what `cocal serve` was asked for, and the model's folder."""

    def __init__(self, engine: Any, served: Served, model: Path):
        _, config, _ = saved.read(served.companion)
        reader, longest = read_vocabulary(model, plain=True), engine.model_config.max_model_len
        members = config.spec.members
        self.scorer = Scorer(engine, members, served.of(config), reader.ends, longest)
        # its context lacks room for the token that a response's own request generates
        self.encoder = Encoder(reader._replace(context=longest - 1), config)
        self.chats = not (config.raw or config.template == "")
        self.prefixes = config.prefixes
        self.served = served
        self.encoding = asyncio.Lock()  # tokenizers are not made for several threads
        self.companion = {
            "companion": served.companion,
            "base_model": config.base_model.name,
            "block": config.spec.layer,
            "poolings": list(config.spec.poolings),
            "target": self.scorer.target,
            "seeds": list(config.spec.settings.seeds),
            "held_out": config.summary(),
            "mean_confidence": config.held_out and config.held_out.value("mean_confidence"),
            "abstain_below": served.abstain_below,
        }
        labels = (self.companion[name] for name in _COMPANION._labelnames)
        _COMPANION.labels(*(" ".join(map(str, label)) if isinstance(label, list) else label for label in labels)).set(1)

    def growing(self, body: _Wishes) -> dict[str, Any]:
        """What a body asks of growing responses; a VLLMValidationError if the companion has learnt no prefixes."""
        every, below = body.confidence_every, body.confidence_stop_below
        if every is None and below is None:
            return {}
        if self.prefixes is None:
            raise VLLMValidationError(
                "The companion has learnt from whole responses alone, so that there is no confidence_every and no "
                "confidence_stop_below; fit it with `cocal fit --prefixes 16`."
            )
        return {"every": every or self.prefixes, "below": below}

    def shown(self, members: bool) -> Shown:
        return Shown(members, self.served.abstain_below, self.served.withhold)


def secure(app: FastAPI, withholds: bool) -> None:
    """Require the API key on every route that generates. Where answers may be withheld, turn off routes that cannot
    withhold them. Unknown routes count as such, also those of another version or plug-in."""
    unnamed = [route for route in app.routes if getattr(route, "path", None) not in OPEN | GUARDED | OWN]
    # vLLM asks for the key below /v1 and the like alone, although /invocations generates
    paths = (getattr(route, "path", "/").partition("{")[0] for route in unnamed)
    authenticate.GUARDED_PREFIX = (
        *authenticate.GUARDED_PREFIX,
        *sorted(GUARDED),
        *([COUNTING] if withholds else []),
        *(path for path in paths if path != "/"),
    )
    if not withholds:
        return
    off = [APIRoute(route.path, _off, methods=route.methods) for route in unnamed if isinstance(route, APIRoute)]
    app.router.routes[:] = [*off, *(route for route in app.routes if route not in unnamed)]
    app.openapi_schema = None


async def _off(request: Request) -> JSONResponse:
    message = (
        f"{request.url.path} is off, since this server withholds answers of low confidence (--abstain-below) and "
        "cannot do so there; use /v1/chat/completions or /v1/completions"
    )
    return JSONResponse({"error": {"message": message, "type": "NotFoundError", "param": None, "code": 404}}, 404)


class Plugin:
    """The plug-in; see vLLM's `EndpointPlugin`."""

    name = "cocal"
    required_tasks = ("generate",)

    def attach_router(self, app: FastAPI) -> None:
        """Put these routes in the place of vLLM's, or beside them."""
        self._app = app
        app.include_router(router)

    async def init_state(self, engine_client: Any, state: Any, args: Any) -> None:
        """Load the companion's facts, and follow what the engine generates."""
        extra = engine_client.vllm_config.kv_transfer_config.kv_connector_extra_config
        state.cocal = Service(engine_client, Served(**extra), Path(args.model))
        for handler in (state.openai_serving_chat, state.openai_serving_completion, state.openai_serving_responses):
            handler.engine_client = FollowedEngine(engine_client)
        secure(self._app, state.cocal.shown(members=False).withholds)


def _service(request: Request) -> Service:
    return request.app.state.cocal


async def _answer(create: Any, body: Any, raw_request: Request) -> Response:
    """vLLM's answer to a body, with confidences."""
    service, args = _service(raw_request), raw_request.app.state.args
    is_response = isinstance(body, ResponseBody)
    if not service.chats and not isinstance(body, CompletionBody):
        raise VLLMValidationError("The companion was fitted on plain texts and knows no chats: use /v1/completions.")
    body.kv_transfer_params = None  # they are the server's own
    other = not isinstance(body, CompletionBody) and other_mode(
        body, service.encoder.values, args.default_chat_template_kwargs
    )
    reason = OTHER_MODE if other else STEERED if steered(body) else None
    recorder = Recorder(service.scorer, reason, **service.growing(body))
    shown = service.shown(body.confidence_members)
    if shown.withholds and (names := telling(body)):
        raise VLLMValidationError(
            f"This server withholds answers (--abstain-below) and takes no {names[0]}, which tells what one would say."
        )
    RECORDER.set(None if getattr(body, "use_beam_search", False) else recorder)
    answer = await create(body, raw_request)
    if isinstance(answer, ErrorResponse):
        return JSONResponse(answer.model_dump(), answer.error.code)
    if hasattr(answer, "model_dump"):
        load = metrics_header(raw_request.headers.get("endpoint-load-metrics-format", ""))
        return JSONResponse(whole(answer.model_dump(mode="json", by_alias=is_response), recorder, shown), headers=load)
    interval = float(getattr(args, "sse_keep_alive_interval", 0))
    events = (of_response if is_response else streamed)(answer, recorder, shown)
    return StreamingResponse(with_sse_keep_alive(events, interval), media_type="text/event-stream")


@router.post("/v1/chat/completions", dependencies=[Depends(validate_json_request)])
@with_cancellation
@load_aware_call
async def chat(body: ChatBody, raw_request: Request) -> Response:
    """OpenAI's chat completions, with a confidence in every choice."""
    return await _answer(raw_request.app.state.openai_serving_chat.create_chat_completion, body, raw_request)


@router.post("/v1/completions", dependencies=[Depends(validate_json_request)])
@with_cancellation
@load_aware_call
async def completions(body: CompletionBody, raw_request: Request) -> Response:
    """OpenAI's completions, with a confidence in every choice."""
    return await _answer(raw_request.app.state.openai_serving_completion.create_completion, body, raw_request)


@router.post("/v1/responses", dependencies=[Depends(validate_json_request)])
@with_cancellation
@load_aware_call
async def responses(body: ResponseBody, raw_request: Request) -> Response:
    """OpenAI's responses, with a confidence; they cannot be withheld."""
    return await _answer(raw_request.app.state.openai_serving_responses.create_responses, body, raw_request)


@router.post("/v1/confidence", dependencies=[Depends(validate_json_request)])
@with_cancellation
@load_aware_call
async def confidence(body: ConfidenceBody, raw_request: Request) -> Response:
    """Confidences of responses that exist, in their order."""
    service = _service(raw_request)
    if error := await raw_request.app.state.openai_serving_completion._check_model(body):
        return JSONResponse(error.model_dump(), error.error.code)
    try:
        samples = body.samples()
        async with service.encoding:
            service.encoder.forget()
            rows = await asyncio.to_thread(service.encoder.encode, samples)
    except ContractError as error:
        raise VLLMValidationError(str(error)) from None
    asked = (service.scorer.score(row.prompt.tolist(), row.response.tolist()) for row in rows)
    data: Sequence[dict[str, Any]] = [
        {"index": k, "confidence_ids": "given" if row.exact else "tokenised"} for k, row in enumerate(rows)
    ]
    for entry, confidence in zip(data, await asyncio.gather(*asked), strict=True):
        Shown(body.confidence_members, service.served.abstain_below, withhold=False).add(entry, confidence)
    return JSONResponse({"object": "list", "data": data})


@router.get("/health")
async def healthy(raw_request: Request) -> Response:
    """vLLM's own check, with the companion in its body."""
    status = (await health(raw_request)).status_code
    return JSONResponse({"healthy": status == 200, "companion": _service(raw_request).companion}, status)


@router.get("/", response_class=HTMLResponse)
async def page() -> str:
    """A page to ask a question and to see the answers with their confidences."""
    return files("cocal.serving").joinpath("page.html").read_text(encoding="utf-8")
