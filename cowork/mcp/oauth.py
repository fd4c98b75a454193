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
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from cowork.core.blocks import Json, as_object
from cowork.core.frozen import frozen
from cowork.mcp.http import fetch
from cowork.mcp.protocol import LoginNeeded, McpError, one_line

Browse = Callable[[str], Awaitable[None]]
"""Shows the person a page to log in on."""

_WAIT_S = 300.0  # for the person
_EARLY_S = 30  # before its end a token counts as over
_FORM = {"content-type": "application/x-www-form-urlencoded"}
_NAME = "cowork"
_PAGE = b"<!doctype html><title>cowork</title><p>You can close this page and go back to cowork.</p>"


class TokenStore(Protocol):
    """Keeps what a login gave, where only the person can read it."""

    def get(self) -> Json: ...  # empty where nothing is kept
    def put(self, kept: Json) -> None: ...


@frozen
class _Service:
    """An authorization server: its name and where it takes what."""

    issuer: str
    authorize: str
    token: str
    register: str
    facts: Json
    resource: str
    scopes: tuple[str, ...] | None  # that the resource says it has


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

    async def challenged(self, status: int, challenge: str, refused: str) -> bool:
        """Get another token for the one that was refused; LoginNeeded where only a person could."""
        async with self._renewing:
            other = self._store.get().get("access_token", "")
            return (bool(other) and other != refused) or await self._renew(status, _challenge(challenge))

    async def _renew(self, status: int, said: Mapping[str, str]) -> bool:
        kept = self._store.get()
        if status == 401 and kept.get("refresh_token") and not said.get("scope"):
            with contextlib.suppress(McpError):
                service = await self._service(said)
                if service.issuer == kept.get("issuer"):
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
        said = said or {}
        service = await self._service(said)
        before = self._store.get()
        same = before if before.get("issuer") == service.issuer else {}
        scope = self._scope(service, said, str(same.get("scope", "")))
        async with _redirects() as (redirect, answer):
            client = await self._registered(service, redirect)
            verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
            digest = hashlib.sha256(verifier.encode()).digest()
            asked = {
                "response_type": "code",
                "client_id": client["client_id"],
                "redirect_uri": redirect,
                "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
                "code_challenge_method": "S256",
                "state": state,
                "resource": service.resource,
            } | ({"scope": scope} if scope else {})
            joint = "&" if urlsplit(service.authorize).query else "?"
            await self._browse(f"{service.authorize}{joint}{urlencode(asked)}")
            try:
                given = await asyncio.wait_for(answer, _WAIT_S)
            except TimeoutError:
                raise LoginNeeded(f"nobody logged in within {_WAIT_S / 60:g} minutes") from None
            code = _checked(given, state, service)
            form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect}
            form |= {"code_verifier": verifier, "resource": service.resource}
            tokens = await self._tokens(service.token, client, form)
        kept = {"issuer": service.issuer, "token_endpoint": service.token, "resource": service.resource, "scope": scope}
        self._keep(kept | client, tokens)

    # ------------------------------------------------------------ discovery

    async def _service(self, said: Mapping[str, str]) -> _Service:
        resource = await self._resource(said.get("resource_metadata", ""))
        servers = resource.get("authorization_servers")
        issuer = str(servers[0]) if isinstance(servers, list) and servers else ""
        parts = urlsplit(self._url)
        origin = f"{parts.scheme}://{parts.netloc}"
        facts = await _metadata(issuer or origin, strict=bool(issuer))
        base = issuer or origin  # a server of an early revision is its own authorization server
        if issuer and not facts:
            raise McpError(f"names the authorization server {one_line(issuer, 100)}, which does not say how to log in")
        methods = facts.get("code_challenge_methods_supported")
        if isinstance(methods, list) and "S256" not in methods:
            raise McpError("has an authorization server without PKCE, which is not safe to use")
        scopes = resource.get("scopes_supported")
        return _Service(
            str(facts.get("issuer") or base),
            _safe(facts.get("authorization_endpoint") or f"{base}/authorize"),
            _safe(facts.get("token_endpoint") or f"{base}/token"),
            str(facts.get("registration_endpoint") or ("" if facts else f"{base}/register")),
            facts,
            str(resource.get("resource") or _canonical(self._url)),
            tuple(map(str, scopes)) if isinstance(scopes, list) else None,
        )

    async def _resource(self, named: str) -> Json:
        """What the server says of itself as a protected resource."""
        parts = urlsplit(self._url)
        well_known = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource"
        path = parts.path.rstrip("/")
        for url in [named] if named else [well_known + path, well_known] if path else [well_known]:
            if found := await _json(url):
                theirs = str(found.get("resource", ""))
                if theirs and not _covers(theirs, self._url):
                    raise McpError(f"says it is {one_line(theirs, 100)}, which is another address; no token goes there")
                return found
        return {}

    # ------------------------------------------------------------ the client and its tokens

    def _scope(self, service: _Service, said: Mapping[str, str], before: str) -> str:
        """What the refusal names, else what the server has; never less than before."""
        wanted = said.get("scope", "").split() or self._client.get("scope", "").split() or [*(service.scopes or ())]
        found = dict.fromkeys([*before.split(), *wanted])
        theirs = service.facts.get("scopes_supported")
        if found and isinstance(theirs, list) and "offline_access" in theirs:
            found["offline_access"] = None
        return " ".join(found)

    async def _registered(self, service: _Service, redirect: str) -> dict[str, str]:
        """Who we are to the authorization server: known to it, a document of ours, or registered now."""
        if id := self._client.get("client_id"):
            secret = self._client.get("client_secret", "")
            return {"client_id": id, "client_secret": secret, "auth_method": _method(service, secret)}
        document = self._client.get("client_metadata_url", "")
        if document and service.facts.get("client_id_metadata_document_supported") is True:
            return {"client_id": document, "client_secret": "", "auth_method": "none"}
        if not service.register:
            raise McpError("needs a client that is registered with it: set oauth.client_id in its entry")
        wanted = {
            "client_name": _NAME,
            "redirect_uris": [redirect],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "application_type": "native",
            "token_endpoint_auth_method": _method(service, ""),
        }
        body = json.dumps(wanted).encode()
        status, _, raw = await fetch("POST", _safe(service.register), {"content-type": "application/json"}, body)
        found = _parsed(raw)
        if status not in (200, 201) or not found.get("client_id"):
            raise McpError(f"does not register us ({status}): {_why(found)}")
        secret = str(found.get("client_secret") or "")
        method = str(found.get("token_endpoint_auth_method") or _method(service, secret))
        return {"client_id": str(found["client_id"]), "client_secret": secret, "auth_method": method}

    async def _refresh(self, kept: Json) -> Json:
        form = {"grant_type": "refresh_token", "refresh_token": str(kept["refresh_token"])}
        form["resource"] = str(kept["resource"])
        return self._keep(kept, await self._tokens(str(kept["token_endpoint"]), kept, form))

    async def _tokens(self, endpoint: str, client: Mapping[str, Any], form: dict[str, str]) -> Json:
        headers, secret = dict(_FORM), str(client.get("client_secret") or "")
        if secret and client.get("auth_method") == "client_secret_basic":
            pair = f"{quote(str(client['client_id']), safe='')}:{quote(secret, safe='')}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form = form | {"client_id": str(client["client_id"])} | ({"client_secret": secret} if secret else {})
        status, _, raw = await fetch("POST", endpoint, headers, urlencode(form).encode())
        found = _parsed(raw)
        if status != 200 or not isinstance(found.get("access_token"), str):
            raise LoginNeeded(f"gives no token ({status}): {_why(found)}")
        return found

    def _keep(self, kept: Json, tokens: Json) -> Json:
        lasts = tokens.get("expires_in")
        kept = kept | {
            "access_token": tokens["access_token"],
            "refresh_token": tokens.get("refresh_token") or kept.get("refresh_token", ""),
            "expires_at": time.time() + lasts if isinstance(lasts, int | float) else 0,
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
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    places = [f"{origin}/.well-known/{name}{path}" for name in ("oauth-authorization-server", "openid-configuration")]
    places += [f"{origin}{path}/.well-known/openid-configuration"] if path else []
    for place in places:
        if found := await _json(place):
            if strict and found.get("issuer") != issuer:
                name = one_line(str(found.get("issuer")), 100)
                raise McpError(f"has an authorization server that calls itself {name}")
            return found
    return {}


async def _json(url: str) -> Json:
    """The table at an address; empty where there is none."""
    status, _, raw = await fetch("GET", _safe(url))
    return _parsed(raw) if status == 200 else {}


def _parsed(raw: bytes) -> Json:
    with contextlib.suppress(ValueError, RecursionError):
        return as_object(json.loads(raw))
    return {}


def _why(found: Mapping[str, Any]) -> str:
    return one_line(str(found.get("error_description") or found.get("error") or "no reason given"), 200)


def _safe(url: object) -> str:
    """An address that codes and tokens may go to."""
    parts = urlsplit(str(url))
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")):
        return str(url)
    raise McpError(f"wants a login at {one_line(str(url), 100)}, which is not https")


def _challenge(header: str) -> dict[str, str]:
    return {name.lower(): value for name, value in re.findall(r'([A-Za-z_]+)="([^"]*)"', header)}


def _canonical(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _covers(resource: str, url: str) -> bool:
    theirs, ours = urlsplit(_canonical(resource)), urlsplit(_canonical(url))
    same = (theirs.scheme.lower(), theirs.netloc.lower()) == (ours.scheme.lower(), ours.netloc.lower())
    return same and f"{ours.path}/".startswith(f"{theirs.path}/")


def _method(service: _Service, secret: str) -> str:
    """How we show who we are at the token endpoint."""
    known = service.facts.get("token_endpoint_auth_methods_supported")
    known = known if isinstance(known, list) else []
    wanted = ["client_secret_basic", "client_secret_post"]
    wanted = [*wanted, "none"] if secret else ["none", *wanted]
    return next((method for method in wanted if method in known), "client_secret_basic" if secret or known else "none")


def _checked(given: Mapping[str, str], state: str, service: _Service) -> str:
    """The code of a redirect that is the answer to what we asked, from whom we asked."""
    if given.get("state") != state:
        raise LoginNeeded("the redirect does not belong to this login")
    issuer, told = given.get("iss"), service.facts.get("authorization_response_iss_parameter_supported") is True
    if (issuer is None and told) or (issuer is not None and issuer != service.issuer):
        raise LoginNeeded("the redirect is from another authorization server")
    if not given.get("code"):
        raise LoginNeeded(f"the login was refused: {_why(given)}")
    return given["code"]


@asynccontextmanager
async def _redirects() -> AsyncIterator[tuple[str, asyncio.Future[dict[str, str]]]]:
    """(address, what comes to it): a port of this machine that takes one redirect."""
    answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(
            OSError, ValueError, IndexError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            asked = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
            target = urlsplit(asked.split(b" ", 2)[1].decode("ascii", "replace"))
            found = target.path == "/callback"
            status = b"200 OK" if found else b"404 Not Found"
            head = f"content-type: text/html\r\nconnection: close\r\ncontent-length: {len(_PAGE)}\r\n\r\n"
            writer.write(b"HTTP/1.1 " + status + b"\r\n" + head.encode() + _PAGE)
            await writer.drain()
            if found and not answer.done():
                answer.set_result({name: values[0] for name, values in parse_qs(target.query).items()})
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/callback", answer
    finally:
        server.close()
