#include "real/comm/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/base/error.h"

namespace trainyard {

namespace {

/// An address and a port as the sockets take them.
struct Endpoint {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;

  sockaddr* address() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Endpoint endpoint_of(const std::string& host, int port) {
  const std::string service = std::to_string(port);
  int error = EAI_NONAME;
  for (const int family : {AF_INET, AF_INET6}) {
    addrinfo hints{};
    hints.ai_family = family;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    error = getaddrinfo(host.c_str(), service.c_str(), &hints, &found);
    if (error != 0) continue;
    Endpoint out;
    out.size = found->ai_addrlen;
    std::memcpy(&out.storage, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return out;
  }
  throw BackendError("host '" + host + "' has no address: " + gai_strerror(error));
}

std::string numeric(const Endpoint& endpoint) {
  char text[NI_MAXHOST] = {};
  const int error =
      getnameinfo(endpoint.address(), endpoint.size, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  check(error == 0, "a socket's address has a numeric form");
  return text;
}

/// Address of a socket that is bound.
Endpoint own_endpoint(int descriptor) {
  Endpoint out;
  check(getsockname(descriptor, out.address(), &out.size) == 0,
        "a socket that is bound has an address");
  return out;
}

int port_of(const Endpoint& endpoint) {
  const bool v6 = endpoint.storage.ss_family == AF_INET6;
  return ntohs(v6 ? reinterpret_cast<const sockaddr_in6*>(&endpoint.storage)->sin6_port
                  : reinterpret_cast<const sockaddr_in*>(&endpoint.storage)->sin_port);
}

/// A socket that is closed unless somebody takes it.
class Socket {
 public:
  Socket(const Endpoint& to, int type, const std::string& what)
      : what_(what),
        descriptor_(socket(to.storage.ss_family, type | SOCK_CLOEXEC, 0)) {
    require(descriptor_ >= 0);
  }
  ~Socket() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int get() const { return descriptor_; }
  int take() { return std::exchange(descriptor_, -1); }
  void require(bool done) const {
    if (!done) throw BackendError(what_ + ": " + std::strerror(errno));
  }

 private:
  std::string what_;
  int descriptor_;
};

}  // namespace

std::string resolve(const std::string& host) { return numeric(endpoint_of(host, 0)); }

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

std::string address_towards(const std::string& host) {
  const Endpoint to = endpoint_of(host, 9);  // any port: nothing is sent
  const Socket socket(to, SOCK_DGRAM, "finding the way to " + host);
  socket.require(connect(socket.get(), to.address(), to.size) == 0);
  return numeric(own_endpoint(socket.get()));
}

ListeningSocket listen_at(const std::string& host, int port) {
  const Endpoint at = endpoint_of(host, port);
  Socket socket(at, SOCK_STREAM, "listening at " + numeric(at) + ":" + std::to_string(port));
  const int on = 1;
  socket.require(setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
  socket.require(bind(socket.get(), at.address(), at.size) == 0);
  socket.require(listen(socket.get(), SOMAXCONN) == 0);
  const int bound = port_of(own_endpoint(socket.get()));
  return {socket.take(), bound};
}

}  // namespace trainyard
