#include "real/checkpoint/run_record.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "engine/base/hash.h"
#include "engine/base/mapped_file.h"
#include "engine/base/user_text.h"
#include "study/data_kinds.h"
#include "study/study_origin.h"
#include "study/study_writer.h"

namespace trainyard {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOnnxFile = "model.onnx", kDataPath = "data.path";

/// The model's name, what divides it, and where its training begins.
constexpr std::string_view kFreeOfModel[] = {"model.name", "model.pad_vocab_to",
                                             "model.layer_pattern", "model.weights"};
/// What matters to data in files alone.
constexpr std::string_view kOfFiles[] = {"data.format", "data.shuffle", "data.mean", "data.std"};
constexpr std::string_view kOfAdamW[] = {"training.betas", "training.eps"};
constexpr std::string_view kOfTraining[] = {"training.global_batch", "training.seed",
                                            "training.optimizer"};
/// What may change, and is worth a word.
constexpr std::string_view kMayChange[] = {
    "training.precision", "training.grad_dtype", "training.weight_decay", "training.clip_norm",
    "training.dropout",   "training.betas",      "training.eps"};

template <class List>
bool names(const List& list, std::string_view key) {
  return std::find(std::begin(list), std::end(list), key) != std::end(list);
}

/// Whether the key decides what is computed, or how.
bool is_recorded(const Study& study, std::string_view key) {
  if (key.starts_with("model.")) return !names(kFreeOfModel, key);
  if (key.starts_with("data.")) return is_of_files(study.data) || !names(kOfFiles, key);
  if (names(kOfAdamW, key)) return study.training.optimizer == Optimizer::kAdamW;
  return names(kOfTraining, key) || names(kMayChange, key);
}

/// "model.axes" of "model.axes.batch", and what is left of it.
std::pair<std::string, std::string> split_map(const std::string& path) {
  const std::size_t dot = path.find('.', path.find('.') + 1);
  if (dot == std::string::npos) return {path, ""};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

/// The file, the files of the folder, or those whose names have an ending behind the path.
std::vector<fs::path> files_at(const fs::path& path) {
  std::vector<fs::path> files;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    for (const auto& entry : fs::directory_iterator(path, error)) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
  }
  for (const char* ending : {"", ".bin", ".idx"}) {
    fs::path file = path;
    file += ending;
    if (fs::is_regular_file(file, error)) files.push_back(file);
  }
  return files;
}

/// How a file begins and ends.
void add_ends(Sha256& hash, const fs::path& path) {
  constexpr std::size_t kEnd = 1 << 16;
  const MappedFile file(path.string());
  const std::string_view bytes(reinterpret_cast<const char*>(file.bytes().data()),
                               file.bytes().size());
  hash.update(bytes.substr(0, kEnd));
  hash.update(bytes.substr(bytes.size() - std::min(bytes.size(), kEnd)));
}

/// "": there are none.
std::string content_of(const std::string& path) {
  constexpr std::size_t kRead = 64;  // of many files sizes are enough
  const std::vector<fs::path> files = files_at(path);
  Sha256 hash;
  std::size_t read = 0;
  for (const fs::path& file : files) {
    std::error_code error;
    if (!fs::is_regular_file(file, error)) continue;
    if (files.size() > 1) hash.update(file.extension().string());
    const auto bytes = fs::file_size(file, error);
    hash.update(std::to_string(bytes) + "\n");
    if (error || bytes == 0 || ++read > kRead) continue;
    try {
      add_ends(hash, file);
    } catch (const ConfigError&) {
      return "";  // who reads the data will say so
    }
  }
  return read == 0 ? "" : hash.hex();
}

/// What the study has for `key` where the run had `was`.
std::string problem_of(std::string_view key, const std::string& was, const std::string& now,
                       const std::string& checkpoint) {
  const bool changed = was == now;  // what lies in the file
  std::string text = changed ? now + " has changed since " : "got " + now + ", but ";
  text += printable(checkpoint) + " was ";
  text += changed ? "written; restore it to go on" : "trained with " + was + "; say that to go on";
  text += ", or begin a new run with another --out";
  if (key.starts_with("model.")) return text;
  return text + ", which --weights lets start from the weights of a checkpoint";
}

}  // namespace

RunRecord run_record(const Study& study) {
  RunRecord record;
  for (const auto& [path, value] : resolved_values(study)) {
    const auto [key, rest] = split_map(path);
    if (!is_recorded(study, key)) continue;
    std::string& all = record.values[key];
    if (!all.empty()) all += ", ";
    all += rest.empty() ? value : rest + ": " + value;
  }
  record.values.emplace("data.documents", "none");
  const auto add_content = [&](std::string_view key, const std::string& path) {
    std::string content = content_of(path);
    if (!content.empty()) record.contents.emplace(key, std::move(content));
  };
  if (is_of_files(study.data)) add_content(kDataPath, study.data.path);
  if (!study.model.onnx_file.empty()) add_content(kOnnxFile, study.model.onnx_file);
  return record;
}

std::vector<std::string> check_same_run(const Study& study, const RunRecord& record,
                                        const std::string& checkpoint) {
  const RunRecord own = run_record(study);
  std::vector<std::string> warnings;
  std::vector<ConfigError> said, followed;
  for (const auto& [key, now] : own.values) {
    const auto was = record.values.find(key);
    if (was == record.values.end()) continue;
    const auto content = own.contents.find(key), content_was = record.contents.find(key);
    const bool comparable = content != own.contents.end() && content_was != record.contents.end();
    if (comparable ? content->second == content_was->second : now == was->second) continue;
    if (names(kMayChange, key)) {
      warnings.push_back(key + ": the run had " + was->second + " before, and goes on with " + now);
      continue;
    }
    (is_said(study, key) ? said : followed)
        .push_back(error_at(study, key, problem_of(key, was->second, now, checkpoint)));
  }
  // Others follow from what was said; of those of another preset or default, one is enough.
  if (!said.empty()) throw ConfigError(said);
  if (!followed.empty()) throw followed.front();
  return warnings;
}

}  // namespace trainyard
