// All ranks in one process, a thread each: collectives are copies between their tensors. For tests by
// the thousand, with the same executor and the same results as over a network.
#pragma once

#include <condition_variable>
#include <deque>
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
  /// The transport of one rank.
  std::unique_ptr<Transport> transport();
  /// Ends every wait, now and later, with a BackendError: a rank has failed and will not come.
  void abort(const std::string& why);

  struct Group;
  std::shared_ptr<Group> group(const std::string& name, const std::vector<std::int64_t>& ranks);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Group>> groups_;
  std::string aborted_;
};

}  // namespace trainyard
