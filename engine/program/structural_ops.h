// Ops that a compiled program resolves by planning and that never become a kernel call.
#pragma once

#include <string_view>

namespace rivulet {

enum class StructuralOp {
  kNone,         // an ordinary op with a kernel
  kConst,        // its value is in the program
  kPlaceholder,  // fed: a Placeholder, or an argument of a function
  kVariable,     // VarHandleOp: a slice of a bound buffer
  kNoOp,         // control edges only
  kView,         // output 0 is input 0's memory with another shape
  kRead,         // ReadVariableOp: the variable's memory, or a copy if a later write would be visible
  kAssign,       // AssignVariableOp: a copy, or nothing if the producer writes to the variable
};
StructuralOp StructuralKind(std::string_view op);

// Stateful ops with resource inputs write their variables, except for these few.
bool OnlyReadsVariables(std::string_view op);

}  // namespace rivulet
