#include "tests/real/threads/heartbeats_run.h"

#include <algorithm>
#include <string>
#include <thread>

#include "real/exec/rank_executor.h"
#include "real/launch/heartbeats.h"
#include "tests/real/layouts.h"
#include "tests/real/loopback_run.h"

namespace trainyard {

double oldest_beat(std::chrono::milliseconds duration) {
  constexpr auto kTimeout = std::chrono::seconds(50);
  Rendezvous store(RendezvousAddress{.server = true}, kTimeout);
  Rendezvous sender(RendezvousAddress{.port = store.port()}, kTimeout);
  double oldest = -1;
  LoopbackOptions options;
  options.steps = 0;
  options.ready = [&](std::int64_t rank, RankExecutor& executor) {
    Whereabouts whereabouts;
    whereabouts.step = 0;
    const HeartbeatSender heartbeats(sender, rank, executor.plan().program(), executor.plan(),
                                     whereabouts, kTimeout, [] {});
    const auto until = std::chrono::steady_clock::now() + duration;
    while (std::chrono::steady_clock::now() < until) {
      ++whereabouts.step;
      const Heartbeat heartbeat = read_heartbeats(store, 1).front();
      const double now =
          std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
              .count();
      if (heartbeat.sent_s > 0) oldest = std::max(oldest, now - heartbeat.sent_s);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  run_loopback(parity_study("gpt", "precision: fp32"), {}, options);
  return oldest;
}

}  // namespace trainyard
