// What a rank's streams need from the library that moves data between ranks. One communicator
// serves one stream and one group, so that nothing on it can overtake.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "real/torch.h"

namespace trainyard {

/// Elements that go to each member of an all-to-all, and that come from it, one behind the other.
struct AllToAllCounts {
  std::vector<std::int64_t> sent, received;
};

/// On a CPU calls block until the local tensors may be used again; on a GPU they enqueue on the
/// current stream. All tensors are contiguous. Failures are BackendErrors with the library's own
/// message.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual void all_reduce(at::Tensor& tensor, bool maximum) = 0;           // in place
  virtual void all_gather(const at::Tensor& part, at::Tensor& whole) = 0;  // whole: parts by member
  virtual void reduce_scatter(const at::Tensor& whole,
                              at::Tensor& part) = 0;  // sum of the own part
  virtual void all_to_all(const at::Tensor& from, at::Tensor& to, const AllToAllCounts& counts) = 0;
  virtual void broadcast(at::Tensor& tensor, int root) = 0;  // from the root's
  virtual void reduce(at::Tensor& tensor,
                      int root) = 0;  // the sum in the root's; nothing of use in the others'
  virtual void send(const at::Tensor& tensor, int member) = 0;
  virtual void receive(at::Tensor& tensor, int member) = 0;
  /// Throws what has gone wrong with calls that have returned. Calls that block say it themselves.
  virtual void check() {}
  /// Gives up what is under way, so that no device waits for members that do not come; nothing is
  /// called afterwards. Calls that block end by themselves.
  virtual void abort() {}
};

/// "tp.1", {0, 2} -> "tp.1.0.2": names a group among those of all ranks.
std::string group_key(const std::string& name, const std::vector<std::int64_t>& ranks);

/// Makes the communicators of one rank. Every member of a group makes it, in the same order.
class Transport {
 public:
  virtual ~Transport() = default;
  /// `name`: the same on all members, unlike those of other groups of these ranks.
  virtual std::unique_ptr<Communicator> make(const std::string& name,
                                             const std::vector<std::int64_t>& ranks,
                                             int member) = 0;
  /// The same for tensors in the memory of the hosts: they send and receive alone.
  virtual std::unique_ptr<Communicator> make_between_hosts(const std::string& name,
                                                           const std::vector<std::int64_t>& ranks,
                                                           int member) {
    return make("host." + name, ranks, member);
  }
};

/// Makes the communicators of `inner`, which outlives it, with `prefix` before their names: for a
/// second executor of the same ranks.
std::unique_ptr<Transport> prefixed(Transport& inner, const std::string& prefix);

}  // namespace trainyard
