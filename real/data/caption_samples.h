// Samples of families that tell which text belongs to which image.
//
// `data: {path: generated}`: an image shows the pattern of one of K classes, drawn uniformly
// (image_patterns.h), and its text names it. Of a vocabulary of V ids the last ends a text, the
// first K = min(64, (V - 1) / 2) name classes, the others say nothing: of the S - 1 tokens before
// the end one, by chance, is the class's name, the others are drawn uniformly of those. Within a
// group of g samples nothing tells those of one class apart, and how many others have the class of
// a given sample is binomial. Hence, exactly,
//     best loss = sum_n C(g - 1, n) (1 / K)^n (1 - 1 / K)^(g - 1 - n) ln(1 + n) nats.
// `synthetic`: noise, and tokens by chance before the end: the best loss is ln g.
//
// Of files: `images` and `tokens` of each pair, as tensor_samples.h has them. A text is read at its
// last token. No group has a pair twice: of N shuffled pairs each epoch has as many as make whole
// groups, and leaves out others each time; in order groups go on across the end.
//
// Labels are each sample's place in its group: samples of a microbatch have numbers in a row, of
// which the first is a multiple of g.
#pragma once

#include "real/data/image_patterns.h"
#include "real/data/samples.h"
#include "real/data/tensor_samples.h"

namespace trainyard {

class CaptionSamples final : public Samples {
 public:
  /// Throws ConfigError where images or texts are too small to tell the classes apart.
  explicit CaptionSamples(const Study& study);

  void fill(std::string_view name, std::int64_t index, std::span<std::int64_t> out) const override;
  void fill_numbers(std::string_view name, std::int64_t index, std::span<float> out) const override;
  std::int64_t predicted_per_sample() const override { return 2; }  // a text and an image
  std::optional<double> best_loss() const override;
  std::string description() const override;

 private:
  std::int64_t shown(std::int64_t index) const;
  void write_text(std::int64_t index, std::span<std::int64_t> out) const;

  std::int64_t seed_;
  std::int64_t vocab_;
  std::int64_t group_;    // g
  std::int64_t classes_;  // K
  bool learnable_;        // generated, not synthetic
  ImagePatterns patterns_;
};

/// Pairs from files.
class CaptionFiles final : public Samples {
 public:
  /// Throws ConfigError at data.path where the files have fewer pairs than a group, too.
  CaptionFiles(const Study& study, const Graph& graph);

  void fill(std::string_view name, std::int64_t index, std::span<std::int64_t> out) const override;
  void fill_numbers(std::string_view name, std::int64_t index, std::span<float> out) const override;
  void fill_doubles(std::string_view name, std::int64_t index,
                    std::span<double> out) const override;
  std::int64_t predicted_per_sample() const override { return 2; }  // a text and an image
  std::optional<double> best_loss() const override { return std::nullopt; }
  std::string description() const override;

 private:
  /// Which sample of the files it is.
  std::int64_t of_files(std::int64_t index) const;

  TensorSamples files_;
  std::int64_t group_;
  std::int64_t in_epoch_;  // pairs
};

}  // namespace trainyard
