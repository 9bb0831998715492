// What decoders have beside GPT's and Llama's parts: counts, layers read line by line, and what
// cannot be built.
#include "models/decoder_problem.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "models/presets.h"
#include "tests/models/graph_text.h"
#include "tests/models/problem_text.h"

namespace trainyard::decoder_problem_test {

namespace {

ModelConfig preset(const std::string& name) {
  ModelConfig config = find_model_preset(name)->config;
  config.seq_len = 64;
  return config;
}

std::string problem_after(const std::string& name,
                          const std::function<void(ModelConfig&)>& change) {
  ModelConfig config = preset(name);
  change(config);
  return problem_text(config);
}

std::vector<const Op*> ops_of(const Graph& graph, OpKind kind) {
  std::vector<const Op*> out;
  for (const Op& op : graph.ops) {
    if (op.kind == kind) out.push_back(&op);
  }
  return out;
}

}  // namespace

TEST_CASE("GPT's relatives have the number of parameters that transformers counts") {
  const auto [name, count] = GENERATE(table<std::string, std::int64_t>({
      {"gpt-neox-20b", 20'554'567'680},
      {"falcon-7b", 6'921'720'704},
      {"falcon-40b", 41'303'293'952},
      {"opt-6.7b", 6'658'473'984},
      {"mpt-7b", 6'649'286'656},
  }));
  CAPTURE(name);
  CHECK(count_parameters(build_model(preset(name), {})).with_head == count);
}

TEST_CASE("a Gemma 2 layer has norms around its branches, and its ends are scaled and capped") {
  const Graph graph = build_model(preset("gemma2-9b"), {});
  CHECK(layer_text(graph, 1, "decoder.layers.1.") ==
        "norm_1.rms_norm <- decoder.layers.0.add:1, norm_1.weight\n"
        "attention.qkv.linear <- norm_1.rms_norm, attention.qkv.weight\n"
        "attention.rope <- attention.qkv.linear\n"
        "attention.attention <- attention.rope\n"
        "attention.proj.linear <- attention.attention, attention.proj.weight\n"
        "post_norm_1.rms_norm <- attention.proj.linear, post_norm_1.weight\n"
        "add <- decoder.layers.0.add:1, post_norm_1.rms_norm\n"
        "norm_2.rms_norm <- add, norm_2.weight\n"
        "mlp.gate_up.linear <- norm_2.rms_norm, mlp.gate_up.weight\n"
        "mlp.geglu <- mlp.gate_up.linear\n"
        "mlp.down.linear <- mlp.geglu, mlp.down.weight\n"
        "post_norm_2.rms_norm <- mlp.down.linear, post_norm_2.weight\n"
        "add:1 <- add, post_norm_2.rms_norm\n");
  CHECK(layer_text(graph, -1, "") ==
        "embedding.tokens.embedding <- tokens, embedding.tokens.weight\n"
        "embedding.affine <- embedding.tokens.embedding\n"
        "decoder.final_norm.rms_norm <- decoder.layers.41.add:1, decoder.final_norm.weight\n"
        "lm_head.linear <- decoder.final_norm.rms_norm, embedding.tokens.weight\n"
        "lm_head.tanh <- lm_head.linear\n"
        "lm_head.affine <- lm_head.tanh\n"
        "loss.cross_entropy <- lm_head.affine, labels\n");
  for (const Op* norm : ops_of(graph, OpKind::kRmsNorm)) CHECK(norm->attrs->shift == 1);
  const std::vector<const Op*> affine = ops_of(graph, OpKind::kAffine);
  REQUIRE(affine.size() == 2);
  CHECK(affine[0]->attrs->scale == Approx(std::sqrt(3584.0)));
  CHECK(affine[1]->attrs->scale == 30);
  const Op& attention = *ops_of(graph, OpKind::kAttention)[0];
  CHECK(attention.attrs->scale == 1.0F / 16);  // of query_scalar 256
  CHECK(attention.attrs->softcap == 50);
}

TEST_CASE("layers have the window by their number, where it is shorter than the sequence") {
  ModelConfig config = preset("gemma2-9b");
  config.attention_window = 16;
  const auto attended = [&] {
    std::string text;
    const Graph graph = build_model(config, {});
    for (const Op* op : ops_of(graph, OpKind::kAttention))
      text += op->attrs->attended == 16 ? 's' : op->attrs->attended == 0 ? 'f' : '?';
    return text;
  };
  config.layers = 6;
  CHECK(attended() == "sfsfsf");
  config.window_cycle = 3;
  CHECK(attended() == "ssfssf");
  config.window_cycle = 0;
  config.window_from = 2;
  CHECK(attended() == "ffssss");
  config.attention_window = 64;
  CHECK(attended() == "ffffff");
}

TEST_CASE("a Falcon's MLP reads what attention reads, by the same norm or by one of its own") {
  const Graph small = build_model(preset("falcon-7b"), {});
  CHECK(layer_text(small, 1, "decoder.layers.1.") ==
        "norm_1.layer_norm <- decoder.layers.0.add:1, norm_1.weight, norm_1.bias\n"
        "attention.qkv.linear <- norm_1.layer_norm, attention.qkv.weight\n"
        "attention.rope <- attention.qkv.linear\n"
        "attention.attention <- attention.rope\n"
        "attention.proj.linear <- attention.attention, attention.proj.weight\n"
        "add <- decoder.layers.0.add:1, attention.proj.linear\n"
        "mlp.fc1.linear <- norm_1.layer_norm, mlp.fc1.weight\n"
        "mlp.gelu <- mlp.fc1.linear\n"
        "mlp.fc2.linear <- mlp.gelu, mlp.fc2.weight\n"
        "add:1 <- add, mlp.fc2.linear\n");
  const std::string large =
      layer_text(build_model(preset("falcon-40b"), {}), 1, "decoder.layers.1.");
  CHECK(large.find("norm_2.layer_norm <- decoder.layers.0.add:1, norm_2.weight") !=
        std::string::npos);
  CHECK(large.find("mlp.fc1.linear <- norm_2.layer_norm") != std::string::npos);
}

TEST_CASE("positions are a table's, angles or distances") {
  const Graph opt = build_model(preset("opt-6.7b"), {});
  CHECK(tensor_of(opt, find_tensor(opt, "embedding.positions.weight")).shape == Shape{2050, 4096});
  const Graph mpt = build_model(preset("mpt-7b"), {});
  CHECK(ops_of(mpt, OpKind::kAttention)[0]->attrs->alibi == 1);
  CHECK(ops_of(mpt, OpKind::kAttention)[0]->inputs.size() == 1);
  CHECK(ops_of(mpt, OpKind::kLayerNorm)[0]->inputs.size() == 2);
  ModelConfig rw = preset("mpt-7b");
  rw.positions = Positions::kScaledAlibi;
  const Graph falcon = build_model(rw, {});
  CHECK(ops_of(falcon, OpKind::kAttention)[0]->attrs->alibi == Approx(1 / std::sqrt(128.0)));
  const Graph neox = build_model(preset("gpt-neox-20b"), {});
  CHECK(ops_of(neox, OpKind::kRope)[0]->attrs->rotary == 24);
  const Graph llama = build_model(preset("llama3.1-8b"), {});
  CHECK(ops_of(llama, OpKind::kRope)[0]->attrs->rope_scaling ==
        RopeScaling{.factor = 8, .low = 1, .high = 4, .original = 8192});
}

TEST_CASE("what a decoder cannot be is refused with what would work") {
  using C = ModelConfig;
  CHECK(problem_after("gpt2", [](C& c) { c.head_norm = true; }) ==
        "head_norm: only llama normalises heads; leave this key out");
  CHECK(problem_after("llama2-7b", [](C& c) { c.residual = Residual::kParallel; }) ==
        "residual: only gpt has parallel layers; leave this key out");
  CHECK(problem_after("bert-base", [](C& c) { c.score_cap = 5; }) ==
        "score_cap: only gpt and llama cap scores; leave this key out");
  CHECK(problem_after("gpt2", [](C& c) { c.rotary_dim = 8; }) ==
        "rotary_dim: only models with rotary positions have it; leave this key out");
  CHECK(problem_after("gpt2", [](C& c) { c.positions = Positions::kAlibi; }) ==
        "max_positions: only learned positions have a table; expected 0, got 1024");
  CHECK(problem_after("opt-6.7b", [](C& c) { c.seq_len = 2049; }) ==
        "seq_len: expected at most max_positions less position_offset, 2048, got 2049");
  CHECK(problem_after("mpt-7b", [](C& c) { c.position_offset = 2; }) ==
        "position_offset: only learned positions have a table; expected 0, got 2");
  CHECK(problem_after("llama2-7b", [](C& c) { c.rotary_dim = 7; }) ==
        "rotary_dim: rotary positions turn pairs; expected an even number, got 7");
  CHECK(problem_after("llama2-7b", [](C& c) { c.rotary_dim = 130; }) ==
        "rotary_dim: expected at most head_dim, 128, got 130");
  CHECK(problem_after("llama2-7b", [](C& c) { c.head_dim = 5; }) ==
        "head_dim: rotary positions turn pairs; expected an even number, got 5");
  CHECK(problem_after("llama3.1-8b", [](C& c) { c.rope_high = 1; }) ==
        "rope_high: expected more than rope_low, 1, got 1");
  CHECK(problem_after("llama3.1-8b", [](C& c) { c.rope_factor = 0.5; }) ==
        "rope_factor: expected at least 1 and less than 1.0e+06, got 0.5");
  CHECK(problem_after("llama2-7b", [](C& c) { c.window_cycle = 2; }) ==
        "window_cycle: says which layers have the window, and attention_window is 0: none has");
  CHECK(problem_after("t5-base", [](C& c) { c.attention_window = 63; }) ==
        "attention_window: a window of 63 tokens is shorter than the 512 of a sequence, which only "
        "gpt and llama have; say a seq_len of at most 63");
}

}  // namespace trainyard::decoder_problem_test
