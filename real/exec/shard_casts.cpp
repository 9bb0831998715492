#include "real/exec/shard_casts.h"

#include <algorithm>
#include <set>
#include <utility>

#include "engine/base/error.h"
#include "real/parameters/packed_rows.h"

namespace trainyard {

namespace {

/// Storages that ops of a kind make of any of these.
std::set<ValueId> made_of(const Program& program, const std::set<ValueId>& of, OpKind kind) {
  std::set<ValueId> out;
  for (const Segment& segment : program.segments) {
    for (const ProgramOp& op : segment.ops) {
      if (op.kind == kind && of.contains(storage_root(program, op.reads[0].value)))
        out.insert(storage_root(program, op.writes[0].value));
    }
  }
  return out;
}

/// Where the weights of a shard lie when they have been gathered.
ValueId bucket_of(const Program& program, ValueId shard) {
  const std::set<ValueId> cast =
      made_of(program, {storage_root(program, shard)}, OpKind::kQuantize);
  const std::set<ValueId> gathered = made_of(program, cast, OpKind::kAllGather);
  const std::set<ValueId> copied = made_of(program, gathered, OpKind::kCopyOut);
  const std::set<ValueId>& buckets = copied.empty() ? gathered : copied;
  check(!buckets.empty(), "a shard that is cast is gathered");
  return *buckets.begin();
}

/// First elements in the bucket, and how many they are.
std::vector<std::pair<std::int64_t, std::int64_t>> weights_of(const Program& program,
                                                              ValueId bucket) {
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  for (const Value& value : program.values) {
    const bool in = value.alias && value.alias->in == bucket;
    if (in && value.alias->own_shard == kNoIndex)
      out.emplace_back(value.alias->offset, num_elements(value.dims));
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

bool is_shard_cast(const ProgramOp& op) {
  return (op.kind == OpKind::kAmax || op.kind == OpKind::kQuantize) && op.group != kNoIndex;
}

std::vector<WeightPart> weights_in_shard(const Program& program, const ProgramOp& op,
                                         const Coordinate& at) {
  const ValueId shard = op.reads[0].value;
  const ValueId bucket = bucket_of(program, shard);
  const auto weights = weights_of(program, bucket);
  const std::int64_t size = num_elements(program.values[shard].dims);
  const std::int64_t begin = place_in_group(program.mesh, program.groups[op.group].axes, at) * size;
  const std::int64_t ranks = num_elements(program.values[bucket].dims) / size;
  const bool packed =
      std::any_of(program.segments.begin(), program.segments.end(), [&](const Segment& segment) {
        return std::any_of(segment.ops.begin(), segment.ops.end(), [&](const ProgramOp& one) {
          return one.kind == OpKind::kCopyOut &&
                 storage_root(program, one.writes[0].value) == bucket;
        });
      });
  // As the gathered shards have them, one behind the other.
  std::vector<PackedRows> runs = {{0, 0, size * ranks}};
  if (packed) runs = packed_runs(program, bucket, ranks);
  std::vector<WeightPart> out;
  for (const PackedRows& run : runs) {
    for (std::size_t k = 0; k < weights.size(); ++k) {
      const auto& [first, elements] = weights[k];
      const std::int64_t to_shards = run.packed - run.in_bucket;
      const std::int64_t from = std::max({first, run.in_bucket, begin - to_shards}) + to_shards;
      const std::int64_t end =
          std::min({first + elements, run.in_bucket + run.size, begin + size - to_shards}) +
          to_shards;
      if (from < end) out.push_back({from - begin, end - from, static_cast<std::int64_t>(k)});
    }
  }
  return out;
}

}  // namespace trainyard
