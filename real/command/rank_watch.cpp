#include "real/command/rank_watch.h"

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "engine/base/error.h"
#include "real/launch/failure.h"
#include "real/launch/heartbeats.h"
#include "real/launch/local_launcher.h"
#include "system/exit_code.h"

namespace trainyard {

namespace {

/// After this long the heartbeats of a process that died are older than those of any that lives.
constexpr auto kHeartbeatsMissed = std::chrono::milliseconds(2500);

}  // namespace

RankWatch::RankWatch(const RankEnvironment& environment, Rendezvous& rendezvous,
                     const RendezvousAddress& store, std::chrono::milliseconds timeout)
    : environment_(environment),
      rendezvous_(rendezvous),
      timeout_(timeout),
      heartbeats_(store, timeout) {}

void RankWatch::watched(const Program& program, RankTrainer& trainer, const std::string& name,
                        const std::function<void()>& work) {
  rendezvous_.barrier(name, ranks());
  const HeartbeatSender heartbeats(heartbeats_, environment_.rank, program,
                                   trainer.executor().plan(), trainer.executor().whereabouts(),
                                   std::chrono::duration<double>(timeout_),
                                   [this] { report_hang(); });
  PeerWatch peers(rendezvous_, ranks());
  if (!supervised()) rendezvous_.while_waiting([&] { peers.look(); });
  try {
    reported(work);
  } catch (const PeerLost&) {
    throw;
  } catch (const BackendError& error) {
    throw BackendError(error.what() + last_to_move());
  }
  rendezvous_.while_waiting(nullptr);
  rendezvous_.barrier(name + "/end", ranks());
}

/// Tells the supervisor why `work` fails before what this rank holds is closed: the others meet
/// that, and the first to report is named.
void RankWatch::reported(const std::function<void()>& work) const {
  try {
    work();
  } catch (const std::exception&) {
    if (supervised()) report_rank_error(environment_, current_failure());
    throw;
  }
}

/// Ends this process, whose main thread waits for a rank that does not come.
void RankWatch::report_hang() {
  std::string culprit;
  try {
    culprit = name_culprit(read_heartbeats(heartbeats_, ranks()));
  } catch (const BackendError& error) {
    culprit = std::string("what keeps the store: ") + error.what();
  }
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%g", std::chrono::duration<double>(timeout_).count());
  const std::string message =
      std::string("no progress for ") + seconds + " s (training.timeout_s); held up by " + culprit;
  report_rank_error(environment_, {kBackendFailed, message});
  if (!supervised()) {
    std::fprintf(stderr, "trainyard: rank %lld: %s\n", static_cast<long long>(environment_.rank),
                 message.c_str());
  }
  std::fflush(nullptr);
  std::_Exit(3);
}

/// Where there is no supervisor that sees which process died, the survivors find out: its
/// heartbeats stop.
std::string RankWatch::last_to_move() {
  if (supervised()) return "";
  std::this_thread::sleep_for(kHeartbeatsMissed);
  try {
    return "; last to move: " + name_culprit(read_heartbeats(rendezvous_, ranks()));
  } catch (const BackendError&) {
    return "; rank 0, which keeps the run's store, cannot be reached";
  }
}

}  // namespace trainyard
