#include "engine/passes/parameter_buckets.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "engine/base/error.h"
#include "engine/partition/parameter_owners.h"
#include "engine/passes/bucket_values.h"
#include "engine/passes/divided_state.h"
#include "engine/passes/fp8_gathers.h"
#include "engine/passes/plan_mesh.h"

namespace trainyard {

namespace {

Dims one_dim(std::int64_t extent) { return {Dim{extent, extent, -1}}; }

/// Every rank has as many rows of each parameter, which has as many as all of them in the bucket.
/// Returns the bucket's elements.
std::int64_t place_rows(const Bucket& bucket, std::int64_t ranks, Program& program) {
  std::int64_t elements = 0;
  for (const Bucket::Rows& of : bucket.rows) {
    for (const ValueId view : {of.weight, of.gradient})
      program.values[view].alias->offset = elements;
    elements += (of.count + ranks - 1) / ranks * ranks * of.elements;
  }
  return elements;
}

class BucketPlanner {
 public:
  BucketPlanner(const TrainingGraph& training, const Numbered<StageForm>& forms,
                const ParallelConfig& parallel, const TrainingConfig& config, DType grad_dtype,
                Program& program)
      : training_(training),
        forms_(forms),
        parallel_(parallel),
        config_(config),
        grad_dtype_(grad_dtype),
        program_(program),
        tensor_axes_(program.groups[kTensorGroup].axes) {}

  BucketPlan run() {
    find_users();
    if (owns_parameters(parallel_)) find_owners();
    if (shards_parameters(parallel_)) unit_ = find_gathered_units(training_, parallel_.zero.units);
    for (std::int32_t stage = 0; stage < training_.num_stages; ++stage) fill_stage(stage);
    plan_.of_stage.resize(training_.num_stages);
    plan_.of_rank.resize(parallel_.pipeline);
    for (std::size_t i = 0; i < plan_.buckets.size(); ++i) {
      plan_.of_stage[plan_.buckets[i].stage].push_back(i);
      plan_.of_rank[plan_.buckets[i].rank].push_back(i);
    }
    add_bucket_values(training_, parallel_, config_, grad_dtype_, program_, plan_);
    add_gathered_scales(training_, parallel_, config_, program_, plan_);
    return std::move(plan_);
  }

 private:
  const Tensor& tensor(TensorId id) const { return training_.graph.tensors[id]; }
  const Parameter& parameter(ParameterId index) const { return training_.graph.parameters[index]; }
  std::int32_t rank_of(std::int32_t stage) const { return forms_[stage].rank; }

  /// The parameter that a tensor is, or is a cast of.
  static ParameterId used_parameter(const Tensor& t) {
    const bool uses = t.role == TensorRole::kParameter || t.role == TensorRole::kOfStep;
    return uses ? t.parameter : kNoIndex;
  }

  /// Which stages use which parameter, in forward order; a rank's first stage keeps it.
  void find_users() {
    by_stage_.resize(training_.num_stages);
    ranks_.resize(training_.graph.parameters.size());
    again_.resize(training_.graph.parameters.size(), false);
    for (const Instruction& op : training_.forward) {
      for (TensorId read : op.reads) {
        const ParameterId index = used_parameter(tensor(read));
        if (index == kNoIndex) continue;
        const std::int32_t rank = rank_of(op.stage);
        auto& ranks = ranks_[index];
        if (std::find(ranks.begin(), ranks.end(), rank) != ranks.end()) {
          const auto& first = by_stage_[op.stage];
          if (std::find(first.begin(), first.end(), index) == first.end()) again_[index] = true;
          continue;
        }
        by_stage_[op.stage].push_back(index);
        ranks.push_back(rank);
      }
    }
    for (auto& ranks : ranks_) std::sort(ranks.begin(), ranks.end());
    for (auto& users : by_stage_) order_tied(users);
  }

  /// Ranks that share several parameters reduce them as they lie: in the order in which the first
  /// of the stages uses them.
  void order_tied(std::vector<ParameterId>& users) {
    std::vector<ParameterId> tied;
    const auto is_tied = [&](ParameterId index) { return ranks_[index].size() > 1; };
    std::copy_if(users.begin(), users.end(), std::back_inserter(tied), is_tied);
    for (const ParameterId index : tied) first_use_.try_emplace(index, first_use_.size());
    std::sort(tied.begin(), tied.end(),
              [&](ParameterId a, ParameterId b) { return first_use_.at(a) < first_use_.at(b); });
    auto next = tied.begin();
    for (ParameterId& index : users) {
      if (is_tied(index)) index = *next++;
    }
  }

  void find_owners() {
    owner_.assign(training_.graph.parameters.size(), -1);
    // What ranks with unlike numbers of replicas share: all of them have a first one.
    for (const ParameterId index : owner_.keys()) {
      if (!parallel_.replicas.empty() && ranks_[index].size() > 1) owner_[index] = 0;
    }
    for (std::int32_t rank = 0; rank < parallel_.pipeline; ++rank) {
      std::vector<ParameterId> held;
      std::vector<std::int32_t> known;
      std::vector<std::int64_t> sizes;
      for (std::int32_t stage = 0; stage < training_.num_stages; ++stage) {
        if (rank_of(stage) != rank) continue;
        for (const ParameterId index : by_stage_[stage]) {
          if (lies_in_shards(index)) continue;
          held.push_back(index);
          sizes.push_back(num_elements(tensor(parameter(index).tensor).shape));
          known.push_back(owner_[index]);
        }
      }
      const std::vector<std::int32_t> owners =
          balanced_owners(sizes, parallel_.replicas_at(rank), std::move(known));
      for (std::size_t i = 0; i < held.size(); ++i) owner_[held[i]] = owners[i];
    }
  }

  bool lies_in_shards(ParameterId index) const {
    const Parameter& p = parameter(index);
    return shards_beside_owners(replicated_over(tensor(p.tensor).spec), p.momentum, parallel_);
  }

  void fill_stage(std::int32_t stage) {
    // Parameters that are treated alike share buckets; the latest in the forward comes first.
    using Key = std::tuple<std::vector<std::int32_t>, AxisSet, AxisSet, std::int32_t, std::int32_t,
                           bool, bool, float>;
    std::map<Key, std::size_t> open;
    auto& users = by_stage_[stage];
    for (auto it = users.rbegin(); it != users.rend(); ++it) {
      const Parameter& p = parameter(*it);
      const auto& ranks = ranks_[*it];
      std::vector<std::int32_t> tied;
      if (ranks.size() > 1) tied.assign(ranks.begin(), ranks.end());
      const AxisSet replicated = replicated_over(tensor(p.tensor).spec);
      const auto partial = static_cast<AxisSet>(spec(p.used).entered & set_of(tensor_axes_));
      const std::int32_t owner = owner_.empty() ? -1 : owner_[*it];
      const bool alone = is_alone(replicated);
      const std::int32_t unit = unit_.empty() || p.momentum > 0 || alone ? kNoUnit : unit_[*it];
      // Weight halves of several stages come in any order: none of them knows that it is the last.
      // What ranks with unlike numbers of replicas share all of them add up at once.
      const bool each = reduces_each(parallel_) && p.momentum == 0 && !alone &&
                        !(again_[*it] && any_splits(forms_)) &&
                        !(ranks.size() > 1 && !parallel_.replicas.empty());
      const bool fp8 = is_fp8(tensor(p.tensor).dtype);
      const Key key{tied, replicated, partial, owner, unit, each, fp8, p.momentum};
      const std::int64_t elements = num_elements(tensor(p.tensor).shape);
      const auto known = open.find(key);
      if (known == open.end() ||
          (unit == kNoUnit &&
           plan_.buckets[known->second].filled + elements > config_.bucket_elements)) {
        Bucket bucket;
        bucket.stage = stage;
        bucket.rank = rank_of(stage);
        bucket.replicated = replicated;
        bucket.partial = partial;
        bucket.tied = tied;
        bucket.owner = owner;
        bucket.momentum = p.momentum;
        bucket.unit = unit;
        bucket.kept = unit == kRootUnit || parallel_.zero.reshard_after_forward == 1;
        bucket.resharded = unit != kNoUnit && !bucket.kept && parallel_.zero.reshards_to_some();
        bucket.reduced_each = each;
        bucket.gathers_fp8 = fp8;
        open[key] = plan_.buckets.size();
        plan_.buckets.push_back(std::move(bucket));
      }
      Bucket& bucket = plan_.buckets[open[key]];
      bucket.parameters.push_back(*it);
      bucket.filled += elements;
    }
  }

  /// Whether one rank has all of what other ranks have parts of: then there is nothing to gather,
  /// and nobody to add up with.
  bool is_alone(AxisSet replicated) const {
    const bool in_group = parallel_.dividing_ranks() > 1 && replicated != 0;
    return parallel_.shards() == 1 && !in_group && !parallel_.zero.offloads_parameters();
  }

  const TensorSpec& spec(SpecId id) const { return training_.graph.specs[id]; }
  AxisSet replicated_over(SpecId stored) const {
    AxisSet axes = set_of(tensor_axes_);
    for (const DimSplit& dim : spec(stored).dims) axes = static_cast<AxisSet>(axes & ~axes_in(dim));
    return axes;
  }

  const TrainingGraph& training_;
  const Numbered<StageForm>& forms_;
  const ParallelConfig& parallel_;
  const TrainingConfig& config_;
  DType grad_dtype_;
  Program& program_;
  Axes tensor_axes_;
  BucketPlan plan_;
  Indexed<std::int32_t, std::vector<ParameterId>> by_stage_;  // parameters that the stage keeps
  Indexed<ParameterId, boost::container::small_vector<std::int32_t, 2>>
      ranks_;                                     // pipeline ranks that use it
  Indexed<ParameterId, bool> again_;              // a further stage of a rank uses it, too
  std::map<ParameterId, std::size_t> first_use_;  // of tied ones: a place in their order
  Indexed<ParameterId, std::int32_t> owner_;      // empty: they have none
  Indexed<ParameterId, std::int32_t> unit_;       // that it is gathered with; empty: none is
};

}  // namespace

void BucketPlan::place(TensorId tensor, std::int32_t rank, ValueId value) {
  if (!first_.has(tensor))
    first_.resize(std::max(position(tensor) + 1, first_.size() * 2), {-1, kNoIndex});
  if (first_[tensor].second == kNoIndex) {
    first_[tensor] = {rank, value};
  } else {
    on_further_ranks_[{tensor, rank}] = value;
  }
}

ValueId BucketPlan::value(TensorId tensor, std::int32_t rank) const {
  const auto& [first_rank, first_value] = first_[tensor];
  return first_rank == rank ? first_value : on_further_ranks_.at({tensor, rank});
}

bool shards_state(const ParallelConfig& parallel) {
  return parallel.zero.stage >= 1 && parallel.zero.by != ZeroConfig::By::kParameter &&
         (parallel.shards() > 1 || parallel.dividing_ranks() > 1 ||
          parallel.zero.offloads_parameters());
}

bool shards_parameters(const ParallelConfig& parallel) {
  return shards_state(parallel) && parallel.zero.stage >= 3;
}

bool owns_parameters(const ParallelConfig& parallel) {
  return parallel.zero.stage >= 1 && parallel.gradient_ranks() > 1 &&
         parallel.zero.by == ZeroConfig::By::kParameter;
}

BucketPlan plan_buckets(const TrainingGraph& training, const Numbered<StageForm>& forms,
                        const ParallelConfig& parallel, const TrainingConfig& config,
                        DType grad_dtype, Program& program) {
  return BucketPlanner(training, forms, parallel, config, grad_dtype, program).run();
}

void size_buckets(BucketPlan& plan, const ParallelConfig& parallel, Program& program) {
  for (Bucket& bucket : plan.buckets) {
    const auto parts_at = [&](std::int32_t rank) {
      const int alike = divided_over(bucket, parallel) != 0 ? parallel.dividing_ranks() : 1;
      const std::int64_t ranks =
          std::int64_t{parallel.replicas_at(rank)} * parallel.context.degree * alike;
      return shards_state(bucket, parallel) ? ranks / parallel.zero.replicate : 1;
    };
    const std::int64_t parts = parts_at(bucket.rank);
    // Ranks that share weights reduce buckets of one length, whatever their replicas.
    std::int64_t whole = parts;
    for (const std::int32_t rank : bucket.tied) whole = std::lcm(whole, parts_at(rank));
    bucket.elements = bucket.packs() ? place_rows(bucket, whole, program)
                                     : (bucket.filled + whole - 1) / whole * whole;
    const auto resize = [&](ValueId id, std::int64_t extent) {
      program.values[id].dims = one_dim(extent);
    };
    for (const ValueId id : bucket.whole) resize(id, bucket.elements);
    for (const ValueId id : bucket.shards) resize(id, bucket.elements / parts);
    for (const ValueId id : bucket.pieces)
      resize(id, bucket.elements / parallel.zero.reshard_after_forward);
    if (bucket.gradient_slice != kNoIndex)
      resize(bucket.gradient_slice, bucket.elements / parallel.dividing_ranks());
  }
}

Indexed<ValueId, bool> sized_values(const BucketPlan& plan, const Program& program) {
  Indexed<ValueId, bool> sized(program.values.size(), false);
  for (const Bucket& bucket : plan.buckets) {
    for (const auto* values : {&bucket.whole, &bucket.shards, &bucket.pieces}) {
      for (const ValueId value : *values) sized[value] = true;
    }
    if (bucket.gradient_slice != kNoIndex) sized[bucket.gradient_slice] = true;
  }
  return sized;
}

}  // namespace trainyard
