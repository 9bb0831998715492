#include "tests/real/dropped.h"

#include "real/exec/rank_executor.h"
#include "real/kernels/kernels.h"
#include "real/parameters/initial_values.h"
#include "tests/real/loopback_run.h"
#include "tests/real/test_device.h"

namespace trainyard {

std::vector<double> dropped_ones(const DropoutTrial& trial) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  OpAttrs attrs;
  attrs.rate = static_cast<float>(trial.rate);
  StepState state;
  state.first_sample = trial.first_sample;
  ShardPlace place;
  for (std::size_t d = 0; d < trial.shape.size(); ++d) {
    place.start[d] = trial.start.empty() ? 0 : trial.start[d];
    place.whole[d] = trial.whole.empty() ? trial.shape[d] : trial.whole[d];
  }
  if (trial.first_run > 0) {
    place.two_runs = 1;
    place.first_run = trial.first_run;
    place.second_start = trial.second_start;
  }
  KernelCall call;
  call.attrs = &attrs;
  call.state = &state;
  call.reads = {at::ones(trial.shape, at::TensorOptions(at::kDouble))};
  call.writes.resize(1);
  call.write_types = {at::kDouble};
  call.write_shapes = {trial.shape};
  call.write_places = &place;
  call.mask_key = philox_key("dropout", trial.module, 1);
  (trial.backward ? dropout_dx : dropout)(call);
  const double* data = call.writes[0].const_data_ptr<double>();
  return {data, data + call.writes[0].numel()};
}

std::vector<DropoutSeen> dropouts_of(const std::string& yaml, const std::vector<std::string>& sets,
                                     int steps) {
  std::vector<DropoutSeen> out;
  LoopbackOptions options;
  options.steps = steps;
  options.ready = [&](std::int64_t, RankExecutor& executor) {
    executor.hooks().result = [&](const ProgramOp& op, Microbatch mb, const at::Tensor& result) {
      if (op.kind != OpKind::kDropout) return;
      const Program& program = executor.plan().program();
      finish_test_device();
      const at::Tensor kept = result.ne(0).cpu().contiguous().view({-1});
      const bool* data = kept.const_data_ptr<bool>();
      const OpAttrs& attrs = program.attrs[op.attrs];
      out.push_back({program.modules[op.module], attrs.heads > 0, attrs.draw,
                     op.part != OpPart::kForward, executor.whereabouts().step, mb,
                     std::vector<bool>(data, data + kept.numel())});
    };
  };
  run_loopback(yaml, sets, options);
  return out;
}

}  // namespace trainyard
