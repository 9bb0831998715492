// Redistribution: paths per second, fresh and from the cache, and every pair of every 2-D mesh of
// up to 64 devices against MAP's greedy search. redistribution [speed|greedy]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "engine/sharding/map_greedy.h"
#include "tests/support/random_spec.h"

namespace trainyard {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

MoveCosts costs_of(const DeviceMesh& mesh, MoveCostModel model) {
  MoveCosts costs{model, {}, 2, true};
  for (int axis = 0; axis < mesh.num_axes(); ++axis)
    costs.links.push_back({1e-5 * (axis + 1), 1e-10 * (mesh.num_axes() - axis)});
  return costs;
}

struct Pair {
  TensorSpec from, to;
  Extents extents;
};

void measure(const char* what, const DeviceMesh& mesh, std::size_t dims, const SpecChoice& choice,
             int count) {
  Random random(7);
  const MoveCosts costs = costs_of(mesh, MoveCostModel::kExact);
  std::vector<Pair> pairs;
  for (int i = 0; i < count; ++i) {
    Extents extents;
    for (std::size_t d = 0; d < dims; ++d)
      extents.push_back(draw(random, 1, 64) * std::int64_t{i % 2 == 0 ? 48 : 1});
    pairs.push_back({random_spec(random, extents, mesh, choice),
                     random_spec(random, extents, mesh, choice), extents});
  }
  const auto start = std::chrono::steady_clock::now();
  std::size_t steps = 0;
  for (const Pair& pair : pairs) {
    const auto path = redistribute(pair.from, pair.to, pair.extents, mesh, costs);
    steps += std::get<Redistribution>(path).steps.size();
  }
  const double fresh = count / seconds_since(start);
  RedistributionCache cache(mesh, costs);
  const int warm = std::min(count, 200);
  for (int i = 0; i < warm; ++i)
    cache.find(pairs[static_cast<std::size_t>(i)].from, pairs[static_cast<std::size_t>(i)].to,
               pairs[static_cast<std::size_t>(i)].extents);
  const auto again = std::chrono::steady_clock::now();
  constexpr int kRounds = 200;
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < warm; ++i) {
      const Pair& pair = pairs[static_cast<std::size_t>(i)];
      cache.find(pair.from, pair.to, pair.extents);
    }
  }
  std::printf("%-34s fresh %9.0f/s   cached %9.0f/s   %.2f moves\n", what, fresh,
              kRounds * warm / seconds_since(again), static_cast<double>(steps) / count);
}

void speed() {
  const SpecChoice plain{false, false, true};
  measure("2 axes, 3 dims", mesh_of({4, 8}), 3, plain, 2000);
  measure("3 axes, 4 dims", mesh_of({4, 8, 2}), 4, plain, 1000);
  measure("3 axes, 4 dims, S and R alone", mesh_of({4, 8, 2}), 4, {false, false, false}, 1000);
  measure("3 axes, 4 dims, held", mesh_of({4, 8, 2}), 4, {false, true, true}, 500);
  measure("3 axes, 4 dims, parts", mesh_of({4, 8, 2}), 4, {true, false, true}, 500);
  measure("4 axes, 5 dims", mesh_of({4, 8, 2, 2}), 5, plain, 40);
}

/// All specs of S and R with ascending lists, as MAP knows them.
std::vector<TensorSpec> map_specs(std::size_t dims, const DeviceMesh& mesh) {
  std::vector<TensorSpec> specs = {replicated_spec(dims)};
  for (std::size_t i = 0; i < specs.size(); ++i) {
    for (const RedistributionStep& step : colossal_steps(specs[i], mesh)) {
      if (std::find(specs.begin(), specs.end(), step.after) == specs.end())
        specs.push_back(step.after);
    }
  }
  return specs;
}

int greedy() {
  std::int64_t pairs = 0, better = 0, worse = 0;
  const std::vector<Extents> tensors = {{64},         {7},         {64, 96},        {33, 64},
                                        {64, 32, 48}, {7, 64, 30}, {64, 32, 16, 8}, {5, 64, 3, 48}};
  for (std::int32_t a = 2; a <= 32; ++a) {
    for (std::int32_t b = 2; a * b <= 64; ++b) {
      const DeviceMesh mesh = mesh_of({a, b});
      for (const MoveCostModel model : {MoveCostModel::kExact, MoveCostModel::kColossal}) {
        const MoveCosts costs = costs_of(mesh, model);
        for (const Extents& extents : tensors) {
          const std::vector<TensorSpec> specs = map_specs(extents.size(), mesh);
          for (const TensorSpec& from : specs) {
            for (const TensorSpec& to : specs) {
              const auto best = redistribute(from, to, extents, mesh, costs);
              const auto other = greedy_redistribution(from, to, mesh);
              const double cost =
                  path_cost(std::get<Redistribution>(best), extents, mesh, costs).total();
              const double greedy_cost =
                  path_cost(std::get<Redistribution>(other), extents, mesh, costs).total();
              ++pairs;
              better += cost < greedy_cost * (1 - 1e-9) ? 1 : 0;
              worse += cost > greedy_cost * (1 + 1e-9) ? 1 : 0;
            }
          }
        }
      }
    }
  }
  std::printf("%lld pairs: shorter than greedy in %lld, longer in %lld\n",
              static_cast<long long>(pairs), static_cast<long long>(better),
              static_cast<long long>(worse));
  return worse == 0 ? 0 : 1;
}

}  // namespace

}  // namespace trainyard

int main(int argc, char** argv) {
  const bool all = argc < 2;
  if (all || std::strcmp(argv[1], "speed") == 0) trainyard::speed();
  if (all || std::strcmp(argv[1], "greedy") == 0) return trainyard::greedy();
  return 0;
}
