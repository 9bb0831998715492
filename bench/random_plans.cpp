// 10,000 plans drawn at random (tests/support/random_plan.h), through the whole path in one
// process.
//   random_plans [--from SEED] [--count N] [--texts FOLDER]
// With --texts none is run: FOLDER gets their texts, SEED.yaml each.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "bench/outcome_count.h"
#include "tests/support/random_plan.h"

namespace trainyard {

namespace {

/// False, with a line on stderr, when a text cannot be written.
bool write_texts(const SeedRange& range, const std::filesystem::path& folder) {
  for (std::uint64_t i = 0; i < range.count; ++i) {
    const std::filesystem::path path = folder / (std::to_string(range.first + i) + ".yaml");
    std::ofstream file(path, std::ios::binary);
    file << random_study(range.first + i);
    if (!file.flush()) {
      std::fprintf(stderr, "random_plans: cannot write %s\n", path.c_str());
      return false;
    }
  }
  return true;
}

}  // namespace

}  // namespace trainyard

int main(int argc, char** argv) {
  using namespace trainyard;
  std::vector<char*> rest(argv, argv + argc);
  const auto texts = std::find(rest.begin(), rest.end(), std::string_view("--texts"));
  std::string folder;
  if (rest.end() - texts > 1) {
    folder = texts[1];
    rest.erase(texts, texts + 2);
  }
  const SeedRange range = parse_range(static_cast<int>(rest.size()), rest.data(), 10'000);
  if (!folder.empty()) return write_texts(range, folder) ? 0 : 1;
  OutcomeCount count;
  bool good = true;
  for (std::uint64_t i = 0; i < range.count; ++i) {
    const std::string yaml = random_study(range.first + i);
    count.begin(range.first + i, yaml);
    good = count.end(run_study(yaml)) && good;
    if ((i + 1) % 1000 == 0) count.print_progress(range.count);
  }
  count.print_table();
  return good ? 0 : 1;
}
