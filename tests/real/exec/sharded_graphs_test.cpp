// Graphs that are sharded in every way train as autograd says of the graph of one device: each op
// split by a random strategy, each tensor stored with a random spec, on meshes of one to three
// tensor axes. What ranks hold is put together by the boxes of their specs, so that values, the
// loss and all gradients of parameters are compared with LibTorch's.
//
// All in fp64: sums in another order differ by 1.1e-16 per addition, of at most some 10^4 elements.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/graph/op_table.h"
#include "engine/program/spec_moves.h"
#include "engine/program/verify.h"
#include "engine/sharding/uneven_pieces.h"
#include "tests/real/graph_run.h"
#include "tests/support/random_graph.h"
#include "tests/support/random_sharding.h"

namespace trainyard::sharded_graphs_test {

namespace {

constexpr double kTolerance = 1e-10;
constexpr double kShareTolerance = 1e-7;  // shares of gradients in the norm are in fp32

double norm_of(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum);
}

bool are_alike(std::vector<double> ours, const std::vector<double>& theirs) {
  if (ours.size() != theirs.size()) return false;
  for (std::size_t i = 0; i < ours.size(); ++i) ours[i] -= theirs[i];
  return norm_of(ours) <= kTolerance * std::max(1.0, norm_of(theirs));
}

/// The tensor whose value a move leaves as it is: "m3.mul.partial" -> "m3.mul".
std::string moved_tensor(const std::string& result, const std::map<std::string, Shape>& tensors) {
  std::string name = result.substr(0, result.find('@'));  // of a stage
  while (!tensors.contains(name)) {
    const std::size_t dot = name.rfind('.');
    if (dot == std::string::npos) return "";
    name = name.substr(0, dot);
  }
  return name;
}

/// What is unlike; empty: nothing is.
std::string find_difference(const Graph& graph, const GraphRun& ours, const GraphRun& theirs) {
  if (!(std::abs(ours.loss - theirs.loss) <= kTolerance * std::max(1.0, std::abs(theirs.loss))))
    return "loss " + std::to_string(ours.loss) + ", not " + std::to_string(theirs.loss);
  const double norm = std::sqrt(theirs.norm_sq);
  if (!(std::abs(std::sqrt(ours.norm_sq) - norm) <= kShareTolerance * std::max(1.0, norm)))
    return "norm " + std::to_string(std::sqrt(ours.norm_sq)) + ", not " + std::to_string(norm);
  std::map<std::string, Shape> tensors;
  for (const Tensor& tensor : graph.tensors) tensors[tensor.name] = tensor.shape;
  for (const auto& [name, value] : ours.results) {
    const std::size_t space = name.rfind(' ');
    const std::string of = moved_tensor(name.substr(0, space), tensors) + name.substr(space);
    const auto known = theirs.results.find(of);
    if (known != theirs.results.end() && !are_alike(value, known->second)) return "value " + name;
  }
  if (ours.gradients.size() != theirs.gradients.size()) return "gradients are missing";
  for (const auto& [name, gradient] : theirs.gradients) {
    const auto known = ours.gradients.find(name);
    if (known == ours.gradients.end() || !are_alike(known->second, gradient))
      return "gradient of " + name;
  }
  return "";
}

/// Up to eight ranks on one to three tensor axes; some in two stages, some with their forward
/// again, some by half backwards. All take the norm, and clip nothing.
Plan random_tensor_plan(std::uint64_t seed) {
  const std::vector<std::vector<std::int32_t>> meshes = {{2}, {4}, {2, 2}, {3}, {2, 2, 2}, {2, 3}};
  Plan plan = plan_of_graph();
  plan.training.clip_norm = 1e9;
  const auto& sizes = meshes[seed % meshes.size()];
  plan.parallel.tensor = 1;
  for (const std::int32_t size : sizes) {
    plan.parallel.tensor_axes.push_back(size);
    plan.parallel.tensor *= size;
  }
  if (plan.parallel.tensor <= 4 && seed % 5 == 1) plan.parallel.pipeline = 2;
  if (seed % 5 == 2) plan.recompute.method = RecomputeConfig::Method::kFull;
  if (plan.parallel.pipeline > 1 && seed % 2 == 1) plan.schedule.method = "zb-h1";
  return plan;
}

struct ShardedRun {
  std::string problem;  // what is wrong; empty: nothing
  bool ran = false;     // the sharding was one that executors have
  bool uneven = false;  // pieces of unlike size moved between ranks
};

bool moves_uneven_pieces(const Program& program) {
  for (const Segment& segment : program.segments) {
    for (const ProgramOp& op : segment.ops) {
      if (!is_collective(op.kind)) continue;
      for (const auto* operands : {&op.reads, &op.writes}) {
        if (is_uneven(spec_of(program, program.values[(*operands)[0].value]), program.mesh))
          return true;
      }
    }
  }
  return false;
}

Graph graph_of(std::uint64_t seed, const Plan& plan, bool images = false,
               std::optional<OpKind> only = {}) {
  return random_graph(seed, {.ops = 2 + static_cast<int>(seed % 9),
                             .layers = plan.parallel.pipeline,
                             .only = only,
                             .even = seed % 2 == 0,
                             .uneven = seed % 2 == 1,
                             .images = images});
}

/// Nothing: a sharding that executors do not have. Moves may lead over pieces of unlike size, or
/// parts that axes split unlike.
std::optional<Program> sharded_program(std::uint64_t seed, const Graph& graph, const Plan& plan) {
  CompileOptions options;
  options.verify = true;
  options.plan_sharding = [&](Graph& sharded, Sharding& sharding) {
    if (!plan_random_sharding(seed, {.uneven = true}, sharded, sharding))
      throw std::runtime_error("no strategy");
  };
  try {
    return compile_graph(graph, plan, options);
  } catch (const std::runtime_error& error) {
    const std::string what = error.what();
    const bool refused = what == "no strategy" || what.find("does not divide") != what.npos ||
                         what.find("split unlike") != what.npos;
    if (!refused) throw;
    return std::nullopt;
  }
}

ShardedRun run_sharded(std::uint64_t seed, const Plan& plan, bool images = false,
                       bool over_gloo = false, std::optional<OpKind> only = {}) {
  const Graph graph = graph_of(seed, plan, images, only);
  const auto program = sharded_program(seed, graph, plan);
  if (!program) return {};
  const bool uneven = moves_uneven_pieces(*program);
  const GraphRun ours = run_program(*program, graph, plan, over_gloo);
  if (!ours.greedy.empty()) return {ours.greedy.front(), true, uneven};
  if (!ours.miscounted.empty()) return {ours.miscounted.front(), true, uneven};
  return {find_difference(graph, ours, differentiate_by_torch(graph)), true, uneven};
}

void check_seeds(std::uint64_t first, std::uint64_t count, bool images = false,
                 std::optional<OpKind> only = {}) {
  std::uint64_t ran = 0, uneven = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    CAPTURE(seed);
    const ShardedRun run =
        run_sharded(seed, random_tensor_plan(seed), images, /*over_gloo=*/false, only);
    CHECK(run.problem == "");
    ran += run.ran ? 1 : 0;
    uneven += run.uneven ? 1 : 0;
  }
  CHECK(ran > count / 2);
  CHECK(uneven > count / 5);
}

// --- planted mistakes ---

/// Damages the Program's first op that `suits`; false: it has none.
template <typename Suits, typename Damage>
bool damage_first(Program& program, const Suits& suits, const Damage& damage) {
  for (Segment& segment : program.segments) {
    for (std::size_t k = 0; k < segment.ops.size(); ++k) {
      if (!suits(segment, segment.ops[k])) continue;
      damage(segment, k);
      return true;
    }
  }
  return false;
}

bool is_whole_collective(const Program& program, const Segment& segment, const ProgramOp& op,
                         OpKind kind) {
  return op.kind == kind && segment.phase != Phase::kUpdate &&
         group_size(program.mesh, program.groups[op.group].axes) > 1;
}

GroupId group_of_axes(Program& program, const std::string& name, const Axes& axes) {
  return program.groups.add({name, axes, {}});
}

/// A sum over the group is left out.
bool leave_out_sum(Program& program) {
  return damage_first(
      program,
      [&](const Segment& segment, const ProgramOp& op) {
        return is_whole_collective(program, segment, op, OpKind::kAllReduce);
      },
      [&](Segment& segment, std::size_t k) {
        segment.ops[k].group = group_of_axes(program, "alone", {});
      });
}

/// A sum is added up once more.
bool sum_twice(Program& program) {
  return damage_first(
      program,
      [&](const Segment& segment, const ProgramOp& op) {
        return is_whole_collective(program, segment, op, OpKind::kAllReduce);
      },
      [&](Segment& segment, std::size_t k) {
        ProgramOp again = segment.ops[k];
        again.reads = again.writes;
        segment.ops.insert(segment.ops.begin() + static_cast<std::ptrdiff_t>(k) + 1, again);
      });
}

/// Parameters' gradients are reduced over the first of several axes.
bool reduce_over_one_axis(Program& program) {
  return damage_first(
      program,
      [&](const Segment& segment, const ProgramOp& op) {
        return segment.name.find("REDUCE_TP") != segment.name.npos &&
               program.groups[op.group].axes.size() > 1;
      },
      [&](Segment& segment, std::size_t k) {
        const Axes axes = program.groups[segment.ops[k].group].axes;
        segment.ops[k].group = group_of_axes(program, "first", {axes.front()});
      });
}

/// What is cut by a, then b, is gathered as if it were cut by b, then a.
bool swap_axes(Program& program) {
  const auto gathers = [&](const Segment&, const ProgramOp& op) {
    const int dim = program.attrs[op.attrs].dim;
    return op.kind == OpKind::kAllGather && dim >= 0 && program.groups[op.group].axes.size() > 1;
  };
  return damage_first(program, gathers, [&](Segment& segment, std::size_t k) {
    const ProgramOp& op = segment.ops[k];
    Value& read = program.values[op.reads[0].value];
    TensorSpec spec = spec_of(program, read);
    Axes& axes = spec.dims.begin()[program.attrs[op.attrs].dim].parts.front().axes;
    std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
    read.spec = add_spec(program, spec);
  });
}

/// Every rank keeps what one was to keep.
bool keep_on_all(Program& program) {
  return damage_first(
      program, [](const Segment&, const ProgramOp& op) { return op.kind == OpKind::kKeepOnOne; },
      [&](Segment& segment, std::size_t k) { segment.ops[k].kind = OpKind::kPad; });
}

/// Whether a kernel makes the value: who moves it there would move it by the wrong spec, too.
bool is_computed(const Program& program, ValueId value) {
  bool computed = false;
  for (const Segment& segment : program.segments) {
    for (const ProgramOp& op : segment.ops) {
      const bool made = std::any_of(op.writes.begin(), op.writes.end(),
                                    [&](const Operand& one) { return one.value == value; });
      if (made && (is_spec_move(op.kind) || op.kind == OpKind::kLoad)) return false;
      computed = computed || made;
    }
  }
  return computed;
}

/// A tensor's uneven pieces are gathered as if the last ranks had one more, not the first.
bool swap_counts(Program& program) {
  const auto gathers = [&](const Segment&, const ProgramOp& op) {
    const int dim = program.attrs[op.attrs].dim;
    if (op.kind != OpKind::kAllGather || dim < 0) return false;
    const TensorSpec spec = spec_of(program, program.values[op.reads[0].value]);
    const DimSplit& split = spec.dims.begin()[dim];
    return split.parts.size() == 1 && is_uneven(split, program.mesh) &&
           is_computed(program, op.reads[0].value);
  };
  return damage_first(program, gathers, [&](Segment& segment, std::size_t k) {
    const ProgramOp& op = segment.ops[k];
    Value& read = program.values[op.reads[0].value];
    TensorSpec spec = spec_of(program, read);
    spec.dims.begin()[program.attrs[op.attrs].dim].parts.front().reversed = true;
    read.spec = add_spec(program, spec);
  });
}

struct Planted {
  int tried = 0;
  int seen_in_values = 0;
  int seen_by_verify = 0;
};

Planted plant(bool (*damage)(Program&), int enough) {
  Planted out;
  for (std::uint64_t seed = 5000; seed < 5400 && out.tried < enough; ++seed) {
    const Plan plan = random_tensor_plan(seed);
    const Graph graph = graph_of(seed, plan);
    auto program = sharded_program(seed, graph, plan);
    if (!program || !damage(*program)) continue;
    const GraphRun theirs = differentiate_by_torch(graph);
    if (theirs.norm_sq < 1e-6) continue;  // a tensor's distance from itself: nothing to be wrong
    ++out.tried;
    out.seen_by_verify += find_violation(*program).has_value() ? 1 : 0;
    std::string problem;
    try {
      problem = find_difference(graph, run_program(*program, graph, plan), theirs);
    } catch (const std::exception& error) {
      problem = error.what();
    }
    out.seen_in_values += problem.empty() ? 0 : 1;
  }
  return out;
}

}  // namespace

TEST_CASE("mistakes in sharded Programs change values, and are found in their specs") {
  struct Planting {
    const char* name;
    bool (*damage)(Program&);
  };
  for (const Planting& mistake :
       {Planting{"a sum is left out", leave_out_sum}, Planting{"a sum is taken twice", sum_twice},
        Planting{"a gradient is reduced over one of two axes", reduce_over_one_axis},
        Planting{"pieces are gathered in another order", swap_axes},
        Planting{"counts of uneven pieces are swapped", swap_counts},
        Planting{"all ranks keep what one was to", keep_on_all}}) {
    CAPTURE(mistake.name);
    const Planted planted = plant(mistake.damage, 5);
    CHECK(planted.tried == 5);
    // Some are of values that make no difference: what is gathered is never told apart, or is zero.
    CHECK(planted.seen_in_values > planted.tried / 2);
    CHECK(planted.seen_by_verify == planted.tried);
  }
}

TEST_CASE("random graphs that are sharded at random train over Gloo as over loopback") {
  int ran = 0;
  for (std::uint64_t seed = 200; ran < 20; ++seed) {
    CAPTURE(seed);
    const ShardedRun run = run_sharded(seed, random_tensor_plan(seed), false, true);
    CHECK(run.problem == "");
    ran += run.ran ? 1 : 0;
  }
}

TEST_CASE("random graphs that are sharded at random train as autograd says") {
  check_seeds(0, 100);
}

TEST_CASE("rows that are looked up or written, sharded at random, train as autograd says") {
  check_seeds(0, 50, /*images=*/false, GENERATE(OpKind::kGather, OpKind::kScatter));
}

TEST_CASE("random graphs of images that are sharded at random train as autograd says") {
  check_seeds(0, 100, true);
}

TEST_CASE("a thousand random graphs of images that are sharded at random train as autograd says",
          "[.long]") {
  check_seeds(1000, 1000, true);
}

TEST_CASE("a thousand random graphs that are sharded at random train as autograd says", "[.long]") {
  check_seeds(1000, 1000);
}

}  // namespace trainyard::sharded_graphs_test
