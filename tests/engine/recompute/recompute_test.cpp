// What is computed again, where it stands in the backward, and what is left alone. (How many bytes
// and FLOP that is: tests/engine/graph/laws_test.cpp.)
#include "engine/recompute/recompute.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/support/studies.h"

namespace trainyard {

namespace {

const std::string kGpt =
    "model: {family: gpt, layers: 3, hidden: 16, heads: 4, vocab: 40, seq_len: 8}\n"
    "cluster: dgx-a100-80g\nparallel: {data: 1}\n"
    "training: {global_batch: 1, flash_attention: false}\n";

/// A forward op among the backward instructions is a clone: its results are marked ' or ^.
bool is_clone(const TrainingGraph& t, const Instruction& op) {
  return !op.writes.empty() && [&] {
    const std::string& name = t.graph.tensors[static_cast<std::size_t>(op.writes[0])].name;
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
  CHECK(std::none_of(t.backward.begin(), t.backward.end(), [&](const Instruction& op) { return is_clone(t, op); }));
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
  const TrainingGraph t = training({"recompute=selective", "framework={name: megatron-lm, version: 2022}"});
  CHECK(clones(t, 1) == "split scores softmax dropout context transpose");
}

TEST_CASE("selective recompute leaves flash attention alone") {
  const TrainingGraph t = training({"recompute=selective", "training.flash_attention=true"});
  CHECK(clones(t, 1) == "");
}

TEST_CASE("full recompute runs a layer's forward before its backward, from its input") {
  const TrainingGraph t = training({"recompute=full"});
  // All but what only the layer's output needs: the last projection, its dropout and the second sum.
  CHECK(backward_words(t, 1) ==
        "dropout_dx "
        "[layer_norm] [linear] [split] [scores] [softmax] [dropout] [context] [linear] [dropout] [add] "
        "[layer_norm] [linear] [gelu] "
        "linear_dx linear_dw gelu_dx linear_dx linear_dw layer_norm_b add "
        "dropout_dx linear_dx linear_dw context_dx dropout_dx softmax_dx scores_dx split_dx "
        "linear_dx linear_dw layer_norm_b add");
  // Megatron runs the whole function again.
  CHECK(clones(training({"recompute=full", "framework={name: megatron-lm, version: 2022}"}), 1) ==
        "layer_norm linear split scores softmax dropout context transpose linear bias_dropout_add "
        "layer_norm linear bias_gelu linear bias_dropout_add");
}

TEST_CASE("what is summed over ranks in place is summed once for each time it is computed") {
  // T5's second embedding belongs to its decoder's first layer. It is kept, and so is its sum: summed again where it
  // lies, it would be twice as large.
  const TrainingGraph t = training_graph(prepare_text(
      "model: {family: t5, layers: 2, hidden: 16, heads: 4, head_dim: 4, ffn: 32, vocab: 40, seq_len: 8, decoder_seq_len: 8}\n"
      "cluster: dgx-a100-80g\nparallel: {tensor: 2, data: 1}\ntraining: {global_batch: 1}\nrecompute: full\n"));
  int sums = 0;
  for (const Instruction& op : t.backward) {
    if (op.kind != OpKind::kAllReduce || !is_clone(t, op)) continue;
    ++sums;
    const std::string& read = t.graph.tensors[static_cast<std::size_t>(op.reads[0])].name;
    CAPTURE(read);
    CHECK(read.back() == '\'');
  }
  // Of each layer that of its attentions, two in the decoder; an MLP's only where a norm of the same layer reads the
  // layer's end: the encoder's final norm.
  CHECK(sums == 2 * 1 + 1 + 2 * 2);
}

TEST_CASE("embedding and head are never recomputed") {
  const TrainingGraph t = training({"recompute=full"});
  CHECK(clones(t, -1) == "");
}

TEST_CASE("a layer is recomputed only when the backward has left the layer behind it") {
  const auto framework = GENERATE(as<std::string>(), "trainyard", "{name: megatron-lm, version: 2022}");
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
    if (t.graph.modules[static_cast<std::size_t>(op.module)] != "decoder.layers.1.mlp.fc1") continue;
    text += (text.empty() ? "" : " ") + op_name(op.kind, op.part);
  }
  CHECK(text == "all_gather linear_dx reduce_scatter linear_dw");
}

TEST_CASE("clones write tensors of their own and read kept values or each other") {
  const auto method = GENERATE(as<std::string>(), "selective", "full");
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

}  // namespace trainyard
