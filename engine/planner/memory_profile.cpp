#include "engine/planner/memory_profile.h"

#include <algorithm>
#include <map>
#include <vector>

#include "engine/graph/tensor_storage.h"

namespace trainyard {

namespace {

class Profiler {
 public:
  explicit Profiler(const TrainingGraph& training)
      : graph_(training.graph),
        uses_(graph_.tensors.size(), Uses{}) {
    for (const Instruction& op : training.forward) order_.push_back({&op, false});
    for (const Instruction& op : training.backward) order_.push_back({&op, true});
    profile_.ops.resize(graph_.ops.size());
  }

  MemoryProfile run() {
    find_uses();
    for (const TensorId id : graph_.tensors.keys()) {
      if (counts(id)) add_made(id);
    }
    for (const Step& step : order_) {
      if (step.backward) add_saved(*step.op);
    }
    find_peak();
    return std::move(profile_);
  }

 private:
  struct Step {
    const Instruction* op;
    bool backward;
  };
  /// Where a storage is touched: numbers of order_.
  struct Uses {
    std::int32_t first = -1, last = -1;
    bool read = false;           // by another op than the one that makes it
    bool read_backward = false;  // by a backward instruction
  };

  TensorId root(TensorId id) const { return storage_of(graph_, id); }
  /// Whether a tensor is a storage that a microbatch takes.
  bool counts(TensorId id) const {
    const Tensor& tensor = graph_.tensors[id];
    return tensor.alias == kNoIndex && tensor.role == TensorRole::kActivation && !tensor.on_host &&
           uses_[id].first >= 0;
  }
  Bytes bytes(TensorId id) const {
    const Tensor& tensor = graph_.tensors[id];
    return num_elements(tensor.shape) * size_in_bytes(tensor.dtype);
  }

  void find_uses() {
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const Instruction& op = *order_[i].op;
      const auto touch = [&](TensorId tensor, bool reads) {
        Uses& uses = uses_[root(tensor)];
        if (uses.first < 0) uses.first = static_cast<std::int32_t>(i);
        uses.last = static_cast<std::int32_t>(i);
        if (!reads) return;
        const Step& maker = order_[uses.first];
        uses.read =
            uses.read || order_[i].backward != maker.backward || op.origin != maker.op->origin;
        uses.read_backward = uses.read_backward || order_[i].backward;
      };
      for (const TensorId read : op.reads) touch(read, true);
      for (const TensorId write : op.writes) touch(write, false);
    }
    // The loss is the step's answer.
    Uses& loss = uses_[root(graph_.loss)];
    loss.last = static_cast<std::int32_t>(order_.size()) - 1;
    loss.read = true;
  }

  void add_made(TensorId id) {
    const Uses& uses = uses_[id];
    const Step& maker = order_[uses.first];
    if (!maker.backward && uses.read_backward) profile_.kept += bytes(id);
    if (maker.op->origin == kNoIndex) return;
    OpMemory& memory = profile_.ops[maker.op->origin];
    if (maker.backward) {
      (uses.read ? memory.bwd_out : memory.bwd_tmp) += bytes(id);
      return;
    }
    (uses.read ? memory.fwd_out : memory.fwd_tmp) += bytes(id);
    if (uses.read_backward) memory.fwd_kept += bytes(id);
  }

  /// What a backward instruction reads of what its op read forward; several read it for one op.
  void add_saved(const Instruction& backward) {
    if (backward.origin == kNoIndex) return;
    const Op& op = graph_.ops[backward.origin];
    std::vector<TensorId>& seen = saved_of_[backward.origin];
    for (const TensorId input : op.inputs) {
      if (graph_.tensors[input].role == TensorRole::kParameter) continue;
      const TensorId storage = root(input);
      const bool reads = std::any_of(backward.reads.begin(), backward.reads.end(),
                                     [&](TensorId read) { return root(read) == storage; });
      if (!reads || std::find(seen.begin(), seen.end(), storage) != seen.end()) continue;
      seen.push_back(storage);
      profile_.ops[backward.origin].fwd_in += bytes(input);
    }
  }

  void find_peak() {
    std::vector<Bytes> taken(order_.size() + 1, 0);
    for (const TensorId id : graph_.tensors.keys()) {
      if (!counts(id)) continue;
      taken[uses_[id].first] += bytes(id);
      taken[uses_[id].last + 1] -= bytes(id);
    }
    Bytes now = 0;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      now += taken[i];
      if (now <= profile_.peak) continue;
      profile_.peak = now;
      profile_.peak_op = order_[i].op->origin;
      profile_.peak_backward = order_[i].backward;
    }
  }

  const Graph& graph_;
  std::vector<Step> order_;
  Indexed<TensorId, Uses> uses_;
  std::map<OpId, std::vector<TensorId>> saved_of_;
  MemoryProfile profile_;
};

}  // namespace

MemoryProfile profile_memory(const TrainingGraph& training) { return Profiler(training).run(); }

}  // namespace trainyard
