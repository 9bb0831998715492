// What one microbatch computes and keeps, against the published formulas: the FLOP of every kernel
// against Narayanan et al., SC'21 (arXiv:2104.04473, section 5.1), and the activation memory of one
// layer, term by term, against Korthikanti et al. 2022 (arXiv:2205.05198, sections 4 and 5).
//
// B or b = sequences of a microbatch, s = sequence, h = hidden, a = heads, V = vocabulary, L =
// layers, t = tensor-parallel degree.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/graph/count_work.h"
#include "tests/support/studies.h"

namespace trainyard::laws_test {

namespace {

/// Sizes of a GPT on one node of 8; every letter is the papers'.
struct Sizes {
  std::int64_t b = 1, s = 64, h = 128, a = 4, V = 1024, L = 2, t = 1;
};

Prepared gpt(const Sizes& z, const std::vector<std::string>& sets) {
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  return prepare_text("model: {family: gpt, layers: " + text(z.L) + ", hidden: " + text(z.h) +
                          ", heads: " + text(z.a) + ", vocab: " + text(z.V) + ", seq_len: " +
                          text(z.s) + "}\ncluster: dgx-a100-80g\nparallel: {tensor: " + text(z.t) +
                          ", data: 1}\ntraining: {global_batch: " + text(z.b) +
                          ", microbatch: " + text(z.b) + "}\n",
                      sets);
}

const std::string kMegatron2022 = "framework={name: megatron-lm, version: 2022}";

Flop flop_of_products(const TrainingGraph& training) {
  Flop sum = 0;
  const auto shapes = [&](const auto& ids) {
    std::vector<OperandShape> out;
    for (const TensorId id : ids) {
      const Tensor& t = training.graph.tensors[id];
      out.push_back({&t.shape, t.dtype});
    }
    return out;
  };
  for (const auto* list : {&training.forward, &training.backward}) {
    for (const Instruction& op : *list) {
      sum += kernel_work(op.kind, op.part, op.attrs, shapes(op.reads), shapes(op.writes),
                         shapes(op.accumulates))
                 .flop;
    }
  }
  return sum;
}

TensorId storage_root(const TrainingGraph& training, TensorId id) {
  while (training.graph.tensors[id].alias != kNoIndex) {
    id = training.graph.tensors[id].alias;
  }
  return id;
}

/// Bytes that the forward writes and the backward of one layer reads, by the part of the layer
/// whose backward reads them. A storage counts once, whole. fp32 statistics (means, deviations,
/// log-sum-exps: one or two numbers a row of h) are apart, as the paper leaves them out.
struct SavedBytes {
  Bytes norms = 0, attention = 0, mlp = 0, statistics = 0;
  Bytes total() const { return norms + attention + mlp; }
};

SavedBytes saved_by_layer(const TrainingGraph& training, std::int32_t layer) {
  std::set<TensorId> written;
  for (const Instruction& op : training.forward) {
    for (const TensorId id : op.writes) written.insert(storage_root(training, id));
  }
  // The second norm of a GPT layer ends its attention part and begins its MLP part.
  OpId second_norm = kNoIndex;
  for (const Instruction& op : training.forward) {
    if (op.layer == layer && op.kind == OpKind::kLayerNorm) second_norm = op.origin;
  }
  SavedBytes saved;
  std::set<TensorId> seen;
  for (const Instruction& op : training.backward) {
    if (op.layer != layer) continue;
    for (const TensorId id : op.reads) {
      const TensorId root = storage_root(training, id);
      if (!written.contains(root) || !seen.insert(root).second) continue;
      const Tensor& t = training.graph.tensors[root];
      const Bytes bytes = num_elements(t.shape) * size_in_bytes(t.dtype);
      if (t.dtype == DType::kFp32) {
        saved.statistics += bytes;
      } else if (op.kind == OpKind::kLayerNorm) {
        saved.norms += bytes;
      } else {
        (op.origin < second_norm ? saved.attention : saved.mlp) += bytes;
      }
    }
  }
  return saved;
}

}  // namespace

TEST_CASE("kernels execute 72 B s L h^2 (1 + s/6h + V/12Lh) FLOP without recompute") {
  Sizes z;
  z.b = GENERATE(1, 4);
  z.s = GENERATE(32, 512);
  z.h = GENERATE(64, 1024);
  z.L = GENERATE(1, 3, 12);
  z.V = GENERATE(512, 51200);
  const auto version = GENERATE(as<std::string>(), "2021", "2022");
  const auto B = static_cast<double>(z.b), s = static_cast<double>(z.s),
             h = static_cast<double>(z.h), L = static_cast<double>(z.L),
             V = static_cast<double>(z.V);
  CAPTURE(B, s, h, L, V, version);
  const std::string framework = "framework={name: megatron-lm, version: " + version + "}";
  const Flop plain = flop_of_products(training_graph(gpt(z, {framework})));
  CHECK(plain == Approx(72 * B * s * L * h * h * (1 + s / (6 * h) + V / (12 * L * h)))
                     .epsilon(1e-12)
                     .margin(0));

  // Full recompute runs every layer's forward once more, 24 B s L h^2 (1 + s/6h); not the LM head.
  const Flop full = flop_of_products(training_graph(gpt(z, {framework, "recompute=full"})));
  CHECK(full == Approx(96 * B * s * L * h * h * (1 + s / (6 * h) + V / (16 * L * h)))
                    .epsilon(1e-12)
                    .margin(0));
}

TEST_CASE("selective recompute runs the two products of the attention core once more") {
  // q k^T and p v: 2 B s^2 h each, so 4 B s^2 h a layer (arXiv:2205.05198, section 5).
  const Sizes z{.b = 2, .s = 256, .h = 128, .a = 4, .V = 1024, .L = 3, .t = GENERATE(1, 4)};
  const std::string sequence =
      "parallel.sequence_parallel=" + std::string(z.t > 1 ? "true" : "false");
  const Flop plain = flop_of_products(training_graph(gpt(z, {kMegatron2022, sequence})));
  const Flop selective =
      flop_of_products(training_graph(gpt(z, {kMegatron2022, sequence, "recompute=selective"})));
  const auto each = 4.0 * 2 * 256 * 256 * 128 / static_cast<double>(z.t);
  CHECK(selective - plain == Approx(3 * each).epsilon(1e-12).margin(0));
}

TEST_CASE("tensor parallelism divides the products among its ranks, each done once") {
  Sizes z{.b = 2, .s = 64, .h = 256, .a = 8, .V = 1024, .L = 2};
  const auto recompute = GENERATE(as<std::string>(), "recompute=none", "recompute=full");
  const Flop whole = flop_of_products(training_graph(gpt(z, {kMegatron2022, recompute})));
  z.t = GENERATE(2, 4, 8);
  const auto sequence = GENERATE(as<std::string>(), "true", "false");
  CAPTURE(z.t, sequence, recompute);
  const Flop part = flop_of_products(
      training_graph(gpt(z, {kMegatron2022, recompute, "parallel.sequence_parallel=" + sequence})));
  CHECK(part * static_cast<double>(z.t) == Approx(whole).epsilon(1e-12).margin(0));
}

TEST_CASE("flash attention executes 3.5 times its forward, half the square where causal") {
  // Forward 4 B s^2 h, backward 2.5 times that (the scores are computed again); GPT is causal. The
  // unfused core has 4 B s^2 h forward and twice that backward, over the full square.
  const Sizes z{.b = 2, .s = 128, .h = 64, .a = 4, .V = 512, .L = 5};
  const Flop flash = flop_of_products(training_graph(gpt(z, {"training.flash_attention=true"})));
  const Flop unfused = flop_of_products(training_graph(gpt(z, {"training.flash_attention=false"})));
  const double square = 4.0 * 2 * 128 * 128 * 64 * 5;
  CHECK(unfused - flash == Approx(square * (3 - 3.5 / 2)).epsilon(1e-12).margin(0));
}

TEST_CASE("a layer saves s b h (34 + 5 a s/h) bytes in Megatron-LM") {
  Sizes z;
  z.b = GENERATE(1, 3);
  z.s = GENERATE(16, 256);
  z.h = GENERATE(128, 512);
  z.a = GENERATE(4, 16);
  const auto version = GENERATE(as<std::string>(), "2021", "2022");
  CAPTURE(z.b, z.s, z.h, z.a, version);
  const TrainingGraph training =
      training_graph(gpt(z, {"framework={name: megatron-lm, version: " + version + "}"}));
  for (std::int32_t layer = 0; layer < 2; ++layer) {
    const SavedBytes saved = saved_by_layer(training, layer);
    const Bytes sbh = z.s * z.b * z.h;
    // Input of qkv 2, q k v 6, input of the projection 2, its dropout mask 1; softmax output 2, its
    // dropout mask 1 and dropout output 2, each a s^2 b.
    CHECK(saved.attention == 11 * sbh + 5 * z.a * z.s * z.s * z.b);
    CHECK(saved.mlp == 19 * sbh);  // input of fc1 2, of gelu 8, of fc2 8, dropout mask 1
    CHECK(saved.norms == 4 * sbh);
    CHECK(saved.statistics ==
          2 * (2 * 4 * z.s * z.b));  // two norms: mean and 1/deviation a row, fp32
  }
}

TEST_CASE("tensor parallelism saves s b h (10 + 24/t + 5 a s/(h t)) bytes a layer and rank") {
  Sizes z{.b = 2, .s = 64, .h = 256, .a = 8};
  z.t = GENERATE(2, 4, 8);
  const SavedBytes saved = saved_by_layer(training_graph(gpt(z, {kMegatron2022})), 1);
  const Bytes sbh = z.s * z.b * z.h;
  CAPTURE(z.t);
  // Whole on every rank: inputs of the norms 4, of qkv and fc1 4, masks 2.
  CHECK(saved.total() == 10 * sbh + 24 * sbh / z.t + 5 * z.a * z.s * z.s * z.b / z.t);
}

TEST_CASE("with sequence parallelism a layer saves s b h/t (34 + 5 a s/h) bytes a rank") {
  Sizes z{.b = 2, .s = 64, .h = 256, .a = 8};
  z.t = GENERATE(2, 4, 8);
  CAPTURE(z.t);
  const Bytes sbh = z.s * z.b * z.h;
  const std::string sequence = "parallel.sequence_parallel=true";
  const SavedBytes saved = saved_by_layer(training_graph(gpt(z, {kMegatron2022, sequence})), 1);
  CHECK(saved.attention == (11 * sbh + 5 * z.a * z.s * z.s * z.b) / z.t);
  CHECK(saved.mlp == 19 * sbh / z.t);
  CHECK(saved.norms == 4 * sbh / z.t);

  const SavedBytes selective =
      saved_by_layer(training_graph(gpt(z, {kMegatron2022, sequence, "recompute=selective"})), 1);
  CHECK(selective.attention == 11 * sbh / z.t);
  CHECK(selective.total() == 34 * sbh / z.t);
}

TEST_CASE("full recompute saves the input of each layer, 2 s b h bytes") {
  Sizes z{.b = 2, .s = 64, .h = 256, .a = 8, .L = 3};
  z.t = GENERATE(1, 4);
  const bool sequence = GENERATE(false, true);
  const auto framework = GENERATE(as<std::string>(), "trainyard", "megatron-lm");
  if (sequence && z.t == 1) return;
  CAPTURE(z.t, sequence, framework);
  const TrainingGraph training = training_graph(
      gpt(z, {"framework=" + framework, "recompute=full",
              "parallel.sequence_parallel=" + std::string(sequence ? "true" : "false")}));
  for (std::int32_t layer = 0; layer < 3; ++layer) {
    const SavedBytes saved = saved_by_layer(training, layer);
    CHECK(saved.total() == 2 * z.s * z.b * z.h / (sequence ? z.t : 1));
    CHECK(saved.statistics == 0);
  }
}

TEST_CASE("Trainyard's own kernels draw dropout masks again instead of saving them") {
  const Sizes z{.b = 2, .s = 64, .h = 256, .a = 8};
  const Bytes sbh = z.s * z.b * z.h;
  // 34 - 2 masks of 1 byte, 5 - 1 of the probabilities.
  const SavedBytes unfused =
      saved_by_layer(training_graph(gpt(z, {"training.flash_attention=false"})), 1);
  CHECK(unfused.attention == 10 * sbh + 4 * z.a * z.s * z.s * z.b);
  CHECK(unfused.mlp == 18 * sbh);
  CHECK(unfused.norms == 4 * sbh);
  // Without dropout nothing is written between softmax and p v, either.
  const SavedBytes no_dropout = saved_by_layer(
      training_graph(gpt(z, {"training.flash_attention=false", "training.dropout=0"})), 1);
  CHECK(no_dropout.total() == 32 * sbh + 2 * z.a * z.s * z.s * z.b);
  // Flash attention keeps q, k, v, its output (the projection's input) and a log-sum-exp per row
  // and head.
  const SavedBytes flash =
      saved_by_layer(training_graph(gpt(z, {"training.flash_attention=true"})), 1);
  CHECK(flash.total() == 32 * sbh);
  CHECK(flash.statistics == 4 * (2 * 2 * z.s * z.b + z.a * z.s * z.b));
}

TEST_CASE("what a layer saves is saved for that layer alone") {
  // Else the sum over layers would count it twice.
  const Sizes z{.L = 4, .t = 2};
  const auto recompute = GENERATE(as<std::string>(), "none", "selective", "full");
  const auto sequence = GENERATE(as<std::string>(), "true", "false");
  CAPTURE(recompute, sequence);
  const TrainingGraph training = training_graph(
      gpt(z, {kMegatron2022, "recompute=" + recompute, "parallel.sequence_parallel=" + sequence}));
  std::set<TensorId> written;
  for (const Instruction& op : training.forward) {
    for (const TensorId id : op.writes) written.insert(storage_root(training, id));
  }
  std::map<TensorId, std::set<std::int32_t>> layers;
  for (const Instruction& op : training.backward) {
    for (const TensorId id : op.reads) {
      const TensorId root = storage_root(training, id);
      if (written.contains(root)) layers[root].insert(op.layer);
    }
  }
  for (const auto& [root, readers] : layers) {
    CAPTURE(training.graph.tensors[root].name);
    CHECK(readers.size() == 1);
  }
}

}  // namespace trainyard::laws_test
