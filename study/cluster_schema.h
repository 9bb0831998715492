// The part of the study's schema that describes clusters.
#pragma once

#include "study/schema_words.h"

namespace trainyard::schema {

/// A preset's name, or one of the forms of a cluster.
Json cluster_schema();
/// What it refers to in the document's $defs: maps that stand in several of the forms, or take each
/// other.
Json cluster_definitions();

}  // namespace trainyard::schema
