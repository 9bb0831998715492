// Parameters, their gradients and the optimizer's state, laid out in buckets.
//
// A bucket is one contiguous gradient buffer (and one of parameters, master weights, moments) for
// parameters of one stage that are treated alike: reduced over the same ranks, counted alike in the
// gradient norm, of one owner. Single parameters are views into it. Buckets fill in backward order
// up to training.bucket_elements, so that the first is complete early in the last backward; under
// ZeRO-3 a bucket is what a unit has of its kind (gathered_units.h), whatever its size.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "engine/cost/software_profile.h"
#include "engine/passes/differentiate.h"
#include "engine/passes/gathered_units.h"
#include "engine/plan/plan.h"
#include "engine/program/program.h"
#include "engine/schedule/stage_form.h"

namespace trainyard {

/// What a bucket gathered in 8 bits has (fp8_gathers.h), one of each parameter: the largest
/// elements of the rank's shard, those of all ranks, in the same storage; by what the gathered
/// numbers are to be multiplied.
struct GatheredScales {
  ValueId amaxes = kNoIndex, all_amaxes = kNoIndex, scales = kNoIndex;
};

struct Bucket {
  std::int32_t stage = 0;
  std::int32_t rank = 0;                // along pp
  std::vector<ParameterId> parameters;  // in storage order
  std::int64_t filled = 0;              // elements of the parameters
  std::int64_t elements = 0;  // the same, padded to a multiple of the ranks that divide it
  AxisSet replicated = 0;     // tensor axes along which all ranks hold it alike
  AxisSet partial = 0;        // tensor axes along which each rank has a summand of the gradient
  std::vector<std::int32_t> tied;  // pipeline ranks that share these weights; empty: only this one
  std::int32_t owner =
      -1;              // along dp: who has the state of all of it (ZeRO-1 by parameter); -1: nobody
  float momentum = 0;  // of running averages, as Parameter has it; 0: of weights
  std::int32_t unit = kNoUnit;  // that it is gathered with; kNoUnit: it is always there
  bool kept = false;            // gathered once for forward and backward
  bool resharded = false;       // from its forward to its backward among some neighbours
  bool reduced_each = false;    // in each microbatch, into what gradients add up in: gradient_shard
  bool gathers_fp8 = false;     // gathered in 8 bits
  // Values; none: does not exist under this precision, optimizer or ZeRO stage.
  ValueId gradient = kNoIndex, gradient_shard = kNoIndex;
  ValueId parameter = kNoIndex, parameter_shard = kNoIndex;
  // With packs(), as the shards have them, one behind the other: what is gathered, what is reduced.
  ValueId parameter_packed = kNoIndex, gradient_packed = kNoIndex;
  ValueId cast_shard = kNoIndex;  // of gathered 16-bit parameters, whose shards have the
                                  // optimizer's type: what is gathered
  GatheredScales by;              // with gathers_fp8
  // With resharded: the rank's piece within what is gathered, and its copy that stays.
  ValueId own_piece = kNoIndex, piece = kNoIndex;
  // Where all ranks of a tensor group have it alike and divide it, the part of what is reduced that
  // is of this rank's shards and its replicas' (divided_state.h).
  ValueId gradient_slice = kNoIndex;
  // With reduced_each, of one microbatch: the shard summed over the ranks that divide the bucket
  // (none: shards are whole), and over all replicas. One value where those are the same ranks.
  ValueId gradient_part = kNoIndex, gradient_sum = kNoIndex;
  ValueId master = kNoIndex, first_moment = kNoIndex, second_moment = kNoIndex;
  // With `on_host` the state above lies there, always with a master; and so does the gradient that
  // the host updates by.
  bool on_host = false;
  ValueId host_gradient = kNoIndex;
  // What the host reads of state that lies on NVMe, updates and writes back.
  ValueId master_read = kNoIndex, first_read = kNoIndex, second_read = kNoIndex;
  // With `away` the shard of the parameters lies on the host, or on NVMe, whence the host reads it:
  // what is gathered is a copy on the device.
  bool away = false;
  ValueId shard_read = kNoIndex, loaded = kNoIndex;
  // What an update has made until it is copied to where the weights lie, which is elsewhere; from
  // the device to NVMe by way of the host.
  ValueId new_weights = kNoIndex, passing_weights = kNoIndex;
  // With packs(): parameters in their order, each padded to as many rows on every rank.
  struct Rows {
    ValueId weight = kNoIndex, gradient = kNoIndex;
    std::int64_t count = 0, elements = 0;  // rows, and what each has
  };
  std::vector<Rows> rows;
  bool is_gathered() const { return unit != kNoUnit; }
  bool packs() const { return parameter_packed != kNoIndex; }
  // Values as long as the bucket, as a data-parallel rank's part of it, or as such a piece.
  std::vector<ValueId> whole, shards, pieces;
};

/// Buckets, and which value holds a parameter or its gradient on a pipeline rank.
class BucketPlan {
 public:
  std::vector<Bucket> buckets;
  Indexed<std::int32_t, std::vector<std::size_t>> of_stage;  // indices into buckets, ascending
  Indexed<std::int32_t, std::vector<std::size_t>> of_rank;   // along pp
  /// Reductions of largest elements of weights: over which ranks, and that they are.
  GroupId amax_group = kNoIndex;
  AttrId amax_attrs{0};
  /// [stage], with ZeroConfig::precomputes_scales: those of its buckets, which lie in them.
  struct Amaxes {
    ValueId own = kNoIndex, all = kNoIndex;
  };
  std::map<std::int32_t, Amaxes> amaxes_of_stage;

  void place(TensorId tensor, std::int32_t rank, ValueId value);
  ValueId value(TensorId tensor, std::int32_t rank) const;  // placed before

 private:
  Indexed<TensorId, std::pair<std::int32_t, ValueId>> first_;              // (rank, value)
  std::map<std::pair<TensorId, std::int32_t>, ValueId> on_further_ranks_;  // shared weights
};

/// ZeRO by shard: each data-parallel rank keeps the optimizer's state of its shard of every bucket.
/// Parameters that lie on the host are in shards though there be but one, and a gather of one.
bool shards_state(const ParallelConfig& parallel);
/// ZeRO-3: of the parameters, too.
bool shards_parameters(const ParallelConfig& parallel);

/// ZeRO-1 by parameter: each data-parallel rank keeps the state of buckets of its own. On every
/// pipeline rank balanced_owners() divides the parameters by their local sizes; a parameter that
/// several pipeline ranks hold has the owner that the first of them gives it.
bool owns_parameters(const ParallelConfig& parallel);

/// Adds the values to `program` and returns the layout; size_buckets() gives them their lengths.
/// `forms`: [stage].
BucketPlan plan_buckets(const TrainingGraph& training, const Numbered<StageForm>& forms,
                        const ParallelConfig& parallel, const TrainingConfig& config,
                        DType grad_dtype, Program& program);

/// Pads every bucket for the replicas of its pipeline rank, and gives the values in `whole`,
/// `shards` and `pieces` their lengths. All that the data-parallel degree decides about a plan,
/// once it is known to be above 1.
void size_buckets(BucketPlan& plan, const ParallelConfig& parallel, Program& program);
/// Those values, whose extents depend on the degree: SharedSegments::sized.
Indexed<ValueId, bool> sized_values(const BucketPlan& plan, const Program& program);

}  // namespace trainyard
