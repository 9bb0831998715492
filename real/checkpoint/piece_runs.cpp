#include "real/checkpoint/piece_runs.h"

#include <algorithm>

namespace trainyard {

namespace {

bool may_overlap(const Piece& a, const Piece& b) {
  for (std::size_t i = 0; i < a.shape.size(); ++i) {
    if (a.start[i] >= b.start[i] + b.extent[i] || b.start[i] >= a.start[i] + a.extent[i]) {
      return false;
    }
  }
  return num_elements(a) > 0 && num_elements(b) > 0;
}

}  // namespace

RunCursor::RunCursor(const Piece& piece)
    : piece_(&piece),
      strides_(piece.shape.size(), 1),
      position_(piece.flat_begin) {
  const std::size_t rank = piece.shape.size();
  for (std::size_t i = rank; i-- > 1;) strides_[i - 1] = strides_[i] * piece.shape[i];
  for (std::size_t i = rank; i-- > 0;) {
    split_dim_ = i;
    row_ *= piece.extent[i];
    if (piece.extent[i] != piece.shape[i]) break;
  }
  if (!done()) locate();
}

void RunCursor::advance(std::int64_t elements) {
  position_ += elements;
  if (elements < length_) {
    global_ += elements;
    length_ -= elements;
  } else if (!done()) {
    locate();
  }
}

void RunCursor::locate() {
  const std::int64_t inside = position_ % row_;
  std::int64_t run = position_ / row_;
  global_ = inside;
  if (!strides_.empty()) {
    global_ += piece_->start[split_dim_] * strides_[split_dim_];
    for (std::size_t i = split_dim_; i-- > 0;) {
      global_ += (piece_->start[i] + run % piece_->extent[i]) * strides_[i];
      run /= piece_->extent[i];
    }
  }
  length_ = std::min(row_ - inside, piece_->flat_end - position_);
}

std::int64_t for_common_runs(
    const Piece& a, const Piece& b,
    const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& visit) {
  if (!may_overlap(a, b)) return 0;
  RunCursor x(a);
  RunCursor y(b);
  std::int64_t common = 0;
  while (!x.done() && !y.done()) {
    if (x.global() < y.global()) {
      x.advance(std::min(x.length(), y.global() - x.global()));
    } else if (y.global() < x.global()) {
      y.advance(std::min(y.length(), x.global() - y.global()));
    } else {
      const std::int64_t length = std::min(x.length(), y.length());
      visit(x.local(), y.local(), length);
      common += length;
      x.advance(length);
      y.advance(length);
    }
  }
  return common;
}

}  // namespace trainyard
