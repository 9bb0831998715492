// What each segment does with the parameters and gradients of the units that ZeRO-2 and 3 gather
// and reduce, and how long what it gathers stays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "engine/passes/program_draft.h"

namespace trainyard {

using Place = std::size_t;  // of an op in its segment; what is put there stands before it

/// What a segment does with the buckets of one unit.
struct UnitUse {
  Place first = 0, end = 0;
  std::vector<std::size_t> reads;       // buckets
  std::vector<std::size_t> gathers;     // of these, those that it does not find gathered
  std::vector<std::size_t> frees;       // of these, those that no later segment reads
  std::vector<std::size_t> reshards;    // of these, those of which a piece stays
  std::map<std::size_t, Place> zeroes;  // where the gradient begins
  std::vector<std::size_t> reduces;
};

/// The bucket in whose parameters or gradients a value lies, where segments gather or reduce those.
struct InBucket {
  std::size_t bucket = 0;
  enum class As : std::uint8_t { kNeither, kParameter, kGradient } as = As::kNeither;
};

class UnitUses {
 public:
  /// Gives what is gathered, and what is added to in each microbatch, its scope in `draft`.
  explicit UnitUses(ProgramDraft& draft);

  static bool computes(const Segment& segment) {
    return segment.slots == 1 && segment.phase <= Phase::kRecompute;
  }
  /// In order of their first ops.
  std::vector<UnitUse> find(const Segment& segment) const;

  const InBucket& in_bucket(ValueId value) const { return in_bucket_[value]; }
  /// Whether what this phase gathers lies in pieces, and whether it is the last to gather those.
  bool has_piece(std::size_t bucket, Phase phase) const;
  bool ends_piece(std::size_t bucket, Phase phase) const;
  /// Whether what this phase gathers is copied from the host first.
  bool loads(std::size_t bucket, Phase phase) const;

 private:
  const std::vector<Bucket>& buckets() const { return draft_.plan.buckets; }
  void find_buckets();
  bool backward_at_once() const;
  void set_scopes();
  bool is_read(std::size_t bucket, Phase phase) const { return read_in_.contains({bucket, phase}); }
  bool is_read_last(std::size_t bucket, Phase phase) const;
  bool reshards(std::size_t bucket, Phase phase) const;
  Scope scope_of(std::size_t bucket) const;
  Scope piece_scope(std::size_t bucket) const;
  bool is_added(std::size_t bucket, Phase phase) const {
    return added_in_.contains({bucket, phase});
  }
  std::pair<std::int32_t, std::int64_t> unit_of(std::size_t bucket) const;
  UnitUse settled(UnitUse use, Phase phase) const;

  /// Calls visit(bucket, adds) for each operand that lies in the parameters or gradients of a
  /// bucket which is gathered, or reduced in each microbatch.
  template <typename Visit>
  void for_buckets(const ProgramOp& op, const Visit& visit) const {
    if (op.kind == OpKind::kFree) return;
    for (const auto* operands : {&op.reads, &op.writes, &op.accumulates}) {
      for (const Operand& operand : *operands) {
        const auto& [bucket, as] = in_bucket_[operand.value];
        if (as != InBucket::As::kNeither) visit(bucket, as == InBucket::As::kGradient);
      }
    }
  }

  ProgramDraft& draft_;
  Indexed<ValueId, InBucket> in_bucket_;
  std::set<std::pair<std::size_t, Phase>> read_in_, added_in_;
};

}  // namespace trainyard
