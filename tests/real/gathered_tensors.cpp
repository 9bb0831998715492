#include "tests/real/gathered_tensors.h"

#include <stdexcept>

#include "real/parameters/rank_coordinates.h"
#include "tests/real/test_device.h"

namespace trainyard {

namespace {

template <typename Number>
std::vector<double> elements_of(const at::Tensor& tensor) {
  const auto* data = tensor.const_data_ptr<Number>();
  return {data, data + tensor.numel()};
}

void put_part(at::Tensor whole, const at::Tensor& local, const HeldPart& part, std::size_t d) {
  if (d == part.whole.size()) {
    whole.copy_(local);
    return;
  }
  const auto dim = static_cast<std::int64_t>(d);
  std::int64_t at = 0;
  for (const IndexRange& range : part.ranges[d]) {
    put_part(whole.narrow(dim, range.begin, range.size()), local.narrow(dim, at, range.size()),
             part, d + 1);
    at += range.size();
  }
}

}  // namespace

HeldPart held_part(const Program& program, const Value& value, const Coordinate& at) {
  const TensorSpec spec = spec_of(program, value);
  const Extents extents = global_extents(spec, value.dims, program.mesh);
  return {local_ranges(spec, extents, program.mesh, at).value(),
          std::vector<std::int64_t>(extents.begin(), extents.end())};
}

at::Tensor part_of(at::Tensor whole, const HeldPart& part) {
  for (std::size_t d = 0; d < part.whole.size(); ++d) {
    const auto dim = static_cast<std::int64_t>(d);
    std::vector<at::Tensor> pieces;
    for (const IndexRange& range : part.ranges[d])
      pieces.push_back(whole.narrow(dim, range.begin, range.size()));
    whole = at::cat(pieces, dim);
  }
  return whole;
}

std::vector<double> vector_of(const at::Tensor& tensor) {
  finish_test_device();
  const at::Tensor all = tensor.detach().contiguous().cpu();
  switch (all.scalar_type()) {
    case at::kDouble: return elements_of<double>(all);
    case at::kFloat: return elements_of<float>(all);
    case at::kBFloat16: return elements_of<at::BFloat16>(all);
    case at::kByte: return elements_of<std::uint8_t>(all);
    case at::kLong: return elements_of<std::int64_t>(all);
    default: return elements_of<double>(all.to(at::kDouble));
  }
}

void GatheredTensors::add(const Program& program, const Value& value, const Coordinate& at,
                          const std::string& name, const at::Tensor& local) {
  const TensorSpec spec = spec_of(program, value);
  Coordinate copy = at;
  for (AxisId axis = 0; axis < program.mesh.num_axes(); ++axis) {
    if (has(spec.partial, axis) || dim_of(spec, axis)) copy[axis] = 0;
  }
  const HeldPart part = held_part(program, value, at);
  at::Tensor& whole = copies_[name][copy];
  if (!whole.defined()) whole = at::zeros(part.whole, at::kDouble);
  at::Tensor own = at::zeros(part.whole, at::kDouble);
  put_part(own, local, part, 0);
  whole.add_(own);
}

std::map<std::string, std::vector<double>> GatheredTensors::finish() const {
  std::map<std::string, std::vector<double>> out;
  for (const auto& [name, copies] : copies_) {
    const at::Tensor& first = copies.begin()->second;
    for (const auto& [copy, whole] : copies) {
      const at::Tensor apart = (whole - first).masked_fill(whole == first, 0).abs();  // -inf, too
      const at::Tensor size = first.abs().masked_fill(first.isinf(), 0).max();
      if (!(apart.max() <= 1e-10 * size.clamp_min(1)).item<bool>())
        throw std::runtime_error("ranks that hold " + name + " alike differ");
    }
    out[name] = vector_of(first);
  }
  return out;
}

}  // namespace trainyard
