// What Rendezvous holds, for the transports that hand it to c10d.
#pragma once

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "real/comm/rendezvous.h"

namespace trainyard {

struct Rendezvous::Store {
  c10::intrusive_ptr<c10d::TCPStore> tcp;
};

}  // namespace trainyard
