"""What compare_answers.py asks of both sides: groups of cases, each a few commands in an empty folder of its own."""
import itertools
import random
from dataclasses import dataclass, field
from pathlib import Path

PROBLEMS_FILE = Path(__file__).resolve().parent / "solve_problems.txt"


@dataclass
class Case:
    group: str
    name: str
    commands: list[list[str]]  # arguments of trainyard
    files: dict[str, str] = field(default_factory=dict)


def studies(inputs, args):
    for path in sorted([*inputs.glob("configs/**/*.yaml"), *inputs.glob("tests/studies/*.yaml")]):
        study = str(path)
        name = str(path.relative_to(inputs).with_suffix(""))
        yield Case("studies", name, [
            ["simulate", study, "--json"], ["simulate", study], ["simulate", study, "--json", "--fidelity", "analytic"],
            ["simulate", study, "--out", "simulated"], ["compile", study], ["compile", study, "--full"],
            ["compile", study, "--json"], ["compile", study, "--out", "compiled"]])
        yield Case("studies", name + " again", [["simulate", study, "--out", "out", "--json"], ["report", "out"],
                                                ["simulate", "out/study.resolved.yaml", "--json"]])


# What random_plan.cpp does not draw, as --set; a group of keys is drawn first.
DRAWN = [
    ["recompute={method: full, unit: sublayer}", "recompute={method: group, strategy: group_2, unit: sublayer}",
     "recompute={method: stage-aware, first: 0.5, unit: sublayer}", "recompute={method: stage-aware, strategy: contiguous}"],
    ["cluster.collectives={all_reduce: tree}", "cluster.collectives={all_reduce: hierarchical}",
     "cluster.collectives={all_reduce: halving-doubling}", "cluster.collectives={all_reduce: ring, all_gather: ring}"],
    ["cluster.nics=1", "cluster.nics=2", "cluster.pcie={switches: 2, uplink: 20 GB/s}", "cluster.rdma=off"],
    ["framework=merak", "framework=megatron-deepspeed", "framework={name: nemo}"],
    ["training.precision=fp64", "training.kernels=cpu", "training.kernels=cuda", "training.flash_attention=false"],
    ["model=gpt2", "model=llama3.2-1b", "model=t5-small", "model=bert-base", "model.pad_vocab_to=33000"],
    ["partition={method: uniform, ends: layers, uneven: true}", "partition={method: uniform, ends: layers}"],
    ["parallel.tensr=2", "parallel.zero=7", "training.precision=fp4", "schedule=1f2b", "cluster.devices=many"],
]


def plan_case(group, number, study, options, draw, files):
    run = draw.choices([[], ["--fidelity", "analytic"], ["--fidelity", "step"]], [6, 3, 1])[0]
    run = [*options, *run, *draw.choices([[], ["--no-fold"], ["--no-reuse"]], [7, 2, 1])[0]]
    commands = [["simulate", study, *run, "--json"]]
    if number % 10 == 0:
        commands += [["simulate", study, *run, "--out", "out"], ["compile", study, *options, "--full"]]
    return Case(group, str(number), commands, files)


def plans(inputs, args):
    for seed in range(args.plans):
        draw = random.Random(f"plan {seed}")
        groups = draw.sample(DRAWN, draw.choice([0, 0, 1, 1, 2]))
        options = list(itertools.chain.from_iterable(("--set", draw.choice(group)) for group in groups))
        yield plan_case("plans", seed, str(inputs / "plans" / f"{seed}.yaml"), options, draw, {})


SCHEDULES = [  # (schedule, stages per rank)
    ("gpipe", 1), ("1f1b", 1), ("interleaved", 2), ("interleaved", 3), ("zb-h1", 1), ("zb-1p", 1), ("zb-2p", 1),
    ("interleaved-zb1p", 2), ("zb-v", 2), ("dualpipe-v", 2), ("pre-recompute-1f1b", 1), ("last-no-recompute-1f1b", 1),
    ("scp", 1), ("opportunistic", 1), ("{method: opportunistic, mode: static}", 1),
    ("{method: opportunistic, active_microbatches: 3, mode: fast}", 1), ("{method: interleaved, microbatch_group: RANKS}", 2),
    ("{method: zb-1p, memory_limit: 5}", 1), ("{method: zb-h1, post_validation: true}", 1),
    ("{method: zb-2p, post_validation: true}", 1), ("{method: dualpipe-v, post_validation: true}", 2)]
CLUSTERS = ["dgx-a100-80g", "dgx-h100", "dgx-b200", "p4d.24xlarge", "pcie-8x-a100", "nvlink-pairs-4x-a100", "superpod-h100",
            "dragonfly-a100", "fat-tree-a100-oversubscribed", "nvlink-switch-1024"]
RECOMPUTES = ["selective", "full", "{method: full, unit: sublayer}", "{method: stage-aware, first: 0.5}",
              "{method: group, strategy: group_2}", "{method: group, strategy: contiguous, unit: sublayer}"]


def combined_plan(draw):
    """A plan whose parts go together, so that each schedule is seen with each of the other keys."""
    schedule, virtual_stages = draw.choice(SCHEDULES)
    ranks, data, tensor = draw.choice([2, 3, 4]), draw.choice([1, 2, 3]), draw.choice([1, 2, 4])
    overlap = draw.choice(["none", "none", "block", "across-blocks"]) if tensor > 1 else "none"
    microbatch = draw.choice([1, 2, 4] if overlap == "none" else [2, 4])
    recomputes = "scp" in schedule or "-recompute" in schedule
    recompute = draw.choice(RECOMPUTES) if recomputes or draw.random() < 0.5 else "none"
    seq_len, layers = draw.choice([64, 256]), ranks * virtual_stages * draw.choice([1, 2, 3])
    parallel = [f"tensor: {tensor}", f"pipeline: {ranks}", f"data: {data}", f"virtual_stages: {virtual_stages}",
                f"tensor_overlap: {overlap}", f"zero: {draw.choice(['0', '1', '{stage: 1, by: parameter}'])}",
                f"placement: {draw.choice(['DPT', 'PDT', 'TPD'])}"]
    if tensor > 1 and overlap == "none" and draw.random() < 0.5:
        parallel.append("sequence_parallel: true")
    if draw.random() < 0.2:
        parallel.append(f"d2d_buffer: {draw.choice(['100 KiB', '1 GiB'])}")
    lines = [
        f"model: {{family: {draw.choice(['gpt', 'gpt', 'llama', 'bert', 't5'])}, layers: {layers}, hidden: "
        f"{draw.choice([128, 512])}, heads: 8, vocab: 1000, seq_len: {seq_len}}}",
        f"cluster: {{preset: {draw.choice(CLUSTERS)}, devices: {ranks * data * tensor}, host: {{memory: 90 GB/s}}}}",
        f"parallel: {{{', '.join(parallel)}}}",
        f"training: {{global_batch: {ranks * draw.choice([2, 3, 4]) * microbatch * data}, microbatch: {microbatch}, precision: "
        f"{draw.choice(['bf16', 'fp16', 'fp32'])}}}",
        f"schedule: {schedule.replace('RANKS', str(ranks))}", f"recompute: {recompute}"]
    if recompute in RECOMPUTES[:2] and draw.random() < 0.3:
        lines.append(f"offload: {{activations: true, horizon: {draw.choice([0, 1, 4])}}}")
    if draw.random() < 0.2:
        lines.append(f"framework: {draw.choice(['megatron-lm', 'nemo', 'merak', 'megatron-deepspeed'])}")
    return "\n".join(lines) + "\n"


def combined(inputs, args):
    for seed in range(args.plans // 2):
        draw = random.Random(f"combined {seed}")
        yield plan_case("combined", seed, "study.yaml", [], draw, {"study.yaml": combined_plan(draw)})


SWEEP = """
model: gpt2
cluster: {preset: dgx-a100-80g, nodes: 2}
parallel: {tensor: 2, pipeline: 4}
training: {global_batch: 64}
fidelity: fluid
sweep:
  together:
    - {schedule: [1f1b, zb-h1, interleaved, zb-2p, scp, dualpipe-v], parallel.virtual_stages: [1, 1, 3, 1, 1, 2]}
  training.microbatch: {from: 1, to: 4, times: 2}
  recompute: [none, full, {method: stage-aware, first: auto}]
  parallel.zero: [0, {stage: 1, by: parameter}]
"""


def sweeps(inputs, args):
    gpt3 = ["sweep", str(inputs / "configs/sweep-gpt3-tp-pp.yaml"), "--set", "cluster.nodes=96"]
    yield Case("sweeps", "gpt3", [[*gpt3, "--set", "parallel.zero=1", "--set", "recompute=none", "--jobs", "1", "--out", "out", "--json"],
                                  ["report", "out"]])
    yield Case("sweeps", "gpt3, two processes", [[*gpt3, "--set", "parallel.zero=0", "--set", "recompute=full",
                                                  "--set", "parallel.tensor=8", "--jobs", "2"]])
    yield Case("sweeps", "gpt2", [["sweep", "sweep.yaml", "--jobs", "1", "--out", "out"],
                                  ["sweep", "sweep.yaml", "--jobs", "1", "--json", "--fidelity", "analytic"]],
               {"sweep.yaml": SWEEP})


PROBLEMS = ["schedule", "lower", "subpipelined-tp", "d-hondt", "segment", "batch-split", "stage-recompute", "checkpoint-groups",
            "reshard", "op-strategies", "propagate"]


def solve(inputs, args):
    lines = PROBLEMS_FILE.read_text().splitlines()
    for number, problem in enumerate(lines, 1):
        yield Case("solve", f"line {number}", [["solve", "problem.yaml", "--json"], ["solve", "problem.yaml"]],
                   {"problem.yaml": problem + "\n"})


WORDS = ["models", "clusters", "profiles", "links", "frameworks", "schedules", "partitioners", "tensor_overlap", "recompute"]
COMMANDS = ["simulate", "compile", "sweep", "train", "export", "emulate", "calibrate", "validate", "solve", "report", "list"]


def words(inputs, args):
    for words in [["list"], *(["list", word] for word in WORDS), ["--help"], *([name, "--help"] for name in COMMANDS),
                  ["solve", "--help"], *(["solve", "--help", name] for name in PROBLEMS), [], ["simulat"], ["simulate"],
                  ["simulate", "none.yaml"], ["simulate", "none.yaml", "--jsn"], ["list", "colours"]]:
        yield Case("words", " ".join(words) or "nothing", [words])


def validate(inputs, args):
    runs = str(inputs / "calibrate/published/runs.yaml")
    yield Case("validate", "published runs", [["validate", runs, "--json", "--jobs", "1"]])
    yield Case("validate", "published runs, text and files", [["validate", runs, "--jobs", "1", "--out", "out"]])
    for path in sorted(inputs.glob("tests/golden/*.yaml")):
        yield Case("validate", path.stem, [["validate", str(path), "--json", "--jobs", "1"]])


TRAINED = """
model: {model}
cluster: {{preset: local, ranks: 1}}
training: {{global_batch: 16, microbatch: 1, precision: fp32, dropout: 0, steps: 4, lr: {{peak: 1e-2, warmup: 2}}}}
data: {{path: {data}}}
checkpoint: {{every: 2}}
"""
MODELS = {
    "gpt": "{family: gpt, layers: 8, hidden: 32, heads: 4, vocab: 64, seq_len: 16}",
    "llama": "{family: llama, layers: 4, hidden: 32, heads: 8, kv_heads: 4, ffn: 48, vocab: 64, seq_len: 16}",
    "bert": "{family: bert, layers: 4, hidden: 32, heads: 4, vocab: 62, seq_len: 16, next_sentence: true}",
    "t5": "{family: t5, layers: 2, decoder_layers: 2, hidden: 32, heads: 4, head_dim: 8, ffn: 48, vocab: 150, seq_len: 16, "
          "decoder_seq_len: 8}"}
LAYOUTS = [  # (model, data, tensor, pipeline, more)
    ("gpt", 1, 1, 1, ["training.precision=fp64", "training.dropout=0.1"]),
    ("gpt", 2, 1, 1, ["parallel.zero=1", "recompute=full", "training.precision=bf16"]),
    ("llama", 1, 2, 1, ["parallel.sequence_parallel=true", "parallel.tensor_overlap=across-blocks", "training.microbatch=2"]),
    ("bert", 1, 1, 2, ["training.dropout=0.1", "schedule=1f1b"]),
    ("t5", 1, 1, 4, ["schedule=gpipe", "training.precision=bf16"]),
    ("gpt", 1, 1, 2, ["schedule=interleaved", "parallel.virtual_stages=2", "recompute=full", "offload={activations: true, horizon: 1}"]),
    ("gpt", 1, 1, 4, ["schedule={method: zb-h1, post_validation: true}", "training.precision=fp16"]),
    ("llama", 1, 2, 2, ["schedule=zb-v", "parallel.virtual_stages=2"]),
    ("gpt", 2, 1, 2, ["schedule=dualpipe-v", "parallel.virtual_stages=2", "parallel.zero={stage: 1, by: parameter}"]),
    ("gpt", 2, 2, 2, ["parallel.zero=1", "parallel.sequence_parallel=true", "recompute=selective", "training.dropout=0.1",
                      "training.precision=bf16"]),
    ("gpt", 1, 1, 4, ["schedule=scp", "recompute={method: stage-aware, first: 0.5}", "parallel.d2d_buffer=4 KiB"]),
    ("gpt", 2, 1, 2, ["training.microbatch=[2, 3, 3]", "recompute={method: group, strategy: group_2}", "training.optimizer=sgd"]),
]


def training(inputs, args):
    for number, (model, data, tensor, pipeline, more) in enumerate(LAYOUTS, 1):
        ranks = data * tensor * pipeline
        sets = [f"parallel.data={data}", f"parallel.tensor={tensor}", f"parallel.pipeline={pipeline}", *more]
        options = [word for item in sets for word in ("--set", item)]
        train = ["train", "study.yaml", "--ranks", str(ranks), *options, "--out", "run", "--json"]
        commands = [[*train, "--steps", "2"], [*train, "--steps", "4", "--resume"]] if number % 3 == 0 else [train]
        name = f"{number}: {model}, data {data}, tensor {tensor}, pipeline {pipeline}, {', '.join(more)}"
        source = "generated" if model in ("gpt", "llama") else "synthetic"
        yield Case("training", name, [*commands, ["export", "run", "--out", "exported"]],
                   {"study.yaml": TRAINED.format(model=MODELS[model], data=source)})


GROUPS = {make.__name__: make for make in (studies, plans, combined, sweeps, solve, words, validate, training)}
