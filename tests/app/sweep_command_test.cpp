// `trainyard sweep`: one row per point whatever becomes of it, the same bytes however many
// processes, what a row says is what `simulate` says.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/commands.h"
#include "app/simulation.h"
#include "app/sweep_points.h"
#include "cli/command_line.h"
#include "engine/program/program_text.h"
#include "report/sweep_reader.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/studies.h"

namespace trainyard::sweep_command_test {

namespace {

using Json = nlohmann::ordered_json;

const std::string kBase =
    "model: {family: gpt, layers: 8, hidden: 256, heads: 8, vocab: 1000, seq_len: 128}\n"
    "cluster: {preset: dgx-a100-80g, nodes: 2}\n"
    "parallel: {tensor: 2, pipeline: 2}\n"
    "training: {global_batch: 64}\n";

int run(const std::vector<std::string>& words) {
  std::vector<const char*> argv = {"trainyard"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  return run_command_line(static_cast<int>(argv.size()), argv.data());
}

/// Runs the sweep of `text` into `out` and answers sweep.json.
Json swept(const ScratchFolder& folder, const std::string& text,
           std::vector<std::string> options = {}, int exit = kDone) {
  write_text(folder / "study.yaml", text);
  options.insert(options.begin(), {"sweep", folder / "study.yaml", "--out", folder / "out"});
  REQUIRE(run(options) == exit);
  return Json::parse(read_text(folder / "out/sweep.json"));
}

std::string problem(const std::string& text) {
  return error_of([&] {
    YamlNode study = YamlNode::parse(text, "study.yaml");
    Sweep sweep = read_sweep(study.at("sweep"));
    study.erase("sweep");
    run_sweep_points({study, sweep, {}, 2});
  });
}

}  // namespace

TEST_CASE("a sweep writes the same bytes with one process and with several") {
  const ScratchFolder folder;
  const std::string text = kBase +
                           "sweep: {cluster.nodes: [1, 2], parallel.tensor: [1, 2, 3, 4], "
                           "parallel.pipeline: [1, 2, 4]}\n";
  swept(folder, text, {"--jobs", "1"});
  std::vector<std::string> first;
  const std::vector<std::string> files = {"/out/sweep.csv", "/out/sweep.json", "/out/report.html"};
  for (const std::string& file : files) first.push_back(read_text(folder.path() + file));
  const Json json = swept(folder, text, {"--jobs", "3"});
  CHECK(json["num_points"] == 24);
  for (std::size_t i = 0; i < files.size(); ++i) {
    const bool same = read_text(folder.path() + files[i]) == first[i];
    CAPTURE(files[i]);
    CHECK(same);
  }
}

TEST_CASE("a row has the numbers of the study that it stands for") {
  const ScratchFolder folder;
  const Json json = swept(
      folder,
      kBase +
          "sweep: {parallel.tensor: [1, 2], cluster.nodes: [1, 2], fidelity: [analytic, fluid]}\n");
  CHECK(json["fidelity"].is_null());
  REQUIRE(json["points"].size() == 8);
  for (const Json& point : json["points"]) {
    std::vector<std::string> sets;
    for (const auto& [key, value] : point["set"].items()) {
      sets.push_back(key + "=" + (value.is_string() ? value.get<std::string>() : value.dump()));
    }
    CAPTURE(sets);
    RunOptions options;
    options.record_rows = false;
    const auto answer = std::get<Simulation>(simulate(prepare_text(kBase, sets), options));
    CHECK(point["status"] == "fits");
    CHECK(point["iteration_time_s"] == answer.summary.iteration_time);
    CHECK(point["program_digest"] == answer.summary.program_digest);
    CHECK(point["num_ranks"] == answer.summary.num_ranks);
    CHECK(point["bubble_fraction"] == answer.summary.bubble_fraction);
  }
}

TEST_CASE("every point is searched for, also where the model is that of the point before") {
  // An order of zb-1p is made for the times of the stages, a share of stage-aware recompute for the
  // memory.
  const ScratchFolder folder;
  const std::string study = kBase + "schedule: zb-1p\n";
  const Json json =
      swept(folder, study + "sweep: {parallel.pipeline: [2, 4], training.clip_norm: [0, 1]}\n",
            {"--jobs", "1"});
  const Json shares = swept(folder,
                            kBase +
                                "recompute: stage-aware\nsweep: {parallel.pipeline: [2, 4], "
                                "training.clip_norm: [0, 1]}\n",
                            {"--jobs", "1"});
  const auto digest = [](const std::string& yaml, const Json& set) {
    std::vector<std::string> sets;
    for (const auto& [key, value] : set.items())
      sets.push_back(key + "=" + (value.is_string() ? value.get<std::string>() : value.dump()));
    return program_digest(compiled_program(prepare_text(yaml, sets)));
  };
  for (const Json& point : json["points"]) {
    CAPTURE(point.dump());
    CHECK(point["program_digest"] == digest(study, point["set"]));
  }
  for (const Json& point : shares["points"]) {
    CAPTURE(point.dump());
    CHECK(point["program_digest"] == digest(kBase + "recompute: stage-aware\n", point["set"]));
  }
}

TEST_CASE("what closed forms and shares of the peak leave out is said of each point") {
  const ScratchFolder folder;
  // 8 devices behind one NIC, and behind one each; products have nothing to be warned of.
  const Json nics =
      swept(folder, kBase + "sweep: {cluster.nics: [1, 8], model.pad_vocab_to: [1008]}\n");
  CHECK(
      nics["points"][0]["warnings"] ==
      Json{"fidelity analytic: the 8 devices of a node share one NIC: counted among messages that "
           "are alike; with fidelity fluid all share"});
  CHECK(nics["points"][1]["warnings"].empty());
  const Json fluid = swept(
      folder, kBase + "fidelity: fluid\nsweep: {cluster.nics: [1], model.pad_vocab_to: [1008]}\n",
      {"--overwrite"});
  CHECK(fluid["points"][0]["warnings"].empty());
  // Scores of 8 keys in 2,048, which count as all of them: 4 layers of 2 x 2 s h = 8 M FLOP a token
  // of scores beside 6.3 M of weights.
  const std::string windows =
      "model: {family: gpt, layers: 4, hidden: 256, heads: 4, vocab: 64, seq_len: 65536, "
      "attention_window: 8}\ncluster: {preset: dgx-a100-80g, nodes: 1}\ntraining: {global_batch: "
      "8, flash_attention: true}\nsweep: {training.precision: [bf16]}\n";
  const Json point = swept(folder, windows, {"--overwrite"})["points"][0];
  REQUIRE(point["mfu"] > 1);
  CHECK(point["warnings"].dump().find("counts attention as the full square") != std::string::npos);
}

TEST_CASE("studies that differ in the cluster alone have one Program") {
  // What lets points of a sweep share it: equal inputs, equal text; 16 ranks on 2 and on 4 nodes.
  const std::vector<std::string> sets = {"parallel.data=4"};
  const Prepared two = prepare_text(kBase, sets);
  std::vector<std::string> others = sets;
  others.insert(others.end(), {"cluster.nodes=4", "cluster.fabric={oversubscription: 4}",
                               "cluster.speed={3: 0.5}", "fidelity=analytic"});
  const Prepared four = prepare_text(kBase, others);
  CHECK(program_inputs(two.study) == program_inputs(four.study));
  CHECK(program_digest(compiled_program(two)) == program_digest(compiled_program(four)));
  CHECK_FALSE(program_inputs(two.study) ==
              program_inputs(prepare_text(kBase, {"parallel.data=2"}).study));
}

TEST_CASE("a point that cannot run is a row with its reason and exit code") {
  const ScratchFolder folder;
  // 8 layers do not divide into 3 stages. Hidden 16384 is 8 x 12 x 16384^2 = 25.8 B parameters over
  // 4 GPUs: at 16 bytes each 103 GB, more than 80 GiB; it is timed all the same.
  const Json json =
      swept(folder,
            kBase +
                "sweep: {parallel.pipeline: [2, 3], model: [{family: gpt, layers: 8, hidden: 256, "
                "heads: 8, vocab: 1000, seq_len: 128}, "
                "{family: gpt, layers: 8, hidden: 16384, heads: 8, vocab: 1000, seq_len: 128}]}\n");
  REQUIRE(json["points"].size() == 4);
  const auto at = [&](int i, const char* key) {
    return json["points"][static_cast<std::size_t>(i)][key];
  };
  CHECK(at(0, "status") == "fits");
  CHECK(at(0, "reason").is_null());
  CHECK(at(1, "status") == "does-not-fit");
  CHECK(at(1, "exit") == 4);
  CHECK(at(1, "fits") == false);
  CHECK(at(1, "iteration_time_s") > 0);
  CHECK_THAT(at(1, "reason").get<std::string>(), Catch::Contains("too much: parameters"));
  for (const int i : {2, 3}) {
    CHECK(at(i, "status") == "refused");
    CHECK(at(i, "exit") == 2);
    CHECK(at(i, "iteration_time_s").is_null());
    CHECK_THAT(
        at(i, "reason").get<std::string>(),
        Catch::EndsWith(
            "study.yaml:5:32: parallel.pipeline: 3 stages do not divide 8 layers; 2 and 4 do"));
  }
  CHECK(json["by_status"]["refused"] == 2);
  CHECK(json["fastest"] == Json::array({0}));
}

TEST_CASE("an option leaves out what is swept, in whatever spelling") {
  for (const char* swept : {"tp", "parallel.tp", "parallel.tensor"}) {
    for (const char* set : {"tp", "parallel.tp", "parallel.tensor"}) {
      Sweep sweep = read_sweep(YamlNode::parse("{" + std::string(swept) + ": [1, 2]}", "s.yaml"));
      CHECK(drop_replaced(sweep, set).size() == 1);
      CHECK(sweep.axes.empty());
    }
  }
}

TEST_CASE("the points of a priced cluster say what a million tokens cost") {
  // 16 GPUs cost twice as much an hour as 8, and each point is paid for its own time.
  const std::string text = kBase + "sweep: {cluster.nodes: [1, 2]}\n";
  YamlNode study = YamlNode::parse(text, "study.yaml");
  study.set("cluster.price=3.6");
  Sweep sweep = read_sweep(study.at("sweep"));
  study.erase("sweep");
  const std::vector<SweepPoint> points = run_sweep_points({study, sweep, {}, 2}).points;
  REQUIRE(points.size() == 2);
  for (std::size_t i = 0; i < points.size(); ++i) {
    REQUIRE(points[i].timed());
    // 3.6 an hour is 0.001 a second for each of 8 or 16.
    CHECK(points[i].cost_per_million_tokens ==
          Approx(0.001 * 8 * static_cast<double>(i + 1) / points[i].tokens_per_s * 1e6));
  }
}

TEST_CASE("sweep.csv has a column for costs where a point has a price, and reads back") {
  const ScratchFolder folder;
  // 3 nodes do not divide a batch of 64: no time, no cost.
  const std::string text = kBase + "sweep: {cluster.price: [2.5, 5], cluster.nodes: [1, 3]}\n";
  const Json answer = swept(folder, text);
  const std::string csv = read_text(folder / "out/sweep.csv");
  const std::string head = csv.substr(0, csv.find('\n'));
  CHECK(head.ends_with(",may_fit,cost_per_million_tokens"));
  const SweepTable table = read_sweep_table({folder / "out/sweep.csv", csv},
                                            {"sweep.json", read_text(folder / "out/sweep.json")});
  REQUIRE(table.points.size() == 4);
  CHECK(table.points[0].cost_per_million_tokens ==
        answer["points"][0]["cost_per_million_tokens"].get<double>());
  CHECK(table.points[2].cost_per_million_tokens ==
        Approx(2 * table.points[0].cost_per_million_tokens));
  CHECK(table.points[1].cost_per_million_tokens == 0);
  CHECK(table.points[3].cost_per_million_tokens == 0);
  CHECK(sweep_csv(table) == csv);
}

TEST_CASE("a key that no study has, and what is wrong with every point, is the sweep's error") {
  CHECK_THAT(
      problem(kBase + "sweep: {parallel.tensor: [x, 2], parallel.tensr: [1, 2]}\n"),
      Catch::StartsWith(
          "study.yaml:5:34: parallel.tensr: unknown key (did you mean tensor?); this map takes: "));
  CHECK(problem(kBase + "framework: jax\nsweep: {parallel.tensor: [1, 2]}\n")
            .starts_with("study.yaml:5:12: framework.name: no software profile is named 'jax'"));
  CHECK(problem("model: gpt3-175b\ncluster: dgx-a100-80g\ntraining: {global_batch: 8}\nsweep: "
                "{model.layers: [1, 2]}\n") ==
        "study.yaml:4:9: model: is 'gpt3-175b', at study.yaml:1:8; it has no 'layers' to set");
  const ScratchFolder folder;
  write_text(folder / "study.yaml", kBase);
  CHECK(run({"sweep", folder / "study.yaml"}) == kWrongInput);
  write_text(folder / "study.yaml", kBase + "sweep: {parallel.pipeline: [3, 5]}\n");
  CHECK(run({"sweep", folder / "study.yaml"}) == kWrongInput);
}

TEST_CASE("options win over the block, and the fidelity is analytic unless something says other") {
  const ScratchFolder folder;
  const std::string text =
      kBase + "sweep: {parallel.tensor: [1, 2], parallel.pipeline: [1, 2, 4]}\n";
  Json json = swept(folder, text);
  CHECK(json["fidelity"] == "analytic");
  CHECK(json["num_points"] == 6);
  json = swept(folder, text,
               {"--set", "parallel.pipeline=4", "--set", "cluster.nodes=1", "--fidelity", "fluid"});
  CHECK(json["fidelity"] == "fluid");
  CHECK(json["keys"] == Json::array({"parallel.tensor"}));
  CHECK(json["num_points"] == 2);
  CHECK(json["points"][0]["num_ranks"] == 8);
  // An option under a swept key replaces a part of each value.
  json = swept(folder,
               kBase +
                   "sweep: {cluster: [{preset: dgx-a100-80g, nodes: 1}, {preset: dgx-a100-80g, "
                   "nodes: 4}]}\n",
               {"--set", "cluster.nodes=2"});
  CHECK(json["points"][0]["num_ranks"] == 16);
  CHECK(json["points"][1]["num_ranks"] == 16);
  CHECK(swept(folder, kBase + "fidelity: step\nsweep: {parallel.tensor: [1, 2]}\n")["fidelity"] ==
        "step");
}

TEST_CASE("sweep.csv has a column per key and quotes what has commas and quotes") {
  SweepTable table;
  table.study = "s.yaml";
  table.keys = {"model", "parallel.tensor"};
  SweepPoint fits;
  fits.values = {"{preset: a, layers: 2}", "8"};
  fits.iteration_time = 0.1;
  fits.tokens_per_s = 1000;
  fits.peak_memory = Bytes{3} << 29U;  // 1.5 GiB
  fits.num_ranks = 8;
  fits.program_digest = "abc";
  fits.may_fit = true;
  SweepPoint refused;
  refused.values = {"'a \"b\"'", "3"};
  refused.status = PointStatus::kRefused;
  refused.reason = "s.yaml:1:1: 3 does not divide, 2 does";
  table.points = {fits, refused};
  CHECK(sweep_csv(table) ==
        "point,model,parallel.tensor,status,exit,reason,iteration_time_s,tokens_per_s,tflops_per_"
        "gpu,mfu,"
        "peak_memory_max_gib,fits,bubble_fraction,exposed_communication_fraction,num_ranks,program_"
        "digest,may_fit\n"
        "0,\"{preset: a, layers: 2}\",8,fits,0,,0.1,1000.0,0.0,0.0,1.5,true,0.0,0.0,8,abc,true\n"
        "1,\"'a \"\"b\"\"'\",3,refused,2,\"s.yaml:1:1: 3 does not divide, 2 does\",,,,,,,,,,,\n");
}

TEST_CASE("the two orders are by step time and by tokens per GPU") {
  SweepTable table;
  table.keys = {"n"};
  // 1 s on 8 GPUs, 0.6 s on 16: the second is faster, the first has more tokens/s per GPU.
  for (const auto& [time, ranks] : {std::pair(1.0, 8), std::pair(0.6, 16), std::pair(1.0, 8)}) {
    SweepPoint point;
    point.values = {"x"};
    point.iteration_time = time;
    point.tokens_per_s = 1000 / time;
    point.num_ranks = ranks;
    table.points.push_back(point);
  }
  CHECK(fastest(table) == std::vector<std::size_t>{1, 0, 2});
  CHECK(most_per_gpu(table) == std::vector<std::size_t>{0, 2, 1});
  table.points[1].status = PointStatus::kMisfit;
  CHECK(fastest(table) == std::vector<std::size_t>{0, 2});
}

TEST_CASE("the terminal's tables take the unit of each value") {
  SweepTable table;
  table.keys = {"n"};
  // Minutes on a few devices, milliseconds on many, of hardly any FLOP and memory.
  for (const auto& [time, tflops, memory] : {std::tuple(1115.234624, 168.84, Bytes{60} << 30U),
                                             std::tuple(0.0652, 0.0409, Bytes{3} << 20U)}) {
    SweepPoint point;
    point.values = {"x"};
    point.iteration_time = time;
    point.tflops_per_gpu = tflops;
    point.peak_memory = memory;
    point.num_ranks = 2;
    table.points.push_back(point);
  }
  const std::string text = sweep_text(table, 10);
  CAPTURE(text);
  for (const char* words : {" 18.587 min ", " 65.200 ms ", " 168.8 TFLOP/s ", " 40.90 GFLOP/s ",
                            " 60.00 GiB ", " 3.000 MiB "})
    CHECK(text.find(words) != std::string::npos);
  CHECK(text.find("GPU") == std::string::npos);
}

}  // namespace trainyard::sweep_command_test
