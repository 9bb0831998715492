#!/usr/bin/env python3
"""Merak (Lai et al. 2022, arXiv:2206.04959) against this simulator: the tables of configs/papers/README.md.

Run by hand from the repository's root after a build: python3 bench/merak_reproduction.py [PART]...
Parts: fig9a table3 fig9b fig8 fig6 fig9c sensitivity; none named: all. Every figure is of `trainyard simulate ... --json`.
"""
import functools
import itertools
import json
import subprocess
import sys

PROGRAM = "build/release/trainyard"
STUDY = "configs/papers/merak-gpt-2.5b.yaml"
# Merak's subgraphs are half layers, under sub-pipelined tensor parallelism whole ones. Each is a checkpoint; with a share,
# those that follow one another are one.
FULL = "recompute={method: full, unit: sublayer}"
FULL_LAYERS = "recompute=full"
OVERLAP = "parallel.tensor_overlap=across-blocks"
MIB = 1 << 20
CONTEXT_MIB = 0.55 * 1024  # calibrate/software/merak.yaml's context_gib: not in PyTorch's figure of memory


@functools.cache
def simulate(*sets):
    """The answer to the study with these options, or None where it is refused or cannot be built."""
    argv = [PROGRAM, "simulate", STUDY, "--json", "--fidelity", "analytic"]
    run = subprocess.run(argv + [part for s in sets for part in ("--set", s)], capture_output=True, text=True)
    answer = json.loads(run.stdout)
    return None if "error" in answer else answer


def share(first, unit="sublayer"):
    return f"recompute={{method: stage-aware, first: {first}, unit: {unit}, strategy: contiguous}}"


def peaks(answer):
    """MiB of each stage as PyTorch would count them."""
    return [peak["total"] / MIB - CONTEXT_MIB for peak in answer["peak_memory_bytes"]]


def largest_share(sets, interval=0.1, unit="sublayer"):
    """Merak raises the share at intervals until memory is full: the last one that fits; 0 where none does."""
    first = 0.0
    for step in range(1, round(1 / interval) + 1):
        answer = simulate(*sets, share(round(step * interval, 6), unit))
        if answer is None or not answer["fits"]:
            break
        first = round(step * interval, 6)
    return first


def percent(value):
    return f"{100 * value:.1f} %"


# Fig. 9a: two layers of hidden 3072 a stage, as many GPUs as stages, twice as many microbatches.
def schedules_of(stages, sets=()):
    """Seconds of a step under 1f1b and under scp, both with full recompute."""
    layers = f"model={{family: gpt, layers: {2 * stages}, hidden: 3072, heads: 32, vocab: 50257, seq_len: 1024}}"
    said = dict(s.split("=", 1) for s in sets)
    batch = 2 * stages * int(said.get("training.microbatch", 1))
    common = (f"parallel.pipeline={stages}", f"cluster.gpus={stages}", layers, "partition=uniform",
              f"training.global_batch={batch}", *sets, FULL)
    return [simulate(*common, f"schedule={schedule}")["iteration_time_s"] for schedule in ("1f1b", "scp")]


def fig9a():
    print("| stages | 1f1b s | scp s | less time |\n| --- | --- | --- | --- |")
    for stages in (4, 8, 16, 32, 64):
        baseline, shifted = schedules_of(stages)
        print(f"| {stages} | {baseline:.3f} | {shifted:.3f} | {percent(1 - shifted / baseline)} |")


# Table 3: (stages, microbatch) -> default MiB, samples/s, stage-aware MiB, samples/s.
TABLE_3 = {(4, 1): (16720, 6.81, 21150, 7.61), (4, 2): (21262, 6.84, 21922, 7.01), (4, 4): ("out of memory",),
           (8, 1): (9066, 6.39, 21872, 7.72), (8, 2): (13130, 6.64, 19744, 6.83), (8, 4): (21438, 6.21, 21818, 6.39)}


def table3(sets=(), interval=0.1, cuts=None):
    """`cuts`: of the 54 layers to that many stages; None: as the study says."""
    print("| stages, microbatch | default MiB: paper, ours | samples/s: paper, ours | share | stage-aware MiB: paper, ours | "
          "speed-up: paper, ours | memory ratio: paper, ours (ours / paper) |\n" + "| --- " * 7 + "|")
    for (stages, microbatch), row in TABLE_3.items():
        plan = (f"parallel.pipeline={stages}", f"training.microbatch={microbatch}", *sets)
        if cuts:
            plan += (f"partition={cuts(stages)}",)
        default = simulate(*plan, FULL)
        if not default["fits"]:
            print(f"| {stages}, {microbatch} | {row[0]}, {'' if len(row) == 1 else f'{max(peaks(default)):.0f}, '}out of memory | | | | | |")
            continue
        first = largest_share(plan, interval)
        aware = simulate(*plan, share(first))
        before, after = max(peaks(default)), max(peaks(aware))
        gain, ratio = aware["samples_per_s"] / default["samples_per_s"], after / before
        text = f"| {stages}, {microbatch} | {row[0]}, {before:.0f} | "
        if len(row) == 1:
            print(text + f"-, {default['samples_per_s']:.2f} | {first:g} | -, {after:.0f} | -, {gain:.3f} | -, {ratio:.3f} |")
            continue
        paper_ratio = row[2] / row[0]
        print(text + f"{row[1]}, {default['samples_per_s']:.2f} | {first:g} | {row[2]}, {after:.0f} | {row[3] / row[1]:.3f}, "
              f"{gain:.3f} | {paper_ratio:.3f}, {ratio:.3f} ({ratio / paper_ratio:.3f}) |")


# Fig. 9b: 8 stages, microbatch 1.
def fig9b(sets=()):
    print("| share | speed-up | MiB: mean, least, most of the stages | |\n| --- | --- | --- | --- |")
    base = simulate(*sets, FULL)["samples_per_s"]
    for step in range(9):
        answer = simulate(*sets, share(step / 10))
        used = peaks(answer)
        print(f"| {step / 10:g} | {answer['samples_per_s'] / base:.3f} | {sum(used) / len(used):.0f}, {min(used):.0f}, "
              f"{max(used):.0f} | {'' if answer['fits'] else 'out of memory'} |")


# Fig. 8: layers, hidden size (the paper's) and heads of each model.
MODELS = {"1.4B": (48, 1536, 16), "2.5B": (54, 1920, 20), "8.3B": (72, 3072, 32), "20B": (96, 4096, 32)}


def balanced_cuts(layers, hidden, stages):
    """First layer of stage 1, 2, ...: the last stage has fewer, as the head weighs some layers' FLOP (AutoPipe's aim)."""
    head = 2 * hidden * 50257 / (24 * hidden**2 + 4 * 1024 * hidden)
    last = min(range(1, layers - stages + 2), key=lambda n: (max(-(-(layers - n) // (stages - 1)), n + head), n))
    each, more = divmod(layers - last, stages - 1)
    cuts = [0]
    for stage in range(stages - 1):
        cuts.append(cuts[-1] + each + (stage < more))
    return cuts[1:]


def plans(model, gpus, pipelines, tensors, microbatches, batch=512):
    """Plans on which a model is tried: degrees and microbatches."""
    layers, hidden, heads = MODELS[model]
    text = f"model={{family: gpt, layers: {layers}, hidden: {hidden}, heads: {heads}, vocab: 50257, seq_len: 1024}}"
    for pipeline, tensor, microbatch in itertools.product(pipelines, tensors, microbatches):
        if gpus % (pipeline * tensor) != 0:
            continue
        data = gpus // (pipeline * tensor)
        if batch % (data * microbatch) != 0 or batch // (data * microbatch) < max(4, pipeline):
            continue
        yield (text, f"cluster.gpus={gpus}", f"parallel.pipeline={pipeline}", f"parallel.tensor={tensor}",
               f"training.microbatch={microbatch}", f"training.global_batch={batch}",
               f"partition={balanced_cuts(layers, hidden, pipeline) if pipeline > 1 else 'uniform'}")


def speed(answer):
    return answer["samples_per_s"] if answer is not None and answer["fits"] else 0.0


# (model, GPUs, pipelines, tensors, microbatches): what the text says of the best plans. Tensor 1 for the two small models,
# more for the others, and most for 20B; microbatches of at least 2 under sub-pipelined tensor parallelism; on 64 GPUs the
# small models have more stages.
FIG_8 = [("1.4B", 16, (4,), (1,), (1, 2, 4)), ("1.4B", 64, (8,), (1,), (1, 2, 4)),
         ("2.5B", 16, (4,), (1,), (1, 2, 4)), ("2.5B", 64, (8,), (1,), (1, 2, 4)),
         ("8.3B", 32, (4, 8, 16), (2, 4), (2, 4)), ("8.3B", 64, (4, 8, 16), (2, 4), (2, 4)),
         ("20B", 32, (4, 8, 16), (4, 8), (2, 4)), ("20B", 64, (4, 8, 16), (4, 8), (2, 4))]


def fig8():
    print("| model, GPUs | best plan: pipeline, tensor, microbatch; share | samples/s | without scp | without stage-aware "
          "recompute | without sub-pipelining | scp against 1f1b, both with full recompute |\n" + "| --- " * 7 + "|")
    for model, gpus, *tried in FIG_8:
        halved = (OVERLAP,) if 1 not in tried[1] else ()
        unit, full = ("layer", FULL_LAYERS) if halved else ("sublayer", FULL)
        found = {plan: simulate(*plan, *halved, share("auto", unit)) for plan in plans(model, gpus, *tried)}
        plan = max(found, key=lambda p: speed(found[p]))
        merak = (*plan, *halved)
        first = largest_share(merak, unit=unit)
        whole, kept = speed(simulate(*merak, share(first, unit))), speed(simulate(*merak, full))
        unshifted = speed(simulate(*merak, share(first, unit), "schedule=1f1b"))
        in_turn = percent(speed(simulate(*plan, share(first, unit))) / whole - 1) if halved else "-"
        neither = speed(simulate(*merak, full, "schedule=1f1b"))
        said = dict(s.split("=", 1) for s in plan)
        words = ", ".join(said[f] for f in ("parallel.pipeline", "parallel.tensor", "training.microbatch"))
        print(f"| {model}, {gpus} | {words}; {first:g} | {whole:.2f} | {percent(unshifted / whole - 1)} | "
              f"{percent(kept / whole - 1)} | {in_turn} | {percent(kept / neither - 1)} |")


# Fig. 6: (model, GPUs, global batch) with the paper's speed-ups over its best baseline, of which PaddlePaddle is left out.
# Where the text has a range of all batches, that; the last two are section 6.3's weak scaling, too: 3.3 % lost.
FIG_6 = {("1.4B", 16, 512): "up to 1.42, over ZeRO", ("1.4B", 64, 512): "up to 1.42", ("2.5B", 16, 512): "1.32 to 1.39",
         ("2.5B", 64, 512): "1.19 to 1.34", ("8.3B", 32, 512): "1.34 to 1.43", ("8.3B", 64, 512): "1.39 or more",
         ("20B", 32, 256): "1.54 to 1.57", ("20B", 64, 512): "1.50 to 1.61"}
# 2 Xeon 4214R and 96 GB a node; which states Infinity has on drives the paper does not say: none here.
HOST = "cluster.host={capacity: 96 GB, cores: 24, sockets: 2}"
ZEROS = {"ZeRO-1": ("parallel.zero=1",), "ZeRO-2": ("parallel.zero=2",), "ZeRO-3": ("parallel.zero=3",),
         "Infinity": ("parallel.zero={stage: 3, offload: {optimizer: host, parameters: host}}", HOST)}


def fastest(tried):
    """(samples/s, words, answer) of what fits; larger microbatches of a plan are left out where one does not."""
    best, full = (0.0, "none fits", None), set()
    for degrees, microbatch, sets in tried:
        if degrees in full:
            continue
        answer = simulate(*sets)
        if answer is None:
            continue
        if not answer["fits"]:
            full.add(degrees)
        elif speed(answer) > best[0]:
            best = (speed(answer), f"{degrees}, {microbatch}", answer)
    return best


def said_of(plan):
    said = dict(s.split("=", 1) for s in plan)
    return f"{said['parallel.pipeline']}, {said['parallel.tensor']}", said["training.microbatch"]


def three_dimensional(model, gpus, batch, *sets):
    """Megatron-LM's grid: pipeline, tensor, microbatches."""
    found = []
    for plan in plans(model, gpus, (1, 2, 4, 8, 16), (1, 2, 4, 8), (1, 2, 4, 8), batch):
        found.append((*said_of(plan), (*plan, "schedule=1f1b", FULL_LAYERS, *sets)))
    return fastest(found)


def data_parallel(model, gpus, batch, zero, *sets):
    found = []
    for plan in plans(model, gpus, (1,), (1,), (1, 2, 4, 8, 16), batch):
        found.append(("1, 1", said_of(plan)[1], (*plan, "schedule=1f1b", FULL_LAYERS, *zero, *sets)))
    return fastest(found)


def merak_plan(model, gpus, batch):
    """As in Fig. 8; and without tensor parallelism, by which Megatron-LM's grid has large models, too."""
    tensors = {"1.4B": (), "2.5B": (), "8.3B": (2, 4), "20B": (2, 4, 8)}[model]
    found = [(*said_of(plan), (*plan, share("auto"))) for plan in plans(model, gpus, (4, 8, 16), (1,), (1, 2, 4), batch)]
    found += [(*said_of(plan), (*plan, OVERLAP, share("auto", "layer")))
              for plan in plans(model, gpus, (4, 8, 16), tensors, (2, 4), batch)]
    return fastest(found)


def parts_of(answer):
    """Compute, bubble and exposed communication, in seconds of a step."""
    time = answer["time"]
    return f"{time['compute']:.1f} + {time['bubble']:.1f} + {sum(time['exposed_communication'].values()):.1f}"


def fig6():
    print("| model, GPUs, batch | system | its best plan: pipeline, tensor, microbatch | samples/s | Merak is ... times as fast | compute + "
          "bubble + exposed communication, s |\n" + "| --- " * 6 + "|")
    steps = {}
    for (model, gpus, batch), paper in FIG_6.items():
        merak = merak_plan(model, gpus, batch)
        rows = {"Merak": merak, "Megatron-LM, same kernels": three_dimensional(model, gpus, batch)}
        for name, zero in ZEROS.items():
            rows[f"{name}, same kernels"] = data_parallel(model, gpus, batch, zero)
        rows["Megatron-LM 2021"] = three_dimensional(model, gpus, batch, "framework={name: megatron-lm, version: 2021}")
        zeros = {name: data_parallel(model, gpus, batch, zero, "framework=deepspeed") for name, zero in ZEROS.items()}
        best = max(zeros, key=lambda name: zeros[name][0])
        rows[f"{best}, DeepSpeed's profile, the best"] = zeros[best]
        for name, (samples, words, answer) in rows.items():
            ratio = paper if name == "Merak" else f"{merak[0] / samples:.2f}" if samples else ""
            print(f"| {model}, {gpus}, {batch} | {name} | {words} | {samples:.2f} | {ratio} | {parts_of(answer) if answer else ''} |",
                  flush=True)
        steps[model, gpus] = batch / merak[0] if merak[0] else float("nan")
    print(f"\n20B from 32 to 64 GPUs, twice the batch: {percent(1 - steps['20B', 32] / steps['20B', 64])} of speed lost (paper: 3.3 %)")


def sub_pipelined(layers, compute, reduce):
    """Section 5.3: what default and sub-pipelined tensor parallelism take; recompute is not in it."""
    fused = (0.75 * compute + 0.5 * reduce +
             (layers - 0.25) * max(3 * compute, 2 * compute + reduce, 2 * reduce))
    return (3 * compute + 2 * reduce) * layers, fused


# Fig. 9c: (tensor, hidden). The text has the ends; "equally divided parameter sizes" cannot hold between them.
FIG_9C = ((8, 1024), (16, 2048), (32, 4096), (64, 8192))


def tensor_step(tensor, hidden, links, layers=24, microbatches=1, *sets):
    """A step of a model that is divided by tensor parallelism alone, microbatch 4."""
    model = f"model={{family: gpt, layers: {layers}, hidden: {hidden}, heads: {max(tensor, 16)}, vocab: 50304, seq_len: 1024}}"
    return simulate(model, f"cluster.gpus={tensor}", f"cluster.intra={links}", "parallel.pipeline=1",
                    f"parallel.tensor={tensor}", "partition=uniform", "schedule=1f1b", "training.microbatch=4",
                    f"training.global_batch={4 * microbatches}", *sets)


def layer_times(tensor, hidden, links, layers=24):
    """Tm and Ta: what a layer's forward computes and reduces, in seconds."""
    # Two depths, so that embedding, head and what is done once a step cancel. Backward: twice Tm, once Ta.
    deep, shallow = (tensor_step(tensor, hidden, links, n, 1, "recompute=none")["time"] for n in (layers, layers // 2))
    def reduced(time):
        return sum(s for kind, s in time["exposed_communication"].items() if kind.startswith("all_reduce:tp"))
    per_layer = layers - layers // 2
    return (deep["compute"] - shallow["compute"]) / per_layer / 3, (reduced(deep) - reduced(shallow)) / per_layer / 2


def fig9c(layers=24, low=1.46, high=1.57):
    inside = [x / 1000 for x in range(1, 20000)
              if low <= (lambda both: both[0] / both[1])(sub_pipelined(layers, 1, x / 1000)) <= high]
    ranges, begin = [], None
    for previous, now in zip([None] + inside, inside):
        if previous is None or now - previous > 0.0015:
            begin = now
            ranges.append([begin, now])
        ranges[-1][1] = now
    print(f"{low} to {high} follows for Ta/Tm in " + " and ".join(f"{a:.2f} to {b:.2f}" for a, b in ranges))
    print("\n| links in a node | tensor, hidden | Tm ms | Ta ms | Ta/Tm | speed-up of the closed form | of a step | of a step with full "
          "recompute |\n" + "| --- " * 8 + "|")
    for links in ("pcie", "pcie-switch"):
        for tensor, hidden in FIG_9C:
            compute, reduce = layer_times(tensor, hidden, links)
            default, fused = sub_pipelined(layers, compute, reduce)
            steps = []
            for recompute in ("recompute=none", FULL_LAYERS):
                one, two = (tensor_step(tensor, hidden, links, layers, 8, recompute, f"parallel.tensor_overlap={word}")
                            for word in ("none", "across-blocks"))
                steps.append(one["iteration_time_s"] / two["iteration_time_s"])
            print(f"| {links} | {tensor}, {hidden} | {1e3 * compute:.2f} | {1e3 * reduce:.2f} | {reduce / compute:.2f} | "
                  f"{default / fused:.2f} | {steps[0]:.2f} | {steps[1]:.2f} |")


def sensitivity():
    def reductions(name, *sets):
        less = [1 - b / a for a, b in (schedules_of(s, sets) for s in (4, 8, 16, 32, 64))]
        print(f"| Fig. 9a | {name} | {percent(min(less))} to {percent(max(less))} |")
    print("| figure | setting | ours |\n| --- | --- | --- |")
    reductions("as above: microbatch 1, framework merak on both sides")
    reductions("microbatch 2", "training.microbatch=2")
    reductions("microbatch 4", "training.microbatch=4")
    reductions("framework megatron-lm 2021 on both sides", "framework={name: megatron-lm, version: 2021}")
    reductions("vocabulary 25,000", "model.vocab=25000")
    reductions("vocabulary 1,000, hardly a head", "model.vocab=1000")
    for name, *sets in (("as above",), ("24 heads of 80, not 20 of 96", "model.heads=24"),
                        ("AutoPipe's cuts: the last stage has 5 layers, the others 7", f"partition={balanced_cuts(54, 1920, 8)}"),
                        ("PCIe with peer access", "cluster.intra=pcie-switch")):
        first = largest_share(tuple(sets))
        gain = simulate(*sets, share(first))["samples_per_s"] / simulate(*sets, FULL)["samples_per_s"]
        print(f"| Fig. 9b | {name} | share {first:g}, speed-up {gain:.3f} |")
    peer = (*next(plans("20B", 64, (16,), (4,), (2,))), share(0.1, "layer"), "cluster.intra=pcie-switch")
    less = percent(speed(simulate(*peer)) / speed(simulate(*peer, OVERLAP)) - 1)
    print(f"| Fig. 8 | 20B on 64 GPUs, PCIe with peer access | without sub-pipelining {less} |")
    for name, sets in (("shares at intervals of 0.05", {"interval": 0.05}), ("1F1B on both sides", {"sets": ("schedule=1f1b",)}),
                       ("AutoPipe's cuts: the last stage has two layers fewer", {"cuts": lambda stages: balanced_cuts(54, 1920, stages)})):
        print(f"\nTable 3, {name}:\n")
        table3(**sets)


def main():
    parts = {"fig9a": fig9a, "table3": table3, "fig9b": fig9b, "fig8": fig8, "fig6": fig6, "fig9c": fig9c, "sensitivity": sensitivity}
    for name in sys.argv[1:] or parts:
        if name not in parts:
            sys.exit(f"merak_reproduction.py: no part {name}; it has {', '.join(parts)}")
        print(f"\n## {name}\n")
        parts[name]()


main()
