// Collectives and transfers over Gloo, through c10d: between processes, on one machine or several.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "real/comm/rendezvous.h"
#include "real/exec/communicator.h"

namespace trainyard {

/// One process group per stream and group, each with one thread, so that what is enqueued first
/// runs first. `host`: the address by which the other ranks reach this one, where alone it listens.
std::unique_ptr<Transport> make_gloo_transport(Rendezvous& rendezvous, std::int64_t rank,
                                               const std::string& host,
                                               std::chrono::milliseconds timeout);

}  // namespace trainyard
