#include "tests/real/attended.h"

#include <array>
#include <cmath>

#include "real/kernels/kernels.h"

namespace trainyard {

namespace {

constexpr std::int64_t kSamples = 3;

using Sizes = std::vector<std::int64_t>;

/// Numbers in [-1, 1] without a pattern.
at::Tensor numbers(const Sizes& shape, double step) {
  const at::Tensor out = at::empty(shape, at::TensorOptions(at::kDouble));
  double* data = out.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < out.numel(); ++i)
    data[i] = std::sin(step * static_cast<double>(i + 1));
  return out;
}

std::vector<double> vector(const at::Tensor& tensor) {
  const at::Tensor all = tensor.contiguous();
  return {all.const_data_ptr<double>(), all.const_data_ptr<double>() + all.numel()};
}

class TrialTensors {
 public:
  explicit TrialTensors(const AttentionTrial& trial) : trial_(trial) {
    width = trial.heads * trial.head_dim;
    kv_width = trial.kv_heads * trial.head_dim;
    q = numbers({kSamples, trial.queries, width}, 12.9898);
    k = numbers({kSamples, trial.keys, kv_width}, 78.233);
    v = numbers({kSamples, trial.keys, kv_width}, 37.719);
    grad = numbers({kSamples, trial.queries, width}, 4.1414);
    mask = at::ones({kSamples, trial.keys}, at::TensorOptions(at::kLong));
    if (trial.padded) {
      for (std::int64_t s = 0; s < kSamples; ++s) {
        mask.select(0, s).narrow(0, trial.keys - s, s).fill_(0);
      }
    }
    attrs.heads = static_cast<decltype(attrs.heads)>(trial.heads);
    attrs.kv_heads = static_cast<decltype(attrs.kv_heads)>(trial.kv_heads);
    attrs.head_dim = static_cast<decltype(attrs.head_dim)>(trial.head_dim);
    attrs.scale = 0.5F;
    attrs.packed = trial.packed;
    attrs.causal = trial.causal;
    attrs.has_mask = trial.padded;
    attrs.attended = trial.attended;
    attrs.documents = trial.documents.on();
    draws.config = trial.documents;
    draws.length = trial.keys;
  }

  std::vector<at::Tensor> run(Kernel kernel, std::vector<at::Tensor> reads,
                              std::vector<Sizes> shapes,
                              const IndexRanges* query_positions = nullptr,
                              const IndexRanges* key_positions = nullptr) const {
    const StepState state;
    KernelCall call;
    call.query_positions = query_positions;
    call.key_positions = key_positions;
    call.documents = &draws;
    call.attrs = &attrs;
    call.state = &state;
    call.immediate = !trial_.deferred;
    call.reads = std::move(reads);
    call.writes.resize(shapes.size());
    call.write_types.assign(shapes.size(), at::kDouble);
    call.write_shapes = std::move(shapes);
    kernel(call);
    return call.writes;
  }

  /// Behind `reads`, where there is one.
  std::vector<at::Tensor> with_mask(std::vector<at::Tensor> reads) const {
    if (trial_.padded) reads.push_back(mask);
    return reads;
  }

  std::int64_t width = 0, kv_width = 0;
  at::Tensor q, k, v, grad, mask;
  OpAttrs attrs;
  DocumentDraws draws;

 private:
  const AttentionTrial& trial_;
};

}  // namespace

Attention attend_by_flash(const AttentionTrial& trial) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const TrialTensors in(trial);
  const std::vector<at::Tensor> projections = trial.packed
                                                  ? std::vector{at::cat({in.q, in.k, in.v}, -1)}
                                                  : std::vector{in.q, at::cat({in.k, in.v}, -1)};
  const Sizes q = in.q.sizes().vec();
  const std::vector<at::Tensor> saved = in.run(flash_attention, in.with_mask(projections),
                                               {q, {kSamples, trial.heads, trial.queries}});
  std::vector<at::Tensor> reads = {in.grad};
  reads.insert(reads.end(), projections.begin(), projections.end());
  reads = in.with_mask(std::move(reads));
  reads.insert(reads.end(), saved.begin(), saved.end());
  std::vector<Sizes> shapes;
  for (const at::Tensor& projection : projections) shapes.push_back(projection.sizes().vec());
  const std::vector<at::Tensor> gradients =
      in.run(flash_attention_dx, std::move(reads), std::move(shapes));
  const std::int64_t kv = trial.packed ? in.width : 0;  // where k begins in its tensor
  const at::Tensor &dq = gradients.front(), &dkv = gradients.back();
  return {vector(saved[0]), vector(dq.narrow(-1, 0, in.width)),
          vector(dkv.narrow(-1, kv, in.kv_width)),
          vector(dkv.narrow(-1, kv + in.kv_width, in.kv_width))};
}

namespace {

/// What rank `c` of `ranks` has: the pieces c and 2 ranks - 1 - c of 2 ranks, or the c-th run.
IndexRanges part_of(const AttentionTrial& trial, int ranks, int c) {
  const std::int64_t piece = trial.keys / (2 * ranks), other = 2 * ranks - 1 - c;
  if (trial.contiguous) return {{2 * c * piece, 2 * (c + 1) * piece}};
  if (c + 1 == other) return {{c * piece, (c + 2) * piece}};
  return {{c * piece, (c + 1) * piece}, {other * piece, (other + 1) * piece}};
}

at::Tensor taken(const at::Tensor& x, const IndexRanges& ranges) {
  std::vector<at::Tensor> runs;
  for (const IndexRange& range : ranges) runs.push_back(x.narrow(1, range.begin, range.size()));
  return at::cat(runs, 1);
}

void add_to(at::Tensor& x, const IndexRanges& ranges, const at::Tensor& rows) {
  std::int64_t row = 0;
  for (const IndexRange& range : ranges) {
    x.narrow(1, range.begin, range.size()).add_(rows.narrow(1, row, range.size()));
    row += range.size();
  }
}

}  // namespace

Attention attend_by_blocks(const AttentionTrial& trial, int ranks, bool ring) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const TrialTensors in(trial);
  const at::Tensor kv = at::cat({in.k, in.v}, -1);
  at::Tensor out = at::zeros_like(in.q), dq = at::zeros_like(in.q), dkv = at::zeros_like(kv);
  const IndexRanges everything = {{0, trial.keys}};
  for (int rank = 0; rank < ranks; ++rank) {
    const IndexRanges own = part_of(trial, ranks, rank);
    const at::Tensor q = taken(in.q, own), grad = taken(in.grad, own);
    const Sizes shape = q.sizes().vec(), sums = {kSamples, trial.heads, q.size(1)};
    std::vector<IndexRanges> blocks;  // in the order in which their keys come
    for (int step = 0; step < (ring ? ranks : 1); ++step)
      blocks.push_back(ring ? part_of(trial, ranks, (rank + ranks - step) % ranks) : everything);
    std::vector<at::Tensor> so_far;
    for (const IndexRanges& block : blocks) {
      std::vector<at::Tensor> reads = {q, taken(kv, block)};
      reads.insert(reads.end(), so_far.begin(), so_far.end());
      so_far = in.run(block_attention, reads, {shape, sums}, &own, &block);
    }
    add_to(out, own, so_far[0]);
    for (const IndexRanges& block : blocks) {
      const at::Tensor keys = taken(kv, block);
      const std::vector<at::Tensor> gradients =
          in.run(block_attention_dx, {grad, q, keys, so_far[0], so_far[1]},
                 {shape, keys.sizes().vec()}, &own, &block);
      add_to(dq, own, gradients[0]);
      add_to(dkv, block, gradients[1]);
    }
  }
  return {vector(out), vector(dq), vector(dkv.narrow(-1, 0, in.kv_width)),
          vector(dkv.narrow(-1, in.kv_width, in.kv_width))};
}

namespace {

at::Tensor part_view(const at::Tensor& x, std::int64_t first, std::int64_t samples,
                     IndexRange tokens, bool whole) {
  const at::Tensor of_samples = x.narrow(0, first, samples);
  return whole ? of_samples : of_samples.narrow(1, tokens.begin, tokens.size());
}

/// What tokens [begin, end) of some samples make, added to `to`: out, dq, dk and dv.
void add_by_scores(const TrialTensors& in, std::int64_t first, std::int64_t samples,
                   IndexRange tokens, std::array<at::Tensor, 4>& to) {
  const bool whole = tokens.size() == in.k.size(1);
  const auto part = [&](const at::Tensor& x) {
    return part_view(x, first, samples, tokens, whole).contiguous();
  };
  const at::Tensor q = part(in.q), k = part(in.k), v = part(in.v), grad = part(in.grad);
  const Sizes square = {samples, in.attrs.heads, q.size(1), k.size(1)};
  const at::Tensor s = in.run(scores, {q, k}, {square})[0];
  const at::Tensor p = in.run(softmax, in.with_mask({s}), {square})[0];
  const at::Tensor out = in.run(context, {p, v}, {q.sizes().vec()})[0];
  const auto of_context = in.run(context_dx, {grad, p, v}, {square, k.sizes().vec()});
  const at::Tensor ds = in.run(softmax_dx, {of_context[0], p}, {square})[0];
  const auto of_scores = in.run(scores_dx, {ds, q, k}, {q.sizes().vec(), k.sizes().vec()});
  const std::array<at::Tensor, 4> made = {out, of_scores[0], of_scores[1], of_context[1]};
  auto sum = to.begin();
  for (const at::Tensor& one : made) part_view(*sum++, first, samples, tokens, whole).add_(one);
}

}  // namespace

Attention attend_by_scores(const AttentionTrial& trial) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  TrialTensors in(trial);
  in.attrs.documents = false;  // each is attended by itself
  std::array<at::Tensor, 4> to = {at::zeros_like(in.q), at::zeros_like(in.q), at::zeros_like(in.k),
                                  at::zeros_like(in.v)};
  if (!trial.documents.on()) add_by_scores(in, 0, kSamples, {0, trial.keys}, to);
  for (std::int64_t s = 0; trial.documents.on() && s < kSamples; ++s) {
    std::int64_t begin = 0;
    for (const std::int64_t end : document_borders(trial.documents, trial.keys, s)) {
      if (end > begin) add_by_scores(in, s, 1, {begin, end}, to);
      begin = end;
    }
  }
  return {vector(to[0]), vector(to[1]), vector(to[2]), vector(to[3])};
}

RotatedDocuments rotate_documents(const DocumentConfig& documents, std::int64_t length,
                                  std::int64_t first) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  constexpr std::int64_t kTwo = 2, kWidth = 16;
  const at::Tensor x = numbers({kTwo, length, kWidth}, 12.9898);
  DocumentDraws draws;
  draws.config = documents;
  draws.length = length;
  const auto rotated = [&](const at::Tensor& from, bool in_documents) {
    OpAttrs attrs;
    attrs.heads = 2, attrs.kv_heads = 1, attrs.head_dim = 4, attrs.rope_base = 100;
    attrs.documents = in_documents;
    StepState state;
    state.first_sample = first;
    KernelCall call;
    call.attrs = &attrs, call.state = &state, call.documents = &draws;
    call.reads = {from};
    call.writes.resize(1);
    call.write_types = {at::kDouble};
    call.write_shapes = {from.sizes().vec()};
    rope(call);
    return call.writes[0];
  };
  at::Tensor apart = at::zeros_like(x);
  for (std::int64_t s = 0; s < kTwo; ++s) {
    std::int64_t begin = 0;
    for (const std::int64_t end : document_borders(documents, length, first + s)) {
      const auto part = [&](const at::Tensor& t) {
        return t.narrow(0, s, 1).narrow(1, begin, end - begin);
      };
      if (end > begin) part(apart).copy_(rotated(part(x).contiguous(), false));
      begin = end;
    }
  }
  return {vector(rotated(x, true)), vector(apart), vector(rotated(x, false))};
}

}  // namespace trainyard
