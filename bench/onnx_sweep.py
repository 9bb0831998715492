#!/usr/bin/env python3
"""Holds small models that PyTorch exports against PyTorch: parameters, FLOP, loss and gradient norm of one step.

    onnx_sweep.py TRAINYARD OUT [--models REGEX] [--exports script-17,dynamo-18]

exports the models of onnx_models.py by PyTorch's exporters in the given operator sets, reads each file with
`simulate --json`, trains one step from the file's weights in fp32, and compares with PyTorch in fp64: a line for each
file, and a table of the worst of each model. Exports that OUT has are not made again. Needs torch, torchvision,
transformers, onnx and onnxscript, of the versions that tests/oracle/export_onnx.py names.
"""
import argparse
import contextlib
import io
import json
import logging
import pathlib
import re
import subprocess
import sys
import warnings

import numpy as np
import torch
from safetensors.numpy import save_file
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import onnx_models

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)


def as_fp32(value):
    return value.float() if value.is_floating_point() else value


def labels_of(logits):
    """Classes where there are several, else numbers."""
    if logits.dim() == 4:
        return "cross_entropy", onnx_models.ids((logits.shape[0], *logits.shape[2:]), logits.shape[1], 5, 1)
    if logits.shape[-1] in (16, 32) or logits.dim() == 2 and logits.shape[-1] == onnx_models.SEQ:
        return "mean_square", onnx_models.real(logits.shape)
    return "cross_entropy", onnx_models.ids(logits.shape[:-1], logits.shape[-1], 5, 1)


def loss_of(logits, kind, labels):
    if kind == "mean_square":
        return nn.functional.mse_loss(logits, labels)
    if logits.dim() == 3:
        logits = logits.flatten(0, 1)
    return nn.functional.cross_entropy(logits, labels.flatten() if logits.dim() == 2 else labels)


def export(model, inputs, axes, how, path):
    exporter, opset = how.split("-")
    values = tuple(as_fp32(v) for v in inputs.values())
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        if exporter == "script":
            torch.onnx.export(model, values, str(path), dynamo=False, opset_version=int(opset),
                              input_names=list(inputs), output_names=["logits"], dynamic_axes=axes,
                              do_constant_folding=False, training=torch.onnx.TrainingMode.TRAINING)
        else:
            shapes = tuple({d: torch.export.Dim(axis) for d, axis in axes[n].items()} for n in inputs)
            if isinstance(model, onnx_models.Answer):
                shapes = (shapes,)
            torch.onnx.export(model, values, str(path), dynamo=True, opset_version=int(opset),
                              input_names=list(inputs), output_names=["logits"], dynamic_shapes=shapes,
                              external_data=False, optimize=False)


def gradient_norm(model):
    parameters = {id(p): p for p in model.parameters()}.values()
    return sum(float((p.grad.double() ** 2).sum()) for p in parameters if p.grad is not None) ** 0.5


def peer_numbers(model, inputs, single=False):
    """What PyTorch says of one step, in fp64 unless `single`."""
    for module in model.modules():  # the files do not say which row has no gradient
        if isinstance(module, nn.Embedding):
            module.padding_idx = None
    logits = model(*(as_fp32(v) for v in inputs.values()))
    kind, labels = labels_of(logits)
    own = loss_of(logits, kind, as_fp32(labels))
    own.backward()
    own_norm = gradient_norm(model)
    model.zero_grad(set_to_none=True)
    if single:
        inputs, labels = {n: as_fp32(v) for n, v in inputs.items()}, as_fp32(labels)
    else:
        model = model.double()
    counter = FlopCounterMode(display=False)
    with counter, sdpa_kernel(SDPBackend.MATH):
        logits = model(*inputs.values())
    angles = sum(sum(flop.values()) for path, flop in counter.get_flop_counts().items() if path.endswith("rotary_emb"))
    loss = loss_of(logits, kind, labels)
    loss.backward()
    parameters = list({id(p): p for p in model.parameters()}.values())
    return {"kind": kind, "labels": labels, "loss": loss.item(), "own": own.item(), "own_norm": own_norm, "norm": gradient_norm(model),
            "parameters": sum(p.numel() for p in parameters), "flop": counter.get_total_flops() - angles,
            # A norm without weights keeps none here.
            "running": sum(b.numel() for m in model.modules() if getattr(m, "affine", True)
                           for n, b in m.named_buffers(recurse=False) if "running_" in n),
            "unused": sum(p.numel() for p in parameters if p.grad is None)}


def run(trainyard, *words):
    return subprocess.run([trainyard, *words], capture_output=True, text=True)


def last_error(done):
    lines = [line for line in done.stderr.splitlines() if line.startswith("trainyard")]
    return (lines or done.stderr.splitlines()[-1:] or ["exit %d" % done.returncode])[0]


def against(trainyard, folder, path, inputs, axes, peer):
    """What is wrong with our answer of a file, or its errors."""
    study = folder / (path.stem + ".yaml")
    seq = ", axes: {seq: %d}" % onnx_models.SEQ if "seq" in str(axes) and path.stem != "" else ""
    data = folder / "data.safetensors"
    tensors = {n: np.ascontiguousarray(as_fp32(v).numpy()) for n, v in inputs.items()}
    tensors["labels"] = np.ascontiguousarray(as_fp32(peer["labels"]).numpy())
    save_file(tensors, data)
    study.write_text(
        f"model: {{onnx: {path.name}, weights: true, loss: {peer['kind']}{seq}}}\n"
        "cluster: {preset: local, ranks: 1}\n"
        f"training: {{global_batch: {onnx_models.BATCH}, microbatch: {onnx_models.BATCH}, precision: fp32, steps: 1}}\n"
        f"data: {{path: {data.name}, kind: tensors, shuffle: false}}\n")
    done = run(trainyard, "simulate", str(study), "--json")
    if done.returncode != 0:
        return {"error": last_error(done)}
    answer = json.loads(done.stdout)
    out = folder / (path.stem + "-run")
    done = run(trainyard, "train", str(study), "--out", str(out), "--overwrite")
    if done.returncode != 0:
        return {"error": last_error(done)}
    _, loss, _, norm = (out / "losses.csv").read_text().splitlines()[1].split(",")
    whole = next(m for m in answer["partition"]["modules"] if m["path"] == "")
    parameters = whole["parameters_bytes"] // 4 - peer["running"]
    return {"parameters": parameters, "flop": answer["model_flop"] / 3, "loss": float(loss), "norm": float(norm)}


def compared(name, how, trainyard, out):
    folder = out / name.replace("/", "-")
    folder.mkdir(parents=True, exist_ok=True)
    model, inputs, axes = onnx_models.build(name)
    for i, parameter in enumerate(model.parameters()):  # zeros and ones would hide mistakes
        with torch.no_grad():
            parameter.add_(0.02 * onnx_models.real(parameter.shape, i).to(parameter.dtype))
    path = folder / f"{how}.onnx"
    try:
        if not path.exists():
            export(model, inputs, axes, how, path)
    except Exception as problem:  # the exporter's own limits
        return {"export": str(problem).strip().splitlines()[0][:160]}
    peer = peer_numbers(model, inputs, name in onnx_models.SINGLE)
    ours = against(trainyard, folder, path, inputs, axes, peer)
    if "error" in ours:
        return ours
    return {"parameters": peer["parameters"], "missing": peer["parameters"] - ours["parameters"],
            "flop": peer["flop"], "flop_apart": relative(ours["flop"], peer["flop"]),
            "loss_apart": relative(ours["loss"], peer["loss"]), "norm_apart": relative(ours["norm"], peer["norm"]),
            "fp32_apart": relative(peer["own"], peer["loss"]),
            "fp32_norm_apart": relative(peer["own_norm"], peer["norm"])}


def relative(a, b):
    return abs(a / b - 1) if b else abs(a)


def row(name, results):
    """A line of the table: the worst of a model's files, and what some of them lack."""
    good = [r for r in results.values() if "loss_apart" in r]
    lacks = "; ".join(f"{how}: {r.get('error', r.get('export', r.get('peer')))}" for how, r in results.items()
                      if "loss_apart" not in r)
    if not good:
        return f"| {name} | | | | | | {lacks} |"
    worst = lambda key: max(abs(r[key]) for r in good)
    return (f"| {name} | {good[0]['parameters']:,} | {good[0]['flop'] / 1e6:.3f} | {worst('missing')}, "
            f"{worst('flop_apart'):.0e} | {worst('loss_apart'):.1e} ({worst('fp32_apart'):.1e}) | "
            f"{worst('norm_apart'):.1e} ({worst('fp32_norm_apart'):.1e}) | {lacks} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trainyard")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--models", default=".")
    parser.add_argument("--exports", default="script-17,dynamo-18")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    rows = []
    for name in onnx_models.names():
        if not re.search(options.models, name):
            continue
        results = {}
        for how in options.exports.split(","):
            try:
                results[how] = compared(name, how, options.trainyard, options.out)
            except Exception as problem:  # of PyTorch's own
                results[how] = {"peer": f"{type(problem).__name__}: {problem}"[:160]}
            print(name, how, json.dumps(results[how]), flush=True)
        rows.append(row(name, results))
    print("\n".join(rows))


if __name__ == "__main__":
    main()
