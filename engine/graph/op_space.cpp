#include "engine/graph/op_space.h"

#include <numeric>
#include <string>

#include "engine/graph/op_parameters.h"

namespace trainyard {

namespace {

// g r e: key-value heads, query heads of one, elements of a head.
constexpr std::string_view kPackedHeads = "[g r e! | g e! | g e!]";
constexpr std::string_view kKeyValueHeads = "[g e! | g e!]";

/// Parts of a parameter's rows, cut alike: o in common, and what of each lies inside one o.
/// "[o u0=2 | o | o]" of 8, 4 and 4 rows; nothing to tell apart: "o".
std::string rows_text(const Graph& graph, TensorId weight) {
  const ParameterId id = graph.tensors[weight].parameter;
  if (id == kNoIndex || graph.parameters[id].parts.size() < 2) return "o";
  std::int64_t common = 0;
  for (const ParameterPart& part : graph.parameters[id].parts) common = std::gcd(common, part.rows);
  std::string text;
  int number = 0;
  for (const ParameterPart& part : graph.parameters[id].parts) {
    text += text.empty() ? "[o" : " | o";
    if (part.rows > common)
      text += " u" + std::to_string(number++) + "=" + std::to_string(part.rows / common) + "!";
  }
  return text + "]";
}

std::string linear_text(const OpForm& form) {
  const std::string rows(form.rows);
  return "... i, " + rows + " i" + (form.attrs.has_bias ? " + " + rows : "") + " -> ... " + rows;
}

std::string causal_convolution_text(const OpForm& form) {
  const std::string rows(form.rows);
  return "b s! " + rows + ", " + rows + " x! y! z! + " + rows + " -> b s! " + rows;
}

/// [gate | x | b | c | dt] in three, or what is convolved of it: k states of each of e channels.
std::string state_space_text(const OpAttrs& attrs) {
  return attrs.packed ? "b s [g r! e! | g r! e! | g k! | g k! | g r!] -> "
                        "b s (g r e) | b s [g r e | g k | g k] | b s (g r)"
                      : "b s [g r! e! | g k! | g k!] -> b s (g r e) | b s (g k) | b s (g k)";
}

std::string flash_attention_text(const OpAttrs& attrs) {
  std::string text = attrs.packed ? "b s* " + std::string(kPackedHeads)
                                  : "b s* (g r e!), b t* " + std::string(kKeyValueHeads);
  if (attrs.has_mask) text += attrs.packed ? ", b s*" : ", b t*";
  return text + " -> b s* (g r e!) ; b (g r) s*";
}

/// Keys of one piece of the sequence, that of the queries or another that has come in its place; or
/// all of them.
std::string block_attention_text(const OpAttrs& attrs) {
  if (attrs.ring > 0) return "";  // as the table of kinds has it
  return "b s (g r e!), b t! " + std::string(kKeyValueHeads) + " -> b s (g r e!) ; b (g r) s";
}

/// q, k and v of packed heads, or q and [k v]; halves of a batch have no index space.
std::string split_text(const OpAttrs& attrs, std::size_t num_results) {
  if (attrs.packed && num_results == 2)
    return "b s [g r e | g e | g e] -> b s (g r e) | b s [g e | g e]";
  return attrs.packed ? "b s [g r e | g e | g e] -> b s (g r e) | b s (g e) | b s (g e)"
                      : "b s [g e | g e] -> b s (g e) | b s (g e)";
}

/// Ops of attention that work element by element know their heads all the same: of [B, N, Sq, Sk].
std::string text_by_head(const OpForm& op) {
  switch (op.kind) {
    case OpKind::kSplit:
      return op.attrs.states > 0 ? state_space_text(op.attrs)
                                 : split_text(op.attrs, op.num_results);
    case OpKind::kAddAttentionBias: return "b (g r) s t + (g r) s t -> b (g r) s t";
    case OpKind::kSoftmax:
      return op.num_operands > 1 ? "b (g r) s t*, b t* -> b (g r) s t*"
                                 : "b (g r) s t* -> b (g r) s t*";
    case OpKind::kTanh:
    case OpKind::kCast:
    case OpKind::kAffine: return "b (g r) s t -> b (g r) s t";
    case OpKind::kDropout: return "b (g r) s t -> b (g r) s t ; b (g r) s t";
    case OpKind::kTranspose: return "b s (g r e) -> b s (g r e)";
    default: return "";
  }
}

std::string grouped_convolution_text(const OpForm& op) {
  const bool transposed = op.kind == OpKind::kConvTranspose2d;
  std::string text = "n (q c) h! w!, ";
  text += transposed ? "(q c) o x! y!" : "(q o) c x! y!";
  if (op.attrs.has_bias) text += " + (q o)";
  return text += " -> n (q o) u! z!";
}

/// "": as the table of kinds has it.
std::string text_of(const OpForm& op) {
  switch (op.kind) {
    case OpKind::kConv2d:
    case OpKind::kConvTranspose2d: return op.attrs.groups > 1 ? grouped_convolution_text(op) : "";
    // t: samples that are normalised together, n times.
    case OpKind::kBatchNorm:
      return op.attrs.momentum > 0 ? "(n t!) c h! w!, c, c, c, c -> (n t!) c h! w! ; n k! c"
                                   : "(n t!) c h! w!, c, c -> (n t!) c h! w! ; n k! c";
    case OpKind::kBatchNormalize:
      return op.attrs.momentum > 0 ? "n c h! w!, _ k! c, c, c, c, c -> n c h! w!" : "";
    case OpKind::kLinear: return linear_text(op);
    case OpKind::kCausalConv1d: return causal_convolution_text(op);
    case OpKind::kRmsNorm:
      return op.attrs.groups > 1 ? "... (q h!), (q h!) -> ... (q h!) ; ... q" : "";
    case OpKind::kAddBias: {
      if (op.rows.empty()) return "";
      const std::string rows(op.rows);
      return "... " + rows + " + " + rows + " -> ... " + rows;
    }
    case OpKind::kLayerNorm: return op.attrs.unbiased ? "... h*, h* -> ... h* ; ... w!" : "";
    case OpKind::kFlashAttention: return flash_attention_text(op.attrs);
    case OpKind::kBlockAttention: return block_attention_text(op.attrs);
    case OpKind::kCrossEntropy:
      return op.num_operands > 2 ? "... v, ..., ..., w! ... -> _ =v ; ... v" : "";
    default: return op.attrs.heads > 0 ? text_by_head(op) : "";
  }
}

bool has_groups(OpKind kind) {
  return kind == OpKind::kConv2d || kind == OpKind::kConvTranspose2d ||
         kind == OpKind::kGroupNorm || kind == OpKind::kRmsNorm;
}

IndexExtents known_extents(const OpForm& op) {
  IndexExtents known;
  if (has_groups(op.kind)) known["q"] = op.attrs.groups;
  if (op.kind == OpKind::kBatchNorm) known["t"] = op.attrs.samples;
  if (op.kind == OpKind::kLinear || op.attrs.heads == 0 || op.attrs.head_dim == 0) return known;
  known["g"] = op.attrs.kv_heads;
  known["r"] = op.attrs.heads / op.attrs.kv_heads;
  known["e"] = op.attrs.head_dim;
  if (op.attrs.states > 0) known["k"] = op.attrs.states;
  return known;
}

/// Whether the dims from e on are a dim of 1 and several factors of `extent`: what a rank has of a
/// dim that a product of several others was, of which the first is then meant.
bool splits_off_one(const Extents& to, std::size_t e, std::int64_t extent) {
  if (to[e] != 1 || extent == 1) return false;
  std::int64_t elements = 1;
  int factors = 0;
  for (std::size_t d = e + 1; d < to.size() && elements < extent; ++d) {
    elements *= to[d];
    if (to[d] > 1) ++factors;
  }
  return factors > 1 && elements == extent;
}

/// A view's extents in the graph, `to`, made those of all ranks, as its operand's are: the dim that
/// begins where one of the operand does that is longer than in the graph is as many times as long.
void scale(const Shape& in_graph, const Extents& operand, Extents& to) {
  std::int64_t before = 1;
  for (std::size_t d = 0; d < operand.size(); ++d) {
    const std::int64_t times = operand[d] / in_graph[d];
    std::int64_t begin = 1;
    for (std::size_t e = 0; e < to.size() && times > 1; begin *= to[e++]) {
      // One sample of a rank: of dims that end where they begin the first is meant.
      const bool single = in_graph[d] == 1 && to[e] == 1 && begin == before;
      const bool first = begin == before && splits_off_one(to, e, in_graph[d]);
      if (begin * to[e] <= before && !single && !first) continue;
      to[e] *= times;
      break;
    }
    before *= in_graph[d];
  }
}

}  // namespace

const OpParameters OpForm::kNoParameters;

bool has_op_space(OpKind kind) {
  const OpIndexEntry* entry = find_op(to_string(kind));
  return entry != nullptr && entry->role == OpRole::kCompute;
}

std::variant<IndexSpace, Infeasible> op_space(const OpForm& form,
                                              const std::vector<Extents>& operands) {
  const OpIndexEntry* entry = find_op(to_string(form.kind));
  check(entry != nullptr && entry->role == OpRole::kCompute, "an op without an index space");
  std::string text = text_of(form);
  if (form.kind == OpKind::kBmm && operands[0].size() > 3) text = "... i k, ... k j -> ... i j";
  OpParameters parameters = form.parameters;
  parameters.extents.merge(known_extents(form));
  auto space = text.empty() ? index_space(to_string(form.kind), operands, parameters)
                            : read_index_space(text, operands, parameters.extents);
  if (auto* found = std::get_if<IndexSpace>(&space)) {
    found->linear = entry->linear && form.attrs.shift == 0;
    found->maximum = entry->maximum;
    if (found->results.size() < form.num_results)
      return Infeasible{"the op has more results than its kind"};
    found->results.resize(form.num_results);
  }
  return space;
}

std::variant<IndexSpace, Infeasible> op_space(const Graph& graph, const Op& op,
                                              const std::vector<Extents>& operands) {
  const bool has_rows =
      op.kind == OpKind::kLinear || op.kind == OpKind::kAddBias || op.kind == OpKind::kCausalConv1d;
  const std::string rows = has_rows ? rows_text(graph, op.inputs[1]) : "";
  std::vector<Extents> results;
  for (const TensorId id : op.outputs) {
    const Shape& shape = graph.tensors[id].shape;
    results.emplace_back(shape.begin(), shape.end());
  }
  if (op.kind == OpKind::kView) scale(graph.tensors[op.inputs[0]].shape, operands[0], results[0]);
  const OpParameters parameters = op_parameters(op.kind, op.attrs, operands, results);
  return op_space(OpForm{op.kind, op.attrs, op.inputs.size(), op.outputs.size(), rows, parameters},
                  operands);
}

}  // namespace trainyard
