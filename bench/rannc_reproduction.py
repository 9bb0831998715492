#!/usr/bin/env python3
"""RaNNC (Tanaka et al. 2021, arXiv:2103.16063) against this simulator: the tables of configs/papers/README.md.

Run by hand from the repository's root after a build: python3 bench/rannc_reproduction.py [PART]...
Parts: bert mixed resnet sensitivity software searched; none named: all. Every figure is of `trainyard simulate ... --json`, of
fidelity fluid: the devices of a node share its one NIC. What is searched is so by analytic steps, and so is what is beside it.
"""
import functools
import json
import re
import subprocess
import sys
import time

PROGRAM = "build/release/trainyard"
BERT = "configs/papers/rannc-bert.yaml"
RESNET = "configs/papers/rannc-resnet152x8.yaml"
SIZES = [(hidden, layers) for hidden in (1024, 1536, 2048) for layers in (24, 48, 96, 144, 192, 256)]
WHOLE_STAGE = "recompute={method: full, ends: true}"
# GPipe-Hybrid is --gpipe of PipeDream-2BW's runtime (msr-fiddle/pipedream, branch pipedream_2bw): models in 2, 4, 8 and
# 16 stages, whose tensors may not be of 16 bits. Its loop with flushes says that "weight synchronization will happen every backward pass".
# A stage's ranks lie one behind the other, and a step has a multiple of as many microbatches as stages.
GPIPE_HYBRID = "framework=pipedream-2bw"
# Megatron-LM is of before it had pipelines: the oldest profile.
MEGATRON = "framework={name: megatron-lm, version: 2021}"


@functools.cache
def simulate(study, *sets):
    """The answer to the study with these options, or the reason why there is none."""
    argv = [PROGRAM, "simulate", study, "--json"]
    run = subprocess.run(argv + [part for s in sets for part in ("--set", s)], capture_output=True, text=True)
    answer = json.loads(run.stdout)
    return answer["error"]["message"] if "error" in answer else answer


@functools.cache
def compiled(study, *sets):
    run = subprocess.run([PROGRAM, "compile", study, "--json"] + [part for s in sets for part in ("--set", s)],
                         capture_output=True, text=True)
    return json.loads(run.stdout)


def trains(answer):
    return isinstance(answer, dict) and answer["fits"]


def rate(answer):
    return f"{answer['samples_per_s']:.2f}" if trains(answer) else "out of memory"


def best(answers):
    """The fastest that fits: [(name, answer)] -> (name, answer), or None."""
    fit = [(name, answer) for name, answer in answers if trains(answer)]
    return max(fit, key=lambda one: one[1]["samples_per_s"]) if fit else None


def model_of(hidden, layers):
    """With next sentence's head, which each of the descriptions has."""
    name = "bert-large" if (hidden, layers) == (1024, 24) else f"bert-{hidden}h-{layers}l"
    return f"model={{preset: {name}, next_sentence: true}}"


def plan_text(study, *sets):
    """"4 stages, [9, 8, 8, 7] replicas, 16 microbatches"."""
    planned = compiled(study, *sets).get("planned", [])
    replicas = [int(line.split(" on ")[1].split(" ")[0]) for line in planned if line.startswith("  stage ")]
    if not planned:
        return "-"
    alike = len(replicas) >= 8 and len(set(replicas)) == 1
    each = f"{len(replicas)} of {replicas[0]}" if alike else replicas
    return f"{len(replicas)} stage{'s' if len(replicas) > 1 else ''}, {each}, {planned[0].split('; ')[-1]}"


def by_rule(study, *sets):
    return " | ".join(rate(simulate(study, *sets, f"partition.rule={rule}")) for rule in ("paper", "code", "exact"))


def microbatches(per_replica):
    size = 1
    while size <= per_replica:
        yield size
        size *= 2


# Each stage on all nodes.
SPREAD = ("parallel.placement=DPT",)


def gpipe_hybrid(model, precision, layers, software=GPIPE_HYBRID, reduce="each", more=()):
    """2, 4, 8 or 16 stages with as many layers and replicas each, and the best microbatch: the paper searched stages."""
    tried = []
    for stages in (2, 4, 8, 16):
        if layers % stages:
            continue
        for size in microbatches(256 // 32):
            parallel = f"{{pipeline: {stages}, data: {32 // stages}, placement: stages, zero: {{stage: 0, reduce: {reduce}}}}}"
            sets = (model, precision, "partition=uniform", f"parallel={parallel}", f"training.microbatch={size}",
                    "schedule=gpipe", software, WHOLE_STAGE, *more)
            tried.append((f"{stages} stages, microbatch {size}", simulate(BERT, *sets)))
    return best(tried)


def megatron(model, precision):
    """Tensor parallelism alone, without accumulation: one microbatch."""
    tried = []
    for tensor in (1, 2, 4, 8, 16, 32):
        padded = model.replace("}", ", pad_vocab_to: 30720}")
        sets = (padded, precision, "partition=uniform", f"parallel={{tensor: {tensor}, data: {32 // tensor}}}",
                f"training.microbatch={256 // (32 // tensor)}", "schedule=gpipe", "recompute=full",
                MEGATRON)
        tried.append((f"tensor {tensor}", simulate(BERT, *sets)))
    return best(tried)


def data_parallel(study, model, precision, batch, devices, more=()):
    """Accumulation and recomputation."""
    tried = []
    for size in microbatches(batch // devices):
        sets = (model, precision, "partition=uniform", f"parallel={{data: {devices}}}", f"training.microbatch={size}",
                "schedule=1f1b", WHOLE_STAGE, *more)
        tried.append((f"microbatch {size}", simulate(study, *sets)))
    return best(tried)


def cell(found):
    return "out of memory" if found is None else f"{rate(found[1])} ({found[0]})"


def bert():
    print("BERT, fp32, samples/s\n")
    print("| hidden, layers | paper | code | exact | the paper's pipeline | GPipe-Hybrid | the same, spread | Megatron | data parallelism |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    of = "training.precision=fp32"
    for hidden, layers in SIZES:
        model = model_of(hidden, layers)
        print(f"| {hidden}, {layers} | {by_rule(BERT, model, of)} | {plan_text(BERT, model, of)} | "
              f"{cell(gpipe_hybrid(model, of, layers))} | {cell(gpipe_hybrid(model, of, layers, more=SPREAD))} | "
              f"{cell(megatron(model, of))} | {cell(data_parallel(BERT, model, of, 256, 32))} |", flush=True)


def gpipe_model(model, size, more=()):
    """8 stages of like time, 64 microbatches."""
    return simulate(RESNET, model, "partition={method: cost, between: ops}", "parallel={pipeline: 8, data: 1}",
                    f"training.microbatch={size}", "schedule=gpipe", WHOLE_STAGE, *more)


def resnet():
    print("ResNet, fp32, 8 GPUs, batch 128, samples/s\n")
    print("| model | paper | code | exact | the paper's pipeline | GPipe-Model | data parallelism |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in ("resnet50x8", "resnet101x8", "resnet152x8"):
        model = f"model={name}"
        fp32 = "training.precision=fp32"
        print(f"| {name} | {by_rule(RESNET, model)} | {plan_text(RESNET, model)} | {rate(gpipe_model(model, 2))} | "
              f"{cell(data_parallel(RESNET, model, fp32, 128, 8))} |", flush=True)


def row(study, name, *sets):
    answer = simulate(study, *sets)
    if isinstance(answer, str):
        answer = answer.split("partition: ", 1)[-1]
        print(f"| {name} | none: {answer} | |", flush=True)
    else:
        print(f"| {name} | {rate(answer)} | {plan_text(study, *sets)} |", flush=True)


def sensitivity():
    for study, name, model in ((BERT, "bert-1024h-96l", model_of(1024, 96)), (BERT, "bert-2048h-256l", model_of(2048, 256)),
                               (RESNET, "resnet152x8", "model=resnet152x8")):
        print(f"\n{name}\n\n| setting | samples/s | pipeline |\n| --- | --- | --- |")
        common = [("as in the study",), ("rule exact", "partition.rule=exact"), ("rule code", "partition.rule=code"),
                  ("64 blocks", "partition.blocks=64"), ("blocks none", "partition.blocks=none"),
                  ("a margin of 0", "partition.margin=0"), ("SGD", "training.optimizer=sgd"),
                  ("precision fp16", "training.precision=fp16"), ("framework rannc", "framework=rannc")]
        of_bert = [("flash attention", "training.flash_attention=true"), ("dropout 0", "training.dropout=0"),
                   ("recompute full, without the head", "recompute=full"),
                   ("a stage's layers as one, without the head", "recompute={method: group, strategy: contiguous}"),
                   ("masked words alone", model.replace("next_sentence: true", "next_sentence: false"))]
        of_resnet = [("channels first", "framework={name: pytorch, version: channels-first}"),
                     ("batch norm synchronised", "model={preset: resnet152x8, batch_norm: synchronised}")]
        for name, *sets in common + (of_bert if study == BERT else of_resnet):
            row(study, name, model, *sets)


def mixed():
    print("BERT, fp16, samples/s\n")
    print("| hidden, layers | paper | code | exact | the paper's pipeline | Megatron |")
    print("| --- | --- | --- | --- | --- | --- |")
    of = "training.precision=fp16"
    for hidden, layers in SIZES:
        model = model_of(hidden, layers)
        print(f"| {hidden}, {layers} | {by_rule(BERT, model, of)} | {plan_text(BERT, model, of)} | "
              f"{cell(megatron(model, of))} |", flush=True)


def software():
    """Whose kernels and waits are taken, in fp32; how full Megatron's devices are."""
    of = "training.precision=fp32"
    print("| hidden, layers | RaNNC | framework rannc | GPipe-Hybrid | reduced once a step | stages spread over nodes |")
    print("| --- | --- | --- | --- | --- | --- |")
    for hidden, layers in ((1024, 96), (1536, 48), (2048, 24), (2048, 96)):
        model = model_of(hidden, layers)
        print(f"| {hidden}, {layers} | {rate(simulate(BERT, model, of))} | {rate(simulate(BERT, model, of, 'framework=rannc'))} | "
              f"{cell(gpipe_hybrid(model, of, layers))} | {cell(gpipe_hybrid(model, of, layers, reduce='last'))} | "
              f"{cell(gpipe_hybrid(model, of, layers, more=SPREAD))} |", flush=True)
    print("\n| hidden, layers | precision | Megatron | peak GiB |\n| --- | --- | --- | --- |")
    for hidden, layers in ((1024, 256), (1536, 96), (1536, 144), (1536, 192), (2048, 48), (2048, 96)):
        for of in ("training.precision=fp32", "training.precision=fp16"):
            found = megatron(model_of(hidden, layers), of)
            peak = max(rank["total"] for rank in found[1]["peak_memory_bytes"]) / 2**30 if found else None
            print(f"| {hidden}, {layers} | {of[-4:]} | {cell(found)} | {'' if peak is None else f'{peak:.2f}'} |", flush=True)


def rannc_rules(study, *sets, margin):
    found = best((rule, simulate(study, *sets, f"partition={{method: rannc, rule: {rule}, margin: {margin}}}"))
                 for rule in ("paper", "code", "exact"))
    return "none" if found is None else f"{rate(found[1])} ({found[0]})"


def searched():
    """search-pipeline on the same devices, by analytic steps; GPipe-Hybrid on PyTorch's kernels, reduced once a step."""
    print("| model, devices, precision | search-pipeline | above what kernels alone allow | its pipeline | best of RaNNC | "
          "GPipe-Hybrid, or Model | data parallelism |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    analytic = ("fidelity=analytic",)
    for hidden, layers, of in ((1024, 96, "fp32"), (2048, 24, "fp32"), (1024, 96, "fp16"), (2048, 96, "fp16")):
        model, precision = model_of(hidden, layers), f"training.precision={of}"
        sets = (model, precision, *analytic)
        search_row(BERT, f"bert-{hidden}h-{layers}l, 32, {of}", sets, 0,
                   cell(gpipe_hybrid(model, precision, layers, "framework=pytorch", "last", analytic)),
                   cell(data_parallel(BERT, model, precision, 256, 32, analytic)))
    for name in ("resnet50x8", "resnet101x8", "resnet152x8"):
        model = f"model={name}"
        search_row(RESNET, f"{name}, 8, fp32, a margin of 0.1", (model, *analytic), 0.1, rate(gpipe_model(model, 2, analytic)),
                   cell(data_parallel(RESNET, model, "training.precision=fp32", 128, 8, analytic)))


def search_row(study, name, sets, margin, pipeline, data):
    partition = f"partition={{method: search-pipeline, margin: {margin}}}"
    found = simulate(study, *sets, partition)
    planned = found["planned"]
    above = re.search(r"([0-9.]+ %) above what kernels alone allow", planned[0])
    replicas = [int(line.split(" on ")[1].split(" ")[0]) for line in planned if line.startswith("  stage ")]
    stages = f"{len(replicas)} stage{'s' if len(replicas) > 1 else ''}"
    shape = stages if len(replicas) > 8 else f"{stages}, {replicas}"
    print(f"| {name} | {rate(found)} | {above[1] if above else ''} | {shape} | "
          f"{rannc_rules(study, *sets, margin=margin)} | {pipeline} | {data} |", flush=True)


PARTS = {"bert": bert, "mixed": mixed, "resnet": resnet, "sensitivity": sensitivity, "software": software, "searched": searched}


def main():
    for part in sys.argv[1:] or PARTS:
        begin = time.monotonic()
        PARTS[part]()
        print(f"\n{part}: {time.monotonic() - begin:.0f} s\n", flush=True)


if __name__ == "__main__":
    main()
