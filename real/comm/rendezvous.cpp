#include "real/comm/rendezvous.h"

#include "engine/base/error.h"
#include "real/comm/address.h"
#include "real/comm/rendezvous_store.h"

namespace trainyard {

namespace {

template <typename Call>
auto guarded(const std::string& what, const Call& call) {
  try {
    return call();
  } catch (const BackendError&) {
    throw;
  } catch (const std::exception& error) {
    throw BackendError("the run's store: " + what + ": " + error.what());
  }
}

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }
std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace

Rendezvous::Rendezvous(const RendezvousAddress& address, std::chrono::milliseconds timeout)
    : store_(std::make_unique<Store>()),
      timeout_(timeout) {
  const std::string where = address.host + ":" + std::to_string(address.port);
  guarded(std::string(address.server ? "opening " : "reaching ") + where, [&] {
    c10d::TCPStoreOptions options;
    options.port = static_cast<std::uint16_t>(address.port);
    options.isServer = address.server;
    if (address.server) {
      // The store by itself would listen on all interfaces.
      const ListeningSocket socket = listen_at(address.host, address.port);
      options.masterListenFd = socket.descriptor;
      options.port = static_cast<std::uint16_t>(socket.port);
    }
    options.waitWorkers = false;
    options.timeout = timeout;
    store_->tcp = c10::make_intrusive<c10d::TCPStore>(address.host, options);
  });
}

Rendezvous::~Rendezvous() = default;

int Rendezvous::port() const { return store_->tcp->getPort(); }

void Rendezvous::set(const std::string& key, const std::string& value) {
  guarded("setting " + key, [&] { store_->tcp->c10d::Store::set(key, value); });
}

std::string Rendezvous::get(const std::string& key) {
  return guarded("waiting for " + key, [&] {
    wait(key);
    return text_of(store_->tcp->get(key));
  });
}

std::optional<std::string> Rendezvous::try_get(const std::string& key) {
  return guarded("reading " + key, [&]() -> std::optional<std::string> {
    if (!store_->tcp->check({key})) return std::nullopt;
    return text_of(store_->tcp->get(key));
  });
}

void Rendezvous::barrier(const std::string& name, std::int64_t ranks) {
  guarded("barrier " + name, [&] {
    if (store_->tcp->add("barrier/" + name, 1) == ranks)
      store_->tcp->set("barrier/" + name + "/open", bytes_of("1"));
    wait("barrier/" + name + "/open");
  });
}

void Rendezvous::wait(const std::string& key) {
  if (!look_) return store_->tcp->wait({key});
  const auto until = std::chrono::steady_clock::now() + timeout_;
  for (;;) {
    try {
      return store_->tcp->wait({key}, std::chrono::seconds(1));
    } catch (const c10::DistStoreError&) {
      // Not there yet, or the connection is lost, which what looks finds out.
      if (std::chrono::steady_clock::now() > until) throw;
    }
    look_();
  }
}

std::vector<std::string> Rendezvous::all_gather(const std::string& name, std::int64_t rank,
                                                std::int64_t ranks, const std::string& own) {
  set(name + "/" + std::to_string(rank), own);
  std::vector<std::string> all;
  for (std::int64_t i = 0; i < ranks; ++i) all.push_back(get(name + "/" + std::to_string(i)));
  return all;
}

}  // namespace trainyard
