// RaNNC's atoms and blocks: worked examples, laws on random graphs.
#include "engine/partition/task_blocks.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "engine/partition/block_costs.h"

namespace trainyard::task_blocks_test {

namespace {

std::vector<std::size_t> order_of(const TaskGraph& graph) {
  auto order = task_order(graph);
  REQUIRE(std::holds_alternative<std::vector<std::size_t>>(order));
  return std::get<std::vector<std::size_t>>(order);
}

TaskBlocks blocks_of(const TaskGraph& graph, const BlockOptions& options) {
  return blocks_of(graph, atoms_of(graph, order_of(graph)), options);
}

TaskGraph chain(const std::vector<double>& times) {
  TaskGraph out;
  for (std::size_t t = 0; t < times.size(); ++t) {
    out.tasks.push_back({times[t], 0, 0, 0, 0});
    if (t > 0) out.values.push_back({t - 1, 1, {t}, false});
  }
  return out;
}

/// Tasks that read some of those before them, a few of them constant.
TaskGraph random_graph(std::mt19937& random, std::size_t tasks, int reach = 12) {
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution(least, most)(random);
  };
  TaskGraph out;
  out.values.push_back({kOutside, 4, {0}, false});
  for (std::size_t t = 0; t < tasks; ++t) {
    out.tasks.push_back({static_cast<double>(draw(0, 9)), static_cast<double>(draw(0, 18)),
                         static_cast<double>(draw(0, 3)), static_cast<double>(draw(0, 2)),
                         static_cast<double>(draw(0, 4))});
    out.values.push_back({t, static_cast<double>(draw(0, 9)), {}, false});
    for (int reads = draw(0, 3); t > 0 && reads > 0; --reads) {
      const auto from = static_cast<std::size_t>(
          draw(std::max(0, static_cast<int>(t) - reach), static_cast<int>(t) - 1));
      out.values[from + 1].readers.push_back(t);
    }
  }
  return out;
}

/// Every task that depends on the input is in one block, blocks can run one after another, and
/// costs are those of their tasks.
void check_blocks(const TaskGraph& graph, const TaskBlocks& found) {
  const std::vector<TaskAtom> atoms = atoms_of(graph, order_of(graph));
  std::vector<std::size_t> block_of(graph.tasks.size(), kOutside);
  std::set<std::size_t> varying;
  for (const TaskAtom& atom : atoms) varying.insert(atom.task);
  for (std::size_t b = 0; b < found.blocks.size(); ++b) {
    double time = 0;
    std::set<std::size_t> needed;
    for (const std::size_t task : found.blocks[b].tasks) {
      time += graph.tasks[task].time();
      needed.insert(task);
      if (!varying.contains(task)) continue;
      CHECK(block_of[task] == kOutside);
      block_of[task] = b;
    }
    CHECK(needed.size() == found.blocks[b].tasks.size());
    CHECK(found.blocks[b].cost.time() == time);
  }
  for (const TaskAtom& atom : atoms) {
    REQUIRE(block_of[atom.task] != kOutside);
    const std::vector<std::size_t>& tasks = found.blocks[block_of[atom.task]].tasks;
    CHECK(std::ranges::includes(tasks, atom.constants));
  }
  for (const TaskValue& value : graph.values) {
    if (value.producer == kOutside || !varying.contains(value.producer)) continue;
    for (const std::size_t reader : value.readers)
      CHECK(block_of[value.producer] <= block_of[reader]);
  }
}

/// Bytes of a sample that blocks send one another, each value once to each block.
double sent(const TaskGraph& graph, const TaskBlocks& found) {
  std::vector<std::set<std::size_t>> with(graph.tasks.size());
  for (std::size_t b = 0; b < found.blocks.size(); ++b) {
    for (const std::size_t task : found.blocks[b].tasks) with[task].insert(b);
  }
  double sum = 0;
  for (const TaskValue& value : graph.values) {
    if (value.producer == kOutside || with[value.producer].size() != 1) continue;
    std::set<std::size_t> to;
    for (const std::size_t reader : value.readers)
      to.insert(with[reader].begin(), with[reader].end());
    to.erase(*with[value.producer].begin());
    sum += value.bytes * static_cast<double>(to.size());
  }
  return sum;
}

}  // namespace

TEST_CASE("constant tasks are cloned into the atoms that need them") {
  // w is transposed (1) for two products (2, 4); 3 is between them, 5 reads a constant of nobody.
  TaskGraph graph;
  graph.tasks.assign(6, {1, 0, 0, 0, 0});
  graph.values = {{kOutside, 1, {2}, false}, {0, 1, {1}, false}, {1, 1, {2, 4}, false},
                  {2, 1, {3}, false},        {3, 1, {4}, true},  {5, 1, {}, false}};
  const std::vector<TaskAtom> atoms = atoms_of(graph, order_of(graph));
  REQUIRE(atoms.size() == 3);
  CHECK(atoms[0].task == 2);
  CHECK(atoms[0].constants == std::vector<std::size_t>{0, 1});
  CHECK(atoms[1].task == 3);
  CHECK(atoms[1].constants.empty());
  CHECK(atoms[2].task == 4);
  CHECK(atoms[2].constants == std::vector<std::size_t>{0, 1});
  // As one block the constants are there once.
  const TaskBlocks one = blocks_of(graph, {.count = 1});
  REQUIRE(one.blocks.size() == 1);
  CHECK(one.blocks[0].tasks == std::vector<std::size_t>{0, 1, 2, 3, 4});
  CHECK(one.blocks[0].cost.forward == 5);
  const BlockCosts costs(graph, atoms_as_blocks(graph, atoms).blocks, {});
  CHECK(costs.stage(0, 3, 1, 1, false).forward == 5);
  CHECK(costs.stage(0, 2, 1, 1, false).forward == 4);
  CHECK(costs.inputs(0, 1) == 1);
  CHECK(costs.outputs(0, 2) == 2);  // to the last atom, and out of the model
  CHECK(costs.outputs(0, 3) == 1);
}

TEST_CASE("tasks that wait for one another are named") {
  TaskGraph graph = chain({1, 1, 1, 1});
  graph.values.push_back({3, 1, {1}, false});
  const auto order = task_order(graph);
  REQUIRE(std::holds_alternative<TaskCycle>(order));
  std::vector<std::size_t> cycle = std::get<TaskCycle>(order).tasks;
  std::ranges::sort(cycle);
  CHECK(cycle == std::vector<std::size_t>{1, 2, 3});
}

TEST_CASE("coarsening merges the cheapest first, with the cheaper neighbour") {
  // Times 1 5 2 9 2 1: 0 has 1 alone beside it (6); 5 has 4 (3); 2 has 3 (11).
  const TaskGraph graph = chain({1, 5, 2, 9, 2, 1});
  const TaskBlocks found = blocks_of(graph, {.count = 3});
  REQUIRE(found.blocks.size() == 3);
  CHECK(found.blocks[0].tasks == std::vector<std::size_t>{0, 1});
  CHECK(found.blocks[1].tasks == std::vector<std::size_t>{2, 3});
  CHECK(found.blocks[2].tasks == std::vector<std::size_t>{4, 5});
  CHECK(found.levels == std::vector<std::size_t>{6, 3});
}

TEST_CASE("a group that a third is between is not merged") {
  // 0 -> 1 -> 2 and 0 -> 2: 0 and 2 are the cheapest, but 1 is on a way between them.
  TaskGraph graph = chain({1, 9, 1});
  graph.values[0].readers.push_back(2);
  const TaskBlocks found = blocks_of(graph, {.count = 2, .uncoarsen = false});
  REQUIRE(found.blocks.size() == 2);
  CHECK(found.blocks[0].tasks == std::vector<std::size_t>{0, 1});
}

TEST_CASE("uncoarsening moves a half to where less is sent, compaction makes the rest") {
  // Pairs by time are {0, 1}, {2, 3}; the large value is from 1 to 2, and a move takes it inside.
  TaskGraph graph = chain({1, 4, 5, 3});
  graph.values = {{0, 1, {1}, false}, {1, 100, {2}, false}, {2, 1, {3}, false}};
  const TaskBlocks plain = blocks_of(graph, {.count = 2, .uncoarsen = false});
  CHECK(plain.blocks[0].tasks == std::vector<std::size_t>{0, 1});
  CHECK(sent(graph, plain) == 100);
  const TaskBlocks moved = blocks_of(graph, {.count = 2});
  REQUIRE(moved.moves.size() == 1);
  CHECK(moved.moves[0].bytes_before == 100);
  CHECK(moved.moves[0].bytes_after == 1);
  CHECK(sent(graph, moved) == 1);
  // Three blocks by compaction where coarsening stops at memory: 4 groups of at most 6.
  const TaskBlocks tight = blocks_of(chain({1, 1, 1, 1, 1}), {.count = 2});
  CHECK(tight.blocks.size() == 2);
}

TEST_CASE("random graphs: blocks are a division that can run, and moves make them send less") {
  std::mt19937 random(15);
  int moves = 0;
  for (int round = 0; round < 400; ++round) {
    const TaskGraph graph =
        random_graph(random, std::uniform_int_distribution<std::size_t>(1, 60)(random));
    BlockOptions options;
    options.count = std::uniform_int_distribution<std::size_t>(1, 12)(random);
    if (round % 3 == 0) options.memory = 30;
    const std::vector<TaskAtom> atoms = atoms_of(graph, order_of(graph));
    const TaskBlocks found = blocks_of(graph, atoms, options);
    check_blocks(graph, found);
    check_blocks(graph, atoms_as_blocks(graph, atoms));
    if (options.memory > 30) CHECK(found.blocks.size() == std::min(options.count, atoms.size()));
    CHECK(found.blocks.size() >= std::min(options.count, atoms.size()));
    for (const TaskBlock& block : found.blocks) {
      if (block.cost.memory + block.cost.activation + 2 * block.cost.parameters <= options.memory)
        continue;
      // Only what is too large by itself.
      const auto varying = std::ranges::count_if(block.tasks, [&](std::size_t task) {
        return std::ranges::find(atoms, task, &TaskAtom::task) != atoms.end();
      });
      CHECK(varying == 1);
    }
    for (const BlockMove& move : found.moves) CHECK(move.bytes_after < move.bytes_before);
    moves += static_cast<int>(found.moves.size());
    if (found.compacted > 0) continue;
    options.uncoarsen = false;
    CHECK(sent(graph, found) <= sent(graph, blocks_of(graph, atoms, options)));
  }
  CHECK(moves > 50);
}

TEST_CASE("larger random graphs whose values go far: no two blocks wait for each other") {
  std::mt19937 random(31);
  for (int round = 0; round < 12; ++round) {
    const TaskGraph graph = random_graph(random, 500, round % 2 == 0 ? 500 : 40);
    const TaskBlocks found = blocks_of(graph, {.count = 16});
    CHECK(found.blocks.size() == 16);
    CHECK(found.moves.size() > 20);
    check_blocks(graph, found);
  }
}

TEST_CASE("what stages send and need is what their values and tasks make it") {
  std::mt19937 random(99);
  for (int round = 0; round < 100; ++round) {
    const TaskGraph graph = random_graph(random, 25);
    const TaskBlocks found = blocks_of(graph, {.count = 6});
    const BlockCosts costs(graph, found.blocks, {});
    for (std::size_t first = 0; first < found.blocks.size(); ++first) {
      for (std::size_t end = first + 1; end <= found.blocks.size(); ++end) {
        std::set<std::size_t> before, inside, behind;
        for (std::size_t b = 0; b < found.blocks.size(); ++b) {
          auto& in = b < first ? before : (b < end ? inside : behind);
          in.insert(found.blocks[b].tasks.begin(), found.blocks[b].tasks.end());
        }
        double time = 0, read = 0, made = 0;
        for (const std::size_t task : inside) time += graph.tasks[task].forward;
        for (const TaskValue& value : graph.values) {
          const auto read_in = [&](const std::set<std::size_t>& tasks) {
            return std::ranges::any_of(value.readers,
                                       [&](std::size_t r) { return tasks.contains(r); });
          };
          const bool outside = value.producer == kOutside;
          if (read_in(inside) && (outside || !inside.contains(value.producer))) read += value.bytes;
          if (!outside && inside.contains(value.producer) && !behind.contains(value.producer) &&
              read_in(behind))
            made += value.bytes;
        }
        CHECK(costs.stage(first, end, 1, 1, false).forward == time);
        CHECK(costs.inputs(first, end) == read);
        CHECK(costs.outputs(first, end) == made);
      }
    }
  }
}

}  // namespace trainyard::task_blocks_test
