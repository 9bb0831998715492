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
#include "engine/passes/plan_mesh.h"

namespace trainyard {

namespace {

Dims one_dim(std::int64_t extent) { return {Dim{extent, extent, -1}}; }

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
        tensor_axes_(program.groups[kTensorGroup].axes),
        data_axes_(program.groups[kDataGroup].axes) {}

  BucketPlan run() {
    find_users();
    if (owns_parameters(parallel_)) find_owners();
    for (std::int32_t stage = 0; stage < training_.num_stages; ++stage) fill_stage(stage);
    plan_.of_stage.resize(training_.num_stages);
    plan_.of_rank.resize(parallel_.pipeline);
    for (std::size_t i = 0; i < plan_.buckets.size(); ++i) {
      plan_.of_stage[plan_.buckets[i].stage].push_back(i);
      plan_.of_rank[plan_.buckets[i].rank].push_back(i);
      add_values(i);
    }
    return std::move(plan_);
  }

 private:
  const Tensor& tensor(TensorId id) const { return training_.graph.tensors[id]; }
  const Parameter& parameter(ParameterId index) const { return training_.graph.parameters[index]; }
  std::int32_t rank_of(std::int32_t stage) const { return forms_[stage].rank; }

  /// Which stages use which parameter, in forward order; a rank's first stage keeps it.
  void find_users() {
    by_stage_.resize(training_.num_stages);
    ranks_.resize(training_.graph.parameters.size());
    for (const Instruction& op : training_.forward) {
      for (TensorId read : op.reads) {
        if (tensor(read).role != TensorRole::kParameter) continue;
        const ParameterId index = tensor(read).parameter;
        const std::int32_t rank = rank_of(op.stage);
        auto& ranks = ranks_[index];
        if (std::find(ranks.begin(), ranks.end(), rank) != ranks.end()) continue;
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
    for (std::int32_t rank = 0; rank < parallel_.pipeline; ++rank) {
      std::vector<ParameterId> held;
      std::vector<std::int32_t> known;
      std::vector<std::int64_t> sizes;
      for (std::int32_t stage = 0; stage < training_.num_stages; ++stage) {
        if (rank_of(stage) != rank) continue;
        for (const ParameterId index : by_stage_[stage]) {
          held.push_back(index);
          sizes.push_back(num_elements(tensor(parameter(index).tensor).shape));
          known.push_back(owner_[index]);
        }
      }
      const std::vector<std::int32_t> owners =
          balanced_owners(sizes, parallel_.data, std::move(known));
      for (std::size_t i = 0; i < held.size(); ++i) owner_[held[i]] = owners[i];
    }
  }

  void fill_stage(std::int32_t stage) {
    // Parameters that are treated alike share buckets; the latest in the forward comes first.
    using Key = std::tuple<std::vector<std::int32_t>, AxisSet, AxisSet, std::int32_t, float>;
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
      const Key key{tied, replicated, partial, owner, p.momentum};
      const std::int64_t elements = num_elements(tensor(p.tensor).shape);
      const auto known = open.find(key);
      if (known == open.end() ||
          plan_.buckets[known->second].filled + elements > config_.bucket_elements) {
        Bucket bucket;
        bucket.stage = stage;
        bucket.rank = rank_of(stage);
        bucket.replicated = replicated;
        bucket.partial = partial;
        bucket.tied = tied;
        bucket.owner = owner;
        bucket.momentum = p.momentum;
        open[key] = plan_.buckets.size();
        plan_.buckets.push_back(std::move(bucket));
      }
      Bucket& bucket = plan_.buckets[open[key]];
      bucket.parameters.push_back(*it);
      bucket.filled += elements;
    }
  }

  ValueId add_value(Value value) { return program_.values.add(std::move(value)); }

  const TensorSpec& spec(SpecId id) const { return training_.graph.specs[id]; }
  AxisSet replicated_over(SpecId stored) const {
    AxisSet axes = set_of(tensor_axes_);
    for (const DimSplit& dim : spec(stored).dims) axes = static_cast<AxisSet>(axes & ~axes_in(dim));
    return axes;
  }

  /// A buffer's one dim, of which a rank has the parameters that it holds, or its shard of them.
  TensorSpec flat_spec(const Bucket& bucket, bool sharded) const {
    TensorSpec out = replicated_spec(1);
    Axes& axes = out.dims[0].parts[0].axes;
    for (const AxisId axis : tensor_axes_) {
      if (!has(bucket.replicated, axis)) axes.push_back(axis);
    }
    if (sharded) axes.insert(axes.end(), data_axes_.begin(), data_axes_.end());
    return out;
  }
  TensorSpec gradient_spec(const Bucket& bucket) const {
    TensorSpec out = flat_spec(bucket, false);
    out.partial = static_cast<AxisSet>(set_of(data_axes_) | bucket.partial);
    return out;
  }
  /// What only the owner has.
  TensorSpec owned_spec(const Bucket& bucket) const {
    TensorSpec out = flat_spec(bucket, false);
    check(data_axes_.size() == 1, "owners are told apart by one axis");
    out.held.push_back({data_axes_.front(), bucket.owner});
    return out;
  }

  ValueId buffer(const std::string& name, DType dtype, Scope scope, MemoryClass memory,
                 const TensorSpec& spec) {
    Value value;
    value.name = name;
    value.dtype = dtype;
    value.scope = scope;
    value.memory = memory;
    value.spec = add_spec(program_, spec);
    return add_value(std::move(value));
  }

  ValueId own_shard(const std::string& name, ValueId of, const Bucket& bucket) {
    Value value = program_.values[of];
    value.name = name;
    value.spec = add_spec(program_, flat_spec(bucket, true));
    value.alias = Alias{of, 0, kDataGroup};
    return add_value(std::move(value));
  }

  ValueId owned_view(const std::string& name, ValueId of, const Bucket& bucket) {
    Value value = program_.values[of];
    value.name = name;
    value.spec = add_spec(program_, owned_spec(bucket));
    value.alias = Alias{of, 0, kNoIndex};
    value.owner = static_cast<std::int16_t>(bucket.owner);
    return add_value(std::move(value));
  }

  void add_values(std::size_t index) {
    Bucket& bucket = plan_.buckets[index];
    const bool zero = shards_state(parallel_);
    const std::string name = "b" + std::to_string(index);
    const bool half = config_.precision == DType::kFp16 || config_.precision == DType::kBf16;
    const DType state = config_.precision == DType::kFp64 ? DType::kFp64 : DType::kFp32;

    bucket.parameter = buffer(name + ".param", config_.precision, Scope::kPersistent,
                              MemoryClass::kParameter, flat_spec(bucket, false));
    bucket.gradient = buffer(name + ".grad", grad_dtype_, Scope::kStep, MemoryClass::kGradient,
                             gradient_spec(bucket));
    bucket.whole = {bucket.parameter, bucket.gradient};
    if (zero) {
      bucket.parameter_shard = own_shard(name + ".param_shard", bucket.parameter, bucket);
      bucket.gradient_shard = own_shard(name + ".grad_shard", bucket.gradient, bucket);
      bucket.shards = {bucket.parameter_shard, bucket.gradient_shard};
    }
    if (bucket.owner >= 0) {
      bucket.parameter_shard = owned_view(name + ".param_own", bucket.parameter, bucket);
      bucket.whole.push_back(bucket.parameter_shard);
    }
    const auto state_buffer = [&](const std::string& suffix) {
      const ValueId id =
          buffer(name + suffix, state, Scope::kPersistent, MemoryClass::kOptimizerState,
                 bucket.owner >= 0 ? owned_spec(bucket) : flat_spec(bucket, zero));
      program_.values[id].owner = static_cast<std::int16_t>(bucket.owner);
      (zero ? bucket.shards : bucket.whole).push_back(id);
      return id;
    };
    if (half) bucket.master = state_buffer(".master");
    if (config_.optimizer == Optimizer::kAdamW && bucket.momentum == 0) {
      bucket.first_moment = state_buffer(".exp_avg");
      bucket.second_moment = state_buffer(".exp_avg_sq");
    }
    std::int64_t offset = 0;
    for (const ParameterId p : bucket.parameters) {
      const TensorId weight = parameter(p).tensor;
      const TensorId gradient = training_.parameter_gradient[p];
      const bool replica = !bucket.tied.empty() && bucket.tied.front() != bucket.rank;
      const std::string suffix = replica ? "@" + std::to_string(bucket.stage) : "";
      add_view(weight, bucket, bucket.parameter, offset, suffix);
      add_view(gradient, bucket, bucket.gradient, offset, suffix);
      offset += num_elements(tensor(weight).shape);
    }
  }

  void add_view(TensorId id, const Bucket& bucket, ValueId in, std::int64_t offset,
                const std::string& suffix) {
    const Tensor& t = tensor(id);
    Value value = program_.values[in];
    value.name = t.name + suffix;
    value.dims.clear();
    for (std::int64_t extent : t.shape) value.dims.push_back({extent, extent, -1});
    value.spec = add_spec(program_, spec(t.spec));
    value.alias = Alias{in, offset, kNoIndex};
    plan_.place(id, bucket.rank, add_value(std::move(value)));
  }

  const TrainingGraph& training_;
  const Numbered<StageForm>& forms_;
  const ParallelConfig& parallel_;
  const TrainingConfig& config_;
  DType grad_dtype_;
  Program& program_;
  Axes tensor_axes_, data_axes_;
  BucketPlan plan_;
  Indexed<std::int32_t, std::vector<ParameterId>> by_stage_;  // parameters that the stage keeps
  Indexed<ParameterId, boost::container::small_vector<std::int32_t, 2>>
      ranks_;                                     // pipeline ranks that use it
  std::map<ParameterId, std::size_t> first_use_;  // of tied ones: a place in their order
  Indexed<ParameterId, std::int32_t> owner_;      // empty: they have none
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
  return parallel.zero.stage >= 1 && parallel.data > 1 &&
         parallel.zero.by == ZeroConfig::By::kShard;
}

bool owns_parameters(const ParallelConfig& parallel) {
  return parallel.zero.stage >= 1 && parallel.data > 1 &&
         parallel.zero.by == ZeroConfig::By::kParameter;
}

BucketPlan plan_buckets(const TrainingGraph& training, const Numbered<StageForm>& forms,
                        const ParallelConfig& parallel, const TrainingConfig& config,
                        DType grad_dtype, Program& program) {
  return BucketPlanner(training, forms, parallel, config, grad_dtype, program).run();
}

void size_buckets(BucketPlan& plan, const ParallelConfig& parallel, Program& program) {
  for (Bucket& bucket : plan.buckets) {
    const std::int64_t parts = shards_state(parallel) ? parallel.replicas_at(bucket.rank) : 1;
    // Ranks that share weights reduce buckets of one length, whatever their replicas.
    std::int64_t whole = parts;
    for (const std::int32_t rank : bucket.tied)
      whole = shards_state(parallel) ? std::lcm(whole, parallel.replicas_at(rank)) : 1;
    bucket.elements = (bucket.filled + whole - 1) / whole * whole;
    const auto resize = [&](ValueId id, std::int64_t extent) {
      program.values[id].dims = one_dim(extent);
    };
    for (const ValueId id : bucket.whole) resize(id, bucket.elements);
    for (const ValueId id : bucket.shards) resize(id, bucket.elements / parts);
  }
}

}  // namespace trainyard
