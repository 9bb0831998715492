#include "engine/passes/separate_documents.h"

namespace trainyard {

void separate_documents(Graph& graph) {
  for (Op& op : graph.ops) {
    if (op.kind == OpKind::kFlashAttention || op.kind == OpKind::kRope) op.attrs.documents = true;
  }
}

}  // namespace trainyard
