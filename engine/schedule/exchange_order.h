// Where sends and receives stand when both ends of a message wait for each other, as with blocking
// point-to-point calls: an order of all of them that cannot lock up.
#pragma once

#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/schedule/lowering_passes.h"

namespace trainyard {

/// Rows of compute with sends and receives. A receive stands in front of what needs it, a send
/// behind what made it. Two ranks that send to each other there, and then receive just that, do it
/// as one: "(0SEND_F3;0RECV_B0)P2P", Merak's SendActivationRecvGrad. Where ranks would wait for
/// each other in a circle one puts its send off, to where the other has come to receive it: a rank
/// that does not receive from the one it sends to next; of those the first. Merak's command stream
/// of scp is such a row. Lai et al., Merak (arXiv:2206.04959), section 5. Infeasible: who is stuck,
/// and what it waits for.
std::variant<std::vector<LoweredRow>, Infeasible> add_exchanges(const std::vector<LoweredRow>& rows,
                                                                const StagePlacement& placement);

}  // namespace trainyard
