// Communication of a rank that has no peers: what it sends goes nowhere, what it receives is made
// up. Bytes and shapes are real, numbers are plausible and finite and mean nothing.
#pragma once

#include <memory>

#include "real/exec/communicator.h"

namespace trainyard {

/// all_reduce leaves what is there (and touches every byte of it once); all_gather gives every
/// member the own part; reduce_scatter gives back the own part; all_to_all what was brought;
/// receives get small random numbers, zeros where the type is a whole number's. No call waits, none
/// allocates.
std::unique_ptr<Transport> make_stand_in_transport(at::Device device);

}  // namespace trainyard
