// Times collectives and transfers between the ranks of this machine, by size.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "calibrate/result/calibration.h"
#include "real/exec/communicator.h"
#include "real/exec/device.h"

namespace trainyard {

/// The kinds that it knows: all_reduce, all_gather, reduce_scatter, all_to_all, send.
const std::vector<std::string>& message_kinds();

class MessageTimer {
 public:
  /// All `ranks` ranks make one; each call is made by all with the same arguments. They outlive it.
  MessageTimer(Device& device, Transport& transport, std::int64_t rank, std::int64_t ranks);

  /// As a step sees it: from its issue, when all ranks have come, to when the main stream may go
  /// on; the largest of all ranks. `bytes` as message_bytes() counts them, rounded to whole
  /// elements for each rank.
  MessagePoint time(const std::string& kind, Bytes bytes, int repeats);

 private:
  void meet();
  Seconds largest(Seconds time);
  Seconds once(const std::function<void()>& call);

  Device& device_;
  std::int64_t rank_, ranks_;
  std::unique_ptr<Communicator> all_, pair_;
};

}  // namespace trainyard
