#include "engine/passes/bucket_values.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "engine/passes/divided_state.h"
#include "engine/passes/plan_mesh.h"

namespace trainyard {

namespace {

class BucketValues {
 public:
  BucketValues(const TrainingGraph& training, const ParallelConfig& parallel,
               const TrainingConfig& config, DType grad_dtype, Program& program, BucketPlan& plan)
      : training_(training),
        parallel_(parallel),
        config_(config),
        grad_dtype_(grad_dtype),
        program_(program),
        plan_(plan),
        tensor_axes_(program.groups[kTensorGroup].axes),
        data_axes_(program.groups[kDataGroup].axes),
        replicate_group_(trainyard::replicate_group(program, parallel)),
        reshard_group_(trainyard::reshard_group(program, parallel)) {}

  void add(std::size_t index) {
    Bucket& bucket = plan_.buckets[index];
    shard_group_ = shard_group_of(program_, bucket, parallel_);
    sharded_ = shards_state(bucket, parallel_);
    const std::string name = "b" + std::to_string(index);
    // Averages have no state that a host could update.
    bucket.on_host = parallel_.zero.offloads_state() && bucket.momentum == 0;
    bucket.away = parallel_.zero.offloads_parameters() && bucket.is_gathered();
    const DType reduced_type = sharded_ && bucket.reduced_each
                                   ? parallel_.zero.reduce_dtype.value_or(grad_dtype_)
                                   : grad_dtype_;
    // What is copied to be reduced is of the parameters' type till then.
    const bool casts = packs(bucket) && bucket.reduced_each && is_half();
    add_whole(bucket, name, casts ? config_.precision : reduced_type);
    if (sharded_) {
      add_shards(bucket, name, reduced_type);
    } else if (bucket.reduced_each) {
      add_whole_sums(bucket, name);
    }
    if (bucket.owner >= 0) {
      bucket.parameter_shard = owned_view(name + ".param_own", bucket.parameter, bucket);
      bucket.whole.push_back(bucket.parameter_shard);
    }
    add_state(bucket, name);
    if (bucket.on_host) add_host_gradient(bucket, name);
    if (is_copied(bucket)) add_new_weights(bucket, name);
    std::int64_t offset = 0;
    for (const ParameterId p : bucket.parameters) {
      const TensorId weight = parameter(p).tensor;
      const TensorId gradient = training_.parameter_gradient[p];
      const bool replica = !bucket.tied.empty() && bucket.tied.front() != bucket.rank;
      const std::string suffix = replica ? "@" + std::to_string(bucket.stage) : "";
      add_view(weight, bucket, bucket.parameter, offset, suffix);
      add_view(gradient, bucket, bucket.gradient, offset, suffix);
      if (bucket.packs()) bucket.rows.push_back(rows_of(bucket, weight, gradient));
      offset += num_elements(tensor(weight).shape);
    }
  }

 private:
  bool packs(const Bucket& bucket) const {
    return parallel_.zero.by == ZeroConfig::By::kRows && bucket.is_gathered() &&
           !program_.groups[shard_group_].axes.empty();
  }
  Bucket::Rows rows_of(const Bucket& bucket, TensorId weight, TensorId gradient) const {
    const auto& shape = tensor(weight).shape;
    return {plan_.value(weight, bucket.rank), plan_.value(gradient, bucket.rank), shape[0],
            num_elements(shape) / shape[0]};
  }

  bool is_half() const {
    return config_.precision == DType::kFp16 || config_.precision == DType::kBf16;
  }
  DType gathered_type(const Bucket& bucket) const {
    return bucket.gathers_fp8 ? DType::kE4m3 : config_.precision;
  }
  DType state_dtype() const {
    return config_.precision == DType::kFp64 ? DType::kFp64 : DType::kFp32;
  }
  const Tensor& tensor(TensorId id) const { return training_.graph.tensors[id]; }
  const Parameter& parameter(ParameterId index) const { return training_.graph.parameters[index]; }
  const TensorSpec& spec(SpecId id) const { return training_.graph.specs[id]; }
  ValueId add_value(Value value) { return program_.values.add(std::move(value)); }

  void add_state(Bucket& bucket, const std::string& name) {
    const auto state_buffer = [&](const std::string& suffix) {
      const ValueId id =
          buffer(name + suffix, state_dtype(), Scope::kPersistent, MemoryClass::kOptimizerState,
                 bucket.owner >= 0 ? owned_spec(bucket) : flat_spec(bucket, sharded_));
      Value& value = program_.values[id];
      value.owner = static_cast<std::int16_t>(bucket.owner);
      if (bucket.on_host) value.space = space_of(parallel_.zero.offload.optimizer);
      (sharded_ ? bucket.shards : bucket.whole).push_back(id);
      return id;
    };
    // What is updated in one memory cannot lie in the other, too: then there is always a master.
    if (bucket.on_host || bucket.away || (is_half() && !bucket.is_gathered()))
      bucket.master = state_buffer(".master");
    if (config_.optimizer == Optimizer::kAdamW && bucket.momentum == 0) {
      bucket.first_moment = state_buffer(".exp_avg");
      bucket.second_moment = state_buffer(".exp_avg_sq");
    }
    if (!bucket.on_host || parallel_.zero.offload.optimizer != ZeroConfig::Place::kNvme) return;
    bucket.master_read = state_slot(bucket, bucket.master);
    if (bucket.first_moment == kNoIndex) return;
    bucket.first_read = state_slot(bucket, bucket.first_moment);
    bucket.second_read = state_slot(bucket, bucket.second_moment);
  }

  static Space space_of(ZeroConfig::Place place) {
    switch (place) {
      case ZeroConfig::Place::kDevice: return Space::kDevice;
      case ZeroConfig::Place::kHost: return Space::kHost;
      case ZeroConfig::Place::kNvme: return Space::kNvme;
    }
    return Space::kDevice;
  }

  /// In the memory of the host, in a slot that the buckets of a rank share.
  ValueId host_slot(Bucket& bucket, const std::string& name, DType dtype, MemoryClass memory,
                    const std::string& pool) {
    const ValueId id = buffer(name, dtype, Scope::kStep, memory, flat_spec(bucket, sharded_));
    (sharded_ ? bucket.shards : bucket.whole).push_back(id);
    Value& value = program_.values[id];
    value.pool = host_pool(program_, pool + "@" + std::to_string(bucket.rank));
    value.space = Space::kHost;
    return id;
  }
  ValueId state_slot(Bucket& bucket, ValueId state) {
    return host_slot(bucket, program_.values[state].name + "_read", state_dtype(),
                     MemoryClass::kOptimizerState, "state");
  }

  /// Whether weights lie elsewhere than where they are updated.
  bool is_copied(const Bucket& bucket) const {
    const Space updated = bucket.on_host ? Space::kHost : Space::kDevice;
    return updated != (bucket.away ? space_of(parallel_.zero.offload.parameters) : Space::kDevice);
  }

  /// What the host is sent to update by.
  void add_host_gradient(Bucket& bucket, const std::string& name) {
    bucket.host_gradient = buffer(name + ".grad_host", grad_dtype_, Scope::kPersistent,
                                  MemoryClass::kGradient, flat_spec(bucket, sharded_));
    program_.values[bucket.host_gradient].space = Space::kHost;
    (sharded_ ? bucket.shards : bucket.whole).push_back(bucket.host_gradient);
  }

  /// What the host sends back, or on to its drives, and the device to the host.
  void add_new_weights(Bucket& bucket, const std::string& name) {
    const bool on_nvme =
        bucket.away && parallel_.zero.offload.parameters == ZeroConfig::Place::kNvme;
    const auto slot = [&] {
      return host_slot(bucket, name + ".param_host", config_.precision, MemoryClass::kParameter,
                       "weights");
    };
    if (bucket.on_host) {
      bucket.new_weights = slot();
      return;
    }
    bucket.new_weights = buffer(name + ".param_new", config_.precision, Scope::kStep,
                                MemoryClass::kParameter, flat_spec(bucket, sharded_));
    (sharded_ ? bucket.shards : bucket.whole).push_back(bucket.new_weights);
    if (on_nvme) bucket.passing_weights = slot();
  }

  /// A buffer's one dim, of which a rank has the parameters that it holds, or its shard of them.
  TensorSpec flat_spec(const Bucket& bucket, bool sharded) const {
    return cut_spec(bucket, sharded ? program_.groups[shard_group_].axes : Axes{});
  }
  TensorSpec cut_spec(const Bucket& bucket, const Axes& over) const {
    TensorSpec out = replicated_spec(1);
    Axes& axes = out.dims[0].parts[0].axes;
    for (const AxisId axis : tensor_axes_) {
      if (!has(bucket.replicated, axis)) axes.push_back(axis);
    }
    axes.insert(axes.end(), over.begin(), over.end());
    return out;
  }
  TensorSpec gradient_spec(const Bucket& bucket) const {
    TensorSpec out = flat_spec(bucket, false);
    out.partial = static_cast<AxisSet>(set_of(data_axes_) | bucket.partial);
    return out;
  }
  /// What a rank reduces of a gradient that is alike along some axes.
  void add_slice(Bucket& bucket, const std::string& name) {
    const Axes over = axes_of(sliced_over(bucket, parallel_));
    if (over.empty()) return;
    const ValueId of = bucket.packs() ? bucket.gradient_packed : bucket.gradient;
    bucket.gradient_slice = own_part(name + ".grad_slice", of, bucket, group_over(program_, over));
    TensorSpec summands = cut_spec(bucket, over);
    summands.partial = gradient_spec(bucket).partial;
    program_.values[bucket.gradient_slice].spec = add_spec(program_, summands);
  }
  /// A shard of the sum over all replicas.
  TensorSpec sum_spec(const Bucket& bucket) const {
    TensorSpec out = flat_spec(bucket, true);
    out.partial = static_cast<AxisSet>(bucket.partial & ~divided_over(bucket, parallel_));
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

  ValueId own_part(const std::string& name, ValueId of, const Bucket& bucket, GroupId among) {
    Value value = program_.values[of];
    value.name = name;
    value.spec = add_spec(program_, cut_spec(bucket, program_.groups[among].axes));
    value.alias = Alias{of, 0, among};
    return add_value(std::move(value));
  }
  ValueId own_shard(const std::string& name, ValueId of, const Bucket& bucket) {
    return own_part(name, of, bucket, shard_group_);
  }

  ValueId owned_view(const std::string& name, ValueId of, const Bucket& bucket) {
    Value value = program_.values[of];
    value.name = name;
    value.spec = add_spec(program_, owned_spec(bucket));
    value.alias = Alias{of, 0, kNoIndex};
    value.owner = static_cast<std::int16_t>(bucket.owner);
    return add_value(std::move(value));
  }

  /// What is gathered or reduced within a step is so by segments: gather_units().
  void add_whole(Bucket& bucket, const std::string& name, DType gradient_type) {
    const Scope scope = bucket.is_gathered() ? Scope::kStep : Scope::kPersistent;
    bucket.parameter = buffer(name + ".param", gathered_type(bucket), scope,
                              MemoryClass::kParameter, flat_spec(bucket, false));
    bucket.gradient = buffer(name + ".grad", gradient_type, Scope::kStep, MemoryClass::kGradient,
                             gradient_spec(bucket));
    bucket.whole = {bucket.parameter, bucket.gradient};
  }

  /// The sum over one group of replicas, and in the same storage that over all.
  void add_sums(Bucket& bucket, const std::string& name, DType type) {
    if (bucket.gradient_slice != kNoIndex &&
        program_.groups[reduce_group_of(program_, bucket, parallel_)].axes.empty()) {
      bucket.gradient_part = bucket.gradient_sum = bucket.gradient_slice;
      return;
    }
    bucket.gradient_part = bucket.gradient_sum =
        buffer(name + ".grad_sum", type, Scope::kLocal, MemoryClass::kGradient, sum_spec(bucket));
    bucket.shards.push_back(bucket.gradient_sum);
    if (replicate_group_ == kNoIndex) return;
    Value sum = program_.values[bucket.gradient_part];
    Value& part = program_.values[bucket.gradient_part];
    part.name = name + ".grad_part";
    TensorSpec spec = sum_spec(bucket);
    spec.partial =
        static_cast<AxisSet>(spec.partial | set_of(program_.groups[replicate_group_].axes));
    part.spec = add_spec(program_, spec);
    sum.alias = Alias{bucket.gradient_part, 0, kNoIndex};
    bucket.gradient_sum = add_value(std::move(sum));
    bucket.shards.push_back(bucket.gradient_sum);
  }

  /// The sum of a microbatch over all replicas, and what those of all microbatches add up in.
  void add_whole_sums(Bucket& bucket, const std::string& name) {
    TensorSpec summed = flat_spec(bucket, false);
    summed.partial = static_cast<AxisSet>(bucket.partial & ~summands_over(bucket, parallel_));
    Value sum = program_.values[bucket.gradient];
    sum.name = name + ".grad_sum";
    sum.spec = add_spec(program_, summed);
    sum.alias = Alias{bucket.gradient, 0, kNoIndex};
    bucket.gradient_sum = add_value(std::move(sum));
    bucket.gradient_shard =
        buffer(name + ".grad_all", grad_dtype_, Scope::kStep, MemoryClass::kGradient, summed);
    bucket.whole.insert(bucket.whole.end(), {bucket.gradient_sum, bucket.gradient_shard});
  }

  /// As FSDP has them: in the type that the optimizer updates, and cast for each gather. There is
  /// no second copy in 16 bits. Where there is a master, only what is gathered.
  void add_parameter_shards(Bucket& bucket, const std::string& name) {
    const bool widens = is_half() && !bucket.on_host && !bucket.away;
    const DType type = widens ? state_dtype() : config_.precision;
    bucket.parameter_shard = buffer(name + ".param_shard", type, Scope::kPersistent,
                                    MemoryClass::kParameter, flat_spec(bucket, true));
    if (bucket.away) {
      const ZeroConfig::Place place = parallel_.zero.offload.parameters;
      program_.values[bucket.parameter_shard].space = space_of(place);
      if (place == ZeroConfig::Place::kNvme)
        bucket.shard_read =
            host_slot(bucket, name + ".param_read", type, MemoryClass::kBuffer, "reads");
      bucket.loaded = buffer(name + ".param_load", type, Scope::kStep, MemoryClass::kBuffer,
                             flat_spec(bucket, true));
      bucket.shards.push_back(bucket.loaded);
    }
    if (!widens && !bucket.gathers_fp8) return;
    bucket.cast_shard = buffer(name + ".param_cast", gathered_type(bucket), Scope::kStep,
                               MemoryClass::kBuffer, flat_spec(bucket, true));
    bucket.shards.push_back(bucket.cast_shard);
  }

  /// What is left of a gathered bucket from its forward to its backward.
  void add_piece(Bucket& bucket, const std::string& name) {
    bucket.own_piece = own_part(name + ".param_part", bucket.parameter, bucket, reshard_group_);
    bucket.piece =
        buffer(name + ".param_piece", gathered_type(bucket), Scope::kStep, MemoryClass::kParameter,
               cut_spec(bucket, program_.groups[reshard_group_].axes));
    bucket.pieces = {bucket.own_piece, bucket.piece};
  }

  /// What is gathered and what is reduced, where parameters lie in it by their rows.
  void add_packed(Bucket& bucket, const std::string& name, DType gradient_type) {
    bucket.parameter_packed = buffer(name + ".param_packed", gathered_type(bucket), Scope::kStep,
                                     MemoryClass::kParameter, flat_spec(bucket, false));
    bucket.gradient_packed = buffer(name + ".grad_packed", gradient_type, Scope::kStep,
                                    MemoryClass::kGradient, gradient_spec(bucket));
    bucket.whole.insert(bucket.whole.end(), {bucket.parameter_packed, bucket.gradient_packed});
  }

  void add_shards(Bucket& bucket, const std::string& name, DType gradient_type) {
    if (bucket.is_gathered()) {
      if (packs(bucket)) add_packed(bucket, name, gradient_type);
      add_parameter_shards(bucket, name);
      if (bucket.resharded) add_piece(bucket, name);
    } else {
      bucket.parameter_shard = own_shard(name + ".param_shard", bucket.parameter, bucket);
    }
    bucket.shards.push_back(bucket.parameter_shard);
    add_slice(bucket, name);
    if (bucket.reduced_each) {
      add_sums(bucket, name, gradient_type);
      bucket.gradient_shard = buffer(name + ".grad_shard", grad_dtype_, Scope::kStep,
                                     MemoryClass::kGradient, sum_spec(bucket));
      bucket.shards.push_back(bucket.gradient_shard);
    } else {
      const ValueId reduced = bucket.packs() ? bucket.gradient_packed : bucket.gradient;
      bucket.gradient_shard = own_shard(name + ".grad_shard", reduced, bucket);
      bucket.shards.push_back(bucket.gradient_shard);
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
  const ParallelConfig& parallel_;
  const TrainingConfig& config_;
  DType grad_dtype_;
  Program& program_;
  BucketPlan& plan_;
  Axes tensor_axes_, data_axes_;
  GroupId shard_group_ = kNoIndex;  // of the bucket at hand
  GroupId replicate_group_, reshard_group_;
  bool sharded_ = false;
};

}  // namespace

PoolId host_pool(Program& program, const std::string& name) {
  const auto known = std::find_if(program.pools.begin(), program.pools.end(),
                                  [&](const Pool& pool) { return pool.name == name; });
  if (known != program.pools.end()) return PoolId(known - program.pools.begin());
  return program.pools.add({name, 0, Space::kHost});
}

void add_bucket_values(const TrainingGraph& training, const ParallelConfig& parallel,
                       const TrainingConfig& config, DType grad_dtype, Program& program,
                       BucketPlan& plan) {
  BucketValues values(training, parallel, config, grad_dtype, program, plan);
  for (std::size_t i = 0; i < plan.buckets.size(); ++i) values.add(i);
}

}  // namespace trainyard
