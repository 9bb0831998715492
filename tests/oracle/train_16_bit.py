"""Trains small models with PyTorch in bf16 and fp16, for tests/real/oracle/pytorch_16_bit_test.cpp to compare with. By
hand, with the Python and the real_test of train.py:

    oracle/bin/python tests/oracle/train_16_bit.py build/release/tests/real_test tests/golden/training

As it is usually done: weights and activations in 16 bits, an fp32 copy of the weights that torch.optim updates and that
the weights are rounded from after every step, gradients of microbatches added up in fp32, the loss computed from
fp32 logits; with fp16 torch's GradScaler. Where PyTorch trained each tensor to is kept as projections onto vectors
of signs, from which the distance of any other end is estimated.
"""
import json

import numpy as np
import torch
import transformers as tf

from learning_rates import make_schedule
from train import load_model, loss_of, make_optimizer, run_studies, short

PROJECTIONS = 16
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def signs(size, k):
    """Signs of vector k: bit 0 of MurmurHash3's finaliser of the component's number."""
    h = np.arange(size, dtype=np.uint64) * PROJECTIONS + k
    mask = np.uint64(0xffffffff)
    h ^= h >> np.uint64(16)
    h = (h * np.uint64(0x85ebca6b)) & mask
    h ^= h >> np.uint64(13)
    h = (h * np.uint64(0xc2b2ae35)) & mask
    h ^= h >> np.uint64(16)
    return np.where(h & np.uint64(1), -1.0, 1.0)


def moved(model, initial, names):
    """By our names and in our layout: how far from the initial weights, and that on the vectors of signs."""
    theirs = dict(model.named_parameters(remove_duplicate=False))
    result = {}
    for name in names:
        if name["ours"] in result:
            continue
        way = theirs[name["theirs"]].detach().double() - initial[name["theirs"]]
        way = way.T if name["transposed"] else way
        values = way[name["first_row"]:name["first_row"] + name["rows"]].contiguous().numpy().reshape(-1)
        result[name["ours"]] = [float(np.sqrt(values @ values))] + [
            float(values @ signs(values.size, k)) for k in range(PROJECTIONS)]
    return result


def train(folder, study, rule, dtype, prepare=None):
    """`prepare`, if any, changes the model that computes, and returns what follows every step."""
    master = load_model(f"{folder}/theirs", torch.float32).eval()  # no dropout
    model = load_model(f"{folder}/theirs", torch.float32).eval()
    for parameter in model.parameters():  # and not the angles of rotary embeddings
        parameter.data = parameter.data.to(dtype)
    behind_step = prepare(model) if prepare else lambda: None
    pairs = list(zip(model.parameters(), master.parameters()))
    initial = {name: p.detach().double().clone()
               for name, p in master.named_parameters(remove_duplicate=False)}
    optimizer = make_optimizer(master, rule)
    schedule = make_schedule(optimizer, rule["lr"], study["steps"])
    scaler = torch.amp.GradScaler("cpu", enabled=dtype == torch.float16)
    batch, micro = study["global_batch"], study["microbatch"]
    inputs = {name: torch.tensor(values) for name, values in study["inputs"].items()}
    losses, norms, scales = [], [], []
    for step in range(study["steps"]):
        optimizer.zero_grad()
        total = 0.0
        for first in range(step * batch, (step + 1) * batch, micro):
            # Every sample predicts as many tokens: the mean of means is that over the batch.
            loss = loss_of(model, {name: x[first:first + micro] for name, x in inputs.items()}) * (micro / batch)
            scaler.scale(loss).backward()
            total += loss.item()
            for parameter, wide in pairs:
                grad = parameter.grad.float()
                wide.grad = grad if wide.grad is None else wide.grad + grad
                parameter.grad = None
        scales.append(scaler.get_scale())
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(master.parameters(), rule["clip_norm"] or float("inf"))
        scaler.step(optimizer)
        scaler.update()
        behind_step()
        schedule.step()
        for parameter, wide in pairs:
            parameter.data.copy_(wide.data)
        losses.append(total)
        norms.append(norm.item())
    return {"losses": losses, "gradient_norms": norms, "loss_scales": scales, "moved": moved(master, initial, study["names"])}


def write(path, kind, trainings, script="train_16_bit.py"):
    with open(path, "w") as out:
        out.write(json.dumps({
            "source": f"{kind} of transformers {tf.__version__}, torch "
                      f"{torch.__version__.split('+')[0]}; by tests/oracle/{script}"}, indent=1)[:-2])
        for name, result in trainings.items():
            out.write(f',\n "{name}": {{\n')
            for key in ("losses", "gradient_norms", "loss_scales"):
                out.write(f'  "{key}": {short(result[key], 7)},\n')
            rows = [f'   "{key}": {short(values, 4)}' for key, values in sorted(result["moved"].items())]
            out.write('  "moved": {\n' + ",\n".join(rows) + "\n  }\n }")
        out.write("\n}\n")


def train_study(name, folder, study, out):
    kind = json.load(open(f"{folder}/theirs/config.json"))["architectures"][0]
    for precision in study["in_16_bit"]:
        trainings = {}
        for training, rule in sorted(study["trainings"].items()):
            result = trainings[training] = train(folder, study, rule, TYPES[precision])
            print(f"{name:20} {precision} {training:6} loss {result['losses'][0]:.5f} to {result['losses'][-1]:.5f}")
        write(f"{out}/{name}.{precision}.json", kind, trainings)


if __name__ == "__main__":
    run_studies(__doc__, train_study)
