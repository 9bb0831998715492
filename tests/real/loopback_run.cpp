#include "tests/real/loopback_run.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "engine/base/error.h"
#include "real/cuda/cuda_device.h"
#include "real/exec/counting_allocator.h"
#include "real/exec/host_device.h"
#include "real/parameters/initial_values.h"
#include "real/train/rank_trainer.h"
#include "tests/real/meeting.h"
#include "tests/real/test_device.h"

namespace trainyard {

namespace {

/// The host's device, of which kernels hear that numbers are not there yet.
class DeferredDevice final : public HostDevice {
 public:
  bool immediate() const override { return false; }
};

/// Copies what the bucket's part [own_begin, own_end) holds of each weight to its place in the
/// whole.
void collect(const BucketState& bucket, const at::Tensor& part, double factor,
             std::map<std::string, std::vector<double>>& out) {
  const at::Tensor values = part.to(at::kCPU, at::kDouble).contiguous();
  const double* data = values.const_data_ptr<double>();
  for (const WeightPiece& piece : bucket.pieces) {
    std::int64_t size = 1;
    for (const std::int64_t extent : piece.shape) size *= extent;
    auto& whole = out[piece.weight];
    whole.resize(static_cast<std::size_t>(size));
    for (std::int64_t i = 0; i < piece.rows * piece.columns; ++i) {
      const std::int64_t at = piece.offset + i;
      if (at < bucket.own_begin || at >= bucket.own_end) continue;
      const std::int64_t row = piece.first_row + i / piece.columns;
      const std::int64_t column = piece.first_column + i % piece.columns;
      whole[static_cast<std::size_t>(row * piece.global_columns + column)] =
          data[at - bucket.own_begin] * factor;
    }
  }
}

/// The noise of an element depends on its weight and its place there alone, as its initial value
/// does. Their sum is rounded to fp32, so that it is the same whatever the precision of the run.
void add_noise(RankExecutor& executor, float deviation, std::int64_t seed) {
  for (const BucketState& bucket : executor.plan().buckets()) {
    at::Tensor& weights = executor.values().tensor(bucket.parameter, 0);
    for (const WeightPiece& piece : bucket.pieces) {
      const PhiloxKey weight_key = philox_key("weight", piece.weight, seed),
                      noise_key = philox_key("noise", piece.weight, seed);
      WeightPiece noise = piece;
      noise.init = Init::kNormal;
      noise.deviation = deviation;
      const auto columns = static_cast<std::size_t>(piece.columns);
      std::vector<float> row(columns), more(columns);
      for (std::int64_t i = 0; i < piece.rows; ++i) {
        fill_initial_row(piece, weight_key, i, row);
        fill_initial_row(noise, noise_key, i, more);
        for (std::size_t k = 0; k < columns; ++k) row[k] += more[k];
        const at::Tensor sum = at::from_blob(row.data(), {piece.columns}, at::kFloat);
        const std::int64_t begin = piece.offset + i * piece.columns;
        weights.narrow(0, begin, piece.columns).copy_(sum);
        if (bucket.master == kNoIndex) continue;
        const std::int64_t first = std::max(begin, bucket.own_begin),
                           last = std::min(begin + piece.columns, bucket.own_end);
        if (first >= last) continue;
        executor.values()
            .tensor(bucket.master, 0)
            .narrow(0, first - bucket.own_begin, last - first)
            .copy_(sum.narrow(0, first - begin, last - first));
      }
    }
  }
}

/// What the threads of a run share.
struct SharedRun {
  const Prepared& prepared;
  const LoopbackOptions& options;
  const Samples& samples;
  LoopbackRun& run;
  Meeting& meeting;
  std::mutex mutex;  // of all below, and of `run`
  std::exception_ptr failure;
};

std::unique_ptr<Device> make_device(const LoopbackOptions& options, std::int64_t rank) {
  std::unique_ptr<Device> device;
  if (options.gpu) {
    device = make_cuda_device(0);
  } else if (options.deferred && !tests_on_gpu()) {
    device = std::make_unique<DeferredDevice>();
  } else {
    device = make_test_device();
  }
  return options.device ? options.device(rank, std::move(device)) : std::move(device);
}

void watch(SharedRun& shared, RankExecutor& executor, Device& device, std::int64_t bytes_before) {
  const LoopbackOptions& options = shared.options;
  if (options.watch_memory) {
    executor.hooks().call_done = [&, bytes_before](std::size_t call) {
      // What a transfer needs while it runs is no value of the Program.
      for (std::size_t s = 0; s < kNumStreams; ++s) device.finish(static_cast<StreamId>(s), [] {});
      options.watch_memory(executor.plan().calls()[call], live_cpu_bytes() - bytes_before,
                           executor.values().live_bytes());
    };
  }
  if (options.watch_ops) {
    executor.hooks().op = [&](const OpPlan& op, bool done) {
      if (op.op->kind == OpKind::kFree) return;
      if (!done) return begin_thread_peak();
      const std::lock_guard lock(shared.mutex);
      options.watch_ops(shared.run.program, *op.op, thread_peak_over_now());
    };
  }
}

void note(SharedRun& shared, const std::optional<StepReport>& report) {
  if (!report) return;
  const std::lock_guard lock(shared.mutex);
  LoopbackRun& run = shared.run;
  const auto step = static_cast<std::size_t>(report->step - 1);
  if (report->loss) run.losses[step] = *report->loss;
  run.gradient_norms[step] = report->gradient_norm;
  run.learning_rates[step] = report->learning_rate;
  run.loss_scales[step] = report->loss_scale;
}

/// A rank's steps, and what it has behind them.
void train(SharedRun& shared, RankTrainer& trainer, std::int64_t rank) {
  const LoopbackOptions& options = shared.options;
  LoopbackRun& run = shared.run;
  RankExecutor& executor = trainer.executor();
  const auto between_steps = [&] {
    if (options.between_steps) options.between_steps(rank, trainer);
  };
  for (between_steps(); trainer.steps_done() < options.steps; between_steps()) {
    if (trainer.steps_done() == 0 && !options.watch_ops) {  // what the hook allocates is no op's
      const double unscale = 1.0 / trainer.loss_scale().value();
      executor.hooks().gradient = [&, unscale](const BucketState& bucket, const at::Tensor& part) {
        finish_test_device();
        const std::lock_guard lock(shared.mutex);
        collect(bucket, part, unscale, run.gradients);
      };
    }
    const StepOutcome one = trainer.step();
    executor.hooks().gradient = nullptr;
    note(shared, one.settled);
    const std::lock_guard lock(shared.mutex);
    run.rows[static_cast<std::size_t>(rank)] = one.rows;
  }
  note(shared, trainer.settle());
  const std::lock_guard lock(shared.mutex);
  run.repeated.push_back(trainer.repeated());
  for (BucketState bucket : executor.plan().buckets()) {
    if (bucket.master != kNoIndex)
      collect(bucket, executor.values().tensor(bucket.master, 0), 1.0, run.masters);
    bucket.own_begin = bucket.held_begin;
    bucket.own_end = bucket.held_end;
    collect(bucket, executor.values().tensor(bucket.parameter, 0), 1.0, run.weights);
  }
}

void run_rank(SharedRun& shared, std::int64_t rank) {
  const LoopbackOptions& options = shared.options;
  const Prepared& prepared = shared.prepared;
  // This rank's own: there are as many as share the machine's cores.
  at::set_num_threads(options.threads);
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  std::unique_ptr<Device> device;
  std::unique_ptr<Rendezvous> store;
  std::unique_ptr<Transport> transport;
  // Ends after a failure has been said: then nobody waits for it.
  std::optional<RankTrainer> started;
  try {
    device = make_device(options, rank);
    store = shared.meeting.connect();
    transport = test_transport(shared.meeting.transport(store.get(), rank));
    if (options.transport) transport = options.transport(rank, std::move(transport));
    const std::int64_t before = live_cpu_bytes();
    RankTrainer& trainer = started.emplace(shared.run.program, prepared.model, prepared.study,
                                           shared.samples, rank, *device, *transport);
    RankExecutor& executor = trainer.executor();
    watch(shared, executor, *device, before);
    executor.record_rows(options.record_rows);
    if (options.ready) options.ready(rank, executor);
    if (options.noise > 0) add_noise(executor, options.noise, prepared.study.training.seed);
    train(shared, trainer, rank);
  } catch (const std::exception& error) {
    const std::lock_guard lock(shared.mutex);
    if (!shared.failure) shared.failure = std::current_exception();
    shared.meeting.abort(error.what());
  }
}

}  // namespace

LoopbackRun run_loopback(const std::string& yaml, const std::vector<std::string>& sets,
                         const LoopbackOptions& options) {
  std::vector<std::string> all_sets = sets;
  if (tests_on_gpu()) all_sets.emplace_back("training.kernels=cuda");
  const Prepared prepared = prepare_text(yaml, all_sets);

  if (options.watch_memory || options.watch_ops) count_cpu_allocations();
  LoopbackRun run;
  run.program = compiled_program(prepared);
  if (options.plant) options.plant(run.program);
  const std::int64_t ranks = run.program.mesh.num_ranks();
  const std::unique_ptr<Samples> samples = make_samples(prepared.study);
  const auto steps = static_cast<std::size_t>(options.steps);
  run.losses.resize(steps);
  for (auto* of_steps : {&run.gradient_norms, &run.learning_rates, &run.loss_scales})
    of_steps->resize(steps);
  run.rows.resize(static_cast<std::size_t>(ranks));
  Meeting meeting(options.over_gloo);
  SharedRun shared{prepared, options, *samples, run, meeting, {}, {}};
  std::vector<std::thread> threads;
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&shared, rank] { run_rank(shared, rank); });
  for (std::thread& thread : threads) thread.join();
  if (shared.failure) std::rethrow_exception(shared.failure);
  return run;
}

}  // namespace trainyard
