// All that is wrong with a study is said at once, in the order of the file, and one mistake once.
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "tests/study/study_fixture.h"

namespace trainyard::all_mistakes_test {

TEST_CASE("all mistakes are said at once, in the order of the file") {
  const std::string study =
      "model: gpt-huge\n"                                 // 1: a name
      "cluster: {preset: box, nodes: 0}\n"                // 2: a range
      "parallel: {tensor: two, pipline: 4}\n"             // 3: a type; 4: a key
      "training: {global_batch: 32, precision: bf17}\n";  // 5: a word
  CHECK(errors_of(study) ==
        std::vector<std::string>{
            "study.yaml:1:8: model: unknown model 'gpt-huge'; known: gpt-tiny and llama-tiny",
            "study.yaml:2:31: cluster.nodes: expected at least 1, got 0",
            "study.yaml:3:20: parallel.tensor: expected an integer, got 'two'",
            "study.yaml:3:25: parallel.pipline: unknown key (did you mean pipeline?); this map "
            "takes: context, d2d_buffer, data, expert, fsdp, pipeline, placement, scatter_gather, "
            "sequence_parallel, tensor, tensor_method, tensor_modules, tensor_overlap, "
            "virtual_stages, zero",
            "study.yaml:4:41: training.precision: unknown precision 'bf17' (did you mean bf16?); "
            "this version has fp32, tf32, fp16, bf16, fp8 and fp64"});
}

TEST_CASE("of a model whose file is refused nothing else is said") {
  StudyResolvers resolvers = fixture_resolvers();
  resolvers.model_problem = [](const ModelConfig& model) {
    return model.layers == 0
               ? std::optional(StudyResolvers::Problem{"layers", "expected at least 1, got 0"})
               : std::nullopt;
  };
  for (const std::string model : {"broken.json", "{preset: broken.json, seq_len: 8}"}) {
    CAPTURE(model);
    CHECK_THROWS_WITH(
        read_study_text("model: " + model + "\ncluster: box\ntraining: {global_batch: 32}\n",
                        "study.yaml", {}, resolvers),
        "broken.json:3:7: n_head: expected an integer");
  }
}

TEST_CASE("all that is wrong within a link is said at once") {
  const std::string study =
      "model: gpt-tiny\n"
      "cluster:\n"
      "  preset: box\n"
      "  nodes: 2\n"
      "  intra: {bandwidth: 0 GB/s, latency: soon, efficiency: 2}\n"
      "  inter: {by_ranks: {x: {efficiency: 1}, 8: {efficiency: 0, startup: -1 us}},\n"
      "          collective: {half_size: 3, interval: -1}, point_to_point: {rank_latency: 1}}\n"
      "  speed: {0: 0, 99: 1}\n"
      "training: {global_batch: 32}\n";
  const std::vector<std::string> errors = errors_of(study);
  std::vector<std::string> places;
  for (const std::string& error : errors) places.push_back(error.substr(0, error.find(' ')));
  CHECK(places ==
        std::vector<std::string>{
            "study.yaml:5:22:", "study.yaml:5:39:", "study.yaml:5:57:", "study.yaml:6:25:",
            "study.yaml:6:58:", "study.yaml:6:70:", "study.yaml:7:35:", "study.yaml:7:48:",
            "study.yaml:7:84:", "study.yaml:8:14:", "study.yaml:8:21:"});
  CHECK(errors.front() == "study.yaml:5:22: cluster.intra.bandwidth: expected more than 0");
  // A kind that is not read says nothing of what its links need.
  const auto of_link = [](const std::string& link) {
    return errors_of("model: gpt-tiny\ntraining: {global_batch: 32}\ncluster: {device: a100, " +
                     link + "}\n");
  };
  CHECK(of_link("devices_per_node: 8, intra: {kind: nvlnk}, p2p: off").size() == 1);
  CHECK(of_link("devices_per_node: 8, nodes: 2").size() == 2);  // intra and inter are missing
}

TEST_CASE("all that is wrong within a list is said at once") {
  const auto problems = [](const std::string& set) {
    std::vector<std::string> texts;
    for (const std::string& error : errors_of(kSmallStudy, {set}))
      texts.push_back(error.substr(error.rfind(": ") + 2));
    return texts;
  };
  using Texts = std::vector<std::string>;
  CHECK(problems("training.microbatch=[0, 2, x]") ==
        Texts{"expected at least 1, got 0", "expected an integer, got 'x'"});
  CHECK(problems("training.betas=[2, -1]") == Texts{"expected at least 0 and less than 1, got 2",
                                                    "expected at least 0 and less than 1, got -1"});
  // Each cut is held against the one before it; a name says nothing before there is a graph.
  CHECK(problems("partition=[9, 3, 6, x, 6]") ==
        Texts{"expected at least 10, got 3", "expected at least 7, got 6"});
  CHECK(problems("cluster.fabric={kind: torus, dimensions: [0, 0], link: 0 GB/s}") ==
        Texts{"expected at least 1, got 0", "expected at least 1, got 0", "expected more than 0"});
}

TEST_CASE("rules of one key that hold apart are said together") {
  // No stages to interleave, and no ranks to interleave them on.
  CHECK(errors_of("model: gpt-tiny\ncluster: {preset: box, nodes: 1}\nschedule: interleaved\n"
                  "training: {global_batch: 32}\n")
            .size() == 2);
  // A sequence longer than the table of positions, of a model that cannot be built for another
  // reason.
  StudyResolvers resolvers = fixture_resolvers();
  resolvers.model_problem = [](const ModelConfig&) {
    return std::optional(StudyResolvers::Problem{"heads", "cannot be built"});
  };
  try {
    read_study_text(kSmallStudy, "study.yaml",
                    {"model={preset: gpt-tiny, seq_len: 512, max_positions: 256}"}, resolvers);
    FAIL("it has two mistakes");
  } catch (const ConfigError& error) {
    CHECK(error.others().size() == 1);
  }
}

TEST_CASE("one mistake is one line") {
  for (const std::string& text : std::vector<std::string>{
           // A key that is misspelt is not missing, too.
           "model: gpt-tiny\ncluster: box\ntraining: {global_bach: 32}\n",
           "model: gpt-tiny\nclusterr: box\ntraining: {global_batch: 32}\n",
           "model: {family: gpt, layerss: 2, hidden: 64, heads: 1, vocab: 9, seq_len: 8}\ncluster: "
           "box\n"
           "training: {global_batch: 32}\n",
           kSmallStudy + "recompute: {metod: full}\n", kSmallStudy + "schedule: {metod: gpipe}\n",
           // What would follow from its default is not said.
           "model: gpt-tiny\ncluster: {device: a100, devices_per_nod: 4, intra: nvswitch, speed: "
           "{3: 0.5}}\n"
           "training: {global_batch: 32}\n",
           "model: gpt-tiny\ncluster: {preset: box, fabric: {knd: dragonfly, group: 2}}\n"
           "training: {global_batch: 32}\n",
           kSmallStudy + "offload: {horizon: -1}\n"}) {
    CAPTURE(text);
    const std::vector<std::string> errors = errors_of(text);
    REQUIRE(errors.size() == 1);
    const bool of_range = text.find("horizon") != std::string::npos;
    CHECK((errors[0].find("unknown key (did you mean") != std::string::npos) == !of_range);
  }
}

TEST_CASE("a rule across keys is checked where its keys were read well") {
  // 16 devices / (2 x 4) = 2 replicas: 33 sequences are no multiple of 2. The learning rate has no
  // part in that.
  const std::string batch =
      "study.yaml:4:26: training.global_batch: 33 is not a multiple of data(2) * microbatch(1) = "
      "2; "
      "32 and 34 are";
  const auto with_batch = [](const std::string& parallel, const std::string& more) {
    return errors_of("model: gpt-tiny\ncluster: {preset: box, nodes: 2}\nparallel: " + parallel +
                     "\ntraining: {global_batch: 33" + more + "}\n");
  };
  CHECK(with_batch("{tensor: 2, pipeline: 4}", ", lr: -1") ==
        std::vector<std::string>{batch,
                                 "study.yaml:4:34: training.lr: expected at least 0 and less than "
                                 "1.0e+06, got -1"});
  // Without the pipeline's degree there is no number of replicas; what is misspelt may be it.
  CHECK(with_batch("{tensor: 2, pipeline: four}", "").size() == 1);
  CHECK(with_batch("{tensor: 2, piepline: 4}", "").size() == 1);
  // A rule that fails does not let its key fail another one: 3 neither divides heads nor devices.
  CHECK(with_batch("{tensor: 3, pipeline: 4}", "").size() == 1);
}

}  // namespace trainyard::all_mistakes_test
