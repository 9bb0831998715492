// What is computed again, where it stands in the backward, and what is left alone. (How many bytes
// and FLOP that is: tests/engine/graph/laws_test.cpp.)
#include "engine/passes/recompute.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/passes/recompute_regions.h"
#include "tests/support/studies.h"

namespace trainyard::recompute_test {

namespace {

const std::string kGpt =
    "model: {family: gpt, layers: 3, hidden: 16, heads: 4, vocab: 40, seq_len: 8}\n"
    "cluster: dgx-a100-80g\nparallel: {data: 1}\n"
    "training: {global_batch: 1, flash_attention: false}\n";

/// A forward op among the backward instructions is a clone: its results are marked ' or ^.
bool is_clone(const TrainingGraph& t, const Instruction& op) {
  return !op.writes.empty() && [&] {
    const std::string& name = t.graph.tensors[op.writes[0]].name;
    return name.back() == '\'' || name.back() == '^';
  }();
}

/// The backward of one layer, one word per instruction, clones in brackets.
std::string backward_words(const TrainingGraph& t, std::int32_t layer) {
  std::string text;
  for (const Instruction& op : t.backward) {
    if (op.layer != layer) continue;
    if (!text.empty()) text += " ";
    text += is_clone(t, op) ? "[" + op_name(op.kind, op.part) + "]" : op_name(op.kind, op.part);
  }
  return text;
}

std::string clones(const TrainingGraph& t, std::int32_t layer) {
  std::string text;
  for (const Instruction& op : t.backward) {
    if (op.layer != layer || !is_clone(t, op)) continue;
    if (!text.empty()) text += " ";
    text += op_name(op.kind, op.part);
  }
  return text;
}

TrainingGraph training(const std::vector<std::string>& sets) {
  return training_graph(prepare_text(kGpt, sets));
}

}  // namespace

TEST_CASE("without recompute the backward computes nothing of the forward again") {
  const TrainingGraph t = training({"parallel.tensor=2"});
  CHECK(std::none_of(t.backward.begin(), t.backward.end(),
                     [&](const Instruction& op) { return is_clone(t, op); }));
}

TEST_CASE("selective recompute repeats the attention core before its backward") {
  const TrainingGraph t = training({"recompute=selective"});
  // The context, p v, is kept: it is the output projection's input.
  CHECK(backward_words(t, 1) ==
        "dropout_dx linear_dx linear_dw gelu_dx linear_dx linear_dw layer_norm_b add "
        "dropout_dx linear_dx linear_dw [split] [scores] [softmax] [dropout] "
        "context_dx dropout_dx softmax_dx scores_dx split_dx linear_dx linear_dw layer_norm_b add");
}

TEST_CASE("Megatron's checkpoint repeats all of the core, the context included") {
  const TrainingGraph t =
      training({"recompute=selective", "framework={name: megatron-lm, version: 2022}"});
  CHECK(clones(t, 1) == "split scores softmax dropout context transpose");
}

TEST_CASE("selective recompute leaves flash attention alone") {
  const TrainingGraph t = training({"recompute=selective", "training.flash_attention=true"});
  CHECK(clones(t, 1) == "");
}

TEST_CASE("full recompute runs a layer's forward before its backward, from its input") {
  const TrainingGraph t = training({"recompute=full"});
  // All but what only the layer's output needs: the last projection, its dropout and the second
  // sum.
  CHECK(backward_words(t, 1) ==
        "dropout_dx "
        "[layer_norm] [linear] [split] [scores] [softmax] [dropout] [context] [linear] [dropout] "
        "[add] "
        "[layer_norm] [linear] [gelu] "
        "linear_dx linear_dw gelu_dx linear_dx linear_dw layer_norm_b add "
        "dropout_dx linear_dx linear_dw context_dx dropout_dx softmax_dx scores_dx split_dx "
        "linear_dx linear_dw layer_norm_b add");
  // Megatron runs the whole function again.
  CHECK(clones(training({"recompute=full", "framework={name: megatron-lm, version: 2022}"}), 1) ==
        "layer_norm linear split scores softmax dropout context transpose linear bias_dropout_add "
        "layer_norm linear bias_gelu linear bias_dropout_add");
}

TEST_CASE("sublayers are recomputed each from its own input, when the backward reaches it") {
  const TrainingGraph t = training({"recompute={method: full, unit: sublayer}"});
  // Two inputs are kept, of attention and of the MLP, so the first sum is not computed again.
  CHECK(backward_words(t, 1) ==
        "dropout_dx [layer_norm] [linear] [gelu] "
        "linear_dx linear_dw gelu_dx linear_dx linear_dw layer_norm_b add "
        "dropout_dx [layer_norm] [linear] [split] [scores] [softmax] [dropout] [context] "
        "linear_dx linear_dw context_dx dropout_dx softmax_dx scores_dx split_dx "
        "linear_dx linear_dw layer_norm_b add");
}

TEST_CASE("every layer has its sublayers, T5's decoder three") {
  const auto units = [](const std::string& model) {
    return num_units(
        training_graph(prepare_text("model: {" + model +
                                    "}\ncluster: dgx-a100-80g\nparallel: {data: 1, pipeline: 2}\n"
                                    "training: {global_batch: 4}\nrecompute: full\n")),
        RecomputeConfig::Unit::kSublayer);
  };
  const std::string small = ", layers: 4, hidden: 16, heads: 4, vocab: 40, seq_len: 8";
  for (const std::string family : {"gpt", "bert"})
    CHECK(units("family: " + family + small) == std::vector<int>{4, 4});
  CHECK(units("family: llama, ffn: 32" + small) == std::vector<int>{4, 4});
  CHECK(units("family: t5, head_dim: 4, ffn: 32" + small) == std::vector<int>{8, 12});
}

TEST_CASE("what is summed over ranks in place is summed once for each time it is computed") {
  // T5's second embedding belongs to its decoder's first layer. It is kept, and so is its sum:
  // summed again where it lies, it would be twice as large.
  const TrainingGraph t =
      training_graph(prepare_text("model: {family: t5, layers: 2, hidden: 16, heads: 4, head_dim: "
                                  "4, ffn: 32, vocab: 40, seq_len: 8, decoder_seq_len: 8}\n"
                                  "cluster: dgx-a100-80g\nparallel: {tensor: 2, data: "
                                  "1}\ntraining: {global_batch: 1}\nrecompute: full\n"));
  int sums = 0;
  for (const Instruction& op : t.backward) {
    if (op.kind != OpKind::kAllReduce || !is_clone(t, op)) continue;
    ++sums;
    const std::string& read = t.graph.tensors[op.reads[0]].name;
    CAPTURE(read);
    CHECK(read.back() == '\'');
  }
  // Each layer has that of its attentions, two in the decoder; an MLP's only where a norm of the
  // same layer reads the layer's end: the encoder's final norm.
  CHECK(sums == 2 * 1 + 1 + 2 * 2);
}

namespace {

/// Six layers with as many heads of keys as of queries, so that q, k and v are as wide.
TrainingGraph six_gated_layers(const std::vector<std::string>& sets) {
  return training_graph(prepare_text(
      "model: {family: llama, layers: 6, hidden: 16, heads: 4, ffn: 32, vocab: 40, seq_len: 8}\n"
      "cluster: dgx-a100-80g\nparallel: {data: 1}\ntraining: {global_batch: 1}\n",
      sets));
}

}  // namespace

TEST_CASE("by op, every second product is kept, and flash attention's result") {
  const TrainingGraph t = six_gated_layers({"recompute=by-op"});
  // Products of a layer: q 1, k 2, v 3, output 4, gate 5, up 6, down 7. The odd ones are kept: of
  // q, k and v two of three rows, so in two of three layers; of gate and up every second.
  const std::string attention = "rms_norm linear rope linear add ";
  const std::string kept_attention = "rms_norm rope linear add ";
  CHECK(clones(t, 0) == attention + "rms_norm linear swiglu");
  CHECK(clones(t, 1) == kept_attention + "rms_norm swiglu");
  CHECK(clones(t, 2) == kept_attention + "rms_norm linear swiglu");
  CHECK(clones(t, 3) == attention + "rms_norm swiglu");
  CHECK(clones(t, 4) == kept_attention + "rms_norm linear swiglu");
  CHECK(clones(t, 5) == kept_attention + "rms_norm swiglu");
  CHECK(clones(t, -1) == "");
}

TEST_CASE("by op, what is kept is read by its backward as the forward wrote it") {
  const TrainingGraph t = six_gated_layers({"recompute=by-op"});
  int kept = 0;
  for (const Instruction& op : t.backward) {
    if (op.kind != OpKind::kFlashAttention || op.part == OpPart::kForward) continue;
    for (const TensorId read : op.reads) {
      const Tensor& tensor = t.graph.tensors[read];
      if (tensor.producer == kNoIndex) continue;
      const bool of_attention = t.graph.ops[tensor.producer].kind == OpKind::kFlashAttention;
      if (!of_attention || tensor.name.starts_with("d.")) continue;
      CHECK(tensor.name.back() != '\'');
      ++kept;
    }
  }
  CHECK(kept > 0);
}

TEST_CASE("by op, a sum over ranks of what is kept is not taken again where it lies") {
  // The last product of a layer, down, is kept, and this framework repeats all ops of a checkpoint.
  const TrainingGraph t = six_gated_layers(
      {"recompute=by-op", "parallel.tensor=2", "framework={name: megatron-lm, version: current}"});
  int sums = 0;
  for (const Instruction& op : t.backward) {
    if (op.kind != OpKind::kAllReduce || !is_clone(t, op)) continue;
    ++sums;
    CHECK(t.graph.tensors[op.reads[0]].name.back() == '\'');
  }
  CHECK(sums == 6);  // of each layer's attention, whose output is computed again
}

TEST_CASE("every second layer of a stage is recomputed in full") {
  const TrainingGraph t = six_gated_layers({"recompute={method: full, every: 2}"});
  for (const std::int32_t layer : {0, 2, 4}) CHECK(clones(t, layer) == "");
  for (const std::int32_t layer : {1, 3, 5})
    CHECK(clones(t, layer) ==
          "rms_norm linear rope flash_attention linear add rms_norm linear swiglu");
}

TEST_CASE("modules are recomputed from their input, norms for whoever reads them") {
  CHECK(clones(training({"recompute={modules: [mlp]}"}), 1) == "linear gelu");
  CHECK(clones(training({"recompute={modules: ['decoder.layers.1.mlp']}"}), 1) == "linear gelu");
  CHECK(clones(training({"recompute={modules: ['decoder.layers.1.mlp']}"}), 2) == "");
  CHECK(clones(training({"recompute={modules: [layernorm]}"}), 1) == "layer_norm layer_norm");
  CHECK(clones(training({"recompute={modules: [core_attn]}"}), 1) ==
        clones(training({"recompute=selective"}), 1));
  // The MLP's input is a norm's result: that is computed again before the MLP is.
  CHECK(clones(training({"recompute={modules: [mlp, layernorm, core-attn]}"}), 1) ==
        "layer_norm linear gelu split scores softmax dropout layer_norm");
}

TEST_CASE("embedding and head are never recomputed") {
  const TrainingGraph t = training({"recompute=full"});
  CHECK(clones(t, -1) == "");
}

TEST_CASE("a layer is recomputed only when the backward has left the layer behind it") {
  const auto framework =
      GENERATE(as<std::string>(), "trainyard", "{name: megatron-lm, version: 2022}");
  const auto sets = GENERATE(values<std::vector<std::string>>(
      {{}, {"parallel.tensor=2"}, {"parallel.tensor=2", "parallel.sequence_parallel=true"}}));
  std::vector<std::string> all = sets;
  all.insert(all.end(), {"recompute=full", "framework=" + framework});
  const TrainingGraph t = training(all);
  std::int32_t now = 3;  // layers come in descending order, the head (-1) before them
  for (const Instruction& op : t.backward) {
    if (op.layer < 0) continue;
    CHECK(op.layer <= now);
    now = op.layer;
  }
}

TEST_CASE("sequence parallelism gathers again what the weight gradients need, recompute or not") {
  const std::vector<std::string> sets = {"parallel.tensor=2", "parallel.sequence_parallel=true"};
  // Inputs of qkv and fc1, from their shards.
  CHECK(clones(training(sets), 1) == "all_gather all_gather");
  std::vector<std::string> selective = sets;
  selective.push_back("recompute=selective");
  CHECK(clones(training(selective), 1) == "all_gather split scores softmax dropout all_gather");
}

TEST_CASE("a gather for the weight gradient stands before the input gradient, to run beside it") {
  const TrainingGraph t = training({"parallel.tensor=2", "parallel.sequence_parallel=true"});
  std::string text;
  for (const Instruction& op : t.backward) {
    if (t.graph.modules[op.module] != "decoder.layers.1.mlp.fc1") continue;
    text += (text.empty() ? "" : " ") + op_name(op.kind, op.part);
  }
  CHECK(text == "all_gather linear_dx reduce_scatter linear_dw");
}

namespace {

/// 2 layers a stage.
TrainingGraph eight_layers(const std::vector<std::string>& sets) {
  return training_graph(prepare_text(
      "model: {family: gpt, layers: 8, hidden: 16, heads: 4, vocab: 40, seq_len: 8}\n"
      "cluster: dgx-a100-80g\nparallel: {pipeline: 4, data: 1}\ntraining: {global_batch: 4}\n",
      sets));
}

/// Whether the backward computes each of 8 layers again: "10000000".
std::string recomputed_of_eight(const std::vector<std::string>& sets) {
  const TrainingGraph t = eight_layers(sets);
  std::string text;
  for (std::int32_t layer = 0; layer < 8; ++layer) text += clones(t, layer).empty() ? '0' : '1';
  return text;
}

}  // namespace

TEST_CASE("stage-aware recompute computes the first layers of each stage again") {
  // 2 layers a stage, stage 0 keeps a half: kept 1/2, 1/2 x 3/2, min(1, 1/2 x 3), 1, so 1, 0 (2 x
  // 1/4 rounded down), 0 and 0 are recomputed.
  CHECK(recomputed_of_eight({"recompute={method: stage-aware, first: 0.5}"}) == "10000000");
  // Nothing kept on stage 0: nothing on stages 1 and 2 either, and all on the last, whatever the
  // share.
  CHECK(recomputed_of_eight({"recompute={method: stage-aware, first: 0}"}) == "11111100");
  // 0.3: kept 0.3, 0.45, 0.9, 1: 2 x 0.7, 2 x 0.55 and 2 x 0.1, rounded down. Under scp stage 2
  // keeps what stage 1 does.
  CHECK(recomputed_of_eight({"recompute={method: stage-aware, first: 0.3}"}) == "10100000");
  CHECK(recomputed_of_eight({"recompute={method: stage-aware, first: 0.3}", "schedule=scp"}) ==
        "10101000");
  CHECK(recomputed_of_eight({"recompute={method: stage-aware, first: 1}", "schedule=scp"}) ==
        "00000000");
  // 0.5 of 4 sublayers a stage: 2, 1 (4 x 1/4) and none are recomputed; where whole layers count, 1
  // of 2 and none.
  const TrainingGraph half =
      eight_layers({"recompute={method: stage-aware, first: 0.5, unit: sublayer}"});
  const auto has_mlp = [&](std::int32_t layer) {
    return clones(half, layer).find("gelu") != std::string::npos;
  };
  CHECK((!clones(half, 0).empty() && has_mlp(0)));
  CHECK((!clones(half, 2).empty() && !has_mlp(2)));
  CHECK((clones(half, 1) + clones(half, 3) + clones(half, 4)).empty());
  // Stages of one layer each, two on a rank: the last of all eight keeps its layer, and a stage
  // recomputes none that it keeps a part of.
  const std::vector<std::string> two = {"schedule=interleaved", "parallel.virtual_stages=2"};
  const auto of_two = [&](const std::string& first) {
    return recomputed_of_eight(
        {two[0], two[1], "recompute={method: stage-aware, first: " + first + "}"});
  };
  CHECK(of_two("0") == "11111110");
  CHECK(of_two("0.01") == "00000000");
}

TEST_CASE(
    "a group is recomputed as a whole, from its first layer's input, before its last layer's "
    "backward") {
  // Three layers in groups of two: 0 and 1, then 2. The backward of layer 1 comes first, and in
  // front of it stand all clones of layer 0, its last projection and sum included, which layer 1
  // reads; of layer 1 what its backward reads.
  const TrainingGraph t = training({"recompute={method: group, strategy: group_2}"});
  const std::string layer =
      "layer_norm linear split scores softmax dropout context linear dropout add layer_norm linear "
      "gelu";
  CHECK(clones(t, 0) == layer + " linear dropout add");
  CHECK(clones(t, 1) == layer);
  CHECK(clones(t, 2) == layer);
  std::string order;  // layers of clones and, in brackets, of what is not recomputed
  for (const Instruction& op : t.backward) {
    if (op.layer < 0 || op.layer > 1) continue;
    const std::string word =
        is_clone(t, op) ? std::to_string(op.layer) : "(" + std::to_string(op.layer) + ")";
    if (!order.ends_with(word)) order += word;
  }
  // The dropout behind layer 1's MLP needs nothing of its forward: its mask is drawn again.
  CHECK(order == "(1)01(1)(0)");
}

TEST_CASE("groups end with their stage, and with the stack they belong to") {
  // What each layer's clones hold says where groups end: the last layer of a group does not repeat
  // what only its own output needs, which here is the MLP's dropout and sum, 3 ops of 16.
  const auto counts = [](const std::string& yaml, const std::string& strategy) {
    const TrainingGraph t = training_graph(
        prepare_text(yaml, {"recompute={method: group, strategy: " + strategy + "}"}));
    std::vector<std::ptrdiff_t> sizes;
    for (std::int32_t layer = 0; layer < t.graph.num_layers; ++layer) {
      const std::string words = clones(t, layer);
      sizes.push_back(std::count(words.begin(), words.end(), ' ') + 1);
    }
    return sizes;
  };
  const std::string gpt =
      "model: {family: gpt, layers: 6, hidden: 16, heads: 4, vocab: 40, seq_len: 8}\n"
      "cluster: dgx-a100-80g\nparallel: {pipeline: 2, data: 1}\n"
      "training: {global_batch: 4, flash_attention: false}\n";
  using Sizes = std::vector<std::ptrdiff_t>;
  CHECK(counts(gpt, "each") == Sizes{13, 13, 13, 13, 13, 13});
  CHECK(counts(gpt, "group_2") == Sizes{16, 13, 13, 16, 13, 13});
  CHECK(counts(gpt, "contiguous") == Sizes{16, 16, 13, 16, 16, 13});
  CHECK(counts(gpt, "group_3") == counts(gpt, "contiguous"));
  CHECK(counts(gpt, "group_100") == counts(gpt, "contiguous"));
  CHECK(counts(gpt, "contiguous, unit: sublayer") == counts(gpt, "contiguous"));
  CHECK(counts(gpt, "group_2, unit: sublayer") == counts(gpt, "each"));
  // T5: two layers of the encoder and two of the decoder on one stage are two groups, as if a stage
  // ended between.
  const std::string t5 =
      "model: {family: t5, layers: 2, hidden: 16, heads: 4, head_dim: 4, ffn: 32, vocab: 40, "
      "seq_len: 8}\n"
      "cluster: dgx-a100-80g\nparallel: {data: 1}\ntraining: {global_batch: 4}\n";
  CHECK(counts(t5, "contiguous") == counts(t5, "group_2"));
  CHECK(counts(t5, "contiguous") != counts(t5, "each"));
}

TEST_CASE("clones write tensors of their own and read kept values or each other") {
  const auto method =
      GENERATE(as<std::string>(), "selective", "full", "{method: group, strategy: group_2}");
  const TrainingGraph t = training({"recompute=" + method, "parallel.tensor=2"});
  std::set<TensorId> forward;
  for (const Instruction& op : t.forward) forward.insert(op.writes.begin(), op.writes.end());
  std::set<TensorId> cloned;
  for (const Instruction& op : t.backward) {
    if (!is_clone(t, op)) continue;
    CHECK(op.accumulates.empty());
    for (const TensorId id : op.writes) {
      CHECK_FALSE(forward.contains(id));
      CHECK(cloned.insert(id).second);
    }
  }
  CHECK(cloned.size() > 10);
}

}  // namespace trainyard::recompute_test
