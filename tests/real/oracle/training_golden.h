// What PyTorch trained: a file of tests/golden/training/.
#pragma once

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/source_root.h"

namespace trainyard {

inline nlohmann::json read_training_golden(const std::string& name) {
  const std::string path = source_root() + "/tests/golden/training/" + name + ".json";
  std::ifstream file(path);
  INFO(path);
  REQUIRE(file);
  return nlohmann::json::parse(file);
}

}  // namespace trainyard
