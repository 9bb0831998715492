#include "engine/passes/training_graph.h"

#include <algorithm>
#include <array>
#include <vector>

namespace trainyard {

namespace {

/// One instruction after the other: forward, what is loaded from the host, backward.
class TrainingCheck {
 public:
  explicit TrainingCheck(const TrainingGraph& training)
      : training_(training),
        tensors_(training.graph.tensors),
        written_(tensors_.size(), Written::kNever) {}

  std::string run() {
    if (training_.parameter_gradient.size() != training_.graph.parameters.size())
      return "not every parameter says its gradient";
    for (const auto* list : lists()) {
      for (const Instruction& op : *list) {
        if (std::string problem = id_problem(op); !problem.empty())
          return place(*list, op) + problem;
        for (const TensorId write : op.writes) written_[write] = Written::kLater;
      }
    }
    for (const auto* list : lists()) {
      for (const Instruction& op : *list) {
        if (std::string problem = order_problem(op); !problem.empty())
          return place(*list, op) + problem;
      }
    }
    return {};
  }

 private:
  enum class Written : std::uint8_t { kNever, kLater, kByInput, kByWeight };

  /// Over the microbatches of a step, or from step to step.
  static bool adds_up(TensorRole role) {
    return role == TensorRole::kParameterGradient || role == TensorRole::kOfStep ||
           role == TensorRole::kKept;
  }

  const Tensor& tensor(TensorId id) const { return tensors_[id]; }
  std::array<const std::vector<Instruction>*, 5> lists() const {
    return {&training_.before_step, &training_.forward, &training_.loads, &training_.backward,
            &training_.behind_step};
  }

  std::string place(const std::vector<Instruction>& list, const Instruction& op) const {
    const std::array<const char*, 5> names = {"before-step", "forward", "loads", "backward",
                                              "behind-step"};
    const auto all = lists();
    const std::string name = names[std::find(all.begin(), all.end(), &list) - all.begin()];
    return name + " instruction " + std::to_string(&op - list.data()) + " " +
           op_name(op.kind, op.part) + ": ";
  }

  std::string id_problem(const Instruction& op) const {
    if (!training_.graph.modules.has(op.module)) return "no module";
    if (op.stage < 0 || op.stage >= training_.num_stages)
      return "no stage " + std::to_string(op.stage);
    for (const TensorId id : op.reads) {
      if (!tensors_.has(id)) return "reads no tensor";
    }
    for (const TensorId id : op.writes) {
      if (!tensors_.has(id)) return "writes no tensor";
      if (tensor(id).role == TensorRole::kParameter)
        return "writes parameter '" + tensor(id).name + "'";
    }
    for (const TensorId id : op.accumulates) {
      if (!tensors_.has(id) || !adds_up(tensor(id).role))
        return "adds to what is no parameter's gradient";
    }
    return {};
  }

  /// What has to be written before `id` is read: itself, or the storage that it is a view of.
  TensorId anchor(TensorId id) const {
    while (written_[id] == Written::kNever && tensor(id).alias != kNoIndex) id = tensor(id).alias;
    return id;
  }

  std::string order_problem(const Instruction& op) {
    for (const TensorId read : op.reads) {
      const TensorId id = anchor(read);
      if (tensor(id).role != TensorRole::kActivation) continue;
      const Written written = written_[id];
      if (written == Written::kNever || written == Written::kLater)
        return "reads '" + tensor(read).name + "' before it is written";
      if (written == Written::kByWeight && !op.weight_half)
        return "waits for '" + tensor(read).name + "', which the half that nobody waits for writes";
    }
    for (const TensorId write : op.writes) {
      Written& written = written_[write];
      if (written != Written::kLater) return "writes '" + tensor(write).name + "' a second time";
      written = op.weight_half ? Written::kByWeight : Written::kByInput;
    }
    return {};
  }

  const TrainingGraph& training_;
  const Indexed<TensorId, Tensor>& tensors_;
  Indexed<TensorId, Written> written_;
};

}  // namespace

void insert_before(std::vector<Instruction>& list, std::vector<std::vector<Instruction>> fresh) {
  std::vector<Instruction> merged;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    for (Instruction& one : fresh[i]) merged.push_back(std::move(one));
    if (i < list.size()) merged.push_back(std::move(list[i]));
  }
  list = std::move(merged);
}

std::string find_training_violation(const TrainingGraph& training) {
  return TrainingCheck(training).run();
}

}  // namespace trainyard
