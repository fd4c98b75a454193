"""Makes a tiny llama of random weights and serves it with llama.cpp's server until standard input ends.

Run by a Python that has `xllamacpp` and `gguf`: `python llama_server.py MODEL.gguf` prints the address.
"""

from __future__ import annotations

import sys
from typing import Any

import gguf
import numpy
import xllamacpp

WIDTH, LAYERS, HEADS, FEED = 64, 2, 4, 128


def make(path: str) -> None:
    """Write the model: bytes and printable ASCII as tokens, and weights from a fixed seed."""
    coded = [f"<0x{n:02X}>".encode() for n in range(256)]
    tokens = [b"<unk>", b"<s>", b"</s>", *coded, *(bytes([n]) for n in range(32, 127))]
    kinds = [2, 3, 3, *[6] * 256, *[1] * 95]
    out: Any = gguf.GGUFWriter(path, "llama")
    out.add_context_length(32768)
    out.add_embedding_length(WIDTH)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(FEED)
    out.add_head_count(HEADS)
    out.add_head_count_kv(HEADS)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_rope_dimension_count(WIDTH // HEADS)
    out.add_tokenizer_model("llama")
    out.add_token_list(tokens)
    out.add_token_scores([0.0] * len(tokens))
    out.add_token_types(kinds)
    out.add_bos_token_id(1)
    out.add_eos_token_id(2)
    out.add_unk_token_id(0)
    out.add_chat_template("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:")
    random = numpy.random.default_rng(1)

    def weights(name: str, *shape: int) -> None:
        out.add_tensor(name, random.standard_normal(shape, dtype=numpy.float32) * 0.2)

    weights("token_embd.weight", len(tokens), WIDTH)
    weights("output.weight", len(tokens), WIDTH)
    out.add_tensor("output_norm.weight", numpy.ones(WIDTH, dtype=numpy.float32))
    for n in range(LAYERS):
        for part in ("attn_norm", "ffn_norm"):
            out.add_tensor(f"blk.{n}.{part}.weight", numpy.ones(WIDTH, dtype=numpy.float32))
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            weights(f"blk.{n}.{part}.weight", WIDTH, WIDTH)
        weights(f"blk.{n}.ffn_gate.weight", FEED, WIDTH)
        weights(f"blk.{n}.ffn_up.weight", FEED, WIDTH)
        weights(f"blk.{n}.ffn_down.weight", WIDTH, FEED)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


if __name__ == "__main__":
    make(sys.argv[1])
    params: Any = xllamacpp.CommonParams()
    params.model.path = sys.argv[1]
    params.hostname, params.port = "127.0.0.1", 0
    params.n_ctx, params.n_parallel, params.warmup, params.use_jinja = 4_096, 1, False, True
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()
