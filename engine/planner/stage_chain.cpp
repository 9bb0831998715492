#include "engine/planner/stage_chain.h"

#include <algorithm>
#include <functional>
#include <set>

#include "engine/graph/tensor_storage.h"

namespace trainyard {

namespace {

class GroupedStage {
 public:
  GroupedStage(const TrainingGraph& training, const ChainGroups& groups, std::int32_t stage,
               double factor)
      : training_(training),
        groups_(groups),
        stage_(stage),
        factor_(factor),
        group_of_(group_of_ops(training, groups)),
        maker_(training.graph.tensors.size(), kNobody),
        first_back_(training.graph.tensors.size(), kNobody),
        last_back_(training.graph.tensors.size(), kNobody),
        read_back_(training.graph.tensors.size(), false),
        handed_on_(training.graph.tensors.size(), false) {
    forward_.resize(count());
    backward_.resize(count() + 1);
    for (const Instruction& op : training.forward) {
      const int group = place_of(op);
      if (group == kNobody) continue;
      for (const TensorId write : op.writes) {
        int& maker = maker_[root(write)];
        if (maker == kNobody) maker = group;
        handed_on_[root(write)] = handed_on_[root(write)] || groups.handed_on[write];
      }
      if (group < count()) forward_[group].push_back(&op);
    }
    for (const Instruction& op : training.backward) {
      const int group = place_of(op);
      if (group == kNobody) continue;
      backward_[group].push_back(&op);
      for (const TensorId read : op.reads) {
        read_back_[root(read)] = true;
        last_back_[root(read)] = group;
      }
      for (const TensorId write : op.writes) {
        int& first = first_back_[root(write)];
        if (first == kNobody) first = group;
      }
    }
  }

  SizedChain run(const EndTimes& ends) const {
    SizedChain out;
    out.input.push_back(received());
    Seconds before = begin(ends);
    for (int g = 0; g < count(); ++g) {
      double result = 0, saved = 0;
      for (const TensorId id : made_in(g)) {
        if (handed_on_[id]) result += bytes(id);
        if (handed_on_[id] || read_back_[id]) saved += bytes(id);
      }
      out.input.push_back(result);
      out.saved.push_back(std::max(saved, result));
      const double saving = peak(forward_[g], {}, [&](TensorId id) {
        return maker_[id] == g && (handed_on_[id] || read_back_[id]);
      });
      const double dropping =
          peak(forward_[g], {}, [&](TensorId id) { return maker_[id] == g && handed_on_[id]; });
      out.forward_extra.push_back(std::max({0.0, saving - out.saved.back(), dropping - result}));
      out.backward_extra.push_back(std::max(0.0, backward_peak(g) - out.saved.back() - result));
      const Seconds end = end_of(g, ends, before);
      out.forward.push_back(end - before);
      before = end;
      out.backward.push_back(0);
    }
    out.backward.push_back(0);
    out.backward_extra.push_back(peak(backward_[count()], {}, [&](TensorId) { return false; }));
    return out;
  }

 private:
  static constexpr int kNobody = -1;

  int count() const { return static_cast<int>(groups_.of_stage[stage_].size()); }
  TensorId root(TensorId id) const { return storage_of(training_.graph, id); }
  double bytes(TensorId id) const {
    const Tensor& tensor = training_.graph.tensors[id];
    if (tensor.role != TensorRole::kActivation) return 0;
    return factor_ * static_cast<double>(num_elements(tensor.shape) * size_in_bytes(tensor.dtype));
  }

  /// The group; count(): of the stage, and of no group; kNobody: of another stage.
  int place_of(const Instruction& op) const {
    if (op.stage != stage_ || op.kind == OpKind::kSend) return kNobody;
    const std::int32_t group = op.origin == kNoIndex ? kNobody : group_of_[op.origin];
    return group < 0 ? count() : group;
  }

  std::set<TensorId> made_in(int group) const {
    std::set<TensorId> out;
    for (const Instruction* op : forward_[group]) {
      for (const TensorId write : op->writes) {
        const TensorId id = root(write);
        if (maker_[id] == group && !groups_.always_kept[write]) out.insert(id);
      }
    }
    return out;
  }

  /// What the first groups read, and an op in no group made.
  double received() const {
    std::set<TensorId> seen;
    double sum = 0;
    for (const auto& group : forward_) {
      for (const Instruction* op : group) {
        for (const TensorId read : op->reads) {
          const int maker = maker_[root(read)];
          if ((maker == kNobody || maker == count()) && seen.insert(root(read)).second)
            sum += bytes(root(read));
        }
      }
    }
    return sum;
  }

  /// Most bytes that live at once while a group's backward runs, of what it keeps, the gradient of
  /// its result and what it makes: each as long as it is read, its own result's gradient to the
  /// end.
  double backward_peak(int group) const {
    std::set<TensorId> there = made_in(group);
    for (const Instruction* op : backward_[group]) {
      for (const TensorId read : op->reads) {
        const int by = first_back_[root(read)];
        if (by != kNobody && by != group) there.insert(root(read));
      }
    }
    return peak(backward_[group], there, [&](TensorId id) { return last_back_[id] != group; });
  }

  /// Most bytes that live at once of what is `there` and of what these instructions write, freed
  /// behind their last use among them but for what they write and `stay` says.
  double peak(const std::vector<const Instruction*>& ops, const std::set<TensorId>& there,
              const std::function<bool(TensorId)>& stay) const {
    struct Span {
      std::size_t first = 0, last = 0;
      bool there = false;
    };
    std::map<TensorId, Span> spans;
    const auto reads_of = [&](TensorId id) {
      return std::any_of(ops.begin(), ops.end(), [&](const Instruction* op) {
        return std::any_of(op->reads.begin(), op->reads.end(),
                           [&](TensorId read) { return root(read) == id; });
      });
    };
    for (const TensorId id : there) {
      if (reads_of(id)) spans.emplace(id, Span{0, 0, true});
    }
    for (std::size_t i = 0; i < ops.size(); ++i) {
      for (const TensorId write : ops[i]->writes) spans.try_emplace(root(write), Span{i, i, false});
      const auto touch = [&](TensorId id) {
        const auto found = spans.find(root(id));
        if (found != spans.end()) found->second.last = i;
      };
      std::for_each(ops[i]->reads.begin(), ops[i]->reads.end(), touch);
      std::for_each(ops[i]->writes.begin(), ops[i]->writes.end(), touch);
    }
    std::vector<double> change(ops.size() + 1, 0);
    for (const auto& [id, span] : spans) {
      change[span.first] += bytes(id);
      change[!span.there && stay(id) ? ops.size() : span.last + 1] -= bytes(id);
    }
    double now = 0, most = 0;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      now += change[i];
      most = std::max(most, now);
    }
    return most;
  }

  /// The latest end of what stands in front of the first group.
  Seconds begin(const EndTimes& ends) const {
    Seconds latest = 0;
    for (const Instruction& op : training_.forward) {
      if (place_of(op) == 0) break;
      if (place_of(op) == kNobody) continue;
      for (const TensorId write : op.writes) {
        const auto found = ends.find(training_.graph.tensors[write].name);
        if (found != ends.end()) latest = std::max(latest, found->second);
      }
    }
    return latest;
  }

  Seconds end_of(int group, const EndTimes& ends, Seconds before) const {
    Seconds latest = before;
    for (const Instruction* op : forward_[group]) {
      for (const TensorId write : op->writes) {
        const auto found = ends.find(training_.graph.tensors[write].name);
        if (found != ends.end()) latest = std::max(latest, found->second);
      }
    }
    return latest;
  }

  const TrainingGraph& training_;
  const ChainGroups& groups_;
  std::int32_t stage_;
  double factor_;
  Indexed<OpId, std::int32_t> group_of_;
  Indexed<TensorId, int> maker_;  // of storages: the group whose forward writes them first
  Indexed<TensorId, int> first_back_, last_back_;  // whose backward writes and reads them
  Indexed<TensorId, bool> read_back_, handed_on_;
  std::vector<std::vector<const Instruction*>> forward_, backward_;  // [group]
};

}  // namespace

SizedChain stage_chain(const TrainingGraph& training, const ChainGroups& groups, std::int32_t stage,
                       const EndTimes& ends, double factor) {
  return GroupedStage(training, groups, stage, factor).run(ends);
}

}  // namespace trainyard
