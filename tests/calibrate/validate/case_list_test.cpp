// A list of cases: what is read beside the study, and how a broken case stays one case.
#include "calibrate/validate/case_list.h"

#include <catch2/catch.hpp>
#include <map>

#include "tests/support/source_root.h"

namespace trainyard::case_list_test {

TEST_CASE("a family is the source up to its row or line") {
  CHECK(source_family("truth.csv row 1221") == "truth.csv");
  CHECK(source_family("notes.md line 7 row 3") == "notes.md");
  CHECK(source_family("a row of tables") == "a");
  CHECK(source_family("throughput, outline 2") == "throughput, outline 2");
}

TEST_CASE("annotations are read, and what a case does not say is not there") {
  const auto cases =
      read_cases(YamlNode::parse("- id: a\n"
                                 "  source: truth.csv row 3\n"
                                 "  framework: {name: megatron-lm, version: '2022'}\n"
                                 "  suspect: slower than its neighbours\n"
                                 "  cluster: {gpu: a100-sxm-80g, gpus: 16}\n"
                                 "  measured: {iteration_time_s: 1.5, peak_memory_gib: 30}\n"
                                 "- framework: nemo\n"
                                 "  cluster: dgx-a100\n"
                                 "  measured: {iteration_time_s: null, peak_memory_gib: 30}\n",
                                 "cases.yaml"));
  REQUIRE(cases.size() == 2);
  const CaseFacts& a = cases[0].facts;
  CHECK(a.id == "a");
  CHECK(a.place == "cases.yaml:1:3");
  CHECK(a.family == "truth.csv");
  CHECK(a.framework == "megatron-lm");
  CHECK(a.framework_version == "2022");
  CHECK(a.suspect == "slower than its neighbours");
  CHECK(a.device == "a100-sxm-80g");
  CHECK(a.num_gpus == 16);
  CHECK(a.iteration_time == 1.5);
  CHECK(a.peak_memory_gib == 30);
  const CaseFacts& b = cases[1].facts;
  CHECK(b.id == "case 2");
  CHECK(b.framework == "nemo");
  CHECK(b.device.empty());
  CHECK(b.suspect.empty());
  CHECK_FALSE(b.iteration_time);
  CHECK(cases[1].problem.empty());
}

TEST_CASE("what is wrong with one case is said of that case, at its place") {
  const auto cases =
      read_cases(YamlNode::parse("- id: fine\n"
                                 "  measured: {iteration_time_s: 2}\n"
                                 "- just text\n"
                                 "- id: nothing measured\n"
                                 "- id: empty\n"
                                 "  measured: {}\n"
                                 "- id: no time\n"
                                 "  measured: {iteration_time_s: 0}\n"
                                 "- id: words\n"
                                 "  measured: {iteration_time_s: fast}\n"
                                 "- id: no slower than light\n"
                                 "  measured: {iteration_time_s: 1e-300}\n"
                                 "- id: more than there is\n"
                                 "  measured: {peak_memory_gib: 1e10}\n"
                                 "- id: the ends\n"
                                 "  measured: {iteration_time_s: 1e-9, peak_memory_gib: 1e9}\n",
                                 "cases.yaml"));
  REQUIRE(cases.size() == 9);
  CHECK(cases[0].problem.empty());
  CHECK(cases[1].problem == "cases.yaml:3:3: [1]: expected a case: a study, and what was measured");
  CHECK(cases[2].problem == "cases.yaml:4:3: [2]: missing required key 'measured'");
  CHECK(cases[3].problem ==
        "cases.yaml:6:13: [3].measured: expected iteration_time_s, peak_memory_gib, or both");
  CHECK(cases[4].problem ==
        "cases.yaml:8:32: [4].measured.iteration_time_s: expected 1.0e-09 to 1.0e+09, got 0");
  CHECK(cases[5].problem ==
        "cases.yaml:10:32: [5].measured.iteration_time_s: expected a finite number, got 'fast'");
  // An error in per cent of such a figure would have 300 digits.
  CHECK(
      cases[6].problem ==
      "cases.yaml:12:32: [6].measured.iteration_time_s: expected 1.0e-09 to 1.0e+09, got 1.0e-300");
  CHECK(cases[7].problem ==
        "cases.yaml:14:31: [7].measured.peak_memory_gib: expected 1.0e-09 to 1.0e+09, got 1.0e+10");
  CHECK(cases[8].problem.empty());
}

TEST_CASE("a memory figure says which of three it is, or does not") {
  const auto cases =
      read_cases(YamlNode::parse("- measured: {peak_memory_gib: 30, memory_kind: reserved}\n"
                                 "- measured: {peak_memory_gib: 30}\n"
                                 "- measured: {peak_memory_gib: 30, memory_kind: nvidia-smi}\n",
                                 "cases.yaml"));
  CHECK(cases[0].facts.memory_kind == MemoryKind::kReserved);
  CHECK_FALSE(cases[1].facts.memory_kind);
  CHECK(cases[2].problem ==
        "cases.yaml:3:48: [2].measured.memory_kind: unknown kind of memory 'nvidia-smi'; this "
        "version has "
        "allocated, reserved and driver");
}

TEST_CASE("a file that is no list of cases is refused whole") {
  CHECK_THROWS_WITH(read_cases(YamlNode::parse("id: a\n", "cases.yaml")),
                    "cases.yaml:1:1: expected a list of cases, each a study");
  CHECK_THROWS_WITH(read_cases(YamlNode::parse("[]\n", "cases.yaml")),
                    "cases.yaml:1:1: expected at least one case");
}

TEST_CASE("the published runs: 477 cases, 82 with memory, 22 suspect, every one readable") {
  const auto cases = read_cases(source_root() + "/calibrate/published/runs.yaml");
  std::map<MemoryKind, int> kinds;
  std::size_t memory = 0, suspect = 0, problems = 0, times = 0;
  for (const PublishedCase& one : cases) {
    memory += one.facts.peak_memory_gib ? 1 : 0;
    times += one.facts.iteration_time ? 1 : 0;
    if (one.facts.memory_kind) ++kinds[*one.facts.memory_kind];
    suspect += one.facts.suspect.empty() ? 0 : 1;
    problems += one.problem.empty() ? 0 : 1;
  }
  CHECK(cases.size() == 477);
  CHECK(times == 477);
  CHECK(memory == 82);
  CHECK(suspect == 22);
  CHECK(problems == 0);
  // BigScience's pages give the driver's figure, torchtitan prints what its allocator reserves.
  CHECK(kinds == std::map<MemoryKind, int>{{MemoryKind::kReserved, 14}, {MemoryKind::kDriver, 42}});
}

}  // namespace trainyard::case_list_test
