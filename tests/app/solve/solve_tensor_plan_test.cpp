// `solve`: tensor-plan.
#include <catch2/catch.hpp>

#include "tests/support/solve_answers.h"

namespace trainyard::solve_tensor_plan_test {

namespace {

using Json = nlohmann::ordered_json;

std::string problem(const std::string& parallel) {
  return "{problem: tensor-plan, study: {model: {family: gpt, layers: 1, hidden: 32, heads: 8, "
         "vocab: 64, seq_len: 8}, cluster: dgx-a100-80g, parallel: {tensor: 4, data: 1, " +
         parallel + "}, training: {global_batch: 4}}}";
}

const Json& module_named(const Json& answer, const std::string& name) {
  for (const Json& module : answer.at("modules")) {
    if (module.at("module") == name) return module;
  }
  FAIL("no module " << name);
  return answer;
}

}  // namespace

TEST_CASE("tensor-plan says how each module's weights are split, or why they are whole") {
  const Json found = answer(problem("tensor_modules: ['*.mlp']"));
  CHECK(found.at("method") == "megatron");
  CHECK(found.at("ranks") == 4);
  CHECK(found.at("modules_split") == 2);
  const Json& fc1 = module_named(found, "decoder.layers.0.mlp.fc1");
  CHECK(fc1.at("split") == true);
  CHECK(fc1.at("weights").at("decoder.layers.0.mlp.fc1.weight") == "[tp, R]");
  CHECK(fc1.at("weights").at("decoder.layers.0.mlp.fc1.bias") == "[tp]");
  CHECK_FALSE(fc1.contains("why_not"));
  const Json& qkv = module_named(found, "decoder.layers.0.attention.qkv");
  CHECK(qkv.at("split") == false);
  CHECK(qkv.at("why_not") == "parallel.tensor_modules does not choose it");
  CHECK(qkv.at("weights").at("decoder.layers.0.attention.qkv.weight") == "[R, R]");
  const Json all = answer(problem("tensor_method: auto"));
  CHECK(module_named(all, "decoder.layers.0.norm_1").at("why_not") ==
        "no entry of the table matches it");
  CHECK(module_named(all, "embedding.tokens").at("weights").at("embedding.tokens.weight") ==
        "[tp, R]");
}

TEST_CASE("tensor-plan says of method smp which of its rules a module breaks") {
  const Json found = answer(problem("tensor_method: smp, tensor_modules: ['*.mlp', lm_head]"));
  CHECK(module_named(found, "(model)").at("rule") == 2);
  CHECK(module_named(found, "decoder.layers.0.mlp").at("as") == "transformer");
  const Json& fc2 = module_named(found, "decoder.layers.0.mlp.fc2");
  CHECK(fc2.at("rule") == 3);
  CHECK(fc2.at("in") == "decoder.layers.0.mlp");
  CHECK(fc2.at("weights").at("decoder.layers.0.mlp.fc2.weight") == "[R, tp]");
  CHECK(fc2.at("split") == true);
  const Json& head = module_named(found, "lm_head");
  CHECK(head.at("rule") == 4);
  CHECK(head.at("why_not") == "it shares a weight with embedding.tokens");
}

}  // namespace trainyard::solve_tensor_plan_test
