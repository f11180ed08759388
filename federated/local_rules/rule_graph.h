// A local rule as text, and the graph that it is. A rule says what a client takes for the gradient of a step, and what
// it does when the last step is done, over the flat variables of a pass (federated/plan/README.md):
//
//   # FedProx
//   mu = 0.1
//   gradient = grad + mu * (params - base)
//
// A line is `NAME = EXPRESSION`; `#` begins a comment, and inside of parentheses a line goes on.
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
// Values are vectors, as many float32 as the model has trained elements, or numbers, float64. `params`, `base` (where
// the task began), `grad` (of the step alone), `memory.NAME` (from step to step, at first zeros), `state.NAME` (from
// task to task, at first zeros) and `broadcast.NAME` (of the server, where the algorithm sends one) are vectors;
// settings, `round`, `steps` (after `end:` alone) and `learning_rate` are numbers. A number beside a vector is rounded
// to float32 first, and a vector is divided by a number as it is multiplied by its inverse. A target that was given is
// then what it was given. What stands after `loss = loss +` is a number that is added to the loss of each batch: its
// gradient by params is added to `grad`, wherever that is read.
#pragma once

#include <string_view>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

// The graph of a rule file (own_rule.h says how it is read). INVALID_ARGUMENT, as "3:12: there is no 'gard'; …" with
// line and column: what is no rule. RESOURCE_EXHAUSTED: more than 64 KiB.
StatusOr<Graph> BuildRule(std::string_view text);

}  // namespace rivulet
