#include "engine/cost/all_reduce_algorithm.h"

#include <algorithm>
#include <array>

namespace trainyard {

namespace {

bool is_uniform(const GroupLayout& group) {
  return group.ranks == group.nodes * group.ranks_per_node;
}

/// Whether switches inside the nodes add up for such a group.
bool adds_in_nodes(const GroupLayout& group, const Cluster& cluster) {
  return cluster.intra.in_switch.has_value() && group.ranks_per_node > 1;
}

using Otherwise = AllReduceAlgorithm::Otherwise;

// `auto` takes the first of those that take equally long.
constexpr std::array<AllReduceAlgorithm, 8> kAlgorithms = {
    {{"ring", AllReduceAlgorithm::Auto::kBoth, Otherwise::kRing, false, false,
      [](const GroupLayout&, const Cluster&) { return true; }, &CollectivePhases::ring_all_reduce},
     {"tree", AllReduceAlgorithm::Auto::kTextbook, Otherwise::kRing, true, false,
      [](const GroupLayout&, const Cluster&) { return true; }, &CollectivePhases::tree},
     {"halving-doubling", AllReduceAlgorithm::Auto::kTextbook, Otherwise::kRing, true, false,
      [](const GroupLayout& group, const Cluster&) { return is_power_of_two(group.ranks); },
      &CollectivePhases::halving_doubling},
     {"hierarchical", AllReduceAlgorithm::Auto::kTextbook, Otherwise::kRing, true, false,
      [](const GroupLayout& group, const Cluster&) {
        return group.nodes > 1 && group.ranks_per_node > 1 && is_uniform(group);
      },
      &CollectivePhases::hierarchical},
     {"double-tree", AllReduceAlgorithm::Auto::kLibrary, Otherwise::kRing, false, false,
      [](const GroupLayout& group, const Cluster&) { return group.nodes > 1; },
      &CollectivePhases::double_tree},
     {"nvls", AllReduceAlgorithm::Auto::kLibrary, Otherwise::kRing, false, true,
      [](const GroupLayout& group, const Cluster& cluster) {
        return group.nodes == 1 && adds_in_nodes(group, cluster);
      },
      &CollectivePhases::in_switch},
     {"nvls-tree", AllReduceAlgorithm::Auto::kNever, Otherwise::kLibrary, false, true,
      [](const GroupLayout& group, const Cluster& cluster) {
        return group.nodes > 1 && adds_in_nodes(group, cluster) && is_uniform(group);
      },
      &CollectivePhases::in_switch_and_tree},
     {"sharp", AllReduceAlgorithm::Auto::kNever, Otherwise::kLibrary, false, true,
      [](const GroupLayout& group, const Cluster& cluster) {
        return group.nodes > 1 && (adds_in_nodes(group, cluster) || group.ranks_per_node == 1) &&
               is_uniform(group);
      },
      &CollectivePhases::in_switch_and_network}}};

constexpr auto kWords = [] {
  std::array<std::string_view, kAlgorithms.size() + 1> words = {"auto"};
  for (std::size_t i = 0; i < kAlgorithms.size(); ++i) words[i + 1] = kAlgorithms[i].name;
  return words;
}();

}  // namespace

std::span<const AllReduceAlgorithm> all_reduce_algorithms() { return kAlgorithms; }

std::span<const std::string_view> all_reduce_words() { return kWords; }

const AllReduceAlgorithm* find_all_reduce_algorithm(std::string_view name) {
  const auto found =
      std::find_if(kAlgorithms.begin(), kAlgorithms.end(),
                   [&](const AllReduceAlgorithm& algorithm) { return algorithm.name == name; });
  return found == kAlgorithms.end() ? nullptr : &*found;
}

}  // namespace trainyard
