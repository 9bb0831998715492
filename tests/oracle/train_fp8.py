"""Trains a small GPT with PyTorch in FP8, for tests/real/oracle/pytorch_16_bit_test.cpp to compare with, and casts a
tensor for tests/real/kernels/fp8_test.cpp. By hand, with the Python and the real_test of train.py:

    oracle/bin/python tests/oracle/train_fp8.py build/release/tests/real_test tests/golden/training

Weights, activations and the update are those of train_16_bit.py, but in float32: so all rounding that matters is that of
the casts. The linear layers of the blocks are replaced: their operands are cast to float8 tensors of torch and back, and
multiplied in float32. Scales are made as the libraries make them from which the recipes are: torchao's tensorwise and rowwise, Transformer Engine's delayed and
blockwise, the OCP's Microscaling formats 1.0.
"""
import base64
import json
import math

import numpy as np
import torch
from transformers.pytorch_utils import Conv1D

import train_16_bit
from train import run_studies

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
STUDY = "gpt-exact-gelu"
STEPS = 2
HISTORY = 1024
EPS = 1e-12  # torchao.float8.float8_utils


def saturated(x, dtype):
    most = torch.finfo(dtype).max
    return x.clamp(-most, most).to(dtype)


def tensorwise(x, dtype):
    """torchao.float8: amax_to_scale() and to_fp8_saturated()."""
    amax = x.abs().max().double().clamp(min=EPS)
    multiplier = (torch.finfo(dtype).max / amax).float()
    return saturated(x.float() * multiplier, dtype), 1 / multiplier


def block_loop(x, rows, columns, multiplier_of):
    """A multiplier for each block of so many rows and columns, by plain loops; 0: of all."""
    rows, columns = rows or x.shape[0], columns or x.shape[1]
    cast = torch.empty(x.shape, dtype=E4M3)
    inverse = torch.empty((math.ceil(x.shape[0] / rows), math.ceil(x.shape[1] / columns)))
    for i in range(inverse.shape[0]):
        for k in range(inverse.shape[1]):
            at = (slice(i * rows, (i + 1) * rows), slice(k * columns, (k + 1) * columns))
            multiplier = multiplier_of(x[at].abs().max().item())
            cast[at] = saturated(x[at].float() * multiplier, E4M3)
            inverse[i, k] = 1 / multiplier
    return cast, inverse


def power_of_2(amax):
    """Scales rounded down to powers of 2: torchao's rowwise recipes, Transformer Engine's blocks on Hopper."""
    multiplier = np.float32(448) / np.float32(max(amax, EPS))
    return 2.0 ** math.floor(math.log2(multiplier))


def microscaling(amax):
    """OCP MX 1.0, 6.3: the scale is the largest power of 2 in the block over that of e4m3, 2^8."""
    return 2.0 ** (8 - math.floor(math.log2(max(amax, EPS))))


def expand(scale, shape, rows, columns):
    if scale.dim() == 0:
        return scale
    rows, columns = rows or shape[0], columns or shape[1]
    whole = torch.empty(shape)
    for i in range(scale.shape[0]):
        for k in range(scale.shape[1]):
            whole[i * rows:(i + 1) * rows, k * columns:(k + 1) * columns] = scale[i, k]
    return whole


# By recipe: which rows and columns share a scale where a product sums over columns; of weights.
BLOCKS = {"rowwise": ((1, 0), (1, 0)), "blockwise-128": ((1, 128), (128, 128)), "mx": ((1, 32), (1, 32))}


class Recipe:
    def __init__(self, name):
        self.name = name
        self.amax, self.history, self.scales = {}, {}, {}
        self.steps = 0

    def operand(self, x, along, key, gradient=False):
        """x as an operand whose numbers are added along its dim `along`; in float32, after the cast."""
        dtype = E5M2 if gradient else E4M3
        if self.name == "tensorwise":
            cast, inverse = tensorwise(x, dtype)
            return cast.float() * inverse
        if self.name == "delayed":
            self.amax[key] = max(self.amax.get(key, 0.0), x.abs().max().item())
            inverse = self.scales.get(key, (1.0, dtype))[0]
            self.scales.setdefault(key, (1.0, dtype))
            return saturated(x.float() * np.float32(1 / np.float32(inverse)), dtype).float() * np.float32(inverse)
        weight = key[1] == "w"
        rows, columns = BLOCKS[self.name][1 if weight else 0]
        if along == 0:
            rows, columns = columns, rows
        cast, inverse = block_loop(x, rows, columns, microscaling if self.name == "mx" else power_of_2)
        return cast.float() * expand(inverse, x.shape, rows, columns)

    def end_step(self):
        """transformer_engine.pytorch.fp8: the largest of the history over the type's largest number."""
        for key, (old, dtype) in self.scales.items():
            history = self.history.setdefault(key, [0.0] * HISTORY)
            history[self.steps % HISTORY] = self.amax[key]
            amax = max(history)
            self.scales[key] = (np.float32(amax) / np.float32(torch.finfo(dtype).max) if amax > 0 else old, dtype)
        self.amax.clear()
        self.steps += 1


class Fp8Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, bias, recipe, layer):  # w [out, in]
        ctx.recipe, ctx.layer = recipe, layer
        rows = x.reshape(-1, x.shape[-1])
        ctx.save_for_backward(rows, w)
        y = recipe.operand(rows, 1, (layer, "x")) @ recipe.operand(w, 1, (layer, "w")).T + bias.float()
        return y.to(x.dtype).reshape(*x.shape[:-1], w.shape[0])

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        rows = dy.reshape(-1, dy.shape[-1])
        of = ctx.recipe.operand
        along_out = of(rows, 1, (ctx.layer, "dy"), True)
        along_rows = of(rows, 0, (ctx.layer, "dy"), True)
        dx = along_out @ of(w, 0, (ctx.layer, "w"))
        dw = along_rows.T @ of(x, 0, (ctx.layer, "x"))
        return (dx.to(dy.dtype).reshape(*dy.shape[:-1], w.shape[1]), dw.to(w.dtype),
                rows.float().sum(0).to(dy.dtype), None, None)


def prepare(recipe):
    def replace(model):
        for name, module in model.named_modules():
            if isinstance(module, Conv1D):
                module.forward = lambda x, of=module, layer=name: Fp8Linear.apply(
                    x, of.weight.T, of.bias, recipe, layer)
        return recipe.end_step
    return replace


def train_study(name, folder, study, out):
    if name != STUDY:
        return
    kind = json.load(open(f"{folder}/theirs/config.json"))["architectures"][0]
    # A number that is cast the other way moves a scale, and that all numbers: later steps drift apart.
    study = dict(study, steps=STEPS)
    for recipe in ("tensorwise", "delayed", *BLOCKS):
        trainings = {}
        for training, rule in sorted(study["trainings"].items()):
            result = trainings[training] = train_16_bit.train(
                folder, study, rule, torch.float32, prepare(Recipe(recipe)))
            print(f"{recipe:20} {training:6} loss {result['losses'][0]:.5f} to {result['losses'][-1]:.5f}")
        train_16_bit.write(f"{out}/{name}.fp8-{recipe}.json", f"{kind} in FP8", trainings, "train_fp8.py")
    write_casts(f"{out}/../fp8_casts.json")


def write_casts(path):
    """A tensor of which blocks are cut off at the end, with a row of zeros, in bfloat16."""
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(24, 136, generator=generator) * torch.exp(2 * torch.randn(24, 1, generator=generator))
    x[7] = 0
    x = x.to(torch.bfloat16)

    def text(tensor):
        return base64.b64encode(tensor.contiguous().view(torch.uint8).numpy().tobytes()).decode()

    casts = []
    for dtype, word in ((E4M3, "e4m3"), (E5M2, "e5m2")):
        cast, inverse = tensorwise(x, dtype)
        casts.append({"type": word, "rows": 0, "columns": 0, "cast": text(cast), "scale": [inverse.item()]})
    for rows, columns, rule in ((1, 0, power_of_2), (0, 1, power_of_2), (1, 128, power_of_2), (128, 1, power_of_2),
                                (128, 128, power_of_2), (1, 32, microscaling), (32, 1, microscaling)):
        cast, inverse = block_loop(x, rows, columns, rule)
        casts.append({"type": "e4m3", "rows": rows, "columns": columns, "e8m0": rule is microscaling,
                      "cast": text(cast), "scale": inverse.reshape(-1).tolist()})
    with open(path, "w") as out:
        json.dump({"source": f"torch {torch.__version__.split('+')[0]}; by tests/oracle/train_fp8.py",
                   "shape": list(x.shape), "x": text(x), "casts": casts}, out)
        out.write("\n")


if __name__ == "__main__":
    run_studies(__doc__, train_study)
