// The algorithms of an all_reduce, a row each: what cluster.collectives and `solve` may name, which
// groups each is made for, when `auto` chooses it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "engine/cost/collective_phases.h"

namespace trainyard {

struct AllReduceAlgorithm {
  std::string_view name;
  /// Among which `auto` has it. Links without a fitted curve leave all of the textbook's; a curve
  /// written as a ring's is that of the library's own protocols, so on such links there is what
  /// NCCL runs by itself.
  enum class Auto : std::uint8_t { kTextbook, kLibrary, kBoth, kNever } automatic;
  /// What runs in a group that it is not made for: the ring, or what NCCL runs by itself.
  enum class Otherwise : std::uint8_t { kRing, kLibrary } otherwise;
  bool leaves_ring;  // its messages take edges that are not those of the ring through all ranks
  bool in_switch;    // the links' switches add up (LinkCurve of Link::in_switch)
  bool (*is_made_for)(const GroupLayout&, const Cluster&);
  void (CollectivePhases::*add)();
};

std::span<const AllReduceAlgorithm> all_reduce_algorithms();

/// "auto" and the names of all_reduce_algorithms(), in their order.
std::span<const std::string_view> all_reduce_words();

/// nullptr: there is none of that name.
const AllReduceAlgorithm* find_all_reduce_algorithm(std::string_view name);

}  // namespace trainyard
