// The explicit backward: what each instruction reads exists where it runs, every use of a parameter
// adds to its gradient once, and gradients that meet are summed. Over families, degrees, stages and
// recompute; then single facts that a reader can check by eye.
#include "engine/passes/differentiate.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/models/graph_text.h"
#include "tests/support/studies.h"

namespace trainyard::differentiate_test {

namespace {

const std::string kRest =
    "cluster: {preset: dgx-a100-80g, nodes: 2}\n"
    "training: {global_batch: 32, microbatch: 2, precision: bf16}\n";

const std::map<std::string, std::string> kModels = {
    {"gpt", "model: {family: gpt, layers: 8, hidden: 64, heads: 4, vocab: 96, seq_len: 32}\n"},
    {"llama",
     "model: {family: llama, layers: 8, hidden: 64, heads: 4, kv_heads: 2, vocab: 96, seq_len: "
     "32}\n"},
    {"bert", "model: {family: bert, layers: 8, hidden: 64, heads: 4, vocab: 96, seq_len: 32}\n"},
    {"bert-nsp",
     "model: {family: bert, layers: 8, hidden: 64, heads: 4, vocab: 96, seq_len: 32, "
     "next_sentence: true}\n"},
    {"t5", "model: {family: t5, layers: 4, hidden: 64, heads: 4, vocab: 96, seq_len: 32}\n"},
    {"t5-1.1",
     "model: {family: t5, layers: 4, hidden: 64, heads: 4, vocab: 96, seq_len: 32, activation: "
     "geglu, tied_embeddings: false}\n"},
};

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [name, text] : kModels) names.push_back(name);
  return names;
}

TrainingGraph training(const std::string& model, const std::vector<std::string>& sets = {}) {
  return training_graph(prepare_text(kModels.at(model) + kRest, sets));
}

const Tensor& at(const TrainingGraph& t, TensorId id) { return t.graph.tensors[id]; }

std::string text(const TrainingGraph& t, const Instruction& op) {
  std::string line = op_name(op.kind, op.part);
  for (const TensorId id : op.reads) line += " " + at(t, id).name;
  line += " ->";
  for (const TensorId id : op.writes) line += " " + at(t, id).name;
  if (!op.accumulates.empty()) line += " +>";
  for (const TensorId id : op.accumulates) line += " " + at(t, id).name;
  return line;
}

std::string backward_text(const TrainingGraph& t, std::int32_t layer, const std::string& module) {
  std::string out;
  for (const Instruction& op : t.backward) {
    const std::string& path = t.graph.modules[op.module];
    if (op.layer == layer && path == module) out += text(t, op) + "\n";
  }
  return out;
}

/// The first instruction that reads what nothing wrote before it, writes what is written already,
/// or touches a tensor of another stage; empty when there is none. Transfers read on the stage that
/// sends and write on the one that receives.
std::string find_misplaced(const TrainingGraph& t) {
  std::map<TensorId, std::int32_t> home;  // written so far -> the stage that has it
  const auto run = [&](const Instruction& op, std::int32_t reads_on,
                       std::int32_t writes_on) -> std::string {
    for (const TensorId id : op.reads) {
      if (at(t, id).role == TensorRole::kParameter) continue;
      const auto found = home.find(id);
      if (found == home.end()) return text(t, op) + ": " + at(t, id).name + " is not written yet";
      if (found->second != reads_on)
        return text(t, op) + ": " + at(t, id).name + " is on another stage";
    }
    for (const TensorId id : op.writes) {
      if (!home.emplace(id, writes_on).second) return text(t, op) + ": writes again";
    }
    for (const TensorId id : op.accumulates) {
      if (at(t, id).role != TensorRole::kParameterGradient)
        return text(t, op) + ": adds to no gradient";
    }
    return {};
  };
  for (const Instruction& op : t.forward) {
    const bool sends = op.kind == OpKind::kSend;
    if (auto problem = run(op, op.stage - (sends ? 1 : 0), op.stage); !problem.empty())
      return problem;
  }
  for (const Instruction& op : t.backward) {
    const bool sends = op.kind == OpKind::kSend;
    if (auto problem = run(op, op.stage, op.stage - (sends ? 1 : 0)); !problem.empty())
      return problem;
  }
  return {};
}

/// Forward reads of each parameter, and instructions that add to its gradient.
void check_parameter_gradients(const TrainingGraph& t) {
  std::map<ParameterId, int> uses, additions;
  for (const Instruction& op : t.forward) {
    for (const TensorId id : op.reads) {
      if (at(t, id).role == TensorRole::kParameter) ++uses[at(t, id).parameter];
    }
  }
  for (const Instruction& op : t.backward) {
    for (const TensorId id : op.accumulates) ++additions[at(t, id).parameter];
  }
  for (const ParameterId p : t.graph.parameters.keys()) {
    CAPTURE(t.graph.parameters[p].name);
    const bool trained = t.graph.parameters[p].tensor != kNoIndex;
    CHECK((uses[p] > 0) == trained);
    CHECK(additions[p] == uses[p]);
    REQUIRE((t.parameter_gradient[p] != kNoIndex) == trained);
    if (!trained) continue;
    const Tensor& gradient = at(t, t.parameter_gradient[p]);
    CHECK(gradient.shape == at(t, t.graph.parameters[p].tensor).shape);
    CHECK(gradient.dtype == DType::kFp32);
  }
}

/// A gradient has the shape and type of the value whose name it carries.
void check_gradient_shapes(const TrainingGraph& t) {
  std::map<std::string, const Tensor*> by_name;
  for (const Tensor& tensor : t.graph.tensors) {
    if (tensor.role == TensorRole::kActivation) by_name.emplace(tensor.name, &tensor);
  }
  int checked = 0;
  for (const Tensor& tensor : t.graph.tensors) {
    if (tensor.role != TensorRole::kActivation || !tensor.name.starts_with("d.")) continue;
    const auto of = by_name.find(tensor.name.substr(2));
    if (of == by_name.end()) continue;  // a sum, or the second gradient of its value
    CAPTURE(tensor.name);
    CHECK(tensor.shape == of->second->shape);
    CHECK(tensor.dtype == of->second->dtype);
    ++checked;
  }
  CHECK(checked > 50);
}

int count(const TrainingGraph& t, OpKind kind, const std::string& written_prefix) {
  return static_cast<int>(
      std::count_if(t.backward.begin(), t.backward.end(), [&](const Instruction& op) {
        return op.kind == kind && op.writes.size() == 1 &&
               at(t, op.writes[0]).name.starts_with(written_prefix);
      }));
}

}  // namespace

TEST_CASE("every backward instruction reads what exists on its stage, and writes it once") {
  const auto model = GENERATE(from_range(model_names()));
  const auto plan = GENERATE(values<std::vector<std::string>>({
      {},
      {"parallel.tensor=2"},
      {"parallel.tensor=4", "parallel.sequence_parallel=true", "parallel.pipeline=2"},
      {"parallel.pipeline=4"},
      {"parallel.pipeline=8", "parallel.tensor=2"},
      {"parallel.pipeline=2", "parallel.virtual_stages=4", "schedule=interleaved"},
      {"parallel.pipeline=4", "parallel.tensor=2", "parallel.scatter_gather=false"},
      {"parallel.pipeline=2", "parallel.tensor=2", "framework=megatron-lm"},
      {"parallel.pipeline=2", "parallel.tensor=2", "parallel.sequence_parallel=true",
       "framework={name: megatron-lm, version: 2022}"},
  }));
  const auto recompute = GENERATE(as<std::string>(), "none", "selective", "full");
  std::vector<std::string> sets = plan;
  sets.push_back("recompute=" + recompute);
  sets.push_back("training.flash_attention=" +
                 std::string(recompute == "selective" ? "false" : "auto"));
  // Llama's 2 key-value heads do not divide by 4.
  if (model == "llama") sets.push_back("model.kv_heads=4");
  CAPTURE(model, sets);
  const TrainingGraph t = training(model, sets);
  CHECK(find_misplaced(t) == "");
  check_parameter_gradients(t);
}

TEST_CASE("no two tensors share a name") {
  // The Program's text names values; it parses back because their names differ.
  const auto model = GENERATE(from_range(model_names()));
  const auto recompute = GENERATE(as<std::string>(), "none", "full");
  const auto framework =
      GENERATE(as<std::string>(), "trainyard", "{name: megatron-lm, version: 2022}");
  const auto sequence = GENERATE(as<std::string>(), "true", "false");
  CAPTURE(model, recompute, framework, sequence);
  const TrainingGraph t = training(
      model, {"parallel.tensor=2", "parallel.pipeline=2", "parallel.sequence_parallel=" + sequence,
              "recompute=" + recompute, "framework=" + framework});
  std::set<std::string> names;
  for (const Tensor& tensor : t.graph.tensors) {
    CAPTURE(tensor.name);
    CHECK(names.insert(tensor.name).second);
  }
}

TEST_CASE("gradients have the shape and type of their values") {
  const auto model = GENERATE(from_range(model_names()));
  const auto tensor = GENERATE(as<std::string>(), "1", "2");
  CAPTURE(model, tensor);
  check_gradient_shapes(training(model, {"parallel.tensor=" + tensor}));
}

TEST_CASE("a fp16 gradient type is what parameter gradients accumulate in") {
  const TrainingGraph t = training("gpt", {"training.precision=fp16", "training.grad_dtype=fp16"});
  for (const TensorId id : t.parameter_gradient) CHECK(at(t, id).dtype == DType::kFp16);
}

TEST_CASE("the backward of an MLP splits input and weight gradients, weight gradients last") {
  const TrainingGraph t = training("gpt", {"parallel.tensor=2"});
  const std::string mlp = "decoder.layers.3.mlp";
  // The row linear's bias is added behind its all-reduce; the column linear's gradient is
  // all-reduced before its weight gradient, which runs beside it.
  CHECK(backward_text(t, 3, mlp + ".fc2") ==
        "add_bias_dw d.decoder.layers.3.mlp.fc2.linear -> +> grad.decoder.layers.3.mlp.fc2.bias\n"
        "linear_dx d.decoder.layers.3.mlp.fc2.linear decoder.layers.3.mlp.fc2.weight -> "
        "d.decoder.layers.3.mlp.gelu\n"
        "linear_dw d.decoder.layers.3.mlp.fc2.linear decoder.layers.3.mlp.gelu -> +> "
        "grad.decoder.layers.3.mlp.fc2.weight\n");
  CHECK(backward_text(t, 3, mlp + ".fc1") ==
        "linear_dx d.decoder.layers.3.mlp.fc1.linear decoder.layers.3.mlp.fc1.weight -> "
        "d.decoder.layers.3.norm_2.layer_norm.entered\n"
        "all_reduce d.decoder.layers.3.norm_2.layer_norm.entered -> "
        "d.decoder.layers.3.norm_2.layer_norm\n"
        "linear_dw d.decoder.layers.3.mlp.fc1.linear decoder.layers.3.norm_2.layer_norm.entered -> "
        "+> "
        "grad.decoder.layers.3.mlp.fc1.weight grad.decoder.layers.3.mlp.fc1.bias\n");
}

TEST_CASE("a framework that does not overlap computes the weight gradient before the all-reduce") {
  const TrainingGraph t =
      training("gpt", {"parallel.tensor=2", "framework={name: megatron-lm, version: 2021}"});
  std::vector<std::string> kinds;
  for (const Instruction& op : t.backward) {
    const std::string& path = t.graph.modules[op.module];
    if (op.layer == 3 && path == "decoder.layers.3.mlp.fc1")
      kinds.push_back(op_name(op.kind, op.part));
  }
  // fp32 accumulation behind a bf16 GEMM is a kernel of its own there.
  CHECK(kinds == std::vector<std::string>{"linear_dx", "linear_dw", "add", "all_reduce"});
}

TEST_CASE("the residual's gradient is the sum of both branches, two sums a layer") {
  // x -> norm -> branch, and x -> add: each of the two adds gives x a second gradient.
  const TrainingGraph t = training("gpt");
  int sums = 0;
  for (const Instruction& op : t.backward) sums += op.kind == OpKind::kAdd && op.layer == 2 ? 1 : 0;
  CHECK(sums == 2);
}

TEST_CASE(
    "T5's encoder output collects a gradient from the cross-attention of every decoder layer") {
  // Four decoder layers read it. On one stage: three sums. Cut into stages, each stage that reads
  // it sums its own and what the next stage sends back; a relayed copy counts as a reader.
  const std::string encoded = "encoder.dropout";
  const auto [pipeline, virtual_stages] =
      GENERATE(table<int, int>({{1, 1}, {2, 1}, {4, 1}, {8, 1}, {4, 2}}));
  CAPTURE(pipeline, virtual_stages);
  std::vector<std::string> sets = {"parallel.pipeline=" + std::to_string(pipeline),
                                   "parallel.virtual_stages=" + std::to_string(virtual_stages)};
  if (virtual_stages > 1) sets.push_back("schedule=interleaved");
  const TrainingGraph t = training("t5", sets);
  CHECK(find_misplaced(t) == "");

  // Sums over all copies "encoder.dropout", "encoder.dropout@4", ...: with readers r_s on stage s
  // and one sender behind every stage but the last, (r_s - 1) + 1 sums there: 4 readers in all,
  // less one.
  CHECK(count(t, OpKind::kAdd, "d." + encoded) == 3);
  // It crosses every cut of the decoder, and its gradient every one of them on the way back.
  const int stages = pipeline * virtual_stages;
  const int cuts_behind_encoder = stages == 1 ? 0 : stages / 2;
  CHECK(count(t, OpKind::kSend, "d." + encoded) == cuts_behind_encoder);
  const auto sends = std::count_if(t.forward.begin(), t.forward.end(), [&](const Instruction& op) {
    return op.kind == OpKind::kSend && at(t, op.writes[0]).name.starts_with(encoded);
  });
  CHECK(sends == cuts_behind_encoder);
}

TEST_CASE("tied embeddings take a gradient from the look-up and from the LM head") {
  const TrainingGraph t = training("gpt");
  std::vector<std::string> adders;
  for (const Instruction& op : t.backward) {
    for (const TensorId id : op.accumulates) {
      if (at(t, id).name == "grad.embedding.tokens.weight")
        adders.push_back(op_name(op.kind, op.part));
    }
  }
  CHECK(adders == std::vector<std::string>{"linear_dw", "embedding_dw"});
}

TEST_CASE("BERT's pooler is trained only with the next-sentence head") {
  const auto trained = [](const TrainingGraph& t, const std::string& name) {
    for (const ParameterId p : t.graph.parameters.keys()) {
      if (t.graph.parameters[p].name == name) return t.parameter_gradient[p] != kNoIndex;
    }
    throw std::runtime_error("no parameter " + name);
  };
  CHECK_FALSE(trained(training("bert"), "pooler.weight"));
  CHECK(trained(training("bert-nsp"), "pooler.weight"));
  // Both losses reach the last layer: the gradient of the encoder's output is a sum.
  const TrainingGraph t = training("bert-nsp");
  CHECK(count(t, OpKind::kAdd, "d.encoder.layers.7.norm_2.layer_norm") == 1);
  CHECK(count(training("bert"), OpKind::kAdd, "d.encoder.layers.7.norm_2.layer_norm") == 0);
}

TEST_CASE(
    "sequence parallelism leaves partial gradients where a replicated parameter meets shards") {
  const auto partial = [](const TrainingGraph& t) {
    std::set<std::string> names;
    for (const Parameter& p : t.graph.parameters) {
      // Entered over the replicas, as every parameter is, and over tp beside them.
      if (p.used != kNoIndex && std::popcount(t.graph.specs[p.used].entered) > 1 &&
          (p.name.find("layers.") == std::string::npos ||
           p.name.find("layers.3.") != std::string::npos)) {
        names.insert(p.name);
      }
    }
    return names;
  };
  // Norms and the biases of row linears work on sequence shards; so does the position table, whose
  // rows a rank looks up only for its own positions. Split parameters are whole where they are.
  CHECK(partial(training("gpt", {"parallel.tensor=2", "parallel.sequence_parallel=true"})) ==
        std::set<std::string>{"decoder.final_norm.bias", "decoder.final_norm.weight",
                              "decoder.layers.3.attention.proj.bias",
                              "decoder.layers.3.mlp.fc2.bias", "decoder.layers.3.norm_1.bias",
                              "decoder.layers.3.norm_1.weight", "decoder.layers.3.norm_2.bias",
                              "decoder.layers.3.norm_2.weight", "embedding.positions.weight"});
  CHECK(partial(training("gpt", {"parallel.tensor=2"})).empty());
  CHECK(partial(training("gpt")).empty());
  // BERT's next-sentence head works on the whole first token, gathered; the MLM head on shards.
  const auto bert =
      partial(training("bert-nsp", {"parallel.tensor=2", "parallel.sequence_parallel=true"}));
  CHECK(bert.contains("mlm_head.dense.weight"));
  CHECK_FALSE(bert.contains("pooler.weight"));
  CHECK_FALSE(bert.contains("next_sentence_head.weight"));
}

}  // namespace trainyard::differentiate_test
