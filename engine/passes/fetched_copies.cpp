#include "engine/passes/fetched_copies.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/passes/fp8_gathers.h"
#include "engine/passes/step_reductions.h"

namespace trainyard {

namespace {

std::string suffix_of(std::int32_t stage, Phase phase) {
  return ">" + std::to_string(stage) + letter(phase);
}

}  // namespace

ProgramOp copy_of_gathered(const GatheredBucket& of, bool from_pieces, GroupId shards) {
  ProgramOp copy = copy_out_op(shards, of.packed, of.parameter);
  if (!from_pieces) return copy;
  copy.kind = OpKind::kDeviceCopy;
  copy.group = kNoIndex;
  return copy;
}

FetchedCopies::FetchedCopies(ProgramDraft& draft, const UnitUses& uses)
    : draft_(draft),
      uses_(uses),
      families_(draft.plan.buckets.size()) {
  for (const ValueId id : draft.program.values.keys()) {
    const InBucket& in = uses.in_bucket(id);
    if (in.as == InBucket::As::kParameter) families_[in.bucket].push_back(id);
  }
}

const GatheredBucket& FetchedCopies::get(std::size_t bucket, std::int32_t stage, Phase phase) {
  return find(bucket, stage, phase).gathered;
}

ValueId FetchedCopies::copy_of(ValueId value, std::size_t bucket, std::int32_t stage, Phase phase) {
  const std::map<ValueId, ValueId>& copies = find(bucket, stage, phase).of;
  const auto found = copies.find(value);
  return found == copies.end() ? value : found->second;
}

ValueId FetchedCopies::loaded(ValueId of, std::size_t bucket, std::int32_t stage, Phase phase) {
  const auto [known, fresh] = loaded_.try_emplace({of, stage, phase}, kNoIndex);
  if (!fresh) return known->second;
  Value value = draft_.program.values[of];
  value.name += suffix_of(stage, phase);
  value.scope = Scope::kMicrobatch;
  known->second = draft_.program.values.add(std::move(value));
  draft_.plan.buckets[bucket].shards.push_back(known->second);
  return known->second;
}

FetchedCopies::Copies& FetchedCopies::find(std::size_t bucket, std::int32_t stage, Phase phase) {
  const auto [known, fresh] = copies_.try_emplace(std::tuple(bucket, stage, phase));
  if (fresh) known->second = make(bucket, stage, phase);
  return known->second;
}

FetchedCopies::Copies FetchedCopies::make(std::size_t index, std::int32_t stage, Phase phase) {
  Bucket& bucket = draft_.plan.buckets[index];
  auto& values = draft_.program.values;
  Copies out;
  if (!bucket.packs() && values[bucket.parameter].scope == Scope::kMicrobatch) {
    out.gathered = {bucket.parameter, bucket.own_piece, bucket.cast_shard, kNoIndex, bucket.by};
    if (bucket.cast_shard != kNoIndex) values[bucket.cast_shard].scope = Scope::kMicrobatch;
    if (finds_amaxes_each_time(draft_.plan, bucket)) {
      for (const ValueId amaxes : {bucket.by.amaxes, bucket.by.all_amaxes})
        values[amaxes].scope = Scope::kMicrobatch;
    }
    return out;
  }
  const std::string suffix = suffix_of(stage, phase);
  const auto copy = [&](ValueId of) {
    Value value = values[of];
    value.name += suffix;
    value.scope = Scope::kMicrobatch;
    return out.of[of] = values.add(std::move(value));
  };
  const auto copy_family = [&](const auto& holds) {
    // Each stands behind what it lies in.
    for (const ValueId id : families_[index]) {
      if (!holds(storage_root(draft_.program, id))) continue;
      const ValueId made = copy(id);
      if (values[made].alias) values[made].alias->in = out.of.at(values[made].alias->in);
    }
  };
  out.gathered = {bucket.parameter, bucket.own_piece, kNoIndex, kNoIndex, bucket.by};
  const ValueId scales = bucket.by.scales;
  if (scales != kNoIndex && values[scales].scope == Scope::kLocal) {
    copy_family([&](ValueId root) { return root == scales; });
    out.gathered.by.scales = out.of.at(scales);
  }
  if (finds_amaxes_each_time(draft_.plan, bucket)) {
    const ValueId amaxes = out.gathered.by.amaxes = copy(bucket.by.amaxes);
    out.gathered.by.all_amaxes = copy(bucket.by.all_amaxes);
    values[out.gathered.by.all_amaxes].alias->in = amaxes;
  }
  if (bucket.packs()) {
    out.gathered.packed = copy(bucket.parameter_packed);  // from which the call itself copies
  } else {
    copy_family([&](ValueId root) { return root == bucket.parameter; });
    out.gathered.parameter = out.of.at(bucket.parameter);
    if (bucket.own_piece != kNoIndex) out.gathered.own_piece = out.of.at(bucket.own_piece);
  }
  const auto sized = [&](std::vector<ValueId>& of_length) {
    std::vector<ValueId> made;
    for (const ValueId id : of_length) {
      if (out.of.contains(id)) made.push_back(out.of.at(id));
    }
    of_length.insert(of_length.end(), made.begin(), made.end());
  };
  if (bucket.cast_shard != kNoIndex && !uses_.has_piece(index, phase))
    out.gathered.cast_shard = copy(bucket.cast_shard);
  sized(bucket.whole);
  sized(bucket.shards);
  sized(bucket.pieces);
  return out;
}

}  // namespace trainyard
