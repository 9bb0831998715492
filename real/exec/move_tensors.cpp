#include "real/exec/move_tensors.h"

#include "engine/base/error.h"

namespace trainyard {

namespace {

/// [.., dim, ..] of `parts` members as they lie in a flat gather, one behind the other -> joined
/// along `dim`; -1: flat already.
void join(const at::Tensor& gathered, at::Tensor& whole, int dim, std::int64_t parts) {
  if (dim < 0) return;
  std::vector<std::int64_t> shape = whole.sizes().vec();
  shape.begin()[dim] /= parts;
  shape.insert(shape.begin(), parts);
  std::vector<at::Tensor> pieces = gathered.view(shape).unbind(0);
  at::cat_out(whole, pieces, dim);
}

/// The reverse: one behind the other, as a scatter takes them.
at::Tensor part(const at::Tensor& whole, int dim, std::int64_t parts) {
  if (dim <= 0) return whole.contiguous();
  return at::cat(whole.chunk(parts, dim), 0).contiguous();
}

/// Calls receive(tensor) with one that lies in one piece, as members receive it: `to`, or where
/// that is a view of a packed tensor, another that is copied there.
template <typename Receive>
void receive_into(at::Tensor& to, const Receive& receive) {
  if (to.is_contiguous()) return receive(to);
  at::Tensor whole = at::empty(to.sizes(), to.options());
  receive(whole);
  to.copy_(whole);
}

}  // namespace

void move_tensors(const OpPlan& plan, const std::vector<at::Tensor>& reads,
                  std::vector<at::Tensor>& writes, std::int64_t parts) {
  if (plan.op->kind == OpKind::kCopy) {
    writes[0].copy_(reads[0], /*non_blocking=*/true);
    return;
  }
  if (plan.has_no_peers) {
    if (!writes[0].is_alias_of(reads[0])) writes[0].view({-1}).copy_(reads[0].reshape({-1}));
    return;
  }
  Communicator& communicator = *plan.communicator;
  const int dim = plan.attrs->dim;
  if (plan.move && !plan.move->plain)
    return move_by_blocks(*plan.move, plan.op->kind, communicator, reads[0], writes[0]);
  switch (plan.op->kind) {
    case OpKind::kAllReduce:
      if (!writes[0].is_alias_of(reads[0])) writes[0].copy_(reads[0]);
      return communicator.all_reduce(writes[0], plan.attrs->maximum);
    case OpKind::kAllGather: {
      if (dim <= 0) {
        return receive_into(
            writes[0], [&](at::Tensor& to) { communicator.all_gather(reads[0].contiguous(), to); });
      }
      at::Tensor flat = at::empty({writes[0].numel()}, writes[0].options());
      communicator.all_gather(reads[0].contiguous(), flat);
      return join(flat, writes[0], dim, parts);
    }
    case OpKind::kReduceScatter:
      return receive_into(writes[0], [&](at::Tensor& to) {
        communicator.reduce_scatter(part(reads[0], dim, parts), to);
      });
    case OpKind::kRingShift:
      return communicator.all_to_all(reads[0].contiguous(), writes[0], plan.shifted);
    case OpKind::kReduce:
      if (!writes[0].is_alias_of(reads[0])) writes[0].copy_(reads[0]);
      return communicator.reduce(writes[0], plan.peer);
    case OpKind::kBroadcast:
      if (!writes[0].is_alias_of(reads[0])) writes[0].copy_(reads[0]);
      return communicator.broadcast(writes[0], plan.peer);
    case OpKind::kSend: return communicator.send(reads[0].contiguous(), plan.peer);
    case OpKind::kRecv: return communicator.receive(writes[0], plan.peer);
    default: bug("no such communication");
  }
}

}  // namespace trainyard
