// Wrong gradients are noticed: bugs of the kinds that happen, planted into the Program of a
// layout, each moves the first step's gradients past the tolerance that right layouts keep.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>

#include "engine/program/verify.h"
#include "tests/real/layouts.h"
#include "tests/real/loopback_run.h"

namespace trainyard::planted_bugs_test {

namespace {

const char* const kStudy =
    "model: {family: gpt, layers: 4, hidden: 32, heads: 4, vocab: 62, seq_len: 8}\n"
    "cluster: {preset: local, ranks: 1}\n"
    "training: {global_batch: 8, microbatch: 1, precision: fp32, dropout: 0}\ndata: {path: "
    "synthetic}\n";

/// Largest gradient difference of a weight, in units of what right layouts keep: 1e-5 of its norm
/// and 1e-6 of the norm of all.
double worst_difference(const LoopbackRun& one, const LoopbackRun& many) {
  const auto norm = [](const std::vector<double>& x) {
    double sum = 0;
    for (const double v : x) sum += v * v;
    return std::sqrt(sum);
  };
  double all = 0;
  for (const auto& [name, gradient] : one.gradients) all = std::hypot(all, norm(gradient));
  double worst = 0;
  for (const auto& [name, gradient] : one.gradients) {
    std::vector<double> difference = many.gradients.at(name);
    for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= gradient[i];
    worst = std::max(worst, norm(difference) / (1e-5 * norm(gradient) + 1e-6 * all));
  }
  return worst;
}

using Plant = std::function<void(Program&)>;

/// `both`: what one device is told, too.
double with_bug(const Sets& sets, const Plant& plant, const Sets& both = {}) {
  const LoopbackRun one = run_loopback(kStudy, both, {.steps = 1});
  LoopbackOptions options;
  options.plant = plant;
  return worst_difference(one, run_loopback(kStudy, joined(both, sets), options));
}

Segment& segment(Program& program, const std::string& name) {
  for (Segment& one : program.segments) {
    if (one.name == name) return one;
  }
  throw std::runtime_error("no segment " + name);
}

ProgramOp& op_of(Segment& segment, OpKind kind, OpPart part) {
  for (ProgramOp& op : segment.ops) {
    if (op.kind == kind && op.part == part) return op;
  }
  throw std::runtime_error("no such op in " + segment.name);
}

std::vector<Call>::iterator find_call(const Program& program, std::vector<Call>& calls,
                                      const std::string& prefix) {
  return std::find_if(calls.begin(), calls.end(), [&](const Call& call) {
    return program.segments[call.segment].name.starts_with(prefix);
  });
}

}  // namespace

TEST_CASE("a layout without a bug is within the tolerance") {
  CHECK(with_bug({"cluster.ranks=2", "parallel.data=2"}, nullptr) < 1);
  CHECK(with_bug({"cluster.ranks=2", "parallel.pipeline=2"}, nullptr) < 1);
}

TEST_CASE("a gradient that is scaled is noticed") {
  CHECK(with_bug({}, [](Program& program) {
          ProgramOp& op = op_of(segment(program, "0B"), OpKind::kLinear, OpPart::kWeightGrad);
          OpAttrs attrs = program.attrs[op.attrs];
          attrs.scale *= 2;
          program.attrs.push_back(attrs);
          op.attrs = AttrId(program.attrs.size() - 1);
        }) > 1000);
}

TEST_CASE("a layer norm that takes another input than it had is noticed") {
  CHECK(with_bug({}, [](Program& program) {
          // Reads dy, x, w, statistics: dy in x's place leaves out the term of the variance.
          ProgramOp& op = op_of(segment(program, "0B"), OpKind::kLayerNorm, OpPart::kBackward);
          op.reads[1] = op.reads[0];
        }) > 1000);
}

TEST_CASE("a microbatch that is dropped is noticed") {
  CHECK(with_bug({}, [](Program& program) {
          // The backward of one microbatch adds to no weight.
          Segment silent = segment(program, "0B");
          silent.name = "0Bsilent";
          std::erase_if(silent.ops,
                        [](const ProgramOp& op) { return op.part == OpPart::kWeightGrad; });
          program.segments.push_back(silent);
          for (Call& call : program.body[0].calls) {
            if (program.segments[call.segment].name == "0B" && call.mb[0] == 3) {
              call.segment = SegmentId(program.segments.size() - 1);
            }
          }
        }) > 1000);
}

TEST_CASE("an all-reduce that is missed is noticed") {
  CHECK(with_bug({"cluster.ranks=2", "parallel.data=2"}, [](Program& program) {
          for (Call& call : program.body[0].calls) call.inside.clear();
          auto& calls = program.body[0].calls;
          const auto reduce = find_call(program, calls, "0REDUCE_GRAD");
          if (reduce != calls.end()) calls.erase(reduce);
        }) > 1000);
}

TEST_CASE("a dropout that begins at the place of another axis is noticed, and the op named") {
  // Tokens are cut over tp0, then tp1: rank (0, 1) has the second quarter of them. Told that tp1
  // cuts first, it drops out what is the third quarter's to drop.
  const Sets both = {"training.dropout=0.1"};
  const Sets sets = {"cluster.ranks=4", "parallel.tensor={tp0: 2, tp1: 2}",
                     "parallel.sequence_parallel=true"};
  CHECK(with_bug(sets, nullptr, both) < 1);
  std::string found;
  const auto swap_axes = [&](Program& program) {
    for (ProgramOp& op : segment(program, "0F").ops) {
      if (op.kind != OpKind::kDropout || op.part != OpPart::kForward) continue;
      Value& dropped = program.values[op.writes[0].value];
      TensorSpec spec = spec_of(program, dropped);
      Axes& axes = spec.dims[1].parts.front().axes;
      if (axes.size() < 2) continue;
      std::swap(axes[0], axes[1]);
      dropped.spec = add_spec(program, spec);
      found = find_violation(program).value_or("");
      return;
    }
    throw std::runtime_error("no dropout whose tokens two axes cut");
  };
  CHECK(with_bug(sets, swap_axes, both) > 1000);
  CHECK(found.find("dropout") != found.npos);
}

TEST_CASE("a bucket that is reduced too early is noticed") {
  CHECK(with_bug({"cluster.ranks=2", "parallel.data=2"}, [](Program& program) {
          // Its reduction moves from the last backward into the one before.
          Call* last = nullptr;
          Call* before = nullptr;
          for (Call& call : program.body[0].calls) {
            if (program.segments[call.segment].name != "0B") continue;
            before = last;
            last = &call;
          }
          if (last == nullptr || before == nullptr || last->inside.empty())
            throw std::runtime_error("no bucket");
          before->inside = last->inside;
          last->inside.clear();
        }) > 1000);
}

}  // namespace trainyard::planted_bugs_test
