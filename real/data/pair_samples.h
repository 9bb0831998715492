// Samples of a family that says whether a user takes an item.
//
// `data: {path: generated}`: users and items are of one of K = 4 kinds, their number modulo K, and
// a user takes what is of the same kind. Users are drawn uniformly; an item is of the user's kind
// with probability 1/2, else of any other, uniformly, and uniform over those of its kind. The label
// is right with probability 1 - e, e = 0.1. Hence, exactly,
//     best loss = -(1 - e) ln(1 - e) - e ln(e) nats.
// `synthetic`: users, items and labels by chance: the best loss is ln 2.
#pragma once

#include "real/data/samples.h"

namespace trainyard {

class PairSamples final : public Samples {
 public:
  /// Throws ConfigError where there are too few users or items for all kinds.
  explicit PairSamples(const Study& study);

  void fill(std::string_view name, std::int64_t index, std::span<std::int64_t> out) const override;
  void fill_numbers(std::string_view name, std::int64_t index, std::span<float> out) const override;
  std::int64_t predicted_per_sample() const override { return 1; }
  std::optional<double> best_loss() const override;
  std::string description() const override;

 private:
  struct Pair {
    std::int64_t user, item;
    bool label;
  };
  Pair pair(std::int64_t index) const;

  std::int64_t seed_;
  std::int64_t users_;
  std::int64_t items_;
  bool learnable_;  // generated, not synthetic
};

}  // namespace trainyard
