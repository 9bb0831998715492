// One layer of the 22B model on 8 A100, composed kernel by kernel with the shipped profiles,
// against the times of Korthikanti et al. 2022 (arXiv:2205.05198), table 4. The efficiency of
// memory-bound kernels without a table of their own was chosen here; everything else comes from
// kernel tables.
#include <catch2/catch.hpp>

#include "engine/cost/collective_time.h"
#include "engine/cost/cost_model.h"
#include "engine/cost/further_kernels.h"
#include "study/cluster_preset.h"
#include "study/profile_reader.h"
#include "tests/support/source_root.h"

namespace trainyard::single_layer_test {

namespace {

// M = rows (microbatch x sequence), H = hidden, T = tensor-parallel degree, F = MLP width.
constexpr std::int64_t kBatch = 4, kSequence = 2048, kM = kBatch * kSequence;
constexpr std::int64_t kH = 6144, kF = 4 * kH, kHeads = 64, kT = 8;
constexpr std::int64_t kScores = kBatch * kHeads / kT * kSequence * kSequence;  // per rank

class Layer {
 public:
  Layer()
      : device_(*find_hardware_profile(source_root(), "a100-sxm-80g")),
        software_(*find_software_profile(source_root(), "megatron-lm", "2022")),
        cluster_(*find_cluster_preset(source_root(), "selene")) {}

  Seconds forward(bool sequence_parallel) {
    const std::int64_t rows = sequence_parallel ? kM / kT : kM;
    // 2 x (norm 4 bytes per element; bias, dropout, residual 7 with the mask); the two GEMMs of
    // attention and of the MLP; communication after (and, split over the sequence, before) each.
    return attention_core() + attention_projections() +
           memory(OpKind::kBiasGelu, 4 * kM * kF / kT) + linear(kM, kH, kF / kT) +
           linear(kM, kF / kT, kH) + 2 * memory(OpKind::kLayerNorm, 4 * rows * kH, kH) +
           2 * memory(OpKind::kBiasDropoutAdd, 7 * rows * kH) +
           2 * (sequence_parallel
                    ? collective(OpKind::kAllGather) + collective(OpKind::kReduceScatter)
                    : collective(OpKind::kAllReduce));
  }

  Seconds backward(bool sequence_parallel) {
    const std::int64_t rows = sequence_parallel ? kM / kT : kM;
    // Gradients of inputs and weights of four GEMMs; two of each of the core's GEMMs. The
    // communication of input gradients hides behind the weight gradients, except that sequence
    // parallelism gathers each block's output gradient first.
    const Seconds products = linear(kM, 3 * kH / kT, kH) + linear(kM, kH, kH / kT) +
                             linear(kM, kF / kT, kH) + linear(kM, kH, kF / kT) +
                             gradient(3 * kH / kT, kH) + gradient(kH, kH / kT) +
                             gradient(kF / kT, kH) + gradient(kH, kF / kT);
    const Seconds core = 2 * batched_products() + softmax(OpPart::kInputGrad, 6 * kScores) +
                         memory(OpKind::kDropout, 5 * kScores);
    // Behind bias_gelu, bias_dropout_add and the weight gradient of q, k and v, their biases'.
    return products + core + memory(OpKind::kTranspose, 4 * kM * kH / kT) +
           further(&KernelWork::packed_gradients, 2 * kM * 3 * kH / kT) +
           further(&KernelWork::summed_for_bias, 2 * kM * 3 * kH / kT) +
           memory(OpKind::kBiasGelu, 6 * kM * kF / kT) +
           further(&KernelWork::summed_for_bias, 2 * kM * kF / kT) +
           2 * memory(OpKind::kLayerNorm, 6 * rows * kH, kH) +
           2 * memory(OpKind::kBiasDropoutAdd, 5 * rows * kH) +
           2 * further(&KernelWork::summed_for_bias, 2 * rows * kH) +
           2 * memory(OpKind::kAdd, 6 * rows * kH) +
           (sequence_parallel ? 2 * collective(OpKind::kAllGather) : 0);
  }

  /// What selective recompute runs again: scores, softmax, dropout and context.
  Seconds attention_core() {
    return batched_products() + softmax(OpPart::kForward, 4 * kScores) +
           memory(OpKind::kDropout, 5 * kScores);
  }

 private:
  Seconds kernel(const KernelWork& work) { return kernel_time(work, device_, software_, 1, log_); }

  Seconds linear(std::int64_t m, std::int64_t k, std::int64_t n) {
    KernelWork work;
    work.cls = KernelClass::kMatmul;
    work.kind = OpKind::kLinear;
    work.dtype = DType::kFp16;
    work.flop = 2.0 * static_cast<double>(m * n * k);
    work.bytes = 2 * (m * k + k * n + m * n);
    return kernel(work);
  }

  Seconds gradient(std::int64_t out, std::int64_t in) {  // [out, M] x [M, in] into fp32
    KernelWork work;
    work.cls = KernelClass::kMatmul;
    work.kind = OpKind::kLinear;
    work.part = OpPart::kWeightGrad;
    work.dtype = DType::kFp16;
    work.flop = 2.0 * static_cast<double>(out * in * kM);
    work.bytes = 2 * (out * kM + kM * in) + 8 * out * in;
    return kernel(work);
  }

  Seconds attention_projections() {
    return linear(kM, kH, 3 * kH / kT) + linear(kM, kH / kT, kH) +
           memory(OpKind::kTranspose, 4 * kM * kH / kT);
  }

  Seconds batched_products() {  // q k^T and p v
    KernelWork work;
    work.cls = KernelClass::kBatchedMatmul;
    work.kind = OpKind::kScores;
    work.dtype = DType::kFp16;
    constexpr std::int64_t kHead = kH / kHeads;
    work.flop = 2.0 * static_cast<double>(kScores * kHead);
    work.bytes = 2 * kScores + 2 * 2 * kM * kH / kT;
    return 2 * kernel(work);
  }

  Seconds memory(OpKind kind, Bytes bytes, std::int64_t width = 0) {
    KernelWork work;
    work.cls = KernelClass::kMemoryBound;
    work.kind = kind;
    work.bytes = bytes;
    work.n = width;
    return kernel(work);
  }

  Seconds softmax(OpPart part, Bytes bytes) {
    KernelWork work;
    work.cls = KernelClass::kMemoryBound;
    work.kind = OpKind::kSoftmax;
    work.part = part;
    work.dtype = DType::kFp16;
    work.bytes = bytes;
    work.m = kScores / kSequence, work.n = kSequence;
    work.form.set(FormFlag::kCausal);
    return kernel(work);
  }

  /// A kernel beside an op's own, for so many bytes of gradients.
  Seconds further(Bytes KernelWork::*gradients, Bytes bytes) {
    KernelWork work;
    work.*gradients = bytes;
    return further_kernels_time(work, device_, software_, log_);
  }

  Seconds collective(OpKind kind) {
    return collective_time(kind, 2 * kM * kH, {kT, 1, kT, 1}, cluster_, log_);
  }

  HardwareProfile device_;
  SoftwareProfile software_;
  Cluster cluster_;
  SourceLog log_;
};

}  // namespace

TEST_CASE("one layer of the 22B model takes its published times within 5 %") {
  Layer layer;
  const Seconds forward = layer.forward(false);
  const Seconds backward = layer.backward(false);
  const auto near = [](double ms) { return Approx(ms * 1e-3).epsilon(0.05); };
  CHECK(forward == near(7.7));
  CHECK(backward == near(11.9));
  CHECK(layer.forward(true) == near(7.2));
  CHECK(layer.backward(true) == near(11.8));
  CHECK(forward + backward == near(19.5));                 // backward with full recompute
  CHECK(backward + layer.attention_core() == near(13.2));  // with selective recompute
  CHECK(layer.backward(true) + layer.attention_core() == near(13.1));
}

}  // namespace trainyard::single_layer_test
