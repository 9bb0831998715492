// `solve`: hierarchical-matrix and atp-mesh, against the paper's figures and by hand.
#include <catch2/catch.hpp>
#include <fstream>

#include "tests/support/solve_answers.h"

namespace trainyard::solve_atp_test {

namespace {

using Json = nlohmann::ordered_json;

Json golden() {
  std::ifstream file(TRAINYARD_SOURCE_DIR "/tests/golden/atp_mesh_choice.json");
  REQUIRE(file.good());
  return Json::parse(file).at("cases");
}

const Json& mesh_named(const Json& answer, const std::string& name) {
  for (const Json& mesh : answer.at("meshes")) {
    if (mesh.at("name") == name) return mesh;
  }
  FAIL("no mesh " << name);
  return answer;
}

const std::string kFig7 =
    "{problem: atp-mesh, matrix: [{units: 4, group: 25, between: 25}, {units: 4, group: 600, "
    "between: 200}]";

}  // namespace

TEST_CASE("atp-mesh answers Fig. 12: links of devices that are all joined alike") {
  int meshes = 0;
  const Json cases = golden();
  for (const Json& one : cases.at("IC5_IC6_uniform_G1 (Eq. of sec 5.4; Fig 12)")) {
    const auto ranks = one.at("N").get<int>();
    const Json found =
        answer("{problem: atp-mesh, matrix: [{units: " + std::to_string(ranks) + ", group: 1}]}");
    CHECK(found.at("meshes").size() == one.at("values").size());
    for (const auto& [name, value] : one.at("values").items()) {
      CAPTURE(ranks, name);
      CHECK(mesh_named(found, name).at("relative").get<double>() ==
            Approx(value.get<double>()).epsilon(1e-6));
      // (14 d2 + 4 d1 - 18) / N, section 5.4.
      const double d2 = mesh_named(found, name).at("mesh")[1], d1 = ranks / d2;
      CHECK(mesh_named(found, name).at("relative").get<double>() ==
            Approx((14 * d2 + 4 * d1 - 18) / ranks).epsilon(1e-12));
      ++meshes;
    }
    CHECK(found.at("name") == one.at("opt"));
    CHECK(found.at("relative").get<double>() ==
          Approx(one.at("opt_value").get<double>()).epsilon(1e-6));
  }
  CHECK(meshes == 65);
}

TEST_CASE("atp-mesh answers IC1 by its measured bandwidths: 45.5 % less than one axis") {
  const Json of = golden().at("IC1_calibrated");
  const Json found =
      answer("{problem: atp-mesh, measured: {2x4: [1.20, 4.95], 8x1: [0.97, null]}}");
  CHECK(found.at("best") == Json::parse("[2, 4]"));
  CHECK(found.at("relative").get<double>() ==
        Approx(of.at("mesh(2,4) B1=1.20 B2=4.95").get<double>()).epsilon(1e-6));
  CHECK(mesh_named(found, "ATP-1").at("relative").get<double>() ==
        Approx(of.at("mesh(8,1) B1=0.97").get<double>()).epsilon(1e-6));
  CHECK(found.at("saved").get<double>() == Approx(of.at("reduction").get<double>()).margin(0.0005));
}

TEST_CASE("atp-mesh answers Fig. 7 (a), from its matrix and from its cluster") {
  const std::string cluster =
      "{problem: atp-mesh, cluster: {device: a100-sxm-80g, nodes: 4, devices_per_node: 4, intra: "
      "{kind: nvlink, bandwidth: 600 GB/s}, inter: {kind: infiniband, bandwidth: 200 Gbit/s}}}";
  const Json cases = golden();
  for (const Json& found : {answer(kFig7 + "}"), answer(cluster)}) {
    int meshes = 0;
    for (const Json& one :
         cases.at("Fig7a_16gpu_two_layer (my evaluation of Eq.3; paper states only mesh(8,2): "
                  "B2p=200, B1p=12.5)")) {
      const Json& mesh = mesh_named(found, "ATP-" + std::to_string(one.at("mesh")[1].get<int>()));
      CAPTURE(mesh.dump());
      CHECK(mesh.at("relative").get<double>() == Approx(one.at("T").get<double>()).epsilon(1e-6));
      for (const auto& [key, name] :
           {std::pair{"B1p", "B1_links"}, {"B2p", "B2_links"}, {"B1", "B1"}, {"B2", "B2"}}) {
        CHECK(mesh.at(name).is_null() == one.at(key).is_null());
        if (!one.at(key).is_null())
          CHECK(mesh.at(name).get<double>() == Approx(one.at(key).get<double>()).epsilon(1e-9));
      }
      ++meshes;
    }
    CHECK(meshes == 5);
    CHECK(found.at("best") == Json::parse("[4, 4]"));
  }
}

TEST_CASE("exact equations: backward as it is, links shared by the groups that pass them") {
  const Json found = answer(kFig7 + ", equations: exact}");
  // (2, 8): of the 8 groups of the first axis 4 have ranks in a node, whose 25 GB/s they share:
  // 25 / 4, times d1 / (2 (d1 - 1)) = 1. The second axis has one group in a node: 25, times 8 / 14.
  const Json& mesh = mesh_named(found, "ATP-8");
  CHECK(mesh.at("B1").get<double>() == Approx(6.25));
  CHECK(mesh.at("B2").get<double>() == Approx(25.0 * 8 / 14));
  // Forward 7 h / d1 and 2 h / d2, backward 5 and 2; half of the sum.
  CHECK(mesh.at("relative").get<double>() ==
        Approx(6 / (2 * 25.0 * 8 / 14) + 2 / (8 * 6.25)).epsilon(1e-12));
  // The core's result and the gradient of q, k and v, 4 h / d1, as all-gathers: half of what
  // all-reduces of them would take. With them T is the paper's.
  CHECK(mesh.at("relative").get<double>() + mesh.at("gathers").get<double>() ==
        Approx(7 / (2 * 25.0 * 8 / 14) + 2 / (8 * 6.25)).epsilon(1e-12));
}

TEST_CASE("an axis of a mesh has what the pairs on it have") {
  const auto of = [](const std::string& between) {
    return "{problem: atp-mesh, matrix: [{units: 4, group: 100, between: " + between + "}]}";
  };
  const auto links = [](const Json& found, const std::string& name) {
    const Json& mesh = mesh_named(found, name);
    return std::pair{mesh.at("B1_links"), mesh.at("B2_links")};
  };
  // [2, 2]: 0 and 1, 2 and 3 are joined by 1, 0 and 2, 1 and 3 by 9. One axis: 1 + 9 + 9.
  const Json pairs = answer(of("[[0, 1, 9, 9], [1, 0, 9, 9], [9, 9, 0, 1], [9, 9, 1, 0]]"));
  CHECK(links(pairs, "ATP-2") == std::pair{Json(9.0), Json(1.0)});
  CHECK(links(pairs, "ATP-1") == std::pair{Json(19.0), Json(nullptr)});
  // A square; 0 and 3 by way of 1, of which the narrower link has 1: 9 + 1 + 1.
  const Json square = answer(of("[[0, 9, 1, 0], [9, 0, 0, 1], [1, 0, 0, 9], [0, 1, 9, 0]]"));
  CHECK(links(square, "ATP-2") == std::pair{Json(1.0), Json(9.0)});
  CHECK(links(square, "ATP-1") == std::pair{Json(11.0), Json(nullptr)});
  // The unit that has the least decides: 1 + 2 of unit 0, 1 + 7 and 2 + 7 of the others.
  const Json three = answer(
      "{problem: atp-mesh, matrix: [{units: 3, group: 8, between: [[0, 1, 2], [1, 0, 7], [2, 7, "
      "0]]}]}");
  CHECK(links(three, "ATP-1").first == 3.0);
  CHECK(answer(of("[[0, 5, 5, 5], [5, 0, 5, 5], [5, 5, 0, 5], [5, 5, 5, 0]]")).dump() ==
        answer(of("5")).dump());
  // A DGX-1V, six links of 25 GB/s a device: one between 0 and 1, as between 2 and 3, 4 and 5, 6
  // and 7. All eight: the six.
  const Json cube = answer("{problem: atp-mesh, cluster: {preset: dgx-1v, nodes: 1}}");
  CHECK(links(cube, "ATP-2").second == 25.0);
  CHECK(links(cube, "ATP-1").first == 150.0);
}

TEST_CASE("a matrix between units is square, symmetric, and joins all of them") {
  const auto problem = [](const std::string& between) {
    return problem_of("{problem: atp-mesh, matrix: [{units: 3, group: 100, between: " + between +
                      "}]}");
  };
  CHECK(problem("[[0, 1, 2], [1, 0, 1], [2, 1, 0]]") == "none");
  CHECK_THAT(problem("[[0, 1, 2], [1, 0, 1]]"),
             Catch::EndsWith(": matrix[0].between: expected a row for each of 3 units, got 2"));
  CHECK_THAT(
      problem("[[0, 1, 2], [1, 0], [2, 1, 0]]"),
      Catch::EndsWith(": matrix[0].between[1]: expected a bandwidth to each of 3 units, got 2"));
  CHECK_THAT(problem("[[0, 1, 2], [1, 4, 1], [2, 1, 0]]"),
             Catch::EndsWith(": matrix[0].between[1][1]: expected 0 between a unit and itself"));
  CHECK_THAT(
      problem("[[0, 1, 2], [1, 0, 1], [3, 1, 0]]"),
      Catch::EndsWith(": matrix[0].between[2][0]: expected what row 0 has for these two units, 2"));
  CHECK_THAT(problem("[[0, 1, 0], [1, 0, 0], [0, 0, 0]]"),
             Catch::EndsWith(
                 ": matrix[0].between: joins units 0 and 2 neither directly nor by way of others"));
}

TEST_CASE("atp-mesh says times where it knows the sizes, and what is wrong") {
  // 2 L b s h = 2 x 1 x 4 x 2048 x 4096 elements of 2 bytes, 0.124375 s per 1e9 of them.
  const Json found =
      answer(kFig7 + ", layers: 1, batch: 4, sequence: 2048, hidden: 4096, element_bytes: 2}");
  CHECK(found.at("time").get<double>() ==
        Approx(0.124375e-9 * 2 * 4 * 2048 * 4096 * 2).epsilon(1e-12));
  CHECK(answer(kFig7 + ", ranks: 4}").at("best") == Json::parse("[4, 1]"));
  CHECK(problem_of("{problem: atp-mesh}") ==
        "p.yaml:1:1: says no bandwidths; write matrix, cluster or measured");
  CHECK(problem_of(kFig7 + ", ranks: 17}") == "p.yaml:1:112: ranks: expected at most 16, got 17");
  CHECK(problem_of("{problem: atp-mesh, measured: {2x4: [1, 0]}}") ==
        "p.yaml:1:37: measured.2x4: an axis of one rank, and no other, has bandwidth 0");
  CHECK(problem_of("{problem: atp-mesh, measured: {2x4: [1, 1], 02x4: [1, 2]}}") ==
        "p.yaml:1:45: measured.02x4: expected a mesh such as 2x4, got '02x4'");
  CHECK(problem_of(kFig7 + ", layers: 1}") ==
        "p.yaml:1:1: says some of layers, batch, sequence and hidden; times need all four");
}

TEST_CASE("one device has the mesh [1, 1], which communicates nothing") {
  for (const char* from : {"cluster: {preset: local, ranks: 1}", "matrix: [{units: 1, group: 5}]",
                           "measured: {1x1: [0, 0]}"}) {
    const Json found = answer("{problem: atp-mesh, " + std::string(from) + "}");
    CAPTURE(found.dump());
    CHECK(found.at("best") == Json::parse("[1, 1]"));
    CHECK(found.at("relative") == 0.0);
    CHECK(found.at("meshes").size() == 1);
  }
}

TEST_CASE("bandwidths have a range in which answers are numbers") {
  const auto of = [](const std::string& group) {
    return "{problem: atp-mesh, matrix: [{units: 2, group: " + group + "}]}";
  };
  // [2, 1]: d / (2 (d - 1)) = 1, T = 2 / group.
  CHECK(answer(of("1e100")).at("relative").get<double>() == Approx(2e-100).epsilon(1e-12));
  CHECK(answer(of("1e-100")).at("relative").get<double>() == Approx(2e100).epsilon(1e-12));
  for (const char* group : {"1e308", "1e101", "0", "1e-101", "-1"}) {
    CHECK_THAT(problem_of(of(group)),
               Catch::EndsWith("group: expected GB/s, from 1e-100 to 1e100"));
  }
  CHECK_THAT(problem_of("{problem: atp-mesh, measured: {2x1: [1e308, 0]}}"),
             Catch::EndsWith("measured.2x1[0]: expected GB/s, 0 or from 1e-100 to 1e100"));
}

TEST_CASE("hierarchical-matrix answers the levels of a preset") {
  const Json found =
      answer("{problem: hierarchical-matrix, cluster: {preset: dgx-a100-80g, nodes: 2}}");
  CHECK(found.at("devices") == 16);
  CHECK(found.at("levels")[0] ==
        Json::parse(R"({"unit": "node", "units": 2, "devices": 8, "group": 200.0, "between": 200.0,
                        "point_to_point": [[0.0, 200.0], [200.0, 0.0]]})"));
  CHECK(found.at("levels")[1].at("group") == 300.0);
  CHECK(
      problem_of("{problem: hierarchical-matrix, cluster: {preset: dgx-a100-80g, devices: 12}}") ==
      "p.yaml:1:41: cluster: the last of 2 nodes is part-filled, and its links are shared by "
      "fewer devices");
}

}  // namespace trainyard::solve_atp_test
