// Conversion of version-1 reference variables in foreign graphs to resource variables.
#pragma once

#include "engine/base/status.h"
#include "proto/graph/graph.pb.h"

namespace rivulet {

// VariableV2 and Variable become VarHandleOp of the same name; an Identity of a variable becomes ReadVariableOp.
// Assign, AssignAdd, AssignSub, ApplyGradientDescent, ApplyMomentum and IsVariableInitialized become their resource
// forms. Other uses of a variable's value, or of an assignment's result, read it through a new node "<consumer>/read",
// after the consumer's control inputs. INVALID_ARGUMENT: the target of an assignment is not a variable.
Status RaiseReferenceVariables(proto::GraphDef& graph);

}  // namespace rivulet
