"""Logs in to remote servers: OAuth 2.1 with PKCE, metadata discovery, a redirect to this machine, and refresh."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol
from urllib.parse import SplitResult, parse_qs, quote, urlencode, urlsplit

from cowork.core.blocks import Json
from cowork.core.format import one_line
from cowork.mcp.http import fetch
from cowork.mcp.protocol import LoginNeeded, McpError

Browse = Callable[[str], Awaitable[None]]
"""Shows the person a page to log in on."""

_WAIT_S = 300.0  # for the person
_EARLY_S = 30  # before its end a token counts as over
_PAGE = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n"
    b"<!doctype html><title>cowork</title><p>You can close this page and go back to cowork.</p>"
)


class TokenStore(Protocol):
    """Keeps what a login gave, where only the person can read it."""

    def get(self) -> Json: ...  # empty where nothing is kept
    def put(self, kept: Json) -> None: ...


class OAuth:
    """The token of one server: kept, refreshed, and had anew where a person can log in."""

    def __init__(self, url: str, client: Mapping[str, str], store: TokenStore, browse: Browse | None = None) -> None:
        self._url, self._client, self._store, self._browse = url, client, store, browse
        self._renewing = asyncio.Lock()  # a refresh token is used once: many servers take a second use for a theft

    async def token(self) -> str:
        """A token that is not over; empty where there is none."""
        if _is_over(kept := self._store.get()):
            async with self._renewing:
                if _is_over(kept := self._store.get()):
                    with contextlib.suppress(McpError):
                        kept = await self._refresh(kept)
        return str(kept.get("access_token", ""))

    async def renew(self, status: int, challenge: str, refused: str) -> bool:
        """Get another token for the one that was refused; LoginNeeded where only a person could."""
        async with self._renewing:
            kept = self._store.get()
            if kept.get("access_token", "") not in ("", refused):
                return True
            said = {name.lower(): value for name, value in re.findall(r'([A-Za-z_]+)="([^"]*)"', challenge)}
            if status == 401 and kept.get("refresh_token") and not said.get("scope"):
                with contextlib.suppress(McpError):
                    service = await self._service(said)
                    if service["issuer"] == kept.get("issuer"):
                        await self._refresh(kept)
                        return True
            if self._browse is None:
                return False
            await self.login(said)
            return True

    async def login(self, said: Mapping[str, str] | None = None) -> None:
        """Let the person log in, and keep the token."""
        if self._browse is None:
            raise LoginNeeded("wants a login")
        service = await self._service(said or {})
        scope = self._scope(service, said or {})
        async with _redirects() as (redirect, answer):
            client = await self._register(service, redirect)
            verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
            digest = hashlib.sha256(verifier.encode()).digest()
            asked = {
                "response_type": "code",
                "client_id": client["client_id"],
                "redirect_uri": redirect,
                "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
                "code_challenge_method": "S256",
                "state": state,
                "resource": service["resource"],
            } | ({"scope": scope} if scope else {})
            page = _safe(service["authorization_endpoint"])
            await self._browse(f"{page}{'&' if urlsplit(page).query else '?'}{urlencode(asked)}")
            try:
                given = await asyncio.wait_for(answer, _WAIT_S)
            except TimeoutError:
                raise LoginNeeded(f"nobody logged in within {_WAIT_S / 60:g} minutes") from None
            form = {"grant_type": "authorization_code", "code": _code_of(given, state, service)}
            form |= {"redirect_uri": redirect, "code_verifier": verifier}
            kept = {"issuer": service["issuer"], "token_endpoint": _safe(service["token_endpoint"]), "scope": scope}
            await self._get_tokens(kept | client | {"resource": service["resource"]}, form)

    async def _service(self, said: Mapping[str, str]) -> Json:
        """What the authorization server says of itself, with the resource it is asked for, and its scopes."""
        resource = await self._resource(said.get("resource_metadata", ""))
        servers = resource.get("authorization_servers")
        issuer = str(servers[0]) if isinstance(servers, list) and servers else ""
        base = issuer or _origin(self._url)  # a server of an early revision is its own authorization server
        facts = await _metadata(base, strict=bool(issuer))
        if issuer and not facts:
            raise McpError(f"names the authorization server {one_line(issuer, 100)}, which does not say how to log in")
        methods = facts.get("code_challenge_methods_supported")
        if isinstance(methods, list) and "S256" not in methods:
            raise McpError("has an authorization server without PKCE, which is not safe to use")
        usual = {"authorization_endpoint": f"{base}/authorize", "token_endpoint": f"{base}/token", "issuer": base}
        usual |= {} if facts else {"registration_endpoint": f"{base}/register"}
        known = {name: value for name, value in facts.items() if value}
        named = str(resource.get("resource") or _origin(self._url) + _path(self._url))
        return usual | known | {"resource": named, "resource_scopes": resource.get("scopes_supported")}

    async def _resource(self, named: str) -> Json:
        """What the server says of itself as a protected resource."""
        well_known = f"{_origin(self._url)}/.well-known/oauth-protected-resource"
        path = _path(self._url)
        for url in [named] if named else [well_known + path, well_known] if path else [well_known]:
            if found := await _json_at(url):
                theirs = str(found.get("resource", ""))
                same = _origin(theirs).lower() == _origin(self._url).lower()
                if theirs and not (same and f"{_path(self._url)}/".startswith(f"{_path(theirs)}/")):
                    raise McpError(f"says it is {one_line(theirs, 100)}, which is another address; no token goes there")
                return found
        return {}

    def _scope(self, service: Json, said: Mapping[str, str]) -> str:
        """What the refusal names, else what the server has; never less than before."""
        before = self._store.get()
        had = str(before.get("scope", "")) if before.get("issuer") == service["issuer"] else ""
        wanted = said.get("scope", "").split() or self._client.get("scope", "").split()
        found = dict.fromkeys([*had.split(), *(wanted or _texts(service["resource_scopes"]))])
        if found and "offline_access" in _texts(service.get("scopes_supported")):
            found["offline_access"] = None
        return " ".join(found)

    async def _register(self, service: Json, redirect: str) -> dict[str, str]:
        """Who we are to the authorization server: known to it, a document of ours, or registered now."""
        if id := self._client.get("client_id"):
            secret = self._client.get("client_secret", "")
            return {"client_id": id, "client_secret": secret, "auth_method": _method(service, secret)}
        document = self._client.get("client_metadata_url", "")
        if document and service.get("client_id_metadata_document_supported") is True:
            return {"client_id": document, "client_secret": "", "auth_method": "none"}
        if not service.get("registration_endpoint"):
            raise McpError("needs a client that is registered with it: set oauth.client_id in its entry")
        wanted = {
            "client_name": "cowork",
            "redirect_uris": [redirect],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "application_type": "native",
            "token_endpoint_auth_method": _method(service, ""),
        }
        status, found = await fetch("POST", _safe(service["registration_endpoint"]), "json", json.dumps(wanted))
        if status not in (200, 201) or not found.get("client_id"):
            raise McpError(f"does not register us ({status}): {_why(found)}")
        secret = str(found.get("client_secret") or "")
        method = str(found.get("token_endpoint_auth_method") or _method(service, secret))
        return {"client_id": str(found["client_id"]), "client_secret": secret, "auth_method": method}

    async def _refresh(self, kept: Json) -> Json:
        return await self._get_tokens(kept, {"grant_type": "refresh_token", "refresh_token": kept["refresh_token"]})

    async def _get_tokens(self, kept: Json, form: dict[str, Any]) -> Json:
        """Ask for tokens and keep them with what is needed to refresh them."""
        headers: dict[str, str] = {}
        form, secret = form | {"resource": kept["resource"]}, str(kept.get("client_secret") or "")
        if secret and kept.get("auth_method") == "client_secret_basic":
            pair = f"{quote(str(kept['client_id']), safe='')}:{quote(secret, safe='')}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form = form | {"client_id": kept["client_id"]} | ({"client_secret": secret} if secret else {})
        where, body = str(kept["token_endpoint"]), urlencode(form)
        status, tokens = await fetch("POST", where, "x-www-form-urlencoded", body, **headers)
        if status != 200 or not isinstance(tokens.get("access_token"), str):
            raise LoginNeeded(f"gives no token ({status}): {_why(tokens)}")
        lasts = tokens.get("expires_in")
        kept = kept | {
            "access_token": tokens["access_token"],
            "refresh_token": tokens.get("refresh_token") or kept.get("refresh_token", ""),
            "expires_at": time.time() + lasts if isinstance(lasts, int | float) and abs(lasts) < 1e12 else 0,
            "scope": tokens.get("scope") or kept.get("scope", ""),
        }
        self._store.put(kept)
        return kept


def _is_over(kept: Json) -> bool:
    """Whether a token has ended that can be refreshed."""
    ends = kept.get("expires_at", 0)
    return bool(ends and time.time() > ends - _EARLY_S and kept.get("refresh_token"))


async def _metadata(issuer: str, *, strict: bool) -> Json:
    """What an authorization server says of itself; one that calls itself otherwise is not believed."""
    origin, path = _origin(issuer), _path(issuer)
    places = [f"{origin}/.well-known/{name}{path}" for name in ("oauth-authorization-server", "openid-configuration")]
    places += [f"{origin}{path}/.well-known/openid-configuration"] if path else []
    for place in places:
        if found := await _json_at(place):
            if strict and found.get("issuer") != issuer:
                name = one_line(str(found.get("issuer")), 100)
                raise McpError(f"has an authorization server that calls itself {name}")
            return found
    return {}


async def _json_at(url: str) -> Json:
    """The table at an address; empty where there is none."""
    status, found = await fetch("GET", _safe(url))
    return found if status == 200 else {}


def _texts(value: Any) -> list[str]:
    return list(map(str, value)) if isinstance(value, list) else []


def _why(found: Mapping[str, Any]) -> str:
    return one_line(str(found.get("error_description") or found.get("error") or "no reason given"), 200)


def _safe(url: object) -> str:
    """An address that codes and tokens may go to."""
    parts = _split(str(url))
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")):
        return str(url)
    raise McpError(f"wants a login at {one_line(str(url), 100)}, which is not https")


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:
        raise McpError(f"names {one_line(url, 100)}, which is no address") from error


def _origin(url: str) -> str:
    parts = _split(url)
    return f"{parts.scheme}://{parts.netloc}"


def _path(url: str) -> str:
    return _split(url).path.rstrip("/")


def _method(service: Json, secret: str) -> str:
    """How we show who we are at the token endpoint."""
    known = _texts(service.get("token_endpoint_auth_methods_supported"))
    wanted = ["client_secret_basic", "client_secret_post"]
    wanted = [*wanted, "none"] if secret else ["none", *wanted]
    return next((method for method in wanted if method in known), "client_secret_basic" if secret or known else "none")


def _code_of(given: Mapping[str, str], state: str, service: Json) -> str:
    """The code of a redirect that is the answer to what we asked, from whom we asked."""
    if given.get("state") != state:
        raise LoginNeeded("the redirect does not belong to this login")
    named = service.get("authorization_response_iss_parameter_supported") is True
    if given.get("iss") != service["issuer"] and ("iss" in given or named):
        raise LoginNeeded("the redirect is from another authorization server")
    if not given.get("code"):
        raise LoginNeeded(f"the login was refused: {_why(given)}")
    return given["code"]


@asynccontextmanager
async def _redirects() -> AsyncIterator[tuple[str, asyncio.Future[dict[str, str]]]]:
    """(address, what comes to it): a port of this machine that takes one redirect."""
    answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        rubbish = (OSError, ValueError, IndexError, EOFError, asyncio.LimitOverrunError)
        with contextlib.closing(writer), contextlib.suppress(*rubbish):
            asked = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
            target = urlsplit(asked.split(b" ", 2)[1].decode("ascii", "replace"))
            writer.write(_PAGE)
            await writer.drain()
            if target.path == "/callback" and not answer.done():
                answer.set_result({name: values[0] for name, values in parse_qs(target.query).items()})

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/callback", answer
    finally:
        server.close()
