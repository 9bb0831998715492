// A rank's work with everybody's heartbeats watched: who hangs, and who died, is said by name.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "engine/program/program.h"
#include "real/comm/rendezvous.h"
#include "real/launch/rank_environment.h"
#include "real/train/rank_trainer.h"

namespace trainyard {

class RankWatch {
 public:
  /// `rendezvous`: the run's; a connection of its own carries the heartbeats, since the run's may
  /// be waiting. A rank without progress for `timeout` (training.timeout_s) hangs. ASSUME:
  /// `environment` and `rendezvous` outlive this.
  RankWatch(const RankEnvironment& environment, Rendezvous& rendezvous,
            const RendezvousAddress& store, std::chrono::milliseconds timeout);

  /// Does `work`, which `trainer` runs, from when all ranks have come to it until all have done;
  /// says who hangs. Throws what `work` throws, and BackendError, which names the rank that moved
  /// last where nobody else sees who died.
  void watched(const Program& program, RankTrainer& trainer, const std::string& name,
               const std::function<void()>& work);

 private:
  std::int64_t ranks() const { return environment_.world_size; }
  bool supervised() const { return environment_.launcher == kOwnLauncher; }
  void reported(const std::function<void()>& work) const;
  void report_hang();
  std::string last_to_move();

  const RankEnvironment& environment_;
  Rendezvous& rendezvous_;
  std::chrono::milliseconds timeout_;
  Rendezvous heartbeats_;
};

}  // namespace trainyard
