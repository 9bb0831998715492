// What every pass makes is checked right behind it: a broken result is blamed on the pass that made
// it, not on whoever meets it later.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "engine/partition/stage_partition.h"
#include "engine/passes/program_draft.h"
#include "engine/passes/training_graph.h"
#include "engine/program/value_lifetimes.h"
#include "tests/support/studies.h"

namespace trainyard::pass_checks_test {

namespace {

const std::string kModel =
    "model: {family: gpt, layers: 8, hidden: 64, heads: 4, vocab: 128, seq_len: 32}\n"
    "cluster: {preset: dgx-a100-80g, nodes: 2}\n";

/// Together they take every pass.
const std::vector<std::string> kStudies = {
    // In chunks; an older framework waits for its transfers on the host.
    kModel +
        "parallel: {tensor: 2, pipeline: 2, data: 2, tensor_overlap: block}\n"
        "training: {global_batch: 16, microbatch: 2}\nframework: {name: megatron-lm, version: "
        "\"2021\"}\n",
    // Split backwards, a norm that is looked at later, transfers through buffers.
    kModel +
        "parallel: {pipeline: 4, data: 2, d2d_buffer: 1 MiB}\n"
        "training: {global_batch: 16}\nschedule: {method: zb-h1, post_validation: true}\n",
    // Two microbatches in one segment; what recomputation keeps is on the host.
    kModel +
        "parallel: {pipeline: 2, virtual_stages: 2, data: 2}\ntraining: {global_batch: 16}\n"
        "schedule: dualpipe-v\nrecompute: full\noffload: {activations: true}\n",
    // Layers are gathered, their gradients reduced in each microbatch.
    kModel + "parallel: {data: 8, zero: 3}\ntraining: {global_batch: 16}\n",
    // In 8 bits.
    "model: {family: gpt, layers: 8, hidden: 64, heads: 4, vocab: 128, seq_len: 32}\n"
    "cluster: {gpu: h100-sxm-80g, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
    "parallel: {tensor: 2, data: 2}\ntraining: {global_batch: 16, precision: fp8}\n",
    // Samples of documents.
    kModel +
        "parallel: {data: 8}\ntraining: {global_batch: 16, dropout: 0}\n"
        "data: {documents: {lengths: 5}}\n"};

using BreakResult = std::function<void(PassResult)>;

CompileOptions broken_behind(const std::string& pass, const BreakResult& break_result) {
  CompileOptions options;
  options.behind_pass = [=](const std::string& name, PassResult result) {
    if (name == pass) break_result(result);
  };
  return options;
}

/// What compile() says of a result that is a bug, in a process of its own, for it aborts.
std::string last_words(const Prepared& prepared, const CompileOptions& options) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t process = fork();
  if (process == 0) {
    ::signal(SIGABRT, SIG_DFL);
    dup2(ends[1], STDERR_FILENO);
    PassLog log;
    compile(prepared.model, prepared.study, prepared.software, log, options);
    _exit(0);
  }
  close(ends[1]);
  std::string words;
  char part[512];
  for (ssize_t got = 0; (got = read(ends[0], part, sizeof part)) > 0;)
    words.append(part, static_cast<std::size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(process, &status, 0);
  return WIFSIGNALED(status) ? words : "it did not abort";
}

std::vector<std::string> passes_of(const Prepared& prepared) {
  PassLog log;
  compile(prepared.model, prepared.study, prepared.software, log);
  std::vector<std::string> names;
  for (const PassLog::Entry& entry : log.entries) names.push_back(entry.pass);
  return names;
}

/// Repeats an op: what it writes is written twice, at the end of the same list.
struct RepeatAnOp {
  void operator()(StagedGraph* staged) const {
    staged->graph.ops.push_back(staged->graph.ops.front());
    if (!staged->stage.empty()) staged->stage.push_back(staged->stage.front());
  }
  void operator()(TrainingGraph* training) const {
    training->backward.push_back(training->backward.front());
  }
  void operator()(ProgramDraft* draft) const {
    auto& ops = draft->program.segments.front().ops;
    ops.push_back(ops.front());
  }
};

/// The draft of the second study as `pass` leaves it.
ProgramDraft draft_behind(const std::string& pass) {
  ProgramDraft draft;
  const Prepared prepared = prepare_text(kStudies[1]);
  PassLog log;
  const auto keep = [&](PassResult result) { draft = *std::get<ProgramDraft*>(result); };
  compile(prepared.model, prepared.study, prepared.software, log, broken_behind(pass, keep));
  return draft;
}

}  // namespace

TEST_CASE("a broken result is blamed on the pass that made it, whichever that is") {
  const BreakResult repeat = [](PassResult result) { std::visit(RepeatAnOp(), result); };
  std::set<std::string> tried = {"schedule", "verify"};  // over none of the three
  for (const std::string& study : kStudies) {
    const Prepared prepared = prepare_text(study);
    for (const std::string& pass : passes_of(prepared)) {
      if (!tried.insert(pass).second) continue;
      CAPTURE(pass);
      const std::string words = last_words(prepared, broken_behind(pass, repeat));
      CHECK_THAT(words, Catch::Contains("trainyard bug: after pass " + pass + ": "));
    }
  }
  CHECK(tried ==
        std::set<std::string>{
            "schedule",      "kernels", "shard",      "chunks", "partition", "overlap",
            "differentiate", "fp8",     "recompute",  "split",  "offload",   "instantiate",
            "buffers",       "pairs",   "host_waits", "units",  "step",      "post_validation",
            "lower",         "verify",  "documents"});
}

TEST_CASE("what the cheap check does not see is found at the end, or behind the pass with verify") {
  // What is local to a call is freed in it. That nobody frees it shows only in the order of a whole
  // segment.
  const BreakResult leak = [](PassResult result) {
    auto& ops = std::get<ProgramDraft*>(result)->program.segments.front().ops;
    std::erase_if(ops, [](const ProgramOp& op) { return op.kind == OpKind::kFree; });
  };
  const Prepared prepared = prepare_text(kStudies[1]);
  CompileOptions options = broken_behind("instantiate", leak);
  CHECK_THAT(last_words(prepared, options), Catch::Contains("after pass lower: segment 0F: ") &&
                                                Catch::Contains("is never freed"));
  options.verify = true;
  CHECK_THAT(
      last_words(prepared, options),
      Catch::Contains("after pass instantiate: segment 0F: ") && Catch::Contains("is never freed"));
}

TEST_CASE("host waits are a pass, behind the segments that they are in") {
  const std::vector<std::string> passes = passes_of(prepare_text(kStudies[0]));
  const auto at = std::find(passes.begin(), passes.end(), "host_waits");
  REQUIRE(at != passes.end());
  CHECK(*(at - 1) == "instantiate");
  CHECK(*(at + 1) == "step");
}

TEST_CASE("a graph in stages is checked as a graph, and every op has a stage of its own number") {
  StagedGraph staged = staged_graph(prepare_text(kStudies[1]));
  CHECK(find_staged_violation(staged) == "");
  const std::size_t last = staged.stage.size() - 1;
  staged.stage[OpId(last)] = 4;
  CHECK(find_staged_violation(staged) == "op " + std::to_string(last) + " is on stage 4 of 4");
  staged.stage.pop_back();
  CHECK(find_staged_violation(staged) ==
        std::to_string(last) + " stages of " + std::to_string(last + 1) + " ops");
  staged.stage.clear();  // not cut yet
  CHECK(find_staged_violation(staged) == "");
  staged.graph.ops.front().inputs.push_back(staged.graph.loss);
  CHECK_THAT(find_staged_violation(staged), Catch::Contains("before it is produced"));
}

TEST_CASE("a training graph writes each tensor once, before it is read, and waits for no half W") {
  const TrainingGraph sound = training_graph(prepare_text(kStudies[1]));
  CHECK(find_training_violation(sound) == "");
  const auto broken = [&](const std::function<void(TrainingGraph&)>& change) {
    TrainingGraph training = sound;
    change(training);
    return find_training_violation(training);
  };
  CHECK_THAT(broken([](auto& t) { t.forward.push_back(t.forward.front()); }),
             Catch::Contains("' a second time"));
  CHECK_THAT(
      broken([](auto& t) { std::swap(t.forward.front(), t.forward.back()); }),
      Catch::StartsWith("forward instruction 0 ") && Catch::Contains("before it is written"));
  CHECK_THAT(broken([](auto& t) { t.backward.erase(t.backward.begin()); }),
             Catch::StartsWith("backward instruction ") && Catch::Contains("before it is written"));
  CHECK_THAT(broken([](auto& t) {
               // All of it in the half that nobody waits for, but what comes last.
               for (Instruction& op : t.backward) op.weight_half = &op != &t.backward.back();
             }),
             Catch::Contains("which the half that nobody waits for writes"));
  CHECK_THAT(broken([](auto& t) { t.forward[3].reads[0] = TensorId(1 << 30); }),
             Catch::StartsWith("forward instruction 3 ") && Catch::EndsWith("reads no tensor"));
  CHECK_THAT(broken([](auto& t) { t.backward[3].stage = 4; }), Catch::EndsWith("no stage 4"));
  CHECK_THAT(broken([](auto& t) { t.backward[3].module = kNoIndex; }),
             Catch::EndsWith("no module"));
  CHECK_THAT(broken([](auto& t) { t.backward[3].accumulates = {t.backward[3].reads[0]}; }),
             Catch::EndsWith("adds to what is no parameter's gradient"));
  CHECK(broken([](auto& t) { t.parameter_gradient.pop_back(); }) ==
        "not every parameter says its gradient");
}

TEST_CASE(
    "a draft is checked without lists: its values, its ops, what a segment writes and frees") {
  for (const std::string pass : {"instantiate", "buffers", "step", "post_validation"}) {
    CAPTURE(pass);
    const ProgramDraft draft = draft_behind(pass);
    REQUIRE(!draft.program.segments.empty());
    CHECK(draft.program.body.empty());
    CHECK(find_draft_violation(draft) == "");
    CHECK(find_violation_of_segments(draft.program) == std::nullopt);
  }
  const ProgramDraft sound = draft_behind("step");
  const auto broken = [&](const std::function<void(Program&, std::vector<ProgramOp>&)>& change) {
    ProgramDraft draft = sound;
    change(draft.program, draft.program.segments.front().ops);
    return find_draft_violation(draft);
  };
  const auto free_of = [](std::vector<ProgramOp>& ops) -> ProgramOp& {
    return *std::find_if(ops.begin(), ops.end(),
                         [](const ProgramOp& op) { return op.kind == OpKind::kFree; });
  };
  CHECK_THAT(broken([](Program&, auto& ops) { ops.push_back(ops.front()); }),
             Catch::StartsWith("segment 0F: ") && Catch::EndsWith("a second time"));
  CHECK_THAT(broken([&](Program&, auto& ops) { ops.push_back(free_of(ops)); }),
             Catch::StartsWith("segment 0F: frees ") && Catch::EndsWith(" twice"));
  CHECK_THAT(broken([&](Program& program, auto& ops) {
               program.values[free_of(ops).reads[0].value].scope = Scope::kPersistent;
             }),
             Catch::Contains("persistent"));
  CHECK_THAT(broken([](Program& program, auto& ops) {
               ops.front().writes.push_back({ValueId(program.values.size()), 0});
             }),
             Catch::Contains("no value "));
  CHECK_THAT(broken([](Program& program, auto&) {  // a bucket that its views do not fit into
               for (Value& value : program.values)
                 if (value.name == "b0.param") value.dims[0] = {1, 1, -1};
             }),
             Catch::Contains("reaches past the end of b0.param"));
}

}  // namespace trainyard::pass_checks_test
