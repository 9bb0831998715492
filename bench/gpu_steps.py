#!/usr/bin/env python3
"""Steps of one GPU, predicted and measured: the table in real/README.md.

By hand, on a machine with a GPU, from the repository's root, preset `cuda` built:

    python3 bench/gpu_steps.py [--program build/cuda/trainyard] [--out FOLDER] [--only llama,vit] [--steps 12]

Each study is trained on the shipped profile's prediction, nothing calibrated; `validate --run` compares. Printed per
study: predicted and measured step in ms, the ratio, and the kernels that take most longer than predicted. With
--out each run's summary.json and measured.json stay.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

STUDIES = {
    "llama": "model: {family: llama, layers: 6, hidden: 2048, heads: 16, ffn: 5504, vocab: 32000, seq_len: 2048}\n"
             "training: {global_batch: 16, microbatch: 4, precision: bf16}\n",
    "llama-fp8": "model: {family: llama, layers: 6, hidden: 2048, heads: 16, ffn: 5504, vocab: 32000, seq_len: 2048}\n"
                 "training: {global_batch: 16, microbatch: 4, precision: fp8}\n",
    "gpt-345m": "model: {preset: gpt2-medium}\n"
                "training: {global_batch: 16, microbatch: 8, precision: bf16, dropout: 0, flash_attention: true}\n",
    "gpt-345m-unfused": "model: {preset: gpt2-medium}\n"
                        "training: {global_batch: 16, microbatch: 8, precision: bf16, dropout: 0.1, flash_attention: false}\n",
    "vit": "model: {preset: vit-b-16}\ntraining: {global_batch: 128, microbatch: 128, precision: bf16}\n",
    "resnet50": "model: {preset: resnet50}\ntraining: {global_batch: 128, microbatch: 128, precision: bf16}\n",
    "mamba2": "model: {preset: mamba2-130m, seq_len: 2048}\ntraining: {global_batch: 16, microbatch: 8, precision: bf16}\n",
}
REST = "cluster: {device: h100-sxm-80g, devices_per_node: 1}\n"


def run(program, name, text, folder, steps):
    study = os.path.join(folder, name + ".yaml")
    out = os.path.join(folder, name)
    with open(study, "w") as file:
        file.write(text + REST)
    train = [program, "train", study, "--device", "cuda", "--steps", str(steps), "--out", out, "--overwrite",
             "--set", "checkpoint.every=1000000"]
    done = subprocess.run(train, capture_output=True, text=True)
    if done.returncode != 0:
        return f"{name:18} failed: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else done.returncode}"
    answer = subprocess.run([program, "validate", "--run", out, "--json"], capture_output=True, text=True)
    if answer.returncode != 0:
        return f"{name:18} not compared: {answer.stderr.strip()}"
    shutil.rmtree(os.path.join(out, "checkpoints"), ignore_errors=True)
    compared = json.loads(answer.stdout)
    with open(os.path.join(out, "compared.json"), "w") as file:
        file.write(answer.stdout)
    return describe(name, compared)


def describe(name, compared):
    step = compared["step_time"]
    predicted, measured = step["predicted_s"], step["measured_s"]
    causes = "  ".join(f"{cause['what']} {cause['effect_s'] * 1e3:+.1f}" for cause in compared["explanation"][:5])
    return f"{name:18} predicted {predicted * 1e3:7.1f}  measured {measured * 1e3:7.1f} ms  {measured / predicted:5.2f}x   {causes}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/cuda/trainyard")
    parser.add_argument("--out")
    parser.add_argument("--only", default=",".join(STUDIES))
    parser.add_argument("--steps", type=int, default=12)
    args = parser.parse_args()
    folder = args.out or tempfile.mkdtemp()
    os.makedirs(folder, exist_ok=True)
    for name in args.only.split(","):
        print(run(args.program, name, STUDIES[name], folder, args.steps), flush=True)
    if not args.out:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
