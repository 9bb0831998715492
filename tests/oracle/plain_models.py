"""Families that transformers has not, or not as plainly, written out in PyTorch: what train.py trains
in their place. Weights go by our names; everything else is the paper's.

    ncf     He et al. 2017, arXiv:1708.05031: NeuMF
"""
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, linear


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


LOSSES = {"ncf": ncf_loss}


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
