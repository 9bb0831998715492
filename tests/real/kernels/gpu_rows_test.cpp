// Kernels of a GPU of norms, softmax, dropout, state spaces and AdamW give what a CPU's give in
// fp64, rounded to the type, in whichever shape: rows of whole vectors or not, of one element,
// longer than a block holds, none. By hand, where there is a GPU.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "real/kernels/kernel.h"

namespace trainyard::gpu_rows_test {

namespace {

using Lengths = std::vector<std::int64_t>;

constexpr int kShapes = 24;
// Half a unit of the last digit, and a little for sums in fp32.
const std::vector<std::pair<at::ScalarType, double>> kTypes{
    {at::kDouble, 1e-13}, {at::kFloat, 4e-6}, {at::kHalf, 2e-3}, {at::kBFloat16, 1.2e-2}};

at::ScalarType wide(at::ScalarType type) { return type == at::kDouble ? type : at::kFloat; }

at::Tensor numbers(const Lengths& extents) {
  return at::randn(extents, at::TensorOptions(at::kDouble));
}

/// One call of a kernel, on a GPU in `type` or on a CPU in fp64, of numbers that `type` holds.
struct Trial {
  OpKind kind;
  OpPart part = OpPart::kForward;
  OpAttrs attrs;
  std::vector<at::Tensor> reads;      // fp64
  std::vector<bool> reads_wide = {};  // those that are statistics
  std::vector<Lengths> writes;
  std::vector<bool> writes_wide = {};
  std::vector<at::Tensor> accumulates = {};  // fp64; on a GPU of the statistics' type
  double average_share = 0;
};

std::vector<at::Tensor> run(const Trial& trial, at::Device device, at::ScalarType type) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  StepState state;
  KernelCall call;
  call.attrs = &trial.attrs;
  call.state = &state;
  call.device = device;
  call.immediate = device.is_cpu();
  call.average_share = trial.average_share;
  const std::vector<ShardPlace> places(4);
  call.read_places = call.write_places = places.data();
  const auto flag = [](const std::vector<bool>& of, std::size_t i) {
    return i < of.size() && of[i];
  };
  for (std::size_t i = 0; i < trial.reads.size(); ++i)
    call.reads.push_back(trial.reads[i].to(device, flag(trial.reads_wide, i) ? wide(type) : type));
  for (const at::Tensor& sum : trial.accumulates)
    call.accumulates.push_back(sum.to(device, wide(type), /*non_blocking=*/false, /*copy=*/true));
  call.writes.resize(trial.writes.size());
  call.write_shapes = trial.writes;
  for (std::size_t i = 0; i < trial.writes.size(); ++i)
    call.write_types.push_back(flag(trial.writes_wide, i) ? wide(type) : type);
  find_kernel(trial.kind, trial.part)(call);
  std::vector<at::Tensor> out;
  for (const auto* of : {&call.writes, &call.accumulates}) {
    for (const at::Tensor& result : *of) out.push_back(result.cpu().to(at::kDouble));
  }
  return out;
}

/// Sums over many rows and values near 0 are held against the largest of their tensor.
double distance(const at::Tensor& a, const at::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  if (a.numel() == 0) return 0;
  const double largest = std::max(1.0, b.abs().max().item<double>());
  return (a - b).abs().max().item<double>() / largest;
}

void check_on_gpu(Trial trial, at::ScalarType type, double bound) {
  for (std::size_t i = 0; i < trial.reads.size(); ++i) {
    const bool is_wide = i < trial.reads_wide.size() && trial.reads_wide[i];
    trial.reads[i] = trial.reads[i].to(is_wide ? wide(type) : type).to(at::kDouble);
  }
  const std::vector<at::Tensor> gpu = run(trial, at::kCUDA, type),
                                again = run(trial, at::kCUDA, type),
                                cpu = run(trial, at::kCPU, at::kDouble);
  for (std::size_t i = 0; i < cpu.size(); ++i) {
    CAPTURE(to_string(trial.kind), static_cast<int>(trial.part), at::toString(type), i,
            trial.reads[0].sizes());
    REQUIRE(distance(gpu[i], cpu[i]) < bound);
    REQUIRE(at::equal(gpu[i], again[i]));  // the same bits each time
  }
}

/// Widths of whole vectors, of none, and longer than registers hold.
std::int64_t some_width(std::mt19937& random, int shape) {
  const std::int64_t any = 1 + static_cast<std::int64_t>(random() % 700);
  switch (shape % 4) {
    case 0: return any;
    case 1: return any * 8;
    case 2: return 64 * (1 + any % 20);
    default: return any % 40 + 1;
  }
}

void check_norm(OpKind kind, std::mt19937& random, int shape, at::ScalarType type, double bound) {
  const std::int64_t width = some_width(random, shape) + (shape == 7 ? 20000 : 0);
  const Lengths extents{static_cast<std::int64_t>(random() % 4),
                        1 + static_cast<std::int64_t>(random() % 300), width};
  const bool layer = kind == OpKind::kLayerNorm;
  const Lengths statistics{extents[0], extents[1], layer ? 2 : 1};
  Trial forward;
  forward.kind = kind;
  forward.attrs.eps = 1e-5F;
  forward.attrs.unbiased = layer && shape % 5 == 0;
  if (!layer && shape % 3 == 0) forward.attrs.shift = 1;
  forward.reads = {numbers(extents).mul_(2).add_(0.5), numbers({width}), numbers({width})};
  if (!layer || forward.attrs.unbiased) forward.reads.pop_back();
  forward.writes = {extents, statistics};
  forward.writes_wide = {false, true};
  // Rows of two may have a deviation of almost 0: r is 300 then.
  if (width < 3) bound *= 300;
  check_on_gpu(forward, type, bound);

  Trial backward = forward;
  for (at::Tensor& read : backward.reads) read = read.to(type).to(at::kDouble);
  const at::Tensor known = run(backward, at::kCPU, at::kDouble)[1];
  backward.part = OpPart::kBackward;
  backward.reads = {numbers(extents), backward.reads[0], backward.reads[1], known};
  backward.reads_wide = {false, false, false, true};
  backward.writes = {extents};
  if (shape % 6 == 1) backward.writes.clear();
  backward.writes_wide = {};
  backward.accumulates = {numbers({width}), numbers({width})};
  if (!layer || forward.attrs.unbiased) backward.accumulates.pop_back();
  check_on_gpu(backward, type, bound);
}

}  // namespace

TEST_CASE("softmax on a GPU is that of a CPU", "[.gpu]") {
  std::mt19937 random(1);
  for (int shape = 0; shape < kShapes; ++shape) {
    const auto samples = static_cast<std::int64_t>(random() % 3),
               heads = 1 + static_cast<std::int64_t>(random() % 4),
               queries = 1 + static_cast<std::int64_t>(random() % 90);
    const Lengths extents{samples, heads, queries,
                          shape % 4 == 3 ? queries : some_width(random, shape)};
    for (const auto& [type, bound] : kTypes) {
      for (const bool causal : {false, true}) {
        Trial trial;
        trial.kind = OpKind::kSoftmax;
        trial.attrs.causal = causal;
        trial.reads = {numbers(extents).mul_(4)};
        trial.writes = {extents};
        check_on_gpu(trial, type, bound);
        const at::Tensor p = run(trial, at::kCPU, at::kDouble)[0].to(type).to(at::kDouble);
        trial.part = OpPart::kInputGrad;
        trial.reads = {numbers(extents), p};
        check_on_gpu(trial, type, bound);
      }
    }
  }
}

TEST_CASE("layer and RMS norms on a GPU are those of a CPU", "[.gpu]") {
  for (const OpKind kind : {OpKind::kLayerNorm, OpKind::kRmsNorm}) {
    for (const auto& [type, bound] : kTypes) {
      std::mt19937 random(2);
      for (int shape = 0; shape < kShapes; ++shape) check_norm(kind, random, shape, type, bound);
    }
  }
}

TEST_CASE("batch norms on a GPU are those of a CPU", "[.gpu]") {
  std::mt19937 random(3);
  for (int shape = 0; shape < kShapes; ++shape) {
    const std::int64_t groups = 1 + shape % 3;
    const Lengths extents{groups * (1 + static_cast<std::int64_t>(random() % 40)),
                          1 + static_cast<std::int64_t>(random() % 70),
                          6 + static_cast<std::int64_t>(random() % 30),
                          shape % 2 == 0 ? 16 : 1 + static_cast<std::int64_t>(random() % 30)};
    const std::int64_t channels = extents[1];
    for (const auto& [type, bound] : kTypes) {
      Trial trial;
      trial.kind = OpKind::kBatchNorm;
      trial.attrs.eps = 1e-5F;
      trial.attrs.momentum = 0.1F;
      trial.average_share = 0.05;
      // A mean far from 0 costs no digits.
      trial.reads = {numbers(extents).add_(3), numbers({channels}), numbers({channels})};
      trial.writes = {extents, {groups, 2, channels}};
      trial.writes_wide = {false, true};
      check_on_gpu(trial, type, 4 * bound);
      for (at::Tensor& read : trial.reads) read = read.to(type).to(at::kDouble);
      const at::Tensor known = run(trial, at::kCPU, at::kDouble)[1];
      trial.part = OpPart::kBackward;
      trial.reads = {numbers(extents), trial.reads[0], trial.reads[1], known};
      trial.reads_wide = {false, false, false, true};
      trial.writes = {extents};
      if (shape % 5 == 4) trial.writes.clear();
      trial.writes_wide = {};
      for (int i = 0; i < 4; ++i) trial.accumulates.push_back(numbers({channels}));
      check_on_gpu(trial, type, 4 * bound);
    }
  }
}

TEST_CASE("causal convolutions on a GPU are those of a CPU", "[.gpu]") {
  std::mt19937 random(6);
  for (int shape = 0; shape < kShapes; ++shape) {
    const Lengths extents{1 + static_cast<std::int64_t>(random() % 3),
                          1 + static_cast<std::int64_t>(random() % 200), some_width(random, shape)};
    // No kernel of ours has 9 tokens.
    const std::int64_t width = shape % 3 == 0 ? 4 : 1 + static_cast<std::int64_t>(random() % 9);
    for (const auto& [type, bound] : kTypes) {
      Trial trial;
      trial.kind = OpKind::kCausalConv1d;
      trial.reads = {numbers(extents), numbers({extents[2], 1, 1, width}), numbers({extents[2]})};
      trial.writes = {extents};
      check_on_gpu(trial, type, 4 * bound);
      trial.part = OpPart::kBackward;
      trial.reads.insert(trial.reads.begin(), numbers(extents));
      if (shape % 5 == 4) trial.writes.clear();
      trial.accumulates = {numbers({extents[2], 1, 1, width}), numbers({extents[2]})};
      check_on_gpu(trial, type, 4 * bound);
    }
  }
}

TEST_CASE("scans of state spaces on a GPU are those of a CPU", "[.gpu]") {
  std::mt19937 random(7);
  const auto up_to = [&](unsigned most) { return 1 + static_cast<std::int64_t>(random() % most); };
  for (int shape = 0; shape < kShapes; ++shape) {
    Trial trial;
    trial.kind = OpKind::kChunkScan;
    OpAttrs& attrs = trial.attrs;
    const std::int64_t groups = up_to(3), heads = groups * up_to(4), states = up_to(20);
    const std::int64_t channels = shape % 2 == 0 ? 4 * up_to(16) : up_to(40);
    std::int64_t chunk = shape % 3 == 0 ? up_to(70) : 4 * up_to(32);
    if (shape == 5) chunk = 512;
    if (shape == 11) chunk = 301;
    attrs.heads = static_cast<std::int32_t>(heads);
    attrs.kv_heads = static_cast<std::int32_t>(groups);
    attrs.head_dim = static_cast<std::int32_t>(channels);
    attrs.states = static_cast<std::int32_t>(states);
    attrs.chunk = static_cast<std::int32_t>(chunk);
    const std::int64_t samples = up_to(3), tokens = chunk * (shape % 4 == 0 ? 1 : up_to(6));
    const auto of_tokens = [&](std::int64_t width) { return Lengths{samples, tokens, width}; };
    const Lengths x = of_tokens(heads * channels), dt = of_tokens(heads),
                  read = of_tokens(groups * states);
    for (const auto& [type, bound] : kTypes) {
      // Products are of rounded numbers in bf16; fp64's sums of dt A are differences.
      const double of_scan = (type == at::kBFloat16 ? 3 : 10) * bound;
      trial.part = OpPart::kForward;
      trial.reads = {numbers(x),      numbers(dt).sub_(1),        numbers(read),
                     numbers(read),   numbers({heads}).mul_(0.5), numbers({heads}),
                     numbers({heads})};
      trial.writes = {x};
      trial.accumulates.clear();
      check_on_gpu(trial, type, of_scan);
      trial.part = OpPart::kBackward;
      trial.reads.insert(trial.reads.begin(), numbers(x));
      trial.writes = {x, dt, read, read};
      trial.accumulates = {numbers({heads}), numbers({heads}), numbers({heads})};
      check_on_gpu(trial, type, of_scan);
    }
  }
}

TEST_CASE("dropout on a GPU keeps what a CPU keeps", "[.gpu]") {
  std::mt19937 random(4);
  for (int shape = 0; shape < 2 * kShapes; ++shape) {
    Lengths extents{1 + static_cast<std::int64_t>(random() % 3)};
    for (int d = 0; d <= shape % 3; ++d)
      extents.push_back(1 + static_cast<std::int64_t>(random() % 12));
    extents.push_back(some_width(random, shape));
    ShardPlace place;
    for (std::size_t d = 0; d < extents.size(); ++d) {
      const bool part = d > 0 && random() % 3 == 0;
      place.start[d] = part ? static_cast<std::int64_t>(random() % 9) * (shape % 2 ? 4 : 1) : 0;
      place.whole[d] = extents[d] + place.start[d] + (part ? 8 : 0);
    }
    if (extents.size() > 3 && shape % 4 == 0 && extents[1] > 1)
      place.two_runs = 1, place.first_run = 1, place.second_start = place.start[1] + 3,
      place.whole[1] += 8;
    OpAttrs attrs;
    attrs.rate = 0.1F;
    StepState state;
    state.first_sample = 1000;
    const at::Tensor x = numbers(extents);
    for (const auto& [type, bound] : kTypes) {
      const auto dropped = [&](at::Device device) {
        const at::AutoDispatchBelowADInplaceOrView no_autograd;
        KernelCall call;
        call.attrs = &attrs;
        call.state = &state;
        call.device = device;
        call.reads = {x.to(device, type)};
        call.writes.resize(1);
        call.write_types = {type};
        call.write_shapes = {extents};
        call.write_places = &place;
        call.mask_key = {12345, 678};
        find_kernel(OpKind::kDropout, OpPart::kForward)(call);
        return call.writes[0].cpu();
      };
      CAPTURE(at::toString(type), extents, bound);
      REQUIRE(at::equal(dropped(at::kCUDA), dropped(at::kCPU)));
    }
  }
}

TEST_CASE("AdamW on a GPU updates as a CPU does", "[.gpu]") {
  std::mt19937 random(5);
  for (int shape = 0; shape < kShapes; ++shape) {
    const std::int64_t size =
        1 + static_cast<std::int64_t>(random() % (shape % 3 == 0 ? 1500 : 5000));
    // Ranges, more than a launch has in some, with what is not updated between them.
    std::vector<DecayRange> ranges;
    const std::int64_t longest = shape % 3 == 0 ? 9 : 900;
    for (std::int64_t at = static_cast<std::int64_t>(random() % 3); at < size;) {
      const std::int64_t end =
          std::min<std::int64_t>(size, at + 1 + static_cast<std::int64_t>(random()) % longest);
      ranges.push_back({at, end, random() % 2 == 0});
      at = end + static_cast<std::int64_t>(random() % 3);
    }
    const at::Tensor weights = numbers({size}), first = numbers({size}),
                     second = numbers({size}).square_(), gradient = numbers({size}).mul_(8);
    for (const bool passes : {true, false}) {
      const at::Tensor norm =
          at::full({1}, passes ? 64.0 * static_cast<double>(size) : INFINITY, at::kDouble);
      const auto updated = [&](at::Device device, at::ScalarType master, at::ScalarType type) {
        const at::AutoDispatchBelowADInplaceOrView no_autograd;
        StepState state;
        state.updates = shape;
        state.learning_rate = 0.01;
        state.weight_decay = 0.1;
        state.clip_norm = shape % 2 == 0 ? 1.5 : 0;
        state.loss_scale = 8;
        KernelCall call;
        call.state = &state;
        call.device = device;
        call.immediate = device.is_cpu();
        call.decay = &ranges;
        call.has_norm = true;
        call.guard = norm.to(device);
        const auto as = [&](const at::Tensor& x, at::ScalarType of) {
          return x.to(device, of, /*non_blocking=*/false, /*copy=*/true);
        };
        call.reads = {norm.to(device), as(gradient, type)};
        call.accumulates = {as(weights, master), as(first, master), as(second, master)};
        call.writes.resize(1);
        call.write_types = {type};
        call.write_shapes = {{size}};
        find_kernel(OpKind::kAdamW, OpPart::kForward)(call);
        std::vector<at::Tensor> out;
        for (const at::Tensor& x : call.accumulates) out.push_back(x.cpu().to(at::kDouble));
        out.push_back(call.writes[0].cpu().to(at::kDouble));
        return out;
      };
      const auto cpu = updated(at::kCPU, at::kDouble, at::kDouble);
      struct Types {
        at::ScalarType master, type;
        double bound, of_copy;
      };
      for (const Types& types : std::vector<Types>{{at::kDouble, at::kDouble, 1e-13, 1e-13},
                                                   {at::kFloat, at::kFloat, 4e-6, 4e-6},
                                                   {at::kFloat, at::kBFloat16, 2e-2, 2e-2},
                                                   {at::kFloat, at::kHalf, 4e-3, 4e-3}}) {
        const auto gpu = updated(at::kCUDA, types.master, types.type);
        CAPTURE(size, passes, at::toString(types.type), ranges.size());
        for (std::size_t i = 0; i < 3; ++i) REQUIRE(distance(gpu[i], cpu[i]) < types.bound);
        REQUIRE(distance(gpu[3], cpu[3]) < types.of_copy);
      }
    }
  }
}

}  // namespace trainyard::gpu_rows_test
