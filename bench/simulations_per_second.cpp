// Whether the last of many simulations in one process takes as long as the first: CPU milliseconds
// of each, 30 flows on 20 links, averaged over a tenth of them.
//   simulations_per_second [simulations]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "sim/shared_links.h"

namespace trainyard {

namespace {

constexpr std::int32_t kFlows = 30;
constexpr std::int32_t kLinks = 20;

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

void simulate_once() {
  const std::vector<double> capacities(kLinks, 100e9);
  const auto links = make_shared_links(capacities, {50e9});
  links->run([&] {
    for (std::int32_t flow = 0; flow < kFlows; ++flow) {
      const std::int32_t pace = flow % 2 == 0 ? -1 : 0;
      links->start(flow, 1e9 + 1e7 * flow, pace, {{flow % kLinks}, {(flow + 3) % kLinks}});
    }
    std::vector<std::int32_t> ended;
    while (links->num_active() > 0) links->wait(INFINITY, ended);
  });
}

}  // namespace

}  // namespace trainyard

int main(int argc, char** argv) {
  const int simulations = std::max(10, argc > 1 ? std::atoi(argv[1]) : 10000);
  const int tenth = simulations / 10;
  for (int part = 0; part < 10; ++part) {
    const double begin = trainyard::cpu_seconds();
    for (int i = 0; i < tenth; ++i) trainyard::simulate_once();
    std::printf("%7d to %7d: %.3f ms each\n", part * tenth + 1, (part + 1) * tenth,
                (trainyard::cpu_seconds() - begin) / tenth * 1e3);
  }
}
