// The tables of keys, and what is made of them: the page of docs/, short words, `list keys`.
#include "study/study_keys.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "study/key_aliases.h"
#include "study/key_list.h"
#include "study/study_writer.h"
#include "study/sweep.h"
#include "tests/study/study_fixture.h"
#include "tests/support/source_root.h"

namespace trainyard::study_keys_test {

TEST_CASE("docs/keys.md is what the tables say") {
  const std::string path = source_root() + "/docs/keys.md";
  if (std::getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(path) << keys_page();
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  CHECK(text.str() == keys_page());
}

TEST_CASE("every key is listed once and says what it takes and what it is") {
  std::set<std::string> paths;
  for (const KeyLine& line : list_keys()) {
    CAPTURE(line.path);
    CHECK(paths.insert(line.path).second);
    CHECK_FALSE(line.help.empty());
    CHECK_FALSE(line.takes.empty());
    CHECK((line.help + line.takes + line.fallback).find('\n') == std::string::npos);
  }
  for (const char* path :
       {"model.layers", "cluster.nodes", "cluster.gpus", "cluster.fabric.leaf", "parallel.zero.by",
        "training.lr.peak", "LINK.bandwidth", "CURVE.by_ranks", "schedule.method", "fidelity"})
    CHECK(paths.contains(path));
}

TEST_CASE("a value of a kind that a key has no form for is told what the key takes") {
  const auto set = [](const std::string& key, const std::string& value) {
    const std::string option = key + "=" + value;
    const std::string error = error_of(kSmallStudy, {option}), place = key + ": ";
    const std::size_t at = error.find(place);
    return at == std::string::npos ? error : error.substr(at + place.size());
  };
  CHECK(set("checkpoint", "3") == "expected a map with the keys every and keep, got '3'");
  CHECK(set("data", "[1]").starts_with("expected a map with keys such as "));
  CHECK(
      set("training", "3")
          .starts_with(
              "expected a map with keys such as global_batch, microbatch and precision, got '3'"));
  CHECK(set("parallel.context", "[1]") ==
        "expected an integer from 1 to 1048576, or a map with the keys degree, method and balance, "
        "got a list");
  CHECK(set("cluster.speed", "3").starts_with("expected a map from device to a number"));
  CHECK(set("partition", "{cuts: 3}").find("got '3'") != std::string::npos);
}

TEST_CASE("what is suggested for a quantity without its unit is taken") {
  int tried = 0;
  each_key([&](const std::string& path, const StudyKey& key) {
    const auto* form = form_of<QuantityForm>(key);
    if (form == nullptr || form_of<IntegerForm>(key) != nullptr) return;
    // A search's budget is of that method.
    const bool of_search = path == "partition.budget";
    const auto error = [&](const std::string& value) {
      return error_of(kSmallStudy, {of_search ? "partition={method: search, budget: " + value + "}"
                                              : path + "=" + value});
    };
    CAPTURE(path);
    const std::string bare = error("3"), mark = path + ": '3' has no unit; write ";
    const std::size_t at = bare.find(mark);
    if (at == std::string::npos) return;  // a key around it is missing, or has another form here
    ++tried;
    const std::string rest = bare.substr(at + mark.size());
    CHECK(error(rest.substr(0, rest.find(" or "))).find(path + ": ") == std::string::npos);
    const std::string other = error("x"), such = path + ": expected a quantity such as ";
    if (other.find(such) == std::string::npos) return;  // read by the files' reader
    CHECK(other.find(such + std::string(form->example)) != std::string::npos);
    CHECK(error(std::string(form->example)).find(path + ": ") == std::string::npos);
  });
  CHECK(tried >= 12);
}

TEST_CASE("what a value says in place of a map is a key of the map") {
  int maps = 0;
  each_key([&](const std::string& path, const StudyKey& key) {
    const auto* form = form_of<MapForm>(key);
    if (form == nullptr || form->in_short.empty()) return;
    CAPTURE(path);
    ++maps;
    CHECK(find_key(form->keys(), form->in_short) != nullptr);
    // A map of it alone is complete.
    for (const std::string_view required : form->required) CHECK(required == form->in_short);
  });
  CHECK(maps == 10);
  CHECK(read(kSmallStudy, {"parallel.tensor=2", "parallel.tensor_overlap=linear",
                           "parallel.tensor_overlap.chunks=4", "training.microbatch=4"})
            .parallel.tensor_overlap == "linear 4");
}

TEST_CASE("axes of a family that has none are refused") {
  CHECK(error_of(kSmallStudy, {"model={preset: gpt-tiny, axes: {seq: 8}}"})
            .find("model.axes: means nothing to family") != std::string::npos);
}

TEST_CASE("null is the default of every key") {
  // Whatever a table has is read by somebody: finish() aborts where it is not.
  for (const KeyLine& line : list_keys()) {
    const bool in_several_places = line.path.starts_with("LINK") || line.path.starts_with("CURVE");
    if (in_several_places || line.path == "model" || line.path == "cluster") continue;
    const std::string block = line.path.substr(0, line.path.find('.'));
    if (block == line.path) {
      CAPTURE(line.path);
      const bool required = line.fallback == "required";
      CHECK((error_of(kSmallStudy, {line.path + "=null"}) == "no error") == !required);
      continue;
    }
    const std::string assignment = line.path + "=null";
    CAPTURE(assignment);
    CHECK_NOTHROW(errors_of(kSmallStudy, {assignment}));
  }
}

TEST_CASE("a field of a key is written as it is read") {
  // A table's key with a field: what study.resolved.yaml has reads back as the same value.
  const Study study = read(
      kSmallStudy, {"training.steps=7", "training.optimizer=sgd", "training.lr.schedule=cosine",
                    "model=llama-tiny", "parallel.tensor_overlap=none", "data.shuffle=false"});
  const Study again = read(resolved_study_text(study));
  CHECK(again.training == study.training);
  CHECK(again.model == study.model);
  CHECK(again.training.optimizer == Optimizer::kSgd);
  CHECK(again.training.steps == 7);
  CHECK_FALSE(again.data.shuffle);
}

TEST_CASE("short words stand for keys") {
  const std::string keys = kSmallStudy;
  const std::string words =
      "model: gpt-tiny\ncluster: {preset: box, nodes: 2}\ntp: 2\nparallel: {pp: 4}\n"
      "training: {gbs: 32}\n";
  const Study plain = read(keys), shortened = read(words);
  CHECK(static_cast<const Plan&>(plain) == static_cast<const Plan&>(shortened));
  // Where a word stands is where its key's mistakes are.
  CHECK(error_of("model: gpt-tiny\ncluster: box\ntp: 0\ntraining: {gbs: 32}\n") ==
        "study.yaml:3:5: parallel.tensor: expected at least 1, got 0");
}

TEST_CASE("a short word beside its key is refused") {
  CHECK(error_of("model: gpt-tiny\ncluster: box\ntp: 2\nparallel: {tensor: 2}\n"
                 "training: {gbs: 32}\n") ==
        "study.yaml:3:1: tp: stands for parallel.tensor, which is at study.yaml:4:12; leave one of "
        "them out");
  CHECK(error_of("model: gpt-tiny\ncluster: box\nparallel: {tensor: 2, tp: 2}\n"
                 "training: {gbs: 32}\n") ==
        "study.yaml:3:23: parallel.tp: stands for parallel.tensor, which is at study.yaml:3:12; "
        "leave one of them out");
}

TEST_CASE("options and sweeps take short words") {
  CHECK(read(kSmallStudy, {"tp=4"}).parallel.tensor == 4);
  CHECK(read(kSmallStudy, {"parallel.pp=2"}).parallel.pipeline == 2);
  CHECK(key_of_alias("gbs") == "training.global_batch");
  CHECK(key_of_alias("training.gbs") == "training.global_batch");
  CHECK(key_of_alias("gbs.peak") == "gbs.peak");
  CHECK(key_of_alias("cp.method") == "parallel.context.method");
  CHECK(key_of_alias("parallel.cp.method") == "parallel.context.method");
  CHECK(key_of_alias("tp.tp0") == "parallel.tensor.tp0");
  CHECK(key_of_alias("parallel.tp.tp1") == "parallel.tensor.tp1");
  CHECK(key_of_alias("pp.tp0") == "pp.tp0");
  const Sweep sweep = read_sweep(YamlNode::parse("{tp: [1, 2], parallel.pp: [1, 2]}", "s.yaml"));
  CHECK(sweep.keys()[0]->path == "parallel.tensor");
  CHECK(sweep.keys()[1]->path == "parallel.pipeline");
}

TEST_CASE("an option goes on into what is said in short") {
  const Study zero = read(kSmallStudy, {"parallel.zero=3", "parallel.zero.prefetch=0"});
  CHECK(zero.parallel.zero.stage == 3);
  CHECK(zero.parallel.zero.prefetch == 0);
  const Study order = read(kSmallStudy, {"schedule=1f1b", "schedule.method=gpipe"});
  CHECK(order.schedule.method == "gpipe");
  CHECK(read(kSmallStudy, {"training.lr=0.001", "training.lr.warmup=5"}).training.lr.peak == 0.001);
  CHECK(error_of(kSmallStudy, {"partition=cost", "partition.between=layers"}) == "no error");
  // A file is no part of {method: ...}, and what takes no map has nothing to go on into.
  CHECK_THAT(error_of(kSmallStudy, {"schedule=gpipe", "schedule.file=a.csv"}),
             Catch::Contains("has no 'file' to set"));
  CHECK_THAT(error_of(kSmallStudy, {"training.seed=1", "training.seed.x=2"}),
             Catch::Contains("has no 'x' to set"));
  // A sweep's points do the same.
  YamlNode study = YamlNode::parse(kSmallStudy, "s.yaml");
  study.set("parallel.zero=3");
  put_point(read_sweep(YamlNode::parse("{parallel.zero.prefetch: [0, 1]}", "s.yaml")), 1, study);
  CHECK(read_study_node(study, {}, fixture_resolvers()).parallel.zero.stage == 3);
}

TEST_CASE("a swept short word replaces what the study says") {
  const auto devices = [](const std::string& cluster) {
    YamlNode study =
        YamlNode::parse("model: gpt-tiny\n" + cluster + "\ntraining: {gbs: 64}\n", "s.yaml");
    const Sweep sweep = read_sweep(YamlNode::parse("{gpus: [8, 16]}", "s.yaml"));
    put_point(sweep, 1, study);
    return read_study_node(study, {}, fixture_resolvers()).cluster.num_devices;
  };
  CHECK(devices("cluster: box") == 16);
  CHECK(devices("cluster: {preset: box, devices: 8}") == 16);
  CHECK(devices("cluster: {gpu: a100, gpus: 8, gpus_per_node: 8, intra: nvswitch, inter: roce}") ==
        16);
  CHECK_THROWS_WITH(read_sweep(YamlNode::parse("{gpus: [8], cluster.devices: [8]}", "s.yaml")),
                    Catch::Contains("swept twice"));
}

TEST_CASE("gpus are the devices of a cluster, named or in a map, and a case's own key") {
  const std::string rest = "\ntraining: {global_batch: 64}\n";
  CHECK(read("model: gpt-tiny\ncluster: box\ngpus: 16" + rest).cluster.num_devices == 16);
  CHECK(read("model: gpt-tiny\ncluster: {preset: box, gpus: 16}" + rest).cluster.num_nodes == 2);
  CHECK(read("model: gpt-tiny\ncluster: box" + rest, {"gpus=32"}).cluster.num_nodes == 4);
  const std::string flat =
      "model: gpt-tiny\ncluster: {gpu: a100, gpus: 8, gpus_per_node: 8, intra: nvswitch}" + rest;
  CHECK(read(flat).cluster.num_devices == 8);
  CHECK(read(flat, {"gpus=4"}).cluster.num_devices == 4);
}

}  // namespace trainyard::study_keys_test
