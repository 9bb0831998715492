#include <numeric>

#include "real/exec/tensor_move.h"

namespace trainyard {

namespace {

void copy_runs(const MovedBlock& block, std::size_t dim, const at::Tensor& from, at::Tensor to) {
  if (dim == block.dims.size()) {
    to.copy_(from, /*non_blocking=*/true);
    return;
  }
  const auto d = static_cast<std::int64_t>(dim);
  for (const MovedRange& run : block.dims[dim])
    copy_runs(block, dim + 1, from.narrow(d, run.from, run.size), to.narrow(d, run.to, run.size));
}

at::Tensor buffer(std::int64_t elements, const at::Tensor& like) {
  return at::empty({elements}, like.options());
}

/// The blocks for all members, one behind the other.
at::Tensor packed(const std::vector<MovedBlock>& blocks, const at::Tensor& from) {
  std::int64_t elements = 0;
  for (const MovedBlock& block : blocks) elements += block.elements();
  at::Tensor all = buffer(elements, from);
  std::int64_t at = 0;
  for (const MovedBlock& block : blocks) {
    copy_block(block, from, all.narrow(0, at, block.elements()).view(block.shape));
    at += block.elements();
  }
  return all;
}

void unpack(const std::vector<MovedBlock>& blocks, const at::Tensor& all, at::Tensor& to) {
  std::int64_t at = 0;
  for (const MovedBlock& block : blocks) {
    copy_block(block, all.narrow(0, at, block.elements()).view(block.shape), to);
    at += block.elements();
  }
}

/// Each member's part of the result, the own one but for nothing.
void unpack_gathered(const TensorMove& move, const at::Tensor& all, std::int64_t each,
                     at::Tensor& to) {
  std::int64_t at = 0;
  for (const MovedBlock& block : move.received) {
    if (block.elements() > 0)
      copy_block(block, all.narrow(0, at, block.elements()).view(block.shape), to);
    at += each > 0 ? each : block.elements();
  }
}

/// Parts of unlike size, each sent to all other members as it is: no library gathers by counts, and
/// padded parts would move more.
void gather_by_counts(const TensorMove& move, Communicator& communicator, const at::Tensor& part,
                      at::Tensor& to) {
  const auto& [sent, received] = move.counts;
  const auto others = static_cast<std::int64_t>(sent.size()) - 1;
  at::Tensor all = buffer(std::accumulate(received.begin(), received.end(), std::int64_t{0}), part);
  communicator.all_to_all(part.repeat({others}), all, move.counts);
  unpack_gathered(move, all, 0, to);
}

/// Each member's summands of the own piece, added up in the members' order.
void scatter_by_counts(const TensorMove& move, Communicator& communicator, const at::Tensor& from,
                       at::Tensor& to) {
  const std::vector<std::int64_t>& received = move.counts.received;
  const auto members = static_cast<std::int64_t>(received.size());
  at::Tensor summands = buffer(members * received.front(), from);
  communicator.all_to_all(packed(move.sent, from), summands, move.counts);
  at::Tensor sum = summands.narrow(0, 0, received.front());
  for (std::int64_t m = 1; m < members; ++m)
    sum.add_(summands.narrow(0, m * received.front(), received.front()));
  unpack(move.received, sum, to);
}

}  // namespace

void copy_block(const MovedBlock& block, const at::Tensor& from, at::Tensor to) {
  copy_runs(block, 0, from, std::move(to));
}

void move_locally(const TensorMove& move, const at::Tensor& from, at::Tensor& to) {
  if (move.zeros) to.zero_();
  copy_block(move.kept, from, to);
}

void move_by_blocks(const TensorMove& move, OpKind kind, Communicator& communicator,
                    const at::Tensor& from, at::Tensor& to) {
  switch (kind) {
    case OpKind::kAllGather: {
      const at::Tensor part = packed(move.sent, from);
      if (!move.counts.sent.empty()) {
        gather_by_counts(move, communicator, part, to);
        break;
      }
      const auto members = static_cast<std::int64_t>(move.received.size());
      at::Tensor all = buffer(members * part.numel(), from);
      communicator.all_gather(part, all);
      unpack_gathered(move, all, part.numel(), to);
      break;
    }
    case OpKind::kReduceScatter: {
      if (!move.counts.sent.empty()) {
        scatter_by_counts(move, communicator, from, to);
        break;
      }
      at::Tensor part = buffer(move.received[0].elements(), from);
      communicator.reduce_scatter(packed(move.sent, from), part);
      unpack(move.received, part, to);
      break;
    }
    case OpKind::kAllReduce: {
      at::Tensor part = packed(move.sent, from);
      communicator.all_reduce(part, false);
      unpack(move.received, part, to);
      break;
    }
    default: {
      at::Tensor parts = buffer(to.numel(), from);
      communicator.all_to_all(packed(move.sent, from), parts, move.counts);
      unpack(move.received, parts, to);
      break;
    }
  }
  if (!to.is_alias_of(from)) copy_block(move.kept, from, to);
}

}  // namespace trainyard
