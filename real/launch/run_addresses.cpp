#include "real/launch/run_addresses.h"

#include "engine/base/error.h"
#include "real/comm/address.h"

namespace trainyard {

namespace {

constexpr const char* kLoopback = "127.0.0.1";

}  // namespace

RunAddresses run_addresses(const RankEnvironment& environment,
                           const std::optional<std::string>& own_host) {
  if (environment.on_one_machine()) return {kLoopback, kLoopback};
  const std::string& master = environment.master_host;
  const std::string address = resolve(master);
  if (!is_loopback(address))
    return {address, own_host ? resolve(*own_host) : address_towards(address)};
  if (!environment.local_size_known) return {address, address};
  if (own_host) return {resolve(*own_host), resolve(*own_host)};
  throw ConfigError("rank 0's host '" + master + "' is " + address +
                    " on this machine, where the run's other machines cannot reach it; set "
                    "TRAINYARD_HOST to this "
                    "machine's address in their network");
}

}  // namespace trainyard
