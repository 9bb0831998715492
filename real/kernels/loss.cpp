// Cross entropy of logits [.., V] against labels [..] (-100: not predicted), summed. The logits may
// be split by columns over the tensor group: then rows' maxima and sums have been reduced before.
// Columns from attrs.vocab on are padding: probability 0, no gradient.
#include <limits>

#include "real/cuda/cuda.h"
#include "real/kernels/kernels.h"
#include "real/kernels/matrix_rows.h"

namespace trainyard {

namespace {

/// Columns of this shard that are classes.
std::int64_t num_classes(const KernelCall& call, const at::Tensor& logits,
                         const ShardPlace& place) {
  const std::int64_t last = logits.dim() - 1;
  return std::clamp<std::int64_t>(call.attrs->vocab - place.start[last], 0, logits.size(-1));
}

/// The logits in `type`, padding at -inf.
at::Tensor masked_logits(const KernelCall& call, at::ScalarType type) {
  const at::Tensor& logits = call.read(0);
  const std::int64_t classes = num_classes(call, logits, call.read_places[0]);
  at::Tensor x = logits.to(type);
  if (classes == logits.size(-1)) return x;
  if (x.is_same(logits)) x = x.clone();
  x.narrow(-1, classes, logits.size(-1) - classes).fill_(-std::numeric_limits<double>::infinity());
  return x;
}

/// Logarithms of the softmax of each row of call's logits, in `type`; a GPU's kernel writes them
/// where the call's result `slot` lies.
at::Tensor log_probabilities_of(KernelCall& call, std::size_t slot, at::ScalarType type) {
  const at::Tensor& logits = call.read(0);
  const at::ScalarType wide = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  if (!contiguous_on_gpu({logits}) || type != wide)
    return at::_log_softmax(masked_logits(call, type), -1, /*half_to_float=*/false);
  at::Tensor y = call.out(slot);
  if (!y.is_contiguous() || y.scalar_type() != type || y.sizes() != logits.sizes())
    y = at::empty(logits.sizes(), logits.options().dtype(type));
  log_softmax_on_cuda(logits, num_classes(call, logits, call.read_places[0]), y);
  return y;
}

struct LocalLabels {
  at::Tensor column;  // [M] in this shard, 0 where the label is not here
  at::Tensor here;    // [M] bool: predicted, and its column is in this shard
};

LocalLabels local_labels(const at::Tensor& labels, const at::Tensor& logits,
                         const ShardPlace& place) {
  const std::int64_t last = logits.dim() - 1;
  const at::Tensor flat = labels.reshape({-1});
  at::Tensor column = flat - place.start[last];
  const at::Tensor here =
      at::logical_and(flat >= 0, at::logical_and(column >= 0, column < logits.size(-1)));
  return {column.masked_fill_(at::logical_not(here), 0), here};
}

/// x [M, V] at each row's label, 0 where it is not here.
at::Tensor at_labels(const at::Tensor& x, const LocalLabels& labels) {
  return x.gather(1, labels.column.unsqueeze(1))
      .squeeze(1)
      .masked_fill_(at::logical_not(labels.here), 0);
}

}  // namespace

void cross_entropy_max(KernelCall& call) {
  call.set(0, at::amax(masked_logits(call, call.write_types[0]), {-1}));
}

void cross_entropy_sum(KernelCall& call) {  // reads logits, labels, max
  const auto type = call.write_types[0];
  at::Tensor x = masked_logits(call, type) - call.read(2).unsqueeze(-1);
  const LocalLabels labels = local_labels(call.read(1), x, call.read_places[0]);
  at::Tensor sums = call.out(0);
  sums.select(0, 1).copy_(at_labels(rows_of(x), labels).view(call.read(1).sizes()));
  sums.select(0, 0).copy_(x.exp_().sum(-1));
}

void cross_entropy(KernelCall& call) {  // reads logits, labels [, max, sums]
  const auto type = call.write_types[0];
  const at::Tensor& labels = call.read(1);
  const bool split = call.reads.size() > 2;
  // The only loss of a model is added up here; of several, an add op does that.
  const bool only = !call.accumulates.empty();
  const std::size_t slot = only ? 0 : 1;  // of log-probabilities
  at::Tensor log_probabilities, loss;
  if (split) {
    const at::Tensor& sums = call.read(3);
    const at::Tensor log_sum = sums.select(0, 0).log();
    log_probabilities = masked_logits(call, type) - (call.read(2) + log_sum).unsqueeze(-1);
    loss = (log_sum - sums.select(0, 1)).masked_fill_(labels < 0, 0).sum();
  } else {
    log_probabilities = log_probabilities_of(call, slot, type);
    const LocalLabels local = local_labels(labels, log_probabilities, call.read_places[0]);
    loss = at_labels(rows_of(log_probabilities), local).sum().neg_();
  }
  if (only) {
    call.accumulates[0].add_(loss, 1.0 / call.loss_divisor);
  } else {
    call.set(0, loss.mul_(1.0 / call.loss_divisor).view({1}));
  }
  call.set(slot, std::move(log_probabilities));
}

void cross_entropy_dx(KernelCall& call) {  // reads labels, log-probabilities
  const at::Tensor& log_probabilities = call.read(1);
  const double scale = call.state->loss_scale / call.loss_divisor;
  if (log_probabilities.is_cuda()) {
    at::Tensor dx = call.out(0);
    const at::ScalarType wide = dx.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    if (contiguous_on_gpu({log_probabilities, dx}) && log_probabilities.scalar_type() == wide) {
      return cross_entropy_dx_on_cuda(log_probabilities, call.read(0).contiguous(),
                                      call.read_places[1].start[log_probabilities.dim() - 1], scale,
                                      dx);
    }
  }
  const at::Tensor flat = rows_of(log_probabilities);
  const LocalLabels labels = local_labels(call.read(0), log_probabilities, call.read_places[1]);
  at::Tensor grad = flat.exp();
  const at::Tensor one = labels.here.to(grad.scalar_type()).neg_().unsqueeze(1);
  grad.scatter_add_(1, labels.column.unsqueeze(1), one);
  const at::Tensor predicted =
      (call.read(0).reshape({-1}) >= 0).to(grad.scalar_type()).mul_(scale).unsqueeze(1);
  grad.mul_(predicted);
  call.set(0, grad.to(call.write_types[0]).view(log_probabilities.sizes()));
}

}  // namespace trainyard
