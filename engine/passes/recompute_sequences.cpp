#include "engine/passes/recompute_sequences.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "engine/passes/chain_groups.h"
#include "engine/recompute/chain.h"

namespace trainyard {

namespace {

using ChainOps = std::vector<std::size_t>;  // indices into TrainingGraph::forward, ascending
using Kind = ChainOp::Kind;

class SequenceRunner {
 public:
  SequenceRunner(TrainingGraph& training, bool all_ops)
      : training_(training),
        all_ops_(all_ops),
        groups_(chain_groups(training)),
        group_of_(group_of_ops(training, groups_)),
        clones_(training.backward.size() + 1) {}

  std::optional<Infeasible> run(const std::vector<std::string>& sequences) {
    for (std::int32_t stage = 0; stage < training_.num_stages; ++stage) {
      const auto read = parse_sequence(sequences[stage]);
      check(std::holds_alternative<std::vector<ChainOp>>(read), "the reader has read sequences");
      const auto& sequence = std::get<std::vector<ChainOp>>(read);
      const auto count = static_cast<int>(groups_.of_stage[stage].size());
      if (const auto wrong = find_violation(sequence, count)) {
        return Infeasible{"that of stage " + std::to_string(stage) + ": " + *wrong,
                          "recompute.sequences"};
      }
      run_stage(stage, sequence);
    }
    if (!all_ops_) drop_unread();
    insert_before(training_.backward, std::move(clones_));
    return std::nullopt;
  }

 private:
  /// Where the backward of each group begins, and no group behind it in the sequence before it.
  std::vector<std::size_t> places(std::int32_t stage, std::size_t count) const {
    std::vector<std::size_t> first(count, training_.backward.size());
    for (std::size_t i = 0; i < training_.backward.size(); ++i) {
      const std::int32_t group = group_at(i, stage);
      if (group >= 0) first[group] = std::min(first[group], i);
    }
    for (std::size_t g = 1; g < count; ++g) first[g] = std::min(first[g], first[g - 1]);
    return first;
  }

  std::int32_t group_at(std::size_t backward, std::int32_t stage) const {
    const Instruction& op = training_.backward[backward];
    if (op.kind == OpKind::kSend || op.stage != stage || op.origin == kNoIndex) return -1;
    return group_of_[op.origin];
  }

  void run_stage(std::int32_t stage, const std::vector<ChainOp>& sequence) {
    const auto& groups = groups_.of_stage[stage];
    readers_.assign(groups.size(), {});
    for (std::size_t i = 0; i < training_.backward.size(); ++i) {
      const std::int32_t group = group_at(i, stage);
      if (group >= 0) readers_[group].push_back(i);
    }
    const std::vector<std::size_t> place = places(stage, groups.size());
    now_.clear();
    std::vector<Instruction> waiting;
    std::size_t at = 0;
    while (sequence[at].kind != Kind::kLoss) ++at;
    for (++at; at < sequence.size(); ++at) {
      const ChainOp& op = sequence[at];
      if (op.kind != Kind::kBackward) {
        const bool goes_on = sequence[at + 1].kind != Kind::kBackward;
        run_again(groups[op.group], op, goes_on, waiting);
        continue;
      }
      auto& here = clones_[place[op.group]];
      std::move(waiting.begin(), waiting.end(), std::back_inserter(here));
      waiting.clear();
      for (const std::size_t reader : readers_[op.group]) {
        Instruction& one = training_.backward[reader];
        for (TensorId& read : one.reads) read = latest(read);
        for (const TensorId write : one.writes) {
          TensorId& alias = training_.graph.tensors[write].alias;
          if (alias != kNoIndex) alias = latest(alias);
        }
      }
    }
  }

  TensorId latest(TensorId id) const {
    const auto found = now_.find(id);
    return found == now_.end() ? id : found->second;
  }

  /// Tensors of the group that this run of it is for.
  std::unordered_set<TensorId> wanted(const ChainOps& group, const ChainOp& op,
                                      bool goes_on) const {
    std::unordered_set<TensorId> made, out;
    for (const std::size_t i : group) {
      for (const TensorId write : training_.forward[i].writes) {
        if (!groups_.always_kept[write]) made.insert(write);
      }
    }
    const auto want = [&](const Instruction& reader) {
      for (const TensorId read : reader.reads) {
        if (made.contains(read)) out.insert(read);
      }
    };
    if (op.kind == Kind::kForwardSaving) {
      for (const std::size_t reader : readers_[op.group]) want(training_.backward[reader]);
    }
    for (const TensorId id : made) {
      if (goes_on && groups_.handed_on[id]) out.insert(id);
    }
    return out;
  }

  void run_again(const ChainOps& group, const ChainOp& op, bool goes_on,
                 std::vector<Instruction>& out) {
    std::unordered_set<TensorId> needed = wanted(group, op, goes_on);
    std::vector<bool> included(group.size(), all_ops_ && !needed.empty());
    for (std::size_t k = group.size(); k-- > 0;) {
      const Instruction& one = training_.forward[group[k]];
      for (const TensorId write : one.writes) included[k] = included[k] || needed.contains(write);
      if (!included[k]) continue;
      for (const TensorId read : one.reads) {
        if (!groups_.always_kept[read]) needed.insert(read);
      }
    }
    for (std::size_t k = 0; k < group.size(); ++k) {
      if (included[k]) out.push_back(clone(training_.forward[group[k]]));
    }
  }

  Instruction clone(const Instruction& op) {
    Instruction copy = op;
    copy.recomputed = true;
    for (TensorId& read : copy.reads) read = latest(read);
    for (TensorId& write : copy.writes) {
      Tensor tensor = training_.graph.tensors[write];
      tensor.name += std::string(++runs_[write], '\'');
      // A view lies in what this run has read.
      if (tensor.alias != kNoIndex) tensor.alias = latest(tensor.alias);
      const TensorId fresh = training_.graph.tensors.add(std::move(tensor));
      now_[write] = fresh;
      write = fresh;
    }
    return copy;
  }

  /// What a group hands on may be for the loss alone, or for a group that does not run again.
  void drop_unread() {
    Indexed<TensorId, bool> read(training_.graph.tensors.size(), false);
    const auto note = [&](const Instruction& op) {
      for (const TensorId id : op.reads) read[id] = true;
      for (const TensorId write : op.writes) {
        const TensorId alias = training_.graph.tensors[write].alias;
        if (alias != kNoIndex) read[alias] = true;
      }
    };
    for (std::size_t i = clones_.size(); i-- > 0;) {
      if (i < training_.backward.size()) note(training_.backward[i]);
      std::vector<Instruction> kept;
      for (std::size_t k = clones_[i].size(); k-- > 0;) {
        Instruction& clone = clones_[i][k];
        if (std::none_of(clone.writes.begin(), clone.writes.end(),
                         [&](TensorId write) { return read[write]; }))
          continue;
        note(clone);
        kept.push_back(std::move(clone));
      }
      std::reverse(kept.begin(), kept.end());
      clones_[i] = std::move(kept);
    }
  }

  TrainingGraph& training_;
  bool all_ops_;
  ChainGroups groups_;
  Indexed<OpId, std::int32_t> group_of_;
  std::vector<std::vector<Instruction>> clones_;   // [place in backward]: inserted before it
  std::vector<std::vector<std::size_t>> readers_;  // [group] of the stage: its backward
  std::unordered_map<TensorId, TensorId> now_;     // what the forward wrote -> its latest copy
  std::unordered_map<TensorId, int> runs_;
};

}  // namespace

std::vector<RecomputeRegion> cores_of_sequences(const TrainingGraph& training,
                                                const std::vector<std::string>& sequences) {
  std::set<std::pair<std::int32_t, std::int32_t>> left_out;  // stage, group
  for (std::size_t stage = 0; stage < sequences.size(); ++stage) {
    const auto read = parse_sequence(sequences[stage]);
    for (const ChainOp& op : std::get<std::vector<ChainOp>>(read)) {
      if (op.but_cores) left_out.emplace(static_cast<std::int32_t>(stage), op.group);
    }
  }
  std::vector<RecomputeRegion> out;
  if (left_out.empty()) return out;
  const Indexed<OpId, std::int32_t> groups = group_of_ops(training, chain_groups(training));
  for (RecomputeRegion& core : attention_cores(training)) {
    const Instruction& op = training.forward[core.ops.front()];
    if (left_out.contains({op.stage, groups[op.origin]})) out.push_back(std::move(core));
  }
  return out;
}

std::optional<Infeasible> recompute_by_sequences(TrainingGraph& training,
                                                 const std::vector<std::string>& sequences,
                                                 bool all_ops) {
  return SequenceRunner(training, all_ops).run(sequences);
}

}  // namespace trainyard
