// How long a schedule of 64 ranks and 1,024 microbatches takes to make, and to check and time: CPU
// seconds, the least of five.
//   schedule_speed [ranks] [microbatches]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

#include "engine/schedule/exchange_order.h"
#include "engine/schedule/schedule_names.h"
#include "engine/schedule/schedule_timing.h"

namespace trainyard {

namespace {

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

template <typename Work>
double least_of_five(const Work& work) {
  double least = 1e9;
  for (int i = 0; i < 5; ++i) {
    const double begin = cpu_seconds();
    work();
    least = std::min(least, cpu_seconds() - begin);
  }
  return least;
}

}  // namespace

}  // namespace trainyard

int main(int argc, char** argv) {
  using namespace trainyard;
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 64;
  const int microbatches = argc > 2 ? std::atoi(argv[2]) : 1024;
  std::printf("%-24s %10s %10s %10s %12s\n", "schedule", "make, s", "check, s", "sends, s",
              "actions");
  for (const ScheduleName& entry : schedule_names()) {
    const std::string name(entry.name);
    const bool two = name.starts_with("interleaved") || name == "zb-v" || name == "dualpipe-v";
    const auto make = [&] {
      return schedule_by_name(name, ranks, two ? 2 : 1, microbatches, false);
    };
    const auto made = make();
    if (const auto* reason = std::get_if<Infeasible>(&made)) {
      std::printf("%-24s %s\n", name.c_str(), reason->reason.c_str());
      continue;
    }
    const auto& schedule = std::get<PipelineSchedule>(made);
    const double making = least_of_five(make);
    const double checking =
        least_of_five([&] { return time_schedule(schedule, ActionDurations{}); });
    const double sending = least_of_five(
        [&] { return add_exchanges(lowered_rows(schedule), placement_of(schedule)); });
    std::size_t actions = 0;
    for (const auto& row : schedule.actions) actions += row.size();
    std::printf("%-24s %10.4f %10.4f %10.4f %12zu\n", name.c_str(), making, checking, sending,
                actions);
  }
  return 0;
}
