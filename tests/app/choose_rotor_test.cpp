// recompute: rotor, from a study to its plan: within its budget, no slower than what recomputes
// whole layers in the same memory, and the same again from the resolved study.
#include "app/choose_rotor.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "app/analytic_step.h"
#include "engine/program/program_text.h"
#include "study/compile_study.h"
#include "study/study_writer.h"
#include "tests/support/studies.h"

namespace trainyard::choose_rotor_test {

namespace {

using Sets = std::vector<std::string>;

const std::string kGpt =
    "model: {family: gpt, layers: 8, hidden: 1024, heads: 16, vocab: 8192, seq_len: 1024}\n"
    "cluster: dgx-a100-80g\nparallel: {data: 1}\n"
    "training: {global_batch: 8, microbatch: 4, precision: bf16}\n";

Seconds step(const Prepared& prepared) {
  return step_of(prepared, prepared.study, compiled_program(prepared), false).period;
}

Bytes peak(const Prepared& prepared) {
  Bytes most = 0;
  for (const MemoryPeak& one : peaks_of(prepared, prepared.study, compiled_program(prepared)))
    most = std::max(most, one.total);
  return most;
}

std::string rotor(Bytes budget) {
  return "recompute={method: rotor, memory_budget: " + std::to_string(budget) + " B}";
}

std::string fault(const Sets& sets) {
  try {
    prepare_text(kGpt, sets);
  } catch (const ConfigError& error) {
    return error.what();
  } catch (const PlanError& error) {
    return error.what();
  }
  return "";
}

/// Links shared.
Seconds simulated(const Prepared& prepared) {
  return simulated_step(prepared, prepared.study, compiled_program(prepared));
}

const std::vector<Sets> kPlans = {
    {},
    {"parallel={pipeline: 4}", "training.microbatch=1"},
    {"parallel={pipeline: 2, virtual_stages: 2}", "schedule=interleaved", "training.microbatch=1"},
    {"parallel={pipeline: 2}", "schedule=zb-h1", "training.microbatch=1"},
    {"parallel={pipeline: 2}", "schedule=gpipe", "training.microbatch=2"},
    {"parallel={tensor: 2, pipeline: 2, sequence_parallel: true}", "training.microbatch=2"},
    {"parallel={tensor: 2, data: 2, zero: 3}", "training.microbatch=2"},
    {"model={family: t5, layers: 4, hidden: 512, heads: 8, ffn: 2048, vocab: 8192, seq_len: 512}",
     "parallel={pipeline: 2}", "training.microbatch=2"}};

}  // namespace

TEST_CASE("a Compiler of recomputations makes the Programs of one that knows nothing") {
  // Behind one another: training graphs before recomputation stay while the plan in front is that
  // of the study before, with microbatches of two sizes as well.
  const Sets uneven = {"training.global_batch=7", "training.microbatch=[4, 3]"};
  const std::vector<Sets> all = {{"recompute=full"},
                                 {"recompute=selective"},
                                 {"recompute={method: full, every: 2}"},
                                 {},
                                 {"parallel.tensor=2", "recompute=full"},
                                 {"parallel.tensor=2"},
                                 {"parallel.tensor=3"},  // 16 heads: none
                                 {"parallel.tensor=2", "recompute=by-op"},
                                 {"training.grad_dtype=bf16"},
                                 {"training.grad_dtype=bf16", "recompute=full"},
                                 {"recompute=full", uneven[0], uneven[1]},
                                 {"recompute=selective", uneven[0], uneven[1]},
                                 {"recompute=full"}};
  Compiler compiler({.recomputations = true, .candidates = true});
  const Prepared base = prepare_text(kGpt);
  bool refused = false;
  for (const Sets& sets : all) {
    CAPTURE(sets);
    Prepared prepared = base;
    if (sets == Sets{"parallel.tensor=3"})
      prepared.study.parallel.tensor = 3;  // which reading refuses
    else
      prepared = prepare_text(kGpt, sets);
    PassLog log;
    const Program* program = program_of(prepared, prepared.study, log, compiler);
    refused = refused || program == nullptr;
    if (program != nullptr) CHECK(*program == compiled_program(prepared));
  }
  CHECK(refused);
}

TEST_CASE("what fits is kept: the plan is that without recomputation") {
  const Prepared chosen = prepare_text(kGpt, {"recompute=rotor"});
  CHECK(program_digest(compiled_program(chosen)) ==
        program_digest(compiled_program(prepare_text(kGpt))));
  CHECK(chosen.study.planned.size() == 2);
}

TEST_CASE("rotor keeps its budget, and is no slower than whole layers in as much memory") {
  for (const Sets& plan : kPlans) {
    CAPTURE(plan);
    Sets full = plan;
    full.emplace_back("recompute=full");
    const Prepared whole = prepare_text(kGpt, plan), layers = prepare_text(kGpt, full);
    REQUIRE(peak(layers) < peak(whole));
    for (const double share : {1.0, 0.6, 0.3, 0.15}) {
      const auto budget =
          static_cast<Bytes>(static_cast<double>(peak(layers)) +
                             share * static_cast<double>(peak(whole) - peak(layers)));
      Sets sets = plan;
      sets.push_back(rotor(budget));
      const Prepared chosen = prepare_text(kGpt, sets);
      CAPTURE(share);
      CHECK(peak(chosen) <= budget);
      CHECK(step(chosen) >= step(whole) * 0.999);
      CHECK(simulated(chosen) <= simulated(layers) * (1 + 1e-9));
    }
  }
}

TEST_CASE("more memory makes no plan of rotor slower") {
  // Budgets a thirtieth of what may be saved apart, from less than whole layers take to more than
  // there is to keep. With links shared, over PCIe, plans that compute again can be faster than the
  // one that does not, by chance, and these are then for larger budgets, too.
  const std::vector<Sets> plans = {kPlans[1],
                                   kPlans[4],
                                   kPlans[6],
                                   {"cluster=pcie-8x-a100", "parallel={tensor: 2, pipeline: 2}",
                                    "training.microbatch=2", "training.flash_attention=false"}};
  for (const Sets& plan : plans) {
    CAPTURE(plan);
    const Bytes most = peak(prepare_text(kGpt, plan));
    Sets full = plan;
    full.emplace_back("recompute=full");
    const Bytes least = peak(prepare_text(kGpt, full));
    constexpr int kParts = 30;
    Seconds before = 1e9;
    for (int nth = 0; nth <= kParts + 1; ++nth) {
      const Bytes budget = least + (most - least) * nth / kParts;
      Sets sets = plan;
      sets.push_back(rotor(budget));
      CAPTURE(budget);
      const Prepared chosen = prepare_text(kGpt, sets);
      CHECK(peak(chosen) <= budget);
      const Seconds took = simulated(chosen);
      CHECK(took <= before * (1 + 1e-9));
      before = took;
    }
  }
}

TEST_CASE("full recomputation of every n-th layer is a candidate of rotor") {
  for (const std::string every : {"2", "4"}) {
    const Prepared named = prepare_text(kGpt, {"recompute={method: full, every: " + every + "}"});
    const Prepared chosen = prepare_text(kGpt, {rotor(peak(named))});
    CHECK(peak(chosen) <= peak(named));
    CHECK(simulated(chosen) <= simulated(named) * (1 + 1e-9));
  }
}

TEST_CASE("rotor is no slower than a method with a name in the memory of that") {
  const std::vector<Sets> more = {{}, {"training.flash_attention=false"}};
  for (const Sets& plan : kPlans) {
    for (const Sets& kernels : more) {
      Sets sets = plan;
      sets.insert(sets.end(), kernels.begin(), kernels.end());
      const bool stages = !plan.empty() && plan[0].find("pipeline") != std::string::npos;
      for (const std::string method :
           {"none", "selective", "full", "{method: stage-aware, first: 0.25}"}) {
        if (method.find("stage-aware") != std::string::npos && !stages) continue;
        CAPTURE(sets, method);
        Sets named = sets, chosen = sets;
        named.push_back("recompute=" + method);
        const Prepared other = prepare_text(kGpt, named);
        chosen.push_back(rotor(peak(other)));
        const Prepared found = prepare_text(kGpt, chosen);
        CHECK(peak(found) <= peak(other));
        CHECK(simulated(found) <= simulated(other) * (1 + 1e-9));
      }
    }
  }
}

TEST_CASE("the resolved study has the sequences, and the same digest") {
  const Sets sets = {"parallel={pipeline: 2}", "training.microbatch=1"};
  const Bytes budget = peak(prepare_text(kGpt, sets)) * 9 / 10;
  const Prepared chosen = prepare_text(kGpt, {sets[0], sets[1], rotor(budget)});
  CHECK(chosen.study.recompute.sequences.size() == 2);
  CHECK(chosen.study.planned.size() == 3);
  const Prepared again = prepare_text(resolved_study_text(chosen.study));
  CHECK(again.study.recompute == chosen.study.recompute);
  CHECK(again.study.planned.empty());
  CHECK(program_digest(compiled_program(again)) == program_digest(compiled_program(chosen)));
}

TEST_CASE("a budget that nothing keeps is refused with one that works, which does") {
  const std::string text = fault({rotor(1 << 20)});
  CHECK_THAT(text, Catch::Contains("recompute.memory_budget: the plan cannot run: no recomputation "
                                   "fits 1.000 MiB a device; the smallest budget that was found to "
                                   "work is "));
  const Bytes least = std::stoll(text.substr(text.find("to work is ") + 11));
  CHECK(peak(prepare_text(kGpt, {rotor(least)})) <= least);
}

TEST_CASE("what rotor does not go with is refused at its key") {
  CHECK_THAT(
      fault({"recompute=rotor", "parallel.pipeline=4", "schedule=scp", "training.microbatch=1"}),
      Catch::Contains("schedule.method: scp recomputes a stage at once") ||
          Catch::Contains("schedule: scp recomputes a stage at once"));
  CHECK_THAT(fault({"recompute=rotor", "parallel.pipeline=2", "partition=search",
                    "training.microbatch=1"}),
             Catch::Contains("search weighs stages by what they recompute"));
  CHECK_THAT(fault({"recompute=rotor", "parallel={tensor: 2, tensor_overlap: block}"}),
             Catch::Contains("parallel.tensor_overlap: orders the ops of chunks"));
  CHECK_THAT(fault({"recompute=rotor", "offload.activations=true"}),
             Catch::Contains("offload.activations: copies the inputs of recomputed layers"));
  CHECK_THAT(fault({"recompute={method: full, memory_budget: 1 GiB}"}),
             Catch::Contains("recompute.memory_budget: is for recompute rotor, not for full"));
  CHECK_THAT(fault({"recompute={method: rotor, sequences: [\"Fe0 L B0\"]}", "parallel.pipeline=2",
                    "training.microbatch=1"}),
             Catch::Contains("recompute.sequences: has 1 sequence, and the pipeline 2 stages"));
  CHECK_THAT(fault({"recompute={method: rotor, sequences: [\"Fe0 B0\"]}"}),
             Catch::Contains("expected an L between forwards and backwards"));
}

TEST_CASE("splits and recomputation together are no slower than either alone") {
  const Sets ranks = {"cluster=pcie-8x-a100", "training.global_batch=8", "training.microbatch=8"};
  const auto with = [&](const Sets& more) {
    Sets sets = ranks;
    sets.insert(sets.end(), more.begin(), more.end());
    return prepare_text(kGpt, sets);
  };
  const std::string map = "parallel={tensor: 8, tensor_method: map}";
  const Bytes most = peak(with({map}));
  const Bytes budget = most * 7 / 10;
  const std::string bytes = std::to_string(budget) + " B";
  const Prepared joint = with({map, rotor(budget)});
  CHECK(peak(joint) <= budget);
  CHECK(joint.study.recompute.sequences.size() == 1);
  const auto fits = [&](const Sets& more) -> Seconds {
    try {
      const Prepared other = with(more);
      return peak(other) <= budget ? step(other) : 1e9;
    } catch (const PlanError&) {
      return 1e9;
    }
  };
  const Seconds took = step(joint);
  CHECK(took <= 1.001 * fits({"parallel={tensor: 8, tensor_method: {name: map, memory_budget: " +
                              bytes + "}}"}));
  CHECK(took <= 1.001 * fits({"parallel={tensor: 8}", rotor(budget)}));
  CHECK(took <= 1.001 * fits({"parallel={tensor: 8, sequence_parallel: true}", rotor(budget)}));
  const Prepared again = prepare_text(resolved_study_text(joint.study));
  CHECK(program_digest(compiled_program(again)) == program_digest(compiled_program(joint)));
}

}  // namespace trainyard::choose_rotor_test
