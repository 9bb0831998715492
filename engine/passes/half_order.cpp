#include "engine/passes/half_order.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/passes/differentiate.h"

namespace trainyard {

namespace {

using Order = std::vector<std::size_t>;  // places in a list

/// The places of a list in their new order. Ops of no half stay, and none moves across them.
template <typename Item>
Order halves_in_turn(const std::vector<Item>& list, int first_half) {
  Order order;
  order.reserve(list.size());
  for (std::size_t begin = 0, end = 0; begin < list.size(); begin = end) {
    if (list[begin].half == 0) {
      order.push_back(begin);
      end = begin + 1;
      continue;
    }
    std::array<Order, 2> halves;  // in the order in which they take turns
    for (end = begin; end < list.size() && list[end].half != 0; ++end) {
      halves[list[end].half == first_half ? 0 : 1].push_back(end);
    }
    std::array<std::size_t, 2> next = {0, 0};
    while (next[0] < halves[0].size() || next[1] < halves[1].size()) {
      for (std::size_t h : {0U, 1U}) {
        bool cut = false;
        for (; next[h] < halves[h].size() && !cut; ++next[h]) {
          const std::size_t at = halves[h][next[h]];
          cut = is_collective(list[at].kind);
          order.push_back(at);
        }
      }
    }
  }
  return order;
}

template <typename Item>
void reorder(std::vector<Item>& list, const Order& order) {
  std::vector<Item> out;
  out.reserve(list.size());
  for (std::size_t at : order) out.push_back(std::move(list[at]));
  list = std::move(out);
}

}  // namespace

void order_halves(StagedGraph& staged) {
  Graph& graph = staged.graph;
  const Order order = halves_in_turn(graph.ops, 1);
  reorder(graph.ops, order);
  reorder(staged.stage, order);
  for (const OpId i : graph.ops.keys()) {
    for (TensorId output : graph.ops[i].outputs) graph.tensors[output].producer = i;
  }
}

void order_halves(std::vector<Instruction>& backward) {
  const auto is_whole = [](const Instruction& one) { return one.half == 0; };
  if (std::all_of(backward.begin(), backward.end(), is_whole)) return;
  reorder(backward, halves_in_turn(backward, 2));
}

}  // namespace trainyard
