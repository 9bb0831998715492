// What an op of a pair (pair_segments.h) is part of: of "0F+7B" the forward of the call's first
// microbatch on stage 0, or the backward of its second on stage 7. A call that gathers for the next
// one (gather_units.h) is one of two microbatches, too, or of one: "0F+0GATHER_B".
#pragma once

#include <array>
#include <boost/container/static_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "engine/program/program.h"

namespace trainyard {

/// A segment as if it ran alone.
struct SegmentMember {
  std::string name;  // "7B"
  std::int32_t stage = 0;
  Phase phase = Phase::kForward;
  friend bool operator==(const SegmentMember&, const SegmentMember&) = default;
};
using SegmentMembers = boost::container::static_vector<SegmentMember, 2>;

/// By slot: the two of a pair; of any other segment itself, without what it gathers ahead.
SegmentMembers members_of(const Segment& segment);

/// Which member the op belongs to: that of the microbatch whose values it touches.
std::size_t member_of(const Program& program, const ProgramOp& op);

/// "0F7 op 41"; of a pair, whose call program.txt writes 0F+7B7,3: "7B3 op 12 of 0F+7B7,3".
std::string op_place(const Program& program, SegmentId segment, const std::array<Microbatch, 2>& mb,
                     std::size_t op);

/// Why a segment of two microbatches is not named after both: "0F+7B".
std::optional<std::string> find_name_problem(const Segment& segment);

}  // namespace trainyard
