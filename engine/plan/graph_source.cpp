#include "engine/plan/graph_source.h"

#include "engine/plan/microbatch_sizes.h"

namespace trainyard {

GraphSource graph_source(const Plan& plan) {
  return {plan.model, local_sizes(plan.training, plan.parallel), plan.training.precision,
          plan.training.dropout};
}

}  // namespace trainyard
