// What a rank receives from the others, counted where a library is called.
#pragma once

#include <atomic>
#include <memory>

#include "real/exec/communicator.h"

namespace trainyard {

/// `inner`, whose communicators add to `received` the bytes that the other members have sent: of an
/// all-reduce a share of the sums and of the results each. Of broadcasts and reductions all members
/// count the tensor. `received` outlives it.
std::unique_ptr<Transport> counted(std::unique_ptr<Transport> inner, std::atomic<double>& received);

}  // namespace trainyard
