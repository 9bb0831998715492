// Products in 8 bits: by a GPU's own kernel where it has one, of scales for whole tensors or for
// rows and columns. Else emulated: operands are cast to fp32, multiplied there, and scaled, so that
// the numbers are those of FP8 and the times are not. A scale is what a copy's numbers are to be
// multiplied by; one that is 0 has not been found yet and stands for 1.
#include "real/kernels/fp8.h"

#include <cmath>
#include <optional>

#include "engine/base/error.h"
#include "real/cuda/cuda.h"
#include "real/kernels/matrix_rows.h"

namespace trainyard {

namespace {

constexpr double kLeastAmax = 1e-12;  // torchao's EPS: of a tensor of zeros

bool is_8_bit(at::ScalarType type) {
  return type == at::kFloat8_e4m3fn || type == at::kFloat8_e5m2;
}

double largest(at::ScalarType type) { return type == at::kFloat8_e5m2 ? 57344 : 448; }

at::Tensor known(const at::Tensor& scale) { return scale.masked_fill(scale.eq(0), 1); }

std::int64_t block_of(std::int32_t said, std::int64_t extent) { return said == 0 ? extent : said; }

/// The block of a dim of which a scale has `count`: all, one, or a power of 2.
std::int64_t block_for(std::int64_t extent, std::int64_t count) {
  if (count == 1) return extent;
  std::int64_t block = 1;
  while ((extent + block - 1) / block > count) block *= 2;
  return block;
}

/// [row blocks, column blocks] -> an element of [rows, columns] each.
at::Tensor spread(const at::Tensor& of_blocks, std::int64_t rows, std::int64_t columns,
                  std::int64_t row_block, std::int64_t column_block) {
  return of_blocks.repeat_interleave(row_block, 0)
      .narrow(0, 0, rows)
      .repeat_interleave(column_block, 1)
      .narrow(1, 0, columns);
}

/// The largest |x| of each block; x [rows, columns].
at::Tensor amax_of_blocks(const at::Tensor& x, std::int64_t row_block, std::int64_t column_block) {
  const std::int64_t rows = (x.size(0) + row_block - 1) / row_block,
                     columns = (x.size(1) + column_block - 1) / column_block;
  const at::Tensor padded = at::constant_pad_nd(
      x.abs(), {0, columns * column_block - x.size(1), 0, rows * row_block - x.size(0)});
  return padded.view({rows, row_block, columns, column_block}).amax({1, 3});
}

/// The largest power of 2 that is not above x.
at::Tensor power_of_2_below(const at::Tensor& x) {
  const at::Tensor exponent = std::get<1>(at::frexp(x));
  return at::ldexp(at::ones_like(x), exponent - 1);
}

/// What blocks are multiplied by before they are cast. Powers of 2, so that scaling is exact
/// (torchao's rowwise and Transformer Engine's blockwise recipes); e8m0: that of OCP Microscaling
/// 1.0, section 6.3, 2^8 over the largest power of 2 in the block.
at::Tensor multipliers(const at::Tensor& amax, at::ScalarType type, bool e8m0) {
  const at::Tensor some = amax.clamp_min(kLeastAmax);
  constexpr double kLargestPower = 256;  // of e4m3
  if (e8m0) return kLargestPower / power_of_2_below(some);
  return power_of_2_below(largest(type) / some);
}

at::Tensor cast_to(const at::Tensor& scaled, at::ScalarType type) {
  return scaled.clamp(-largest(type), largest(type)).to(type);
}

struct Operand2d {
  at::Tensor values;  // fp32, as cast
  at::Tensor scale;   // of all of them; undefined: values are scaled
};

Operand2d operand(const at::Tensor& copy, const at::Tensor& scale) {
  Operand2d out{rows_of(copy).to(at::kFloat), {}};
  if (scale.dim() == 1) {
    out.scale = known(scale);
    return out;
  }
  const std::int64_t rows = out.values.size(0), columns = out.values.size(1);
  out.values.mul_(spread(scale.to(at::kFloat), rows, columns, block_for(rows, scale.size(0)),
                         block_for(columns, scale.size(1))));
  return out;
}

at::Tensor product(const at::Tensor& a, const at::Tensor& b, const Operand2d& of_a,
                   const Operand2d& of_b) {
  at::Tensor out = at::mm(a, b);
  if (of_a.scale.defined()) out.mul_(of_a.scale * of_b.scale);
  return out;
}

Operand2d left(const KernelCall& call) {
  return operand(call.read(0), call.read(call.reads.size() - 2));
}
Operand2d right(const KernelCall& call) {
  return operand(call.read(1), call.read(call.reads.size() - 1));
}

/// A factor of a product [M, K] x [K, N] as a GPU's kernel takes it.
struct Factor {
  at::Tensor values;  // the left one by rows, the right one by columns
  at::Tensor scale;   // of all, or [M, 1], or [1, N]
};

/// The same matrix, with each row in one piece.
at::Tensor in_rows(const at::Tensor& x) {
  const at::Tensor turned = x.t();
  return x.is_contiguous() || !turned.is_contiguous() ? x.contiguous() : transposed_on_cuda(turned);
}

/// a [M, K] x b [K, N], given as copies with their scales as views of the same shape; nullopt: this
/// device has no kernel for these types, extents (whole vectors of 16) or scales (of blocks).
std::optional<at::Tensor> product_on_gpu(const Factor& a, const Factor& b, at::ScalarType type,
                                         bool forward) {
  constexpr int kAda = 89;  // the first with products in 8 bits
  constexpr std::int64_t kVector = 16;
  const std::int64_t m = a.values.size(0), k = a.values.size(1), n = b.values.size(1);
  if (!a.values.is_cuda() || cuda_capability(a.values.device()) < kAda) return std::nullopt;
  if (k % kVector != 0 || n % kVector != 0) return std::nullopt;
  if (a.values.scalar_type() == at::kFloat8_e5m2 && b.values.scalar_type() == at::kFloat8_e5m2)
    return std::nullopt;
  const bool whole = a.scale.dim() == 1 && b.scale.dim() == 1;
  const bool by_rows =
      a.scale.dim() == 2 && b.scale.dim() == 2 && a.scale.scalar_type() == at::kFloat &&
      a.scale.sizes() == at::IntArrayRef({m, 1}) && b.scale.sizes() == at::IntArrayRef({1, n});
  if (!whole && !by_rows) return std::nullopt;
  // The kernel for rows and columns writes bf16 alone.
  const at::ScalarType written = by_rows ? at::kBFloat16 : type;
  const auto scale = [&](const at::Tensor& s) {
    return whole ? known(s).to(at::kFloat).squeeze() : s.contiguous();
  };
  // Sums in fewer bits, as frameworks take them forward and not backward.
  return at::_scaled_mm(in_rows(a.values), in_rows(b.values.t()).t(), scale(a.scale),
                        scale(b.scale), /*bias=*/{}, /*scale_result=*/{}, written,
                        /*use_fast_accum=*/forward)
      .to(type);
}

Factor factor(const at::Tensor& copy, const at::Tensor& scale) { return {rows_of(copy), scale}; }
Factor turned(const Factor& f) {
  return {f.values.t(), f.scale.dim() == 2 ? f.scale.t() : f.scale};
}
Factor left_factor(const KernelCall& call) {
  return factor(call.read(0), call.read(call.reads.size() - 2));
}
Factor right_factor(const KernelCall& call) {
  return factor(call.read(1), call.read(call.reads.size() - 1));
}

/// The largest |x| that the microbatches of a step have had.
void note_amax(const at::Tensor& x, at::Tensor& most) {
  at::Tensor mine;
  if (contiguous_on_gpu({x})) {
    mine = at::empty({1}, most.options().dtype(at::kFloat));
    amax_on_cuda(x, mine);
  } else {
    mine = x.to(at::kFloat).abs().amax();
  }
  most.copy_(at::maximum(most, mine));
}

at::Tensor cast_whole(const at::Tensor& x, const at::Tensor& multiplier, at::ScalarType type) {
  if (!contiguous_on_gpu({x}) || multiplier.scalar_type() != at::kFloat)
    return cast_to(x.to(at::kFloat).mul(multiplier), type);
  at::Tensor copy = at::empty(x.sizes(), x.options().dtype(type));
  quantize_on_cuda(x, multiplier, copy);
  return copy;
}

/// Both layouts of a copy in one pass. The second one lies by columns, and has the strides that say
/// so: products that sum over rows take it as it is. False: there is none, or no kernel for it.
bool cast_both(KernelCall& call, const at::Tensor& x, const at::Tensor& multiplier) {
  if (!contiguous_on_gpu({x}) || multiplier.scalar_type() != at::kFloat) return false;
  std::size_t second = 1;
  while (second < call.writes.size() && !is_8_bit(call.write_types[second])) ++second;
  if (second == call.writes.size() || call.writes[second].defined() ||
      call.write_shapes[second].back() != x.size(-1))
    return false;
  const at::TensorOptions options = x.options().dtype(call.write_types[0]);
  const at::Tensor rows = rows_of(x);
  at::Tensor copy = at::empty(rows.sizes(), options),
             turned = at::empty({rows.size(1), rows.size(0)}, options);
  quantize_both_on_cuda(rows, multiplier, copy, turned);
  call.set(0, copy.view(x.sizes()));
  call.writes[second] = turned.t().view(call.write_shapes[second]);
  for (std::size_t i = 1; i < call.writes.size(); ++i) {
    if (i != second) call.set(i, multiplier.reciprocal().to(call.write_types[i]));
  }
  return true;
}

/// The copies, and the scales that they are to be multiplied by.
void give_copies(KernelCall& call, const at::Tensor& copy, const at::Tensor& multiplier) {
  for (std::size_t i = 0; i < call.writes.size(); ++i) {
    // Which lie in another layout on a GPU lie here as others.
    if (i == 0) {
      call.set(i, copy);
    } else if (is_8_bit(call.write_types[i])) {
      call.out(i).copy_(copy.view(call.out(i).sizes()));
    } else {
      call.set(i, multiplier.reciprocal().to(call.write_types[i]));
    }
  }
}

}  // namespace

bool is_fp8_product(const KernelCall& call) { return is_8_bit(call.read(0).scalar_type()); }

void fp8_linear(KernelCall& call) {
  if (auto y = product_on_gpu(left_factor(call), turned(right_factor(call)), call.write_types[0],
                              /*forward=*/true)) {
    if (call.attrs->has_bias) y->add_(call.read(2));
    return call.set(0, std::move(*y));
  }
  const Operand2d x = left(call), w = right(call);
  at::Tensor y = product(x.values, w.values.t(), x, w);
  if (call.attrs->has_bias) y.add_(call.read(2));
  call.out(0).copy_(y.view(call.out(0).sizes()));
}

void fp8_linear_dx(KernelCall& call) {
  if (auto dx = product_on_gpu(left_factor(call), right_factor(call), call.write_types[0],
                               /*forward=*/false))
    return call.set(0, std::move(*dx));
  const Operand2d dy = left(call), w = right(call);
  call.out(0).copy_(product(dy.values, w.values, dy, w).view(call.out(0).sizes()));
}

void fp8_linear_dw(KernelCall& call) {
  const at::ScalarType sum =
      call.accumulates.empty() ? call.write_types[0] : call.accumulates[0].scalar_type();
  if (const auto dw = product_on_gpu(turned(left_factor(call)), right_factor(call), sum,
                                     /*forward=*/false))
    return call.give(*dw);
  const Operand2d dy = left(call), x = right(call);
  call.give(product(dy.values.t(), x.values, dy, x));
}

void amax(KernelCall& call) {
  const at::Tensor& x = call.read(0);
  if (contiguous_on_gpu({x}) && call.write_types[0] == at::kFloat) {
    at::Tensor most = call.out(0);
    return amax_on_cuda(x, most);
  }
  call.set(0, x.abs().amax().to(call.write_types[0]).view({1}));
}

void quantize(KernelCall& call) {
  const at::ScalarType type = call.write_types[0];
  const at::Tensor& source = call.read(0);
  const bool delayed = !call.accumulates.empty();
  const bool whole = call.reads.size() > 1;  // one scale: the one of a copy before, or of amax
  if (whole) {
    if (delayed) note_amax(source, call.accumulates[0]);
    const at::Tensor multiplier =
        delayed
            ? known(call.read(1)).reciprocal()
            : (largest(type) / call.read(1).to(at::kDouble).clamp_min(kLeastAmax)).to(at::kFloat);
    if (cast_both(call, source, multiplier)) return;
    return give_copies(call, cast_whole(source, multiplier, type), multiplier);
  }
  const at::Tensor x = rows_of(source).to(at::kFloat);
  const std::int64_t row_block = block_of(call.attrs->window.height, x.size(0)),
                     column_block = block_of(call.attrs->window.width, x.size(1));
  bool e8m0 = false;
  for (const at::ScalarType written : call.write_types) e8m0 |= written == at::kFloat8_e8m0fnu;
  const at::Tensor multiplier = multipliers(amax_of_blocks(x, row_block, column_block), type, e8m0);
  const at::Tensor scaled =
      x.mul(spread(multiplier, x.size(0), x.size(1), row_block, column_block));
  give_copies(call, cast_to(scaled, type), multiplier);
}

void amax_of_weights(KernelCall& call, const std::vector<WeightPart>& runs) {
  const bool adds = call.writes.empty();
  at::Tensor most = adds ? call.accumulates[0] : call.out(0);
  if (!adds) most.zero_();
  for (const WeightPart& run : runs) {
    at::Tensor of_weight = most.select(0, run.weight);
    const at::Tensor part = call.read(0).narrow(0, run.begin, run.size).to(most.scalar_type());
    of_weight.copy_(at::maximum(of_weight, part.abs().amax()));
  }
}

void quantize_weights(KernelCall& call, const std::vector<WeightPart>& runs) {
  const at::Tensor &source = call.read(0), &most = call.read(1);
  at::Tensor copy = call.out(0);
  // What pads the weights is gathered, too.
  copy.view(at::kByte).zero_();
  const at::Tensor multiplier =
      (largest(copy.scalar_type()) / most.to(at::kDouble).clamp_min(kLeastAmax)).to(at::kFloat);
  for (const WeightPart& run : runs) {
    const at::Tensor part = source.narrow(0, run.begin, run.size).to(most.scalar_type());
    copy.narrow(0, run.begin, run.size)
        .copy_(cast_whole(part, multiplier.narrow(0, run.weight, 1), copy.scalar_type()));
  }
  call.set(1, multiplier.reciprocal());
}

void update_scales(KernelCall& call) {
  const at::Tensor& history = call.accumulates[0];
  at::Tensor& scales = call.accumulates[1];
  history.select(0, call.state->step % history.size(0)).copy_(call.read(0));
  const at::Tensor amax = std::get<0>(history.max(0));
  const at::Tensor usable = amax.gt(0).logical_and(amax.isfinite());
  scales.copy_(at::where(usable, amax / double{call.attrs->high}, scales));
}

}  // namespace trainyard
