#!/usr/bin/env python3
"""A readable float64 model of PI0, PI0.5 and PI0-FAST; writes cases for `outrider parity`.

usage: policy_reference.py FOLDER OUT --tokens IDS.json --image CAMERA=PICTURE.npy ...
                           --state CSV [--prompt TEXT] [--noise-seed N] [--tolerance X]

FOLDER   checkpoint folder with policy.json (statistics below assets/, or none as the policy says)
OUT      folder of the new case: meta.json, images.u8, noise.bin and the arrays of every stage
IDS      what `outrider inspect FOLDER --tokens TEXT --state CSV --json` prints: token ids are an
         input here, so that this program needs no tokenizer; the case still compares them
PICTURE  uint8 array [height, width, 3], all of one size; one --image per camera in slot order

Then: outrider parity FOLDER OUT. Needs Python 3 and numpy. Slow and simple on purpose: one line of
the formulas in docs/reference/policy.md and docs/design/numerics.md is one line here.
"""
import argparse
import json
import math
import pathlib
import struct

import numpy as np

F = np.float64
PALIGEMMA = "paligemma_with_expert.paligemma."
VISION = PALIGEMMA + "model.vision_tower.vision_model."
PROJECTOR = PALIGEMMA + "model.multi_modal_projector.linear"
LANGUAGE = PALIGEMMA + "model.language_model."
EXPERT = "paligemma_with_expert.gemma_expert.model."


# ---- files --------------------------------------------------------------------------------------

def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    out = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        first, last = (8 + n + offset for offset in entry["data_offsets"])
        raw = data[first:last]
        if entry["dtype"] == "BF16":
            values = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(raw, {"F32": "<f4", "F16": "<f2", "F64": "<f8"}[entry["dtype"]])
        out[name] = values.astype(F).reshape(entry["shape"])
    return out


def read_weights(folder):
    """Tensors by openpi's names, whatever layout they came in."""
    index = folder / "model.safetensors.index.json"
    if index.exists():
        files = sorted(set(json.loads(index.read_text())["weight_map"].values()))
    else:
        files = ["model.safetensors"]
    weights = {}
    for name in files:
        weights.update(read_safetensors(folder / name))
    if any("model." + name in weights for name in ("action_in_proj.weight",
                                                   LANGUAGE + "norm.weight")):
        weights = {name.removeprefix("model."): value for name, value in weights.items()}
    if LANGUAGE + "embed_tokens.weight" not in weights:
        weights[LANGUAGE + "embed_tokens.weight"] = weights[PALIGEMMA + "lm_head.weight"]
    if "time_mlp_in.weight" not in weights and any(n.endswith(".dense.weight") for n in weights):
        for part in ("in.weight", "in.bias", "out.weight", "out.bias"):
            weights["time_mlp_" + part] = weights["action_time_mlp_" + part]
    return weights


# ---- pictures -----------------------------------------------------------------------------------

def shrink_rows(picture, n_out):
    """One pass of the triangle filter along the first axis, in the integers of PIL."""
    n_in = len(picture)
    if n_in == n_out:
        return picture
    scale, out = n_in / n_out, []
    support = max(scale, 1.0)
    for o in range(n_out):
        centre = (o + 0.5) * scale
        low = max(int(centre - support + 0.5), 0)
        high = min(int(centre + support + 0.5), n_in)
        weights = np.array([max(0.0, 1 - abs((x - centre + 0.5) / support))
                            for x in range(low, high)])
        fixed = (weights / weights.sum() * (1 << 22) + 0.5).astype(np.int64)
        sums = np.tensordot(fixed, picture[low:high].astype(np.int64), 1)
        out.append(np.clip(((1 << 21) + sums) >> 22, 0, 255))
    return np.array(out, np.uint8)


def fit(picture, size):
    """[h, w, 3] -> [size, size, 3] with black bars; a picture of that size is left alone."""
    h, w = picture.shape[:2]
    if (h, w) == (size, size):
        return picture
    ratio = max(w / size, h / size)
    inner_h, inner_w = max(1, int(h / ratio)), max(1, int(w / ratio))
    small = shrink_rows(picture.transpose(1, 0, 2), inner_w).transpose(1, 0, 2)
    small = shrink_rows(small, inner_h)
    out = np.zeros((size, size, 3), np.uint8)
    top, left = (size - inner_h) // 2, (size - inner_w) // 2
    out[top:top + inner_h, left:left + inner_w] = small
    return out


# ---- small functions ----------------------------------------------------------------------------

def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def silu(x):
    return x / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def split_heads(x, n_heads):  # [tokens, heads * d] -> [heads, tokens, d]
    return x.reshape(len(x), n_heads, -1).transpose(1, 0, 2)


def rotate(x, positions):  # [heads, tokens, d]; pairs are (i, i + d / 2)
    d = x.shape[-1]
    angle = positions[:, None] / 10000 ** (np.arange(0, d, 2) / d)
    a, b = x[..., :d // 2], x[..., d // 2:]
    return np.concatenate(
        [a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)


# ---- the model ----------------------------------------------------------------------------------

class Policy:
    def __init__(self, weights, head_dim, vision_heads, steps):
        self.w, self.d, self.vision_heads, self.steps = weights, head_dim, vision_heads, steps
        self.pi05 = any(name.endswith(".dense.weight") for name in weights)
        self.fast = not any("gemma_expert." in name or name == "action_in_proj.weight"
                            for name in weights)
        self.embedding = weights[LANGUAGE + "embed_tokens.weight"]
        self.head = weights.get(PALIGEMMA + "lm_head.weight", self.embedding)
        self.taps = {}

    def linear(self, x, name):
        return x @ self.w[name + ".weight"].T + self.w.get(name + ".bias", 0)

    def layers(self, pattern):
        n = 0
        while pattern % n in self.w:
            n += 1
        return n

    def layer_norm(self, x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
        return x * self.w[name + ".weight"] + self.w[name + ".bias"]

    def see(self, picture):
        """[size, size, 3] in [-1, 1] -> image tokens"""
        kernel = self.w[VISION + "embeddings.patch_embedding.weight"]
        p = kernel.shape[2]
        side = len(picture) // p
        patches = picture.reshape(side, p, side, p, 3).transpose(0, 2, 4, 1, 3)
        x = patches.reshape(side * side, -1) @ kernel.reshape(len(kernel), -1).T
        x = x + self.w[VISION + "embeddings.patch_embedding.bias"]
        x = x + self.w[VISION + "embeddings.position_embedding.weight"]
        for i in range(self.layers(VISION + "encoder.layers.%d.self_attn.q_proj.weight")):
            layer = VISION + f"encoder.layers.{i}."
            y = self.layer_norm(x, layer + "layer_norm1")
            q, k, v = (split_heads(self.linear(y, layer + f"self_attn.{n}_proj"),
                                   self.vision_heads) for n in "qkv")
            seen = softmax(q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])) @ v
            x = x + self.linear(seen.transpose(1, 0, 2).reshape(x.shape),
                                layer + "self_attn.out_proj")
            y = self.layer_norm(x, layer + "layer_norm2")
            x = x + self.linear(gelu(self.linear(y, layer + "mlp.fc1")), layer + "mlp.fc2")
        return self.linear(self.layer_norm(x, VISION + "post_layernorm"), PROJECTOR)

    def norm(self, x, name, cond):
        """-> normed rows, gate of the branch behind"""
        n = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
        if cond is None:
            return n * (1 + self.w[name + ".weight"]), 1
        scale, shift, gate = np.split(self.linear(cond, name + ".dense"), 3, -1)
        return n * (1 + scale) + shift, gate

    def answer(self, pictures, ids, most, ends, gap):
        """PI0-FAST -> the ids it writes, likeliest first, until one of `ends` or `most` of them.
        gap: positions left out behind the prefix"""
        prefix = self.prefix(pictures, ids)
        n = len(prefix)
        out, cache = self.stack(prefix, LANGUAGE, np.arange(n), np.ones((n, n), bool), None, None)
        self.tap_cache(cache)
        row, answer = out[-1:], []
        while True:
            normed, _ = self.norm(row, LANGUAGE + "norm", None)
            logits = normed @ self.head.T
            self.taps[f"logits_{len(answer)}"] = logits
            answer.append(int(np.argmax(logits)))
            if answer[-1] in ends or len(answer) == most:
                return answer
            # openpi: the first token stands at position n + 1, one is skipped. LeRobot: at n.
            position = np.array([n + gap + len(answer) - 1])
            row = self.embedding[answer[-1:]] * math.sqrt(self.embedding.shape[1])
            row, new = self.stack(row, LANGUAGE, position,
                                  np.ones((1, len(cache[0][0][0]) + 1), bool), cache, None)
            cache = [tuple(np.concatenate(both, 1) for both in zip(old, fresh))
                     for old, fresh in zip(cache, new)]

    def prefix(self, pictures, ids):
        tokens = []
        for i, picture in enumerate(pictures):
            self.taps[f"pixels_{i}"] = picture
            tokens.append(self.see(picture))
            self.taps[f"image_embd_{i}"] = tokens[-1]
        tokens.append(self.embedding[ids] * math.sqrt(self.embedding.shape[1]))
        prefix = np.concatenate(tokens)
        self.taps["tokens"], self.taps["prefix_embd"] = np.asarray(ids), prefix
        return prefix

    def tap_cache(self, cache):
        for name, part in (("prefix_k", 0), ("prefix_v", 1)):
            n = cache[0][part].shape[1]
            self.taps[name + "_0"] = cache[0][part].transpose(1, 0, 2).reshape(n, -1)

    def stack(self, x, root, positions, visible, before, cond):
        """before: keys and values of every layer to put in front, or None. visible: [rows, keys]"""
        left = []
        for i in range(self.layers(root + "layers.%d.self_attn.q_proj.weight")):
            layer = root + f"layers.{i}."
            y, gate = self.norm(x, layer + "input_layernorm", cond)
            q, k, v = (self.linear(y, layer + f"self_attn.{n}_proj") for n in "qkv")
            q = rotate(split_heads(q, q.shape[1] // self.d), positions)
            k = rotate(split_heads(k, k.shape[1] // self.d), positions)
            v = split_heads(v, v.shape[1] // self.d)
            left.append((k, v))
            if before is not None:
                k, v = (np.concatenate([old, new], 1) for old, new in zip(before[i], (k, v)))
            group = len(q) // len(k)
            score = q @ np.repeat(k, group, 0).transpose(0, 2, 1) / math.sqrt(self.d)
            seen = softmax(np.where(visible, score, -1e300)) @ np.repeat(v, group, 0)
            seen = seen.transpose(1, 0, 2).reshape(len(x), -1)
            x = x + self.linear(seen, layer + "self_attn.o_proj") * gate
            y, gate = self.norm(x, layer + "post_attention_layernorm", cond)
            up = gelu(self.linear(y, layer + "mlp.gate_proj")) * self.linear(y, layer + "mlp.up_proj")
            x = x + self.linear(up, layer + "mlp.down_proj") * gate
        return x, left

    def time_embedding(self, t):
        width = len(self.w["action_in_proj.weight"])
        period = 4e-3 * (4 / 4e-3) ** np.linspace(0, 1, width // 2)
        angle = t * 2 * math.pi / period
        return np.concatenate([np.sin(angle), np.cos(angle)])

    def run(self, pictures, ids, state, noise):
        taps = self.taps
        prefix = self.prefix(pictures, ids)
        n = len(prefix)
        _, cache = self.stack(prefix, LANGUAGE, np.arange(n), np.ones((n, n), bool), None, None)
        self.tap_cache(cache)
        # The flow: time in float32, as the reference counts it.
        x, t, dt = noise.astype(F), np.float32(1), np.float32(-1 / self.steps)
        for k in range(self.steps):
            velocity = self.velocity(x, float(t), state, n, cache)
            x = x - velocity / self.steps
            t = np.float32(t + dt)
            taps[f"velocity_{k}"], taps[f"x_{k}"] = velocity, x
        return x

    def velocity(self, x, t, state, n_prefix, cache):
        time = self.time_embedding(t)
        rows, cond = self.linear(x, "action_in_proj"), None
        if self.pi05:
            cond = silu(self.linear(silu(self.linear(time, "time_mlp_in")), "time_mlp_out"))
        else:
            both = np.concatenate([rows, np.broadcast_to(time, rows.shape)], -1)
            rows = self.linear(silu(self.linear(both, "action_time_mlp_in")), "action_time_mlp_out")
            rows = np.concatenate([self.linear(state, "state_proj")[None], rows])
        n = len(rows)
        visible = np.ones((n, n_prefix + n), bool)
        if not self.pi05:
            visible[0, n_prefix + 1:] = False  # the state token does not see the actions
        out, _ = self.stack(rows, EXPERT, n_prefix + np.arange(n), visible, cache, cond)
        out, _ = self.norm(out[-len(x):], EXPERT + "norm", cond)
        return self.linear(out, "action_out_proj")


# ---- action tokens of PI0-FAST ------------------------------------------------------------------

def byte_letters():
    """letter of a byte-level vocabulary -> byte"""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {chr(b): b for b in plain}
    for n, b in enumerate(b for b in range(256) if b not in plain):
        letters[chr(256 + n)] = b
    return letters


def read_chunk(folder, answer, n_ids, rows, columns):
    """ids -> coefficients [rows, columns], chunk. For well-formed answers: of the frame around the
    action ("Action: ", "|", end) this program only knows that none of it is an action id."""
    tokenizer = json.loads((folder / "fast/tokenizer.json").read_text())
    rules = json.loads((folder / "fast/processor_config.json").read_text())
    by_id = {v: k for k, v in tokenizer["model"]["vocab"].items()}
    letters = byte_letters()
    last = n_ids - 1 - 128
    raw = b"".join(bytes(letters[c] for c in by_id[last - i])
                   for i in answer if last - i in by_id)
    coefficients = np.array([ord(c) + rules["min_token"] for c in raw.decode()], F)
    coefficients = coefficients.reshape(rows, columns)
    k, t = np.meshgrid(np.arange(rows), np.arange(rows))
    basis = np.where(k == 0, math.sqrt(1 / rows),
                     math.sqrt(2 / rows) * np.cos(math.pi * k * (2 * t + 1) / (2 * rows)))
    return coefficients, basis @ (coefficients / rules["scale"])


# ---- units --------------------------------------------------------------------------------------

def read_statistics(folder, policy):
    if "statistics" in policy:
        return policy["statistics"]
    files = sorted((folder / "assets").rglob("norm_stats.json"))
    return json.loads(files[0].read_text())["norm_stats"] if files else None


class Units:
    """openpi's two forms, both ways."""

    def __init__(self, statistics, form):
        self.form = form
        if form != "none":
            a, b = ("mean", "std") if form == "z_score" else ("q01", "q99")
            self.a, self.b = np.array(statistics[a], F), np.array(statistics[b], F)

    def to_model(self, x):
        if self.form == "none":
            return x
        a, b = self.a[:len(x)], self.b[:len(x)]
        return (x - a) / (b + 1e-6) if self.form == "z_score" else (x - a) / (b - a + 1e-6) * 2 - 1

    def to_robot(self, y):
        if self.form == "none":
            return y
        n = len(self.a)
        head, a, b = y[..., :n], self.a, self.b
        if self.form == "z_score":
            return np.concatenate([head * (b + 1e-6) + a, y[..., n:] * (1 + 1e-6)], -1)
        return np.concatenate([(head + 1) / 2 * (b - a + 1e-6) + a, y[..., n:]], -1)


def delta_mask(policy, n):
    runs = policy["actions"].get("delta_mask", [])
    if runs and not isinstance(runs[0], bool):
        runs = [run > 0 for run in runs for _ in range(abs(run))]
    return np.array(runs + [False] * (n - len(runs)), bool)


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("folder", type=pathlib.Path)
    words.add_argument("out", type=pathlib.Path)
    words.add_argument("--tokens", required=True, type=pathlib.Path)
    words.add_argument("--image", required=True, action="append")
    words.add_argument("--state", required=True)
    words.add_argument("--prompt", required=True)
    words.add_argument("--noise-seed", type=int, default=1)
    words.add_argument("--tolerance", type=float, default=2e-4)
    args = words.parse_args()

    policy = json.loads((args.folder / "policy.json").read_text())
    weights = read_weights(args.folder)
    sizes = policy.get("model", {})
    model = Policy(weights, sizes.get("head_dim", 256), sizes.get("vision_heads", 16),
                   policy.get("num_steps") or 10)
    form = policy.get("normalisation", {})
    usual = "quantile" if model.pi05 or model.fast else "z_score"
    statistics = read_statistics(args.folder, policy) or {}
    state_units = Units(statistics.get("state"), form.get("state", usual))
    action_units = Units(statistics.get("actions"), form.get("actions", usual))

    cameras = [word.split("=", 1)[0] for word in args.image]
    pictures = [np.load(word.split("=", 1)[1]) for word in args.image]
    state = np.array([np.float32(v) for v in args.state.split(",")], F)
    normalised = state_units.to_model(state)
    width = (sizes.get("action_dim") or policy["actions"]["size"] if model.fast
             else weights["action_in_proj.weight"].shape[1])
    padded = np.zeros(width)
    padded[:min(width, len(normalised))] = normalised[:width]
    horizon = policy.get("horizon") or 50
    noise = np.random.default_rng(args.noise_seed).standard_normal((horizon, width))
    noise = noise.astype(np.float32)
    ids = json.loads(args.tokens.read_text())["ids"]

    patches = int(math.sqrt(len(weights[VISION + "embeddings.position_embedding.weight"])))
    size = patches * weights[VISION + "embeddings.patch_embedding.weight"].shape[3]
    scaled = [fit(p, size).astype(F) / 255 * 2 - 1 for p in pictures]
    if model.fast:
        lerobot = policy.get("prompt", {}).get("rule") == "lerobot"
        # openpi: all three slots are seen; one without a camera is black. LeRobot: what is there.
        slots = ["base_0_rgb", "base_1_rgb", "wrist_0_rgb"]
        at = {c["name"]: slots.index(c["slot"]) for c in policy["cameras"]}
        seen = [np.full_like(scaled[0], -1.0) for _ in slots]
        for camera, picture in zip(cameras, scaled):
            seen[at[camera]] = picture
        if lerobot:
            seen = [seen[at[camera]] for camera in sorted(cameras, key=at.get)]
        most = policy.get("action_tokens", {}).get("most") or 256
        ends = json.loads(args.tokens.read_text())["answer_ends"]
        answer = model.answer(seen, ids, most, ends, 0 if lerobot else 1)
        coefficients, chunk = read_chunk(args.folder, answer, len(model.embedding), horizon,
                                         width)
        model.taps["answer"], model.taps["coefficients"] = np.asarray(answer), coefficients
    else:
        chunk = model.run(scaled, ids, padded, noise)
    actions = action_units.to_robot(chunk)
    mask = delta_mask(policy, width)
    back = state_units.to_robot(np.float32(padded).astype(F))
    actions = (actions + np.where(mask, back, 0))[:, :policy["actions"]["size"]]

    args.out.mkdir(parents=True, exist_ok=True)
    height, side = pictures[0].shape[:2]
    meta = {"kind": "policy", "cameras": cameras, "width": side, "height": height,
            "prompt": args.prompt, "state": [float(v) for v in state], "tolerance": args.tolerance,
            "source": "tools/reference/policy_reference.py, float64"}
    (args.out / "meta.json").write_text(json.dumps(meta, indent=1))
    (args.out / "images.u8").write_bytes(b"".join(p.tobytes() for p in pictures))
    if not model.fast:
        noise.tofile(args.out / "noise.bin")
    for name, values in {**model.taps, "actions": actions,
                         "normalised_state": normalised}.items():
        np.asarray(values, np.float32).tofile(args.out / f"{name}.bin")
    print(f"{args.out}: {len(model.taps) + 2} stages")


if __name__ == "__main__":
    main()
