// What an op allocates beside its results is never more than its declared workspace, and the
// declarations are not larger than they have to be.
#include "real/kernels/workspace.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/real/graph_run.h"
#include "tests/real/loopback_run.h"
#include "tests/support/cpu_features.h"
#include "tests/support/random_graph.h"

namespace trainyard::workspace_test {

namespace {

/// The largest use of one op kind and part in a run.
struct Use {
  std::int64_t seen = 0, declared = 0;
};
using Uses = std::map<std::string, Use>;

const std::vector<std::string> kModels = {
    "{family: gpt, layers: 1, hidden: 192, heads: 4, vocab: 1000, seq_len: 96}",
    "{family: llama, layers: 1, hidden: 192, heads: 4, kv_heads: 2, ffn: 400, vocab: 1000, "
    "seq_len: 96}",
    // Qwen 3's norms, a part of each head turned, and Gemma 2's caps, windows and norms.
    "{family: llama, layers: 1, hidden: 192, heads: 4, kv_heads: 2, ffn: 400, vocab: 1000, "
    "seq_len: 96, head_norm: true, rotary_dim: 24, rope_factor: 4, rope_original: 32}",
    "{family: llama, layers: 1, hidden: 192, heads: 4, kv_heads: 2, ffn: 400, vocab: 1000, "
    "seq_len: 96, activation: geglu, offset_norms: true, branch_norms: true, "
    "scaled_embedding: true, attention_window: 40, score_cap: 5, logit_cap: 3}",
    "{family: llama, layers: 1, hidden: 192, heads: 4, kv_heads: 2, ffn: 400, vocab: 1000, "
    "seq_len: 96, attention_window: 40}",
    "{family: gpt, layers: 1, hidden: 192, heads: 4, vocab: 1000, seq_len: 96, positions: alibi, "
    "norm_bias: false}",
    "{family: bert, layers: 1, hidden: 192, heads: 4, vocab: 1000, seq_len: 96, next_sentence: "
    "true}",
    "{family: t5, layers: 1, hidden: 192, heads: 4, head_dim: 48, ffn: 400, activation: geglu, "
    "vocab: 1000, seq_len: 96, "
    "decoder_seq_len: 64}",
    "{family: t5, layers: 1, hidden: 192, heads: 4, head_dim: 48, ffn: 400, vocab: 1000, seq_len: "
    "64, decoder_seq_len: 96}"};

Uses uses_of(const std::string& model, const std::string& training,
             const std::vector<std::string>& sets, int threads) {
  Uses uses;
  LoopbackOptions options;
  options.threads = threads;
  options.watch_ops = [&](const Program& program, const ProgramOp& op, std::int64_t seen) {
    const std::int64_t declared = workspace_bytes(program, op, threads);
    const std::string name = op_name(op.kind, op.part);
    CAPTURE(name, program.modules[op.module]);
    CHECK(seen <= declared);
    Use& use = uses[name];
    use.seen = std::max(use.seen, seen);
    use.declared = std::max(use.declared, declared);
  };
  run_loopback(
      "model: " + model +
          "\ncluster: {preset: local, ranks: 1}\ntraining: {global_batch: 4, microbatch: 4, " +
          training + "}\ndata: {path: synthetic}\n",
      sets, options);
  return uses;
}

void check_tight(const std::string& precision, const std::string& name, const Use& use,
                 int threads) {
  // The staging of inputs is of the host's heap, which LibTorch's allocator does not see.
  if (name == "load") return;
  if (precision == "bf16" && name.starts_with("linear") && !has_avx512()) return;
  CHECK(use.declared <= 2 * use.seen + threads * 65536);
}

}  // namespace

TEST_CASE(
    "no op allocates more than its declared workspace, and declarations are at most twice of what "
    "is used") {
  std::set<std::string> kinds;
  for (const std::string precision : {"fp32", "bf16", "fp64"}) {
    for (const int threads : {1, 2}) {
      for (const std::string& model : kModels) {
        for (const std::string more :
             {"", ", dropout: 0, optimizer: sgd", ", flash_attention: false"}) {
          CAPTURE(precision, threads, model, more);
          for (const auto& [name, use] :
               uses_of(model, "precision: " + precision + more, {}, threads)) {
            CAPTURE(name);
            kinds.insert(name);
            check_tight(precision, name, use, threads);
          }
        }
      }
    }
  }
  const std::set<std::string> all = {"adamw",
                                     "add",
                                     "add_attention_bias",
                                     "add_attention_bias_dx",
                                     "affine",
                                     "affine_dx",
                                     "context",
                                     "context_dx",
                                     "cross_entropy",
                                     "cross_entropy_dx",
                                     "dropout",
                                     "dropout_dx",
                                     "embedding",
                                     "embedding_dw",
                                     "flash_attention",
                                     "flash_attention_dx",
                                     "geglu",
                                     "geglu_dx",
                                     "gelu",
                                     "gelu_dx",
                                     "head_norm",
                                     "head_norm_b",
                                     "layer_norm",
                                     "layer_norm_b",
                                     "linear",
                                     "linear_dw",
                                     "linear_dx",
                                     "load",
                                     "relative_bias",
                                     "relative_bias_dw",
                                     "relu",
                                     "relu_dx",
                                     "rms_norm",
                                     "rms_norm_b",
                                     "rope",
                                     "rope_dx",
                                     "scores",
                                     "scores_dx",
                                     "select_first",
                                     "select_first_dx",
                                     "sgd",
                                     "softmax",
                                     "softmax_dx",
                                     "split",
                                     "split_dx",
                                     "sum_squares",
                                     "swiglu",
                                     "swiglu_dx",
                                     "tanh",
                                     "tanh_dx",
                                     "zero"};
  CHECK(kinds == all);
}

TEST_CASE("no op of the other families allocates more than its declared workspace") {
  std::set<std::string> kinds;
  for (const std::string precision : {"fp32", "bf16", "fp64"}) {
    for (const int threads : {1, 2}) {
      for (const std::string model :
           {"{family: vit, layers: 1, hidden: 192, heads: 4, image_size: 48, patch_size: 8}",
            "{family: resnet, depth: 50, image_size: 64}",
            "{family: resnet, depth: 18, image_size: 64, batch_norm: synchronised}",
            "{family: densenet, depth: 121, image_size: 32}",
            "{family: swin, layers: 8, hidden: 96, heads: 3, image_size: 64, patch_size: 2, "
            "window_size: 4}",
            "{family: unet, depth: 2, hidden: 32, image_size: 32}",
            "{family: mamba2, layers: 1, hidden: 64, head_dim: 16, state_size: 16, chunk_size: 16, "
            "vocab: 100, seq_len: 64}",
            "{family: clip, layers: 1, hidden: 64, heads: 2, vocab: 100, seq_len: 8, image_layers: "
            "1, image_hidden: 64, image_heads: 2, image_size: 16, patch_size: 8, projection_dim: "
            "32, contrast: 2}",
            "{family: ncf, layers: 3, hidden: 16, users: 300, items: 200}"}) {
        CAPTURE(precision, threads, model);
        for (const auto& [name, use] :
             uses_of(model, "precision: " + precision + ", optimizer: sgd", {}, threads))
          kinds.insert(name);
      }
    }
  }
  for (const std::string name : {"conv2d",
                                 "conv2d_dx",
                                 "conv2d_dw",
                                 "max_pool2d",
                                 "max_pool2d_dx",
                                 "avg_pool2d",
                                 "avg_pool2d_dx",
                                 "batch_norm",
                                 "batch_norm_b",
                                 "batch_moments",
                                 "batch_moments_dx",
                                 "batch_normalize",
                                 "batch_normalize_b",
                                 "concat",
                                 "roll",
                                 "roll_dx",
                                 "bmm",
                                 "bmm_dx",
                                 "bmm_dw",
                                 "embedding",
                                 "embedding_dw",
                                 "conv_transpose2d",
                                 "conv_transpose2d_dx",
                                 "conv_transpose2d_dw",
                                 "group_norm",
                                 "group_norm_b"}) {
    CAPTURE(name);
    CHECK(kinds.contains(name));
  }
}

TEST_CASE("nor does an op that no family has") {
  using enum OpKind;
  const auto kind = GENERATE(kSub, kDiv, kWhere, kAffine, kPower, kExp, kLog, kErf, kSigmoid, kSilu,
                             kSoftplus, kClamp, kCumsum, kZeroPad, kRoll, kSoftmax, kBmm, kBce,
                             kConvTranspose2d, kInterpolate2d, kGroupNorm, kGather, kFlip, kSin,
                             kCos, kScatter, kCausalConv1d, kChunkScan);
  for (const DType type : {DType::kFp32, DType::kBf16}) {
    Plan plan = plan_of_graph();
    plan.training.precision = type;
    plan.training.grad_dtype = DType::kFp32;
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      const bool even = seed % 2 == 0;  // and larger
      const Graph graph = random_graph(seed, {.ops = 2, .only = kind, .even = even, .type = type});
      CAPTURE(to_string(kind), to_string(type), seed);
      CHECK(run_graph(graph, plan).greedy == std::vector<std::string>());
    }
  }
}

TEST_CASE("nor does an op of a shard") {
  std::set<std::string> kinds;
  for (const std::string precision : {"fp32", "bf16"}) {
    for (const std::string& model : kModels) {
      for (const std::string sequence : {"false", "true"}) {
        CAPTURE(precision, model, sequence);
        for (const auto& [name, use] :
             uses_of(model, "precision: " + precision,
                     {"cluster.ranks=2", "parallel.tensor=2",
                      "parallel.sequence_parallel=" + sequence, "model.vocab=1001"},
                     1)) {
          CAPTURE(name);
          kinds.insert(name);
          check_tight(precision, name, use, 1);
        }
      }
    }
  }
  for (const std::string name : {"cross_entropy_max", "cross_entropy_sum", "add_bias",
                                 "add_bias_dw", "slice", "enter_tensor"}) {
    CAPTURE(name);
    CHECK(kinds.contains(name));
  }
}

TEST_CASE("nor does a norm over features of which each rank has some") {
  std::set<std::string> kinds;
  for (const std::string precision : {"fp32", "bf16", "fp64"}) {
    for (const std::string& model : {kModels[0], kModels[1], kModels[3], kModels[5]}) {
      CAPTURE(precision, model);
      for (const auto& [name, use] :
           uses_of(model, "precision: " + precision,
                   {"cluster.ranks=2", "parallel.tensor=2",
                    "parallel.tensor_method={name: atp, mesh: [1, 2]}", "model.vocab=1001"},
                   1)) {
        CAPTURE(name);
        kinds.insert(name);
        check_tight(precision, name, use, 1);
      }
    }
  }
  for (const std::string name : {"norm_moments", "norm_moments_dx", "normalize", "normalize_b"}) {
    CAPTURE(name);
    CHECK(kinds.contains(name));
  }
}

TEST_CASE("nor do casts into 8 bits and products of what was cast") {
  for (const std::string recipe : {"tensorwise", "delayed", "rowwise", "blockwise-128", "mx"}) {
    std::set<std::string> kinds;
    for (const std::size_t model : {0, 1}) {
      for (const int threads : {1, 2}) {
        CAPTURE(recipe, model, threads);
        const std::string training =
            "precision: {type: fp8, recipe: " + recipe + "}, dropout: 0, optimizer: sgd";
        for (const auto& [name, use] : uses_of(kModels[model], training, {}, threads))
          kinds.insert(name);
      }
    }
    CHECK(kinds.contains("quantize"));
    CHECK(kinds.contains("amax") == (recipe == "tensorwise"));
    CHECK(kinds.contains("update_scales") == (recipe == "delayed"));
  }
}

TEST_CASE("nor does the correction of an update that was made before the norm was known") {
  const std::string model =
      "{family: gpt, layers: 2, hidden: 192, heads: 4, vocab: 1000, seq_len: 96}";
  const std::vector<std::string> plan = {"cluster.ranks=2", "parallel.pipeline=2",
                                         "schedule={method: 1f1b, post_validation: true}"};
  for (const std::string precision : {"fp32", "bf16", "fp64"}) {
    for (const std::string optimizer : {"adamw", "sgd"}) {
      const std::string training =
          "precision: " + precision + ", dropout: 0, optimizer: " + optimizer;
      const LoopbackRun run =
          run_loopback("model: " + model +
                           "\ncluster: {preset: local, ranks: 1}\ntraining: {global_batch: 4, "
                           "microbatch: 4, " +
                           training + "}\ndata: {path: synthetic}\n",
                       plan, {});
      // The first rank's part of the norm is within this clip, so it has updated; the whole norm is
      // not.
      const std::string clip = ", clip_norm: " + std::to_string(0.999 * run.gradient_norms[0]);
      const Uses uses = uses_of(model, training + clip, plan, 1);
      for (const std::string& name :
           {"correct_" + optimizer, std::string("within_clip"), std::string("beyond_clip")}) {
        CAPTURE(precision, name);
        REQUIRE(uses.contains(name));
        check_tight(precision, name, uses.at(name), 1);
      }
    }
  }
}

}  // namespace trainyard::workspace_test
