// Specs are equal in normal form exactly where their boxes are.
#include "engine/sharding/normal_form.h"

#include <catch2/catch.hpp>
#include <map>

#include "engine/sharding/spec_boxes.h"
#include "engine/sharding/spec_text.h"
#include "tests/support/random_spec.h"

namespace trainyard::normal_form_test {

namespace {

std::string normal(const std::string& text, const Extents& extents, const DeviceMesh& mesh) {
  const auto spec = std::get<TensorSpec>(parse_spec(text, mesh));
  REQUIRE_FALSE(spec_problem(spec, extents, mesh));
  return to_text(normal_form(spec, extents, mesh), mesh);
}

/// What every rank holds of a dim.
std::vector<IndexRanges> all_ranges(const DimSplit& dim, std::int64_t extent,
                                    const DeviceMesh& mesh) {
  std::vector<IndexRanges> out;
  for (std::int64_t rank = 0; rank < mesh.num_ranks(); ++rank)
    out.push_back(dim_ranges(dim, extent, mesh, coordinate_of(mesh, rank)));
  return out;
}

/// Every list of distinct axes of the mesh.
std::vector<Axes> lists(const DeviceMesh& mesh) {
  std::vector<Axes> out = {{}};
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (const AxisId axis : mesh.axis_ids()) {
      if (has(set_of(out[i]), axis)) continue;
      Axes longer = out[i];
      longer.push_back(axis);
      out.push_back(longer);
    }
  }
  return out;
}

/// Every part of `size` elements.
std::vector<DimPart> parts(std::int64_t size, const DeviceMesh& mesh) {
  std::vector<DimPart> out;
  for (std::int64_t unit = 1; unit <= size; ++unit) {
    if (size % unit != 0) continue;
    for (const Axes& axes : lists(mesh)) {
      for (const bool reversed : {false, true}) out.push_back({size / unit, unit, axes, reversed});
    }
  }
  return out;
}

/// Boxes -> normal form, and back, one to one.
struct OneToOne {
  std::map<std::string, std::string> of_boxes, of_text;
  const DeviceMesh& mesh;

  void add(const DimSplit& dim, std::int64_t extent) {
    std::string key;
    for (const IndexRanges& ranges : all_ranges(dim, extent, mesh)) {
      for (const IndexRange& range : ranges)
        key += std::to_string(range.begin) + "-" + std::to_string(range.end) + " ";
      key += "/";
    }
    const DimSplit form = normal_dim(dim, extent, mesh);
    for (const DimPart& part : form.parts) key += " " + std::to_string(part.count * part.unit);
    TensorSpec spec;
    spec.dims = {form};
    const std::string text = to_text(spec, mesh);
    CAPTURE(key, text, to_text(TensorSpec{{dim}, 0, 0, false, {}}, mesh));
    REQUIRE_FALSE(spec_problem(spec, {extent}, mesh));
    REQUIRE(all_ranges(form, extent, mesh) == all_ranges(dim, extent, mesh));
    REQUIRE(normal_dim(form, extent, mesh) == form);
    REQUIRE(of_boxes.emplace(key, text).first->second == text);
    REQUIRE(of_text.emplace(text, key).first->second == key);
  }
};

}  // namespace

TEST_CASE("the normal form has the largest unit, and no count where none is needed") {
  const DeviceMesh mesh = mesh_of({2, 2, 1});
  CHECK(normal("[8x1:a]", {8}, mesh) == "[a]");
  CHECK(normal("[2x4:a]", {8}, mesh) == "[a]");
  CHECK(normal("[3x4:a]", {12}, mesh) == "[3x4:a]");
  CHECK(normal("[3x4:R]", {12}, mesh) == "[R]");
  CHECK(normal("[8x1:a b|4x1:a]", {12}, mesh) == "[4x2:a b|2x2:a]");
  CHECK(normal("[8x1:a|4x1:R|4x1:R~]", {16}, mesh) == "[2x4:a|1x8:R]");
  CHECK(normal("[4x1:a after b]", {4}, mesh) == "[a b]");
  CHECK(normal("[a c, b]", {4, 4}, mesh) == "[a, b]");
  CHECK(normal("[1x1:a|1x1:a~]", {2}, mesh) == "[a]");
}

TEST_CASE("normal forms are equal exactly where boxes are: dims of one part") {
  for (const auto& sizes : std::vector<std::vector<std::int32_t>>{
           {2}, {3}, {2, 2}, {2, 3}, {3, 2}, {1, 2}, {4, 2}, {2, 2, 2}}) {
    const DeviceMesh mesh = mesh_of(sizes);
    for (std::int64_t extent = 1; extent <= 13; ++extent) {
      OneToOne forms{{}, {}, mesh};
      for (const DimPart& part : parts(extent, mesh)) {
        for (const Axes& after : lists(mesh)) {
          if ((set_of(after) & set_of(part.axes)) != 0) continue;
          if (part.reversed && !after.empty()) continue;
          DimSplit dim;
          dim.parts = {part};
          dim.after = after;
          forms.add(dim, extent);
        }
      }
    }
  }
}

TEST_CASE("normal forms of equal parts are equal exactly where boxes are: two and three parts") {
  for (const auto& sizes : std::vector<std::vector<std::int32_t>>{{2}, {3}, {2, 2}}) {
    const DeviceMesh mesh = mesh_of(sizes);
    for (std::int64_t extent = 2; extent <= (mesh.num_axes() == 1 ? 7 : 5); ++extent) {
      OneToOne forms{{}, {}, mesh};
      for (const DimPart& part : parts(extent, mesh)) forms.add({{part}, {}}, extent);
      for (std::int64_t first = 1; first < extent; ++first) {
        for (const DimPart& a : parts(first, mesh)) {
          for (const DimPart& b : parts(extent - first, mesh)) forms.add({{a, b}, {}}, extent);
        }
        for (std::int64_t second = 1; first + second < extent && mesh.num_axes() == 1; ++second) {
          for (const DimPart& a : parts(first, mesh)) {
            for (const DimPart& b : parts(second, mesh)) {
              for (const DimPart& c : parts(extent - first - second, mesh))
                forms.add({{a, b, c}, {}}, extent);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("a dim that is bound late keeps its list") {
  const DeviceMesh mesh = mesh_of({2, 1, 2});
  TensorSpec spec = replicated_spec(2);
  spec.dims[0] = split_over({2, 1, 0});
  CHECK_FALSE(spec_problem(spec, {kLateExtent, 8}, mesh));
  CHECK(to_text(normal_form(spec, {kLateExtent, 8}, mesh), mesh) == "[c a, R]");
}

}  // namespace trainyard::normal_form_test
