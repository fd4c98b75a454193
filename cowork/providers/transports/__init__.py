"""How bytes travel: POST a body, give the data payloads of the answer, or raise ProviderError."""
