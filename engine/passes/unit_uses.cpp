#include "engine/passes/unit_uses.h"

#include <algorithm>
#include <utility>

#include "engine/passes/fp8_gathers.h"

namespace trainyard {

UnitUses::UnitUses(ProgramDraft& draft) : draft_(draft) {
  find_buckets();
  for (const Segment& segment : draft.program.segments) {
    if (!computes(segment)) continue;
    for (const ProgramOp& op : segment.ops) {
      for_buckets(op, [&](std::size_t bucket, bool adds) {
        (adds ? added_in_ : read_in_).insert({bucket, segment.phase});
      });
    }
  }
  set_scopes();
}

void UnitUses::find_buckets() {
  const Program& program = draft_.program;
  in_bucket_.resize(program.values.size());
  for (std::size_t i = 0; i < buckets().size(); ++i) {
    const Bucket& bucket = buckets()[i];
    if (bucket.is_gathered()) in_bucket_[bucket.parameter] = {i, InBucket::As::kParameter};
    // They are there as long as what they belong to.
    if (bucket.gathers_fp8) in_bucket_[bucket.by.scales] = {i, InBucket::As::kParameter};
    if (bucket.reduced_each) in_bucket_[bucket.gradient] = {i, InBucket::As::kGradient};
  }
  for (const ValueId id : program.values.keys())
    in_bucket_[id] = in_bucket_[storage_root(program, id)];
}

/// Whether every backward is the call behind its forward: else several microbatches are between
/// the two at once.
bool UnitUses::backward_at_once() const {
  return std::all_of(draft_.forms.begin(), draft_.forms.end(),
                     [](const StageForm& form) { return form.at_once; });
}

void UnitUses::set_scopes() {
  const Scope kept = backward_at_once() ? Scope::kMicrobatch : Scope::kStep;
  const Scope added = any_splits(draft_.forms) ? Scope::kMicrobatch : Scope::kLocal;
  auto& values = draft_.program.values;
  for (const ValueId id : values.keys()) {
    const auto& [bucket, as] = in_bucket_[id];
    if (as == InBucket::As::kGradient) values[id].scope = added;
    if (as == InBucket::As::kParameter)
      values[id].scope = buckets()[bucket].kept ? kept : Scope::kLocal;
  }
  for (const Bucket& bucket : buckets()) {
    if (bucket.resharded) values[bucket.piece].scope = kept;
    // They go once what is gathered of them is there, or with the step.
    const bool stays = bucket.kept && kept == Scope::kStep;
    for (const ValueId source :
         {bucket.cast_shard, bucket.shard_read, bucket.loaded, bucket.parameter_packed}) {
      if (source != kNoIndex) values[source].scope = stays ? Scope::kStep : Scope::kLocal;
    }
    if (finds_amaxes_each_time(draft_.plan, bucket)) {
      for (const ValueId amaxes : {bucket.by.amaxes, bucket.by.all_amaxes})
        values[amaxes].scope = stays ? Scope::kStep : Scope::kLocal;
    }
    if (!bucket.packs() || !bucket.reduced_each) continue;
    for (const ValueId packed : {bucket.gradient_packed, bucket.gradient_slice}) {
      if (packed != kNoIndex) values[packed].scope = Scope::kLocal;
    }
  }
}

/// Buckets that are gathered alike compute together; others each by itself.
std::pair<std::int32_t, std::int64_t> UnitUses::unit_of(std::size_t bucket) const {
  const Bucket& of = buckets()[bucket];
  if (!of.is_gathered()) return {-1, static_cast<std::int64_t>(bucket)};
  return {of.stage, of.unit};
}

/// Whether no piece of a microbatch reads it behind this phase: a forward's embedding has none.
bool UnitUses::is_read_last(std::size_t bucket, Phase phase) const {
  if (is_read(bucket, Phase::kBackwardWeight))
    return phase == Phase::kBackward || phase == Phase::kBackwardWeight;
  if (is_read(bucket, Phase::kBackward) || is_read(bucket, Phase::kBackwardInput))
    return phase == Phase::kBackward || phase == Phase::kBackwardInput;
  return phase == (is_read(bucket, Phase::kRecompute) ? Phase::kRecompute : Phase::kForward);
}

Scope UnitUses::scope_of(std::size_t bucket) const {
  return draft_.program.values[buckets()[bucket].parameter].scope;
}
Scope UnitUses::piece_scope(std::size_t bucket) const {
  return draft_.program.values[buckets()[bucket].piece].scope;
}

/// Whether this phase leaves a piece of what it has gathered.
bool UnitUses::reshards(std::size_t bucket, Phase phase) const {
  return buckets()[bucket].resharded && phase == Phase::kForward &&
         piece_scope(bucket) == Scope::kMicrobatch && !is_read_last(bucket, phase);
}
bool UnitUses::has_piece(std::size_t bucket, Phase phase) const {
  return buckets()[bucket].resharded &&
         (phase != Phase::kForward || piece_scope(bucket) == Scope::kStep);
}
bool UnitUses::loads(std::size_t bucket, Phase phase) const {
  return buckets()[bucket].away && !has_piece(bucket, phase);
}
bool UnitUses::ends_piece(std::size_t bucket, Phase phase) const {
  return has_piece(bucket, phase) && piece_scope(bucket) == Scope::kMicrobatch &&
         is_read_last(bucket, phase);
}

std::vector<UnitUse> UnitUses::find(const Segment& segment) const {
  std::map<std::pair<std::int32_t, std::int64_t>, UnitUse> uses;
  for (Place k = 0; k < segment.ops.size(); ++k) {
    for_buckets(segment.ops[k], [&](std::size_t bucket, bool adds) {
      const auto [known, fresh] = uses.try_emplace(unit_of(bucket));
      UnitUse& use = known->second;
      if (fresh) use.first = k;
      use.end = k + 1;
      if (adds) {
        use.zeroes.try_emplace(bucket, k);
      } else if (std::find(use.reads.begin(), use.reads.end(), bucket) == use.reads.end()) {
        use.reads.push_back(bucket);
      }
    });
  }
  std::vector<UnitUse> out;
  for (auto& [unit, use] : uses) out.push_back(settled(std::move(use), segment.phase));
  std::sort(out.begin(), out.end(),
            [](const UnitUse& a, const UnitUse& b) { return a.first < b.first; });
  return out;
}

/// Says of a use what this segment does, and not one before or behind it.
UnitUse UnitUses::settled(UnitUse use, Phase phase) const {
  for (const std::size_t bucket : use.reads) {
    const Scope scope = scope_of(bucket);
    const bool ends =
        scope == Scope::kLocal || (scope == Scope::kMicrobatch && is_read_last(bucket, phase));
    if (ends) use.frees.push_back(bucket);
    if (reshards(bucket, phase)) use.reshards.push_back(bucket);
    const bool found =
        scope == Scope::kStep || (scope == Scope::kMicrobatch && phase != Phase::kForward);
    if (!found) use.gathers.push_back(bucket);
  }
  for (const auto& [bucket, first] : use.zeroes) {
    const bool behind = phase == Phase::kBackwardInput && is_added(bucket, Phase::kBackwardWeight);
    if (!behind) use.reduces.push_back(bucket);
  }
  if (phase == Phase::kBackwardWeight) {
    std::erase_if(use.zeroes,
                  [&](const auto& zero) { return is_added(zero.first, Phase::kBackwardInput); });
  }
  return use;
}

}  // namespace trainyard
