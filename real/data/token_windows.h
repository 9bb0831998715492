// Windows of raw tokens: the part of a sample that does not depend on the model, before anything is
// masked or shifted.
//
// Every window is a pure function of (study, index). The index is the sample's place in the whole
// training, step * global_batch + place in the batch, so that resuming a run needs nothing but the
// number of the step, and how a batch is divided over ranks cannot change what is in it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "engine/data/window_shape.h"
#include "study/study.h"

namespace trainyard {

class TokenWindows {
 public:
  virtual ~TokenWindows() = default;

  /// The first out.size() tokens of window `index` >= 0; may be called from several threads at
  /// once.
  virtual void read(std::int64_t index, std::span<std::int64_t> out) const = 0;

  /// The same of some other window, drawn from all others and unrelated to window `index`.
  virtual void read_other(std::int64_t index, std::span<std::int64_t> out) const = 0;

  virtual std::int64_t num_symbols() const = 0;  // tokens lie in [0, num_symbols())

  /// Whether tokens are independent and uniform over [0, num_symbols()).
  virtual bool is_uniform() const { return false; }

  /// Least mean loss, in nats, of predicting tokens 1 .. seq_len of a window, each from those
  /// before it in the window, where known.
  virtual std::optional<double> best_causal_loss(std::int64_t seq_len) const = 0;

  virtual std::string description() const = 0;
};

/// The windows that study.data asks for, of tokens in [0, num_ids). Throws ConfigError where the
/// file cannot be used or num_ids is too small.
std::unique_ptr<TokenWindows> make_token_windows(const Study& study, std::int64_t num_ids,
                                                 const WindowShape& shape);

}  // namespace trainyard
