// Addresses of this machine: where a run listens, so that it does so nowhere else.
#pragma once

#include <string>

namespace trainyard {

/// "127.0.0.1", "10.0.0.5", "::1": what `host` is here, IPv4 first. Throws BackendError.
std::string resolve(const std::string& host);

/// Whether only this machine reaches it.
bool is_loopback(const std::string& address);

/// The address of the interface by which this machine reaches `host`. Throws BackendError.
std::string address_towards(const std::string& host);

struct ListeningSocket {
  int descriptor = -1;  // whoever gets it closes it
  int port = 0;
};

/// Listens at that address of `host` alone. `port` 0: any free one. Throws BackendError.
ListeningSocket listen_at(const std::string& host, int port);

}  // namespace trainyard
