// Every rank says several times a second where it is in the Program, from a thread of its own, so
// that a rank that hangs or dies can be named by the others, with where it was less than a second
// before.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/error.h"
#include "engine/program/program.h"
#include "real/comm/rendezvous.h"
#include "real/exec/rank_executor.h"

namespace trainyard {

struct Heartbeat {
  std::int64_t rank = 0;
  double sent_s = 0;     // when it was sent, seconds of the system's clock
  double changed_s = 0;  // since when the rank has been where it is
  std::string where;     // "step 12, call 3 (1F2), op 5 linear of decoder.layers.1.mlp.fc1"
};

/// Reads the heartbeats of all ranks, oldest position first; ranks that never sent one come first
/// of all.
std::vector<Heartbeat> read_heartbeats(Rendezvous& rendezvous, std::int64_t ranks);

/// "rank 3, which has been at step 12, ... for 31 s", of the rank that holds the others up.
std::string name_culprit(const std::vector<Heartbeat>& heartbeats);

/// Whose heartbeats stop while this rank waits for them.
class PeerWatch {
 public:
  PeerWatch(Rendezvous& rendezvous, std::int64_t ranks) : rendezvous_(rendezvous), peers_(ranks) {}
  /// Reads all heartbeats. Throws PeerLost for a rank whose heartbeat has stayed the same for
  /// kSilence. Looks further apart than that begin anew: nobody watched between them.
  void look();

 private:
  struct Peer {
    std::string heartbeat;
    std::chrono::steady_clock::time_point changed;
  };
  Rendezvous& rendezvous_;
  Numbered<Peer> peers_;
  std::chrono::steady_clock::time_point looked_{};
};

/// A rank is gone; the message says which and where it was.
struct PeerLost : BackendError {
  using BackendError::BackendError;
};

std::string describe(const Program& program, const RankPlan& plan, const Whereabouts& whereabouts);

class HeartbeatSender {
 public:
  /// `rendezvous` must be this object's own connection. After `timeout` without a change of place,
  /// `on_hang` is called once, from the sender's thread.
  HeartbeatSender(Rendezvous& rendezvous, std::int64_t rank, const Program& program,
                  const RankPlan& plan, const Whereabouts& whereabouts,
                  std::chrono::duration<double> timeout, std::function<void()> on_hang);
  ~HeartbeatSender();
  HeartbeatSender(const HeartbeatSender&) = delete;
  HeartbeatSender& operator=(const HeartbeatSender&) = delete;

 private:
  void run();
  void send();

  Rendezvous& rendezvous_;
  std::int64_t rank_;
  const Program& program_;
  const RankPlan& plan_;
  const Whereabouts& whereabouts_;
  std::chrono::duration<double> timeout_;
  std::function<void()> on_hang_;
  std::array<std::int64_t, 4> place_{-2, -2, -2, -2};
  double changed_s_ = 0;
  std::mutex mutex_;
  std::condition_variable stop_changed_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace trainyard
