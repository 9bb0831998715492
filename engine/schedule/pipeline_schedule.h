// Pipeline schedules: which stage computes which microbatch, and in what order on each rank.
//
// A schedule is a value, compute only, made by one short function. Sends, receives and buffer
// lifetimes are added by the lowering pass (engine/passes/lower.h), so that every schedule shares
// one notion of communication. The text form ("2F0": stage 2, forward, microbatch 0) is what logs,
// error messages and golden tests show.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/indexed.h"

namespace trainyard {

enum class ActionPhase : std::uint8_t {
  kForward,         // F
  kBackward,        // B: I and W in one
  kBackwardInput,   // I: gradient of the stage's input; the previous stage waits for it
  kBackwardWeight,  // W: gradient of the weights; no other stage waits for it
  kRecompute,       // R: the forward again, inside the backward: when the gradient has come
  kEarlyRecompute,  // R*: the forward again, before the gradient has come
};
inline constexpr int kNumActionPhases = 6;

/// One uninterrupted piece of compute. The default ordering makes sorted output reproducible.
struct Action {
  std::int32_t stage = 0;
  ActionPhase phase = ActionPhase::kForward;
  std::int32_t microbatch = 0;
  bool with_next =
      false;  // a forward that shares the device with the backward behind it in the list
  friend auto operator<=>(const Action&, const Action&) = default;
};

std::string to_string(const Action& action);  // "2F0", "1R3*"

/// A rank's list as text, a pair of actions that run together as one word: "(0F7;7B3)OVERLAP_F_B".
std::vector<std::string> to_text(const std::vector<Action>& actions);

using StageRanks = Numbered<std::int32_t>;  // [stage]: its pipeline rank

struct PipelineSchedule {
  int num_stages = 0;                     // all stages of the pipeline, virtual ones included
  int num_microbatches = 0;               // per optimizer step and data-parallel replica
  Numbered<std::vector<Action>> actions;  // [pipeline rank][issue order]
  StageRanks on = {};  // of each stage; empty: rank r runs stages r, r + ranks, r + 2 ranks, ...

  int num_ranks() const { return static_cast<int>(actions.size()); }
  int rank_of(int stage) const { return on.empty() ? stage % num_ranks() : on[stage]; }
};

/// One stage per rank.
StageRanks one_each(int num_ranks);
/// Two stages per rank in a V: rank r runs stages r and 2 ranks - 1 - r.
StageRanks in_a_v(int num_ranks);

/// GPipe: all forwards, then all backwards. In flight at the peak: every microbatch.
/// Huang et al. 2019 (arXiv:1811.06965). bubble_fraction = (p-1)/(m+p-1), p stages, m microbatches.
PipelineSchedule gpipe(int num_stages, int num_microbatches);

/// 1F1B with flush (PipeDream-Flush), one stage per rank. With p stages, m microbatches, s the
/// stage:
///   warmup(s)    = min(m, p - s - 1)   forwards before the first backward
///   in_flight(s) = min(m, p - s)       activations held at the peak, in microbatches
///   bubble_fraction = (p-1)/(m+p-1)    of the step, when every stage takes equally long
/// one_f_one_b(3, 4) is:
///   rank 0: 0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3
///   rank 1: 1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3
///   rank 2: 2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3
/// Narayanan et al., SC'21 (arXiv:2104.04473), section 2.2.1.
PipelineSchedule one_f_one_b(int num_stages, int num_microbatches);

/// The order in which a rank goes through its stages r, r + ranks, r + 2 ranks, ...: microbatches
/// in groups of `group`, the last with what is left; a group goes through all stages of the rank,
/// forwards from the first stage, backwards from the last, before the next begins.
struct RoundOrder {
  int num_ranks = 1;
  int stages_per_rank = 1;
  int num_microbatches = 1;
  int group = 1;

  int total() const { return stages_per_rank * num_microbatches; }  // forwards of a rank
  Action action(int rank, ActionPhase phase, int k) const;          // k < total()
};

/// PyTorch's size of a group, m / max(1, m / ranks); what it leaves over is an error.
int default_group(int num_ranks, int num_microbatches);

/// Interleaved 1F1B: rank r runs stages r, r + ranks, r + 2 ranks, ..., in a RoundOrder.
///   warmup(r) = min(v m, (v-1) g + 2 (ranks - 1 - r))
///   makespan with equal stages (F + B per microbatch and rank = t): m t + (ranks-1) t / v, where
///   g = ranks
/// Narayanan et al., SC'21, section 2.2.2; groups of another size as PyTorch and Megatron-LM
/// (microbatch_group_size_per_vp_stage) have them. `group` 0: default_group().
PipelineSchedule interleaved(int num_ranks, int stages_per_rank, int num_microbatches,
                             int group = 0);

/// The schedule that a study names, of those that a Program can run; schedule_names.h has all.
/// Infeasible for combinations that the schedule cannot serve. `group`: interleaved()'s, with which
/// the last group may hold less, but no fewer microbatches than there are ranks; 0: none given.
std::variant<PipelineSchedule, Infeasible> make_schedule(const std::string& method, int num_ranks,
                                                         int stages_per_rank, int num_microbatches,
                                                         int group = 0);

}  // namespace trainyard
