// The `training:` block.
#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "engine/base/quantity.h"
#include "engine/base/user_text.h"
#include "engine/plan/plan_limits.h"
#include "study/study_origin.h"
#include "study/study_parts.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

DType read_precision(const YamlNode& node) {
  const std::size_t word = read_word(node, "precision", kPrecisionWords, kPlannedPrecisions);
  return parse_dtype(kPrecisionWords[word]).value();
}

void read_batch(Section& section, TrainingConfig& training) {
  training.global_batch = section.required("global_batch").as_integer(1, kMaxBatch);
  if (const auto node = section.given("microbatch"); node && node->is_sequence()) {
    for (const YamlNode& item : node->items())
      training.microbatches.push_back(item.as_integer(1, kMaxMicrobatch));
    if (training.microbatches.empty()) node->fail("expected at least one microbatch");
    if (std::ssize(training.microbatches) > kMaxMicrobatches) {
      node->fail("lists more than " + std::to_string(kMaxMicrobatches) + " microbatches");
    }
    training.microbatch =
        *std::max_element(training.microbatches.begin(), training.microbatches.end());
    return;
  }
  section.integer("microbatch", training.microbatch, 1, kMaxMicrobatch);
}

void read_flash_attention(Section& section, TrainingConfig& training) {
  training.flash_attention = FlashAttention::kAuto;
  const auto node = section.given("flash_attention");
  if (!node) return;
  const std::optional<bool> on = read_bool_or(*node, "auto");
  if (on) training.flash_attention = *on ? FlashAttention::kOn : FlashAttention::kOff;
}

/// `lr: 3e-4`, or `lr: {peak: 3e-4, schedule: cosine, warmup: 100}`.
void read_learning_rate(Section& training, LearningRate& lr) {
  const auto node = training.given("lr");
  if (node && node->is_scalar()) {
    training.number("lr", lr.peak, 0, kRateBelow);
    const Origin origin = training.study().origins[training.key_path("lr")];
    training.study().origins[training.key_path("lr.peak")] = origin;
    return;
  }
  Section section(training.study(), training.key_path("lr"), node);
  section.number("peak", lr.peak, 0, kRateBelow);
  section.word("schedule", lr.schedule, kLearningRateWords);
  section.integer("warmup", lr.warmup, 0, std::numeric_limits<std::int64_t>::max());
  section.finish();
}

void read_betas(Section& section, std::array<double, 2>& betas) {
  const auto node = section.given("betas");
  if (!node) return;
  const std::vector<YamlNode> items = node->items();
  if (items.size() != betas.size()) node->fail("expected two numbers, such as [0.9, 0.95]");
  for (std::size_t i = 0; i < betas.size(); ++i) {
    betas[i] = items[i].as_number();
    if (betas[i] < 0 || betas[i] >= 1)
      items[i].fail("expected at least 0 and less than 1, got " + number_text(betas[i]));
  }
}

/// `dynamic`, or a number.
void read_loss_scale(Section& section, std::string& loss_scale) {
  const auto node = section.given("loss_scale");
  if (!node || (node->is_scalar() && node->as_string() == "dynamic")) return;
  const std::string expected = "dynamic or a number more than 0";
  const double scale = node->as_number(expected);
  if (!(scale > 0)) node->fail("expected " + expected + ", got " + number_text(scale));
  loss_scale = number_text(scale);
}

void read_optimizer(Section& section, TrainingConfig& training) {
  if (const auto node = section.given("optimizer")) {
    training.optimizer = static_cast<Optimizer>(read_word(*node, "optimizer", kOptimizerWords));
  }
  read_learning_rate(section, training.lr);
  read_betas(section, training.betas);
  section.number("eps", training.eps, 0, 1);
  section.number("weight_decay", training.weight_decay, 0, kRateBelow);
  section.number("clip_norm", training.clip_norm, 0);
  read_loss_scale(section, training.loss_scale);
}

/// Words of published cases that change nothing that this version models.
void read_words_without_effect(Section& section, TrainingConfig& training) {
  section.boolean("cpu_offload", training.cpu_offload);
  if (training.cpu_offload) {
    section.required("cpu_offload")
        .fail("offloading to the CPU is not in this version; write false");
  }
  for (const auto& [key, value] : {std::pair<const char*, bool*>{"compiled", &training.compiled},
                                   {"async_tp", &training.async_tp}}) {
    section.boolean(key, *value);
    if (!*value) continue;
    section.study().warnings.push_back("training." + std::string(key) +
                                       " has no effect in this version");
  }
}

}  // namespace

void read_training(Section& root) {
  TrainingConfig& training = root.study().training;
  Section section = root.child("training");
  read_batch(section, training);
  if (const auto node = section.given("precision")) training.precision = read_precision(*node);
  if (const auto node = section.given("grad_dtype")) training.grad_dtype = read_precision(*node);
  read_flash_attention(section, training);
  read_optimizer(section, training);
  section.integer("bucket_elements", training.bucket_elements, 1, kMaxTensorElements);
  section.number("dropout", training.dropout, 0, 1);
  if (const auto node = section.given("kernels")) {
    training.kernels = static_cast<KernelSet>(read_word(*node, "kernel set", kKernelWords));
  }
  section.integer("steps", training.steps, 1, kMaxSteps);
  section.integer("seed", training.seed, 0, std::numeric_limits<std::int64_t>::max());
  section.number("timeout_s", training.timeout_s, kMinTimeoutSeconds, kTimeoutBelowSeconds);
  read_words_without_effect(section, training);
  section.finish();
}

}  // namespace trainyard
