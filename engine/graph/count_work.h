// What the kernel of an instruction computes and moves, counted from its kind and the shapes of its
// operands.
#pragma once

#include <span>

#include "engine/graph/graph.h"
#include "engine/graph/kernel_work.h"
#include "engine/graph/op_kind.h"

namespace trainyard {

/// Operands of an instruction as the cost of its kernel depends on them.
struct OperandShape {
  const Shape* shape;
  DType dtype;
};

/// Work of one kernel. `reads`, `writes` and `accumulates` are the instruction's operands in order.
///   linear         [M,K] x [K,N]: 2MNK FLOP, in all three parts
///   scores, context  2 B N Sq Sk H forward, twice that backward
///   bmm            [..,M,K] x [..,K,N]: 2MNK FLOP for each pair, in all three parts
///   conv2d         2 N u z o c x y FLOP, in all three parts; conv_transpose2d 2 N h w o c x y
///   flash_attention  4 B N Sq Sk H forward, 2.5 x that backward; halved where causal; where the
///                  work is a symbol (program/attended_pairs.h), as if it were none
///   chunk_scan     scan_flop()
///   everything else is memory-bound: bytes read + written, accumulators counted twice
KernelWork kernel_work(OpKind kind, OpPart part, const OpAttrs& attrs,
                       std::span<const OperandShape> reads, std::span<const OperandShape> writes,
                       std::span<const OperandShape> accumulates);

/// The products of a scan of x [B, S, N P] by chunks of Q tokens, forward 2 B S (Q (G K + N P)
/// + 2 N P K), where the last chunk leaves nothing and the first reads nothing of others.
Flop scan_flop(OpPart part, const OpAttrs& attrs, const Shape& x);

/// Attention in one kernel of so many pairs of a query and a key for each head: two products
/// forward, of 2 H each; five backward.
Flop attention_flop(OpPart part, const OpAttrs& attrs, double pairs);

}  // namespace trainyard
