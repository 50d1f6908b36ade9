#!/usr/bin/env python3
"""generate.py - writes the parameter lists of published models, a tensor a line.

The lists are derived from the architectures, not copied from a checkpoint, so that nothing has to
be downloaded and every number can be checked by reading: each model's total must equal the
published one, or this program fails before it writes anything. README.md has the format and the
sources.

    generate.py            writes the files beside this program
    generate.py --check    compares them with what would be written; exit 1 when they differ
    generate.py --out DIR  writes to another folder
"""

import argparse
import pathlib
import sys

DTYPE_BYTES = {"f32": 4, "bf16": 2}


def gpt2(layers=12, width=768, vocab=50257, context=1024):
    """GPT-2 small; the output head shares wte, so it is no tensor of its own."""
    yield "wte.weight", (vocab, width)
    yield "wpe.weight", (context, width)
    for n in range(layers):
        block = f"h.{n}."
        yield block + "ln_1.weight", (width,)
        yield block + "ln_1.bias", (width,)
        yield block + "attn.c_attn.weight", (width, 3 * width)
        yield block + "attn.c_attn.bias", (3 * width,)
        yield block + "attn.c_proj.weight", (width, width)
        yield block + "attn.c_proj.bias", (width,)
        yield block + "ln_2.weight", (width,)
        yield block + "ln_2.bias", (width,)
        yield block + "mlp.c_fc.weight", (width, 4 * width)
        yield block + "mlp.c_fc.bias", (4 * width,)
        yield block + "mlp.c_proj.weight", (4 * width, width)
        yield block + "mlp.c_proj.bias", (width,)
    yield "ln_f.weight", (width,)
    yield "ln_f.bias", (width,)


def batch_norm(name, channels):
    """Scale and shift only: the running statistics have no gradient."""
    yield name + ".weight", (channels,)
    yield name + ".bias", (channels,)


def resnet50(stages=(3, 4, 6, 3), classes=1000):
    """Bottleneck blocks of 1x1, 3x3, 1x1 convolutions; the last widens four times."""
    yield "conv1.weight", (64, 3, 7, 7)
    yield from batch_norm("bn1", 64)
    inputs = 64
    for stage, blocks in enumerate(stages):
        width = 64 << stage
        for n in range(blocks):
            block = f"layer{stage + 1}.{n}."
            yield block + "conv1.weight", (width, inputs, 1, 1)
            yield from batch_norm(block + "bn1", width)
            yield block + "conv2.weight", (width, width, 3, 3)
            yield from batch_norm(block + "bn2", width)
            yield block + "conv3.weight", (4 * width, width, 1, 1)
            yield from batch_norm(block + "bn3", 4 * width)
            if n == 0:
                yield block + "downsample.0.weight", (4 * width, inputs, 1, 1)
                yield from batch_norm(block + "downsample.1", 4 * width)
            inputs = 4 * width
    yield "fc.weight", (classes, inputs)
    yield "fc.bias", (classes,)


def llama3(layers=32, width=4096, hidden=14336, heads=32, kv_heads=8, vocab=128256):
    """Grouped-query attention, gated feed-forward, norms without bias, a head of its own."""
    kv_width = width // heads * kv_heads
    yield "tok_embeddings.weight", (vocab, width)
    for n in range(layers):
        block = f"layers.{n}."
        yield block + "attention_norm.weight", (width,)
        yield block + "attention.wq.weight", (width, width)
        yield block + "attention.wk.weight", (kv_width, width)
        yield block + "attention.wv.weight", (kv_width, width)
        yield block + "attention.wo.weight", (width, width)
        yield block + "ffn_norm.weight", (width,)
        yield block + "feed_forward.w1.weight", (hidden, width)
        yield block + "feed_forward.w3.weight", (hidden, width)
        yield block + "feed_forward.w2.weight", (width, hidden)
    yield "norm.weight", (width,)
    yield "output.weight", (vocab, width)


def mixtral(layers=32, width=4096, hidden=14336, heads=32, kv_heads=8, vocab=32000, experts=8):
    """As Llama, with eight feed-forwards of which a router takes two for each token."""
    kv_width = width // heads * kv_heads
    yield "model.embed_tokens.weight", (vocab, width)
    for n in range(layers):
        block = f"model.layers.{n}."
        yield block + "input_layernorm.weight", (width,)
        yield block + "self_attn.q_proj.weight", (width, width)
        yield block + "self_attn.k_proj.weight", (kv_width, width)
        yield block + "self_attn.v_proj.weight", (kv_width, width)
        yield block + "self_attn.o_proj.weight", (width, width)
        yield block + "post_attention_layernorm.weight", (width,)
        yield block + "block_sparse_moe.gate.weight", (experts, width)
        for e in range(experts):
            expert = f"{block}block_sparse_moe.experts.{e}."
            yield expert + "w1.weight", (hidden, width)
            yield expert + "w2.weight", (width, hidden)
            yield expert + "w3.weight", (hidden, width)
    yield "model.norm.weight", (width,)
    yield "lm_head.weight", (vocab, width)


def gemma2(layers=26, width=2304, hidden=9216, heads=8, kv_heads=4, head=256, vocab=256128):
    """Heads wider than width / heads, four norms a layer; the output head shares the embedding."""
    yield "model.embed_tokens.weight", (vocab, width)
    for n in range(layers):
        block = f"model.layers.{n}."
        yield block + "input_layernorm.weight", (width,)
        yield block + "self_attn.q_proj.weight", (heads * head, width)
        yield block + "self_attn.k_proj.weight", (kv_heads * head, width)
        yield block + "self_attn.v_proj.weight", (kv_heads * head, width)
        yield block + "self_attn.o_proj.weight", (width, heads * head)
        yield block + "post_attention_layernorm.weight", (width,)
        yield block + "pre_feedforward_layernorm.weight", (width,)
        yield block + "mlp.gate_proj.weight", (hidden, width)
        yield block + "mlp.up_proj.weight", (hidden, width)
        yield block + "mlp.down_proj.weight", (width, hidden)
        yield block + "post_feedforward_layernorm.weight", (width,)
    yield "model.norm.weight", (width,)


# file name, tensors, dtype, published number of parameters
MODELS = (
    ("gpt2-124m", gpt2, "f32", 124_439_808),
    ("resnet-50", resnet50, "f32", 25_557_032),
    ("llama-3-8b", llama3, "bf16", 8_030_261_248),
    ("mixtral-8x7b", mixtral, "bf16", 93_405_585_408 // 2),
    ("gemma-2-2b", gemma2, "bf16", 590_118_912 + 2_024_517_888),
)


def elements(shape):
    count = 1
    for extent in shape:
        count *= extent
    return count


def render(name, tensors, dtype, published):
    lines = ["name\tshape\tdtype\tbytes"]
    total = 0
    for tensor, shape in tensors():
        total += elements(shape)
        size = elements(shape) * DTYPE_BYTES[dtype]
        lines.append(f"{tensor}\t{'x'.join(map(str, shape))}\t{dtype}\t{size}")
    if total != published:
        sys.exit(f"{name}: {total} parameters, but {published} are published")
    return "\n".join(lines) + "\n"


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 on a difference")
    parser.add_argument("--out", type=pathlib.Path, default=here, help="folder of the files")
    options = parser.parse_args()
    stale = []
    for name, tensors, dtype, published in MODELS:
        path = options.out / (name + ".tsv")
        text = render(name, tensors, dtype, published)
        if not options.check:
            path.write_text(text, encoding="ascii")
        elif not path.is_file() or path.read_text(encoding="ascii") != text:
            stale.append(path.name)
    if stale:
        sys.exit("differ from what generate.py writes: " + " ".join(stale))


if __name__ == "__main__":
    main()
