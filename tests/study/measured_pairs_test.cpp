// cluster.pairs: the file, what is wrong with one at its place, and the mesh that follows from it.
#include "study/measured_pairs.h"

#include <catch2/catch.hpp>
#include <string>

#include "study/study_writer.h"
#include "tests/study/study_fixture.h"
#include "tests/support/scratch_folder.h"

namespace trainyard::measured_pairs_test {

namespace {

/// The machine of MAP's figure 5: NVLink between the two devices of a pair, PCIe between the two
/// pairs of a socket, and half of that between sockets.
std::string map_machine() {
  std::string text = "devices: 8\npairs:\n";
  for (int a = 0; a < 8; ++a) {
    for (int b = a + 1; b < 8; ++b) {
      const std::string beta = a / 2 == b / 2 ? "5e-12" : a / 4 == b / 4 ? "5e-11" : "1e-10";
      text += "  \"" + std::to_string(b) + "," + std::to_string(a) + "\": [2e-5, " + beta + "]\n";
    }
  }
  return text;
}

std::string study(const std::string& file) {
  return "model: gpt-tiny\ncluster: {preset: box, pairs: \"" + file +
         "\"}\nparallel: {tensor: 8, tensor_method: map}\ntraining: {global_batch: 512}\n";
}

}  // namespace

TEST_CASE("pairs that were measured make the mesh of method map") {
  const ScratchFolder folder;
  write_text(folder / "pairs.yaml", map_machine());
  const Study measured = read(study(folder / "pairs.yaml"));
  // All pairs of a box are alike to its links: two axes as equal as they can be.
  CHECK(read(study(folder / "pairs.yaml"), {"cluster.pairs=null"}).parallel.tensor_mesh ==
        std::vector<int>{2, 4});
  CHECK(measured.parallel.tensor_mesh == std::vector<int>{2, 2, 2});
  CHECK(measured.origins.at("parallel.tensor_method.mesh").note ==
        "levels of the pairs that were measured");
  CHECK(measured.cluster.pairs[0][7].beta == 1e-10);
  CHECK(measured.cluster.pairs[7][0].alpha == 2e-5);
  // A group of four has those of its own devices.
  CHECK(read(study(folder / "pairs.yaml"), {"parallel.tensor=4"}).parallel.tensor_mesh ==
        std::vector<int>{2, 2});
  const Study again = read(resolved_study_text(measured));
  CHECK(again.cluster.pairs_file == folder / "pairs.yaml");
  CHECK(again.parallel == measured.parallel);
}

TEST_CASE("pairs that no mesh is made of warn") {
  const ScratchFolder folder;
  write_text(folder / "pairs.yaml", map_machine());
  const auto warnings = [&](const std::vector<std::string>& sets) {
    return read(study(folder / "pairs.yaml"), sets).warnings;
  };
  const std::string unused = "cluster.pairs is not used: a mesh is made of them for ";
  const std::string links = ", and simulated times are those of the links";
  CHECK(warnings({}).empty());
  CHECK(warnings({"parallel.tensor_method=megatron"}) ==
        std::vector<std::string>{unused + "tensor_method map" + links});
  CHECK(warnings({"parallel.tensor=1", "parallel.tensor_method=megatron"}) ==
        std::vector<std::string>{unused + "tensor above 1" + links});
}

TEST_CASE("what is wrong with a file of pairs is said at its place") {
  const ScratchFolder folder;
  const std::string file = folder / "pairs.yaml";
  const auto said = [&](const std::string& text) {
    write_text(file, text);
    const std::string error = error_of(study(file));
    return error.starts_with(file + ":") ? error.substr(file.size() + 1) : error;
  };
  CHECK(said("devices: 2\npairs: {}\n") == "2:8: pairs: the pair \"0,1\" is missing");
  CHECK(said("devices: 2\npairs: {\"0,2\": [1, 1]}\n") ==
        "2:16: pairs.0,2: '2' is none of the devices");
  CHECK(said("devices: 2\npairs: {\"0,1\": [1, 1], \"1,0\": [1, 2]}\n") ==
        "2:31: pairs.1,0: this pair has been said before");
  CHECK(said("devices: 2\npairs: {\" 0 , 1 \": [1, 1]}\n") ==
        "2:20: pairs. 0 , 1 : ' 0 ' is none of the devices");
  CHECK(said("devices: 2\npairs: {\"0,1\": [-1, 1]}\n") ==
        "2:17: pairs.0,1[0]: expected at least 0, got -1");
  CHECK(said("devices: 2\npairs: {\"0,1\": [1, 0]}\n") ==
        "2:20: pairs.0,1[1]: expected more than 0, got 0");
  CHECK(said("devices: 2\npairs: {\"0,1\": [1]}\n") ==
        "2:16: pairs.0,1: expected [alpha, beta], got 1 numbers");
  CHECK(said("devices: 1\npairs: {}\n") == "1:10: devices: expected at least 2, got 1");
  CHECK_THAT(said("devices: 2\npairs: {\"0,1\": [1, 1]}\nmore: 1\n"), Catch::Contains("3:1: more"));
  CHECK(said("devices: 2\npairs: {\"0,1\": [1, 1]}\n") ==
        "study.yaml:2:31: cluster.pairs: has pairs of 2 devices, and the cluster has 8");
  CHECK_THAT(error_of(study(folder / "none.yaml")),
             Catch::StartsWith("study.yaml:2:31: cluster.pairs: ") &&
                 Catch::Contains("none.yaml: cannot open"));
  CHECK(error_of(study("")) ==
        "study.yaml:2:31: cluster.pairs: expected the path of a file, got nothing");
}

}  // namespace trainyard::measured_pairs_test
