// Runs a rank's calls of the Program on real devices, in the order in which its host issues them.
//
// On a CPU the host is the compute thread: ops of the main stream run at once, each communication
// stream is a thread of its own. An op starts when its stream is free, what it reads is written,
// earlier users of the storage that it writes have ended, and its `after` edges have.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/exec/trace.h"
#include "real/exec/communication_stream.h"
#include "real/exec/rank_plan.h"
#include "real/exec/rank_values.h"

namespace trainyard {

/// Fills input `name` of the microbatch whose first sample, counted through the whole run, is `first`.
using LoadInput = std::function<void(const std::string& name, std::int64_t first_sample, at::Tensor& out)>;

struct StepResult {
  std::optional<double> loss;     // on ranks of the last stage
  std::optional<double> norm_sq;  // of the gradients, loss scale in
  bool updated = true;            // false: the gradients were not finite, the update did nothing
  std::vector<TraceRow> rows;     // times in seconds of the steady clock
};

/// Where a rank is, for whoever watches it: written by it, read by another thread.
struct Whereabouts {
  std::atomic<std::int64_t> step{-1};
  std::atomic<std::int32_t> call{-1};
  std::atomic<std::int32_t> segment{-1};
  std::atomic<std::int32_t> op{-1};
};

/// What others may look at while a step runs; unset: nobody does.
struct ExecutorHooks {
  /// Each result of an op of the main stream: finds where numbers go bad.
  std::function<void(const ProgramOp&, Microbatch, const at::Tensor&)> result;
  /// This rank's part of a bucket's reduced gradient before the update, loss_scale times too large and
  /// not clipped.
  std::function<void(const BucketState&, const at::Tensor&)> gradient;
  /// An op of the main stream is about to run, and has.
  std::function<void(const OpPlan&, bool done)> op;
  /// A call of the list has been issued, and on the main stream has ended.
  std::function<void(std::size_t call)> call_done;
};

class RankExecutor {
 public:
  RankExecutor(const RankPlan& plan, const Study& study, LoadInput load);
  ~RankExecutor();

  /// Allocates parameters and optimizer state: weights from their initial values, state zero.
  void initialise(const Study& study);

  /// One training step; `state.first_sample` is set per call.
  StepResult run_step(StepState state);

  RankValues& values() { return values_; }
  const RankPlan& plan() const { return plan_; }
  Whereabouts& whereabouts() { return whereabouts_; }
  void record_rows(bool on) { records_ = on; }
  ExecutorHooks& hooks() { return hooks_; }

 private:
  void run_call(const Call& call, std::size_t index);
  void run_segment(SegmentId segment, const Call& call);
  void run_inside(const Call& call, std::uint32_t place);
  void run_op(SegmentId segment, std::uint32_t index, const OpPlan& plan, const Call& call,
              std::vector<CompletionPtr>& ended);
  void compute(const OpPlan& plan, const Call& call);
  void communicate(const OpPlan& plan, const Call& call, std::vector<CompletionPtr>& ended,
                   std::uint32_t index);
  void run_kernel(const OpPlan& plan, KernelCall& call) const;
  void wait_for(const OpPlan& plan, const Call& call);
  void collect(const OpPlan& plan, const Call& call, std::vector<CompletionPtr>& before);
  void release(const OpPlan& plan, const Call& call);
  bool guard_holds(const OpPlan& plan, const Call& call);
  std::int64_t first_sample(const Call& call) const;

  const RankPlan& plan_;
  LoadInput load_;
  std::int64_t global_batch_, samples_per_replica_, microbatch_;
  RankValues values_;
  std::array<std::unique_ptr<CommunicationStream>, kNumStreams> streams_;
  StepState state_;
  StepResult result_;
  std::vector<std::vector<CompletionPtr>> calls_;  // [call]: its communication
  std::vector<CompletionPtr>* current_ = nullptr;
  struct OpenRow {
    std::size_t row;
    CompletionPtr completion;
  };
  std::vector<OpenRow> open_rows_;
  bool records_ = false;
  ExecutorHooks hooks_;
  Whereabouts whereabouts_;
  KernelCall kernel_call_;
};

}  // namespace trainyard
