// Pass: pipeline transfers from and into tensors -> each of the ways that a tensor may go with
// `parallel.d2d_buffer` (transfer_routes.h), as segments of its own. Which of them a microbatch
// takes is lower()'s matter.
//
// clang-format off
//   1RECV_F(m)  fwd_in recv -> y@1.received
//   1TAKE_F(m)  main device_copy y@1.received -> y@1 ; free y@1.received
//   0SEND_F(m)  fwd send y                                 in a node
//   0FREE_F(m)  main free y
//   0PUT_F(m)   main device_copy y -> y.sent ; free y      between nodes
//   0SEND_F(m)  fwd send y.sent
//   0FREE_F(m)  main free y.sent
//
//   0SEND_F.host(m)  d2h copy y -> y.sent.host ; fwd send y.sent.host
//   0FREE_F.host(m)  main free y y.sent.host
//   1RECV_F.host(m)  fwd_in recv -> y@1.received.host ; h2d copy y@1.received.host -> y@1
//   1DONE_F.host(m)  main free y@1.received.host
// clang-format on
#pragma once

#include "engine/passes/program_draft.h"

namespace trainyard {

/// Behind instantiate(). `links`: of all that send each other; `buffer`: bytes of the one into
/// which a rank receives, and of the one from which it sends between nodes.
void buffer_transfers(ProgramDraft& draft, PipelineLinks links, Bytes buffer);

}  // namespace trainyard
