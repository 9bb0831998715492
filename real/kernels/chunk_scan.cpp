// A state space model's scan (Dao and Gu 2024, arXiv:2405.21060, section 6): tokens of a chunk read
// each other by products of matrices, and the state that all chunks before theirs have left.
//
// All exponents are sums of dt A, hence <= 0, and are taken anew for each pair of tokens: close
// ones stay exact, and nothing overflows. Numbers are of accumulation type throughout.
//
// Shapes: B = sequences, Q = tokens of a chunk, G = groups, R = heads of one, P = channels of a
// head, K = states of a channel; N = G R.
#include <algorithm>
#include <utility>
#include <vector>

#include "engine/graph/state_space_shapes.h"
#include "real/cuda/cuda.h"
#include "real/cuda/state_space.h"
#include "real/kernels/kernels.h"

namespace trainyard {

namespace {

/// What a scan reads, by head and group.
struct ScanOperands {
  at::Tensor x;             // [B, S, G, R, P]
  at::Tensor dt;            // [B, S, G, R], before softplus
  at::Tensor b, c;          // [B, S, G, K]
  at::Tensor a, bias, d;    // [G, R]
  std::int64_t tokens = 0;  // of a chunk
  at::ScalarType type = at::kFloat;
};

ScanOperands operands_of(const KernelCall& call, std::size_t first) {
  const OpAttrs& attrs = *call.attrs;
  const std::int64_t groups = attrs.kv_heads, heads = attrs.heads / groups;
  const at::Tensor& x = call.read(first);
  ScanOperands out;
  out.type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  out.x = x.unflatten(-1, {groups, heads, attrs.head_dim});
  out.dt = call.read(first + 1).unflatten(-1, {groups, heads});
  out.b = call.read(first + 2).unflatten(-1, {groups, attrs.states});
  out.c = call.read(first + 3).unflatten(-1, {groups, attrs.states});
  const auto of_heads = [&](std::size_t i) {
    return call.read(first + i).to(out.type).view({groups, heads});
  };
  out.a = of_heads(4).exp().neg();
  out.bias = of_heads(5);
  out.d = of_heads(6);
  out.tokens = tokens_of_chunk(attrs, x.size(1));
  return out;
}

/// One chunk's numbers.
struct Chunk {
  at::Tensor x;        // [B, G, Q, R, P]
  at::Tensor raw, dt;  // [B, G, Q, R]: with the bias; its softplus
  at::Tensor b, c;     // [B, G, Q, K]
  at::Tensor decay;    // [B, G, R, Q, Q]: what is left of each column's token at each row's
  at::Tensor since;    // [B, G, Q, R, 1]: of the state before the chunk at each token
  at::Tensor rest;     // [B, G, Q, R, 1]: of each token behind the chunk
  at::Tensor over;     // [B, G, 1, R, 1]: of the state before the chunk behind it
  at::Tensor scores;   // [B, G, 1, Q, Q]: c b^T
};

/// A chunk's tokens, behind groups.
at::Tensor part_of(const ScanOperands& in, const at::Tensor& of, std::int64_t index) {
  return of.narrow(1, index * in.tokens, in.tokens).to(in.type).transpose(1, 2);
}

/// dt A: [B, G, R, Q].
at::Tensor steps_of(const ScanOperands& in, const at::Tensor& dt) {
  return (dt * in.a.unsqueeze(1)).transpose(2, 3).contiguous();
}

at::Tensor by_token(const at::Tensor& of) { return of.transpose(2, 3).unsqueeze(-1); }

Chunk chunk_at(const ScanOperands& in, std::int64_t index) {
  Chunk out;
  out.x = part_of(in, in.x, index).contiguous();
  out.raw = part_of(in, in.dt, index) + in.bias.unsqueeze(1);
  out.dt = at::softplus(out.raw);
  out.b = part_of(in, in.b, index).contiguous();
  out.c = part_of(in, in.c, index).contiguous();
  const at::Tensor steps = steps_of(in, out.dt);
  at::Tensor pairs = steps.unsqueeze(-1).expand({-1, -1, -1, -1, in.tokens}).tril(-1);
  out.decay = pairs.cumsum_(-2).exp_().tril_();
  out.since = by_token(steps.cumsum(-1).exp_());
  out.rest = by_token(out.decay.select(-2, in.tokens - 1));
  out.over = out.since.narrow(2, in.tokens - 1, 1);
  out.scores = at::matmul(out.c, out.b.transpose(2, 3)).unsqueeze(2);
  return out;
}

/// [B, G, T, R, P] as [B, G, T, R P].
at::Tensor as_matrix(const at::Tensor& of) { return of.flatten(3); }

/// b^T or c^T times what tokens have: [B, G, K, R, P].
at::Tensor to_states(const at::Tensor& factor, const at::Tensor& of) {
  return at::matmul(factor.transpose(2, 3), as_matrix(of)).unflatten(3, of.sizes().slice(3));
}
/// What tokens have of states: [B, G, Q, R, P].
at::Tensor of_states(const at::Tensor& factor, const at::Tensor& states) {
  return at::matmul(factor, as_matrix(states)).unflatten(3, states.sizes().slice(3));
}

/// The state behind the chunk, of that before it.
at::Tensor state_behind(const Chunk& chunk, const at::Tensor& moved, const at::Tensor& before) {
  return to_states(chunk.b, moved * chunk.rest).addcmul_(before, chunk.over);
}

/// The same without what pairs of the chunk's tokens have.
at::Tensor state_behind(const ScanOperands& in, std::int64_t index, const at::Tensor& before) {
  const at::Tensor dt = at::softplus(part_of(in, in.dt, index) + in.bias.unsqueeze(1));
  const at::Tensor steps = steps_of(in, dt);
  at::Tensor rest = at::zeros_like(steps);  // of each token the steps behind it
  const std::int64_t others = in.tokens - 1;
  rest.narrow(-1, 0, others).copy_(steps.narrow(-1, 1, others).flip(-1).cumsum(-1).flip(-1));
  const at::Tensor left = part_of(in, in.x, index) * dt.unsqueeze(-1) * by_token(rest.exp_());
  return to_states(part_of(in, in.b, index), left)
      .addcmul_(before, by_token(steps.sum(-1, /*keepdim=*/true).exp_()));
}

at::Tensor no_state(const ScanOperands& in) {
  return at::zeros({in.x.size(0), in.x.size(2), in.b.size(3), in.x.size(3), in.x.size(4)},
                   in.x.options().dtype(in.type));
}

/// [B, G, Q, R] summed over tokens.
at::Tensor by_head(const at::Tensor& of) { return at::sum(of, c10::IntArrayRef{0, 2}); }

/// Sums of gradients of numbers of heads.
struct HeadGradients {
  at::Tensor a, bias, d;  // [G, R]
};

/// The way back through one chunk: `gradient` is that of the state behind it, and becomes that of
/// the state before it. dy: [B, G, Q, R, P].
class ChunkBackward {
 public:
  ChunkBackward(const ScanOperands& in, const Chunk& chunk, at::Tensor before)
      : in_(in),
        chunk_(chunk),
        before_(std::move(before)) {}

  void run(const at::Tensor& dy, at::Tensor& gradient, HeadGradients& sums) {
    const at::Tensor moved = chunk_.x * chunk_.dt.unsqueeze(-1);
    at::Tensor steps = within(dy, moved);  // gradient of dt A: [B, G, Q, R]
    between(dy, moved, gradient, steps);
    ddt = at::mul(moved_gradient_, chunk_.x).sum(-1).addcmul_(steps, in_.a.unsqueeze(1));
    ddt.mul_(at::sigmoid(chunk_.raw));
    sums.a.add_(by_head(at::mul(steps, chunk_.dt)));
    sums.d.add_(by_head(at::mul(dy, chunk_.x).sum(-1)));
    sums.bias.add_(by_head(ddt));
    dx = moved_gradient_.mul_(chunk_.dt.unsqueeze(-1))
             .addcmul_(dy, in_.d.unsqueeze(1).unsqueeze(-1));
  }

  at::Tensor dx, ddt, db, dc;

 private:
  /// What comes of tokens that read each other; the gradient of dt A that comes of it. A decay is
  /// of all tokens behind its column's up to its row's.
  at::Tensor within(const at::Tensor& dy, const at::Tensor& moved) {
    const at::Tensor of_heads = dy.transpose(2, 3);
    const at::Tensor weights = chunk_.decay * chunk_.scores;
    moved_gradient_ = at::matmul(weights.transpose(3, 4), of_heads).transpose(2, 3).contiguous();
    at::Tensor of_weights = at::matmul(of_heads, moved.transpose(2, 3).transpose(3, 4));
    const at::Tensor scores = at::mul(of_weights, chunk_.decay).sum(2);
    dc = at::matmul(scores, chunk_.b);
    db = at::matmul(scores.transpose(2, 3), chunk_.c);
    of_weights.mul_(weights);
    const at::Tensor up_to =
        at::ones({in_.tokens, in_.tokens}, of_weights.options()).triu_();  // rows from k on
    return at::matmul(up_to, of_weights).tril_(-1).sum(-1).transpose(2, 3).contiguous();
  }

  /// What comes of the state before, which is read, and of what is left for those behind.
  void between(const at::Tensor& dy, const at::Tensor& moved, at::Tensor& gradient,
               at::Tensor& steps) {
    const at::Tensor read = dy * chunk_.since;
    const at::Tensor left = of_states(chunk_.b, gradient).mul_(chunk_.rest);
    moved_gradient_.add_(left);
    dc.add_(at::matmul(as_matrix(read), as_matrix(before_).transpose(2, 3)));
    db.add_(at::matmul(as_matrix(moved * chunk_.rest), as_matrix(gradient).transpose(2, 3)));
    const at::Tensor of_read = at::mul(read, of_states(chunk_.c, before_)).sum(-1);
    const at::Tensor of_left = at::mul(moved, left).sum(-1);
    // Tokens from this on read by it; those before it are left by it; the state passes by all.
    steps.add_(of_read.flip(2).cumsum(2).flip(2)).add_(of_left.cumsum(2)).sub_(of_left);
    steps.add_(at::mul(before_, gradient).sum(c10::IntArrayRef{2, 4}).unsqueeze(2) *
               chunk_.over.squeeze(-1));
    gradient = to_states(chunk_.c, read).addcmul_(gradient, chunk_.over);
  }

  const ScanOperands& in_;
  const Chunk& chunk_;
  at::Tensor before_, moved_gradient_;
};

/// Where tokens of a chunk lie in a result [B, S, ..] of all.
void store(at::Tensor whole, std::int64_t index, std::int64_t tokens, const at::Tensor& part) {
  whole.narrow(1, index * tokens, tokens).copy_(part.transpose(1, 2).flatten(2));
}

ScanShape shape_of(const KernelCall& call, const at::Tensor& x) {
  const OpAttrs& attrs = *call.attrs;
  ScanShape shape;
  shape.tokens = tokens_of_chunk(attrs, x.size(1));
  shape.chunks = x.size(1) / shape.tokens;
  shape.cells = x.size(0) * shape.chunks;
  shape.groups = attrs.kv_heads;
  shape.heads = attrs.heads / attrs.kv_heads;
  shape.channels = attrs.head_dim;
  shape.states = attrs.states;
  return shape;
}

ScanReads scan_reads(const KernelCall& call, std::size_t first) {
  const auto read = [&](std::size_t i) { return call.read(first + i).contiguous(); };
  return {read(0), read(1), read(2), read(3), read(4), read(5), read(6)};
}

/// Whether a GPU's own kernels take them: all that is of tokens of one type.
bool fits_at_once(const KernelCall& call, const ScanReads& in, const ScanShape& shape) {
  const auto is_same = [&](at::ScalarType type) { return type == in.x.scalar_type(); };
  return in.x.is_cuda() && in.x.numel() > 0 && is_same(in.dt.scalar_type()) &&
         is_same(in.b.scalar_type()) && is_same(in.c.scalar_type()) &&
         std::all_of(call.write_types.begin(), call.write_types.end(), is_same) &&
         scan_fits_cuda(shape);
}

/// By a GPU's own kernels, all chunks at once. False: there are none.
bool chunk_scan_at_once(KernelCall& call) {
  const ScanReads in = scan_reads(call, 0);
  const ScanShape shape = shape_of(call, in.x);
  if (!fits_at_once(call, in, shape)) return false;
  InOnePiece y(call.out(0));
  chunk_scan_on_cuda(shape, in, y.piece);
  y.give();
  return true;
}

bool chunk_scan_b_at_once(KernelCall& call) {
  const at::Tensor dy = call.read(0).contiguous();
  const ScanReads in = scan_reads(call, 1);
  const ScanShape shape = shape_of(call, in.x);
  if (!fits_at_once(call, in, shape) || dy.scalar_type() != in.x.scalar_type()) return false;
  const InOnePiece dx(call.out(0)), ddt(call.out(1)), db(call.out(2)), dc(call.out(3));
  chunk_scan_b_on_cuda(shape, dy, in,
                       {dx.piece,
                        ddt.piece,
                        db.piece,
                        dc.piece,
                        {call.accumulates[0], call.accumulates[1], call.accumulates[2]}});
  for (const InOnePiece* result : {&dx, &ddt, &db, &dc}) result->give();
  return true;
}

}  // namespace

void chunk_scan(KernelCall& call) {  // reads x, dt, b, c, a_log, dt_bias, d
  if (call.read(0).is_cuda() && chunk_scan_at_once(call)) return;
  const ScanOperands in = operands_of(call, 0);
  at::Tensor state = no_state(in);
  for (std::int64_t i = 0; i < in.x.size(1) / in.tokens; ++i) {
    const Chunk chunk = chunk_at(in, i);
    const at::Tensor moved = chunk.x * chunk.dt.unsqueeze(-1);
    at::Tensor y = of_states(chunk.c, state).mul_(chunk.since);
    y.add_(at::matmul(chunk.decay * chunk.scores, moved.transpose(2, 3)).transpose(2, 3));
    store(call.out(0), i, in.tokens, y.addcmul_(chunk.x, in.d.unsqueeze(1).unsqueeze(-1)));
    state = state_behind(chunk, moved, state);
  }
}

void chunk_scan_b(KernelCall& call) {  // reads dy, x, dt, b, c, a_log, dt_bias, d
  if (call.read(0).is_cuda() && chunk_scan_b_at_once(call)) return;
  const ScanOperands in = operands_of(call, 1);
  const at::Tensor dy = call.read(0).unflatten(-1, in.x.sizes().slice(2));
  std::vector<at::Tensor> before = {no_state(in)};  // [chunk]
  const std::int64_t chunks = in.x.size(1) / in.tokens;
  for (std::int64_t i = 0; i + 1 < chunks; ++i)
    before.push_back(state_behind(in, i, before.back()));
  HeadGradients sums{at::zeros_like(in.a), at::zeros_like(in.a), at::zeros_like(in.a)};
  at::Tensor gradient = no_state(in);
  for (std::int64_t i = chunks; i-- > 0;) {
    const Chunk chunk = chunk_at(in, i);
    ChunkBackward back(in, chunk, before.back());
    before.pop_back();
    const at::Tensor of_chunk =
        dy.narrow(1, i * in.tokens, in.tokens).to(in.type).transpose(1, 2).contiguous();
    back.run(of_chunk, gradient, sums);
    store(call.out(0), i, in.tokens, back.dx);
    store(call.out(1), i, in.tokens, back.ddt);
    store(call.out(2), i, in.tokens, back.db);
    store(call.out(3), i, in.tokens, back.dc);
  }
  const at::Tensor of_heads[] = {sums.a.mul_(in.a), sums.bias, sums.d};
  for (std::size_t i = 0; i < call.accumulates.size(); ++i)
    call.accumulates[i].add_(of_heads[i].flatten());
}

}  // namespace trainyard
