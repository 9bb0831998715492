#include "real/data/file_windows.h"

#include <utility>

#include "engine/base/error.h"
#include "engine/data/draws.h"

namespace trainyard {

FileWindows::FileWindows(TokenFile file, std::int64_t num_symbols, const WindowShape& shape,
                         const EpochOrder& order)
    : file_(std::move(file)),
      num_symbols_(num_symbols),
      shape_(shape),
      order_(order),
      num_windows_(file_.num_windows(shape)) {}

void FileWindows::read(std::int64_t index, std::span<std::int64_t> out) const {
  read_window(window_at(index), out);
}

void FileWindows::read_other(std::int64_t index, std::span<std::int64_t> out) const {
  check(num_windows_ > 1, "a file with another window");
  const std::int64_t own = window_at(index);
  const std::int64_t other =
      Draws(order_.seed, DrawPurpose::kOtherText, index).below(num_windows_ - 1);
  read_window(other < own ? other : other + 1, out);
}

void FileWindows::read_window(std::int64_t window, std::span<std::int64_t> out) const {
  const std::int64_t begin = window * shape_.stride;
  file_.read(begin, out);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i] >= 0 && out[i] < num_symbols_) continue;
    throw ConfigError(file_.path() + ": token " +
                      std::to_string(begin + static_cast<std::int64_t>(i)) + " is " +
                      std::to_string(out[i]) + "; model.vocab leaves the ids 0 to " +
                      std::to_string(num_symbols_ - 1) + " to the data");
  }
}

std::string FileWindows::description() const {
  const std::string documents = file_.num_documents() > 0
                                    ? " in " + std::to_string(file_.num_documents()) +
                                          (file_.num_documents() == 1 ? " document" : " documents")
                                    : "";
  return file_.path() + ": " + std::to_string(file_.num_tokens()) + " tokens" + documents + ", " +
         std::to_string(num_windows_) + " samples an epoch, " +
         (order_.shuffle ? "shuffled" : "in order");
}

}  // namespace trainyard
