// Keeps reads of variables true. A read is a view of the variable's memory as long as nothing overwrites that memory
// before the read's last use, and becomes a copy otherwise; an assignment is written by its producer straight into the
// variable where nobody could tell the difference.
#pragma once

#include <span>
#include <vector>

#include "engine/program/program.h"
#include "engine/program/storage.h"

namespace rivulet {

// `steps` in order; reads are storages of kind kVariable whose producer is -1. May turn arena storages into variable
// ones (and mark their kAssign step removed), and variable ones into arena storages with a new kReadCopy step, whose
// node is `reader_of` that storage.
void ResolveVariableHazards(std::vector<Storage>& storages, std::vector<Step>& steps,
                            std::span<const Node* const> reader_of);

}  // namespace rivulet
