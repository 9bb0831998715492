// How long strategy problems take, and how far their choices may be above the best.
//   strategy_speed [nodes] [strategies] [edges] [most span] [seed]
// Without arguments: the problems of README.md.
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "engine/strategies/choose_strategies.h"
#include "tests/support/random_strategies.h"

namespace trainyard {

namespace {

void measure(const StrategyShape& shape, std::uint64_t seed) {
  const StrategyProblem problem = random_strategies(shape, seed);
  const std::clock_t begin = std::clock();  // of this process, whatever others do
  const auto found = choose_strategies(problem);
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  const auto& chosen = std::get<ChosenStrategies>(found);
  std::printf("%6zu %4zu %6zu %5zu %8s %5llu %8.3f %12.5f %9.4f %% %4lld %9lld %s\n", shape.nodes,
              shape.strategies, shape.edges, shape.most_span, shape.sharded ? "sharded" : "uniform",
              static_cast<unsigned long long>(seed), seconds, chosen.objective, 100 * chosen.gap(),
              static_cast<long long>(chosen.prices), static_cast<long long>(chosen.steps),
              chosen.finished ? "optimal" : "");
}

}  // namespace

}  // namespace trainyard

int main(int argc, char** argv) {
  using namespace trainyard;
  const auto argument = [&](int i, std::size_t otherwise) {
    return argc > i ? std::strtoull(argv[i], nullptr, 10) : otherwise;
  };
  std::printf("%6s %4s %6s %5s %8s %5s %8s %12s %11s %4s %9s\n", "nodes", "each", "edges", "span",
              "kind", "seed", "CPU s", "cost", "gap", "runs", "steps");
  std::vector<StrategyShape> shapes;
  if (argc > 1) {
    StrategyShape shape;
    shape.nodes = argument(1, 500);
    shape.strategies = argument(2, 12);
    shape.edges = argument(3, 648);
    shape.most_span = argument(4, 4);
    shapes.push_back(shape);
  } else {
    for (const std::size_t edges : {648, 960}) {
      shapes.emplace_back();
      shapes.back().edges = edges;
    }
    shapes.push_back({40, 6, 60, 4});
    shapes.push_back({40, 6, 60, 39});
  }
  for (StrategyShape shape : shapes) {
    for (const bool sharded : {false, true}) {
      shape.sharded = sharded;
      const std::size_t first = argument(5, 1);
      for (std::size_t seed = first; seed < first + (argc > 5 ? 1 : 3); ++seed)
        measure(shape, seed);
    }
  }
  return 0;
}
