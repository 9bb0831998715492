#include "engine/passes/recompute.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/passes/recompute_regions.h"
#include "engine/passes/recompute_sequences.h"
#include "engine/recompute/stage_aware.h"

namespace trainyard {

namespace {

class Recomputer {
 public:
  explicit Recomputer(TrainingGraph& training) : training_(training) {}

  struct Rule {
    bool all_ops = false;  // repeats ops whose result nobody reads, too
    bool keep_outputs =
        true;  // what the backward of ops outside the region reads is not recomputed
    std::string_view mark = "'";  // behind the name of what is computed again
    bool recomputed = true;       // what Instruction::recomputed of the clones says
  };

  /// Recomputes each region for itself, from what it keeps.
  void run(const std::vector<RecomputeRegion>& regions, Rule rule) {
    index_readers();
    region_of_.assign(training_.graph.ops.size(), -1);
    for (std::size_t r = 0; r < regions.size(); ++r) {
      const auto number = static_cast<std::int32_t>(r);
      for (std::size_t i : regions[r].ops) region_of(training_.forward[i]) = number;
      for (std::size_t i : regions[r].kept) region_of(training_.forward[i]) = number;
    }
    for (const RecomputeRegion& region : regions) recompute_region(region.ops, rule);
    insert_before(training_.backward, std::move(clones_));
  }

 private:
  Tensor& tensor(TensorId id) { return training_.graph.tensors[id]; }

  std::int32_t& region_of(const Instruction& op) { return region_of_[op.origin]; }

  void index_readers() {
    readers_.assign(training_.graph.tensors.size(), {});
    clones_.assign(training_.backward.size() + 1, {});
    first_of_origin_.assign(training_.graph.ops.size(), training_.backward.size());
    for (std::size_t i = 0; i < training_.backward.size(); ++i) {
      auto& first = first_of_origin_[training_.backward[i].origin];
      first = std::min(first, i);
      for (TensorId read : training_.backward[i].reads) {
        readers_[read].push_back(static_cast<std::uint32_t>(i));
      }
    }
  }

  void recompute_region(const std::vector<std::size_t>& region, Rule rule) {
    if (region.empty()) return;
    // Needed: written here and read by the backward; then what the needed ones are computed from.
    std::unordered_map<TensorId, bool> needed;  // every tensor written here -> needed?
    const std::int32_t here = region_of(training_.forward[region.front()]);
    const auto takes_clone = [&](std::uint32_t reader) {
      return !rule.keep_outputs || region_of(training_.backward[reader]) == here;
    };
    std::size_t first_reader = training_.backward.size();
    bool any = false;
    for (std::size_t i : region) {
      for (TensorId write : training_.forward[i].writes) {
        const auto& readers = readers_[write];
        const auto first = std::find_if(readers.begin(), readers.end(), takes_clone);
        needed[write] = first != readers.end();
        if (first == readers.end()) continue;
        any = true;
        first_reader = std::min<std::size_t>(first_reader, *first);
      }
    }
    if (!any) return;
    std::vector<bool> included(region.size(), rule.all_ops);
    for (std::size_t k = region.size(); k-- > 0;) {
      const Instruction& op = training_.forward[region[k]];
      for (TensorId write : op.writes) included[k] = included[k] || needed[write];
      if (!included[k]) continue;
      for (TensorId read : op.reads) {
        if (const auto it = needed.find(read); it != needed.end()) it->second = true;
      }
    }

    // Where: before the first instruction of the op whose backward reads first, so that its
    // input-gradient half can run beside a gather that only its weight-gradient half waits for.
    const auto origin = training_.backward[first_reader].origin;
    const std::size_t at = std::min(first_reader, first_of_origin_[origin]);

    std::unordered_map<TensorId, TensorId> again;
    for (std::size_t k = 0; k < region.size(); ++k) {
      if (included[k]) clones_[at].push_back(clone(training_.forward[region[k]], rule, again));
    }
    settle_aliases(again);
    for (const auto& [old_id, new_id] : again) {
      for (std::uint32_t reader : readers_[old_id]) {
        if (!takes_clone(reader)) continue;
        for (TensorId& read : training_.backward[reader].reads) {
          if (read == old_id) read = new_id;
        }
      }
    }
  }

  Instruction clone(const Instruction& op, const Rule& rule,
                    std::unordered_map<TensorId, TensorId>& again) {
    Instruction copy = op;
    copy.recomputed = rule.recomputed;
    for (TensorId& read : copy.reads) {
      if (const auto it = again.find(read); it != again.end()) read = it->second;
    }
    for (TensorId& write : copy.writes) {
      Tensor t = tensor(write);
      t.name += rule.mark;
      const TensorId fresh = training_.graph.tensors.add(std::move(t));
      again.emplace(write, fresh);
      write = fresh;
    }
    return copy;
  }

  /// A view of what is computed again lies in that. Half a batch lies in what will be joined; where
  /// that is not done again, its storage holds what was kept, and the half lies by itself.
  void settle_aliases(const std::unordered_map<TensorId, TensorId>& again) {
    for (const auto& [old_id, new_id] : again) {
      TensorId& alias = tensor(new_id).alias;
      if (alias == kNoIndex) continue;
      if (const auto it = again.find(alias); it != again.end()) {
        alias = it->second;
      } else if (tensor(alias).producer > tensor(old_id).producer) {
        alias = kNoIndex;
        tensor(new_id).alias_offset = 0;
      }
    }
  }

  TrainingGraph& training_;
  Indexed<TensorId, boost::container::small_vector<std::uint32_t, 4>>
      readers_;                                   // [tensor] -> backward
  Indexed<OpId, std::size_t> first_of_origin_;    // of forward ops: first of its backward
  Indexed<OpId, std::int32_t> region_of_;         // of forward ops; -1: in none
  std::vector<std::vector<Instruction>> clones_;  // [place in backward]: inserted before it
};

}  // namespace

Numbered<double> kept_shares(const RecomputeConfig& config, bool shifted_critical_path,
                             const Numbered<bool>& recomputing) {
  Numbered<double> kept(recomputing.size(), 0);
  if (config.method == RecomputeConfig::Method::kStageAware) {
    check(config.first.has_value(), "recompute.first: auto has been chosen");
    kept = stage_aware_shares(static_cast<int>(recomputing.size()), *config.first,
                              shifted_critical_path);
  }
  for (std::size_t stage = 0; stage < kept.size(); ++stage) {
    if (!recomputing[stage]) kept[stage] = 1;
  }
  return kept;
}

std::optional<Infeasible> sequence_obstacle(const RecomputeConfig& config,
                                            const Numbered<StageForm>& forms) {
  const bool early = std::any_of(forms.begin(), forms.end(),
                                 [](const StageForm& form) { return form.recomputes_early(); });
  if (config.method != RecomputeConfig::Method::kRotor || !early) return std::nullopt;
  return Infeasible{"rotor recomputes between backwards, and the schedule at once (R)",
                    "recompute"};
}

std::optional<Infeasible> recompute(TrainingGraph& training, const RecomputeConfig& config,
                                    const SoftwareProfile& software, const Numbered<double>& kept) {
  // Megatron gathers a sequence again for the backward; PyTorch keeps what a product has read.
  const bool again = !software.copies_moved_dims;
  if (const auto gathers = sequence_gathers(training); again && !gathers.empty()) {
    Recomputer(training).run(gathers, {.keep_outputs = false, .mark = "^", .recomputed = false});
  }
  if (config.method == RecomputeConfig::Method::kNone) return std::nullopt;
  if (config.method == RecomputeConfig::Method::kRotor) {
    if (const auto cores = cores_of_sequences(training, config.sequences); !cores.empty())
      Recomputer(training).run(cores, {});
    return recompute_by_sequences(training, config.sequences, software.recompute_runs_all_ops);
  }
  Recomputer(training).run(recomputed_regions(training, config, kept),
                           {.all_ops = software.recompute_runs_all_ops});
  if (const auto norms = discarded_norms(training, config, kept); !norms.empty())
    Recomputer(training).run(norms, {.keep_outputs = false});
  return std::nullopt;
}

}  // namespace trainyard
