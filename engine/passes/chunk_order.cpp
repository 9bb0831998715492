#include "engine/passes/chunk_order.h"

#include <algorithm>
#include <utility>

#include "engine/passes/differentiate.h"

namespace trainyard {

namespace {

using Order = std::vector<std::size_t>;  // places in a list

/// The places of a list in their new order. Ops of no chunk stay, and none moves across them.
template <typename Item>
Order chunks_in_turn(const std::vector<Item>& list, bool last_first) {
  Order order;
  order.reserve(list.size());
  for (std::size_t begin = 0, end = 0; begin < list.size(); begin = end) {
    if (list[begin].chunk == 0) {
      order.push_back(begin);
      end = begin + 1;
      continue;
    }
    Numbered<Order> chunks;
    for (end = begin; end < list.size() && list[end].chunk != 0; ++end) {
      if (list[end].chunk > std::ssize(chunks)) chunks.resize(list[end].chunk);
      chunks[list[end].chunk - 1].push_back(end);
    }
    if (last_first) std::reverse(chunks.begin(), chunks.end());
    Numbered<std::size_t> next(chunks.size(), 0);
    for (std::size_t placed = begin; placed < end;) {
      for (const std::int64_t c : chunks.keys()) {
        bool cut = false;
        for (; next[c] < chunks[c].size() && !cut; ++next[c], ++placed) {
          const std::size_t at = chunks[c][next[c]];
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

void order_chunks(StagedGraph& staged) {
  Graph& graph = staged.graph;
  const Order order = chunks_in_turn(graph.ops, false);
  reorder(graph.ops, order);
  reorder(staged.stage, order);
  for (const OpId i : graph.ops.keys()) {
    for (TensorId output : graph.ops[i].outputs) graph.tensors[output].producer = i;
  }
}

void order_chunks(std::vector<Instruction>& backward) {
  const auto is_whole = [](const Instruction& one) { return one.chunk == 0; };
  if (std::all_of(backward.begin(), backward.end(), is_whole)) return;
  reorder(backward, chunks_in_turn(backward, true));
}

}  // namespace trainyard
