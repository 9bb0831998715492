// How a stream of tokens is cut into windows.
#pragma once

#include <cstdint>

namespace trainyard {

/// Window w begins at token w * stride.
struct WindowShape {
  std::int64_t length = 0;       // tokens
  std::int64_t stride = 0;       // from the begin of one to the begin of the next
  std::int64_t least_count = 1;  // fewer in a file are refused
};

/// Whole windows of so many tokens; what is left behind the last is not used.
constexpr std::int64_t count_windows(std::int64_t tokens, const WindowShape& shape) {
  return tokens < shape.length ? 0 : (tokens - shape.length) / shape.stride + 1;
}

/// The windows of a model that predicts each of `tokens` tokens from those before it: one more is
/// predicted than is read, with which the next window begins.
constexpr WindowShape causal_windows(std::int64_t tokens) {
  return {.length = tokens + 1, .stride = tokens};
}

}  // namespace trainyard
