// Graphs that are sharded in every way train as autograd says of the graph of one device: each op
// split by a random strategy, each tensor stored with a random spec, on meshes of one to three
// tensor axes. What ranks hold is put together by the boxes of their specs, so that values, the
// loss and all gradients of parameters are compared with LibTorch's.
//
// All in fp64: sums in another order differ by 1.1e-16 per addition, of at most some 10^4 elements.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "tests/real/graph_run.h"
#include "tests/support/random_graph.h"
#include "tests/support/random_sharding.h"

namespace trainyard {

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
};

ShardedRun run_sharded(std::uint64_t seed, const Plan& plan) {
  const Graph graph = random_graph(seed, {.ops = 2 + static_cast<int>(seed % 9),
                                          .layers = plan.parallel.pipeline,
                                          .only = {},
                                          .even = true});
  bool planned = true;
  CompileOptions options;
  options.plan_sharding = [&](Graph& sharded, Sharding& sharding) {
    planned = plan_random_sharding(seed, {}, sharded, sharding);
    if (!planned) throw std::runtime_error("no strategy");
  };
  GraphRun ours;
  try {
    ours = run_graph(graph, plan, options);
  } catch (const std::runtime_error& error) {
    const std::string what = error.what();
    // Moves may lead over pieces of unlike size, or parts that axes split unlike.
    const bool refused = what == "no strategy" || what.find("does not divide") != what.npos ||
                         what.find("split unlike") != what.npos;
    return {refused ? "" : what, false};
  }
  if (!ours.greedy.empty()) return {ours.greedy.front(), true};
  return {find_difference(graph, ours, differentiate_by_torch(graph)), true};
}

void check_seeds(std::uint64_t first, std::uint64_t count) {
  std::uint64_t ran = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    CAPTURE(seed);
    const ShardedRun run = run_sharded(seed, random_tensor_plan(seed));
    CHECK(run.problem == "");
    ran += run.ran ? 1 : 0;
  }
  CHECK(ran > count / 2);
}

}  // namespace

TEST_CASE("random graphs that are sharded at random train as autograd says") {
  check_seeds(0, 100);
}

TEST_CASE("a thousand random graphs that are sharded at random train as autograd says", "[.long]") {
  check_seeds(1000, 1000);
}

}  // namespace trainyard
