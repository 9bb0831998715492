// What the `load` ops of a Program get: the inputs of one sample of the global batch, each by the
// name that the model gives it (models/README.md lists them).
//
// [Note: samples have numbers, not state] Sample `index` of a training is number
//     index = step * global_batch + place in the global batch,
// and all of it (window of the text, shuffling, masks, spans) is a pure function of the study and
// this index. A run therefore resumes in the middle of an epoch by knowing its step, and any
// division of the batch over ranks and microbatches trains on the same samples.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "study/study.h"

namespace trainyard {

inline constexpr std::int64_t kNotPredicted = -100;  // in labels; of no effect on the loss

class Samples {
 public:
  virtual ~Samples() = default;

  /// Writes one input of sample `index` >= 0 to `out`, whose size is the input's length per sample
  /// (seq_len; decoder_seq_len; 1 for next_sentence_labels). Labels are kNotPredicted where nothing
  /// is predicted. May be called from several threads at once. Throws ConfigError where a file
  /// holds an id or a class that the model has no room for.
  virtual void fill(std::string_view name, std::int64_t index,
                    std::span<std::int64_t> out) const = 0;

  /// The same of an input of real numbers.
  virtual void fill_numbers(std::string_view name, std::int64_t index, std::span<float> out) const;

  /// The same for a model in fp64: what files hold in fp64 is not rounded.
  virtual void fill_doubles(std::string_view name, std::int64_t index, std::span<double> out) const;

  /// Labels other than kNotPredicted of a sample, where all have as many (packed documents: the
  /// most). The loss of BERT's next-sentence head has a divisor of its own, 1 per
  /// sample.
  virtual std::int64_t predicted_per_sample() const = 0;

  /// Those of `samples` samples from `first` on: what their loss is divided by.
  virtual std::int64_t num_predicted(std::int64_t /*first*/, std::int64_t samples) const {
    return samples * predicted_per_sample();
  }

  /// The lowest loss that any model can reach on average, nats per predicted token, where known;
  /// with BERT's next-sentence head, of the sum of both losses.
  virtual std::optional<double> best_loss() const = 0;

  /// What its number is, for a message behind it.
  virtual std::string loss_unit() const { return "nats a sample"; }

  /// One line that names the data.
  virtual std::string description() const = 0;
};

/// The samples that study.data and study.model ask for. Throws ConfigError at the study's line
/// where a file cannot be used, or the vocabulary or the sequence length is too small.
std::unique_ptr<Samples> make_samples(const Study& study);

}  // namespace trainyard
