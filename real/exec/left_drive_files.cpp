#include "real/exec/left_drive_files.h"

#include <filesystem>
#include <vector>

namespace trainyard {

namespace {

constexpr const char* kOfRank = "rank-";

}  // namespace

std::string drive_folder_of(std::int64_t rank) { return kOfRank + std::to_string(rank); }

void remove_drive_files(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  std::vector<fs::path> ranks;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string().starts_with(kOfRank)) ranks.push_back(entry.path());
  }
  for (const fs::path& rank : ranks) fs::remove_all(rank, ignored);
  fs::remove(folder, ignored);
}

}  // namespace trainyard
