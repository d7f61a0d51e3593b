"""Routes of vLLM's server beside ours: which ask for the API key, and which are off while answers may be withheld."""

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from vllm.entrypoints.serve.middleware import authenticate

OPEN = frozenset(
    (
        *("/openapi.json", "/docs", "/docs/oauth2-redirect", "/redoc", "/static"),
        *("/load", "/version", "/kv_event_sources", "/health", "/metrics", "/ping"),
        *("/tokenize", "/detokenize", "/v1/models", "/v1/messages/count_tokens"),
        *("/v1/chat/completions/render", "/v1/messages/render", "/v1/completions/render", "/v1/responses/render"),
        *("/v1/chat/completions/derender", "/v1/completions/derender", "/inference/v1/abort_requests"),
        *("/scale_elastic_ep", "/is_scaling_elastic_ep"),
    )
)
"""Routes of vLLM's that tell nothing of what the model writes."""
OWN = frozenset(("/", "/v1/chat/completions", "/v1/completions", "/v1/confidence"))
"""Routes of ours that stay on; they withhold what is to be withheld."""


def secure(app: FastAPI, withholds: bool) -> None:
    """Ask for the API key wherever the model answers, and turn off what cannot withhold its answers. Routes that are
    not named above count as such, also those that another version or plug-in brings.

    Args:
        app: The whole application, before it serves.
        withholds: Whether any answer may be withheld.
    """
    others = [route for route in app.routes if getattr(route, "path", None) not in OPEN | OWN]
    # vLLM asks for the key below /v1 and the like alone, although /invocations generates
    paths = (getattr(route, "path", "/").partition("{")[0] for route in others)
    authenticate.GUARDED_PREFIX = (*authenticate.GUARDED_PREFIX, *(path for path in paths if path != "/"))
    if not withholds:
        return
    off = [APIRoute(one.path, _off, methods=one.methods) for one in others if isinstance(one, APIRoute)]
    app.router.routes[:] = [*off, *(route for route in app.routes if route not in others)]
    app.openapi_schema = None


async def _off(request: Request) -> JSONResponse:
    message = (
        f"{request.url.path} is off, since this server withholds answers of low confidence (--abstain-below) and "
        "cannot do so there; use /v1/chat/completions or /v1/completions"
    )
    return JSONResponse({"error": {"message": message, "type": "NotFoundError", "param": None, "code": 404}}, 404)
