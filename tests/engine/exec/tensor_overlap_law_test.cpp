// Tensor parallelism in chunks as the compiled Program has it: the chunks of a microbatch take on
// the executor what closed forms say (Lai et al., section 5.3, of two), and the last collective of
// a product alone is not hidden.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "engine/exec/channels/lanes.h"
#include "engine/schedule/sub_pipelined.h"
#include "tests/support/golden.h"
#include "tests/support/studies.h"
#include "tests/support/timing.h"

namespace trainyard::tensor_overlap_law_test {

namespace {

/// As many samples as chunks.
Program program_of(int layers, const std::string& scope, int chunks = 2) {
  return compiled_program(prepare_text(
      "model: {family: gpt, layers: " + std::to_string(layers) +
      ", hidden: 32, heads: 4, vocab: 64, seq_len: 8}\n"
      "cluster: {preset: dgx-a100-80g, nodes: 1}\n"
      "parallel: {tensor: 2, data: 1, tensor_overlap: {scope: " +
      scope + ", chunks: " + std::to_string(chunks) + "}}\ntraining: {global_batch: " +
      std::to_string(chunks) + ", microbatch: " + std::to_string(chunks) + ", dropout: 0}\n"));
}

const Segment& segment(const Program& program, const std::string& name) {
  const auto it = std::find_if(program.segments.begin(), program.segments.end(),
                               [&](const Segment& s) { return s.name == name; });
  REQUIRE(it != program.segments.end());
  return *it;
}

struct Times {
  Seconds forward = 0, backward = 0;
};

/// Times of one microbatch, where only a chunk's block and its all-reduce take time: `compute` / 2c
/// of the last GEMM before the all-reduce, twice that backward, and `all_reduce` / 2c.
Times times_of(const Program& program, double compute, double all_reduce, int chunks = 2) {
  Costs costs = zero_costs(program, free_links(2));
  for (const Segment& s : program.segments) {
    for (std::size_t k = 0; k < s.ops.size(); ++k) {
      const std::string& module = program.modules[s.ops[k].module];
      const bool out = module.ends_with(".proj") || module.ends_with(".fc2");
      const bool in = module.ends_with(".qkv") || module.ends_with(".fc1");
      if (s.ops[k].kind != OpKind::kLinear) continue;
      if (out && s.ops[k].part == OpPart::kForward)
        cost_of(costs, program, s.name, k).kernel = compute / (2 * chunks);
      if (in && s.ops[k].part == OpPart::kInputGrad)
        cost_of(costs, program, s.name, k).kernel = compute / chunks;
    }
  }
  const Lanes lanes = find_lanes(program);
  for (const Message& message : lanes.messages) {
    const bool of_chunk = message.kind == OpKind::kAllReduce && message.bytes == 8 * 32 * 2;
    costs.messages.emplace_back(of_chunk ? all_reduce / (2 * chunks) : 0);
  }
  RunOptions options;
  options.compute_only = true;
  options.record_rows = true;
  const Trace trace = run(program, costs, options);
  Times times;
  for (const TraceRow& row : trace.ranks.at(0).rows) {
    const Segment& s = program.segments[row.segment];
    (s.phase == Phase::kForward ? times.forward : times.backward) =
        std::max(s.phase == Phase::kForward ? times.forward : times.backward, row.end);
  }
  times.backward -= times.forward;
  return times;
}

}  // namespace

TEST_CASE("a chunk has two all-reduces per block, each behind its part of the block") {
  for (const std::string overlap : {"block", "across-blocks"}) {
    const Program program = program_of(3, overlap);
    for (const std::string name : {"0F", "0B"}) {
      std::string order;  // of the chunks' collectives: attention or MLP, and the chunk
      for (const ProgramOp& op : segment(program, name).ops) {
        if (op.kind != OpKind::kAllReduce) continue;
        const std::string& value = program.values[op.reads.at(0).value].name;
        if (!value.ends_with("/1") && !value.ends_with("/2")) continue;
        const bool attention =
            value.find("attention") != value.npos || value.find("norm_1") != value.npos;
        order += std::string(attention ? "a" : "m") + value.back();
      }
      CAPTURE(overlap, name);
      const std::string layer = name == "0F" ? "a1a2m1m2" : "m2m1a2a1";
      CHECK(order == layer + layer + layer);
    }
  }
}

TEST_CASE("the Program's chunks take what Merak's closed forms say") {
  for (const int layers : {1, 2, 3, 12, 24}) {
    const Program across = program_of(layers, "across-blocks");
    const Program block = program_of(layers, "block");
    for (const double compute : {0.0, 1.0, 2.0, 4.0, 7.0}) {
      for (const double all_reduce : {0.0, 1.0, 2.0, 4.0, 5.0, 8.0, 20.0}) {
        CAPTURE(layers, compute, all_reduce);
        const Times got = times_of(across, compute, all_reduce);
        const SubPipelinedTime law = sub_pipelined(layers, compute, all_reduce, true);
        CHECK(got.forward == law.forward);
        CHECK(got.backward == law.backward);
        const Times joined = times_of(block, compute, all_reduce);
        const SubPipelinedTime one = sub_pipelined(1, compute, all_reduce, true);
        CHECK(joined.forward == layers * one.forward);
        CHECK(joined.backward == layers * one.backward);
      }
    }
  }
}

TEST_CASE("four chunks take what the closed forms say of them") {
  for (const int layers : {1, 3}) {
    const Program across = program_of(layers, "across-blocks", 4);
    const Program block = program_of(layers, "block", 4);
    for (const double compute : {0.0, 2.0, 7.0}) {
      for (const double all_reduce : {0.0, 1.0, 4.0, 20.0}) {
        CAPTURE(layers, compute, all_reduce);
        const Times got = times_of(across, compute, all_reduce, 4);
        const SubPipelinedTime law = sub_pipelined(layers, compute, all_reduce, true, 4);
        CHECK(got.forward == law.forward);
        CHECK(got.backward == law.backward);
        const Times joined = times_of(block, compute, all_reduce, 4);
        const SubPipelinedTime one = sub_pipelined(1, compute, all_reduce, true, 4);
        CHECK(joined.forward == layers * one.forward);
        CHECK(joined.backward == layers * one.backward);
      }
    }
  }
}

TEST_CASE("inside a product each chunk's all-reduce runs beside the next chunk's product") {
  // Two products of a layer are followed by an all-reduce, `block` and `reduce` of each chunk, and
  // chunks join behind it: the first chunk's product, the longer of both between, the last reduce.
  // Backward the products whose operands' gradients are reduced are whole, and so is what they are
  // reduced in, which takes no time here.
  for (const int chunks : {2, 4}) {
    const Program program = program_of(2, "linear", chunks);
    for (const double compute : {0.0, 2.0, 8.0}) {
      for (const double all_reduce : {0.0, 1.0, 4.0, 32.0}) {
        CAPTURE(chunks, compute, all_reduce);
        const Times got = times_of(program, compute, all_reduce, chunks);
        const double block = compute / (2 * chunks), reduce = all_reduce / (2 * chunks);
        const auto product = [&](double kernel) {
          return kernel + (chunks - 1) * std::max(kernel, reduce) + reduce;
        };
        CHECK(got.forward == 2 * 2 * product(block));
        CHECK(got.backward == 2 * 2 * (2 * block));
      }
    }
  }
}

TEST_CASE("the Program's chunks take what Merak's vectors say") {
  const auto golden = golden_json("merak_subpipelined_tmp.json");
  for (const auto& expected : golden["cases"]) {
    const Times got =
        times_of(program_of(expected["K"], "across-blocks"), expected["Tm"], expected["Ta"]);
    CHECK(got.forward == expected["fwd"].get<double>());
    CHECK(got.backward == expected["bwd"].get<double>());
  }
}

}  // namespace trainyard::tensor_overlap_law_test
