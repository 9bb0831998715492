#include "tests/real/graph_run.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <stdexcept>
#include <thread>
#include <variant>

#include "engine/passes/compile.h"
#include "engine/program/own_extents.h"
#include "real/exec/counting_allocator.h"
#include "real/exec/rank_executor.h"
#include "real/exec/rank_plan.h"
#include "real/exec/rank_values.h"
#include "real/kernels/workspace.h"
#include "real/parameters/rank_coordinates.h"
#include "tests/real/counted_transport.h"
#include "tests/real/gathered_tensors.h"
#include "tests/real/meeting.h"
#include "tests/real/test_device.h"
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

/// An input of a microbatch; of a condition where the numbers are not negative.
at::Tensor input_of(const std::string& name, std::int64_t sample, const Shape& shape,
                    bool condition) {
  const at::Tensor all = tensor_of(numbers(name, sample, num_elements(shape)), shape);
  return condition ? all.ge(0).to(at::kDouble) : all;
}

std::vector<double> content_of(const ConstantContent& content, const Shape& shape, bool real) {
  std::vector<double> out(static_cast<std::size_t>(num_elements(shape)));
  if (real) {
    content.fill(std::span(out));
    return out;
  }
  std::vector<std::int64_t> integers(out.size());
  content.fill(std::span(integers));
  return {integers.begin(), integers.end()};
}

struct MadeResult {
  const Value* value;
  Microbatch mb;
  std::vector<double> numbers;
};

struct Shared {
  std::mutex mutex;
  GatheredTensors results, gradients;
  GraphRun run;
};

/// Each value that an op loads, by the name of the model's input.
std::map<std::string, const Value*> loaded_values(const Program& program) {
  std::map<std::string, const Value*> out;
  for (const Segment& segment : program.segments) {
    for (const ProgramOp& op : segment.ops) {
      if (op.kind != OpKind::kLoad) continue;
      const Value& value = program.values[op.writes[0].value];
      out[value.name.substr(0, value.name.find('@'))] = &value;
    }
  }
  return out;
}

/// The views in a bucket of parameters.
std::vector<ValueId> views_in(const Program& program, ValueId bucket) {
  std::vector<ValueId> out;
  for (const ValueId id : program.values.keys()) {
    const auto& alias = program.values[id].alias;
    if (alias && alias->in == bucket && alias->own_shard == kNoIndex) out.push_back(id);
  }
  return out;
}

std::string parameter_of(const Value& view) { return view.name.substr(0, view.name.find('@')); }

/// Axes that split some parts of a dim, and not others.
bool splits_some_parts(const TensorSpec& spec) {
  return std::any_of(spec.dims.begin(), spec.dims.end(),
                     [](const DimSplit& dim) { return axes_in(dim) != axes_of_all_parts(dim); });
}

void set_weights(RankExecutor& executor, const GraphNumbers& numbers_of) {
  const Program& program = executor.plan().program();
  for (const BucketState& bucket : executor.plan().buckets()) {
    for (const ValueId id : views_in(program, bucket.parameter)) {
      const Value& view = program.values[id];
      const HeldPart part = held_part(program, view, executor.plan().at());
      const Shape whole(part.whole.begin(), part.whole.end());
      const at::Tensor all = tensor_of(numbers_of(parameter_of(view), whole, 0), whole);
      executor.values().tensor(id, 0).copy_(part_of(all, part));
    }
  }
}

using ReducedGradients = std::vector<std::pair<ValueId, std::vector<double>>>;  // by bucket

void gather_gradients(const RankPlan& plan, const ReducedGradients& reduced,
                      GatheredTensors& gathered) {
  const Program& program = plan.program();
  for (const auto& [bucket, gradient] : reduced) {
    for (const ValueId id : views_in(program, bucket)) {
      const Value& view = program.values[id];
      const std::vector<std::int64_t> shape = own_extents(program, view, plan.at());
      const at::Tensor local = at::from_blob(const_cast<double*>(gradient.data()) +  // NOLINT: read
                                                 view.alias->offset,
                                             shape, at::kDouble);
      gathered.add(program, view, plan.at(), parameter_of(view), local);
    }
  }
}

void gather_results(const RankPlan& plan, const std::vector<MadeResult>& made,
                    GatheredTensors& gathered) {
  const Program& program = plan.program();
  // What several stages slice, or one of them and a move, has one name: all but the first are told
  // apart by their numbers.
  std::map<std::string, const Value*> first_named;
  for (const Value& value : program.values) first_named.try_emplace(value.name, &value);
  const auto name_of = [&](const Value& value) {
    const auto number = &value - &program.values[ValueId(0)];
    std::string name = value.name;
    if (first_named.at(value.name) != &value) name.append(1, '@').append(std::to_string(number));
    return name;
  };
  for (const MadeResult& one : made) {
    const Value& value = *one.value;
    if (value.spec != kNoIndex && splits_some_parts(program.specs[value.spec])) continue;
    const std::vector<std::int64_t> shape = own_extents(program, value, plan.at());
    gathered.add(program, value, plan.at(), name_of(value) + " " + std::to_string(one.mb),
                 tensor_of(one.numbers, Shape(shape.begin(), shape.end())));
  }
}

/// What the rank receives in a step, as its list says.
double said_bytes(const RankPlan& plan) {
  double bytes = 0;
  for (const IssuedOp& issued : plan.order().ops) {
    const OpPlan& op = plan.segment(issued.segment).begin()[issued.op];
    const bool communicates = is_communication(op.op->kind) && !op.has_no_peers && !op.passed_by;
    if (communicates && !op.corrects) bytes += received_bytes(plan.program(), *op.op, plan.at());
  }
  return bytes;
}

/// One rank's step, which adds what it has to `shared`.
void run_rank(const Program& program, const Graph& graph, const Study& study, std::int64_t rank,
              Transport& transport, const std::atomic<double>& received,
              const GraphNumbers& numbers_of, Shared& shared) {
  at::set_num_threads(1);
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const std::unique_ptr<Device> device = make_test_device();
  const RankPlan plan(program, graph, study, rank, {}, transport);
  const auto loaded = loaded_values(program);
  RankExecutor executor(
      plan, *device, study, [&](const std::string& name, std::int64_t first, at::Tensor& out) {
        const HeldPart part = held_part(program, *loaded.at(name), plan.at());
        const Shape whole(part.whole.begin(), part.whole.end());
        const auto known = graph.constants.find(name);
        // What is made is of all ranks of a replica, whose first sample is that of its first rank.
        const std::int64_t own = first_row(program, *loaded.at(name), plan.at());
        const auto all = known == graph.constants.end()
                             ? numbers_of(name, whole, first - own)
                             : content_of(*known->second, whole, out.is_floating_point());
        out.copy_(part_of(tensor_of(all, whole), part));
      });
  executor.initialise(study);
  set_weights(executor, numbers_of);
  // Put together behind the step: no tensor is made while an op's allocations are counted.
  std::vector<MadeResult> made;
  ReducedGradients reduced_gradients;
  executor.hooks().gradient = [&](const BucketState& bucket, const at::Tensor& reduced) {
    reduced_gradients.emplace_back(bucket.parameter, vector_of(reduced));
  };
  executor.hooks().result = [&](const ProgramOp& op, Microbatch mb, const at::Tensor& result) {
    if (op.part != OpPart::kForward || op.writes.size() != 1 || mb < 0) return;
    const Value& value = program.values[op.writes[0].value];
    const std::vector<std::int64_t> shape = own_extents(program, value, plan.at());
    if (result.numel() != num_elements(Shape(shape.begin(), shape.end())))
      return;  // a loss that is added up
    made.push_back({&value, mb, vector_of(result)});
  };
  std::int64_t peak_live = 0;
  executor.hooks().op = [&](const OpPlan& op, bool done) {
    if (done) peak_live = std::max(peak_live, executor.values().live_bytes());
    // What a load takes is the test's own.
    if (op.op->kind == OpKind::kFree || op.op->kind == OpKind::kLoad) return;
    if (!done) return begin_thread_peak();
    const std::int64_t declared = workspace_bytes(program, *op.op, /*threads=*/1);
    const std::int64_t seen = thread_peak_over_now();
    if (seen <= declared || tests_on_gpu()) return;  // what is declared is of a CPU
    const std::lock_guard lock(shared.mutex);
    shared.run.greedy.push_back(op_name(op.op->kind, op.op->part) + ": " + std::to_string(seen) +
                                " bytes, not " + std::to_string(declared));
  };
  StepState state;
  const double before = received;
  const StepResult step = executor.run_step(state);
  const std::lock_guard lock(shared.mutex);
  const double said = said_bytes(plan), counted = received - before;
  if (std::abs(said - counted) > 0.5)
    shared.run.miscounted.push_back("rank " + std::to_string(rank) + " received " +
                                    std::to_string(counted) + " bytes, not " +
                                    std::to_string(said));
  shared.run.peak_live = std::max(shared.run.peak_live, peak_live);
  if (step.loss) shared.run.loss = *step.loss;
  if (step.norm_sq) shared.run.norm_sq = *step.norm_sq;
  gather_gradients(plan, reduced_gradients, shared.gradients);
  gather_results(plan, made, shared.results);
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

Program compile_graph(const Graph& graph, const Plan& plan, const CompileOptions& options) {
  PassLog log;
  auto compiled = compile(graph, ProgramInputs{plan, {}}, SoftwareProfile{}, log, options);
  if (const auto* reason = std::get_if<Infeasible>(&compiled))
    throw std::runtime_error(reason->reason);
  return std::get<Program>(std::move(compiled));
}

GraphRun run_program(const Program& program, const Graph& graph, const Plan& plan, bool over_gloo) {
  std::set<std::string> conditions;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.role == TensorRole::kInput && tensor.dtype == DType::kUint8)
      conditions.insert(tensor.name);
  }
  const auto of_name = [&](const std::string& name, const Shape& shape, std::int64_t sample) {
    std::vector<double> all = numbers(name, sample, num_elements(shape));
    if (conditions.contains(name)) {
      for (double& number : all) number = number >= 0 ? 1 : 0;
    }
    return all;
  };
  return run_program(program, graph, plan, of_name, over_gloo);
}

GraphRun run_program(const Program& program, const Graph& graph, const Plan& plan,
                     const GraphNumbers& numbers_of, bool over_gloo) {
  Study study;
  static_cast<Plan&>(study) = plan;
  count_cpu_allocations();
  Shared shared;
  Meeting meeting(over_gloo);
  std::exception_ptr failure;
  std::vector<std::thread> threads;
  for (std::int64_t rank = 0; rank < program.mesh.num_ranks(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const auto store = meeting.connect();
        std::atomic<double> received = 0;
        const auto transport =
            counted(test_transport(meeting.transport(store.get(), rank)), received);
        run_rank(program, graph, study, rank, *transport, received, numbers_of, shared);
      } catch (const std::exception& error) {
        const std::lock_guard lock(shared.mutex);
        if (!failure) failure = std::current_exception();
        meeting.abort(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  shared.run.results = shared.results.finish();
  shared.run.gradients = shared.gradients.finish();
  return std::move(shared.run);
}

GraphRun run_graph(const Graph& graph, const Plan& plan, const CompileOptions& options) {
  CompileOptions verified = options;
  verified.verify = true;
  return run_program(compile_graph(graph, plan, verified), graph, plan);
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
        values[id] = input_of(t.name, mb, t.shape, t.dtype == DType::kUint8);
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
    for (const double one : run.gradients[name]) run.norm_sq += one * one;
  }
  return run;
}

}  // namespace trainyard
