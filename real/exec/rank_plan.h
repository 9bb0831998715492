// A rank's Program made ready to run: kernels found, operands resolved to storage, groups to
// communicators. Everything that is the same in every step is worked out here, once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/program/program.h"
#include "real/exec/communicator.h"
#include "real/exec/issue_order.h"
#include "real/exec/shard_casts.h"
#include "real/exec/tensor_move.h"
#include "real/kernels/kernel.h"
#include "real/parameters/parameter_layout.h"
#include "real/parameters/rank_coordinates.h"
#include "study/study.h"

namespace trainyard {

/// One op of a segment as this rank runs it.
struct OpPlan {
  const ProgramOp* op = nullptr;
  const OpAttrs* attrs = nullptr;
  Kernel kernel = nullptr;
  Communicator* communicator = nullptr;
  std::uint8_t slot = 0;  // the microbatch of the call that it is of
  int peer =
      0;  // transfers: the peer's place in the communicator's group; rooted collectives: the root's
  bool passed_by = false;       // another replica runs it (engine/program/owners.h)
  bool has_no_peers = false;    // of a group of one: it copies, and communicates with nobody
  bool makes_views = false;     // what it writes lies in what is there: no kernel
  bool corrects = false;        // of phase V: runs only where the step before was invalid
  bool tells_validity = false;  // its result is the squared norm of all ranks of the step before
  std::vector<ShardPlace> read_places;
  std::vector<ShardPlace> write_places;  // of writes; where there are none, of accumulates
  std::vector<at::ScalarType> write_types;
  std::vector<std::vector<std::int64_t>> write_shapes;
  PhiloxKey mask_key{};
  std::int64_t first_row = 0;  // load: of the replica's samples of a microbatch, where tensor
                               // ranks have samples of their own
  std::int64_t first_document_row = 0;  // the same of what stays inside documents
  double loss_divisor = 1;
  double average_share = 0;       // without what later microbatches leave of it
  std::vector<DecayRange> decay;  // optimizers
  std::ptrdiff_t bucket = -1;     // optimizers: index into RankPlan::buckets()
  bool has_norm = false;
  std::string input;                           // load: name of the model's input
  IndexRanges query_positions, key_positions;  // rope, block_attention
  AllToAllCounts shifted;                      // ring_shift: all to one member, from one other
  std::vector<WeightPart> weights;             // shard_casts.h: of the shard that is read
  std::optional<TensorMove> move;              // from one spec to another of as many dims
};

/// What the Program does not say about the run: the divisor of each loss.
struct LossDivisors {
  double tokens = 1;         // predicted tokens of the global batch, where StepState has no number;
                             // 0: each loss has a divisor of its own, its labels
  double next_sentence = 1;  // sequences of the global batch
};

class RankPlan {
 public:
  /// Throws ConfigError where an op has no kernel in this version.
  RankPlan(const Program& program, const Graph& model, const Study& study, std::int64_t rank,
           const LossDivisors& divisors, Transport& transport);

  const Program& program() const { return program_; }
  const Coordinate& at() const { return at_; }
  std::int64_t rank() const { return rank_; }
  const std::vector<Call>& calls() const { return program_.body[list_].calls; }
  const IssueOrder& order() const { return order_; }
  std::size_t list() const { return list_; }
  const std::vector<OpPlan>& segment(SegmentId id) const { return segments_[id]; }
  const Numbered<BucketState>& buckets() const { return buckets_; }
  ValueId loss() const {
    return loss_;
  }  // storage root of the accumulated loss; -1: on other ranks
  ValueId norm() const { return norm_; }  // of the squared gradient norm; none: none is taken
  /// Whether a step is validated in the next one (engine/passes/post_validation.h).
  bool validates_late() const { return norm_of_all_ != kNoIndex; }
  /// [call]: whether it is one of that validation, or corrects what it finds.
  const std::vector<bool>& validation() const { return validation_; }
  /// Whether the update looks at the norm and is left out where it is not finite.
  bool guards_update() const { return guards_update_; }
  /// Throws what has gone wrong with communication that is under way.
  void check_communication() const;
  /// Ends that of a step that has failed: what devices wait for comes no more.
  void abort_communication() const;

 private:
  void plan_segment(SegmentId id, const Study& study, const LossDivisors& divisors);
  OpPlan plan_op(const Segment& segment, const ProgramOp& op, const Study& study,
                 const LossDivisors& divisors);
  /// Whom this rank meets in a communication; `peer`: the other end, or the root, -1: none.
  struct Meeting {
    std::string name;
    std::vector<std::int64_t> ranks;
    std::int64_t peer = -1;
  };
  Meeting meeting_of(const ProgramOp& op) const;
  void plan_communication(OpPlan& plan, Transport& transport);
  void plan_averages(OpPlan& plan) const;
  void plan_optimizer(OpPlan& plan);
  void note_loss(const ProgramOp& op);
  void find_validation();
  void count_averaged(const Study& study);
  double evenness(const Study& study, Microbatch mb) const;
  bool is_tensor_move(const ProgramOp& op) const;
  bool reduces_some_parts(const ProgramOp& op) const;
  ShardPlace place_of(ValueId value) const;
  void place_runs(const DimSplit& dim, std::size_t d, std::int64_t extent, ShardPlace& place) const;
  void plan_positions(OpPlan& plan) const;

  const Program& program_;
  std::int64_t rank_;
  Coordinate at_;
  DeviceMesh slice_;  // of the mesh, where it lies
  std::size_t list_ = 0;
  IssueOrder order_;
  Indexed<SegmentId, std::vector<OpPlan>> segments_;  // empty where this rank does not run them
  Numbered<BucketState> buckets_;
  std::map<std::string, std::unique_ptr<Communicator>> communicators_;
  ValueId loss_ = kNoIndex, norm_ = kNoIndex;
  ValueId norm_of_all_ = kNoIndex;  // of the step before, squared
  std::vector<bool> validation_;
  std::map<std::string, double> averaged_;  // by module: what its loss is the mean of in a step
  bool guards_update_ = false;
};

}  // namespace trainyard
