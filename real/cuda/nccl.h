// Collectives and transfers over NCCL, between GPUs.
//
// NCCL's own calls, not c10d's process group: what that sends and receives runs on streams of its
// own, so that the streams of a run would not be those of its Program.
#pragma once

#include <chrono>
#include <memory>

#include "real/comm/rendezvous.h"
#include "real/exec/communicator.h"

namespace trainyard {

/// One communicator per stream and group, whose calls are enqueued on the calling thread's current
/// stream. Their ids travel by the store. `timeout`: for the members of a group to come.
std::unique_ptr<Transport> make_nccl_transport(Rendezvous& rendezvous, int device,
                                               std::chrono::milliseconds timeout);

}  // namespace trainyard
