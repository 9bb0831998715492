// What is said of weights that are not the study's model's.
#include "real/checkpoint/weights_fit.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "engine/base/error.h"
#include "tests/real/checkpoint/numbered_weights.h"
#include "tests/real/checkpoint/tiny_model.h"

namespace trainyard::weights_fit_test {

TEST_CASE("all tensors that a file lacks are named, up to twenty") {
  const ScratchFolder scratch;
  ModelConfig config = tiny(Family::kGpt);
  save_numbered(config, scratch, DType::kFp32);
  const std::string folder = scratch / "theirs";
  const auto error = [&] { return error_of([&] { HuggingFaceWeights::open(folder, config); }); };
  // A layer has two norms and four linears, with a bias each: the files stack q, k and v.
  const std::string names[] = {"ln_1", "attn.c_attn", "attn.c_proj",
                               "ln_2", "mlp.c_fc",    "mlp.c_proj"};
  std::string first = folder + ": lacks 12 tensors of the model: ";
  for (const std::string& name : names) {
    const std::string theirs = "transformer.h.2." + name;
    const bool last = &name == std::end(names) - 1;
    first += theirs + ".weight" + (last ? " and " : ", ") + theirs + ".bias" + (last ? "" : ", ");
  }
  config.layers = 3;
  CHECK(error() == first);
  config.layers = 4;
  const std::string more = error();
  CHECK(
      more.starts_with(folder + ": lacks 24 tensors of the model: transformer.h.2.ln_1.weight, "));
  CHECK(more.ends_with(", transformer.h.3.ln_2.bias and 4 more"));
}

TEST_CASE("weights of equal shapes are another model's where their config.json says so") {
  const ScratchFolder scratch;
  Study study;
  study.model = tiny(Family::kGpt);
  save_numbered(study.model, scratch, DType::kFp32);
  const std::string folder = scratch / "theirs";
  const auto problem = [&](const std::string& path) {
    return error_of([&] {
      const HuggingFaceWeights weights = HuggingFaceWeights::open(path, study.model);
      const bool warns = !check_weights_fit(study, path, weights).empty();
      if (warns) throw std::runtime_error("a warning");
    });
  };
  CHECK(problem(folder) == "none");
  std::swap(study.model.heads, study.model.head_dim);
  study.model.kv_heads = study.model.heads;
  const std::string said =
      std::to_string(study.model.head_dim) + " in the weights' model, where model.heads is " +
      std::to_string(study.model.heads) + "; say the model that the weights are of";
  for (const std::string& path : {folder, folder + "/model.safetensors"}) {
    CHECK_THAT(problem(path), Catch::StartsWith(folder + "/config.json:"));
    CHECK_THAT(problem(path), Catch::EndsWith(": n_head: " + said));
  }
  study.model = tiny(Family::kGpt);
  study.model.activation = Activation::kRelu;
  CHECK_THAT(problem(folder),
             Catch::EndsWith(": activation_function: gelu in the weights' model, where "
                             "model.activation is relu; say the model that the weights are of"));
  const auto warnings_of = [&] {
    return check_weights_fit(study, folder, HuggingFaceWeights::open(folder, study.model));
  };
  // What a study may mean to change warns.
  study.model = tiny(Family::kGpt);
  study.model.norm_eps = 0.001;
  CHECK(warnings_of() ==
        std::vector<std::string>{"--weights " + folder +
                                 ": their model has model.norm_eps 1.0e-05 (here 0.001)"});
  // What no model of the family has is not the study's either.
  {
    std::ifstream file(folder + "/config.json");
    std::string text(std::istreambuf_iterator<char>(file), {});
    const std::string was = "\"activation_function\": \"";
    const std::size_t at = text.find(was);
    REQUIRE(at != std::string::npos);
    text.insert(at + was.size(), "leaky_");
    std::ofstream(folder + "/config.json") << text;
  }
  study.model = tiny(Family::kGpt);
  CHECK_THAT(problem(folder),
             Catch::StartsWith(folder + "/config.json:") &&
                 Catch::Contains(": activation_function: unknown activation 'leaky_gelu'") &&
                 Catch::EndsWith(", in the config.json beside --weights " + folder));
  // What is no config.json of a model that there is says nothing of it.
  std::ofstream(folder + "/config.json") << "{}";
  const auto warnings = warnings_of();
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Catch::StartsWith("--weights " + folder +
                                            ": its config.json is not compared with the model: "));
}

}  // namespace trainyard::weights_fit_test
