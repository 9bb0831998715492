#include "tests/real/graph_run.h"

#include <ATen/Parallel.h>

#include <cmath>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <variant>

#include "engine/passes/compile.h"
#include "real/exec/counting_allocator.h"
#include "real/exec/host_device.h"
#include "real/exec/loopback.h"
#include "real/exec/rank_executor.h"
#include "real/exec/rank_plan.h"
#include "real/kernels/workspace.h"
#include "tests/real/torch_ops.h"

namespace trainyard {

namespace {

constexpr int kMicrobatches = 2;

std::vector<double> numbers(const std::string& name, std::int64_t sample, std::int64_t count) {
  double seed = 1 + static_cast<double>(sample);
  for (const char c : name) seed = std::fmod(seed * 31 + c, 9973);
  std::vector<double> out;
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(std::sin(12.9898 * seed + 78.233 * static_cast<double>(i + 1)));
  return out;
}

at::Tensor tensor_of(const std::vector<double>& values, const Shape& shape) {
  return at::from_blob(const_cast<double*>(values.data()),  // NOLINT: cloned
                       std::vector<std::int64_t>(shape.begin(), shape.end()), at::kDouble)
      .clone();
}

std::vector<double> vector_of(const at::Tensor& tensor) {
  const at::Tensor all = tensor.detach().contiguous();
  return {all.const_data_ptr<double>(), all.const_data_ptr<double>() + all.numel()};
}

void set_weights(RankExecutor& executor) {
  for (const BucketState& bucket : executor.plan().buckets()) {
    at::Tensor& weights = executor.values().tensor(bucket.parameter, 0);
    for (const WeightPiece& piece : bucket.pieces) {
      const std::int64_t size = piece.rows * piece.columns;
      weights.narrow(0, piece.offset, size)
          .copy_(tensor_of(numbers(piece.weight, 0, size), {size}));
    }
  }
}

/// One rank's step, which adds what it has to `run`.
void run_rank(const Program& program, const Graph& graph, const Study& study, std::int64_t rank,
              Transport& transport, std::mutex& mutex, GraphRun& run) {
  at::set_num_threads(1);
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  HostDevice device;
  const RankPlan plan(program, graph, study, rank, {}, transport);
  RankExecutor executor(plan, device, study,
                        [](const std::string& name, std::int64_t first, at::Tensor& out) {
                          const Shape shape(out.sizes().begin(), out.sizes().end());
                          out.copy_(tensor_of(numbers(name, first, out.numel()), shape));
                        });
  executor.initialise(study);
  set_weights(executor);
  executor.hooks().gradient = [&](const BucketState& bucket, const at::Tensor& part) {
    const std::lock_guard lock(mutex);
    for (const WeightPiece& piece : bucket.pieces)
      run.gradients[piece.weight] =
          vector_of(part.narrow(0, piece.offset, piece.rows * piece.columns));
  };
  executor.hooks().result = [&](const ProgramOp& op, Microbatch mb, const at::Tensor& result) {
    if (op.part != OpPart::kForward || op.writes.size() != 1 || mb < 0) return;
    const std::lock_guard lock(mutex);
    const std::string& name = program.values[op.writes[0].value].name;
    run.results[name + " " + std::to_string(mb)] = vector_of(result);
  };
  executor.hooks().op = [&](const OpPlan& op, bool done) {
    if (op.op->kind == OpKind::kFree) return;
    if (!done) return begin_thread_peak();
    const std::int64_t declared = workspace_bytes(program, *op.op, /*threads=*/1);
    const std::int64_t seen = thread_peak_over_now();
    if (seen <= declared) return;
    const std::lock_guard lock(mutex);
    run.greedy.push_back(op_name(op.op->kind, op.op->part) + ": " + std::to_string(seen) +
                         " bytes, not " + std::to_string(declared));
  };
  StepState state;
  const StepResult step = executor.run_step(state);
  const std::lock_guard lock(mutex);
  if (step.loss) run.loss = *step.loss;
}

}  // namespace

Plan plan_of_graph() {
  Plan plan;
  plan.training.global_batch = kMicrobatches;
  plan.training.microbatch = 1;
  plan.training.precision = plan.training.grad_dtype = DType::kFp64;
  plan.training.optimizer = Optimizer::kSgd;
  plan.training.flash_attention = FlashAttention::kOff;
  plan.training.clip_norm = 0;
  return plan;
}

GraphRun run_graph(const Graph& graph, const Plan& plan) {
  Study study;
  static_cast<Plan&>(study) = plan;
  PassLog log;
  auto compiled = compile(graph, ProgramInputs{plan, {}}, SoftwareProfile{}, log, {.verify = true});
  if (const auto* reason = std::get_if<Infeasible>(&compiled))
    throw std::runtime_error(reason->reason);
  const auto& program = std::get<Program>(compiled);
  count_cpu_allocations();
  GraphRun run;
  LoopbackHub hub;
  std::mutex mutex;
  std::exception_ptr failure;
  std::vector<std::thread> threads;
  for (std::int64_t rank = 0; rank < program.mesh.num_ranks(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const auto transport = hub.transport();
        run_rank(program, graph, study, rank, *transport, mutex, run);
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        hub.abort(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  return run;
}

GraphRun differentiate_by_torch(const Graph& graph) {
  GraphRun run;
  std::map<std::string, at::Tensor> weights;
  for (const Parameter& parameter : graph.parameters) {
    const std::vector<double> values = numbers(parameter.name, 0, num_elements(parameter.shape));
    weights[parameter.name] = tensor_of(values, parameter.shape).requires_grad_();
  }
  for (int mb = 0; mb < kMicrobatches; ++mb) {
    Indexed<TensorId, at::Tensor> values(graph.tensors.size());
    for (const TensorId id : graph.tensors.keys()) {
      const Tensor& t = graph.tensors[id];
      if (t.role == TensorRole::kParameter) values[id] = weights[t.name];
      if (t.role == TensorRole::kInput)
        values[id] = tensor_of(numbers(t.name, mb, num_elements(t.shape)), t.shape);
    }
    for (const Op& op : graph.ops) run_by_torch(graph, op, kMicrobatches, values);
    for (const TensorId id : graph.tensors.keys()) {
      if (graph.tensors[id].role == TensorRole::kActivation)
        run.results[graph.tensors[id].name + " " + std::to_string(mb)] = vector_of(values[id]);
    }
    run.loss += values[graph.loss].item<double>();
    values[graph.loss].backward();
  }
  for (const auto& [name, weight] : weights) {
    run.gradients[name] =
        vector_of(weight.grad().defined() ? weight.grad() : at::zeros_like(weight));
  }
  return run;
}

}  // namespace trainyard
