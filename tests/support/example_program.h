// The worked example of the Program's design: two stages, two microbatches, tensor parallel 2,
// 1F1B, one two-layer perceptron per stage. It runs; tests break one thing at a time.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace trainyard {

inline const std::string kExampleProgram =
    R"(program 2
mesh pp=2:stages tp=2
microbatches 2
group tp[tp]
group all[pp,tp]
transfer 0 pp+1
transfer 1 pp-1
pool rf:2
pool rb:1
value w1 fp32[8,4] persistent parameter [tp, R]
value w2 fp32[4,8] persistent parameter [R, tp]
value v1 fp32[8,4] persistent parameter [tp, R]
value v2 fp32[4,8] persistent parameter [R, tp]
value gw1 fp32[8,4] step gradient [tp, R]
value gw2 fp32[4,8] step gradient [R, tp]
value gv1 fp32[8,4] step gradient [tp, R]
value gv2 fp32[4,8] step gradient [R, tp]
value loss fp32[1] step activation
value n0 fp32[1] step gradient [R] P(tp)
value N0 fp32[1] step gradient in:n0+0
value n1 fp32[1] step gradient [R] P(tp)
value N1 fp32[1] step gradient in:n1+0
value x0 fp32[16,4] mb activation [R, R] E(tp)
value h0 fp32[16,8] mb activation [R, tp]
value a0 fp32[16,8] mb activation [R, tp]
value p0 fp32[16,4] mb activation [R, R] P(tp)
value y0 fp32[16,4] mb activation in:p0+0
value dy0 fp32[16,4] mb buffer pool:rb
value x1 fp32[16,4] mb buffer [R, R] E(tp) pool:rf
value h1 fp32[16,8] mb activation [R, tp]
value a1 fp32[16,8] mb activation [R, tp]
value p1 fp32[16,4] mb activation [R, R] P(tp)
value y1 fp32[16,4] mb activation in:p1+0
value dy1 fp32[16,4] mb activation
value q1 fp32[16,4] mb activation [R, R] P(tp)
value dx1 fp32[16,4] mb activation in:q1+0
value da fp32[16,8] local activation [R, tp]
value dh fp32[16,8] local activation [R, tp]
value t1 int64[16] mb activation
segment 0ZERO() stage:0 P
  main zero -> gw1 gw2
segment 1ZERO() stage:1 P
  main zero -> gv1 gv2 loss
segment 0F(m) stage:0 F
  main load -> x0[m]
  main linear x0[m] w1 -> h0[m]
  main gelu h0[m] -> a0[m]
  main linear a0[m] w2 -> p0[m]
  tp all_reduce:tp p0[m] -> y0[m]
segment 0B(m) stage:0 B
  main linear_dx dy0[m] w2 -> da
  main linear_dw dy0[m] a0[m] +> gw2
  main free a0[m] dy0[m]
  main gelu_dx da h0[m] -> dh
  main free da h0[m]
  main linear_dw dh x0[m] +> gw1
  main free x0[m] dh
segment 1F(m) stage:1 F
  main linear x1[m] v1 -> h1[m]
  main gelu h1[m] -> a1[m]
  main linear a1[m] v2 -> p1[m]
  tp all_reduce:tp p1[m] -> y1[m]
  main load -> t1[m]
  main cross_entropy y1[m] t1[m] -> dy1[m] +> loss
  main free p1[m] t1[m]
segment 1B(m) stage:1 B
  main linear_dx dy1[m] v2 -> da
  main linear_dw dy1[m] a1[m] +> gv2
  main free a1[m] dy1[m]
  main gelu_dx da h1[m] -> dh
  main free da h1[m]
  main linear_dx dh v1 -> q1[m]
  tp all_reduce:tp q1[m] -> dx1[m]
  main linear_dw dh x1[m] +> gv1
  main free x1[m] dh
segment 0SEND_F(m) stage:0 C
  fwd send:0 y0[m]
segment 1RECV_F(m) stage:1 C
  fwd recv:1 -> x1[m]
segment 1SEND_B(m) stage:1 C
  bwd send:1 dx1[m]
segment 0RECV_B(m) stage:0 C
  bwd recv:0 -> dy0[m]
segment 0FREE_F(m) stage:0 C
  main free p0[m]
segment 1FREE_B(m) stage:1 C
  main free q1[m]
segment 0NORM() stage:0 U
  main sum_squares gw1 gw2 -> n0
  norm all_reduce:all n0 -> N0
segment 1NORM() stage:1 U
  main sum_squares gv1 gv2 -> n1
  norm all_reduce:all n1 -> N1
segment 0UPDATE() stage:0 U
  main adamw N0 gw1 gw2 +> w1 w2
  main free gw1 gw2 n0
segment 1UPDATE() stage:1 U
  main adamw N1 gv1 gv2 +> v1 v2
  main free gv1 gv2 n1 loss
class pp:0
  0ZERO 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0FREE_F0 0RECV_B1 0B1 0FREE_F1 0NORM 0UPDATE
class pp:1
  1ZERO 1RECV_F0 1RECV_F1 1F0 1B0 1SEND_B0 1F1 1B1 1SEND_B1 1FREE_B0 1FREE_B1 1NORM 1UPDATE
placement pp:2 tp:1
)";

/// `text` with `from`, which has to be there, replaced where it comes first.
inline std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::logic_error("the text does not have: " + from);
  return text.replace(at, from.size(), to);
}

/// The example on another mesh: `mesh` and `placement` are those lines, `stages` the axis of its
/// stages, `tensor` the axes of its group tp.
inline std::string example_on(const std::string& mesh, const std::string& stages,
                              const std::string& tensor, const std::string& placement) {
  std::string text = with(kExampleProgram, "mesh pp=2:stages tp=2", "mesh " + mesh);
  text = with(text, "group tp[tp]", "group tp[" + tensor + "]");
  text = with(text, "group all[pp,tp]", "group all[" + stages + "," + tensor + "]");
  text = with(text, "transfer 0 pp+1", "transfer 0 " + stages + "+1");
  text = with(text, "transfer 1 pp-1", "transfer 1 " + stages + "-1");
  text = with(text, "class pp:0", "class " + stages + ":0");
  text = with(text, "class pp:1", "class " + stages + ":1");
  // In specs, where the axes of a list stand apart by spaces.
  std::string list = tensor;
  std::replace(list.begin(), list.end(), ',', ' ');
  for (const std::string before : {"[", "[R, ", "P(", "E("}) {
    for (std::size_t at = 0; (at = text.find(before + "tp", at)) != std::string::npos; ++at) {
      const std::size_t name = at + before.size();
      if (text[name + 2] == ',' || text[name + 2] == ']' || text[name + 2] == ')')
        text.replace(name, 2, list);
    }
  }
  return with(text, "placement pp:2 tp:1", "placement " + placement);
}

/// On four axes of names of its own, a and b for its tensors; and the same ranks on pp, dp and tp.
inline const std::string kExampleOnFourAxes = example_on(
    "stage=2:stages replica=2 a=2 b=2 ab=[a,b]", "stage", "a,b", "stage:4 replica:8 a:2 b:1");
inline const std::string kExampleOnThreeAxes =
    example_on("pp=2:stages dp=2 tp=4", "pp", "tp", "pp:4 dp:8 tp:1");

}  // namespace trainyard
