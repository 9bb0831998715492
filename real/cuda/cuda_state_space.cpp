// Ops of state space models by GPU kernels of our own and LibTorch's products of matrices.
//
// All chunks of all sequences, cells, are computed at once: the states of a sequence's are added
// up by one kernel. Products are of bf16 in bf16, as mamba_ssm's, added up in fp32; of other types
// in fp32, or fp64. Only what pairs of tokens have is made for some cells after the other.
#include <algorithm>

#include "real/cuda/causal_conv1d_cuda.h"
#include "real/cuda/cuda_tensors.h"
#include "real/cuda/scan_cuda.h"
#include "real/cuda/state_space.h"

namespace trainyard {

namespace {

constexpr std::int64_t kPairBytes = std::int64_t{1} << 28;

CausalConvShape conv_shape(const at::Tensor& x, const at::Tensor& w) {
  return {.batch = x.size(0), .tokens = x.size(1), .channels = x.size(2), .width = w.size(3)};
}

at::ScalarType sums_of(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

/// What a scan's kernels and products read, forward and back.
class Scan {
 public:
  Scan(const ScanShape& shape, const ScanReads& in)
      : shape_(shape),
        type_(to_dtype(in.x.scalar_type())),
        sum_(sums_of(in.x)),
        work_(in.x.scalar_type() == at::kBFloat16 ? at::kBFloat16 : sum_),
        in_(in) {
    a_ = in.a_log.to(sum_).exp().neg();
    bias_ = in.dt_bias.to(sum_).contiguous();
    d_ = in.d.to(sum_).contiguous();
    b_ = by_group(in.b), c_ = by_group(in.c);
    dt_ = make({cells(), heads(), tokens()}, sum_);
    past_ = make({cells(), heads(), tokens()}, at::kDouble);
    ScanSteps steps;
    steps.raw = in.dt.const_data_ptr();
    steps.bias = bias_.const_data_ptr(), steps.a = a_.const_data_ptr();
    steps.dt = results_of(dt_);
    steps.past = past_.mutable_data_ptr<double>();
    C10_CUDA_CHECK(launch_scan_steps(type_, steps, shape_, stream()));
    moved_ = make({cells() * heads(), tokens(), shape_.channels}, work_);
    left_ = make({cells() * shape_.groups, tokens(), row()}, work_);
    read_factors(in.x, dt_, moved_, left_);
    const at::Tensor added = product(b_.transpose(1, 2), left_);
    before_ = at::empty(added.sizes(), added.options().dtype(work_));
    C10_CUDA_CHECK(launch_scan_states(type_, added.const_data_ptr(), past(), /*back=*/false,
                                      results_of(before_), shape_, stream()));
    scores_ = product(c_, b_.transpose(1, 2));  // [M G, Q, Q]
    of_states_ = product(c_, before_);          // [M G, Q, R P]
  }

  void run(at::Tensor& y) {
    const at::Tensor within = make(moved_.sizes(), sum_);
    for_cells([&](const ScanShape& some, std::int64_t first) {
      const at::Tensor weights = make({some.cells * heads(), tokens(), tokens()}, work_);
      C10_CUDA_CHECK(launch_scan_weights(type_, of_groups(scores_, some, first).const_data_ptr(),
                                         past() + first * heads() * tokens(), results_of(weights),
                                         some, stream()));
      product_into(of_heads(within, some, first), weights, of_heads(moved_, some, first));
    });
    ScanResult result;
    result.of_states = of_states_.const_data_ptr(), result.within = within.const_data_ptr();
    result.x = in_.x.const_data_ptr(), result.d = d_.const_data_ptr();
    result.past = past();
    result.y = results_of(y);
    C10_CUDA_CHECK(launch_scan_y(type_, result, shape_, stream()));
  }

  void run_back(const at::Tensor& dy, const ScanGradients& out) {
    const at::Tensor dy_by_head = make(moved_.sizes(), work_), read = make(left_.sizes(), work_);
    read_factors(dy, {}, dy_by_head, read);
    const at::Tensor added = product(c_.transpose(1, 2), read);
    const at::Tensor behind = at::empty(added.sizes(), added.options().dtype(work_));
    C10_CUDA_CHECK(launch_scan_states(type_, added.const_data_ptr(), past(), /*back=*/true,
                                      results_of(behind), shape_, stream()));
    const at::Tensor of_scores = make(scores_.sizes(), work_),
                     of_moved = make(moved_.sizes(), sum_);
    const at::Tensor steps = make(dt_.sizes(), sum_);
    pairs_back(dy_by_head, of_scores, of_moved, steps);
    write(out.b,
          product(left_, behind.transpose(1, 2)).add_(product(of_scores.transpose(1, 2), c_)));
    write(out.c, product(read, before_.transpose(1, 2)).add_(product(of_scores, b_)));

    const at::Tensor left = product(b_, behind);
    const at::Tensor sums = make({4, cells(), heads(), tokens()}, sum_),
                     of_heads = make({3, cells(), heads()}, sum_);
    ScanGradient rest;
    rest.dy = dy.const_data_ptr(), rest.x = in_.x.const_data_ptr();
    rest.raw = in_.dt.const_data_ptr();
    rest.bias = bias_.const_data_ptr(), rest.a = a_.const_data_ptr(), rest.d = d_.const_data_ptr();
    rest.dt = dt_.const_data_ptr(), rest.past = past();
    rest.before = before_.const_data_ptr(), rest.behind = behind.const_data_ptr();
    rest.of_states = of_states_.const_data_ptr(), rest.moved = of_moved.const_data_ptr();
    rest.left = left.const_data_ptr(), rest.steps = steps.const_data_ptr();
    rest.scratch = results_of(sums);
    rest.dx = results_of(out.x), rest.ddt = results_of(out.dt);
    rest.of_heads = results_of(of_heads);
    C10_CUDA_CHECK(launch_scan_gradient(type_, rest, shape_, stream()));
    const at::Tensor all = of_heads.sum(1);
    out.of_heads[0].add_(all[0].mul_(a_));
    out.of_heads[1].add_(all[1]);
    out.of_heads[2].add_(all[2]);
  }

 private:
  std::int64_t cells() const { return shape_.cells; }
  std::int64_t heads() const { return shape_.all_heads(); }
  std::int64_t tokens() const { return shape_.tokens; }
  std::int64_t row() const { return shape_.heads * shape_.channels; }  // of a group
  const double* past() const { return past_.const_data_ptr<double>(); }
  cudaStream_t stream() const { return stream_of(in_.x); }

  at::Tensor make(c10::IntArrayRef sizes, at::ScalarType type) const {
    return scratch(sizes, type, in_.x);
  }

  /// [B, S, G K] as [M G, Q, K].
  at::Tensor by_group(const at::Tensor& of) const {
    return of.to(work_)
        .view({cells(), tokens(), shape_.groups, shape_.states})
        .transpose(1, 2)
        .reshape({cells() * shape_.groups, tokens(), shape_.states});
  }
  /// And back.
  void write(const at::Tensor& to, const at::Tensor& from) const {
    to.view({cells(), tokens(), shape_.groups, shape_.states})
        .copy_(from.view({cells(), shape_.groups, tokens(), shape_.states}).transpose(1, 2));
  }

  void read_factors(const at::Tensor& of, const at::Tensor& dt, const at::Tensor& by_head,
                    const at::Tensor& by_group) const {
    ScanFactors factors;
    factors.of = of.const_data_ptr();
    factors.dt = dt.defined() ? dt.const_data_ptr() : nullptr;
    factors.past = past();
    factors.by_head = results_of(by_head), factors.by_group = results_of(by_group);
    C10_CUDA_CHECK(launch_scan_factors(type_, factors, shape_, stream()));
  }

  /// Products of matrices, in the type of sums.
  at::Tensor product(const at::Tensor& x, const at::Tensor& y) const {
    return work_ == sum_ ? at::bmm(x, y) : at::bmm(x, y, sum_);
  }
  void product_into(at::Tensor to, const at::Tensor& x, const at::Tensor& y) const {
    if (work_ == sum_)
      at::bmm_out(to, x, y);
    else
      at::bmm_out(to, x, y, sum_);
  }

  /// f(shape of some cells, the first of them): weights of their pairs have kPairBytes at most.
  template <typename F>
  void for_cells(F f) const {
    const std::int64_t bytes =
        heads() * tokens() * tokens() * static_cast<std::int64_t>(c10::elementSize(work_));
    const std::int64_t most = std::max<std::int64_t>(1, kPairBytes / bytes);
    for (std::int64_t first = 0; first < cells(); first += most) {
      ScanShape some = shape_;
      some.cells = std::min(most, cells() - first);
      f(some, first);
    }
  }
  at::Tensor of_heads(const at::Tensor& x, const ScanShape& some, std::int64_t first) const {
    return x.narrow(0, first * heads(), some.cells * heads());
  }
  at::Tensor of_groups(const at::Tensor& x, const ScanShape& some, std::int64_t first) const {
    return x.narrow(0, first * shape_.groups, some.cells * shape_.groups);
  }

  /// What comes of tokens of a chunk that read each other.
  void pairs_back(const at::Tensor& dy, const at::Tensor& of_scores, const at::Tensor& of_moved,
                  const at::Tensor& steps) const {
    const std::int64_t parts = scan_row_parts(type_, shape_);
    for_cells([&](const ScanShape& some, std::int64_t first) {
      const at::Tensor mine = of_heads(dy, some, first);
      const at::Tensor pairs = at::bmm(mine, of_heads(moved_, some, first).transpose(1, 2));
      const at::Tensor by_part = make({some.cells, heads(), parts, tokens()}, sum_);
      ScanPairsGradient of;
      of.scores = of_groups(scores_, some, first).const_data_ptr();
      of.past = past() + first * heads() * tokens();
      of.pairs = results_of(pairs);
      of.scores_gradient = results_of(of_groups(of_scores, some, first));
      of.steps = results_of(by_part);
      C10_CUDA_CHECK(launch_scan_pairs_b(type_, of, some, stream()));
      product_into(of_heads(of_moved, some, first), pairs.transpose(1, 2), mine);  // now weights
      at::Tensor to = steps.narrow(0, first, some.cells);
      at::sum_out(to, by_part, c10::IntArrayRef{2});
    });
  }

  const ScanShape shape_;
  DType type_;
  at::ScalarType sum_, work_;
  const ScanReads& in_;
  at::Tensor a_, bias_, d_;        // [N]
  at::Tensor dt_, past_;           // [M, N, Q]
  at::Tensor b_, c_;               // [M G, Q, K]
  at::Tensor moved_, left_;        // [M N, Q, P], [M G, Q, R P]
  at::Tensor before_, of_states_;  // [M G, K, R P], [M G, Q, R P]
  at::Tensor scores_;              // [M G, Q, Q]
};

}  // namespace

bool causal_conv1d_fits_cuda(const at::Tensor& w) { return causal_conv1d_fits(w.size(3)); }

void causal_conv1d_on_cuda(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b,
                           at::Tensor& y) {
  C10_CUDA_CHECK(launch_causal_conv1d(to_dtype(x.scalar_type()), x.const_data_ptr(), numbers_of(w),
                                      numbers_of(b), y.mutable_data_ptr(), conv_shape(x, w),
                                      stream_of(x)));
}

void causal_conv1d_b_on_cuda(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w,
                             const at::Tensor& b, at::Tensor dx, at::Tensor dw, at::Tensor db) {
  const CausalConvShape shape = conv_shape(x, w);
  const at::Tensor partial =
      scratch({causal_conv1d_partials(shape), shape.width + 1, shape.channels}, sums_of(x), x);
  CausalConvGradient of;
  of.dy = dy.const_data_ptr(), of.x = x.const_data_ptr();
  of.weight = numbers_of(w), of.bias = numbers_of(b);
  of.dx = results_of(dx);
  of.dw = numbers_of(dw), of.db = numbers_of(db);
  of.partial = partial.mutable_data_ptr();
  C10_CUDA_CHECK(launch_causal_conv1d_b(to_dtype(x.scalar_type()), of, shape, stream_of(x)));
}

bool scan_fits_cuda(const ScanShape& shape) { return scan_fits(shape.tokens); }

void chunk_scan_on_cuda(const ScanShape& shape, const ScanReads& in, at::Tensor& y) {
  Scan(shape, in).run(y);
}

void chunk_scan_b_on_cuda(const ScanShape& shape, const at::Tensor& dy, const ScanReads& in,
                          const ScanGradients& out) {
  Scan(shape, in).run_back(dy, out);
}

}  // namespace trainyard
