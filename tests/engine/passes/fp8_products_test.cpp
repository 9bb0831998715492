// Which products are cast into 8 bits, what is made of a weight once per step, over which ranks the
// largest element is looked for, and what is kept for the backward.
#include "engine/passes/fp8_products.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/memory/memory.h"
#include "engine/program/program_text.h"
#include "engine/program/value_lifetimes.h"
#include "tests/support/studies.h"

namespace trainyard::fp8_products_test {

namespace {

using Sets = std::vector<std::string>;

const std::string kLlama =
    "model: {family: llama, layers: 2, hidden: 64, heads: 4, ffn: 96, vocab: 128, seq_len: 32}\n"
    "cluster: {gpu: b200, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
    "parallel: {data: 1}\n"
    "training: {global_batch: 4, precision: fp8}\n";

Program compiled(const Sets& sets) { return compiled_program(prepare_text(kLlama, sets)); }

std::string recipe(const std::string& name, const std::string& more = "") {
  return "training.precision={type: fp8, recipe: " + name + more + "}";
}

const Segment& segment(const Program& program, const std::string& name) {
  const auto at = std::find_if(program.segments.begin(), program.segments.end(),
                               [&](const Segment& it) { return it.name == name; });
  REQUIRE(at != program.segments.end());
  return *at;
}

const Value& value(const Program& program, const Operand& operand) {
  return program.values[operand.value];
}

/// Ops of the module "decoder.layers.1.mlp.fc2" and the like, as "linear_dx e5m2 e4m3 fp32 fp32".
std::vector<std::string> ops_of(const Program& program, const std::string& of,
                                const std::string& module) {
  std::vector<std::string> out;
  for (const ProgramOp& op : segment(program, of).ops) {
    if (program.modules[op.module] != module || op.kind == OpKind::kFree) continue;
    std::string text = op_name(op.kind, op.part);
    for (const Operand& read : op.reads)
      text += " " + std::string(to_string(value(program, read).dtype));
    out.push_back(text);
  }
  return out;
}

int count(const Program& program, const std::string& of, OpKind kind) {
  const auto& ops = segment(program, of).ops;
  return static_cast<int>(
      std::count_if(ops.begin(), ops.end(), [&](const ProgramOp& op) { return op.kind == kind; }));
}

/// Names of the groups over which largest elements are looked for in a segment.
std::multiset<std::string> amax_groups(const Program& program, const std::string& of) {
  std::multiset<std::string> names;
  for (const ProgramOp& op : segment(program, of).ops) {
    if (op.kind == OpKind::kAllReduce && program.attrs[op.attrs].maximum &&
        value(program, op.reads[0]).name.find("amax") != std::string::npos)
      names.insert(program.groups[op.group].name);
  }
  return names;
}

std::string module_named(const Program& program, const std::string& end) {
  for (const std::string& module : program.modules) {
    if (module.ends_with(end) && module.find("layers.1.") != std::string::npos) return module;
  }
  FAIL("no module " << end);
  return "";
}

}  // namespace

TEST_CASE("a linear layer casts its input, and its backward the gradient") {
  const Program program = compiled({});
  const std::string down = module_named(program, "mlp.down");
  CHECK(ops_of(program, "0F", down) ==
        std::vector<std::string>{"amax bf16", "quantize bf16 fp32", "linear e4m3 e4m3 fp32 fp32"});
  CHECK(ops_of(program, "0B", down) == std::vector<std::string>{"amax bf16", "quantize bf16 fp32",
                                                                "linear_dx e5m2 e4m3 fp32 fp32",
                                                                "linear_dw e5m2 e4m3 fp32 fp32"});
  // Weights are cast once: 4 of each of 2 layers. The LM head is not.
  CHECK(ops_of(program, "0ZERO", down) ==
        std::vector<std::string>{"amax bf16", "quantize bf16 fp32"});
  CHECK(count(program, "0ZERO", OpKind::kQuantize) == 8);
  CHECK(ops_of(program, "0F", "lm_head") == std::vector<std::string>{"linear bf16 bf16"});
}

TEST_CASE("what the backward keeps of a layer's input is one byte an element") {
  // 32 tokens of a microbatch, two blocks: inputs of qkv, proj and gate_up are 64 wide, that of
  // down
  // 96. bf16 keeps an element in 2 bytes, FP8 in 1, and a scale of 4 bytes for each input.
  const auto kept = [](const Program& program) {
    std::map<std::string, Bytes> bytes;
    const auto& forward = segment(program, "0F").ops;
    for (const ProgramOp& op : segment(program, "0B").ops) {
      if (op.kind != OpKind::kLinear || op.part != OpPart::kWeightGrad) continue;
      for (const Operand& read : op.reads) {
        const bool made = std::any_of(forward.begin(), forward.end(), [&](const ProgramOp& of) {
          return std::count(of.writes.begin(), of.writes.end(), read) > 0;
        });
        const Value& v = value(program, read);
        if (made && v.name.find("lm_head") == std::string::npos &&
            program.modules[op.module].find("layers") != std::string::npos)
          bytes[v.name] = size_in_bytes(v);
      }
    }
    Bytes all = 0;
    for (const auto& [name, size] : bytes) all += size;
    return all;
  };
  constexpr Bytes kElements = 2 * 32 * (3 * 64 + 96);
  CHECK(kept(compiled({"training.precision=bf16"})) == 2 * kElements);
  CHECK(kept(compiled({})) == kElements + 2 * 4 * 4);
}

TEST_CASE("the largest element of a tensor is looked for on all ranks that have parts of it") {
  const Sets layout = {"parallel={data: 2, tensor: 2, sequence_parallel: true}"};
  const Program program = compiled(layout);
  // A column layer's gathered input is split over dp alone, and the gradient of its output over tp
  // too; a row layer's the other way round. 4 layers in each of 2 blocks.
  CHECK(amax_groups(program, "0F").size() == 8);
  CHECK(amax_groups(program, "0F").count("dp") == 4);
  CHECK(amax_groups(program, "0B").size() == 8);
  CHECK(amax_groups(program, "0B").count("dp") == 4);
  CHECK(amax_groups(program, "0ZERO").size() == 8);
  CHECK(amax_groups(program, "0ZERO").count("tp") == 8);
  // Frameworks whose replicas scale by themselves look within the tensor group.
  const Program nemo =
      compiled({layout[0], "framework=nemo", recipe("tensorwise", ", gather: bf16")});
  CHECK(amax_groups(nemo, "0F").count("tp") == 4);
  CHECK(amax_groups(nemo, "0F").size() == 4);
  CHECK(amax_groups(compiled({}), "0F").empty());
}

TEST_CASE("with gather: fp8 what is gathered for products alone is cast before") {
  const Sets layout = {"parallel={tensor: 2, data: 1, sequence_parallel: true}"};
  const auto gathered = [&](const std::string& gather) {
    const Program program = compiled({layout[0], recipe("tensorwise", ", gather: " + gather)});
    std::map<std::string, int> types;
    for (const char* of : {"0F", "0B"}) {
      for (const ProgramOp& op : segment(program, of).ops) {
        if (op.kind == OpKind::kAllGather)
          ++types[std::string(to_string(value(program, op.reads[0]).dtype))];
      }
    }
    return types;
  };
  // Two gathers a block forward, again for weight gradients, and two of gradients; 1 at the LM
  // head, which is not cast, and 1 again.
  const auto of_bf16 = gathered("bf16");
  const auto of_fp8 = gathered("fp8");
  CHECK(of_bf16.count("e4m3") == 0);
  CHECK(of_fp8.at("e4m3") == 8);
  CHECK(of_fp8.at("e5m2") == 4);
  CHECK(of_fp8.at("bf16") + 12 == of_bf16.at("bf16"));
}

TEST_CASE("rows and blocks find their own scales, along the dim that each product sums over") {
  const auto windows = [](const Program& program, const std::string& of) {
    std::set<std::string> out;
    for (const ProgramOp& op : segment(program, of).ops) {
      if (op.kind != OpKind::kQuantize) continue;
      const HeightWidth window = program.attrs[op.attrs].window;
      out.insert(std::to_string(window.height) + "x" + std::to_string(window.width));
    }
    return out;
  };
  using Set = std::set<std::string>;
  const Program rowwise = compiled({recipe("rowwise")});
  CHECK(windows(rowwise, "0F") == Set{"0x1", "1x0"});
  CHECK(windows(rowwise, "0ZERO") == Set{"0x1", "1x0"});
  const Program blocks = compiled({recipe("blockwise-128")});
  CHECK(windows(blocks, "0F") == Set{"1x128", "128x1"});
  CHECK(windows(blocks, "0ZERO") == Set{"128x128"});
  const Program mx = compiled({recipe("mx")});
  CHECK(windows(mx, "0B") == Set{"1x32", "32x1"});
  for (const Program* program : {&rowwise, &blocks, &mx}) {
    CHECK(count(*program, "0F", OpKind::kAmax) == 0);
    CHECK(count(*program, "0B", OpKind::kAllReduce) == 0);
  }
  // A scale for 32 elements, as an exponent: down's input is 96 wide, of 32 tokens.
  const std::string down = module_named(mx, "mlp.down");
  for (const ProgramOp& op : segment(mx, "0F").ops) {
    if (op.kind != OpKind::kQuantize || mx.modules[op.module] != down) continue;
    const Value& scale = value(mx, op.writes[1]);
    CHECK(scale.dtype == DType::kE8m0);
    CHECK(num_elements(scale.dims) == 96);
  }
}

TEST_CASE("delayed scaling keeps a history, which all ranks' amaxes enter once per step") {
  const Program program =
      compiled({recipe("delayed"), "parallel={data: 2, tensor: 2}", "training.global_batch=8"});
  CHECK(count(program, "0F", OpKind::kAmax) == 0);
  CHECK(amax_groups(program, "0F").empty());
  CHECK(count(program, "0UPDATE", OpKind::kUpdateScales) == 2);
  CHECK(amax_groups(program, "0UPDATE").size() == 2);  // of e4m3, and of e5m2
  Bytes history = 0;
  for (const Value& v : program.values) {
    if (v.name.find("history") == std::string::npos) continue;
    CHECK(v.scope == Scope::kPersistent);
    history += size_in_bytes(v);
  }
  CHECK(history == Bytes{1024} * 4 * 3 * 8);  // inputs, weights and gradients of 8 layers
}

TEST_CASE("Hopper's products take transposed copies, made with the cast or behind the gather") {
  const Sets hopper = {"cluster.gpu=h100-sxm-80g"};
  const Program program = compiled(hopper);
  for (const ProgramOp& op : segment(program, "0F").ops) {
    if (op.kind == OpKind::kQuantize) CHECK(op.writes.size() == 3);
  }
  CHECK(count(program, "0B", OpKind::kTranspose) == 0);
  const Program gathers = compiled({hopper[0], recipe("tensorwise", ", gather: fp8"),
                                    "parallel={tensor: 2, data: 1, sequence_parallel: true}"});
  // For weight gradients: 2 gathered inputs and 2 gathered gradients of each block.
  CHECK(count(gathers, "0B", OpKind::kTranspose) == 8);
}

TEST_CASE("Programs with FP8 are sound under every recipe and schedule") {
  const std::string name = GENERATE("tensorwise", "delayed", "rowwise", "blockwise-128", "mx");
  const Sets layouts[] = {
      {"parallel={tensor: 2, pipeline: 2, data: 2, sequence_parallel: true, zero: 1}"},
      {"parallel={pipeline: 2, data: 2}", "schedule=zb-h1", "recompute=full"},
      {"parallel={pipeline: 2, data: 1, virtual_stages: 2}", "model.layers=4",
       "schedule=dualpipe-v"},
      {"parallel={tensor: 2, data: 2, sequence_parallel: true}", "recompute=selective",
       "framework=nemo"},
      {"parallel={data: 1}", "recompute=full", "offload={activations: true}",
       "training.microbatch=[1, 2, 1]"}};
  for (const Sets& layout : layouts) {
    for (const char* gpu : {"b200", "h100-sxm-80g"}) {
      if (name == "mx" && std::string(gpu) != "b200") continue;
      Sets sets = layout;
      sets.insert(sets.end(), {recipe(name), std::string("cluster.gpu=") + gpu});
      CAPTURE(name, gpu, layout);
      const Program program = compiled(sets);  // verified by compile()
      CHECK(parse_program(to_text(program), "program.txt") == program);
    }
  }
}

TEST_CASE("a framework's kernels find the largest element of a tensor while they make it") {
  // A layer's operands, weights apart, of an llama:
  //   forward   inputs of q k v and of gate and up are norms', that of down SwiGLU's; attention's
  //             output is a product's
  //   backward  down's and the projection's output gradients are the residual's, sums or a norm's;
  //             gate's and up's is SwiGLU's; q k v's is made by attention, or turned by RoPE
  const auto in_passing = [](const Program& program, const std::string& of) {
    int found = 0;
    for (const ProgramOp& op : segment(program, of).ops) {
      if (op.kind == OpKind::kAmax && program.attrs[op.attrs].in_passing) ++found;
    }
    return found;
  };
  const Program program = compiled({"framework={name: torchtitan, version: compiled}",
                                    "parallel.data=2", "training.global_batch=8"});
  CHECK(count(program, "0F", OpKind::kAmax) == 2 * 4);
  CHECK(in_passing(program, "0F") == 2 * 3);
  const Program bridge = compiled({"framework=megatron-bridge"});
  CHECK(count(bridge, "0F", OpKind::kAmax) == 2 * 4);
  CHECK(in_passing(bridge, "0F") == 2 * 3);
  CHECK(count(bridge, "0B", OpKind::kAmax) == 2 * 4);
  CHECK(in_passing(bridge, "0B") == 2 * 1);
  const Program nemo =
      compiled({"framework=nemo", "training.precision={type: fp8, recipe: tensorwise}"});
  CHECK(count(nemo, "0F", OpKind::kAmax) == 2 * 4);
  CHECK(in_passing(nemo, "0F") == 0);
}

}  // namespace trainyard::fp8_products_test
