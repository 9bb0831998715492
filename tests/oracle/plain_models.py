"""Families that transformers has not, or not as plainly, written out in PyTorch: what train.py trains
in their place. Weights go by our names; everything else is the paper's.

    ncf     He et al. 2017, arXiv:1708.05031: NeuMF
    clip    Radford et al. 2021, arXiv:2103.00020: CLIPModel, each group of samples by itself
    mamba2  Dao and Gu 2024, arXiv:2405.21060: the recurrence, token by token
"""
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, conv1d, cross_entropy, embedding, linear, silu, softplus


def count(weights, pattern):
    n = 0
    while pattern.format(n) in weights:
        n += 1
    return n


def ncf_loss(w, x, _):
    users, items = x["users"].flatten(), x["items"].flatten()
    tower = torch.cat([w["tower.users.weight"][users], w["tower.items.weight"][items]], -1)
    for i in range(count(w, "tower.layers.{}.weight")):
        tower = linear(tower, w[f"tower.layers.{i}.weight"], w[f"tower.layers.{i}.bias"]).relu()
    factors = w["factors.users.weight"][users] * w["factors.items.weight"][items]
    logits = linear(torch.cat([factors, tower], -1), w["head.weight"], w["head.bias"])
    return binary_cross_entropy_with_logits(logits.flatten(), x["labels"].flatten().to(logits.dtype))


def rms_norm(x, weight, eps):
    return weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


def mamba2_mixer(u, w, eps, groups):
    (inner, heads), hidden = (w["out_proj.weight"].shape[1], len(w["A_log"])), u.shape[-1]
    read = (len(w["in_proj.weight"]) - 2 * inner - heads) // 2  # by all groups
    z, xbc, dt = linear(u, w["in_proj.weight"]).split([inner, inner + 2 * read, heads], -1)
    taps = w["conv.weight"]  # [channels, 1, 1, width]
    padded = torch.nn.functional.pad(xbc.transpose(1, 2), (taps.shape[-1] - 1, 0))
    xbc = silu(conv1d(padded, taps[:, 0], w["conv.bias"], groups=len(taps)).transpose(1, 2))
    x, b, c = xbc.split([inner, read, read], -1)
    b, c = (of.unflatten(-1, (groups, -1)).repeat_interleave(heads // groups, 2) for of in (b, c))
    states = b.shape[-1]
    x = x.unflatten(-1, (heads, -1))  # [batch, tokens, heads, channels]
    dt = softplus(dt + w["dt_bias"])
    decay = torch.exp(-dt * w["A_log"].exp())
    state = x.new_zeros(x.shape[0], heads, x.shape[-1], states)
    ys = []
    for t in range(u.shape[1]):
        new = (dt[:, t, :, None] * x[:, t])[..., None] * b[:, t, :, None]
        state = decay[:, t, :, None, None] * state + new
        ys.append((state * c[:, t, :, None]).sum(-1) + w["D"][:, None] * x[:, t])
    y = torch.stack(ys, 1).flatten(-2)
    y = (y * silu(z)).unflatten(-1, (groups, -1))  # each is normalised by itself
    y = rms_norm(y, w["norm.weight"].view(groups, -1), eps).flatten(-2)
    assert w["out_proj.weight"].shape[0] == hidden
    return linear(y, w["out_proj.weight"])


def under(w, path):
    return {name[len(path) + 1:]: value for name, value in w.items() if name.startswith(path + ".")}


def mamba2_loss(w, x, model):
    eps, table = model["norm_eps"], w["embedding.tokens.weight"]
    h = embedding(x["tokens"], table)
    for i in range(count(w, "layers.{}.norm.weight")):
        normed = rms_norm(h, w[f"layers.{i}.norm.weight"], eps)
        h = h + mamba2_mixer(normed, under(w, f"layers.{i}.mixer"), eps, model["groups"])
    logits = linear(rms_norm(h, w["final_norm.weight"], eps), w.get("lm_head.weight", table))
    return cross_entropy(logits.flatten(0, 1), x["labels"].flatten())


def layer_norm(x, w, module, eps):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], w[module + ".weight"], w[module + ".bias"], eps)


def dense(x, w, module):
    return linear(x, w[module + ".weight"], w[module + ".bias"])


def clip_tower(x, w, heads, causal, eps):
    for i in range(count(w, "layers.{}.norm_1.weight")):
        layer = under(w, f"layers.{i}")
        normed = layer_norm(x, layer, "norm_1", eps)
        q, k, v = (dense(normed, layer, f"attention.{part}").unflatten(-1, (heads, -1)).transpose(1, 2)
                   for part in "qkv")
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        if causal:
            hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(hidden, float("-inf"))
        x = x + dense((scores.softmax(-1) @ v).transpose(1, 2).flatten(2), layer, "attention.proj")
        inner = dense(layer_norm(x, layer, "norm_2", eps), layer, "mlp.fc1")
        x = x + dense(inner * torch.sigmoid(1.702 * inner), layer, "mlp.fc2")
    return x


def direction(x, w, eps):
    x = linear(layer_norm(x, w, "final_norm", eps), w["projection.weight"])
    return x / x.norm(dim=-1, keepdim=True)


def clip_loss(w, x, model):
    eps, text, image = model["norm_eps"], under(w, "text"), under(w, "image")
    h = embedding(x["tokens"], text["embedding.tokens.weight"]) + text["embedding.positions.weight"]
    h = direction(clip_tower(h, text, model["heads"], True, eps)[:, -1], text, eps)
    patches = image["embedding.patches.weight"]
    channels, size = patches.shape[1:3]
    pixels = x["images"].to(patches.dtype)
    side = round((pixels[0].numel() / channels) ** 0.5)
    v = torch.nn.functional.conv2d(pixels.view(len(pixels), channels, side, side), patches, stride=size)
    v = v.flatten(2).transpose(1, 2)
    v = torch.cat([image["embedding.class_token.weight"].expand(len(v), 1, -1), v], 1)
    v = layer_norm(v + image["embedding.positions.weight"], image, "embedding.norm", eps)
    v = direction(clip_tower(v, image, model["image_heads"], False, eps)[:, 0], image, eps)
    scale = (w["logit_scale"] + torch.tensor(1 / 0.07, dtype=torch.float64).log()).exp().to(v.dtype)
    group = model["contrast"]
    logits = scale * v.unflatten(0, (-1, group)) @ h.unflatten(0, (-1, group)).transpose(1, 2)
    own = torch.arange(group).expand(len(logits), -1)
    return (cross_entropy(logits.transpose(1, 2), own) + cross_entropy(logits, own)) / 2


LOSSES = {"clip": clip_loss, "ncf": ncf_loss, "mamba2": mamba2_loss}


class PlainModel:
    """Parameters by our names, and the loss of a batch."""

    def __init__(self, model, dtype):
        self.model = model
        self.weights = {name: torch.tensor(weight["values"], dtype=dtype).view(weight["shape"]).requires_grad_()
                        for name, weight in model["weights"].items()}

    def eval(self):
        return self

    def named_parameters(self, remove_duplicate=True):
        return self.weights.items()

    def parameters(self):
        return self.weights.values()

    def loss(self, x):
        return LOSSES[self.model["family"]](self.weights, x, self.model)


def ncf_shapes(users, items, factors, layers):
    shapes, width = {}, factors << layers
    for name, rows in (("users", users), ("items", items)):
        shapes[f"tower.{name}.weight"], shapes[f"factors.{name}.weight"] = [rows, width // 2], [rows, factors]
    for i in range(layers):
        shapes[f"tower.layers.{i}.weight"], shapes[f"tower.layers.{i}.bias"] = [width // 2, width], [width // 2]
        width //= 2
    return shapes | {"head.weight": [1, 2 * factors], "head.bias": [1]}


def main():
    """Parameters, and FLOP of a forward pass as torch counts them: what ncf_test.cpp has."""
    from torch.utils.flop_counter import FlopCounterMode
    for sizes in ((6040, 3706, 8, 3), (138493, 26744, 64, 3)):
        w = {name: torch.zeros(shape) for name, shape in ncf_shapes(*sizes).items()}
        ids = torch.zeros(2, dtype=torch.int64)
        with FlopCounterMode(display=False) as counter:
            ncf_loss(w, {"users": ids, "items": ids, "labels": ids}, {})
        print("ncf", sizes, sum(x.numel() for x in w.values()), counter.get_total_flops() / 2)


if __name__ == "__main__":
    main()
