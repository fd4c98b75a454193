"""The clouds' clients, from the settings to the request as it goes out: signed, addressed, with the cloud's key."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from cowork.config import load
from cowork.core.errors import ProviderError
from cowork.providers.open import open_provider
from tests.wire.network import RawServer, answer, read_request
from tests.wire.talk import ask

SECRETS = {"AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": "very-secret", "AWS_REGION": "eu-west-1"}
VERTEX = {"CLOUD_ML_REGION": "us-east5", "ANTHROPIC_VERTEX_PROJECT_ID": "my-project", "TOKEN": "google-token"}
CLOUDS = [
    (
        'client = "bedrock"\nmodel = "eu.anthropic.claude-sonnet-4-5-v1:0"',
        SECRETS,
        "/model/eu.anthropic.claude-sonnet-4-5-v1:0/invoke-with-response-stream",
        "authorization: aws4-hmac-sha256 credential=akiatest/",
    ),
    (
        'client = "vertex"\nmodel = "claude-sonnet-5-5"\napi_key_env = "TOKEN"',
        VERTEX,
        "/projects/my-project/locations/us-east5/publishers/anthropic/models/claude-sonnet-5-5:streamRawPredict",
        "authorization: bearer google-token",
    ),
    (
        'client = "azure"\nprovider = "anthropic"\nmodel = "claude-sonnet-5-5"\napi_key_env = "TOKEN"',
        {"TOKEN": "azure-token"},
        "/v1/messages",
        "api-key: azure-token",
    ),
    (
        'client = "azure"\nprovider = "openai-chat"\nmodel = "my-deployment"\napi_key_env = "TOKEN"',
        {"TOKEN": "azure-token", "OPENAI_API_VERSION": "2025-04-01-preview"},
        "/openai/deployments/my-deployment/chat/completions?api-version=2025-04-01-preview",
        "api-key: azure-token",
    ),
]


@pytest.mark.parametrize(("settings", "environ", "path", "proof"), CLOUDS, ids=["bedrock", "vertex", "azure", "gpt"])
async def test_a_cloud_gets_the_request_its_client_signs(
    settings: str, environ: dict[str, str], path: str, proof: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "bedrock" in settings:
        pytest.importorskip("boto3", reason="pip install 'anthropic[bedrock]'")
    seen: list[str] = []

    def refuse(peer: socket.socket) -> None:
        seen.append(read_request(peer).decode("latin-1"))
        peer.sendall(answer(b'{"message": "not you"}', "content-type: application/json", status="403 Forbidden"))

    with RawServer(refuse) as server:
        file = tmp_path / ".config/cowork/config.toml"
        file.parent.mkdir(parents=True)
        file.write_text(f'[models.main]\nbase_url = "http://127.0.0.1:{server.port}"\n{settings}\n')
        # The usual key of the vendor must not go to a cloud.
        environ = environ | {"HOME": str(tmp_path), "ANTHROPIC_API_KEY": "not-for-clouds", "OPENAI_API_KEY": "nor-this"}
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        spec = load(cwd=tmp_path, environ=environ).model("main")
        provider = open_provider(spec)
        with pytest.raises(ProviderError) as caught:
            await ask(provider)
        await provider.aclose()
    assert caught.value.kind == "auth"
    head = seen[0].partition("\r\n\r\n")[0]
    assert (
        head.split(" ")[1]
        .removeprefix("/anthropic")
        .removeprefix("/v1/projects")
        .endswith(path.removeprefix("/projects"))
    )
    assert proof in head.lower()
    assert "not-for-clouds" not in seen[0]
    assert "nor-this" not in seen[0]


def test_a_cloud_has_its_own_names_for_models(tmp_path: Path) -> None:
    file = tmp_path / ".config/cowork/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('[models.main]\nclient = "bedrock"\n')
    config = load(cwd=tmp_path, environ={"HOME": str(tmp_path)})
    with pytest.raises(Exception, match="no model is named"):
        config.model("main")
