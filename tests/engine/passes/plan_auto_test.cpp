// Method auto: with its default table the Program is Megatron's, and a study's entries split what
// they say.
#include "engine/passes/plan_auto.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "engine/program/program_text.h"
#include "tests/engine/passes/layer_volumes.h"
#include "tests/engine/passes/split_gpt.h"

namespace trainyard::plan_auto_test {

TEST_CASE("by its default table method auto makes Megatron's Programs") {
  const std::vector<std::string> models = {
      "{family: gpt, layers: 2, hidden: 32, heads: 8, vocab: 64, seq_len: 8}",
      "{family: bert, layers: 2, hidden: 32, heads: 8, vocab: 64, seq_len: 8}",
      "{family: llama, layers: 2, hidden: 32, heads: 8, ffn: 64, vocab: 64, seq_len: 8}",
      "{family: t5, layers: 1, decoder_layers: 1, hidden: 32, heads: 8, vocab: 64, seq_len: 8, "
      "decoder_seq_len: 8}",
      "{family: vit, layers: 2, hidden: 32, heads: 8, image_size: 32, patch_size: 8, classes: 8}",
      "{family: clip, layers: 1, hidden: 32, heads: 8, vocab: 64, seq_len: 8, image_layers: 1, "
      "image_hidden: 32, image_heads: 8, image_size: 32, patch_size: 8, projection_dim: 16, "
      "contrast: 2}",
      "{family: swin, layers: 8, hidden: 32, heads: 4, image_size: 224}"};
  for (const std::string& model : models) {
    CAPTURE(model);
    const Program megatron = split_program({"model=" + model});
    const Program by_table = split_program({"model=" + model, "parallel.tensor_method=auto"});
    CHECK(to_text(by_table) == to_text(megatron));
    CHECK(program_digest(by_table) == program_digest(megatron));
  }
  const std::vector<std::string> sequence = {"parallel.sequence_parallel=true"};
  const std::vector<std::string> both = {"parallel.sequence_parallel=true",
                                         "parallel.tensor_method=auto"};
  CHECK(program_digest(split_program(both)) == program_digest(split_program(sequence)));
}

TEST_CASE("an entry of a study stands before the default ones") {
  // Outputs that are gathered, in place of what Megatron leaves split: fc1 makes 4 H, gathered; fc2
  // H, gathered; no summands. Backward: of what each reads.
  const auto of = layer_volumes(
      split_program({"parallel.tensor_method={name: auto, table: {'*.mlp.*': {dim: 0, "
                     "collective: all_gather}}}"}));
  std::map<std::string, std::int64_t> expected = {
      {"F all_reduce tp", kElements},       // attention's
      {"F all_gather tp", 5 * kElements},   // 4 H and H
      {"B all_reduce tp", kElements * 6}};  // of qkv's, fc1's and fc2's inputs: H, H, 4 H
  CHECK(to_text(of) == to_text(expected));
  // More literal characters win.
  const auto finer = layer_volumes(
      split_program({"parallel.tensor_method={name: auto, table: {'*.mlp.*': {dim: 0, collective: "
                     "all_gather}, '*.mlp.fc2': {dim: 1, collective: all_reduce}}}"}));
  expected = {{"F all_reduce tp", 2 * kElements},
              {"F all_gather tp", 4 * kElements},
              {"B all_gather tp", 4 * kElements},  // of the slices of its input that fc2 read
              {"B all_reduce tp", 2 * kElements}};
  CHECK(to_text(finer) == to_text(expected));
}

TEST_CASE("what a table cannot split is said at its key") {
  const auto table = [](const std::string& entries) {
    return split_error({"parallel.tensor_method={name: auto, table: {" + entries + "}}"});
  };
  CHECK(table("'*.fc1': {dim: 0, collective: all_reduce}") ==
        "parallel.tensor_method.table.*.fc1: dim 0 of a product takes collective none or "
        "all_gather: its ranks have outputs of their own");
  CHECK(table("'*.fc2': {dim: 1, collective: none}") ==
        "parallel.tensor_method.table.*.fc2: dim 1 of a product takes collective all_reduce: its "
        "ranks make summands");
  CHECK(table("embedding.tokens: {dim: 0, collective: none}") ==
        "parallel.tensor_method.table.embedding.tokens: dim 0 of a table takes collective "
        "all_reduce: a row lies on one of its ranks");
  CHECK(table("embedding.tokens: {dim: 1, collective: all_gather}") ==
        "parallel.tensor_method.table.embedding.tokens: lm_head and embedding.tokens share "
        "embedding.tokens.weight, which their entries split in two ways; say the same of both");
  CHECK(table("'*.fc9': {dim: 0, collective: none}") ==
        "parallel.tensor_method.table.*.fc9: no product, table or relative bias is split by this "
        "entry: no module's path matches it, or others match with more literal characters");
  CHECK(
      table("'*.fc1': {dim: 2, collective: none}").find("parallel.tensor_method.table.*.fc1.dim") ==
      0);
  CHECK(table("'*.fc1': {dim: 0}").find("missing required key 'collective'") != std::string::npos);
  CHECK(split_error({"parallel.tensor_method={name: megatron, table: {'*': {dim: 0, collective: "
                     "none}}}"}) ==
        "parallel.tensor_method.table: method megatron has rules of its own; leave it out, or "
        "write name: auto");
}

}  // namespace trainyard::plan_auto_test
