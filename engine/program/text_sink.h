// Text in pieces of a few bytes, hundreds of thousands of them, passed on in large ones.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/place_of.h"

namespace trainyard {

class TextSink {
 public:
  explicit TextSink(std::function<void(std::string_view)> sink) : sink_(std::move(sink)) {}

  void text(std::string_view piece) {
    const std::size_t size = piece.size();
    if (used_ + size > buffer_.size()) buffer_.resize(2 * buffer_.size() + size);
    char* to = buffer_.data() + used_;
    used_ += size;
    if (size > 16) {
      std::memcpy(to, piece.data(), size);
    } else if (size >= 8) {
      copy_ends<8>(to, piece);
    } else if (size >= 4) {
      copy_ends<4>(to, piece);
    } else if (size > 0) {
      to[0] = piece[0];
      to[size / 2] = piece[size / 2];
      to[size - 1] = piece[size - 1];
    }
  }
  template <typename Number>
  void number(Number value) {
    char digits[32];
    const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value);
    text({digits, length_between<const char*>(digits, end)});
  }
  /// With commas between.
  void numbers(const std::vector<std::int64_t>& all) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i > 0) text(",");
      number(all[i]);
    }
  }

  /// Passes on what there is; flush_full(): where it is much.
  void flush() {
    sink_({buffer_.data(), used_});
    used_ = 0;
  }
  void flush_full() {
    if (used_ > kFlushAt) flush();
  }

 private:
  static constexpr std::size_t kFlushAt = 1 << 16;

  /// A piece of kBytes to 2 kBytes, as its first and its last kBytes.
  template <std::size_t kBytes>
  static void copy_ends(char* to, std::string_view piece) {
    std::memcpy(to, piece.data(), kBytes);
    std::memcpy(to + piece.size() - kBytes, piece.data() + piece.size() - kBytes, kBytes);
  }

  std::function<void(std::string_view)> sink_;
  std::vector<char> buffer_ = std::vector<char>(kFlushAt + 4096);
  std::size_t used_ = 0;  // of the buffer
};

}  // namespace trainyard
