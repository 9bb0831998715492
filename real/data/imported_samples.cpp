#include "real/data/imported_samples.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/base/error.h"
#include "engine/base/indexed.h"
#include "engine/base/user_text.h"
#include "engine/data/draws.h"
#include "real/data/noisy_labels.h"
#include "study/study_origin.h"

namespace trainyard {

namespace {

constexpr std::int64_t kMostCells = 48;            // of a pattern
constexpr std::int64_t kUnlabelledClasses = 8;     // where the loss has none
constexpr std::uint32_t kFirstTarget = 1U << 16U;  // numbers of further ones; inputs count from 1

}  // namespace

std::string text_input(const Graph& graph) {
  const Op& loss = graph.ops[graph.tensors[graph.loss].producer];
  const Shape& logits = graph.tensors[loss.inputs[0]].shape;
  if (loss.kind != OpKind::kCrossEntropy || logits.size() < 3) return "";
  const std::vector<SampleInput> inputs = sample_inputs(graph);
  const auto labels = std::find_if(inputs.begin(), inputs.end(), [](const SampleInput& input) {
    return input.role == SampleInput::Role::kTarget;
  });
  if (labels == inputs.end() || labels->elements() < 2) return "";
  std::string first;  // by name
  for (const SampleInput& input : inputs) {
    if (input.role != SampleInput::Role::kRead || input.kind != SampleInput::Kind::kIds) continue;
    if (input.elements() != labels->elements()) continue;
    if (input.below == 0 || input.below > logits.back()) continue;
    if (first.empty() || input.name < first) first = input.name;
  }
  return first;
}

ImportedSamples::ImportedSamples(const Study& study, const Graph& graph)
    : seed_(study.training.seed),
      learnable_(study.data.path != "synthetic"),
      text_(text_input(graph)) {
  read_inputs(study, graph);
  if (!text_.empty()) {
    windows_ = make_token_windows(
        study, input(text_).below,
        {.length = predicted_per_sample() + 1, .stride = predicted_per_sample()});
    return;
  }
  if (learnable_ && study.data.path != "generated")
    fail_at(study, "data.path",
            in_quotes(study.data.path) +
                ": only a model that predicts tokens is trained on a file of them; expected "
                "generated, synthetic, or kind: tensors");
  if (learnable_) check_classes(study);
}

void ImportedSamples::read_inputs(const Study& study, const Graph& graph) {
  for (const SampleInput& read : sample_inputs(graph)) {
    if (read.role == SampleInput::Role::kTarget) {
      const Op& loss = graph.ops[read.loss];
      // The first has the patterns and draws that the only one has.
      const auto more = static_cast<std::uint32_t>(targets_.size());
      const std::uint32_t number = more == 0 ? 0 : kFirstTarget + more;
      targets_.emplace(read.name, Target{{read, number}, loss.kind, double{loss.attrs->scale}});
      if (loss.kind == OpKind::kCrossEntropy) classes_ = std::max(classes_, read.below);
      continue;
    }
    if (read.kind == SampleInput::Kind::kIds && read.below == 0)
      fail_at(study, "model.onnx",
              "input " + in_quotes(read.name) +
                  " is of integers and looked up in no table: nothing says which they may be");
    const auto number = static_cast<std::uint32_t>(inputs_.size()) + 1;
    inputs_.emplace(read.name, Input{read, number});
  }
  if (classes_ == 0) classes_ = kUnlabelledClasses;
}

std::int64_t ImportedSamples::predicted_per_sample() const {
  std::int64_t all = 0;
  for (const auto& [name, target] : targets_) all += target.elements();
  return all;
}

void ImportedSamples::check_classes(const Study& study) const {
  bool told = false;
  for (const auto& [name, input] : inputs_) {
    if (input.kind == Input::Kind::kIds) told |= input.below >= classes_;
    if (input.kind != Input::Kind::kNumbers) continue;
    std::set<std::vector<bool>> patterns;
    for (std::int64_t of_class = 0; of_class < classes_; ++of_class) {
      std::vector<bool> pattern;
      for (std::int64_t cell = 0; cell < std::min(input.elements(), kMostCells); ++cell)
        pattern.push_back(is_up(input.number, of_class, cell));
      patterns.insert(std::move(pattern));
    }
    told |= static_cast<std::int64_t>(patterns.size()) == classes_;
  }
  if (!told)
    fail_at(study, "data.path",
            "no input of the model is large enough to tell " + std::to_string(classes_) +
                " generated classes apart; expected synthetic");
}

std::int64_t ImportedSamples::shown(std::int64_t index) const {
  return Draws(seed_, DrawPurpose::kClasses, index).below(classes_);
}

bool ImportedSamples::is_up(std::uint32_t number, std::int64_t of_class, std::int64_t cell) const {
  // Patterns belong to the classes, not to the run: their seed is the number of what shows them.
  Draws draws(number, DrawPurpose::kPatterns, of_class * kMostCells + cell);
  return draws.below(2) == 1;
}

const ImportedSamples::Input& ImportedSamples::input(std::string_view name) const {
  const auto found = inputs_.find(name);
  if (found == inputs_.end()) bug("an imported model has no input " + std::string(name));
  return found->second;
}

void ImportedSamples::fill_tokens(const Input& of, std::int64_t index,
                                  std::span<std::int64_t> out) const {
  Draws draws(seed_, DrawPurpose::kImages, index * 64 + of.number);
  const bool shows = learnable_ && of.below >= classes_;
  for (std::int64_t& id : out) {
    if (!shows) {
      id = draws.below(of.below);
      continue;
    }
    const std::int64_t like = shown(index);
    id = like + classes_ * draws.below((of.below - like - 1) / classes_ + 1);
  }
}

void ImportedSamples::fill_labels(const Target& target, std::int64_t index,
                                  std::span<std::int64_t> out) const {
  if (windows_ != nullptr) {
    std::vector<std::int64_t> window(out.size() + 1);
    windows_->read(index, window);
    std::copy(window.begin() + 1, window.end(), out.begin());
    return;
  }
  const std::int64_t classes = target.below;
  Draws draws(seed_, DrawPurpose::kLabels,
              target.number == 0 ? index : index * (std::int64_t{1} << 20) + target.number);
  for (std::int64_t& label : out) {
    label = learnable_ ? noisy_label(shown(index) % classes, classes, draws) : draws.below(classes);
  }
}

void ImportedSamples::fill(std::string_view name, std::int64_t index,
                           std::span<std::int64_t> out) const {
  if (const auto target = targets_.find(name); target != targets_.end())
    return fill_labels(target->second, index, out);
  if (name == text_) return windows_->read(index, out);
  const Input& of = input(name);
  if (of.is_made()) return fill_made(of, out);
  if (of.kind == Input::Kind::kNumbers) bug("an input of real numbers is filled with them");
  fill_tokens(of, index, out);
}

void ImportedSamples::fill_numbers(std::string_view name, std::int64_t index,
                                   std::span<float> out) const {
  const auto target = targets_.find(name);
  const bool targets = target != targets_.end();
  if (!targets && input(name).is_made()) return fill_made(input(name), out);
  const std::uint32_t number = targets ? target->second.number : input(name).number;
  Draws draws(seed_, targets ? DrawPurpose::kLabels : DrawPurpose::kImages, index * 64 + number);
  const std::int64_t of_class = shown(index);
  const auto size = static_cast<std::int64_t>(out.size());
  const std::int64_t cells = std::min(size, kMostCells);
  Numbered<bool> pattern;
  for (std::int64_t cell = 0; cell < cells; ++cell)
    pattern.push_back(is_up(number, of_class, cell));
  const bool binary = targets && target->second.kind == OpKind::kBce;
  auto element = out.begin();
  for (std::int64_t i = 0; i < size; ++i) {
    const bool up = pattern[i * cells / size];
    if (binary) {
      const bool other = learnable_ ? draws.uniform() < kOtherLabel : draws.below(2) == 1;
      *element++ = up != other ? 1.0F : 0.0F;
    } else {
      const double off = draws.uniform() - 0.5;
      *element++ = static_cast<float>(learnable_ ? (up ? 1 : -1) + off : 2 * off);
    }
  }
}

/// What is left of each of its labels.
double ImportedSamples::best_loss_of(const Target& target) const {
  switch (target.kind) {
    case OpKind::kCrossEntropy:
      return learnable_ ? least_noisy_loss(target.below)
                        : std::log(static_cast<double>(target.below));
    case OpKind::kBce: return learnable_ ? least_noisy_loss(2) : std::log(2.0);
    case OpKind::kMse: return learnable_ ? 1.0 / 12 : 1.0 / 3;
    default: bug("a loss without a least value");
  }
}

std::optional<double> ImportedSamples::best_loss() const {
  if (windows_ != nullptr) {
    const Target& only = targets_.begin()->second;
    const auto best = windows_->best_causal_loss(only.elements());
    return best ? std::optional(only.weight * *best) : std::nullopt;
  }
  double all = 0;
  for (const auto& [name, target] : targets_) all += target.weight * best_loss_of(target);
  return all;
}

std::string ImportedSamples::loss_unit() const {
  const Target& first = targets_.begin()->second;
  if (targets_.size() > 1 || first.weight != 1) return "as model.loss weighs it";
  if (first.kind == OpKind::kMse) return "of mean squares";
  if (windows_ != nullptr) return "nats a token";
  return first.elements() == 1 ? "nats a sample" : "nats a label";
}

std::string ImportedSamples::description() const {
  if (windows_ != nullptr) return windows_->description();
  return std::string(learnable_ ? "generated: inputs that show one of "
                                : "synthetic: noise, labels of ") +
         std::to_string(classes_) + " classes";
}

}  // namespace trainyard
