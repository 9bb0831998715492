// What a terminal shows of a step: units that fit, words that are true of the device, names of
// models.
#include <catch2/catch.hpp>
#include <regex>
#include <string>

#include "report/summary.h"
#include "tests/support/simulated.h"

namespace trainyard::summary_text_test {

namespace {

std::string text_of(const std::string& study, const std::vector<std::string>& sets = {}) {
  const Simulated simulated = simulate_text(study, true, sets);
  return summary_text(simulated.result.summary, simulated.prepared.study, 0.1);
}

const std::string kTinyOnCpu =
    "model: {family: gpt, layers: 2, hidden: 128, heads: 4, vocab: 64, seq_len: 64}\n"
    "cluster: {preset: local, ranks: 2}\n"
    "training: {global_batch: 32, microbatch: 16, precision: fp32, dropout: 0}\n";

/// GPT-3 175B written out.
const std::string kGpt3 =
    "model: {family: gpt, layers: 96, hidden: 12288, heads: 96, vocab: 51200, seq_len: 2048}\n"
    "cluster: {preset: dgx-a100-80g, nodes: 8}\nparallel: {tensor: 8, pipeline: 8, data: 1}\n"
    "training: {global_batch: 8, microbatch: 1, precision: bf16}\nfidelity: analytic\n";

}  // namespace

TEST_CASE("a small model on CPUs is told in units that show it") {
  const std::string text = text_of(kTinyOnCpu);
  CAPTURE(text);
  CHECK(text.find("GPU") == std::string::npos);
  CHECK(text.find("per device") != std::string::npos);
  CHECK(text.find("GFLOP/s of the model") != std::string::npos);
  CHECK(text.find("1 microbatch of 16") != std::string::npos);
  CHECK(text.starts_with("gpt of 2 layers, hidden 128, "));
  // 0.4 M parameters of 4 bytes are 1.6 MiB: not 0.00.
  CHECK(text.find("memory per device, peak, MiB") != std::string::npos);
  CHECK(std::regex_search(text, std::regex("\n +0 +[0-9.]+ +1\\.5[0-9] +1\\.5[0-9] ")));
  CHECK_FALSE(std::regex_search(text, std::regex("[^0-9.]0\\.0+ (T|G|M)?(FLOP/s|iB|B/s|us|ms)")));
}

TEST_CASE("numbers of links stand below each other, however long a link's name is") {
  Simulated simulated = simulate_text(kGpt3, true);
  LinkLoad link;
  link.name = "a short one";
  link.bytes = 1 << 20;
  link.busy_fraction = 0.25;
  simulated.result.summary.links = {link, link};
  simulated.result.summary.links[1].name = std::string(60, 'x');
  const std::string text = summary_text(simulated.result.summary, simulated.prepared.study, 0.1);
  CAPTURE(text);
  const std::size_t first = text.find("25.00 %"), second = text.find("25.00 %", first + 1);
  const auto column = [&](std::size_t at) { return at - text.rfind('\n', at); };
  REQUIRE(second != std::string::npos);
  CHECK(column(first) == column(second));
  // The head ends where its numbers end.
  const std::size_t head = text.find("busy  shared");
  REQUIRE(head != std::string::npos);
  CHECK(column(head) + 4 == column(first) + 7);
}

TEST_CASE("a model that has a preset's numbers has its name") {
  CHECK(text_of(kGpt3).starts_with("gpt3-175b, 174.6"));
  CHECK(text_of(kGpt3, {"model.seq_len=4096"}).starts_with("gpt3-175b, "));
  CHECK(text_of(kGpt3, {"model.layers=48"}).starts_with("gpt of 48 layers, hidden 12288, "));
  CHECK(text_of(kGpt3, {"model.name=mine"}).starts_with("mine, "));
}

TEST_CASE("amounts of bytes have one kind of unit, and both counts of FLOP say what they count") {
  const std::string text = text_of(kGpt3, {"fidelity=fluid"});
  CAPTURE(text);
  CHECK_FALSE(std::regex_search(text, std::regex("[kMGT]B( |\n)")));
  CHECK(text.find("bytes per step") != std::string::npos);
  CHECK(text.find("TFLOP/s of the model (attention as the full square), MFU ") !=
        std::string::npos);
  CHECK(text.find("TFLOP/s executed (recomputation in, without what flash attention masks)") !=
        std::string::npos);
}

}  // namespace trainyard::summary_text_test
