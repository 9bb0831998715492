// Method atp in a study: its forms, the mesh that it is left to choose, what does not go with it,
// and how it is written and reads back.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/passes/tensor_methods.h"
#include "engine/plan/tensor_overlap.h"
#include "study/study_writer.h"
#include "tests/study/study_fixture.h"

namespace trainyard::tensor_method_test {

namespace {

/// A GPT on 2 nodes of 8 devices, on so many tensor ranks.
std::string study(int tensor, const std::string& method) {
  return "model: {family: gpt, layers: 2, hidden: 64, heads: 16, vocab: 64, seq_len: 32}\n"
         "cluster: {preset: box, nodes: 2}\n"
         "parallel: {tensor: " +
         std::to_string(tensor) + ", tensor_method: " + method +
         "}\ntraining: {global_batch: 32}\n";
}

ParallelConfig parallel(int tensor, const std::string& method) {
  return read(study(tensor, method)).parallel;
}

}  // namespace

TEST_CASE("a method is a word, or a map with its mesh") {
  CHECK(parallel(4, "megatron").tensor_mesh.empty());
  CHECK(parallel(4, "{name: megatron}").tensor_method == "megatron");
  const ParallelConfig atp = parallel(8, "{name: atp, mesh: [2, 4]}");
  CHECK(atp.tensor_method == "atp");
  CHECK(atp.tensor_mesh == std::vector<int>{2, 4});
  CHECK(atp.sizes_of_tensor_axes() == std::vector<int>{2, 4});
  // One axis, which is called as Megatron's.
  CHECK(parallel(8, "{name: atp, mesh: [8, 1]}").sizes_of_tensor_axes().empty());
}

TEST_CASE("a mesh that is left out is the one of least communication") {
  // Inside a node all devices are joined alike: 3.25 of [4, 2] is less than 3.5 of [8, 1]; of 4
  // ranks it is 4.5 and 3 (section 5.4: (14 d2 + 4 d1 - 18) / N).
  CHECK(parallel(8, "atp").tensor_mesh == std::vector<int>{4, 2});
  CHECK(parallel(8, "{name: atp, mesh: auto}").tensor_mesh == std::vector<int>{4, 2});
  CHECK(parallel(4, "atp").tensor_mesh == std::vector<int>{4, 1});
  CHECK(parallel(1, "atp").tensor_mesh == std::vector<int>{1, 1});
  const Study chosen = read(study(8, "atp"));
  CHECK(chosen.origins.at("parallel.tensor_method.mesh").note ==
        "least all-reduce time of 4 meshes, by the cluster's links");
  // Measured, as ATP's IC1.
  CHECK(parallel(8, "{name: atp, measured: {2x4: [1.20, 4.95], 8x1: [0.97, 0]}}").tensor_mesh ==
        std::vector<int>{2, 4});
  CHECK(parallel(8, "{name: atp, measured: {2x4: [0.60, 2.5], 8x1: [0.97, 0]}}").tensor_mesh ==
        std::vector<int>{8, 1});
}

TEST_CASE("a mesh is chosen among those that divide the model") {
  // 36 = 4 x 9: of 16 ranks [16, 1], [8, 2] and [4, 4]. Features of 64 may lie on all five; the
  // bandwidths make [2, 8] the best of these, T = 7 / (2 x 100) + 2 / (8 x 100).
  const std::string measured =
      "{name: atp, measured: {16x1: [1, 0], 8x2: [2, 10], 4x4: [1, 10], 2x8: [100, 100]}}";
  const std::vector<std::string> narrow = {"model.hidden=36", "model.head_dim=8", "model.ffn=144"};
  CHECK(parallel(16, measured).tensor_mesh == std::vector<int>{2, 8});
  // [8, 2]: 7 / 80 + 2 / 4 = 0.5875, [4, 4]: 7 / 40 + 2 / 4 = 0.675, [16, 1]: 2.
  const Study chosen = read(study(16, measured), narrow);
  CHECK(chosen.parallel.tensor_mesh == std::vector<int>{8, 2});
  CHECK(chosen.origins.at("parallel.tensor_method.mesh").note ==
        "least all-reduce time of 3 meshes that divide the model, by measured bandwidths");
  CHECK_THAT(error_of(study(16, "{name: atp, measured: {2x8: [100, 100]}}"), narrow),
             Catch::Contains("parallel.tensor_method.measured: no mesh of 16 ranks that is named "
                             "divides the model, [2, 8] not model.hidden 36; [16, 1], [8, 2] and "
                             "[4, 4] do"));
  CHECK_THAT(error_of(study(16, "{name: atp, mesh: [2, 8]}"), narrow),
             Catch::Contains("parallel.tensor_method.mesh: the 8 ranks of the second axis of mesh "
                             "[2, 8] do not divide model.hidden 36; [16, 1], [8, 2] and [4, 4] "
                             "do"));
  CHECK(error_of(study(16, "{name: atp, mesh: [4, 4]}"), narrow) == "no error");
}

TEST_CASE("of a mesh the first axis alone divides the MLP's features and split sequences") {
  const auto error = [](const std::string& method, const std::vector<std::string>& sets) {
    return error_of(study(8, method), sets);
  };
  // 20 = 4 x 5 and 260 = 4 x 65: neither is a multiple of the 8 ranks.
  const std::vector<std::string> short_one = {"model.seq_len=20",
                                              "parallel.sequence_parallel=true"};
  CHECK(error("{name: atp, mesh: [4, 2]}", short_one) == "no error");
  CHECK(error("{name: atp, mesh: [2, 4]}", short_one) == "no error");
  CHECK(error("{name: atp, mesh: [8, 1]}", {"model.seq_len=20"}) == "no error");
  CHECK_THAT(error("{name: atp, mesh: [8, 1]}", short_one),
             Catch::Contains("parallel.tensor_method.mesh: the 8 ranks of the first axis of mesh "
                             "[8, 1] do not divide model.seq_len 20; [4, 2], [2, 4] and [1, 8] "
                             "do"));
  CHECK_THAT(error("megatron", short_one),
             Catch::Contains("parallel.tensor: 8 ranks do not divide seq_len 20"));
  CHECK(error("{name: atp, mesh: [4, 2]}", {"model.ffn=260"}) == "no error");
  CHECK_THAT(error("{name: atp, mesh: [8, 1]}", {"model.ffn=260"}),
             Catch::Contains("the 8 ranks of the first axis of mesh [8, 1] do not divide model.ffn "
                             "260; [4, 2], [2, 4] and [1, 8] do"));
  // A mesh that is left out is one of these: [4, 2] has least of all four, of 18 [2, 4].
  CHECK(read(study(8, "atp"), short_one).parallel.tensor_mesh == std::vector<int>{4, 2});
  CHECK(read(study(8, "atp"), {"model.seq_len=18", "parallel.sequence_parallel=true"})
            .parallel.tensor_mesh == std::vector<int>{2, 4});
}

TEST_CASE("chunks are a scope, or a map with their number, of which atp's is another word") {
  const auto overlap = [](const std::string& value) {
    const Study one = read(study(4, "megatron"), {"parallel.tensor_overlap=" + value});
    return parse_tensor_overlap(one.parallel.tensor_overlap);
  };
  using Overlap = TensorOverlap::Scope;
  CHECK(overlap("none") == TensorOverlap{});
  CHECK(overlap("across-blocks") == TensorOverlap{Overlap::kAcrossBlocks, 2});
  CHECK(overlap("{scope: linear}") == TensorOverlap{Overlap::kLinear, 2});
  CHECK(overlap("{chunks: 4}") == TensorOverlap{Overlap::kBlock, 4});
  CHECK(overlap("{scope: across-blocks, chunks: 3}") == TensorOverlap{Overlap::kAcrossBlocks, 3});
  CHECK(parallel(8, "{name: atp, mesh: [2, 4], chunks: 4}").tensor_overlap == "block 4");
  CHECK(parallel(8, "{name: atp, mesh: [2, 4], chunks: 1}").tensor_overlap == "none");

  const std::string text = resolved_study_text(read(study(8, "{name: atp, chunks: 4}")));
  CHECK_THAT(text, Catch::Contains("  tensor_overlap:\n    scope: block") &&
                       Catch::Contains("    chunks: 4  # from study.yaml:3:"));
  CHECK(read(text).parallel.tensor_overlap == "block 4");
  CHECK_THAT(resolved_study_text(read(study(4, "megatron"), {"parallel.tensor_overlap=linear"})),
             Catch::Contains("  tensor_overlap: linear  # --set parallel.tensor_overlap=linear"));

  const auto error = [](const std::string& method, const std::vector<std::string>& sets) {
    return error_of(study(4, method), sets);
  };
  CHECK_THAT(error("megatron", {"parallel.tensor_overlap={scope: none, chunks: 4}"}),
             Catch::Contains("parallel.tensor_overlap.chunks: scope none has no chunks"));
  CHECK_THAT(error("megatron", {"parallel.tensor_overlap={chunks: 1}"}),
             Catch::Contains("parallel.tensor_overlap.chunks"));
  CHECK_THAT(error("{name: atp, chunks: 4}", {"parallel.tensor_overlap=block"}),
             Catch::Contains("parallel.tensor_method.chunks: parallel.tensor_overlap says chunks, "
                             "too; leave one of them out"));
  CHECK_THAT(error("{name: megatron, chunks: 4}", {}),
             Catch::Contains("parallel.tensor_method.chunks: method megatron leaves chunks to "
                             "parallel.tensor_overlap; leave it out, or write name: atp"));
}

TEST_CASE("keys of other methods are refused by where a method has its mesh from") {
  const auto error = [](const std::string& method) { return error_of(study(4, method), {}); };
  const std::string measured = ", measured: {2x2: [1, 2]}}";
  CHECK_THAT(error("{name: smp" + measured),
             Catch::Contains("parallel.tensor_method.measured: method smp has one axis; leave it "
                             "out, or write name: atp"));
  CHECK_THAT(error("{name: summa-2d" + measured),
             Catch::Contains("method summa-2d has the mesh that parallel.tensor says; leave it "));
  CHECK_THAT(error("{name: map" + measured),
             Catch::Contains("method map takes its mesh from the cluster's links; leave it out"));
  CHECK_THAT(error("{name: megatron, mesh: [1, 2, 2]}"),
             Catch::Contains("parallel.tensor_method.mesh: method megatron has one axis"));
  CHECK_THAT(error("{name: atp, mesh: [1, 2, 2]}"),
             Catch::Contains("expected the ranks along two axes, such as [2, 2]"));
  CHECK_THAT(error("{name: map, mesh: [2, 2, 2, 2, 2]}"),
             Catch::Contains("expected the ranks along at most 4 axes, such as [2, 2]"));
}

TEST_CASE("a chosen mesh is written, and reads back") {
  const Study chosen = read(study(8, "{name: atp, measured: {2x4: [1.20, 4.95], 8x1: [0.97, 0]}}"));
  const std::string text = resolved_study_text(chosen);
  CHECK_THAT(text, Catch::Contains("tensor_method:") && Catch::Contains("name: atp") &&
                       Catch::Contains("mesh: [2, 4]"));
  const Study again = read(text);
  CHECK(again.parallel.tensor_mesh == std::vector<int>{2, 4});
  CHECK(again.parallel.tensor_method == "atp");
  CHECK_THAT(resolved_study_text(read(study(4, "megatron"), {"parallel.tensor_method=atp"})),
             Catch::Contains("name: atp  # --set parallel.tensor_method=atp"));
}

TEST_CASE("method smp and a table are written with their settings, and read back") {
  const Study smp = read(study(4, "smp"));
  CHECK(smp.parallel.smp.optimize == SmpConfig::Optimize::kMemory);
  CHECK(smp.parallel.batch_ranks() == 4);
  CHECK(smp.num_microbatches() == 2);  // 32 / (1 x 4 replicas x 4)
  const Study again =
      read(resolved_study_text(read(study(4, "{name: smp, optimize: speed, prescaled_batch: true}"),
                                    {"parallel.tensor_modules=['*.mlp', lm_head]"})));
  CHECK(again.parallel.tensor_method == "smp");
  CHECK(again.parallel.smp == SmpConfig{SmpConfig::Optimize::kSpeed, true});
  CHECK(again.parallel.batch_ranks() == 1);
  CHECK(again.num_microbatches() == 8);
  CHECK(again.parallel.tensor_modules == std::vector<std::string>{"*.mlp", "lm_head"});
  const Study table = read(resolved_study_text(read(
      study(4,
            "{name: auto, table: {'*.mlp.fc1': {dim: 0, collective: all_gather}, '*.fc2': {dim: 1, "
            "collective: all_reduce}}}"))));
  CHECK(table.parallel.split_table ==
        std::vector<SplitRule>{{"*.mlp.fc1", 0, SplitRule::Collective::kAllGather},
                               {"*.fc2", 1, SplitRule::Collective::kAllReduce}});
}

TEST_CASE("what does not go with methods auto and smp is said at its place") {
  const auto error = [](const std::string& method, const std::vector<std::string>& sets = {}) {
    return error_of(study(4, method), sets);
  };
  CHECK_THAT(error("smp", {"training.global_batch=24"}),
             Catch::Contains("training.global_batch: 24 is not a multiple of data(4) * tensor(4) * "
                             "microbatch(1) = 16; 16 and 32 are"));
  CHECK_THAT(error("smp", {"parallel.sequence_parallel=true"}),
             Catch::Contains("parallel.sequence_parallel: method smp splits samples and features, "
                             "not the sequence; write false"));
  CHECK_THAT(error("smp", {"parallel.context=2"}),
             Catch::Contains("parallel.context: does not go with method smp in this version"));
  CHECK_THAT(error("smp", {"parallel.tensor_overlap=block"}),
             Catch::Contains("parallel.tensor_overlap: method smp gives ranks samples of their "
                             "own, and chunks of a microbatch would lie on some of them"));
  CHECK_THAT(error("smp", {"parallel.tensor={tp0: 2, tp1: 2}"}),
             Catch::Contains("parallel.tensor: method smp has one axis; write 4"));
  CHECK_THAT(error("smp", {"sharding={'*.mlp.fc1': {weight: [tp, R]}}"}),
             Catch::Contains("sharding: does not go with method smp in this version"));
  CHECK_THAT(error("smp", {"model={family: swin, layers: 8, hidden: 64, heads: 16, image_size: "
                           "224}"}),
             Catch::Contains("parallel.tensor_method: method smp distributes modules of families "
                             "gpt, bert, llama, t5, vit and ncf in this version, not of swin"));
  CHECK_THAT(error("smp", {"model.hidden=66", "model.head_dim=4"}),
             Catch::Contains("parallel.tensor: 4 ranks do not divide model.hidden 66, which method "
                             "smp splits between ops; write {name: smp, optimize: speed}"));
  CHECK(error("{name: smp, optimize: speed}", {"model.hidden=66", "model.head_dim=4"}) ==
        "no error");
  CHECK_THAT(error("{name: smp, optimize: best}"), Catch::Contains("unknown optimize 'best'"));
  CHECK_THAT(error("{name: atp, mesh: [2, 2], optimize: speed}"),
             Catch::Contains("parallel.tensor_method.optimize: method atp has one way to split; "
                             "leave it out, or write name: smp"));
  CHECK_THAT(error("{name: atp, mesh: [2, 2]}", {"parallel.tensor_modules=['*.mlp']"}),
             Catch::Contains("parallel.tensor_modules: method atp splits every layer; leave it "
                             "out, or write megatron"));
  CHECK_THAT(error("auto", {"model={family: mamba2, layers: 2, hidden: 64, vocab: 64, seq_len: 32, "
                            "chunk_size: 32}"}),
             Catch::Contains("parallel.tensor"));
  CHECK_THAT(error("{name: auto, table: {}}"),
             Catch::Contains("parallel.tensor_method.table: expected entries such as"));
}

TEST_CASE("what the row of a method refuses is refused at its key, and nothing else is") {
  const std::pair<Beside, std::string> asked[] = {
      {Beside::kSequenceParallel, "parallel.sequence_parallel=true"},
      {Beside::kContext, "parallel.context=2"},
      {Beside::kModules, "parallel.tensor_modules=['*.mlp']"},
      {Beside::kOverlap, "parallel.tensor_overlap=block"},
      {Beside::kSharding, "sharding={'*.mlp.fc1': {weight: [R, R]}}"}};
  for (const TensorMethod& method : tensor_methods()) {
    // Meshes of a form of their own: 4 = 2 x 2, 8 = 2 x 2 x 2. Their samples are the last check.
    const int ranks = method.form != nullptr && !method.form->mesh_of(4) ? 8 : 4;
    const std::string value =
        method.name == "atp" ? "{name: atp, mesh: [2, 2]}" : std::string(method.name);
    for (const auto& [what, set] : asked) {
      CAPTURE(method.name, set);
      const std::string key = set.substr(0, set.find('='));
      const std::string error = error_of(study(ranks, value), {set, "training.microbatch=4"});
      const bool refused =
          std::any_of(method.refused.begin(), method.refused.end(),
                      [what = what](const NotBeside& one) { return one.what == what; });
      const bool said = error.find(key + ": ") != std::string::npos &&
                        error.find("method " + std::string(method.name)) != std::string::npos;
      CHECK(said == refused);
    }
  }
}

TEST_CASE("what does not go with method atp is said at its place") {
  const auto error = [](int tensor, const std::string& method,
                        const std::vector<std::string>& sets = {}) {
    return error_of(study(tensor, method), sets);
  };
  CHECK_THAT(error(4, "{name: atp, mesh: [2, 4]}"),
             Catch::Contains("parallel.tensor_method.mesh: mesh [2, 4] has 8 ranks, and "
                             "parallel.tensor says 4; [2, 2] has as many"));
  CHECK_THAT(error(4, "{name: atp, mesh: [4]}"),
             Catch::Contains("mesh: expected the ranks along two axes, such as [2, 2]"));
  // As equal as two axes of 8 and of 2 can be.
  CHECK_THAT(error(8, "{name: atp, mesh: [8]}"), Catch::Contains("such as [2, 4]"));
  CHECK_THAT(error(2, "{name: atp, mesh: [2, 4]}"), Catch::Contains("; [1, 2] has as many"));
  CHECK_THAT(error(4, "{name: atp, mesh: best}"), Catch::Contains("mesh: unknown mesh 'best'"));
  CHECK_THAT(
      error(4, "{name: megatron, mesh: [4, 1]}"),
      Catch::Contains("mesh: method megatron has one axis; leave it out, or write name: atp"));
  CHECK_THAT(error(4, "{name: atp, measured: {4: [1, 1]}}"),
             Catch::Contains("expected a mesh such as 2x4, got '4'"));
  CHECK_THAT(error(4, "{name: atp, measured: {}}"),
             Catch::Contains("parallel.tensor_method.measured: expected meshes, such as {2x4: "
                             "[1.2, 4.95]}; leave it out for the cluster's"));
  CHECK_THAT(error(4, "{name: atp, measured: {4x1: [1e308, 0]}}"),
             Catch::Contains("measured.4x1[0]: expected GB/s, 0 or from 1e-100 to 1e100"));
  CHECK_THAT(error(4, "{name: atp, measured: {2x2: [1]}}"),
             Catch::Contains("expected the bandwidths along both axes in GB/s"));
  CHECK_THAT(error(4, "{name: atp, measured: {4x1: [1, 1]}}"),
             Catch::Contains("an axis of one rank, and no other, has bandwidth 0"));
  CHECK_THAT(error(4, "{name: atp, measured: {2x4: [1, 1]}}"),
             Catch::Contains("parallel.tensor_method.measured: says nothing of a mesh of 4 ranks"));
  CHECK(error(4, "atp", {"parallel.sequence_parallel=true"}) == "no error");
  CHECK_THAT(error(4, "atp", {"parallel.context=2"}),
             Catch::Contains("parallel.context: does not go with method atp in this version"));
  CHECK_THAT(error(4, "atp", {"parallel.tensor={tp0: 2, tp1: 2}"}),
             Catch::Contains("parallel.tensor: method atp makes the axes; write 4 and "
                             "tensor_method: {name: atp, mesh: [2, 2]}"));
  CHECK_THAT(error(4, "atp", {"sharding={'*.mlp.fc1': {weight: [tp, R]}}"}),
             Catch::Contains("names axes of a mesh that is yet to be chosen"));
  CHECK_THAT(
      error(4, "atp", {"model={family: swin, layers: 8, hidden: 64, heads: 16, image_size: 224}"}),
      Catch::Contains("parallel.tensor_method: method atp splits the layers of families gpt, "
                      "bert, llama, t5, vit and clip in this version, not of swin; write "
                      "megatron"));
}

TEST_CASE("method map takes its mesh from the levels of the links, or as it is said") {
  CHECK(parallel(8, "map").tensor_mesh == std::vector<int>{2, 4});  // all pairs are alike
  CHECK(parallel(2, "map").tensor_mesh == std::vector<int>{2});
  CHECK(parallel(2, "map").sizes_of_tensor_axes().empty());  // one axis, which is called tp
  CHECK(parallel(1, "map").tensor_mesh == std::vector<int>{1});
  CHECK(parallel(8, "{name: map, mesh: [2, 1, 4]}").tensor_mesh == std::vector<int>{2, 4});
  const ParallelConfig two_nodes = parallel(16, "map");
  CHECK(two_nodes.tensor_mesh == std::vector<int>{2, 8});
  CHECK(parallel(8, "{name: map, memory_budget: 40 GiB}").tensor_memory == Bytes{40} << 30);
  CHECK(read(study(8, "map")).origins.at("parallel.tensor_method.mesh").note ==
        "as square as it can be: all pairs are alike");
}

TEST_CASE("what map has chosen is written, and reads back") {
  const std::string method =
      "{name: map, mesh: [2, 2], memory_budget: 1 GiB, ops: {\"*.fc1.linear\": {strategy: {d0: "
      "[tp0], o: [tp1]}, result: \"[tp0, R, tp1]\"}, \"*.gelu\": {strategy: {whole: [tp0, tp1]}}}}";
  const Study one = read(study(4, method));
  REQUIRE(one.parallel.tensor_ops.size() == 2);
  CHECK(one.parallel.tensor_ops[0].modules == "*.fc1.linear");
  CHECK(one.parallel.tensor_ops[0].strategy ==
        std::vector<std::pair<std::string, std::string>>{{"d0", "tp0"}, {"o", "tp1"}});
  CHECK(read(resolved_study_text(one)).parallel == one.parallel);
}

TEST_CASE("what does not go with method map is said at its place") {
  const auto error = [](const std::string& method, const std::vector<std::string>& sets = {}) {
    return error_of(study(4, method), sets);
  };
  CHECK_THAT(error("{name: map, mesh: [2, 4]}"),
             Catch::Contains("parallel.tensor_method.mesh: the ranks of mesh [2, 4] are not the 4 "
                             "of parallel.tensor; [2, 2] has as many"));
  CHECK_THAT(error("{name: map, mesh: [1, 1, 1, 2, 2]}"),
             Catch::Contains("mesh: expected the ranks along at most 4 axes"));
  CHECK_THAT(error("{name: map, measured: {2x2: [1, 1]}}"),
             Catch::Contains("measured: method map takes its mesh from the cluster"));
  CHECK_THAT(error("{name: atp, memory_budget: 1 GiB}"),
             Catch::Contains("chooses no splits of ops; leave it out, or write name: map"));
  CHECK_THAT(error("{name: map, mesh: []}"), Catch::Contains("mesh: expected the ranks"));
  CHECK_THAT(
      error("{name: map, mesh: [4], ops: {\"*.fc1.linear\": {strategy: {o: [dp]}}}}"),
      Catch::Contains("ops: '*.fc1.linear' names dp, over which the batch is split by itself"));
  CHECK_THAT(error("{name: map, mesh: [4], ops: {\"*.fc1.linear\": {result: \"[dp tp, R, R]\"}}}"),
             Catch::Contains("ops: '*.fc1.linear' names dp, and there is one replica"));
  CHECK_THAT(error("{name: map, memory_budget: 0 GiB}"),
             Catch::Contains("memory_budget: expected more than 0 bytes"));
  CHECK_THAT(
      error("{name: map, ops: {\"*\": {strategy: {o: [tp]}}}}"),
      Catch::Contains("ops: names axes of a mesh that is yet to be chosen; write mesh: [4]"));
  CHECK_THAT(error("map", {"parallel.tensor_modules=['*.mlp']"}),
             Catch::Contains("parallel.tensor_modules: method map chooses for all ops"));
  CHECK_THAT(error("map", {"parallel.sequence_parallel=true"}),
             Catch::Contains("parallel.sequence_parallel: method map splits sequences where that "
                             "costs least; write false"));
  CHECK_THAT(error("map", {"parallel.tensor={tp0: 2, tp1: 2}"}),
             Catch::Contains("write 4 and tensor_method: {name: map, mesh: [2, 2]}"));
}

}  // namespace trainyard::tensor_method_test
