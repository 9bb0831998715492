// Which profile a study takes: its version by what the study says, another's for software without
// one, and what compiled and async_tp switch on.
#include "study/framework_profile.h"

#include <catch2/catch.hpp>
#include <map>

#include "app/predict_case.h"
#include "engine/base/error.h"
#include "engine/base/near_names.h"
#include "engine/memory/memory.h"
#include "engine/program/program_text.h"
#include "tests/support/source_root.h"
#include "tests/support/studies.h"

namespace trainyard::framework_profile_test {

namespace {

const std::string kStudy =
    "model: {family: llama, layers: 4, hidden: 64, heads: 8, ffn: 128, vocab: 64, seq_len: 32}\n"
    "cluster: {preset: dgx-h100, nodes: 1}\ntraining: {global_batch: 32}\n";

Prepared prepared(const std::string& framework, std::vector<std::string> sets = {}) {
  sets.insert(sets.begin(), "framework=" + framework);
  return prepare_text(kStudy, sets);
}

std::string error_of(const std::string& framework, const std::vector<std::string>& sets = {}) {
  try {
    prepared(framework, sets);
  } catch (const ConfigError& error) {
    return error.problem();
  }
  return "no error";
}

std::string version(const std::string& framework, const std::vector<std::string>& sets = {}) {
  return prepared(framework, sets).study.framework.version;
}

}  // namespace

TEST_CASE("software without a profile takes another's, and says so") {
  const Prepared own = prepared("{name: ours, version: 7, like: Megatron_LM-2022}");
  CHECK(own.study.framework.name == "ours");
  CHECK(own.study.framework.version == "7");
  CHECK(own.software.name == "megatron-lm");
  CHECK(own.software.version == "2022");
  CHECK(
      own.study.warnings ==
      std::vector<std::string>{"framework ours 7 has no profile: what it fuses, keeps and overlaps "
                               "is taken for that of megatron-lm 2022"});
  CHECK(prepared("{name: ours, like: megatron-lm}").software.version == "current");
  // The same Program as with the other's name.
  CHECK(program_digest(compiled_program(own)) ==
        program_digest(compiled_program(prepared("{name: megatron-lm, version: 2022}"))));
}

TEST_CASE("what CUDA and NCCL hold beside the plan is held on GPUs alone") {
  for (const char* framework : {"trainyard", "megatron-lm"}) {
    CAPTURE(framework);
    const SoftwareProfile on_gpus = prepared(framework).software;
    CHECK(on_gpus.context_gib > 0);
    const SoftwareProfile on_cpus =
        prepared(framework, {"cluster={preset: local, ranks: 2}"}).software;
    CHECK(on_cpus.context_gib == 0);
    CHECK(fixed_memory(on_cpus, DType::kFp32).buffers == 0);
  }
}

TEST_CASE("a name without a profile needs another's, and one with a profile takes none") {
  CHECK(error_of("ours").find("for other software write {name: ours, like: megatron-lm-current}") !=
        std::string::npos);
  CHECK(error_of("{name: ours, like: theirs}")
            .starts_with("no software profile is named 'theirs'; known: "));
  CHECK(error_of("{name: nemo, like: megatron-lm}") ==
        "nemo has a profile of its own; leave like out");
  CHECK(error_of("{name: ours, like: megatron-lm, year: 2022}").starts_with("settles the version"));
}

TEST_CASE("a profile's own name says the version, too") {
  for (const std::string name :
       {"megatron-lm-2022", "pytorch-fsdp-2023", "torchtitan-compiled-2025", "Megatron_LM-2021"}) {
    const Prepared own = prepared(name);
    const std::string file = own.software.name + "-" + own.software.version;
    CHECK(same_name(file, name));
    CHECK(own.study.framework.name == own.software.name);
    CHECK(own.study.framework.version == own.software.version);
  }
  CHECK(prepared("megatron-lm-2021", {"framework.version=2022"}).software.version == "2022");
  CHECK(prepared("megatron-lm-2021", {"framework.year=2023"}).software.version == "2022");
  CHECK(error_of("{name: megatron-lm, version: 1999}") ==
        "megatron-lm has no profile of version '1999'; `trainyard list frameworks` has those that "
        "there are");
}

TEST_CASE("a year settles the version where it is not said") {
  CHECK(version("{name: megatron-lm, year: 2021}") == "2021");
  CHECK(version("{name: megatron-lm, year: 2023}") == "2022");
  CHECK(version("{name: megatron-lm, year: 2025}") == "current");
  CHECK(version("{name: pytorch-fsdp, year: 2023}") == "2023");
  CHECK(version("{name: pytorch-fsdp, year: 2025}") == "2024");
  CHECK(version("pytorch-fsdp") == "2024");
  CHECK(error_of("{name: nemo, year: 2024}") ==
        "settles the version of megatron-lm, pytorch-fsdp and torchtitan; nemo has no versions by "
        "year");
}

TEST_CASE("torch.compile is a version of torchtitan, and async_tp one of its passes") {
  CHECK(version("torchtitan") == "eager");
  CHECK(version("torchtitan", {"training.compiled=true"}) == "compiled");
  CHECK(version("torchtitan", {"training.async_tp=true"}) == "compiled");
  CHECK(version("torchtitan", {"training.precision=fp8"}) == "compiled");
  CHECK(version("torchtitan", {"training.precision=fp8", "training.compiled=false"}) == "eager");
  const Prepared eager = prepared("torchtitan"),
                 compiled = prepared("torchtitan", {"training.compiled=true"});
  CHECK(eager.software.memory_bound_factor > compiled.software.memory_bound_factor);
  CHECK(eager.study.warnings.empty());
  CHECK(prepared("nemo", {"training.compiled=true"}).study.warnings ==
        std::vector<std::string>{
            "training.compiled has no effect: no profile says what torch.compile changes in nemo"});
  CHECK(
      prepared("{name: torchtitan, version: eager}", {"training.async_tp=true"}).study.warnings ==
      std::vector<std::string>{"training.async_tp has no effect: no profile says what asynchronous "
                               "tensor parallelism changes in torchtitan eager"});
}

TEST_CASE("a framework's buckets are taken where the study does not say them") {
  const auto bucket = [](const std::string& framework, const std::vector<std::string>& sets = {}) {
    return prepared(framework, sets).study.training.bucket_elements;
  };
  CHECK(bucket("nemo") == 128 * 1024 * 1024);
  CHECK(bucket("nemo", {"training.bucket_elements=40e6"}) == 40'000'000);
  CHECK(bucket("megatron-lm") == 40'000'000);
}

TEST_CASE("the vocabulary is padded as the framework pads it, where the study does not say") {
  const auto padded = [](const std::string& framework, std::vector<std::string> sets = {}) {
    sets.insert(sets.end(), {"model.vocab=50257", "parallel.tensor=8"});
    return prepared(framework, sets).study.model.pad_vocab_to;
  };
  // Up to a multiple of 8: 6283 x 8. Of 128 x 8: 50 x 1024; of 128 alone it would be 50304.
  CHECK(padded("trainyard") == 50264);
  for (const char* framework : {"megatron-lm", "megatron-deepspeed", "nemo", "megatron-bridge"})
    CHECK(padded(framework) == 51200);
  CHECK(padded("megatron-lm", {"model.pad_vocab_to=50264"}) == 50264);
}

TEST_CASE("collectives go in pieces under async_tp, and where NeMo has user buffers") {
  const auto runs_async = [](int tensor, bool async) {
    return prepared("torchtitan",
                    {"parallel.tensor=" + std::to_string(tensor), "training.compiled=true",
                     "training.async_tp=" + std::string(async ? "true" : "false")})
        .software.runs_async_tensor;
  };
  CHECK_FALSE(runs_async(8, false));
  CHECK(runs_async(8, true));
  CHECK(runs_async(2, true));
  CHECK_FALSE(runs_async(1, true));
  CHECK(prepared("nemo").software.user_buffers);
  CHECK_FALSE(prepared("megatron-lm").software.user_buffers);
}

TEST_CASE("torchtitan's selective recompute is by op, Megatron's of the attention core") {
  using Method = RecomputeConfig::Method;
  const auto method = [](const std::string& framework, const std::string& recompute) {
    return prepared(framework, {"recompute=" + recompute}).study.recompute.method;
  };
  CHECK(method("torchtitan", "selective") == Method::kByOp);
  CHECK(method("torchtitan", "full") == Method::kFull);
  CHECK(method("torchtitan", "{modules: [mlp]}") == Method::kSelective);
  CHECK(method("megatron-lm", "selective") == Method::kSelective);
}

TEST_CASE("every published run of a framework takes the profile of its software") {
  // What else they ask for may not be in this version; their software has to be known without it.
  const PredictOptions options{
      {"parallel.zero=1", "parallel.context=1", "training.precision=bf16", "training.dropout=0"},
      "analytic"};
  std::vector<std::string> warnings;
  const StudyResolvers resolvers = make_resolvers(source_root(), warnings);
  std::map<std::string, int> rows;
  for (const PublishedCase& one : read_cases(source_root() + "/calibrate/published/runs.yaml")) {
    const std::string& name = one.facts.framework;
    if (name != "pytorch-fsdp" && name != "torchtitan" && name != "deepspeed") continue;
    INFO(one.facts.id);
    const Prepared case_of = prepare_case(one, options, resolvers);
    CHECK(case_of.software.name == name);
    ++rows[name + " " + case_of.software.version];
  }
  CHECK(rows == std::map<std::string, int>{{"deepspeed ", 5},
                                           {"pytorch-fsdp 2023", 116},
                                           {"torchtitan compiled", 11},
                                           {"torchtitan compiled-2025", 2},
                                           {"torchtitan eager", 4}});
}

}  // namespace trainyard::framework_profile_test
