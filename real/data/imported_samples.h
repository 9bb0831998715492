// Samples of an imported model (family onnx): whatever its graph reads, and labels for its loss.
//
// A model that reads tokens of one length and has a row of logits for each of them predicts the
// next token: its text is that of data.path, as for GPT. Any other reads a generated set of our own
// making, in which every input of a sample shows the same class of K:
//   real numbers  the class's pattern of 1 and -1 over at most 48 cells of equal length, every
//                 element off by at most a half, uniformly: signs alone tell the pattern
//   indices       ids that are the class modulo K, uniformly, where a table has that many rows
//   masks         ones, as conditions are;  positions: 0, 1, ...;  token types: zeros
// K is the number of logits, the largest where several losses have some, or 8 where none has.
// Labels, and what a perfect model then reaches, e = 0.1, of several losses their sum, as each
// weighs:
//   cross_entropy         of C classes, each the class modulo C, with probability e another one,
//   uniformly:
//                         -(1 - e) ln(1 - e) - e ln(e / (C - 1)) nats
//   binary_cross_entropy  another pattern of the class, of 0 and 1, each flipped with
//                         probability e: -(1 - e) ln(1 - e) - e ln(e) nats
//   mean_square           another pattern of 1 and -1, each off by at most a half: 1/12
// `synthetic`: inputs and labels by chance, of the same ranges.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "real/data/sample_inputs.h"
#include "real/data/samples.h"
#include "real/data/token_windows.h"

namespace trainyard {

class ImportedSamples final : public Samples {
 public:
  /// `graph`: of the study's model. Throws ConfigError where data.path is a file and the model does
  /// not predict tokens, or inputs are too small to tell the classes apart.
  ImportedSamples(const Study& study, const Graph& graph);

  void fill(std::string_view name, std::int64_t index, std::span<std::int64_t> out) const override;
  void fill_numbers(std::string_view name, std::int64_t index, std::span<float> out) const override;
  std::int64_t predicted_per_sample() const override;
  std::optional<double> best_loss() const override;
  std::string loss_unit() const override;
  std::string description() const override;

 private:
  struct Input : SampleInput {
    std::uint32_t number = 0;  // tells inputs apart where they are drawn
  };
  /// What a loss compares with.
  struct Target : Input {
    OpKind kind = OpKind::kCrossEntropy;
    double weight = 1;
  };

  void read_inputs(const Study& study, const Graph& graph);
  void check_classes(const Study& study) const;
  std::int64_t shown(std::int64_t index) const;
  bool is_up(std::uint32_t number, std::int64_t of_class, std::int64_t cell) const;
  const Input& input(std::string_view name) const;
  void fill_tokens(const Input& input, std::int64_t index, std::span<std::int64_t> out) const;
  void fill_labels(const Target& target, std::int64_t index, std::span<std::int64_t> out) const;
  double best_loss_of(const Target& target) const;

  std::int64_t seed_;
  bool learnable_;            // generated, not synthetic
  std::int64_t classes_ = 0;  // that inputs show
  std::map<std::string, Input, std::less<>> inputs_;
  std::map<std::string, Target, std::less<>> targets_;
  std::unique_ptr<TokenWindows> windows_;  // where it predicts tokens
  std::string text_;                       // the name of their input then
};

/// The input with the tokens of a model that predicts the next one, which has a row of logits for
/// each; empty: `graph` is of no such model.
std::string text_input(const Graph& graph);

}  // namespace trainyard
