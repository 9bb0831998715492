// A Compiler, and what keeps things for Programs that share segments: the same answers as without.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/exec/costs.h"
#include "engine/program/program_text.h"
#include "engine/program/verify.h"
#include "study/compile_study.h"
#include "tests/support/studies.h"

namespace trainyard::compiler_test {

namespace {

const std::string kBase = R"(
model: {family: gpt, layers: 8, hidden: 64, heads: 4, vocab: 130, seq_len: 32}
cluster: {preset: dgx-a100-80g, nodes: 2}
parallel: {tensor: 2, pipeline: 2, data: 4}
training: {global_batch: 24, microbatch: 1, bucket_elements: 30000}
)";

bool has_pass(const PassLog& log, const std::string& pass) {
  for (const PassLog::Entry& entry : log.entries) {
    if (entry.pass == pass) return true;
  }
  return false;
}

bool same_costs(const Costs& a, const Costs& b) {
  if (a.ops.size() != b.ops.size() || a.pieces != b.pieces) return false;
  for (const auto& [speed, segments] : a.ops) {
    const auto& others = b.ops.at(speed);
    if (segments.size() != others.size()) return false;
    for (std::size_t s = 0; s < segments.size(); ++s) {
      if (segments[SegmentId(s)].size() != others[SegmentId(s)].size()) return false;
      for (std::size_t k = 0; k < segments[SegmentId(s)].size(); ++k) {
        const OpCost &x = segments[SegmentId(s)][k], &y = others[SegmentId(s)][k];
        if (x.kernel != y.kernel || x.launch != y.launch || x.flop != y.flop || x.bytes != y.bytes)
          return false;
      }
    }
  }
  return true;
}

std::vector<std::string> names_of(const SourceLog& log) {
  std::vector<std::string> names;
  for (const SourceEntry& entry : log.entries())
    names.push_back(entry.name + " " + entry.kind + " " + entry.used_for);
  return names;
}

/// A study, and what a Compiler that has had those above it makes anew for it.
struct Step {
  std::vector<std::string> sets;
  bool graph, segments;
  bool lists = true;
};

}  // namespace

TEST_CASE(
    "a Compiler's Programs, their costs and digests are those of a compiler that knows nothing") {
  const std::string zero = "parallel.zero=1", three = "parallel.data=3", two = "parallel.data=2",
                    one = "parallel.data=1";
  const std::string gpipe = "schedule=gpipe", full = "recompute=full";
  const std::vector<Step> steps = {
      {{}, true, true},
      {{three}, false, false},  // fewer ranks, more microbatches
      {{three, gpipe}, false, false},
      {{three, "training.global_batch=48"}, false, false},
      {{two, "cluster.nodes=1"}, false, false},
      {{one}, true, true},         // nothing to reduce, and nothing is split over replicas
      {{one, zero}, false, true},  // a study key, though one rank shards nothing
      {{two, zero}, true, true},
      {{three, zero}, false, false},  // buckets padded to a multiple of 3
      {{zero, "parallel.placement=TPD"}, false, false},
      {{zero, "cluster.speed={3: 0.5}"}, false, false},  // other costs
      {{zero}, false, false, false},                     // the same Program
      {{full}, true, true},
      {{full, "schedule=interleaved", "parallel.virtual_stages=2"}, true, true},
      {{full, "schedule=interleaved", "parallel.virtual_stages=2", two}, false, false},
      {{"parallel.pipeline=4", full, two}, false, true},  // as many stages
      {{"parallel.pipeline=4", full, two, "parallel.d2d_buffer=1 MiB"}, false, true},
      {{"parallel.pipeline=4", full, two, "parallel.d2d_buffer=1 MiB", gpipe}, false, false},
      // One boundary lies between nodes then, where there are buffers to send from.
      {{"parallel.pipeline=4", full, two, "parallel.d2d_buffer=1 MiB", "parallel.placement=PDT"},
       false,
       true},
      {{"training.precision=fp16"}, true, true},
      {{"training.dropout=0", "data.documents={lengths: 20}"}, true, true},
      // Other work by the same segments.
      {{"training.dropout=0", "data.documents={lengths: {mean: 12}}"}, false, false},
      {{"training.dropout=0", "data.documents={lengths: {mean: 12}, seed: 2}"}, false, false},
  };
  Compiler compiler;
  CostCache costs;
  ProgramDigester digester;
  for (const Step& step : steps) {
    CAPTURE(step.sets);
    const Prepared prepared = prepare_text(kBase, step.sets);
    PassLog log, own_log;
    const auto made = compile(compiler, prepared.model, prepared.study, prepared.software, log);
    const Program& program = *std::get<const Program*>(made);
    const Program expected =
        std::get<Program>(compile(prepared.model, prepared.study, prepared.software, own_log));
    const bool same = program == expected && to_text(program) == to_text(expected);
    CHECK(same);
    if (step.lists) CHECK(log.first_layer == own_log.first_layer);
    CHECK(has_pass(log, "kernels") == step.graph);
    CHECK(has_pass(log, "instantiate") == step.segments);
    CHECK(has_pass(log, "verify") == step.lists);
    CHECK(digester.digest(program, compiler.segments()) == program_digest(expected));
    SourceLog sources, own_sources;
    const Costs& kept = costs.make(program, compiler.segments(), prepared.hardware,
                                   prepared.software, prepared.study.cluster, sources);
    CHECK(same_costs(kept, make_costs(expected, prepared.hardware, prepared.software,
                                      prepared.study.cluster, own_sources)));
    CHECK(names_of(sources) == names_of(own_sources));
  }
}

TEST_CASE("whatever key changes, a Compiler's Program is that of a compiler that knows nothing") {
  // Each from the base and back to it: a pass that is given less than it looks at would leave
  // something of the plan before.
  const std::vector<std::vector<std::string>> sets = {
      {"model.layers=6"},
      {"model.activation=relu"},
      {"parallel.tensor=1"},
      {"parallel.data=1"},
      {"parallel.data=3"},
      {"parallel.virtual_stages=2", "schedule=interleaved"},
      {"parallel.sequence_parallel=true"},
      {"parallel.scatter_gather=false"},
      {"parallel.tensor_overlap=block", "training.microbatch=2", "training.global_batch=32"},
      {"parallel.tensor_overlap=across-blocks", "training.microbatch=2",
       "training.global_batch=32"},
      {"parallel.zero={stage: 1, by: parameter}"},
      {"parallel.zero={stage: 1, by: parameter}", "parallel.data=3"},
      {"parallel.zero=1"},
      {"parallel.placement=PDT"},
      {"parallel.d2d_buffer=1 MiB"},
      {"parallel.d2d_buffer=2 MiB"},
      {"training.global_batch=48"},
      {"training.microbatch=2"},
      {"training.microbatch=[1, 2, 3]"},
      {"training.microbatch=[3, 2, 1]"},
      {"training.precision=fp16"},
      {"training.precision=fp32"},
      {"training.optimizer=sgd"},
      {"training.clip_norm=0"},
      {"training.bucket_elements=60000"},
      {"training.dropout=0.5"},
      {"training.flash_attention=false"},
      {"training.grad_dtype=bf16"},
      {"training.seed=2"},
      {"partition=[3]"},
      {"schedule=zb-h1"},
      {"schedule={method: zb-h1, post_validation: true}"},
      {"schedule=dualpipe-v"},
      {"schedule=gpipe"},
      {"recompute=full"},
      {"recompute=selective"},
      {"recompute={method: stage-aware, first: 0.5}"},
      {"recompute=full", "offload={activations: true}"},
      {"recompute=full", "offload={activations: true, horizon: 1}"},
      {"framework={name: megatron-lm, version: \"2021\"}"},
      {"framework=megatron-deepspeed"},
      {"framework=nemo", "training.grad_dtype=fp32"}};  // the software profile alone
  Compiler compiler;
  const auto same = [&](const Prepared& prepared) {
    PassLog log;
    const auto made = compile(compiler, prepared.model, prepared.study, prepared.software, log);
    return *std::get<const Program*>(made) == compiled_program(prepared);
  };
  const Prepared base = prepare_text(kBase);
  for (const std::vector<std::string>& set : sets) {
    CAPTURE(set);
    CHECK(same(prepare_text(kBase, set)));
    CHECK(same(base));
  }
}

TEST_CASE("a Compiler goes on behind a plan that has no Program") {
  // 130 words and 66 are padded to a multiple of 2; 4 heads do not divide by 3, and shard() says
  // so.
  Compiler compiler;
  PassLog log;
  const Prepared good = prepare_text(kBase);
  Prepared bad = good;
  bad.study.parallel.tensor = 3;
  const auto program = [&](const Prepared& prepared) {
    return compile(compiler, prepared.model, prepared.study, prepared.software, log);
  };
  const std::string text = to_text(*std::get<const Program*>(program(good)));
  for (int again = 0; again < 2; ++again) {
    const auto refused = program(bad);
    CHECK(std::get<Infeasible>(refused).reason.find("tensor parallelism over 3 ranks") !=
          std::string::npos);
  }
  const bool same = to_text(*std::get<const Program*>(program(good))) == text;
  CHECK(same);
  const bool taken = to_text(compiler.take()) == text;
  CHECK(taken);
}

TEST_CASE("a Program that shares segments with a verified one is verified for the rest") {
  const Prepared prepared = prepare_text(kBase);
  const Program sound = compiled_program(prepared);
  ProgramVerifier verifier;
  const auto of_lists = [&](const Program& program) {
    REQUIRE(verifier.find_violation_of_all(sound) == std::nullopt);
    return verifier.find_violation_of_lists(program);
  };
  CHECK(of_lists(sound) == std::nullopt);
  // Each breaks something that no segment knows; both ways say the same of it.
  std::vector<Program> broken(5, sound);
  auto& calls = broken[0].body[0].calls;
  calls.erase(calls.end() - 1);  // no update: gradients are never freed
  std::swap(broken[1].body[1].calls[1],
            broken[1].body[1].calls[3]);  // a forward before its input has come
  broken[2].pools[PoolId(0)].slots = 0;
  broken[3].body.pop_back();
  for (Value& value : broken[4].values) {
    if (value.name == "b0.param") value.dims[0].bound = value.dims[0].expected = 1;
  }
  for (std::size_t i = 0; i < broken.size(); ++i) {
    CAPTURE(i);
    const auto problem = of_lists(broken[i]);
    REQUIRE(problem.has_value());
    CHECK(problem == find_violation(broken[i]));
  }
}

}  // namespace trainyard::compiler_test
