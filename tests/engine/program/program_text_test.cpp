// The Program's text form: it reads back into an equal Program, and its digest covers what it
// should.
#include "engine/program/program_text.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>

#include "engine/passes/plan_mesh.h"
#include "engine/program/verify.h"
#include "engine/sharding/spec_text.h"
#include "tests/support/example_program.h"
#include "tests/support/studies.h"

namespace trainyard::program_text_test {

namespace {

/// A study with two pipeline stages on one node of 8 devices; later keys override earlier ones.
std::string study(const std::string& model, const std::string& parallel, const std::string& rest) {
  return "model: {" + model + "}\ncluster: {preset: dgx-a100-80g, nodes: 1}\nparallel: {" +
         parallel + "}\ntraining: {global_batch: 16, microbatch: 1}\n" + rest;
}

const std::string kGpt = "family: gpt, layers: 4, hidden: 64, heads: 4, vocab: 512, seq_len: 32";
const std::string kLlama =
    "family: llama, layers: 4, hidden: 64, heads: 4, vocab: 512, seq_len: 32";
const std::string kBert = "family: bert, layers: 4, hidden: 64, heads: 4, vocab: 512, seq_len: 32";
const std::string kT5 = "family: t5, layers: 4, hidden: 64, heads: 4, vocab: 512, seq_len: 32";
const std::string kMesh = "tensor: 2, pipeline: 2, data: 2";

const std::vector<std::string>& compiled_studies() {
  static const std::vector<std::string> kStudies = {
      study(kGpt, kMesh, ""),
      study(kGpt, kMesh, "schedule: gpipe\nrecompute: full\n"),
      study(kGpt, kMesh + ", sequence_parallel: true, zero: 1", "recompute: selective\n"),
      study(kGpt, "tensor: 1, pipeline: 2, data: 4, virtual_stages: 2, zero: 1",
            "schedule: interleaved\n"),
      study(kLlama, kMesh + ", sequence_parallel: true", "framework: megatron-lm\n"),
      study(kLlama, "tensor: 4, pipeline: 1, data: 2", "recompute: full\n"),
      study(kBert, kMesh, "schedule: gpipe\n"),
      study(kT5, kMesh, ""),
      study(kT5, "tensor: 1, pipeline: 4, data: 2", "schedule: gpipe\n"),
      study(kGpt, "data: 4, zero: {stage: 3, layout: per-parameter}", ""),
  };
  return kStudies;
}

Program compiled(const std::string& yaml, const std::vector<std::string>& sets = {}) {
  return compiled_program(prepare_text(yaml, sets));
}

}  // namespace

TEST_CASE("the worked example reads, can run, and prints as it was written") {
  const Program program = parse_program(kExampleProgram, "example");
  CHECK_FALSE(find_violation(program));
  CHECK(to_text(program) == kExampleProgram);

  CHECK(program.mesh == DeviceMesh{"", {{"pp", 2, true}, {"tp", 2}}, {}});
  CHECK(program.placement == make_placement(program.mesh, "DPT"));
  REQUIRE(program.groups.size() == 2);
  CHECK(program.groups[GroupId(1)] == Group{"all", {0, 1}, {}});
  CHECK(program.transfers == std::vector<Transfer>{{0, 1}, {0, -1}});
  CHECK(program.pools[PoolId(1)] == Pool{"rb", 1, Space::kDevice});
  const Value& y0 = program.values[ValueId(17)];
  CHECK(y0.name == "y0");
  CHECK(y0.dims == Dims{{16, 16, -1}, {4, 4, -1}});
  CHECK(y0.alias == Alias{ValueId(16), 0, kNoIndex});
  CHECK(y0.scope == Scope::kMicrobatch);
  CHECK(to_text(spec_of(program, program.values[ValueId(0)]), program.mesh) == "[tp, R]");
  const Segment& forward = program.segments[SegmentId(2)];
  CHECK(forward.name == "0F");
  CHECK(forward.slots == 1);
  REQUIRE(forward.ops.size() == 5);
  ProgramOp reduce;
  reduce.kind = OpKind::kAllReduce;
  reduce.stream = StreamId::kTp;
  reduce.group = GroupId(0);
  reduce.reads = {{ValueId(16), 0}};
  reduce.writes = {{ValueId(17), 0}};
  CHECK(forward.ops[4] == reduce);
  REQUIRE(program.body[0].calls.size() == 13);
  CHECK(program.body[0].calls[3].segment == SegmentId(2));
  CHECK(program.body[0].calls[3].mb == std::array<Microbatch, 2>{1, -1});
}

TEST_CASE("everything that a Program can say survives the text") {
  Program p;
  p.mesh = {"", {{"stage", 3, true}, {"one", 1}, {"x0", 2}, {"x1", 2}}, {{"x", {2, 3}}}};
  p.placement = {{4, 0, 1, 2}};
  p.num_microbatches = 11;
  OpAttrs attention;
  attention.heads = attention.kv_heads = 2147483647;
  attention.packed = attention.causal = attention.has_mask = attention.has_bias = true;
  attention.rate = 0.1F;
  attention.scale = 0.30000001F;
  OpAttrs other;
  other.head_dim = 1;
  other.share = 1.0F / 3;
  other.dim = 4;
  other.dims = {3, 0, 7};
  other.begin = 12345678901;
  other.partial_gradient = other.tanh_gelu = other.copies = true;
  p.attrs = {OpAttrs{}, attention, other};
  p.modules = {"", "a.b", "c"};
  p.pools = {{"odd:name", 7, Space::kHost}};
  p.groups = {{"tied", {0}, {0, 2}}, {"mixed", {3, 0}, {}}, {"x", {2, 3}, {}}, {"none", {}, {}}};
  p.owners = GroupId(2);
  p.transfers = {{0, -2}, {3, 1}};
  Value routed;
  routed.name = "x'+1@2:y";
  routed.dims = {{96, 128, 3}, {0, 0, -1}, {5, 9, -1}};
  routed.dtype = DType::kFp8;
  TensorSpec split = replicated_spec(3);
  split.dims[1].parts = {{2, 32, {2}, false}, {1, 64, {2}, true}};
  split.dims[2].after = {1};
  split.partial = bit(3);
  split.maximum = true;
  routed.spec = add_spec(p, split);
  routed.scope = Scope::kMicrobatch;
  routed.space = Space::kHost;
  routed.pool = PoolId(0);
  Value own = routed;
  own.name = "own";
  own.alias = Alias{ValueId(0), 12345678901, GroupId(1)};
  Value flag;
  flag.name = "flag";
  flag.memory = MemoryClass::kOptimizerState;
  flag.owner = 3;
  flag.dims.assign(kMostDims, Dim{1, 2, -1});
  p.values = {routed, own, flag};
  ProgramOp op;
  op.kind = OpKind::kAttention;
  op.part = OpPart::kWeightGrad;
  op.stream = StreamId::kNorm;
  op.attrs = AttrId(1);
  op.module = PathId(1);
  op.reads = {{ValueId(0), 1}, {ValueId(2), 0}};
  op.accumulates = {{ValueId(1), 0}};
  op.guard = Operand{ValueId(2), 0};
  op.host_sync = true;
  ProgramOp plain;  // back to no module, and no operand at all
  plain.attrs = AttrId(2);
  ProgramOp later = plain;
  later.module = PathId(2);
  later.after = {0, 1};
  later.writes = {{ValueId(2), 0}};
  ProgramOp free;
  free.kind = OpKind::kFree;
  free.reads = {{ValueId(2), 0}};
  p.segments = {{"0F+7B", 0, Phase::kRecompute, 2, {op, plain, free, later}},
                {"7X.10", 7, Phase::kCommunicate, 0, {}},
                {"1W", 1, Phase::kBackwardWeight, 1, {}}};
  Call pair;
  pair.segment = SegmentId(0);
  pair.mb = {3, 10};
  pair.dims = {{3, 96}, {0, 1}};
  Call second;
  second.segment = SegmentId(2);
  second.mb = {7, -1};
  second.after = {{0}, {0}};
  second.inside = {{0, SegmentId(1)}, {4, SegmentId(1)}};
  p.body = {{RankSet{{0, -1, -1, 1}}, {pair, second}}, {RankSet{{-1, -1, -1, -1}}, {}}};

  const Program read = parse_program(to_text(p), "p.txt");
  CHECK(read == p);
  CHECK(to_text(read) == to_text(p));
  CHECK_THAT(to_text(p), Catch::StartsWith("program 2\nmesh stage=3:stages one=1 x0=2 x1=2 "
                                           "x=[x0,x1]\nmicrobatches 11\n"));
  CHECK_THAT(to_text(p), Catch::Contains("\ngroup x[x0,x1] owners\ngroup none[]\n"));
  CHECK_THAT(to_text(p), Catch::Contains("\n  0F+7B3,10(3=96,0=1) 1W7^0^0{@0:7X.10;@4:7X.10}\n"));
  CHECK_THAT(to_text(p),
             Catch::Contains("\n  norm attention_dw{heads=2147483647 kv_heads=2147483647 packed "
                             "causal mask bias rate=0.1 scale=0.3} x'+1@2:y[n] flag +> own[m] "
                             "guard flag host_sync\n"));
  CHECK_THAT(to_text(p), Catch::Contains("add{head_dim=1 tanh share=0.33333334 dim=4 partial "
                                         "dims=3,0,7 begin=12345678901 copies}\n"));
}

TEST_CASE("a compiled study's Program equals what its text parses to") {
  const auto check_text = [](const Program& program) {
    const std::string text = to_text(program);
    const Program read = parse_program(text, "program.txt");
    CHECK(read == program);
    CHECK(to_text(read) == text);
    CHECK(program_digest(read) == program_digest(program));
    CHECK_FALSE(find_violation(read));
  };
  for (const std::string& yaml : compiled_studies()) {
    CAPTURE(yaml);
    check_text(compiled(yaml));
  }
  check_text(
      compiled(study(kGpt, "zero: {stage: 3, replicate: 2}", "partition: {replicas: [2, 4]}\n"),
               {"training.microbatch=4"}));
}

TEST_CASE("the text keeps up with a Program of tens of thousands of ops") {
  const Program program = compiled(study(
      "family: gpt, layers: 96, hidden: 1024, heads: 16, vocab: 51200, seq_len: 128", kMesh, ""));
  const std::string text = to_text(program);
  CHECK(text.size() > 1'000'000);
  const auto begin = std::chrono::steady_clock::now();
  const Program read = parse_program(text, "program.txt");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  CHECK(read == program);
  CHECK(took.count() < 2.0);  // 0.02 s in a release build; sanitizers are slow
}

TEST_CASE("tables are numbered by first use, so that order and leftovers in them do not matter") {
  const Program program = compiled(compiled_studies()[0]);
  Program shuffled = program;
  const auto attrs = AttrId(program.attrs.size());
  std::reverse(shuffled.attrs.begin(), shuffled.attrs.end());
  shuffled.modules.insert(shuffled.modules.begin(), "not used");
  for (Segment& segment : shuffled.segments) {
    for (ProgramOp& op : segment.ops) {
      op.attrs = AttrId(attrs - 1 - op.attrs.number());
      ++op.module;
    }
  }
  CHECK_FALSE(shuffled == program);
  renumber_tables(shuffled);
  CHECK(shuffled == program);
}

TEST_CASE("the digest says what a step does, not where or with which numbers") {
  const std::string base = study(kGpt, kMesh, "");
  const std::string digest = program_digest(compiled(base));
  CHECK(digest.size() == 64);
  for (const char* same : {"parallel.placement=TPD", "parallel.placement=PDT", "training.seed=7",
                           "training.steps=3", "cluster.nodes=2", "training.clip_norm=0"}) {
    CAPTURE(same);
    CHECK(program_digest(compiled(base, {same})) == digest);
  }
  for (const char* other :
       {"schedule=gpipe", "framework=megatron-lm", "training.kernels=cpu", "training.microbatch=2",
        "training.precision=fp16", "training.bucket_elements=10e3",
        "training.flash_attention=false", "training.dropout=0", "training.optimizer=sgd",
        "parallel.zero=1", "parallel.sequence_parallel=true", "recompute=full", "model.hidden=128",
        "parallel.scatter_gather=false"}) {
    CAPTURE(other);
    CHECK(program_digest(compiled(base, {other})) != digest);
  }
  CHECK(to_text(compiled(base, {"parallel.placement=TPD"})) != to_text(compiled(base)));
}

}  // namespace trainyard::program_text_test
