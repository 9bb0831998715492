// What every answer says of a plan whose memory is closer to the device's than predictions are
// known to be off.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "app/simulation.h"
#include "report/report.h"
#include "report/summary.h"
#include "study/study_writer.h"
#include "tests/support/studies.h"

namespace trainyard::may_fit_test {

namespace {

using Json = nlohmann::ordered_json;

Bytes largest_total(const Summary& summary) {
  Bytes largest = 0;
  for (const MemoryPeak& peak : summary.peak_memory) largest = std::max(largest, peak.total);
  return largest;
}

/// The plan on devices of which its fullest rank needs `share`.
Simulation simulated(Prepared& prepared, double share) {
  prepared.hardware.memory_reserved = 0;
  prepared.hardware.memory_capacity = Bytes{1} << 40;
  RunOptions options;
  options.record_rows = false;
  const auto answer = [&] { return std::get<Simulation>(simulate(prepared, options)); };
  const Bytes total = largest_total(answer().summary);
  prepared.hardware.memory_capacity = std::llround(static_cast<double>(total) / share);
  return answer();
}

Prepared study(const std::string& framework = "trainyard") {
  return prepare_text(
      "model: {family: gpt, layers: 4, hidden: 256, heads: 4, vocab: 1000, seq_len: 128}\n"
      "cluster: dgx-a100-80g\nparallel: {pipeline: 2, data: 2}\n"
      "training: {global_batch: 16, precision: fp16}\nframework: " +
      framework + "\n");
}

}  // namespace

TEST_CASE("a total within the known error of the capacity may fit, and every answer says so") {
  Prepared prepared = study();
  const double error = prepared.memory_error.value;
  REQUIRE(error > 0.02);
  REQUIRE(error < 0.3);
  struct Row {
    double share;
    bool fits, may_fit;
  };
  for (const Row& row :
       {Row{0.5, true, false}, Row{1 - 1.1 * error, true, false}, Row{1 - 0.9 * error, true, true},
        Row{1 / (1 - 0.9 * error), false, true}, Row{1.5, false, false}}) {
    CAPTURE(row.share);
    const Simulation answer = simulated(prepared, row.share);
    const Json json = Json::parse(summary_json(answer.summary, 1));
    CHECK(json["fits"] == row.fits);
    CHECK(json["may_fit"] == row.may_fit);
    CHECK(json["memory_error"] == error);
    const std::string text = summary_text(answer.summary, prepared.study, 1);
    CHECK((text.find("may fit: the total of pipeline rank ") != std::string::npos) == row.may_fit);
    const std::string page = report_html(
        {"out", resolved_study_text(prepared.study), summary_json(answer.summary, 1), ""}, nullptr);
    CHECK((page.find("\"may_fit\":true") != std::string::npos) == row.may_fit);
  }
}

TEST_CASE("a page of a version that did not know may_fit can still be made") {
  Prepared prepared = study();
  Json json = Json::parse(summary_json(simulated(prepared, 0.5).summary, 1));
  json.erase("may_fit");
  json.erase("memory_error");
  CHECK(report_html({"out", resolved_study_text(prepared.study), json.dump(), ""}, nullptr)
            .find("\"may_fit\"") == std::string::npos);
}

TEST_CASE(
    "what the allocator keeps is said beside the peak, as far as there is room, and never needed") {
  Prepared prepared = study("megatron-deepspeed");
  prepared.software.cached_gib = 6;
  for (const double share : {0.5, 0.9, 1.5}) {
    CAPTURE(share);
    const Summary summary = simulated(prepared, share).summary;
    const Json json = Json::parse(summary_json(summary, 1));
    // Six GiB and more; a rank needs 3 GiB of context and some MiB, so that even half of a device
    // is no more than that.
    for (std::size_t rank = 0; rank < summary.peak_memory.size(); ++rank) {
      const Bytes room = summary.memory_capacity - summary.peak_memory[rank].total;
      CHECK(json["cached_memory_bytes"][rank] == std::max<Bytes>(0, room));
    }
    CHECK(json["fits"] == (share <= 1));
  }
  Prepared ours = study();
  // On a CPU there is no such allocator, and of a GPU's a replay of the requests tells.
  const Json replayed = Json::parse(summary_json(simulated(ours, 1.5).summary, 1));
  REQUIRE(replayed.contains("cached_memory_bytes"));
  for (const Json& cached : replayed["cached_memory_bytes"]) {
    CHECK(cached.get<Bytes>() >= 0);
    CHECK(cached.get<Bytes>() < Bytes{1} << 30);  // of a model this small
  }
}

}  // namespace trainyard::may_fit_test
