// All ranks in one process, a thread each: collectives are copies between their tensors. For tests
// by the thousand, with the same executor and the same results as over a network. The last member
// of a group that comes to a collective computes it, once for all.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "real/exec/communicator.h"

namespace trainyard {

/// What the ranks of one process share. Outlives their transports.
class LoopbackHub {
 public:
  /// A rank that waits while no rank has moved any data for `patience` ends all waits with a
  /// BackendError that says who waits for whom.
  explicit LoopbackHub(std::chrono::milliseconds patience = std::chrono::seconds(50));
  ~LoopbackHub();
  LoopbackHub(const LoopbackHub&) = delete;
  LoopbackHub& operator=(const LoopbackHub&) = delete;

  /// The transport of one rank.
  std::unique_ptr<Transport> transport();
  /// Ends every wait, now and later, with a BackendError: a rank has failed and will not come. The
  /// first reason stays.
  void abort(const std::string& why);

  struct Movement;
  struct Group;
  std::shared_ptr<Group> group(const std::string& name, const std::vector<std::int64_t>& ranks);

 private:
  /// Says of every rank that waits in what and for whom, and ends them all.
  void give_up();
  void abort_locked(const std::string& why);

  std::unique_ptr<Movement> movement_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Group>> groups_;
  std::string aborted_;
};

}  // namespace trainyard
