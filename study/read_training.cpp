// The `training:` block.
#include <algorithm>
#include <iterator>
#include <string>

#include "engine/base/quantity.h"
#include "engine/base/user_text.h"
#include "engine/plan/plan_limits.h"
#include "study/study_origin.h"
#include "study/study_parts.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

void read_microbatch(Section& section, TrainingConfig& training) {
  const auto node = section.given("microbatch");
  if (!node || !node->is_sequence()) return section.integer("microbatch", training.microbatch);
  const std::vector<YamlNode> items = node->items();
  if (items.empty()) node->fail("expected at least one microbatch");
  if (std::ssize(items) > kMaxMicrobatches)
    node->fail("lists more than " + std::to_string(kMaxMicrobatches) + " microbatches");
  node->each_item([&](const YamlNode& item) {
    training.microbatches.push_back(item.as_integer(1, kMaxMicrobatch));
  });
  training.microbatch =
      *std::max_element(training.microbatches.begin(), training.microbatches.end());
}

void read_flash_attention(Section& section, TrainingConfig& training) {
  training.flash_attention = FlashAttention::kAuto;
  const auto node = section.given("flash_attention");
  if (!node) return;
  const std::optional<bool> on = read_bool_or(*node, "auto");
  if (on) training.flash_attention = *on ? FlashAttention::kOn : FlashAttention::kOff;
}

/// What is not in 8 bits is bf16.
void read_type(const YamlNode& node, TrainingConfig& training) {
  const std::string_view word = kPrecisionWords[read_word(node, "precision", kPrecisionWords)];
  const bool fp8 = word == to_string(DType::kFp8);
  training.precision = fp8 ? DType::kBf16 : parse_dtype(word).value();
  training.fp8.recipe = fp8 ? Fp8Recipe::kTensorwise : Fp8Recipe::kNone;
}

/// `precision: bf16`, or `precision: {type: fp8, recipe: tensorwise, gather: bf16}`.
void read_precision(Section& section, TrainingConfig& training) {
  const auto node = section.given("precision");
  if (!node) return;
  if (node->is_scalar()) return read_type(*node, training);
  Section details = section.child("precision");
  if (!section.draft().attempt([&] { read_type(details.required("type"), training); })) return;
  const auto read_for_fp8 = [&](std::string_view key, const auto& read) {
    details.read_given(key, [&](const YamlNode& given) {
      if (!training.fp8.on()) given.fail("is for fp8; leave it out");
      read(given);
    });
  };
  read_for_fp8("recipe", [&](const YamlNode& given) {
    training.fp8.recipe = static_cast<Fp8Recipe>(1 + read_word(given, "recipe", kFp8RecipeWords));
  });
  read_for_fp8("gather", [&](const YamlNode& given) {
    training.fp8.gathers = read_word(given, "type of gathers", kFp8GatherWords) == 1;
  });
  details.finish();
}

/// `lr: 3e-4`, or `lr: {peak: 3e-4, schedule: cosine, warmup: 100}`.
void read_learning_rate(Section& training, LearningRate& lr) {
  const auto node = training.given("lr");
  if (node && node->is_scalar()) {
    training.number("lr", lr.peak);
    const Origin origin = training.study().origins[training.key_path("lr")];
    training.study().origins[training.key_path("lr.peak")] = origin;
    return;
  }
  Section section = training.child("lr");
  section.read_all();
  section.finish();
}

void read_betas(Section& section, std::array<double, 2>& betas) {
  const auto node = section.given("betas");
  if (!node) return;
  if (node->items().size() != betas.size()) node->fail("expected two numbers, such as [0.9, 0.95]");
  auto next = betas.begin();
  node->each_item([&](const YamlNode& item) {
    double& beta = *next++;
    beta = item.as_number();
    if (beta < 0 || beta >= 1)
      item.fail("expected at least 0 and less than 1, got " + number_text(beta));
  });
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

/// Where they say other than the default, as study.resolved.yaml does of every key.
void warn_of_unused_training(const Section& section, Study& study) {
  const TrainingConfig& training = study.training;
  const TrainingConfig usual;
  const auto warn = [&](std::string_view key, const std::string& why) {
    if (section.contains(key))
      study.warnings.push_back(section.key_path(key) + " is not used: " + why);
  };
  if (training.precision != DType::kFp16 && training.loss_scale != usual.loss_scale)
    warn("loss_scale", "only fp16 scales the loss, and the precision is " +
                           std::string(to_string(training.precision)));
  if (training.optimizer != Optimizer::kSgd) return;
  const std::string averages = "optimizer sgd keeps no averages of gradients";
  if (training.betas != usual.betas) warn("betas", averages);
  if (training.eps != usual.eps) warn("eps", averages);
}

}  // namespace

void read_training(Section& root) {
  TrainingConfig& training = root.study().training;
  Section section = root.child("training");
  section.read_all({{"global_batch",
                     [&] {
                       training.global_batch =
                           section.integer_of(section.required("global_batch"), "global_batch");
                     }},
                    {"microbatch", [&] { read_microbatch(section, training); }},
                    {"precision", [&] { read_precision(section, training); }},
                    {"flash_attention", [&] { read_flash_attention(section, training); }},
                    {"lr", [&] { read_learning_rate(section, training.lr); }},
                    {"betas", [&] { read_betas(section, training.betas); }},
                    {"loss_scale", [&] { read_loss_scale(section, training.loss_scale); }}});
  section.finish();
  warn_of_unused_training(section, root.study());
}

}  // namespace trainyard
