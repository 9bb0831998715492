#include "engine/planner/op_profile.h"

#include <algorithm>

#include "engine/cost/cost_model.h"
#include "engine/graph/count_work.h"

namespace trainyard {

namespace {

class KernelTimes {
 public:
  KernelTimes(const TrainingGraph& training, const HardwareProfile& hardware,
              const SoftwareProfile& software)
      : tensors_(training.graph.tensors),
        hardware_(hardware),
        software_(software) {}

  Seconds operator()(const Instruction& op) {
    flop_ = 0;
    if (op.kind == OpKind::kFree || moves_data(op.kind)) return 0;
    operands(op.reads, reads_);
    operands(op.writes, writes_);
    operands(op.accumulates, accumulates_);
    const KernelWork work = kernel_work(op.kind, op.part, op.attrs, reads_, writes_, accumulates_);
    flop_ = work.flop;
    return kernel_time(work, hardware_, software_, 1, log_);
  }

  /// What the last one did.
  Flop flop() const { return flop_; }

 private:
  template <typename Ids>
  void operands(const Ids& ids, std::vector<OperandShape>& out) const {
    out.clear();
    for (const TensorId id : ids) out.push_back({&tensors_[id].shape, tensors_[id].dtype});
  }

  const Indexed<TensorId, Tensor>& tensors_;
  const HardwareProfile& hardware_;
  const SoftwareProfile& software_;
  SourceLog log_;
  std::vector<OperandShape> reads_, writes_, accumulates_;
  Flop flop_ = 0;
};

/// Adds to the ops behind a tensor's producer, up to its last reader.
void add_crossing(const Graph& graph, Indexed<OpId, OpProfile>& ops) {
  Indexed<TensorId, OpId> last(graph.tensors.size(), OpId(kNoIndex));
  for (const OpId i : graph.ops.keys()) {
    for (const TensorId input : graph.ops[i].inputs) last[input] = i;
  }
  struct Crossing {
    Bytes forward = 0, back = 0;
  };
  Indexed<OpId, Crossing> more(graph.ops.size() + 1, Crossing{});  // than in front of the op before
  for (const TensorId id : graph.tensors.keys()) {
    const Tensor& tensor = graph.tensors[id];
    if (tensor.role != TensorRole::kActivation || tensor.producer == kNoIndex) continue;
    if (last[id] == kNoIndex || last[id] <= tensor.producer) continue;
    const Bytes bytes = num_elements(tensor.shape) * size_in_bytes(tensor.dtype);
    const Bytes back = tensor.needs_gradient ? bytes : 0;
    more[tensor.producer + 1].forward += bytes;
    more[tensor.producer + 1].back += back;
    more[last[id] + 1].forward -= bytes;
    more[last[id] + 1].back -= back;
  }
  Crossing now;
  for (const OpId i : ops.keys()) {
    now.forward += more[i].forward;
    now.back += more[i].back;
    ops[i].crossing = now.forward;
    ops[i].back_crossing = now.back;
  }
}

}  // namespace

Indexed<OpId, OpProfile> profile_ops(const TrainingGraph& training, const HardwareProfile& hardware,
                                     const SoftwareProfile& software) {
  const Graph& graph = training.graph;
  Indexed<OpId, OpProfile> out(graph.ops.size(), OpProfile{});
  KernelTimes time(training, hardware, software);
  for (const Instruction& op : training.forward) {
    if (op.origin == kNoIndex) continue;
    out[op.origin].forward += time(op);
    out[op.origin].flop += time.flop();
  }
  for (const Instruction& op : training.backward) {
    if (op.origin != kNoIndex) out[op.origin].backward += time(op);
  }
  Indexed<TensorId, bool> counted(graph.tensors.size(), false);
  for (const OpId i : graph.ops.keys()) {
    for (const TensorId input : graph.ops[i].inputs) {
      if (graph.tensors[input].role != TensorRole::kParameter || counted[input]) continue;
      counted[input] = true;
      out[i].parameters += static_cast<double>(num_elements(graph.tensors[input].shape));
    }
  }
  add_crossing(graph, out);
  return out;
}

}  // namespace trainyard
