// Rows of a table: tokens [B, S] int64, table [rows, D] -> [B, S, D]. Of a table that is split by
// rows, tokens of other ranks' rows give zeros (the sum over the ranks is the whole).
#include "real/kernels/kernels.h"
#include "real/kernels/weight_gradient.h"

namespace trainyard {

namespace {

struct LocalTokens {
  at::Tensor index;    // [M], in the local table
  at::Tensor outside;  // [M] bool; undefined: none can be
};

LocalTokens local_tokens(const at::Tensor& tokens, std::int64_t first, std::int64_t rows,
                         std::int64_t whole) {
  at::Tensor index = tokens.reshape({-1});
  if (rows == whole) return {index, {}};
  index = index - first;
  const at::Tensor outside = at::logical_or(index < 0, index >= rows);
  return {index.masked_fill(outside, 0), outside};
}

}  // namespace

void embedding(KernelCall& call) {
  const ShardPlace& table = call.read_places[1];
  const auto [index, outside] =
      local_tokens(call.read(0), table.start[0], call.read(1).size(0), table.whole[0]);
  at::Tensor y = call.out(0);
  at::Tensor flat = y.view({-1, y.size(-1)});
  at::index_select_out(flat, call.read(1), 0, index);
  if (outside.defined()) flat.masked_fill_(outside.unsqueeze(1), 0);
}

void embedding_dw(KernelCall& call) {
  // Reads dy, tokens. The gradient lies as the table does.
  at::Tensor gradient = weight_gradient(call, 0);
  const ShardPlace& table = call.write_places[0];
  auto [index, outside] =
      local_tokens(call.read(1), table.start[0], gradient.size(0), table.whole[0]);
  at::Tensor dy = call.read(0).reshape({-1, gradient.size(1)}).to(gradient.scalar_type());
  if (!call.immediate) {
    // Sorted by row, so that every run adds in the same order. Picking what is inside would make
    // the host wait.
    if (outside.defined()) {
      dy = dy.masked_fill(outside.unsqueeze(1), 0);
      index =
          at::where(outside, at::remainder(call.read(1).reshape({-1}), gradient.size(0)), index);
    }
    // Many rows of dy for each of few: a product adds them up, where an indexed sum takes turns.
    constexpr std::int64_t kFewRows = 1024;
    if (gradient.size(0) <= kFewRows) {
      const at::Tensor rows = at::arange(gradient.size(0), index.options());
      gradient.addmm_(rows.unsqueeze(1).eq(index).to(dy.scalar_type()), dy);
      return;
    }
    gradient.index_put_({index}, dy, /*accumulate=*/true);
    return;
  }
  if (outside.defined()) {
    const at::Tensor inside = at::logical_not(outside).nonzero().squeeze(1);
    dy = dy.index_select(0, inside);
    index = index.index_select(0, inside);
  }
  gradient.index_add_(0, index, dy);
}

void select_first(KernelCall& call) { call.set(0, call.read(0).select(1, 0).contiguous()); }

void select_first_dx(KernelCall& call) {
  at::Tensor dx = call.out(0);
  dx.zero_();
  dx.select(1, 0).copy_(call.read(0));
}

}  // namespace trainyard
