// Methods of tensor parallelism side by side: bytes by counting, and the table's order.
#include "report/method_table.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/studies.h"

namespace trainyard::method_table_test {

namespace {

MethodRow timed(const std::string& method, const std::vector<int>& mesh, Seconds seconds) {
  MethodRow row;
  row.method = method;
  row.mesh = mesh;
  row.iteration_time = seconds;
  row.bound_by = "compute";
  row.bytes = {{"tp", 1024.0}};
  return row;
}

}  // namespace

TEST_CASE("a rank receives what its collectives bring it, by group") {
  // B = 2, S = 8, D = 32 in bf16 over 2 tensor ranks: two all-reduces a layer, forward and
  // backward, one of the embedding and one of what the head reads, each of which brings a rank 2 x
  // 1/2 of the tensor; of the loss a maximum and two sums a token in fp32.
  const Program program = compiled_program(
      prepare_text("model: {family: gpt, layers: 3, hidden: 32, heads: 4, vocab: 64, seq_len: 8}\n"
                   "cluster: dgx-a100-80g\nparallel: {tensor: 2, data: 1}\n"
                   "training: {global_batch: 4, microbatch: 2, precision: bf16, dropout: 0}\n"));
  const double of_microbatch = (4 * 3 + 2) * 2 * 8 * 32 * 2 + 3 * 2 * 8 * 4;
  const auto bytes = collective_bytes(program);
  CHECK(bytes.at("tp") == 2 * of_microbatch);
  CHECK(bytes.at("norm") == 4);
  CHECK(bytes.size() == 2);
}

TEST_CASE("the fastest method stands first, refused ones last with their reasons") {
  MethodRow refused;
  refused.method = "atp";
  refused.mesh = {1, 4};
  refused.refused = "model.heads: no";
  const std::vector<MethodRow> rows = {timed("megatron", {}, 2), timed("atp", {2, 2}, 1), refused};
  const std::string text = method_table_text(rows);
  const std::size_t atp = text.find("atp [2, 2]"), megatron = text.find("megatron"),
                    last = text.find("atp [1, 4]: model.heads: no");
  CHECK(atp < megatron);
  CHECK(megatron < last);
  CHECK(last != std::string::npos);
  const auto json = nlohmann::json::parse(method_table_json("study.yaml", rows));
  CHECK(json["methods"].size() == 3);
  CHECK(json["methods"][0]["method"] == "megatron");
  CHECK(json["methods"][1]["mesh"] == nlohmann::json::parse("[2, 2]"));
  CHECK(json["methods"][1]["bytes"]["tp"] == 1024);
  CHECK(
      json["methods"][2] ==
      nlohmann::json::parse(
          R"({"method": "atp", "mesh": [1, 4], "microbatch": null, "refused": "model.heads: no"})"));
}

}  // namespace trainyard::method_table_test
