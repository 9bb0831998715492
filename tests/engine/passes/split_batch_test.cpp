// A microbatch in chunks: which ops are done chunk by chunk, in what order chunks take turns, and
// what is said where they do not divide it.
#include "engine/passes/split_batch.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "engine/passes/chunk_order.h"
#include "tests/support/studies.h"

namespace trainyard::split_batch_test {

namespace {

Prepared prepared(const std::string& overlap, int microbatch,
                  const std::vector<std::string>& sets = {}) {
  const std::string batch = std::to_string(microbatch);
  return prepare_text(
      "model: {family: gpt, layers: 1, hidden: 32, heads: 4, vocab: 64, seq_len: 8}\n"
      "cluster: dgx-a100-80g\n"
      "parallel: {tensor: 2, data: 1, tensor_overlap: " +
          overlap + "}\ntraining: {global_batch: " + batch + ", microbatch: " + batch + "}\n",
      sets);
}

/// With its chunks, in turn.
StagedGraph chunked_graph(const Prepared& study) {
  const PartitionConfig& partition = study.study.partition;
  const TensorOverlap overlap = parse_tensor_overlap(study.study.parallel.tensor_overlap);
  auto split = split_batch(sharded_graph(study), overlap, 1, partition, {});
  auto staged = partition_stages(std::get<Graph>(std::move(split)), 1, partition, {},
                                 turning_stage(forms_of(study)));
  order_chunks(std::get<StagedGraph>(staged));
  return std::get<StagedGraph>(std::move(staged));
}

/// Ops of layer 0, in order: "linear1" is done on chunk 1, "gelu" on all.
std::string order_of(const Prepared& study) {
  const StagedGraph staged = chunked_graph(study);
  std::string text;
  for (const Op& op : staged.graph.ops) {
    if (op.layer < 0) continue;
    text += (text.empty() ? "" : " ") + std::string(to_string(op.kind));
    if (op.chunk > 0) text += std::to_string(op.chunk);
  }
  return text;
}

/// "" where it has a Program.
std::string reason_of(const Prepared& study) {
  PassLog log;
  const auto answer = compile(study.model, study.study, study.software, log);
  const auto* reason = std::get_if<Infeasible>(&answer);
  return reason == nullptr ? "" : reason->key + ": " + reason->reason;
}

}  // namespace

TEST_CASE("inside a product each chunk is followed by its collective") {
  const std::string order = order_of(prepared("{scope: linear, chunks: 3}", 3));
  CHECK_THAT(order, Catch::Contains("split linear1 all_reduce1 linear2 all_reduce2 linear3 "
                                    "all_reduce3 add_bias1 add_bias2 add_bias3 join"));
  // The backward of these alone communicates.
  CHECK_THAT(order, Catch::Contains("enter_tensor linear flash_attention"));
  // Attention, norms and dropout are done once.
  CHECK_THAT(order, !Catch::Contains("attention1") && !Catch::Contains("norm1"));
}

TEST_CASE("gathers and scatters of the sequence go beside the products of other chunks") {
  const std::string order = order_of(prepared("linear", 2, {"parallel.sequence_parallel=true"}));
  CHECK_THAT(order, Catch::Contains("split all_gather1 all_gather2 linear1 linear2 join") &&
                        Catch::Contains("split linear1 reduce_scatter1 linear2 reduce_scatter2"));
}

TEST_CASE("a dropout of a chunk knows the sample that it begins with") {
  const StagedGraph staged = chunked_graph(prepared("{chunks: 4}", 8));
  std::string samples;
  for (const Op& op : staged.graph.ops) {
    if (op.kind != OpKind::kDropout || op.layer < 0) continue;
    samples += std::to_string(op.chunk) + ":" + std::to_string(op.attrs->first_sample) + " ";
  }
  // Two to a layer.
  CHECK(samples == "1:0 2:2 3:4 4:6 1:0 2:2 3:4 4:6 ");
}

TEST_CASE("chunks that do not divide a microbatch are a reason, with those that do") {
  CHECK(reason_of(prepared("{chunks: 4}", 6)) ==
        "parallel.tensor_overlap: 4 chunks do not divide the 6 samples that a rank has of a "
        "microbatch; 2, 3 and 6 do, and 8 samples would divide");
  CHECK(reason_of(prepared("across-blocks", 1)) ==
        "parallel.tensor_overlap: 2 chunks do not divide the 1 sample that a rank has of a "
        "microbatch; 2 samples would divide");
  CHECK(reason_of(prepared("{chunks: 3}", 6)).empty());
  CHECK(reason_of(prepared("block", 6, {"training.microbatch=[2, 1, 3]"})) ==
        "parallel.tensor_overlap: 2 chunks do not divide the 3 samples that a rank has of a "
        "microbatch; multiples of 2 samples would divide");
  // What divides 8 and 4; then what divides 6 and 4.
  CHECK(reason_of(prepared("{chunks: 3}", 12, {"training.microbatch=[8, 4]"})) ==
        "parallel.tensor_overlap: 3 chunks do not divide the 8 samples that a rank has of a "
        "microbatch; 2 and 4 do for all microbatches, and multiples of 3 samples would divide");
  CHECK(reason_of(prepared("{chunks: 4}", 10, {"training.microbatch=[4, 6]"})) ==
        "parallel.tensor_overlap: 4 chunks do not divide the 6 samples that a rank has of a "
        "microbatch; 2 does for all microbatches, and multiples of 4 samples would divide");
}

TEST_CASE("within a product rows divide where samples do not") {
  // 2 samples of 8 positions.
  CHECK(reason_of(prepared("{scope: linear, chunks: 16}", 2)).empty());
  CHECK(reason_of(prepared("{scope: linear, chunks: 3}", 2)) ==
        "parallel.tensor_overlap: 3 chunks do not divide the 2 samples that a rank has of a "
        "microbatch, nor their 16 rows; 2 does, and 3 samples would divide");
  // Its collectives split positions.
  CHECK(reason_of(prepared("{scope: linear, chunks: 4}", 2, {"parallel.sequence_parallel=true"})) ==
        "parallel.tensor_overlap: 4 chunks do not divide the 2 samples that a rank has of a "
        "microbatch; 2 does, and 4 samples would divide");
}

}  // namespace trainyard::split_batch_test
