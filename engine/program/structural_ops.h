// Ops that a compiled program resolves by planning and that never become a kernel call.
#pragma once

#include <string_view>

namespace rivulet {

enum class StructuralOp {
  kNone,         // an ordinary op with a kernel
  kConst,        // its value lies in the program
  kPlaceholder,  // fed: a Placeholder, or an argument of a function
  kVariable,     // VarHandleOp: a slice of a bound buffer
  kNoOp,         // control edges only
  kView,         // output 0 is input 0's memory under another shape
  kRead,         // ReadVariableOp: the variable's memory, or a copy where a later write would be seen
  kAssign,       // AssignVariableOp: a copy, or nothing where the producer can write into the variable
};
StructuralOp StructuralKind(std::string_view op);

// A stateful op with resource inputs writes its variables, save for these few.
bool OnlyReadsVariables(std::string_view op);

}  // namespace rivulet
