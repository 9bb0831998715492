// Specs as text, and back.
//
//     [dp, cp, 16x128:tp0 tp1|2x128:tp0|2x128:tp0] E(tp1)   packed q|k|v; the key-value heads over
//     tp0 [dp, 4096x1:cp|4096x1:cp~]                           zig-zag: the second half runs
//     backwards [8x1:tp|4x1:tp after dp, R] Pmax(cp) H@2(pp0)
//
// A dim is its axes in order, or R; with parts COUNTxUNIT:AXES joined by |, `~` behind the axes of
// one that runs backwards, then `after AXES`. States follow as P, E, H@k and R, each with its axes;
// Pmax are candidates for a maximum. What is not named is replicated. docs/contract.md, section 5,
// has the form with numbers that MAP and Colossal-AI write: S01,R P2.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "engine/sharding/tensor_spec.h"

namespace trainyard {

struct SpecTextError {
  int column;  // counts from 1
  std::string problem;
};

enum class NamedAxes { kNeeded, kAll };  // all: R(...) for what is replicated, too
std::string to_text(const TensorSpec& spec, const DeviceMesh& mesh,
                    NamedAxes named = NamedAxes::kNeeded);

/// Strict; a name of the mesh stands for its list. Whether the spec suits a tensor is for
/// spec_problem() to say.
std::variant<TensorSpec, SpecTextError> parse_spec(std::string_view text, const DeviceMesh& mesh);

/// The axes that a text names, `R(...)` among them, which a spec does not keep.
AxisSet named_axes(std::string_view text, const DeviceMesh& mesh);

/// "S01,R,R P2": axes by number, a dim each; S, R, and behind a space P, E of single axes.
std::string to_numbered_text(const TensorSpec& spec);
std::variant<TensorSpec, SpecTextError> parse_numbered_spec(std::string_view text,
                                                            const DeviceMesh& mesh);
/// Whether the form with numbers can say it: no parts, no holder, no maximum, axes 0 to 9.
bool has_numbered_text(const TensorSpec& spec, const DeviceMesh& mesh);

}  // namespace trainyard
