#include "real/data/caption_samples.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "engine/base/error.h"
#include "study/study_origin.h"

namespace trainyard {

namespace {

constexpr std::int64_t kMostClasses = 64;

/// Inputs that follow from a sample's place.
constexpr std::array<std::string_view, 2> kOfPlace = {"labels", "class_tokens"};

}  // namespace

CaptionSamples::CaptionSamples(const Study& study)
    : seed_(study.training.seed),
      vocab_(study.model.vocab),
      group_(study.model.contrast),
      classes_(std::min(kMostClasses, (study.model.vocab - 1) / 2)),
      learnable_(study.data.path == "generated"),
      patterns_(study.model.channels, study.model.image_size) {
  if (!learnable_) return;
  if (classes_ < 2)
    fail_at(study, "model.vocab",
            "2 names of classes, 2 other words and the end of a text are 5 ids, got " +
                std::to_string(vocab_));
  if (study.model.seq_len < 2)
    fail_at(study, "model.seq_len",
            "a text names a class before it ends; expected at least 2 tokens, got " +
                std::to_string(study.model.seq_len));
  if (!patterns_.draw(classes_))
    fail_at(study, "model.image_size",
            std::to_string(classes_) +
                " classes have not all a pattern of their own in images of " + patterns_.cells());
}

std::int64_t CaptionSamples::shown(std::int64_t index) const {
  return Draws(seed_, DrawPurpose::kClasses, index).below(classes_);
}

void CaptionSamples::write_text(std::int64_t index, std::span<std::int64_t> out) const {
  Draws draws(seed_, DrawPurpose::kCaptions, index);
  const std::int64_t end = vocab_ - 1, first = learnable_ ? classes_ : 0;
  for (std::int64_t& token : out) token = first + draws.below(end - first);
  out.back() = end;
  if (learnable_) out.begin()[draws.below(std::ssize(out) - 1)] = shown(index);
}

void CaptionSamples::fill(std::string_view name, std::int64_t index,
                          std::span<std::int64_t> out) const {
  if (name == "tokens") return write_text(index, out);
  if (name == "positions" || name == "image_positions" || name == "class_tokens")
    return std::iota(out.begin(), out.end(), std::int64_t{0});
  if (name != "labels") bug("a model of images and texts has no input " + std::string(name));
  std::fill(out.begin(), out.end(), index % group_);
}

void CaptionSamples::fill_numbers(std::string_view name, std::int64_t index,
                                  std::span<float> out) const {
  if (name != "images") bug("a model of images and texts has no input " + std::string(name));
  Draws draws(seed_, DrawPurpose::kImages, index);
  if (learnable_) return patterns_.fill(shown(index), draws, out);
  for (float& element : out) element = static_cast<float>(2 * draws.uniform() - 1);
}

std::optional<double> CaptionSamples::best_loss() const {
  const auto others = static_cast<double>(group_ - 1);
  if (!learnable_) return std::log(1 + others);
  const double alike = 1 / static_cast<double>(classes_);
  double loss = 0, chance = std::pow(1 - alike, others);  // of n others of the same class
  for (double n = 0; n <= others; ++n) {
    loss += chance * std::log(1 + n);
    chance *= (others - n) / (n + 1) * alike / (1 - alike);
  }
  return loss;
}

std::string CaptionSamples::description() const {
  const std::string what = learnable_
                               ? "generated: texts that name one of " + std::to_string(classes_) +
                                     " classes, and images that show it"
                               : "synthetic: noise, and uniform texts";
  return what + ", in groups of " + std::to_string(group_);
}

CaptionFiles::CaptionFiles(const Study& study, const Graph& graph)
    : files_(study, graph, kOfPlace),
      group_(study.model.contrast),
      in_epoch_(files_.size()) {
  if (in_epoch_ < group_)
    fail_at(study, "data.path",
            std::to_string(in_epoch_) + " pairs are fewer than the " + std::to_string(group_) +
                " of a group (model.contrast), in which none may be twice; expected more pairs, or "
                "a smaller model.contrast");
  if (study.data.shuffle) in_epoch_ -= in_epoch_ % group_;
}

std::int64_t CaptionFiles::of_files(std::int64_t index) const {
  return index / in_epoch_ * files_.size() + index % in_epoch_;
}

void CaptionFiles::fill(std::string_view name, std::int64_t index,
                        std::span<std::int64_t> out) const {
  if (std::find(kOfPlace.begin(), kOfPlace.end(), name) == kOfPlace.end())
    return files_.fill(name, of_files(index), out);
  std::fill(out.begin(), out.end(), name == "labels" ? index % group_ : 0);
}

void CaptionFiles::fill_numbers(std::string_view name, std::int64_t index,
                                std::span<float> out) const {
  files_.fill_numbers(name, of_files(index), out);
}

void CaptionFiles::fill_doubles(std::string_view name, std::int64_t index,
                                std::span<double> out) const {
  files_.fill_doubles(name, of_files(index), out);
}

std::string CaptionFiles::description() const {
  const std::int64_t left_out = files_.size() - in_epoch_;
  return files_.description() + ", in groups of " + std::to_string(group_) +
         (left_out > 0 ? ", " + std::to_string(left_out) + " left out of each epoch" : "");
}

}  // namespace trainyard
