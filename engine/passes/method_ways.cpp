#include "engine/passes/method_ways.h"

#include <utility>

#include "engine/passes/tensor_methods.h"
#include "engine/plan/tensor_overlap.h"

namespace trainyard {

namespace {

/// How a tensor group of smp gets the samples of a study's batch.
struct GroupSamples {
  std::int64_t of_rank = 0;  // so many each, a microbatch in all; 0: the study's own number
  bool prescaled = false;    // all the same, as of a batch that they do not divide
};

GroupSamples group_samples(const TensorMethod& method, const ComparedPlan& of) {
  const Plan& plan = of.plan;
  const TrainingConfig& training = plan.training;
  const std::int64_t ranks = plan.parallel.tensor, microbatch = training.microbatch;
  if (plan.parallel.smp.prescaled_batch) return {0, true};
  const bool own =
      of.said == method.name || !training.microbatches.empty() || !plan.partition.replicas.empty();
  const bool met = training.global_batch % (microbatch * ranks * plan.parallel.data) == 0;
  if (own || met) return {};
  return microbatch % ranks == 0 ? GroupSamples{microbatch / ranks} : GroupSamples{0, true};
}

}  // namespace

std::vector<MethodWay> way_as_said(const TensorMethod& method, const ComparedPlan& of) {
  const std::string name(method.name);
  return {{name, {}, of.said == name ? "" : name}};
}

std::vector<MethodWay> way_of_auto(const TensorMethod& method, const ComparedPlan& of) {
  if (of.plan.parallel.split_table.empty()) return {};
  return way_as_said(method, of);
}

std::vector<MethodWay> ways_of_atp(const TensorMethod& method, const ComparedPlan& of) {
  const ParallelConfig& parallel = of.plan.parallel;
  const std::string name(method.name);
  // What a study says of it is not said of the others.
  const std::string chunks =
      of.says_chunks
          ? ", chunks: " + std::to_string(parse_tensor_overlap(parallel.tensor_overlap).chunks)
          : "";
  std::vector<MethodWay> out;
  for (int second = 2; second <= parallel.tensor; ++second) {
    if (parallel.tensor % second != 0) continue;
    const std::vector<int> mesh = {parallel.tensor / second, second};
    out.push_back({name, mesh, "{name: " + name + ", mesh: " + mesh_text(mesh) + chunks + "}"});
  }
  return out;
}

std::vector<MethodWay> ways_of_smp(const TensorMethod& method, const ComparedPlan& of) {
  const std::string name(method.name);
  const GroupSamples samples = group_samples(method, of);
  const bool said = of.plan.parallel.smp.prescaled_batch;
  const std::string batch = samples.prescaled ? "true" : "false";
  const std::string how = samples.prescaled && !said ? " prescaled" : "";
  std::vector<MethodWay> out;
  for (const std::string mode : {"memory", "speed"}) {
    out.push_back({name + " " + mode + how,
                   {},
                   "{name: " + name + ", optimize: " + mode + ", prescaled_batch: " + batch + "}",
                   samples.of_rank});
  }
  return out;
}

std::vector<MethodWay> way_of_form(const TensorMethod& method, const ComparedPlan& of) {
  const auto mesh = method.form->mesh_of(of.plan.parallel.tensor);
  if (!mesh) return {};
  const std::string name(method.name);
  return {{name, *mesh, name}};
}

}  // namespace trainyard
