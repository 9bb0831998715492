// The store where the ranks of a run meet: c10d's TCPStore. It carries addresses when groups are
// made, and what little the ranks tell each other beside tensors: barriers, checkpoint shards,
// where each one is.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trainyard {

struct RendezvousAddress {
  std::string host = "127.0.0.1";  // a server listens there alone
  int port = 0;                    // 0, as server: any free one
  bool server = false;             // this process keeps the store
};

class Rendezvous {
 public:
  /// Throws BackendError where the store cannot be reached within `timeout`.
  Rendezvous(const RendezvousAddress& address, std::chrono::milliseconds timeout);
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  int port() const;
  /// Called about once a second while this rank waits for a key; what it throws ends the wait.
  void while_waiting(std::function<void()> look) { look_ = std::move(look); }
  void set(const std::string& key, const std::string& value);
  /// Waits for the key.
  std::string get(const std::string& key);
  std::optional<std::string> try_get(const std::string& key);
  /// Waits until all `ranks` ranks have come to the barrier of this name; a name serves once.
  void barrier(const std::string& name, std::int64_t ranks);
  /// What each rank says, in the order of the ranks; the same answer everywhere. A name serves
  /// once.
  std::vector<std::string> all_gather(const std::string& name, std::int64_t rank,
                                      std::int64_t ranks, const std::string& own);

  struct Store;
  Store& store() { return *store_; }

 private:
  void wait(const std::string& key);

  std::unique_ptr<Store> store_;
  std::chrono::milliseconds timeout_;
  std::function<void()> look_;
};

}  // namespace trainyard
