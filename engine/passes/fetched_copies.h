// Values of their own for what is gathered before the call that reads it.
//
// What a call gathers for itself is local to it. What the call in front of it gathers lives from
// the one to the other, so it is of the microbatch; and a value is written once per microbatch,
// while its forward and its backward gather the same parameters. So each has a copy of the bucket's
// values: "b3.param>0F" is b3.param as stage 0's forward finds it.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "engine/passes/program_draft.h"
#include "engine/passes/unit_uses.h"

namespace trainyard {

/// A bucket as a segment has it gathered: the parameters, the piece within them that stays, what
/// is gathered; with Bucket::packs() into what, and copied from there.
struct GatheredBucket {
  ValueId parameter = kNoIndex, own_piece = kNoIndex, cast_shard = kNoIndex, packed = kNoIndex;
  GatheredScales by;  // of what is gathered in 8 bits
  ValueId target() const { return packed == kNoIndex ? parameter : packed; }
};

/// What copies a unit out of what has been gathered. Pieces are of the parameters as they lie when
/// they have been copied.
ProgramOp copy_of_gathered(const GatheredBucket& of, bool from_pieces, GroupId shards);

class FetchedCopies {
 public:
  FetchedCopies(ProgramDraft& draft, const UnitUses& uses);

  /// The bucket as calls of this phase on this stage find it; makes what it needs on first sight.
  /// What lives as long as the microbatch anyway has no copies.
  const GatheredBucket& get(std::size_t bucket, std::int32_t stage, Phase phase);
  /// The copy of what has been loaded before such a call, which gathers it.
  ValueId loaded(ValueId of, std::size_t bucket, std::int32_t stage, Phase phase);
  /// The copy of a value in that bucket.
  ValueId copy_of(ValueId value, std::size_t bucket, std::int32_t stage, Phase phase);

 private:
  struct Copies {
    GatheredBucket gathered;
    std::map<ValueId, ValueId> of;
  };
  Copies& find(std::size_t bucket, std::int32_t stage, Phase phase);
  Copies make(std::size_t index, std::int32_t stage, Phase phase);

  ProgramDraft& draft_;
  const UnitUses& uses_;
  std::vector<std::vector<ValueId>> families_;  // [bucket]: its parameters, and what lies in them
  using Key = std::tuple<std::size_t, std::int32_t, Phase>;
  std::map<Key, Copies> copies_;
  std::map<std::tuple<ValueId, std::int32_t, Phase>, ValueId> loaded_;
};

}  // namespace trainyard
