// solve: placement, which rank has which coordinates.
#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "app/solve/problem_keys.h"
#include "app/solve/solve.h"
#include "engine/base/user_text.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostPlaced = 100'000;

struct Degree {
  char letter;
  const char* name;
  std::int64_t size = 1;
  std::int64_t stride = 1;  // ranks between neighbours
};
using Degrees = std::array<Degree, 3>;

/// DPT and its like; cluster and spread are SageMaker's words for two of them.
std::string read_order(const YamlNode& problem) {
  const auto node = given(problem, "order");
  if (!node) return "DPT";
  std::string word = node->as_string();
  if (word == "cluster") return "DPT";
  if (word == "spread") return "TPD";
  std::string letters = word;
  std::ranges::sort(letters);
  if (letters != "DPT") {
    node->fail("expected the letters D, P and T in some order, cluster or spread, got " +
               in_quotes(word));
  }
  return word;
}

Degrees read_degrees(const YamlNode& problem) {
  Degrees out = {Degree{'D', "data"}, Degree{'P', "pipeline"}, Degree{'T', "tensor"}};
  const YamlNode degrees = problem.at("degrees");
  std::int64_t ranks = 1;
  for (Degree& degree : out) {
    if (const auto node = given(degrees, degree.name))
      degree.size = node->as_integer(1, kMostPlaced);
    ranks *= degree.size;
    if (ranks > kMostPlaced)
      degrees.fail("expected at most " + std::to_string(kMostPlaced) + " ranks");
  }
  degrees.finish();
  // The rightmost letter's neighbours are neighbours among ranks.
  const std::string letters = read_order(problem);
  std::int64_t stride = 1;
  for (std::size_t i = letters.size(); i-- > 0;) {
    Degree& degree = *std::ranges::find(out, letters[i], &Degree::letter);
    degree.stride = stride;
    stride *= degree.size;
  }
  return out;
}

}  // namespace

Json solve_placement(const YamlNode& problem) {
  const Degrees degrees = read_degrees(problem);
  std::int64_t ranks = 1;
  for (const Degree& degree : degrees) ranks *= degree.size;
  Json axes = Json::array();
  for (const Degree& degree : degrees) axes.push_back(degree.name);
  std::vector<std::vector<std::int64_t>> coordinates;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    auto& at = coordinates.emplace_back();
    for (const Degree& degree : degrees) at.push_back(rank / degree.stride % degree.size);
  }
  Json answer = {{"axes", axes}, {"coordinates", coordinates}};
  for (const Degree& degree : degrees) {
    // A group has the rank of its first coordinate, and those a stride apart from there on.
    std::vector<std::vector<std::int64_t>> groups;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      if (rank / degree.stride % degree.size != 0) continue;
      auto& group = groups.emplace_back();
      for (std::int64_t i = 0; i < degree.size; ++i) group.push_back(rank + i * degree.stride);
    }
    answer[std::string(degree.name) + "_groups"] = groups;
  }
  return answer;
}

}  // namespace trainyard
