#include "real/comm/clock_offset.h"

#include <fstream>
#include <limits>

#include "engine/base/indexed.h"
#include "engine/base/steady_time.h"

namespace trainyard {

namespace {

constexpr int kExchanges = 8;

/// The same in all processes since the machine was started, and nowhere else.
std::string machine_id() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id") >> std::ws, id);
  return id;
}

}  // namespace

Seconds clock_offset(Rendezvous& rendezvous, const std::string& name, std::int64_t rank,
                     std::int64_t ranks) {
  const Numbered<std::string> machines(
      rendezvous.all_gather(name + "/machine", rank, ranks, machine_id()));
  Seconds offset = 0;
  for (std::int64_t other = 1; other < ranks; ++other) {
    if (machines[other] == machines[0]) continue;
    Seconds best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kExchanges && (rank == 0 || rank == other); ++i) {
      const std::string key = name + "/" + std::to_string(other) + "/" + std::to_string(i);
      if (rank == 0) {
        rendezvous.get(key + "/ask");
        rendezvous.set(key + "/answer", std::to_string(steady_time()));
        continue;
      }
      const Seconds sent = steady_time();
      rendezvous.set(key + "/ask", "?");
      const Seconds theirs = std::stod(rendezvous.get(key + "/answer"));
      const Seconds back = steady_time();
      if (back - sent >= best) continue;
      best = back - sent;
      offset = theirs - 0.5 * (sent + back);
    }
  }
  return offset;
}

}  // namespace trainyard
