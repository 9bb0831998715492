// Specs op by op: what is compiled verifies whatever the plan, and each mistake planted in a
// compiled Program is refused with the op's name and the tensor's.
#include "engine/program/verify_specs.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "engine/program/program_text.h"
#include "engine/program/rank_places.h"
#include "engine/program/verify.h"
#include "tests/support/studies.h"

namespace trainyard::verify_specs_test {

namespace {

std::string study(const std::string& family, const std::string& parallel,
                  const std::string& rest = "") {
  const std::string model = family == "llama" ? ", heads: 4, kv_heads: 2, ffn: 96" : ", heads: 4";
  return "model: {family: " + family + ", layers: 4, hidden: 64" + model +
         ", vocab: 64, seq_len: 8}\ncluster: {preset: dgx-a100-80g, nodes: 4}\nparallel: {" +
         parallel + "}\ntraining: {global_batch: 64, microbatch: 2}\n" + rest;
}

Program compiled(const std::string& family, const std::string& parallel,
                 const std::string& rest = "") {
  return compiled_program(prepare_text(study(family, parallel, rest)));
}

std::string violation(const Program& program) { return find_violation(program).value_or("none"); }

/// Does `edit` to the first op of that kind and part that it takes.
template <typename Edit>
ProgramOp& edit_op(Program& program, OpKind kind, OpPart part, const Edit& edit) {
  for (Segment& segment : program.segments) {
    for (ProgramOp& op : segment.ops) {
      if (op.kind == kind && op.part == part && edit(op)) return op;
    }
  }
  FAIL("no such op");
  return program.segments[SegmentId(0)].ops[0];
}
ProgramOp& first_op(Program& program, OpKind kind, OpPart part = OpPart::kForward) {
  return edit_op(program, kind, part, [](const ProgramOp&) { return true; });
}

void respec(Program& program, ValueId id, const std::function<void(TensorSpec&)>& change) {
  TensorSpec spec = spec_of(program, program.values[id]);
  change(spec);
  program.values[id].spec = add_spec(program, spec);
}

AxisId axis(const Program& program, const std::string& name) {
  return find_axes(program.mesh, name)->front();
}

void check_refused(const Program& program, const std::string& op, const std::string& tensor) {
  const std::string found = violation(program);
  CAPTURE(found);
  CHECK(found.find(": " + op) != std::string::npos);
  CHECK(found.find(tensor) != std::string::npos);
}

const std::string kTensorAndData = "tensor: 2, data: 2";

}  // namespace

TEST_CASE("what every family compiles to verifies under every kind of plan") {
  const std::vector<std::string> parallels = {
      "data: 1",
      "data: 2",
      "tensor: 2",
      "tensor: 2, data: 2",
      "tensor: 2, data: 2, sequence_parallel: true",
      "tensor: 2, data: 2, pipeline: 2, sequence_parallel: true",
      "tensor: 2, data: 2, pipeline: 2, scatter_gather: true",
      "data: 4, zero: {stage: 1}",
      "data: 4, zero: {stage: 1, by: parameter}",
      "tensor: 2, data: 2, zero: {stage: 1}",
      "tensor: 2, data: 2, zero: {stage: 1, by: parameter}",
      "tensor: 2, data: 2, pipeline: 2, zero: {stage: 1}",
      "tensor: 2, data: 2, pipeline: 2, zero: {stage: 1, by: parameter}",
      "tensor: 2, data: 2, tensor_overlap: block",
      "tensor: 2, data: 2, pipeline: 2, d2d_buffer: 1 MiB"};
  for (const std::string family : {"gpt", "bert", "t5", "llama"}) {
    for (const std::string& parallel : parallels) {
      for (const std::string rest : {"", "recompute: full\n"}) {
        CAPTURE(family, parallel, rest);
        std::string found;
        try {
          found = violation(compiled(family, parallel, rest));
        } catch (const std::exception& error) {
          found = error.what();
        }
        CHECK(found == "none");
      }
    }
  }
}

TEST_CASE("a missing all-reduce is seen where its summands are read") {
  Program program = compiled("gpt", kTensorAndData);
  // The second linear of an MLP splits its inputs over tp: each rank has summands, and the addition
  // of the residual, which all have, wants the sum.
  ValueId sum = kNoIndex, summands = kNoIndex;
  edit_op(program, OpKind::kAllReduce, OpPart::kForward, [&](ProgramOp& op) {
    summands = op.reads[0].value;
    sum = op.writes[0].value;
    return program.values[summands].name.ends_with("mlp.fc2.linear.partial");
  });
  std::string reader;
  for (Segment& segment : program.segments) {
    for (ProgramOp& op : segment.ops) {
      for (Operand& read : op.reads) {
        if (read.value != sum || op.kind == OpKind::kFree) continue;
        read.value = summands;
        if (reader.empty()) reader = op_name(op.kind, op.part);
      }
    }
  }
  check_refused(program, reader, "fc2.linear");
}

TEST_CASE("an all-reduce of what is added up already is seen") {
  // Its operand is R: twice as much would come out.
  Program program = compiled("gpt", kTensorAndData);
  ProgramOp& op = first_op(program, OpKind::kAllReduce);
  op.reads[0] = op.writes[0];
  check_refused(program, "all_reduce", "its operand is not P along tp");
}

TEST_CASE("a maximum that is added up is seen") {
  // cross_entropy over a split vocabulary: the largest logit of all ranks.
  Program program = compiled("gpt", kTensorAndData);
  AttrId plain = program.attrs.add(OpAttrs{});
  edit_op(program, OpKind::kAllReduce, OpPart::kForward, [&](ProgramOp& op) {
    const bool maximum = program.attrs[op.attrs].maximum;
    if (maximum) op.attrs = plain;
    return maximum;
  });
  check_refused(program, "all_reduce", "adds up candidates for a maximum");
}

TEST_CASE("a bias that is added to every summand is seen") {
  // add_bias stands behind the sum; in front of it tp times the bias would be added.
  Program program = compiled("gpt", kTensorAndData);
  ProgramOp& op = edit_op(program, OpKind::kAllReduce, OpPart::kForward, [&](const ProgramOp& one) {
    return program.values[one.reads[0].value].name.ends_with("fc2.linear.partial");
  });
  const ValueId sum = op.writes[0].value, summands = op.reads[0].value;
  edit_op(program, OpKind::kAddBias, OpPart::kForward, [&](ProgramOp& one) {
    if (one.reads[0].value != sum) return false;
    one.reads[0].value = summands;
    return true;
  });
  check_refused(program, "add_bias", "mlp.fc2");
}

TEST_CASE("a weight whose parts are swapped is seen") {
  // q of 4 heads, k and v of 2 each: with k's rows in front the others' results would be cut from
  // wrong rows.
  Program program = compiled("llama", kTensorAndData);
  const ValueId weight =
      edit_op(program, OpKind::kLinear, OpPart::kForward,
              [&](const ProgramOp& op) {
                return spec_of(program, program.values[op.reads[1].value]).dims[0].parts.size() > 1;
              })
          .reads[1]
          .value;
  respec(program, weight, [](TensorSpec& spec) {
    std::swap(spec.dims[0].parts.front(), spec.dims[0].parts.back());
  });
  check_refused(program, "linear", "parts");
}

TEST_CASE("a packed result without its parts is seen") {
  // Cut as one dim a rank would have the first half of q|k|v, not half of each.
  Program program = compiled("llama", kTensorAndData);
  const ValueId packed =
      edit_op(program, OpKind::kLinear, OpPart::kForward,
              [&](const ProgramOp& op) {
                return spec_of(program, program.values[op.reads[1].value]).dims[0].parts.size() > 1;
              })
          .writes[0]
          .value;
  respec(program, packed,
         [&](TensorSpec& spec) { spec.dims[2] = split_over({axis(program, "tp")}); });
  check_refused(program, "linear", "parts");
}

TEST_CASE("a gradient that is reduced over one of two axes is seen") {
  // A norm under sequence parallelism has summands along tp and dp; without the first sum the
  // second one's operand still has those of tp.
  Program program = compiled("gpt", "tensor: 2, data: 2, sequence_parallel: true");
  Segment* over_tensor = nullptr;
  for (Segment& segment : program.segments) {
    if (segment.name.find("REDUCE_TP") != std::string::npos) over_tensor = &segment;
  }
  REQUIRE(over_tensor != nullptr);
  const ValueId sum = over_tensor->ops[0].writes[0].value;
  over_tensor->ops.clear();
  respec(program, sum,
         [&](TensorSpec& spec) { set_state(spec, axis(program, "tp"), AxisState::kPartial); });
  check_refused(program, "all_reduce", "changes its state along tp");
}

TEST_CASE("a norm that counts replicas twice is seen") {
  // The norm adds up over tp, whose 2 ranks have norms' gradients alike: half of each.
  Program program = compiled("gpt", kTensorAndData);
  const AttrId plain = program.attrs.add(OpAttrs{});
  edit_op(program, OpKind::kSumSquares, OpPart::kForward, [&](ProgramOp& op) {
    const bool shared = program.attrs[op.attrs].share != 1;
    if (shared) op.attrs = plain;
    return shared;
  });
  check_refused(program, "sum_squares", "counts a share of 1");
}

TEST_CASE("a relative bias that is split over replicas is seen") {
  // It has no rows of the batch: all replicas have the same, and each a summand of its gradient.
  Program program = compiled("t5", kTensorAndData);
  const ValueId bias = first_op(program, OpKind::kRelativeBias).writes[0].value;
  respec(program, bias, [&](TensorSpec& spec) {
    spec.entered = 0;
    spec.dims[1] = split_over({axis(program, "dp")});
  });
  check_refused(program, "relative_bias", program.values[bias].name);
}

TEST_CASE("a parameter's gradient that is no summand before it is reduced is seen") {
  // Every replica adds up its own rows.
  Program program = compiled("gpt", kTensorAndData);
  const ValueId gradient =
      first_op(program, OpKind::kLinear, OpPart::kWeightGrad).accumulates[0].value;
  respec(program, gradient, [](TensorSpec& spec) { spec.partial = 0; });
  check_refused(program, "", program.values[gradient].name);
}

TEST_CASE("what is gathered in another order than it was cut is seen") {
  // Rank (a, b) has piece 2a + b of the first dim; a group over b, a has them as 0 2 1 3.
  const auto text = [](const std::string& group) {
    return "program 2\nmesh a=2 b=2\nmicrobatches 1\ngroup all[" + group +
           "]\n"
           "value x fp32[2,4] mb activation [a b, R]\n"
           "value y fp32[8,4] mb activation [R, R]\n"
           "segment 0F(m) stage:0 F\n  main load -> x[m]\n"
           "  tp all_gather:all x[m] -> y[m]\n  main free x[m] y[m]\n"
           "class\n  0F0\nplacement a:2 b:1\n";
  };
  CHECK(violation(parse_program(text("a,b"), "p")) == "none");
  CHECK(violation(parse_program(text("b,a"), "p")) ==
        "segment 0F op 1: all_gather: x -> y: its group is not what cuts dim 0 last");
}

TEST_CASE("a segment that runs only in one with a gather has the mesh of its stage") {
  // Three replicas of stage 1 have 2, 1 and 1 samples of a microbatch. Under ZeRO-3 all its
  // forwards run in segments that gather for the backward, too, and no list calls the plain one.
  const Program program = compiled_program(
      prepare_text("model: {family: ncf, users: 16, items: 12, hidden: 8, layers: 3}\n"
                   "cluster: {preset: local, ranks: 4}\nparallel: {zero: 3}\n"
                   "training: {global_batch: 8, microbatch: 4}\n"
                   "partition: {cuts: [1], replicas: [1, 3]}\n"));
  const auto ranks = pipeline_ranks_of_segments(program);
  for (const SegmentId id : program.segments.keys()) {
    CAPTURE(program.segments[id].name);
    CHECK(ranks[id] == program.segments[id].stage);
  }
  CHECK(violation(program) == "none");
}

TEST_CASE("gradients of chunks are each rank's own rows, put together") {
  for (const char* data : {"1", "2"}) {
    CAPTURE(data);
    CHECK(violation(compiled(
              "llama", std::string("tensor: 2, tensor_overlap: linear, data: ") + data)) == "none");
  }
}

TEST_CASE("shipped studies verify") {
  for (const auto& file : std::filesystem::directory_iterator(TRAINYARD_SOURCE_DIR "/configs")) {
    const std::string path = file.path().string();
    if (!path.ends_with(".yaml") || path.find("sweep") != std::string::npos) continue;
    CAPTURE(path);
    std::vector<std::string> warnings;
    const StudyResolvers resolvers = make_resolvers(TRAINYARD_SOURCE_DIR, warnings);
    CHECK(violation(compiled_program(prepare(path, {}))) == "none");
  }
}

}  // namespace trainyard::verify_specs_test
