// Where the ranks of a test meet, each a thread of it: in memory, or at a store over Gloo.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "real/comm/gloo.h"
#include "real/exec/loopback.h"

namespace trainyard {

inline constexpr auto kGlooTimeout = std::chrono::seconds(50);

/// Where the ranks meet: in memory, or at a store.
class Meeting {
 public:
  explicit Meeting(bool over_gloo) {
    if (over_gloo) store_.emplace(RendezvousAddress{.server = true}, kGlooTimeout);
  }
  /// What one rank joins through. Outlives its transport.
  std::unique_ptr<Rendezvous> connect() const {
    if (!store_) return nullptr;
    return std::make_unique<Rendezvous>(RendezvousAddress{.port = store_->port()}, kGlooTimeout);
  }
  std::unique_ptr<Transport> transport(Rendezvous* store, std::int64_t rank) {
    return store == nullptr ? hub_.transport()
                            : make_gloo_transport(*store, rank, "127.0.0.1", kGlooTimeout);
  }
  void abort(const std::string& why) { hub_.abort(why); }

 private:
  LoopbackHub hub_;
  std::optional<Rendezvous> store_;
};

}  // namespace trainyard
