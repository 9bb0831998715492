#include "engine/sharding/op_index_table.h"

#include <algorithm>

namespace trainyard {

namespace {

constexpr OpIndexEntry linear(std::string_view name, std::string_view text) {
  return {name, OpRole::kCompute, text, true, false, nullptr};
}
constexpr OpIndexEntry other(std::string_view name, std::string_view text) {
  return {name, OpRole::kCompute, text, false, false, nullptr};
}
constexpr OpIndexEntry made(std::string_view name, decltype(OpIndexEntry::make) make) {
  return {name, OpRole::kCompute, "", true, false, make};
}
constexpr OpIndexEntry move(std::string_view name) {
  return {name, OpRole::kMove, "", false, false, nullptr};
}

// b s: batch, sequence; t: the keys' sequence; g r e: key-value heads, query heads of one, elements
// of a head; h: hidden; v: vocabulary. Integer operands (ids, labels) and masks are operands as
// others.
constexpr OpIndexEntry kTable[] = {
    linear("load", "... -> ..."),
    linear("embedding", "..., v h -> ... h"),
    linear("linear", "... i, o i + o? -> ... o"),
    linear("add_bias", "... o + o -> ... o"),
    other("layer_norm", "... h*, h*, h* -> ... h* ; ... w!"),
    other("rms_norm", "... h*, h* -> ... h* ; ... w!"),
    other("norm_moments", "... h -> ... k!"),
    other("normalize", "... h, ... k!, h, h? -> ... h"),
    other("attention", "b s* [g r e! | g e! | g e!] -> b s* (g r e!)"),
    other("flash_attention", "b s* [g r e! | g e! | g e!] -> b s* (g r e!) ; b (g r) s*"),
    other("block_attention",
          "b s (g r e!), b s [g e! | g e!], b s (g r e!)?, b (g r) s? -> b s (g r e!) ; b (g r) s"),
    made("transpose", permute_space),
    made("split", split_space),
    made("join", concat_space),
    linear("scores", "b s (g r e), b t (g e) -> b (g r) s t"),
    linear("add_attention_bias", "b n s t + n s t -> b n s t"),
    other("softmax", "... t* -> ... t*"),
    linear("context", "b (g r) s t, b t (g e) -> b s (g r e)"),
    linear("relative_bias", "c n -> n s! t!"),
    other("head_norm",
          "b s [g r e! | g e! | g e!], e!, e! -> b s [g r e! | g e! | g e!] ; b s [g r | g]"),
    linear("rope", "b s [g r e! | g e! | g e!] -> b s [g r e! | g e! | g e!]"),
    linear("dropout", "... -> ... ; ..."),
    linear("add", "... + ... -> ..."),
    linear("bias_dropout_add", "... o + o? + ... o -> ... o ; ... o"),
    other("gelu", "... -> ..."),
    other("bias_gelu", "... o, o -> ... o"),
    other("relu", "... -> ..."),
    other("tanh", "... -> ..."),
    other("swiglu", "... [f | f] -> ... f"),
    other("geglu", "... [f | f] -> ... f"),
    linear("select_first", "b s! h -> b h"),
    made("view", view_space),
    made("pieces", pieces_space),
    made("permute", permute_space),
    made("roll", roll_space),
    made("flip", roll_space),
    made("narrow", narrow_space),
    made("concat", concat_space),
    linear("mul", "..., ... -> ..."),
    linear("sub", "... + ... -> ..."),
    other("div", "..., ... -> ..."),
    linear("affine", "... -> ..."),  // of a shift op_space.cpp says more
    other("power", "... -> ..."),
    other("exp", "... -> ..."),
    other("log", "... -> ..."),
    other("erf", "... -> ..."),
    other("sin", "... -> ..."),
    other("cos", "... -> ..."),
    other("sigmoid", "... -> ..."),
    other("silu", "... -> ..."),
    other("softplus", "... -> ..."),
    other("clamp", "... -> ..."),
    made("cumsum", roll_space),
    made("zero_pad", narrow_space),
    made("sum", sum_space),
    linear("gather", "... n! h, ... m -> ... m h"),
    other("scatter", "... n! h, ... m!, ... m! h -> ... n! h"),
    other("combine", "..., ... -> ..."),
    other("argmax", "... t* -> ..."),
    other("topk", "... t! -> ... k!"),
    linear("bmm", "b i k, b k j -> b i j"),
    {"cross_entropy_max", OpRole::kCompute, "... v -> ...", false, true, nullptr},
    other("cross_entropy_sum", "... v, ..., ... -> w! ..."),
    other("cross_entropy", "... v*, ... -> _ ; ... v*"),
    other("mse", "..., ... -> _"),
    other("bce", "..., ... -> _"),
    move("enter_tensor"),
    move("slice"),
    move("pad"),
    move("keep_on_one"),
    move("all_reduce"),
    move("all_gather"),
    move("reduce_scatter"),
    move("all_to_all"),
    move("ring_shift"),
    move("broadcast"),
    move("reduce"),
    move("send"),
    move("recv"),
    linear("zero", "... -> ..."),
    linear("cast", "... -> ..."),
    {"amax", OpRole::kCompute, "... -> _", false, true, nullptr},
    other("quantize", "... -> ..."),
    other("update_scales", "... -> "),
    linear("copy", "... -> ..."),
    linear("device_copy", "... -> ..."),
    linear("copy_in", "... -> ..."),
    linear("copy_out", "... -> ..."),
    {"free", OpRole::kOrder, "", false, false, nullptr},
    other("sum_squares", "... -> "),
    other("adamw", ", ..., ..., ..., ... -> ... ; ... ; ... ; ..."),
    other("sgd", ", ..., ... -> ..."),
    other("average", "..., ... -> ..."),
    other("within_clip", " -> "),
    other("beyond_clip", " -> "),
    other("correct_adamw", ", , ..., ..., ..., ... -> ... ; ... ; ... ; ..."),
    other("correct_sgd", ", , ..., ... -> ..."),
    other("causal_conv1d", "b s! o, o x! y! z! + o -> b s! o"),
    other("chunk_scan",
          "b s! (g r e!), b s! (g r), b s! (g k!), b s! (g k!), (g r), (g r), (g r) -> "
          "b s! (g r e!)"),
    linear("conv2d", "n c h! w!, o c x! y! + o? -> n o u! z!"),
    linear("conv_transpose2d", "n c h! w!, c o x! y! + o? -> n o u! z!"),
    linear("interpolate2d", "n c h! w! -> n c u! z!"),
    other("group_norm", "n (q c!) h! w!, (q c!), (q c!) -> n (q c!) h! w! ; n k! q"),
    other("max_pool2d", "n c h! w! -> n c u! z! ; n c u! z!"),
    linear("avg_pool2d", "n c h! w! -> n c u! z!"),
    other("batch_moments", "n c h! w! -> _ k! c"),
    other("batch_normalize", "n c h! w!, _ k! c, c, c -> n c h! w!"),
    // As Colossal-AI's rules know them; of a graph's batch norm op_space.cpp says more.
    other("batch_norm", "n* c h* w*, c, c -> n* c h* w*"),
    other("pooling", "n c h! w! -> n c u! z!"),
    other("where", "..., ..., ... -> ..."),
};

}  // namespace

std::span<const OpIndexEntry> op_index_table() { return kTable; }

const OpIndexEntry* find_op(std::string_view name) {
  const auto at = std::find_if(std::begin(kTable), std::end(kTable),
                               [&](const OpIndexEntry& entry) { return entry.name == name; });
  return at == std::end(kTable) ? nullptr : at;
}

std::variant<IndexSpace, Infeasible> index_space(std::string_view name,
                                                 const std::vector<Extents>& operands,
                                                 const OpParameters& parameters) {
  const OpIndexEntry* entry = find_op(name);
  check(entry != nullptr && entry->role == OpRole::kCompute, "an op without an index space");
  std::string text(entry->text);
  if (entry->make != nullptr) {
    auto made_text = entry->make(operands, parameters);
    if (auto* reason = std::get_if<Infeasible>(&made_text)) return std::move(*reason);
    text = std::get<std::string>(std::move(made_text));
  }
  auto space = read_index_space(text, operands, parameters.extents);
  if (auto* found = std::get_if<IndexSpace>(&space)) {
    found->linear = entry->linear;
    found->maximum = entry->maximum;
  }
  return space;
}

}  // namespace trainyard
