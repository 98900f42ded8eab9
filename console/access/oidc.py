"""Sign-in with an OpenID provider: authorization code with PKCE, state and nonce; Authlib validates the response."""

import secrets
from html import escape
from typing import Final

from authlib.integrations.base_client.errors import OAuthError
from authlib.integrations.starlette_client import OAuth
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from httpx2 import HTTPError
from joserfc.errors import JoseError
from starlette.middleware.sessions import SessionMiddleware

from haltline.console.access.browser_sessions import local_path, start_session
from haltline.console.access.provider import Provider

_LOGIN_STATE_COOKIE: Final = "haltline-oidc"
"""The cookie that holds state, nonce and verifier until the provider sends the browser back."""
_LOGIN_TIMEOUT_S: Final = 600


def install_oidc(app: FastAPI, provider: Provider) -> None:
    """Add `/sign-in/oidc` and the provider's redirect URI. Raises OSError for the secret's file."""
    secret = None if provider.client_secret_file is None else provider.client_secret_file.read_text().strip()
    oauth = OAuth()
    oauth.register(
        "provider",
        client_id=provider.client_id,
        client_secret=secret,
        server_metadata_url=f"{provider.issuer}/.well-known/openid-configuration",
        client_kwargs={
            "scope": provider.scope,
            "code_challenge_method": "S256",
            "timeout": 10.0,
            **({"token_endpoint_auth_method": "none"} if secret is None else {}),
        },
    )
    # A key of this process: sign-ins in progress fail when it ends, and have to be repeated.
    app.add_middleware(
        SessionMiddleware,
        secret_key=secrets.token_urlsafe(32),
        session_cookie=_LOGIN_STATE_COOKIE,
        max_age=_LOGIN_TIMEOUT_S,
        same_site="lax",  # the redirect comes from another site
    )
    router = APIRouter(include_in_schema=False)

    @router.get("/sign-in/oidc")
    async def begin(request: Request, next: str = "/") -> Response:  # noqa: A002 - the query says so
        """Redirect the browser to the provider."""
        request.session.clear()
        request.session["next"] = local_path(next)
        try:
            sent: Response = await oauth.provider.authorize_redirect(request, str(request.url_for("oidc_back")))
        except (HTTPError, OAuthError, ValueError, KeyError):
            return RedirectResponse("/sign-in?problem=provider", 303)
        return sent

    @router.get("/sign-in/oidc/back", name="oidc_back")
    async def back(request: Request) -> Response:
        """Start a session for the user that the provider names."""
        next_page = local_path(str(request.session.get("next", "/")))
        try:
            token = await oauth.provider.authorize_access_token(request)
            claims = dict(token.get("userinfo") or {})
            if provider.role_claim not in claims:  # some providers return it on request only
                more = await oauth.provider.userinfo(token=token)
                claims = claims if more.get("sub") != claims.get("sub") else dict(more) | claims
        except (HTTPError, OAuthError, JoseError, ValueError, KeyError):
            return RedirectResponse("/sign-in?problem=provider", 303)
        finally:
            request.session.clear()
        who = provider.who(claims) if str(claims.get("iss", "")).rstrip("/") == provider.issuer else None
        if who is None:
            return RedirectResponse("/sign-in?problem=person", 303)
        # Not a redirect: a browser does not send a strict cookie in a redirect that another site started.
        response = HTMLResponse(f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(next_page)}">')
        start_session(request, response, who)
        return response

    app.include_router(router)
