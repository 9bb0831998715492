#include "engine/planner/op_profile.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/cost/cost_model.h"
#include "engine/graph/count_work.h"

namespace trainyard {

namespace {

/// What kernels do, of one instruction after another.
class KernelWorks {
 public:
  explicit KernelWorks(const TrainingGraph& training) : tensors_(training.graph.tensors) {}

  /// Nothing of what takes a device no kernel: frees, and what moves data.
  KernelWork operator()(const Instruction& op) {
    if (op.kind == OpKind::kFree || moves_data(op.kind)) return {};
    operands(op.reads, reads_);
    operands(op.writes, writes_);
    operands(op.accumulates, accumulates_);
    return kernel_work(op.kind, op.part, op.attrs, reads_, writes_, accumulates_);
  }

 private:
  template <typename Ids>
  void operands(const Ids& ids, std::vector<OperandShape>& out) const {
    out.clear();
    for (const TensorId id : ids) out.push_back({&tensors_[id].shape, tensors_[id].dtype});
  }

  const Indexed<TensorId, Tensor>& tensors_;
  std::vector<OperandShape> reads_, writes_, accumulates_;
};

class KernelTimes {
 public:
  KernelTimes(const TrainingGraph& training, const HardwareProfile& hardware,
              const SoftwareProfile& software, const OpTimes* measured)
      : training_(training),
        works_(training),
        hardware_(hardware),
        software_(software),
        measured_(measured) {}

  Seconds operator()(const Instruction& op) {
    const KernelWork work = works_(op);
    flop_ = work.flop;
    if (work.cls == KernelClass::kNone) return 0;
    if (measured_ == nullptr) return kernel_time(work, hardware_, software_, 1, log_);
    const auto time = measured_->find(kernel_text(training_, op));
    check(time.has_value(), "the times are those of the graph's kernels");
    return *time;
  }

  /// What the last one did.
  Flop flop() const { return flop_; }

 private:
  const TrainingGraph& training_;
  KernelWorks works_;
  const HardwareProfile& hardware_;
  const SoftwareProfile& software_;
  const OpTimes* measured_;
  SourceLog log_;
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

std::optional<std::string> find_untimed(const TrainingGraph& training, const OpTimes& times) {
  KernelWorks works(training);
  for (const std::vector<Instruction>* list : {&training.forward, &training.backward}) {
    for (const Instruction& op : *list) {
      if (op.origin == kNoIndex || works(op).cls == KernelClass::kNone) continue;
      std::string kernel = kernel_text(training, op);
      if (!times.find(kernel)) return kernel;
    }
  }
  return std::nullopt;
}

Indexed<OpId, OpProfile> profile_ops(const TrainingGraph& training, const HardwareProfile& hardware,
                                     const SoftwareProfile& software, const OpTimes* measured) {
  const Graph& graph = training.graph;
  Indexed<OpId, OpProfile> out(graph.ops.size(), OpProfile{});
  KernelTimes time(training, hardware, software, measured);
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
