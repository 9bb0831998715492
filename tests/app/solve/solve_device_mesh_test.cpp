// `solve`: the mesh that devices make, of pairs given, measured or asked of a cluster's links.
#include "tests/support/golden.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/solve_answers.h"

namespace trainyard::solve_device_mesh_test {

using Json = nlohmann::ordered_json;

TEST_CASE("a mesh of devices is a list of lists, one level per axis") {
  const auto golden = golden_json("alpha_beta_mesh_search.json");
  Json problem = {{"problem", "device-mesh"},
                  {"devices", golden.at("cases")[0].at("devices")},
                  {"pairs", golden.at("alpha_beta_pairs")}};
  for (const char* rules : {"levels", "colossal"}) {
    problem["rules"] = rules;
    const Json a = answer(problem.dump());
    CHECK(a["mesh"].dump() == "[[0,1],[4,5]]");
    CHECK(a["shape"].dump() == "[2,2]");
    CHECK_FALSE(a.contains("balanced"));
  }
  CHECK(answer("{problem: device_mesh, devices: 2, pairs: {\"1,0\": [1, 2]}}").dump() ==
        R"({"mesh":[[0,1]],"shape":[1,2],"alpha":[0.0,1.0],"beta":[0.0,2.0]})");
  CHECK(problem_of("{problem: device-mesh, devices: 3, rules: colossal, pairs: {}}") ==
        "p.yaml:1:33: devices: Colossal-AI's rule takes a power of two of devices, not 3");
  CHECK(problem_of("{problem: device-mesh, devices: 3, pairs: {\"0,1\": [1, 1]}}") ==
        "p.yaml:1:43: pairs: the pair \"0,2\" is missing");
  CHECK(problem_of("{problem: device-mesh, devices: 2, pairs: {\"0,2\": [1, 1]}}")
            .ends_with("'2' is none of the devices"));
  CHECK(problem_of("{problem: device-mesh, devices: 2, pairs: {\"0,1\": [1, 1], \"1,0\": [1, 1]}}")
            .ends_with("this pair has been said before"));
  CHECK(problem_of("{problem: device-mesh, devices: 2, pairs: {\"0,1\": [1, 0]}}")
            .ends_with("expected more than 0, got 0"));
}

TEST_CASE("a mesh is that of a cluster's links, or of a file of pairs") {
  // Two sockets, and bridges between devices 0 and 1, 2 and 3 and so on, as in MAP's figure 5.
  const std::string cluster =
      "cluster: {preset: nvlink-pairs-8x-a100, host: {sockets: 2, memory: 204.8 GB/s, link: 10 "
      "GB/s}}";
  CHECK(answer("{problem: device-mesh, " + cluster + "}")["mesh"].dump() ==
        "[[[0,1],[2,3]],[[4,5],[6,7]]]");
  CHECK(answer("{problem: device-mesh, " + cluster + ", devices: [2, 3, 6, 7]}")["mesh"].dump() ==
        "[[2,3],[6,7]]");
  CHECK(problem_of("{problem: device-mesh, cluster: dgx-a100-80g, devices: 9}") ==
        "p.yaml:1:56: devices: expected at most 8, got 9");
  CHECK(problem_of("{problem: device-mesh, cluster: dgx-a100-80g, pairs: {}}")
            .ends_with("are what the cluster's links take; leave one of them out"));
  const ScratchFolder folder;
  write_text(folder / "pairs.yaml",
             "devices: 4\npairs: {\"0,1\": [1, 1], \"2,3\": [1, 1], \"0,2\": [1, 9], \"0,3\": "
             "[1, 9], \"1,2\": [1, 9], \"1,3\": [1, 9]}\n");
  const std::string file = ", pairs: \"" + (folder / "pairs.yaml") + "\"}";
  const Json measured = answer("{problem: device-mesh" + file);
  CHECK(measured["mesh"].dump() == "[[0,1],[2,3]]");
  CHECK(measured["beta"].dump() == "[9.0,1.0]");
  CHECK(answer("{problem: device-mesh, devices: [1, 3]" + file)["mesh"].dump() == "[[1,3]]");
  CHECK(problem_of("{problem: device-mesh, devices: 5" + file) ==
        "p.yaml:1:33: devices: expected at most 4, got 5");
}

TEST_CASE("a problem has room for the pairs of as many devices as a mesh may have") {
  constexpr int kMost = 350;
  std::string devices = "0", pairs;
  for (int a = 0; a < kMost; ++a) {
    if (a > 0) devices += ", " + std::to_string(a);
    for (int b = a + 1; b < kMost; ++b) {
      pairs += pairs.empty() ? "\"" : ", \"";
      pairs += std::to_string(a) + "," + std::to_string(b) + "\": [1, 1]";
    }
  }
  CHECK(
      answer("{problem: device-mesh, devices: [" + devices + "], pairs: {" + pairs + "}}")["shape"]
          .is_array());
  CHECK(problem_of("{problem: device-mesh, devices: 351, pairs: {}}")
            .ends_with("devices: expected at most 350, got 351"));
}

}  // namespace trainyard::solve_device_mesh_test
