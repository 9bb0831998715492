// The backward of attention that meets keys and values block by block, round a ring of ranks.
//
// The blocks of a ring make one softmax, so each one's backward reads what the last of them made,
// and the gradient of that. Only the first and the last block's keys and values are kept: those in
// between come back the way they went, while the block behind them is under way. Their gradients
// follow, each adding to the next, until they are where they belong.
#pragma once

#include <unordered_map>
#include <utility>

#include "engine/passes/backward_draft.h"

namespace trainyard {

class BlockGradients {
 public:
  explicit BlockGradients(BackwardDraft& draft) : draft_(draft) {}

  void attend(OpId block);
  /// `dy`: the gradient of the keys and values that arrived.
  void shift(OpId shift, TensorId dy);

 private:
  /// The shift that brought the keys; kNoIndex: they are the rank's own, or all there are.
  OpId shift_of(TensorId keys);
  TensorId shift_back(OpId shift, TensorId from, TensorId to);

  BackwardDraft& draft_;
  std::unordered_map<int, std::pair<TensorId, TensorId>> whole_;  // by what a block made: (o, lse)
  std::unordered_map<int, TensorId> again_;                       // by keys: those that came back
};

}  // namespace trainyard
