#include "real/data/imported_samples.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "engine/base/error.h"
#include "engine/base/indexed.h"
#include "engine/base/user_text.h"
#include "engine/plan/microbatch_sizes.h"
#include "models/model.h"
#include "models/onnx/onnx_graph.h"
#include "real/data/draws.h"
#include "real/data/noisy_labels.h"
#include "study/study_origin.h"

namespace trainyard {

namespace {

constexpr std::int64_t kMostCells = 48;         // of a pattern
constexpr std::int64_t kUnlabelledClasses = 8;  // where the loss has none
constexpr std::uint32_t kTargets = 0;           // their patterns' number; inputs count from 1

std::int64_t per_sample(const Shape& shape) {
  return num_elements(shape) / std::max<std::int64_t>(1, shape[0]);
}

/// Rows of the smallest table that the tensor, or a view of it, is looked up in; 0: of none.
std::int64_t rows_looked_up(const Graph& graph, TensorId input) {
  std::set<TensorId> same{input};
  std::int64_t rows = 0;
  for (const Op& op : graph.ops) {
    const auto reads = std::find_if(op.inputs.begin(), op.inputs.end(),
                                    [&](TensorId id) { return same.contains(id); });
    if (reads == op.inputs.end()) continue;
    if (op.kind == OpKind::kEmbedding) {
      for (const TensorId id : op.inputs) {
        const Tensor& table = graph.tensors[id];
        if (table.role != TensorRole::kParameter) continue;
        rows = rows == 0 ? table.shape[0] : std::min(rows, table.shape[0]);
      }
    } else if (is_integer(graph.tensors[op.outputs[0]].dtype)) {
      same.insert(op.outputs[0]);
    }
  }
  return rows;
}

bool has_word(std::string_view name, std::string_view word) {
  return name.find(word) != std::string_view::npos;
}

}  // namespace

ImportedSamples::ImportedSamples(const Study& study)
    : seed_(study.training.seed),
      learnable_(study.data.path != "synthetic"),
      loss_(study.model.loss) {
  const auto sizes = local_sizes(study.training, study.parallel);
  read_graph(study, build_model(study.model, {.microbatch = sizes[0]}));
}

void ImportedSamples::read_graph(const Study& study, const Graph& graph) {
  const Op& loss = graph.ops.back();
  const Shape& logits = graph.tensors[loss.inputs[0]].shape;
  const TensorId labels = loss.inputs[1];
  labels_ = per_sample(graph.tensors[labels].shape);
  classes_ = loss_ == ImportedLoss::kCrossEntropy ? logits.back() : kUnlabelledClasses;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const TensorId id(i);
    const Tensor& tensor = graph.tensors[id];
    if (tensor.role != TensorRole::kInput || id == labels || graph.constants.contains(tensor.name))
      continue;
    Input input = input_of(study, graph, id);
    input.number = static_cast<std::uint32_t>(inputs_.size()) + 1;
    inputs_.emplace(tensor.name, input);
  }
  find_text(study, logits);
  if (windows_ != nullptr) return;
  if (learnable_ && study.data.path != "generated")
    fail_at(study, "data.path",
            quoted(study.data.path) +
                ": only a model that predicts tokens is trained on a file; expected generated or "
                "synthetic");
  if (learnable_) check_classes(study);
}

ImportedSamples::Input ImportedSamples::input_of(const Study& study, const Graph& graph,
                                                 TensorId id) const {
  const Tensor& tensor = graph.tensors[id];
  Input input;
  input.elements = per_sample(tensor.shape);
  if (tensor.name == "ones" || tensor.dtype == DType::kUint8 || is_mask(tensor.name)) {
    input.kind = Input::Kind::kOnes;
  } else if (has_word(tensor.name, "position")) {
    input.kind = Input::Kind::kPositions;
  } else if (has_word(tensor.name, "token_type")) {
    input.kind = Input::Kind::kZeros;
  } else if (!is_integer(tensor.dtype)) {
    input.kind = Input::Kind::kNumbers;
  } else {
    input.kind = Input::Kind::kIds;
    input.rows = rows_looked_up(graph, id);
    if (input.rows == 0)
      fail_at(study, "model.onnx",
              "input " + quoted(tensor.name) +
                  " is of integers and looked up in no table: nothing says which they may be");
  }
  return input;
}

void ImportedSamples::find_text(const Study& study, const Shape& logits) {
  if (loss_ != ImportedLoss::kCrossEntropy || labels_ < 2) return;
  for (const auto& [name, input] : inputs_) {
    if (input.kind != Input::Kind::kIds || input.elements != labels_) continue;
    if (input.rows > classes_ || logits.size() < 3) continue;
    windows_ = make_token_windows(study, input.rows, {.length = labels_ + 1, .stride = labels_});
    text_ = name;
    return;
  }
}

void ImportedSamples::check_classes(const Study& study) const {
  if (classes_ < 2) fail_at(study, "model.loss", "a cross entropy has at least 2 logits");
  bool told = false;
  for (const auto& [name, input] : inputs_) {
    if (input.kind == Input::Kind::kIds) told |= input.rows >= classes_;
    if (input.kind != Input::Kind::kNumbers) continue;
    std::set<std::vector<bool>> patterns;
    for (std::int64_t of_class = 0; of_class < classes_; ++of_class) {
      std::vector<bool> pattern;
      for (std::int64_t cell = 0; cell < std::min(input.elements, kMostCells); ++cell)
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
  const bool shows = learnable_ && of.rows >= classes_;
  for (std::int64_t& id : out) {
    if (!shows) {
      id = draws.below(of.rows);
      continue;
    }
    const std::int64_t like = shown(index);
    id = like + classes_ * draws.below((of.rows - like - 1) / classes_ + 1);
  }
}

void ImportedSamples::fill_labels(std::int64_t index, std::span<std::int64_t> out) const {
  if (windows_ != nullptr) {
    std::vector<std::int64_t> window(out.size() + 1);
    windows_->read(index, window);
    std::copy(window.begin() + 1, window.end(), out.begin());
    return;
  }
  Draws draws(seed_, DrawPurpose::kLabels, index);
  for (std::int64_t& label : out) {
    label = learnable_ ? noisy_label(shown(index), classes_, draws) : draws.below(classes_);
  }
}

void ImportedSamples::fill(std::string_view name, std::int64_t index,
                           std::span<std::int64_t> out) const {
  if (name == "labels") return fill_labels(index, out);
  if (name == text_) return windows_->read(index, out);
  const Input& of = input(name);
  switch (of.kind) {
    case Input::Kind::kOnes: return std::fill(out.begin(), out.end(), 1);
    case Input::Kind::kZeros: return std::fill(out.begin(), out.end(), 0);
    case Input::Kind::kPositions: return std::iota(out.begin(), out.end(), std::int64_t{0});
    case Input::Kind::kIds: return fill_tokens(of, index, out);
    case Input::Kind::kNumbers: break;
  }
  bug("an input of real numbers is filled with them");
}

void ImportedSamples::fill_numbers(std::string_view name, std::int64_t index,
                                   std::span<float> out) const {
  const bool targets = name == "labels";
  switch (targets ? Input::Kind::kNumbers : input(name).kind) {
    case Input::Kind::kOnes: return std::fill(out.begin(), out.end(), 1.0F);
    case Input::Kind::kZeros: return std::fill(out.begin(), out.end(), 0.0F);
    case Input::Kind::kPositions: return std::iota(out.begin(), out.end(), 0.0F);
    case Input::Kind::kNumbers:
    case Input::Kind::kIds: break;
  }
  const std::uint32_t number = targets ? kTargets : input(name).number;
  Draws draws(seed_, targets ? DrawPurpose::kLabels : DrawPurpose::kImages, index * 64 + number);
  const std::int64_t of_class = shown(index);
  const auto size = static_cast<std::int64_t>(out.size());
  const std::int64_t cells = std::min(size, kMostCells);
  Numbered<bool> pattern;
  for (std::int64_t cell = 0; cell < cells; ++cell)
    pattern.push_back(is_up(number, of_class, cell));
  const bool binary = targets && loss_ == ImportedLoss::kBinaryCrossEntropy;
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

std::optional<double> ImportedSamples::best_loss() const {
  if (windows_ != nullptr) return windows_->best_causal_loss(labels_);
  switch (loss_) {
    case ImportedLoss::kCrossEntropy:
      return learnable_ ? least_noisy_loss(classes_) : std::log(static_cast<double>(classes_));
    case ImportedLoss::kBinaryCrossEntropy: return learnable_ ? least_noisy_loss(2) : std::log(2.0);
    case ImportedLoss::kMeanSquare: return learnable_ ? 1.0 / 12 : 1.0 / 3;
  }
  bug("a loss without a least value");
}

std::string ImportedSamples::description() const {
  if (windows_ != nullptr) return windows_->description();
  return std::string(learnable_ ? "generated: inputs that show one of "
                                : "synthetic: noise, labels of ") +
         std::to_string(classes_) + " classes";
}

}  // namespace trainyard
