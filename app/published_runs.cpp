#include "app/published_runs.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "calibrate/validate/validated_runs.h"
#include "system/files.h"

namespace trainyard {

std::vector<ScoredCase> published_runs(const std::string& root) {
  std::vector<std::string> files;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator(root + "/calibrate/published", ignored)) {
    if (entry.path().extension() == ".csv") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  std::vector<ScoredCase> runs;
  for (const std::string& file : files) {
    const auto of_list = read_validated_runs(read_file(file), file);
    runs.insert(runs.end(), of_list.begin(), of_list.end());
  }
  return runs;
}

}  // namespace trainyard
