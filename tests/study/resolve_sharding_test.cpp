// A study's sharding held against its model: every axis written out, and what does not fit said at
// its place.
#include "study/resolve_sharding.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/program/program_text.h"
#include "study/study_writer.h"
#include "tests/support/studies.h"

namespace trainyard::resolve_sharding_test {

namespace {

const std::string kGpt =
    "model: {family: gpt, layers: 2, hidden: 16, heads: 4, vocab: 40, seq_len: 8}\n"
    "cluster: dgx-a100-80g\n"
    "parallel: {tensor: {tp0: 2, tp1: 2}, data: 2}\n"
    "training: {global_batch: 2, flash_attention: false, dropout: 0}\n";

std::string error_of_sharding(const std::string& sharding,
                              const std::vector<std::string>& sets = {}) {
  try {
    prepare_text(kGpt + "sharding: " + sharding + "\n", sets);
    return "no error";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

/// The text of an entry, every axis in it.
std::string whole(const std::string& entry, const std::string& module = "*.mlp.fc1") {
  const Prepared prepared =
      prepare_text(kGpt + "sharding: {\"" + module + "\": {" + entry + "}}\n");
  return prepared.study.sharding.at(0).specs.at(0).second;
}

}  // namespace

TEST_CASE("axes that a sharding leaves out are written as the method has them") {
  CHECK(whole("weight: [tp0, R]") == "[tp0 tp1, R] R(dp)");
  CHECK(whole("weight: [tp1, R]") == "[tp0 tp1, R] R(dp)");
  CHECK(whole("weight: [R, tp1]") == "[tp0, tp1] R(dp)");
  CHECK(whole("weight: [[tp1, tp0], R]") == "[tp1 tp0, R] R(dp)");
  CHECK(whole("weight: '[tp0, R] R(tp1)'") == "[tp0, R] R(dp tp1)");
  CHECK(whole("output: [R, R, R]") == "[dp, R, tp0 tp1]");
  CHECK(whole("output: '[R, tp0, R] P(tp1)'") == "[dp, tp0, R] P(tp1)");
  CHECK(whole("input: [R, tp1, R]") == "[dp, tp1, R] R(tp0)");
  CHECK(whole("input: [dp, R, R]") == "[dp, R, R] R(tp0 tp1)");
  CHECK(whole("bias: [tp]") == "[tp0 tp1] R(dp)");
  // Parts of 16 rows each, over 4 ranks and over 2.
  CHECK(whole("weight: [tp, R]", "*.qkv") == "[4x4:tp0 tp1|4x4:tp0 tp1|4x4:tp0 tp1, R] R(dp)");
  CHECK(whole("weight: '[tp1, R] R(tp0)'", "*.qkv") == "[2x8:tp1|2x8:tp1|2x8:tp1, R] R(dp tp0)");
}

TEST_CASE("a resolved sharding compiles to the same Program") {
  for (const std::string sharding : {"{\"*.mlp.fc1\": {weight: [tp, R], output: [R, R, tp]}}",
                                     "{\"*.mlp.fc1\": {strategy: {o: tp0}}}",
                                     "{\"*.mlp.fc1\": {weight: '[tp, R]'}, \"*norm*\": {input: [R, "
                                     "tp, R], output: [R, tp, R]}}"}) {
    CAPTURE(sharding);
    const Prepared prepared = prepare_text(kGpt + "sharding: " + sharding + "\n");
    const Prepared again = prepare_text(resolved_study_text(prepared.study));
    CHECK(again.study.sharding == prepared.study.sharding);
    CHECK(to_text(compiled_program(again)) == to_text(compiled_program(prepared)));
  }
}

TEST_CASE("a compiler that has compiled another sharding gives the same Program") {
  Compiler compiler;
  const Prepared base = prepare_text(kGpt);
  for (const std::string sharding :
       {"{\"*norm_1\": {output: [R, tp, R]}}", "{\"*norm_2\": {output: [R, tp, R]}}", "{}"}) {
    CAPTURE(sharding);
    const Prepared prepared = prepare_text(kGpt + "sharding: " + sharding + "\n");
    PassLog log;
    const auto made = compile(compiler, prepared.model, prepared.study, prepared.software, log);
    REQUIRE(std::holds_alternative<const Program*>(made));
    const std::string text = to_text(*std::get<const Program*>(made));
    CHECK(text == to_text(compiled_program(prepared)));
    CHECK((text == to_text(compiled_program(base))) == (sharding == "{}"));
  }
}

TEST_CASE("the pattern with the most literal characters wins, entry by entry") {
  const Prepared prepared = prepare_text(
      kGpt +
      "sharding: {\"*.mlp.*\": {weight: [R, tp], bias: [R]}, \"*.mlp.fc1\": {weight: [tp, R]}}\n");
  const Prepared alone = prepare_text(
      kGpt +
      "sharding: {\"*.mlp.fc2\": {weight: [R, tp]}, \"*.mlp.fc1\": {weight: [tp, R]}, \"*.mlp.*\": "
      "{bias: [R]}}\n");
  CHECK(to_text(compiled_program(prepared)) == to_text(compiled_program(alone)));
}

TEST_CASE("what does not fit the model is said at its place") {
  CHECK(error_of_sharding("{\"*.fc9\": {weight: [tp]}}") ==
        "study.yaml:5:21: sharding.*.fc9: matches no module; of the first layer and the ends there "
        "are decoder.final_norm, decoder.layers.0, decoder.layers.0.attention, "
        "decoder.layers.0.attention.proj, decoder.layers.0.attention.qkv, decoder.layers.0.mlp, "
        "decoder.layers.0.mlp.fc1, decoder.layers.0.mlp.fc2, decoder.layers.0.norm_1, "
        "decoder.layers.0.norm_2, embedding, embedding.positions, embedding.tokens, lm_head and "
        "loss");
  // So it is where ranks have pieces of unlike size.
  CHECK_THAT(error_of_sharding("{\"*.fc9\": {weight: [tp]}}", {"model.ffn=65"}),
             Catch::StartsWith("study.yaml:5:21: sharding.*.fc9: matches no module; "));
  CHECK(error_of_sharding("{\"*.mlp.fc1\": {wait: [tp]}}") ==
        "study.yaml:5:32: sharding.*.mlp.fc1.wait: no module that the pattern matches has 'wait'; "
        "decoder.layers.0.mlp.fc1 has bias, weight, input and output");
  CHECK_THAT(error_of_sharding("{\"*.mlp.fc1\": {input.1: [tp]}}"),
             Catch::Contains("no module that the pattern matches has 'input.1'"));
  CHECK(error_of_sharding("{\"*.mlp.fc1\": {output: [R, tp]}}") ==
        "study.yaml:5:34: sharding.*.mlp.fc1.output: decoder.layers.0.mlp.fc1.linear has 3 dims, "
        "and 2 are given");
  CHECK(error_of_sharding("{\"*.mlp.fc1\": {weight: '[R, R] P(tp)'}}") ==
        "study.yaml:5:34: sharding.*.mlp.fc1.weight: decoder.layers.0.mlp.fc1.weight is a "
        "parameter, which no rank has a summand of");
  CHECK(error_of_sharding("{\"*.mlp.fc1\": {weight: [dp, R]}}") ==
        "study.yaml:5:34: sharding.*.mlp.fc1.weight: decoder.layers.0.mlp.fc1.weight stays as the "
        "method has it along dp, [tp0 tp1, R] R(dp); leave this axis out, and the batch is split "
        "over it");
  CHECK_THAT(error_of_sharding("{\"*.mlp.fc1\": {output: '[R, R, R] R(dp)'}}"),
             Catch::Contains("stays as the method has it along dp, [dp, R, tp0 tp1]"));
  CHECK_THAT(error_of_sharding("{\"*.mlp.fc1\": {output: [[tp0, dp], R, R]}}"),
             Catch::Contains("stays as the method has it along dp"));
  CHECK(error_of_sharding("{\"*.mlp.fc1\": {strategy: {z: tp0}}}") ==
        "study.yaml:5:36: sharding.*.mlp.fc1.strategy: no op of a module that the pattern matches "
        "has all of these indices; there are linear (d0 d1 i o)");
  CHECK(error_of_sharding("{\"*.mlp.fc1\": {strategy: {o: dp}}}") ==
        "study.yaml:5:36: sharding.*.mlp.fc1.strategy: the batch stays split over dp as the method "
        "has it; leave dp out");
  CHECK(
      error_of_sharding("{\"*.mlp.fc1\": {weight: [tp, R]}, \"*.mlp.fc1*\": {weight: [tp, R]}}") ==
      "study.yaml:5:67: sharding.*.mlp.fc1*.weight: says of decoder.layers.0.mlp.fc1 what "
      "'sharding.*.mlp.fc1.weight' says, too, and neither pattern is more specific: both have 8 "
      "literal characters");
}

}  // namespace trainyard::resolve_sharding_test
