#!/usr/bin/env python3
"""Plants bugs into real/, one at a time, and holds that the test named for each notices it.

By hand, from the repository's root, where build/release has been built with its tests:

    python3 bench/planted_bugs.py [--only N] [--list] [--out bench/planted_bugs.md]

A bug is a replacement of text in one file; the script stops before anything runs where the text is gone. The file with
the bug is a copy under build/release/planted, compiled as the build compiles the file itself, and the test program is
linked there with that object in front of its libraries: neither the sources nor the build are touched, whatever ends
the script. Then the named test has to fail. First all named tests have to pass without a bug. Exit 1: a bug that its test
did not notice.
"""
import argparse
import datetime
import os
import platform
import re
import resource
import shlex
import subprocess
import sys
from dataclasses import dataclass

BUILD = "build/release"
PLANTED = BUILD + "/planted"
LIMIT_S = 300  # of a test


@dataclass
class Bug:
    what: str
    file: str
    text: str
    instead: str
    test: str
    program: str = "real_test"


LAYOUTS = "layouts of a GPT train alike in fp64"
ORACLE = "one device trains as PyTorch does"
BF16 = "one device trains in bf16 as PyTorch does with fp32 masters"
FP16 = "one device trains in fp16 as PyTorch does with fp32 masters"
OWNED_ONCE = "over all ranks every element of every weight is owned once"

BUGS = [
    # real/exec
    Bug("dropout of all layers by one mask", "real/exec/rank_plan.cpp",
        "plan.mask_key = philox_key(what, module, study.training.seed);",
        'plan.mask_key = philox_key(what, "", study.training.seed);',
        "each dropout of a run draws a mask of its own, and backward and recompute draw it again"),
    Bug("every step trains on the first step's samples", "real/exec/rank_executor.cpp",
        "return state_.step * global_batch_ + replica * samples_per_replica_",
        "return replica * samples_per_replica_",
        ORACLE),
    Bug("every replica updates the first shard", "real/exec/rank_values.cpp",
        "offset += at_[static_cast<std::size_t>(*alias.own_shard)] * elements;",
        "offset += 0;",
        LAYOUTS),
    Bug("what communication still reads is written and freed", "real/exec/issue_order.cpp",
        "if (changes) before_.insert(before_.end(), touched.readers.begin(), touched.readers.end());",
        "if (changes) before_.push_back(touched.readers[0]);",
        "what a rank asks of its streams and communicators is what the Program says"),
    Bug("work behind a transfer that failed runs", "real/exec/communication_stream.cpp",
        "    if (failed) {\n      item.completion->fail(failed);\n      continue;\n    }\n", "",
        "what work throws, its waiters get, and so do those behind it", "threads_test"),
    Bug("nobody hears why work failed", "real/exec/completion.cpp",
        "if (error_) std::rethrow_exception(error_);", "",
        "what work throws, its waiters get, and so do those behind it", "threads_test"),
    Bug("a block of memory is freed early: two tensors have it", "real/exec/retained_memory.cpp",
        "kept_.erase(fit);", "",
        "tensors that one thread takes and another gives back keep what was written", "threads_test"),
    # real/kernels
    Bug("working weights in 16 bits are never updated", "real/kernels/optimizer.cpp",
        "s.eps, /*amsgrad=*/false, /*maximize=*/false, unscale, overflow);\n  }\n"
        "  if (has_master) call.out(0).copy_(weights);",
        "s.eps, /*amsgrad=*/false, /*maximize=*/false, unscale, overflow);\n  }",
        BF16),
    Bug("the epsilon of RMS norms is outside the root", "real/kernels/norm.cpp",
        ".add_(call.attrs->eps).rsqrt_();", ".rsqrt_().add_(call.attrs->eps);",
        ORACLE),
    Bug("what dropout keeps is not scaled up", "real/kernels/dropout.cpp",
        "mask.scale = 1.0 / (1.0 - double{call.attrs->rate});", "mask.scale = 1.0;",
        "dropout drops its rate and keeps the mean"),
    Bug("in 16 bits the last microbatch's gradient is all of it", "real/kernels/linear.cpp",
        "gradient.add_(at::mm(dy.t(), x), /*alpha=*/call.attrs->scale);",
        "gradient.copy_(at::mm(dy.t(), x).mul_(call.attrs->scale));",
        BF16),
    Bug("the loss of fp16 is not scaled", "real/kernels/loss.cpp",
        "const double scale = call.state->loss_scale / call.loss_divisor;",
        "const double scale = 1.0 / call.loss_divisor;",
        FP16),
    Bug("the causal mask shows the next token", "real/kernels/attention.cpp",
        ".triu_(1)",
        ".triu_(2)",
        ORACLE),
    Bug("backward of attention sees padding", "real/kernels/flash_attention.cpp",
        "grad, q, k, v, saved.out, saved.lse, /*dropout_p=*/0.0, attrs.causal, mask, double{attrs.scale});",
        "grad, q, k, v, saved.out, saved.lse, /*dropout_p=*/0.0, attrs.causal, std::nullopt, double{attrs.scale});",
        "flash attention is attention, forward and backward, with padding, causal and by groups of heads"),
    Bug("gradients are not zeroed between steps", "real/kernels/elementwise.cpp",
        "for (std::size_t i = 0; i < call.writes.size(); ++i) call.out(i).zero_();",
        "for (std::size_t i = 0; i < call.writes.size(); ++i) {\n"
        "    at::Tensor out = call.out(i);\n    if (call.state->step == 0) out.zero_();\n  }",
        ORACLE),
    Bug("tokens of other ranks' rows add to the first row's gradient", "real/kernels/embedding.cpp",
        "  if (outside.defined()) {\n    const at::Tensor inside", "  if (false) {\n    const at::Tensor inside",
        LAYOUTS),
    Bug("a correction takes the update before for this one", "real/kernels/correction.cpp",
        "const auto updates = static_cast<double>(s.updates + 1);",
        "const auto updates = static_cast<double>(s.updates);",
        "a correction leaves what the update with the norm would have left"),
    # real/train
    Bug("the warm-up comes one step late", "real/train/step_schedule.cpp",
        "static_cast<double>(step + 1) / static_cast<double>(rate.warmup)",
        "static_cast<double>(step) / static_cast<double>(rate.warmup)",
        "the learning rate of every step is that of PyTorch's schedulers"),
    Bug("a step that overflowed counts as an update", "real/train/rank_trainer.cpp",
        "updates_done_ = step.state.updates;", "",
        "a step whose gradients overflowed is no update: AdamW's first comes after it"),
    Bug("a checkpoint keeps rounded weights in place of the masters", "real/train/run_checkpoint.cpp",
        'add("", bucket.master >= 0 ? bucket.master : bucket.parameter);',
        'add("", bucket.parameter);',
        "a resumed run in 16-bit types goes on to the bit, with the masters that it had"),
    Bug("a resumed run's losses.csv lacks the step before", "real/train/loss_file.cpp",
        "if (std::atoll(line.c_str()) > steps) break;", "if (std::atoll(line.c_str()) >= steps) break;",
        "a resumed run's losses.csv has each step once"),
    Bug("one recorded step too many", "real/train/step_recorder.cpp",
        "begin_ = last - steps + 1;", "begin_ = last - steps;",
        "the last steps of a run are recorded, none of its first two where there are others"),
    Bug("static mode keeps the slowest order", "real/command/static_order.cpp",
        "trial.step < step", "trial.step > step",
        "static mode tries five orders, no two alike, and keeps the fastest"),
    Bug("a plan with another order has the program of the first", "real/command/training_plan.cpp",
        "out.prepared.study.origins[\"schedule.rows\"] = derived_origin(rule);\n  compile_plan(out);",
        "out.prepared.study.origins[\"schedule.rows\"] = derived_origin(rule);",
        "static mode tries five orders, no two alike, and keeps the fastest"),
    # real/parameters
    Bug("columns of a weight begin at 0 on every rank", "real/parameters/parameter_layout.cpp",
        "value.dims.size() > 1 ? shard_start(value.spec, 1, columns, program_.mesh, at_) : 0;",
        "0;",
        OWNED_ONCE),
    Bug("weights are drawn by their place in the shard", "real/parameters/initial_values.cpp",
        "(piece.first_row + row) * piece.global_columns + piece.first_column;",
        "row * piece.columns;",
        LAYOUTS),
    Bug("a shard begins with the last element of the one before", "real/parameters/rank_coordinates.cpp",
        "return index * extent;", "return index * (extent - 1);",
        OWNED_ONCE),
]


def fail(message):
    sys.exit("planted_bugs.py: " + message)


def planted_text(bug):
    with open(bug.file) as file:
        text = file.read()
    # Lines may be broken elsewhere.
    found = list(re.finditer(r"\s+".join(re.escape(word) for word in bug.text.split()), text))
    if len(found) != 1:
        fail(f"{bug.file} has {len(found)} times, not once: {bug.text}")
    return text[: found[0].start()] + bug.instead + text[found[0].end():]


def commands(target):
    answer = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", target], capture_output=True, text=True)
    if answer.returncode != 0:
        fail(f"{BUILD} does not build {target}: {answer.stderr.strip()}")
    return answer.stdout.splitlines()


def compile_command(bug):
    """Command that compiles the file itself, with the copy in its place."""
    source = os.path.abspath(bug.file)
    found = [shlex.split(line) for line in commands("tests/" + bug.program) if line.endswith(" -c " + source)]
    if len(found) != 1:
        fail(f"tests/{bug.program} compiles {bug.file} {len(found)} times, not once")
    command = found[0]
    command[command.index("-c") + 1] = os.path.abspath(f"{PLANTED}/{os.path.basename(bug.file)}")
    for option, path in (("-o", "bug.o"), ("-MT", "bug.o"), ("-MF", "bug.o.d")):
        command[command.index(option) + 1] = os.path.abspath(f"{PLANTED}/{path}")
    return command


def link_command(bug):
    """Command that links the test program, with the object in front: of a library nothing is taken that is there already."""
    program = "tests/" + bug.program
    link = commands(program)[-1].split(" && ")[1]
    command = shlex.split(link)
    at = command.index("-o")
    if command[at + 1] != program:
        fail(f"no command that links {program}")
    command[at + 1] = os.path.abspath(f"{PLANTED}/{bug.program}")
    command.insert(at, os.path.abspath(f"{PLANTED}/bug.o"))
    return command


def passes(program, test):
    """Exit 0, and of a test that is there."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    try:
        answer = subprocess.run([program, test.replace(",", "\\,")], capture_output=True, text=True, timeout=LIMIT_S,
                                env=environment, cwd=BUILD + "/tests")
    except subprocess.TimeoutExpired:
        fail(f"{test}: still runs after {LIMIT_S} s")
    if "No test cases matched" in answer.stdout:
        fail(f"{program} has no test of the name: {test}")
    if "fatal error condition" in answer.stdout:
        print(f"   {test}: ends with a crash")
    return answer.returncode == 0


def check_tests(bugs):
    for program, test in sorted({(bug.program, bug.test) for bug in bugs}):
        if not passes(os.path.abspath(f"{BUILD}/tests/{program}"), test):
            fail(f"without a bug fails: {program}: {test}")


@dataclass
class Outcome:
    number: int
    bug: Bug
    noticed: bool
    test_s: float  # of processors


def processor_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def try_bug(number, bug):
    with open(f"{PLANTED}/{os.path.basename(bug.file)}", "w") as file:
        file.write(planted_text(bug))
    for command in (compile_command(bug), link_command(bug)):
        answer = subprocess.run(command, capture_output=True, text=True, cwd=BUILD)
        if answer.returncode != 0:
            fail(f"{bug.what}: does not build: {answer.stderr or answer.stdout}")
    before = processor_s()
    noticed = not passes(os.path.abspath(f"{PLANTED}/{bug.program}"), bug.test)
    outcome = Outcome(number, bug, noticed, processor_s() - before)
    print(f"{number:2} {'noticed' if noticed else 'NOT NOTICED':11} {outcome.test_s:6.1f} s  {bug.file}: {bug.what}", flush=True)
    return outcome


def processor():
    with open("/proc/cpuinfo") as file:
        names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    return f"{names[0]}, {len(names)} cores" if names else platform.machine()


def as_markdown(outcomes):
    noticed = sum(outcome.noticed for outcome in outcomes)
    lines = ["# Planted bugs", "",
             f"`python3 bench/planted_bugs.py --out bench/planted_bugs.md`, {datetime.date.today()}, {processor()}: of "
             f"{len(outcomes)} bugs in as many files {noticed} are noticed by the test named. Seconds: of a processor, the test's.",
             "", "| | bug | file | test that notices it | s |", "| --- | --- | --- | --- | --- |"]
    for one in outcomes:
        test = f"{one.bug.program}: {one.bug.test}" if one.noticed else "**none**"
        lines.append(f"| {one.number} | {one.bug.what} | {one.bug.file} | {test} | {one.test_s:.1f} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--only", type=int, metavar="N", help="the N-th bug, from 1")
    parser.add_argument("--list", action="store_true", help="the bugs, and whether their texts are there")
    parser.add_argument("--out", help="where the table goes")
    args = parser.parse_args()
    for bug in BUGS:
        planted_text(bug)
    if len({bug.file for bug in BUGS}) != len(BUGS):
        fail("two bugs are in one file")
    numbered = list(enumerate(BUGS, 1))
    if args.only is not None:
        numbered = [(number, bug) for number, bug in numbered if number == args.only]
        if not numbered:
            fail(f"there are {len(BUGS)} bugs")
    if args.list:
        for number, bug in numbered:
            print(f"{number:2} {bug.file}: {bug.what} ({bug.program}: {bug.test})")
        return 0
    os.makedirs(PLANTED, exist_ok=True)
    check_tests([bug for _, bug in numbered])
    outcomes = [try_bug(number, bug) for number, bug in numbered]
    if args.out:
        with open(args.out, "w") as file:
            file.write(as_markdown(outcomes))
    return 0 if all(outcome.noticed for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
