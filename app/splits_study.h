// The studies that method map looks at while it tries how ops are split.
#pragma once

#include "app/prepare.h"
#include "engine/base/units.h"

namespace trainyard {

/// That of a device: what the study says, the least where it says it twice, or what there is.
Bytes budget_of_splits(const Prepared& prepared);

/// As the study is, with nothing left to the cost of a Program that there is not yet.
Study evaluated_study(Study study);

/// The model on one device: what ops take that nothing splits.
Study one_device(Study study);

/// Holds the ops that a study lists against its model, which nobody can before there is a graph.
/// Throws ConfigError.
void check_listed_ops(const Prepared& prepared);

}  // namespace trainyard
