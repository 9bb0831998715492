// BERT and RoBERTa: published parameter counts, what belongs to the head, and the post-LN layer.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "models/model.h"
#include "models/presets.h"
#include "tests/models/graph_text.h"

namespace trainyard::bert_test {

namespace {

Graph build(const std::string& preset, bool next_sentence = false) {
  ModelConfig config = find_model_preset(preset)->config;
  config.next_sentence = next_sentence;
  return build_model(config, {.dropout = 0.1});
}

}  // namespace

TEST_CASE("BERT and RoBERTa have the published number of parameters, pooler included") {
  // (V + P + types) h + 2 h + L (12 h^2 + 13 h) + pooler h^2 + h. BERT base:
  // (30522 + 512 + 2) x 768 + 2 x 768 + 12 x (12 x 768^2 + 13 x 768) + 768^2 + 768 = 109,482,240.
  const auto [preset, count] = GENERATE(table<std::string, std::int64_t>({
      {"bert-base", 109'482'240},
      {"bert-large", 335'141'888},
      {"roberta-base", 124'645'632},
      {"roberta-large", 355'359'744},
  }));
  CAPTURE(preset);
  CHECK(count_parameters(build(preset)).base == count);
}

TEST_CASE("BERTs are enlarged as in the RaNNC paper, to 12.9 B parameters") {
  // The formula above; all but the smallest of 3 x 6, which is bert-large.
  int found = 0;
  for (const std::int64_t hidden : {1024, 1536, 2048}) {
    for (const std::int64_t layers : {24, 48, 96, 144, 192, 256}) {
      const std::string name =
          "bert-" + std::to_string(hidden) + "h-" + std::to_string(layers) + "l";
      const ModelPreset* preset = find_model_preset(name);
      if (preset == nullptr) continue;
      CAPTURE(name);
      ++found;
      const std::int64_t h = hidden;
      CHECK(count_parameters(build(name)).base ==
            (30522 + 512 + 2) * h + 2 * h + layers * (12 * h * h + 13 * h) + h * h + h);
      CHECK(preset->config.heads * 64 == hidden);
    }
  }
  CHECK(found == 17);
  CHECK(find_model_preset("bert-1024h-24l") == nullptr);
  CHECK(count_parameters(build("bert-2048h-256l")).base == 12'959'479'808);
}

TEST_CASE("trained with masked tokens alone, BERT swaps its pooler for the MLM head") {
  // - (h^2 + h) + dense h^2 + h, norm 2 h, bias V: as Hugging Face's BertForMaskedLM counts.
  CHECK(count_parameters(build("bert-base")).with_head == 109'514'298);
  CHECK(count_parameters(build("roberta-base")).with_head == 124'697'433);
}

TEST_CASE("with next sentence, BERT trains pooler and classifier too") {
  // BertForPreTraining: base + (h^2 + h + 2 h + V) + (2 h + 2).
  const Graph graph = build("bert-base", /*next_sentence=*/true);
  const ParameterCount count = count_parameters(graph);
  CHECK(count.base == 109'482'240);
  CHECK(count.with_head == 110'106'428);
  CHECK(num_ops(graph, OpKind::kCrossEntropy) == 2);
  CHECK(graph.ops.back().kind == OpKind::kAdd);  // of the two losses
  CHECK(tensor_of(graph, graph.loss).dtype == DType::kFp32);
}

TEST_CASE("BERT's head activates as its layers do, RoBERTa's by exact gelu") {
  const auto head_of = [](const std::string& preset, Activation activation) {
    ModelConfig config = find_model_preset(preset)->config;
    config.activation = activation;
    const Graph graph = build_model(config, {});
    const auto op = std::find_if(graph.ops.begin(), graph.ops.end(), [&](const Op& it) {
      return graph.modules[it.module] == "mlm_head";
    });
    REQUIRE(op != graph.ops.end());
    return std::pair(op->kind, op->attrs->tanh_gelu);
  };
  CHECK(head_of("bert-base", Activation::kGelu) == std::pair(OpKind::kGelu, false));
  CHECK(head_of("bert-base", Activation::kGeluTanh) == std::pair(OpKind::kGelu, true));
  CHECK(head_of("bert-base", Activation::kRelu) == std::pair(OpKind::kRelu, false));
  CHECK(head_of("roberta-base", Activation::kRelu) == std::pair(OpKind::kGelu, false));
}

TEST_CASE("a BERT layer normalises after each sum and masks padding") {
  CHECK(layer_text(build("bert-base"), 1, "encoder.layers.1.") ==
        "attention.qkv.linear <- encoder.layers.0.norm_2.layer_norm, attention.qkv.weight, "
        "attention.qkv.bias\n"
        "attention.attention <- attention.qkv.linear, mask\n"
        "attention.proj.linear <- attention.attention, attention.proj.weight, "
        "attention.proj.bias\n"
        "attention.dropout <- attention.proj.linear\n"
        "add <- encoder.layers.0.norm_2.layer_norm, attention.dropout\n"
        "norm_1.layer_norm <- add, norm_1.weight, norm_1.bias\n"
        "mlp.fc1.linear <- norm_1.layer_norm, mlp.fc1.weight, mlp.fc1.bias\n"
        "mlp.gelu <- mlp.fc1.linear\n"
        "mlp.fc2.linear <- mlp.gelu, mlp.fc2.weight, mlp.fc2.bias\n"
        "mlp.dropout <- mlp.fc2.linear\n"
        "add:1 <- norm_1.layer_norm, mlp.dropout\n"
        "norm_2.layer_norm <- add:1, norm_2.weight, norm_2.bias\n");
}

TEST_CASE("BERT's attention looks both ways") {
  for (const Op& op : build("bert-base").ops) {
    if (op.kind == OpKind::kAttention) CHECK((op.attrs->has_mask && !op.attrs->causal));
  }
}

}  // namespace trainyard::bert_test
