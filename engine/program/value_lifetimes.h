// The lifetimes of a Program's values: each is written once per instance, read only while it is
// written and not freed, and freed by the end of its segment, microbatch or step. A part of
// verify.h.
#pragma once

#include <array>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/program/program.h"

namespace trainyard {

class ValueLifetimes {
 public:
  /// Looks at every segment by itself. Throws a Violation.
  explicit ValueLifetimes(const Program& program);

  /// Looks at the calls of one list. `program`: as the constructor's, but for its lists. Throws a
  /// Violation.
  void check(const Program& program, const RankClass& list);

 private:
  enum class State : std::uint8_t { kUnwritten, kWritten, kFreed };

  /// What one segment does to one value that outlives the call.
  struct Use {
    bool needs_written = false;  // reads it before it writes it
    bool writes = false;
    bool frees = false;
  };
  /// Use of a value by a segment, of the slot-th microbatch of its calls.
  struct SegmentUse {
    SegmentId segment;
    std::uint8_t slot;
    Use use;
  };
  /// The same of values that are used alike.
  struct TokenUse {
    std::size_t token;
    std::uint8_t slot;
    Use use;
  };
  struct Token {
    ValueId representative;
    bool per_microbatch;
  };
  /// One segment, op by op.
  class SegmentWalk;

  void find_anchors(const Program& program);
  void group_values(const Program& program);
  void apply(const Program& program, const RankClass& list, SegmentId id,
             const std::array<Microbatch, 2>& mbs);

  Indexed<ValueId, ValueId> anchor_;
  Indexed<ValueId, bool> joined_;          // parts of what a join makes in place
  Indexed<ValueId, ValueId> family_;       // [storage root] -> the first anchor in it
  Indexed<ValueId, ValueId> next_anchor_;  // [anchor]: in the same storage; kNoIndex: the last
  std::array<Indexed<ValueId, State>, 2> state_;  // [slot], within one segment
  Indexed<ValueId, boost::container::small_vector<SegmentUse, 2>> signature_;
  std::vector<Token> tokens_;
  Indexed<SegmentId, std::vector<TokenUse>> uses_;  // tokens it touches
  std::vector<Numbered<State>>
      instances_;                     // [token]: of the list being checked; empty: not touched
  std::vector<std::size_t> touched_;  // tokens with an entry there
};

/// What is wrong with a segment of a Program that has no lists yet, by itself:
/// find_malformed_segments(), then its values' lifetimes; nullopt when nothing is.
std::optional<std::string> find_violation_of_segments(const Program& program);

}  // namespace trainyard
