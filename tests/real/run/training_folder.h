// A folder with a small study in it, in which `trainyard train` is run as a user runs it.
#pragma once

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/command_answer.h"
#include "tests/support/scratch_folder.h"

namespace trainyard {

class TrainingFolder {
 public:
  TrainingFolder() {
    write_text(path("study.yaml"),
               "model: {family: gpt, layers: 4, hidden: 32, heads: 4, vocab: 64, seq_len: 16}\n"
               "cluster: {preset: local, ranks: 1}\n"
               "training: {global_batch: 8, microbatch: 1, precision: fp64, dropout: 0.1, steps: "
               "4, timeout_s: 60}\n"
               "data: {path: generated}\ncheckpoint: {every: 2, keep: 2}\n");
  }
  std::string path(const std::string& name) const { return folder_ / name; }

  std::string command(const std::string& arguments) const {
    return std::string(TRAINYARD_REAL) + " train " + path("study.yaml") + " " + arguments;
  }
  Answer train(const std::string& arguments) const { return shell(command(arguments)); }
  Answer shell(const std::string& command) const { return answer_of(command, folder_); }
  /// Columns loss and grad_norm of losses.csv.
  std::vector<std::array<double, 2>> losses(const std::string& run) const {
    std::ifstream in(path(run) + "/losses.csv");
    std::string line;
    std::getline(in, line);
    CHECK(line == "step,loss,tokens_per_s,grad_norm");
    std::vector<std::array<double, 2>> out;
    while (std::getline(in, line)) {
      std::array<double, 2> row{};
      REQUIRE(std::sscanf(line.c_str(), "%*d,%lf,%*f,%lf", row.data(), &row[1]) == 2);
      out.push_back(row);
    }
    return out;
  }

 private:
  ScratchFolder folder_;
};

}  // namespace trainyard
