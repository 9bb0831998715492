#include "engine/program/pair_members.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

#include "engine/base/error.h"
#include "engine/program/program_words.h"

namespace trainyard {

namespace {

/// "7B.r" -> stage 7, phase B. nullopt: not a name of compute on a stage.
std::optional<SegmentMember> parse_member(std::string_view name) {
  SegmentMember member{std::string(name), 0, Phase::kForward};
  const auto [rest, error] = std::from_chars(name.data(), name.data() + name.size(), member.stage);
  if (error != std::errc() || member.stage < 0 || rest == name.data() + name.size())
    return std::nullopt;
  if (std::string_view(rest, name.data() + name.size()).starts_with("GATHER_")) {
    member.phase = Phase::kCommunicate;
    return member;
  }
  const std::size_t phase = program_words::kPhases.find(*rest);
  if (phase == std::string_view::npos) return std::nullopt;
  member.phase = static_cast<Phase>(phase);
  return member;
}

std::optional<SegmentMembers> parse_pair(std::string_view name) {
  const std::size_t plus = name.find('+');
  if (plus == std::string_view::npos) return std::nullopt;
  SegmentMembers members;
  for (const std::string_view half : {name.substr(0, plus), name.substr(plus + 1)}) {
    const auto member = parse_member(half);
    if (!member) return std::nullopt;
    members.push_back(*member);
  }
  return members;
}

}  // namespace

SegmentMembers members_of(const Segment& segment) {
  if (segment.slots < 2)
    return {{segment.name.substr(0, segment.name.find('+')), segment.stage, segment.phase}};
  const auto pair = parse_pair(segment.name);
  check(pair.has_value(), "a segment of two microbatches is named after both");
  return *pair;
}

std::size_t member_of(const Program& program, const ProgramOp& op) {
  for (const auto* operands : {&op.reads, &op.writes, &op.accumulates}) {
    for (const Operand& operand : *operands) {
      const Scope scope = program.values[operand.value].scope;
      if (scope == Scope::kMicrobatch || scope == Scope::kLocal) return operand.slot;
    }
  }
  return 0;
}

std::string op_place(const Program& program, SegmentId segment, const std::array<Microbatch, 2>& mb,
                     std::size_t op) {
  const Segment& of = program.segments[segment];
  const std::size_t slot = of.slots > 1 ? member_of(program, of.ops[op]) : 0;
  std::string text = members_of(of)[slot].name;
  if (of.slots > 0 && mb[slot] >= 0) text += std::to_string(mb[slot]);
  text += " op " + std::to_string(op);
  if (of.slots > 1) text += " of " + of.name + std::to_string(mb[0]) + "," + std::to_string(mb[1]);
  return text;
}

std::optional<std::string> find_name_problem(const Segment& segment) {
  if (segment.slots < 2 || parse_pair(segment.name)) return std::nullopt;
  return "a segment of two microbatches is named after both, as in 0F+7B";
}

}  // namespace trainyard
