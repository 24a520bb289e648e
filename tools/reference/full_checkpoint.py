#!/usr/bin/env python3
"""Writes a checkpoint folder of the base sizes with seeded random weights, for measurements.

usage: full_checkpoint.py FOLDER [--family pi05|pi0] [--layers N] [--lerobot-names] [--seed N]

FOLDER gets model.safetensors (bf16, 6.7 GB for PI0.5), assets/arm/norm_stats.json and policy.json,
which names tokenizer.gguf beside it: any GGUF file with a vocabulary of at most 257152 pieces, say
  outrider make-model pi05 tiny.gguf && cp tiny.gguf FOLDER/tokenizer.gguf

--layers N leaves out all but the first N layers of every stack. Actions mean nothing; names, shapes
and cost are those of a real policy. Needs Python 3 and numpy; the weights are written as they are
made, one tensor at a time.
"""
import argparse
import json
import pathlib
import struct

import numpy as np

P = "paligemma_with_expert.paligemma."
VISION, LANGUAGE = P + "model.vision_tower.vision_model.", P + "model.language_model."
EXPERT = "paligemma_with_expert.gemma_expert.model."


def linear(out, name, n_out, n_in):
    out[name + ".weight"], out[name + ".bias"] = (n_out, n_in), (n_out,)


def vision(out, layers):
    out[VISION + "embeddings.patch_embedding.weight"] = (1152, 3, 14, 14)
    out[VISION + "embeddings.patch_embedding.bias"] = (1152,)
    out[VISION + "embeddings.position_embedding.weight"] = (256, 1152)
    norms = [VISION + "post_layernorm"]
    for i in range(min(layers, 27)):
        layer = VISION + f"encoder.layers.{i}."
        norms += [layer + "layer_norm1", layer + "layer_norm2"]
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            linear(out, layer + "self_attn." + part, 1152, 1152)
        linear(out, layer + "mlp.fc1", 4304, 1152)
        linear(out, layer + "mlp.fc2", 1152, 4304)
    for norm in norms:
        out[norm + ".weight"], out[norm + ".bias"] = (1152,), (1152,)
    linear(out, P + "model.multi_modal_projector.linear", 2048, 1152)


def stack(out, root, layers, width, mlp, adaptive):
    norms = [root + "norm"]
    for i in range(min(layers, 18)):
        layer = root + f"layers.{i}."
        norms += [layer + "input_layernorm", layer + "post_attention_layernorm"]
        out[layer + "self_attn.q_proj.weight"] = (2048, width)
        out[layer + "self_attn.k_proj.weight"] = out[layer + "self_attn.v_proj.weight"] = (256, width)
        out[layer + "self_attn.o_proj.weight"] = (width, 2048)
        out[layer + "mlp.gate_proj.weight"] = out[layer + "mlp.up_proj.weight"] = (mlp, width)
        out[layer + "mlp.down_proj.weight"] = (width, mlp)
    for norm in norms:
        if adaptive:
            linear(out, norm + ".dense", 3 * width, width)
        else:
            out[norm + ".weight"] = (width,)


def shapes(family, layers):
    out = {}
    vision(out, layers)
    out[LANGUAGE + "embed_tokens.weight"] = (257152, 2048)
    stack(out, LANGUAGE, layers, 2048, 16384, False)
    stack(out, EXPERT, layers, 1024, 4096, family == "pi05")
    linear(out, "action_in_proj", 1024, 32)
    linear(out, "action_out_proj", 32, 1024)
    if family == "pi05":
        linear(out, "time_mlp_in", 1024, 1024)
        linear(out, "time_mlp_out", 1024, 1024)
    else:
        linear(out, "state_proj", 1024, 32)
        linear(out, "action_time_mlp_in", 1024, 2048)
        linear(out, "action_time_mlp_out", 1024, 1024)
    return out


def bf16(values):
    return (values.astype(np.float32).view(np.uint32) >> 16).astype("<u2")


def write_weights(path, tensors, prefix, rng):
    header, at = {}, 0
    for name, shape in tensors.items():
        n = int(np.prod(shape)) * 2
        header[prefix + name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, shape in tensors.items():
            # Products keep their size; offsets from one and biases are small.
            scale = 1 / np.sqrt(np.prod(shape[1:])) if len(shape) > 1 else 0.1
            rest = int(np.prod(shape))
            while rest > 0:
                n = min(rest, 1 << 24)
                bf16(rng.standard_normal(n, np.float32) * scale).tofile(file)
                rest -= n


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("folder", type=pathlib.Path)
    words.add_argument("--family", choices=("pi05", "pi0"), default="pi05")
    words.add_argument("--layers", type=int, default=27)
    words.add_argument("--lerobot-names", action="store_true")
    words.add_argument("--seed", type=int, default=1)
    args = words.parse_args()
    (args.folder / "assets/arm").mkdir(parents=True, exist_ok=True)
    tensors = shapes(args.family, args.layers)
    write_weights(args.folder / "model.safetensors", tensors,
                  "model." if args.lerobot_names else "", np.random.default_rng(args.seed))
    one = {"mean": [0] * 7, "std": [1] * 7, "q01": [-1] * 7, "q99": [1] * 7}
    (args.folder / "assets/arm/norm_stats.json").write_text(
        json.dumps({"norm_stats": {"state": one, "actions": one}}))
    (args.folder / "policy.json").write_text(json.dumps({
        "cameras": [{"name": "top", "slot": "base_0_rgb"},
                    {"name": "wrist", "slot": "left_wrist_0_rgb"}],
        "state": {"fields": [{"name": "joints", "size": 7, "unit": "rad"}]},
        "actions": {"size": 7}, "horizon": 10, "tokenizer": "tokenizer.gguf"}, indent=1))
    print(f"{args.folder}: {len(tensors)} tensors")


if __name__ == "__main__":
    main()
