#include "real/train/loss_file.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>

#include "engine/base/error.h"
#include "system/files.h"

namespace trainyard {

namespace {

constexpr const char* kHeader = "step,loss,tokens_per_s,grad_norm\n";

[[noreturn]] void fail(const std::string& path) {
  throw BackendError(path + ": " + std::strerror(errno));
}

/// The header and the lines up to `steps`.
std::string kept_lines(const std::string& path, std::int64_t steps) {
  std::string kept = kHeader;
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line) && !in.eof()) {
    if (std::atoll(line.c_str()) > steps) break;
    kept += line + "\n";
  }
  return kept;
}

}  // namespace

LossFile::LossFile(const std::string& path, std::int64_t steps_done) : path_(path) {
  write_file(path, steps_done > 0 ? kept_lines(path, steps_done) : std::string(kHeader));
  file_ = std::fopen(path.c_str(), "a");
  if (file_ == nullptr) fail(path);
}

LossFile::~LossFile() {
  if (file_ != nullptr) std::fclose(file_);
}

void LossFile::add(const StepReport& report, double tokens_per_s) {
  const int written =
      std::fprintf(file_, "%lld,%.9g,%.1f,%.9g\n", static_cast<long long>(report.step),
                   report.loss.value_or(std::nan("")), tokens_per_s, report.gradient_norm);
  if (written < 0 || std::fflush(file_) != 0) fail(path_);
}

}  // namespace trainyard
