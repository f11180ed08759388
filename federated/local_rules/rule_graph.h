// Parser of a local rule's text into its graph. A rule defines the gradient that a client uses in a step, and the
// actions after the last step, over the flat variables of a pass (federated/plan/README.md):
//
//   # FedProx
//   mu = 0.1
//   gradient = grad + mu * (params - base)
//
// A line is `NAME = EXPRESSION`; `#` begins a comment, and parentheses may span lines.
//
//   rule       = { setting | value | target } [ "end" ":" { setting | value | end target } ]
//   setting    = NAME "=" [ "-" ] NUMBER            of the scenario's [algorithm], with this default
//   value      = NAME "=" expression
//   target     = ( "gradient" | "memory."NAME | "state."NAME ) "=" expression
//              | "loss" "=" "loss" ( "+" | "-" ) expression
//   end target = ( "params" | "state."NAME | "update."NAME ) "=" expression
//   expression = sum [ ( "<" | "<=" | ">" | ">=" | "==" | "!=" ) sum ]
//   sum        = product { ( "+" | "-" ) product }
//   product    = signed { ( "*" | "/" ) signed }
//   signed     = "-" signed | power
//   power      = atom [ "^" signed ]
//   atom       = NUMBER | NAME | NAME "(" expression { "," expression } ")" | "(" expression ")"
//
// Values are vectors, as many float32 as the model has trained elements, or float64 numbers. The vectors are `params`,
// `base` (at the start of the task) and `grad` (of the step alone). Vectors that start as zeros are `memory.NAME` (kept
// from step to step) and `state.NAME` (from task to task). The server sends `broadcast.NAME`, if the algorithm has one.
// Settings, `round`, `steps` (only after `end:`) and `learning_rate` are numbers. A number combined with a vector is
// rounded to float32 first; division of a vector by a number multiplies by its inverse. After an assignment a target
// has the assigned value. The expression after `loss = loss +` is a number added to the loss of each batch. Its
// gradient by params is added to `grad` wherever that is read.
#pragma once

#include <string_view>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

// Parses a rule file into its graph (own_rule.h). INVALID_ARGUMENT: not a valid rule; the message starts with line and
// column: "3:12: there is no 'gard'; …". RESOURCE_EXHAUSTED: more than 64 KiB.
StatusOr<Graph> BuildRule(std::string_view text);

}  // namespace rivulet
