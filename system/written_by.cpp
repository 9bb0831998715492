#include "system/written_by.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/base/plain_text.h"

namespace trainyard {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kMark = "# Written by trainyard ";
constexpr std::string_view kOf = " of ";
constexpr const char* kKey = "written_by";

/// Canonical as far as it exists.
fs::path canonical(const fs::path& path) {
  std::error_code error;
  fs::path out = fs::weakly_canonical(path, error);
  return error ? fs::absolute(path) : out;
}

std::string input_from(const std::string& folder, const std::string& input) {
  const fs::path path = canonical(input);
  const fs::path relative = path.lexically_relative(canonical(folder));
  return plain_text((relative.empty() ? path : relative).string());
}

/// The first lines of a file.
std::vector<std::string> head_of(const std::string& path) {
  constexpr std::size_t kLines = 2, kLongest = 1 << 14;
  std::ifstream file(path, std::ios::binary);
  std::string bytes(kLongest, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(file.gcount());
  std::vector<std::string> lines;
  for (std::size_t at = 0; lines.size() < kLines && at < bytes.size();) {
    const std::size_t end = std::min(bytes.find('\n', at), bytes.size());
    lines.push_back(bytes.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::optional<WrittenBy> parse(std::string_view text) {
  const std::size_t of = text.find(kOf);
  if (of == std::string_view::npos) return std::nullopt;
  return WrittenBy{std::string(text.substr(0, of)), std::string(text.substr(of + kOf.size()))};
}

std::optional<WrittenBy> in_yaml(const std::string& path) {
  for (std::string_view line : head_of(path)) {
    if (line.starts_with(kMark)) return parse(line.substr(kMark.size()));
  }
  return std::nullopt;
}

std::optional<WrittenBy> in_json(const std::string& path) {
  for (std::string line : head_of(path)) {
    if (line.find('"' + std::string(kKey) + '"') == std::string::npos) continue;
    while (!line.empty() && (line.back() == ',' || line.back() == '\r')) line.pop_back();
    const Json json = Json::parse("{" + line + "}", nullptr, false);
    if (!json.is_object() || !json.contains(kKey) || !json[kKey].is_object()) return std::nullopt;
    const Json& by = json[kKey];
    if (!by.contains("command") || !by["command"].is_string() || !by.contains("from") ||
        !by["from"].is_string()) {
      return std::nullopt;
    }
    return WrittenBy{by["command"].get<std::string>(), by["from"].get<std::string>()};
  }
  return std::nullopt;
}

/// In the header: 8 bytes with its length, then JSON.
std::optional<WrittenBy> in_safetensors(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<unsigned char, 8> bytes{};
  file.read(reinterpret_cast<char*>(bytes.data()), bytes.size());
  std::uint64_t length = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) length = length << 8U | bytes[i];
  constexpr std::uint64_t kLongest = 100'000'000;  // the format's own
  if (!file || length > kLongest) return std::nullopt;
  std::string header(length, '\0');
  if (!file.read(header.data(), static_cast<std::streamsize>(length))) return std::nullopt;
  const Json json = Json::parse(header, nullptr, false);
  const auto metadata = json.is_object() ? json.find("__metadata__") : json.end();
  if (metadata == json.end() || !metadata->is_object()) return std::nullopt;
  const auto by = metadata->find(kKey);
  return by != metadata->end() && by->is_string() ? parse(by->get<std::string>()) : std::nullopt;
}

std::string behind_first_line(const std::string& text, const std::string& line) {
  const std::size_t end = text.find('\n');
  if (end == std::string::npos) return text;
  return text.substr(0, end + 1) + line + text.substr(end + 1);
}

}  // namespace

const std::vector<std::string>& files_of(std::string_view command) {
  static const std::map<std::string_view, std::vector<std::string>> kFiles = {
      {"simulate",
       {"study.resolved.yaml", "program.txt", "trace.json", "summary.json", "report.html"}},
      {"simulate --compare-tensor-methods", {"tensor_methods.json"}},
      {"compile", {"study.resolved.yaml", "schedule.csv", "program.txt"}},
      {"sweep", {"sweep.csv", "sweep.json", "report.html"}},
      {"train",
       {"study.resolved.yaml", "program.txt", "schedule.csv", "losses.csv", "trace.json",
        "measured.json", "summary.json", "report.html", "checkpoints"}},
      // report.html: by `trainyard report`.
      {"emulate",
       {"study.resolved.yaml", "program.txt", "trace.json", "summary.json", "report.html"}},
      {"validate", {"summary.json", "cases.csv", "validated.csv", "report.html"}},
      {"validate --run", {"summary.json", "report.html"}},
      {"calibrate --fit", {"fit.json", "software"}},
      {"export", {"config.json", "model.safetensors"}},
  };
  static const std::vector<std::string> kNoIndex;
  const auto found = kFiles.find(command);
  return found == kFiles.end() ? kNoIndex : found->second;
}

std::string written_by_text(const WrittenBy& by, const std::string& folder) {
  return by.command + std::string(kOf) + input_from(folder, by.input);
}

std::string marked_yaml(const std::string& text, const WrittenBy& by, const std::string& folder) {
  return behind_first_line(text, std::string(kMark) + written_by_text(by, folder) + "\n");
}

std::string marked_json(const std::string& text, const WrittenBy& by, const std::string& folder) {
  const Json json = {{"command", by.command}, {"from", input_from(folder, by.input)}};
  return behind_first_line(
      text, "  \"" + std::string(kKey) +
                "\": " + json.dump(-1, ' ', false, Json::error_handler_t::replace) + ",\n");
}

std::optional<WrittenBy> read_written_by(const std::string& folder) {
  if (auto by = in_yaml(folder + "/study.resolved.yaml")) return by;
  for (const char* name : {"sweep.json", "summary.json", "tensor_methods.json", "fit.json"}) {
    if (auto by = in_json(folder + "/" + name)) return by;
  }
  return in_safetensors(folder + "/model.safetensors");
}

bool same_writer(const WrittenBy& found, const WrittenBy& by, const std::string& folder) {
  return found.command == by.command && found.input == input_from(folder, by.input);
}

}  // namespace trainyard
