#include "tests/support/random_plan.h"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <vector>

#include "tests/support/random_cluster.h"
#include "tests/support/random_draws.h"

namespace trainyard {

namespace {

class RandomPlan {
 public:
  explicit RandomPlan(std::uint64_t seed) : seed_(seed) {}

  std::string make() {
    choose_model();
    choose_degrees();
    place_stages();
    choose_replicas();
    if (random_.chance(12)) spoil();
    return model_text() + cluster_text() + parallel_text() + training_text() + plan_text();
  }

 private:
  // Words of the memory techniques, on every fourth seed, drawn apart: the other draws stay what
  // they are.
  bool extra_chance(int percent) { return extras_ && extra_.below(100) < percent; }

  // ZeRO-2 and 3, groups of replicas, and their state on the host, on an eighth.
  std::string divided_text() {
    const std::int64_t stage = divided_.below(8) == 0 ? 1 : 2 + divided_.below(2);
    std::string text = "{stage: " + std::to_string(stage);
    const bool replicates = data_ % 2 == 0 && data_ > 2 && divided_.below(3) == 0;
    if (replicates) text += ", replicate: 2";
    if (stage >= 2)
      text += divided_.word({"", ", reduce: last", ", reduce: each", ", reduce_dtype: bf16"});
    if (stage == 3) {
      text += divided_.word({"", ", prefetch: 0", ", prefetch: 2", ", gathers_in_flight: 3",
                             ", prefetch: 4, gathers_in_flight: 3"});
      const bool to_some = data_ / (replicates ? 2 : 1) % 4 == 0;
      text += divided_.word(
          {"", to_some ? ", reshard_after_forward: 2" : "", ", reshard_after_forward: false"});
    }
    if (divided_.below(3) == 0) text += ", offload: optimizer";
    return text + "}";
  }

  // A buffer for transfers, of half a message to many, and the host's memory, on another fourth.
  std::string buffer_text() {
    const std::int64_t message = microbatch_ * sequence_ * heads_ * head_dim_ * 2;
    const std::int64_t bytes = message * (1 + transfers_.below(9)) / (1 + transfers_.below(3));
    return transfers_.below(4) == 0 ? "1 GiB"
                                    : std::to_string(std::max<std::int64_t>(1, bytes)) + " B";
  }

  // Two tensor axes, and a sharding that tells them apart, on every eighth seed.
  std::string tensor_text() {
    if (!splits_ || tensor_ % 2 != 0) return std::to_string(tensor_);
    const std::string half = std::to_string(tensor_ / 2);
    return axes_.chance(50) ? "{tp0: 2, tp1: " + half + "}" : "{tp0: " + half + ", tp1: 2}";
  }

  /// MLPs split over one axis by their outputs and over the other by their inputs.
  std::string sharding_text() {
    if (!splits_ || tensor_ % 4 != 0 || axes_.chance(30)) return "";
    const bool llama = family_ == "llama";
    const std::string first = axes_.chance(50) ? "tp0" : "tp1",
                      second = first == "tp0" ? "tp1" : "tp0";
    std::string text = "sharding: {'*.mlp." + std::string(llama ? "gate_up" : "fc1") +
                       "': {weight: [" + first + ", " + second + "]";
    if (axes_.chance(50)) text += ", output: '[R, R, " + first + "] R(" + second + ")'";
    text += "}, '*.mlp." + std::string(llama ? "down" : "fc2") + "': {weight: [" + second + ", " +
            first + "]}}\n";
    return text;
  }

  void choose_model() {
    family_ = random_.word({"gpt", "gpt", "llama", "bert", "t5"});
    heads_ = random_.one_of<std::int64_t>({1, 2, 3, 4, 6, 8, 12, 16});
    head_dim_ = random_.one_of<std::int64_t>({8, 16, 64});
    layers_ = 1 + random_.below(16);
    sequence_ = random_.one_of<std::int64_t>({8, 24, 128, 512});
    vocab_ = random_.one_of<std::int64_t>({50, 97, 1000, 32000});
  }

  bool says_recompute() const {
    return schedule_ == "scp" || schedule_.find("-recompute") != std::string::npos;
  }
  std::int64_t all_layers() const { return family_ == "t5" ? 2 * layers_ : layers_; }

  void choose_degrees() {
    tensor_ = random_.chance(50) ? 1 : random_.divisor(heads_, 8);
    partition_ = "";
    const auto kind = random_.below(10);
    if (kind < 6) {
      pipeline_ = random_.divisor(all_layers(), 8);
    } else if (kind < 7) {
      pipeline_ = random_.divisor(all_layers() + 2, 8);
      partition_ = "{method: uniform, ends: layers}";
    } else if (kind < 8) {
      pipeline_ = 1 + random_.below(std::min<std::int64_t>(all_layers(), 6));
      partition_ = "{method: uniform, uneven: true}";
    } else {
      choose_cuts();
    }
    schedule_ = random_.word({"1f1b", "1f1b", "gpipe", "zb-h1"});
    if (pipeline_ > 1 && random_.chance(15))
      schedule_ = random_.word({"scp", "pre-recompute", "last-no-recompute-1f1b"});
    virtual_stages_ = 1;
    const std::int64_t per_rank = all_layers() / pipeline_;
    if (partition_.empty() && pipeline_ > 1 && per_rank > 1 && all_layers() % pipeline_ == 0 &&
        random_.chance(50)) {
      virtual_stages_ = random_.divisor(per_rank, 4);
      if (virtual_stages_ > 1)
        schedule_ = random_.word({"interleaved", "interleaved", "interleaved-zb1p"});
      if (virtual_stages_ == 2 && random_.chance(50))
        schedule_ = random_.word({"zb-v", "dualpipe-v"});
    }
    data_ = random_.one_of<std::int64_t>({1, 1, 2, 3, 4, 8});
    microbatches_ = 1 + random_.below(24);
    if (schedule_.starts_with("interleaved")) microbatches_ = pipeline_ * (1 + random_.below(4));
    if (schedule_ == "dualpipe-v") microbatches_ += 2 * pipeline_ - 1;
    if (says_recompute()) microbatches_ += std::max<std::int64_t>(4, pipeline_) - 1;
    microbatch_ = random_.one_of<std::int64_t>({1, 1, 2, 4});
    batch_ = microbatches_ * microbatch_ * data_;
  }

  void choose_cuts() {
    pipeline_ = 1;
    for (std::int64_t layer = 1; layer < all_layers() && pipeline_ < 6; ++layer) {
      if (!random_.chance(40)) continue;
      partition_ += (partition_.empty() ? "[" : ", ") + std::to_string(layer);
      ++pipeline_;
    }
    if (!partition_.empty()) partition_ += "]";
  }

  // Stages on any ranks, some of them with several, on another eighth of the seeds.
  void place_stages() {
    const bool takes_them = schedule_ == "1f1b" || schedule_ == "gpipe";
    if (!places_stages_ || !takes_them || pipeline_ < 2 || virtual_stages_ > 1) return;
    std::vector<std::int64_t> on(static_cast<std::size_t>(pipeline_));
    std::iota(on.begin(), on.end(), 0);
    for (std::size_t i = on.size(); i-- > 1;)
      std::swap(on[i],
                on[static_cast<std::size_t>(places_.below(static_cast<std::int64_t>(i) + 1))]);
    for (std::int64_t more = places_.below(4); more > 0; --more) {
      const std::int64_t apart = 1 + places_.below(pipeline_ - 1);
      on.push_back((on.back() + apart) % pipeline_);
    }
    const auto stages = static_cast<std::int64_t>(on.size());
    if (stages > all_layers()) return;
    partition_ = "{cuts: [";
    std::int64_t cut = 0;
    for (std::int64_t left = stages - 1; left > 0; --left) {
      cut += 1 + places_.below(all_layers() - cut - left);
      partition_ += (left == stages - 1 ? "" : ", ") + std::to_string(cut);
    }
    partition_ += "], on: [";
    for (std::size_t i = 0; i < on.size(); ++i)
      partition_ += (i == 0 ? "" : ", ") + std::to_string(on[i]);
    partition_ += "]}";
    buffers_ = beside_.chance(50);
  }

  // Replicas of each pipeline rank, on another eighth of the seeds; some in two groups, some with
  // microbatches of several sizes or products in 8 bits.
  void choose_replicas() {
    if (!replicates_ || pipeline_ < 2) return;
    std::string list;
    std::int64_t most = 1;
    all_replicas_ = 0;
    grouped_ = beside_.chance(25);
    in_8_bits_ = beside_.chance(35);
    for (std::int64_t rank = 0; rank < pipeline_; ++rank) {
      const std::int64_t replicas = (1 + places_.below(4)) * (grouped_ ? 2 : 1);
      list += (rank == 0 ? "" : ", ") + std::to_string(replicas);
      all_replicas_ += replicas;
      most = std::max(most, replicas);
    }
    microbatch_ = most + places_.below(4);
    if (beside_.chance(40)) most_given_ = beside_.below(microbatch_ - most + 2);
    batch_ = microbatches_ * microbatch_;
    data_ = 1;
    const std::string said = "replicas: [" + list + "]}";
    if (partition_.starts_with("["))
      partition_ = "{cuts: " + partition_ + ", " + said;
    else if (partition_.empty())
      partition_ = "{" + said;
    else
      partition_ = partition_.substr(0, partition_.size() - 1) + ", " + said;
  }

  /// Makes the study impossible, or so large that it may not fit.
  void spoil() {
    switch (random_.below(10)) {
      case 0: ++tensor_; break;
      case 1: pipeline_ += 1 + random_.below(3); break;
      case 2: ++batch_; break;
      case 3: batch_ = 1 + random_.below(3); break;
      case 4: schedule_ = "interleaved"; break;
      case 5: ++virtual_stages_; break;
      case 6: partition_ = "[" + std::to_string(all_layers()) + "]"; break;
      case 7: spare_devices_ = -1; break;
      case 8: vocab_ = 3'000'000'000; break;
      default:  // too much for any device
        vocab_ = 4'000'000;
        head_dim_ = 1024;
        break;
    }
  }

  std::string model_text() {
    std::string text = "model: {family: " + family_ + ", layers: " + std::to_string(layers_) +
                       ", hidden: " + std::to_string(heads_ * head_dim_) +
                       ", heads: " + std::to_string(heads_) + ", vocab: " + std::to_string(vocab_) +
                       ", seq_len: " + std::to_string(sequence_);
    if (family_ == "llama")
      text += ", kv_heads: " +
              std::to_string(tensor_ *
                             random_.divisor(std::max<std::int64_t>(1, heads_ / tensor_), 16));
    if (family_ == "bert" && random_.chance(50)) text += ", next_sentence: true";
    if (family_ == "t5" && random_.chance(50))
      text += ", decoder_seq_len: " + std::to_string(random_.one_of<std::int64_t>({8, 24, 64}));
    if (family_ == "t5" && random_.chance(50)) text += ", activation: geglu";
    if (random_.chance(25)) text += ", tied_embeddings: " + random_.word({"true", "false"});
    if (random_.chance(10)) text += ", linear_bias: " + random_.word({"true", "false"});
    return text + "}\n";
  }

  std::string cluster_text() {
    const std::int64_t ranks = std::max<std::int64_t>(
        1, tensor_ * (all_replicas_ > 0 ? all_replicas_ : pipeline_ * data_));
    const std::int64_t devices = std::max<std::int64_t>(
        1, ranks + spare_devices_ + (random_.chance(20) ? random_.below(5) : 0));
    return random_cluster({devices, in_8_bits_, buffers_}, random_, transfers_);
  }

  std::string parallel_text() {
    std::string text =
        "parallel: {tensor: " + tensor_text() + ", pipeline: " + std::to_string(pipeline_);
    if (all_replicas_ == 0) text += ", data: " + std::to_string(data_);
    if (virtual_stages_ > 1) text += ", virtual_stages: " + std::to_string(virtual_stages_);
    if (tensor_ > 1 && sequence_ % tensor_ == 0 && random_.chance(50))
      text += ", sequence_parallel: true";
    if (divides_) {
      text += ", zero: " + divided_text();
    } else if (grouped_) {
      text += ", zero: " + beside_.word({"{stage: 1, replicate: 2}", "{stage: 2, replicate: 2}",
                                         "{stage: 3, replicate: 2}",
                                         "{stage: 3, replicate: 2, layout: per-parameter}",
                                         "{stage: 3, reshard_after_forward: 2}"});
    } else if (random_.chance(40)) {
      std::string zero = random_.word({"0", "1", "{stage: 1, by: shard}"});
      if (extra_chance(50) || (all_replicas_ > 0 && places_.below(2) == 0))
        zero = "{stage: 1, by: parameter}";
      else if (all_replicas_ > 0 && places_.below(2) == 0)
        zero = places_.word({"2", "3", "{stage: 3, reduce: last}", "{stage: 3, prefetch: 2}"});
      if (zero == "0" && divided_.below(2) == 0) zero = "{stage: 0, reduce: each}";
      text += ", zero: " + zero;
    }
    if (random_.chance(40)) {
      const std::string letters =
          random_.word({"DPT", "PDT", "TPD", "DTP", "PTD", "TDP", "cluster", "spread"});
      text += ", placement: " + (all_replicas_ == 0         ? letters
                                 : letters.starts_with("D") ? "flat"
                                                            : "stages");
    }
    if (random_.chance(20)) text += ", scatter_gather: false";
    if (buffers_) text += ", d2d_buffer: " + buffer_text();
    return text + "}\n";
  }

  std::string training_text() {
    std::string text =
        "training: {global_batch: " + std::to_string(batch_) + ", microbatch: " + microbatch_text();
    const std::string precision =
        random_.chance(60) ? random_.word({"bf16", "fp16", "fp32", "fp16"}) : "";
    if (in_8_bits_)
      text += ", precision: " +
              beside_.word({"fp8", "{type: fp8, recipe: tensorwise, gather: fp8}",
                            "{type: fp8, recipe: tensorwise, gather: bf16}",
                            "{type: fp8, recipe: delayed}", "{type: fp8, recipe: rowwise}",
                            "{type: fp8, recipe: blockwise-128}"});
    else if (!precision.empty())
      text += ", precision: " + precision;
    if (random_.chance(20)) text += ", optimizer: sgd";
    if (random_.chance(30)) text += ", flash_attention: " + random_.word({"true", "false", "auto"});
    if (random_.chance(20) && family_ != "llama") text += ", dropout: 0";
    if (random_.chance(20)) text += ", clip_norm: 0";
    if (random_.chance(40))
      text += ", bucket_elements: " + random_.word({"1", "5000", "100e3", "25e6"});
    if (random_.chance(15)) text += ", grad_dtype: " + random_.word({"fp32", "fp16", "bf16"});
    return text + "}\n";
  }

  /// One microbatch gives a sequence to the next; beside replicas, every other one some.
  std::string microbatch_text() {
    const std::int64_t most = all_replicas_ > 0 ? most_given_ : extra_chance(40) ? 1 : 0;
    if (most == 0 || microbatches_ < 2 || microbatch_ < 2) return std::to_string(microbatch_);
    std::string text;
    std::int64_t given = 0;
    for (std::int64_t mb = 0; mb < microbatches_; ++mb) {
      const bool gives = mb % 2 == 0 && mb + 1 < microbatches_ && (mb == 0 || all_replicas_ > 0);
      if (gives) given = all_replicas_ > 0 ? 1 + beside_.below(most) : most;
      const std::int64_t size = microbatch_ + (gives ? -given : mb % 2 == 1 ? given : 0);
      if (mb % 2 == 1) given = 0;
      text += (text.empty() ? "[" : ", ") + std::to_string(size);
    }
    return text + "]";
  }

  std::string plan_text() {
    std::string text = "schedule: " + schedule_ + "\n";
    if (!partition_.empty()) text += "partition: " + partition_ + "\n";
    if (says_recompute() && random_.chance(95)) {
      text += "recompute: " +
              random_.word({"selective", "full", "{method: stage-aware, first: 0.5}",
                            "{method: group, strategy: group_2}"}) +
              "\n";
    } else if (random_.chance(50)) {
      text += "recompute: " +
              random_.word({"none", "selective", "full", "{method: group, strategy: contiguous}",
                            "{method: group, strategy: group_3}"}) +
              "\n";
    } else if (pipeline_ > 1 && random_.chance(30)) {
      text += "recompute: " + random_.word({"stage-aware", "{method: stage-aware, first: 0.25}"}) +
              "\n";
    }
    if (extra_chance(60) && text.find("recompute: ") != std::string::npos) {
      text += "offload: {activations: true, horizon: " + std::to_string(extra_.below(5)) + "}\n";
    }
    if (random_.chance(50)) {
      text += "framework: " +
              random_.word(
                  {"trainyard", "megatron-lm", "nemo", "{name: megatron-lm, version: 2021}",
                   "{name: megatron-lm, version: 2022}", "{name: megatron-lm, version: current}"}) +
              "\n";
    }
    return text + sharding_text();
  }

  std::uint64_t seed_;
  RandomDraws random_{seed_}, extra_{seed_}, transfers_{seed_}, axes_{seed_};
  RandomDraws places_{seed_}, divided_{seed_}, beside_{seed_};
  bool extras_ = seed_ % 4 == 0, buffers_ = seed_ % 4 == 2, splits_ = seed_ % 8 == 3;
  bool places_stages_ = seed_ % 8 == 5, replicates_ = seed_ % 8 == 1, divides_ = seed_ % 8 == 7;
  std::string family_, schedule_, partition_;
  std::int64_t heads_ = 1, head_dim_ = 8, layers_ = 1, sequence_ = 8, vocab_ = 50;
  std::int64_t tensor_ = 1, pipeline_ = 1, virtual_stages_ = 1, data_ = 1;
  std::int64_t microbatches_ = 1, microbatch_ = 1, batch_ = 1, spare_devices_ = 0;
  std::int64_t all_replicas_ = 0;             // of all pipeline ranks; 0: parallel.data of each
  bool grouped_ = false, in_8_bits_ = false;  // beside these
  std::int64_t most_given_ = 0;               // of their microbatches; 0: all have one size
};

}  // namespace

std::string random_study(std::uint64_t seed) { return RandomPlan(seed).make(); }

}  // namespace trainyard
